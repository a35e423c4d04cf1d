package sched

import (
	"math/rand/v2"
	"testing"

	"corenode/engine/cost/costtest"
)

// bursts lets requests come so many at once, and returns how many sequences ran at most in each burst.
func (c *computer) bursts(bursts, requests int) (most []int) {
	for range bursts {
		for range requests {
			c.must("a", 48, 40)
		}
		n := 0
		for c.step() {
			n = max(n, len(c.s.running))
		}
		most = append(most, n)
	}
	return most
}

// TestDisturbedSizeIsTriedAgain: two prompts are computed in one step and two streams in those that
// follow, all while a neighbor makes steps many times as long. The node does not serve one request
// after the other from then on, although no later prompt is long enough for a step of that size.
func TestDisturbedSizeIsTriedAgain(t *testing.T) {
	machines := costtest.Machines(3)
	for _, m := range []*costtest.Machine{machines[1], machines[1].Scaled(0.25)} {
		for seed := range uint64(8) {
			c := newComputer(t, m, func(c *Config) { c.QueueTimeout = 0 })
			c.s.align = Align
			r, busy := rand.New(rand.NewPCG(seed, 1)), 0.4
			c.slow = func(int) float64 {
				if r.Float64() < busy {
					return 1 + 20*r.ExpFloat64()
				}
				return 1
			}
			c.bursts(20, 1)
			busy = 0.95
			c.must("a", 110, 35)
			c.must("b", 110, 35)
			for c.step() {
			}
			busy = 0
			for range 15 {
				c.must("a", 110, 40)
				for c.step() {
				}
			}
			if most := c.bursts(45, 4); most[44] != 4 {
				t.Errorf("machine of %v a step, seed %d: of four requests at once %v ran at once", m.Weights, seed, most)
			}
		}
	}
}
