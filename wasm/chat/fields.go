package chat

import (
	"bytes"

	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// field reads one top-level field that is not null. Unknown fields are
// accepted and ignored, known ones that cannot be honored are refused by name.
// It is one dispatch switch: the list of what the protocol knows.
func (r *request) field(name []byte) {
	switch string(name) {
	case "model":
		r.model = r.Str()
	case "messages":
		r.messages()
	case "max_tokens":
		_, r.maxTokens = r.Integer(1, "an integer")
	case "max_completion_tokens":
		_, r.maxCompletionTokens = r.Integer(1, "an integer")
	case "stream":
		r.stream = r.Bool()
	case "stream_options":
		r.usage = r.IncludeUsage(r.usage)
	case "tools":
		r.tools = r.Tools(r.tools[:0])
	case "tool_choice":
		r.readChoice()
	case "parallel_tool_calls":
		r.choice.Single = !r.Bool()
	case "reasoning_effort":
		off := false
		r.effort, off = field.Effort(r.Text())
		r.silent = r.silent || off
	case "chat_template_kwargs":
		r.templateArguments()
	case "thinking":
		r.readThinking()
	case "response_format":
		r.responseFormat()
	default:
		if !r.sampling.Field(&r.Reader, name) {
			r.refused(name)
		}
	}
}

// otherwise is what to do instead of constraining an answer as other servers have it.
const otherwise = "; ask for JSON with response_format"

// refused reads the known fields that would change the answer and cannot be
// honored: only a value that asks for nothing passes.
func (r *request) refused(name []byte) {
	neutral, msg := true, "this service does not support it"
	switch string(name) {
	case "n":
		n, _ := r.S.Int()
		neutral, msg = n == 1, "only one choice for each request is supported"
	case "logprobs":
		v, ok := r.S.Bool()
		neutral = ok && !v
	case "top_logprobs":
		n, ok := r.S.Int()
		neutral = ok && n == 0
	case "logit_bias":
		neutral = r.Empty(scan.Object)
	case "modalities":
		neutral, msg = r.OnlyText(), "the only modality of this service is \"text\""
	case "mcp_servers":
		neutral = r.Empty(scan.Array)
	case "functions":
		neutral, msg = r.Empty(scan.Array), "this older form is not supported; offer functions as tools"
	case "function_call":
		v, _ := r.S.Text()
		neutral, msg = string(v) == "none" || string(v) == "auto", "this older form is not supported; use tool_choice"
	case "grammar", "regex", "ebnf", "json_schema", "structured_outputs":
		neutral, msg = r.AsksNothing(), msg+otherwise
	case "audio", "prediction", "web_search_options", "container":
		neutral = false
	case "echo", "best_of", "suffix":
		neutral = r.AsksNothing()
	default:
		if bytes.HasPrefix(name, []byte("guided_")) {
			neutral, msg = r.AsksNothing(), msg+otherwise
		}
	}
	if !neutral {
		r.Fail(string(name), msg)
	}
}

func (r *request) templateArguments() {
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		if string(r.S.Key()) == "enable_thinking" && !r.Bool() {
			r.silent = true
		}
	}
}

// readThinking reads the messages protocol's own switch, which some clients send here too.
func (r *request) readThinking() {
	if !r.Open(scan.Object) {
		return
	}
	for r.S.NextMember() {
		if string(r.S.Key()) == "type" {
			r.thinking = r.Str()
		}
	}
}

// responseFormat reads response_format as the native field of that name. The schema
// of a json_object is what some servers had before there was json_schema, and their
// clients still send.
func (r *request) responseFormat() {
	r.objectSchema = false
	if !r.Open(scan.Object) {
		return
	}
	var kind, schema []byte
	var f schemaFormat
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "type":
			kind = r.Text()
		case "json_schema":
			f = r.schemaFormat()
		case "schema":
			schema = r.S.Raw()
		}
	}
	switch path := r.S.Path(); string(kind) {
	case "text":
		r.sampling.Format = nil
	case "json_object":
		r.sampling.Format = r.objectFormat(path+".schema", schema)
	case "json_schema":
		r.sampling.Format = r.nativeFormat(path+".json_schema", f)
	case "":
		r.Fail(path+".type", "field required, one of text, json_object, json_schema")
	default:
		r.Fail(path+".type", field.Quoted(kind)+" is not one of text, json_object, json_schema")
	}
}

// objectFormat is the native format of a json_object whose schema, which stands at
// path, may be missing or empty.
func (r *request) objectFormat(path string, schema []byte) []byte {
	if len(schema) == 0 {
		return []byte(field.AnyObject)
	}
	if schema[0] != '{' {
		r.Fail(path, "want an object schema")
		return nil
	}
	if len(bytes.TrimSpace(schema[1:len(schema)-1])) == 0 {
		return []byte(field.AnyObject)
	}
	r.objectSchema = true
	return field.SchemaFormat(schema)
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
	if !r.Open(scan.Object) {
		return f
	}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "name":
			f.name = r.Str()
		case "description":
			r.Str()
		case "strict":
			r.Bool()
		case "schema":
			f.schema = r.Schema()
		}
	}
	return f
}

// nativeFormat is the native format of f, which stands at path.
func (r *request) nativeFormat(path string, f schemaFormat) []byte {
	switch {
	case !f.given:
		r.Fail(path, "field required, an object")
	case len(f.name) == 0:
		r.Fail(path+".name", "field required")
	}
	if f.schema == nil {
		return []byte(field.AnyObject)
	}
	return field.SchemaFormat(f.schema)
}
