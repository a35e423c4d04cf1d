// Package eager runs every operation of kernel.Backend as CUDA kernels of its own, one after the
// other as they are asked for. It is the plain way to compute on a GPU, and what faster ways are
// compared with.
//
// Activations are float32 in device memory. Matrices stay float32, float16, bfloat16, Q8_0, Q4_K or
// E4M3 with scales; other types become float16 when they are loaded (MXFP4 bfloat16). All sums are
// float32 in an order that the shape of one row decides: bits do not depend on the batch, the page
// size or where a prompt was cut.
//
// Operations queue work and return. What the device reports ends in a panic with the *cuda.Error: an
// operation has no other way to fail, and the step loop is made anew by its supervisor. After one the
// backend is of no use (Failed); whoever owns it closes it and loads the weights on a new one.
package eager

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

const (
	stagingBytes = 16 << 20
	// A wait polls so often without sleeping, for an answer at once, and sleeps for a short
	// time each before it sleeps for longer.
	waitPolls = 2000
	waitShort = 20 * time.Microsecond
	waitLong  = time.Millisecond
	// WaitDefault bounds a wait for the device: a step takes far less.
	WaitDefault = time.Minute
)

// Options of a backend. Zero values mean what their comment says.
type Options struct {
	// WaitMax is how long the device may take to finish what was queued, not counting the time of
	// asking it: WaitDefault when 0. After that it is lost.
	WaitMax time.Duration
}

// Backend runs on one device and owns it. One goroutine uses it.
type Backend struct {
	device  cuda.Driver
	stream  cuda.Stream
	done    cuda.Event
	kernels map[string]cuda.Function
	waitMax time.Duration
	failed  error

	staging []byte        // page-locked; what is queued reads from it until the next wait
	staged  int           // bytes of it in use
	halves  [2]cuda.Event // of the staging memory: what they were copied from last
	args    args

	ints  Room   // row numbers and ids
	pairs Room   // experts of a step's rows
	mixed Room   // DeltaNet's inputs after the convolution
	steps layout // the step that the device knows
	draws drawing

	mu      sync.Mutex // guards garbage
	garbage []cuda.Pointer
}

var _ kernel.Backend = (*Backend)(nil)

// New takes a device over; it is closed when this fails, too.
func New(d cuda.Driver, o Options) (*Backend, error) {
	b := newBackend(d, o)
	if err := b.prepare(images()); err != nil {
		_ = d.Close() // the first error says more
		return nil, err
	}
	return b, nil
}

func newBackend(d cuda.Driver, o Options) *Backend {
	return &Backend{device: d, kernels: map[string]cuda.Function{}, waitMax: cmp.Or(o.WaitMax, WaitDefault)}
}

// prepare loads the modules and takes what a backend always has.
func (b *Backend) prepare(images map[string]string) (err error) {
	for _, text := range images {
		m, err := b.device.Load([]byte(text))
		if err != nil {
			return err
		}
		for _, name := range entries(text) {
			if b.kernels[name], err = m.Function(name); err != nil {
				return err
			}
		}
	}
	if b.stream, err = b.device.NewStream(); err != nil {
		return err
	}
	if b.done, err = b.device.NewEvent(); err != nil {
		return err
	}
	b.staging, err = b.device.AllocHost(stagingBytes)
	return err
}

// Name implements kernel.Backend.
func (b *Backend) Name() string { return "cuda/eager " + b.device.Name() }

// Memory is the free and the whole memory of the device.
func (b *Backend) Memory() (free, total int64, err error) { return b.device.Memory() }

// Failed is what ended an operation, nil while the backend is well.
func (b *Backend) Failed() error { return b.failed }

// Must ends an operation that the device could not do.
func (b *Backend) Must(err error) {
	if err != nil {
		b.failed = errors.Join(err)
		panic(err)
	}
}

// note keeps an error that lost the device: memory that is not there leaves it well.
func (b *Backend) note(err error) error {
	if e, ok := errors.AsType[*cuda.Error](err); ok && e.Sticky {
		b.failed = err
	}
	return err
}

