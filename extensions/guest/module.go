package guest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"corenode/extensions/meter"
	"corenode/wasm/abi"
)

// Options say how a module is compiled and what it runs with.
type Options struct {
	// CacheDir holds what was compiled before; "" is nowhere.
	CacheDir string
	// Unkept hears why CacheDir does not keep what was compiled, which serves all
	// the same. It is there if CacheDir is.
	Unkept func(err error)
	// Compiler comes first for what was not, if there is a CacheDir. nil: this
	// process compiles.
	Compiler *Compiler
	// Config is the operator's configuration, as Config gives it.
	Config []byte
	// Shipped: the module is part of the program. Its code is ours, so its
	// memory is shared between accounts.
	Shipped bool
	// Served: it was taken once, and what is asked of new modules since then
	// does not bind it.
	Served bool
	// Logger is what its instances talk to.
	Logger Logger
}

// Module is one compiled module. It makes instances.
type Module struct {
	*File
	options Options
	code    *code
	console console
}

// Compile meters and compiles a file that Check took, and links it with what it
// imports. It ends between two steps when ctx does. The error is a *LoadError,
// or ctx's.
func (f *File) Compile(ctx context.Context, o Options) (*Module, error) {
	c, err := translate(ctx, f.wasm, o)
	if err != nil {
		return nil, err
	}
	m := &Module{File: f, options: o, code: c, console: console{logger: o.Logger}}
	if err := link(c.runtime, &m.console, f.info); err != nil {
		c.close()
		return nil, Refused("instantiate", fixRebuild, "%w", err)
	}
	return m, nil
}

// Close gives the compiled code back. Its instances must be closed.
func (m *Module) Close() { m.code.close() }

// Metrics are the counters that the module counted, by id.
func (m *Module) Metrics() map[int]int64 {
	var all map[int]int64
	for n := range m.console.metrics {
		if k := m.console.metrics[n].Load(); k != 0 {
			if all == nil {
				all = map[int]int64{}
			}
			all[n] = k
		}
	}
	return all
}

