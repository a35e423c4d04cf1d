package chat

import (
	"bytes"
	"slices"

	"corenode/wasm/sdk/scan"
)

// field reads one top-level field that is not null. Unknown fields are
// accepted and ignored, known ones that cannot be honoured are refused by name.
// It is one dispatch switch: the list of what the protocol knows.
func (r *request) field(name []byte) {
	switch string(name) {
	case "model":
		r.model = r.str()
	case "messages":
		r.messages()
	case "max_tokens":
		r.maxTokens = r.integer(1)
	case "max_completion_tokens":
		r.maxCompletionTokens = r.integer(1)
	case "temperature":
		r.temperature = r.number()
	case "top_p":
		r.topP = r.number()
	case "top_k":
		r.readTopK()
	case "min_p":
		r.minP = r.number()
	case "presence_penalty":
		r.presence = r.number()
	case "frequency_penalty":
		r.frequency = r.number()
	case "repetition_penalty":
		r.repetition = r.number()
	case "seed":
		r.readSeed()
	case "min_tokens":
		r.minTokens = r.integer(0)
	case "ignore_eos":
		r.ignoreEOS = r.bool()
	case "stop":
		r.readStop()
	case "stream":
		r.stream = r.bool()
	case "stream_options":
		r.streamOptions()
	case "tools":
		r.readTools()
	case "tool_choice":
		r.readChoice()
	case "parallel_tool_calls":
		r.oneCall = !r.bool()
	case "reasoning_effort":
		if string(r.text()) == "none" { // every other effort is thinking as usual
			r.silent = true
		}
	case "chat_template_kwargs":
		r.templateArguments()
	case "thinking":
		r.readThinking()
	case "response_format":
		r.responseFormat()
	default:
		r.refused(name)
	}
}

// refused reads the known fields that would change the answer and cannot be
// honoured: only a value that asks for nothing passes.
func (r *request) refused(name []byte) {
	neutral, msg := true, "this service does not support it"
	switch string(name) {
	case "n":
		n, ok := r.s.Int()
		neutral, msg = ok && n == 1, "only one choice for each request is supported"
	case "logprobs":
		v, ok := r.s.Bool()
		neutral = ok && !v
	case "top_logprobs":
		n, ok := r.s.Int()
		neutral = ok && n == 0
	case "logit_bias":
		neutral = r.s.Kind() == scan.Object && r.empty()
	case "modalities":
		neutral, msg = r.onlyText(), "the only modality of this service is \"text\""
	case "mcp_servers":
		neutral = r.s.Kind() == scan.Array && r.empty()
	case "functions":
		neutral, msg = r.s.Kind() == scan.Array && r.empty(), "this older form is not supported; offer functions as tools"
	case "function_call":
		v, ok := r.s.Text()
		neutral, msg = ok && (string(v) == "none" || string(v) == "auto"), "this older form is not supported; use tool_choice"
	case "audio", "prediction", "web_search_options", "container":
		neutral = false
	case "grammar", "structured_outputs", "echo", "best_of", "suffix":
		neutral = r.asksNothing()
	default:
		if bytes.HasPrefix(name, []byte("guided_")) {
			neutral = r.asksNothing()
		} else {
			r.s.Skip()
		}
	}
	if !neutral {
		r.fail(string(name), msg)
	}
}

// asksNothing reads the value of a field of other servers and says whether it is
// one with which the field asks for nothing: false, 1 or an empty string.
func (r *request) asksNothing() bool {
	switch string(r.s.Raw()) {
	case "false", "1", `""`:
		return true
	}
	return false
}

// empty reads an object or array and says whether it has no members.
func (r *request) empty() bool {
	n := 0
	for r.s.Open(); r.s.Next(); {
		n++
	}
	return n == 0
}

func (r *request) onlyText() bool {
	if r.s.Kind() != scan.Array {
		return false
	}
	only := true
	for r.s.Open(); r.s.Next(); {
		v, ok := r.s.Text()
		only = only && ok && string(v) == "text"
	}
	return only
}

// readTopK reads top_k. The -1 that some clients send for "all" is 0 here.
func (r *request) readTopK() {
	r.topK = r.integer(-1)
	if n, _ := scan.Integer(r.topK); n == -1 {
		r.topK = []byte("0")
	}
}

