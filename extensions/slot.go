package extensions

import (
	"sync/atomic"
)

// slot is where the generations of one protocol or policy serve. Its pick is
// lock-free; verbs replace the assignment as a whole.
type slot struct {
	name    Slot
	builtin *generation // the native build; nil for admission
	now     atomic.Pointer[assignment]
	samples atomic.Uint64 // calls since a shadow was set, to pick its share of them
}

// assignment says who serves. It is immutable.
type assignment struct {
	active        *generation // nil: the slot is empty, which only admission may be
	canary        *generation // serves canaryPercent of the accounts instead
	canaryPercent int
	shadow        *shadow     // runs beside, on a share of the calls
	previous      *generation // kept for a rollback
}

// roles are the generations of an assignment.
func (a *assignment) roles() []*generation {
	all := []*generation{a.active, a.canary, a.previous}
	if a.shadow != nil {
		all = append(all, a.shadow.generation)
	}
	return all
}

func (a *assignment) holds(g *generation) bool {
	for _, other := range a.roles() {
		if other == g {
			return true
		}
	}
	return false
}

// acquire picks the generation that serves an account, nil when there is none.
// The caller releases it.
func (s *slot) acquire(account string) *generation {
	for {
		a := s.now.Load()
		g := a.active
		if a.canary != nil && inShare(account, a.canaryPercent) {
			g = a.canary
		}
		if g == nil || g.acquire() {
			return g
		}
	}
}

// inShare says whether an account is among percent of all: always the same
// ones for the same percent, and with a larger percent those and more. The
// hash must not change between restarts, so it is FNV-1a, finished so that
// account names which differ in their last letter spread.
func inShare(account string, percent int) bool {
	h := uint64(14695981039346656037)
	for i := range len(account) {
		h = (h ^ uint64(account[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	return h%100 < uint64(percent)
}
