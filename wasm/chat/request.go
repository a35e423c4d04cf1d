package chat

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// request is one body under translation. Raw fields are cut out of the body:
// numbers as they are, strings without their quotes. nil is absent or null.
type request struct {
	field.Reader

	out      []byte // the native body, which begins with its messages
	count    int    // messages begun
	message  message
	legacyID []byte // of the last function_call, nil before there is one
	tools    []byte // the native tools, each with a comma before it

	model, maxTokens, maxCompletionTokens []byte
	sampling                              field.Sampling

	choice  field.Choice
	forced  bool     // a call is
	allowed []string // names of the only tools that may be called; nil for all
	// renumbered: the tools' places differ from those in the request.
	renumbered bool

	stream       bool
	usage        bool   // stream_options.include_usage
	objectSchema bool   // the format is a json_object with a schema
	silent       bool   // reasoning_effort or enable_thinking switch thinking off
	thinking     []byte // thinking.type, raw
	effort       string // native; "" where the model decides
}

// Request translates a chat completions body. Every error is of kind
// InvalidRequest, with the path of the field in the chat body.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	r := &request{out: make([]byte, 0, len(in.Body)+len(in.Body)/8+512)}
	r.Op = "chat.Request"
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
	r.finish()
	return abi.Translated{Body: r.out, Kept: []byte{byte(r.kept())}}, nil
}

// complete checks what only the whole body can tell.
func (r *request) complete() {
	switch {
	case len(r.model) == 0:
		r.Fail("model", "field required, a model id")
	case len(r.out) == 0:
		r.Fail("messages", "field required, at least one message")
	case r.forced && len(r.tools) == 0:
		r.Fail("tool_choice", "it forces a call, but there are no tools")
	case !r.stream:
		n, _ := scan.Integer(r.budget())
		r.Err = abi.CheckNonStreaming(r.budgetName(), n)
	}
	r.allow()
}

// budget is the most tokens to produce. max_completion_tokens is the newer
// name: given both, it counts.
func (r *request) budget() []byte {
	if r.maxCompletionTokens != nil {
		return r.maxCompletionTokens
	}
	return r.maxTokens
}

func (r *request) budgetName() string {
	if r.maxCompletionTokens != nil {
		return "max_completion_tokens"
	}
	return "max_tokens"
}

func (r *request) kept() (k kept) {
	if r.usage {
		k |= keptUsage
	}
	if r.maxCompletionTokens != nil {
		k |= keptCompletionTokens
	}
	if r.sampling.StopText {
		k |= keptStopText
	}
	if r.renumbered {
		k |= keptRenumbered
	}
	if r.objectSchema {
		k |= keptObjectSchema
	}
	return k
}

// finish closes the native body behind its messages.
func (r *request) finish() {
	r.out = append(r.out, `],"model":"`...)
	r.out = append(append(r.out, r.model...), '"')
	r.out = field.AppendMember(r.out, "max_tokens", r.budget())
	r.out = r.sampling.Append(r.out)
	if r.stream {
		r.out = append(r.out, `,"stream":true`...)
	}
	switch {
	case r.silent:
		r.out = append(r.out, `,"thinking":{"type":"disabled"}`...)
	case r.thinking != nil:
		r.out = append(append(r.out, `,"thinking":{"type":"`...), r.thinking...)
		r.out = append(r.out, `"}`...)
	}
	if !r.silent {
		r.out = field.AppendEffort(r.out, r.effort)
	}
	if len(r.tools) > 0 {
		r.out = r.choice.Append(field.AppendArray(r.out, "tools", r.tools))
	}
	r.out = append(r.out, '}')
}
