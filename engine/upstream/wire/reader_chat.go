package wire

import (
	"strconv"

	"corenode/wasm/abi"
	"corenode/wasm/sdk/scan"
)

// chatProtocol reads the stream of the chat completions protocol. Reasoning comes as
// reasoning_content, or as reasoning from newer servers. A stop sequence that was hit is
// stop_reason (vLLM) or matched_stop (SGLang), where it is a text.
type chatProtocol struct {
	o     object
	calls []chatCall // by the server's index
}

type chatCall struct {
	name   string
	input  []byte
	pieces int64
	given  bool
}

// chatChunk is what a chunk says.
type chatChunk struct {
	text, thought    string
	finish, stopText string
	errMsg, errCode  string
	failed           bool
	usage            Usage
}

func (p *chatProtocol) frame(r *Reader, _, data []byte) error {
	if string(data) == "[DONE]" {
		if !r.finished {
			return broken("[DONE] without a finish reason")
		}
		r.end()
		return nil
	}
	c, tooLong := p.read(r, data)
	if p.o.bad() != nil {
		return broken("a chunk cannot be read: %v", p.o.bad())
	}
	if c.failed {
		status, _ := strconv.Atoi(c.errCode)
		return &Failure{Status: status, Msg: c.errMsg}
	}
	if tooLong {
		return broken("a call of more than %d bytes, with a name of more than %d, or too many of them", frameBytesMax, nameBytesMax)
	}
	r.usage.merge(c.usage)
	r.start()
	r.text(abi.BlockThinking, c.thought)
	r.text(abi.BlockText, c.text)
	if err := p.give(r, len(p.calls)-1); err != nil {
		return err
	}
	switch c.finish {
	case "":
		return nil
	case "abort", "error", "insufficient_system_resource": // the engine gave up: what came is no answer
		return broken("it ended with the reason %s", word(c.finish))
	case "content_filter":
		return filtered()
	}
	if err := p.give(r, len(p.calls)); err != nil {
		return err
	}
	r.finish(chatStop(c.finish), c.stopText)
	return nil
}

// give hands on the calls below n that are complete: a call is when the next one begins,
// or the answer ends.
func (p *chatProtocol) give(r *Reader, n int) error {
	for i := range p.calls[:max(0, n)] {
		c := &p.calls[i]
		if c.given {
			continue
		}
		if c.name == "" {
			return broken("a call has no name")
		}
		c.given = true
		r.call(c.name, string(c.input), c.pieces)
	}
	return nil
}

// chatStop takes a finish reason to ours. One that nobody knows ends the answer as its end does.
func chatStop(reason string) abi.StopReason {
	switch reason {
	case "length", "model_length": // of max_tokens, of the context window
		return abi.StopMaxTokens
	case "tool_calls", "function_call":
		return abi.StopToolUse
	}
	return abi.StopEndTurn
}

func (p *chatProtocol) read(r *Reader, data []byte) (c chatChunk, tooLong bool) {
	o := &p.o
	o.open(data)
	if o.scan.Kind() != scan.Object {
		o.fail(broken("a chunk is no object"))
		return c, false
	}
	o.members(func(name []byte) {
		switch string(name) {
		case "choices":
			o.elements(func() { tooLong = p.choice(r, &c) || tooLong })
		case "usage":
			c.usage = p.usage()
		case "error":
			p.failure(&c)
		}
	})
	return c, tooLong
}

func (p *chatProtocol) choice(r *Reader, c *chatChunk) (tooLong bool) {
	o := &p.o
	o.members(func(name []byte) {
		switch string(name) {
		case "delta":
			tooLong = p.delta(r, c) || tooLong
		case "finish_reason":
			c.finish = o.string()
		case "stop_reason", "matched_stop":
			c.stopText = o.string() // a number is a stop token: no text
		}
	})
	return tooLong
}

func (p *chatProtocol) delta(r *Reader, c *chatChunk) (tooLong bool) {
	o := &p.o
	o.members(func(name []byte) {
		switch string(name) {
		case "content":
			c.text = o.string()
		case "reasoning_content", "reasoning":
			if text := o.string(); text != "" { // servers that send both send the same
				c.thought = text
			}
		case "tool_calls":
			o.elements(func() { tooLong = p.call(r) || tooLong })
		}
	})
	return tooLong
}

// chatCallsMax bounds the calls of one answer.
const chatCallsMax = 1024

// nameBytesMax bounds the name of a call, which comes in pieces too. Names of tools are shorter.
const nameBytesMax = 1024

// call reads a piece of a call. Pieces without an index belong to the latest one.
func (p *chatProtocol) call(r *Reader) (tooLong bool) {
	o := &p.o
	index, name, input := int64(len(p.calls)-1), "", ""
	o.members(func(member []byte) {
		switch string(member) {
		case "index":
			if n, ok := o.int(); ok {
				index = n
			}
		case "function":
			o.members(func(member []byte) {
				switch string(member) {
				case "name":
					name = o.string()
				case "arguments":
					if o.scan.Kind() == scan.Object { // against the protocol, and seen
						input = o.raw()
					} else {
						input = o.string()
					}
				}
			})
		}
	})
	if index < 0 {
		index = 0
	}
	if index >= chatCallsMax || index > int64(len(p.calls)) {
		return true
	}
	if index == int64(len(p.calls)) {
		p.calls = append(p.calls, chatCall{})
	}
	call := &p.calls[index]
	if call.given && name+input != "" {
		o.fail(broken("more of a call that was complete"))
		return false
	}
	if len(call.name)+len(name) > nameBytesMax {
		return true
	}
	call.name += name
	call.input = append(call.input, input...)
	call.pieces++
	r.deltas++
	r.held++
	r.bytes += int64(len(name) + len(input))
	return len(call.input) > frameBytesMax
}

func (p *chatProtocol) failure(c *chatChunk) {
	o := &p.o
	if o.scan.Kind() == scan.Null { // error: null
		return
	}
	c.failed = true
	if o.scan.Kind() == scan.String {
		c.errMsg = o.string()
		return
	}
	o.members(func(name []byte) {
		switch string(name) {
		case "message":
			c.errMsg = o.string()
		case "code":
			if o.scan.Kind() == scan.Number {
				c.errCode = o.raw()
			} else {
				c.errCode = o.string()
			}
		}
	})
}

// usage reads a usage object. Its prompt includes the cached tokens, its completion the reasoning, but at
// servers that report that beside it: the total says so or, where it says nothing, more reasoning than completion.
func (p *chatProtocol) usage() (u Usage) {
	o, total := &p.o, int64(0)
	o.members(func(name []byte) {
		switch string(name) {
		case "total_tokens":
			total, _ = o.int()
		case "prompt_tokens":
			u.Input, _ = o.int()
		case "completion_tokens":
			u.Output, u.Known = o.int()
		case "prompt_tokens_details":
			o.detail("cached_tokens", &u.Cached, &u.CachedKnown)
		case "completion_tokens_details":
			o.detail("reasoning_tokens", &u.Reasoning, &u.ReasoningKnown)
		}
	})
	among, beside := u.Input+u.Output, u.Input+u.Output+u.Reasoning
	if total == beside || total != among && u.Reasoning > u.Output {
		u.Output, u.Beside = u.Output+u.Reasoning, u.Reasoning
	}
	return u
}
