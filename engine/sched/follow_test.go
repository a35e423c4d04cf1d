package sched

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"corenode/engine/kv"
)

// decoding is a scheduler with one sequence whose prompt is computed and whose next row is planned.
func decoding(t *testing.T, states int, c Config) (*Scheduler, *kv.Pool, *Sequence, *Plan) {
	t.Helper()
	pool, err := kv.New(kv.Config{Pages: 6, PageTokens: 16, PageBytes: 1, States: states, StateBytes: 1, SnapshotsMax: max(0, states-1)})
	if err != nil {
		t.Fatal(err)
	}
	c.StepTokensMax, c.SequencesMax, c.QueueMax = 128, 2, 4
	s, err := New(c, pool)
	if err != nil {
		t.Fatal(err)
	}
	q := &Sequence{Namespace: "n", Account: "a", Tokens: make([]int32, 29), Max: 5}
	if _, err := s.Add(q, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	p := s.Plan(time.Unix(0, 0))
	if s.PlanFollowing() != nil {
		t.Error("a step follows one that reads a prompt")
	}
	s.Commit(p)
	s.Append(q, 1)
	return s, pool, q, s.Plan(time.Unix(0, 0))
}

// TestPlanFollowing: one row for each sequence behind that of the open plan, as long as it may have tokens.
func TestPlanFollowing(t *testing.T) {
	s, pool, q, p := decoding(t, 0, Config{})
	for i := range 3 { // the prompt gave the first of five tokens, each row another
		following := s.PlanFollowing()
		if following == nil || following.Rows != 1 || following.Items[0].Start != 30+i ||
			len(following.Items[0].Pages) != pool.PagesFor(31+i) {
			t.Fatalf("%d rows behind: %+v", i, following)
		}
		if s.PlanFollowing() != nil {
			t.Fatal("two plans follow")
		}
		s.Commit(p)
		s.Append(q, int32(i))
		p = following
	}
	if s.PlanFollowing() != nil {
		t.Error("a row is planned that would give a token too many")
	}
	s.Commit(p)
	if q.Computed() != 33 || len(q.Tokens) != 33 {
		t.Errorf("%d of %d tokens are computed", q.Computed(), len(q.Tokens))
	}
	if n := q.account.counter; n != 29*prefillCost+4*decodeCost {
		t.Errorf("its account is charged %d for 29 rows of the prompt and four behind it", n)
	}
}

// TestNothingFollows what the next plan has to know more about.
func TestNothingFollows(t *testing.T) {
	for name, change := range map[string]func(*Scheduler, *Sequence){
		"one that waits": func(s *Scheduler, _ *Sequence) {
			if _, err := s.Add(&Sequence{Namespace: "n", Account: "b", Tokens: make([]int32, 3), Max: 2}, time.Unix(0, 0)); err != nil {
				t.Fatal(err)
			}
		},
		"a reader behind": func(_ *Scheduler, q *Sequence) { q.Stalled = true },
		"a draft":         func(_ *Scheduler, q *Sequence) { q.Draft = []int32{1} },
		"the end":         func(s *Scheduler, q *Sequence) { s.Finish(q, time.Unix(0, 0), 0) },
		"a pause":         func(s *Scheduler, q *Sequence) { s.Pause(q, time.Unix(0, 0)) },
	} {
		s, _, q, _ := decoding(t, 0, Config{})
		if change(s, q); s.PlanFollowing() != nil {
			t.Errorf("a step follows %s", name)
		}
	}
	s, _, q, p := decoding(t, 3, Config{DecodeSnapshotTokens: 32})
	for ; q.Computed() < 31; p = s.Plan(time.Unix(0, 0)) {
		s.Commit(p)
		s.Append(q, 1)
	}
	if s.PlanFollowing() != nil {
		t.Error("a step follows a snapshot, which needs the state before it")
	}
	s.Commit(p)
	s.Append(q, 1)
	if s.Plan(time.Unix(0, 0)); s.PlanFollowing() != nil {
		t.Error("a step follows one with the last token")
	}
}

// TestMemoryStaysWithItsSteps: what a sequence leaves is nobody else's while a step that computes it is open.
func TestMemoryStaysWithItsSteps(t *testing.T) {
	for name, leave := range map[string]func(*Scheduler, *Sequence){
		"ended":  func(s *Scheduler, q *Sequence) { s.Finish(q, time.Unix(0, 0), 0) },
		"paused": func(s *Scheduler, q *Sequence) { s.Pause(q, time.Unix(0, 0)) },
	} {
		s, pool, q, p := decoding(t, 2, Config{})
		following := s.PlanFollowing()
		s.Commit(p)
		s.Append(q, 1)
		leave(s, q)
		if st := pool.Stats(); st.Tables != 1 || st.PagesOwned == 0 || st.StatesFree != 1 {
			t.Errorf("%s with a step on its way: %+v", name, st)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		s.Commit(following)
		if st := pool.Stats(); st.Tables != 0 || st.PagesOwned != 0 || st.StatesFree != 2 {
			t.Errorf("%s, and the step is done: %+v", name, st)
		}
	}
}

// TestIdleKeepsNoSequence: the plan in which nothing runs leaves nothing of the sequences that ended.
func TestIdleKeepsNoSequence(t *testing.T) {
	b := newBench(t, 100, 0, nil)
	var all []weak.Pointer[Sequence]
	for range b.s.config.SequencesMax {
		all = append(all, weak.Make(b.add("a", 20, 5)))
	}
	followed := 0
	for {
		plans := []*Plan{b.s.Plan(b.now)}
		if len(plans[0].Items) == 0 {
			break
		}
		if p := b.s.PlanFollowing(); p != nil {
			plans = append(plans, p)
			followed++
		}
		for _, p := range plans {
			b.s.Commit(p)
			for _, it := range p.Items {
				if !it.Logits {
					continue
				}
				if b.s.Append(it.Seq, 1); len(it.Seq.Tokens) == it.Seq.Prompt+it.Seq.Max {
					b.s.Finish(it.Seq, b.now, 0)
				}
			}
		}
	}
	if followed == 0 {
		t.Fatal("no plan follows another: the test sees nothing")
	}
	runtime.GC()
	for i, q := range all {
		if q.Value() != nil {
			t.Errorf("sequence %d of %d is in memory still", i, len(all))
		}
	}
	runtime.KeepAlive(b)
}
