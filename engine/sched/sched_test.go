package sched

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"corenode/engine/kv"
)

// bench is a scheduler with a clock and no model: every token is 1.
type bench struct {
	t   testing.TB
	s   *Scheduler
	now time.Time
	ids uint64
	ran map[uint64]int // rows per sequence, by its arrival

	unchecked bool // no Check after each step: for pools too large for it
}

// stepTime is how far the clock goes with each step.
const stepTime = 10 * time.Millisecond

func newBench(t testing.TB, pages, states int, change func(*Config)) *bench {
	t.Helper()
	pool, err := kv.New(kv.Config{Pages: pages, PageTokens: 16, PageBytes: 1, States: states,
		SnapshotsMax: states / 2, StateBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{StepTokensMax: 512, SequencesMax: 4, ChunkTokens: 64, QueueMax: 10000, FairWait: 50 * time.Millisecond}
	if change != nil {
		change(&c)
	}
	s, err := New(c, pool)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, s: s, now: time.Unix(1000, 0), ran: map[uint64]int{}}
}

// seq makes a sequence with a prompt that shares nothing with others.
func (b *bench) seq(account string, prompt, most int) *Sequence {
	b.ids++
	toks := make([]int32, prompt)
	for i := range toks {
		toks[i] = int32(b.ids)*100_000 + int32(i)
	}
	return &Sequence{Namespace: account, Account: account, Tokens: toks, Max: most}
}

func (b *bench) add(account string, prompt, most int) *Sequence {
	b.t.Helper()
	q := b.seq(account, prompt, most)
	if _, err := b.s.Add(q, b.now); err != nil {
		b.t.Fatal(err)
	}
	return q
}

// step runs one step and returns a copy of its items.
func (b *bench) step() []Item {
	b.t.Helper()
	b.now = b.now.Add(stepTime)
	p := b.s.Plan(b.now)
	items := slices.Clone(p.Items)
	b.s.Commit(p)
	if err := b.check(); err != nil {
		b.t.Fatal(err)
	}
	for _, it := range items {
		b.ran[it.Seq.order] += it.Len
		if !it.Logits {
			continue
		}
		b.s.Append(it.Seq, 1)
		if len(it.Seq.Tokens) == it.Seq.Prompt+it.Seq.Max {
			b.s.Finish(it.Seq, b.now, 0)
		}
	}
	return items
}

func (b *bench) check() error {
	if b.unchecked {
		return nil
	}
	return b.s.Check()
}

// until steps until done says so, and returns how many steps that took.
func (b *bench) until(limit int, done func() bool) int {
	b.t.Helper()
	for n := range limit {
		if done() {
			return n
		}
		b.step()
	}
	b.t.Fatalf("not done after %d steps: %+v", limit, b.s.Stats())
	return 0
}

// TestFreedAtOnce: a step whose decodes all yielded starts what fits instead.
func TestFreedAtOnce(t *testing.T) {
	b := newBench(t, 8, 0, func(c *Config) { c.SequencesMax, c.FairWait = 2, time.Hour })
	slow := b.add("a", 40, 60)
	b.until(5, started(slow))
	late := b.add("a", 40, 60)
	b.until(5, started(late))
	slow.Stalled = true
	wait := b.add("b", 16, 1)
	for b.s.Stats().Preempted == 0 {
		if len(b.step()) == 0 {
			t.Fatalf("a step with nothing to do: %+v", b.s.Stats())
		}
	}
	if wait.Started.IsZero() {
		t.Error("a slot and pages were free, and what waits was not started")
	}
}

func started(q *Sequence) func() bool { return func() bool { return len(q.Tokens) > q.Prompt } }
func ended(q *Sequence) func() bool {
	return func() bool { return len(q.Tokens) == q.Prompt+q.Max }
}

func TestConfigValidate(t *testing.T) {
	pool, err := kv.New(kv.Config{Pages: 4, PageTokens: 32, PageBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	good := Config{StepTokensMax: 65, SequencesMax: 1, ChunkTokens: 64, QueueMax: 1}
	if _, err := New(good, pool); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Config){
		"step": func(c *Config) { c.StepTokensMax = 64 }, "slots": func(c *Config) { c.SequencesMax = 0 },
		"chunk": func(c *Config) { c.ChunkTokens = 96 }, "gap": func(c *Config) { c.GapMax = -1 }, "stretch": func(c *Config) { c.GapStretchMax = -1 },
		"queue":  func(c *Config) { c.QueueMax = 0 },
		"tokens": func(c *Config) { c.QueueTokensMax = -1 }, "timeout": func(c *Config) { c.QueueTimeout = -1 },
		"wait": func(c *Config) { c.FairWait = -1 }, "rolling": func(c *Config) { c.DecodeSnapshotTokens = 48 },
	} {
		c := good
		change(&c)
		if _, err := New(c, pool); err == nil {
			t.Errorf("%s: accepted %+v", name, c)
		}
	}
}

func refused(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}

func TestAddRefuses(t *testing.T) {
	b := newBench(t, 10, 0, func(c *Config) { c.QueueMax, c.QueueTokensMax = 4, 200 })
	var large *TooLargeError
	if _, err := b.s.Add(b.seq("a", 100, 62), b.now); !errors.As(err, &large) || large.TokensMax != 161 {
		t.Fatalf("162 tokens in 160 positions: %v", err)
	}
	fits := b.add("a", 100, 61) // the 161st is never computed
	b.add("a", 50, 1)
	if _, err := b.s.Add(b.seq("b", 51, 1), b.now); !refused(err) {
		t.Errorf("tokens: %v", err)
	}
	b.add("b", 10, 1)
	b.add("c", 10, 1)
	if _, err := b.s.Add(b.seq("d", 1, 1), b.now); !refused(err) {
		t.Errorf("count: %v", err)
	}
	b.until(200, ended(fits))
	b.until(200, func() bool { return b.s.Stats().Running+b.s.Stats().Waiting == 0 })
	if _, err := b.s.Add(b.seq("d", 155, 1), b.now); err != nil {
		t.Errorf("a prompt of nearly the pool with nobody before it: %v", err)
	}
}

// TestQueueOfOne: the smallest queue has room for one.
func TestQueueOfOne(t *testing.T) {
	b := newBench(t, 10, 0, func(c *Config) { c.SequencesMax, c.QueueMax = 1, 1 })
	b.add("a", 10, 9)
	b.step() // it runs
	b.add("b", 10, 1)
	if _, err := b.s.Add(b.seq("c", 10, 1), b.now); !refused(err) {
		t.Errorf("behind one that waits: %v", err)
	}
}

func TestExpiry(t *testing.T) {
	b := newBench(t, 100, 0, func(c *Config) { c.SequencesMax, c.QueueTimeout, c.StepTokensMax = 1, 5*stepTime, 128 })
	runs := b.add("a", 10, 100)
	b.step()
	first, second := b.add("a", 10, 1), b.add("a", 10, 1)
	b.now = b.now.Add(2 * stepTime)
	late := b.add("a", 10, 1)
	b.now = b.now.Add(3 * stepTime)
	p := b.s.Plan(b.now)
	if !slices.Equal(p.Expired, []*Sequence{first, second}) || len(p.Items) != 1 || p.Items[0].Seq != runs {
		t.Fatalf("expired %d, items %+v", len(p.Expired), p.Items)
	}
	b.s.Commit(p)
	if b.s.Finish(first, b.now, 1) != (kv.Handle{}) || b.s.Stats().Waiting != 1 {
		t.Fatalf("%+v", b.s.Stats())
	}
	b.s.Append(runs, 1)
	b.s.Pause(runs, b.now) // paused and preempted ones do not expire
	b.until(5, ended(late))
	b.now = b.now.Add(time.Hour)
	b.s.Resume(runs, b.now)
	b.until(200, ended(runs))
}

// TestDecodeGap: whatever prompts arrive, every running sequence gets a token
// in every step, beside at most ChunkTokens rows of prefill.
func TestDecodeGap(t *testing.T) {
	b := newBench(t, 4000, 0, func(c *Config) { c.SequencesMax = 8 })
	var decoding []*Sequence
	for i := range 4 {
		decoding = append(decoding, b.add(fmt.Sprint(i%2), 20, 400))
	}
	b.until(10, started(decoding[3]))
	for i := range 3 {
		b.add(fmt.Sprint(i), 5000, 10)
	}
	for step := range 200 {
		items, prefill := b.step(), 0
		for _, q := range decoding {
			if !slices.ContainsFunc(items, func(it Item) bool { return it.Seq == q && it.Len == 1 && it.Logits }) {
				t.Fatalf("step %d: sequence %d got no token", step, q.order)
			}
		}
		for _, it := range items {
			if it.Len > 1 {
				prefill += it.Len
			}
		}
		if prefill != 64 {
			t.Fatalf("step %d: %d rows of prefill, want a full chunk", step, prefill)
		}
	}
}

func TestPieces(t *testing.T) {
	type piece struct{ start, n int }
	for name, tc := range map[string]struct {
		states int
		cached int // multiple of 16
		snaps  []int
		prompt int
		want   []piece
	}{
		"plain":             {0, 0, nil, 150, []piece{{0, 128}, {128, 22}}},
		"hybrid":            {4, 0, nil, 300, []piece{{0, 128}, {128, 128}, {256, 44}}},
		"after a hit":       {0, 48, nil, 300, []piece{{48, 128}, {176, 124}}},
		"snaps are ignored": {0, 0, []int{20}, 100, []piece{{0, 100}}},
		"cut":               {4, 0, []int{40, 90}, 100, []piece{{0, 32}, {32, 48}, {80, 20}}},
		"realigned":         {4, 0, []int{30}, 300, []piece{{0, 16}, {16, 112}, {128, 128}, {256, 44}}},
		"hybrid hit":        {4, 32, []int{32, 100}, 100, []piece{{32, 64}, {96, 4}}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 100, tc.states, func(c *Config) { c.StepTokensMax, c.SequencesMax = 128+2, 2 })
			q := b.seq("a", tc.prompt, 1)
			q.SnapshotAt = tc.snaps
			if tc.cached > 0 {
				before := b.seq("a", 1, 1)
				before.Tokens = slices.Clone(q.Tokens[:tc.cached+1])
				before.SnapshotAt = []int{tc.cached}
				if _, err := b.s.Add(before, b.now); err != nil {
					t.Fatal(err)
				}
				b.until(5, ended(before))
			}
			if cached, err := b.s.Add(q, b.now); err != nil || cached != tc.cached {
				t.Fatalf("cached %d, err %v", cached, err)
			}
			var got []piece
			for len(q.Tokens) == q.Prompt {
				for _, it := range b.step() {
					got = append(got, piece{it.Start, it.Len})
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("pieces %v, want %v", got, tc.want)
			}
		})
	}
}

// TestTwoTurns: the second turn computes only what is new, and for a hybrid
// model what came after the last snapshot; the next account nothing less.
func TestTwoTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		states, rolling, cached int
	}{
		"plain": {0, 0, 112}, "hybrid": {6, 0, 80}, "hybrid, rolling": {6, 16, 112}, "hybrid, rolling 32": {6, 32, 96},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, 100, tc.states, func(c *Config) { c.DecodeSnapshotTokens = tc.rolling })
			first := b.seq("a", 90, 31)
			first.SnapshotAt = []int{90}
			if _, err := b.s.Add(first, b.now); err != nil {
				t.Fatal(err)
			}
			b.until(100, ended(first))
			for account, want := range map[string]int{"a": tc.cached, "b": 0} {
				q := b.seq(account, 1, 1)
				q.Tokens = append(slices.Clone(first.Tokens), 7, 7, 7)
				if cached, err := b.s.Add(q, b.now); err != nil || cached != want {
					t.Errorf("account %s: cached %d, want %d, err %v", account, cached, want, err)
				}
				b.until(10, ended(q))
				if b.ran[q.order] != len(q.Tokens)-1-want {
					t.Errorf("account %s: computed %d rows of %d with %d cached", account, b.ran[q.order], len(q.Tokens)-1, want)
				}
			}
		})
	}
}

