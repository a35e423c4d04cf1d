package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/draft"
	"corenode/engine/sample"
	"corenode/wasm/abi"
)

// drafted are models with every kind of state that a draft leaves behind.
var drafted = append([]string{"tiny-qwen3-f16", "tiny-qwen35-f16", "tiny-qwen35moe-f16"}, predictive...)

// samplers have every kind of step that depends on what was sampled before.
var samplers = []sample.Params{
	{},
	{Temperature: 0.2, TopP: 1},
	{Temperature: 1, TopK: 3, TopP: 1},
	{Temperature: 0.6, TopP: 0.7, MinP: 0.05},
	{Temperature: 0.4, TopK: 20, TopP: 0.95, PresencePenalty: 0.5, FrequencyPenalty: 0.1},
	{RepetitionPenalty: 1.05},
	{Temperature: 0.5, TopK: 20, TopP: 1, RepetitionPenalty: 1.3, FrequencyPenalty: 0.2},
}

// repetitive is a prompt with runs of words that come again, in no fixed order.
func repetitive(seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 3))
	runs := []string{words(7), "one two three four ", "a list: x, y, z; ", "the request reads the server "}
	s := ""
	for range 6 + r.IntN(20) {
		s += runs[r.IntN(len(runs))]
	}
	return s
}

// speech asks for one answer.
func (g *stage) speech(i int) *Request {
	g.Helper()
	r := ask(g, g.e, fmt.Sprintf(`{"model":"m","max_tokens":%d,"messages":[{"role":"user","content":"%s"}]}`,
		60+9*i, repetitive(uint64(i/2))))
	r.Sampling = samplers[i%len(samplers)]
	r.Sampling.Seed = uint64(i)
	r.Distinct = sample.Distinct(r.Prompt)
	if i%3 == 0 {
		r.MinTokens = 30
	}
	return r
}

// stopWithin makes a request stop in the middle of the answer that it has without.
func stopWithin(r *Request, answer finished) {
	if said := []rune(text(answer.events)); len(said) > 12 {
		r.Parse.Stops = []string{string(said[len(said)/2 : len(said)/2+3])}
	}
}

// told is a drafter that knows the answer, and now and then tells another token.
type told struct {
	tokens []int32
	rng    *rand.Rand
}

func (d told) Draft(tokens []int32) ([]int32, float64) {
	drafted := slices.Clone(d.tokens[min(len(tokens), len(d.tokens)):])
	drafted = append(drafted, 1, 2, 3) // tokens that nobody will ask for
	drafted = drafted[:min(len(drafted), draft.TokensMax)]
	for i := range drafted {
		if d.rng.IntN(8) == 0 {
			drafted[i] = int32(d.rng.IntN(256))
		}
	}
	return drafted, 0.8
}

func (told) Observe([]int32) {}

// tell gives the request submitted last the answer that it had before.
func (g *stage) tell(answer finished) {
	r := g.s.order[len(g.s.order)-1]
	r.drafter = told{answer.run.seq.Tokens, rand.New(rand.NewPCG(r.job.Request.Sampling.Seed, 4))}
}

// playAgain plays an answer for each seed twice, the second time with drafts that know it: it is the same, and passes the check.
func playAgain(t *testing.T, o Options, seeds uint64, play func(e *Engine, seed uint64) (body string, f *mumble), check func(a *answer)) {
	t.Helper()
	o.Draft = true
	e, s := open2(t, o)
	s.sched.AssumeSteps(func(int) float64 { return 1 }) // rows cost nothing: every draft pays, on a busy machine as well
	model := e.forwarder
	t.Cleanup(func() { e.forwarder = model }) // it is closed with the engine
	for seed := range seeds {
		body, f := play(e, seed)
		r := ask(t, e, body)
		f.seed, f.prompt, f.stop = seed, len(r.Prompt), e.tokenizer.Stops()[0]
		e.forwarder = f
		var want []int32
		for range 2 {
			_, a := submit(t, s, "acct", r)
			seq := s.order[0]
			seq.drafter, seq.layerDrafter = nil, nil
			if want != nil {
				seq.drafter = told{want, rand.New(rand.NewPCG(seed, 4))}
			}
			runAll(t, s)
			check(a)
			if want != nil && !slices.Equal(seq.seq.Tokens, want) {
				t.Errorf("with drafts\n%v\nwithout\n%v", seq.seq.Tokens, want)
			}
			want = slices.Clone(seq.seq.Tokens)
		}
	}
	if s.lookupDrafts.Accepted < 100 {
		t.Errorf("drafts of %d tokens, %d of them right", s.lookupDrafts.Drafted, s.lookupDrafts.Accepted)
	}
}

