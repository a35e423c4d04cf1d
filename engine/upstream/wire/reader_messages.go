package wire

import (
	"corenode/wasm/abi"
)

// messagesProtocol reads the stream of the messages protocol.
//
// Servers differ in when they close blocks: llama.cpp's stops all come at the end. So a
// block also ends where the next one begins, and a stop of a block that is not open is
// read over.
type messagesProtocol struct {
	o     object
	e     messagesEvent // of the frame that is read
	block struct {      // the server's latest
		index     int64
		kind      string
		name      string
		input     []byte // of a tool use
		pieces    int64  // in which that came
		signature []byte
		stopped   bool
	}
}

// event is what a frame says. Fields that its type does not have are zero.
type messagesEvent struct {
	kind       string
	index      int64
	blockKind  string // content_block.type, or delta.type
	name       string // content_block.name
	text       string // of the block, or the delta: text, thinking, partial_json, or data of thinking that is redacted
	input      string // content_block.input, where a server sends a call at once
	signature  string
	stopReason string
	stopText   string
	errType    string
	errMsg     string
	usage      Usage
}

func (p *messagesProtocol) frame(r *Reader, event, data []byte) error {
	if string(data) == "[DONE]" { // older servers send it behind message_stop, and mean nothing
		return nil
	}
	p.read(data)
	e := &p.e
	if p.o.bad() != nil {
		return broken("event %s is no JSON: %v", word(event), p.o.bad())
	}
	if e.kind == "" {
		e.kind = string(event)
	}
	r.usage.merge(e.usage)
	switch e.kind {
	case "message_start":
		r.start()
	case "content_block_start":
		return p.start(r, e)
	case "content_block_delta":
		return p.delta(r, e)
	case "content_block_stop":
		p.stop(r, e.index)
	case "message_delta":
		if e.stopReason == "refusal" {
			return filtered()
		}
		if e.stopReason != "" {
			p.stop(r, p.block.index)
			r.finish(messagesStop(e.stopReason), e.stopText)
		}
	case "message_stop":
		if !r.finished {
			return broken("message_stop without a stop reason")
		}
		r.end()
	case "ping":
		r.pings++
	case "error":
		return &Failure{Status: messagesStatus(e.errType), Msg: e.errMsg}
	}
	return nil // and what later versions of the protocol may have is read over
}

// start opens a block. A text that stands in it already is its first delta.
func (p *messagesProtocol) start(r *Reader, e *messagesEvent) error {
	p.stop(r, p.block.index)
	b := &p.block
	b.index, b.kind, b.name, b.stopped = e.index, e.blockKind, e.name, false
	b.signature = append(b.signature[:0], e.signature...)
	b.input, b.pieces = append(b.input[:0], e.input...), 0
	r.bytes += int64(len(e.input) + len(e.name))
	if e.input == "{}" { // a call's arguments follow
		b.input = b.input[:0]
	}
	switch b.kind {
	case "text":
		r.begin(abi.BlockText)
		r.text(abi.BlockText, e.text)
	case "thinking":
		r.begin(abi.BlockThinking)
		r.text(abi.BlockThinking, e.text)
	case "tool_use":
		if b.name == "" || len(b.name) > nameBytesMax {
			return broken("a tool_use block has a name of %d bytes", len(b.name))
		}
	case "redacted_thinking": // nobody but the server can read it, and nobody replays it here
		r.bytes += int64(len(e.text))
	default:
		return broken("a content block has the type %s", word(b.kind))
	}
	return nil
}

func (p *messagesProtocol) delta(r *Reader, e *messagesEvent) error {
	b := &p.block
	if b.kind == "" || b.stopped || e.index != b.index {
		return broken("a delta of block %d, which is not open", e.index)
	}
	switch {
	case e.blockKind == "text_delta" && b.kind == "text":
		r.text(abi.BlockText, e.text)
	case e.blockKind == "thinking_delta" && b.kind == "thinking":
		r.text(abi.BlockThinking, e.text)
	case e.blockKind == "signature_delta" && b.kind == "thinking":
		r.bytes += int64(len(e.signature))
		if b.signature = append(b.signature, e.signature...); len(b.signature) > frameBytesMax {
			return broken("a signature of more than %d bytes", frameBytesMax)
		}
	case e.blockKind == "input_json_delta" && b.kind == "tool_use":
		b.pieces++
		r.deltas++
		r.held++
		r.bytes += int64(len(e.text))
		if b.input = append(b.input, e.text...); len(b.input) > frameBytesMax {
			return broken("a call of more than %d bytes", frameBytesMax)
		}
	default:
		return broken("a %s within a %q block", word(e.blockKind), b.kind)
	}
	return nil
}

