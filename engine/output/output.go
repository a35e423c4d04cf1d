// Package output takes the text a model writes apart while it streams:
// thinking, answer text and tool calls, as the blocks of an answer.
//
// The text goes through these states, forward and, after a call, back to the answer:
//
//	start -> thinking -> answer <-> call
//
// start decides whether the output opens with <think>, or what the model's Tags are; thinking ends at
// </think>, or at a call that follows it without one; a call is held back as a
// whole until </tool_call>, because only then is it known to be one. What
// turns out not to be a call that can be run (cut off, malformed, or naming no
// offered tool) comes out as answer text, byte for byte: finished work is never lost.
//
// A call begins where Call says so: with the vocabulary's own token for <tool_call>.
// Spelled out it is text. Only where the vocabulary has no such token does the text
// begin a call, as the first of a block.
//
// Text is held back only while it could still become a marker, a stop
// sequence, or whitespace to be dropped. The blocks do not depend on how the
// text was cut into pieces.
package output

import (
	"bytes"
	"encoding/json"
	"strings"

	"corenode/wasm/abi"
)

const (
	callOpen  = "<tool_call>"
	callClose = "</tool_call>"

	// heldMax bounds a held call, in bytes. A longer one comes out as text.
	heldMax = 4 << 20
	// deltaMax is the most of a call's arguments in one event, in bytes.
	deltaMax = 4096
	// space is the whitespace that is trimmed around blocks.
	space = " \t\r\n"
)

// Tool is a tool that the request offers.
type Tool struct {
	Name string
	// Schema is the JSON schema of its parameters. It types the argument values
	// of the XML form; a broken or missing one makes them strings.
	Schema json.RawMessage
}

// Options say how one answer is read.
type Options struct {
	// Thinking says that the output starts inside thinking: the prompt ends with <think>.
	Thinking bool
	// Tags stand around thinking; without any <think> and </think>.
	Tags Tags
	// Begun says that the output goes on with an answer's text: no thinking opens it, and its
	// blank lines belong to the text. Thinking is not looked at then.
	Begun bool
	// Tools are the tools on offer. With none, <tool_call> is plain text.
	Tools []Tool
	// Marked says that the vocabulary has a token for <tool_call>, which Call is told of.
	Marked bool
	// Channels says that the model writes messages in channels. Header is what the prompt has of
	// the first one's header; with Begun or Opened the prompt has all of it.
	Channels, Opened bool
	Header           string
	// Stops are the stop sequences; empty ones are ignored. They are looked for
	// in answer text, not in thinking, in calls, or in the blank lines before an answer that is not Begun.
	// The one that is complete first wins; of several, the longest.
	Stops []string
	// KeyCalls says that the model writes calls as a name, and an <arg_key> with an <arg_value> for
	// each argument. JSON is read all the same.
	KeyCalls bool
	// Delimiters are of calls that have delimiters of their own; nil otherwise.
	Delimiters *Delimiters
	// SingleCall ends the answer after its first call.
	SingleCall bool
	// Constrained says that calls are of their schemas: "null" is the word where a
	// schema asks for a string. Without it that is null, as models write it for no value.
	Constrained bool
	// NewID makes the id of a call. Required when there are Tools.
	NewID func() string
}

type state uint8

const (
	stateStart state = iota
	stateThinking
	stateAnswer
	stateCall
	stateHeader // of a message in a channel
)

