package ollama

import (
	"bytes"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// request is one body under translation. Raw fields are cut out of the body:
// numbers as they are, strings without their quotes. nil is absent or null.
type request struct {
	field.Reader

	generate bool
	messages []byte // native, each with a comma before it
	message  message
	open     []call // calls without a result, in order
	count    int    // messages begun
	tools    []byte // native, each with a comma before it

	model, prompt, system []byte
	format                []byte // the native response_format
	options               options
	plain                 bool // stream is false
	think, effort         string
}

// Request translates the body of a chat or a generate. Every error is of kind
// InvalidRequest, with the path of the field in that body.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	r := &request{options: options{window: wholeText}}
	r.Op = "ollama.Request"
	r.generate = in.Route != nil && in.Route.Index == routeGenerate
	r.messages = make([]byte, 0, len(in.Body)+len(in.Body)/8+512)
	if r.OpenBody(in.Body) {
		for r.S.NextMember() {
			r.field(string(r.S.Key()))
		}
	}
	r.End(false)
	r.complete()
	if r.Err != nil {
		return abi.Translated{}, r.Err
	}
	k := kept(0)
	if r.generate {
		k |= keptGenerate
		if len(r.system) > 0 {
			k |= keptSystem
		}
	}
	return abi.Translated{Body: r.native(), Kept: []byte{byte(k)}}, nil
}

// field reads one top-level field that is not null. Unknown fields are
// accepted and ignored, known ones that cannot be honored are refused by name.
func (r *request) field(name string) {
	switch name {
	case "model":
		r.model = modelID(r.Str())
	case "format":
		r.readFormat()
	case "options":
		r.readOptions()
	case "stream":
		r.plain = !r.Bool()
	case "think":
		r.readThink()
	case "images":
		r.neutral(name, r.Empty(scan.Array), imagesMsg)
	case "logprobs":
		v, ok := r.S.Bool()
		r.neutral(name, ok && !v, unsupported)
	case "top_logprobs":
		n, ok := r.S.Int()
		r.neutral(name, ok && n == 0, unsupported)
	default:
		if r.generate {
			r.generateField(name)
			return
		}
		switch name {
		case "messages":
			r.readMessages()
		case "tools":
			r.tools = r.Tools(r.tools[:0])
		}
	}
}

// generateField reads a field that only a generate has.
func (r *request) generateField(name string) {
	switch name {
	case "prompt":
		r.prompt = r.Str()
	case "system":
		r.system = r.Str()
	case "suffix", "template":
		text, ok := r.S.Str()
		r.neutral(name, ok && len(text) == 0, unsupported)
	case "raw":
		v, ok := r.S.Bool()
		r.neutral(name, ok && !v, "this service writes the model's prompt itself")
	case "context":
		r.neutral(name, r.Empty(scan.Array), "this older form is not supported; use chat")
	case "width", "height", "steps":
		n, ok := r.S.Int()
		r.neutral(name, ok && n == 0, imagesMsg)
	}
}

const (
	unsupported = "this service does not support it"
	imagesMsg   = "images are not supported: text only"
)

// neutral refuses a field at path that asks for something.
func (r *request) neutral(path string, asksNothing bool, msg string) {
	if !asksNothing {
		r.Fail(path, msg)
	}
}

// latest is the tag of a name without one.
const latest = ":latest"

// modelID is a model's name without the tag latest, which clients add. The node
// finds the model of an id with that tag by it too.
func modelID(name []byte) []byte { return bytes.TrimSuffix(name, []byte(latest)) }

// readFormat reads format: "json", or a schema.
func (r *request) readFormat() {
	switch r.S.Kind() {
	case scan.String:
		switch word := r.Text(); string(word) {
		case "":
			r.format = nil
		case "json":
			r.format = []byte(field.AnyObject)
		default:
			r.Fail("format", field.Quoted(word)+" is not \"json\" or a schema")
		}
	case scan.Object:
		r.format = field.SchemaFormat(r.S.Raw())
	default:
		r.Want(`"json" or an object schema`)
	}
}

// readThink reads think: a boolean, or how much.
func (r *request) readThink() {
	if r.S.Kind() == scan.Bool {
		r.think = "disabled"
		if r.Bool() {
			r.think = "enabled"
		}
		return
	}
	switch word := r.Text(); string(word) {
	case "low", "medium", "high", "max":
		r.think = "enabled"
		r.effort, _ = field.Effort(word)
	default:
		r.Fail("think", field.Quoted(word)+" is not true, false, low, medium, high or max")
	}
}

// complete checks what only the whole body can tell.
func (r *request) complete() {
	switch {
	case len(r.model) == 0:
		r.Fail("model", "field required, a model id")
	case r.generate && len(r.prompt) == 0:
		r.Fail("prompt", "field required, a text: the models of this service are loaded")
	case !r.generate && r.count == 0:
		r.Fail("messages", "field required, at least one message: the models of this service are loaded")
	}
	r.options.check(r)
	if r.Err == nil && r.plain {
		n, _ := scan.Integer(r.options.predict)
		r.Err = abi.CheckNonStreaming("options.num_predict", n)
	}
}

// native writes the native body.
func (r *request) native() []byte {
	out := append(make([]byte, 0, len(r.messages)+len(r.tools)+512), `{"model":"`...)
	out = append(append(out, r.model...), `","messages":[`...)
	if r.generate {
		if len(r.system) > 0 {
			out = appendMessage(out, "system", r.system)
			out = append(out, ',')
		}
		out = appendMessage(out, "user", r.prompt)
	} else {
		out = append(out, r.messages[1:]...)
	}
	out = r.options.append(append(out, ']'))
	out = field.AppendMember(out, "response_format", r.format)
	if r.think != "" {
		out = append(append(append(out, `,"thinking":{"type":"`...), r.think...), `"}`...)
	}
	out = field.AppendEffort(out, r.effort)
	if !r.plain {
		out = append(out, `,"stream":true`...)
	}
	return append(field.AppendArray(out, "tools", r.tools), '}')
}

func appendMessage(dst []byte, role string, text []byte) []byte {
	dst = append(append(append(dst, `{"role":"`...), role...), `","content":"`...)
	return append(append(dst, text...), `"}`...)
}
