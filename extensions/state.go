package extensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

const (
	stateFile = "state.json"
	// stateCopy says the same, and is written after it: one of the two is whole.
	stateCopy = "state.copy.json"
	// extDamaged is put to the name of what cannot be read and is moved aside.
	extDamaged = ".damaged"
)

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
		if name.index() < 0 {
			return state{}, fmt.Errorf("%q: %w", name, ErrSlot)
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

// readState takes the state from its file, or else from the copy.
func (h *Host) readState() (f foundState, err error) {
	var texts [2][]byte
	for i, name := range []string{stateFile, stateCopy} {
		texts[i], err = os.ReadFile(filepath.Join(h.options.Dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		if err == nil && texts[i] == nil {
			texts[i] = []byte{}
		}
	}
	h.state, f = findState(texts[0], texts[1])
	return f, nil
}

// settleState does what follows from how the state was found, when the modules
// are known: it says so, keeps aside what cannot be read, and writes the state
// and its copy where they are not what they should be.
func (h *Host) settleState(f foundState) {
	var lost []string
	if f.fromNobody {
		lost = h.loseState()
	}
	if h.stateDamaged = f.fromCopy || f.fileErr != nil || len(lost) > 0; h.stateDamaged {
		h.sayState(f, lost)
	}
	for name, damage := range map[string]error{stateFile: f.fileErr, stateCopy: f.copyErr} {
		if damage == nil {
			continue
		}
		path := filepath.Join(h.options.Dir, name)
		if err := os.Rename(path, path+extDamaged); err != nil {
			h.log.Error("a damaged file is not moved aside", "file", path, "err", err)
		}
	}
	if !bytes.Equal(f.file, f.copied) || f.file == nil || f.fileErr != nil {
		h.saveOrSay()
	}
}

// sayState logs that the state was not found whole.
func (h *Host) sayState(f foundState, lost []string) {
	why := f.fileErr
	if f.file == nil {
		why = fs.ErrNotExist
	}
	if f.fromCopy {
		h.log.Error("state.json cannot be used: its last good copy says which modules serve", "err", why)
		return
	}
	h.log.Error("state.json cannot be used and there is no good copy: which modules served is not known",
		"err", why, "copy_err", f.copyErr, "slots_missing", strings.Join(lost, " "))
}

// loseState makes a state of the module files alone. Each slot that one of them
// is for was an operator's, as far as anybody knows, and is missing until an
// operator chooses; a file that cannot be read may be for any slot. Of those for
// billing every one may have made charges.
func (h *Host) loseState() (slots []string) {
	lost := map[Slot]bool{}
	for digest, m := range h.modules {
		if m.shipped {
			continue
		}
		manifest, err := h.readManifest(digest)
		if err != nil {
			for _, name := range Slots {
				lost[name] = true
			}
			continue
		}
		m.manifest, m.known = manifest, true
		m.denied = h.denialOf(m)
		if manifest.slot() == SlotBilling {
			h.state.Charged = append(h.state.Charged, digest)
		}
		if !h.isShippedName(manifest.Name) { // earlier versions of the program have left theirs
			lost[manifest.slot()] = true
		}
	}
	slices.Sort(h.state.Charged)
	h.state.Slots = map[Slot]wanted{}
	for name := range lost {
		h.state.Slots[name] = wanted{Active: wantUnknown}
		slots = append(slots, string(name))
	}
	slices.Sort(slots)
	return slots
}

// isShippedName says whether a module of the program has a name.
func (h *Host) isShippedName(name string) bool {
	return slices.ContainsFunc(h.ships, func(s shippedModule) bool { return s.name == name })
}

// save writes the state, and its copy when it is written. mu is held.
func (h *Host) save() error {
	if h.options.Dir == "" {
		return nil
	}
	text, err := json.MarshalIndent(h.state, "", "  ")
	if err != nil {
		return err
	}
	text = append(text, '\n')
	if err := writeFile(filepath.Join(h.options.Dir, stateFile), text); err != nil {
		return fmt.Errorf("the change is in force but will not survive a restart: %w", err)
	}
	// An old copy must not bring back what was changed since: better none.
	copied := filepath.Join(h.options.Dir, stateCopy)
	if err := writeFile(copied, text); err != nil {
		h.log.Error("the copy of state.json is not written", "err", errors.Join(err, removeFile(copied)))
	}
	return nil
}

// saveOrSay is save for changes that nobody asked for just now. mu is held.
func (h *Host) saveOrSay() {
	if err := h.save(); err != nil {
		h.log.Error("the state of the modules is not saved", "err", err)
	}
}

// StateDamaged says whether this start did not find state.json whole: a copy
// stands for it, or which modules served is not known.
func (h *Host) StateDamaged() bool { return h.stateDamaged }

// Missing says whether the module that an operator chose for a slot, or for a
// share of its accounts, is not in memory, yet or any more: charges are
// provisional then, and admission refuses.
func (h *Host) Missing(s Slot) bool {
	a := h.slot(s).now.Load()
	return a.missing || a.canaryPercent > 0 && a.canary == nil
}
