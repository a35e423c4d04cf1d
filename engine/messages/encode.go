package messages

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"hash"
	"strconv"

	"corenode/wasm/abi"
)

// Encoder writes the events of one answer in the messages protocol. It keeps
// no text: its memory does not grow with the answer.
type Encoder struct {
	id, model string
	mac       func() hash.Hash // starts the signature of a thinking block
	signature hash.Hash        // of the open thinking block, nil outside
	reasoning bool
}

// ShowReasoning says in the usage how much of the output is thinking once more, by the name under which nodes of earlier
// versions read it.
func (e *Encoder) ShowReasoning() { e.reasoning = true }

// NewEncoder starts an answer. mac returns the keyed hash that signs a
// thinking block's text, already fed with what the signature is bound to.
func NewEncoder(id, model string, mac func() hash.Hash) *Encoder {
	return &Encoder{id: id, model: model, mac: mac}
}

// AppendPing appends the keep-alive event.
func AppendPing(dst []byte) []byte {
	return append(dst, "event: ping\ndata: {\"type\":\"ping\"}\n\n"...)
}

// AppendEvents appends the frames of an event group. EventError is not among
// them: the envelope of errors is the front end's.
func (e *Encoder) AppendEvents(dst []byte, events []abi.Event) []byte {
	for i := range events {
		dst = e.appendEvent(dst, &events[i])
	}
	return dst
}

