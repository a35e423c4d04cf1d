package tree

import (
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/limiter"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// sweepLoop does the periodic work until the tree stops.
func (t *Tree) sweepLoop() {
	tick := time.NewTicker(t.cfg.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.sweepRequests(time.Now())
			if t.journal.Stats().Spilled == 0 { // in an outage a limiter that retired could not come back
				t.limits.Sweep()
			}
			t.sessions.Sweep()
		case <-t.quit:
			return
		}
	}
}

// sweepRequests writes checkpoints and takes care of requests whose owner did not.
func (t *Tree) sweepRequests(now time.Time) {
	for _, r := range t.requests.all() {
		switch sweepActionOf(r, now, t.cfg.SettleWait, t.cfg.SettleGrace) {
		case observe:
			r.observe()
		case settleNow:
			if !r.settling.Load() { // else it waits for the ledger
				t.counters.SelfSettled.Add(1)
				r.selfSettle()
			}
		case cancelNow:
			t.counters.Expired.Add(1)
			r.expire()
		case leaveNow:
			r.leave(r.taken())
		case takePermit:
			t.counters.Expired.Add(1)
			r.release()
		}
	}
}

// expire ends a request that outlived its reservation: its job if it has one,
// else the request itself, which got stuck before a model took it.
func (r *request) expire() {
	if r.phase.Load() == accepted {
		r.cancel()
		return
	}
	r.refuse(system.TooManyRequests("tree.expire", nil), account.Limits{}) // its limiter may be writing r.limits
}

// observe keeps what a stream has delivered so far, in memory and, as far as the
// ledger has room, as a row. A request that does not stream pays nothing when it
// fails or the process dies, so it needs none. Only the sweep calls it.
func (r *request) observe() {
	if !r.call.Request.Stream || r.peer() || !r.shown.Load() {
		return // while nothing has left, an error or a crash is free
	}
	u := r.job.Delivered()
	if last := r.checkpoint.Load(); last != nil && *last == u {
		return
	}
	r.checkpoint.Store(&u)
	e := r.entry(account.Checkpoint)
	e.Usage = u
	_ = r.t.ledger.Send(ledger.Append{Entry: e}) // the next checkpoint covers one that found no room
}

// Counters only rise. They may be read at any time.
type Counters struct {
	Abandoned   atomic.Uint64  // callers that waited too long for admission
	SelfSettled atomic.Uint64  // streams that their owner did not settle
	Expired     atomic.Uint64  // reservations taken back because they were too old
	Provisional atomic.Uint64  // charges made without the billing module
	Limits      limiter.Counts // of a cluster's store
	refusals    []atomic.Uint64
	failures    map[string]*atomic.Uint64
}

func (c *Counters) init() {
	c.refusals = make([]atomic.Uint64, len(abi.Kinds()))
	c.failures = map[string]*atomic.Uint64{}
	for name := range policies {
		c.failures[name] = &atomic.Uint64{}
	}
}

func (c *Counters) refused(k abi.Kind) {
	if int(k) < len(c.refusals) {
		c.refusals[k].Add(1)
	}
}

func (c *Counters) failed(name string, _ any) {
	if n := c.failures[name]; n != nil {
		n.Add(1)
	}
}

// Refused returns the refusals of a kind.
func (c *Counters) Refused(k abi.Kind) uint64 {
	if int(k) < len(c.refusals) {
		return c.refusals[k].Load()
	}
	return 0
}

// Failures returns the panics of an actor, by the names in Actors.
func (c *Counters) Failures(actor string) uint64 {
	if n := c.failures[actor]; n != nil {
		return n.Load()
	}
	return 0
}

// Counters returns the counters of the tree.
func (t *Tree) Counters() *Counters { return &t.counters }

// DeadLetters counts messages that reached no actor.
func (t *Tree) DeadLetters() uint64 { return t.sys.DeadLetters() }
