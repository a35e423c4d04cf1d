package extensions

import (
	"crypto/ed25519"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// trust says whose modules a host takes, and which of them it does not. It is immutable.
type trust struct {
	keys   []ed25519.PublicKey
	denied []Denial
}

// Trust replaces the trusted keys and the denied modules. It holds for what is
// loaded from now on and for what is in memory: a denied module gives its place to
// the one before, or to what ships, and one whose signature no trusted key made
// any more is missing, as after a restart. What runs ends on the module that it
// began with, and charges are computed again by the module that made them.
func (h *Host) Trust(keys []ed25519.PublicKey, denied []Denial) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &trust{keys, denied}
	h.trust.Store(t)
	if h.closed {
		return
	}
	var out []*generation
	for _, m := range h.modules {
		if !h.judge(m) && m.generation != nil {
			out = append(out, m.generation)
			m.generation = nil
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
	if m.denied = h.denialOf(m); m.denied != nil {
		return false
	}
	if g == nil || m.shipped {
		return true
	}
	signedBy, err := h.checkSigner(m.digest, h.signatureOf(m))
	if err != nil {
		m.failed = err.Error()
		h.log.Error("a module in memory is not trusted any more", "slot", string(g.manifest.slot()), "module", g.title(), "err", err)
		return false
	}
	g.signedBy = signedBy
	return true
}

// denialOf says why a module is denied, nil if it is not. mu is held.
func (h *Host) denialOf(m *module) error {
	var manifest *Manifest
	if m.known || m.generation != nil {
		manifest = &m.manifest
	}
	return h.trust.Load().denial(m.digest, manifest)
}

// signatureOf is the signature as it lies beside the file by now: an operator may
// have put one of a newer key there.
func (h *Host) signatureOf(m *module) []byte {
	if h.options.Dir == "" {
		return m.signature
	}
	signature, err := os.ReadFile(h.path(m.digest, extSignature))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Error("the signature of a module cannot be read", "module", m.digest, "err", err)
	}
	return signature
}

// withdraw takes denied modules out of what the state wants, and generations out
// of the slots that they serve. It says whether the state changed. mu is held.
func (h *Host) withdraw(out []*generation) (changed bool) {
	for _, sl := range h.slots {
		before, was := h.state.Slots[sl.name], sl.now.Load()
		w := before.withdraw(h.isDenied, h.isUsable, sl.builtin != nil)
		held := slices.DeleteFunc(slices.Clone(out), func(g *generation) bool { return !was.holds(g) })
		if w == before && len(held) == 0 {
			continue
		}
		if w != before {
			h.state.Slots[sl.name] = w
			changed = true
		}
		h.assume(sl)
		names := []string{before.Active, before.Canary, before.Shadow, before.Previous}
		for _, g := range held {
			names = append(names, g.digest)
		}
		h.sayDenied(sl, names)
	}
	return changed
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
			h.log.Warn("a denied module is taken out of service", "slot", string(sl.name), "module", h.titleOf(name), "serves_now", serves)
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

// isUsable says whether what a name in the state stands for serves, or will when
// the start is over. mu is held.
func (h *Host) isUsable(name string) bool {
	if !strings.HasPrefix(name, digestPrefix) {
		return name != ""
	}
	m := h.modules[name]
	return m != nil && m.denied == nil && m.failed == "" && !m.removed
}

// titleOf is a module in logs, by its name in the state. mu is held.
func (h *Host) titleOf(name string) string {
	if m := h.modules[name]; m != nil && m.manifest.Name != "" {
		return m.manifest.ref() + " " + shortDigest(name)
	}
	return shortDigest(name)
}

// withdraw is what is wanted without denied modules: in place of the active one
// the previous one if that is usable, or else what ships. An admission policy has
// nothing that ships behind it. It stays wanted, so that its absence refuses or
// admits as the options say until an operator decides.
func (w wanted) withdraw(denied, usable func(name string) bool, ships bool) wanted {
	if denied(w.Canary) {
		w.Canary, w.CanaryPercent = "", 0
	}
	if denied(w.Shadow) {
		w.Shadow, w.ShadowPercent = "", 0
	}
	if denied(w.Previous) {
		w.Previous = ""
	}
	if denied(w.Active) {
		switch {
		case usable(w.Previous):
			w.Active, w.Previous = w.Previous, ""
		case ships:
			w.Active = wantShipped
		}
	}
	return w
}
