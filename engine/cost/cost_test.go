package cost_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"corenode/engine/cost"
	"corenode/engine/cost/costtest"
)

// machine is a simulated one that makes loads.
type machine struct{ *costtest.Machine }

// machines are those of costtest, and then the same with steps so short that few of them can
// be learned from.
func machines(seed uint64) (all []machine) {
	for _, m := range costtest.Machines(seed) {
		all = append(all, machine{m})
	}
	for _, m := range costtest.Machines(seed) {
		m = m.Scaled(0.04)
		m.Name = "brief " + m.Name
		all = append(all, machine{m})
	}
	return all
}

// loads are steps as they come: some sequences decode, some rows are prefilled.
func (m machine) load() (l cost.Load) {
	for range m.Rand.IntN(17) {
		l = l.With(50+m.Rand.IntN(2000), 1, 1)
	}
	if n := m.Rand.IntN(6); n > 0 && m.Rand.IntN(3) == 0 || l.Rows == 0 {
		l = l.With(64*m.Rand.IntN(16), max(64, 64*n), 0)
	}
	return l
}

// deviation is the mean of |predicted / real - 1| over many loads.
func (m machine) deviation(c *cost.Model) float64 {
	var sum float64
	const n = 300
	for range n {
		l := m.load()
		d := float64(c.Predict(l))/float64(m.Quiet(l)) - 1
		sum += max(d, -d)
	}
	return sum / n
}

// TestCostIsLearned: from loads as they come, through outliers, on machines of
// all speeds.
func TestCostIsLearned(t *testing.T) {
	for seed := range uint64(3) {
		for _, m := range machines(seed) {
			for _, m.Odd = range []int{0, 20} {
				var c cost.Model
				for range 400 {
					l := m.load()
					c.Observe(l, m.Took(l))
				}
				d := m.deviation(&c)
				t.Logf("%s, seed %d, odd %d: %.3f", m.Name, seed, m.Odd, d)
				if d > 0.1 {
					t.Errorf("%s, one in %d disturbed: predictions are off by %.0f %%", m.Name, m.Odd, 100*d)
				}
			}
		}
	}
}

// TestCostOfAFewSteps: a start is sane. After one prompt a piece of another size is
// predicted within a factor, and never as free; after a prompt and some
// decodes both are known.
func TestCostOfAFewSteps(t *testing.T) {
	for _, m := range machines(1) {
		var c cost.Model
		if c.Known() || c.Predict(cost.Load{}.With(0, 64, 0)) != 0 {
			t.Fatal("a new model knows something")
		}
		first := cost.Load{}.With(0, 64, 0)
		c.Observe(first, m.Took(first))
		for _, rows := range []int{64, 128, 256, 512} {
			l := cost.Load{}.With(0, rows, 0)
			if p := float64(c.Predict(l)) / float64(m.Quiet(l)); p < 0.5 {
				t.Errorf("%s: after one step %d rows are predicted at %.2f of what they take", m.Name, rows, p)
			}
		}
		for i := range 5 {
			l := cost.Load{}.With(64+i, 1, 1)
			c.Observe(l, m.Took(l))
		}
		for _, l := range []cost.Load{first, cost.Load{}.With(70, 1, 1), cost.Load{}.With(70, 1, 1).With(0, 64, 0)} {
			if p := float64(c.Predict(l)) / float64(m.Quiet(l)); p < 0.8 || p > 1.6 {
				t.Errorf("%s: %+v is predicted at %.2f of what it takes", m.Name, l, p)
			}
		}
	}
}

// TestCostSurvivesDecoding: after thousands of steps that only decode, what a
// prefill costs is still known.
func TestCostSurvivesDecoding(t *testing.T) {
	for _, m := range machines(2) {
		var c cost.Model
		for range 200 {
			l := m.load()
			c.Observe(l, m.Took(l))
		}
		for i := range 5000 {
			l := cost.Load{}.With(100+i%900, 1, 1).With(100+i%700, 1, 1)
			c.Observe(l, m.Took(l))
		}
		if d := m.deviation(&c); d > 0.15 {
			t.Errorf("%s: off by %.0f %%", m.Name, 100*d)
		}
	}
}

