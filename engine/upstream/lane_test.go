package upstream

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine/upstream/route"
)

// queue is a line as tests see it: one kind of place, of which some are free.
type queue struct {
	line
	now  time.Time
	free int
}

func newQueue() *queue { return &queue{now: time.Unix(1_000_000, 0)} }

// join takes in a request a moment later.
func (q *queue) join(account string, priority int8) *waiter {
	q.now = q.now.Add(time.Millisecond)
	w := &waiter{wish: wish{account: account}, priority: priority, submitted: q.now, told: make(chan choice, 1)}
	q.line.join(w)
	return w
}

// serve gives n places away, and says which requests got one, by their accounts.
func (q *queue) serve(n int) (accounts []string) {
	q.free += n
	q.now = q.now.Add(time.Millisecond)
	q.line.serve(q.now, func(w wish) choice {
		if q.free == 0 {
			return choice{why: route.AllFull}
		}
		q.free--
		q.took(w.account, q.now)
		accounts = append(accounts, w.account)
		return choice{place: place{account: w.account}}
	})
	return accounts
}

// turn gives a place away that its account gives back at once.
func (q *queue) turn() string {
	account := q.serve(1)[0]
	q.gave(account, q.now)
	return account
}

// TestAccountsTakeTurns: of accounts that wait as long the one with the fewest places is served first, however many requests
// of others came before; of those that have as many, the one that was served last stands last.
func TestAccountsTakeTurns(t *testing.T) {
	q := newQueue()
	for range 800 {
		q.join("heavy", 0)
	}
	if got := q.serve(3); !slices.Equal(got, []string{"heavy", "heavy", "heavy"}) {
		t.Errorf("alone, and %v is served", got)
	}
	q.join("one", 0)
	q.join("two", 0)
	q.join("two", 0)
	if got := q.serve(4); !slices.Equal(got, []string{"one", "two", "two", "heavy"}) {
		t.Errorf("%v", got)
	}
	for range 4 {
		q.gave("heavy", q.now)
	}
	q.gave("two", q.now)
	q.gave("two", q.now)
	q.gave("one", q.now)
	if len(q.places) != 0 {
		t.Errorf("all was given back, and there are %v", q.places)
	}
	for range 3 {
		q.join("one", 0)
	}
	var got []string
	for range 3 {
		q.join("new", 0)
		got = append(got, q.turn(), q.turn(), q.turn())
	}
	if want := strings.Fields("heavy one new heavy one new heavy one new"); !slices.Equal(got, want) {
		t.Errorf("with one place: %v, want %v", got, want)
	}
}

// TestPlaceCountsAsWaiting: an account that has a place for long is given another one in the end, though others that have none
// come all the time, and go first for some time.
func TestPlaceCountsAsWaiting(t *testing.T) {
	q := newQueue()
	q.join("a", 0)
	q.serve(1)
	q.join("a", 0)
	var served []string
	for n := range 60 {
		q.now = q.now.Add(5 * time.Second)
		q.join(fmt.Sprint("new ", n), 0)
		served = append(served, q.turn())
	}
	if at := slices.Index(served, "a"); at < 1 {
		t.Errorf("the account that has a place is served at turn %d: %v", at, served)
	}
}

// TestAnswersTakeTurns: an account that sends its next request some time after its answer takes turns with one of which many
// wait, however long an answer takes.
func TestAnswersTakeTurns(t *testing.T) {
	for _, answer := range []time.Duration{time.Second, time.Minute} {
		q := newQueue()
		for range 10 {
			q.join("heavy", 0)
		}
		q.join("one", 0)
		var served []string
		for n := range 10 {
			served = append(served, q.serve(1)[0])
			q.now = q.now.Add(answer / 2)
			if n > 0 && served[n-1] == "one" {
				q.join("one", 0)
			}
			q.now = q.now.Add(answer / 2)
			q.gave(served[n], q.now)
		}
		if want := strings.Fields(strings.Repeat("heavy one ", 5)); !slices.Equal(served, want) {
			t.Errorf("with answers of %v: %v, want %v", answer, served, want)
		}
	}
}

// TestPrioritiesAge: a priority that has waited ten seconds for each level goes before a higher one, one request at a time.
func TestPrioritiesAge(t *testing.T) {
	q := newQueue()
	low := []*waiter{q.join("a", 0), q.join("a", 0)}
	begin := q.now
	for _, step := range []struct {
		after  time.Duration
		served int // of low, so far
	}{{0, 0}, {19 * time.Second, 0}, {21 * time.Second, 1}, {40 * time.Second, 1}, {42 * time.Second, 2}} {
		q.now = begin.Add(step.after)
		for range 3 {
			q.join("b", 2)
			q.turn()
		}
		if n := len(low[0].told) + len(low[1].told); n != step.served {
			t.Errorf("after %v %d of the lower priority were served, want %d", step.after, n, step.served)
		}
	}
}

// plain is what a line does, done by looking at all that wait.
type plain struct {
	waiters  []*waiter
	classes  map[int8]time.Time
	accounts map[string]time.Time // when they are due
	places   map[string]int
}

