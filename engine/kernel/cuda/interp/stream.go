package interp

import (
	"fmt"

	"corenode/engine/kernel/cuda"
)

// work is one queued operation.
type work func() error

// stream is a queue that runs when somebody waits.
type stream struct {
	device  *Device
	queue   []work
	capture *graph
	stuck   bool // behind an event that never completes
}

// event is a point of a stream.
type event struct {
	device   *Device
	stream   *stream
	recorded int // records so far
	complete int
	at       int64 // ticks at the last completion
}

// graph is captured work.
type graph struct{ nodes []work }

// NewStream returns an empty stream.
func (d *Device) NewStream() (cuda.Stream, error) { return &stream{device: d}, d.live() }

// NewEvent returns an event.
func (d *Device) NewEvent() (cuda.Event, error) { return &event{device: d}, d.live() }

// add queues or captures work.
func (s *stream) add(w work) error {
	if err := s.device.live(); err != nil {
		return err
	}
	if s.capture != nil {
		s.capture.nodes = append(s.capture.nodes, w)
	} else {
		s.queue = append(s.queue, w)
	}
	return nil
}

// next runs the oldest work; it says whether there was any.
func (s *stream) next() (bool, error) {
	if err := s.device.live(); err != nil {
		return false, err
	}
	if len(s.queue) == 0 || s.stuck {
		return false, nil
	}
	w := s.queue[0]
	s.queue = s.queue[1:]
	return true, w()
}

// transfer queues work on device memory that is looked up when it runs.
func (s *stream) transfer(op string, p cuda.Pointer, n int64, move func(b []byte)) error {
	d := s.device
	return s.add(func() error {
		b, err := d.arena.bytes(uint64(p), n)
		if err != nil {
			return d.die(op, err.Error())
		}
		move(b)
		return nil
	})
}

// CopyIn reads src when the copy runs, not before.
func (s *stream) CopyIn(dst cuda.Pointer, src []byte) error {
	return s.transfer("copy in", dst, int64(len(src)), func(b []byte) { copy(b, src) })
}

// CopyOut fills dst when the copy runs.
func (s *stream) CopyOut(dst []byte, src cuda.Pointer) error {
	return s.transfer("copy out", src, int64(len(dst)), func(b []byte) { copy(dst, b) })
}

// Copy copies within device memory.
func (s *stream) Copy(dst, src cuda.Pointer, bytes int64) error {
	d := s.device
	return s.transfer("copy", src, bytes, func(from []byte) {
		to, err := d.arena.bytes(uint64(dst), bytes)
		if err != nil {
			_ = d.die("copy", err.Error()) // the next call returns it
			return
		}
		copy(to, from)
	})
}

// Fill sets bytes.
func (s *stream) Fill(dst cuda.Pointer, value byte, bytes int64) error {
	return s.transfer("fill", dst, bytes, func(b []byte) { fill(b, value) })
}

// Launch checks a launch and queues it.
func (s *stream) Launch(f cuda.Function, l cuda.Launch) error {
	d := s.device
	if err := d.live(); err != nil {
		return err
	}
	fn, ok := f.(*function)
	if !ok || fn.device != d {
		return d.err(cuda.Invalid, "launch", "a kernel of another device")
	}
	if d.due(LaunchFault) {
		return d.err(cuda.LaunchError, "launch", "%s: injected", fn.kernel.name)
	}
	r, err := newRun(fn.kernel, l, fn.shared)
	if err != nil {
		return d.err(cuda.LaunchError, "launch", "%s: %v", fn.kernel.name, err)
	}
	r.memory, r.shadow, r.ran = d.arena, d.config.Shadow, fn.cover.ran
	return s.add(func() error { return d.execute(r) })
}

// execute runs a launch, once or again for a graph.
func (d *Device) execute(r *kernelRun) error {
	if d.due(StickyFault) {
		return d.die("launch", r.name+": injected")
	}
	d.run++
	r.seed, r.first = d.config.Seed+d.run, nil
	r.count.Store(0)
	first := r.execute(d.config.Workers)
	d.ticks += r.count.Load()
	if first != nil {
		return d.die("launch", fmt.Sprintf("%v (seed %d, launch %d)", first, d.config.Seed, d.run))
	}
	return nil
}

// Record queues the completion of an event.
func (s *stream) Record(e cuda.Event) error {
	ev, d := e.(*event), s.device
	never := d.due(EventFault)
	ev.stream = s
	if s.capture == nil {
		ev.recorded++
	}
	captured := s.capture != nil
	return s.add(func() error {
		if never {
			s.stuck = true
			return nil
		}
		if captured {
			ev.recorded++
		}
		ev.complete++
		ev.at = d.ticks
		return nil
	})
}

// BeginCapture begins to collect.
func (s *stream) BeginCapture() error {
	if s.capture != nil {
		return s.device.err(cuda.Invalid, "capture", "the stream is captured already")
	}
	s.capture = &graph{}
	return s.device.live()
}

// EndCapture returns what was collected.
func (s *stream) EndCapture() (cuda.Graph, error) {
	if s.capture == nil {
		return nil, s.device.err(cuda.Invalid, "capture", "nothing is captured")
	}
	g := s.capture
	s.capture = nil
	return g, s.device.live()
}

// Replay queues a graph.
func (s *stream) Replay(g cuda.Graph) error {
	for _, w := range g.(*graph).nodes {
		if err := s.add(w); err != nil {
			return err
		}
	}
	return s.device.live()
}

// Synchronize runs the queue.
func (s *stream) Synchronize() error {
	if s.capture != nil {
		return s.device.err(cuda.Invalid, "synchronize", "the stream is captured")
	}
	for {
		if some, err := s.next(); err != nil {
			return err
		} else if !some {
			break
		}
	}
	if s.stuck {
		return s.device.die("synchronize", "an event never completes")
	}
	return nil
}

// Close runs the queue and ends the stream.
func (s *stream) Close() error { return s.Synchronize() }

// Done lets the stream run one operation and looks.
func (e *event) Done() (bool, error) {
	if e.complete == e.recorded || e.stream == nil {
		return true, e.device.live()
	}
	_, err := e.stream.next()
	return e.complete == e.recorded, err
}

// Since counts instructions of warps: a million of them are one millisecond.
func (e *event) Since(earlier cuda.Event) (float64, error) {
	o := earlier.(*event)
	if e.complete != e.recorded || o.complete != o.recorded || e.recorded == 0 || o.recorded == 0 {
		return 0, e.device.err(cuda.Invalid, "since", "an event has not completed")
	}
	return float64(e.at-o.at) / 1e6, e.device.live()
}

// Close forgets them.
func (g *graph) Close() error {
	g.nodes = nil
	return nil
}
