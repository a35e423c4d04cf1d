package sched

import (
	"slices"
	"testing"
)

// TestNothingUnpaidStays: however a sequence leaves that nobody pays for, the cache has what it had before. What is paid for stays.
func TestNothingUnpaidStays(t *testing.T) {
	for name, leave := range map[string]func(b *bench, q *Sequence){
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
	} {
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
