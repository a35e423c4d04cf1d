// Package cuda talks to an NVIDIA GPU through Driver, an interface as small as
// the engine needs. Two things implement it: libcuda, and interp, a device
// written in Go that interprets PTX, so that all above it runs in go test.
//
// A device has memory, modules with kernels, and streams. What is queued on a
// stream runs in order and after the call: host memory that a queued copy names
// must stay as it is until the stream was waited for. A graph is a recorded
// sequence of such work that is queued with one call.
//
// A Driver belongs to one goroutine. After an error with Sticky every call
// fails: the device is opened anew, and all that was on it is loaded again.
package cuda

import "fmt"

// Pointer is an address in device memory; 0 is none.
type Pointer uint64

// Driver is one device.
type Driver interface {
	// Name is what the device calls itself.
	Name() string
	// Compute is the compute capability: 90 for 9.0.
	Compute() int
	// Memory returns the free and the whole device memory in bytes.
	Memory() (free, total int64, err error)
	// Alloc returns device memory that begins at a multiple of 256. Its content is undefined.
	Alloc(bytes int64) (Pointer, error)
	// Free gives memory back; queued work that uses it must have ended.
	Free(p Pointer) error
	// AllocHost returns page-locked host memory: only copies from and to such
	// memory run beside the host.
	AllocHost(bytes int) ([]byte, error)
	// FreeHost gives back what AllocHost returned.
	FreeHost(b []byte) error
	// Load makes the kernels of a PTX text or a cubin callable.
	Load(image []byte) (Module, error)
	// NewStream returns an empty stream.
	NewStream() (Stream, error)
	// NewEvent returns an event that was never recorded.
	NewEvent() (Event, error)
	// TensorMap describes a tensor in device memory for bulk copies.
	TensorMap(t Tensor) (TensorMap, error)
	// Close waits for the device and gives back all that it owns.
	Close() error
}

// Module is a loaded image. It lives as long as the device.
type Module interface {
	// Function finds a kernel by its name in the image.
	Function(name string) (Function, error)
}

// Function is one kernel.
type Function interface {
	// ParamBytes is the size of the parameter block that Launch takes.
	ParamBytes() int
	// AllowShared raises the limit of dynamic shared memory per block above 48 KiB.
	AllowShared(bytes int) error
}

// Dim counts blocks or threads; a count of 0 is taken as 1.
type Dim struct{ X, Y, Z int }

// Launch says how a kernel runs.
type Launch struct {
	Grid, Block Dim
	Shared      int    // bytes of dynamic shared memory
	Params      []byte // the parameters at their offsets, little-endian; copied before the call returns
}

// Stream is work in order.
type Stream interface {
	// CopyIn queues a copy to device memory.
	CopyIn(dst Pointer, src []byte) error
	// CopyOut queues a copy to host memory.
	CopyOut(dst []byte, src Pointer) error
	// Copy queues a copy within device memory.
	Copy(dst, src Pointer, bytes int64) error
	// Fill queues the setting of bytes.
	Fill(dst Pointer, value byte, bytes int64) error
	// Launch queues a kernel.
	Launch(f Function, l Launch) error
	// Record queues the completion of an event.
	Record(e Event) error
	// BeginCapture begins to collect work instead of queuing it.
	BeginCapture() error
	// EndCapture returns what was collected.
	EndCapture() (Graph, error)
	// Replay queues the work of a graph.
	Replay(g Graph) error
	// Synchronize waits until the stream is empty.
	Synchronize() error
	// Close waits for the stream and removes it.
	Close() error
}

// Event is a point of a stream.
type Event interface {
	// Done says whether what was recorded last has completed; it does not wait.
	Done() (bool, error)
	// Since returns the device time in milliseconds from an earlier event to this one.
	Since(earlier Event) (float64, error)
}

// Graph is recorded work whose addresses and shapes are fixed.
type Graph interface {
	// Close gives its memory back.
	Close() error
}

// Elem is the element type of a Tensor.
type Elem uint8

// The element types.
const (
	U8 Elem = iota // FP8 and signed bytes too
	F16
	BF16
	F32
)

// Bytes is the size of one element.
func (e Elem) Bytes() int { return [...]int{1, 2, 2, 4}[e] }

// Tensor is a matrix or more that bulk copies cut boxes out of. Dimension 0 is
// contiguous.
type Tensor struct {
	Elem    Elem
	At      Pointer
	Dims    []int   // elements per dimension, 1 to 5 of them
	Strides []int64 // bytes from one index of dimension i+1 to the next; multiples of 16
	Box     []int   // elements per dimension of one copy, at most 256
	Swizzle int     // 0, 32, 64 or 128 bytes: the width of the pattern that spreads rows over banks
}

// TensorMap is the opaque form of a Tensor that kernels take.
type TensorMap [128]byte

// Code is the kind of a device error.
type Code uint8

// The kinds of errors.
const (
	Invalid     Code = iota + 1 // an argument is wrong
	OutOfMemory                 // no memory for the request
	BadImage                    // the image does not load
	NotFound                    // no such kernel
	LaunchError                 // the launch was refused; the device is well
	Fault                       // a kernel broke a rule while it ran
)

// Error is what a device reports. Msg is for the log.
type Error struct {
	Code   Code
	Op     string // such as "alloc"
	Msg    string
	Sticky bool // the device is lost
}

// Error is the text for the log.
func (e *Error) Error() string {
	lost := ""
	if e.Sticky {
		lost = " (device lost)"
	}
	return fmt.Sprintf("cuda %s: %s%s", e.Op, e.Msg, lost)
}

// Catch turns the panic of an operation into an error, in a deferred call.
func Catch(err *error) {
	switch r := recover().(type) {
	case nil:
	case *Error:
		*err = r
	default:
		panic(r)
	}
}
