package responses

import (
	"bytes"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/field"
)

// request is a body while it is translated. What it appends to its parts is
// checked JSON text.
type request struct {
	field.Reader
	seen uint64 // bit i: fieldNames[i] was there

	model  []byte // escaped
	stream bool

	messages []byte // the native body, from its brace to the last message
	role     role   // of the message that is open in messages
	system   []byte // text blocks of the system messages that open the input

	instructions []byte          // escaped; nil for none
	tools        []byte          // native tools, each with a comma before it
	offered      map[string]bool // their names, as they read without escapes
	found        []toolList      // what items tell of, which stands behind the field tools wherever that is
	ofItem       bool            // the tools that are read are an item's
	names        []byte          // of the tools of the item that is read, each with a comma and a space behind it
	skipped      uint8           // serverTools that there were, as bits
	flags        uint8
	custom       hashes

	maxTokens   int64 // 0 when absent
	room        int64 // of the answer at least; 0 for any
	sampling    field.Sampling
	choice      choice
	sequential  bool // parallel_tool_calls is false
	ofAgent     bool // the item that is read is what an agent said
	thinkingOff bool
	effort      string // native; "" where the model decides
	changed     settings

	echo echoes
}

// Request translates a body of POST /v1/responses.
func (Translator) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	var r request
	r.Op = "responses.Request"
	r.messages = append(make([]byte, 0, len(in.Body)+len(in.Body)/8+512), `{"messages":[`...)
	r.read(in.Body)
	if r.Err != nil {
		return abi.Translated{}, r.Err
	}
	return abi.Translated{Body: r.body(), Kept: r.kept()}, nil
}

// read reads the whole body.
func (r *request) read(body []byte) {
	if len(bytes.TrimSpace(body)) == 0 {
		body = nil // white space only is an empty body here
	}
	if r.OpenBody(body) {
		for r.S.Next() {
			r.field()
		}
	}
	r.End(true)
	r.complete()
}

// complete checks what only the whole request can tell.
func (r *request) complete() {
	r.readFound()
	r.checkChoice()
	switch {
	case r.model == nil:
		r.Fail("model", "field required, a model id")
	case !r.has("input"):
		r.Fail("input", "field required, a string or an array of items")
	case r.role == roleNone && len(r.system) == 0:
		r.Fail("input", "at least one message is required")
	case r.role == roleNone: // nothing follows the messages that would be part of the system prompt
		r.open(roleSystem)
		r.messages, r.system = append(r.messages, r.system...), nil
	}
	r.change()
	r.summarize()
}

// body completes the native body.
func (r *request) body() []byte {
	b := append(r.messages, `]}],"model":"`...)
	b = append(append(b, r.model...), '"')
	b = r.appendSystem(b)
	b = field.AppendArray(b, "tools", r.tools)
	b = r.appendChoice(b)
	b = field.AppendMember(b, "max_tokens", positive(r.maxTokens))
	b = field.AppendMember(b, "room_tokens", positive(r.room))
	b = r.sampling.Append(b)
	if r.thinkingOff {
		b = append(b, `,"thinking":{"type":"disabled"}`...)
	}
	b = field.AppendEffort(b, r.effort)
	if r.stream {
		b = append(b, `,"stream":true`...)
	}
	return append(b, '}')
}

// appendSystem appends instructions and then the system messages that open the input.
func (r *request) appendSystem(b []byte) []byte {
	switch {
	case r.instructions == nil && len(r.system) == 0:
		return b
	case len(r.system) == 0:
		b = append(append(b, `,"system":"`...), r.instructions...)
		return append(b, '"')
	}
	b = append(b, `,"system":[`...)
	if r.instructions != nil {
		b = field.AppendText(b, r.instructions)
		b = append(b, ',')
	}
	return append(append(b, r.system...), ']')
}

// positive is the text of n; nil where nothing was said.
func positive(n int64) []byte {
	if n <= 0 {
		return nil
	}
	return strconv.AppendInt(nil, n, 10)
}
