package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestKeptPagesComeBack fills pools at random and puts what they keep into new ones: what
// was kept is found there, in the same order of worth, and nothing of anybody else.
func TestKeptPagesComeBack(t *testing.T) {
	kept := 0
	for seed := range uint64(6) {
		c := Config{Pages: 24, PageTokens: 16, PageBytes: 8, Seed: seed}
		if seed%2 == 1 {
			c.States, c.SnapshotsMax, c.StateBytes = 6, 4, 20
		}
		p := newPool(t, c)
		if err := randomCalls(rand.New(rand.NewPCG(seed, 7)), p); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int64{0, 7, 60, 1000} {
			list := p.Keep(limit)
			kept += len(list)
			if used := costOf(c, list); used > limit {
				t.Fatalf("seed %d: %d bytes kept of at most %d", seed, used, limit)
			}
			c.Seed = seed + 100
			q := newPool(t, c)
			refill(t, q, list, len(list))
			again := q.Keep(limit)
			if !sameContent(list, again, c.States == 0) {
				t.Fatalf("seed %d, %d bytes: kept\n%s\nand then\n%s", seed, limit, show(list), show(again))
			}
			for i, k := range list {
				if c.States > 0 && k.State == NoState {
					continue
				}
				checkFound(t, q, list, i)
			}
		}
	}
	if kept < 40 {
		t.Fatalf("%d pages were kept: nothing was shown", kept)
	}
}

// TestPinsAreKept: with bytes for no more, what pins protect is kept and comes back, each snapshot once, those on the host, too.
func TestPinsAreKept(t *testing.T) {
	for _, c := range []Config{{}, {States: 4, SnapshotsMax: 2, HostStates: 6, StateBytes: 20}} {
		c.Pages, c.PageTokens, c.PageBytes = 64, 16, 8
		p, m := newPool(t, c), make(memory, c.States+c.HostStates)
		prompt := func(n int32) []int32 { return append(tokens(16, 0), tokens(20, 1000*n)...) } // they share the first page
		for n := range int32(4) {
			tab, toks := new(Table), prompt(n)
			if p.Hybrid() {
				m.begin(t, p, tab, toks)
				m.snapshot(t, p, tab, toks, 16)
				m.snapshot(t, p, tab, toks, 32)
			} else {
				tab, _ = fill(t, p, "a", toks)
			}
			if n < 3 {
				p.Pin(tab, []int{16}, 1<<40)
			}
			p.Close(tab)
		}
		list := p.Keep(4*c.PageBytes + 4*c.StateBytes)
		q := newPool(t, c)
		refill(t, q, list, len(list))
		for n := range int32(3) {
			var tab Table
			if cached, _ := q.Open(&tab, "a", prompt(n)); cached != 32 {
				t.Errorf("%d states: %d tokens of path %d are cached: %s", c.States, cached, n, show(list))
			}
		}
	}
}

// TestNothingUnpaidIsKept: what a sequence has computed that nobody paid for yet is not there after a restart.
func TestNothingUnpaidIsKept(t *testing.T) {
	for _, states := range []int{0, 4} {
		p := newPool(t, Config{Pages: 8, States: states, SnapshotsMax: states / 2})
		var tab Table
		prompt := tokens(64, 0)
		p.Open(&tab, "x", prompt)
		p.Disown(&tab)
		if err := p.Grow(&tab, len(prompt)); err != nil {
			t.Fatal(err)
		}
		p.Index(&tab, prompt, 32)
		if p.Hybrid() {
			if _, err := p.TakeState(&tab); err != nil {
				t.Fatal(err)
			}
			if _, ok := p.Snapshot(&tab, prompt, 64); !ok {
				t.Fatal("no snapshot: the test sees nothing")
			}
		}
		if list := p.Keep(1 << 20); len(list) > 0 {
			t.Errorf("%d states: kept %s", states, show(list))
		}
		if h := p.Pin(&tab, nil, 1<<20); h != (Handle{}) {
			t.Errorf("%d states: the pages are pinned", states)
		}
	}
}

func costOf(c Config, list []Kept) (n int64) {
	for _, k := range list {
		n += c.PageBytes
		if k.State != NoState {
			n += c.StateBytes
		}
	}
	return n
}

func refill(t *testing.T, q *Pool, list []Kept, n int) {
	t.Helper()
	r := q.NewRefill()
	for _, k := range list[:n] {
		r.Put(k)
	}
	r.Done()
	if err := q.Check(); err != nil {
		t.Fatal(err)
	}
}