// TestCostOfALargestStepIsBounded: one step that is larger than all others took very long. Steps of
// its size are not believed to take many times as long as their rows do in smaller steps.
func TestCostOfALargestStepIsBounded(t *testing.T) {
	for _, m := range machines(4) {
		var c cost.Model
		piece, decode := cost.Load{}.With(0, 64, 1), cost.Load{}.With(64, 1, 1)
		for range 40 {
			c.Observe(piece, m.Took(piece))
			c.Observe(decode, m.Took(decode))
		}
		large := cost.Load{}.With(0, 110, 1).With(0, 110, 1)
		c.Observe(large, 30*m.Took(large))
		for range 40 {
			c.Observe(piece, m.Took(piece))
			c.Observe(decode, m.Took(decode))
		}
		beside := decode.With(0, 64, 0)
		if apart := m.Quiet(decode) + m.Quiet(piece); c.Predict(beside) > 2*apart {
			t.Errorf("%s: a piece beside a decode is predicted to take %v, in steps of their own they take %v",
				m.Name, c.Predict(beside), apart)
		}
		if two := 2 * m.Quiet(piece); c.Predict(cost.Load{}.With(0, 110, 1)) > 4*two {
			t.Errorf("%s: 110 rows are predicted to take %v, two pieces of 64 take %v", m.Name, c.Predict(cost.Load{}.With(0, 110, 1)), two)
		}
	}
}

// TestCostFollowsTheMachine: a neighbor that takes half the machine is in the
// predictions after a few steps, and out of them after it is gone.
func TestCostFollowsTheMachine(t *testing.T) {
	for _, m := range machines(3) {
		var c cost.Model
		for range 300 {
			l := m.load()
			c.Observe(l, m.Took(l))
		}
		for _, busy := range []float64{2.5, 1} {
			for range 8 {
				l := m.load()
				c.Observe(l, time.Duration(busy*float64(m.Took(l))))
			}
			l := cost.Load{}.With(300, 1, 1).With(0, 128, 0)
			if p := float64(c.Predict(l)) / float64(m.Quiet(l)) / busy; p < 0.75 || p > 1.33 {
				t.Errorf("%s at 1/%v of its speed: predicted %.2f of what it takes", m.Name, busy, p)
			}
		}
	}
}

// TestOneStepSaysNothing: one step of a hundred times the length, of whatever
// size, moves no prediction by more than a little.
func TestOneStepSaysNothing(t *testing.T) {
	for _, m := range machines(4) {
		var c cost.Model
		for range 300 {
			l := m.load()
			c.Observe(l, m.Took(l))
		}
		for range 20 {
			l, probe := m.load(), m.load()
			before := c.Predict(probe)
			c.Observe(l, 100*m.Took(l))
			if after := c.Predict(probe); after > before*11/10 || after < before*9/10 {
				t.Errorf("%s: a step of %d rows moved %v to %v", m.Name, l.Rows, before, after)
			}
			for range 20 {
				l := m.load()
				c.Observe(l, m.Took(l))
			}
		}
	}
}

// TestStairsAreKnown: where kernels compute rows in groups, the first row of a
// group costs what the whole group does and the others nothing, after some dozen
// steps with sizes on both sides.
func TestStairsAreKnown(t *testing.T) {
	for seed := range uint64(3) {
		m := machines(seed)[4]
		var c cost.Model
		decodes := func(n int) cost.Load { return cost.Load{}.With(200, 1, 1).Times(n) }
		first := cost.Load{}.With(0, 300, 1)
		c.Observe(first, m.Took(first))
		for range 300 {
			l := decodes(1 + m.Rand.IntN(32))
			c.Observe(l, m.Took(l))
		}
		for _, n := range []int{1, 2, 4, 8, 9, 12, 16, 17, 24, 32} {
			if p := float64(c.Predict(decodes(n))) / float64(m.Quiet(decodes(n))); p < 0.87 || p > 1.15 {
				t.Errorf("seed %d: %d rows are predicted at %.2f of what they take", seed, n, p)
			}
		}
	}
}

// TestMoreTakesLonger: whatever was learned, from steps of any time, a step of more
// rows is never predicted to be shorter: plans search for the most that fit.
func TestMoreTakesLonger(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	for range 20 {
		var c cost.Model
		for range 200 {
			l := cost.Load{}.With(r.IntN(500), 1+int(math.Exp(7*r.Float64())), 1)
			c.Observe(l, time.Duration(r.ExpFloat64()*float64(50*time.Millisecond)))
		}
		last := time.Duration(0)
		for rows := 1; rows < 2000; rows++ {
			if p := c.Predict(cost.Load{Rows: rows}); p < last {
				t.Fatalf("%d rows are predicted to take %v, one less %v", rows, p, last)
			} else {
				last = p
			}
		}
	}
}

