package generatecontent

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// Pieces of a partial response, and of a whole one.
const (
	begin      = `{"candidates":[{"content":{"parts":[`
	endOfParts = `],"role":"model"},`
	index      = `"index":0}]`
	textPart   = `{"text":"`
)

// Events writes the partial responses of one event group, each as one server-sent
// event: a piece of text or thinking, or a whole call. The state is what the
// request kept; before there is any, it comes with the group.
func (Translator) Events(dst, next []byte, in abi.EventsInput) ([]byte, []byte) {
	k := readKept(in.State)
	if len(in.State) == 0 {
		k = readKept(in.Kept)
	}
	var from, to int // in dst: what ends a piece, the same for all of an answer
	all := in.Events
	for {
		f, ok := all.Next()
		if !ok {
			return dst, append(next[:0], byte(k))
		}
		switch {
		case f.Kind == abi.EventDelta && f.Block != abi.BlockToolUse:
			thought := f.Block == abi.BlockThinking
			if thought && k&keptThoughts == 0 || len(f.Payload) == 0 {
				continue
			}
			dst = appendText(append(append(dst, "data: "...), begin...), f.Payload, thought)
		case f.Kind == abi.EventBlockStop && f.Block == abi.BlockToolUse:
			start := len(dst)
			dst = append(append(dst, "data: "...), begin...)
			written := false
			if dst, written = appendCall(dst, in.History, f.Index); !written {
				dst = dst[:start]
				continue
			}
		case f.Kind == abi.EventEnd:
			dst = append(append(append(dst, "data: "...), begin...), textPart+`"}`...)
			dst = append(appendEnd(dst, f, &in.Facts), "\n\n"...)
			continue
		default:
			continue
		}
		if to > 0 {
			dst = append(dst, dst[from:to]...)
			continue
		}
		from = len(dst)
		dst = append(appendNames(append(append(dst, endOfParts...), index...), &in.Facts), "\n\n"...)
		to = len(dst)
	}
}

// Response writes a whole answer: one response, or of a stream without alt=sse an
// array of one.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	k := readKept(in.Kept)
	if k&keptArray != 0 {
		dst = append(dst, '[')
	}
	dst = append(dst, begin...)
	empty := len(dst)
	part := func() {
		if len(dst) > empty {
			dst = append(dst, ',')
		}
	}
	all := in.Events
	for f, ok := all.Next(); ok; f, ok = all.Next() {
		switch {
		case f.Kind == abi.EventDelta && f.Block != abi.BlockToolUse:
			if thought := f.Block == abi.BlockThinking; len(f.Payload) > 0 && (!thought || k&keptThoughts != 0) {
				part()
				dst = appendText(dst, f.Payload, thought)
			}
		case f.Kind == abi.EventBlockStop && f.Block == abi.BlockToolUse:
			before, written := len(dst), false
			part()
			if dst, written = appendCall(dst, in.Events, f.Index); !written {
				dst = dst[:before]
			}
		case f.Kind == abi.EventEnd:
			if len(dst) == empty {
				dst = append(dst, textPart+`"}`...)
			}
			dst = appendEnd(dst, f, &in.Facts)
		}
	}
	if k&keptArray != 0 {
		dst = append(dst, ']')
	}
	return dst
}

// appendText appends a part with a piece of text or thinking.
func appendText(dst, text []byte, thought bool) []byte {
	dst = append(append(append(dst, textPart...), text...), '"')
	if thought {
		dst = append(dst, `,"thought":true`...)
	}
	return append(dst, '}')
}

// appendCall appends the part of the call with an index in answer; false where its
// arguments are no object, because the answer ended within them.
func appendCall(dst []byte, answer abi.Frames, index int) ([]byte, bool) {
	var id, name, arguments, thinking []byte
	first := true // no call stands before it
	for f, ok := answer.Next(); ok; f, ok = answer.Next() {
		switch {
		case f.Index > index || f.Kind != abi.EventBlockStart && f.Kind != abi.EventDelta:
		case f.Kind == abi.EventDelta && f.Block == abi.BlockThinking:
			thinking = append(thinking, f.Payload...)
		case f.Block != abi.BlockToolUse:
		case f.Index < index:
			first = false
		case f.Kind == abi.EventBlockStart:
			id, name = f.Tool()
		default:
			arguments = scan.Unescape(arguments, f.Payload)
		}
	}
	if len(arguments) == 0 {
		arguments = []byte("{}")
	}
	var s scan.Scanner
	if s.Reset(arguments); s.Kind() != scan.Object || !s.End() {
		return dst, false
	}
	dst = append(append(append(dst, `{"functionCall":{"id":"`...), id...), `","name":"`...)
	dst = append(append(append(dst, name...), `","args":`...), arguments...)
	dst = append(dst, '}')
	if first && len(thinking) > 0 {
		dst = append(appendSignature(append(dst, `,"thoughtSignature":"`...), thinking), '"')
	}
	return append(dst, '}'), true
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
	dst = append(append(dst, `",`...), index...)
	u := f.Usage()
	dst = strconv.AppendInt(append(dst, `,"usageMetadata":{"promptTokenCount":`...), u.Input(), 10)
	dst = strconv.AppendInt(append(dst, `,"candidatesTokenCount":`...), u.Output-u.Reasoning, 10)
	dst = strconv.AppendInt(append(dst, `,"totalTokenCount":`...), u.Input()+u.Output, 10)
	if u.CacheRead > 0 {
		dst = strconv.AppendInt(append(dst, `,"cachedContentTokenCount":`...), u.CacheRead, 10)
	}
	if u.Reasoning > 0 {
		dst = strconv.AppendInt(append(dst, `,"thoughtsTokenCount":`...), u.Reasoning, 10)
	}
	return appendNames(append(dst, '}'), facts)
}

// appendNames appends which model answered which request, and ends the response.
func appendNames(dst []byte, facts *abi.Facts) []byte {
	dst = abi.AppendEscaped(append(dst, `,"modelVersion":"`...), facts.Model)
	dst = append(append(dst, `","responseId":"`...), facts.ID...)
	return append(dst, `"}`...)
}

// Count writes the answer of countTokens.
func (Translator) Count(dst []byte, in abi.CountInput) []byte {
	return append(strconv.AppendInt(append(dst, `{"totalTokens":`...), in.Tokens, 10), '}')
}

func decimal(n int64) []byte { return strconv.AppendInt(nil, n, 10) }
