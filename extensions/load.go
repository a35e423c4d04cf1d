package extensions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"corenode/extensions/meter"
	"corenode/wasm/abi"
)

// moduleBytesMax bounds a module file.
const moduleBytesMax = 8 << 20

// configBytesMax bounds an operator's configuration of a module.
const configBytesMax = 64 << 10

// file is a module as it was handed in.
type file struct {
	wasm, signature, config []byte
	// trusted: shipped with the binary, or accepted before and now only
	// replayed; the signature is not asked for.
	trusted, shipped bool
	// served: it was taken once, and serves or did. What has been required of
	// new modules since then does not bind it: a restart must not change who serves.
	served bool
	// loaded: an operator hands it in now, and it keeps what is asked of new
	// manifests (see checkNew).
	loaded   bool
	replayed bool // to compute a charge again, which modules.denied does not keep from it
}

// configOf is an operator's configuration as a module gets it: a JSON object
// without white space between its tokens, nil for one that says nothing.
func configOf(text []byte) ([]byte, error) {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	switch config := b.Bytes(); {
	case len(bytes.TrimSpace(text)) == 0, err == nil && (string(config) == "null" || string(config) == "{}"):
		return nil, nil
	case err != nil:
		return nil, refused("init", "correct the configuration", "the configuration is no JSON: %w", err)
	case config[0] != '{':
		return nil, refused("init", "correct the configuration", "the configuration is no JSON object")
	case len(config) > configBytesMax:
		return nil, refused("size", "shorten it", "the configuration has %d bytes, at most %d", len(config), configBytesMax)
	default:
		return config, nil
	}
}

func digestOf(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return digestPrefix + hex.EncodeToString(sum[:])
}

// build is the load path, the same for every module: check, meter, compile,
// instantiate, try. It ends between two steps when ctx does. The error is a
// *LoadError, or ctx's. One module is built at a time; h.building is held.
func (h *Host) build(ctx context.Context, f file) (*generation, error) {
	began := time.Now()
	info, m, signedBy, err := h.check(f)
	if err != nil {
		return nil, err
	}
	c, err := translate(ctx, f.wasm, h.options.CacheDir, f.served, h.compiler())
	if err != nil {
		return nil, err
	}
	g := &generation{digest: digestOf(f.wasm), manifest: m, shipped: f.shipped, signedBy: signedBy,
		loaded: h.now(), size: len(f.wasm), code: c}
	g.refs.Store(1)
	if err := h.link(g.code.runtime, g, info); err != nil {
		g.code.close()
		return nil, refused("instantiate", fixRebuild, "%w", err)
	}
	s := &starter{code: g.code, info: info, manifest: &g.manifest, config: f.config, shipped: f.shipped}
	if g.pool, err = h.try(ctx, g, s, f.served); err != nil {
		g.code.close()
		return nil, err
	}
	info.Custom = nil // they keep the whole file in memory
	g.compile = time.Since(began)
	return g, nil
}

