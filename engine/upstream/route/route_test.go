package route

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

var base = time.Unix(1_000_000, 0)

// setOf is a set of replicas a, b, c and so on.
func setOf(n int) *Set {
	s := New(Config{PrefixesMax: 100, PrefixAge: time.Minute, InFlightMax: 1000, Seed: 1})
	for i := range n {
		s.Add(name(i))
	}
	return s
}

func name(i int) string { return string(rune('a' + i)) }

// choose fails the test where nothing is chosen.
func choose(t *testing.T, s *Set, now time.Time, key Key, tried ...string) Choice {
	t.Helper()
	c, refusal := s.Choose(now, key, tried)
	if refusal != Chosen {
		t.Fatalf("refused with %d", refusal)
	}
	return c
}

// TestReach: the replica that knows the prefix is chosen as long as its load is at most
// max(4, 25 %) over the least.
func TestReach(t *testing.T) {
	for _, c := range []struct {
		least, load int
		known       bool
	}{{0, 4, true}, {0, 5, false}, {10, 14, true}, {10, 15, false}, {16, 20, true}, {40, 50, true}, {40, 51, false}} {
		s := setOf(2)
		key := Key{Conversation: 7, Prefixes: []uint64{1, 2}}
		knows := choose(t, s, base, key).ID
		s.Release(knows)
		for _, r := range s.replicas {
			r.inFlight = c.least
		}
		s.get(knows).inFlight = c.load
		got := choose(t, s, base, key)
		if (got.Known == 2) != c.known || c.known && got.ID != knows { // beyond it the order decides
			t.Errorf("loads %d and %d: chose %+v, the prefix is at %s", c.least, c.load, got, knows)
		}
	}
}

// TestLongestPrefix: of those within reach the longest prefix counts, then the lower load.
func TestLongestPrefix(t *testing.T) {
	s := setOf(3)
	s.get("a").prefixes.add([]uint64{1}, base)
	s.get("b").prefixes.add([]uint64{1, 2}, base)
	s.get("c").prefixes.add([]uint64{1, 2}, base)
	s.get("b").inFlight = 1
	if got := choose(t, s, base, Key{Prefixes: []uint64{1, 2, 3}}); got.ID != "c" || got.Known != 2 {
		t.Errorf("chose %+v, want c, which knows two", got)
	}
	if got := choose(t, s, base, Key{Prefixes: []uint64{1, 9}}); got.Known != 1 {
		t.Errorf("chose %+v, want one that knows the first prefix", got)
	}
}

// TestBoundedMiss: a miss goes to its own replica of the order, but never above the bound,
// even if all misses are of one conversation.
func TestBoundedMiss(t *testing.T) {
	s := setOf(4)
	key := Key{Conversation: 42}
	first := choose(t, s, base, key).ID
	s.Release(first)
	if again := choose(t, s, base, key).ID; again != first {
		t.Errorf("an idle set chose %s and then %s", first, again)
	}
	s.Release(first)
	for n := 1; n <= 200; n++ {
		choose(t, s, base, key)
		for _, r := range s.replicas {
			if bound := 1.25*float64(n)/4 + 1; float64(r.inFlight) > bound {
				t.Fatalf("after %d requests %s has %d, over %v", n, r.id, r.inFlight, bound)
			}
		}
	}
}

// TestReplicas: drained, removed and tried ones are not chosen, load is given back, and what
// is released after its replica went changes nothing.
func TestReplicas(t *testing.T) {
	s := setOf(2)
	if !s.Drain("a", true) || s.Drain("x", true) {
		t.Error("Drain does not say what it found")
	}
	for range 3 {
		if id := choose(t, s, base, Key{}).ID; id != "b" {
			t.Errorf("chose %s, which drains", id)
		}
	}
	if _, refusal := s.Choose(base, Key{}, []string{"b"}); refusal != NoneUp {
		t.Errorf("refused with %d", refusal)
	}
	s.Add("a") // it is there: it only stops to drain
	if id := choose(t, s, base, Key{}, "b").ID; id != "a" || len(s.replicas) != 2 {
		t.Errorf("chose %s of %d replicas", id, len(s.replicas))
	}
	s.Remove("b")
	s.Remove("x")
	s.Release("b")
	s.Add("b")
	s.Release("b") // of a request that ran on the one before
	if s.InFlight("a") != 1 || s.InFlight("b") != 0 || s.InFlight("x") != 0 {
		t.Errorf("in flight: %d and %d", s.InFlight("a"), s.InFlight("b"))
	}
	s.Release("a")
	if s.InFlight("a") != 0 {
		t.Error("the load was not given back")
	}
	s.config.InFlightMax = 1
	choose(t, s, base, Key{})
	choose(t, s, base, Key{})
	if _, refusal := s.Choose(base, Key{}, nil); refusal != AllFull {
		t.Errorf("refused with %d", refusal)
	}
}

// TestLoad: waiting requests count twice, and less with the age of the figure; a replica
// that came back counts as fuller for a time.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		age, up time.Duration // up 0: for ever
		load    float64
	}{
		{0, 0, 23}, {-time.Second, 0, 23}, {2500 * time.Millisecond, 0, 13}, {5 * time.Second, 0, 3}, {time.Hour, 0, 3},
		{time.Hour, time.Nanosecond, 40}, {time.Hour, 5 * time.Second, 8}, {time.Hour, 10 * time.Second, 3},
	} {
		s := setOf(1)
		r := s.get("a")
		r.inFlight = 3
		s.Polled("a", 10, base.Add(-c.age))
		s.Polled("a", -1, base)
		if c.up > 0 {
			r.upSince = base.Add(-c.up)
		}
		if got := r.load(base); got < c.load-1e-6 || got > c.load+1e-6 {
			t.Errorf("figure of age %v, up for %v: load %v, want %v", c.age, c.up, got, c.load)
		}
	}
	s := setOf(1)
	s.Polled("a", 10, base)
	if s.Polled("a", 0, base); s.get("a").load(base) != 0 {
		t.Errorf("nobody waits any more, and the load is %v", s.get("a").load(base))
	}
}

