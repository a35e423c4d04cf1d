package kv

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// tokens is n tokens that count up from first.
func tokens(n int, first int32) []int32 {
	t := make([]int32, n)
	for i := range t {
		t[i] = first + int32(i)
	}
	return t
}

func newPool(t testing.TB, c Config) *Pool {
	t.Helper()
	if c.PageTokens == 0 {
		c.PageTokens = 16
	}
	c.PageBytes = max(c.PageBytes, 1)
	c.StateBytes = max(c.StateBytes, 1)
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func check(t testing.TB, p *Pool) {
	t.Helper()
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
}

// fill opens a table on toks, computes the rest of it and indexes it. In a
// hybrid pool it takes snapshots at the given positions.
func fill(t testing.TB, p *Pool, space string, toks []int32, snaps ...int) (*Table, int) {
	t.Helper()
	tab := new(Table)
	cached, _ := p.Open(tab, space, toks)
	if err := p.Grow(tab, len(toks)); err != nil {
		t.Fatal(err)
	}
	if p.Hybrid() {
		if _, err := p.TakeState(tab); err != nil {
			t.Fatal(err)
		}
		for _, n := range snaps {
			p.Snapshot(tab, toks, n)
		}
	} else {
		p.Index(tab, toks, len(toks))
	}
	check(t, p)
	return tab, cached
}

func TestConfigValidate(t *testing.T) {
	good := Config{Pages: 1, PageTokens: 16, PageBytes: 1, States: 2, SnapshotsMax: 1, StateBytes: 1}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"pages":      func(c *Config) { c.Pages = 0 },
		"size":       func(c *Config) { c.PageTokens = 24 },
		"bytes":      func(c *Config) { c.PageBytes = 0 },
		"states":     func(c *Config) { c.States = -1 },
		"snapshots":  func(c *Config) { c.SnapshotsMax = 2 },
		"stateBytes": func(c *Config) { c.StateBytes = 0 },
	} {
		c := good
		change(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: a config out of bounds was accepted: %+v", name, c)
		}
	}
}

func TestHitLengths(t *testing.T) {
	for _, size := range []int{16, 32, 64} {
		for _, tc := range []struct{ stored, same, asked, want int }{
			{0, 0, 100, 0},
			{size - 1, size - 1, 3 * size, 0},            // no full page
			{2 * size, 2 * size, 2*size + 1, 2 * size},   // one token left to compute
			{2 * size, 2 * size, 2 * size, size},         // a full match leaves a page
			{2*size + 5, 2*size + 5, 4 * size, 2 * size}, // the partial page is private
			{3 * size, size + size/2, 3 * size, size},    // diverges inside page 1
			{3 * size, 0, 3 * size, 0},
		} {
			p := newPool(t, Config{Pages: 16, PageTokens: size})
			tab, _ := fill(t, p, "a", tokens(tc.stored, 0))
			p.Close(tab)
			ask := append(tokens(tc.same, 0), tokens(tc.asked-tc.same, 9000)...)
			var got Table
			cached, branch := p.Open(&got, "a", ask)
			if cached != tc.want || branch != 0 || len(got.Pages)*size != cached {
				t.Errorf("size %d, %+v: cached %d, branch %d, %d pages", size, tc, cached, branch, len(got.Pages))
			}
			check(t, p)
		}
	}
}

func TestNamespacesNeverShare(t *testing.T) {
	p := newPool(t, Config{Pages: 32})
	a, _ := fill(t, p, "a", tokens(64, 0))
	b, cached := fill(t, p, "b", tokens(64, 0))
	if cached != 0 {
		t.Fatalf("namespace b hit %d tokens of a", cached)
	}
	for _, id := range b.Pages {
		if slices.Contains(a.Pages, id) {
			t.Fatalf("page %d is in both namespaces", id)
		}
	}
	p.Close(a)
	p.Close(b)
	if got := p.Stats().Namespaces; got != 2 {
		t.Fatalf("%d namespaces", got)
	}
	for i := range 8 { // force all out
		c, _ := fill(t, p, fmt.Sprint("c", i), tokens(400, 0))
		p.Close(c)
	}
	if got := p.Stats().Namespaces; got > 2 {
		t.Fatalf("%d namespaces are kept though their pages are gone", got)
	}
	check(t, p)
}

