//go:build invariants

package sched

import (
	"testing"
	"time"

	"corenode/engine/kv"
)

// TestFaultIsFound: with the tag, the next call after a fault panics, whether it is in
// the scheduler's books or in its pool.
func TestFaultIsFound(t *testing.T) {
	for name, plant := range map[string]func(*Scheduler, *Sequence){
		"books": func(s *Scheduler, _ *Sequence) { s.waiting++ },
		"pool":  func(_ *Scheduler, q *Sequence) { q.table.Pages[0]++ },
	} {
		t.Run(name, func(t *testing.T) {
			pool, err := kv.New(kv.Config{Pages: 8, PageTokens: 16, PageBytes: 1})
			if err != nil {
				t.Fatal(err)
			}
			s, err := New(Config{StepTokensMax: 128, SequencesMax: 2, QueueMax: 2}, pool)
			if err != nil {
				t.Fatal(err)
			}
			q := &Sequence{Namespace: "n", Account: "a", Tokens: make([]int32, 30), Max: 20}
			if _, err := s.Add(q, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
			s.Commit(s.Plan(time.Unix(0, 0)))
			plant(s, q)
			defer func() {
				if recover() == nil {
					t.Error("the fault went unseen")
				}
			}()
			s.Pause(q, time.Unix(0, 0))
		})
	}
}
