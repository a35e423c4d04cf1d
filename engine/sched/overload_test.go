package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/engine/cost"
	"corenode/engine/cost/costtest"
	"corenode/engine/kv"
)

// stream is one request of a computer's simulation.
type stream struct {
	seq     *Sequence
	stop    int // tokens it generates
	arrived time.Time
	first   time.Time // of its tokens, zero before it
	last    time.Time
	lost    bool // preempted: its next gap is not one of decoding
}

// computer is a scheduler, a machine that its steps run on, and a clock.
type computer struct {
	t     testing.TB
	s     *Scheduler
	m     *costtest.Machine
	slow  func(step int) float64 // times as long as the machine takes; nil for once
	r     *rand.Rand
	now   time.Time
	ids   uint64
	live  map[*Sequence]*stream
	steps int

	gaps     []time.Duration // between tokens of one stream
	waits    []time.Duration // from arrival to the first slot
	firsts   []time.Duration // from arrival to the first token
	ended    int
	tokens   int
	expired  int
	items    []Item // of the last step
	lastTook time.Duration
}

func newComputer(t testing.TB, m *costtest.Machine, change func(*Config)) *computer {
	t.Helper()
	pool, err := kv.New(kv.Config{Pages: 20_000, PageTokens: 32, PageBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{StepTokensMax: 512, SequencesMax: 32, QueueMax: 1024, QueueTimeout: time.Minute, FairWait: 250 * time.Millisecond,
		GapMax: 150 * time.Millisecond, GapStretchMax: 3}
	if change != nil {
		change(&c)
	}
	s, err := New(c, pool)
	if err != nil {
		t.Fatal(err)
	}
	return &computer{t: t, s: s, m: m, r: rand.New(rand.NewPCG(1, 1)), now: time.Unix(1000, 0), live: map[*Sequence]*stream{}}
}

// add is a request that allows twice the tokens it will generate.
func (c *computer) add(account string, prompt, outputs int) (*stream, error) {
	c.ids++
	tokens := make([]int32, prompt)
	for i := range tokens {
		tokens[i] = int32(c.ids)*10_000 + int32(i)
	}
	q := &Sequence{Namespace: account, Account: account, Tokens: tokens, Max: 2 * outputs}
	if _, err := c.s.Add(q, c.now); err != nil {
		return nil, err
	}
	st := &stream{seq: q, stop: outputs, arrived: c.now}
	c.live[q] = st
	return st, nil
}

func (c *computer) must(account string, prompt, outputs int) *stream {
	c.t.Helper()
	st, err := c.add(account, prompt, outputs)
	if err != nil {
		c.t.Fatal(err)
	}
	return st
}

// step runs one step, if there is anything to do.
func (c *computer) step() bool {
	c.t.Helper()
	p := c.s.Plan(c.now)
	for _, q := range p.Expired {
		c.expired++
		c.waits = append(c.waits, c.now.Sub(q.Arrived))
		delete(c.live, q)
	}
	for _, q := range p.Preempted {
		c.live[q].lost = true
	}
	c.items = append(c.items[:0], p.Items...)
	if len(p.Items) == 0 {
		if len(c.live) > 0 {
			c.t.Fatalf("nothing is planned, and %d requests live: %+v", len(c.live), c.s.Stats())
		}
		return false
	}
	c.lastTook = c.m.Took(loadOf(p.Items))
	if c.slow != nil {
		c.lastTook = time.Duration(c.slow(c.steps) * float64(c.lastTook))
	}
	for _, q := range c.s.running {
		if st := c.live[q]; q.Started.Equal(c.now) && st.first.IsZero() {
			c.waits = append(c.waits, c.now.Sub(st.arrived))
		}
	}
	c.now = c.now.Add(c.lastTook)
	c.s.Commit(p)
	for _, it := range c.items {
		if it.Logits {
			c.token(c.live[it.Seq])
		}
	}
	c.s.Measured(c.lastTook)
	if c.steps++; c.steps%50 == 0 {
		if err := c.s.Check(); err != nil {
			c.t.Fatal(err)
		}
	}
	return true
}

func (c *computer) token(st *stream) {
	if st.first.IsZero() {
		st.first = c.now
		c.firsts = append(c.firsts, c.now.Sub(st.arrived))
	} else if !st.lost {
		c.gaps = append(c.gaps, c.now.Sub(st.last))
	}
	st.last, st.lost = c.now, false
	c.tokens++
	if len(st.seq.Tokens)-st.seq.Prompt+1 == st.stop {
		c.s.Finish(st.seq, c.now, 0)
		delete(c.live, st.seq)
		c.ended++
		return
	}
	c.s.Append(st.seq, 1)
}

// warm lets the scheduler learn from a few requests, then forgets what was seen.
func (c *computer) warm() {
	c.t.Helper()
	for range 8 {
		c.must("warm", 300, 40)
	}
	for c.step() {
	}
	c.forget()
}

// one runs some requests one after the other: what a stream has alone is known then.
func (c *computer) one() {
	c.t.Helper()
	c.warm()
	for range 20 {
		c.must("a", 250, 64)
		for c.step() {
		}
	}
}

func (c *computer) forget() {
	c.gaps, c.waits, c.firsts, c.ended, c.tokens, c.expired = nil, nil, nil, 0, 0, 0
}

func quantile(d []time.Duration, q float64) time.Duration {
	if len(d) == 0 {
		return 0
	}
	d = slices.Sorted(slices.Values(d))
	return d[min(len(d)-1, int(q*float64(len(d))))]
}

// gapBound is what a gap may be on the machine itself: GapMax, or where that
// cannot be had, a quarter more than a piece of prefill beside one sequence takes.
func (c *computer) gapBound(context int) time.Duration {
	return max(c.s.config.GapMax, c.m.Quiet(cost.Load{}.With(context, 1, 1).With(context, c.s.align, 1))*5/4)
}

// TestGapIsKept: on machines of all speeds, while prompts of all lengths arrive,
// no stream that decodes waits longer than the gap for its next token, and prefill
// gets at least a piece in every step.
func TestGapIsKept(t *testing.T) {
	rows := map[string]int{}
	for _, m := range costtest.Machines(5) {
		t.Run(m.Name, func(t *testing.T) {
			c := newComputer(t, m, func(c *Config) { c.GapStretchMax = 0 })
			c.warm()
			for c.must("a", 64, 40); len(c.gaps) == 0; { // a stream runs: what comes does not come with it
				c.step()
			}
			steps := 0
			for len(c.gaps) < 4000 {
				for c.s.waiting < 2 {
					c.must("a", 20+c.r.IntN(1500), 20+c.r.IntN(200))
				}
				prefills := slices.ContainsFunc(c.s.running, func(q *Sequence) bool { return q.pending() > 1 })
				c.step()
				prefill, decodes := 0, 0
				for _, it := range c.items {
					if it.Len > 1 {
						prefill += it.Len
					} else {
						decodes++
					}
				}
				if prefills && prefill == 0 {
					t.Fatalf("step of %d decodes without prefill: %+v", decodes, c.s.Stats())
				}
				if prefill > 0 && decodes > 0 {
					rows[m.Name] += prefill
					steps++
				}
			}
			rows[m.Name] /= max(1, steps)
			bound := c.gapBound(1700)
			if got := slices.Max(c.gaps); got > bound {
				t.Errorf("the longest of %d gaps is %v, want at most %v", len(c.gaps), got, bound)
			}
			t.Logf("gaps p50 %v p99 %v max %v, bound %v; %d rows of prefill a step, %d run", quantile(c.gaps, 0.5), quantile(c.gaps, 0.99),
				slices.Max(c.gaps), bound, rows[m.Name], len(c.s.running))
		})
	}
	if rows["slow"] >= rows["fast"] || rows["fast"] >= rows["device"] {
		t.Errorf("rows of prefill beside decodes: %v, want more on faster machines", rows)
	}
}

// TestSlowStart: the first steps of a process take many times as long as those that
// follow. They refuse nobody whom the node then serves in time: fifty requests
// that come while it starts wait a quarter of the queue's time, and the slow steps.
func TestSlowStart(t *testing.T) {
	const requests, prompt, outputs = 50, 100, 24
	for _, m := range costtest.Machines(10) {
		ready := newComputer(t, m, func(c *Config) { c.QueueTimeout = time.Hour })
		ready.warm()
		for range requests {
			ready.must("a", prompt, outputs)
		}
		for ready.step() {
		}
		for slowSteps := 1; slowSteps < 8; slowSteps++ {
			const slow = 30
			start := time.Duration(slow*slowSteps) * m.Quiet(cost.Load{}.With(0, 512, 1))
			c := newComputer(t, m, func(c *Config) { c.QueueTimeout = 4*slices.Max(ready.waits) + start })
			c.slow = func(step int) float64 {
				if step < slowSteps {
					return slow
				}
				return 1
			}
			refused := 0
			for i := range requests {
				if _, err := c.add(fmt.Sprint("account", i%5), prompt, outputs); err != nil {
					refused++
				}
				if i%8 == 7 && c.steps < slowSteps {
					c.step()
				}
			}
			for c.step() {
			}
			if refused > 0 || c.expired > 0 || c.ended != requests {
				t.Errorf("%s, %d slow steps: %d refused, %d expired, %d served; the last waited %v of %v", m.Name, slowSteps, refused,
					c.expired, c.ended, quantile(c.waits, 1), c.s.config.QueueTimeout)
			}
		}
	}
}

// TestQueueBoundsAtStart: before anything was measured the queue's bounds refuse.
func TestQueueBoundsAtStart(t *testing.T) {
	c := newComputer(t, costtest.Machines(10)[0], func(c *Config) { c.QueueMax, c.QueueTimeout = 10, time.Millisecond })
	for range 10 {
		c.must("a", 100, 10)
	}
	var refused *RefusedError
	if _, err := c.add("a", 100, 10); !errors.As(err, &refused) || refused.Reason != RefusedRequests {
		t.Errorf("over the queue's bound: %v", err)
	}
}

// TestLonePrompt: a prompt with nothing beside it is computed in steps as
// large as they may be, none of which lasts longer than soloGaps gaps.
func TestLonePrompt(t *testing.T) {
	for _, m := range costtest.Machines(6) {
		c := newComputer(t, m, nil)
		c.warm()
		c.must("a", 3000, 1) // what long contexts take is known then
		for c.step() {
		}
		st := c.must("a", 3000, 1)
		var sum time.Duration
		for c.step() {
			if sum += c.lastTook; c.lastTook > soloGaps*c.s.config.GapMax*11/10 && c.items[0].Len > Align {
				t.Errorf("%s: a step of %d rows took %v", m.Name, c.items[0].Len, c.lastTook)
			}
		}
		largest := time.Duration(0) // in steps of 512 rows
		for at := 0; at < 3000; at += 512 {
			largest += m.Quiet(cost.Load{}.With(at, min(512, 3000-at), 0))
		}
		if got := st.first.Sub(st.arrived); got > largest*5/4 || got != sum {
			t.Errorf("%s: first token after %v, %v in the largest steps", m.Name, got, largest)
		}
	}
}

// TestEightAtOnce: of eight prompts of one account the first has its token
// after about its own prefill, the others one after the other, so that the mean
// is about half of the last; those that have begun go on decoding meanwhile.
func TestEightAtOnce(t *testing.T) {
	for _, m := range costtest.Machines(7) {
		c := newComputer(t, m, nil)
		c.warm()
		var all []*stream
		for range 8 {
			all = append(all, c.must("a", 251, 64))
		}
		for c.step() {
		}
		alone := m.Quiet(cost.Load{}.With(0, 251, 1))
		var sum time.Duration
		for i, st := range all {
			first := st.first.Sub(st.arrived)
			if sum += first; i > 0 && st.first.Before(all[i-1].first) {
				t.Errorf("%s: prompt %d had its token before the one ahead of it", m.Name, i)
			}
		}
		first, last, mean := all[0].first.Sub(all[0].arrived), all[7].first.Sub(all[7].arrived), sum/8
		t.Logf("%s: first %v (alone %v), mean %v, last %v; gaps p50 %v max %v", m.Name, first, alone, mean, last, quantile(c.gaps, 0.5), slices.Max(c.gaps))
		if first > max(alone*5/4, c.s.config.GapMax) {
			t.Errorf("%s: first token after %v, %v alone", m.Name, first, alone)
		}
		if mean > last*13/20 {
			t.Errorf("%s: mean %v, last %v", m.Name, mean, last)
		}
	}
}

// TestLongPromptsInTurn: also prompts of many steps come one after the other.
func TestLongPromptsInTurn(t *testing.T) {
	c := newComputer(t, costtest.Machines(8)[0], nil)
	c.warm()
	var all []*stream
	for range 6 {
		all = append(all, c.must("a", 2000, 30))
	}
	for c.step() {
		for i, st := range all[1:] {
			if st.seq.Computed() > 0 && all[i].first.IsZero() && all[i].seq.pending() > c.s.align {
				t.Fatalf("prompt %d began while the one ahead had %d tokens left", i+1, all[i].seq.pending())
			}
		}
	}
}

// saturate keeps n requests in the queue and returns how many end in a second.
func (c *computer) saturate(length time.Duration, request func() (prompt, outputs int)) float64 {
	c.t.Helper()
	begun := func() time.Time {
		c.forget()
		return c.now
	}
	start := begun()
	for warm := true; warm || c.now.Sub(start) < length; c.step() {
		for c.s.waiting < 12 {
			prompt, outputs := request()
			c.must(fmt.Sprint("account", c.r.IntN(3)), prompt, outputs)
		}
		if warm && c.now.Sub(start) > length/4 {
			start, warm = begun(), false
		}
	}
	return float64(c.ended) / c.now.Sub(start).Seconds()
}

// TestOverload: arrivals at twice what the machine can do, as a Poisson process,
// for many minutes. Nobody waits longer than QueueTimeout: who would is refused, and
// told a time; hardly anybody expires. Streams are not slower than three times a
// stream alone, or a piece of prefill beside a small batch where the machine is
// too slow for that, and the machine does as much as it can.
func TestOverload(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 10 s, and minutes under the race detector; nothing here runs beside anything else")
	}
	for _, m := range costtest.Machines(9) {
		t.Run(m.Name, func(t *testing.T) { overload(t, m) })
	}
}

func overload(t *testing.T, m *costtest.Machine) {
	// On faster machines the same number of requests in less time.
	scale := float64(m.Quiet(cost.Load{}.With(0, 256, 0))) / float64(300*time.Millisecond)
	minute := max(3*time.Second, time.Duration(scale*float64(time.Minute)))
	change := func(c *Config) { c.QueueTimeout = minute }
	request := func(r *rand.Rand) func() (int, int) {
		return func() (int, int) { return 100 + r.IntN(300), 32 + r.IntN(64) }
	}
	alone := newComputer(t, m, change)
	alone.one()
	full := newComputer(t, m, change)
	full.one()
	capacity := full.saturate(5*minute, request(full.r))

	c := newComputer(t, m, change)
	c.one()
	arrivals, refusals, short := c.r, 0, 0
	next, end := c.now, c.now.Add(15*minute)
	most, retryMax := 0, time.Duration(0)
	settled := false
	for c.now.Before(end) {
		for !next.After(c.now) {
			prompt, outputs := request(arrivals)()
			_, err := c.add(fmt.Sprint("account", arrivals.IntN(3)), prompt, outputs)
			if refused, ok := errors.AsType[*RefusedError](err); ok {
				refusals++
				retryMax = max(retryMax, refused.RetryAfter)
				if refused.RetryAfter < time.Second {
					short++
				}
			}
			next = next.Add(time.Duration(arrivals.ExpFloat64() / (2 * capacity) * float64(time.Second)))
		}
		most = max(most, c.s.waiting)
		if !c.step() {
			c.now = next
		}
		if !settled && c.now.After(end.Add(-10*minute)) {
			settled = true
			c.forget()
			refusals = 0
		}
	}
	rate := float64(c.ended) / (10 * minute).Seconds()
	gap, lone := quantile(c.gaps, 0.99), quantile(alone.gaps, 0.99)
	// The shortest step with a piece, where that takes longer.
	bound := time.Duration((1 + batchShare) * (1 + m.Noise) * float64(m.Quiet(cost.Load{}.With(300, 1, 1).With(300, c.s.align, 1))))
	t.Logf("capacity %.2f/s, served %.2f/s, refused %d, expired %d, waiting at most %d, waits p50 %v max %v, retry after at most %v; gaps p99 %v, alone %v; preempted %d",
		capacity, rate, refusals, c.expired, most, quantile(c.waits, 0.5), slices.Max(c.waits), retryMax, gap, lone,
		c.s.count.PreemptedFair)
	if limit := c.s.config.QueueTimeout; slices.Max(c.waits) > limit+limit/20 {
		t.Errorf("someone waited %v", slices.Max(c.waits))
	}
	if refusals < c.ended/2 || short > 0 || retryMax > c.s.config.QueueTimeout {
		t.Errorf("%d refused of twice %d, %d with less than a second to wait, at most %v", refusals, c.ended, short, retryMax)
	}
	if c.expired > c.ended/20 {
		t.Errorf("%d expired, %d were served", c.expired, c.ended)
	}
	if rate < 0.95*capacity {
		t.Errorf("%.2f requests/s of %.2f", rate, capacity)
	}
	if gap > 3*lone && gap > bound && gap > gapMin*11/10 {
		t.Errorf("p99 of the gaps is %v, alone %v, bound %v", gap, lone, bound)
	}
}
