package kv

import (
	"fmt"
	"testing"
)

// converse runs one short conversation: a shared beginning, then tokens of its
// own, snapshots after both, and a pin at the end. It returns what was cached.
func converse(t testing.TB, p *Pool, space string, shared, first int32) (cached int, h Handle) {
	t.Helper()
	toks := append(tokens(64, shared), tokens(40, first)...)
	tab := new(Table)
	cached, _ = p.Open(tab, space, toks)
	if err := p.Grow(tab, len(toks)); err != nil {
		t.Fatal(err)
	}
	if p.Hybrid() {
		if _, err := p.TakeState(tab); err != nil {
			t.Fatal(err)
		}
		p.Snapshot(tab, toks, 64)
		p.Snapshot(tab, toks, 96)
	} else {
		p.Index(tab, toks, len(toks))
	}
	h = p.Pin(tab, []int{64, 96}, 1<<40)
	p.Close(tab)
	check(t, p)
	return cached, h
}

// TestPinsNeverEndTheCache: sessions pin and never come back, many more than the
// pool has room for. Of each group that shares a beginning all but the first hit
// it, the last group as the first one.
func TestPinsNeverEndTheCache(t *testing.T) {
	for name, c := range map[string]Config{
		"plain":  {Pages: 96},
		"hybrid": {Pages: 512, States: 40, SnapshotsMax: 32},
		"tight":  {Pages: 48, States: 10, SnapshotsMax: 8},
	} {
		for _, accounts := range []int{1, 3} {
			p := newPool(t, c)
			const group = 8
			for n := range 50 * group * accounts {
				k, number := n%accounts, n/accounts
				cached, _ := converse(t, p, fmt.Sprint("account", k), int32(1e6+1000*(number/group)), int32(2e6+100*n))
				if want := 64; number%group > 0 && cached != want {
					t.Fatalf("%s, %d accounts: conversation %d hits %d tokens, want %d: %+v", name, accounts, n, cached, want, p.Stats())
				}
			}
			if s := p.Stats(); s.SnapshotsSkipped > 0 || s.PinsDisplaced == 0 {
				t.Errorf("%s, %d accounts: %+v", name, accounts, s)
			}
		}
	}
}

// TestPinsLeaveRoomForTheUnpinned: with every account's pins at their most, what
// others use stays cached without one.
func TestPinsLeaveRoomForTheUnpinned(t *testing.T) {
	for _, c := range []Config{{Pages: 128}, {Pages: 512, States: 40, SnapshotsMax: 32}} {
		p := newPool(t, c)
		for n := range 200 {
			space := fmt.Sprint("account", n%4)
			converse(t, p, space, int32(100*n), int32(1e6+100*n))
			tab, cached := fill(t, p, "unpinned", tokens(70, 0), 64)
			p.Close(tab)
			if n > 0 && cached != 64 {
				t.Fatalf("states %d: after %d pins the unpinned one hits %d: %+v", c.States, n, cached, p.Stats())
			}
		}
		if s := p.Stats(); s.PagesPinned < c.Pages/pinShare-14 && s.Guarded < c.SnapshotsMax/pinShare-2 {
			t.Errorf("states %d: the pins were not at their most: %+v", c.States, s)
		}
	}
}

// TestPinsOfOneAccountDisplaceItsOwn: who pins much takes nothing from one that
// stays within an equal part, however old the pins of that one are.
func TestPinsOfOneAccountDisplaceItsOwn(t *testing.T) {
	for _, c := range []Config{{Pages: 256}, {Pages: 512, States: 40, SnapshotsMax: 32}} {
		p := newPool(t, c)
		var few []Handle
		for n := range 4 { // 8 of 16 guards; 4*6 of 128 pages
			_, h := converse(t, p, "few", int32(1000*n), int32(1e6+1000*n))
			few = append(few, h)
		}
		for n := range 100 {
			_, h := converse(t, p, "many", int32(1000*n), int32(1e6+1000*n))
			if !p.Pinned(h) {
				t.Fatalf("states %d: the newest pin was displaced", c.States)
			}
		}
		for n, h := range few {
			if !p.Pinned(h) {
				t.Errorf("states %d: pin %d of an account with few fell to one with many", c.States, n)
			}
		}
		// A third account gets an equal part, and leaves one to the others: in a
		// hybrid pool two pins of two guards each, of 16.
		for n := range 20 {
			converse(t, p, "third", int32(1000*n), int32(1e6+1000*n))
		}
		for _, space := range []string{"few", "many", "third"} {
			if n := p.spaces[space].handles.len; n < 2 {
				t.Errorf("states %d: %s has %d pins", c.States, space, n)
			}
		}
	}
}