// translate meters a module and compiles it, if that does not take too long: the
// engine cannot be stopped while it compiles. Where elsewhere is not nil it comes
// first, for what was not compiled before. served is as in file.
func translate(ctx context.Context, wasm []byte, cacheDir string, served bool, elsewhere compileElsewhere) (*code, error) {
	metered, _, err := meter.Rewrite(wasm, metering)
	if err != nil {
		return nil, refusedByMeter("meter", err)
	}
	if !served {
		if err := meter.CheckEffort(metered); err != nil {
			return nil, refusedByMeter("effort", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if elsewhere != nil && cacheDir != "" && !isIntact(filepath.Join(cacheDir, cacheKey(metered))) {
		if err := elsewhere(ctx, metered, cacheDir); err != nil {
			return nil, err
		}
	}
	c, err := compile(metered, cacheDir)
	if err != nil {
		return nil, refusedByEngine(err)
	}
	if err := ctx.Err(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func refusedByEngine(err error) error {
	return refused("compile", "build it with a current toolchain", "the engine does not take it: %w", err)
}

// try runs what must go well before a module may serve, and makes its pool.
func (h *Host) try(ctx context.Context, g *generation, s *starter, served bool) (*pool, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ticks := int64(VectorTicksMax)
	if served {
		ticks = vectorTicksServed
	}
	t := newTrial(ctx, s, ticks)
	first, err := t.open(s.config)
	if err != nil {
		return nil, t.stopped(err)
	}
	first.linear.stop, first.tried = nil, false // it serves
	note := ""
	if served || h.untried {
		_, err = t.vectors(s.info)
		err = t.stopped(err)
	} else {
		note, err = t.strict(s.info, len(h.options.TrustedKeys) > 0)
	}
	if err != nil {
		first.close()
		return nil, err
	}
	g.note = joinNotes(g.note, note)
	p := h.fill(g, s, first)
	for op, sums := range t.costs {
		p.costs[op].expect(sums)
	}
	return p, nil
}

// metering is how every module is rewritten.
var metering = meter.Options{MemoryPagesMax: memoryPagesMost, SafepointPages: safepointPages, ExportStart: true}

// memoryPagesMost is what the meter lets a memory declare: the cap is enforced
// where memory is given out, which knows when a guest asked for too much.
const memoryPagesMost = 65536

// check is all that can be said about a module without running it. Who made it
// is asked first: bytes of strangers are not even parsed.
func (h *Host) check(f file) (info *meter.Info, m Manifest, signedBy string, err error) {
	if len(f.wasm) > moduleBytesMax {
		return nil, m, "", refused("size", "strip debug information and unused code", "the file has %d bytes, at most %d", len(f.wasm), moduleBytesMax)
	}
	if signedBy, err = h.checkSignature(f); err != nil {
		return nil, m, "", err
	}
	if info, err = meter.Inspect(f.wasm); err != nil {
		return nil, m, "", refusedByMeter("parse", err)
	}
	if m, err = manifestOf(info); err != nil {
		return nil, m, "", err
	}
	if !f.replayed {
		if err := h.trust.Load().denial(digestOf(f.wasm), &m); err != nil {
			return nil, m, "", err
		}
	}
	if f.loaded {
		if err := h.checkNew(digestOf(f.wasm), &m); err != nil {
			return nil, m, "", err
		}
	}
	for _, rule := range []func(*meter.Info, *Manifest) error{checkImports, checkExports, checkFloats} {
		if err := rule(info, &m); err != nil {
			return nil, m, "", err
		}
	}
	return info, m, signedBy, nil
}

// checkSignature returns who signed a module.
func (h *Host) checkSignature(f file) (signedBy string, err error) {
	if f.trusted {
		return "", nil
	}
	return h.checkSigner(digestOf(f.wasm), f.signature)
}

func manifestOf(info *meter.Info) (Manifest, error) {
	section, n := info.CustomSection(manifestSection)
	if n != 1 {
		return Manifest{}, refused("manifest", "add it with: corenode module pack", "the file has %d custom sections %q, want one", n, manifestSection)
	}
	m, err := ParseManifest(section)
	if err != nil {
		return m, refused("manifest", "correct it, and pack the module again: corenode module pack", "%w", err)
	}
	return m, nil
}

// checkNew is what only a module that is loaded now must keep: earlier hosts cut
// numbers above their bounds, and took any name.
func (h *Host) checkNew(digest string, m *Manifest) error {
	for _, s := range h.ships {
		if s.name == m.Name && s.digest != digest {
			return refused("manifest", "give it a name of its own: names are what lists, logs and modules.denied tell modules by",
				"the name %q is that of a module of the program, which this is not", m.Name)
		}
	}
	if err := m.checkBounds(); err != nil {
		return refused("manifest", "ask for no more than the most, or leave the key out for the default", "%w", err)
	}
	return nil
}

// checkFloats keeps floats away from money and admission. Go's runtime always
// contains some, whatever the module does.
func checkFloats(info *meter.Info, m *Manifest) error {
	if info.Float == nil || m.Kind == kindTranslator || m.Runtime == runtimeGo {
		return nil
	}
	where := fmt.Sprintf("%s at byte %#x", info.Float.What, info.Float.Offset)
	if info.Float.Func >= 0 {
		where = fmt.Sprintf("%s in function %d at byte %#x", info.Float.What, info.Float.Func, info.Float.Offset)
	}
	return refused("floats", "compute in integers, money in nano-dollars",
		"modules of kind %s must not use floats; the first is %s", m.Kind, where)
}

// wanted are the exports of the ABI with their types: i = i32, I = i64.
var exportsWanted = []struct{ name, params, results string }{
	{"abi", "", "i"}, {"buf", "i", "i"}, {"init", "i", "I"}, {"call", "ii", "I"},
}

func checkExports(info *meter.Info, m *Manifest) error {
	for _, w := range exportsWanted {
		e := info.Export(w.name)
		if e == nil || e.Kind != meter.ExternFunc || letters(e.Params) != w.params || letters(e.Results) != w.results {
			return refused("exports", "export abi() i32, buf(i32) i32, init(i32) i64 and call(i32, i32) i64",
				"it exports no function %s with the types of the ABI", w.name)
		}
	}
	if e := info.Export("memory"); e == nil || e.Kind != meter.ExternMemory {
		return refused("exports", `export its memory as "memory"`, "it exports no memory")
	}
	if need := int64(info.MemoryMin) * pageBytes; need > m.memoryMax() {
		return refused("memory", "link it with less initial memory, or raise memory_max_bytes in the manifest",
			"it begins with %d bytes of memory and may have %d", need, m.memoryMax())
	}
	if e := info.Export("_initialize"); e != nil && (e.Kind != meter.ExternFunc || len(e.Params)+len(e.Results) > 0) {
		return refused("exports", "build it as a reactor", "its _initialize is no function without arguments")
	}
	return nil
}

func letters(types []meter.ValType) string {
	var s []byte
	for _, t := range types {
		switch byte(t) {
		case api.ValueTypeI32:
			s = append(s, 'i')
		case api.ValueTypeI64:
			s = append(s, 'I')
		default:
			s = append(s, '?')
		}
	}
	return string(s)
}

// starter makes instances of one module.
type starter struct {
	code     *code
	info     *meter.Info
	manifest *Manifest
	config   []byte
	stop     func() error // asked at every safepoint of an instance; nil is go on
	shipped  bool
	tried    bool // what its instances write is looked at by the trial, which says more about it
}

// fill makes the pool of a generation of its first instance.
func (h *Host) fill(g *generation, s *starter, first *instance) *pool {
	p := &pool{limit: h.options.PoolMax, memory: uint32(first.size()), total: 1, free: []*instance{first},
		throttle: h.slot(g.manifest.slot()).throttle, compared: uint64(h.options.CanaryCallsMin),
		learn: max(costLearn, uint64(h.options.CanaryCallsMin))}
	p.make = func() (*instance, *fault) {
		i, err := s.start()
		if err != nil {
			return nil, faultf(causeInstantiate, "%v", err)
		}
		return i, nil
	}
	if !g.shipped {
		p.image = first.image()
		ok, why := s.info.Resettable()
		if p.remake = !ok; p.remake {
			g.note = joinNotes(why+": a new instance is made for each change of account", g.note)
		}
	}
	return p
}

func joinNotes(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

// start makes one instance: memory, _initialize, ABI version, init.
func (s *starter) start() (*instance, error) {
	i := &instance{ctx: context.Background(), tried: s.tried, shipped: s.shipped, draws: rand.Uint64()}
	limit := s.manifest.memoryMax()
	if s.info.MemoryBounded {
		limit = min(limit, int64(s.info.MemoryMax)*pageBytes)
	}
	ctx := experimental.WithMemoryAllocator(i.ctx, allocator(limit, func(l *linear) { i.linear, l.stop = l, s.stop }))
	mod, err := s.code.runtime.InstantiateModule(ctx, s.code.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		return nil, refused("instantiate", "see that its data fits its memory and its elements their table", "%s", text)
	}
	i.module, i.memory = mod, mod.Memory()
	i.buf, i.call = mod.ExportedFunction("buf"), mod.ExportedFunction("call")
	i.left, _ = mod.ExportedGlobal(meter.GlobalLeft).(api.MutableGlobal)
	i.budget, _ = mod.ExportedGlobal(meter.GlobalBudget).(api.MutableGlobal)
	i.cause = mod.ExportedGlobal(meter.GlobalCause)
	for _, g := range s.info.MutableGlobals {
		if own, ok := mod.ExportedGlobal(g.Export).(api.MutableGlobal); ok && byte(g.Type) != valueTypeV128 {
			i.globals = append(i.globals, own)
		}
	}
	if err := s.prepare(i); err != nil {
		i.close()
		return nil, err
	}
	i.touched = false
	return i, nil
}

// valueTypeV128 is a vector, which a host cannot read; such modules are remade
// instead of restored.
const valueTypeV128 = 0x7b

// prepare runs what a module runs once.
func (s *starter) prepare(i *instance) error {
	i.arm(ticksInit)
	for _, begin := range []struct{ export, what string }{{meter.FuncStart, "its start function"}, {"_initialize", "_initialize"}} {
		if f := i.module.ExportedFunction(begin.export); f != nil {
			if err := f.CallWithStack(i.ctx, i.stack[:0]); err != nil {
				return refused("instantiate", begin.what+" must return, within its ticks", "%s: %w", begin.what, i.diagnose(err))
			}
		}
	}
	if err := i.module.ExportedFunction("abi").CallWithStack(i.ctx, i.stack[:]); err != nil {
		return refused("abi", "abi returns the version as a number, and does nothing else", "abi(): %w", i.diagnose(err))
	}
	if v := uint32(i.stack[0]); v>>16 != abi.Version>>16 || v&0xffff > abi.Version&0xffff {
		return refused("abi", "build it with an SDK of this node's version or an older one of the same major",
			"it speaks ABI %d.%d, this node %d.%d", v>>16, v&0xffff, abi.Version>>16, abi.Version&0xffff)
	}
	return s.init(i)
}

// init hands the configuration over.
func (s *starter) init(i *instance) error {
	config := s.config
	if len(config) == 0 {
		config = []byte("{}")
	}
	if f := i.write(config); f != nil {
		return refused("init", "see buf in the ABI", "%w", f)
	}
	i.stack[0] = uint64(len(config))
	if err := i.module.ExportedFunction("init").CallWithStack(i.ctx, i.stack[:]); err != nil {
		return refused("init", "init must return an output frame, within its ticks", "init: %w", i.diagnose(err))
	}
	frame, f := i.frame(i.stack[0], 64<<10)
	if f != nil {
		return refused("init", "return an output frame", "init: %w", f)
	}
	o, err := abi.ParseOutput(frame)
	switch {
	case err != nil || o.Status == abi.StatusDecline:
		return refused("init", "return an output frame with status ok", "init gave no usable output frame")
	case o.Status == abi.StatusError:
		r, _ := abi.ParseRefusal(o.Payload)
		return refused("init", "correct the configuration", "it refuses its configuration: %s", cleanRefusal(r).Msg)
	}
	return nil
}