// readSeed reads a seed, which unlike other integers may need all of 64 bits.
func (r *request) readSeed() {
	if r.seed = r.number(); bytes.ContainsAny(r.seed, ".eE") {
		if _, ok := scan.Integer(r.seed); !ok {
			r.fail("seed", "want an integer")
		}
	}
}

func (r *request) readStop() {
	r.stops, r.stopText = r.stops[:0], r.s.Kind() == scan.String
	if r.stopText {
		r.oneStop()
		return
	}
	if r.s.Kind() != scan.Array {
		r.want("a string or an array of strings")
	}
	for r.s.Open(); r.s.Next(); {
		r.oneStop()
	}
}

func (r *request) oneStop() {
	raw := r.str()
	if raw != nil && len(raw) == 0 {
		r.fail(r.s.Path(), "a stop sequence must not be empty")
	}
	r.stops = append(append(append(r.stops, ',', '"'), raw...), '"')
}

// streamOptions reads stream_options. Without stream it asks for nothing: a
// whole answer always has its usage.
func (r *request) streamOptions() {
	if !r.open(scan.Object) {
		return
	}
	for r.s.Next() {
		if name := r.s.Key(); string(name) == "include_usage" && !r.s.Null() {
			r.usage = r.bool()
		}
	}
}

func (r *request) templateArguments() {
	if !r.open(scan.Object) {
		return
	}
	for r.s.Next() {
		if name := r.s.Key(); string(name) == "enable_thinking" && !r.s.Null() && !r.bool() {
			r.silent = true
		}
	}
}

// readThinking reads the messages protocol's own switch, which some clients send here too.
func (r *request) readThinking() {
	if !r.open(scan.Object) {
		return
	}
	for r.s.Next() {
		if string(r.s.Key()) == "type" {
			r.thinking = r.str()
		}
	}
}

// anyObject is the native format of an answer that is some JSON object.
const anyObject = `{"type":"json_object"}`

// responseFormat reads response_format as the native field of that name.
func (r *request) responseFormat() {
	if !r.open(scan.Object) {
		return
	}
	var kind []byte
	var f schemaFormat
	for r.s.Next() {
		name := r.s.Key()
		if r.s.Null() {
			continue
		}
		switch string(name) {
		case "type":
			kind = r.text()
		case "json_schema":
			f = r.schemaFormat()
		}
	}
	switch path := r.s.Path(); string(kind) {
	case "text":
		r.format = nil
	case "json_object":
		r.format = []byte(anyObject)
	case "json_schema":
		r.format = r.nativeFormat(path+".json_schema", f)
	case "":
		r.fail(path+".type", "field required, one of text, json_object, json_schema")
	default:
		r.fail(path+".type", quoted(kind)+" is not one of text, json_object, json_schema")
	}
}

// schemaFormat is json_schema of a response_format: a name, and the text of a
// schema, nil for none.
type schemaFormat struct {
	given        bool
	name, schema []byte
}

// schemaFormat reads json_schema. What strict asks for, an answer that fits
// the schema, is what every answer is held to as far as it can be.
func (r *request) schemaFormat() schemaFormat {
	f := schemaFormat{given: true}
	if !r.open(scan.Object) {
		return f
	}
	for r.s.Next() {
		name := r.s.Key()
		if r.s.Null() {
			continue
		}
		switch string(name) {
		case "name":
			f.name = r.str()
		case "description":
			r.str()
		case "strict":
			r.bool()
		case "schema":
			if r.s.Kind() != scan.Object {
				r.want("an object schema")
			}
			f.schema = r.s.Raw()
		}
	}
	return f
}

// nativeFormat is the native format of f, which stands at path.
func (r *request) nativeFormat(path string, f schemaFormat) []byte {
	switch {
	case !f.given:
		r.fail(path, "field required, an object")
	case len(f.name) == 0:
		r.fail(path+".name", "field required")
	}
	if f.schema == nil {
		return []byte(anyObject)
	}
	return slices.Concat([]byte(`{"type":"json_schema","json_schema":{"schema":`), f.schema, []byte("}}"))
}