// TestDraftsChangesNothing compares logits, tokens, events and bills of a
// dozen answers in one batch with those of the same answers without drafts. Half
// of them meet a stop sequence, behind which the drafts go on.
func TestDraftsChangesNothing(t *testing.T) {
	for i, model := range drafted {
		if i%2 >= atMost(2, 1) {
			continue
		}
		t.Run("model "+model, func(t *testing.T) {
			whole := converse(t, model, false, nil)
			want, got := converse(t, model, false, whole), converse(t, model, true, whole)
			stopped := 0
			for n := range want {
				(&differences{}).compare(t, fmt.Sprintf("answer %d", n), got[n], want[n], 0)
				if got[n].result.Usage != want[n].result.Usage || got[n].result.Stop != want[n].result.Stop {
					t.Errorf("answer %d: %+v, want %+v", n, got[n].result, want[n].result)
				}
				if !slices.Equal(got[n].run.seq.Tokens, want[n].run.seq.Tokens) {
					t.Errorf("answer %d: other tokens", n)
				}
				if want[n].result.Stop == abi.StopStopSequence {
					stopped++
				}
			}
			if stopped < 3 {
				t.Errorf("%d answers met a stop sequence", stopped)
			}
		})
	}
}

// converse runs two speeches with each sampler in one batch; whole are the same
// ones without stop sequences, nil if these are they.
func converse(t *testing.T, model string, draft bool, whole []finished) (answers []finished) {
	g := newStage(t, setup{model: model, threads: 2, draft: draft})
	var ends []func() finished
	for n := range 2 * len(samplers) {
		r := g.speech(n)
		r.Parse.Thinking = false
		if whole != nil && n%2 == 0 {
			stopWithin(r, whole[n])
		}
		ends = append(ends, g.submit(fmt.Sprint("account", n), r))
		if draft && n%4 < 3 { // the others look up
			g.tell(whole[n])
		}
	}
	steps := 0
	for g.s.Step(time.Now()) {
		if err := g.s.sched.Check(); err != nil {
			t.Fatal(err)
		}
		steps++
	}
	for _, end := range ends {
		answers = append(answers, end())
	}
	st := g.s.sched.Stats()
	t.Logf("drafts %v: %d steps, %d tokens decoded, %d drafted, %d of them right",
		draft, steps, st.DecodeTokens, st.DraftedTokens, st.AcceptedTokens)
	if draft != (st.DraftedTokens > 0) || draft && (st.AcceptedTokens < 150 || st.DraftedTokens-st.AcceptedTokens < 75) {
		t.Errorf("drafts %v: %+v", draft, st)
	}
	return answers
}

// TestDraftsKeepsTheCache: a next turn finds as much of an answer in the
// prefix cache as without drafts, and goes on with the same logits.
func TestDraftsKeepsTheCache(t *testing.T) {
	for i, model := range drafted {
		if i%2 >= atMost(2, 1) {
			continue
		}
		t.Run("model "+model, func(t *testing.T) {
			var all [2][]finished
			for i, draft := range []bool{false, true} {
				g := newStage(t, setup{model: model, draft: draft})
				for n := range 3 {
					r := g.speech(2*n + 1)
					r.MaxTokens = 150
					end := g.submit("a", r)
					if draft {
						g.tell(all[0][2*n])
					}
					runAll(g, g.s)
					first := end()
					next := *r
					next.Prompt = append(slices.Clone(first.run.seq.Tokens), r.Prompt[:9]...)
					next.Snapshots = nil
					all[i] = append(all[i], first, g.alone("a", &next))
				}
				if st := g.s.sched.Stats(); draft && st.AcceptedTokens < 100 {
					t.Errorf("only %d tokens of drafts were right", st.AcceptedTokens)
				}
			}
			for n, want := range all[0] {
				got := all[1][n]
				(&differences{}).compare(t, fmt.Sprintf("answer %d", n), got, want, 0)
				if got.result.Usage != want.result.Usage || n%2 == 1 &&
					want.result.Usage.CacheRead < int64(len(want.run.job.Request.Prompt))-80 {
					t.Errorf("answer %d: billed %+v, want %+v of a prompt of %d", n, got.result.Usage, want.result.Usage, len(want.run.job.Request.Prompt))
				}
			}
		})
	}
}