// TestFirstArrivalIsNeverPreempted: the pool holds the largest sequence and
// little more, all grow at once, several accounts compete; the running
// sequence that arrived first never yields for pages, and all complete.
func TestFirstArrivalIsNeverPreempted(t *testing.T) {
	for _, states := range []int{0, 8} {
		b := newBench(t, 22, states, func(c *Config) { c.FairWait = time.Hour })
		var all []*Sequence
		for i := range 24 {
			all = append(all, b.add(fmt.Sprint(i%3), 20+i, 300))
		}
		for n := 0; b.s.Stats().Running+b.s.Stats().Waiting > 0; n++ {
			if n > 60_000 {
				t.Fatalf("livelock: %+v", b.s.Stats())
			}
			var first *Sequence
			if len(b.s.running) > 0 {
				first = b.s.running[0]
			}
			b.step()
			if first != nil && slices.Contains(b.s.plan.Preempted, first) {
				t.Fatalf("sequence %d, the first arrival, was preempted", first.order)
			}
		}
		for _, q := range all {
			if len(q.Tokens) != q.Prompt+q.Max {
				t.Errorf("sequence %d ended with %d tokens", q.order, len(q.Tokens))
			}
		}
		if b.s.Stats().Preempted == 0 {
			t.Error("nothing was preempted: the test shows nothing")
		}
	}
}