// Parser reads one answer. It is not safe for concurrent use.
type Parser struct {
	options Options
	state   state
	// buf is text that is not decided yet. In stateCall it starts with <tool_call>.
	buf []byte
	fed string // the latest piece of text
	// blank is how much of buf's front is known to be whitespace in which no marker begins,
	// so that each byte of it is looked at once, however long it is held.
	blank int
	// before is whitespace in front of a held call: dropped if it is one.
	before string
	// fresh says that nothing of the current answer text has been kept: blank lines are dropped.
	fresh bool
	// first says that nothing of the current block is there but what is held in buf.
	first bool
	// thought says that the held call began while thinking.
	thought bool
	call    callScan

	header string // of the message that begins, in channels
	callee string // the tool that a message is to

	open  bool // a block is open
	block abi.BlockKind
	index int32 // of the open or else the next block

	thoughts int // counted tokens of thinking
	doubtful int // counted since a call was held while thinking

	calls       int
	stop        string // the stop sequence that was hit
	stopped     bool
	finished    bool
	cut         bool     // truncated
	cutCall     bool     // truncated within a call
	stops       []string // those of the options that are not empty
	closing     []string // what ends thinking
	ignoreStops bool     // stop sequences are text for now
	counting    int      // bytes fed since that was so last: where stop sequences may end
	// types are those of the parameters of the tools called so far: the step loop, on which calls
	// are read, reads a schema once for an answer.
	types map[string]map[string]Types
}

// New returns the parser of one answer.
func New(o Options) *Parser {
	if o.Tags == (Tags{}) {
		o.Tags = plainTags
	}
	p := &Parser{options: o, closing: []string{o.Tags.Close}, fresh: true, first: true, types: map[string]map[string]Types{}}
	if o.Begun {
		p.state, p.fresh, p.first = stateAnswer, false, o.Constrained // what is held says where its calls begin
	}
	if o.Channels && !o.Begun {
		if p.state, p.header = stateHeader, o.Header; o.Opened {
			p.enterMessage()
		}
	}
	for _, s := range o.Stops {
		if s != "" {
			p.stops = append(p.stops, s)
		}
	}
	return p
}

// Called reports whether a call was made.
func (p *Parser) Called() bool { return p.calls > 0 }

// spelled says whether <tool_call>, as text, would begin a call here.
func (p *Parser) spelled() bool {
	return p.first && !p.options.Marked && !p.options.Channels && len(p.options.Tools) > 0
}

// AtBlock says whether a block starts here that may be a call, by its text, and what is
// there of it. The text is valid until the next Feed.
func (p *Parser) AtBlock() (text []byte, starts bool) {
	return p.buf, p.spelled() && p.state != stateCall && !p.Done()
}

// Call takes the token that begins a call, in the place of its text. Where a call cannot
// begin, inside of another one, it is that text.
func (p *Parser) Call(dst []abi.Event) []abi.Event {
	if p.Done() || p.finished || p.state == stateCall || len(p.options.Tools) == 0 {
		return p.Feed(dst, p.opening())
	}
	if p.state == stateStart { // what is held is no <think>
		p.state, p.blank = stateAnswer, 0
		if p.options.Thinking {
			p.state = stateThinking
		}
	}
	kind := abi.BlockText
	switch {
	case p.state == stateThinking && !p.open:
		p.buf = bytes.TrimLeft(p.buf, space)
	case p.state == stateAnswer && p.fresh:
		p.skipBlankLines()
	}
	if p.state == stateThinking {
		kind = abi.BlockThinking
	}
	keep, end := p.textEnd(len(p.buf)), len(p.buf)
	dst = p.emit(dst, kind, string(p.buf[:keep]))
	p.buf = append(p.buf, p.opening()...)
	p.enterCall(keep, end, p.state == stateThinking)
	return dst
}

// Feed takes the next piece of output and appends the events that it settles.
// The piece must be valid UTF-8. After Done it is ignored.
func (p *Parser) Feed(dst []abi.Event, text string) []abi.Event {
	if p.Done() || p.finished {
		return dst
	}
	if p.counting += len(text); p.ignoreStops {
		p.counting = 0
	}
	if p.options.Channels {
		return p.feedChannels(dst, text)
	}
	p.buf, p.fed = append(p.buf, text...), text
	for more := true; more && !p.Done(); {
		dst, more = p.step(dst)
	}
	return dst
}