// buffer is device memory; it is given back by Release, or when nobody refers to it any more.
type buffer struct {
	at      cuda.Pointer
	n       int
	dropped runtime.Cleanup
}

// Len implements kernel.Buffer.
func (b *buffer) Len() int { return b.n }

// at is where a buffer begins, 0 without one. It must hold n values.
func at(b kernel.Buffer, n int) cuda.Pointer {
	if b == nil {
		return 0
	}
	v := b.(*buffer)
	if v.n < n {
		panic(fmt.Sprintf("a buffer of %d values, want %d", v.n, n))
	}
	return v.at
}

// Upload implements kernel.Backend.
func (b *Backend) Upload(dst kernel.Buffer, off int, src []float32) {
	b.CopyBytes(at(dst, off+len(src))+cuda.Pointer(4*off), bytesOf(src))
}

// Download implements kernel.Backend.
func (b *Backend) Download(dst []float32, src kernel.Buffer, off int) {
	to, from := bytesOf(dst), at(src, off+len(dst))+cuda.Pointer(4*off)
	for len(to) > 0 {
		part := b.room(min(len(to), len(b.staging)))
		b.Must(b.stream.CopyOut(part, from))
		b.Wait()
		copy(to, part)
		to, from = to[len(part):], from+cuda.Pointer(len(part))
	}
}

// CopyIn queues a copy of numbers to the device. They may change as soon as it returns.
func (b *Backend) CopyIn(dst cuda.Pointer, v []int32) { b.CopyBytes(dst, bytesOf(v)) }

// CopyBytes queues a copy to the device. The bytes may change as soon as it returns.
func (b *Backend) CopyBytes(dst cuda.Pointer, src []byte) {
	for len(src) > 0 {
		part := b.room(min(len(src), len(b.staging)))
		copy(part, src)
		b.Must(b.stream.CopyIn(dst, part))
		src, dst = src[len(part):], dst+cuda.Pointer(len(part))
	}
}

// room returns n bytes of staging memory, at most all of it.
func (b *Backend) room(n int) []byte {
	if b.staged+n > len(b.staging) {
		b.Wait()
	}
	part := b.staging[b.staged : b.staged+n]
	b.staged = min(len(b.staging), (b.staged+n+15)&^15)
	return part
}

// Wait returns when all that was queued has ended. A device that does not come to an end is lost.
func (b *Backend) Wait() {
	b.Must(b.stream.Record(b.done))
	b.await(b.done)
	b.staged = 0
}

// await returns when an event has completed.
func (b *Backend) await(e cuda.Event) {
	slept := time.Duration(0)
	for polls := 0; ; polls++ {
		done, err := e.Done()
		b.Must(err)
		if done {
			return
		}
		if slept >= b.waitMax {
			b.Must(&cuda.Error{Code: cuda.Fault, Op: "wait", Msg: fmt.Sprintf("not done after %v", b.waitMax), Sticky: true})
		}
		if polls >= waitPolls {
			pause := waitShort
			if slept > waitLong {
				pause = waitLong
			}
			time.Sleep(pause)
			slept += pause
		}
	}
}

// Close gives the device back with all that is on it.
func (b *Backend) Close() {
	if b.device == nil {
		return
	}
	_ = b.device.Close() // nobody is left to be told
	b.device = nil
}

// Room is device memory that grows.
type Room struct {
	at    cuda.Pointer
	bytes int64
}

// Need makes room; the content is lost when it grows.
func (b *Backend) Need(s *Room, bytes int64) cuda.Pointer {
	if bytes > s.bytes {
		if s.at != 0 {
			b.Wait()
			b.Must(b.device.Free(s.at))
			s.at, s.bytes = 0, 0
		}
		size := max(bytes, 4096)
		p, err := b.device.Alloc(size)
		b.Must(err)
		s.at, s.bytes = p, size
	}
	return s.at
}

// bytesOf is the memory of numbers. Hosts of GPUs are little-endian, as devices are.
func bytesOf[T float32 | int32](v []T) []byte {
	if len(v) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&v[0])), 4*len(v))
}
