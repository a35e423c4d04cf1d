package cpu

import (
	"errors"
	"unsafe"
)

// ErrMemory is of memory that the system does not map.
var ErrMemory = errors.New("the system refuses memory")

// mapMin is the size from which memory is mapped instead of allocated: below
// it the rounding to whole operating system pages would dominate.
const mapMin = 64 << 10

// hugeMin is the size of a huge page, below which asking for one makes no sense.
const hugeMin = 2 << 20

// block is 64-byte aligned memory that is given back when freed, not when
// collected. The zero block is empty.
type block struct {
	b      []byte
	mapped bool
}

// newBlock returns n zero bytes.
func newBlock(n int) (block, error) {
	if n >= mapMin {
		b, err := mapBytes(n)
		return block{b, err == nil}, err
	}
	return block{heapBytes(n), false}, nil
}

// free gives the memory back and empties the block.
func (b *block) free() {
	if b.mapped {
		unmapBytes(b.b)
	}
	*b = block{}
}

// arena hands out memory that lives as long as the backend, piece by piece out
// of large blocks: pieces on huge pages must not each round up to one. What
// nobody wrote to takes no memory.
type arena struct {
	blocks []block
	free   []byte // of the last block
}

// arenaBlock is the size of a block, unless a piece is larger.
const arenaBlock = 256 << 20

// take returns n zero bytes, aligned to 64.
func (a *arena) take(n int) ([]byte, error) {
	size := roundUp(n, 64)
	if size > len(a.free) {
		if err := a.extend(size); err != nil {
			return nil, err
		}
	}
	piece := a.free[:n:n]
	a.free = a.free[size:]
	return piece, nil
}

// extend makes room for at least n bytes; what is left of the last block is not used any more.
func (a *arena) extend(n int) error {
	b, err := newBlock(max(n, arenaBlock))
	if err != nil {
		return err
	}
	a.blocks, a.free = append(a.blocks, b), b.b
	return nil
}

// release gives everything back.
func (a *arena) release() {
	for i := range a.blocks {
		a.blocks[i].free()
	}
	*a = arena{}
}

// floats is the block as float32 values.
func (b *block) floats() []float32 { return asFloats(b.b) }

// heapBytes is n zero bytes in the Go heap, aligned to 64. Where they fill huge
// pages, those are asked for: rows of activations are walked in columns.
func heapBytes(n int) []byte {
	b := make([]byte, n+64)
	if first := -int(uintptr(unsafe.Pointer(&b[0]))) & (hugeMin - 1); n >= first+hugeMin {
		adviseHuge(b[first : first+(n-first)&^(hugeMin-1)])
	}
	skip := -int(uintptr(unsafe.Pointer(&b[0]))) & 63
	return b[skip : skip+n : skip+n]
}

// asFloats reinterprets bytes that are aligned to 4.
func asFloats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// asBytes is the memory of x.
func asBytes(x []float32) []byte { return unsafe.Slice(bytePtr(x), 4*len(x)) }

// bytesAt is n bytes of memory, at bytes after p.
func bytesAt(p *byte, at, n int) []byte { return unsafe.Slice(skip(p, at), n) }

// asHalves reinterprets bytes that are aligned to 2.
func asHalves(b []byte) []uint16 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*uint16)(unsafe.Pointer(&b[0])), len(b)/2)
}

// grow returns s with at least n elements, aligned to 64; the old content is lost.
func grow(s []float32, n int) []float32 {
	if cap(s) >= n {
		return s[:n]
	}
	return asFloats(heapBytes(4 * n))
}

func roundUp(n, unit int) int { return (n + unit - 1) / unit * unit }