// step settles what it can of buf in the current state. It reports whether
// the state changed, so that the rest of buf has to be looked at again.
func (p *Parser) step(dst []abi.Event) ([]abi.Event, bool) {
	switch p.state {
	case stateStart:
		return dst, p.stepStart()
	case stateThinking:
		return p.stepThinking(dst)
	case stateAnswer:
		return p.stepAnswer(dst)
	default:
		return p.stepCall(dst)
	}
}

// Done reports that the answer is complete and the engine should stop: a stop
// sequence was hit, or the one allowed call was made.
func (p *Parser) Done() bool {
	return p.stopped || p.options.SingleCall && p.calls > 0
}

// Count counts one token, before Feed gets its text.
func (p *Parser) Count() {
	switch {
	case p.InThinking():
		p.thoughts++
	case p.state == stateCall:
		p.doubtful++ // thinking if the tag is only a mention
	}
}

// Thoughts is how many of the counted tokens were thinking: all from the first
// one inside of it to the one that ends it, be that the tag, the start of a
// call or the end of the output.
func (p *Parser) Thoughts() int { return p.thoughts }

// InThinking reports whether the next text is thinking, as far as is known. A held call is none.
func (p *Parser) InThinking() bool {
	return p.state == stateThinking || p.state == stateStart && p.options.Thinking
}

// Stop returns why the answer ended and the stop sequence that ended it. It is
// valid after Done or Finish. A cut in the middle of a call is a cut, whatever
// calls came before; else an answer with a call wants it run, also if a stop
// sequence or the budget ended it later.
func (p *Parser) Stop() (reason abi.StopReason, sequence string) {
	switch {
	case p.cutCall:
		return abi.StopMaxTokens, ""
	case p.calls > 0:
		return abi.StopToolUse, ""
	case p.stopped:
		return abi.StopStopSequence, p.stop
	case p.cut:
		return abi.StopMaxTokens, ""
	}
	return abi.StopEndTurn, ""
}

// Finish appends the events of everything still held back and closes the open
// block. Truncated says that the output was cut at its budget. A second call does nothing.
func (p *Parser) Finish(dst []abi.Event, truncated bool) []abi.Event {
	if p.finished {
		return dst
	}
	p.finished = true
	if !p.Done() {
		p.cut = truncated
		p.cutCall = truncated && p.state == stateCall
		switch {
		case p.options.Channels && p.cutCall:
			dst = p.emitBuf(dst)
		case p.options.Channels:
			dst = p.endMessage(dst)
		default:
			dst = p.flush(dst)
		}
	}
	p.buf = nil
	return p.close(dst)
}

// flush emits what is held, which nothing more can turn into anything else.
func (p *Parser) flush(dst []abi.Event) []abi.Event {
	rest := string(p.buf)
	switch {
	case p.state == stateCall:
		return p.emitHeld(dst, rest)
	case p.InThinking():
		rest = strings.TrimRight(rest, space)
		if !p.open {
			rest = strings.TrimLeft(rest, space)
		}
		return p.emit(dst, abi.BlockThinking, rest)
	case p.open || strings.Trim(rest, space) != "":
		if p.state == stateStart {
			p.blank = 0
			p.skipBlankLines()
			rest = string(p.buf)
		}
		return p.emit(dst, abi.BlockText, rest)
	}
	return dst
}

// stepStart looks for an opening <think>, which some prompts contain and some
// models write themselves.
func (p *Parser) stepStart() bool {
	p.blank += leadingSpace(p.buf[p.blank:])
	rest := p.buf[p.blank:]
	opening := p.options.Tags.Open
	if len(rest) < len(opening) && strings.HasPrefix(opening, string(rest)) {
		return false
	}
	p.state, p.blank = stateAnswer, 0
	if bytes.HasPrefix(rest, []byte(opening)) {
		p.state = stateThinking
		p.buf = rest[len(opening):]
	} else if p.options.Thinking {
		p.state = stateThinking
	}
	return true
}