func TestHashCollisionsAreHarmless(t *testing.T) {
	p := newPool(t, Config{Pages: 32})
	a, _ := fill(t, p, "a", tokens(48, 0))
	// Put every page into one chain: find must still tell them apart.
	for i := range p.pages {
		if p.pages[i].space != nil {
			delete(p.index, p.pages[i].hash)
		}
	}
	const same = 77
	for k, id := range a.Pages {
		p.pages[id].hash, p.pages[id].sameHash = same, none
		if k > 0 {
			p.pages[id].sameHash = a.Pages[k-1]
		}
		p.index[same] = id
	}
	for k, id := range a.Pages {
		parent := none
		if k > 0 {
			parent = a.Pages[k-1]
		}
		if got := p.find(a.space, parent, same, tokens(16, int32(16*k))); got != id {
			t.Fatalf("found %d, want %d", got, id)
		}
		if got := p.find(a.space, parent, same, tokens(16, 999)); got != none {
			t.Fatalf("found %d by a colliding hash", got)
		}
	}
	if got := p.find(&space{}, none, same, tokens(16, 0)); got != none {
		t.Fatalf("found page %d of another namespace", got)
	}
	order := []int32{a.Pages[2], a.Pages[1], a.Pages[0]}
	p.tables, a.space.tables = nil, 0
	for _, id := range order {
		p.pages[id].refs = 0
		p.unlink(id)
	}
	if len(p.index) != 0 {
		t.Fatalf("index holds %v after its pages left", p.index)
	}
}

func TestClosedTablesAreRefused(t *testing.T) {
	p := newPool(t, Config{Pages: 4, States: 2, SnapshotsMax: 1})
	var open, closed Table
	p.Open(&open, "x", nil)
	p.Close(&closed) // harmless
	for name, misuse := range map[string]func(){
		"open twice": func() { p.Open(&open, "x", nil) },
		"grow":       func() { _ = p.Grow(&closed, 16) },
		"state":      func() { _, _ = p.TakeState(&closed) },
		"snapshot":   func() { p.Snapshot(&open, tokens(16, 0), 16) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			misuse()
		}()
	}
	check(t, p)
}

func TestIndexSharesEqualPages(t *testing.T) {
	p := newPool(t, Config{Pages: 16})
	toks := tokens(40, 0)
	var a, b Table
	p.Open(&a, "x", toks)
	p.Open(&b, "x", toks)
	if p.Grow(&a, 40) != nil || p.Grow(&b, 40) != nil {
		t.Fatal("no pages")
	}
	p.Index(&a, toks, 40)
	p.Index(&b, toks, 40)
	if !slices.Equal(a.Pages[:2], b.Pages[:2]) || a.Pages[2] == b.Pages[2] {
		t.Fatalf("tables are %v and %v", a.Pages, b.Pages)
	}
	if s := p.Stats(); s.PagesFree != 12 {
		t.Fatalf("duplicates are kept: %+v", s)
	}
	check(t, p)
}

func TestEvictionOldestLeafFirst(t *testing.T) {
	p := newPool(t, Config{Pages: 8})
	for _, first := range []int32{0, 1000} {
		tab, _ := fill(t, p, "x", tokens(64, first))
		p.Close(tab)
	}
	var touch Table
	if cached, _ := p.Open(&touch, "x", tokens(33, 0)); cached != 32 {
		t.Fatalf("cached %d", cached)
	}
	p.Close(&touch) // pages 0, 1 of the first are the newest now
	var tab Table
	p.Open(&tab, "y", nil)
	for n, want := range []struct{ first, second int }{{48, 64}, {32, 64}, {32, 48}, {32, 32}, {32, 16}, {32, 0}, {16, 0}, {0, 0}} {
		if err := p.Grow(&tab, 16*(n+1)); err != nil {
			t.Fatal(err)
		}
		check(t, p)
		if got := peek(p, tokens(65, 0)); got != want.first {
			t.Errorf("after %d evictions the first hits %d, want %d", n+1, got, want.first)
		}
		if got := peek(p, tokens(65, 1000)); got != want.second {
			t.Errorf("after %d evictions the second hits %d, want %d", n+1, got, want.second)
		}
	}
	if err := p.Grow(&tab, 16*9); !errors.Is(err, ErrNoPages) {
		t.Fatalf("Grow of a full pool: %v", err)
	}
	if len(tab.Pages) != 8 {
		t.Fatalf("a failed Grow left %d pages", len(tab.Pages))
	}
}