// TestAdmissionLeavesRoom: a sequence is not started into pages that those
// which run will need at once, only to be preempted.
func TestAdmissionLeavesRoom(t *testing.T) {
	b := newBench(t, 10, 0, nil)
	grows := b.add("a", 60, 60) // 4 pages, 8 at its end
	b.step()
	late := b.add("a", 90, 2) // 6 pages
	b.until(200, ended(late))
	if st := b.s.Stats(); st.Preempted != 0 || late.Started.Before(grows.Started.Add(59*stepTime)) {
		t.Errorf("started after %v, %+v", late.Started.Sub(grows.Started), st)
	}
}

// TestAdmissionTakesTheLastPage: the running sequences keep one page each to go on, and no more.
func TestAdmissionTakesTheLastPage(t *testing.T) {
	for pages, starts := range map[int]bool{9: false, 10: true} {
		b := newBench(t, pages, 0, nil)
		all := []*Sequence{b.add("a", 40, 2), b.add("a", 40, 2)} // 3 pages each
		b.until(2, started(all[1]))
		late := b.add("a", 20, 2) // 2 pages
		b.step()
		if late.Started.IsZero() == starts {
			t.Errorf("with %d pages for 3, 3 and 2, and one each for the first two: started %v, want %v", pages, !starts, starts)
		}
	}
}