// checkFound opens the prefix that ends with entry i in its own namespace and in another.
func checkFound(t *testing.T, q *Pool, list []Kept, i int) {
	t.Helper()
	tokens := []int32{-1} // one more than is cached
	for at := i; at >= 0; at = list[at].Parent {
		tokens = append(slices.Clone(list[at].Tokens), tokens...)
	}
	for namespace, want := range map[string]int{list[i].Namespace: len(tokens) - 1, "nobody": 0} {
		var table Table
		if cached, _ := q.Open(&table, namespace, tokens); cached != want {
			t.Fatalf("%q: %d of %d tokens are cached", namespace, cached, want)
		}
		q.Close(&table)
	}
}

// sameContent compares what two lists say, in their order or as sets.
func sameContent(a, b []Kept, ordered bool) bool {
	x, y := strings.Split(show(a), "\n"), strings.Split(show(b), "\n")
	if !ordered {
		slices.Sort(x)
		slices.Sort(y)
	}
	return slices.Equal(x, y)
}

func show(list []Kept) string {
	var b strings.Builder
	for _, k := range list {
		depth := 0
		for at := k.Parent; at >= 0; at = list[at].Parent {
			depth++
		}
		fmt.Fprintf(&b, "%s %d %v snapshot %v hits %d\n", k.Namespace, depth, k.Tokens, k.State != NoState, k.Hits)
	}
	return b.String()
}

// TestRefillTakesWhatFits: a smaller pool gets the pages that are worth most, and of a hybrid
// one no page that could not be hit.
func TestRefillTakesWhatFits(t *testing.T) {
	for _, states := range []int{0, 6} {
		c := Config{Pages: 24, PageTokens: 16, PageBytes: 8}
		if states > 0 {
			c.States, c.SnapshotsMax, c.StateBytes = states, 4, 20
		}
		p := newPool(t, c)
		var table Table
		tokens := make([]int32, 20*16)
		for i := range tokens {
			tokens[i] = int32(i)
		}
		p.Open(&table, "a", nil)
		if err := p.Grow(&table, len(tokens)); err != nil {
			t.Fatal(err)
		}
		if states > 0 {
			if _, err := p.TakeState(&table); err != nil {
				t.Fatal(err)
			}
			p.Snapshot(&table, tokens, 5*16)
			p.Snapshot(&table, tokens, 20*16)
		} else {
			p.Index(&table, tokens, len(tokens))
		}
		p.Close(&table)
		list := p.Keep(1 << 20)
		c.Pages = 10
		small := newPool(t, c)
		refill(t, small, list, len(list))
		want := 10
		if states > 0 {
			want = 5
		}
		if got := small.Stats().PagesCached; got != want {
			t.Errorf("%d states: %d pages came back, want %d", states, got, want)
		}
	}
}

// TestSurveyFindsWhatIsWorthMost: in parts or at once, the list is that of a sort of all prefixes.
func TestSurveyFindsWhatIsWorthMost(t *testing.T) {
	for seed := range uint64(4) {
		p := newPool(t, Config{Pages: 24, PageTokens: 16, PageBytes: 8, Seed: seed})
		if err := randomCalls(rand.New(rand.NewPCG(seed, 9)), p); err != nil {
			t.Fatal(err)
		}
		all := &Survey{Max: 1000}
		p.Look(all, len(p.pages))
		for _, limit := range []int{0, 1, 3, 1000} {
			some := &Survey{Max: limit}
			for p.Look(some, 5) {
			}
			if want := all.Prefixes[:min(limit, len(all.Prefixes))]; !slices.Equal(some.Prefixes, want) {
				t.Errorf("the first %d are %+v, want %+v", limit, some.Prefixes, want)
			}
		}
		pages := 0
		for _, s := range all.Spaces {
			pages += s.Pages
		}
		st := p.Stats()
		if held := st.PagesCached + st.PagesOwned; pages > held || pages < st.PagesCached || !slices.IsSortedFunc(all.Prefixes, worth) {
			t.Errorf("%d pages of %d in use: %+v", pages, held, all)
		}
	}
}

// BenchmarkLook is what a look at the most pages that one takes in holds a step loop up.
func BenchmarkLook(b *testing.B) {
	const pages = 1 << 12
	p, err := New(Config{Pages: pages, PageTokens: 16, PageBytes: 8})
	if err != nil {
		b.Fatal(err)
	}
	tokens := make([]int32, 16)
	for i := range int32(pages) {
		var t Table
		tokens[0] = i
		p.Open(&t, fmt.Sprint(i%100), nil)
		if err := p.Grow(&t, 16); err != nil {
			b.Fatal(err)
		}
		p.Index(&t, tokens, 16)
		p.Close(&t)
		p.pages[i].hits = uint32(i)
	}
	for b.Loop() {
		p.Look(&Survey{Max: 100}, pages)
	}
}