// TestNothingIsKnownOfNothing: steps that cannot have been teach nothing.
func TestNothingIsKnownOfNothing(t *testing.T) {
	var c cost.Model
	c.Observe(cost.Load{}, time.Second)
	c.Observe(cost.Load{}.With(0, 5, 1), 0)
	if c.Known() || c.Predict(cost.Load{}.With(0, 5, 1)) != 0 || c.PredictLong(cost.Load{}.With(0, 5, 1)) != 0 {
		t.Error("something is known")
	}
}

// TestSlowSizeIsTriedAgain: a size that was slow once gives way to its neighbors
// when only those run, and one disturbed step says little of a size from the start.
func TestSlowSizeIsTriedAgain(t *testing.T) {
	one := func(rows int) cost.Load { return cost.Load{}.With(100, rows, rows) }
	var c cost.Model
	observe := func(n, rows int, ms float64) {
		for range n {
			c.Observe(one(rows), time.Duration(ms*float64(time.Millisecond)))
		}
	}
	observe(1, 128, 60)
	observe(10, 1, 10)
	observe(10, 8, 13)
	observe(1, 4, 100)
	if got := c.Predict(one(4)); got > 15*time.Millisecond {
		t.Errorf("a size of which the first step was disturbed: %v", got)
	}
	observe(20, 4, 24)
	slow := c.Predict(one(4))
	for range 8000 {
		observe(1, 1, 10)
		observe(1, 8, 13)
	}
	if got := c.Predict(one(4)); slow < 20*time.Millisecond || got > 14*time.Millisecond {
		t.Errorf("4 rows: %v when they were slow, %v after thousands of other steps", slow, got)
	}
}

// TestPaceGoesBothWays: a machine that is half or twice as fast for a hundred
// steps and then as before is predicted after a dozen, whatever it learned meanwhile.
func TestPaceGoesBothWays(t *testing.T) {
	for _, m := range machines(5) {
		var c cost.Model
		for _, speed := range []float64{1, 2, 1, 0.5, 1} {
			for range 100 {
				l := m.load()
				c.Observe(l, time.Duration(speed*float64(m.Took(l))))
			}
			now := machine{m.Scaled(speed)}
			if d := now.deviation(&c); d > 0.25 {
				t.Errorf("%s at 1/%g of its speed: off by %.0f %%", m.Name, speed, 100*d)
			}
		}
		for range 12 {
			l := m.load()
			c.Observe(l, time.Duration(2*float64(m.Took(l))))
		}
		if d := (machine{m.Scaled(2)}).deviation(&c); d > 0.25 {
			t.Errorf("%s, a dozen steps after it became half as fast: off by %.0f %%", m.Name, 100*d)
		}
	}
}

// BenchmarkObserve is a step as they come, and one in which only some sequences decode, on
// machines of several speeds. It reports the share of the steps' own time that this takes, in
// percent, and by how much predictions are off after it.
func BenchmarkObserve(b *testing.B) {
	for _, name := range []string{"any", "decodes"} {
		for _, scale := range []float64{0.01, 0.05, 0.2, 1, 50} { // steps from 3 microseconds on
			b.Run(fmt.Sprintf("%s/%v", name, scale), func(b *testing.B) {
				m := machine{machines(1)[3].Scaled(scale)}
				m.Noise, m.Odd = 0.15, 50
				load := func() (l cost.Load) {
					for l = m.load(); name == "decodes" && l.Rows != l.Logits; {
						l = m.load()
					}
					return l
				}
				var c cost.Model
				var loads [1024]cost.Load
				var took [1024]time.Duration
				sum := time.Duration(0)
				for i := range loads {
					loads[i] = load()
					took[i] = m.Took(loads[i])
					sum += m.Quiet(loads[i])
				}
				n := 0
				for b.Loop() {
					c.Observe(loads[n%1024], took[n%1024])
					n++
				}
				b.ReportMetric(100*float64(b.Elapsed())/float64(n)/(float64(sum)/1024), "%time")
				off := 0.0
				for range 300 {
					l := load()
					off += math.Abs(float64(c.Predict(l))/float64(m.Quiet(l)) - 1)
				}
				b.ReportMetric(100*off/300, "%off")
			})
		}
	}
}
