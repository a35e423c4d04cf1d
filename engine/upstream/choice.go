package upstream

import (
	"time"

	"corenode/engine/upstream/route"
	"corenode/wasm/abi"
)

// request counts a request for the budget of retries.
func (m *Model) request() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.budget.Request(time.Now())
}

// place is what choose counted for a request; the zero value is none.
type place struct {
	*replica
	account  string   // whose it is, as its wish said
	prefixes []uint64 // the beginnings of the prompt
	fresh    []uint64 // those that it was not thought to have before
	known    int      // how many of prefixes, from the front, it was thought to have
}

// choose picks a replica that is ready and that the request has not tried, once those are served that wait. A retry takes from the
// budget, and finds nobody where that is used up.
func (m *Model) choose(w wish) choice {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serveWaiting()
	return m.chooseNow(w)
}

// chooseOrWait is choose, but where all are full the request waits in line: then it is told, unless it leaves. The choice is
// AllFull where too many wait already.
func (m *Model) chooseOrWait(w *waiter) (c choice, waits bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.serveWaiting() // time alone may have brought a replica back
	c = m.chooseNow(w.wish)
	if waits = c.why == route.AllFull && m.line.len() < m.options.QueueMax; waits {
		m.line.join(w)
	}
	return c, waits
}

// leave ends a wait, and says whether the request was not told anything before.
func (m *Model) leave(w *waiter) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.line.leave(w)
}

// serveWaiting gives places that may have come free to those that wait, in their order. mu is held.
func (m *Model) serveWaiting() { m.line.serve(time.Now(), m.chooseNow) }

// chooseNow is choose, whoever waits. mu is held.
func (m *Model) chooseNow(w wish) choice {
	skip := w.tried
	if len(m.ready) < len(m.replicas) {
		skip = append([]string(nil), w.tried...)
		for base := range m.replicas {
			if !m.ready[base] {
				skip = append(skip, base)
			}
		}
	}
	now := time.Now()
	if w.retry && !m.budget.MayRetry(now) {
		return choice{why: route.NoneUp}
	}
	c, why := m.set.Choose(now, w.key, skip)
	if why != route.Chosen {
		return choice{why: why}
	}
	if w.retry {
		m.budget.Retry(now)
	}
	m.line.took(w.account, now)
	return choice{place: place{m.replicas[c.ID], w.account, w.key.Prefixes, c.New, c.Known}}
}

// giveBack gives back what choose counted, where an attempt says nothing of the replica but that it lacks these beginnings.
func (m *Model) giveBack(p place, lacks ...uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line.gave(p.account, time.Now())
	if m.replicas[p.base] == p.replica { // else another one may be there now
		m.set.Release(p.base)
		m.set.Unlearn(p.base, lacks)
		m.serveWaiting()
	}
}

// learnOwn tells that the own engine computes a prompt that it was not chosen for.
func (m *Model) learnOwn(key route.Key) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.set.Learn(m.options.Own, key.Prefixes, time.Now())
}

// release gives back what choose counted, and learns from how the attempt ended. What failed is
// not thought to have the prompt: its next turn goes where it was answered.
func (m *Model) release(p place, o *outcome) {
	r := p.replica
	m.mu.Lock()
	defer m.mu.Unlock()
	m.line.gave(p.account, time.Now())
	if m.replicas[r.base] != r { // it was removed meanwhile; another one may be there now
		return
	}
	defer m.serveWaiting() // with what is learned here
	m.set.Release(r.base)
	if o == nil || o.verdict == ofRequest {
		m.set.Succeeded(r.base)
		return
	}
	switch o.verdict {
	case refusesNode, refusesKey: // what it answered before is of no use there now, and would draw the next turn for ever
		m.set.Unlearn(r.base, p.prefixes)
		m.refusedBy(r, o, time.Now())
		if o.verdict == refusesKey {
			m.failed(r, o)
		} else { // a request may be why: it must neither take a server out nor keep one in
			m.counts.Failures.Add(1)
			m.set.Refused(r.base, o.why())
		}
	case full:
		m.set.Unlearn(r.base, p.fresh)
		m.full(r, o, time.Now())
	default:
		m.set.Unlearn(r.base, p.fresh)
		m.failed(r, o)
	}
}

// toldEvery is how often the log says of a replica that it is full, and that it refuses this node, and of a model that it is
// another account's.
const toldEvery = time.Minute

// refusedBy tells operators of a replica that refuses this node, as it does for each request. mu is held.
func (m *Model) refusedBy(r *replica, o *outcome, now time.Time) {
	if now.Sub(r.refusalToldAt) < toldEvery {
		return
	}
	r.refusalToldAt = now
	m.options.Log.Error("the model's server refuses this node; look at its key, its model name and its URL",
		"model", m.options.ID, "replica", r.base, "reason", cut(o.err.Error(), 300))
}

// full counts that a replica had no room: it is not broken, but whoever is refused everywhere has to find out why. mu is held.
func (m *Model) full(r *replica, o *outcome, now time.Time) {
	m.counts.Full.Add(1)
	m.set.Refused(r.base, o.why())
	if now.Sub(r.fullToldAt) < toldEvery {
		return
	}
	r.fullToldAt = now
	m.options.Log.Warn("a server of the model is full", "model", m.options.ID, "replica", r.base, "reason", cut(o.err.Error(), 300))
}

// failed counts a failure of a replica. mu is held.
func (m *Model) failed(r *replica, o *outcome) {
	m.counts.Failures.Add(1)
	if o.verdict == absent { // it was not there: what it had cached may be gone
		m.set.Forget(r.base)
	}
	what := "a server of the model did not answer"
	if m.set.Failed(r.base, o.why(), time.Now()) {
		m.counts.Ejections[o.reason].Add(1)
		what = "a server of the model is taken out for some time"
	}
	m.options.Log.Warn(what, "model", m.options.ID, "replica", r.base,
		"class", o.reason.String(), "reason", cut(o.err.Error(), 300))
}

func errQueue(cause error) *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "upstream.choose", RetryAfter: time.Second,
		Msg: "the model's servers are full; try again", Err: cause}
}
