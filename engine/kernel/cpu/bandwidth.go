package cpu

import (
	"fmt"
	"time"
)

const (
	readBytes = 512 << 20 // more than any cache holds
	readChunk = 1 << 20   // that a thread claims at once
)

// Reader reads memory with all threads of a backend of its own, as fast as it
// comes: what a kernel that only streams weights could reach at most. It takes
// 512 MiB until Close.
type Reader struct {
	b     *Backend
	block block
}

// NewReader prepares reading by threads threads; 0 is GOMAXPROCS.
func NewReader(threads int) (*Reader, error) {
	b, err := New(Options{Threads: threads})
	if err != nil {
		return nil, fmt.Errorf("measure memory: %w", err)
	}
	memory, err := newBlock(readBytes)
	if err != nil {
		b.Close()
		return nil, fmt.Errorf("measure memory: %w", err)
	}
	r := &Reader{b, memory}
	for i := range r.block.b {
		r.block.b[i] = 1 // pages that nobody wrote to are all one page of zeros
	}
	return r, nil
}

// Close gives memory and threads back.
func (r *Reader) Close() {
	r.b.Close()
	r.block.free()
}

func (r *Reader) do(_, i int) { r.b.ops.readStreams(&r.block.b[i*readChunk], readChunk) }

// Pass reads everything once, in several streams per thread, with prefetches
// and the widest loads of the best level, and returns GB/s (1e9 bytes). Reading
// in one stream was measured to be a tenth slower.
func (r *Reader) Pass() float64 {
	start := time.Now()
	r.b.pool.run(readBytes/readChunk, r)
	return float64(readBytes) / time.Since(start).Seconds() / 1e9
}

// ReadBandwidth measures how fast this machine reads memory, in GB/s: the
// fastest of the passes of a Reader that fit into d, at least one. It means
// little while something else uses the memory.
func ReadBandwidth(threads int, d time.Duration) (float64, error) {
	r, err := NewReader(threads)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	return fastest(d, r.Pass), nil
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
