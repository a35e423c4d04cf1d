package extensions

import (
	"cmp"
	"context"
	"log/slog"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"corenode/extensions/guest"
)

// Open makes a host. The native build of every shipped module serves at once;
// the Wasm builds, and what was active before, are loaded in the background
// through the ordinary load path, one at a time, and take over when they are
// ready.
func Open(o Options) (*Host, error) { return open(o, shippedModules()) }

func open(o Options, shipped []shippedModule) (*Host, error) {
	if o.Dir != "" && o.CacheDir == "" {
		o.CacheDir = filepath.Join(o.Dir, "cache")
	}
	if o.PoolMax <= 0 {
		o.PoolMax = 2 * runtime.GOMAXPROCS(0)
	}
	o.CPUShare = cmp.Or(o.CPUShare, CPUShareDefault)
	o.CanaryFactor = cmp.Or(o.CanaryFactor, CanaryFactorDefault)
	o.CanaryCallsMin = cmp.Or(o.CanaryCallsMin, CanaryCallsMinDefault)
	h := &Host{builder: builder{options: o, log: o.Log, now: o.Now, ships: shipped}, ready: make(chan struct{}), modules: registry{},
		lacking: map[string]func() ([]byte, error){}, insisting: map[string]bool{}}
	h.SetPrices(o.Prices)
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.folder = folder{o.Dir, h.log}
	h.closing, h.close = context.WithCancelCause(context.Background())
	if len(o.CompileCommand) > 0 {
		h.compiler = &guest.Compiler{Command: o.CompileCommand, Closing: h.closing,
			Failed: h.warnsOnce("the node compiles modules itself, which holds up its streams: a process of its own did not")}
	}
	h.unkept = h.warnsOnce("compiled modules cannot be kept, so a start compiles them again")
	h.trust.Store(&trust{keys: o.TrustedKeys, denied: o.Denied, unsigned: o.AllowUnsigned})
	if err := privateDir(o.Dir); err != nil {
		return nil, err
	}
	if err := privateDir(o.CacheDir); err != nil { // others may write there what would run here
		h.unkept(err)
		h.options.CacheDir = ""
	}
	h.folder.removeHalves()
	h.foreign.Store(&map[Slot]*slot{})
	for i, name := range Slots {
		h.slots[i] = h.newSlot(name)
	}
	h.chain()
	for _, s := range shipped {
		if s.off {
			h.addOff(s)
		} else {
			h.addNative(s)
		}
	}
	for _, sl := range h.slots[:SlotAdmission.index()] {
		if sl.builtin == nil {
			h.addNative(shippedModule{slot: sl.name, name: string(sl.name), nativeAs: nativePrefix + string(sl.name), native: declineAll})
		}
	}
	if err := h.readDir(); err != nil {
		return nil, err
	}
	h.route()
	h.background.Go(func() {
		defer close(h.ready)
		if o.After != nil {
			select {
			case <-o.After:
			case <-h.closing.Done():
				return
			}
		}
		h.restore(shipped)
	})
	return h, nil
}

// addNative makes the native build of a module the generation that serves.
func (h *Host) addNative(s shippedModule) {
	kind, protocol := string(s.slot), ""
	if s.slot == SlotChat || s.slot == SlotResponses {
		kind, protocol = guest.KindTranslator, string(s.slot)
	}
	g := &generation{digest: s.nativeAs, native: s.native, shipped: true, loaded: h.now(),
		manifest: guest.Manifest{Name: s.name, Kind: kind, Protocol: protocol, Version: "native", ABI: guest.ABI11,
			Runtime: "native", History: s.history}}
	g.refs.Store(1)
	sl := h.slot(s.slot)
	sl.builtin = g
	sl.now.Store(&assignment{active: g})
	h.modules[g.digest] = &module{digest: g.digest, manifest: g.manifest, known: true, shipped: true, generation: g}
}

// addOff adds a module that ships and serves only when an operator enables it.
func (h *Host) addOff(s shippedModule) {
	m := &module{digest: s.digest, shipped: true, wasm: s.wasm}
	var err error
	if m.manifest, err = guest.ParseManifest(s.manifest); err != nil {
		h.log.Error("a module that ships cannot be read", "module", s.name, "err", err)
		return
	}
	m.known = true
	h.modules[s.digest] = m
}

// warnsOnce makes what tells operators an error, the first one only.
func (h *Host) warnsOnce(text string) func(err error) {
	var once sync.Once
	return func(err error) {
		once.Do(func() { h.log.Warn(text, "err", err) })
	}
}

// Close ends all loading, gives every slot back to its native build and closes
// each generation when its last user has gone.
func (h *Host) Close() error {
	h.lock()
	if h.closed {
		h.unlock()
		return nil
	}
	h.closed = true
	h.close(ErrClosed)
	var shadows []*shadow
	for _, sl := range h.allSlots() {
		if s := sl.now.Load().shadow; s != nil {
			shadows = append(shadows, s)
		}
		sl.now.Store(&assignment{active: sl.builtin})
	}
	h.unlock()
	for _, s := range shadows {
		s.stop()
	}
	h.background.Wait()
	h.lock()
	defer h.unlock()
	for _, m := range h.modules {
		if m.generation != nil && m.generation.native == nil {
			m.generation.retire()
			m.generation = nil
		}
	}
	return nil
}
