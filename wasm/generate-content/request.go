package generatecontent

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// request is one body under translation. Raw fields are cut out of the body:
// numbers as they are, strings without their quotes. nil is absent or null.
type request struct {
	field.Reader

	model    string
	stream   bool
	flags    kept
	messages []byte // native ones, each with a comma before it
	system   []byte // text blocks, each with a comma before it
	blocks   []byte // of the content that is read, each with a comma before it
	content  content
	turn     turn
	calls    int                 // functionCalls so far
	open     map[string][]string // ids of the calls of a name without a response yet, the oldest first

	tools   []tool
	mode    string // of functionCallingConfig
	allowed []string
	config  config
}

// tool is one function declaration.
type tool struct {
	name                string
	description, schema []byte
}

// config is what generationConfig says.
type config struct {
	maxTokens, temperature, topP, topK, seed, presence, frequency []byte

	stops       []byte // native stop sequences, each with a comma before it
	json        bool   // responseMimeType is that of JSON
	schema      []byte // the schema of the answer
	at          string // where it stands, empty without one
	thinkingOff bool
	effort      string
}

// Request translates the body of a generateContent, streamGenerateContent or
// countTokens. Every error is of kind InvalidRequest, with the path in that body.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	route := in.Route
	if route == nil { // no host leaves it out
		route = &abi.Route{}
	}
	r := &request{model: modelOf(route), open: map[string][]string{}}
	r.Op = "generatecontent.Request"
	op := routeOf(route)
	r.route(op, route.Parameter("alt"))
	if r.OpenBody(in.Body) {
		r.fields(op == routeCount)
	}
	r.End(false)
	r.complete(op != routeCount)
	if r.Err != nil {
		return abi.Translated{}, r.Err
	}
	return abi.Translated{Body: r.native(), Kept: []byte{byte(r.flags)}}, nil
}

// route reads what the query says of the answer's form.
func (r *request) route(op int, alt string) {
	switch {
	case alt == "sse" && op == routeStream:
		r.stream = true
	case alt != "" && alt != "json":
		r.Refuse("alt", field.Quoted([]byte(alt))+` is no form of this answer: want "json", or "sse" of streamGenerateContent`)
	case op == routeStream:
		r.stream = true
		r.flags |= keptArray
	}
}

// fields reads the members of the body, whose object is open. With count it may
// be that of a countTokens, which wraps a whole request.
func (r *request) fields(count bool) {
	for r.S.NextMember() {
		switch camel(r.S.Key()) {
		case "generateContentRequest":
			if !count {
				r.unknown()
			} else if r.Open(scan.Object) {
				r.fields(false)
			}
		case "model":
			if m := string(r.Text()); m != r.model && m != "models/"+r.model {
				r.Fail(r.S.Path(), field.Quoted([]byte(m))+" is not the model of the path")
			}
		case "contents":
			r.messages, r.turn, r.calls = r.messages[:0], turn{}, 0
			clear(r.open)
			r.each(r.readContent)
		case "systemInstruction":
			r.readSystem()
		case "tools":
			r.tools = r.tools[:0]
			r.each(r.readTool)
		case "toolConfig":
			r.readToolConfig()
		case "generationConfig":
			r.readConfig()
		case "safetySettings": // nothing is filtered
			r.each(r.S.Skip)
		case "store":
			r.unless(!r.Bool())
		case "serviceTier": // there is one
			r.Text()
		case "labels": // bills are not broken down by them
			r.passObject()
		default:
			r.unknown()
		}
	}
}

// unknown refuses the field that the scanner stands before.
func (r *request) unknown() { r.Refuse(r.S.Path(), "this service does not support it") }

// passObject passes over an object, whatever it says.
func (r *request) passObject() {
	if r.S.Kind() != scan.Object {
		r.Want("an object")
	}
}

// unless refuses the field unless it has a value that asks for nothing.
func (r *request) unless(neutral bool) {
	if !neutral {
		r.Fail(r.S.Path(), "this service does not support it")
	}
}

// each reads a list, for which one item may stand alone.
func (r *request) each(item func()) {
	if r.S.Kind() == scan.Object {
		item()
		return
	}
	if r.Open(scan.Array) {
		for r.S.Next() {
			item()
		}
	}
}

