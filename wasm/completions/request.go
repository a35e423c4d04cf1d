package completions

import (
	"strings"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// request is one body under translation. Raw fields are cut out of the body:
// numbers as they are, strings without their quotes. nil is absent or null.
type request struct {
	field.Reader

	model, prompt, maxTokens []byte
	sampling                 field.Sampling
	stream, echo             bool
	repeated                 []byte // the prompt as an answer repeats it; empty without echo
	keep                     kept
}

// maxTokensDefault is what the protocol has for a request that does not say.
const maxTokensDefault = "16"

// Request translates a body. Every error is of kind InvalidRequest, with the
// path of the field in that body.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	r := &request{}
	r.Op = "completions.Request"
	if r.OpenBody(in.Body) {
		for r.S.NextMember() {
			r.field(r.S.Key())
		}
	}
	if r.End(false); r.Err == nil {
		r.complete()
	}
	if r.Err != nil {
		return abi.Translated{}, r.Err
	}
	r.set(keptStopText, r.sampling.StopText)
	return abi.Translated{Body: r.native(), Kept: append([]byte{byte(r.keep)}, r.repeated...)}, nil
}

// field reads one top-level field that is not null. Unknown fields are
// accepted and ignored, known ones that cannot be honored are refused by name.
// It is one dispatch switch: the list of what the protocol knows.
func (r *request) field(name []byte) {
	switch string(name) {
	case "model":
		r.model = r.Str()
	case "prompt":
		r.readPrompt()
	case "max_tokens":
		_, r.maxTokens = r.Integer(1, "an integer")
	case "stream":
		r.stream = r.Bool()
	case "stream_options":
		r.set(keptUsage, r.IncludeUsage(r.keep&keptUsage != 0))
	case "echo":
		r.echo = r.Bool()
	default:
		if !r.sampling.Field(&r.Reader, name) {
			r.refused(string(name))
		}
	}
}

// refused reads the known fields that would change the answer and cannot be
// honored: only a value that asks for nothing passes.
func (r *request) refused(name string) {
	neutral, msg := true, "this service does not support it"
	switch name {
	case "n", "best_of":
		n, _ := r.S.Int()
		neutral, msg = n == 1, "only one choice for each request is supported"
	case "suffix":
		text, ok := r.S.Str()
		neutral, msg = ok && len(text) == 0, "text in the middle is not supported: only what follows the prompt"
	case "logprobs":
		v, ok := r.S.Bool() // 0 asks for the probabilities of what was drawn
		neutral = ok && !v
	case "logit_bias", "response_format":
		neutral = r.Empty(scan.Object)
	case "tools":
		neutral = r.Empty(scan.Array)
	case "grammar", "regex", "ebnf", "json_schema", "structured_outputs":
		neutral = r.AsksNothing()
	default:
		if strings.HasPrefix(name, "guided_") {
			neutral = r.AsksNothing()
		}
	}
	if !neutral {
		r.Fail(name, msg)
	}
}

// readPrompt reads the prompt: a text, or an array of one.
func (r *request) readPrompt() {
	const want = "a text, or an array of one text"
	r.set(keptArray, r.S.Kind() == scan.Array)
	if r.keep&keptArray == 0 {
		r.readText(want)
		return
	}
	n := 0
	for r.S.Open(); r.S.Next(); n++ {
		if n > 0 {
			r.Fail("prompt", "only one prompt for each request is supported")
		}
		r.readText(want)
	}
	if n == 0 {
		r.Fail("prompt", "it is empty; want "+want)
	}
}

func (r *request) readText(want string) {
	if r.S.Kind() != scan.String {
		r.Want(want)
	}
	r.prompt, _ = r.S.Str()
}

func (r *request) set(bit kept, on bool) {
	if r.keep &^= bit; on {
		r.keep |= bit
	}
}

// complete checks what only the whole body can tell.
func (r *request) complete() {
	if r.maxTokens == nil {
		r.maxTokens = []byte(maxTokensDefault)
	}
	if r.echo {
		r.repeated = abi.AppendOneLine(make([]byte, 0, len(r.prompt)), r.prompt)
	}
	switch {
	case len(r.model) == 0:
		r.Fail("model", "field required, a model id")
	case len(r.prompt) == 0:
		r.Fail("prompt", "field required, a text that is not empty")
	case len(r.repeated) >= abi.KeptBytesMax:
		r.Fail("echo", "the prompt is too long to be repeated")
	case !r.stream:
		n, _ := scan.Integer(r.maxTokens)
		r.Err = abi.CheckNonStreaming("max_tokens", n)
	}
}

// native writes the native body.
func (r *request) native() []byte {
	out := append(make([]byte, 0, len(r.prompt)+512), `{"raw":true,"messages":[{"role":"user","content":"`...)
	out = append(append(out, r.prompt...), `"}],"model":"`...)
	out = append(append(out, r.model...), '"')
	out = r.sampling.Append(field.AppendMember(out, "max_tokens", r.maxTokens))
	if r.stream {
		out = append(out, `,"stream":true`...)
	}
	return append(out, '}')
}
