package tree

import (
	"sync"
	"time"

	"corenode/actors/limit"
)

// requests is the registry of live requests: from before they ask the limiter
// until everything they were given is on its way back. It bounds them, and it is
// the truth from which a limiter rebuilds its permits and holds.
type requests struct {
	max int

	mu   sync.Mutex
	byID map[string]*request // by request id
	// untold are requests whose settlement their limiter has not seen yet, live or not: until
	// then what they hold is not free. They are as many as messages wait.
	untold map[*request]bool
	empty  chan struct{} // closed when the last one leaves; nil while nobody waits
}

func newRequests(max int) *requests {
	return &requests{max: max, byID: map[string]*request{}, untold: map[*request]bool{}}
}

// add registers a request. It is false when there are too many or its id is taken.
func (r *requests) add(q *request) (ok, full bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) >= r.max {
		return false, true
	}
	if _, taken := r.byID[q.ask.RequestID]; taken {
		return false, false
	}
	r.byID[q.ask.RequestID] = q
	return true, false
}

// remove forgets a request and closes its quote; a second time does nothing.
func (r *requests) remove(q *request) {
	if q.quote != nil {
		q.quote.Close()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.byID[q.ask.RequestID] == q {
		delete(r.byID, q.ask.RequestID)
	}
	if len(r.byID) == 0 && r.empty != nil {
		close(r.empty)
		r.empty = nil
	}
}

// whenEmpty returns a channel that is closed when no request lives.
func (r *requests) whenEmpty() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.byID) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if r.empty == nil {
		r.empty = make(chan struct{})
	}
	return r.empty
}

func (r *requests) find(id string) *request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

func (r *requests) len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.byID)
}

// all returns the requests of this moment.
func (r *requests) all() []*request {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]*request, 0, len(r.byID))
	for _, q := range r.byID {
		all = append(all, q)
	}
	return all
}

// live returns what the requests of an account have.
func (r *requests) live(accountID string) []limit.Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	var live []limit.Live
	see := func(q *request, untold bool) {
		if q.call.Account.ID != accountID {
			return
		}
		if l, ok := q.live(untold); ok {
			live = append(live, l)
		}
	}
	for _, q := range r.byID {
		see(q, r.untold[q])
	}
	for q := range r.untold {
		if r.byID[q.ask.RequestID] != q {
			see(q, true)
		}
	}
	return live
}

// pay says whether the settlement of q is to be told to its limiter, which is so once. Until
// that has seen it, q is untold.
func (r *requests) pay(q *request) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !q.paid.CompareAndSwap(false, true) {
		return false
	}
	r.untold[q] = true
	return true
}

// seen says that a limiter has handled the settlement of q.
func (r *requests) seen(q *request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.untold, q)
}

// sweepAction is what the sweep has to do for one request.
type sweepAction uint8

const (
	nothing    sweepAction = iota
	observe                // write down what it has used
	settleNow              // its job ended long ago and nobody settled it
	cancelNow              // it has expired
	takePermit             // a request without a job has expired
	leaveNow               // the ledger keeps its owner waiting: its permit is free
)

// sweepActionOf decides what the sweep does with a request at the time now.
func sweepActionOf(r *request, now time.Time, wait, grace time.Duration) sweepAction {
	done, awaited := r.doneAt.Load(), r.awaitedAt.Load()
	switch {
	case r.phase.Load() != accepted: // it waits, or got lost on its way
		if now.After(r.lostAt) && !r.closing() {
			return cancelNow
		}
		return nothing
	case r.ask.Free:
		if now.After(r.expires) {
			return takePermit
		}
		return nothing
	case awaited != nil:
		if now.Sub(*awaited) > wait && !r.left.Load() {
			return leaveNow
		}
		return nothing
	case done != nil && now.Sub(*done) > grace:
		return settleNow
	case done != nil:
		return nothing
	case now.After(r.expires):
		return cancelNow
	}
	return observe
}
