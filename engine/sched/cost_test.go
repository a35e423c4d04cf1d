package sched

import (
	"math/rand/v2"
	"testing"
	"time"
)

// machine is how long steps really take on some computer: not a sum of linear
// terms but the larger of reading the weights and computing the rows, then the
// attention, then what others on the computer do.
type machine struct {
	name    string
	weights time.Duration // to read them once
	row     time.Duration // of matrix products
	head    time.Duration // of one row's logits
	key     time.Duration // to read one position's K and V
	pair    time.Duration // for one row to attend to one position
	noise   float64       // relative, either way
	odd     int           // one step in so many takes ten times as long; 0 = none
	r       *rand.Rand
}

// The shapes of a 0.6B model on a slow and a fast pair of cores, and on a device.
func machines(seed uint64) []*machine {
	r := rand.New(rand.NewPCG(seed, 3))
	us := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	return []*machine{
		{"slow", us(45_000), us(1_200), us(800), us(12), us(4), 0.03, 0, r},
		{"fast", us(25_000), us(500), us(300), us(6), us(1), 0.03, 0, r},
		{"device", us(4_000), us(15), us(10), us(0.05), us(0.01), 0.03, 0, r},
		{"tiny", us(300), us(20), us(10), us(0.2), us(0.05), 0.03, 0, r},
	}
}

// quiet is how long a step takes when nobody else runs.
func (m *machine) quiet(l load) time.Duration {
	return max(m.weights, time.Duration(l.rows)*m.row) + time.Duration(l.logits)*m.head +
		time.Duration(l.context)*m.key + time.Duration(l.pairs)*m.pair
}

func (m *machine) took(l load) time.Duration {
	t := float64(m.quiet(l)) * (1 + m.noise*(2*m.r.Float64()-1))
	if m.odd > 0 && m.r.IntN(m.odd) == 0 {
		t *= 10
	}
	return time.Duration(t)
}

// loads are steps as they come: some sequences decode, some rows are prefilled.
func (m *machine) load() (l load) {
	for range m.r.IntN(17) {
		l = l.with(50+m.r.IntN(2000), 1, 1)
	}
	if n := m.r.IntN(6); n > 0 && m.r.IntN(3) == 0 || l.rows == 0 {
		l = l.with(64*m.r.IntN(16), max(64, 64*n), 0)
	}
	return l
}

// deviation is the mean of |predicted / real - 1| over many loads.
func (m *machine) deviation(c *costModel) float64 {
	var sum float64
	const n = 300
	for range n {
		l := m.load()
		d := float64(c.predict(l))/float64(m.quiet(l)) - 1
		sum += max(d, -d)
	}
	return sum / n
}

// TestCostIsLearned: from loads as they come, through outliers, on machines of
// all speeds.
func TestCostIsLearned(t *testing.T) {
	for seed := range uint64(3) {
		for _, m := range machines(seed) {
			for _, m.odd = range []int{0, 20} {
				var c costModel
				for range 400 {
					l := m.load()
					c.observe(l, m.took(l))
				}
				d := m.deviation(&c)
				t.Logf("%s, seed %d, odd %d: %.3f", m.name, seed, m.odd, d)
				if d > 0.1 {
					t.Errorf("%s, one in %d disturbed: predictions are off by %.0f %%", m.name, m.odd, 100*d)
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
		var c costModel
		if c.known() || c.predict(load{}.with(0, 64, 0)) != 0 {
			t.Fatal("a new model knows something")
		}
		first := load{}.with(0, 64, 0)
		c.observe(first, m.took(first))
		for _, rows := range []int{64, 128, 256, 512} {
			l := load{}.with(0, rows, 0)
			if p := float64(c.predict(l)) / float64(m.quiet(l)); p < 0.5 {
				t.Errorf("%s: after one step %d rows are predicted at %.2f of what they take", m.name, rows, p)
			}
		}
		for i := range 5 {
			l := load{}.with(64+i, 1, 1)
			c.observe(l, m.took(l))
		}
		for _, l := range []load{first, load{}.with(70, 1, 1), load{}.with(70, 1, 1).with(0, 64, 0)} {
			if p := float64(c.predict(l)) / float64(m.quiet(l)); p < 0.8 || p > 1.6 {
				t.Errorf("%s: %+v is predicted at %.2f of what it takes", m.name, l, p)
			}
		}
	}
}

// TestCostSurvivesDecoding: after thousands of steps that only decode, what a
// prefill costs is still known.
func TestCostSurvivesDecoding(t *testing.T) {
	for _, m := range machines(2) {
		var c costModel
		for range 200 {
			l := m.load()
			c.observe(l, m.took(l))
		}
		for i := range 5000 {
			l := load{}.with(100+i%900, 1, 1).with(100+i%700, 1, 1)
			c.observe(l, m.took(l))
		}
		if d := m.deviation(&c); d > 0.15 {
			t.Errorf("%s: off by %.0f %%", m.name, 100*d)
		}
	}
}

// TestCostFollowsTheMachine: a neighbour that takes half the machine is in the
// predictions after a few steps, and out of them after it is gone.
func TestCostFollowsTheMachine(t *testing.T) {
	for _, m := range machines(3) {
		var c costModel
		for range 300 {
			l := m.load()
			c.observe(l, m.took(l))
		}
		for _, busy := range []float64{2.5, 1} {
			for range 8 {
				l := m.load()
				c.observe(l, time.Duration(busy*float64(m.took(l))))
			}
			l := load{}.with(300, 1, 1).with(0, 128, 0)
			if p := float64(c.predict(l)) / float64(m.quiet(l)) / busy; p < 0.75 || p > 1.33 {
				t.Errorf("%s at 1/%v of its speed: predicted %.2f of what it takes", m.name, busy, p)
			}
		}
	}
}

// TestOneStepSaysNothing: one step of a hundred times the length, of whatever
// size, moves no prediction by more than a little.
func TestOneStepSaysNothing(t *testing.T) {
	for _, m := range machines(4) {
		var c costModel
		for range 300 {
			l := m.load()
			c.observe(l, m.took(l))
		}
		for range 20 {
			l, probe := m.load(), m.load()
			before := c.predict(probe)
			c.observe(l, 100*m.took(l))
			if after := c.predict(probe); after > before*11/10 || after < before*9/10 {
				t.Errorf("%s: a step of %d rows moved %v to %v", m.name, l.rows, before, after)
			}
			for range 20 {
				l := m.load()
				c.observe(l, m.took(l))
			}
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	m := machines(1)[0]
	var c costModel
	loads := make([]load, 256)
	for i := range loads {
		loads[i] = m.load()
	}
	i := 0
	for b.Loop() {
		c.observe(loads[i%256], m.took(loads[i%256]))
		i++
	}
}
