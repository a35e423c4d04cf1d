package chat

import (
	"strconv"

	"corenode/wasm/abi"
)

// Response writes the body of a whole answer. Blocks of one kind are one text;
// a block may come in any number of deltas.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	dst = append(append(dst, `{"id":"chatcmpl-`...), in.Facts.ID...)
	dst = strconv.AppendInt(append(dst, `","object":"chat.completion","created":`...), in.Facts.Created, 10)
	dst = abi.AppendEscaped(append(dst, `,"model":"`...), in.Facts.Model)
	dst = append(dst, `","choices":[{"index":0,"message":{"role":"assistant"`...)
	seen := survey(in.Events)
	if seen.thinking {
		dst = appendTexts(append(dst, `,"reasoning_content":"`...), in.Events, abi.BlockThinking)
	}
	if seen.text || !seen.calls {
		dst = appendTexts(append(dst, `,"content":"`...), in.Events, abi.BlockText)
	} else {
		dst = append(dst, `,"content":null`...)
	}
	dst = append(dst, `,"refusal":null`...)
	if seen.calls {
		dst = appendCalls(append(dst, `,"tool_calls":[`...), in.Events)
	}
	dst = append(append(dst, `},"logprobs":null,"finish_reason":"`...), finishReason(seen.stop)...)
	dst = appendUsage(append(dst, `"}],"usage":`...), seen.usage)
	return append(dst, '}')
}

// seen is what an answer holds.
type seen struct {
	thinking, text, calls bool
	stop                  abi.StopReason
	usage                 abi.Usage
}

func survey(events abi.Frames) (s seen) {
	for {
		f, ok := events.Next()
		if !ok {
			return s
		}
		switch f.Kind {
		case abi.EventBlockStart:
			s.calls = s.calls || f.Block == abi.BlockToolUse
		case abi.EventDelta:
			s.thinking = s.thinking || f.Block == abi.BlockThinking
			s.text = s.text || f.Block == abi.BlockText && len(f.Payload) > 0
		case abi.EventEnd:
			s.stop, s.usage = f.Stop, f.Usage()
		}
	}
}

// appendTexts appends the deltas of one kind of block and the closing quote.
func appendTexts(dst []byte, events abi.Frames, b abi.BlockKind) []byte {
	for {
		f, ok := events.Next()
		if !ok {
			return append(dst, '"')
		}
		if f.Kind == abi.EventDelta && f.Block == b {
			dst = append(dst, f.Payload...)
		}
	}
}

// appendCalls appends the tool calls and the closing bracket. Arguments are
// never an empty string: clients parse them as JSON.
func appendCalls(dst []byte, events abi.Frames) []byte {
	open, empty := false, false
	for {
		f, ok := events.Next()
		starts := ok && f.Kind == abi.EventBlockStart && f.Block == abi.BlockToolUse
		if open && (!ok || starts) {
			if empty {
				dst = append(dst, "{}"...)
			}
			dst = append(dst, `"}}`...)
		}
		switch {
		case !ok:
			return append(dst, ']')
		case starts:
			if open {
				dst = append(dst, ',')
			}
			id, name := f.Tool()
			dst = append(append(append(dst, `{"id":"`...), id...), `","type":"function","function":{"name":"`...)
			dst = append(append(dst, name...), `","arguments":"`...)
			open, empty = true, true
		case f.Kind == abi.EventDelta && f.Block == abi.BlockToolUse && len(f.Payload) > 0:
			dst = append(dst, f.Payload...)
			empty = false
		}
	}
}
