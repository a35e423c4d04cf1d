package extensions

import (
	"context"
	"log/slog"
	"runtime"
	"time"

	"corenode/extensions/meter"
	"corenode/wasm/abi"
)

// Offline is a module that went through the load path without a host, for
// those who study it: its instances are the caller's, one by one. The signature
// is left to the caller.
type Offline struct {
	Manifest Manifest
	Digest   string
	Vectors  []byte   // its golden vectors as they are in the file; nil without
	Notes    []string // what was accepted and a person should know

	generation *generation
	starter    *starter
	info       *meter.Info
}

// OpenOffline checks, meters and compiles a module. What it logs goes to log,
// nil is nowhere. The error is a *LoadError.
func OpenOffline(wasm []byte, log *slog.Logger) (*Offline, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	h := &Host{options: Options{AllowUnsigned: true}, log: log, now: time.Now, ships: shippedModules()}
	h.trust.Store(&trust{})
	info, m, _, err := h.check(file{wasm: wasm, loaded: true})
	if err != nil {
		return nil, err
	}
	vectors, n := info.CustomSection(vectorsSection)
	if n > 1 {
		return nil, refused("vectors", "put all vectors into one array", "the file has %d custom sections %q", n, vectorsSection)
	}
	c, err := translate(context.Background(), wasm, "", false, nil)
	if err != nil {
		return nil, err
	}
	g := &generation{digest: digestOf(wasm), manifest: m, size: len(wasm), code: c}
	if err := h.link(g.code.runtime, g, info); err != nil {
		g.code.close()
		return nil, refused("instantiate", fixRebuild, "%w", err)
	}
	o := &Offline{Manifest: m, Digest: g.digest, Vectors: vectors, generation: g, info: info,
		starter: &starter{code: g.code, info: info, manifest: &g.manifest, tried: true}}
	if ok, why := info.Resettable(); !ok {
		o.Notes = append(o.Notes, why+": a new instance is made for each change of account")
	}
	return o, nil
}

// Slot is where the module serves.
func (o *Offline) Slot() Slot { return o.Manifest.slot() }

// Budget is the ticks that a call gets.
func (o *Offline) Budget(op abi.Op, inputBytes int) int64 {
	return o.generation.manifest.budget(op, inputBytes)
}

// Try runs what a node with trusted keys runs of a new module before it takes it:
// the golden vectors in the file, and one usual call of each operation. The
// error is a *LoadError, as the node would say.
func (o *Offline) Try(config []byte) error {
	config, err := configOf(config)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := *o.starter
	s.config = config
	_, err = newTrial(context.Background(), &s, VectorTicksMax).strict(o.info, true)
	return err
}

// Instance makes a fresh instance that was initialised with config.
func (o *Offline) Instance(config []byte) (*OfflineInstance, error) {
	config, err := configOf(config)
	if err != nil {
		return nil, err
	}
	s := *o.starter
	s.config = config
	i, err := s.start()
	if err != nil {
		return nil, err
	}
	return &OfflineInstance{instance: i, module: o}, nil
}

// Close gives the compiled code back. Its instances must be closed.
func (o *Offline) Close() { o.generation.code.close() }

// OfflineInstance is one instance, for one call at a time.
type OfflineInstance struct {
	instance *instance
	module   *Offline
}

// Call does one op under the budget of every call. It appends the output frame
// to dst and tells the ticks it took. After an error, which is what a host
// counts as a fault, the instance is only to be closed.
func (i *OfflineInstance) Call(op abi.Op, in, dst []byte) (out []byte, ticks int64, err error) {
	in = i.module.Manifest.record(op, in)
	frame, f := i.instance.run(op, in, i.module.Budget(op, len(in)))
	ticks = int64(i.instance.ticks)
	if f != nil {
		return dst, ticks, f
	}
	return append(dst, frame...), ticks, nil
}

// MemoryBytes is the size of the instance's memory.
func (i *OfflineInstance) MemoryBytes() int64 { return int64(i.instance.memory.Size()) }

// Close ends the instance.
func (i *OfflineInstance) Close() { i.instance.close() }
