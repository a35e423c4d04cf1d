package extensions

import (
	"context"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/extensions/guest"
)

// builder makes generations of module files: the load path, the same for every
// module, one module at a time.
type builder struct {
	options  Options // never changes
	log      *slog.Logger
	now      func() time.Time
	ships    []shippedModule                     // never changes
	slots    [len(Slots)]*slot                   // those that are always there; never changes
	foreign  atomic.Pointer[map[Slot]*slot]      // the others; replaced as a whole, and only grows
	growing  sync.Mutex                          // over the replacement of foreign
	chains   atomic.Pointer[[len(Slots)][]*slot] // of each kind of policy, its places in order
	trust    atomic.Pointer[trust]               // changed with Host.mu held
	compiler *guest.Compiler                     // nil: this process compiles; never changes
	unkept   func(err error)                     // hears why compiled code is not kept; never changes

	// untried takes modules without their first calls, for tests of what serves:
	// their hand-made guests give nonsense, or nothing but faults.
	untried bool
}

// file is a module as it was handed in.
type file struct {
	wasm, signature, config []byte
	digest                  string // of wasm
	// trusted: shipped with the binary, or accepted before and now only
	// replayed; the signature is not asked for.
	trusted, shipped bool
	// served: it was taken once, and serves or did. What has been required of
	// new modules since then does not bind it: a restart must not change who serves.
	served bool
	// loaded: an operator hands it in now, and it keeps what is asked of new
	// manifests (see checkNew).
	loaded   bool
	brought  bool // another node of the cluster took it
	replayed bool // to compute a charge again, which modules.denied does not keep from it
}

// speaker takes to the log what the instances of a module say.
type speaker struct {
	log   *slog.Logger
	now   func() time.Time
	title string
}

// Say logs one line.
func (s speaker) Say(level slog.Level, text string) {
	s.log.Log(context.Background(), level, "module says", "module", s.title, "text", text)
}

// Now is the node's clock.
func (s speaker) Now() time.Time { return s.now() }

// build is the load path: check, meter, compile, instantiate, try. It ends between
// two steps when ctx does. The error is a *LoadError, or ctx's. Host.building is held.
func (b *builder) build(ctx context.Context, f file) (*generation, error) {
	began := time.Now()
	read, signedBy, err := b.check(f)
	if err != nil {
		return nil, err
	}
	m := read.Manifest
	if !f.served {
		if err := m.CheckConfig(f.config); err != nil {
			return nil, err
		}
	}
	g := &generation{digest: f.digest, manifest: m, shipped: f.shipped, signedBy: signedBy,
		size: len(f.wasm), throttle: b.slot(slotOf(&m)).throttle}
	g.refs.Store(1)
	g.module, err = read.Compile(ctx, guest.Options{CacheDir: b.options.CacheDir, Unkept: b.unkept, Compiler: b.compiler,
		Config: f.config, Shipped: f.shipped, Served: f.served, Logger: speaker{b.log, b.now, g.title()}})
	if err != nil {
		return nil, err
	}
	g.loaded = b.now()
	trial := guest.Trial{Ticks: guest.VectorTicksMax, Strict: !f.served && !b.untried, VectorsRequired: len(b.trust.Load().keys) > 0}
	if f.served {
		trial.Ticks = guest.VectorTicksServed
	}
	g.pool, g.note, err = g.module.Serve(ctx, trial, guest.PoolOptions{InstancesMax: b.options.PoolMax,
		Settle: g.throttle.settle, Compared: b.options.CanaryCallsMin})
	if err != nil {
		g.module.Close()
		return nil, err
	}
	g.compile = time.Since(began)
	return g, nil
}

// check is all that can be said about a module without running it. Who made it
// is asked first: bytes of strangers are not even parsed.
func (b *builder) check(f file) (read *guest.File, signedBy string, err error) {
	if err = guest.CheckSize(f.wasm); err != nil {
		return nil, "", err
	}
	if !f.trusted {
		if signedBy, err = b.trust.Load().checkSigner(f.digest, f.signature); err != nil {
			return nil, "", err
		}
	}
	if read, err = guest.Read(f.wasm); err != nil {
		return nil, "", err
	}
	if !f.replayed {
		if err = b.trust.Load().denial(f.digest, &read.Manifest); err != nil {
			return nil, "", err
		}
	}
	if f.loaded {
		if err = checkNew(b.ships, f.digest, &read.Manifest); err != nil {
			return nil, "", err
		}
	}
	return read, signedBy, read.Check()
}

// checkNew is what only a module that is loaded now must keep: earlier hosts cut
// numbers above their bounds, and took any name.
func checkNew(ships []shippedModule, digest string, m *guest.Manifest) error {
	for _, s := range ships {
		if s.name == m.Name && s.digest != digest {
			return guest.Refused("manifest", "give it a name of its own: names are what lists, logs and modules.denied tell modules by",
				"the name %q is that of a module of the program, which this is not", m.Name)
		}
	}
	if err := m.CheckBounds(); err != nil {
		return guest.Refused("manifest", "ask for no more than the most, or leave the key out for the default", "%w", err)
	}
	return nil
}

// slot finds a slot, and makes that of a protocol that is new.
func (b *builder) slot(s Slot) *slot {
	if i := s.index(); i >= 0 {
		return b.slots[i]
	}
	if sl := (*b.foreign.Load())[s]; sl != nil {
		return sl
	}
	if !guest.IsProtocol(string(s)) && !guest.IsPolicySlot(string(s)) {
		panic("extensions: slot " + string(s)) // a mistake of the program
	}
	b.growing.Lock()
	defer b.growing.Unlock()
	all := maps.Clone(*b.foreign.Load())
	if all[s] == nil {
		all[s] = b.newSlot(s)
		b.foreign.Store(&all)
		b.chain()
	}
	return all[s]
}

// chain puts the places of each kind in order. What a request finds is one load and a list.
func (b *builder) chain() {
	var chains [len(Slots)][]*slot
	for i, first := range b.slots {
		chains[i] = []*slot{first}
		for place := 2; place <= guest.PlacesMax; place++ {
			if sl := (*b.foreign.Load())[Slot(guest.PolicySlot(string(first.name), place))]; sl != nil {
				chains[i] = append(chains[i], sl)
			}
		}
	}
	b.chains.Store(&chains)
}

// members are the places of a kind of policy, in the order in which they are asked.
func (b *builder) members(kind Slot) []*slot { return b.chains.Load()[kind.index()] }

func (b *builder) newSlot(s Slot) *slot {
	sl := &slot{name: s, strict: b.options.Keep != nil}
	sl.throttle = newThrottle(newCPUQuota(b.options.CPUShare, runtime.GOMAXPROCS(0)), b.sayOver(sl))
	sl.now.Store(&assignment{})
	return sl
}

// foreignSlots are those of protocols that modules brought, by name.
func (b *builder) foreignSlots() (all []*slot) {
	named := *b.foreign.Load()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		all = append(all, named[name])
	}
	return all
}

// allSlots are all there are, in the order that lists show.
func (b *builder) allSlots() []*slot {
	return append(b.slots[:len(b.slots):len(b.slots)], b.foreignSlots()...)
}

// sayOver says that calls of a slot were declined.
func (b *builder) sayOver(sl *slot) func(declined uint64) {
	return func(declined uint64) {
		module := ""
		if g := sl.now.Load().active; g != nil {
			module = g.title()
		}
		b.log.Warn("a slot is over its share of the processors", "slot", string(sl.name), "module", module, "declined", declined)
	}
}
