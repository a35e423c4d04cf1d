package upstream

import (
	"cmp"
	"container/heap"
	"container/list"
	"slices"
	"strings"
	"time"

	"corenode/engine/priority"
)

// class is the requests of one priority that wait.
type class struct {
	priority int8
	since    time.Time // when it began to wait, or was last given a place
	kinds    []*kind   // those of which a request waits
}

func (c *class) due() time.Time { return priority.Due(c.priority, c.since, priority.Wait) }

// next is the lane that is served next of the class, but for those whose scopes a serve found full; nil is none.
func (c *class) next(serve uint64) *lane {
	var next *lane
	for _, k := range c.kinds {
		if k.scope.full != serve && (next == nil || k.lanes[0].before(next)) {
			next = k.lanes[0]
		}
	}
	return next
}

// kind is where requests of a scope wait.
func (c *class) kind(s *scope) *kind {
	at := slices.IndexFunc(c.kinds, func(k *kind) bool { return k.scope == s })
	if at < 0 {
		at = len(c.kinds)
		c.kinds = append(c.kinds, &kind{class: c, scope: s})
		s.kinds++
	}
	return c.kinds[at]
}

// kind is the requests of a class that have the same scope.
type kind struct {
	class *class
	scope *scope
	lanes laneHeap
}

// scope is the replicas that requests of any class may go to: where there is no room for one of them, there is none for any.
type scope struct {
	scopeKey
	kinds int    // that have it, of all classes
	full  uint64 // the last serve that found no room
}

// scopeKey is the same for all wishes of a scope.
type scopeKey struct {
	tried string // in order, one a line, which no URL breaks
	retry bool   // it may have none to go to where others have
}

func (w *wish) scope() scopeKey {
	return scopeKey{strings.Join(slices.Sorted(slices.Values(w.tried)), "\n"), w.retry}
}

// lane is where the requests of an account wait that are of this kind.
func (k *kind) lane(a *account) *lane {
	at := slices.IndexFunc(a.lanes, func(n *lane) bool { return n.kind == k })
	if at < 0 {
		at = len(a.lanes)
		a.lanes = append(a.lanes, &lane{account: a, kind: k, at: -1})
	}
	return a.lanes[at]
}

// placeWait is what a place that an account has is worth in waiting: as much as a level of priority.
const placeWait = priority.Wait

// account is one of which requests wait.
type account struct {
	name   string
	places int       // that it has
	since  time.Time // when it began to wait, or was last given a place or gave one back
	lanes  []*lane   // one for each kind of its requests
}

// due is by what the accounts of a class are ordered, the earliest first. So of those that have waited as long the one with the
// fewest places goes first, and each becomes first in the end. moved follows each change of it.
func (a *account) due() time.Time { return a.since.Add(time.Duration(a.places) * placeWait) }

// moved puts the account's lanes where they belong.
func (a *account) moved() {
	for _, n := range a.lanes {
		heap.Fix(&n.kind.lanes, n.at)
	}
}

// lane is the requests of one account and one kind, those first that were submitted first. It has at least one.
type lane struct {
	account *account
	kind    *kind
	waiters list.List // of *waiter
	at      int       // in the kind's lanes; -1: not yet
}

func (n *lane) first() *waiter { return n.waiters.Front().Value.(*waiter) }

// add puts a request behind those that were submitted before it, which all but few were.
func (n *lane) add(w *waiter) {
	w.lane = n
	before := n.waiters.Back()
	for before != nil && before.Value.(*waiter).submitted.After(w.submitted) {
		before = before.Prev()
	}
	if before == nil {
		w.in = n.waiters.PushFront(w)
		return
	}
	w.in = n.waiters.InsertAfter(w, before)
}

// before says whether a lane is served before another one of its class.
func (n *lane) before(o *lane) bool {
	return cmp.Or(n.account.due().Compare(o.account.due()), n.first().submitted.Compare(o.first().submitted)) < 0
}

// laneHeap is the lanes of a kind, the one first that is served first.
type laneHeap []*lane

// Len implements heap.Interface, as the others do.
func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].before(h[j]) }
func (h laneHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].at, h[j].at = i, j
}

// Push implements heap.Interface.
func (h *laneHeap) Push(x any) {
	n := x.(*lane)
	n.at = len(*h)
	*h = append(*h, n)
}

// Pop implements heap.Interface.
func (h *laneHeap) Pop() any {
	n := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return n
}
