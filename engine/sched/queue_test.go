package sched

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"corenode/engine/cost/costtest"
)

// refusedFor adds requests of one account until one is refused, and says why.
func (c *computer) refusedFor(account string, prompt, outputs int) *RefusedError {
	c.t.Helper()
	for range 5000 {
		var refused *RefusedError
		if _, err := c.add(account, prompt, outputs); errors.As(err, &refused) {
			return refused
		}
	}
	c.t.Fatal("nothing was refused")
	return nil
}

// TestRetryAfterIsTrue: for each bound of the queue, who waits as long as told is
// taken if nobody else comes, give or take the time at which slots become free.
func TestRetryAfterIsTrue(t *testing.T) {
	for reason, change := range map[Reason]func(*Config){
		RefusedRequests: func(c *Config) { c.QueueMax = 20 },
		RefusedTokens:   func(c *Config) { c.QueueTokensMax = 40_000 },
		RefusedWait:     func(c *Config) { c.QueueTimeout = 3 * time.Minute },
	} {
		for _, m := range costtest.Machines(10)[:2] {
			c := newComputer(t, m, func(c *Config) { c.QueueTimeout = time.Hour; change(c) })
			c.warm()
			begun := c.now
			for range 60 { // the length of an answer is known, and how well waits are foreseen
				c.must("a", 1500, 200)
				for c.s.waiting > 3 {
					c.step()
				}
			}
			interval := c.now.Sub(begun) / time.Duration(c.ended) // at which slots become free
			for full := false; !full; full = c.s.waiting > 0 {    // nothing is about to start
				c.step()
			}
			refused := c.refusedFor("a", 1500, 200)
			told := c.now.Add(refused.RetryAfter)
			if refused.Reason != reason {
				t.Fatalf("%s: refused for %q, want %q", m.Name, refused.Reason, reason)
			}
			taken := time.Duration(0)
			for from := c.now; taken == 0; {
				c.step()
				if _, err := c.add("a", 1500, 200); err == nil {
					taken = c.now.Sub(from)
				}
				if c.now.After(told.Add(time.Minute)) {
					t.Fatalf("%s, %s: not taken a minute after the time told", m.Name, reason)
				}
			}
			t.Logf("%s, %s: told %v, taken after %v", m.Name, reason, refused.RetryAfter, taken)
			if d := taken - refused.RetryAfter; d > interval+time.Second || d < -2*interval {
				t.Errorf("%s, %s: told to retry after %v, taken after %v; a slot every %v", m.Name, reason, refused.RetryAfter, taken, interval)
			}
		}
	}
}

// TestRetryAfterOfALongPrompt: it is told when there is room for all its tokens, not for a prompt like those that wait.
func TestRetryAfterOfALongPrompt(t *testing.T) {
	c := newComputer(t, costtest.Machines(18)[1], func(c *Config) { c.QueueTimeout, c.QueueTokensMax = time.Hour, 30_000 })
	c.warm()
	c.refusedFor("a", 300, 100)
	_, err := c.add("b", 20_000, 10)
	over := float64(c.s.freshTokens+20_000-30_000) / float64(c.s.freshTokens)
	want := time.Duration(float64(c.s.QueueWait()) * over)
	if refused, ok := errors.AsType[*RefusedError](err); !ok || refused.Reason != RefusedTokens ||
		(refused.RetryAfter-want).Abs() > time.Millisecond || want < 2*retryMin {
		t.Errorf("%v, want %v of the %v that the queue takes", err, want, c.s.QueueWait())
	}
}

// TestRetryAfterOfExpired: who waited too long is told when the queue will be short enough to be taken again.
func TestRetryAfterOfExpired(t *testing.T) {
	c := newComputer(t, costtest.Machines(17)[1], func(c *Config) { c.QueueTimeout = time.Hour })
	c.warm()
	for range 100 {
		c.must("a", 300, 100)
	}
	wait := c.s.QueueWait()
	for _, tc := range []struct{ timeout, want time.Duration }{ // most is accepted of a timeout but for a margin
		{wait * 3 / 4, wait - time.Duration(float64(wait*3/4)/margin)},
		{wait / 4, wait / 4}, // all that waits now has left by then
		{wait * 2, retryMin},
	} {
		c.s.config.QueueTimeout = tc.timeout
		if got := c.s.RetryAfter(); got != tc.want || wait < 20*time.Second {
			t.Errorf("of a wait of %v, accepted up to %v: told to come back after %v, want %v", wait, tc.timeout, got, tc.want)
		}
	}
}

// TestFloodIsRefusedAlone: an account that fills the time of the queue is
// refused; one that comes with a single request is not.
func TestFloodIsRefusedAlone(t *testing.T) {
	c := newComputer(t, costtest.Machines(11)[1], nil)
	c.warm()
	if r := c.refusedFor("flood", 300, 100); r.Reason != RefusedWait {
		t.Fatalf("refused for %q", r.Reason)
	}
	st := c.must("other", 300, 10)
	for st.first.IsZero() {
		c.step()
	}
	if wait := st.seq.Started.Sub(st.seq.Arrived); wait > 5*time.Second {
		t.Errorf("the other account waited %v", wait)
	}
}

