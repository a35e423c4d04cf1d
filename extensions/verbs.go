package extensions

import "fmt"

// Activate makes a module the one that serves its slot. What served before
// becomes the previous generation, kept for Rollback; a canary ends, and an
// older previous generation is closed when its last request is done.
func (h *Host) Activate(ref string) (Info, error) {
	return h.change(ref, true, func(sl *slot, a assignment, g *generation) (assignment, error) {
		if a.active != g {
			a.previous = a.active
			if a.previous == nil {
				a.previous = sl.builtin
			}
		}
		a.active, a.canary, a.canaryPercent, a.missing = g, nil, 0, false
		if a.shadow != nil && a.shadow.generation == g {
			a.shadow = nil
		}
		return a, nil
	})
}

// Canary lets a module serve percent of the accounts, always the same ones;
// 0 ends it. Its own shadow ends; beside another's it is ErrBeside, since a shadow
// would be compared with a mixture of two modules.
func (h *Host) Canary(ref string, percent int) (Info, error) {
	if percent < 0 || percent > 100 {
		return Info{}, fmt.Errorf("a canary of %d %%, want 0 to 100", percent)
	}
	if percent == 0 {
		return h.end(ref, func(w *wanted, a *assignment, name string) {
			if w.Canary == name {
				w.Canary, w.CanaryPercent = "", 0
				a.canary, a.canaryPercent = nil, 0
			}
		})
	}
	return h.change(ref, false, func(sl *slot, a assignment, g *generation) (assignment, error) {
		if a.shadow != nil && a.shadow.generation == g {
			a.shadow = nil
		} else if h.state.Slots[sl.name].Shadow != "" {
			return a, fmt.Errorf("slot %s has a shadow: %w", sl.name, ErrBeside)
		}
		if a.active != g {
			a.canary, a.canaryPercent = g, percent
		}
		return a, nil
	})
}

// Shadow repeats percent of a slot's calls on a module, whose answers are
// compared and thrown away; 0 ends it. Beside a canary it is ErrBeside.
func (h *Host) Shadow(ref string, percent int) (Info, error) {
	if percent < 0 || percent > 100 {
		return Info{}, fmt.Errorf("a shadow of %d %%, want 0 to 100", percent)
	}
	if percent == 0 {
		return h.end(ref, func(w *wanted, a *assignment, name string) {
			if w.Shadow == name {
				w.Shadow, w.ShadowPercent = "", 0
				a.shadow = nil
			}
		})
	}
	return h.change(ref, false, func(sl *slot, a assignment, g *generation) (assignment, error) {
		if h.state.Slots[sl.name].Canary != "" {
			return a, fmt.Errorf("slot %s has a canary: %w", sl.name, ErrBeside)
		}
		if a.active != g {
			a.shadow = h.startShadow(g, percent)
		}
		return a, nil
	})
}

// end takes a module out of a role, which it may have in the state only: it
// need not be in memory, nor be able to come there.
func (h *Host) end(ref string, role func(w *wanted, a *assignment, name string)) (Info, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.find(ref)
	if err == nil && h.closed {
		err = ErrClosed
	}
	if err != nil {
		return Info{}, err
	}
	for _, sl := range h.slots {
		if m.shipped && m.manifest.slot() != sl.name {
			continue // its name in the state is that of others as well
		}
		before := h.state.Slots[sl.name]
		w, a := before, *sl.now.Load()
		if role(&w, &a, m.wanted()); w != before {
			h.state.Slots[sl.name] = w
			h.assign(sl, a)
			err = h.save()
		}
	}
	return h.infoOf(m), err
}

