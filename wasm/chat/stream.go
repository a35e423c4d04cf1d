package chat

import (
	"bytes"
	"encoding/binary"
	"strconv"

	"corenode/wasm/abi"
)

// state is what one event group leaves for the next: stateBytes of it, and
// behind them what stands before a piece of text of the open block, made at the
// first one, so that later groups need not make it again. From then on it
// changes with the kind of block only.
type state struct {
	kept  kept
	bare  byte          // not 0: the tool call that is open has no arguments yet
	calls uint16        // tool calls begun; the last one has index calls-1
	block abi.BlockKind // thinking or text: the texts that before is for
}

const (
	stateBytes = 5
	stateBlock = 4 // where block stands
	// beforeBytesMax is the most that a state carries behind its own bytes; what
	// is longer, with a very long model id, is made again for every group.
	beforeBytesMax = 1 << 10
)

// readState takes a state apart. before is empty until it is made.
func readState(b []byte) (s state, before []byte) {
	if len(b) < stateBytes || b[stateBlock] > byte(abi.BlockText) {
		return state{}, nil
	}
	return state{kept: kept(b[0]), bare: b[1], calls: uint16(b[2]) | uint16(b[3])<<8, block: abi.BlockKind(b[stateBlock])}, b[stateBytes:]
}

func (s state) append(dst, before []byte) []byte {
	dst = append(dst, byte(s.kept), s.bare, byte(s.calls), byte(s.calls>>8), byte(s.block))
	if len(before) > beforeBytesMax {
		return dst
	}
	return append(dst, before...)
}

// Pieces of a chunk. Between the head, which is the same on every chunk of an
// answer, and a tail stands one delta.
const (
	chunkBegin  = `data: {"id":"chatcmpl-`
	chunkObject = `","object":"chat.completion.chunk","created":`
	chunkModel  = `,"model":"`
	chunkDelta  = `","choices":[{"index":0,"delta":{`
	chunkUsage  = `","choices":[],"usage":`

	tail          = "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	tailUsage     = "},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"
	textTail      = `"` + tail
	textTailUsage = `"` + tailUsage

	finish     = "},\"logprobs\":null,\"finish_reason\":\""
	endOfChunk = "}\n\n"
	done       = "data: [DONE]\n\n"
)

// frameHeader is the size of what stands before a frame's payload.
const frameHeader = 8

// Events writes the chunks of one event group. Pieces of text are nearly all
// of them, so the loop reads their frames itself, calls little and moves no
// structures: a Go guest pays for each of these as for dozens of bytes.
func (Translator) Events(dst, next []byte, in abi.EventsInput) ([]byte, []byte) {
	st, before := readState(in.State)
	if len(before) == 0 {
		before = append(appendHead(nil, in.Facts.ID, in.Facts.Model, in.Facts.Created), openings[st.block]...)
	}
	head := bytes.TrimSuffix(before, []byte(openings[st.block]))
	for b := []byte(in.Events); len(b) >= frameHeader; {
		size := frameHeader + int(binary.LittleEndian.Uint32(b[4:]))
		if size > len(b) {
			break
		}
		frame, block := b[:size], abi.BlockKind(b[1])
		b = b[size:]
		if frame[0] != byte(abi.EventDelta) || block > abi.BlockText {
			if st.see(frame, in.Kept) {
				dst = st.appendRare(append(dst, head...), head, frame)
			}
			continue
		}
		if size == frameHeader {
			continue
		}
		if block == st.block {
			dst = append(dst, before...)
		} else {
			at := len(dst)
			dst = append(append(dst, head...), openings[block]...)
			st.block, before = block, dst[at:len(dst):len(dst)]
		}
		dst = append(append(dst, frame[frameHeader:]...), '"')
		dst = append(dst, st.tail()...)
	}
	return dst, st.append(next, before)
}

// openings are what begins a text of a block kind.
var openings = [...]string{abi.BlockThinking: `"reasoning_content":"`, abi.BlockText: `"content":"`}

