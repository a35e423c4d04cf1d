package upstream

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/bench/fake"
	"corenode/engine"
	"corenode/engine/upstream/route"
	"corenode/engine/upstream/wire"
)

// TestQueueHasAnOrder: requests that wait for a place get it in the order in which they came, and one that comes when a
// place is free stands behind them.
func TestQueueHasAnOrder(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, wire.VLLM, func(int, []byte) fake.Script {
		<-gate
		return fake.Script{Text: []string{"x"}}
	})
	m := open(t, wire.VLLM, func(o *Options) { o.ConnectionsMax = 1 }, s)
	l := newLoop(t, m)
	var ends []*bool
	submit := func(n int) {
		_, _, over := l.job("a", fmt.Sprintf(`{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"number %d."}]}`, n))
		ends = append(ends, over)
	}
	submit(0)
	l.until(func() bool { return len(s.Seen()) == 1 })
	const many = 12
	for n := 1; n < many; n++ {
		submit(n)
		l.until(func() bool { return m.Waiting() == n })
	}
	for n := range many {
		gate <- struct{}{}
		if n < many/2 { // as many come meanwhile
			submit(many + n)
			l.until(func() bool { return len(s.Seen()) == n+2 && m.Waiting() == many-1 })
		}
	}
	for range many / 2 {
		gate <- struct{}{}
	}
	l.until(func() bool { return !slices.ContainsFunc(ends, func(over *bool) bool { return !*over }) })
	for n, seen := range s.Seen() {
		if !strings.Contains(string(seen.Body), fmt.Sprintf("number %d.", n)) {
			t.Errorf("at place %d came %s", n, seen.Body)
		}
	}
}

// TestPlacesGoByPriorityAndAccount: of those that wait the highest priority is answered first, then the accounts take
// turns, each with its requests in their order.
func TestPlacesGoByPriorityAndAccount(t *testing.T) {
	gate := make(chan struct{})
	s := start(t, wire.VLLM, func(int, []byte) fake.Script {
		<-gate
		return fake.Script{Text: []string{"x"}}
	})
	m := open(t, wire.VLLM, func(o *Options) { o.ConnectionsMax = 1 }, s)
	l := newLoop(t, m)
	var ends []*bool
	submit := func(account, name string, priority int8) {
		l.priority = priority
		_, _, over := l.job(account, fmt.Sprintf(`{"model":"far","max_tokens":100,"messages":[{"role":"user","content":"%s."}]}`, name))
		ends = append(ends, over)
		l.until(func() bool { return len(s.Seen()) == 1 && m.Waiting() == len(ends)-1 })
	}
	submit("z", "runs", 0)
	submit("b", "batch", -20)
	for _, name := range []string{"a1", "a2", "a3"} {
		submit("a", name, 0)
	}
	submit("b", "b1", 0)
	submit("a", "urgent", 10)
	for range ends {
		gate <- struct{}{}
	}
	l.until(func() bool { return !slices.ContainsFunc(ends, func(over *bool) bool { return !*over }) })
	if m.line.places["a"]+m.line.places["b"] != 0 {
		t.Errorf("all are over, and accounts have places: %v", m.line.places)
	}
	for n, name := range []string{"runs", "urgent", "b1", "a1", "a2", "a3", "batch"} {
		if seen := s.Seen()[n].Body; !strings.Contains(string(seen), name+".") {
			t.Errorf("at place %d, where %s belongs, came %s", n, name, seen)
		}
	}
}

