package chat

import (
	"encoding/binary"
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/piece"
)

// Pieces of a chunk. Between the head, which is the same on every chunk of an
// answer, and a tail stands one delta.
const (
	chunkDelta = `,"choices":[{"index":0,"delta":{`
	chunkUsage = `,"choices":[],"usage":`

	tail      = "},\"logprobs\":null,\"finish_reason\":null}]}\n\n"
	tailUsage = "},\"logprobs\":null,\"finish_reason\":null}],\"usage\":null}\n\n"

	finish     = "},\"logprobs\":null,\"finish_reason\":\""
	endOfChunk = "}\n\n"
	done       = "data: [DONE]\n\n"
)

// openings are what begins a text of a block kind.
var openings = [...]string{abi.BlockThinking: `"reasoning_content":"`, abi.BlockText: `"content":"`}

// appendHead appends how a chunk begins. The model id comes from the operator's
// configuration and may hold anything.
func appendHead(dst []byte, f *abi.Facts) []byte {
	dst = append(append(append(dst, `data: {"id":"chatcmpl-`...), f.ID...), `","object":"chat.completion.chunk","created":`...)
	dst = append(strconv.AppendInt(dst, f.Created, 10), `,"model":"`...)
	return append(abi.AppendEscaped(dst, f.Model), '"')
}

// own is a stream's own state.
type own struct {
	kept  kept
	bare  byte   // not 0: the tool call that is open has no arguments yet
	calls uint16 // tool calls begun; the last one has index calls-1
	head  []byte // how each chunk begins; empty where there is no room for it
}

const ownBytes = 4

func readOwn(b []byte) (o own) {
	if len(b) >= ownBytes {
		o = own{kept(b[0]), b[1], binary.LittleEndian.Uint16(b[2:]), b[ownBytes:]}
	}
	return o
}

func (o own) bytes() []byte {
	b := []byte{byte(o.kept), o.bare, byte(o.calls), byte(o.calls >> 8)}
	if len(o.head) > piece.OwnBytesMax-ownBytes {
		return b
	}
	return append(b, o.head...)
}

// tail ends a chunk that does not finish the answer.
func (o own) tail() string {
	if o.kept&keptUsage != 0 {
		return tailUsage
	}
	return tail
}

// Events writes the chunks of one event group.
func (t Translator) Events(dst, next []byte, in abi.EventsInput) (bytes, after []byte) {
	return piece.Events(t, dst, next, in)
}

// Around gives what stands before and after a piece of text; see piece.Writer.
func (Translator) Around(state []byte, facts *abi.Facts, b abi.BlockKind) (before, after []byte) {
	return append(append(appendHead(nil, facts), chunkDelta...), openings[b]...), []byte(`"` + readOwn(state).tail())
}

// Other writes the first chunk, those of calls, and the end.
func (Translator) Other(dst, state []byte, in *abi.EventsInput, f abi.Frame) (bytes, next []byte) {
	o := readOwn(state)
	switch {
	case f.Kind == abi.EventStart:
		o = own{kept: readKept(in.Kept), head: appendHead(nil, &in.Facts)}
		dst = append(appendHead(dst, &in.Facts), chunkDelta+`"role":"assistant","content":""`...)
	case f.Kind == abi.EventEnd:
		return o.appendEnd(dst, &in.Facts, f), state
	case f.Block != abi.BlockToolUse:
		return dst, state
	case f.Kind == abi.EventBlockStart:
		o.calls, o.bare = o.calls+1, 1
		id, name := f.Tool()
		dst = append(append(append(o.appendCall(dst, &in.Facts), `,"id":"`...), id...), `","type":"function","function":{"name":"`...)
		dst = append(append(dst, name...), `","arguments":""}}]`...)
	case f.Kind == abi.EventDelta && len(f.Payload) > 0:
		dst = append(o.appendCall(dst, &in.Facts), `,"function":{"arguments":"`...)
		dst = append(append(append(dst, f.Payload...), `"}}]`...), o.tail()...)
		if o.bare != 0 {
			o.bare = 0
			state = o.bytes()
		}
		return dst, state
	case f.Kind == abi.EventBlockStop && o.bare != 0: // clients parse arguments as JSON
		dst = append(o.appendCall(dst, &in.Facts), `,"function":{"arguments":"{}"}}]`...)
	default:
		return dst, state
	}
	return append(dst, o.tail()...), o.bytes()
}

// appendCall begins a chunk of the call that is open.
func (o own) appendCall(dst []byte, f *abi.Facts) []byte {
	if len(o.head) > 0 {
		dst = append(dst, o.head...)
	} else {
		dst = appendHead(dst, f)
	}
	dst = append(dst, chunkDelta+`"tool_calls":[{"index":`...)
	return strconv.AppendInt(dst, int64(o.calls)-1, 10)
}

// appendEnd finishes the answer: the reason, the usage if it was asked for, the mark.
func (o own) appendEnd(dst []byte, facts *abi.Facts, f abi.Frame) []byte {
	dst = append(append(append(appendHead(dst, facts), chunkDelta+finish...), finishReason(f.Stop)...), "\"}]"...)
	if o.kept&keptUsage != 0 {
		dst = append(appendHead(append(dst, ",\"usage\":null"+endOfChunk...), facts), chunkUsage...)
		dst = appendUsage(dst, f.Usage())
	}
	return append(dst, endOfChunk+done...)
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