// stop closes a block, if it is the open one.
func (p *messagesProtocol) stop(r *Reader, index int64) {
	b := &p.block
	if b.kind == "" || b.stopped || index != b.index {
		return
	}
	b.stopped = true
	if b.kind == "tool_use" {
		r.call(b.name, string(b.input), b.pieces)
	} else {
		r.close(string(b.signature))
	}
}

// messagesStop takes a stop reason to ours. One that is not in the contract ends the
// answer as its end does.
func messagesStop(reason string) abi.StopReason {
	switch reason {
	case "max_tokens", "model_context_window_exceeded":
		return abi.StopMaxTokens
	case "tool_use":
		return abi.StopToolUse
	case "stop_sequence":
		return abi.StopStopSequence
	}
	return abi.StopEndTurn
}

// messagesStatus is the status that an error type stands for.
func messagesStatus(kind string) int {
	switch kind {
	case "invalid_request_error":
		return 400
	case "authentication_error":
		return 401
	case "billing_error":
		return 402
	case "permission_error":
		return 403
	case "not_found_error":
		return 404
	case "rate_limit_error":
		return 429
	case "overloaded_error":
		return 503
	}
	return 500
}

func (p *messagesProtocol) read(data []byte) {
	o, e := &p.o, &p.e
	*e = messagesEvent{}
	o.open(data)
	o.members(func(name []byte) {
		switch string(name) {
		case "type":
			e.kind = o.string()
		case "index":
			e.index, _ = o.int()
		case "message":
			o.members(func(name []byte) {
				if string(name) == "usage" {
					e.usage = p.usage()
				}
			})
		case "content_block", "delta":
			p.blockMembers()
		case "usage":
			e.usage = p.usage()
		case "error":
			p.failure()
		}
	})
}

// blockMembers reads a content_block or a delta: their members do not overlap in meaning.
func (p *messagesProtocol) blockMembers() {
	o, e := &p.o, &p.e
	o.members(func(name []byte) {
		switch string(name) {
		case "type":
			e.blockKind = o.string()
		case "text", "thinking", "partial_json", "data":
			e.text = o.string()
		case "signature":
			e.signature = o.string()
		case "name":
			e.name = o.string()
		case "input":
			e.input = o.raw()
		case "stop_reason":
			e.stopReason = o.string()
		case "stop_sequence":
			e.stopText = o.string()
		}
	})
}

func (p *messagesProtocol) failure() {
	o, e := &p.o, &p.e
	o.members(func(name []byte) {
		switch string(name) {
		case "type":
			e.errType = o.string()
		case "message":
			e.errMsg = o.string()
		}
	})
}

// usage reads a usage object. Its input excludes the cached tokens.
func (p *messagesProtocol) usage() (u Usage) {
	o := &p.o
	var uncached, created int64
	input := false
	o.members(func(name []byte) {
		switch string(name) {
		case "input_tokens":
			uncached, input = o.int()
		case "cache_read_input_tokens":
			u.Cached, u.CachedKnown = o.int()
		case "cache_creation_input_tokens":
			created, _ = o.int()
		case "output_tokens":
			u.Output, u.Known = o.int()
		case "output_tokens_details":
			o.detail("thinking_tokens", &u.Reasoning, &u.ReasoningKnown)
		case "reasoning_tokens": // a node of an earlier version says them to a node
			u.Reasoning, u.ReasoningKnown = o.int()
		}
	})
	if input {
		u.Input = uncached + u.Cached + created
	}
	return u
}

// merge takes a later report: its counts grow, and what it leaves out stays.
func (u *Usage) merge(next Usage) {
	u.Input = max(u.Input, next.Input)
	if next.Output >= u.Output {
		u.Output, u.Beside = next.Output, next.Beside
	}
	u.Reasoning = max(u.Reasoning, next.Reasoning)
	u.Known, u.ReasoningKnown = u.Known || next.Known, u.ReasoningKnown || next.ReasoningKnown
	if next.CachedKnown {
		u.Cached, u.CachedKnown = next.Cached, true
	}
}
