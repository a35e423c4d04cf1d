package messages

import "slices"

// A system message behind the first turn may say more than its text: from when on the model thinks
// how much, and that it stands until the user's next message. One without text is no turn. What leads
// the messages is the system's own turn, of which nothing but the text counts.

// note is what a message says beside its blocks, if it is the system's.
type note struct {
	effort *string // nil for none
	// passing: the message stands until the next one of the user, and be it results of tools.
	passing bool
}

// heard is what the messages so far say of those behind them.
type heard struct {
	turned bool // one of them is the user's or the assistant's
	asked  bool // the last turn is the user's, with more than results of tools
	passes int  // the first message that stands until the user's next; 0 for none, as the first is the user's or leads

	effort *string // of answers to what the user said last; nil leaves that of the whole request
	next   *string // from what the user says next on
}

// noted adds a message of the system to q.
func (r *reader) noted(q *Request, m Message, n note) {
	h := &r.heard
	if !h.turned {
		q.Messages = append(q.Messages, m)
		return
	}
	switch {
	case n.effort == nil:
	case h.asked:
		h.effort, h.next = n.effort, nil
	default:
		h.next = n.effort
	}
	if Texts(m.Blocks) == "" {
		return
	}
	if m.passing = n.passing; m.passing && h.passes == 0 {
		h.passes = len(q.Messages)
	}
	q.Messages = append(q.Messages, m)
}

// turned adds a message of the user or the assistant to q.
func (r *reader) turned(q *Request, m Message) {
	h := &r.heard
	h.turned = true
	if m.Role == "user" && h.passes > 0 {
		rest := slices.DeleteFunc(q.Messages[h.passes:], func(m Message) bool { return m.passing })
		q.Messages, h.passes = q.Messages[:h.passes+len(rest)], 0
	}
	h.asked = m.Role == "user" && slices.ContainsFunc(m.Blocks, func(b Block) bool { return !isResult(b) })
	if h.asked && h.next != nil {
		h.effort, h.next = h.next, nil
	}
	q.Messages = append(q.Messages, m)
}

// effortWithin reads the output_config of a message. What is none is passed, as it is where the message
// is not the system's.
func (r *reader) effortWithin() (effort *string) {
	if r.err != nil || r.dec.PeekKind() != '{' {
		r.skip()
		return nil
	}
	r.object(func(name string) {
		if name != "effort" || r.dec.PeekKind() != '"' {
			r.skip()
			return
		}
		effort = new(r.effort())
	})
	return effort
}

// is reads a value and says whether it is a text.
func (r *reader) is(text string) bool {
	if r.err != nil || r.dec.PeekKind() != '"' {
		r.skip()
		return false
	}
	return r.string() == text
}