// TestCachedTurnIsNotRefused: what the prefix cache has of a prompt is not computed,
// and no reason to refuse the next turn of a long conversation, nor to expect that it waits.
func TestCachedTurnIsNotRefused(t *testing.T) {
	c := newComputer(t, costtest.Machines(16)[1], func(c *Config) { c.QueueTimeout = 20 * time.Second })
	c.warm()
	const length = 100_000
	c.must("a", length, 1)
	for c.step() {
	}
	first := slices.Repeat([]int32{int32(c.ids) * 10_000}, length)
	for i := range first {
		first[i] += int32(i)
	}
	for c.s.waiting == 0 { // somebody waits, so that there is something to expect
		c.must("b", 300, 100)
		c.step()
	}
	before := c.s.pool.Stats()
	var refused *RefusedError
	if _, err := c.add("c", length+100, 10); !errors.As(err, &refused) || refused.Reason != RefusedWait {
		t.Fatalf("a prompt that nobody has computed: %v", err)
	}
	if after := c.s.pool.Stats(); after.Tables != before.Tables || after.PagesOwned != before.PagesOwned {
		t.Errorf("a refused sequence keeps memory: %+v, before %+v", after, before)
	}
	q := &Sequence{Namespace: "a", Account: "a", Tokens: append(first, make([]int32, 100)...), Max: 10}
	cached, err := c.s.Add(q, c.now)
	if err != nil || cached < length-32 {
		t.Fatalf("%d tokens of %d are cached: %v", cached, len(q.Tokens), err)
	}
	if q.expected > 10*time.Second {
		t.Errorf("it is expected to wait %v for a slot", q.expected)
	}
	if err := c.s.Check(); err != nil {
		t.Error(err)
	}
}

// TestHitsAreOfThoseThatBegin: the cache saved nothing to a sequence that is refused or leaves before its turn, and what it saved
// to one that begins counts once, however often that looks again.
func TestHitsAreOfThoseThatBegin(t *testing.T) {
	c := newComputer(t, costtest.Machines(16)[1], func(c *Config) { c.QueueTimeout = time.Millisecond })
	c.warm()
	first := c.must("a", 5000, 1).seq.Tokens[:5000:5000]
	for c.step() {
	}
	for c.s.waiting == 0 {
		c.must("b", 300, 100)
		c.step()
	}
	before := c.s.pool.Stats().Counters
	var refused *RefusedError
	again := &Sequence{Namespace: "a", Account: "a", Tokens: append(first, make([]int32, 1000)...), Max: 10}
	if _, err := c.s.Add(again, c.now); !errors.As(err, &refused) || refused.Reason != RefusedWait {
		t.Fatalf("a sequence that would wait: %v", err)
	}
	if after := c.s.pool.Stats().Counters; after != before {
		t.Errorf("%+v after a refusal, before %+v", after, before)
	}
	for _, states := range []int{0, 8} {
		for name, leave := range leaves {
			b := newBench(t, 400, states, func(c *Config) { c.SequencesMax = 2 })
			one := b.seq("a", 64, 1)
			one.SnapshotAt = []int{64}
			if _, err := b.s.Add(one, b.now); err != nil {
				t.Fatal(err)
			}
			b.until(5, ended(one))
			begin, before := one.Tokens[:one.Prompt], b.s.pool.Stats()
			b.s.Finish(b.again("a", 0, begin, 2000, 5), b.now, 0)
			b.add("a", 5, 500)
			q := b.again("a", 0, begin, 2000, 5)
			b.until(50, func() bool { return q.Computed() > 500 })
			leave(b, q)
			b.until(600, func() bool { return q.phase == phasePaused || q.Running() && q.Computed() > 64 })
			after := b.s.pool.Stats()
			if after.Hits != before.Hits+1 || after.HitTokens != before.HitTokens+64 {
				t.Errorf("%d states, %s: %d hits of %d tokens, want 1 of 64", states, name, after.Hits-before.Hits, after.HitTokens-before.HitTokens)
			}
		}
	}
}

// TestHigherPriorityIsNotRefused: what waits behind a sequence does not count.
func TestHigherPriorityIsNotRefused(t *testing.T) {
	c := newComputer(t, costtest.Machines(12)[1], nil)
	c.warm()
	c.refusedFor("a", 300, 100)
	q := &Sequence{Namespace: "a", Account: "a", Priority: 1, Tokens: make([]int32, 300), Max: 10}
	if _, err := c.s.Add(q, c.now); err != nil {
		t.Errorf("of a higher priority: %v", err)
	}
	low := &Sequence{Namespace: "b", Account: "b", Priority: -1, Tokens: make([]int32, 300), Max: 10}
	var refused *RefusedError
	if _, err := c.s.Add(low, c.now); !errors.As(err, &refused) || refused.Reason != RefusedWait {
		t.Errorf("of a lower priority: %v", err)
	}
}

