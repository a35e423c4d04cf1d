package sched

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"corenode/engine/kv"
)

// TestDraftMax: what DraftMax promises a sequence that runs alone is what the next
// plan drafts, where rows cost nothing: with pages and state slots that run out, at
// cuts and at the end.
func TestDraftMax(t *testing.T) {
	for _, states := range []int{0, 2, 4, 9} {
		t.Run(fmt.Sprint(states, " states"), func(t *testing.T) {
			pool, err := kv.New(kv.Config{Pages: 7, PageTokens: 16, PageBytes: 1, States: states, StateBytes: 1,
				SnapshotsMax: max(0, states-3), Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			c := Config{StepTokensMax: 512, SequencesMax: 2, QueueMax: 4, DecodeSnapshotTokens: 32, Draft: true}
			s, err := New(c, pool)
			if err != nil {
				t.Fatal(err)
			}
			s.AssumeSteps(func(int) float64 { return 1 })
			at := time.Unix(0, 0)
			q := &Sequence{Namespace: "n", Account: "a", Tokens: slices.Repeat([]int32{1}, 21), Max: 90, SnapshotAt: []int{20}}
			if _, err := s.Add(q, at); err != nil {
				t.Fatal(err)
			}
			if n := s.DraftMax(q, 9); n != 0 {
				t.Errorf("%d drafted tokens of a sequence that waits", n)
			}
			seen := map[int]bool{}
			for len(q.Tokens) < q.Prompt+q.Max {
				want := min(s.DraftMax(q, len(q.Draft)), s.DraftRows())
				p := s.Plan(at)
				it := &p.Items[0]
				if q.Computed() >= q.Prompt-1 && len(it.Draft) != want && want >= 0 {
					t.Fatalf("%d of %d tokens: %d drafted of %d, DraftMax says %d", len(q.Tokens), q.Prompt+q.Max, len(it.Draft), len(q.Draft), want)
				}
				seen[len(it.Draft)] = true
				if it.Logits {
					it.Kept = max(1, len(it.Draft)) // all but the last
				}
				logits := it.Logits
				s.Commit(p)
				if !logits {
					continue
				}
				s.Append(q, 1)
				if len(q.Tokens) < q.Prompt+q.Max {
					q.Draft, q.Chance = []int32{1, 1, 1, 1, 1}, 1
				}
			}
			if len(seen) < 3 && states != 2 || states == 2 && len(seen) > 2 {
				t.Errorf("drafts of %v tokens: a case is missing", seen)
			}
			s.Finish(q, at, 0)
			if n := s.DraftMax(q, 9); n != 0 {
				t.Errorf("%d drafted tokens of a sequence that is done", n)
			}
		})
	}
}
