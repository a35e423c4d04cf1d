package extensions

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"corenode/extensions/meter"
)

// wantedOf names a generation in the state.
func wantedOf(g *generation) string {
	switch {
	case g == nil:
		return ""
	case g.native != nil:
		return wantNative
	case g.shipped:
		return wantShipped
	}
	return g.digest
}

// wanted names a module in the state, as wantedOf does one in memory.
func (m *module) wanted() string {
	switch {
	case m.wasm != nil:
		return wantShipped
	case m.shipped:
		return wantNative
	}
	return m.digest
}

// remember puts what has changed in a slot's assignment into the state. What a
// verb leaves alone stays wanted, though it may not be in memory, yet or any
// more. decided: the verb was about what is active. mu is held; save writes it.
func (h *Host) remember(sl *slot, before *assignment, decided bool) {
	a, w := sl.now.Load(), h.state.Slots[sl.name]
	if decided || a.active != before.active && !a.missing {
		w.Active, w.Previous = wantedOf(a.active), wantedOf(a.previous)
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
	if h.state.Slots == nil {
		h.state.Slots = map[Slot]wanted{}
	}
	h.state.Slots[sl.name] = w
	if sl.name != SlotBilling {
		return
	}
	for _, g := range []*generation{a.active, a.canary} {
		if g != nil && g.native == nil && !slices.Contains(h.state.Charged, g.digest) {
			h.state.Charged = append(h.state.Charged, g.digest)
		}
	}
}

// forget drops the failure and the removal of a module that is loaded again,
// and says whether there was any. mu is held.
func (h *Host) forget(digest string) bool {
	_, failed := h.state.Failed[digest]
	delete(h.state.Failed, digest)
	n := len(h.state.Removed)
	h.state.Removed = slices.DeleteFunc(h.state.Removed, func(d string) bool { return d == digest })
	return failed || len(h.state.Removed) < n
}

// path is where a part of a module lies: its file, signature or configuration.
func (h *Host) path(digest, ext string) string {
	return filepath.Join(h.options.Dir, strings.TrimPrefix(digest, digestPrefix)+ext)
}

// The parts of a module in Dir.
const (
	extWasm      = ".wasm"
	extSignature = ".sig"
	extConfig    = ".config.json"
)

// keep writes a module's files, the module itself last: what is there is complete.
// mu is held, so that no verb comes between the files and the module in memory.
func (h *Host) keep(m *module, wasm []byte) error {
	parts := []struct {
		ext     string
		content []byte
	}{{extSignature, m.signature}, {extConfig, m.config}, {extWasm, wasm}}
	for _, p := range parts {
		path := h.path(m.digest, p.ext)
		if len(p.content) == 0 {
			if err := removeFile(path); err != nil {
				return err
			}
			continue
		}
		if err := writeFile(path, p.content); err != nil {
			return err
		}
	}
	return nil
}

func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (h *Host) readFiles(digest string) (wasm, signature, config []byte, err error) {
	if wasm, err = os.ReadFile(h.path(digest, extWasm)); err != nil {
		return nil, nil, nil, err
	}
	for ext, content := range map[string]*[]byte{extSignature: &signature, extConfig: &config} {
		if *content, err = os.ReadFile(h.path(digest, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, nil, err
		}
	}
	return wasm, signature, config, nil
}

func (h *Host) deleteFiles(digest string) error {
	if h.options.Dir == "" {
		return nil
	}
	var errs []error
	for _, ext := range []string{extWasm, extSignature, extConfig} {
		errs = append(errs, removeFile(h.path(digest, ext)))
	}
	return errors.Join(errs...)
}

// readDir learns which modules were kept, and the state.
func (h *Host) readDir() error {
	if h.options.Dir == "" {
		return nil
	}
	found, err := h.readState()
	if err != nil {
		return err
	}
	if err := h.readModules(); err != nil {
		return err
	}
	h.settleState(found)
	for name, w := range h.state.Slots {
		a := *h.slot(name).now.Load()
		a.missing, a.canaryPercent = w.isOperators(), w.CanaryPercent
		h.slot(name).now.Store(&a)
	}
	return nil
}

// readModules learns which module files there are.
func (h *Host) readModules() error {
	entries, err := os.ReadDir(h.options.Dir)
	if err != nil {
		return err
	}
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
			if *content, err = os.ReadFile(h.path(digest, ext)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		m.denied = h.denialOf(m)
		h.modules[digest] = m
	}
	return nil
}

// restore brings back, one after the other, what served before and the shipped
// modules. Meanwhile the native builds serve, and verbs work. What an operator
// made active comes first: until then others serve in its place, and charge
// provisionally.
func (h *Host) restore(shipped []shippedModule) {
	h.mu.Lock()
	slots := maps.Clone(h.state.Slots)
	h.mu.Unlock()
	bring := func(role func(wanted) string) {
		for _, name := range Slots {
			if digest := role(slots[name]); strings.HasPrefix(digest, digestPrefix) {
				h.restoreOne(h.slot(name), digest)
			}
		}
	}
	bring(func(w wanted) string { return w.Active })
	for _, s := range shipped {
		if s.wasm != nil && s.digest != "" {
			h.restoreShipped(s)
		}
	}
	bring(func(w wanted) string { return w.Canary })
	bring(func(w wanted) string { return w.Shadow })
	bring(func(w wanted) string { return w.Previous })
	h.readManifests()
}

// restoreShipped loads a shipped module. It takes over unless an operator
// chose something else for its slot.
func (h *Host) restoreShipped(s shippedModule) {
	h.building.Lock()
	defer h.building.Unlock()
	h.mu.Lock()
	m := &module{digest: s.digest, shipped: true, wasm: s.wasm,
		manifest: h.slot(s.slot).builtin.manifest, failed: h.state.Failed[s.digest]}
	h.modules[s.digest] = m
	h.mu.Unlock()
	if m.failed != "" { // it was taken out of service; an operator may activate it
		return
	}
	g, err := h.open(s.digest, true)
	if errors.Is(err, ErrClosed) {
		return
	}
	if err != nil {
		h.log.Error("a shipped module does not load, its native build serves", "module", s.name, "err", err)
		return
	}
	if s.slot == SlotBilling && h.options.Dir != "" {
		h.keepShipped(g.digest, s.wasm)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.assume(h.slot(s.slot))
}

// keepShipped stores the file of a shipped policy: its charges must be
// replayable when another version ships.
func (h *Host) keepShipped(digest string, file func() ([]byte, error)) {
	if _, err := os.Stat(h.path(digest, extWasm)); err == nil {
		return
	}
	wasm, err := file()
	if err == nil {
		err = writeFile(h.path(digest, extWasm), wasm)
	}
	if err != nil {
		h.log.Error("a shipped policy is not kept for replays", "module", digest, "err", err)
	}
}

// restoreOne loads a module that served before. One that no longer passes is
// reported as failed, and what ships serves in its place. In the place of a
// denied one comes what was there before it.
func (h *Host) restoreOne(sl *slot, digest string) {
	h.building.Lock()
	defer h.building.Unlock()
	g, err := h.open(digest, true)
	for errors.Is(err, ErrDenied) {
		h.mu.Lock()
		if h.withdraw(nil) {
			h.saveOrSay()
		}
		active := h.state.Slots[sl.name].Active
		waits := strings.HasPrefix(active, digestPrefix) && h.isUsable(active) && h.modules[active].generation == nil
		h.mu.Unlock()
		if !waits {
			return
		}
		digest = active
		g, err = h.open(digest, true)
	}
	if errors.Is(err, ErrClosed) {
		return
	}
	if err == nil && g.manifest.slot() != sl.name {
		err = fmt.Errorf("the module is for slot %s", g.manifest.slot())
	}
	if err != nil {
		h.log.Error("a module that served before does not load", "slot", string(sl.name), "module", digest, "err", err)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.assume(sl)
}

// assume makes a slot's assignment what the state wants, as far as it is loaded. mu is held.
func (h *Host) assume(sl *slot) {
	if h.closed {
		return
	}
	w := h.state.Slots[sl.name]
	if w.Active == "" && sl.builtin != nil {
		w.Active = wantShipped
	}
	a := *sl.now.Load()
	find := func(name string) *generation { return h.wantedGeneration(sl, name) }
	a.active, a.missing = find(w.Active), false
	if a.active == nil {
		a.missing = w.isOperators()
		if a.active = find(wantShipped); a.active == nil {
			a.active = sl.builtin
		}
	}
	a.canary, a.canaryPercent = find(w.Canary), w.CanaryPercent
	if a.previous = find(w.Previous); a.previous == nil || a.previous == a.active {
		a.previous = sl.builtinUnless(a.active)
	}
	if g := find(w.Shadow); g == nil {
		a.shadow = nil
	} else if a.shadow == nil {
		a.shadow = h.startShadow(g, w.ShadowPercent)
	}
	h.assign(sl, a)
}

// wantedGeneration is the loaded generation that a name in the state stands for. mu is held.
func (h *Host) wantedGeneration(sl *slot, name string) *generation {
	switch name {
	case "":
		return nil
	case wantNative:
		return sl.builtin
	case wantShipped:
		for _, m := range h.modules {
			if m.shipped && m.wasm != nil && m.generation != nil && m.generation.manifest.slot() == sl.name && m.failed == "" {
				return m.generation
			}
		}
		return nil
	}
	if m := h.modules[name]; m != nil {
		return m.generation
	}
	return nil
}

// readManifests learns the names of the modules that are only on disk.
func (h *Host) readManifests() {
	h.mu.Lock()
	var unknown []string
	for digest, m := range h.modules {
		if !m.known {
			unknown = append(unknown, digest)
		}
	}
	h.mu.Unlock()
	for _, digest := range unknown {
		manifest, err := h.readManifest(digest)
		if err != nil {
			continue
		}
		h.mu.Lock()
		if m := h.modules[digest]; m != nil {
			m.manifest, m.known = manifest, true
			m.denied = h.denialOf(m)
		}
		h.mu.Unlock()
	}
}

// readManifest reads the manifest of a module file in Dir.
func (h *Host) readManifest(digest string) (Manifest, error) {
	wasm, err := os.ReadFile(h.path(digest, extWasm))
	if err != nil {
		return Manifest{}, err
	}
	if digestOf(wasm) != digest {
		return Manifest{}, fmt.Errorf("the file of %s was changed", digest)
	}
	info, err := meter.Inspect(wasm)
	if err != nil {
		return Manifest{}, err
	}
	return manifestOf(info)
}
