package extensions

import "corenode/extensions/guest"

// demote takes a generation out of service that failed too often: the previous
// one serves again, or else what ships; which of them is known after the start. One without another
// to go back to stays: a policy, whose failures refuse or admit as its kind and the options say, or a module with routes.
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
	a := *before
	if a.active == g && a.previous == nil && sl.builtin == nil && !(g.manifest.Kind == guest.KindAdmission && h.options.AdmissionFailOpen) {
		m.failed = reason
		h.log.Error("a module fails and nothing can replace it", "slot", string(sl.name), "module", g.title(), "reason", reason)
		g.breaker.reset()
		return
	}
	a = a.without(g, sl)
	h.log.Error("module taken out of service", "slot", string(sl.name), "module", g.title(), "reason", reason)
	err := h.commit(sl, a, false, func() {
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
	m.failed, m.generation = reason, nil
	g.retire()
}
