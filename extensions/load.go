package extensions

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"corenode/extensions/guest"
)

// Load checks, meters, compiles and tries a module, and keeps it: its state is
// "loaded" then. config is the operator's, a JSON object or nothing. A refusal
// is a *guest.LoadError. Loading what is loaded already changes nothing, but that a
// signature that a trusted key made takes the place of the one before.
// It ends between two steps when ctx does, with ctx's error.
func (h *Host) Load(ctx context.Context, wasm, signature, config []byte) (Info, error) {
	return h.load(ctx, file{wasm: wasm, signature: signature, config: config, loaded: true}, false)
}

// Reconfigure is Load for a file that may serve, or have another role, with another
// configuration: once it passed, the new one takes its roles over, and requests that
// run end on the old one. A billing module's configuration decides charges, which
// are computed again by it, so of one that serves it is refused as by Load.
func (h *Host) Reconfigure(ctx context.Context, wasm, signature, config []byte) (Info, error) {
	return h.load(ctx, file{wasm: wasm, signature: signature, config: config, loaded: true}, true)
}

// load is Load, or Reconfigure where inPlace.
func (h *Host) load(ctx context.Context, f file, inPlace bool) (Info, error) {
	h.building.Lock()
	defer h.building.Unlock()
	var err error
	if f.config, err = guest.Config(f.config); err != nil {
		return Info{}, err
	}
	digest := digestOf(f.wasm)
	f.digest = digest
	h.lock()
	old := h.modules[digest]
	same, err := h.mayLoad(old, digest, &f, inPlace)
	if same {
		err = h.resign(old, f.signature)
	}
	h.unlock()
	if err != nil || same {
		if err != nil {
			return Info{}, err
		}
		return h.info(digest)
	}
	g, err := h.build(ctx, f)
	if err != nil {
		return Info{}, err
	}
	m := &module{digest: digest, manifest: g.manifest, known: true, size: len(f.wasm), config: f.config, signature: f.signature}
	h.lock()
	defer h.unlock()
	// While it was built, the one in memory may have begun to serve or to charge.
	if _, err = h.mayLoad(h.modules[digest], digest, &f, inPlace); err == nil {
		err = h.stillTrusted(m, g, f.signature)
	}
	if err != nil {
		g.retire()
		return Info{}, err
	}
	if h.folder.dir == "" {
		m.volatile = slices.Clone(f.wasm)
	} else if err := h.folder.keep(m, f.wasm); err != nil {
		g.retire()
		return Info{}, err
	}
	if h.adopt(m, g) && !f.brought {
		err = h.save()
	}
	return h.infoOf(m), err
}

// mayLoad says whether a module is loaded already, just so, or may not be
// loaded with another configuration, inPlace of the one that serves. In a cluster the other nodes have what serves in memory
// though this one may not, so there it is the state that counts. mu is held.
func (h *Host) mayLoad(old *module, digest string, f *file, inPlace bool) (same bool, err error) {
	switch {
	case h.closed:
		return false, ErrClosed
	case old == nil:
		return false, nil
	case old.shipped && len(f.config) > 0:
		return false, guest.Refused("init", "load a copy with another version", "a shipped module takes no configuration")
	case old.shipped, old.generation != nil && slices.Equal(old.config, f.config):
		return true, nil
	case slices.Equal(old.config, f.config):
		return false, nil
	case h.state.named(digest):
		return false, guest.Refused("init", "raise the version in its manifest and pack it again, so that its charges can be told apart",
			"charges name this module with another configuration")
	case h.clustered() && !f.brought && h.state.wants(digest):
		return false, servesOtherwise("raise the version in its manifest: in a cluster what serves keeps its configuration")
	case old.generation != nil && h.slot(slotOf(&old.manifest)).now.Load().includes(old.generation):
		if inPlace && slotOf(&old.manifest) != SlotBilling {
			return false, nil
		}
		fix := "load it with --reconfigure, which changes the configuration of what serves; or raise the version in its manifest"
		if slotOf(&old.manifest) == SlotBilling {
			fix = "raise the version in its manifest and pack it again: charges are computed by its configuration"
		}
		return false, servesOtherwise(fix)
	}
	return false, nil
}

func servesOtherwise(fix string) error {
	return &guest.LoadError{Stage: "init", Err: ErrInUse, Reason: "the module serves with another configuration", Fix: fix}
}

// resign gives a module in memory another signature, if a key made it that is trusted by now: it decides
// when the keys change, and at the next start. Without one nothing changes. building and mu are held.
func (h *Host) resign(m *module, signature []byte) error {
	if m.shipped || len(signature) == 0 {
		return nil
	}
	signedBy, err := h.trust.Load().checkSigner(m.digest, signature)
	if err != nil {
		return err
	}
	if !bytes.Equal(signature, h.folder.signatureOf(m)) {
		if err := h.folder.keepSignature(m.digest, signature); err != nil {
			return err
		}
		h.log.Info("module signed again", "module", m.generation.title(), "signed_by", signedBy)
	}
	m.signature, m.generation.signedBy = signature, signedBy
	return nil
}

