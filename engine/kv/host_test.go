package kv

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// memory does what a backend does: slots hold the text of the tokens that their state is of.
type memory []string

func (m memory) do(t *testing.T, p *Pool, ops ...StateOp) {
	t.Helper()
	for _, op := range ops {
		if op.Src == NoState {
			m[op.Dst] = ""
			continue
		}
		if p.onHost(op.Src) && p.onHost(op.Dst) {
			t.Fatalf("%+v copies within host memory", op)
		}
		m[op.Dst] = m[op.Src]
	}
}

// begin opens a table on tokens and takes its state; the state must be of what was found.
func (m memory) begin(t *testing.T, p *Pool, tab *Table, toks []int32) (ok bool) {
	t.Helper()
	n, _ := p.Open(tab, "a", toks)
	available := p.StatesAvailable()
	op, err := p.TakeState(tab)
	if (err == nil) != (available > 0) {
		t.Fatalf("%d states are available, and one was taken with %v: %+v", available, err, p.Stats())
	}
	if err != nil {
		p.Close(tab)
		return false
	}
	m.do(t, p, p.Moves(nil)...)
	m.do(t, p, op)
	if want := text(toks[:n]); m[tab.State] != want {
		t.Fatalf("the state is of %q, want %q", m[tab.State], want)
	}
	if p.Grow(tab, len(toks)) != nil {
		p.Close(tab)
		return false
	}
	return true
}

// snapshot computes up to n and takes a snapshot there.
func (m memory) snapshot(t *testing.T, p *Pool, tab *Table, toks []int32, n int) (ok bool) {
	t.Helper()
	m[tab.State] = text(toks[:n])
	op, ok := p.Snapshot(tab, toks, n)
	m.do(t, p, p.Moves(nil)...)
	if ok {
		m.do(t, p, op)
	}
	return ok
}

func text(toks []int32) string {
	if len(toks) == 0 {
		return ""
	}
	return fmt.Sprint(toks)
}

func TestSnapshotsUsedLongestAgoMoveToTheHost(t *testing.T) {
	p := newPool(t, Config{Pages: 32, PageTokens: 16, PageBytes: 8, States: 3, SnapshotsMax: 2, HostStates: 2, StateBytes: 8})
	m := make(memory, 5)
	ask := func(first int32) {
		var tab Table
		toks := tokens(17, first)
		if !m.begin(t, p, &tab, toks) {
			t.Fatal("no state")
		}
		m.snapshot(t, p, &tab, toks, 16)
		p.Close(&tab)
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
	}
	hit := func(first int32) bool {
		var tab Table
		n, _ := p.Open(&tab, "a", tokens(17, first))
		p.Close(&tab)
		return n == 16
	}
	for i := range int32(4) {
		ask(1000 * i)
	}
	s := p.Stats()
	if s.Snapshots != 4 || s.OnHost != 2 || s.SnapshotsMoved != 2 || s.SnapshotsEvicted != 0 {
		t.Fatalf("after four prompts with two slots on each side: %+v", s)
	}
	for i := range int32(4) {
		ask(1000 * i) // begins from its snapshot, wherever that lies
	}
	ask(4000)
	if s = p.Stats(); s.SnapshotsEvicted != 1 || s.OnHost != 2 || hit(0) || !hit(1000) || !hit(4000) {
		t.Errorf("a fifth prompt: %+v, want the snapshot used longest ago evicted, and no other", s)
	}
}

func TestWithoutDeviceSlotsSnapshotsLieOnTheHost(t *testing.T) {
	p := newPool(t, Config{Pages: 8, PageTokens: 16, PageBytes: 8, States: 1, HostStates: 1, StateBytes: 8})
	m, toks := make(memory, 2), tokens(17, 0)
	var tab Table
	if !m.begin(t, p, &tab, toks) || !m.snapshot(t, p, &tab, toks, 16) {
		t.Fatal("no snapshot was taken")
	}
	p.Close(&tab)
	if s := p.Stats(); s.OnHost != 1 || s.SnapshotsMoved != 0 || s.StatesFree != 1 {
		t.Errorf("%+v, want the snapshot on the host", s)
	}
	if !m.begin(t, p, &tab, toks) || p.StatesAvailable() != 0 || m[0] != text(toks[:16]) {
		t.Errorf("%d states are left, the state is of %q; want none, and that of the prompt's first page", p.StatesAvailable(), m[0])
	}
}

