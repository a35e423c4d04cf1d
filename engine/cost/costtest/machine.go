// Package costtest simulates how long the steps of a model take on computers of
// several kinds, for tests of what learns that and of what plans by it.
package costtest

import (
	"math/rand/v2"
	"time"

	"corenode/engine/cost"
)

// Machine is how long steps really take on some computer: not a sum of linear
// terms but the larger of reading the weights and computing the rows, in groups of
// some, then the attention, then what others on the computer do.
type Machine struct {
	Name    string
	Weights time.Duration // to read them once
	Row     time.Duration // of matrix products
	Group   int           // rows that the kernels compute as if they were all there
	Head    time.Duration // of one row's logits
	Key     time.Duration // to read one position's K and V
	Pair    time.Duration // for one row to attend to one position
	Noise   float64       // relative, either way
	Odd     int           // one step in so many takes ten times as long; 0 = none
	Rand    *rand.Rand
}

// Machines are the shapes of a 0.6B model on a slow and a fast pair of cores, also
// with kernels that compute rows by eight, on a device, and a tiny model.
func Machines(seed uint64) []*Machine {
	r := rand.New(rand.NewPCG(seed, 3))
	us := func(n float64) time.Duration { return time.Duration(n * float64(time.Microsecond)) }
	return []*Machine{
		{"slow", us(45_000), us(1_200), 1, us(800), us(12), us(4), 0.03, 0, r},
		{"fast", us(25_000), us(500), 1, us(300), us(6), us(1), 0.03, 0, r},
		{"device", us(4_000), us(15), 1, us(10), us(0.05), us(0.01), 0.03, 0, r},
		{"tiny", us(300), us(20), 1, us(10), us(0.2), us(0.05), 0.03, 0, r},
		{"stairs", us(11_000), us(1_100), 8, us(900), us(4), us(1), 0.06, 0, r},
	}
}

// Scaled is the machine when it is so many times as slow.
func (m *Machine) Scaled(by float64) *Machine {
	slow := *m
	for _, d := range []*time.Duration{&slow.Weights, &slow.Row, &slow.Head, &slow.Key, &slow.Pair} {
		*d = time.Duration(by * float64(*d))
	}
	return &slow
}

// Quiet is how long a step takes when nobody else runs.
func (m *Machine) Quiet(l cost.Load) time.Duration {
	rows := (l.Rows + m.Group - 1) / m.Group * m.Group
	return max(m.Weights, time.Duration(rows)*m.Row) + time.Duration(l.Logits)*m.Head +
		time.Duration(l.Context)*m.Key + time.Duration(l.Pairs)*m.Pair
}

// Took is how long one takes.
func (m *Machine) Took(l cost.Load) time.Duration {
	t := float64(m.Quiet(l)) * (1 + m.Noise*(2*m.Rand.Float64()-1))
	if m.Odd > 0 && m.Rand.IntN(m.Odd) == 0 {
		t *= 10
	}
	return time.Duration(t)
}
