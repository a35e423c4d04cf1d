package output

import (
	"bytes"
	"strings"

	"corenode/wasm/abi"
)

// A model of channels (gpt-oss and its harmony format) writes messages: a header, a token that
// ends it, a body, a token that ends that. The channel analysis is thinking, a message to
// functions.NAME is a call of that tool with JSON for a body, and all others are text.
// Tokens that stand between these parts are marks, which Mark takes; spelled out they are text.

// Marks of the format.
const (
	MarkStart     = "<|start|>"     // begins a header with its author
	MarkChannel   = "<|channel|>"   // goes on in a header with its channel
	MarkConstrain = "<|constrain|>" // goes on in a header with the type of the body
	MarkMessage   = "<|message|>"   // ends a header
	MarkEnd       = "<|end|>"       // ends a body, as the tokens that end the answer do
)

const (
	recipientOpen = "to="
	toolPrefix    = "functions."
	// headerMax bounds a header, in bytes. A longer one is text.
	headerMax = 4096
)

// Mark takes a token of the channel format, in the place of its text.
func (p *Parser) Mark(dst []abi.Event, mark string) []abi.Event {
	switch {
	case p.Done() || p.finished:
		return dst
	case mark == MarkMessage && p.state == stateHeader:
		p.enterMessage()
		return dst
	case mark == MarkEnd:
		return p.endMessage(dst)
	case mark == MarkStart, p.state != stateHeader:
		dst = p.endMessage(dst)
	}
	p.header += mark
	return dst
}

// Message says where the next text belongs: to a call of the tool, or with none to an answer's text.
func (p *Parser) Message() (tool string, text bool) {
	if p.state == stateCall {
		return p.callee, false
	}
	return "", p.state == stateAnswer
}

// enterMessage reads the header.
func (p *Parser) enterMessage() {
	_, rest, _ := strings.Cut(p.header, MarkChannel)
	channel := strings.Fields(splitMarks.Replace(rest + " "))
	recipient := ""
	for _, word := range strings.Fields(splitMarks.Replace(p.header)) {
		if to, ok := strings.CutPrefix(word, recipientOpen); ok {
			recipient = strings.TrimPrefix(to, toolPrefix)
		}
	}
	_, known := toolByName(p.options.Tools, recipient)
	p.enterAnswer()
	switch {
	case known:
		p.state, p.callee = stateCall, recipient
	case len(channel) > 0 && channel[0] == "analysis" && recipient == "":
		p.state = stateThinking
	}
}

// splitMarks takes the words of a header apart.
var splitMarks = strings.NewReplacer(MarkStart, " ", MarkChannel, " ", MarkConstrain, " ", MarkEnd, " ")

// feedChannels takes text that is no mark.
func (p *Parser) feedChannels(dst []abi.Event, text string) []abi.Event {
	if p.state == stateHeader {
		if p.header += text; len(p.header) <= headerMax {
			return dst
		}
		text = splitMarks.Replace(p.header)
		p.enterAnswer()
	}
	p.buf = append(p.buf, text...)
	switch p.state {
	case stateAnswer:
		dst, _ = p.stepAnswer(dst)
	case stateThinking:
		if !p.open {
			p.buf = bytes.TrimLeft(p.buf, space)
		}
		keep := p.textEnd(len(p.buf))
		dst = p.emit(dst, abi.BlockThinking, string(p.buf[:keep]))
		p.buf, p.blank = p.buf[keep:], len(p.buf)-keep
	case stateCall:
		if len(p.buf) > heldMax {
			p.state, p.fresh = stateAnswer, false
			dst = p.emitBuf(dst)
		}
	}
	return dst
}

// endMessage ends a body, or a header without one.
func (p *Parser) endMessage(dst []abi.Event) []abi.Event {
	switch p.state {
	case stateHeader: // an answer of a model that has forgotten its format is not lost
		if !strings.Contains(p.header, MarkChannel) && !strings.Contains(p.header, MarkStart) {
			p.buf = append(p.buf, splitMarks.Replace(p.header)...)
			dst = p.emitBuf(dst)
		}
	case stateAnswer:
		dst = p.emitBuf(dst)
	case stateCall:
		if arguments, ok := Normal(p.buf); ok && arguments[0] == '{' {
			dst = p.emitCall(dst, p.callee, arguments)
		} else {
			dst = p.emitBuf(dst)
		}
	}
	p.buf, p.blank, p.header = nil, 0, ""
	p.state = stateHeader
	return p.close(dst)
}

// emitBuf emits what is held as text, but for whitespace alone.
func (p *Parser) emitBuf(dst []abi.Event) []abi.Event {
	text := string(p.buf)
	p.buf, p.blank = nil, 0
	if !p.open && strings.Trim(text, space) == "" {
		return dst
	}
	return p.emit(dst, abi.BlockText, text)
}
