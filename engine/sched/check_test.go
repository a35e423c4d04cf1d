package sched

import (
	"strings"
	"testing"
)

// TestFaultySequenceIsNamed: Check says which sequence it found by its arrival.
func TestFaultySequenceIsNamed(t *testing.T) {
	b := newBench(t, 64, 0, func(c *Config) { c.SequencesMax = 1 })
	first, second := b.add("a", 40, 10), b.add("a", 40, 10)
	b.s.Commit(b.s.Plan(b.now)) // the first one runs
	for want, q := range map[string]*Sequence{"running sequence 1 ": first, "waiting sequence 2:": second} {
		was := q.phase
		q.phase = phaseDone
		if err := b.s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want it to name the %s", err, want)
		}
		q.phase = was
	}
}
