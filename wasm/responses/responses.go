// Package responses translates the stateless subset of the responses protocol
// to the messages protocol and answers back.
//
// Everything is a pure function of its input. What the answer must know of the
// request travels as Kept, what one event group must know of those before it as
// State; both are made and read here only.
//
// One block of an answer is one output item, and its index is the item's
// output_index:
//
//	thinking  reasoning item, its text as one summary part
//	text      message item with one output_text part, or compaction
//	tool use  function_call item, or custom_tool_call if the request's tool was custom, or tool_search_call
//
// Thinking is told as summary text and not as reasoning text: that is what
// clients of this protocol show, and what they send back with the next turn.
// Some that are told "store": false send only thinking that has
// encrypted_content. Nothing is kept from them, so it is the item's id: the
// thinking comes back in the summary beside it.
//
// A custom tool, which takes free text, is offered to the model as a function
// with one string named input; its calls are turned back. So is a search of
// tools that the client does itself. Tools that items tell of are offered behind
// those of the request. A tool of a namespace
// is offered as "namespace:name": the protocol's own names hold no colon. Tools
// that a service would run are skipped in silence, and so are the items that
// tell of them; a choice that only they could be is none.
//
// A conversation that ends with a compaction_trigger is answered with a summary
// of it, in one compaction item, whose encrypted_content is the text of all blocks: it comes
// back as a message of the user. Of what stands behind its first block only text is told. A model that
// wrote no text has its thinking for a summary. Where there is none either, the item says that the
// model wrote nothing: a failed response would be paid all the same, and asked for again. Where the window leaves no room for a
// summary the request is refused as one whose prompt does not fit, before anything is computed.
//
// The format of text becomes the native response_format, which holds the schema
// as it was sent; the engine makes the answer fit.
//
// Texts are never decoded: what stands between the quotes of the body stands
// between quotes in what is made of it, and the payloads of event frames are
// escaped already. A field that the body has twice is refused; in an item the
// last one counts.
//
// A stream that the budget cuts says so where it ends: the last item is
// incomplete in the response that ends the stream, while the frame that was
// done with it, which left earlier, could not know. A summary is completed however it
// stops, once it has begun.
package responses

import (
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

// Translator is the module's logic. It has no state: one value serves any
// number of calls at once.
type Translator struct{}

var _ sdk.Translator = Translator{}

// New returns the translator.
func New() Translator { return Translator{} }

// Events appends the frames of one event group. It writes them into dst, and
// the state into next.
func (Translator) Events(dst, next []byte, in abi.EventsInput) (bytes, state []byte) {
	w := writer{dst: dst, facts: in.Facts, state: parseState(in.State), history: in.History, kept: in.Kept}
	events := in.Events
	for {
		f, ok := events.Next()
		if !ok {
			break
		}
		if f.Kind == abi.EventDelta { // nearly all of them
			events = w.delta(&f, events)
		} else {
			w.event(&f)
		}
	}
	return w.dst, w.state.append(next)
}

// Response appends the response object of a whole answer: the same that ends
// the stream of it.
func (Translator) Response(dst []byte, in abi.ResponseInput) []byte {
	k := parseKept(in.Kept)
	return appendResponse(dst, &in.Facts, k, ending(in.Events, k.special()), in.Events)
}
