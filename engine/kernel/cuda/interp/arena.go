package interp

import (
	"fmt"
	"slices"
	"sync/atomic"
)

// Windows of the generic address space. Device memory lies between deviceBase
// and sharedWindow.
const (
	deviceBase   = 0x7f_0000_0000
	sharedWindow = 0x8000_0000_0000
	localWindow  = 0x9000_0000_0000
	paramWindow  = 0xa000_0000_0000
	constWindow  = 0xb000_0000_0000
	windowBytes  = 1 << 32
	sharedBase   = 1024 // first address of shared memory, as on Hopper: 0 is no place
	guardBytes   = 4096 // between two allocations
	poison       = 0xff // all float types read it as NaN
)

// chunk is one allocation.
type chunk struct {
	at   uint64
	data []byte
}

func (c *chunk) end() uint64 { return c.at + uint64(len(c.data)) }

// arena is device memory: allocations in order of their addresses. Addresses
// are not used twice, so that a freed pointer is found.
type arena struct {
	chunks []*chunk
	next   uint64
	used   atomic.Int64
	total  int64
}

// alloc returns a poisoned allocation, or nil when the memory is full.
func (a *arena) alloc(n int64) *chunk {
	if n < 0 || a.used.Load()+n > a.total {
		return nil
	}
	c := &chunk{max(a.next, deviceBase), make([]byte, n)}
	fill(c.data, poison)
	a.next = (c.end() + guardBytes + 255) &^ 255
	a.chunks = append(a.chunks, c)
	a.used.Add(n)
	return c
}

func (a *arena) free(at uint64) error {
	for i, c := range a.chunks {
		if c.at == at {
			a.used.Add(-int64(len(c.data)))
			a.chunks = slices.Delete(a.chunks, i, i+1)
			return nil
		}
	}
	return fmt.Errorf("free of %#x, which is no allocation", at)
}

// find returns the allocation that n bytes at an address lie in, nil if none.
func (a *arena) find(at uint64, n int) *chunk {
	low, high := 0, len(a.chunks)
	for low < high {
		if mid := (low + high) / 2; a.chunks[mid].at <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low == 0 {
		return nil
	}
	if c := a.chunks[low-1]; uint64(n) <= uint64(len(c.data)) && at-c.at <= uint64(len(c.data)-n) {
		return c
	}
	return nil
}

// bytes returns n bytes of device memory.
func (a *arena) bytes(at uint64, n int64) ([]byte, error) {
	if n < 0 || n > a.total {
		return nil, fmt.Errorf("%d bytes of device memory", n)
	}
	c := a.find(at, int(n))
	if c == nil {
		return nil, fmt.Errorf("%d bytes at %#x are not in one allocation", n, at)
	}
	return c.data[at-c.at:][:n], nil
}

func fill(b []byte, v byte) {
	if len(b) == 0 {
		return
	}
	b[0] = v
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
