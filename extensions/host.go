package extensions

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

var (
	// ErrUnknownModule means that no module goes by a reference.
	ErrUnknownModule = errors.New("no such module")
	// ErrAmbiguous means that a reference fits more than one module.
	ErrAmbiguous = errors.New("the reference fits more than one module: name it by its digest")
	// ErrInUse means that a module serves, or is tried out, and cannot be removed.
	ErrInUse = errors.New("the module is in use: let another one serve, or end its canary or shadow, first")
	// ErrShipped means that a module is part of the program.
	ErrShipped = errors.New("the module is part of the program")
	// ErrNotSigned means that a module has no signature of a trusted key.
	ErrNotSigned = errors.New("no signature of a trusted key")
	// ErrNoPrevious means that a slot has nothing to go back to.
	ErrNoPrevious = errors.New("there is no earlier module to go back to")
	// ErrNoShadow means that a module was no shadow since it was brought into memory.
	ErrNoShadow = errors.New("the module repeats no calls: make it a shadow first")
	// ErrBeside means that a slot would have a canary and a shadow at once.
	ErrBeside = errors.New("a slot has a canary or a shadow, not both: end the one there is first (0 %)")
	// ErrSlot means that a slot does not exist.
	ErrSlot = errors.New("no such slot, want chat, responses, billing or admission")
	// ErrClosed means that the host is closed.
	ErrClosed = errors.New("the module host is closed")

	errDeclined = errors.New("the module declines")
)

// declined is what a policy's decline counts as: the builtin must answer.
var declined = &fault{cause: causeProtocol, detail: "the module declines"}

// Options say how a Host works.
type Options struct {
	// Dir holds the modules that operators loaded, and which of them serve. It
	// is made if need be, for its owner only. Empty: nothing outlives the process.
	Dir string
	// CacheDir holds compiled modules. Default Dir/cache.
	CacheDir string
	// CompileCommand is a program with arguments that does what CompileModule does,
	// given the cache folder as one more argument and the module at its standard
	// input. It compiles what is not in the cache, at low priority, so that requests
	// keep the processors. Empty, or without a cache folder: the host compiles.
	CompileCommand []string
	// TrustedKeys are the keys whose signatures count.
	TrustedKeys []ed25519.PublicKey
	// Denied are modules that are not taken, whoever signed them.
	Denied []Denial
	// AllowUnsigned accepts modules without a signature. A wrong one is never accepted.
	AllowUnsigned bool
	// Prices are what the tokens of each model id cost.
	Prices map[string]abi.Prices
	// AdmissionFailOpen admits a request when the admission policy fails on it;
	// otherwise the request is refused as Overloaded.
	AdmissionFailOpen bool
	// Log takes what happens to modules. nil: slog.Default.
	Log *slog.Logger
	// Now is the clock of everything but durations. nil: time.Now.
	Now func() time.Time
	// PoolMax is the most instances of one generation. Default 2*GOMAXPROCS.
	PoolMax int
	// CPUShare is the share of the processors that the modules of a slot may use,
	// above 0 and at most 1. Default 0.5.
	CPUShare float64
	// CanaryFactor is how many times the ticks, or the processor time, of the
	// active generation's calls those of a canary may take. Default 3.
	CanaryFactor float64
	// CanaryCallsMin is the calls of an operation that are compared, of each of
	// the two. Default 200.
	CanaryCallsMin int
}

// Host runs the modules of a node.
type Host struct {
	options Options
	log     *slog.Logger
	now     func() time.Time
	slots   [len(Slots)]*slot
	ships   []shippedModule // never changes
	ready   chan struct{}
	trust   atomic.Pointer[trust] // changed with mu held

	// untried takes modules without their first calls, for tests of what serves:
	// their hand-made guests give nonsense, or nothing but faults.
	untried bool

	closing      context.Context // done when Close begins
	close        context.CancelFunc
	selfCompiled atomic.Bool // it was logged that CompileCommand does not work

	stateDamaged bool // see StateDamaged; never changes after the start

	building sync.Mutex // one module is built at a time; taken before mu

	mu         sync.Mutex // guards what follows, and every change of an assignment; held over writes to Dir, never while a module is built
	modules    map[string]*module
	state      state
	numbers    int // of the last generation
	closed     bool
	background sync.WaitGroup
}

// shippedModule is one module that is part of the program.
type shippedModule struct {
	slot     Slot
	name     string
	history  bool
	native   handler
	digest   string                 // of the Wasm file; "" = there is none
	nativeAs string                 // what stands for a digest where the native build answered
	wasm     func() ([]byte, error) // the file
}

// nativePrefix begins what stands for the digest of a native build.
const nativePrefix = "builtin:"

