package engine

import (
	"slices"
	"strings"

	"corenode/engine/messages"
)

// Clients and translators write one conversation in several ways: its system
// text as a field or as leading messages, its tool results in one message or
// in one each, the parts of an assistant's turn as one message or as items.
// What is here makes them one, so that equal conversations are equal prompts.

// opening is the system text, from the field and the leading system messages,
// and the messages after those. No system text and an empty one are the same.
func opening(q *messages.Request) (system string, rest []messages.Message) {
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
		texts = append(texts, blockTexts(m.Blocks))
	}
	return strings.Join(texts, "\n"), q.Messages[n:]
}

// mergeTurns merges neighbours that are pieces of one turn. It returns msgs itself
// where there are none, and never changes it.
func mergeTurns(msgs []messages.Message) []messages.Message {
	at := 1
	for at < len(msgs) && !onePiece(msgs[at-1], msgs[at]) {
		at++
	}
	if at >= len(msgs) {
		return msgs
	}
	out := slices.Clone(msgs[:at])
	for _, m := range msgs[at:] {
		last := &out[len(out)-1]
		if onePiece(*last, m) {
			last.Blocks = slices.Concat(last.Blocks, m.Blocks)
		} else {
			out = append(out, m)
		}
	}
	return out
}

// onePiece says whether two neighbours are one turn: a user message of nothing
// but tool results before another with some, or two assistant messages that go
// on in the order in which a model writes (thinking, text, calls).
func onePiece(a, b messages.Message) bool {
	switch {
	case a.Role != b.Role:
		return false
	case a.Role == "user":
		return onlyResults(a.Blocks) && slices.ContainsFunc(b.Blocks, isResult)
	case a.Role == "assistant":
		_, end := span(a.Blocks)
		begin, _ := span(b.Blocks)
		return end != writtenNothing && (end < begin || end == begin && end != writtenText)
	}
	return false
}

func isResult(b messages.Block) bool { return b.Type == messages.ToolResult }

func onlyResults(blocks []messages.Block) bool {
	return len(blocks) > 0 && !slices.ContainsFunc(blocks, func(b messages.Block) bool { return !isResult(b) })
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
func span(blocks []messages.Block) (first, last int) {
	for _, b := range blocks {
		rank := writtenText
		switch {
		case b.Type == messages.Thinking:
			rank = writtenThinking
		case b.Type == messages.ToolUse:
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
