package chat

import (
	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// message is one chat message as it comes in: what its fields mean only its
// role can say, and the role may come last. Lists of native blocks have a
// comma before each block; their memory is used again for the next message.
type message struct {
	role      []byte
	content   content
	text      []byte // contentText: raw
	parts     []byte // contentParts: native blocks
	refused   bool   // a part is a refusal
	reasoning []byte // raw
	refusal   []byte // raw
	callID    []byte // raw
	calls     []byte // tool_calls: native blocks
	legacy    []byte // function_call: one native block
}

type content uint8

const (
	contentNone content = iota // absent or null
	contentText
	contentParts
)

// messages reads the messages into the native ones.
func (r *request) messages() {
	r.out, r.count, r.legacyID = r.out[:0], 0, nil
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if r.count == 0 {
			r.out = append(r.out, `{"messages":[`...)
		} else {
			r.out = append(r.out, ',')
		}
		r.count++
		if r.Open(scan.Object) {
			r.readMessage()
			r.appendMessage()
		}
	}
}

func (r *request) readMessage() {
	m := &r.message
	*m = message{parts: m.parts[:0], calls: m.calls[:0], legacy: m.legacy[:0]}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "role":
			m.role = r.Text()
		case "content":
			r.readContent()
		case "reasoning_content":
			m.reasoning = r.Str()
		case "reasoning": // what some servers call it
			if r.S.Kind() == scan.String && m.reasoning == nil {
				m.reasoning = r.Str()
			}
		case "refusal":
			m.refusal = r.Str()
		case "tool_call_id":
			m.callID = r.Str()
		case "tool_calls":
			r.readCalls()
		case "function_call":
			r.readLegacyCall()
		case "audio":
			r.Fail(r.S.Path(), "audio is not supported: text content only")
		}
	}
}

// readContent reads a message's content: a string, or an array of text parts.
func (r *request) readContent() {
	m := &r.message
	m.content, m.text, m.parts, m.refused = contentNone, nil, m.parts[:0], false
	switch r.S.Kind() {
	case scan.String:
		m.content, m.text = contentText, r.Str()
	case scan.Array:
		m.content = contentParts
		for r.S.Open(); r.S.Next(); {
			if r.Open(scan.Object) {
				r.readPart()
			}
		}
	default:
		r.Want("a string or an array of text parts")
	}
}

// readPart reads one content part; its object is open.
func (r *request) readPart() {
	var kind, text, refusal []byte
	for r.S.Next() {
		switch string(r.S.Key()) {
		case "type":
			kind = r.Text()
		case "text":
			text, _ = r.S.Str()
		case "refusal":
			refusal, _ = r.S.Str()
		}
	}
	m := &r.message
	switch string(kind) {
	case "text":
		if text == nil {
			r.Fail(r.S.Path()+".text", "field required in a text part, a string")
		}
	case "refusal":
		if text = refusal; text == nil {
			r.Fail(r.S.Path()+".refusal", "field required in a refusal part, a string")
		}
		m.refused = true
	case "":
		r.Fail(r.S.Path()+".type", "field required")
	default:
		r.Fail(r.S.Path()+".type", field.Quoted(kind)+" is not supported: text content only")
	}
	m.parts = field.AppendText(append(m.parts, ','), text)
}

// appendMessage appends the message that was read as a native one. The
// scanner stands behind it: its path is the message's.
func (r *request) appendMessage() {
	m := &r.message
	if string(m.role) == "assistant" {
		r.appendAssistant()
		return
	}
	switch string(m.role) {
	case "user":
		r.out = append(r.out, `{"role":"user","content":`...)
		r.appendContent()
	case "system", "developer":
		r.out = append(r.out, `{"role":"system","content":`...)
		r.appendContent()
	case "tool":
		if len(m.callID) == 0 {
			r.Fail(r.S.Path()+".tool_call_id", "field required in a message of role tool")
		}
		r.appendResult(m.callID)
	case "function":
		if len(r.legacyID) == 0 {
			r.Fail(r.S.Path()+".role", "a message of role function follows an assistant message with a function_call")
		}
		r.appendResult(r.legacyID)
	case "":
		r.Fail(r.S.Path()+".role", "field required, one of system, developer, user, assistant, tool")
	default:
		r.Fail(r.S.Path()+".role", field.Quoted(m.role)+" is not one of system, developer, user, assistant, tool")
	}
	r.out = append(r.out, '}')
	if m.refused {
		r.Fail(r.S.Path()+".content", "refusal parts are the assistant's")
	}
	if len(m.calls) > 0 || len(m.legacy) > 0 {
		r.Fail(r.S.Path()+".tool_calls", "tool calls are the assistant's")
	}
}

// appendContent appends the content of a message that must have one.
func (r *request) appendContent() {
	m := &r.message
	switch {
	case m.content == contentText:
		r.out = append(r.out, '"')
		r.out = append(append(r.out, m.text...), '"')
	case m.content == contentParts && len(m.parts) > 0:
		r.out = append(r.out, '[')
		r.out = append(append(r.out, m.parts[1:]...), ']')
	case m.content == contentParts:
		r.out = append(r.out, '[', ']')
	default:
		r.Fail(r.S.Path()+".content", "field required, a string or an array of text parts")
	}
}

// appendResult appends the answer to a call as the user message that the
// messages protocol has for it.
func (r *request) appendResult(id []byte) {
	r.out = field.AppendResult(append(r.out, `{"role":"user","content":[`...), id)
	r.appendContent()
	r.out = append(r.out, '}', ']')
}

// appendAssistant appends an assistant message: thinking, text, calls.
func (r *request) appendAssistant() {
	m := &r.message
	r.out = append(r.out, `{"role":"assistant","content":`...)
	if len(m.reasoning) == 0 && len(m.refusal) == 0 && len(m.calls) == 0 && len(m.legacy) == 0 {
		if m.content == contentNone && m.reasoning == nil {
			r.Fail(r.S.Path()+".content", "field required in an assistant message without tool_calls")
		} else if m.content == contentNone {
			m.content = contentText
		}
		r.appendContent()
		r.out = append(r.out, '}')
		return
	}
	from := len(r.out) // the first block's comma becomes the bracket
	if len(m.reasoning) > 0 {
		r.out = append(r.out, `,{"type":"thinking","thinking":"`...)
		r.out = append(append(r.out, m.reasoning...), `"}`...)
	}
	if len(m.text) > 0 {
		r.out = field.AppendText(append(r.out, ','), m.text)
	}
	r.out = append(r.out, m.parts...)
	if len(m.refusal) > 0 {
		r.out = field.AppendText(append(r.out, ','), m.refusal)
	}
	r.out = append(append(r.out, m.calls...), m.legacy...)
	r.out[from] = '['
	r.out = append(r.out, ']', '}')
}
