package engine

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/sched"
	"corenode/wasm/abi"
)

// TestAccountsShareNothing runs the same prompts for several accounts, in the
// same batch and one after the other; the shadow checks every position read.
func TestAccountsShareNothing(t *testing.T) {
	for _, model := range []string{"", "tiny-qwen3-f16"} {
		g := newStage(t, setup{model: model})
		q := subject{words: 40}
		r := g.ask(q, "")
		var texts []string
		for round := range 3 {
			var got []func() finished
			for _, account := range []string{"a", "b", "a\x00m", "a\x00"} { // names that could run into the model's
				got = append(got, g.submit(account, r))
			}
			runAll(t, g.s)
			for i, get := range got {
				a := get()
				texts = append(texts, text(a.events))
				if cached := a.result.Usage.CacheRead; (cached > 0) != (round > 0) {
					t.Errorf("round %d, account %d: %d cached tokens", round, i, cached)
				}
			}
		}
		first := g.alone("c", r)
		if n := first.result.Usage.CacheRead; n != 0 {
			t.Errorf("a new account reads %d cached tokens", n)
		}
		if slices.ContainsFunc(texts, func(s string) bool { return s != text(first.events) }) {
			t.Errorf("the same greedy request gave several answers: %q", texts)
		}
		t.Logf("%d positions read, each its account's own", g.sh.reads)
	}
}

// storm throws everything at a stepper whose memory is too small for it.
type storm struct {
	*stage
	rng     *rand.Rand
	now     time.Time
	prompts []*Request
	live    []*stormJob
	ended   []*stormJob
	handles []Handle
	ends    map[string]int // how many ended how
}

// stormJob is one request and what its reader has seen.
type stormJob struct {
	*Job
	events   []abi.Event
	finished int
	result   Result
	idle     bool // its reader never reads
}

const stormJobsMax = 24

func newStorm(t *testing.T, model string, seed uint64) *storm {
	o := setup{model: model, sequences: 4, stepTokens: 160, chunk: 64, draft: seed%3 > 0}.options()
	o.Info.ContextLength = 32 * 16
	e, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Cache.Bytes = 40 * e.memory.pageBytes
	o.Cache.StateBytes = 7 * e.memory.state
	o.Cache.PinBytesMax = 6*e.memory.pageBytes + 2*e.memory.state
	e.Close()
	o.Batch.QueueMax, o.Batch.QueueTimeout = 12, 3*time.Second
	o.Batch.PauseAfter, o.Batch.CancelAfter = time.Second, 4*time.Second
	e, s := open2(t, o)
	if seed%3 == 2 {
		s.sched.AssumeSteps(func(rows int) float64 { return 1 + float64(rows)/20 })
	} else {
		s.sched.AssumeSteps(func(int) float64 { return 1 })
	}
	st := &storm{stage: &stage{t, e, s, watch(t, e, s)}, rng: rand.New(rand.NewPCG(seed, 1)), now: time.Now(), ends: map[string]int{}}
	st.sh.dream = true
	for i := range 8 { // pairs share their beginning
		r := ask(t, e, fmt.Sprintf(`{"model":"m","stream":true,"max_tokens":%d,"temperature":0,"stop_sequences":["ee","the"],"system":"%s","messages":[{"role":"user","content":"%d %s"}]}`,
			1+st.rng.IntN(90), words(5+10*(i/2)), i, words(st.rng.IntN(40))))
		st.prompts = append(st.prompts, r)
	}
	return st
}

func (st *storm) submit() {
	j := &stormJob{idle: st.rng.IntN(6) == 0}
	j.Job = &Job{ID: "r", Account: fmt.Sprint(st.rng.IntN(3)), Request: st.prompts[st.rng.IntN(len(st.prompts))],
		Pin: st.rng.IntN(2) == 0, Priority: int8(st.rng.IntN(3) - 1), Output: NewOutput(2 + st.rng.IntN(20))}
	j.Finished = func(r Result) {
		j.finished++
		j.result = r
		st.ended = append(st.ended, j)
	}
	err := st.s.submit(j.Job, st.now)
	if err == nil {
		st.live = append(st.live, j)
		if r := st.s.order[len(st.s.order)-1]; r.layerDrafter != nil && st.rng.IntN(3) > 0 {
			r.drafter = nil // it looks nothing up: the layer's are its drafts
		}
		return
	}
	if _, full := errors.AsType[*sched.RefusedError](err); !full && abi.KindOf(err) != abi.Overloaded {
		st.Fatalf("refused with %v", err)
	}
	if len(j.Output.Drain(nil)) > 0 || j.finished > 0 {
		st.Fatal("a refused job got events")
	}
	st.ends["refused"]++
}

