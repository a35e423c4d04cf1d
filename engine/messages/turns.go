package messages

import (
	"slices"
	"strings"
)

// Clients and translators write one conversation in several ways: its system
// text as a field or as leading messages, its tool results in one message or
// in one each, the parts of an assistant's turn as one message or as items.
// What is here makes them one, so that equal conversations are equal prompts.

// Opening is the system text, from the field and the leading system messages,
// and the messages after those. No system text and an empty one are the same.
func Opening(q *Request) (system string, rest []Message) {
	n := 0
	for n < len(q.Messages) && q.Messages[n].Role == "system" {
		n++
	}
	if n == 0 {
		return q.System, q.Messages
	}
	texts := make([]string, 0, n+1)
	if q.System != "" {
		texts = append(texts, q.System)
	}
	for _, m := range q.Messages[:n] {
		if text := Texts(m.Blocks); text != "" {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n"), q.Messages[n:]
}

// MergeTurns merges neighbors that are pieces of one turn. It returns msgs itself
// where there are none, and never changes it.
func MergeTurns(msgs []Message) []Message {
	var out []Message // nil until two are one
	var turn openTurn
	for i, m := range msgs {
		if !turn.takes(m) {
			turn = openTurn{role: m.Role}
			turn.add(m)
			if out != nil {
				out = append(out, m)
			}
			continue
		}
		if out == nil {
			out = slices.Clone(msgs[:i])
		}
		last := &out[len(out)-1]
		if !turn.merged { // behind its blocks may be the client's
			last.Blocks, turn.merged = slices.Clip(last.Blocks), true
		}
		last.Blocks = append(last.Blocks, m.Blocks...)
		turn.add(m)
	}
	if out == nil {
		return msgs
	}
	return out
}

// openTurn is what decides whether a turn goes on with the next message, so
// that none of its blocks is looked at twice.
type openTurn struct {
	role    string
	results bool // nothing but tool results, and some
	written int  // the last that it has of the order in which a model writes
	merged  bool // its blocks are our own
}

func (t *openTurn) add(m Message) {
	_, last := span(m.Blocks)
	t.results = onlyResults(m.Blocks) // what takes m has had nothing else
	t.written = max(t.written, last)
}

// takes says whether a message goes on with the turn: a user message with some
// tool results behind nothing but such, or an assistant's that goes on in the
// order in which a model writes (thinking, text, calls).
func (t *openTurn) takes(m Message) bool {
	switch {
	case t.role != m.Role:
		return false
	case m.Role == "user":
		return t.results && slices.ContainsFunc(m.Blocks, isResult)
	case m.Role == "assistant":
		begin, _ := span(m.Blocks)
		return t.written != writtenNothing && (t.written < begin || t.written == begin && begin != writtenText)
	}
	return false
}

func isResult(b Block) bool { return b.Type == ToolResult }

func onlyResults(blocks []Block) bool {
	return len(blocks) > 0 && !slices.ContainsFunc(blocks, func(b Block) bool { return !isResult(b) })
}

// The order in which a model writes the blocks of a turn.
const (
	writtenNothing = iota
	writtenThinking
	writtenText
	writtenCalls
)

// span is the first and the last of that order that blocks have; empty texts
// say nothing.
func span(blocks []Block) (first, last int) {
	for _, b := range blocks {
		rank := writtenText
		switch {
		case b.Type == Thinking:
			rank = writtenThinking
		case b.Type == ToolUse:
			rank = writtenCalls
		case b.Text == "":
			continue
		}
		if first == writtenNothing || rank < first {
			first = rank
		}
		last = max(last, rank)
	}
	return first, last
}

// Texts are the text blocks of a message, one per line.
func Texts(blocks []Block) string {
	var s []string
	for _, b := range blocks {
		if b.Type == Text {
			s = append(s, b.Text)
		}
	}
	return strings.Join(s, "\n")
}

// BeginsAnswer says whether a message, if it is the last one, begins the answer: the
// assistant's, with text and no call.
func BeginsAnswer(m Message) bool {
	return m.Role == "assistant" && Texts(m.Blocks) != "" &&
		!slices.ContainsFunc(m.Blocks, func(b Block) bool { return b.Type == ToolUse })
}
