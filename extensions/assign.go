package extensions

import "slices"

// assign puts an assignment in force. A generation that falls out of the
// previous place is closed when its last user has gone; one that was active or
// tried stays in memory as loaded. mu is held.
func (h *Host) assign(sl *slot, a assignment) {
	before := sl.now.Swap(&a)
	h.reroute(sl, &a)
	if before.active != a.active && a.active != nil {
		h.log.Info("module takes over", "slot", string(sl.name), "module", a.active.title())
	}
	if before.shadow != nil && before.shadow != a.shadow {
		h.spawn(before.shadow.stop)
	}
	if g := before.previous; g != nil && !a.includes(g) {
		h.drop(g)
	}
	if g := before.active; g != nil && g != a.active && g.pool != nil {
		g.pool.Trim()
	}
}

// drop takes a generation out of memory. Native ones and those that ship stay. mu is held.
func (h *Host) drop(g *generation) {
	if g.native != nil || g.shipped {
		return
	}
	if m := h.modules[g.digest]; m != nil && m.generation == g {
		m.generation = nil
	}
	g.retire()
}

// wantedOf names a generation in the state.
func wantedOf(g *generation) string {
	switch {
	case g == nil:
		return ""
	case g.native != nil:
		return wantNative
	case g.shipped:
		return wantShipped
	}
	return g.digest
}

// wantedIn is what the state wants in a slot: no trial of what is active, but where that is missing. mu is held.
func (h *Host) wantedIn(sl *slot) wanted {
	w := h.state.Slots[sl.name]
	if !sl.now.Load().missing {
		w = w.apart()
	}
	return w
}

// remember puts what has changed in a slot's assignment into the state. mu is held; save writes it.
func (h *Host) remember(sl *slot, before, a *assignment, decided bool) {
	if h.state.Slots == nil {
		h.state.Slots = map[Slot]wanted{}
	}
	h.state.Slots[sl.name] = h.wantedIn(sl).changed(before, a, decided)
	if sl.name != SlotBilling {
		return
	}
	for _, g := range []*generation{a.active, a.canary} {
		if g != nil && g.native == nil && !slices.Contains(h.state.Charged, g.digest) {
			h.state.Charged = append(h.state.Charged, g.digest)
		}
	}
}

// assume makes a slot's assignment what the state wants, as far as it is loaded. changed: a canary or a shadow was wanted that
// cannot be beside what serves, and the state is without it: another version of what ships has other routes, or those of the
// other one were not known when what serves changed. mu is held.
func (h *Host) assume(sl *slot) (changed bool) {
	if h.closed {
		return false
	}
	w := h.state.Slots[sl.name]
	if h.otherRoutes(sl, w.Active, w.Canary) {
		h.sayOtherRoutes(sl, canaryEnds, w.Canary)
		w.Canary, w.CanaryPercent, changed = "", 0, true
	}
	if h.otherRoutes(sl, w.Active, w.Shadow) {
		h.sayOtherRoutes(sl, shadowEnds, w.Shadow)
		w.Shadow, w.ShadowPercent, changed = "", 0, true
	}
	if changed {
		h.state.Slots[sl.name] = w
	}
	if w.Active == "" && sl.builtin != nil {
		w.Active = wantShipped
	}
	w = w.apart()
	a := *sl.now.Load()
	find := func(name string) *generation { return h.wantedGeneration(sl, name) }
	a.active, a.missing = find(w.Active), false
	switch {
	case a.active != nil:
	case sl.builtin == nil: // nothing stands in for it
		a.missing = w.Active != ""
	default:
		a.missing = w.isOperators()
		if a.active = find(wantShipped); a.active == nil {
			a.active = sl.builtin
		}
	}
	a.canary, a.canaryPercent = find(w.Canary), w.CanaryPercent
	if a.previous = find(w.Previous); a.previous == nil || a.previous == a.active {
		a.previous = sl.builtinUnless(a.active)
	}
	if g := find(w.Shadow); g == nil {
		a.shadow = nil
	} else if a.shadow == nil || a.shadow.generation != g || a.shadow.percent != w.ShadowPercent {
		a.shadow = startShadow(g, w.ShadowPercent, h.now(), h.failed)
	}
	h.assign(sl, a)
	return changed
}

// wantedGeneration is the loaded generation that a name in the state stands for. Of what ships it is none
// that was taken out of service; one that fails and stays, since nothing replaces it, was not. mu is held.
func (h *Host) wantedGeneration(sl *slot, name string) *generation {
	switch name {
	case "":
		return nil
	case wantNative:
		return sl.builtin
	case wantShipped:
		for _, m := range h.modules {
			_, failed := h.state.Failed[m.digest]
			if !failed && m.shipped && m.wasm != nil && m.generation != nil && slotOf(&m.generation.manifest) == sl.name {
				return m.generation
			}
		}
		return nil
	}
	if m := h.modules[name]; m != nil {
		return m.generation
	}
	return nil
}