// TestPrefixesForgotten: the one used longest ago goes first, and what is not used goes by age.
func TestPrefixesForgotten(t *testing.T) {
	p := newPrefixes(3, time.Minute)
	p.add([]uint64{1, 2, 3}, base)
	p.add([]uint64{1}, base.Add(30*time.Second))
	p.add([]uint64{4}, base.Add(30*time.Second))
	for _, c := range []struct {
		hashes []uint64
		after  time.Duration
		known  int
	}{
		{nil, 0, 0}, {[]uint64{1}, 0, 1}, {[]uint64{2}, 0, 0}, {[]uint64{2, 3}, 0, 2}, {[]uint64{3, 2}, 0, 1},
		{[]uint64{4, 5, 6}, 0, 1}, {[]uint64{3}, 59 * time.Second, 1}, {[]uint64{3}, time.Minute, 0},
		{[]uint64{1}, time.Minute, 1}, {[]uint64{1}, 90 * time.Second, 0},
	} {
		if got := p.longest(c.hashes, base.Add(c.after)); got != c.known {
			t.Errorf("%v after %v: %d known, want %d", c.hashes, c.after, got, c.known)
		}
	}
	if p.clear(); p.order.Len()+len(p.byKey) != 0 {
		t.Error("clear leaves some")
	}
	s := setOf(1)
	choose(t, s, base, Key{Prefixes: []uint64{1}})
	s.Forget("a")
	if c := choose(t, s, base, Key{Prefixes: []uint64{1}}); c.Known != 0 {
		t.Error("Forget forgets nothing")
	}
}

// TestUnlearn: what a choice added can be taken back, and nothing that was known before; a replica
// may learn of what it was not chosen for.
func TestUnlearn(t *testing.T) {
	s := setOf(1)
	first := choose(t, s, base, Key{Prefixes: []uint64{1, 2}})
	second := choose(t, s, base, Key{Prefixes: []uint64{1, 2, 3}})
	if !slices.Equal(first.New, []uint64{1, 2}) || !slices.Equal(second.New, []uint64{3}) {
		t.Errorf("new are %v, and then %v", first.New, second.New)
	}
	s.Unlearn("a", second.New)
	s.Unlearn("x", first.New)
	if c := choose(t, s, base, Key{Prefixes: []uint64{1, 2, 4}}); c.Known != 2 {
		t.Errorf("chose %+v, which has two", c)
	}
	s.Unlearn("a", first.New)
	if c := choose(t, s, base, Key{Prefixes: []uint64{1, 2}}); c.Known != 0 || s.States(base)[0].Prefixes != 3 { // 4 stays
		t.Errorf("chose %+v, of %d prefixes", c, s.States(base)[0].Prefixes)
	}
	s.Learn("a", []uint64{8, 9}, base)
	s.Learn("x", []uint64{8, 9}, base)
	if c := choose(t, s, base, Key{Prefixes: []uint64{8, 9}}); c.Known != 2 {
		t.Errorf("chose %+v, which learned of two", c)
	}
	far, found := setOf(3), false // one that knows and is out of reach may be the first of the order
	far.Learn("a", []uint64{1, 2}, base)
	for i := 0; !found && i < 100; i++ {
		far.get("a").inFlight, far.get("b").inFlight, far.get("c").inFlight = 5, 0, 9
		c := choose(t, far, base, Key{Conversation: Hash(fmt.Sprint(i)), Prefixes: []uint64{1, 2}})
		if found = c.ID == "a"; found && len(c.New) > 0 {
			t.Errorf("chose %+v, which has both", c)
		}
		far.Unlearn("b", c.New)
	}
	if !found {
		t.Error("the one that knows was not chosen")
	}
}

// TestOrderOfNodes: sets that were filled in another order choose the same.
func TestOrderOfNodes(t *testing.T) {
	one, two := setOf(8), setOf(0)
	for i := range slices.Backward(make([]bool, 8)) {
		two.Add(name(i))
	}
	for i := range 100 {
		key := Key{Conversation: Hash(fmt.Sprint(i))}
		if a, b := choose(t, one, base, key).ID, choose(t, two, base, key).ID; a != b {
			t.Fatalf("conversation %d: %s and %s", i, a, b)
		}
	}
}

// TestSharedPrefix: where all know as much and have as much to do, conversations spread, and go to the same one again.
func TestSharedPrefix(t *testing.T) {
	s, spread := setOf(4), map[string]int{}
	for _, r := range s.replicas {
		r.prefixes.add([]uint64{1, 2}, base)
	}
	for i := range 100 {
		key := Key{Conversation: Hash(fmt.Sprint(i)), Prefixes: []uint64{1, 2, uint64(100 + i)}}
		var at [2]string
		for n := range at {
			c := choose(t, s, base, key)
			if c.Known != 2 {
				t.Fatalf("chose %+v, which knows two", c)
			}
			s.Release(c.ID)
			s.Unlearn(c.ID, c.New)
			at[n] = c.ID
		}
		if at[0] != at[1] {
			t.Errorf("conversation %d went to %s, and then to %s", i, at[0], at[1])
		}
		spread[at[0]]++
	}
	for _, r := range s.replicas {
		if spread[r.id] < 10 {
			t.Errorf("%s got %d of 100 conversations", r.id, spread[r.id])
		}
	}
}
