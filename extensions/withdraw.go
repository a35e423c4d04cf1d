package extensions

import (
	"crypto/ed25519"
	"slices"
)

// Trust replaces the trusted keys and the denied modules. It holds for what is
// loaded from now on and for what is in memory: a denied module gives its place to
// the one before, or to what ships, and one whose signature no trusted key made
// any more is missing, as after a restart. What runs ends on the module that it
// began with, and charges are computed again by the module that made them.
func (h *Host) Trust(keys []ed25519.PublicKey, denied []Denial) {
	h.lock()
	defer h.unlock()
	t := &trust{keys: keys, denied: denied, unsigned: h.options.AllowUnsigned}
	h.trust.Store(t)
	if h.closed {
		return
	}
	var out []*generation
	for _, m := range h.modules {
		if !h.judge(m) && m.generation != nil {
			last := m.generation.counts()
			out = append(out, m.generation)
			m.generation, m.last = nil, &last
		}
	}
	if h.withdraw(out) {
		h.saveOrSay()
	}
	for _, g := range out {
		g.retire()
	}
}

// judge applies the trust of now to a module, and says whether it may be in
// memory. mu is held.
func (h *Host) judge(m *module) bool {
	g := m.generation
	if g != nil && g.native != nil {
		return true
	}
	if m.denied = h.trust.Load().denialOf(m); m.denied != nil {
		return false
	}
	if g == nil || m.shipped {
		return true
	}
	signedBy, err := h.trust.Load().checkSigner(m.digest, h.folder.signatureOf(m))
	if err != nil {
		m.failed = err.Error()
		h.log.Error("a module in memory is not trusted any more", "slot", string(slotOf(&g.manifest)), "module", g.title(), "err", err)
		return false
	}
	g.signedBy = signedBy
	return true
}

// withdraw takes denied modules out of what the state wants, and generations out
// of the slots that they serve. It says whether the state changed. mu is held.
func (h *Host) withdraw(out []*generation) (changed bool) {
	for _, sl := range h.allSlots() {
		before, was := h.state.Slots[sl.name], sl.now.Load()
		usable := func(name string) bool { return h.isUsable(sl, name) }
		w := before.withdraw(h.isDenied, usable, sl.builtin != nil)
		affected := slices.DeleteFunc(slices.Clone(out), func(g *generation) bool { return !was.includes(g) })
		if w == before && len(affected) == 0 {
			continue
		}
		if w != before {
			h.state.Slots[sl.name] = w
			changed = true
		}
		changed = h.assume(sl) || changed
		h.foreseeMissing(sl)
		names := []string{before.Active, before.Canary, before.Shadow, before.Previous}
		for _, g := range affected {
			names = append(names, g.digest)
		}
		h.sayDenied(sl, names)
	}
	return changed
}

// isUsable says whether what a name in the state stands for may serve in a slot: it can, and no other slot has a path of it
// by now. mu is held.
func (h *Host) isUsable(sl *slot, name string) bool {
	if !h.modules.isUsable(name) {
		return false
	}
	if !sl.name.isRouted() {
		return true
	}
	m, err := h.manifestOf(sl, name)
	if err != nil { // that is said when it is to come into memory
		return true
	}
	if err := h.pathsFree(sl, &m); err != nil {
		h.log.Error("the module before a denied one cannot serve", "slot", string(sl.name), "module", h.modules.titleOf(name), "err", err)
		return false
	}
	return true
}

// sayDenied says of the denied ones among modules that had a part in a slot what serves now. mu is held.
func (h *Host) sayDenied(sl *slot, names []string) {
	serves := "nothing"
	if g := sl.now.Load().active; g != nil {
		serves = g.title()
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if h.isDenied(name) {
			h.log.Warn("a denied module is taken out of service", "slot", string(sl.name), "module",
				h.modules.titleOf(name), "serves_now", serves)
		}
	}
}

// isDenied says whether a name in the state is that of a denied module. mu is held.
func (h *Host) isDenied(name string) bool {
	if m := h.modules[name]; m != nil {
		return m.denied != nil
	}
	return h.trust.Load().denial(name, nil) != nil
}
