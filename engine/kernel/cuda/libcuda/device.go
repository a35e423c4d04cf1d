//go:build cuda && linux

package libcuda

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"corenode/engine/kernel/cuda"
)

// Numbers of the driver's interface.
const (
	attributeMajor       = 75
	attributeMinor       = 76
	nonBlocking          = 1
	functionSharedMax    = 8
	jitErrorLog          = 5
	jitErrorLogBytes     = 6
	logBytes             = 8192
	nameBytes            = 256
	defaultLibrary       = "libcuda.so.1"
	captureRelaxed       = 2
	launchParams         = 1
	launchParamsBytes    = 2
	launchEnd            = 0
	flags0               = 0
	interleaveNone       = 0
	promote256           = 3
	outOfBoundsIsZero    = 0
	tensorMapAlign       = 64
	tensorMapBytes       = 128
	paramsCountMax       = 256
	contextScheduleBlock = 4 // the thread sleeps while it waits
)

// device is one GPU with a context of its own.
type device struct {
	lib     *library
	context uintptr
	ordinal int32
	name    string
	compute int
	lost    error // the sticky error, once there was one
	host    map[*byte]int
	place   place

	scratch *scratch
}

// scratch is the memory that the driver reads arguments from and writes answers to. It lies
// in the heap, so that its addresses hold.
type scratch struct {
	words   [2]uint64
	pointer *byte
	ms      float32
	name    [nameBytes]byte
	log     [logBytes]byte
	options [2]int32
	values  [2]uintptr
	text    []byte // what ends with 0
	launch  launchBlock
	tensor  tensorArgs
	room    [tensorMapBytes + tensorMapAlign]byte
}

var _ cuda.Driver = (*device)(nil)

// Open returns the index-th GPU of the driver in a library, "" being that of the system. Where a context of it was
// left behind by Close it waits as long as that for its end.
func Open(path string, index int) (cuda.Driver, error) {
	at := place{cmp.Or(path, defaultLibrary), index}
	if err := left.await(at, closeMax); err != nil {
		return nil, err
	}
	lib, err := openLibrary(at.library)
	if err != nil {
		return nil, err
	}
	d := &device{lib: lib, host: map[*byte]int{}, scratch: new(scratch), place: at}
	if err := d.lib.fail("init", lib.do(cuInit, flags0)); err != nil {
		return nil, err
	}
	w := &d.scratch.words
	if err := lib.fail("device", lib.do(cuDeviceGet, address(&w[0]), uintptr(index))); err != nil {
		return nil, err
	}
	d.ordinal = int32(w[0])
	if err := d.describe(); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := lib.fail("context", lib.do(cuCtxCreate, address(&w[0]), contextScheduleBlock, uintptr(d.ordinal))); err != nil {
		return nil, err
	}
	d.context = uintptr(w[0])
	return d, nil
}

// describe asks what the device is.
func (d *device) describe() error {
	name, w := &d.scratch.name, &d.scratch.words
	if err := d.lib.fail("name", d.lib.do(cuDeviceGetName, address(&name[0]), nameBytes, uintptr(d.ordinal))); err != nil {
		return err
	}
	name[nameBytes-1] = 0
	d.name = goString(&name[0])
	clear(w[:]) // the driver writes 4 bytes of each
	err := errors.Join(
		d.lib.fail("attribute", d.lib.do(cuDeviceGetAttribute, address(&w[0]), attributeMajor, uintptr(d.ordinal))),
		d.lib.fail("attribute", d.lib.do(cuDeviceGetAttribute, address(&w[1]), attributeMinor, uintptr(d.ordinal))))
	d.compute = int(w[0]*10 + w[1])
	return err
}

// note keeps the error that lost the device, and returns it for every later one.
func (d *device) note(err error) error {
	if d.lost != nil && err != nil {
		return d.lost
	}
	if e, ok := errors.AsType[*cuda.Error](err); ok && e.Sticky {
		d.lost = err
	}
	return err
}

// refused is an error that the driver was not asked about.
func refused(op, format string, args ...any) error {
	return &cuda.Error{Code: cuda.Invalid, Op: op, Msg: fmt.Sprintf(format, args...)}
}

// Name is what the device calls itself.
func (d *device) Name() string { return d.name }

// Compute is the compute capability.
func (d *device) Compute() int { return d.compute }

// Memory returns the free and the whole memory.
func (d *device) Memory() (free, total int64, err error) {
	w := &d.scratch.words
	err = d.locked("memory", cuMemGetInfo, address(&w[0]), address(&w[1]))
	return int64(w[0]), int64(w[1]), err
}

