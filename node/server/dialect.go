package server

import (
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

// dialect is how the answer to an admitted request is written. The translation
// learns here, and not before, that the answer is a stream: until then its
// errors are bodies.
func (x *exchange) dialect(model string) dialect {
	if x.translation == nil {
		sign := engine.Signer{Secret: x.s.deps.Secret, Account: x.who.Account.ID, Model: model}
		encoder := messages.NewEncoder(engine.NewID("msg_"), x.shownModel(model), sign.MAC)
		if x.who.Peer != "" {
			encoder.ShowReasoning()
		}
		return native{encoder}
	}
	facts := x.facts()
	facts.Model, facts.Stream = x.shownModel(model), x.stream
	x.translation.SetFacts(facts)
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
	return t.x.translation.Events(dst, group)
}

func (t translated) whole(dst []byte, events []abi.Event) ([]byte, error) {
	return t.x.translation.Response(dst, events)
}

// broken falls back to a frame that clients of both protocols take for an error. In
// the protocol of a module it is the node's own, and the stream has no end.
func (t translated) broken(dst []byte, e *abi.Error) []byte {
	if !t.x.suspect {
		start := len(dst)
		if dst = t.x.translation.Error(dst, e, t.x.statusOf(e.Kind)); len(dst) > start {
			return dst
		}
	}
	t.x.unfinished = t.x.module != nil
	if t.lines() {
		return append(t.x.family.appendError(dst, e), '\n')
	}
	return t.x.family.appendBroken(dst, e)
}

// lines says whether the stream is lines of JSON and no server-sent events.
func (t translated) lines() bool {
	return t.x.module != nil && t.x.module.Manifest.Framing == guest.FramingNDJSON
}

// silence between lines is a space, which may stand before any JSON.
func (t translated) silence(dst []byte, _ bool) []byte {
	if t.lines() {
		return append(dst, ' ')
	}
	return append(dst, ": ping\n\n"...)
}