func TestPlanTwicePanics(t *testing.T) {
	b := newBench(t, 10, 0, nil)
	b.add("a", 10, 10)
	b.s.Plan(b.now)
	defer func() {
		if recover() == nil {
			t.Error("a second Plan before Commit went through")
		}
	}()
	b.s.Plan(b.now)
}

// TestPreemptionKeepsUsage: what was cached at Add stays, however often it is
// computed again, and the peak is what is paid for.
func TestPreemptionKeepsUsage(t *testing.T) {
	b := newBench(t, 40, 0, nil)
	one := b.add("a", 100, 1)
	b.until(5, ended(one))
	q := b.seq("a", 1, 50)
	q.Tokens = append(slices.Clone(one.Tokens[:100]), 5, 5, 5)
	if cached, err := b.s.Add(q, b.now); err != nil || cached != 96 {
		t.Fatalf("cached %d, err %v", cached, err)
	}
	b.until(5, started(q))
	b.s.Pause(q, b.now)
	fill := b.add("b", 600, 1) // evicts the cache
	b.until(20, ended(fill))
	b.s.Resume(q, b.now)
	b.until(80, ended(q))
	if q.Cached != 96 || q.Peak != len(q.Tokens)-1 || b.ran[q.order] <= len(q.Tokens)-1-96 || b.s.Stats().RecomputedTokens == 0 {
		t.Errorf("cached %d, peak %d of %d, %d rows, %+v", q.Cached, q.Peak, len(q.Tokens), b.ran[q.order], b.s.Stats())
	}
}

