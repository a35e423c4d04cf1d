package extensions

import (
	"errors"
	"fmt"
	"slices"
)

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
		} else if name := h.wantedIn(sl).Shadow; name != "" && name != wantedOf(g) {
			return a, fmt.Errorf("slot %s has a shadow: %w", sl.name, ErrBeside)
		}
		if a.active != g {
			a.canary, a.canaryPercent = g, percent
		}
		return a, nil
	})
}

// Shadow repeats percent of a slot's calls on a module, whose answers are
// compared and thrown away; 0 ends it. Beside a canary it is ErrBeside, and beside a module
// with other routes, whose calls it cannot be asked, ErrOtherRoutes.
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
		if h.wantedIn(sl).Canary != "" {
			return a, fmt.Errorf("slot %s has a canary: %w", sl.name, ErrBeside)
		}
		if err := fitsActive(sl, &a, g); err != nil {
			return a, fmt.Errorf("the shadow %s: %w", g.manifest.Ref(), err)
		}
		if a.active != g {
			a.shadow = startShadow(g, percent, h.now(), h.failed)
		}
		return a, nil
	})
}

// Rollback undoes the last step on a slot: it ends a canary if there is one, in
// memory or not, else the previous generation serves again, which is still in
// memory. After a start it is the last that comes there, so that waits. One that does not come
// there is ErrNotInMemory: what is behind it serves only if an operator removes it first. Where
// what ships stands in for a module that is missing, it does so by choice then.
func (h *Host) Rollback(s Slot) (Info, error) {
	if !slices.Contains(h.Slots(), s) {
		return Info{}, fmt.Errorf("%q: %w", s, ErrSlot)
	}
	h.lock()
	defer h.unlock()
	sl := h.slot(s)
	if sl.now.Load().canaryPercent == 0 {
		h.unlock()
		<-h.ready
		h.lock()
	}
	before := sl.now.Load()
	a, decided := *before, before.canaryPercent == 0
	switch {
	case h.closed:
		return Info{}, ErrClosed
	case !decided:
		a.canary, a.canaryPercent = nil, 0
	case a.missing && sl.builtin != nil: // what ships serves already
		a.missing = false
	default:
		if err := h.goBack(sl, &a); err != nil {
			return Info{}, fmt.Errorf("slot %s: %w", s, err)
		}
	}
	if err := h.fits(sl, &a); err != nil {
		return Info{}, err
	}
	err := h.choose(sl, a, decided, nil)
	if a.active == nil { // a slot without a module
		return Info{Slot: s, State: StateBuiltin}, err
	}
	return h.infoOf(h.modules[a.active.digest]), err
}

// goBack lets the previous generation of an assignment serve. mu is held.
func (h *Host) goBack(sl *slot, a *assignment) error {
	if name := h.wantedIn(sl).Previous; isDigest(name) {
		if a.previous = h.wantedGeneration(sl, name); a.previous == nil {
			way := "or activate another one"
			if h.modules[name] != nil {
				way = "or remove it, and the next rollback goes on without it"
			}
			return fmt.Errorf("it would go back to %s: %w, %s", h.modules.titleOf(name), ErrNotInMemory, way)
		}
	}
	if a.previous == nil && !a.missing && (sl.builtin != nil || a.active == nil) {
		return ErrNoPrevious
	}
	a.missing = false
	a.active = a.previous
	a.previous = sl.builtinUnless(a.active)
	return nil
}

