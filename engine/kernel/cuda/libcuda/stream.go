//go:build cuda && linux

package libcuda

import (
	"runtime"
	"slices"
	"unsafe"

	"corenode/engine/kernel/cuda"
)

// stream is a queue of the driver.
type stream struct {
	device    *device
	handle    uintptr
	kept      [][]byte // host memory of what is queued, so that it stays
	dropped   int      // of what was queued, pieces that are kept no more
	capturing bool
}

// event is a point of a stream.
type event struct {
	device   *device
	handle   uintptr
	recorded bool
	stream   *stream // that it was recorded on last, after so many pieces of host memory
	after    int
}

// graph is recorded work, ready to be replayed.
type graph struct {
	device *device
	graph  uintptr
	exec   uintptr
	kept   [][]byte
}

// keep refers to host memory until the stream, or an event behind, was waited for; what a capture names stays with its graph.
func (s *stream) keep(b []byte) { s.kept = append(s.kept, b) }

// drop lets go of the first so many pieces that were ever queued.
func (s *stream) drop(until int) {
	if n := until - s.dropped; n > 0 {
		s.kept, s.dropped = slices.Delete(s.kept, 0, n), until
	}
}

// CopyIn queues a copy to the device.
func (s *stream) CopyIn(dst cuda.Pointer, src []byte) error {
	if len(src) == 0 {
		return nil
	}
	s.keep(src)
	return s.device.locked("copy in", cuMemcpyHtoDAsync, uintptr(dst), address(&src[0]), uintptr(len(src)), s.handle)
}

// CopyOut queues a copy to the host.
func (s *stream) CopyOut(dst []byte, src cuda.Pointer) error {
	if len(dst) == 0 {
		return nil
	}
	s.keep(dst)
	return s.device.locked("copy out", cuMemcpyDtoHAsync, address(&dst[0]), uintptr(src), uintptr(len(dst)), s.handle)
}

// Copy queues a copy within the device.
func (s *stream) Copy(dst, src cuda.Pointer, bytes int64) error {
	return s.device.locked("copy", cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), s.handle)
}

// Fill queues the setting of bytes.
func (s *stream) Fill(dst cuda.Pointer, value byte, bytes int64) error {
	return s.device.locked("fill", cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(bytes), s.handle)
}

// launchBlock is a parameter block as cuLaunchKernel takes it, with the bytes behind it.
type launchBlock struct {
	extra [5]uintptr
	bytes uintptr
}

// Launch queues a kernel. The driver copies the parameters before it returns.
func (s *stream) Launch(f cuda.Function, l cuda.Launch) error {
	fn, ok := f.(*function)
	if !ok || fn.device != s.device {
		return refused("launch", "a kernel of another device")
	}
	if len(l.Params) != fn.paramBytes {
		return &cuda.Error{Code: cuda.LaunchError, Op: "launch", Msg: "the parameter block has another size than the kernel takes"}
	}
	b := &s.device.scratch.launch
	b.bytes = uintptr(len(l.Params))
	params := unsafe.SliceData(l.Params)
	b.extra = [5]uintptr{launchParams, address(params), launchParamsBytes, address(&b.bytes), launchEnd}
	err := s.device.locked("launch", cuLaunchKernel, fn.handle,
		count(l.Grid.X), count(l.Grid.Y), count(l.Grid.Z), count(l.Block.X), count(l.Block.Y), count(l.Block.Z),
		uintptr(l.Shared), s.handle, 0, address(&b.extra[0]))
	runtime.KeepAlive(params)
	return err
}

// count is a number of blocks or threads as the driver takes it.
func count(n int) uintptr { return uintptr(max(n, 1)) }

// Record queues the completion of an event.
func (s *stream) Record(e cuda.Event) error {
	ev := e.(*event)
	ev.recorded, ev.stream, ev.after = true, s, 0
	if !s.capturing {
		ev.after = s.dropped + len(s.kept)
	}
	return s.device.locked("record", cuEventRecord, ev.handle, s.handle)
}

// BeginCapture begins to collect work.
func (s *stream) BeginCapture() error {
	err := s.device.locked("capture", cuStreamBeginCapture, s.handle, captureRelaxed)
	s.capturing = err == nil
	return err
}

// EndCapture makes a graph of it.
func (s *stream) EndCapture() (cuda.Graph, error) {
	d, w := s.device, &s.device.scratch.words
	s.capturing = false
	if err := d.locked("capture", cuStreamEndCapture, s.handle, address(&w[0])); err != nil {
		return nil, err
	}
	g := &graph{device: d, graph: uintptr(w[0]), kept: s.kept}
	s.kept, s.dropped = nil, s.dropped+len(s.kept)
	if err := d.locked("capture", cuGraphInstantiate, address(&w[0]), g.graph, flags0); err != nil {
		return nil, err
	}
	g.exec = uintptr(w[0])
	return g, nil
}

// Replay queues a graph.
func (s *stream) Replay(g cuda.Graph) error {
	return s.device.locked("replay", cuGraphLaunch, g.(*graph).exec, s.handle)
}

// Synchronize waits until the stream is empty.
func (s *stream) Synchronize() error {
	err := s.device.locked("synchronize", cuStreamSynchronize, s.handle)
	if !s.capturing {
		s.drop(s.dropped + len(s.kept))
	}
	return err
}

// Close waits for the stream and removes it.
func (s *stream) Close() error {
	if err := s.Synchronize(); err != nil {
		return err
	}
	return s.device.locked("close stream", cuStreamDestroy, s.handle)
}

// Done asks whether the event has completed.
func (e *event) Done() (bool, error) {
	if !e.recorded {
		return true, nil
	}
	d := e.device
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s := d.lib.do(cuCtxSetCurrent, d.context)
	if s == 0 {
		s = d.lib.do(cuEventQuery, e.handle)
	}
	if s == notReady {
		return false, nil
	}
	if s == 0 {
		e.stream.drop(e.after)
	}
	return s == 0, d.note(d.lib.fail("event", s))
}

// Since is the time between two events, in milliseconds.
func (e *event) Since(earlier cuda.Event) (float64, error) {
	ms := &e.device.scratch.ms
	err := e.device.locked("since", cuEventElapsedTime, address(ms), earlier.(*event).handle, e.handle)
	return float64(*ms), err
}

// Close destroys the graph.
func (g *graph) Close() error {
	g.kept = nil
	if err := g.device.locked("close graph", cuGraphExecDestroy, g.exec); err != nil {
		return err
	}
	return g.device.locked("close graph", cuGraphDestroy, g.graph)
}