// see takes note of a frame and says whether it makes a chunk.
func (s *state) see(frame, request []byte) bool {
	tool := abi.BlockKind(frame[1]) == abi.BlockToolUse
	switch abi.EventKind(frame[0]) {
	case abi.EventStart:
		*s = state{kept: readKept(request), block: s.block}
		return true
	case abi.EventDelta:
		some := tool && len(frame) > frameHeader
		if some {
			s.bare = 0
		}
		return some
	case abi.EventBlockStart:
		if tool {
			s.calls++
			s.bare = 1
		}
		return tool
	case abi.EventBlockStop:
		return tool && s.bare != 0
	case abi.EventEnd:
		return true
	}
	return false // a kind of a later version
}

// appendHead appends the head of a chunk, up to its delta. The model id comes
// from the operator's configuration and may hold anything.
func appendHead(dst []byte, id, model string, created int64) []byte {
	dst = append(append(append(dst, chunkBegin...), id...), chunkObject...)
	dst = append(strconv.AppendInt(dst, created, 10), chunkModel...)
	return append(abi.AppendEscaped(dst, model), chunkDelta...)
}

// tail ends a chunk that does not finish the answer.
func (s state) tail() string {
	if s.kept&keptUsage != 0 {
		return tailUsage
	}
	return tail
}

// appendRare appends what follows the head of a chunk that is no piece of text.
func (s state) appendRare(dst, head, frame []byte) []byte {
	events := abi.Frames(frame)
	f, _ := events.Next()
	switch f.Kind {
	case abi.EventStart:
		dst = append(dst, `"role":"assistant","content":""`...)
	case abi.EventBlockStart:
		id, name := f.Tool()
		dst = s.appendIndex(dst)
		dst = append(append(append(dst, `,"id":"`...), id...), `","type":"function","function":{"name":"`...)
		dst = append(append(dst, name...), `","arguments":""}}]`...)
	case abi.EventDelta:
		dst = append(s.appendIndex(dst), `,"function":{"arguments":"`...)
		dst = append(append(dst, f.Payload...), `"}}]`...)
	case abi.EventBlockStop: // of a call without arguments: clients parse them as JSON
		dst = append(s.appendIndex(dst), `,"function":{"arguments":"{}"}}]`...)
	case abi.EventEnd:
		return s.appendEnd(dst, head, f)
	}
	return append(dst, s.tail()...)
}

func (s state) appendIndex(dst []byte) []byte {
	dst = append(dst, `"tool_calls":[{"index":`...)
	return strconv.AppendInt(dst, int64(s.calls)-1, 10)
}

// appendEnd finishes the answer: the reason, the usage if it was asked for, the mark.
func (s state) appendEnd(dst, head []byte, f abi.Frame) []byte {
	dst = append(append(dst, finish...), finishReason(f.Stop)...)
	if s.kept&keptUsage == 0 {
		return append(append(dst, "\"}]}\n\n"...), done...)
	}
	dst = append(dst, "\"}],\"usage\":null}\n\n"...)
	dst = append(dst, bytes.TrimSuffix(head, []byte(chunkDelta))...)
	dst = appendUsage(append(dst, chunkUsage...), f.Usage())
	return append(append(dst, endOfChunk...), done...)
}

func finishReason(r abi.StopReason) string {
	switch r {
	case abi.StopMaxTokens:
		return "length"
	case abi.StopToolUse:
		return "tool_calls"
	}
	return "stop"
}

// appendUsage appends the usage object: here the cached tokens are part of the
// prompt, and the reasoning part of the completion.
func appendUsage(dst []byte, u abi.Usage) []byte {
	dst = strconv.AppendInt(append(dst, `{"prompt_tokens":`...), u.Input(), 10)
	dst = strconv.AppendInt(append(dst, `,"completion_tokens":`...), u.Output, 10)
	dst = strconv.AppendInt(append(dst, `,"total_tokens":`...), u.Input()+u.Output, 10)
	dst = strconv.AppendInt(append(dst, `,"prompt_tokens_details":{"cached_tokens":`...), u.CacheRead, 10)
	dst = strconv.AppendInt(append(dst, `},"completion_tokens_details":{"reasoning_tokens":`...), u.Reasoning, 10)
	return append(dst, "}}"...)
}
