package cost

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestLearningIsBounded: brief steps are learned from as often as they pay for it. The debt is
// at most the work on one step.
func TestLearningIsBounded(t *testing.T) {
	mostOfOneStep := rounds * float64(features*features*features) * multiplySeconds
	r := rand.New(rand.NewPCG(2, 2))
	var m Model
	low := 0.0
	for range 20_000 {
		l := Load{}.With(r.IntN(500), 1, 1).Times(1 + r.IntN(24))
		m.Observe(l, time.Duration(float64(l.Rows+10)*(0.8+0.4*r.Float64())*1000))
		low = min(low, m.fit.reserve)
	}
	if low < -mostOfOneStep {
		t.Errorf("learning was %v s in debt, want at most %v", -low, mostOfOneStep)
	}
	if m.fit.steps < 1000 || m.fit.steps > 18_000 {
		t.Errorf("%d of 20000 steps were learned from, want some but not all", m.fit.steps)
	}
}
