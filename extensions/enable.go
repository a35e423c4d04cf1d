package extensions

import "fmt"

// Enable lets a module of the program serve that is off by default, by its name.
func (h *Host) Enable(name string) (Info, error) {
	s, err := h.offModule(name)
	if err != nil {
		return Info{}, err
	}
	return h.Activate(s.digest)
}

// Disable ends what Enable began: the module's paths are unknown again. Requests that
// run end on it.
func (h *Host) Disable(name string) (Info, error) {
	s, err := h.offModule(name)
	if err != nil {
		return Info{}, err
	}
	h.lock()
	defer h.unlock()
	if h.closed {
		return Info{}, ErrClosed
	}
	m, sl := h.modules[s.digest], h.slot(s.slot)
	if m == nil {
		return Info{}, fmt.Errorf("%q: %w", name, ErrUnknownModule)
	}
	if h.state.Slots[sl.name].Active != wantShipped {
		return Info{}, fmt.Errorf("%q: %w", name, ErrNotEnabled)
	}
	err = h.choose(sl, assignment{}, true, nil)
	return h.infoOf(m), err
}

func (h *Host) offModule(name string) (shippedModule, error) {
	for _, s := range h.ships {
		if s.off && s.name == name {
			return s, nil
		}
	}
	return shippedModule{}, fmt.Errorf("%q: %w", name, ErrNotOff)
}
