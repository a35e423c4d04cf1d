package upstream

import (
	"container/list"
	"slices"
	"time"

	"corenode/engine/upstream/route"
)

// wish is what a request wants of a replica.
type wish struct {
	key   route.Key
	tried []string // replicas that it does not go to again
	retry bool     // it takes from the budget of retries
}

// choice is a place, or why there is none.
type choice struct {
	place
	why route.Refusal
}

// waiter is a request that waits for a place.
type waiter struct {
	wish
	submitted time.Time
	told      chan choice   // has room for one: Chosen or NoneUp
	in        *list.Element // of its line; nil when it was told
}

// line is the requests that wait for a place, those first that were submitted first. Options.QueueMax bounds it.
// The zero value is an empty one.
type line struct {
	waiters list.List
	retries int // of them, those that have tried a replica
}

func (l *line) len() int { return l.waiters.Len() }

// join takes in a request, behind those that were submitted before it.
func (l *line) join(w *waiter) {
	l.retries += min(1, len(w.tried))
	before := l.waiters.Back()
	for before != nil && before.Value.(*waiter).submitted.After(w.submitted) {
		before = before.Prev()
	}
	if before == nil {
		w.in = l.waiters.PushFront(w)
		return
	}
	w.in = l.waiters.InsertAfter(w, before)
}

// leave takes out a request, and says whether it was there still: else it was told.
func (l *line) leave(w *waiter) bool {
	if w.in == nil {
		return false
	}
	l.waiters.Remove(w.in)
	w.in, l.retries = nil, l.retries-min(1, len(w.tried))
	return true
}

// serve chooses for those who wait, in their order, and tells them. Once one that has tried no replica finds all full, those alone are
// looked at that have tried some: for them there may be none any more. So choose is called once for each that is told, and
// once for each list of replicas that were tried.
func (l *line) serve(choose func(wish) choice) {
	var full [][]string
	for e := l.waiters.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if slices.ContainsFunc(full, func(tried []string) bool { return slices.Equal(tried, w.tried) }) {
			continue
		}
		c := choose(w.wish)
		switch {
		case c.why != route.AllFull:
			l.leave(w)
			w.told <- c
		case len(w.tried) == 0 && l.retries == 0:
			return
		default:
			full = append(full, w.tried)
		}
	}
}