// TestWorkOf: a request is expected to give as many tokens as others did in the mean, and never more than it may. What is
// cached of it is not computed.
func TestWorkOf(t *testing.T) {
	b := newBench(t, 100, 0, nil)
	for _, tc := range []struct {
		outputs           float64 // 0: none has ended
		most, had, cached int
		want              work
	}{
		{0, 8, 0, 0, work{100, 8}}, {0, 5000, 0, 0, work{100, outputsDefault}},
		{50, 8, 0, 0, work{100, 8}}, {50, 5000, 0, 64, work{36, 50}}, {50, 60, 20, 0, work{120, 40}},
	} {
		b.s.forecast.outputs = tc.outputs
		q := &Sequence{Tokens: make([]int32, 100+tc.had), Prompt: 100, Max: tc.most, Cached: tc.cached, fresh: tc.had == 0}
		if got := b.s.workOf(q); got != tc.want {
			t.Errorf("%+v: %+v", tc, got)
		}
	}
	if got, want := (work{100, 8}).service(), float64(service(100)+8*service(1)); got != want {
		t.Errorf("a prompt of 100 and 8 tokens are counted as %g, their items as %g", got, want)
	}
	var f forecast
	for _, tc := range []struct{ had, want int }{{20, 20}, {20 + outputsMemory, 21}, {21, 21}} { // each moves the mean a little
		f.ended(&Sequence{Tokens: make([]int32, 100+tc.had), Prompt: 100})
		if f.outputs != float64(tc.want) {
			t.Errorf("behind one with %d tokens the mean is %g, want %d", tc.had, f.outputs, tc.want)
		}
	}
}

// TestWaitMax: where waits come out longer than expected, less is accepted, so that few of those in the queue expire.
func TestWaitMax(t *testing.T) {
	b := newBench(t, 10, 0, func(c *Config) { c.QueueTimeout = time.Minute })
	most := time.Duration(float64(time.Minute) / margin)
	for _, tc := range []struct {
		late float64 // what one wait in a hundred exceeds
		seen int
		want time.Duration
	}{{2, tailKnown, 30 * time.Second}, {2, tailKnown - 1, most}, {1, tailKnown, most}} {
		b.s.forecast.late = tail{log: math.Log(tc.late) / tailPower, seen: tc.seen}
		if got := b.s.waitMax(); (got - tc.want).Abs() > time.Microsecond {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}

// TestQueueWaitIsForeseen: what the queue is said to take is what it takes.
func TestQueueWaitIsForeseen(t *testing.T) {
	for _, m := range costtest.Machines(13)[:2] {
		c := newComputer(t, m, func(c *Config) { c.QueueTimeout = time.Hour })
		c.warm()
		for range 2 {
			for range 60 {
				c.must("a", 100+c.r.IntN(400), 30+c.r.IntN(60))
			}
			if c.ended < 60 {
				for c.step() {
				}
			}
		}
		foreseen, from := c.s.Stats().QueueWait, c.now
		for c.s.waiting > 0 {
			c.step()
		}
		if took := c.now.Sub(from); foreseen < took*2/3 || foreseen > took*3/2 {
			t.Errorf("%s: the queue was said to take %v, it took %v", m.Name, foreseen, took)
		}
	}
}

// TestNothingIsForeseenAtFirst: before anything was measured only the sizes
// bound the queue, and what is full asks for a second.
func TestNothingIsForeseenAtFirst(t *testing.T) {
	c := newComputer(t, costtest.Machines(14)[0], func(c *Config) { c.QueueMax = 500 })
	if r := c.refusedFor("a", 300, 100); r.Reason != RefusedRequests || r.RetryAfter != retryMin || c.s.waiting != 500 {
		t.Errorf("%+v with %d waiting", r, c.s.waiting)
	}
}

// TestQueueWaitIsSteady: on a computer that others use by fits and starts, so that
// steps take three times as long for a moment and then do not, what a long queue
// will take is that of the mean, whenever it is asked.
func TestQueueWaitIsSteady(t *testing.T) {
	quick := costtest.Machines(15)[3]
	slow := quick.Scaled(3)
	c := newComputer(t, quick, func(c *Config) { c.QueueTimeout = time.Hour })
	c.warm()
	const length = 400
	var said []time.Duration
	var begun time.Time
	for begun.IsZero() || c.now.Sub(begun) < 20*time.Second {
		for c.s.waiting < length {
			c.must("a", 200+c.r.IntN(100), 40+c.r.IntN(40))
		}
		if c.steps%20 == 0 {
			if c.m = quick; c.r.IntN(2) == 0 {
				c.m = slow
			}
		}
		c.step()
		if begun.IsZero() && c.ended > 2*length { // the lengths of answers are known, and how waits come out
			begun = c.now
			c.forget()
		}
		if !begun.IsZero() && c.steps%7 == 0 {
			said = append(said, c.s.QueueWait())
		}
	}
	truth := time.Duration(length * float64(c.now.Sub(begun)) / float64(c.ended))
	least, most := slices.Min(said), slices.Max(said)
	t.Logf("said %v to %v, p50 %v, truth %v", least, most, quantile(said, 0.5), truth)
	if least < truth*6/10 || most > truth*16/10 {
		t.Errorf("the queue was said to take %v to %v, it takes %v", least, most, truth)
	}
}
