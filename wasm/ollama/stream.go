package ollama

import (
	"encoding/binary"
	"time"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/piece"
)

// own is a stream's own state: the request's kept, how many calls there were, and
// how long the answer took, which comes before its end.
type own struct {
	kept    kept
	calls   uint16
	elapsed abi.Elapsed
}

const ownBytes = 1 + 2 + 4*8

func readOwn(b []byte) (o own) {
	if len(b) != ownBytes {
		return o
	}
	at := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[3+8*i:])) }
	return own{kept(b[0]), binary.LittleEndian.Uint16(b[1:]), abi.Elapsed{Total: at(0), Load: at(1), Prompt: at(2), Generation: at(3)}}
}

func (o *own) bytes() []byte {
	b := binary.LittleEndian.AppendUint16([]byte{byte(o.kept)}, o.calls)
	for _, n := range [...]int64{o.elapsed.Total, o.elapsed.Load, o.elapsed.Prompt, o.elapsed.Generation} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// Events writes the lines of one event group.
func (t Translator) Events(dst, next []byte, in abi.EventsInput) (bytes, after []byte) {
	return piece.Events(t, dst, next, in)
}

// Around gives what stands before and after a piece of text; see piece.Writer.
func (Translator) Around(state []byte, facts *abi.Facts, b abi.BlockKind) (before, after []byte) {
	before = appendHead(nil, facts)
	if len(state) > 0 && kept(state[0])&keptGenerate != 0 {
		before, after = append(before, `"response":"`...), []byte("\",\"done\":false}\n")
	} else {
		before, after = append(before, `"message":{"role":"assistant","content":"`...), []byte("\"},\"done\":false}\n")
	}
	if b == abi.BlockThinking {
		before = append(before, `","thinking":"`...)
	}
	return before, after
}

// Other writes a call when its block is over, and the last line.
func (Translator) Other(dst, state []byte, in *abi.EventsInput, f abi.Frame) (bytes, next []byte) {
	o := readOwn(state)
	switch f.Kind {
	case abi.EventStart:
		o = own{kept: readKept(in.Kept)}
	case abi.EventElapsed:
		o.elapsed = f.Elapsed()
	case abi.EventBlockStop:
		if f.Block != abi.BlockToolUse {
			return dst, state
		}
		dst = append(appendHead(dst, &in.Facts), `"message":{"role":"assistant","content":"","tool_calls":[`...)
		dst = appendCall(dst, piece.FindCall(in.History, f.Index), int64(o.calls))
		dst = append(dst, "]},\"done\":false}\n"...)
		o.calls++
	case abi.EventEnd:
		dst = appendHead(dst, &in.Facts)
		if o.kept&keptGenerate != 0 {
			dst = append(dst, `"response":""`...)
		} else {
			dst = append(dst, `"message":{"role":"assistant","content":""}`...)
		}
		return append(appendEnd(dst, f, o.elapsed), '\n'), state
	default:
		return dst, state
	}
	return dst, o.bytes()
}

// Response writes the body of a whole answer.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	dst = appendHead(dst, &in.Facts)
	generate := readKept(in.Kept)&keptGenerate != 0
	if generate {
		dst = append(dst, `"response":"`...)
	} else {
		dst = append(dst, `"message":{"role":"assistant","content":"`...)
	}
	dst = append(piece.AppendTexts(dst, in.Events, abi.BlockText), '"')
	at := len(dst)
	dst = append(dst, `,"thinking":"`...)
	thoughts := len(dst)
	if dst = piece.AppendTexts(dst, in.Events, abi.BlockThinking); len(dst) > thoughts {
		dst = append(dst, '"')
	} else {
		dst = dst[:at]
	}
	var elapsed abi.Elapsed
	var end abi.Frame
	calls := int64(0)
	for events := in.Events; ; {
		f, ok := events.Next()
		if !ok {
			break
		}
		switch {
		case f.Kind == abi.EventBlockStart && f.Block == abi.BlockToolUse:
			if calls == 0 {
				dst = append(dst, `,"tool_calls":[`...)
			} else {
				dst = append(dst, ',')
			}
			dst = appendCall(dst, piece.FindCall(in.Events, f.Index), calls)
			calls++
		case f.Kind == abi.EventElapsed:
			elapsed = f.Elapsed()
		case f.Kind == abi.EventEnd:
			end = f
		}
	}
	if calls > 0 {
		dst = append(dst, ']')
	}
	if !generate {
		dst = append(dst, '}')
	}
	return appendEnd(dst, end, elapsed)
}

// appendHead appends how every line begins. A line's time is when the request came.
func appendHead(dst []byte, facts *abi.Facts) []byte {
	dst = abi.AppendEscaped(append(dst, `{"model":"`...), facts.Model)
	dst = appendTime(append(dst, `","created_at":"`...), facts.Created)
	return append(dst, `",`...)
}

func appendTime(dst []byte, seconds int64) []byte {
	return time.Unix(seconds, 0).UTC().AppendFormat(dst, time.RFC3339)
}

func appendCall(dst []byte, c piece.Call, index int64) []byte {
	dst = append(append(append(dst, `{"id":"`...), c.ID...), `","function":{"name":"`...)
	dst = append(append(dst, c.Name...), '"')
	dst = append(piece.AppendInt(dst, "index", index), `,"arguments":`...)
	return append(c.AppendArguments(dst), '}', '}')
}

// appendEnd appends how the last line ends.
func appendEnd(dst []byte, end abi.Frame, t abi.Elapsed) []byte {
	reason := "stop"
	if end.Stop == abi.StopMaxTokens {
		reason = "length"
	}
	u := end.Usage()
	dst = append(append(append(dst, `,"done":true,"done_reason":"`...), reason...), '"')
	dst = piece.AppendInt(dst, "total_duration", t.Total)
	dst = piece.AppendInt(dst, "load_duration", t.Load)
	dst = piece.AppendInt(dst, "prompt_eval_count", u.Input())
	dst = piece.AppendInt(dst, "prompt_eval_duration", t.Prompt)
	dst = piece.AppendInt(dst, "eval_count", u.Output)
	return append(piece.AppendInt(dst, "eval_duration", t.Generation), '}')
}