// peek looks up without changing the order of eviction.
func peek(p *Pool, toks []int32) int {
	s := p.spaces["x"]
	if s == nil {
		return 0
	}
	t := Table{space: s}
	return p.match(&t, toks) * p.config.PageTokens
}

func TestPinnedHitsUnderPressureWhereUnpinnedDoesNot(t *testing.T) {
	for _, states := range []int{0, 6} {
		p := newPool(t, Config{Pages: 16, States: states, SnapshotsMax: max(0, states-2)})
		pinned, _ := fill(t, p, "x", tokens(64, 0), 32, 64)
		h := p.Pin(pinned, []int{32, 64}, 1<<40)
		p.Close(pinned)
		plain, _ := fill(t, p, "x", tokens(64, 1000), 64)
		p.Close(plain) // newer, but not pinned
		for i := range 6 {
			tab, _ := fill(t, p, "y", tokens(16*9, int32(10000*(i+1))), 48, 96)
			p.Close(tab)
		}
		if got := peek(p, tokens(65, 0)); got != 64 {
			t.Errorf("states %d: the pinned session hits %d, want 64", states, got)
		}
		if got := peek(p, tokens(65, 1000)); got != 0 {
			t.Errorf("states %d: the unpinned one hits %d, want 0", states, got)
		}
		// The last resort: a running sequence gets them all the same.
		var all Table
		p.Open(&all, "z", nil)
		if err := p.Grow(&all, 16*16); err != nil {
			t.Fatalf("pins keep a sequence from running: %v", err)
		}
		if p.Unpin(h) || p.Stats().PinsBroken != 1 || p.Stats().StaleHandles != 1 {
			t.Errorf("the broken handle: %+v", p.Stats())
		}
		check(t, p)
	}
}

func TestHandles(t *testing.T) {
	p := newPool(t, Config{Pages: 16, PageBytes: 10})
	a, _ := fill(t, p, "x", tokens(64, 0))
	h := p.Pin(a, nil, 1000)
	p.Close(a)
	if !p.Pinned(h) || !p.Unpin(h) || p.Unpin(h) || p.Unpin(Handle{}) || p.Unpin(Handle{ID: 99, Epoch: 1}) {
		t.Fatal("release once must work and twice must not")
	}
	if s := p.Stats(); s.StaleHandles != 2 || s.PagesPinned != 0 {
		t.Fatalf("%+v", s)
	}
	b, _ := fill(t, p, "x", tokens(65, 0))
	next := p.Pin(b, nil, 1000)
	if next.ID != h.ID || next.Epoch == h.Epoch || p.Unpin(h) || !p.Pinned(next) {
		t.Fatalf("stale %+v released %+v", h, next)
	}
	if got := p.Pin(b, nil, 9); got != (Handle{}) {
		t.Fatalf("pinned %+v within no room", got)
	}
	p.Close(b)
	check(t, p)
}

func TestPinLimitDisplacesTheOldestOfTheNamespace(t *testing.T) {
	p := newPool(t, Config{Pages: 32, PageBytes: 10})
	var hs []Handle
	for i, space := range []string{"other", "x", "x", "x"} {
		tab, _ := fill(t, p, space, tokens(32, int32(1000*i)))
		hs = append(hs, p.Pin(tab, nil, 45))
		p.Close(tab)
		check(t, p)
	}
	for i, want := range []bool{true, false, true, true} {
		if p.Pinned(hs[i]) != want {
			t.Errorf("pin %d stands: %v, want %v", i, !want, want)
		}
	}
	// One path above the limit is pinned in part, and displaces the rest.
	tab, _ := fill(t, p, "x", tokens(160, 50000))
	p.Pin(tab, nil, 45)
	p.Close(tab)
	if s := p.Stats(); s.PagesPinned != 2+4 || s.Handles != 2 {
		t.Fatalf("%+v", s)
	}
	check(t, p)
}