func (p *Parser) stepThinking(dst []abi.Event) ([]abi.Event, bool) {
	if !p.open {
		p.buf = bytes.TrimLeft(p.buf, space)
	}
	if begins, held := p.begins(p.buf); held {
		return dst, false
	} else if begins {
		p.enterCall(0, 0, true)
		return dst, true
	}
	at, marker := p.find(p.closing, 0)
	if marker == "" {
		end := len(p.buf) - heldSuffix(p.buf, p.closing)
		keep := p.textEnd(end)
		dst = p.emit(dst, abi.BlockThinking, p.take(keep))
		p.blank = end - keep
		return dst, false
	}
	dst = p.emit(dst, abi.BlockThinking, string(p.buf[:p.textEnd(at)]))
	dst = p.close(dst)
	p.buf = p.buf[at+len(marker):]
	p.enterAnswer()
	return dst, true
}

// take takes n bytes from the front of buf while a piece is fed. Nearly always all of buf is that piece: no copy.
func (p *Parser) take(n int) string {
	if n == 0 {
		return ""
	}
	text := p.fed
	if len(text) != len(p.buf) { // only its front is taken from buf
		text = string(p.buf[:n])
	}
	p.buf = append(p.buf[:0], p.buf[n:]...)
	return text[:n]
}

// begins says whether text is a call's, by its marker, or is held as it could become one.
func (p *Parser) begins(text []byte) (begins, held bool) {
	if !p.spelled() || len(text) == 0 {
		return false, false
	}
	if opening := p.opening(); len(text) < len(opening) {
		return false, strings.HasPrefix(opening, string(text))
	}
	return bytes.HasPrefix(text, []byte(p.opening())), false
}

func (p *Parser) enterAnswer() {
	p.state, p.fresh, p.first, p.blank = stateAnswer, true, true, 0
}

// enterCall holds buf[at:], which starts with <tool_call>; buf[keep:at] is the whitespace before it.
func (p *Parser) enterCall(keep, at int, thought bool) {
	p.before = string(p.buf[keep:at])
	p.buf, p.blank = p.buf[at:], 0
	p.state, p.thought = stateCall, thought
	p.call, p.doubtful = callScan{delimiters: p.options.Delimiters}, 0
	if p.options.KeyCalls {
		p.call.keyed = p.options.Tools
	}
}

func (p *Parser) stepAnswer(dst []abi.Event) ([]abi.Event, bool) {
	if p.fresh {
		if !p.skipBlankLines() {
			return dst, false
		}
		p.fresh, p.blank = false, 0
	}
	at, marker := p.find(p.stops, len(p.buf)-p.counting)
	lead, begins, held := 0, false, false
	if p.spelled() {
		lead = leadingSpace(p.buf)
		begins, held = p.begins(p.buf[lead:])
	}
	switch {
	case begins && (marker == "" || at+len(marker) >= lead+len(p.opening())):
		p.enterCall(0, lead, false)
		return dst, true
	case held && marker == "":
		return dst, false
	case marker == "":
		end := len(p.buf) - heldSuffix(p.buf, p.stops)
		keep := end
		if len(p.options.Tools) > 0 || !p.open { // whitespace alone is no answer
			keep = p.textEnd(end)
		}
		dst = p.emit(dst, abi.BlockText, p.take(keep))
		p.blank = end - keep
		return dst, false
	}
	p.stop, p.stopped = marker, true
	if text := string(p.buf[:at]); p.open || strings.Trim(text, space) != "" {
		dst = p.emit(dst, abi.BlockText, text)
	}
	return dst, false
}

