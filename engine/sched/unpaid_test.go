package sched

import (
	"slices"
	"testing"
)

// leaves are the ways of a sequence out of its slot, before Finish.
var leaves = map[string]func(b *bench, q *Sequence){
	"running": func(*bench, *Sequence) {},
	"paused":  func(b *bench, q *Sequence) { b.s.Pause(q, b.now) },
	"preempted": func(b *bench, q *Sequence) {
		b.add("other", 20, 50)
		b.until(50, func() bool { return q.phase == phaseWaiting })
	},
	"run again": func(b *bench, q *Sequence) {
		b.s.Pause(q, b.now)
		b.s.Resume(q, b.now)
		b.until(50, q.Running)
	},
	"paused in a step": func(b *bench, q *Sequence) {
		p := b.s.Plan(b.now)
		b.s.Pause(q, b.now)
		b.s.Commit(p)
	},
}

// TestNothingUnpaidStays: however a sequence leaves that nobody pays for, the cache has what it had before. What is paid for stays.
func TestNothingUnpaidStays(t *testing.T) {
	for name, leave := range leaves {
		for _, unpaid := range []bool{true, false} {
			b := newBench(t, 400, 0, func(c *Config) { c.SequencesMax = 2 })
			begin := b.cached("a", 64)
			b.add("a", 5, 500)
			q := b.seq("a", 2000, 5)
			copy(q.Tokens, begin)
			prompt := slices.Clone(q.Tokens)
			q.Unpaid = unpaid
			if cached, err := b.s.Add(q, b.now); err != nil || cached != len(begin) {
				t.Fatalf("%s: %d tokens are cached, %v: the test sees nothing", name, cached, err)
			}
			b.until(50, func() bool { return q.Computed() > 500 })
			leave(b, q)
			b.s.Finish(q, b.now, 1<<20)
			if err := b.check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			cached, err := b.s.Add(&Sequence{Namespace: "a", Account: "a", Tokens: prompt, Max: 5}, b.now)
			if err != nil || (cached > len(begin)) == unpaid || cached < len(begin) {
				t.Errorf("%s, unpaid %v: %d tokens are cached, %v, of %d before", name, unpaid, cached, err, len(begin))
			}
		}
	}
}

// TestNoSnapshotUnpaidStays: a prompt parts from another one within its pages, so a snapshot is taken there. Where nobody pays
// for it, the next prompt that parts there is as if it had never been.
func TestNoSnapshotUnpaidStays(t *testing.T) {
	for name, leave := range leaves {
		for _, pays := range []string{"never", "at last", "always"} {
			b := newBench(t, 400, 8, func(c *Config) { c.SequencesMax = 2 })
			first := b.seq("a", 1000, 500)
			first.SnapshotAt = []int{992}
			if _, err := b.s.Add(first, b.now); err != nil {
				t.Fatal(err)
			}
			b.until(50, func() bool { return first.Computed() >= 1000 })
			again := func(unpaid bool) (q *Sequence, cached int) {
				q = b.seq("a", 2000, 5)
				copy(q.Tokens[:500], first.Tokens)
				q.Unpaid = unpaid
				cached, err := b.s.Add(q, b.now)
				if err != nil {
					t.Fatal(err)
				}
				return q, cached
			}
			q, cached := again(pays != "always")
			if cached != 0 || q.Branch != 496 {
				t.Fatalf("%d tokens are cached, the branch is at %d: the test sees nothing", cached, q.Branch)
			}
			b.until(50, func() bool { return q.Computed() > 600 })
			want := map[bool]int{true: 496}[pays == "always"]
			next, cached := again(false)
			if cached != want {
				t.Errorf("paid %s: %d tokens are cached while it runs, want %d", pays, cached, want)
			}
			b.s.Finish(next, b.now, 0)
			leave(b, q)
			if pays == "at last" && q.Running() {
				b.until(50, func() bool { return q.Computed() > 600 })
				b.s.Pay(q)
				want = 496
			}
			b.s.Finish(q, b.now, 0)
			if err := b.check(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if _, cached = again(false); cached != want {
				t.Errorf("%s, paid %s: %d tokens are cached after it, want %d", name, pays, cached, want)
			}
		}
	}
}