// Alloc returns device memory.
func (d *device) Alloc(bytes int64) (cuda.Pointer, error) {
	if bytes <= 0 {
		return 0, refused("alloc", "%d bytes", bytes)
	}
	err := d.locked("alloc", cuMemAlloc, address(&d.scratch.words[0]), uintptr(bytes))
	if err != nil {
		return 0, err
	}
	return cuda.Pointer(d.scratch.words[0]), nil
}

// Free gives device memory back.
func (d *device) Free(p cuda.Pointer) error { return d.locked("free", cuMemFree, uintptr(p)) }

// AllocHost returns page-locked memory.
func (d *device) AllocHost(bytes int) ([]byte, error) {
	if bytes <= 0 {
		return nil, refused("alloc host", "%d bytes", bytes)
	}
	at := &d.scratch.pointer
	if err := d.locked("alloc host", cuMemHostAlloc, address(at), uintptr(bytes), flags0); err != nil {
		return nil, err
	}
	d.host[*at] = bytes
	return unsafe.Slice(*at, bytes), nil
}

// FreeHost gives it back.
func (d *device) FreeHost(b []byte) error {
	if len(b) == 0 || d.host[&b[0]] != len(b) {
		return refused("free host", "%d bytes that are not from AllocHost", len(b))
	}
	delete(d.host, &b[0])
	return d.locked("free host", cuMemFreeHost, address(&b[0]))
}

// NewStream returns a stream that waits for no other.
func (d *device) NewStream() (cuda.Stream, error) {
	if err := d.locked("stream", cuStreamCreate, address(&d.scratch.words[0]), nonBlocking); err != nil {
		return nil, err
	}
	return &stream{device: d, handle: uintptr(d.scratch.words[0])}, nil
}

// NewEvent returns an event. It lives as long as the device.
func (d *device) NewEvent() (cuda.Event, error) {
	if err := d.locked("event", cuEventCreate, address(&d.scratch.words[0]), flags0); err != nil {
		return nil, err
	}
	return &event{device: d, handle: uintptr(d.scratch.words[0])}, nil
}

// module is a loaded image.
type module struct {
	device *device
	handle uintptr
}

// Load loads a cubin, or compiles PTX; what the compiler says is in the error.
func (d *device) Load(image []byte) (cuda.Module, error) {
	c := d.scratch
	c.text = append(append(make([]byte, 0, len(image)+1), image...), 0) // PTX ends with 0
	c.log[0] = 0
	c.options = [...]int32{jitErrorLog, jitErrorLogBytes}
	c.values = [...]uintptr{address(&c.log[0]), logBytes}
	err := d.locked("load", cuModuleLoadDataEx, address(&c.words[0]), address(&c.text[0]), uintptr(len(c.options)),
		address(&c.options[0]), address(&c.values[0]))
	c.text = nil
	if err != nil {
		c.log[logBytes-1] = 0
		var e *cuda.Error
		if said := goString(&c.log[0]); errors.As(err, &e) && said != "" {
			e.Msg += ": " + said
		}
		return nil, err
	}
	return &module{d, uintptr(d.scratch.words[0])}, nil
}

// Function finds a kernel and asks for the size of its parameters.
func (m *module) Function(name string) (cuda.Function, error) {
	d, c := m.device, m.device.scratch
	c.text = append([]byte(name), 0)
	if err := d.locked("function", cuModuleGetFunction, address(&c.words[0]), m.handle, address(&c.text[0])); err != nil {
		return nil, err
	}
	f := &function{device: d, handle: uintptr(d.scratch.words[0])}
	for i := range uintptr(paramsCountMax) {
		err := d.locked("function", cuFuncGetParamInfo, f.handle, i, address(&d.scratch.words[0]), address(&d.scratch.words[1]))
		if err != nil && d.lost != nil {
			return nil, err
		}
		if err != nil {
			break // the one before was the last
		}
		f.paramBytes = int(d.scratch.words[0] + d.scratch.words[1])
	}
	return f, nil
}

// function is one kernel.
type function struct {
	device     *device
	handle     uintptr
	paramBytes int
}

// ParamBytes is the size of the parameter block.
func (f *function) ParamBytes() int { return f.paramBytes }

// AllowShared raises the limit of dynamic shared memory.
func (f *function) AllowShared(bytes int) error {
	return f.device.locked("allow shared", cuFuncSetAttribute, f.handle, functionSharedMax, uintptr(bytes))
}