// TestLine: those that were submitted first are served first, one that can go to none of what is free keeps its place, and
// however many wait, one place that comes free is asked for by few.
func TestLine(t *testing.T) {
	var l line
	begin := time.Unix(1_000_000, 0)
	join := func(after int, tried ...string) *waiter {
		w := &waiter{wish: wish{tried: tried}, submitted: begin.Add(time.Duration(after)), told: make(chan choice, 1)}
		l.join(w)
		return w
	}
	b, gone, c := join(20), join(30), join(40)
	a := join(10, "x") // it waits again, since x did not answer
	twice := join(15, "x", "y")
	for n := range 1000 {
		join(100 + n)
	}
	if !l.leave(gone) || l.leave(gone) {
		t.Error("who leaves is there once")
	}
	free, asked := map[string]int{}, 0
	choose := func(w wish) choice {
		asked++
		for _, id := range []string{"x", "y"} {
			if free[id] > 0 && !slices.Contains(w.tried, id) {
				free[id]--
				return choice{place: place{replica: &replica{base: id}}}
			}
		}
		return choice{why: route.AllFull}
	}
	for _, step := range []struct {
		free  string
		told  *waiter
		asked int
	}{{"x", b, 4}, {"y", a, 3}, {"y", c, 3}} { // besides who is told, one for each list of what was tried
		free[step.free], asked = 1, 0
		l.serve(begin, choose)
		select {
		case got := <-step.told.told:
			if got.base != step.free {
				t.Errorf("sent to %s, and %s was free", got.base, step.free)
			}
		default:
			t.Errorf("%s came free, and who was the first to wait for it was not told", step.free)
		}
		if asked > step.asked || free[step.free] != 0 {
			t.Errorf("chosen for %d times, want %d at most; %d are free", asked, step.asked, free[step.free])
		}
	}
	if l.leave(a) || !l.leave(twice) {
		t.Error("who was told is in line, or who was not is not")
	}
	l.serve(begin, func(wish) choice { return choice{why: route.NoneUp} })
	if l.len() != 0 {
		t.Errorf("no replica is up, and %d wait", l.len())
	}
}

// TestListsAreComparedOnce: requests that have tried the same replicas, whichever first, find all full as one, whatever their
// priority. That they have is looked at as they join: comparing all lists with all others as a place comes free takes
// seconds where there are hundreds.
func TestListsAreComparedOnce(t *testing.T) {
	const replicas = 20
	var l line
	for i := range replicas {
		for j := range replicas {
			if i == j {
				continue
			}
			w := &waiter{wish: wish{tried: []string{fmt.Sprint(i), fmt.Sprint(j)}}, priority: int8(i % 3), told: make(chan choice, 1)}
			l.join(w)
			clear(w.tried) // whoever compares them later finds all equal
		}
	}
	for range 2 {
		asked := 0
		l.serve(time.Time{}, func(wish) choice {
			asked++
			return choice{why: route.AllFull}
		})
		if want := replicas * (replicas - 1) / 2; asked != want {
			t.Errorf("chosen for %d times, want %d", asked, want)
		}
	}
}

// TestRetryThatNobodyTakes: a request that has tried the only replica that is up is told so, though others wait in front of it.
func TestRetryThatNobodyTakes(t *testing.T) {
	var l line
	join := func(tried ...string) *waiter {
		w := &waiter{wish: wish{tried: tried}, told: make(chan choice, 1)}
		l.join(w)
		return w
	}
	first, retry := join(), join("x")
	l.serve(time.Time{}, func(w wish) choice {
		if len(w.tried) > 0 {
			return choice{why: route.NoneUp}
		}
		return choice{why: route.AllFull}
	})
	if len(retry.told) != 1 || len(first.told) != 0 || l.len() != 1 || !l.leave(first) {
		t.Errorf("%d and %d are told; %d wait", len(first.told), len(retry.told), l.len())
	}
}

// TestLeavingTheLine: a request that is cancelled as it gets its place, before or after, leaves it to others.
func TestLeavingTheLine(t *testing.T) {
	m := open(t, wire.VLLM, func(o *Options) { o.ConnectionsMax = 1 }, start(t, wire.VLLM, plainAnswer))
	left := 0
	for round := range 100 {
		first := m.choose(wish{})
		if first.why != route.Chosen {
			t.Fatalf("the place is not free: %d", first.why)
		}
		r := &relay{model: m, job: &engine.Job{}, submitted: time.Now()}
		r.ctx, r.cancel = context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			p, err := r.choose(route.Key{}, nil, nil)
			if err != nil {
				left++
				return
			}
			m.giveBack(p)
		}()
		waitFor(t, "the request to wait", func() bool { return m.Waiting() == 1 })
		m.mu.Lock() // so that it cannot leave the line in between
		if round%2 == 0 {
			r.cancel()
		}
		m.line.gave(first.account, time.Now())
		m.set.Release(first.base)
		m.serveWaiting()
		r.cancel()
		m.mu.Unlock()
		<-ended
		if n := m.Waiting(); n != 0 || m.Replicas()[0].InFlight != 0 || len(m.line.places) != 0 {
			t.Fatalf("%d wait, %d are counted, and accounts have places: %v", n, m.Replicas()[0].InFlight, m.line.places)
		}
	}
	if left == 0 {
		t.Error("none was cancelled before it read what it was told: the test sees nothing")
	}
}
