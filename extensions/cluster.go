package extensions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// clustered says whether the nodes of a cluster share the state.
func (h *Host) clustered() bool { return h.options.Keep != nil }

// readCluster learns which modules the folder has, and what the cluster wants.
func (h *Host) readCluster() (err error) {
	if h.number = h.options.Number; len(h.options.State) > 0 {
		if h.state, err = parseState(h.options.State); err != nil {
			return err
		}
	}
	if h.folder.dir != "" {
		if err := h.readModules(); err != nil {
			return err
		}
	}
	h.expect()
	return nil
}

// Unneeded are removed modules that no slot, no failure and no charge names: nobody reads their files again.
func (h *Host) Unneeded() (digests []string) {
	h.lock()
	defer h.unlock()
	for _, digest := range h.state.Removed {
		if !h.state.hasServed(digest) {
			digests = append(digests, digest)
		}
	}
	return digests
}

// KeepShipped counts how often a policy that ships came into memory and had its file in Dir, once it has tried again to write
// those that Dir did not take. The error is why it lacks some. One caller at a time.
func (h *Host) KeepShipped() (kept int, err error) {
	h.mu.Lock()
	lacking := maps.Clone(h.lacking)
	h.mu.Unlock()
	var errs []error
	for digest, file := range lacking {
		err := h.folder.keepShipped(digest, file)
		errs = append(errs, err)
		if err == nil {
			h.mu.Lock()
			delete(h.lacking, digest)
			h.kept++
			h.mu.Unlock()
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.kept, errors.Join(errs...)
}

// DropUnneeded removes the files of unneeded modules that this node has, and forgets these. A rollout goes on naming them: a node that
// was away has the files until it reads that.
func (h *Host) DropUnneeded() error {
	h.building.Lock() // nobody opens one meanwhile
	defer h.building.Unlock()
	h.lock()
	defer h.unlock()
	var errs []error
	for digest, m := range h.modules {
		if !m.removed || m.shipped || m.generation != nil || h.state.hasServed(digest) {
			continue
		}
		if err := h.folder.deleteFiles(digest); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(h.modules, digest)
	}
	return errors.Join(errs...)
}

// save keeps the state. changing and mu are held, and mu is let go while a database is asked.
func (h *Host) save() error {
	if !h.clustered() {
		return h.folder.save(&h.state)
	}
	text, err := json.Marshal(&h.state)
	if err != nil {
		return err
	}
	number, err := h.keep(h.number, text)
	if err == nil {
		h.number = number
	}
	return err
}

// keep asks Options.Keep. Whoever wants mu meanwhile gets it: that may take long.
func (h *Host) keep(before int64, text []byte) (int64, error) {
	h.mu.Unlock()
	defer h.mu.Lock()
	return h.options.Keep(before, text)
}

// saveOrSay is save for changes that nobody asked for just now. changing and mu are held.
func (h *Host) saveOrSay() {
	if err := h.save(); err != nil {
		h.log.Error("the state of the modules is not saved", "err", err)
	}
}

// clone is a state that changes of this one do not reach.
func (s *state) clone() state {
	return state{Slots: maps.Clone(s.Slots), Failed: maps.Clone(s.Failed),
		Removed: slices.Clone(s.Removed), Charged: slices.Clone(s.Charged)}
}

// commit makes a the assignment of a slot, with what more changes of the state; decided is as in
// remember. A shadow ends where what serves then has other routes. In a cluster it counts once it is kept, and what is
// not kept changes nothing. A node alone has it in force whatever becomes of its file. changing and mu are held, as in save.
func (h *Host) commit(sl *slot, a assignment, decided bool, more func()) error {
	a = a.apart()
	was, before := h.state.clone(), sl.now.Load()
	ended := a.shadow
	if ended != nil && a.active != nil && fitsActive(sl, &a, ended.generation) != nil {
		a.shadow = nil
	}
	h.remember(sl, before, &a, decided)
	if more != nil {
		more()
	}
	err := h.save()
	if err != nil && h.clustered() {
		h.state = was
		if s := a.shadow; s != nil && s != before.shadow {
			h.spawn(s.stop)
		}
		return err
	}
	if ended != a.shadow {
		h.sayOtherRoutes(sl, shadowEnds, ended.generation.digest)
	}
	h.assign(sl, a)
	return err
}

// choose is commit for what an operator does: once it is kept, a damaged state is over. changing and mu are held, as in save.
func (h *Host) choose(sl *slot, a assignment, decided bool, more func()) error {
	err := h.commit(sl, a, decided, more)
	if err == nil {
		h.stateDamaged.Store(false)
	}
	return err
}

// Number is that of the state that is in force.
func (h *Host) Number() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.number
}

// Bring is Load for a module that another node of the cluster has loaded: nothing of it is
// news to the state that they share.
func (h *Host) Bring(wasm, signature, config []byte) error {
	info, err := h.load(h.closing, file{wasm: wasm, signature: signature, config: config, loaded: true, brought: true}, false)
	if err != nil {
		if digest := digestOf(wasm); h.wanting(digest) != nil { // one that is only loaded is brought again before it is to serve
			h.insist(digest, err)
		}
		return err
	}
	h.lock()
	defer h.unlock()
	for name, w := range h.state.Slots {
		if w.includes(info.Digest) { // it was missing
			h.assume(h.slot(name))
		}
	}
	return nil
}

// Follow puts in force what another node has kept: number and text are as in Options.Keep. What
// cannot be brought into memory is missing, and the log says why. It waits for the start to be over.
func (h *Host) Follow(number int64, text []byte) error {
	next, err := parseState(text)
	if err != nil {
		return err
	}
	select {
	case <-h.ready:
	case <-h.closing.Done():
		return ErrClosed
	}
	h.building.Lock()
	defer h.building.Unlock()
	if !h.unremoved(number, &next) {
		return nil
	}
	for digest := range h.toBring(&next) {
		_, err := h.open(digest, true)
		if err != nil && !errors.Is(err, ErrClosed) {
			h.log.Error("a module that the cluster wants does not load", "module", digest, "err", err)
		}
		h.insist(digest, err)
	}
	h.lock()
	defer h.unlock()
	if h.closed || number <= h.number { // this node was quicker
		return nil
	}
	before := h.state
	h.state, h.number = next, number
	for _, sl := range h.slotsOf(&before, &next) {
		h.assume(sl)
		h.foreseeMissing(sl)
	}
	for digest, m := range h.modules {
		h.followModule(digest, m, &before)
	}
	h.log.Info("the modules are those of the cluster", "rollout", number)
	return nil
}

// unremoved lets modules be opened that a newer state has again. It is false for one that is not newer.
func (h *Host) unremoved(number int64, next *state) bool {
	h.lock()
	defer h.unlock()
	for digest, m := range h.modules {
		m.removed = m.removed && slices.Contains(next.Removed, digest)
	}
	return number > h.number
}

// slotsOf are the slots that two states say something else of, or that wait for a module, or for which one has come. mu is held.
func (h *Host) slotsOf(before, next *state) (all []*slot) {
	names := map[Slot]bool{}
	for _, s := range []*state{before, next} {
		for name := range s.Slots {
			names[name] = true
		}
	}
	for name := range names {
		if sl := h.slot(name); before.Slots[name] != next.Slots[name] || h.Missing(name) || h.hasCome(sl, next.Slots[name]) {
			all = append(all, sl)
		}
	}
	return all
}

// hasCome says whether a module that is wanted in a slot is in memory by now and has no role there yet. mu is held.
func (h *Host) hasCome(sl *slot, w wanted) bool {
	a := sl.now.Load()
	for _, name := range []string{w.Active, w.Canary, w.Shadow, w.Previous} {
		if g := h.wantedGeneration(sl, name); g != nil && !a.includes(g) {
			return true
		}
	}
	return false
}

// foreseeMissing keeps the paths of what should serve in a slot. mu is held.
func (h *Host) foreseeMissing(sl *slot) {
	if sl.now.Load().missing {
		h.foresee(sl)
		h.route()
	}
}

// followModule applies to a module what the state says of it, which was another before. mu is held.
func (h *Host) followModule(digest string, m *module, before *state) {
	reason, failed := h.state.Failed[digest]
	_, was := before.Failed[digest]
	switch {
	case failed:
		m.failed = reason
	case was:
		m.failed = ""
	}
	m.removed = slices.Contains(h.state.Removed, digest)
	g := m.generation
	if g == nil || g.native != nil || !failed && !m.removed || h.slot(slotOf(&g.manifest)).now.Load().includes(g) {
		return
	}
	last := g.counts()
	m.generation, m.last = nil, &last
	g.retire()
}

// Held is a module in memory, with the digest of its configuration, empty without one.
type Held struct{ Digest, Config string }

// Held lists the modules in memory that did not ship.
func (h *Host) Held() (all []Held) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for digest, m := range h.modules {
		if m.generation != nil && !m.shipped {
			all = append(all, Held{digest, h.infoOf(m).ConfigSHA256})
		}
	}
	return all
}