// TestUnguardedSnapshotsKeepTheirAge: a snapshot whose pin ends is evicted before
// those that were used after it, and after those used before.
func TestUnguardedSnapshotsKeepTheirAge(t *testing.T) {
	p := newPool(t, Config{Pages: 64, States: 9, SnapshotsMax: 8})
	take := func(first int32, pin bool) (h Handle) {
		tab, _ := fill(t, p, "x", tokens(20, first), 16)
		if pin {
			h = p.Pin(tab, nil, 1<<40)
		}
		p.Close(tab)
		return h
	}
	take(1000, false)
	h := take(2000, true)
	take(3000, false)
	again := take(4000, true)
	take(5000, false)
	take(4000, false) // starts from it
	p.Unpin(again)
	p.Unpin(h)
	check(t, p)
	for n, want := range []int32{1000, 2000, 3000, 5000, 4000} {
		if first := p.content(p.unguarded.tail)[0]; first != want {
			t.Fatalf("eviction %d is of %d, want %d", n, first, want)
		}
		p.evictSnapshot()
		check(t, p)
	}
}

// TestSnapshotBreaksThePinUsedLongestAgo, where all others are referenced or pinned.
func TestSnapshotBreaksThePinUsedLongestAgo(t *testing.T) {
	p := newPool(t, Config{Pages: 64, States: 8, SnapshotsMax: 2})
	_, _ = fill(t, p, "x", tokens(40, 9000)) // runs
	pinned, _ := fill(t, p, "x", tokens(20, 0), 16)
	h := p.Pin(pinned, nil, 1<<40)
	p.Close(pinned)
	other, _ := fill(t, p, "x", tokens(20, 1000), 16)
	p.Close(other)
	var waits, too Table
	p.Open(&waits, "x", tokens(20, 1000)) // holds the only one that is not pinned
	run, _ := fill(t, p, "x", tokens(40, 5000), 16)
	if s := p.Stats(); p.Pinned(h) || s.SnapshotsSkipped != 0 || s.PinsBroken != 1 {
		t.Fatalf("the pin stands in the way of a snapshot: %+v", s)
	}
	p.Open(&too, "x", tokens(20, 5000)) // now both are referenced
	if _, ok := p.Snapshot(run, tokens(40, 5000), 32); ok || p.Stats().SnapshotsSkipped != 1 {
		t.Fatalf("a snapshot was taken from a table that waits for it: %+v", p.Stats())
	}
	check(t, p)
}

// TestPinsThatFreeNothingStay: where a table waits for what the oldest pin protects, a younger one ends for a snapshot.
func TestPinsThatFreeNothingStay(t *testing.T) {
	p := newPool(t, Config{Pages: 64, States: 8, SnapshotsMax: 4})
	pin := func(first int32) Handle {
		tab, _ := fill(t, p, "x", tokens(20, first), 16)
		defer p.Close(tab)
		return p.Pin(tab, nil, 1<<40)
	}
	older, younger := pin(0), pin(1000)
	var waits [3]Table
	for i, first := range []int32{0, 2000, 3000} {
		tab, _ := fill(t, p, "x", tokens(20, first), 16)
		p.Close(tab)
		p.Open(&waits[i], "x", tokens(20, first))
	}
	fill(t, p, "x", tokens(20, 4000), 16)
	if s := p.Stats(); !p.Pinned(older) || p.Pinned(younger) || s.PinsBroken != 1 || s.SnapshotsSkipped != 0 {
		t.Errorf("the older one stands: %v, the younger one: %v; %+v", p.Pinned(older), p.Pinned(younger), s)
	}
}