// act does one random thing.
func (st *storm) act() {
	pick := func() *stormJob { return st.live[st.rng.IntN(len(st.live))] }
	switch n := st.rng.IntN(100); {
	case n < 35 && len(st.live) < stormJobsMax:
		st.submit()
	case n < 40 && len(st.live) > 0:
		pick().Cancel()
	case n < 75:
		for _, j := range st.live {
			if !j.idle && st.rng.IntN(3) > 0 {
				j.events = j.Output.Drain(j.events)
			}
		}
	case n < 85:
		st.now = st.now.Add(time.Duration(st.rng.IntN(400)) * time.Millisecond)
	case n < 95 && len(st.handles) > 0:
		st.s.Release(st.handles[st.rng.IntN(len(st.handles))]) // again and again: stale ones too
	case n == 99 && st.rng.IntN(20) == 0:
		st.s.Abort(&abi.Error{Kind: abi.Overloaded, Op: "test", Msg: "the operator says so"})
	}
}

// step runs the stepper once, or until the deadline it names, and checks all books.
func (st *storm) step() {
	if !st.s.Step(st.now) && len(st.live) > 0 {
		st.checkDeadline()
	}
	if err := errors.Join(st.s.sched.Check(), st.s.pool.Check()); err != nil {
		st.Fatal(err)
	}
	for _, j := range st.ended {
		st.checkEnded(j)
	}
	st.live = slices.DeleteFunc(st.live, func(j *stormJob) bool { return j.finished > 0 })
	st.ended = st.ended[:0]
	if len(st.s.order) != len(st.live) {
		st.Fatalf("%d runs, %d jobs live", len(st.s.order), len(st.live))
	}
}

// checkDeadline: when nothing can run, a step right before the deadline ends
// nothing and one at it does something, or names a later one.
func (st *storm) checkDeadline() {
	at, ok := st.s.NextDeadline()
	if !ok {
		return
	}
	if !at.After(st.now) {
		st.Fatalf("nothing runs at a deadline %v ago: the loop would spin", st.now.Sub(at))
	}
	ended := len(st.ended)
	if st.rng.IntN(4) > 0 {
		return
	}
	if st.s.Step(at.Add(-time.Nanosecond)); len(st.ended) != ended {
		st.Fatal("a job ended before the deadline")
	}
	st.now = at
	st.s.Step(at)
	if next, ok := st.s.NextDeadline(); ok && !next.After(at) && len(st.ended) == ended {
		st.Fatalf("the deadline stays at %v after a step at it", next)
	}
}

// checkEnded verifies the stream and the bill of a job that has ended.
func (st *storm) checkEnded(j *stormJob) {
	j.events = j.Output.Drain(j.events)
	if j.finished != 1 {
		st.Fatalf("Finished was called %d times", j.finished)
	}
	checkStream(st, j.events)
	st.handles = append(st.handles, j.result.Handle)
	u, prompt := j.result.Usage, int64(len(j.Request.Prompt))
	start, end := j.events[0].Usage, j.events[len(j.events)-1]
	if start.InputUncached+start.CacheRead != prompt {
		st.Fatalf("the start says %+v of a prompt of %d", start, prompt)
	}
	tr := st.sh.traces[j.Job]
	delete(st.sh.traces, j.Job) // it would keep every run
	if err := j.result.Err; err != nil {
		if end.Kind != abi.EventError || end.Err != err {
			st.Fatalf("a job that ended with %v ends its stream with %+v", err, end)
		}
		st.checkPartial(u, start, tr)
		return
	}
	st.ends["complete"]++
	if end.Kind != abi.EventEnd || end.Usage != u || end.Stop != j.result.Stop {
		st.Fatalf("result %+v, last event %+v", j.result, end)
	}
	if u.InputUncached != start.InputUncached || u.CacheRead != start.CacheRead || u.Output != j.Observed().Output ||
		u.Input() != j.Observed().Input() {
		st.Fatalf("usage %+v, at the start %+v, observed %+v", u, start, j.Observed())
	}
	st.checkTokens(j, tr)
}

// checkPartial: nothing for the queue, what was computed for a prefill, all for a decode.
func (st *storm) checkPartial(u, start abi.Usage, tr *trace) {
	switch {
	case tr == nil || tr.reached == 0:
		st.ends["in the queue"]++
		if u != (abi.Usage{}) {
			st.Fatalf("a job that never ran is billed %+v", u)
		}
	case u.Output == 0:
		st.ends["in prefill"]++
		// A hit that was given up while it waited may be found shorter than it was said to be.
		if want := max(0, int64(tr.reached)-start.CacheRead); u != (abi.Usage{InputUncached: want}) {
			st.Fatalf("ended in prefill at %d, %d of them cached: billed %+v", tr.reached, start.CacheRead, u)
		}
	default:
		st.ends["in decode"]++
		if u.InputUncached != start.InputUncached || u.CacheRead != start.CacheRead {
			st.Fatalf("ended in decode: billed %+v, the start said %+v", u, start)
		}
	}
}

