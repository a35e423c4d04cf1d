package extensions

import (
	"corenode/extensions/guest"
)

// demote takes a generation out of service that failed too often: the previous
// one serves again, or else what ships; which of them is known after the start. One without another
// to go back to stays: a policy, whose failures refuse or admit as its kind and the options say, or a module with routes,
// also where another slot has the paths of the one before by now.
func (h *Host) demote(g *generation, reason string) {
	h.demoteIf(g, reason, func(*assignment) bool { return true })
}

// demoteIf demotes a generation if the assignment of its slot still is one for it.
func (h *Host) demoteIf(g *generation, reason string, still func(*assignment) bool) {
	<-h.ready
	h.lock()
	defer h.unlock()
	m := h.modules[g.digest]
	if h.closed || m == nil || m.generation != g {
		return
	}
	sl := h.slot(slotOf(&g.manifest))
	before := sl.now.Load()
	if !still(before) {
		return
	}
	a, err := h.instead(sl, g)
	if err != nil {
		m.failed = reason
		h.log.Error("a module fails and nothing can replace it", "slot", string(sl.name), "module", g.title(), "reason", reason, "err", err)
		g.breaker.reset()
		return
	}
	h.log.Error("module taken out of service", "slot", string(sl.name), "module", g.title(), "reason", reason)
	if before.canary != g && before.canaryPercent > 0 && a.canaryPercent == 0 {
		h.sayOtherRoutes(sl, canaryEnds, h.wantedIn(sl).Canary)
	}
	err = h.commit(sl, a, false, func() {
		if g.shipped && a.active == sl.builtin && !a.missing { // the next version that ships gets its chance
			w := h.state.Slots[sl.name]
			w.Active = ""
			h.state.Slots[sl.name] = w
		}
		if h.state.Failed == nil {
			h.state.Failed = map[string]string{}
		}
		h.state.Failed[g.digest] = reason
	})
	if err != nil {
		h.log.Error("the state of the modules is not saved", "err", err)
		if h.clustered() { // the cluster has not heard of it: its next fault is the next try
			g.breaker.reset()
			return
		}
	}
	last := g.counts()
	m.failed, m.generation, m.last = reason, nil, &last
	g.retire()
}

// instead is the assignment of a slot without g, or says why g stays: there is none before it, or another slot has
// a path of that one by now. A canary that cannot be beside what serves then ends. mu is held.
func (h *Host) instead(sl *slot, g *generation) (assignment, error) {
	before := *sl.now.Load()
	admits := g.manifest.Kind == guest.KindAdmission && h.options.AdmissionFailOpen
	if before.active == g && before.previous == nil && sl.builtin == nil && !admits {
		return before, ErrNoPrevious
	}
	a := before.without(g, sl)
	if a.active == before.active {
		return a, nil
	}
	if h.otherRoutes(sl, wantedOf(a.active), h.wantedIn(sl).Canary) {
		a.canary, a.canaryPercent = nil, 0
	}
	return a, h.fits(sl, &a)
}

// otherRoutes says whether the canary or shadow that is wanted beside the active module of a slot, in memory or not, has
// other routes than that: it would be asked by an index of those. mu is held.
func (h *Host) otherRoutes(sl *slot, active, beside string) bool {
	if beside == "" || !sl.name.isRouted() {
		return false
	}
	serves, err := h.manifestOf(sl, active)
	if err != nil { // it does not come to serve either
		return false
	}
	other, err := h.manifestOf(sl, beside)
	return err == nil && !sameRoutes(&serves, &other)
}

const (
	canaryEnds = "a canary ends: what serves now has other routes"
	shadowEnds = "a shadow ends: what serves now has other routes"
)

// sayOtherRoutes logs that a canary or a shadow ends since otherRoutes is so of it. mu is held.
func (h *Host) sayOtherRoutes(sl *slot, what, name string) {
	h.log.Warn(what, "slot", string(sl.name), "module", h.modules.titleOf(name))
}
