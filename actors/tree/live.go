package tree

import (
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// The phases of a live request, in their order.
const (
	PhaseAdmission  = "admission"  // it waits for its account's limits, its session or the model's mailbox
	PhaseQueue      = "queue"      // for its first step
	PhasePrefill    = "prefill"    // its prompt is computed
	PhaseDecode     = "decode"     // its answer is
	PhaseHold       = "hold"       // it has output that must not leave before its hold is durable
	PhasePaused     = "paused"     // its reader does not keep up
	PhaseSettlement = "settlement" // it has ended, and its charge is not durable yet
	PhaseShort      = "short"      // it takes a permit and no model, such as a count of tokens
)

// LiveRequest is a request of this moment. What is not known yet is zero.
type LiveRequest struct {
	ID, AccountID, KeyID string
	Model, Protocol      string
	Translator, Billing  string // the modules that it began with, by their digests
	Stream               bool
	Permit               bool // it holds one of its account's
	Phase                string
	Began                time.Time
	Prompt, OutputMax    int64
	Progress             engine.Progress
}

// Live returns the requests of this moment, in no order. It looks at the registry that the
// tree has anyway: nothing is written for it while requests run.
func (t *Tree) Live() []LiveRequest {
	all := t.requests.all()
	live := make([]LiveRequest, len(all))
	for i, r := range all {
		live[i] = r.look()
	}
	return live
}

func (r *request) look() LiveRequest {
	l := LiveRequest{ID: r.ask.RequestID, AccountID: r.call.Account.ID, KeyID: r.call.Key.ID, Protocol: r.call.Protocol,
		Translator: r.call.Translator, Billing: r.billing, Began: r.began, Prompt: r.ask.Prompt, OutputMax: r.ask.OutputMax,
		Permit: r.granted.Load() && !r.left.Load(), Phase: PhaseShort}
	if r.ask.Free {
		return l
	}
	l.Model, l.Stream, l.Progress = r.call.Request.Model, r.call.Request.Stream, r.job.Progress()
	l.Phase = r.phaseOf(l.Progress)
	return l
}

func (r *request) phaseOf(p engine.Progress) string {
	switch {
	case r.doneAt.Load() != nil:
		return PhaseSettlement
	case r.phase.Load() == waiting:
		return PhaseAdmission
	case p.First.IsZero() && p.Started.IsZero():
		return PhaseQueue
	case p.First.IsZero():
		return PhasePrefill
	case r.call.Request.Stream && r.hold.fate() == holdPending:
		return PhaseHold
	case p.Behind:
		return PhasePaused
	}
	return PhaseDecode
}

// CancelRequest ends a request because an operator says so; its client gets an error. A stream
// whose content has begun to leave pays as cancelled, any other is free, as for every
// error instead of an answer. It is false when no request of that id runs.
func (t *Tree) CancelRequest(id string) bool {
	r := t.requests.find(id)
	if r == nil || r.ask.Free || r.doneAt.Load() != nil {
		return false
	}
	r.stopped.Store(true)
	if t.clustered() && !r.peer() && !r.granted.Load() {
		r.decide(refused, reply{err: errOperator()}) // the store decides on it: it is registered until its limiter finds it gone
	} else {
		r.refuse(errOperator(), account.Limits{}) // does nothing to one that its model has taken, maybe just now
	}
	r.job.Cancel() // and not cancel: its owner is there, tells the client and settles
	r.model.unit.Wake()
	return true
}

// errOperator is what the client of a request gets that an operator cancelled.
func errOperator() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "tree.CancelRequest", Msg: "an operator of this service cancelled the request",
		Err: account.ErrOperator}
}
