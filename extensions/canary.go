package extensions

import (
	"fmt"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Defaults of Options.CanaryFactor and Options.CanaryCallsMin.
const (
	CanaryFactorDefault   = 3
	CanaryCallsMinDefault = 200
)

// Below these what a call takes is no reason to roll a canary back, whatever the
// factor: about 10 us.
const (
	heavyTicksMin = 4_000
	heavyCPUMin   = 10 * time.Microsecond
)

// heavier says why a canary's calls take too much beside those of the active
// generation: more than factor times the ticks, or the processor time, of at
// least callsMin calls each. Sizes of inputs are evened out: what counts is the
// what a call, and each KB that it was given, takes as a rule. "" is that they do
// not, or that there were too few.
func heavier(canary, active guest.Usual, factor float64, callsMin uint64) string {
	if canary.Calls < callsMin || active.Calls < callsMin {
		return ""
	}
	if new, old := canary.Ticks, active.Ticks; new > factor*old && new-old > heavyTicksMin {
		return fmt.Sprintf("%.1f times the ticks: %.0f, not %.0f", new/max(old, 1), new, old)
	}
	if new, old := canary.CPU, active.CPU; float64(new) > factor*float64(old) && new-old > heavyCPUMin {
		return fmt.Sprintf("%.1f times the processor time: %v, not %v", float64(new)/float64(max(old, 1)),
			new.Round(100*time.Nanosecond), old.Round(100*time.Nanosecond))
	}
	return ""
}

// compareCanary rolls a canary back whose calls of an operation take too much. A native
// build counts nothing, so nothing is compared with one.
func (h *Host) compareCanary(a *assignment, g *generation, op abi.Op) {
	if g.pool == nil || a.active == nil || a.active.pool == nil || g.heavy.Load() {
		return
	}
	why := heavier(g.pool.Usual(op), a.active.pool.Usual(op),
		h.options.CanaryFactor, uint64(h.options.CanaryCallsMin))
	if why == "" || !g.heavy.CompareAndSwap(false, true) {
		return
	}
	reason := fmt.Sprintf("as canary its op %v takes, for each call and KB, %s as of %s; the factor allowed is %g",
		op, why, a.active.title(), h.options.CanaryFactor)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.spawn(func() {
		h.demoteIf(g, reason, func(now *assignment) bool { return now.canary == g })
		g.heavy.Store(false) // it was made active meanwhile, or is gone
	})
}
