package tree

import (
	"sync"
	"time"

	"corenode/actors/limiter"
)

// requests is the registry of live requests: from before they ask the limiter
// until everything they were given is on its way back. It bounds them, and it is
// the truth from which a limiter rebuilds its permits and holds.
type requests struct {
	max int

	mu      sync.Mutex
	flights map[string]*flight // by request id
	empty   chan struct{}      // closed when the last one leaves; nil while nobody waits
}

func newRequests(max int) *requests {
	return &requests{max: max, flights: map[string]*flight{}}
}

// add registers a flight. It is false when there are too many or its id is taken.
func (r *requests) add(f *flight) (ok, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.flights) >= r.max {
		return false, true
	}
	if _, taken := r.flights[f.ask.RequestID]; taken {
		return false, false
	}
	r.flights[f.ask.RequestID] = f
	return true, false
}

// remove forgets a flight and closes its quote; a second time does nothing.
func (r *requests) remove(f *flight) {
	if f.quote != nil {
		f.quote.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.flights[f.ask.RequestID] == f {
		delete(r.flights, f.ask.RequestID)
	}
	if len(r.flights) == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// whenEmpty returns a channel that is closed when no request lives.
func (r *requests) whenEmpty() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.flights) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	return r.empty
}

func (r *requests) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flights)
}

// all returns the flights of this moment.
func (r *requests) all() []*flight {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*flight, 0, len(r.flights))
	for _, f := range r.flights {
		all = append(all, f)
	}
	return all
}

// live returns what the requests of an account have.
func (r *requests) live(accountID string) []limiter.Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	var live []limiter.Live
	for _, f := range r.flights {
		if f.call.Account.ID != accountID {
			continue
		}
		if l, ok := f.live(); ok {
			live = append(live, l)
		}
	}
	return live
}

// duty is what the sweep has to do for one flight.
type duty uint8

const (
	nothing    duty = iota
	observe         // write down what it has used
	settleIt        // its job ended long ago and nobody settled it
	cancelIt        // it has expired
	takePermit      // a request without a job has expired
	leaveIt         // the ledger keeps its owner waiting: its permit is free
)

// dutyOf decides what the sweep does with a flight at the time now.
func dutyOf(f *flight, now time.Time, wait, grace time.Duration) duty {
	done, awaited := f.doneAt.Load(), f.awaitedAt.Load()
	switch {
	case f.phase.Load() != accepted: // it waits, or got lost on its way
		if now.After(f.lostAt) {
			return cancelIt
		}
		return nothing
	case f.ask.Free:
		if now.After(f.expires) {
			return takePermit
		}
		return nothing
	case awaited != 0:
		if now.Sub(time.Unix(0, awaited)) > wait && !f.left.Load() {
			return leaveIt
		}
		return nothing
	case done != 0 && now.Sub(time.Unix(0, done)) > grace:
		return settleIt
	case done != 0:
		return nothing
	case now.After(f.expires):
		return cancelIt
	}
	return observe
}
