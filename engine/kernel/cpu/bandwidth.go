package cpu

import (
	"fmt"
	"time"
)

const (
	readBytes = 512 << 20 // far above every cache
	readChunk = 64 << 10  // float32 values that a thread claims at once
)

// reader reads memory with all threads of a backend, as fast as it comes.
type reader struct {
	b     *Backend
	block block
	data  []float32
}

func newReader(b *Backend) *reader {
	m := newBlock(readBytes)
	r := &reader{b, m, m.floats()}
	for i := range r.data {
		r.data[i] = 1 // pages that nobody wrote to are all one page of zeros
	}
	return r
}

func (r *reader) free() { r.block.free() }

func (r *reader) do(_, i int) { r.b.sumSquares(r.data[i*readChunk : (i+1)*readChunk]) }

// pass reads everything once and returns bytes per second.
func (r *reader) pass() float64 {
	start := time.Now()
	r.b.pool.run(len(r.data)/readChunk, r)
	return float64(readBytes) / time.Since(start).Seconds()
}

// ReadBandwidth measures how fast this machine reads memory, in GB/s (1e9
// bytes): the fastest of the passes over 512 MiB that fit into d, at least one,
// by threads threads (0 is GOMAXPROCS) with the widest loads of the best level.
// It is what a kernel that only streams weights could reach at most. It takes
// 512 MiB meanwhile, and means little while something else uses the memory.
func ReadBandwidth(threads int, d time.Duration) (float64, error) {
	b, err := New(Options{Threads: threads})
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	defer b.Close()
	r := newReader(b)
	defer r.free()
	return fastest(d, r.pass) / 1e9, nil
}

// fastest is the best result of pass within d, of one at least.
func fastest(d time.Duration, pass func() float64) float64 {
	best := 0.0
	for end := time.Now().Add(d); ; {
		best = max(best, pass())
		if !time.Now().Before(end) {
			return best
		}
	}
}

// MultiplyRate measures how fast threads (0 is GOMAXPROCS) multiply and add
// float32 in registers, in GFLOPS, a multiply-add being two: what a kernel of
// float arithmetic could reach at most.
func MultiplyRate(threads int, d time.Duration) (float64, error) {
	b, err := New(Options{Threads: threads})
	if err != nil {
		return 0, fmt.Errorf("measure arithmetic: %w", err)
	}
	defer b.Close()
	return fastest(d, b.multiplyPass) / 1e9, nil
}

// multiplyRounds is how many rounds of multiplications a thread claims at once.
const multiplyRounds = 1 << 16

// multiplier multiplies and adds in registers, as fast as they can.
type multiplier struct{ b *Backend }

func (m multiplier) do(_, _ int) { m.b.ops.multiply(multiplyRounds) }

// multiplyPass returns float32 operations per second of all threads together,
// a multiply-add being two: what arithmetic could reach at most.
func (b *Backend) multiplyPass() float64 {
	tasks := 8 * b.Threads()
	start := time.Now()
	b.pool.run(tasks, multiplier{b})
	return float64(2*tasks*multiplyRounds*b.ops.multiplies) / time.Since(start).Seconds()
}
