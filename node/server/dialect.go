package server

import (
	"bytes"
	"cmp"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// dialect writes one admitted answer in the words of its protocol.
type dialect interface {
	// events appends the frames of an event group, which holds no EventError.
	events(dst []byte, group []abi.Event) ([]byte, error)
	// whole appends the body of an answer that is not a stream.
	whole(dst []byte, events []abi.Event) ([]byte, error)
	// broken appends the frames that end a stream that failed.
	broken(dst []byte, e *abi.Error) []byte
	// silence appends a keep-alive; started says whether the first event has left.
	silence(dst []byte, started bool) []byte
}

// dialectOf is how the answer of a model is written.
func (x *exchange) dialectOf(model string) dialect {
	if x.translation == nil {
		sign := engine.Signer{Secret: x.s.deps.Secret, Account: x.who.Account.ID, Model: model}
		encoder := messages.NewEncoder(engine.NewID("msg_"), x.shownModel(model), sign.MAC)
		if x.who.Peer.Forwards() {
			encoder.ShowReasoning()
		}
		return native{encoder}
	}
	if x.array && x.stream {
		return &elements{translated: translated{x}}
	}
	return translated{x}
}

// native is the messages protocol.
type native struct{ encoder *messages.Encoder }

func (n native) events(dst []byte, group []abi.Event) ([]byte, error) {
	return n.encoder.AppendEvents(dst, group), nil
}

func (n native) whole(dst []byte, events []abi.Event) ([]byte, error) {
	return n.encoder.AppendMessage(dst, events), nil
}

func (n native) broken(dst []byte, e *abi.Error) []byte { return familyMessages.appendBroken(dst, e) }

// silence is a comment before message_start, which must be the first event.
func (n native) silence(dst []byte, started bool) []byte {
	if !started {
		return append(dst, ": waiting\n\n"...)
	}
	return messages.AppendPing(dst)
}

// translated is a protocol that the exchange's translation knows.
type translated struct{ x *exchange }

func (t translated) events(dst []byte, group []abi.Event) ([]byte, error) {
	start := len(dst)
	dst, err := t.x.translation.Events(dst, group)
	if !t.fits(dst[start:]) {
		return dst[:start], errOtherForm()
	}
	return dst, err
}

// fits says whether a module that has two forms wrote the one that was asked for.
func (t translated) fits(written []byte) bool {
	return t.x.module == nil || !t.x.module.Manifest.Array || len(written) == 0 || (written[0] == '{') == t.lines()
}

// errOtherForm is a module that writes events where elements of an array are asked for, or
// the other way.
func errOtherForm() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "server.events",
		Msg: "the module of this path writes its stream in another form than the request's"}
}

func (t translated) whole(dst []byte, events []abi.Event) ([]byte, error) {
	return t.x.translation.Response(dst, events)
}

// broken falls back to a frame that clients of both protocols take for an error. In
// the protocol of a module it is the node's own, and the stream has no end. Nor has one of
// events that a line ends: who reads no more than the standard's events does not see it.
func (t translated) broken(dst []byte, e *abi.Error) []byte {
	if !t.x.suspect {
		start := len(dst)
		dst = t.x.translation.Error(dst, e, t.x.statusOf(e.Kind))
		if len(dst) > start && (!t.lines() || t.fits(dst[start:])) { // an error among events may be a line
			t.x.unfinished = t.x.module != nil && !t.lines() && dst[start] == '{'
			return dst
		}
		dst = dst[:start]
	}
	t.x.unfinished = t.x.module != nil
	if t.lines() {
		return append(t.x.family.appendError(dst, e), '\n')
	}
	return t.x.family.appendBroken(dst, e)
}

// lines says whether the stream is lines of JSON and no server-sent events.
func (t translated) lines() bool {
	return t.x.module != nil && (t.x.array || t.x.module.Manifest.Framing == guest.FramingNDJSON)
}

// silence between lines is a space, which may stand before any JSON, and between the events of
// a module what its manifest has for it, or an empty one: most clients that read one event a line
// skip it, and take a comment for data.
func (t translated) silence(dst []byte, _ bool) []byte {
	switch {
	case t.lines():
		return append(dst, ' ')
	case t.x.module != nil:
		return append(dst, cmp.Or(t.x.module.Manifest.KeepAlive, "\n\n")...)
	}
	return append(dst, ": ping\n\n"...)
}

// elements is a stream that is one JSON array: the module writes a line for each element,
// and what stands around them is written here. So the array is whole however it ends, but
// where the module cannot say what went wrong: then it is left open, like every such stream.
type elements struct {
	translated
	begun bool   // an element was written
	lines []byte // of the last group
}

func (e *elements) events(dst []byte, group []abi.Event) (_ []byte, err error) {
	if e.lines, err = e.translated.events(e.lines[:0], group); err != nil {
		return dst, err
	}
	dst = e.append(dst)
	if len(group) == 0 || group[len(group)-1].Kind != abi.EventEnd {
		return dst, nil
	}
	if !e.begun {
		dst = append(dst, '[')
	}
	return append(dst, ']', '\n'), nil
}

// append appends the lines as elements.
func (e *elements) append(dst []byte) []byte {
	for line := range bytes.Lines(e.lines) {
		before := byte(',')
		if !e.begun {
			e.begun, before = true, '['
		}
		dst = append(append(dst, before), line...)
	}
	return dst
}

func (e *elements) broken(dst []byte, failure *abi.Error) []byte {
	e.lines = e.translated.broken(e.lines[:0], failure)
	if dst = e.append(dst); e.x.unfinished {
		return dst
	}
	return append(dst, ']', '\n')
}