func (e *Encoder) appendEvent(dst []byte, ev *abi.Event) []byte {
	switch ev.Kind {
	case abi.EventStart:
		dst = append(dst, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":"...)
		dst = e.appendHead(dst)
		dst = append(dst, `[],"stop_reason":null,"stop_sequence":null,"usage":`...)
		dst = e.appendUsage(dst, ev.Usage)
		dst = append(dst, "}}\n\n"...)
	case abi.EventBlockStart:
		dst = append(dst, "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":"...)
		dst = strconv.AppendInt(dst, int64(ev.Index), 10)
		dst = append(dst, `,"content_block":`...)
		dst = appendEmptyBlock(dst, ev)
		dst = append(dst, "}\n\n"...)
		if ev.Block == abi.BlockThinking {
			e.signature = e.mac()
		}
	case abi.EventDelta:
		if ev.Block == abi.BlockThinking {
			e.signature.Write([]byte(ev.Text))
		}
		dst = appendDelta(dst, ev.Index, deltaHeads[ev.Block], ev.Text)
	case abi.EventBlockStop:
		dst = e.appendBlockStop(dst, ev)
	case abi.EventEnd:
		dst = append(dst, "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{"...)
		dst = appendStop(dst, ev)
		dst = append(dst, `},"usage":`...)
		dst = e.appendUsage(dst, ev.Usage)
		dst = append(dst, "}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"...)
	}
	return dst
}

// deltaHeads stand between a delta's index and its text.
var deltaHeads = [...]string{
	abi.BlockThinking: `,"delta":{"type":"thinking_delta","thinking":`,
	abi.BlockText:     `,"delta":{"type":"text_delta","text":`,
	abi.BlockToolUse:  `,"delta":{"type":"input_json_delta","partial_json":`,
}

func appendDelta(dst []byte, index int32, head, text string) []byte {
	dst = append(dst, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(index), 10)
	dst = appendString(append(dst, head...), text)
	return append(dst, "}}\n\n"...)
}

// appendBlockStop closes a block; a thinking block is signed first.
func (e *Encoder) appendBlockStop(dst []byte, ev *abi.Event) []byte {
	if ev.Block == abi.BlockThinking {
		dst = appendDelta(dst, ev.Index, `,"delta":{"type":"signature_delta","signature":`, e.sum()+ev.Signature)
	}
	dst = append(dst, "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":"...)
	dst = strconv.AppendInt(dst, int64(ev.Index), 10)
	return append(dst, "}\n\n"...)
}

// sum ends the open thinking block's signature.
func (e *Encoder) sum() string {
	s := base64.StdEncoding.EncodeToString(e.signature.Sum(nil))
	e.signature = nil
	return s
}

// AppendMessage appends the JSON object of an answer from all its events,
// which end with EventEnd.
func (e *Encoder) AppendMessage(dst []byte, events []abi.Event) []byte {
	dst = e.appendHead(dst)
	dst = append(dst, '[')
	var end *abi.Event
	for i := 0; i < len(events); i++ {
		switch events[i].Kind {
		case abi.EventBlockStart:
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			text, next := blockText(events, i+1)
			dst = e.appendBlock(dst, &events[i], text, events[next].Signature)
			i = next
		case abi.EventEnd:
			end = &events[i]
		}
	}
	dst = append(dst, "],"...)
	dst = appendStop(dst, end)
	dst = append(dst, `,"usage":`...)
	dst = e.appendUsage(dst, end.Usage)
	return append(dst, '}')
}

// blockText joins the deltas from index i on and returns the index of the block's stop.
func blockText(events []abi.Event, i int) (text []byte, stop int) {
	for ; events[i].Kind == abi.EventDelta; i++ {
		text = append(text, events[i].Text...)
	}
	return text, i
}

// appendBlock appends a whole block. The signature is the upstream server's.
func (e *Encoder) appendBlock(dst []byte, start *abi.Event, text []byte, signature string) []byte {
	switch start.Block {
	case abi.BlockThinking:
		e.signature = e.mac()
		e.signature.Write(text)
		dst = append(dst, `{"type":"thinking","thinking":`...)
		dst = appendString(dst, string(text))
		dst = append(dst, `,"signature":`...)
		dst = appendString(dst, e.sum()+signature)
	case abi.BlockText:
		dst = append(dst, `{"type":"text","text":`...)
		dst = appendString(dst, string(text))
	case abi.BlockToolUse:
		dst = appendToolHead(dst, start)
		if b := bytes.TrimLeft(text, " \t\r\n"); len(b) == 0 || b[0] != '{' || !json.Valid(b) { // whoever made it has checked it
			text = []byte("{}")
		}
		dst = append(dst, text...)
	}
	return append(dst, '}')
}

func (e *Encoder) appendHead(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, e.id)
	dst = append(dst, `,"type":"message","role":"assistant","model":`...)
	dst = appendString(dst, e.model)
	return append(dst, `,"content":`...)
}

func appendToolHead(dst []byte, ev *abi.Event) []byte {
	dst = append(dst, `{"type":"tool_use","id":`...)
	dst = appendString(dst, ev.ID)
	dst = append(dst, `,"name":`...)
	dst = appendString(dst, ev.Name)
	return append(dst, `,"input":`...)
}

func appendEmptyBlock(dst []byte, ev *abi.Event) []byte {
	switch ev.Block {
	case abi.BlockThinking:
		return append(dst, `{"type":"thinking","thinking":"","signature":""}`...)
	case abi.BlockToolUse:
		return append(appendToolHead(dst, ev), "{}}"...)
	default:
		return append(dst, `{"type":"text","text":""}`...)
	}
}

func appendStop(dst []byte, ev *abi.Event) []byte {
	dst = append(dst, `"stop_reason":"`...)
	dst = append(dst, ev.Stop.String()...)
	dst = append(dst, `","stop_sequence":`...)
	if ev.Stop == abi.StopStopSequence {
		return appendString(dst, ev.StopSequence)
	}
	return append(dst, "null"...)
}

func (e *Encoder) appendUsage(dst []byte, u abi.Usage) []byte {
	dst = append(dst, `{"input_tokens":`...)
	dst = strconv.AppendInt(dst, u.InputUncached, 10)
	dst = append(dst, `,"cache_read_input_tokens":`...)
	dst = strconv.AppendInt(dst, u.CacheRead, 10)
	dst = append(dst, `,"output_tokens":`...)
	dst = strconv.AppendInt(dst, u.Output, 10)
	dst = append(dst, `,"output_tokens_details":{"thinking_tokens":`...)
	dst = strconv.AppendInt(dst, u.Reasoning, 10)
	dst = append(dst, '}')
	if e.reasoning {
		dst = append(dst, `,"reasoning_tokens":`...)
		dst = strconv.AppendInt(dst, u.Reasoning, 10)
	}
	return append(dst, '}')
}

// appendString appends s as a JSON string. Events carry valid UTF-8; should
// some not be, the replacement character stands in: never an unparsable frame.
func appendString(dst []byte, s string) []byte {
	return append(abi.AppendEscaped(append(dst, '"'), s), '"')
}
