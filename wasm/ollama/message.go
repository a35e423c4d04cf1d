package ollama

import (
	"bytes"
	"slices"
	"strconv"

	"corenode/wasm/sdk/field"
	"corenode/wasm/sdk/scan"
)

// message is one message as it comes in: what its fields mean only its role can
// say, and the role may come last. Texts are raw.
type message struct {
	role              []byte
	content, thinking []byte
	toolName, callID  []byte
	calls             []byte // native blocks, each with a comma before it
	called            []call // the same
}

// call is a call that the model made: its native id and the function's name, raw. named says that
// the id is the client's.
type call struct {
	id, name []byte
	named    bool
}

// readMessages reads the messages into native ones.
func (r *request) readMessages() {
	r.messages, r.count, r.open = r.messages[:0], 0, r.open[:0]
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if r.Open(scan.Object) {
			r.readMessage()
			r.appendMessage()
		}
		r.count++
	}
}

func (r *request) readMessage() {
	m := &r.message
	*m = message{calls: m.calls[:0], called: m.called[:0]}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "role":
			m.role = r.Text()
		case "content":
			m.content = r.Str()
		case "thinking":
			m.thinking = r.Str()
		case "tool_calls":
			r.readCalls()
		case "tool_name", "name":
			m.toolName = r.Str()
		case "tool_call_id":
			m.callID = r.Str()
		case "images":
			r.neutral(r.S.Path(), r.Empty(scan.Array), imagesMsg)
		}
	}
}

// readCalls reads the calls of an assistant's message as native blocks. Those
// without an id get one that says where they stand.
func (r *request) readCalls() {
	m := &r.message
	m.calls, m.called = m.calls[:0], m.called[:0]
	if !r.Open(scan.Array) {
		return
	}
	for r.S.Next() {
		if !r.Open(scan.Object) {
			return
		}
		c, arguments := call{}, []byte("{}")
		for r.S.NextMember() {
			switch string(r.S.Key()) {
			case "id":
				c.id = r.Str()
			case "function":
				c.name, arguments = r.readFunction(arguments)
			}
		}
		if len(c.name) == 0 {
			r.Fail(r.S.Path()+".function.name", "field required")
		}
		if c.named = len(c.id) > 0; !c.named {
			c.id = append(strconv.AppendInt([]byte("call_"), int64(r.count), 10), '_')
			c.id = strconv.AppendInt(c.id, int64(len(m.called)), 10)
		}
		m.called = append(m.called, c)
		m.calls = field.AppendToolUse(append(m.calls, ','), c.id, c.name)
		m.calls = append(append(m.calls, arguments...), '}')
	}
}

// readFunction reads the function of a call: its name, and its arguments as
// they are written.
func (r *request) readFunction(none []byte) (called, arguments []byte) {
	arguments = none
	if !r.Open(scan.Object) {
		return nil, none
	}
	for r.S.NextMember() {
		switch string(r.S.Key()) {
		case "name":
			called = r.Str()
		case "arguments":
			if r.S.Kind() != scan.Object {
				r.Want("an object")
			}
			arguments = r.S.Raw()
		}
	}
	return called, arguments
}

// appendMessage appends the message that was read as a native one. The scanner
// stands behind it: its path is the message's.
func (r *request) appendMessage() {
	m := &r.message
	role := string(m.role)
	if role != "assistant" && len(m.calls) > 0 {
		r.Fail(r.S.Path()+".tool_calls", "tool calls are the assistant's")
	}
	r.messages = append(r.messages, ',')
	switch role {
	case "system", "user":
		r.messages = appendMessage(r.messages, role, m.content)
	case "assistant":
		r.appendAssistant()
	case "tool":
		r.messages = field.AppendResult(append(r.messages, `{"role":"user","content":[`...), r.answered())
		r.messages = append(append(append(r.messages, '"'), m.content...), `"}]}`...)
	case "":
		r.Fail(r.S.Path()+".role", "field required, one of system, user, assistant, tool")
	default:
		r.Fail(r.S.Path()+".role", field.Quoted(m.role)+" is not one of system, user, assistant, tool")
	}
}

// appendAssistant appends an assistant's message: thinking, text, calls.
func (r *request) appendAssistant() {
	m := &r.message
	if len(m.thinking) == 0 && len(m.calls) == 0 {
		r.messages = appendMessage(r.messages, "assistant", m.content)
		return
	}
	r.messages = append(r.messages, `{"role":"assistant","content":`...)
	from := len(r.messages) // the first block's comma becomes the bracket
	if len(m.thinking) > 0 {
		r.messages = append(append(r.messages, `,{"type":"thinking","thinking":"`...), m.thinking...)
		r.messages = append(r.messages, `"}`...)
	}
	if len(m.content) > 0 {
		r.messages = field.AppendText(append(r.messages, ','), m.content)
	}
	r.messages = append(append(r.messages, m.calls...), `]}`...)
	r.messages[from] = '['
	r.open = append(r.open, m.called...)
}

// answered takes the call that the message is the result of off the open ones, and returns its
// native id. Some clients send an id with the result, and none with the call: an id that no call
// has is of one without. The result of no call at all has an id of its own.
func (r *request) answered() []byte {
	m := &r.message
	i := -1
	if len(m.callID) > 0 {
		i = slices.IndexFunc(r.open, func(c call) bool { return bytes.Equal(c.id, m.callID) })
	}
	if i < 0 {
		i = slices.IndexFunc(r.open, func(c call) bool {
			return (len(m.toolName) == 0 || bytes.Equal(c.name, m.toolName)) && (len(m.callID) == 0 || !c.named)
		})
	}
	switch {
	case i < 0 && len(m.callID) > 0:
		return m.callID
	case i < 0:
		return strconv.AppendInt([]byte("result_"), int64(r.count), 10)
	}
	id := r.open[i].id
	r.open = slices.Delete(r.open, i, i+1)
	return id
}
