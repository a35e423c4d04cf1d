package extensions

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"corenode/extensions/guest"
)

// state is which modules serve, as Dir/state.json keeps it across restarts.
type state struct {
	Slots   map[Slot]wanted   `json:"slots,omitempty"`   // of those that an operator changed
	Failed  map[string]string `json:"failed,omitempty"`  // why modules were taken out of service, by digest
	Removed []string          `json:"removed,omitempty"` // digests whose files are kept for replays only
	Charged []string          `json:"charged,omitempty"` // digests of modules that served billing: charges may name them
}

// wanted is the assignment of one slot, by digests. wantShipped and wantNative
// stand for what ships with the program, whatever its digest is by then.
// wantUnknown stands for a choice that was lost, and is never loaded.
type wanted struct {
	Active        string `json:"active,omitempty"`
	Canary        string `json:"canary,omitempty"`
	CanaryPercent int    `json:"canary_percent,omitempty"`
	Shadow        string `json:"shadow,omitempty"`
	ShadowPercent int    `json:"shadow_percent,omitempty"`
	Previous      string `json:"previous,omitempty"`
}

const (
	wantShipped = "shipped"
	wantNative  = "native"
	wantUnknown = "unknown"
)

// isOperators says whether an operator chose what is active, though it may not
// be known which module that was. Nothing that ships stands for it for good.
func (w wanted) isOperators() bool {
	return strings.HasPrefix(w.Active, digestPrefix) || w.Active == wantUnknown
}

// includes says whether an assignment has a module in some role.
func (w wanted) includes(name string) bool {
	return w.Active == name || w.Canary == name || w.Shadow == name || w.Previous == name
}

// check says what of an assignment no host writes.
func (w wanted) check() error {
	for _, name := range []string{w.Active, w.Canary, w.Shadow, w.Previous} {
		switch {
		case name == "", name == wantShipped, name == wantNative, name == wantUnknown, isDigest(name):
		default:
			return fmt.Errorf("%q is no module", name)
		}
	}
	for _, percent := range []int{w.CanaryPercent, w.ShadowPercent} {
		if percent < 0 || percent > 100 {
			return fmt.Errorf("%d is no percent", percent)
		}
	}
	return nil
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
	return w.apart()
}

// changed is what is wanted after an assignment took the place of another. What a
// verb leaves alone stays wanted, though it may not be in memory, yet or any
// more. decided: the verb was about what is active.
func (w wanted) changed(before, a *assignment, decided bool) wanted {
	if decided || a.active != before.active && !a.missing {
		w.Active = wantedOf(a.active)
		if a.active != before.active || before.missing {
			w.Previous = wantedOf(a.previous)
		}
	}
	if a.canary != before.canary || a.canaryPercent != before.canaryPercent {
		w.Canary, w.CanaryPercent = wantedOf(a.canary), a.canaryPercent
	}
	if a.previous != before.previous {
		w.Previous = wantedOf(a.previous)
	}
	if a.shadow != before.shadow {
		w.Shadow, w.ShadowPercent = "", 0
		if a.shadow != nil {
			w.Shadow, w.ShadowPercent = wantedOf(a.shadow.generation), a.shadow.percent
		}
	}
	if a.shadow == nil && (w.Shadow == w.Active || w.Shadow == w.Canary) { // it was not in memory, or it would have ended
		w.Shadow, w.ShadowPercent = "", 0
	}
	return w
}

// apart is what is wanted without a canary or shadow that is the active module: earlier versions of
// the program left such.
func (w wanted) apart() wanted {
	if w.Canary == w.Active {
		w.Canary, w.CanaryPercent = "", 0
	}
	if w.Shadow == w.Active {
		w.Shadow, w.ShadowPercent = "", 0
	}
	return w
}

// named says whether charges may name a module: then its file and its
// configuration stay as they are.
func (s *state) named(digest string) bool { return slices.Contains(s.Charged, digest) }

// hasServed says whether the state names a module: it serves, is tried, charged,
// or was taken out of service.
func (s *state) hasServed(digest string) bool {
	_, failed := s.Failed[digest]
	return failed || s.wants(digest) || s.named(digest)
}

// wants says whether a module has a role in a slot.
func (s *state) wants(digest string) bool {
	for _, w := range s.Slots {
		if w.includes(digest) {
			return true
		}
	}
	return false
}

// forget drops the failure and the removal of a module that is loaded again,
// and says whether there was any.
func (s *state) forget(digest string) bool {
	_, failed := s.Failed[digest]
	delete(s.Failed, digest)
	n := len(s.Removed)
	s.Removed = slices.DeleteFunc(s.Removed, func(d string) bool { return d == digest })
	return failed || len(s.Removed) < n
}

// parseState reads a state. What is cut, or is followed by something, or says
// what no host writes, is none.
func parseState(text []byte) (s state, err error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return s, fmt.Errorf("%d bytes that are no JSON object", len(text))
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return state{}, err
	}
	if _, err := d.Token(); err != io.EOF {
		return state{}, fmt.Errorf("something follows at byte %d", d.InputOffset())
	}
	for name, w := range s.Slots {
		if name.index() < 0 && !guest.IsProtocol(string(name)) && !guest.IsPolicySlot(string(name)) {
			return state{}, fmt.Errorf("%q: %w", name, ErrSlot)
		}
		if name.index() < 0 && w.includes(wantNative) {
			return state{}, fmt.Errorf("slot %s has no native build", name)
		}
		if err := w.check(); err != nil {
			return state{}, fmt.Errorf("slot %s: %w", name, err)
		}
	}
	return s, nil
}

// foundState is what a start found of the state.
type foundState struct {
	file, copied         []byte // nil: it is not there
	fileErr, copyErr     error  // why it cannot be used; nil too where it is not there
	fromCopy, fromNobody bool   // fromNobody: neither can be used
}

// findState decides which of the two files counts.
func findState(file, copied []byte) (s state, f foundState) {
	f.file, f.copied = file, copied
	if file != nil {
		if s, f.fileErr = parseState(file); f.fileErr == nil {
			return s, f
		}
	}
	if copied != nil {
		if s, f.copyErr = parseState(copied); f.copyErr == nil {
			f.fromCopy = true
			return s, f
		}
	}
	f.fromNobody = true
	return state{}, f
}
