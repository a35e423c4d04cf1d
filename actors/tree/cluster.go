package tree

import (
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/limiter"
	"corenode/wasm/abi"
)

// ClusterStore is what the tree needs of a store that many nodes share.
type ClusterStore interface {
	ledger.ClusterStore
	// Wanted names the accounts of which this node has a grant that another one needs.
	Wanted() ([]string, error)
}

// clusterLimits is what the limiters of a cluster's store need.
func (t *Tree) clusterLimits() limiter.ClusterDeps {
	return limiter.ClusterDeps{
		Propose: func(p limit.Proposal, done func(limit.Verdict, time.Time, *abi.Error)) error {
			return t.ledger.Send(ledger.Propose{Proposal: p, Done: func(v ledger.Verdict) { done(v.Verdict, v.Asked, v.Err) }})
		},
		Return: func(r limit.Return) { _ = t.ledger.Tell(ledger.GiveBack{Return: r}) }, // fails only when the whole tree stops
		Tell:   func(id string, m limiter.Message) error { return t.limits.Tell(id, m) },
		Counts: &t.counters.Limits,
		Lease:  t.cfg.Lease,
		Hook:   t.cfg.hook,
	}
}

// clustered says whether many nodes share the store: then what requests have is in its rows.
func (t *Tree) clustered() bool { return t.deps.Cluster != nil }

// recallLoop gives back what other nodes need of this one's grants, while it has any.
func (t *Tree) recallLoop() {
	tick := time.NewTicker(t.cfg.RecallEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-t.quit:
			return
		}
		if t.counters.Limits.Held.Load() == 0 {
			continue
		}
		answer := make(chan []string, 1)
		go func() { // a stop does not wait for a store that does not answer
			wanted, _ := t.deps.Cluster.Wanted() // an error the ledger says, and grants end by themselves
			answer <- wanted
		}()
		select {
		case wanted := <-answer:
			for _, id := range wanted {
				_ = t.limits.Tell(id, limiter.Recall{}) // fails only when the whole tree stops
			}
		case <-t.quit:
			return
		}
	}
}

// returnMax bounds how long a stop waits until what is idle of its grants is given back. They end by themselves.
// Only tests change it.
var returnMax = time.Second

// returnGrants gives back what is idle of all grants, before the tree ends.
func (t *Tree) returnGrants() {
	if !t.clustered() || t.counters.Limits.Held.Load() == 0 {
		return
	}
	var ids []string
	t.limits.Each(t.limits.Len(), func(id string, _ int, _ *limiter.Cell) { ids = append(ids, id) })
	for _, id := range ids {
		if ref := t.limits.Live(id); ref != nil {
			_ = ref.Tell(limiter.Recall{}) // one that stopped has no grant that it believes in
		}
	}
	for end := time.Now().Add(returnMax); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if t.counters.Limits.Held.Load() == 0 && t.ledger.Depth() == 0 && t.journal.Stats().Waiting == 0 {
			return
		}
	}
}

// annotate adds to a row what a cluster's store is to know beside it.
func (r *request) annotate(e *account.Entry, used abi.Usage) {
	if !r.t.clustered() {
		return
	}
	e.Granted = r.reservation.Granted()
	if e.Kind == account.Settlement {
		e.Spent = r.leaving(used).Used
	}
}

// undo gives back what a request has that never ran, or that has no hold, once. durable says that a
// row does it or did: then the request is registered until the row is durable.
func (r *request) undo() (durable bool) {
	if !r.granted.Load() || !r.left.CompareAndSwap(false, true) {
		return r.closing()
	}
	switch got := r.reservation; {
	case !got.Durable:
		tell := r.t.limiterOf(r.call.Account.ID)
		tell(limiter.Unused{Number: got.GrantNumber, Part: got.Of(), Again: tell})
	case r.ask.Free:
		r.tellRelease(0)
	default:
		r.close()
		return true
	}
	return false
}

// closing says of a request that never ran that a row gives back what the store wrote for it: who sends
// the row removes the request.
func (r *request) closing() bool {
	return r.granted.Load() && r.left.Load() && r.reservation.Durable && !r.ask.Free
}

// close settles a request that never ran, and removes it when that is durable.
func (r *request) close() {
	e := r.entry(account.Settlement)
	e.Reason, e.Note = account.Failed, account.NeverRan
	done := func(c ledger.Commit) {
		if c.Err != nil && !c.Rejected && r.t.ledger.Alive() {
			r.t.background.Go(r.close)
			return
		}
		r.t.requests.remove(r)
	}
	if err := r.t.ledger.Tell(ledger.Append{Entry: e, Done: done}); err != nil {
		r.t.requests.remove(r) // the tree has stopped: the next start settles it
	}
}

// leaveClustered gives the permit back before the settlement is durable, or without one.
func (r *request) leaveClustered(u abi.Usage) {
	if r.ask.Free {
		r.undo()
	} else if r.granted.Load() && r.left.CompareAndSwap(false, true) {
		r.tellRelease(r.leaving(u).Used)
	}
}

// tellRelease fails only when the whole tree stops: then the permit goes with the node's fence.
func (r *request) tellRelease(used int64) {
	_ = r.t.ledger.Tell(ledger.GiveBack{Release: limit.Release{AccountID: r.call.Account.ID, RequestID: r.ask.RequestID, Used: used}})
}

// endClustered ends a request whose settlement, if there is one, has the fate c. The settlement gave all back.
func (r *request) endClustered(c ledger.Commit) {
	switch {
	case c.Err != nil:
		r.leaveClustered(r.taken())
	case c.Seq == 0: // the store never heard of its hold
		r.undo()
	default:
		r.left.Store(true)
	}
}
