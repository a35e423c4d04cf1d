package cpu

import (
	"fmt"
	"time"
)

const (
	readBytes = 512 << 20 // more than any cache holds
	readChunk = 1 << 20   // that a thread claims at once
)

// reader reads memory with all threads of a backend, as fast as it comes.
type reader struct {
	b     *Backend
	block block
}

func newReader(b *Backend) *reader {
	m := newBlock(readBytes)
	for i := range m.b {
		m.b[i] = 1 // pages that nobody wrote to are all one page of zeros
	}
	return &reader{b, m}
}

func (r *reader) free() { r.block.free() }

func (r *reader) do(_, i int) { r.b.ops.readStreams(&r.block.b[i*readChunk], readChunk) }

// pass reads everything once and returns bytes per second.
func (r *reader) pass() float64 {
	start := time.Now()
	r.b.pool.run(readBytes/readChunk, r)
	return float64(readBytes) / time.Since(start).Seconds()
}

// ReadBandwidth measures how fast this machine reads memory, in GB/s (1e9
// bytes): the fastest of the passes over 512 MiB that fit into d, at least one,
// by threads threads (0 is GOMAXPROCS) in several streams each, with prefetches
// and the widest loads of the best level: reading in one stream was measured to
// be a tenth slower. It is what a kernel that only streams weights could reach
// at most. It takes 512 MiB meanwhile, and means little while something else
// uses the memory.
func ReadBandwidth(threads int, d time.Duration) (float64, error) {
	b, err := New(Options{Threads: threads})
	if err != nil {
		return 0, fmt.Errorf("measure memory: %w", err)
	}
	defer b.Close()
	r := newReader(b)
	defer r.free()
	best := 0.0
	for end := time.Now().Add(d); ; {
		best = max(best, r.pass())
		if !time.Now().Before(end) {
			return best / 1e9, nil
		}
	}
}
