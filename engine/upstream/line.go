package upstream

import (
	"container/heap"
	"container/list"
	"slices"
	"time"

	"corenode/engine/upstream/route"
)

// wish is what a request wants of a replica.
type wish struct {
	key     route.Key
	account string   // whose place it is then; empty where nobody waits in line
	tried   []string // replicas that it does not go to again
	retry   bool     // it takes from the budget of retries
}

// choice is a place, or why there is none.
type choice struct {
	place
	why route.Refusal
}

// waiter is a request that waits for a place.
type waiter struct {
	wish
	priority  int8
	submitted time.Time
	told      chan choice   // has room for one: Chosen or NoneUp
	lane      *lane         // where it waits; nil when it was told
	in        *list.Element // of the lane
}

// line is the requests that wait for a place. Options.QueueMax bounds it. Priorities are served as package priority
// says; of those of one priority the account that has waited longest since it came, or was last given a place or gave one
// back, where each place that it has takes placeWait off; and of its requests the one that was submitted first. The zero
// value is an empty one.
type line struct {
	waiting  int
	classes  []*class            // those in which a request waits, highest priority first
	scopes   map[scopeKey]*scope // those of which a request waits
	accounts map[string]*account // those of which a request waits
	places   map[string]int      // that accounts have, where they have any
	serves   uint64              // so far
}

func (l *line) len() int { return l.waiting }

// join takes in a request. One that has tried replicas comes before those that were submitted after it.
func (l *line) join(w *waiter) {
	n := l.class(w).kind(l.scope(w)).lane(l.account(w))
	n.add(w)
	l.waiting++
	if n.at < 0 {
		heap.Push(&n.kind.lanes, n)
	} else {
		heap.Fix(&n.kind.lanes, n.at)
	}
}

// leave takes out a request, and says whether it was there still: else it was told.
func (l *line) leave(w *waiter) bool {
	n := w.lane
	if n == nil {
		return false
	}
	n.waiters.Remove(w.in)
	w.lane, w.in = nil, nil
	l.waiting--
	if n.waiters.Len() > 0 {
		heap.Fix(&n.kind.lanes, n.at)
	} else {
		l.drop(n)
	}
	return true
}

// serve chooses for those who wait, in their order, and tells them. Once one finds all full, those alone are looked at that
// have tried other replicas: for them there may be none any more. So choose is called once for each that is told, and
// once for each scope.
func (l *line) serve(now time.Time, choose func(wish) choice) {
	l.serves++
	for n := l.next(); n != nil; n = l.next() {
		w := n.first()
		c := choose(w.wish)
		switch c.why {
		case route.AllFull:
			n.kind.scope.full = l.serves
			continue
		case route.Chosen:
			n.kind.class.since = now
		}
		l.leave(w)
		w.told <- c
	}
}

// next is the lane whose first request is served next, but for those whose scopes this serve found full; nil is none.
func (l *line) next() *lane {
	var next *lane
	var due time.Time
	for _, c := range l.classes { // of two that are due at once the higher priority goes first
		if n := c.next(l.serves); n != nil && (next == nil || c.due().Before(due)) {
			next, due = n, c.due()
		}
	}
	return next
}

// took counts a place that an account is given, whether it waited or not.
func (l *line) took(name string, now time.Time) {
	if l.places == nil {
		l.places = map[string]int{}
	}
	l.places[name]++
	if a := l.accounts[name]; a != nil {
		a.places, a.since = l.places[name], now
		a.moved()
	}
}

// gave counts a place that an account gives back. It begins to wait then: one of which more wait stands no better than one that
// sends its next request when it has its answer.
func (l *line) gave(name string, now time.Time) {
	if l.places[name]--; l.places[name] <= 0 {
		delete(l.places, name)
	}
	if a := l.accounts[name]; a != nil {
		a.places, a.since = l.places[name], now
		a.moved()
	}
}

// class is that of a request. One that nobody waited in begins to wait with it.
func (l *line) class(w *waiter) *class {
	at, found := slices.BinarySearchFunc(l.classes, w.priority, func(c *class, p int8) int { return int(p) - int(c.priority) })
	if !found {
		l.classes = slices.Insert(l.classes, at, &class{priority: w.priority, since: w.submitted})
	}
	return l.classes[at]
}

// scope is that of a request.
func (l *line) scope(w *waiter) *scope {
	key := w.wish.scope()
	s := l.scopes[key]
	if s == nil {
		s = &scope{scopeKey: key}
		if l.scopes == nil {
			l.scopes = map[scopeKey]*scope{}
		}
		l.scopes[key] = s
	}
	return s
}

// account is that of a request. One of which nothing waited begins to wait with it.
func (l *line) account(w *waiter) *account {
	a := l.accounts[w.account]
	if a == nil {
		a = &account{name: w.account, places: l.places[w.account], since: w.submitted}
		if l.accounts == nil {
			l.accounts = map[string]*account{}
		}
		l.accounts[w.account] = a
	}
	return a
}

// drop takes out a lane in which nobody waits any more, and what has no other.
func (l *line) drop(n *lane) {
	a, k, c := n.account, n.kind, n.kind.class
	heap.Remove(&k.lanes, n.at)
	if a.lanes = without(a.lanes, n); len(a.lanes) == 0 {
		delete(l.accounts, a.name)
	}
	if len(k.lanes) == 0 {
		c.kinds = without(c.kinds, k)
		if k.scope.kinds--; k.scope.kinds == 0 {
			delete(l.scopes, k.scope.scopeKey)
		}
	}
	if len(c.kinds) == 0 {
		l.classes = without(l.classes, c)
	}
}

// without is all without one of them.
func without[T any](all []*T, one *T) []*T {
	return slices.DeleteFunc(all, func(other *T) bool { return other == one })
}
