package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"corenode/wasm/abi"
)

// A Failure is an error that the server itself reported inside of its stream.
type Failure struct {
	// Status is the HTTP status that the error stands for, 0 where the server says none.
	Status int
	Msg    string
}

// Error describes the failure for the log, which has no text of servers.
func (f *Failure) Error() string { return "the upstream reported an error" }

// ErrBroken is wrapped by what a stream does against its protocol, ending too early included.
var ErrBroken = errors.New("the upstream's stream is broken")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrBroken, fmt.Sprintf(format, args...))
}

// filtered is the failure of an answer that a filter of the server's cut: no reason to stop of ours says so, and another
// server of the model would do as much. So it is a refusal, which the client reads.
func filtered() error { return &Failure{Status: 400, Msg: "its content filter cut the answer off"} }

// wordMax is the most bytes of a word of a protocol.
const wordMax = 40

// word is what a server wrote where a word of its protocol stands, as an error shows it: anything else that it
// wrote there may be a client's text, or as long as a frame.
func word[T string | []byte](text T) string {
	if len(text) > wordMax || strings.ContainsFunc(string(text), func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' && c != '.' && c != '-'
	}) {
		return fmt.Sprintf("(%d bytes)", len(text))
	}
	return strconv.Quote(string(text))
}

// Usage is what a server says that an answer took.
type Usage struct {
	// Input is the prompt, cached tokens included, Output the answer, reasoning included.
	Input, Cached, Output, Reasoning int64
	// Beside is the part of Output that the server reports beside its completion: it holds that alone to max_tokens.
	Beside int64
	// Known says that Input and Output were reported; the others that their count was.
	Known, CachedKnown, ReasoningKnown bool
}

// A Reader takes the body of one streamed answer to events: EventStart, then blocks one
// after the other with rising indexes, then EventEnd. Text comes as it arrives; a tool
// call is held back until it is complete, and its three events come together, so that
// their reader can check it before a client sees any of it.
//
// The usage of EventStart and EventEnd is left zero: what the server says is in Usage, and
// is for the caller to check.
type Reader struct {
	frames   frames
	protocol protocol
	out      []abi.Event // of this Feed
	started  bool
	open     bool // a text or thinking block
	kind     abi.BlockKind
	index    int32 // of the open block, or of the next one
	stop     abi.StopReason
	stopText string
	stops    []string // the request's stop sequences
	finished bool     // the server named a reason: the answer is complete
	ended    bool     // the stream's last frame has come; what follows is read over
	deltas   int64    // pieces of text, thinking and calls: each is one token or more
	held     int64    // those of them that are of calls which were not given
	thoughts int64    // those of them that are thinking
	hides    bool     // thinking is counted and not given
	hidden   []byte   // that thinking
	oneCall  bool     // behind the first call no other is given
	called   bool     // a call was given
	leftOut  bool     // and another one was not
	bytes    int64    // of texts, calls and signatures
	pings    int64    // the server says that it lives
	usage    Usage
	newID    func() string
}

// protocol reads the frames of one protocol.
type protocol interface {
	frame(r *Reader, event, data []byte) error
}

// NewReader reads an answer of a server of this flavor to a request with these stop
// sequences. newID makes the ids of tool calls.
func NewReader(f Flavor, stops []string, newID func() string) *Reader {
	r := &Reader{stops: stops, newID: newID}
	if f.Traits().Messages {
		r.protocol = &messagesProtocol{}
	} else {
		r.protocol = &chatProtocol{}
	}
	return r
}

// HideThinking leaves thinking out of the events from here on. It is for the chat protocol, whose
// servers are not always told that nobody asked for any: see TellsThinking.
func (r *Reader) HideThinking() { r.hides = true }

// Hidden is how many pieces of thinking were left out.
func (r *Reader) Hidden() int64 {
	if !r.hides {
		return 0
	}
	return r.thoughts
}

// HiddenText is the thinking that was left out.
func (r *Reader) HiddenText() string { return string(r.hidden) }

// OneCall leaves the calls behind the first one out of the events: some servers make more than they are told to. Their
// pieces count all the same, and stay held.
func (r *Reader) OneCall() { r.oneCall = true }

// Feed takes the next bytes of the body and appends the events that they complete. The
// error is a *Failure, or wraps ErrBroken; events before it count.
func (r *Reader) Feed(dst []abi.Event, b []byte) ([]abi.Event, error) {
	r.out = dst
	err := r.frames.feed(b, func(event, data []byte) error {
		if r.ended {
			return nil
		}
		return r.protocol.frame(r, event, data)
	})
	dst, r.out = r.out, nil
	if errors.Is(err, errFrameSize) {
		err = broken("%v", err)
	}
	return dst, err
}