// shippedModules are those of package builtin.
func shippedModules() (all []shippedModule) {
	for _, m := range builtin.Modules() {
		s := shippedModule{slot: Slot(m.Kind), name: m.Name, history: m.History, native: m.Native,
			digest: m.Digest, nativeAs: nativePrefix + m.Name, wasm: m.Wasm}
		if m.Kind == kindTranslator {
			s.slot = Slot(m.Protocol)
		}
		if m.Name == builtin.TariffName {
			s.nativeAs = builtin.TariffDigest
		}
		all = append(all, s)
	}
	return all
}

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
	h := &Host{options: o, log: o.Log, now: o.Now, ships: shipped, ready: make(chan struct{}), modules: map[string]*module{}}
	h.closing, h.close = context.WithCancel(context.Background())
	if h.log == nil {
		h.log = slog.Default()
	}
	if h.now == nil {
		h.now = time.Now
	}
	h.trust.Store(&trust{o.TrustedKeys, o.Denied})
	for _, dir := range []string{o.Dir, o.CacheDir} {
		if err := privateDir(dir); err != nil {
			return nil, err
		}
	}
	for i, name := range Slots {
		h.slots[i] = &slot{name: name}
		h.slots[i].throttle = newThrottle(newCPUShare(o.CPUShare, runtime.GOMAXPROCS(0)), h.sayOver(h.slots[i]))
		h.slots[i].now.Store(&assignment{})
	}
	for _, s := range shipped {
		h.addNative(s)
	}
	for _, sl := range h.slots[:SlotAdmission.index()] {
		if sl.builtin == nil {
			h.addNative(shippedModule{slot: sl.name, name: string(sl.name), nativeAs: nativePrefix + string(sl.name), native: declineAll})
		}
	}
	if err := h.readDir(); err != nil {
		return nil, err
	}
	h.background.Go(func() {
		defer close(h.ready)
		h.restore(shipped)
	})
	return h, nil
}

// declineAll stands in a slot for which nothing ships.
func declineAll(_ abi.Op, _, dst []byte) []byte {
	return abi.BeginOutput(dst, abi.StatusDecline, 0)
}

// privateDir makes a folder that only its owner may read: compiled code in it
// is run, and modules in it are money.
func privateDir(dir string) error {
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return os.Chmod(dir, 0o700)
}

// addNative makes the native build of a module the generation that serves.
func (h *Host) addNative(s shippedModule) {
	kind, protocol := string(s.slot), ""
	if s.slot == SlotChat || s.slot == SlotResponses {
		kind, protocol = kindTranslator, string(s.slot)
	}
	g := &generation{digest: s.nativeAs, native: s.native, shipped: true, loaded: h.now(),
		manifest: Manifest{Name: s.name, Kind: kind, Protocol: protocol, Version: "native", ABI: abi11, Runtime: "native", History: s.history}}
	g.refs.Store(1)
	sl := h.slot(s.slot)
	sl.builtin = g
	sl.now.Store(&assignment{active: g})
	h.modules[g.digest] = &module{digest: g.digest, manifest: g.manifest, known: true, shipped: true, generation: g}
}

// Ready is closed when everything that is to be loaded at the start has been,
// or has failed to.
func (h *Host) Ready() <-chan struct{} { return h.ready }

// slot finds a slot; a name that is none is a mistake of the program.
func (h *Host) slot(s Slot) *slot {
	i := s.index()
	if i < 0 {
		panic("extensions: slot " + string(s))
	}
	return h.slots[i]
}

// Close ends all loading, gives every slot back to its native build and closes
// each generation when its last user has gone.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		return nil
	}
	h.closed = true
	h.close()
	var shadows []*shadow
	for _, sl := range h.slots {
		if s := sl.now.Load().shadow; s != nil {
			shadows = append(shadows, s)
		}
		sl.now.Store(&assignment{active: sl.builtin})
	}
	h.mu.Unlock()
	for _, s := range shadows {
		s.stop()
	}
	h.background.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range h.modules {
		if m.generation != nil && m.generation.native == nil {
			m.generation.retire()
			m.generation = nil
		}
	}
	return nil
}

// spawn runs f in the background, unless the host is being closed. mu is held.
func (h *Host) spawn(f func()) {
	if !h.closed {
		h.background.Go(f)
	}
}

// caller is who a call is for.
type caller struct {
	account string
	request string // the request's id, "" where there is none, for the log
}

// call runs one op on a generation of a slot, which the caller has acquired:
// the one way to every module, native or Wasm. held is what the slot's share
// holds for it, of generation.turn. The output aliases s.out.
func (h *Host) call(sl *slot, g *generation, op abi.Op, of caller, held time.Duration, s *scratch) (abi.Output, *fault) {
	out, f := g.do(op, of, s.in, held, s.out[:0])
	s.out = out
	if f != nil {
		f.input = len(s.in)
		h.failed(g, op, of, f)
		return abi.Output{}, f
	}
	o, _ := abi.ParseOutput(out) // checkOutput has decoded it
	if o.Status == abi.StatusDecline {
		g.tally.declined.Add(1)
	}
	a := sl.now.Load()
	if a.canary == g {
		h.compare(a, g, op)
	}
	if sh := a.shadow; sh != nil && sh.generation != g &&
		int(sl.samples.Add(1)%100) < sh.percent {
		sh.offer(g, op, of, s.in, out)
	}
	return o, nil
}

// failed hears of every fault: it is counted and logged, and too many of them
// take the generation out of service.
func (h *Host) failed(g *generation, op abi.Op, of caller, f *fault) {
	g.tally.faults[f.cause].Add(1)
	if f.cause == causeOverloaded {
		return
	}
	if g.faultLines.allow(h.now()) {
		h.log.Warn("a module failed on a call", "slot", string(g.manifest.slot()), "module", g.title(), "op", op.String(),
			"id", of.request, "account", of.account, "cause", f.cause.String(), "detail", f.detail)
	}
	if g.native != nil || f.byBody() {
		return
	}
	if reason := g.breaker.fault(h.now(), g.calls()); reason != "" {
		reason += ", the last: " + f.Error()
		h.mu.Lock()
		h.spawn(func() { h.demote(g, reason) })
		h.mu.Unlock()
	}
}
