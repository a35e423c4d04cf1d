package kv

import (
	"errors"
	"testing"
)

// TestDisownLeavesWhatOthersComputed: two sequences that compute a prompt side by side share its pages. The one that nobody
// pays for takes with it only what no other had computed.
func TestDisownLeavesWhatOthersComputed(t *testing.T) {
	p := newPool(t, Config{Pages: 8})
	short, long := tokens(33, 0), tokens(65, 0)
	var paid, unpaid, next Table
	for _, tab := range []*Table{&paid, &unpaid} {
		if cached, _ := p.Open(tab, "a", long); cached != 0 {
			t.Fatalf("%d tokens are cached of an empty pool", cached)
		}
	}
	if err := errors.Join(p.Grow(&paid, len(short)), p.Grow(&unpaid, len(long))); err != nil {
		t.Fatal(err)
	}
	p.Disown(&unpaid)
	p.Index(&paid, short, len(short))
	p.Close(&paid)
	p.Index(&unpaid, long, len(long))
	p.Close(&unpaid)
	check(t, p)
	if cached, _ := p.Open(&next, "a", long); cached != 32 {
		t.Errorf("%d tokens are cached, want the 32 that somebody paid for", cached)
	}
}

// TestNobodyHitsWhatIsUnpaid: two sequences that nobody pays for compute a prompt side by side. It is no hit while they
// run, nor after both left, unless one of them is paid for by then.
func TestNobodyHitsWhatIsUnpaid(t *testing.T) {
	for _, paid := range []int{0, 32} {
		p := newPool(t, Config{Pages: 16})
		prompt := tokens(65, 0)
		var a, b Table
		for _, tab := range []*Table{&a, &b} {
			p.Open(tab, "x", prompt)
			p.Disown(tab)
			if err := p.Grow(tab, len(prompt)); err != nil {
				t.Fatal(err)
			}
		}
		p.Index(&a, prompt, len(prompt))
		if got := peek(p, prompt); got != 0 {
			t.Errorf("%d tokens are cached that nobody paid for yet", got)
		}
		p.Index(&b, prompt, 32)
		if paid > 0 {
			p.Pay(&b)
			if got := peek(p, prompt); got != paid {
				t.Errorf("%d tokens are cached, want the %d that were paid for", got, paid)
			}
		}
		for _, tab := range []*Table{&a, &b} {
			p.Close(tab)
			check(t, p)
		}
		if got := peek(p, prompt); got != paid {
			t.Errorf("%d tokens are cached, want %d", got, paid)
		}
	}
}

// TestWhoPaysForASnapshot: an unpaid sequence takes a snapshot on pages of another one. It is a hit once a sequence that is
// paid for has computed as far, not where one merely went on from behind it, and no pin guards it before.
func TestWhoPaysForASnapshot(t *testing.T) {
	p := newPool(t, Config{Pages: 32, States: 12, SnapshotsMax: 6})
	long := tokens(65, 0)
	short := long[:49]
	open := func(prompt []int32, unpaid bool, want int) *Table {
		t.Helper()
		tab := new(Table)
		if cached, _ := p.Open(tab, "x", prompt); cached != want {
			t.Fatalf("%d tokens are cached, want %d", cached, want)
		}
		if unpaid {
			p.Disown(tab)
		}
		_, err := p.TakeState(tab)
		if err := errors.Join(err, p.Grow(tab, len(prompt))); err != nil {
			t.Fatal(err)
		}
		return tab
	}
	first := open(long, false, 0)
	p.Snapshot(first, long, 64)
	unpaid := open(short, true, 0)
	if _, ok := p.Snapshot(unpaid, short, 32); !ok {
		t.Fatal("no snapshot: the test sees nothing")
	}
	p.Pin(first, []int{32}, 1<<20)
	if s := p.Stats(); s.Guarded != 1 {
		t.Errorf("%d snapshots are guarded, want the one that is paid for", s.Guarded)
	}
	p.Pay(open(long, true, 64))
	paid := open(short, false, 0)
	p.Snapshot(paid, short, 32)
	for _, tab := range []*Table{unpaid, paid, first} {
		if got := peek(p, short); got != 32 {
			t.Errorf("%d tokens are cached, want 32", got)
		}
		p.Close(tab)
		check(t, p)
	}
}