// TestRecomputedApart: after a preemption no piece holds tokens of the prompt and
// generated ones.
func TestRecomputedApart(t *testing.T) {
	for _, states := range []int{0, 4} {
		b := newBench(t, 60, states, func(c *Config) { c.ChunkTokens = 512 })
		q := b.add("a", 100, 150)
		b.until(120, func() bool { return len(q.Tokens) == 200 })
		b.s.Pause(q, b.now)
		b.until(20, ended(b.add("b", 850, 1))) // evicts its pages
		b.s.Resume(q, b.now)
		other := b.add("c", 300, 50)
		var ends []int
		for len(q.Tokens) == 200 {
			for _, it := range b.step() {
				if it.Seq == q {
					ends = append(ends, it.Start+it.Len)
				} else if it.Seq != other {
					t.Fatalf("an item of sequence %d", it.Seq.order)
				}
			}
		}
		if !slices.Contains(ends, q.Prompt) || b.s.Stats().RecomputedTokens == 0 {
			t.Errorf("%d states: pieces end at %v, the prompt at %d; %+v", states, ends, q.Prompt, b.s.Stats())
		}
	}
}

// TestOnlySnapshotIsTheOnlySlot: a sequence that looks again and finds its own
// snapshot in the only slot that could be freed starts from nothing instead.
func TestOnlySnapshotIsTheOnlySlot(t *testing.T) {
	b := newBench(t, 100, 2, nil)
	q := b.seq("a", 40, 10)
	q.SnapshotAt = []int{40}
	if _, err := b.s.Add(q, b.now); err != nil {
		t.Fatal(err)
	}
	b.until(9, started(q))
	b.s.Pause(q, b.now)
	other := b.add("b", 40, 100)
	b.until(9, started(other))
	b.s.Resume(q, b.now)
	b.now = b.now.Add(stepTime)
	p := b.s.Plan(b.now)
	if it := p.Items[len(p.Items)-1]; it.Seq != q || it.Start != 0 ||
		!slices.Equal(p.Before, []kv.StateOp{{Dst: it.State, Src: kv.NoState}}) {
		t.Errorf("item %+v, ops %+v", it, p.Before)
	}
	b.s.Commit(p)
}

// TestFinishInEveryPhase: everything comes back at once, and finishing again
// or in between Plan and Commit is harmless.
func TestFinishInEveryPhase(t *testing.T) {
	for name, drive := range map[string]func(*bench, *Sequence){
		"waiting":  func(b *bench, q *Sequence) {},
		"prefill":  func(b *bench, q *Sequence) { b.step() },
		"decode":   func(b *bench, q *Sequence) { b.until(9, started(q)) },
		"paused":   func(b *bench, q *Sequence) { b.step(); b.s.Pause(q, b.now) },
		"resumed":  func(b *bench, q *Sequence) { b.step(); b.s.Pause(q, b.now); b.s.Resume(q, b.now) },
		"midway":   func(b *bench, q *Sequence) { p := b.s.Plan(b.now); b.s.Finish(q, b.now, 0); b.s.Commit(p) },
		"at pause": func(b *bench, q *Sequence) { p := b.s.Plan(b.now); b.s.Pause(q, b.now); b.s.Commit(p) },
	} {
		for _, states := range []int{0, 4} {
			b := newBench(t, 100, states, func(c *Config) { c.StepTokensMax = 128 })
			q := b.add("a", 500, 20)
			drive(b, q)
			b.s.Finish(q, b.now, 0)
			b.s.Finish(q, b.now, 0)
			b.s.Resume(q, b.now)
			b.s.Pause(q, b.now)
			if err := b.s.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			st, pool := b.s.Stats(), b.s.pool.Stats()
			if st.Running+st.Waiting+st.Paused+st.Accounts > 1 || pool.PagesOwned > 0 || pool.Tables > 0 ||
				pool.StatesFree+pool.Snapshots != states {
				t.Errorf("%s, %d states: left %+v, %+v", name, states, st, pool)
			}
		}
	}
}