// checkTokens: the answer is what the dream gives for its prompt, however
// often it was preempted, and it is billed to the last token.
func (st *storm) checkTokens(j *stormJob, tr *trace) {
	q := &tr.run.seq
	hash := uint64(0)
	for i, id := range q.Tokens {
		if i >= q.Prompt {
			want := dreamtToken(st.e.vocab, q.Tokens[i-1], hash)
			if id != want && !slices.Contains(st.s.mask, want) {
				st.Fatalf("token %d of an answer is %d, the model said %d", i-q.Prompt, id, want)
			}
		}
		hash = mix(hash, uint64(id)+1)
	}
	produced := len(q.Tokens) - q.Prompt + 1 // the last one is not appended
	if u := j.result.Usage; u.Output != int64(produced) || u.Reasoning > u.Output || produced > j.Request.MaxTokens ||
		j.result.Stop == abi.StopMaxTokens && produced != j.Request.MaxTokens {
		st.Fatalf("%d tokens produced of at most %d, billed %+v, stop %v", produced, j.Request.MaxTokens, u, j.result.Stop)
	}
}

// calm lets all that is left end and checks that nothing stays behind.
func (st *storm) calm() {
	for i := 0; len(st.live) > 0; i++ {
		for _, j := range st.live {
			if j.idle && i%7 == 0 {
				j.Cancel()
			}
			j.events = j.Output.Drain(j.events)
		}
		st.step()
		st.now = st.now.Add(10 * time.Millisecond)
		if i > 100000 {
			st.Fatalf("%d jobs do not end: %+v", len(st.live), st.s.sched.Stats())
		}
	}
	if _, ok := st.s.NextDeadline(); ok {
		st.Error("an idle stepper names a deadline")
	}
	for _, h := range st.handles {
		st.s.Release(h)
	}
	if err := st.s.pool.Check(); err != nil {
		st.Error(err)
	}
	p := st.s.pool.Stats()
	if p.PagesOwned != 0 || p.Tables != 0 || p.Handles != 0 || p.PagesPinned != 0 || p.Guarded != 0 ||
		p.StatesFree+p.Snapshots != st.e.memory.states {
		st.Errorf("after all has ended: %+v", p)
	}
}

// TestStorm cancels, stalls, times out, aborts, preempts and pins at random.
// The seed in the name reproduces a failure.
func TestStorm(t *testing.T) {
	ends := map[string]int{}
	var preempted, paused, drafted, accepted, byLayer int64
	for _, model := range []string{"", "tiny-qwen3-f16", predictive[0]} {
		for seed := range atMost(6, 2) {
			t.Run(fmt.Sprintf("%s/seed %d", model, seed), func(t *testing.T) {
				st := newStorm(t, model, uint64(seed))
				for range 2500 {
					st.act()
					st.step()
					paused += int64(st.s.sched.Stats().Paused)
				}
				st.calm()
				for k, n := range st.ends {
					ends[k] += n
				}
				stats := st.s.sched.Stats()
				preempted += stats.Preempted + stats.PreemptedFair
				drafted, accepted = drafted+stats.DraftedTokens, accepted+stats.AcceptedTokens
				byLayer += st.s.layerDrafts.Accepted
				if st.s.layerDrafts.Drafted+st.s.lookupDrafts.Drafted != stats.DraftedTokens ||
					st.s.layerDrafts.Accepted+st.s.lookupDrafts.Accepted != stats.AcceptedTokens {
					t.Errorf("%+v and %+v are not what the scheduler counted: %+v", st.s.layerDrafts, st.s.lookupDrafts, stats)
				}
			})
		}
	}
	for _, how := range []string{"complete", "in the queue", "in prefill", "in decode", "refused"} {
		if ends[how] == 0 {
			t.Errorf("none ended %s: %v", how, slices.Sorted(maps.Keys(ends)))
		}
	}
	if preempted == 0 || paused == 0 {
		t.Errorf("%d preemptions, %d steps with a paused sequence", preempted, paused)
	}
	if byLayer < int64(atMost(150, 1)) || drafted < 1000 || accepted < drafted/10 || accepted > drafted*9/10 {
		t.Errorf("%d tokens drafted, %d of them right: drafts was not tested", drafted, accepted)
	}
	t.Logf("jobs ended: %v; %d preemptions; %d tokens drafted, %d right, %d of them by the layer", ends, preempted, drafted, accepted, byLayer)
}