func TestSnapshotsDecideHits(t *testing.T) {
	p := newPool(t, Config{Pages: 32, States: 8, SnapshotsMax: 5})
	toks := tokens(100, 0)
	a, _ := fill(t, p, "x", toks, 32, 80)
	var b Table
	fork := append(tokens(64, 0), tokens(40, 7000)...)
	cached, branch := p.Open(&b, "x", fork)
	if cached != 32 || branch != 64 {
		t.Fatalf("fork: cached %d, branch %d, want 32 and 64", cached, branch)
	}
	op, err := p.TakeState(&b)
	if err != nil || op.Src != p.pages[a.Pages[1]].snapshot || op.Dst != b.State {
		t.Fatalf("op %+v, err %v", op, err)
	}
	if err := p.Grow(&b, 104); err != nil {
		t.Fatal(err)
	}
	if op, ok := p.Snapshot(&b, fork, 64); !ok || op.Src != b.State {
		t.Fatalf("snapshot at the branch: %+v %v", op, ok)
	}
	if _, ok := p.Snapshot(&b, fork, 64); ok {
		t.Fatal("took the same snapshot twice")
	}
	p.Close(&b)
	p.Close(a)
	if got := peek(p, append(tokens(64, 0), 5, 5)); got != 64 {
		t.Fatalf("third with the shared prefix hits %d, want 64", got)
	}
	if s := p.Stats(); s.PagesCached != 5 { // up to 80; nothing above it can be hit
		t.Fatalf("%+v", s)
	}
	check(t, p)
}

func TestSnapshotEviction(t *testing.T) {
	p := newPool(t, Config{Pages: 64, States: 4, SnapshotsMax: 3})
	a, _ := fill(t, p, "x", tokens(64, 0), 16, 32, 64)
	p.Close(a)
	b, _ := fill(t, p, "x", tokens(64, 1000), 64) // evicts the oldest: at 16
	p.Close(b)
	for n, want := range map[int]int{20: 0, 40: 32, 70: 64} {
		if got := peek(p, append(tokens(min(n, 64), 0), tokens(9, 5000)...)); got != want {
			t.Errorf("prefix of %d hits %d, want %d", n, got, want)
		}
	}
	// Four sequences run: no slot is left for any snapshot, and no page with it.
	var run [4]Table
	for i := range run {
		p.Open(&run[i], "y", nil)
		if _, err := p.TakeState(&run[i]); err != nil {
			t.Fatal(err)
		}
		check(t, p)
	}
	if s := p.Stats(); s.Snapshots != 0 || s.PagesCached != 0 || s.PagesFree != 64 {
		t.Fatalf("%+v", s)
	}
	var more Table
	p.Open(&more, "y", nil)
	if _, err := p.TakeState(&more); !errors.Is(err, ErrNoState) {
		t.Fatalf("err %v", err)
	}
	if err := p.Grow(&run[0], 16); err != nil {
		t.Fatal(err)
	}
	if _, ok := p.Snapshot(&run[0], tokens(16, 0), 16); ok || p.Stats().SnapshotsSkipped != 1 {
		t.Fatal("a snapshot without a slot")
	}
	check(t, p)
}

func TestHeldSnapshotOutlivesPressure(t *testing.T) {
	p := newPool(t, Config{Pages: 64, States: 2, SnapshotsMax: 1})
	a, _ := fill(t, p, "x", tokens(32, 0), 32)
	p.Close(a)
	var waits, runs, third Table
	p.Open(&waits, "x", tokens(40, 0))
	p.Open(&runs, "x", nil)
	p.Open(&third, "x", nil)
	if p.StatesAvailable() != 1 {
		t.Fatalf("%d slots available", p.StatesAvailable())
	}
	if _, err := p.TakeState(&runs); err != nil {
		t.Fatal(err)
	}
	if _, err := p.TakeState(&third); !errors.Is(err, ErrNoState) {
		t.Fatalf("the referenced snapshot was taken away: %v", err)
	}
	p.Close(&waits)
	if _, err := p.TakeState(&third); err != nil {
		t.Fatal(err)
	}
	check(t, p)
}

// TestSavesChangeHands: the kept save becomes the state, the others are free.
func TestSavesChangeHands(t *testing.T) {
	for keep := range 4 {
		p := newPool(t, Config{Pages: 8, States: 6, SnapshotsMax: 2})
		tab, _ := fill(t, p, "x", tokens(48, 0), 16)
		own := tab.State
		p.TakeSaves(tab, 3)
		check(t, p)
		if p.StatesFree() != 1 || slices.Contains(tab.Saves, own) {
			t.Fatalf("state %d, saves %v, %d free", own, tab.Saves, p.StatesFree())
		}
		want := append(slices.Clone(tab.Saves), own)[keep]
		p.KeepSave(tab, keep)
		check(t, p)
		if tab.State != want || len(tab.Saves) != 0 || p.StatesFree() != 4 {
			t.Errorf("keep %d: state %d, want %d; saves %v, %d free", keep, tab.State, want, tab.Saves, p.StatesFree())
		}
		p.TakeSaves(tab, 2)
		p.Close(tab)
		check(t, p)
		if p.StatesFree() != 5 {
			t.Errorf("closed with saves: %d free", p.StatesFree())
		}
	}
}