// change brings a module into memory if need be and replaces the assignment of
// its slot, unless next refuses; decided is as in remember.
func (h *Host) change(ref string, decided bool, next func(*slot, assignment, *generation) (assignment, error)) (Info, error) {
	h.mu.Lock()
	m, err := h.find(ref)
	if err == nil && h.closed {
		err = ErrClosed
	}
	var g *generation
	served := false
	if err == nil {
		g, served = m.generation, m.shipped || h.hasServed(m.digest)
	}
	h.mu.Unlock()
	if err != nil {
		return Info{}, err
	}
	if g == nil {
		h.building.Lock()
		defer h.building.Unlock()
		if g, err = h.open(m.digest, served); err != nil {
			return Info{}, err
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if m = h.modules[m.digest]; h.closed || m == nil || m.generation != g {
		return Info{}, fmt.Errorf("%q: %w", ref, ErrUnknownModule) // it was removed meanwhile
	}
	sl := h.slot(g.manifest.slot())
	before := sl.now.Load()
	after, err := next(sl, *before, g)
	if err != nil {
		return Info{}, err
	}
	g.breaker.reset()
	m.failed = ""
	h.forget(m.digest)
	h.assign(sl, after)
	h.remember(sl, before, decided)
	err = h.save()
	return h.infoOf(m), err
}

// Rollback undoes the last step on a slot: it ends a canary if there is one, in
// memory or not, else the previous generation serves again, which is still in
// memory. After a start it is the last that comes there, so that waits.
func (h *Host) Rollback(s Slot) (Info, error) {
	if s.index() < 0 {
		return Info{}, fmt.Errorf("%q: %w", s, ErrSlot)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	sl := h.slot(s)
	if sl.now.Load().canaryPercent == 0 {
		h.mu.Unlock()
		<-h.ready
		h.mu.Lock()
	}
	before := sl.now.Load()
	a, decided := *before, before.canaryPercent == 0
	switch {
	case h.closed:
		return Info{}, ErrClosed
	case !decided:
		a.canary, a.canaryPercent = nil, 0
	case a.previous == nil && !a.missing && (s != SlotAdmission || a.active == nil):
		return Info{}, fmt.Errorf("slot %s: %w", s, ErrNoPrevious)
	case a.missing: // what ships serves already
		a.missing = false
	default:
		a.active = a.previous
		a.previous = sl.builtinUnless(a.active)
	}
	h.assign(sl, a)
	h.remember(sl, before, decided)
	err := h.save()
	if a.active == nil { // admission without a policy
		return Info{Slot: s, State: StateBuiltin}, err
	}
	return h.infoOf(h.modules[a.active.digest]), err
}

// assign puts an assignment in force. A generation that falls out of the
// previous place is closed when its last user has gone; one that was active or
// tried stays in memory as loaded. mu is held.
func (h *Host) assign(sl *slot, a assignment) {
	before := sl.now.Swap(&a)
	if before.active != a.active && a.active != nil {
		h.log.Info("module takes over", "slot", string(sl.name), "module", a.active.title())
	}
	if before.shadow != nil && before.shadow != a.shadow {
		h.spawn(before.shadow.stop)
	}
	if g := before.previous; g != nil && !a.holds(g) {
		h.drop(g)
	}
	if g := before.active; g != nil && g != a.active && g.pool != nil {
		g.pool.trim()
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

// demote takes a generation out of service that failed too often: the previous
// one serves again, or else what ships; which of them is known after the start. An admission policy without another
// to go back to stays, and its failures refuse or admit as the options say.
func (h *Host) demote(g *generation, reason string) {
	h.demoteIf(g, reason, func(*assignment) bool { return true })
}

// demoteIf demotes a generation if the assignment of its slot still is one for it.
func (h *Host) demoteIf(g *generation, reason string, still func(*assignment) bool) {
	<-h.ready
	h.mu.Lock()
	defer h.mu.Unlock()
	m := h.modules[g.digest]
	if h.closed || m == nil || m.generation != g {
		return
	}
	sl := h.slot(g.manifest.slot())
	before := sl.now.Load()
	if !still(before) {
		return
	}
	a := *before
	if a.active == g && a.previous == nil && sl.builtin == nil && !h.options.AdmissionFailOpen {
		m.failed = reason
		h.log.Error("the admission policy fails and nothing can replace it", "module", g.title(), "reason", reason)
		g.breaker.reset()
		return
	}
	a = a.without(g, sl)
	h.log.Error("module taken out of service", "slot", string(sl.name), "module", g.title(), "reason", reason)
	h.assign(sl, a)
	h.remember(sl, before, false)
	if g.shipped && a.active == sl.builtin && !a.missing { // the next version that ships gets its chance
		w := h.state.Slots[sl.name]
		w.Active = ""
		h.state.Slots[sl.name] = w
	}
	m.failed, m.generation = reason, nil
	g.retire()
	if h.state.Failed == nil {
		h.state.Failed = map[string]string{}
	}
	h.state.Failed[g.digest] = reason
	h.saveOrSay()
}