// adopt makes g the generation of m. It says whether the state has changed and
// is to be saved. mu is held.
func (h *Host) adopt(m *module, g *generation) (changed bool) {
	var old *generation
	if m := h.modules[m.digest]; m != nil {
		old = m.generation
	}
	h.numbers++
	g.number = h.numbers
	m.generation, m.last, m.failed, m.loading, m.removed = g, nil, "", false, false
	h.modules[m.digest] = m
	if old != nil && old != g {
		sl := h.slot(slotOf(&g.manifest))
		if a := sl.now.Load(); a.includes(old) {
			h.assign(sl, a.inPlace(old, g, h))
		}
		old.retire()
	}
	h.log.Info("module loaded", "module", g.title(), "slot", string(slotOf(&g.manifest)), "signed_by", g.signedBy,
		"took_ms", g.compile.Milliseconds(), "note", g.note)
	return h.state.forget(m.digest)
}

// open brings a module into memory that is known but not there. served is as in
// file. building is held, mu is not.
func (h *Host) open(digest string, served bool) (*generation, error) {
	h.lock()
	m := h.modules[digest]
	if err := h.trust.Load().denial(digest, nil); h.closed || err != nil || m == nil || m.removed {
		defer h.unlock()
		if h.closed {
			return nil, ErrClosed
		}
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
	}
	if m.generation != nil {
		defer h.unlock()
		return m.generation, nil
	}
	m.loading = true
	h.unlock()
	g, err := h.read(m, served, false)
	keep := err == nil && m.wasm != nil && slotOf(&g.manifest) == SlotBilling && h.folder.dir != ""
	var unkept error
	if keep {
		if unkept = h.folder.keepShipped(digest, m.wasm); unkept != nil {
			h.log.Error("a shipped policy is not kept for replays", "module", digest, "err", unkept)
		}
	}
	h.lock()
	defer h.unlock()
	m.loading = false
	if err == nil {
		if err = h.stillTrusted(m, g, h.folder.signatureOf(m)); err != nil {
			g.retire()
		}
	}
	if errors.Is(err, ErrDenied) {
		m.denied = err
		return nil, err
	}
	if err != nil {
		m.failed = err.Error()
		return nil, err
	}
	if h.closed {
		g.retire()
		return nil, ErrClosed
	}
	if h.modules[digest] != m || m.removed { // meanwhile, with its file
		g.retire()
		return nil, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
	}
	m.manifest, m.known = g.manifest, true
	h.adopt(m, g)
	switch {
	case unkept != nil:
		h.lacking[digest] = m.wasm
	case keep: // also where the file was there: who wrote it may not have come as far as this
		h.kept++
	}
	return g, nil
}

// stillTrusted says whether a module that was just built is trusted by now: the
// configuration may have been read again meanwhile. mu is held.
func (h *Host) stillTrusted(m *module, g *generation, signature []byte) error {
	err := h.trust.Load().denial(m.digest, &g.manifest)
	if err == nil && !m.shipped {
		_, err = h.trust.Load().checkSigner(m.digest, signature)
	}
	return err
}

// read builds a generation of a module's file; served and replayed are as in file.
func (h *Host) read(m *module, served, replayed bool) (*generation, error) {
	f := file{signature: m.signature, config: m.config, trusted: m.shipped || replayed, shipped: m.shipped, served: served,
		replayed: replayed}
	var err error
	switch {
	case m.wasm != nil:
		f.wasm, err = m.wasm()
	case m.volatile != nil:
		f.wasm = m.volatile
	default:
		f.wasm, f.signature, f.config, err = h.folder.readFiles(m.digest)
	}
	if err != nil {
		return nil, err
	}
	if f.digest = digestOf(f.wasm); f.digest != m.digest {
		return nil, guest.Refused("digest", "restore the file from a backup",
			"the file of %s has the digest %s: it was changed", m.digest, f.digest)
	}
	return h.build(context.Background(), f)
}

// reopen builds a generation for a replay. It need not pass the signature
// check: it was accepted once, and what it says now changes nothing. The
// caller retires it.
func (h *Host) reopen(digest string) (*generation, error) {
	h.building.Lock()
	defer h.building.Unlock()
	h.mu.Lock()
	m := h.modules[digest]
	h.mu.Unlock()
	if m == nil {
		if m = h.shipping(digest); m == nil {
			return nil, fmt.Errorf("%q: %w", digest, ErrUnknownModule)
		}
	}
	return h.read(m, true, true)
}

// shipping is the module that ships with that digest, which the host does not know before it begins to load it.
func (h *Host) shipping(digest string) *module {
	for _, s := range h.ships {
		if s.digest != "" && s.digest == digest {
			return &module{digest: digest, shipped: true, wasm: s.wasm}
		}
	}
	return nil
}
