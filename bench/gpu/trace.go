package gpu

import (
	"cmp"
	"errors"
	"slices"

	"corenode/engine/kernel/cuda"
)

// traced is a device that can time each kernel. A graph is then not replayed, but its kernels are launched
// one by one between two events each. Fresh memory has a value that is small whatever type it is read
// as: nobody computes K and V of the tokens that are only said to be in a cache.
type traced struct {
	cuda.Driver
	timing bool
	fill   cuda.Stream
	events []cuda.Event // reused
	marks  []mark
}

// mark is a kernel between two events.
type mark struct {
	name        string
	begin, done cuda.Event
}

// filling is that value: 0.065 as float16, 2.4e-12 as float32.
const filling = 0x2c

func trace(d cuda.Driver) (*traced, error) {
	fill, err := d.NewStream()
	return &traced{Driver: d, fill: fill}, err
}

// Alloc implements cuda.Driver.
func (t *traced) Alloc(bytes int64) (cuda.Pointer, error) {
	p, err := t.Driver.Alloc(bytes)
	if err != nil {
		return 0, err
	}
	return p, errors.Join(t.fill.Fill(p, filling, bytes), t.fill.Synchronize())
}

// Load implements cuda.Driver.
func (t *traced) Load(image []byte) (cuda.Module, error) {
	m, err := t.Driver.Load(image)
	if err != nil {
		return nil, err
	}
	return module{m}, nil
}

// NewStream implements cuda.Driver.
func (t *traced) NewStream() (cuda.Stream, error) {
	s, err := t.Driver.NewStream()
	if err != nil {
		return nil, err
	}
	return &stream{Stream: s, t: t}, nil
}

// take returns the times of the kernels since the last call, by name, in the order of first launches.
func (t *traced) take() ([]Kernel, error) {
	var all []Kernel
	var total float64
	for _, m := range t.marks {
		ms, err := m.done.Since(m.begin)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(all, func(k Kernel) bool { return k.Name == m.name })
		if i < 0 {
			i = len(all)
			all = append(all, Kernel{Name: m.name})
		}
		all[i].Launches++
		all[i].Milliseconds += ms
		total += ms
		t.events = append(t.events, m.begin, m.done)
	}
	t.marks = t.marks[:0]
	for i := range all {
		if total > 0 {
			all[i].Share = all[i].Milliseconds / total
		}
	}
	slices.SortStableFunc(all, func(a, b Kernel) int { return cmp.Compare(b.Milliseconds, a.Milliseconds) })
	return all, nil
}

func (t *traced) event() (cuda.Event, error) {
	if n := len(t.events); n > 0 {
		e := t.events[n-1]
		t.events = t.events[:n-1]
		return e, nil
	}
	return t.NewEvent()
}

type module struct{ cuda.Module }

// Function implements cuda.Module.
func (m module) Function(name string) (cuda.Function, error) {
	f, err := m.Module.Function(name)
	if err != nil {
		return nil, err
	}
	return &function{f, name}, nil
}

type function struct {
	cuda.Function
	name string
}

// graph is a graph and what was recorded in it.
type graph struct {
	cuda.Graph
	work []func(*stream) error
}

type stream struct {
	cuda.Stream
	t         *traced
	recording bool
	work      []func(*stream) error
}

// note keeps work that a graph records.
func (s *stream) note(do func(*stream) error) {
	if s.recording {
		s.work = append(s.work, do)
	}
}

// Launch implements cuda.Stream.
func (s *stream) Launch(f cuda.Function, l cuda.Launch) error {
	own := f.(*function)
	if s.recording {
		kept := l
		kept.Params = slices.Clone(l.Params)
		s.note(func(s *stream) error { return s.Launch(own, kept) })
	}
	if !s.t.timing || s.recording {
		return s.Stream.Launch(own.Function, l)
	}
	begin, err1 := s.t.event()
	done, err2 := s.t.event()
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	s.t.marks = append(s.t.marks, mark{own.name, begin, done})
	return firstOf(s.Record(begin), s.Stream.Launch(own.Function, l), s.Record(done))
}

// Copy implements cuda.Stream.
func (s *stream) Copy(dst, src cuda.Pointer, bytes int64) error {
	s.note(func(s *stream) error { return s.Stream.Copy(dst, src, bytes) })
	return s.Stream.Copy(dst, src, bytes)
}

// Fill implements cuda.Stream.
func (s *stream) Fill(dst cuda.Pointer, value byte, bytes int64) error {
	s.note(func(s *stream) error { return s.Stream.Fill(dst, value, bytes) })
	return s.Stream.Fill(dst, value, bytes)
}

// CopyIn implements cuda.Stream.
func (s *stream) CopyIn(dst cuda.Pointer, src []byte) error {
	s.note(func(s *stream) error { return s.Stream.CopyIn(dst, src) })
	return s.Stream.CopyIn(dst, src)
}

// CopyOut implements cuda.Stream.
func (s *stream) CopyOut(dst []byte, src cuda.Pointer) error {
	s.note(func(s *stream) error { return s.Stream.CopyOut(dst, src) })
	return s.Stream.CopyOut(dst, src)
}

// BeginCapture implements cuda.Stream.
func (s *stream) BeginCapture() error {
	s.recording, s.work = true, nil
	return s.Stream.BeginCapture()
}

// EndCapture implements cuda.Stream.
func (s *stream) EndCapture() (cuda.Graph, error) {
	s.recording = false
	g, err := s.Stream.EndCapture()
	if err != nil {
		return nil, err
	}
	return &graph{g, s.work}, nil
}

// Replay implements cuda.Stream.
func (s *stream) Replay(g cuda.Graph) error {
	own := g.(*graph)
	if !s.t.timing {
		return s.Stream.Replay(own.Graph)
	}
	for _, do := range own.work {
		if err := do(s); err != nil {
			return err
		}
	}
	return nil
}