// stepCall decides about a held call.
func (p *Parser) stepCall(dst []abi.Event) ([]abi.Event, bool) {
	verdict, end := p.call.look(p.buf)
	switch verdict {
	case callPending:
		return dst, false
	case callNone: // the tag is a mention: what was being read goes on
		kind := abi.BlockText
		p.state = stateAnswer
		if p.thought {
			kind, p.state = abi.BlockThinking, stateThinking
			p.thoughts += p.doubtful
		}
		dst = p.emit(dst, kind, p.before+callOpen)
		p.buf = p.buf[len(callOpen):]
		return dst, true
	}
	raw := string(p.buf[:end])
	p.buf = p.buf[end:]
	p.state = stateAnswer
	if verdict == callComplete {
		if calls, ok := p.readCalls(raw); ok {
			for _, one := range calls {
				if !p.Done() {
					dst = p.emitCall(dst, one.name, one.arguments)
				}
			}
			p.enterAnswer()
			return dst, true
		}
	}
	return p.emitHeld(dst, raw), true
}

// emitHeld emits a held call as text, with the whitespace before it unless
// that ended the thinking.
func (p *Parser) emitHeld(dst []abi.Event, raw string) []abi.Event {
	p.fresh = false
	if p.thought {
		return p.emit(dst, abi.BlockText, raw)
	}
	return p.emit(dst, abi.BlockText, p.before+raw)
}

// readCall reads a whole call of an offered tool.
func (p *Parser) readCall(raw string) (string, string, bool) {
	inside := strings.Trim(raw[len(callOpen):len(raw)-len(callClose)], space)
	if strings.HasPrefix(inside, "{") {
		return readJSON(inside, p.options.Tools)
	}
	if p.options.KeyCalls {
		return p.readKeys(inside)
	}
	return p.readXML(inside)
}

func (p *Parser) emitCall(dst []abi.Event, name, arguments string) []abi.Event {
	dst = p.close(dst)
	p.open, p.block = true, abi.BlockToolUse
	dst = append(dst, abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: p.index, ID: p.options.NewID(), Name: name})
	for len(arguments) > 0 {
		n := cutAt(arguments, deltaMax)
		dst = p.emit(dst, abi.BlockToolUse, arguments[:n])
		arguments = arguments[n:]
	}
	p.calls++
	return p.close(dst)
}

// emit adds text to a block of this kind, opening it if need be.
func (p *Parser) emit(dst []abi.Event, kind abi.BlockKind, text string) []abi.Event {
	if text == "" {
		return dst
	}
	p.first = false
	if p.block != kind {
		dst = p.close(dst)
	}
	if !p.open {
		p.open, p.block = true, kind
		dst = append(dst, abi.Event{Kind: abi.EventBlockStart, Block: kind, Index: p.index})
	}
	return append(dst, abi.Event{Kind: abi.EventDelta, Block: kind, Index: p.index, Text: text})
}

func (p *Parser) close(dst []abi.Event) []abi.Event {
	if !p.open {
		return dst
	}
	p.open = false
	dst = append(dst, abi.Event{Kind: abi.EventBlockStop, Block: p.block, Index: p.index})
	p.index++
	return dst
}

// cutAt returns a length of at most most bytes that does not end within a character.
func cutAt(s string, most int) int {
	if len(s) <= most {
		return len(s)
	}
	for most > 0 && s[most]&0xc0 == 0x80 {
		most--
	}
	return most
}

// skipBlankLines drops leading lines of whitespace and keeps the indentation of the first
// other one. It reports whether there is one.
func (p *Parser) skipBlankLines() bool {
	end := p.blank + leadingSpace(p.buf[p.blank:])
	if i := bytes.LastIndexAny(p.buf[p.blank:end], "\r\n"); i >= 0 {
		line := p.blank + i + 1
		p.buf, end = p.buf[line:], end-line
	}
	p.blank = end
	return end < len(p.buf)
}

func leadingSpace(b []byte) int { return len(b) - len(bytes.TrimLeft(b, space)) }

// textEnd is where the whitespace at the end of buf[:end] begins.
func (p *Parser) textEnd(end int) int {
	from := min(p.blank, end)
	if n := len(bytes.TrimRight(p.buf[from:end], space)); n > 0 {
		return from + n
	}
	return 0
}
