package generatecontent

import (
	"bytes"

	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// readTool reads one of the tools: a list of function declarations.
func (r *request) readTool() {
	if len(r.tools) > 0 {
		r.flags |= keptRegrouped
	}
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		if camel(r.S.Key()) == "functionDeclarations" {
			r.each(r.readDeclaration)
		} else {
			r.Refuse(r.S.Path(), "it is not supported: function declarations only")
		}
	}
}

// readDeclaration reads one function declaration. What comes back from a function
// the model is not told, so response has no effect.
func (r *request) readDeclaration() {
	if !r.Open(scan.Object) {
		return
	}
	t := tool{schema: []byte(field.NoParameters)}
	twice := 0
	for r.S.NextMember() {
		switch camel(r.S.Key()) {
		case "name":
			t.name = string(r.Str())
		case "description":
			t.description = r.Str()
		case "parameters":
			t.schema = r.readSchema()
			twice++
		case "parametersJsonSchema":
			t.schema = ordered(r.Schema())
			twice++
		case "response", "responseJsonSchema":
		case "behavior":
			if v := r.Text(); string(v) != "BLOCKING" && string(v) != "UNSPECIFIED" {
				r.Fail(r.S.Path(), field.Quoted(v)+" is not supported: want \"BLOCKING\"")
			}
		default:
			r.unknown()
		}
	}
	switch {
	case t.name == "":
		r.Fail(r.S.Path()+".name", "field required")
	case twice > 1:
		r.Fail(r.S.Path()+".parameters", "send one of parameters and parametersJsonSchema")
	}
	r.tools = append(r.tools, t)
}

func (r *request) readToolConfig() {
	r.mode, r.allowed = "", nil
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		switch name := camel(r.S.Key()); {
		case name == "functionCallingConfig":
			r.readCalling()
		case name == "includeServerSideToolInvocations":
			r.unless(!r.Bool())
		default:
			r.unknown()
		}
	}
}

// readCalling reads functionCallingConfig. VALIDATED is AUTO here: calls fit
// their schemas anyway.
func (r *request) readCalling() {
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		switch name := camel(r.S.Key()); {
		case name == "mode":
			switch mode := r.Text(); string(mode) {
			case "AUTO", "ANY", "NONE", "VALIDATED", "MODE_UNSPECIFIED":
				r.mode = string(mode)
			default:
				r.Fail(r.S.Path(), field.Quoted(mode)+" is not one of AUTO, ANY, NONE, VALIDATED")
			}
		case name == "allowedFunctionNames":
			if r.Open(scan.Array) {
				for r.allowed = r.allowed[:0]; r.S.Next(); {
					r.allowed = append(r.allowed, string(r.Str()))
				}
			}
		default:
			r.unknown()
		}
	}
}

// readConfig reads generationConfig.
func (r *request) readConfig() {
	r.config = config{}
	r.flags &^= keptThoughts | keptJSONSchema
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		r.configMember(&r.config, camel(r.S.Key()))
	}
}

func (r *request) configMember(c *config, name string) {
	switch name {
	case "maxOutputTokens":
		_, c.maxTokens = r.Integer(1, "an integer")
	case "temperature":
		c.temperature = r.Number()
	case "topP":
		c.topP = r.Number()
	case "topK":
		if n, ok := scan.Integer(r.Number()); !ok || n < 0 { // clients send it as 40.0
			r.Fail(r.S.Path(), "want an integer of 0 or more")
		} else {
			c.topK = field.Decimal(n)
		}
	case "seed":
		c.seed = r.Seed()
	case "presencePenalty":
		c.presence = r.Number()
	case "frequencyPenalty":
		c.frequency = r.Number()
	case "stopSequences":
		if r.S.Kind() != scan.Array {
			r.Want("an array of strings")
		}
		c.stops, _ = r.Stops(c.stops[:0])
	case "responseMimeType":
		switch v := r.Text(); string(v) {
		case "", "text/plain", "application/json":
			c.json = string(v) == "application/json"
		default:
			r.Fail(r.S.Path(), field.Quoted(v)+" is not one of text/plain, application/json")
		}
	case "responseSchema", "responseJsonSchema":
		r.readFormat(c, name)
	case "thinkingConfig":
		r.readThinking(c)
	default:
		r.neutral(name)
	}
}

// neutral reads the known fields of generationConfig that would change the answer
// and cannot be served: only a value that asks for nothing passes.
func (r *request) neutral(name string) {
	switch name {
	case "candidateCount":
		n, _ := r.S.Int()
		r.unless(n == 1)
	case "responseLogprobs", "enableEnhancedCivicAnswers":
		r.unless(!r.Bool())
	case "responseModalities":
		only := r.S.Kind() == scan.Array
		for r.S.Open(); r.S.Next(); {
			v, _ := r.S.Text()
			only = only && string(v) == "TEXT"
		}
		r.unless(only)
	case "mediaResolution": // there are no media
		r.Text()
	default:
		r.unknown()
	}
}

// readFormat reads the schema of the answer, in either of its forms.
func (r *request) readFormat(c *config, name string) {
	if c.schema != nil && c.at != "generationConfig."+name {
		r.Fail(r.S.Path(), "send one of responseSchema and responseJsonSchema")
	}
	if c.at = "generationConfig." + name; name == "responseSchema" {
		c.schema = r.readSchema()
		return
	}
	r.flags |= keptJSONSchema
	c.schema = ordered(r.Schema())
}

// readThinking reads thinkingConfig. A budget of 0 switches thinking off; every
// other one is thinking as usual. A level is the effort.
func (r *request) readThinking(c *config) {
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		switch name := camel(r.S.Key()); {
		case name == "includeThoughts":
			if r.flags &^= keptThoughts; r.Bool() {
				r.flags |= keptThoughts
			}
		case name == "thinkingBudget":
			n, _ := r.Integer(-1, "an integer")
			c.thinkingOff = n == 0
		case name == "thinkingLevel":
			switch v := r.Text(); string(v) {
			case "THINKING_LEVEL_UNSPECIFIED", "MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH", "minimal", "low", "medium", "high", "xhigh":
				c.effort, _ = field.Effort(bytes.ToLower(v))
			default:
				r.Fail(r.S.Path(), field.Quoted(v)+" is not one of MINIMAL, LOW, MEDIUM, HIGH, XHIGH")
			}
		default:
			r.unknown()
		}
	}
}
