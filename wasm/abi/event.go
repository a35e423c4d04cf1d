package abi

// EventError ends a stream that failed: Err says why. Nothing follows it, and no frame has
// it: a failure is an OpError.
const EventError EventKind = 5

// String returns the reason's name in the messages protocol.
func (r StopReason) String() string {
	if int(r) < len(stopNames) {
		return stopNames[r]
	}
	return ""
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
