package engine

import (
	"errors"
	"io"

	"corenode/engine/keep"
	"corenode/engine/kernel"
)

// ErrNoMemory says that a model's cache cannot be kept: it computes nothing, or its memory
// is on a device.
var ErrNoMemory = errors.New("engine: this model has no cache that could be kept")

// Digest tells model files apart.
func (e *Engine) Digest() string { return e.file.Digest() }

// shape is what a kept cache must agree with.
func (s *Stepper) shape() keep.Shape {
	e := s.engine
	return keep.Shape{Model: e.file.Digest(), Level: e.Describe(), KV: e.options.Cache.KV.String(), PageTokens: e.options.Cache.PageTokens,
		PageBytes: e.memory.pageBytes, StateBytes: s.stateBytes()}
}

// stateBytes is what a snapshot takes in a stream.
func (s *Stepper) stateBytes() (n int64) {
	if memory, ok := s.cache.(kernel.Memory); ok && s.pool.Hybrid() {
		for _, piece := range memory.StateMemory(0) {
			n += int64(len(piece))
		}
	}
	return n
}

// Keep writes what is worth most of the prefix cache, in at most about bytesMax bytes, and
// returns how many pages those are. It holds the step loop up until it has written.
func (s *Stepper) Keep(w io.Writer, bytesMax int64) (pages int, err error) {
	memory, ok := s.cache.(kernel.Memory)
	if !ok {
		return 0, ErrNoMemory
	}
	for len(s.open) > 0 { // a step that is launched has copies of its own to do
		s.collect()
	}
	for _, op := range s.owed { // snapshots that the next step would have copied
		op.Do(s.cache)
	}
	s.owed = s.owed[:0]
	shape := s.shape()
	c := s.pool.Config()
	entries := s.pool.Keep(int64(float64(bytesMax) * float64(c.PageBytes) / float64(shape.RecordBytes())))
	return len(entries), keep.Write(w, shape, entries, memory)
}

// Restore reads what Keep wrote. The stepper must be new. What is of another model, level or
// size of pages, cut or damaged is not taken.
func (s *Stepper) Restore(r io.Reader, size int64) (keep.Read, error) {
	memory, ok := s.cache.(kernel.Memory)
	if !ok {
		return keep.Read{}, ErrNoMemory
	}
	return keep.Restore(r, size, s.shape(), s.pool, memory)
}