// first is who is served next of those for whom there is room.
func (p *plain) first(room func(wish) bool) (first *waiter) {
	for _, w := range p.waiters {
		if room(w.wish) && (first == nil || p.compare(w, first) < 0) {
			first = w
		}
	}
	return first
}

func (p *plain) compare(a, b *waiter) int {
	due := func(w *waiter) time.Time {
		return p.classes[w.priority].Add(-10 * time.Second * time.Duration(w.priority))
	}
	return cmp.Or(due(a).Compare(due(b)), cmp.Compare(b.priority, a.priority),
		p.accounts[a.account].Compare(p.accounts[b.account]), a.submitted.Compare(b.submitted))
}

// later is a time and ten seconds more for each place of an account.
func (p *plain) later(at time.Time, account string) time.Time {
	return at.Add(10 * time.Second * time.Duration(p.places[account]))
}

func (p *plain) join(w *waiter) {
	if !slices.ContainsFunc(p.waiters, func(o *waiter) bool { return o.priority == w.priority }) {
		p.classes[w.priority] = w.submitted
	}
	if !slices.ContainsFunc(p.waiters, func(o *waiter) bool { return o.account == w.account }) {
		p.accounts[w.account] = p.later(w.submitted, w.account)
	}
	p.waiters = append(p.waiters, w)
}

func (p *plain) serve(w *waiter, now time.Time) {
	p.leave(w)
	p.places[w.account]++
	p.classes[w.priority], p.accounts[w.account] = now, p.later(now, w.account)
}

func (p *plain) gave(account string, now time.Time) {
	p.places[account]--
	p.accounts[account] = p.later(now, account)
}

func (p *plain) leave(w *waiter) {
	p.waiters = slices.DeleteFunc(p.waiters, func(o *waiter) bool { return o == w })
}

// roomFor is where a request finds one of the places that are free.
func roomFor(w wish, free map[string]int) string {
	for _, id := range []string{"x", "y"} {
		if free[id] > 0 && !slices.Contains(w.tried, id) {
			return id
		}
	}
	return ""
}

// TestLineIsInOrder: whatever comes, leaves, is served and gives back, each place goes to the one that a look at all that
// wait finds first.
func TestLineIsInOrder(t *testing.T) {
	served := 0
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 1))
		var l line
		p := &plain{classes: map[int8]time.Time{}, accounts: map[string]time.Time{}, places: map[string]int{}}
		now, free, owners, came := time.Unix(1_000_000, 0), map[string]int{}, []string{}, []*waiter{}
		hasRoom := func(w wish) bool { return roomFor(w, free) != "" }
		choose := func(w wish) choice {
			if !hasRoom(w) {
				return choice{why: route.AllFull}
			}
			got := came[w.key.Conversation]
			if want := p.first(hasRoom); got != want {
				t.Fatalf("seed %d: %+v is served before %+v", seed, got, want)
			}
			free[roomFor(w, free)]--
			owners = append(owners, w.account)
			l.took(w.account, now)
			p.serve(got, now)
			served++
			return choice{place: place{account: w.account}}
		}
		for range 600 {
			now = now.Add(time.Duration(random.Int64N(int64(3 * time.Second))))
			switch n := random.IntN(10); {
			case n < 5:
				w := &waiter{wish: wish{account: string(rune('a' + random.IntN(4)))}, priority: []int8{-2, 0, 0, 1}[random.IntN(4)],
					submitted: now, told: make(chan choice, 1)}
				if w.tried = [][]string{nil, nil, nil, nil, {"x"}, {"y"}, {"x", "y"}, {"y", "x"}}[random.IntN(8)]; w.tried != nil {
					w.submitted = now.Add(-time.Duration(random.Int64N(int64(20 * time.Second))))
				}
				w.key.Conversation = uint64(len(came))
				came = append(came, w)
				l.join(w)
				p.join(w)
			case n < 6 && len(came) > 0:
				w := came[random.IntN(len(came))]
				if waits := slices.Contains(p.waiters, w); l.leave(w) != waits {
					t.Fatalf("seed %d: that it waits is %v", seed, waits)
				}
				p.leave(w)
			case n < 8 && len(owners) > 0:
				owner := owners[0]
				owners = owners[1:]
				l.gave(owner, now)
				p.gave(owner, now)
			default:
				free[[]string{"x", "y"}[random.IntN(2)]]++
			}
			l.serve(now, choose)
			if p.first(hasRoom) != nil || l.len() != len(p.waiters) {
				t.Fatalf("seed %d: %d wait, want %d and none with room", seed, l.len(), len(p.waiters))
			}
		}
		for _, w := range p.waiters {
			l.leave(w)
		}
		if len(l.classes)+len(l.scopes)+len(l.accounts)+l.len() != 0 {
			t.Fatalf("seed %d: nobody waits, and there are %+v", seed, l)
		}
	}
	if served < 1000 {
		t.Errorf("%d were served: that tests nothing", served)
	}
}