// TestDraftsWithoutSpareStates: with hardly more state slots than sequences
// drafts are short or none, and the answers stay what they are.
func TestDraftsWithoutSpareStates(t *testing.T) {
	c := setup{model: "tiny-qwen35-f16", sequences: 4}
	plain := newStage(t, c)
	var want []finished
	for n := range 4 {
		want = append(want, plain.alone(fmt.Sprint(n), plain.speech(2*n+1)))
	}
	c.draft = true
	o := c.options()
	for _, spare := range []int{0, 1, 3} {
		o.Cache.StateBytes = int64(4+spare) * plain.e.memory.state
		e, s := open2(t, o)
		s.sched.AssumeSteps(func(int) float64 { return 1 })
		g := &stage{t, e, s, watch(t, e, s)}
		var ends []func() finished
		for n := range 4 {
			ends = append(ends, g.submit(fmt.Sprint(n), g.speech(2*n+1)))
			g.tell(want[n])
		}
		most := 0
		for s.Step(time.Now()) {
			if s.sched.Stats().Running == 4 {
				most = max(most, s.sched.Stats().Drafting)
			}
		}
		for n, end := range ends {
			(&differences{}).compare(t, fmt.Sprintf("%d slots to spare, answer %d", spare, n), end(), want[n], nearly)
		}
		st, pool := s.sched.Stats(), s.pool.Stats()
		t.Logf("%d slots more than sequences: %d tokens drafted, %d right, by at most %d of 4; %d snapshots taken, %d evicted",
			spare, st.DraftedTokens, st.AcceptedTokens, most, pool.SnapshotsTaken, pool.SnapshotsEvicted)
		if most > spare || pool.StatesFree+pool.Snapshots != e.memory.states || e.memory.states != 4+spare {
			t.Errorf("%d of 4 draft with %d slots to spare; %d states, %+v", most, spare, e.memory.states, pool)
		}
	}
}

// gaps counts what an observer is told.
type gaps struct {
	count int
	sum   time.Duration
	rows  int
}

func (g *gaps) Gap(d time.Duration)                       { g.count++; g.sum += d }
func (g *gaps) Step(prefill, decode int, _ time.Duration) { g.rows += prefill + decode }

// TestGapsOfDrafts: however many tokens a step gives, there is one gap less than
// tokens, and they sum up to the time from the first to the last.
func TestGapsOfDrafts(t *testing.T) {
	watcher := &gaps{}
	o := setup{model: "tiny-qwen3-f16", draft: true}.options()
	o.Observer = watcher
	e, s := open2(t, o)
	s.sched.AssumeSteps(func(int) float64 { return 1 })
	g := &stage{t, e, s, watch(t, e, s)}
	r := g.speech(1)
	before := g.alone("a", r)
	st := s.sched.Stats()
	rows := int(st.PrefillTokens + st.DecodeTokens + st.DraftedTokens - st.AcceptedTokens)
	if watcher.rows != rows {
		t.Errorf("the observer saw %d rows, %d were computed", watcher.rows, rows)
	}
	*watcher = gaps{}
	end := g.submit("b", r)
	g.tell(before)
	runAll(t, s)
	a := end()
	st = s.sched.Stats()
	u := a.result.Usage
	if st.AcceptedTokens == 0 || watcher.count != int(u.Output)-1 || watcher.sum != a.run.last.Sub(a.run.first) {
		t.Errorf("%d gaps of %v in all for %d tokens in %v, %d of them drafted", watcher.count, watcher.sum, u.Output,
			a.run.last.Sub(a.run.first), st.AcceptedTokens)
	}
	if want := int(st.PrefillTokens+st.DecodeTokens+st.DraftedTokens-st.AcceptedTokens) - rows; watcher.rows != want {
		t.Errorf("the observer saw %d rows, %d were computed", watcher.rows, want)
	}
	if n := len(a.events); a.events[n-1].Kind != abi.EventEnd {
		t.Errorf("the last event is %+v", a.events[n-1])
	}
}
