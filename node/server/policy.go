package server

import (
	"cmp"
	"strings"
	"time"

	"corenode/engine/messages"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Policies are the operator's modules that change what is asked and what is shown.
type Policies interface {
	// Rewriting and Filtering say whether there is such a module; without one nothing is
	// handed over.
	Rewriting() bool
	Filtering() bool
	// Rewrite gives the messages body to go on with. The error is an *abi.Error.
	Rewrite(request string, in abi.RewriteInput) ([]byte, error)
	// Filter opens the filtering of one answer; nil where no module filters. The error is an
	// *abi.Error.
	Filter(account, request string) (Filter, error)
}

// Filter hands the text of one answer's blocks through the modules. It belongs to the
// goroutine that serves the request, which closes it once.
type Filter interface {
	// Text gives what may be shown of a block by now; with last the block ends.
	Text(facts abi.Facts, block abi.BlockKind, text string, last bool) (string, error)
	Close()
}

// ruled says whether the operator's modules have a say in the request. What another node
// forwards has been through its own.
func (x *exchange) ruled() bool { return x.s.deps.Policies != nil && !x.who.Peer.Forwards() }

// askedMax is the most bytes of a client's name of the model that are shown: in front of rewrite modules it may be all of a
// body, and it stands in each piece of an answer.
const askedMax = 256

// rewrite hands a messages body through the rewrite modules. The client's name of the model
// is kept for the answer. What comes out counts against the node's budget like what went in.
func (x *exchange) rewrite(native []byte) ([]byte, error) {
	asked := messages.ModelOf(native) // what is no JSON is refused later
	began := time.Now()
	out, err := x.s.deps.Policies.Rewrite(x.id, abi.RewriteInput{At: x.begun.Unix(), Counting: x.counts(), Account: x.who.Account.ID,
		Key: x.who.KeyID, Protocol: cmp.Or(x.protocol(), "messages"), Body: native})
	x.called("rewrite", "", began)
	if err != nil {
		return nil, err
	}
	if len(asked) <= askedMax {
		x.asked = asked
	}
	if refusal := x.body.takeMade(out); refusal != nil {
		return nil, refusal
	}
	return out, nil
}

// shownModel is the model that an answer names: the one that the client asked for, whatever
// a module made of it, unless that is longer than a name.
func (x *exchange) shownModel(served string) string {
	if x.asked != "" && !x.s.cfg.NameServedModel {
		return x.asked
	}
	return served
}

// openFilter begins the filtering of the answer, if there is any.
func (x *exchange) openFilter() *abi.Error {
	if !x.ruled() || !x.s.deps.Policies.Filtering() {
		return nil
	}
	f, err := x.s.deps.Policies.Filter(x.who.Account.ID, x.id)
	if err != nil {
		return abi.AsError(err)
	}
	x.filter = f
	return nil
}

// counts says whether only tokens are asked for.
func (x *exchange) counts() bool {
	return x.route == routeCount || x.route == routeResponsesCount || x.module != nil && x.module.route().Op == guest.RouteCount
}

// filtered is what may be shown of events by now. With whole the answer is all there, and each
// block is one piece. Only text and thinking go through the
// modules: calls and JSON that a schema holds must stay what they are. The slice that comes
// back is valid until the next call.
func (a *answer) filtered(events []abi.Event, whole bool) ([]abi.Event, error) {
	x := a.x
	if x.filter == nil {
		return events, nil
	}
	a.shown = a.shown[:0]
	var block strings.Builder
	for _, e := range events {
		ruled := e.Block == abi.BlockThinking || e.Block == abi.BlockText && !x.structured
		if !ruled || e.Kind != abi.EventDelta && e.Kind != abi.EventBlockStop {
			a.shown = append(a.shown, e)
			continue
		}
		if block.WriteString(e.Text); whole && e.Kind == abi.EventDelta {
			continue
		}
		text, err := x.filter.Text(a.facts, e.Block, block.String(), e.Kind == abi.EventBlockStop)
		block.Reset()
		if err != nil {
			return nil, err
		}
		if text != "" {
			a.shown = append(a.shown, abi.Event{Kind: abi.EventDelta, Block: e.Block, Index: e.Index, Text: text})
		}
		if e.Kind == abi.EventBlockStop {
			e.Signature = "" // another server's, of a text that the client may not have
			a.shown = append(a.shown, e)
		}
	}
	return a.shown, nil
}