func TestAReferencedSnapshotGivesItsSlotToASequence(t *testing.T) {
	p := newPool(t, Config{Pages: 8, PageTokens: 16, PageBytes: 8, States: 2, SnapshotsMax: 1, HostStates: 1, StateBytes: 8})
	m, toks := make(memory, 3), tokens(17, 0)
	var first, waits, runs, other Table
	m.begin(t, p, &first, toks)
	m.snapshot(t, p, &first, toks, 16)
	p.Close(&first)
	p.Open(&waits, "a", toks) // and will start from it
	if n := p.StatesAvailable(); n != 2 {
		t.Errorf("%d states are available, want both: the snapshot can move", n)
	}
	if !m.begin(t, p, &runs, tokens(17, 500)) || !m.begin(t, p, &other, tokens(17, 700)) {
		t.Fatal("no state for a sequence while the host has room for the snapshot")
	}
	p.Close(&runs)
	op, err := p.TakeState(&waits)
	m.do(t, p, p.Moves(nil)...)
	m.do(t, p, op)
	if err != nil || m[waits.State] != text(toks[:16]) || !p.onHost(op.Src) {
		t.Errorf("%v: the state %q came by %+v, want that of the prompt from the host", err, m[waits.State], op)
	}
}

// TestWhatASequenceStartsFromMovesLast: neither while it waits nor when it begins, as long as others can go.
func TestWhatASequenceStartsFromMovesLast(t *testing.T) {
	p := newPool(t, Config{Pages: 32, PageTokens: 16, PageBytes: 8, States: 4, SnapshotsMax: 3, HostStates: 4, StateBytes: 8})
	m := make(memory, 8)
	ask := func(tab *Table, first int32) {
		toks := tokens(17, first)
		m.begin(t, p, tab, toks)
		m.snapshot(t, p, tab, toks, 16)
	}
	var tables [4]Table
	for i := range 3 {
		ask(&tables[i], 1000*int32(i))
		p.Close(&tables[i])
	}
	var waits, runs Table
	p.Open(&waits, "a", tokens(17, 0))          // whose snapshot is the oldest
	ask(&runs, 3000)                            // moves one of the others
	m.begin(t, p, &tables[0], tokens(17, 4000)) // and the other one
	op, err := p.TakeState(&waits)
	m.do(t, p, p.Moves(nil)...)
	m.do(t, p, op)
	if err != nil || p.onHost(op.Src) || m[waits.State] != text(tokens(16, 0)) {
		t.Errorf("%v: the state came by %+v, of %+v", err, op, p.Stats())
	}
}

func TestMovesThatNobodyTookAreFound(t *testing.T) {
	p := newPool(t, Config{Pages: 8, PageTokens: 16, PageBytes: 8, States: 2, SnapshotsMax: 1, HostStates: 1, StateBytes: 8})
	m := make(memory, 3)
	var tab Table
	toks := tokens(33, 0)
	m.begin(t, p, &tab, toks)
	m.snapshot(t, p, &tab, toks, 16)
	p.Snapshot(&tab, toks, 32)
	defer func() {
		if recover() == nil {
			t.Error("the next call was taken")
		}
	}()
	p.Snapshot(&tab, toks, 16)
}

// TestRandomSnapshotsOnBothSides asks for prompts at random, and finds in each state what it should be of.
func TestRandomSnapshotsOnBothSides(t *testing.T) {
	moved, evicted := int64(0), int64(0)
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 2))
		c := Config{Pages: 40, PageTokens: 16, PageBytes: 8, States: 3 + r.IntN(4), HostStates: 1 + r.IntN(4), StateBytes: 8, Seed: seed}
		c.SnapshotsMax = r.IntN(c.States)
		p := newPool(t, c)
		m := make(memory, c.States+c.HostStates)
		var open []*live
		var handles []Handle
		for range 600 {
			switch k := r.IntN(8); {
			case k < 3 && len(open) < 4:
				l := &live{tokens: tokens(17+16*r.IntN(4), 100*r.Int32N(6))}
				if m.begin(t, p, &l.Table, l.tokens) {
					open = append(open, l)
				}
			case k < 6 && len(open) > 0:
				l := open[r.IntN(len(open))]
				m.snapshot(t, p, &l.Table, l.tokens, 16*(1+r.IntN(len(l.tokens)/16)))
			case k < 7 && len(open) > 0:
				i := r.IntN(len(open))
				handles = append(handles, p.Pin(&open[i].Table, []int{16}, int64(r.IntN(100))))
				p.Close(&open[i].Table)
				open = slices.Delete(open, i, i+1)
			case len(handles) > 0:
				p.Unpin(handles[r.IntN(len(handles))])
			}
			if err := p.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		moved, evicted = moved+p.Stats().SnapshotsMoved, evicted+p.Stats().SnapshotsEvicted
	}
	if moved == 0 || evicted == 0 {
		t.Errorf("%d snapshots moved and %d were evicted: too few to prove anything", moved, evicted)
	}
}
