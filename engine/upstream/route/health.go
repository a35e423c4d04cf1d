package route

import (
	"strings"
	"time"
)

// The numbers of health: how soon a replica is taken out, and how soon it comes back.
const (
	probesOut   = 3 // failed probes in a row that take a replica out
	probesIn    = 2 // and passed ones that bring it back
	failuresOut = 5 // failed requests in a row that eject it
	ejectFirst  = 10 * time.Second
	ejectMax    = 300 * time.Second
)

// health is whether a replica may be chosen. It starts as up: a node that has just begun
// must not refuse its first requests.
type health struct {
	out        bool // by probes
	failed     int  // probes in a row
	passed     int
	failures   int // requests in a row
	ejections  int // since a request succeeded
	ejectedTo  time.Time
	lastReason string
}

func (h *health) up(now time.Time) bool { return !h.out && !now.Before(h.ejectedTo) }

// failing says that the last probes or requests failed: one that is up all the same is kept in, since too few others are.
func (h *health) failing() bool { return h.failed >= probesOut || h.failures >= failuresOut }

// reasonMax bounds what is kept of why a replica failed, in bytes.
const reasonMax = 500

// say keeps why the replica failed, to the end of a character.
func (h *health) say(reason string) {
	if len(reason) > reasonMax {
		reason = strings.ToValidUTF8(reason[:reasonMax], "") + "..."
	}
	h.lastReason = reason
}

// Probed tells how a probe of a replica ended, and says whether that took it out or
// brought it back. The last replica that is up is not taken out, nor more than half of all.
func (s *Set) Probed(id string, ok bool, reason string, now time.Time) (changed bool) {
	r := s.get(id)
	if r == nil {
		return false
	}
	h := &r.health
	if ok {
		h.failed = 0
		if h.passed++; h.out && h.passed >= probesIn {
			h.out, r.upSince = false, now
			if h.ejectedTo.After(now) {
				r.upSince = h.ejectedTo
			}
			return true
		}
		return false
	}
	h.passed = 0
	h.say(reason)
	if h.failed++; !h.out && h.failed >= probesOut && (!h.up(now) || s.spares(now)) { // one that is ejected is out already
		h.out = true
		return true
	}
	return false
}

// spares says whether one more replica may be taken out: with it no more than half are out, so
// another one is up.
func (s *Set) spares(now time.Time) bool {
	out, all := 0, 0
	for _, r := range s.replicas {
		if r.draining { // it answers nothing new anyway
			continue
		}
		if all++; !r.health.up(now) {
			out++
		}
	}
	return 2*(out+1) <= all
}

// Succeeded tells that a replica answered a request.
func (s *Set) Succeeded(id string) {
	if r := s.get(id); r != nil {
		r.health.failures, r.health.ejections = 0, 0
	}
}

// Failed tells that a replica could not answer: no connection, a reset, an error of its own,
// nothing in time. Five in a row eject it, for longer each time. It says whether it did.
func (s *Set) Failed(id, reason string, now time.Time) (ejected bool) {
	r := s.get(id)
	if r == nil {
		return false
	}
	h := &r.health
	h.say(reason)
	if h.failures++; h.failures < failuresOut || !h.up(now) || !s.spares(now) {
		return false
	}
	h.failures = 0
	h.ejections++
	d := ejectFirst * time.Duration(h.ejections)
	d += time.Duration(s.random.Int64N(int64(d)/4 + 1)) // so that nodes do not come back together
	h.ejectedTo = now.Add(min(ejectMax, d))
	r.upSince = h.ejectedTo
	return true
}

// Refused tells that a replica answers, and refuses whoever asks, or has no room: an operator has to see why.
func (s *Set) Refused(id, reason string) {
	if r := s.get(id); r != nil {
		r.health.say(reason)
	}
}

// State is a replica as an operator sees it.
type State struct {
	ID string
	Up bool
	// Failing says that its last probes or requests failed. One that is up all the same is chosen since too few others are.
	Failing  bool
	Draining bool
	InFlight int
	Waiting  float64
	// WaitingAge is how old Waiting is; negative when it was never polled.
	WaitingAge time.Duration
	Prefixes   int
	// EjectedFor is how long it stays ejected; 0 when it is not.
	EjectedFor time.Duration
	// Reason is why it failed last, refused the node or had no room; empty if it never did.
	Reason string
}

// States lists the replicas by id.
func (s *Set) States(now time.Time) []State {
	all := make([]State, 0, len(s.replicas))
	for _, r := range s.replicas {
		st := State{ID: r.id, Up: r.health.up(now), Failing: r.health.failing(), Draining: r.draining,
			InFlight: r.inFlight, Waiting: r.waiting, WaitingAge: -1,
			Prefixes: r.prefixes.order.Len(), EjectedFor: max(0, r.health.ejectedTo.Sub(now)), Reason: r.health.lastReason}
		if !r.polledAt.IsZero() {
			st.WaitingAge = now.Sub(r.polledAt)
		}
		all = append(all, st)
	}
	return all
}
