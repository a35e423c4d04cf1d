package abi

// EventKind says what one stream event is. Guests see the number: append only.
type EventKind uint8

const (
	// EventStart opens the answer. Usage holds the input side, final.
	EventStart EventKind = iota
	// EventBlockStart opens block Index of kind Block. A tool use carries ID and Name.
	EventBlockStart
	// EventDelta adds Text to block Index: thinking, answer text, or a piece of
	// a tool call's arguments as JSON text, by the block's kind.
	EventDelta
	// EventBlockStop closes block Index. Blocks never overlap; indexes rise by one.
	EventBlockStop
	// EventEnd closes the answer: Stop, StopSequence and the whole Usage.
	EventEnd
	// EventError ends a stream that failed: Err says why. Nothing follows it.
	EventError
	// EventElapsed is a frame before that of EventEnd, which only modules with routes
	// get: how long the answer took. It is no Event: EventEnd carries Elapsed.
	EventElapsed
)

// BlockKind is what a content block holds. Guests see the number: append only.
type BlockKind uint8

const (
	BlockThinking BlockKind = iota // what the model thinks
	BlockText                      // what it says
	BlockToolUse                   // a call of a tool
)

// StopReason is why the model stopped. Guests see the number: append only.
type StopReason uint8

const (
	StopNone         StopReason = iota // not stopped
	StopEndTurn                        // the model finished its answer on its own
	StopMaxTokens                      // the output budget or the context window is spent
	StopToolUse                        // the model wants a tool call executed
	StopStopSequence                   // a stop sequence of the request was produced
)

var stopNames = [...]string{"", "end_turn", "max_tokens", "tool_use", "stop_sequence"}

// String returns the reason's name in the messages protocol.
func (r StopReason) String() string {
	if int(r) < len(stopNames) {
		return stopNames[r]
	}
	return ""
}

// Elapsed is how long an answer took, in nanoseconds.
type Elapsed struct {
	Total      int64 // from the request's last byte
	Load       int64 // of the model: 0, since it is in memory
	Prompt     int64 // until the first token
	Generation int64 // from the first token on
}

// Event is one event of an answer's stream, the same for every protocol. The
// engine produces it, a translator or the messages encoder writes it.
// Strings are owned: nothing in them aliases a reused buffer. Text is valid
// UTF-8 and never ends within a character.
type Event struct {
	Kind         EventKind
	Block        BlockKind  // EventBlockStart, EventDelta, EventBlockStop
	Stop         StopReason // EventEnd
	Index        int32      // EventBlockStart, EventDelta, EventBlockStop
	Text         string     // EventDelta
	ID           string     // EventBlockStart of a tool use: "toolu_..."
	Name         string     // EventBlockStart of a tool use
	StopSequence string     // EventEnd with StopStopSequence
	// Signature, of an EventBlockStop of thinking, stands behind the node's own: the upstream
	// server's, which is put back when the block comes again. No frame has it.
	Signature string
	Usage     Usage    // EventStart (input side), EventEnd (all)
	Elapsed   *Elapsed // EventEnd, for protocols that report it; else nil
	Err       *Error   // EventError
}