// TestOrderOfSacrifice: as a running sequence grows it takes cached pages
// first, then pinned ones, then the hit of a waiting sequence, and only then
// another running sequence.
func TestOrderOfSacrifice(t *testing.T) {
	b := newBench(t, 24, 0, func(c *Config) { c.SequencesMax = 2 })
	b.leave("cached", 0)
	b.leave("pinned", 1<<20)
	hit := b.leave("hit", 0)
	grows := b.add("a", 20, 365) // all 24 pages at the end
	small := b.add("b", 20, 340)
	b.step()
	waits := b.seq("hit", 1, 1)
	waits.Tokens = hit.Tokens
	if cached, err := b.s.Add(waits, b.now); err != nil || cached != 48 {
		t.Fatalf("cached %d, err %v", cached, err)
	}
	var order []string
	seen := map[string]bool{}
	note := func(what string, happened bool) {
		if happened && !seen[what] {
			seen[what] = true
			order = append(order, what)
		}
	}
	b.until(800, func() bool {
		pool, st := b.s.pool.Stats(), b.s.Stats()
		note("cached", pool.PagesEvicted > 0)
		note("pinned", pool.PinsBroken > 0)
		note("held", st.HitsDropped > 0)
		note("running", st.Preempted > 0)
		return len(grows.Tokens) == grows.Prompt+grows.Max
	})
	if want := []string{"cached", "pinned", "held", "running"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	b.until(800, ended(small))
	b.until(50, ended(waits))
}

// leave computes a prompt of three full pages and leaves it cached.
func (b *bench) leave(account string, pin int64) *Sequence {
	q := b.add(account, 49, 1)
	p := b.s.Plan(b.now)
	b.s.Commit(p)
	b.s.Append(q, 1)
	b.s.Finish(q, b.now, pin)
	return q
}

// BenchmarkDecode64 is Plan, Commit and Append of a step that decodes 64 sequences.
func BenchmarkDecode64(b *testing.B) {
	for _, states := range []int{0, 100} {
		b.Run(fmt.Sprintf("states=%d", states), func(b *testing.B) {
			ready := func() *bench {
				d := newBench(b, 64*1001, states, func(c *Config) { c.SequencesMax = 64 })
				decode64(d)
				return d
			}
			d := ready()
			b.ReportAllocs()
			for b.Loop() {
				if !decodeStep(d) {
					b.StopTimer()
					d = ready()
					b.StartTimer()
				}
			}
		})
	}
}

// decode64 brings 64 sequences of 16 accounts to decoding, with 1000 waiting.
func decode64(d *bench) {
	d.unchecked = true
	for i := range 64 {
		q := d.add(fmt.Sprint(i%16), 1000, 15_000)
		q.Tokens = slices.Grow(q.Tokens, 15_000)
	}
	d.until(2000, func() bool {
		return d.s.Stats().Running == 64 && !slices.ContainsFunc(d.s.running, func(q *Sequence) bool { return q.pending() > 1 })
	})
	for i := range 1000 {
		d.add(fmt.Sprint(i%16), 200, 10)
	}
}

// decodeStep is one step of the loop, without checks. It gives false when a
// sequence has reached its end.
func decodeStep(d *bench) bool {
	p := d.s.Plan(d.now)
	d.s.Commit(p)
	for i := range p.Items {
		q := p.Items[i].Seq
		if len(q.Tokens) == q.Prompt+q.Max {
			return false
		}
		d.s.Append(q, 1)
	}
	return true
}

func TestDecodePlanDoesNotAllocate(t *testing.T) {
	if checking {
		t.Skip("the checks of the build tag invariants allocate")
	}
	d := newBench(t, 64*1001, 0, func(c *Config) { c.SequencesMax = 64 })
	decode64(d)
	for range 10 {
		decodeStep(d)
	}
	if n := testing.AllocsPerRun(100, func() { decodeStep(d) }); n >= 1 {
		t.Errorf("a decode step allocates %v times", n)
	}
}
