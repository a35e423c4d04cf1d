package generatecontent

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/piece"
)

// Pieces of a partial response, and of a whole one.
const (
	begin      = `{"candidates":[{"content":{"parts":[`
	data       = "data: " // before a server-sent event; elements of an array are lines
	endOfParts = `],"role":"model"},`
	place      = `"index":0}]`
	textPart   = `{"text":"`
)

// Events writes the partial responses of one event group, each as one server-sent
// event or one line: a piece of text or thinking, or a whole call.
func (t Translator) Events(dst, next []byte, in abi.EventsInput) (bytes, after []byte) {
	return piece.Events(t, dst, next, in)
}

// Around gives what stands before and after a piece; see piece.Writer.
func (Translator) Around(own []byte, facts *abi.Facts, b abi.BlockKind) (before, after []byte) {
	thought := b == abi.BlockThinking
	if thought && readKept(own)&keptThoughts == 0 {
		return nil, nil
	}
	before, end := readKept(own).around()
	after = []byte(textEnd(thought))
	return append(before, begin+textPart...), appendPartial(after, own, facts, end)
}

// around is what stands before and after a response of a stream.
func (k kept) around() (before []byte, after string) {
	if k&keptArray != 0 {
		return nil, "\n"
	}
	return []byte(data), "\n\n"
}

// Other writes a call when its block is over, and the last response. A stream's
// own state is what the request kept, and behind it the usage of its partial
// responses: there are clients that drop one without.
func (Translator) Other(dst, own []byte, in *abi.EventsInput, f abi.Frame) (bytes, next []byte) {
	before, after := readKept(own).around()
	switch {
	case f.Kind == abi.EventStart:
		own = append(appendUsage([]byte{byte(readKept(in.Kept))}, f.Usage(), false), '}')
	case f.Kind == abi.EventBlockStop && f.Block == abi.BlockToolUse:
		if call := piece.FindCall(in.History, f.Index); call.Whole() {
			dst = appendCall(append(append(dst, before...), begin...), in.History, &call, f.Index)
			dst = appendPartial(dst, own, &in.Facts, after)
		}
	case f.Kind == abi.EventEnd:
		dst = append(append(append(dst, before...), begin+textPart...), textEnd(false)...)
		dst = append(appendEnd(dst, f, &in.Facts), after...)
	}
	return dst, own
}

// Response writes a whole answer: one response.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	k := readKept(in.Kept)
	dst = append(dst, begin...)
	empty := len(dst)
	part := func() {
		if len(dst) > empty {
			dst = append(dst, ',')
		}
	}
	var end abi.Frame
	all := in.Events
	for f, ok := all.Next(); ok; f, ok = all.Next() {
		switch {
		case f.Kind == abi.EventDelta && f.Block != abi.BlockToolUse:
			if thought := f.Block == abi.BlockThinking; len(f.Payload) > 0 && (!thought || k&keptThoughts != 0) {
				part()
				dst = append(append(append(dst, textPart...), f.Payload...), textEnd(thought)...)
			}
		case f.Kind == abi.EventBlockStop && f.Block == abi.BlockToolUse:
			if call := piece.FindCall(in.Events, f.Index); call.Whole() {
				part()
				dst = appendCall(dst, in.Events, &call, f.Index)
			}
		case f.Kind == abi.EventEnd:
			end = f
		}
	}
	if len(dst) == empty {
		dst = append(append(dst, textPart...), textEnd(false)...)
	}
	return appendEnd(dst, end, &in.Facts)
}

// textEnd ends a part with a piece of text or thinking.
func textEnd(thought bool) string {
	if thought {
		return `","thought":true}`
	}
	return `"}`
}

// appendCall appends the part of the call that is block index of answer. The first
// call is signed with the thinking before it.
func appendCall(dst []byte, answer abi.Frames, call *piece.Call, index int) []byte {
	dst = append(append(append(dst, `{"functionCall":{"id":"`...), call.ID...), `","name":"`...)
	dst = append(append(dst, call.Name...), `","args":`...)
	dst = append(call.AppendArguments(dst), '}')
	if thinking := before(answer, index); len(thinking) > 0 {
		dst = append(appendSignature(append(dst, `,"thoughtSignature":"`...), thinking), '"')
	}
	return append(dst, '}')
}

// before is the thinking before the call that is block index; nothing where it is
// not the first call.
func before(answer abi.Frames, index int) (thinking []byte) {
	for f, ok := answer.Next(); ok && f.Index < index; f, ok = answer.Next() {
		switch {
		case f.Kind == abi.EventBlockStart && f.Block == abi.BlockToolUse:
			return nil
		case f.Kind == abi.EventDelta && f.Block == abi.BlockThinking:
			thinking = append(thinking, f.Payload...)
		}
	}
	return thinking
}

// appendEnd appends what follows the parts of the last response: why the answer
// ended, and the usage. Thinking is no part of what the candidate said.
func appendEnd(dst []byte, f abi.Frame, facts *abi.Facts) []byte {
	dst = append(append(dst, endOfParts...), `"finishReason":"`...)
	if f.Stop == abi.StopMaxTokens {
		dst = append(dst, "MAX_TOKENS"...)
	} else {
		dst = append(dst, "STOP"...)
	}
	dst = append(append(dst, `",`...), place...)
	u := f.Usage()
	if dst = appendUsage(dst, u, true); u.Reasoning > 0 {
		dst = piece.AppendInt(dst, "thoughtsTokenCount", u.Reasoning)
	}
	return appendNames(append(dst, '}'), facts, "")
}

// appendPartial appends what follows the parts of a partial response.
func appendPartial(dst, own []byte, facts *abi.Facts, end string) []byte {
	dst = append(dst, endOfParts+place...)
	if len(own) > 0 {
		dst = append(dst, own[1:]...)
	}
	return appendNames(dst, facts, end)
}

// appendUsage appends the usage, whose object stays open: what was read, and once
// the answer ended also what was written.
func appendUsage(dst []byte, u abi.Usage, ended bool) []byte {
	dst = strconv.AppendInt(append(dst, `,"usageMetadata":{"promptTokenCount":`...), u.Input(), 10)
	if ended {
		dst = piece.AppendInt(dst, "candidatesTokenCount", u.Output-u.Reasoning)
	}
	dst = piece.AppendInt(dst, "totalTokenCount", u.Input()+u.Output)
	if u.CacheRead > 0 {
		dst = piece.AppendInt(dst, "cachedContentTokenCount", u.CacheRead)
	}
	return dst
}

// appendNames appends which model answered which request, and the response's end.
func appendNames(dst []byte, facts *abi.Facts, end string) []byte {
	dst = abi.AppendEscaped(append(dst, `,"modelVersion":"`...), facts.Model)
	dst = append(append(dst, `","responseId":"`...), facts.ID...)
	return append(append(dst, `"}`...), end...)
}

// Count writes the answer of countTokens.
func (Translator) Count(dst []byte, in abi.CountInput) []byte {
	return append(strconv.AppendInt(append(dst, `{"totalTokens":`...), in.Tokens, 10), '}')
}
