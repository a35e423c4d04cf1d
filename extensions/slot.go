package extensions

import (
	"slices"
	"sync/atomic"

	"corenode/extensions/capture"
	"corenode/extensions/guest"
)

// slot is where the generations of one protocol or policy serve. Its pick is
// lock-free; verbs replace the assignment as a whole.
type slot struct {
	name     Slot
	builtin  *generation // the native build; nil for admission and other protocols
	now      atomic.Pointer[assignment]
	throttle *throttle // never changes
	strict   bool      // nothing stands in for a module that is missing; never changes
	// manifest of what serves, or should, in the slot of another protocol: its paths.
	// nil: there are none. Guarded by Host.mu.
	manifest *guest.Manifest
	captured atomic.Pointer[capture.Capture] // nil: what its calls are asked is not kept
}

// assignment says who serves. It is immutable.
type assignment struct {
	active        *generation // nil: the slot is empty, as only one without a native build may be
	canary        *generation // serves canaryPercent of the accounts instead
	canaryPercent int         // 0 = there is no canary; more without one: it is not in memory
	shadow        *shadow     // runs beside, on a share of the calls
	previous      *generation // kept for a rollback
	// missing: the module that an operator chose is not in memory, yet or
	// because it no longer passes. Until an operator decides, what ships serves,
	// provisionally where it charges, and an admission slot fails closed.
	missing bool
}

// roles are the generations of an assignment.
func (a *assignment) roles() []*generation {
	all := []*generation{a.active, a.canary, a.previous}
	if a.shadow != nil {
		all = append(all, a.shadow.generation)
	}
	return all
}

// apart is an assignment whose active generation has no other role: one that comes to serve is no
// canary and no shadow any more. What only stands in for a missing one keeps them.
func (a assignment) apart() assignment {
	if a.active == nil || a.missing {
		return a
	}
	if a.canary == a.active {
		a.canary, a.canaryPercent = nil, 0
	}
	if a.shadow != nil && a.shadow.generation == a.active {
		a.shadow = nil
	}
	return a
}

// without is an assignment in which g has no part any more: in its place serves
// the previous generation, or else the native build.
func (a assignment) without(g *generation, sl *slot) assignment {
	if a.canary == g {
		a.canary, a.canaryPercent = nil, 0
	}
	if a.shadow != nil && a.shadow.generation == g {
		a.shadow = nil
	}
	if a.previous == g {
		a.previous = nil
	}
	if a.active == g {
		a.active, a.previous = a.previous, nil
		if a.active == nil {
			a.active = sl.builtin
		}
	}
	if a.previous == nil {
		a.previous = sl.builtinUnless(a.active)
	}
	return a
}

// inPlace is an assignment in which g has the roles of old, the same file with another configuration.
func (a assignment) inPlace(old, g *generation, h *Host) assignment {
	for _, role := range []**generation{&a.active, &a.canary, &a.previous} {
		if *role == old {
			*role = g
		}
	}
	if a.shadow != nil && a.shadow.generation == old {
		a.shadow = startShadow(g, a.shadow.percent, h.now(), h.failed)
	}
	return a
}

// includes says whether g has a role.
func (a *assignment) includes(g *generation) bool {
	return slices.Contains(a.roles(), g)
}

// acquire picks the generation that serves an account, nil when there is none.
// The caller releases it. standsIn: it serves only because the module that an
// operator chose for this account is not in memory. In a strict slot none does.
func (s *slot) acquire(account string) (g *generation, standsIn bool) {
	for {
		a := s.now.Load()
		g, standsIn = a.active, a.missing
		if a.canaryPercent > 0 && inShare(account, a.canaryPercent) {
			if standsIn = a.canary == nil; !standsIn {
				g = a.canary
			}
		}
		if s.strict && standsIn {
			return nil, true
		}
		if g == nil || g.acquire() {
			return g, standsIn
		}
	}
}

// inShare says whether a name, of an account or a request, is among percent of all: always the
// same ones for the same percent, and with a larger percent those and more. The
// hash must not change between restarts, so it is FNV-1a, finished so that
// names which differ in their last letter spread.
func inShare(name string, percent int) bool {
	h := uint64(14695981039346656037)
	for i := range len(name) {
		h = (h ^ uint64(name[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h%100 < uint64(percent)
}

// builtinUnless is the native build, to go back to when g is something else.
func (s *slot) builtinUnless(g *generation) *generation {
	if g == s.builtin {
		return nil
	}
	return s.builtin
}