// translate meters a module and compiles it, if that does not take too long: the
// engine cannot be stopped while it compiles.
func translate(ctx context.Context, wasm []byte, o Options) (*code, error) {
	metered, _, err := meter.Rewrite(wasm, metering)
	if err != nil {
		return nil, refusedByMeter("meter", err)
	}
	if !o.Served {
		if err := meter.CheckEffort(metered); err != nil {
			return nil, refusedByMeter("effort", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	intact := o.CacheDir != "" && isIntact(filepath.Join(o.CacheDir, cacheKey(metered)))
	if o.Compiler != nil && o.CacheDir != "" && !intact {
		if intact, err = o.Compiler.compile(ctx, metered, o.CacheDir); err != nil {
			return nil, err
		}
	}
	c, unkept, err := compile(metered, o.CacheDir, intact)
	if err != nil {
		return nil, refusedByEngine(err)
	}
	if unkept != nil {
		o.Unkept(unkept)
	}
	if err := ctx.Err(); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// metering is how every module is rewritten.
var metering = meter.Options{MemoryPagesMax: memoryPagesMax, SafepointPages: safepointPages, ExportStart: true}

// memoryPagesMax is what the meter lets a memory declare: the cap is enforced
// where memory is given out, which knows when a guest asked for too much.
const memoryPagesMax = 65536

// start is how an instance begins.
type start struct {
	config []byte
	tried  bool         // what it writes is looked at by its caller, which says more about it
	stop   func() error // asked at every safepoint; nil is go on
}

// start makes one instance: memory, _initialize, ABI version, init.
func (m *Module) start(s start) (*Instance, error) {
	limit := m.Manifest.memoryBytesMax()
	if m.info.MemoryBounded {
		limit = min(limit, int64(m.info.MemoryMax)*pageBytes)
	}
	l, err := newLinear(limit)
	if err != nil {
		return nil, Refused("instantiate", "raise the limit of the node's address space, or make memory_max_bytes smaller", "%w", err)
	}
	l.stop = s.stop
	i := &Instance{ctx: context.Background(), linear: l, manifest: &m.Manifest, tried: s.tried, shipped: m.options.Shipped,
		draws: rand.Uint64()}
	mod, err := m.instantiate(experimental.WithMemoryAllocator(i.ctx, l))
	if err != nil {
		l.Free() // the engine does so with instances that it made
		text, _, _ := strings.Cut(err.Error(), "\n")
		return nil, Refused("instantiate", "see that its data fits its memory and its elements their table", "%s", text)
	}
	i.module, i.memory = mod, mod.Memory()
	i.buf, i.call = mod.ExportedFunction("buf"), mod.ExportedFunction("call")
	i.left, _ = mod.ExportedGlobal(meter.GlobalLeft).(api.MutableGlobal)
	i.budget, _ = mod.ExportedGlobal(meter.GlobalBudget).(api.MutableGlobal)
	i.cause = mod.ExportedGlobal(meter.GlobalCause)
	for _, g := range m.info.MutableGlobals {
		if own, ok := mod.ExportedGlobal(g.Export).(api.MutableGlobal); ok && byte(g.Type) != valueTypeV128 {
			i.globals = append(i.globals, own)
		}
	}
	if err := prepare(i, s.config); err != nil {
		i.Close()
		return nil, err
	}
	i.touched = false
	return i, nil
}

// instantiate runs the engine. What it panics with is an error: in a pool nothing else stands between it and the node.
func (m *Module) instantiate(ctx context.Context) (mod api.Module, err error) {
	defer func() {
		if r := recover(); r != nil {
			mod, err = nil, fmt.Errorf("the engine stopped: %v", r)
		}
	}()
	return m.code.runtime.InstantiateModule(ctx, m.code.compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions())
}

// Fresh makes an instance that its caller looks at, with the configuration that the module serves with.
func (m *Module) Fresh() (*Instance, error) {
	return m.start(start{config: m.options.Config, tried: true})
}

// valueTypeV128 is a vector, which a host cannot read; such modules are remade
// instead of restored.
const valueTypeV128 = 0x7b

// prepare runs what a module runs once.
func prepare(i *Instance, config []byte) error {
	i.arm(ticksInit)
	for _, begin := range []struct{ export, what string }{{meter.FuncStart, "its start function"}, {"_initialize", "_initialize"}} {
		if f := i.module.ExportedFunction(begin.export); f != nil {
			if err := f.CallWithStack(i.ctx, i.stack[:0]); err != nil {
				return Refused("instantiate", begin.what+" must return, within its ticks", "%s: %w", begin.what, i.diagnose(err))
			}
		}
	}
	if err := i.module.ExportedFunction("abi").CallWithStack(i.ctx, i.stack[:]); err != nil {
		return Refused("abi", "abi returns the version as a number, and does nothing else", "abi(): %w", i.diagnose(err))
	}
	if v := uint32(i.stack[0]); v>>16 != abi.Version>>16 || v&0xffff > abi.Version&0xffff {
		return Refused("abi", "build it with an SDK of this node's version or an older one of the same major",
			"it speaks ABI %d.%d, this node %d.%d", v>>16, v&0xffff, abi.Version>>16, abi.Version&0xffff)
	}
	return initialize(i, config)
}

// initialize hands the configuration over.
func initialize(i *Instance, config []byte) error {
	if len(config) == 0 {
		config = []byte("{}")
	}
	if f := i.write(config); f != nil {
		return Refused("init", "see buf in the ABI", "%w", f)
	}
	i.stack[0] = uint64(len(config))
	if err := i.module.ExportedFunction("init").CallWithStack(i.ctx, i.stack[:]); err != nil {
		return Refused("init", "init must return an output frame, within its ticks", "init: %w", i.diagnose(err))
	}
	frame, f := i.frame(i.stack[0], 64<<10)
	if f != nil {
		return Refused("init", "return an output frame", "init: %w", f)
	}
	o, err := abi.ParseOutput(frame)
	switch {
	case err != nil || o.Status == abi.StatusDecline:
		return Refused("init", "return an output frame with status ok", "init gave no usable output frame")
	case o.Status == abi.StatusError:
		r, _ := abi.ParseRefusal(o.Payload)
		r = CleanRefusal(r)
		return Refused("init", "correct the configuration", "it refuses its configuration: %s", abi.Located(r.Param, r.Msg))
	}
	return nil
}