// End is called when the body has ended as HTTP says it must. It appends what the end
// completes, and is an error where the answer did not.
func (r *Reader) End(dst []abi.Event) ([]abi.Event, error) {
	switch {
	case r.ended:
		return dst, nil
	case !r.finished:
		return dst, broken("it ended without a reason to stop")
	}
	r.out = dst
	r.end()
	dst, r.out = r.out, nil
	return dst, nil
}

// Ended says whether EventEnd has come.
func (r *Reader) Ended() bool { return r.ended }

// Usage is what the server has said so far. How much of the output is thinking, which few
// servers say and nobody is billed for apart, is else taken from the share of its pieces.
func (r *Reader) Usage() Usage {
	u := r.usage
	if !u.ReasoningKnown && r.deltas > 0 {
		u.Reasoning = u.Output * r.thoughts / r.deltas
	}
	return u
}

// Delivered is a number of tokens that the answer has at least: its pieces so far, those that are
// left out included.
func (r *Reader) Delivered() int64 { return r.deltas }

// Held is how many of those pieces are of calls that were not given, or not yet.
func (r *Reader) Held() int64 { return r.held }

// Pings is how often the server said that it lives, and nothing else.
func (r *Reader) Pings() int64 { return r.pings }

// Bytes is how much the answer has of texts, calls and signatures, those held back included.
func (r *Reader) Bytes() int64 { return r.bytes }

func (r *Reader) emit(e abi.Event) { r.out = append(r.out, e) }

// start begins the answer, once.
func (r *Reader) start() {
	if !r.started {
		r.started = true
		r.emit(abi.Event{Kind: abi.EventStart})
	}
}

// text adds to the open block of a kind, which it opens.
func (r *Reader) text(kind abi.BlockKind, text string) {
	if text == "" {
		return
	}
	r.deltas++
	r.bytes += int64(len(text))
	if kind == abi.BlockThinking {
		if r.thoughts++; r.hides {
			r.hidden = append(r.hidden, text...)
			return
		}
	}
	r.begin(kind)
	r.emit(abi.Event{Kind: abi.EventDelta, Block: kind, Index: r.index, Text: text})
}

// begin opens a block of a kind unless it is open.
func (r *Reader) begin(kind abi.BlockKind) {
	r.start()
	if r.open && r.kind == kind {
		return
	}
	r.close("")
	r.open, r.kind = true, kind
	r.emit(abi.Event{Kind: abi.EventBlockStart, Block: kind, Index: r.index})
}

// close ends the open block, if there is one. The signature is a thinking block's.
func (r *Reader) close(signature string) {
	if r.open {
		r.emit(abi.Event{Kind: abi.EventBlockStop, Block: r.kind, Index: r.index, Signature: signature})
		r.open = false
		r.index++
	}
}

// call gives a complete call, which came in so many pieces.
func (r *Reader) call(name, input string, pieces int64) {
	if r.oneCall && r.called {
		r.leftOut = true
		return
	}
	r.called = true
	r.held -= pieces
	r.start()
	r.close("")
	if input == "" {
		input = "{}"
	}
	b := abi.BlockToolUse
	r.emit(abi.Event{Kind: abi.EventBlockStart, Block: b, Index: r.index, ID: r.newID(), Name: name})
	r.emit(abi.Event{Kind: abi.EventDelta, Block: b, Index: r.index, Text: input})
	r.emit(abi.Event{Kind: abi.EventBlockStop, Block: b, Index: r.index})
	r.index++
}

// finish says why the answer is complete; its last frame may still come. A text that
// stopped is one of the request's stop sequences, or nothing. An answer with a call wants it run, whatever ended it later:
// some servers name a stop sequence behind calls, or a plain end. One that was cut may be so in a call. Where a call was
// left out the answer ended with the one before. Without a call none is to be run, and without a sequence of the request none
// stopped it.
func (r *Reader) finish(reason abi.StopReason, stopText string) {
	r.finished, r.stop = true, reason
	switch {
	case r.leftOut, r.called && reason != abi.StopMaxTokens:
		r.stop = abi.StopToolUse
	case !r.called && stopText != "" && slices.Contains(r.stops, stopText):
		r.stop, r.stopText = abi.StopStopSequence, stopText
	case reason != abi.StopMaxTokens:
		r.stop = abi.StopEndTurn
	}
}

// end gives EventEnd.
func (r *Reader) end() {
	r.start()
	r.close("")
	r.ended = true
	r.emit(abi.Event{Kind: abi.EventEnd, Stop: r.stop, StopSequence: r.stopText})
}
