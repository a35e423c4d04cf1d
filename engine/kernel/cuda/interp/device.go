// Package interp is a CUDA device that interprets PTX, to prove kernels where
// there is no GPU. It is slow and strict: what a kernel may not rely on it does
// differently on purpose, and what a kernel must not do ends the launch with a
// report of thread, line and instruction.
//
// Load decodes a module once: each instruction becomes a closure over 32 lanes.
// Instructions that it does not know are refused there, by name. A launch runs
// block by block; within a block warps take their turns in a random order that
// the seed repeats. Memory begins as poison, copies arrive as late as they may or
// at random, and a shadow of shared memory finds races (shadow.go).
//
// The queue of a stream runs when somebody waits for it or asks an event.
package interp

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"corenode/engine/kernel/cuda"
)

// sharedMax and sharedPlainMax are the shared memory of a block, and without AllowShared.
const (
	sharedMax      = 227 << 10
	sharedPlainMax = 48 << 10
)

// Config says how a device behaves.
type Config struct {
	Seed    uint64 // of all that is random; the same seed repeats a run
	Workers int    // goroutines that run blocks; 0 is 1
	Memory  int64  // bytes; 0 is 1 GiB
	Shadow  bool   // find races; costs about half of the speed
	Shared  int    // bytes that a block may be allowed, at most those of Hopper, which 0 is
}

// Device is one interpreted GPU.
type Device struct {
	config  Config
	arena   *arena
	lost    *cuda.Error
	planned [faults]atomic.Int64 // calls until an injected fault, 0 for none
	run     uint64               // launches so far
	ticks   int64                // instructions so far: the device's time
	host    map[*byte]int
	kernels []*kernelCoverage
}

// kernelCoverage says which instructions of a kernel have run.
type kernelCoverage struct {
	kernel *kernel
	ran    []bool
}

// FaultKind is a failure that tests plan.
type FaultKind uint8

// The faults.
const (
	AllocFault  FaultKind = iota // an allocation finds no memory
	LaunchFault                  // a launch is refused
	StickyFault                  // a launch kills the device
	EventFault                   // an event never completes
	faults
)

// Open returns a device.
func Open(c Config) *Device {
	if c.Memory == 0 {
		c.Memory = 1 << 30
	}
	c.Workers = max(c.Workers, 1)
	c.Shared = cmp.Or(c.Shared, sharedMax)
	return &Device{config: c, arena: &arena{total: c.Memory}, host: map[*byte]int{}}
}

// Inject lets the n-th matching call from now fail; 1 is the next one. Any goroutine may call it.
func (d *Device) Inject(f FaultKind, n int) { d.planned[f].Store(int64(n)) }

// due counts down to a planned fault.
func (d *Device) due(f FaultKind) bool {
	return d.planned[f].Load() > 0 && d.planned[f].Add(-1) == 0
}

func (d *Device) err(code cuda.Code, op, format string, args ...any) error {
	return &cuda.Error{Code: code, Op: op, Msg: fmt.Sprintf(format, args...)}
}

// die makes the device unusable.
func (d *Device) die(op string, cause string) error {
	d.lost = &cuda.Error{Code: cuda.Fault, Op: op, Msg: cause, Sticky: true}
	return d.lost
}

// live returns what every call returns once the device is lost.
func (d *Device) live() error {
	if d.lost != nil {
		return d.lost
	}
	return nil
}

// Name says that this is no GPU.
func (d *Device) Name() string { return "interp" }

// Compute is that of Hopper.
func (d *Device) Compute() int { return 90 }

// Memory returns what is free and what there is.
func (d *Device) Memory() (free, total int64, err error) {
	return d.arena.total - d.arena.used.Load(), d.arena.total, d.live()
}

// Alloc returns poisoned memory.
func (d *Device) Alloc(bytes int64) (cuda.Pointer, error) {
	if err := d.live(); err != nil {
		return 0, err
	}
	if bytes <= 0 {
		return 0, d.err(cuda.Invalid, "alloc", "%d bytes", bytes)
	}
	if d.due(AllocFault) {
		return 0, d.err(cuda.OutOfMemory, "alloc", "%d bytes: injected", bytes)
	}
	c := d.arena.alloc(bytes)
	if c == nil {
		return 0, d.err(cuda.OutOfMemory, "alloc", "%d bytes of %d that are free", bytes, d.arena.total-d.arena.used.Load())
	}
	return cuda.Pointer(c.at), nil
}

// Free gives memory back; its address is not used again.
func (d *Device) Free(p cuda.Pointer) error {
	if err := d.live(); err != nil {
		return err
	}
	if err := d.arena.free(uint64(p)); err != nil {
		return d.err(cuda.Invalid, "free", "%v", err)
	}
	return nil
}

// AllocHost returns ordinary memory.
func (d *Device) AllocHost(bytes int) ([]byte, error) {
	if err := d.live(); err != nil {
		return nil, err
	}
	if bytes <= 0 {
		return nil, d.err(cuda.Invalid, "alloc host", "%d bytes", bytes)
	}
	b := make([]byte, bytes)
	fill(b, poison)
	d.host[&b[0]] = bytes
	return b, nil
}