// TestSavesTakeNothingFromOthers: more than is free, or twice, is a mistake.
func TestSavesTakeNothingFromOthers(t *testing.T) {
	for name, do := range map[string]func(*Pool, *Table){
		"more than free": func(p *Pool, t *Table) { p.TakeSaves(t, p.StatesFree()+1) },
		"twice":          func(p *Pool, t *Table) { p.TakeSaves(t, 1); p.TakeSaves(t, 1) },
		"without state":  func(p *Pool, t *Table) { p.GiveState(t); p.TakeSaves(t, 1) },
		"keep another":   func(p *Pool, t *Table) { p.TakeSaves(t, 1); p.KeepSave(t, 2) },
	} {
		p := newPool(t, Config{Pages: 8, States: 4, SnapshotsMax: 2})
		tab, _ := fill(t, p, "x", tokens(48, 0), 16)
		if !panics(func() { do(p, tab) }) {
			t.Errorf("%s: no panic", name)
		}
	}
}

func panics(do func()) (panicked bool) {
	defer func() { panicked = recover() != nil }()
	do()
	return
}

// TestCheckFindsDamage shows that Check can fail.
func TestCheckFindsDamage(t *testing.T) {
	for name, damage := range map[string]func(*Pool, *Table){
		"refs":     func(p *Pool, t *Table) { p.pages[t.Pages[0]].refs++ },
		"pins":     func(p *Pool, t *Table) { p.pages[t.Pages[0]].pins++ },
		"free":     func(p *Pool, t *Table) { p.free = append(p.free, t.Pages[0]) },
		"leak":     func(p *Pool, t *Table) { p.free = p.free[1:] },
		"children": func(p *Pool, t *Table) { p.pages[t.Pages[0]].children = 0 },
		"content":  func(p *Pool, t *Table) { p.content(t.Pages[0])[3]++ },
		"state":    func(p *Pool, t *Table) { p.freeStates = p.freeStates[1:] },
		"save":     func(p *Pool, t *Table) { t.Saves = append(t.Saves, t.State) },
		"snapshot": func(p *Pool, t *Table) { p.pages[t.Pages[0]].snapshot = t.State },
		"path":     func(p *Pool, t *Table) { t.Pages[0], t.Pages[1] = t.Pages[1], t.Pages[0] },
		"space":    func(p *Pool, t *Table) { t.space.pages++ },
	} {
		p := newPool(t, Config{Pages: 8, States: 3, SnapshotsMax: 2})
		tab, _ := fill(t, p, "x", tokens(48, 0), 48)
		damage(p, tab)
		if p.Check() == nil {
			t.Errorf("%s: damage went unseen", name)
		}
	}
}

func BenchmarkOpenHit(b *testing.B) {
	p := newPool(b, Config{Pages: 4096, PageTokens: 32})
	toks := tokens(2049, 0)
	tab, _ := fill(b, p, "x", toks)
	p.Close(tab)
	b.ReportAllocs()
	for b.Loop() {
		if cached, _ := p.Open(tab, "x", toks); cached != 2048 {
			b.Fatal(cached)
		}
		p.Close(tab)
	}
}

// TestDropSnapshot: a table forgets a snapshot on its path where nobody else could be after it.
func TestDropSnapshot(t *testing.T) {
	for name, c := range map[string]struct {
		others func(p *Pool)
		stays  bool
	}{
		"alone":                     {func(*Pool) {}, false},
		"another table on the page": {func(p *Pool) { fill(t, p, "x", append(tokens(16, 0), 9)) }, true},
		"another path behind it": {func(p *Pool) {
			tab, _ := fill(t, p, "x", append(tokens(16, 0), tokens(20, 1000)...), 32)
			p.Close(tab)
		}, true},
	} {
		p := newPool(t, Config{Pages: 16, States: 8, SnapshotsMax: 4})
		tab, _ := fill(t, p, "x", tokens(40, 0), 16, 32)
		c.others(p)
		before := p.Stats().Snapshots
		p.DropSnapshot(tab, 16)
		check(t, p)
		if stays := p.Stats().Snapshots == before; stays != c.stays {
			t.Errorf("%s: it stays: %v", name, stays)
		}
	}
}