// complete checks what only the whole body can tell.
func (r *request) complete(generate bool) {
	c := &r.config
	n, _ := scan.Integer(c.maxTokens)
	switch {
	case len(r.messages) == 0:
		r.Fail("contents", "field required, at least one content")
	case c.schema != nil && !c.json:
		r.Fail(c.at, `it needs "application/json" as responseMimeType`)
	case generate && !r.stream && n > abi.NonStreamingMax:
		r.Fail("generationConfig.maxOutputTokens", strconv.FormatInt(n, 10)+" is over "+strconv.Itoa(abi.NonStreamingMax)+
			", the most without streaming; call streamGenerateContent for longer answers")
	}
	r.allow()
}

// allow checks the names of the functions that may be called. Where not all may
// be, the others are not offered.
func (r *request) allow() {
	const path = "toolConfig.functionCallingConfig"
	if r.mode == "ANY" && len(r.tools) == 0 {
		r.Fail(path+".mode", "it forces a call, but there are no function declarations")
	}
	if len(r.allowed) == 0 {
		return
	}
	if r.mode != "ANY" && r.mode != "VALIDATED" {
		r.Fail(path+".allowedFunctionNames", "it goes with the modes ANY and VALIDATED only")
	}
	known := make(map[string]bool, len(r.tools))
	for _, t := range r.tools {
		known[t.name] = true
	}
	wanted := make(map[string]bool, len(r.allowed))
	for i, name := range r.allowed {
		if wanted[name] = true; !known[name] {
			r.Fail(path+".allowedFunctionNames."+strconv.Itoa(i), field.Quoted([]byte(name))+" is not the name of a function declaration")
		}
	}
	some := r.tools[:0]
	for _, t := range r.tools {
		if wanted[t.name] {
			some = append(some, t)
		}
	}
	if len(some) < len(r.tools) {
		r.flags |= keptRegrouped
	}
	r.tools = some
}

// native writes the native body.
func (r *request) native() []byte {
	c := &r.config
	b := make([]byte, 0, len(r.messages)+len(r.system)+1024)
	b = append(append(append(b, `{"messages":[`...), r.messages[1:]...), `],"model":"`...)
	b = append(abi.AppendEscaped(b, r.model), '"')
	b = field.AppendArray(b, "system", r.system)
	for _, m := range []struct {
		name  string
		value []byte
	}{
		{"max_tokens", c.maxTokens}, {"temperature", c.temperature}, {"top_p", c.topP}, {"top_k", c.topK},
		{"presence_penalty", c.presence}, {"frequency_penalty", c.frequency}, {"seed", c.seed},
	} {
		b = field.AppendMember(b, m.name, m.value)
	}
	b = field.AppendArray(b, "stop_sequences", c.stops)
	if c.schema != nil {
		b = field.AppendMember(b, "response_format", field.SchemaFormat(c.schema))
	} else if c.json {
		b = append(b, `,"response_format":`+field.AnyObject...)
	}
	if c.thinkingOff {
		b = append(b, `,"thinking":{"type":"disabled"}`...)
	}
	b = field.AppendEffort(b, c.effort)
	if r.stream {
		b = append(b, `,"stream":true`...)
	}
	if r.flags&keptArray != 0 {
		b = append(b, `,"stream_array":true`...)
	}
	return append(r.appendTools(b), '}')
}

func (r *request) appendTools(b []byte) []byte {
	if len(r.tools) == 0 {
		return b
	}
	for i, t := range r.tools {
		open := `,"tools":[`
		if i > 0 {
			open = ","
		}
		b = field.AppendTool(append(b, open...), []byte(t.name), t.description, t.schema)
	}
	choice := field.Choice{}
	switch {
	case r.mode == "NONE":
		choice.Mode = "none"
	case r.mode == "ANY" && len(r.tools) == 1:
		choice.Mode, choice.Name = "tool", []byte(r.tools[0].name)
	case r.mode == "ANY":
		choice.Mode = "any"
	}
	return choice.Append(append(b, ']'))
}