// FreeHost checks that it gets what AllocHost returned.
func (d *Device) FreeHost(b []byte) error {
	if len(b) == 0 || d.host[&b[0]] != len(b) {
		return d.err(cuda.Invalid, "free host", "%d bytes that are not from AllocHost", len(b))
	}
	delete(d.host, &b[0])
	return d.live()
}

// TensorMap checks and encodes a tensor.
func (d *Device) TensorMap(t cuda.Tensor) (cuda.TensorMap, error) {
	m, err := encodeTensor(t)
	if err != nil {
		return m, d.err(cuda.Invalid, "tensor map", "%v", err)
	}
	return m, d.live()
}

// Close forgets everything.
func (d *Device) Close() error {
	d.lost = &cuda.Error{Code: cuda.Invalid, Op: "close", Msg: "the device is closed", Sticky: true}
	d.arena.chunks = nil
	return nil
}

// Instructions is how many instructions of warps have run.
func (d *Device) Instructions() int64 { return d.ticks }

// Unexecuted lists the instructions of the loaded kernels that never ran, so that
// a test can prove that it runs all of them.
func (d *Device) Unexecuted() []string {
	var all []string
	for _, c := range d.kernels {
		for i, ran := range c.ran {
			if s := c.kernel.code[i].source; !ran && s.line > 0 {
				all = append(all, fmt.Sprintf("%s, line %d: %s", c.kernel.name, s.line, s.text))
			}
		}
	}
	return all
}

// Ran says whether a kernel of that name ever ran.
func (d *Device) Ran(kernel string) bool {
	return slices.ContainsFunc(d.kernels, func(c *kernelCoverage) bool {
		return c.kernel.name == kernel && slices.Contains(c.ran, true)
	})
}

// module is a loaded PTX text.
type module struct {
	device  *Device
	kernels map[string]*function
}

// Load decodes PTX.
func (d *Device) Load(image []byte) (cuda.Module, error) {
	if err := d.live(); err != nil {
		return nil, err
	}
	f, err := parse(string(image))
	if err != nil {
		return nil, d.err(cuda.BadImage, "load", "%v", err)
	}
	version, _ := strconv.Atoi(strings.Trim(f.target, "sm_a"))
	if version < 50 || version > 90 || strings.HasSuffix(f.target, "a") && version != 90 {
		return nil, d.err(cuda.BadImage, "load", "target %s on a device of compute capability 9.0", f.target)
	}
	m := &module{device: d, kernels: map[string]*function{}}
	constants, err := m.place(f)
	if err != nil {
		return nil, err
	}
	for _, e := range f.entries {
		k, err := decode(f, e, constants)
		if err == nil && k.sharedBytes > sharedPlainMax {
			err = fmt.Errorf("%s has %d bytes of static shared memory", e.name, k.sharedBytes)
		}
		if err != nil {
			return nil, d.err(cuda.BadImage, "load", "%v", err)
		}
		cover := &kernelCoverage{k, make([]bool, len(k.code))}
		m.kernels[e.name] = &function{device: d, kernel: k, cover: cover, shared: sharedPlainMax}
		d.kernels = append(d.kernels, cover)
	}
	return m, nil
}

// place gives the variables of a module their memory.
func (m *module) place(f *file) (constants []byte, err error) {
	for _, s := range f.symbols {
		switch s.space {
		case constant:
			at := (len(constants) + s.align - 1) / s.align * s.align
			constants = append(constants, make([]byte, at-len(constants)+s.size)...)
			copy(constants[at:], s.init)
			s.at = uint64(at)
		case global:
			p, err := m.device.Alloc(int64(max(s.size, 1)))
			if err != nil {
				return nil, err
			}
			b, _ := m.device.arena.bytes(uint64(p), int64(s.size))
			clear(b)
			copy(b, s.init)
			s.at = uint64(p)
		}
	}
	return constants, nil
}

// Function finds a kernel.
func (m *module) Function(name string) (cuda.Function, error) {
	f := m.kernels[name]
	if f == nil {
		return nil, m.device.err(cuda.NotFound, "function", "no kernel %q in the module", name)
	}
	return f, m.device.live()
}

// function is a kernel of a module.
type function struct {
	device *Device
	kernel *kernel
	cover  *kernelCoverage
	shared int
}

// ParamBytes is the size of the parameter block.
func (f *function) ParamBytes() int { return f.kernel.paramBytes }

// AllowShared raises the limit of shared memory.
func (f *function) AllowShared(bytes int) error {
	if most := f.device.config.Shared; bytes < 0 || bytes+f.kernel.sharedBytes > most {
		return f.device.err(cuda.Invalid, "allow shared", "%d bytes, at most %d", bytes, most)
	}
	f.shared = max(f.shared, bytes+f.kernel.sharedBytes)
	return f.device.live()
}