// Remove forgets a module. One that serves, or is tried as canary or shadow, or
// would if it loaded, is ErrInUse; the file of one that charges name is kept for replays.
func (h *Host) Remove(ref string) error {
	h.lock()
	defer h.unlock()
	m, err := h.modules.find(ref)
	if err != nil {
		return err
	}
	if m.shipped {
		return fmt.Errorf("%q: %w", ref, ErrShipped)
	}
	if err := h.mayRemove(m); err != nil {
		return fmt.Errorf("%q: %w", ref, err)
	}
	was, clustered := h.state.clone(), h.clustered()
	if h.shippedBefore(m) && !h.state.named(m.digest) {
		h.state.Charged = append(h.state.Charged, m.digest)
	}
	for name, w := range h.state.Slots {
		if w.Previous == m.digest {
			w.Previous = ""
			h.state.Slots[name] = w
		}
	}
	if clustered { // other nodes have its file too, and so has the store
		h.state.Removed = append(h.state.Removed, m.digest)
		if err := h.save(); err != nil {
			h.state = was
			return err
		}
		m.removed = true
	}
	if g := m.generation; g != nil {
		sl := h.slot(slotOf(&g.manifest))
		a := *sl.now.Load()
		if a.previous == g {
			a.previous = sl.builtinUnless(a.active)
			sl.now.Store(&a)
		}
		g.retire()
		m.generation = nil
	}
	switch {
	case clustered:
		return nil
	case h.state.named(m.digest):
		m.removed = true
		h.state.Removed = append(h.state.Removed, m.digest)
		return h.save()
	}
	delete(h.modules, m.digest)
	return errors.Join(h.folder.deleteFiles(m.digest), h.folder.save(&h.state))
}

// shippedBefore says whether a module is the billing policy of an earlier version of the program: it charged, though
// no verb made it serve, and the state does not name it. mu is held.
func (h *Host) shippedBefore(m *module) bool {
	if !m.known {
		manifest, err := h.folder.readManifest(m.digest)
		if err != nil { // nobody can replay it either
			return false
		}
		m.manifest, m.known = manifest, true
	}
	return slotOf(&m.manifest) == SlotBilling && h.isShippedName(m.manifest.Name)
}

// mayRemove says why a module cannot be removed. mu is held.
func (h *Host) mayRemove(m *module) error {
	for _, w := range h.state.Slots {
		if w.Active == m.digest || w.Canary == m.digest || w.Shadow == m.digest { // in memory or not
			return ErrInUse
		}
	}
	if g := m.generation; g != nil && h.slot(slotOf(&g.manifest)).now.Load().active == g { // in place of one that is missing
		return ErrInUse
	}
	return nil
}

// end takes a module out of a role, which it may have in the state only: it
// need not be in memory, nor be able to come there.
func (h *Host) end(ref string, role func(w *wanted, a *assignment, name string)) (Info, error) {
	h.lock()
	defer h.unlock()
	m, err := h.modules.find(ref)
	if err == nil && h.closed {
		err = ErrClosed
	}
	if err != nil {
		return Info{}, err
	}
	for _, sl := range h.allSlots() {
		if m.shipped && slotOf(&m.manifest) != sl.name {
			continue // its name in the state is that of others as well
		}
		before := h.state.Slots[sl.name]
		w, a := before, *sl.now.Load()
		if role(&w, &a, m.wanted()); w != before {
			h.state.Slots[sl.name] = w
			if err = h.save(); err != nil && h.clustered() {
				h.state.Slots[sl.name] = before
				break
			}
			if err == nil { // see choose
				h.stateDamaged.Store(false)
			}
			h.assign(sl, a)
		}
	}
	return h.infoOf(m), err
}

// change brings a module into memory if need be and replaces the assignment of
// its slot, unless next refuses; decided is as in remember.
func (h *Host) change(ref string, decided bool, next func(*slot, assignment, *generation) (assignment, error)) (Info, error) {
	h.lock()
	m, err := h.modules.find(ref)
	if err == nil && h.closed {
		err = ErrClosed
	}
	var g *generation
	served := false
	if err == nil {
		g, served = m.generation, m.shipped || h.state.hasServed(m.digest)
	}
	h.unlock()
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
	h.lock()
	defer h.unlock()
	if m = h.modules[m.digest]; h.closed || m == nil || m.generation != g {
		return Info{}, fmt.Errorf("%q: %w", ref, ErrUnknownModule) // it was removed meanwhile
	}
	sl := h.slot(slotOf(&g.manifest))
	before := sl.now.Load()
	after, err := next(sl, *before, g)
	if err == nil {
		err = h.fits(sl, &after)
	}
	if err != nil {
		return Info{}, err
	}
	err = h.choose(sl, after, decided, func() { h.state.forget(m.digest) })
	if err == nil || !h.clustered() {
		g.breaker.reset()
		m.failed = ""
	}
	return h.infoOf(m), err
}
