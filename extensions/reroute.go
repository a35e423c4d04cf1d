package extensions

import (
	"fmt"
	"reflect"

	"corenode/extensions/guest"
)

// route makes the routing anew from what the slots have. Where two of them have a
// path, which no verb lets happen, the first by name keeps it. mu is held, or nobody
// knows h yet.
func (h *Host) route() {
	r := routing{}
	for _, sl := range h.foreignSlots() {
		if sl.manifest == nil {
			continue
		}
		if err := r.add(sl.name, sl.manifest); err != nil {
			h.log.Error("a module's paths are not answered", "slot", string(sl.name), "module", sl.manifest.Ref(), "err", err)
		}
	}
	h.routing.Store(&r)
}

// sameRoutes says whether a route found in one manifest is the same in another.
func sameRoutes(a, b *guest.Manifest) bool {
	return a == b || reflect.DeepEqual(&a.Routing, &b.Routing)
}

// fitsActive is ErrOtherRoutes for a generation that cannot be asked what an assignment's active one is: a call names its
// route by an index.
func fitsActive(sl *slot, a *assignment, g *generation) error {
	if sl.name.isRouted() && (a.active == nil || !sameRoutes(&a.active.manifest, &g.manifest)) {
		return ErrOtherRoutes
	}
	return nil
}

// fits says whether the paths of an assignment's modules are free: the active one's
// of other slots', and a canary has those of the active one. mu is held.
func (h *Host) fits(sl *slot, a *assignment) error {
	if !sl.name.isRouted() {
		return nil
	}
	if a.canary != nil {
		if err := fitsActive(sl, a, a.canary); err != nil {
			return fmt.Errorf("the canary %s: %w", a.canary.manifest.Ref(), err)
		}
	}
	if a.active == nil {
		return nil
	}
	return h.pathsFree(sl, &a.active.manifest)
}

// pathsFree is ErrPath where another slot has a path of a module of this one. mu is held.
func (h *Host) pathsFree(sl *slot, m *guest.Manifest) error {
	r := routing{}
	for _, other := range h.foreignSlots() {
		if other != sl && other.manifest != nil {
			_ = r.add(other.name, other.manifest) // what does not fit is not answered
		}
	}
	return r.add(sl.name, m)
}

// reroute follows a new assignment of a slot. A module that should serve and is not
// in memory keeps its paths. mu is held.
func (h *Host) reroute(sl *slot, a *assignment) {
	if sl.name.index() >= 0 {
		return
	}
	switch {
	case a.active != nil:
		sl.manifest = &a.active.manifest
	case !a.missing:
		sl.manifest = nil
	}
	h.route()
}

// foresee learns the paths of what should serve in a slot, before it is in memory.
func (h *Host) foresee(sl *slot) {
	w := h.state.Slots[sl.name]
	if sl.name.index() >= 0 || w.Active == "" {
		return
	}
	m, err := h.manifestOf(sl, w.Active)
	if err == nil && slotOf(&m) != sl.name {
		err = fmt.Errorf("the module is for slot %s", slotOf(&m))
	}
	if err != nil {
		h.log.Error("the paths of a module are not known until it is in memory", "slot", string(sl.name), "module", w.Active, "err", err)
		return
	}
	sl.manifest = &m
}

// manifestOf is the manifest of the module that a name in the state stands for, in memory or not. mu is held, or nobody
// knows h yet.
func (h *Host) manifestOf(sl *slot, name string) (m guest.Manifest, err error) {
	if known := h.modules[name]; known != nil && known.known {
		return known.manifest, nil
	}
	err = fmt.Errorf("it is not known which module it was")
	switch {
	case name == wantShipped:
		for _, s := range h.ships {
			if s.slot == sl.name {
				m, err = guest.ParseManifest(s.manifest)
			}
		}
	case isDigest(name):
		m, err = h.folder.readManifest(name)
	}
	return m, err
}