// Goal is the module that Rollback would make serve; empty where none has to be in memory for it.
func (h *Host) Goal(s Slot) string {
	h.lock()
	defer h.unlock()
	w := h.state.Slots[s]
	if w.CanaryPercent > 0 || !strings.HasPrefix(w.Previous, digestPrefix) {
		return ""
	}
	return w.Previous
}

// Absent says which module should serve and is not in memory, where nothing stands in for it; "" is none.
func (h *Host) Absent() string {
	if !h.clustered() {
		return ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, sl := range h.allSlots() {
		if w := h.state.Slots[sl.name]; h.Missing(sl.name) {
			name := w.Active
			if a := sl.now.Load(); !a.missing {
				name = w.Canary
			}
			return string(sl.name) + ": " + h.modules.titleOf(name)
		}
	}
	return ""
}

// absent is the refusal of what needs a module that is not in memory.
func absent(op string, s Slot) *abi.Error {
	return overloaded(op, guest.Faultf(guest.CauseInstantiate, "the module of slot %s is not in memory", s))
}

// KeepFile puts a module file into a folder of modules that no host uses yet, unless it is there
// as it should be. read is asked for the file only where the folder lacks it.
func KeepFile(dir, digest string, read func() ([]byte, error), signature, config []byte) error {
	if !isDigest(digest) {
		return fmt.Errorf("%q is no digest of a module file", digest)
	}
	if err := privateDir(dir); err != nil {
		return err
	}
	f := folder{dir: dir}
	wasm, sig, con, err := f.readFiles(digest)
	if err != nil || digestOf(wasm) != digest {
		if wasm, err = read(); err != nil {
			return err
		}
		if digestOf(wasm) != digest {
			return fmt.Errorf("the file of %s was changed", digest)
		}
	} else if bytes.Equal(sig, signature) && bytes.Equal(con, config) {
		return nil
	}
	return f.keep(&module{digest: digest, signature: signature, config: config}, wasm)
}

// Note keeps a file that another node of the cluster has loaded, or its new signature and
// configuration. One that is in memory stays as it is until Bring, but for a new signature that a key
// made that is trusted here.
func (h *Host) Note(digest string, wasm, signature, config []byte) error {
	if digestOf(wasm) != digest {
		return fmt.Errorf("the file of %s was changed", digest)
	}
	h.building.Lock() // nobody opens it meanwhile
	defer h.building.Unlock()
	h.lock()
	defer h.unlock()
	if h.closed {
		return nil
	}
	if m := h.modules[digest]; m != nil && (m.shipped || m.generation != nil) {
		err := h.resign(m, signature)
		if refused, ok := errors.AsType[*guest.LoadError](err); ok { // the other files are followed all the same
			h.log.Error("a new signature of a module in memory is not taken", "module", m.manifest.Ref(), "err", refused)
			return nil
		}
		return err
	}
	m := &module{digest: digest, signature: signature, config: config, size: len(wasm), failed: h.state.Failed[digest],
		removed: slices.Contains(h.state.Removed, digest)}
	if err := h.folder.keep(m, wasm); err != nil {
		return err
	}
	if file, err := guest.Read(wasm); err == nil {
		m.manifest, m.known = file.Manifest, true
	}
	m.denied = h.trust.Load().denialOf(m)
	h.modules[digest] = m
	return nil
}

// Signature is what a cluster keeps of a module that was loaded: a signature that a trusted key made, as it lies beside the
// file or as it was loaded. Where modules need none it may be nil; else a module without is refused as by Load.
func (h *Host) Signature(digest string) ([]byte, error) {
	h.lock()
	defer h.unlock()
	m := h.modules[digest]
	if m == nil {
		return nil, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
	}
	t := h.trust.Load()
	for _, signature := range [][]byte{h.folder.signatureOf(m), m.signature} {
		if signedBy, err := t.checkSigner(digest, signature); err == nil && signedBy != "" {
			return signature, nil
		}
	}
	_, err := t.checkSigner(digest, nil)
	return nil, err
}

// Files visits the module files of a folder, with their signatures and configurations, but for those that had names. It goes on past
// those that cannot be read, and ends at an error of visit.
func Files(dir string, had map[string]bool, visit func(digest string, wasm, signature, config []byte) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f := folder{dir: dir}
	var unread []error
	for _, e := range entries {
		hex, isModule := strings.CutSuffix(e.Name(), extWasm)
		digest := digestPrefix + hex
		if !isModule || !isDigest(digest) || had[digest] {
			continue
		}
		wasm, signature, config, err := f.readFiles(digest)
		switch {
		case errors.Is(err, fs.ErrNotExist): // removed meanwhile
		case err != nil:
			unread = append(unread, err)
		case digestOf(wasm) == digest: // others are of no use to anybody
			if err := visit(digest, wasm, signature, config); err != nil {
				return errors.Join(append(unread, err)...)
			}
		}
	}
	return errors.Join(unread...)
}

// FolderState is what a folder of modules says of which serve, nil where it says nothing.
func FolderState(dir string) ([]byte, error) {
	texts, err := folder{dir: dir}.readState()
	if err != nil || texts[0] == nil && texts[1] == nil {
		return nil, err
	}
	s, found := findState(texts[0], texts[1])
	if found.fromNobody {
		return nil, fmt.Errorf("%s says not which modules serve: %w", dir, found.fileErr)
	}
	return json.Marshal(&s)
}
