package extensions

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"corenode/extensions/guest"
)

// toBring are the modules that a state wants and that are not in memory, each with its slot.
func (h *Host) toBring(next *state) map[string]*slot {
	h.lock()
	defer h.unlock()
	all := h.wanted(next)
	maps.DeleteFunc(all, func(digest string, _ *slot) bool {
		m := h.modules[digest]
		return m != nil && m.generation != nil
	})
	return all
}

// wanted are the modules that a state gives a role, each with its slot. mu is held.
func (h *Host) wanted(by *state) map[string]*slot {
	all := map[string]*slot{}
	for name, w := range by.Slots {
		for _, role := range []string{w.Active, w.Canary, w.Shadow, w.Previous} {
			if role == wantShipped {
				role = h.offered(name, by)
			}
			if strings.HasPrefix(role, digestPrefix) {
				all[role] = h.slot(name)
			}
		}
	}
	return all
}

// offered is the digest of the module that ships for a slot, unless a state says that it was taken out of service or it is denied
// here; "" without one. mu is held.
func (h *Host) offered(name Slot, by *state) string {
	for _, s := range h.ships {
		if _, failed := by.Failed[s.digest]; s.slot == name && s.digest != "" && !failed && !h.isDenied(s.digest) {
			return s.digest
		}
	}
	return ""
}

// wanting is the slot for which a module should be in memory, by the state or as at a start, to which what ships belongs whatever
// serves; nil is none.
func (h *Host) wanting(digest string) *slot {
	h.lock()
	defer h.unlock()
	if sl := h.wanted(&h.state)[digest]; sl != nil {
		return sl
	}
	for _, s := range h.ships {
		if s.digest == digest && !s.off && h.offered(s.slot, &h.state) == digest {
			return h.slot(s.slot)
		}
	}
	return nil
}

// bring loads a module that should serve in a slot. One that does not pass is reported as failed, and what ships serves in its
// place. In the place of a denied one comes what was there before it. building is held.
func (h *Host) bring(sl *slot, digest string) error {
	g, err := h.open(digest, true)
	h.insist(digest, err)
	if errors.Is(err, ErrDenied) {
		h.lock()
		if h.withdraw(nil) {
			h.saveOrSay()
		}
		active := h.state.Slots[sl.name].Active
		waits := strings.HasPrefix(active, digestPrefix) && h.modules.isUsable(active) && h.modules[active].generation == nil
		h.unlock()
		if !waits {
			return err
		}
		return h.bring(sl, active)
	}
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err == nil && slotOf(&g.manifest) != sl.name {
		err = fmt.Errorf("the module is for slot %s", slotOf(&g.manifest))
	}
	if err != nil {
		h.log.Error("a module that served before does not load", "slot", string(sl.name), "module", digest, "err", err)
		return err
	}
	h.lock()
	defer h.unlock()
	if h.assume(sl) {
		h.saveOrSay()
	}
	return nil
}

// bringShipped loads a shipped module, which takes over unless an operator chose something else for its slot. building is held.
func (h *Host) bringShipped(s shippedModule) error {
	_, err := h.open(s.digest, true)
	h.insist(s.digest, err)
	if errors.Is(err, ErrClosed) {
		return err
	}
	if err != nil {
		h.log.Error("a shipped module does not load, its native build serves if it has one", "module", s.name, "err", err)
		return err
	}
	h.lock()
	defer h.unlock()
	if h.assume(h.slot(s.slot)) {
		h.saveOrSay()
	}
	return nil
}

// againFirst and againMax bound the pause before a module whose compiling was killed is compiled again.
const againFirst, againMax = 5 * time.Second, 5 * time.Minute

// insist brings a module again, after pauses that grow, where err says that the process that compiled it was killed: until that is
// no longer so, nothing wants the module, or the host closes. Nobody is there to ask for it, as where an operator loads one.
func (h *Host) insist(digest string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !errors.Is(err, guest.ErrKilled) || h.insisting[digest] {
		return
	}
	h.insisting[digest] = true
	h.spawn(func() {
		for pause := againFirst; ; pause = min(2*pause, againMax) {
			h.log.Warn("a module whose compiling was killed is compiled again", "module", digest, "in", pause.String())
			select {
			case <-time.After(pause):
			case <-h.closing.Done():
				return
			}
			if !h.again(digest) {
				return
			}
		}
	})
}

// again brings a module once more, and says whether compiling it was killed once more. building is held until insisting says that it
// was not: who finds that later insists anew.
func (h *Host) again(digest string) (killed bool) {
	h.building.Lock()
	defer h.building.Unlock()
	ships := slices.IndexFunc(h.ships, func(s shippedModule) bool { return s.digest == digest })
	var err error
	switch sl := h.wanting(digest); {
	case sl == nil: // nothing is to have it by now
	case ships >= 0:
		err = h.bringShipped(h.ships[ships])
	default: // also where a verb brought it into memory meanwhile: the slot is to have it
		err = h.bring(sl, digest)
	}
	if errors.Is(err, guest.ErrKilled) {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.insisting, digest)
	return false
}
