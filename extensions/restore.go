package extensions

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"corenode/extensions/guest"
)

// readDir learns which modules were kept, and the state.
func (h *Host) readDir() error {
	if h.clustered() {
		return h.readCluster()
	}
	if h.folder.dir == "" {
		return nil
	}
	texts, err := h.folder.readState()
	if err != nil {
		return err
	}
	var found foundState
	h.state, found = findState(texts[0], texts[1])
	if err := h.readModules(); err != nil {
		return err
	}
	h.settleState(found)
	h.expect()
	return nil
}

// expect makes missing what the state wants, until it is in memory.
func (h *Host) expect() {
	for name, w := range h.state.Slots {
		sl := h.slot(name)
		a := *sl.now.Load()
		a.missing, a.canaryPercent = w.isOperators() || sl.builtin == nil && w.Active != "", w.CanaryPercent
		sl.now.Store(&a)
		h.foresee(sl)
	}
}

// readModules learns which module files there are. Its error has all that cannot be read.
func (h *Host) readModules() error {
	entries, err := os.ReadDir(h.folder.dir)
	if err != nil {
		return err
	}
	var unread []error
	for _, e := range entries {
		hex, isModule := strings.CutSuffix(e.Name(), extWasm)
		if !isModule || len(hex) != 64 {
			continue
		}
		digest := digestPrefix + hex
		m := &module{digest: digest, failed: h.state.Failed[digest], removed: slices.Contains(h.state.Removed, digest)}
		if info, err := e.Info(); err == nil {
			m.size = int(info.Size())
		}
		for ext, content := range map[string]*[]byte{extSignature: &m.signature, extConfig: &m.config} {
			if *content, err = os.ReadFile(h.folder.path(digest, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				unread = append(unread, err)
			}
		}
		m.denied = h.trust.Load().denialOf(m)
		h.modules[digest] = m
	}
	return errors.Join(unread...)
}

// settleState does what follows from how the state was found, when the modules
// are known: it says so, keeps aside what cannot be read, and writes the state
// and its copy where they are not what they should be.
func (h *Host) settleState(f foundState) {
	var lost []string
	if f.fromNobody {
		lost = h.loseState()
	}
	if f.fromCopy || f.fileErr != nil || len(lost) > 0 {
		h.stateDamaged.Store(true)
		h.sayState(f, lost)
	}
	for name, damage := range map[string]error{stateFile: f.fileErr, stateCopy: f.copyErr} {
		if damage == nil {
			continue
		}
		path := filepath.Join(h.folder.dir, name)
		if err := os.Rename(path, path+extDamaged); err != nil {
			h.log.Error("a damaged file is not moved aside", "file", path, "err", err)
		}
	}
	if !bytes.Equal(f.file, f.copied) || f.file == nil || f.fileErr != nil {
		h.folder.saveOrSay(&h.state)
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
		manifest, err := h.folder.readManifest(digest)
		if err != nil {
			for _, name := range Slots {
				lost[name] = true
			}
			continue
		}
		m.manifest, m.known = manifest, true
		m.denied = h.trust.Load().denialOf(m)
		if slotOf(&manifest) == SlotBilling {
			h.state.Charged = append(h.state.Charged, digest)
		}
		if !h.isShippedName(manifest.Name) { // earlier versions of the program have left theirs
			lost[slotOf(&manifest)] = true
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

// restore brings back, one after the other, what served before and the shipped
// modules. Meanwhile the native builds serve, and verbs work. What an operator
// made active comes first: until then others serve in its place, and charge
// provisionally.
func (h *Host) restore(shipped []shippedModule) {
	h.lock()
	slots := maps.Clone(h.state.Slots)
	h.unlock()
	bring := func(role func(wanted) string) {
		for _, name := range h.Slots() {
			if digest := role(slots[name]); strings.HasPrefix(digest, digestPrefix) {
				h.restoreOne(h.slot(name), digest)
			}
		}
	}
	bring(func(w wanted) string { return w.Active })
	h.readManifests(func(name string) bool { return !h.isShippedName(name) })
	for _, s := range shipped {
		if s.wasm != nil && s.digest != "" && (!s.off || slots[s.slot].includes(wantShipped)) {
			h.restoreShipped(s)
		}
	}
	bring(func(w wanted) string { return w.Canary })
	bring(func(w wanted) string { return w.Shadow })
	bring(func(w wanted) string { return w.Previous })
	h.readManifests(func(string) bool { return true })
}

// restoreShipped makes a shipped module known, and loads it. It has its own name before it is in memory, and where it does not come there.
func (h *Host) restoreShipped(s shippedModule) {
	h.building.Lock()
	defer h.building.Unlock()
	var manifest guest.Manifest
	var err error
	if !s.off { // of the others it is known
		manifest, err = guest.ParseManifest(s.manifest)
	}
	h.lock()
	m := h.modules[s.digest]
	if !s.off {
		m = &module{digest: s.digest, shipped: true, wasm: s.wasm, manifest: manifest, known: err == nil}
		if err != nil { // which loading it says, too
			m.manifest = h.slot(s.slot).builtin.manifest
		}
		m.denied = h.trust.Load().denialOf(m)
		h.modules[s.digest] = m
	}
	if m != nil {
		m.failed = h.state.Failed[s.digest]
	}
	h.unlock()
	if m == nil { // it cannot be read, and that was said
		return
	}
	if m.failed != "" { // it was taken out of service; an operator may activate it
		return
	}
	_ = h.bringShipped(s) // it was said
}

// restoreOne loads a module that served before.
func (h *Host) restoreOne(sl *slot, digest string) {
	h.building.Lock()
	defer h.building.Unlock()
	_ = h.bring(sl, digest) // it was said
}

// readManifests learns the names of the modules that are only on disk, of those that it is for: what ships takes long to come,
// and until it is there a copy that an earlier version of the program left must not be found by its name.
func (h *Host) readManifests(isFor func(name string) bool) {
	h.mu.Lock()
	var unknown []string
	for digest, m := range h.modules {
		if !m.known {
			unknown = append(unknown, digest)
		}
	}
	h.mu.Unlock()
	for _, digest := range unknown {
		manifest, err := h.folder.readManifest(digest)
		if err != nil || !isFor(manifest.Name) {
			continue
		}
		h.mu.Lock()
		if m := h.modules[digest]; m != nil {
			m.manifest, m.known = manifest, true
			m.denied = h.trust.Load().denialOf(m)
		}
		h.mu.Unlock()
	}
}
