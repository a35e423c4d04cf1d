package interp

import (
	"encoding/binary"
	"fmt"

	"corenode/engine/kernel/cuda"
)

// tensorMagic marks a tensor map of this device.
const tensorMagic = 0x70616d5f736e6574

// encodeTensor checks a tensor as the driver does and writes it down.
func encodeTensor(t cuda.Tensor) (m cuda.TensorMap, err error) {
	n := len(t.Dims)
	if n < 1 || n > 5 || len(t.Strides) != n-1 || len(t.Box) != n {
		return m, fmt.Errorf("%d dimensions, %d strides, box of %d", n, len(t.Strides), len(t.Box))
	}
	if t.At%16 != 0 || t.Elem > cuda.F32 {
		return m, fmt.Errorf("tensor of type %d at %#x", t.Elem, t.At)
	}
	for i := range n {
		if t.Dims[i] < 1 || t.Dims[i] > 1<<32 || t.Box[i] < 1 || t.Box[i] > 256 {
			return m, fmt.Errorf("dimension %d has %d elements, its box %d", i, t.Dims[i], t.Box[i])
		}
		if i > 0 && (t.Strides[i-1]%16 != 0 || t.Strides[i-1] <= 0 || t.Strides[i-1] >= 1<<40) {
			return m, fmt.Errorf("stride of dimension %d is %d bytes", i, t.Strides[i-1])
		}
	}
	inner := t.Box[0] * t.Elem.Bytes()
	switch t.Swizzle {
	case 0, 32, 64, 128:
		if inner%16 != 0 || t.Swizzle > 0 && inner != t.Swizzle { // hardware takes narrower ones too
			return m, fmt.Errorf("inner box of %d bytes with a swizzle of %d", inner, t.Swizzle)
		}
	default:
		return m, fmt.Errorf("swizzle of %d bytes", t.Swizzle)
	}
	le := binary.LittleEndian
	le.PutUint64(m[0:], tensorMagic)
	le.PutUint64(m[8:], uint64(t.At))
	m[16], m[17], m[18] = byte(t.Elem), byte(n), byte(t.Swizzle)
	for i := range n {
		le.PutUint64(m[24+8*i:], uint64(t.Dims[i]))
		le.PutUint16(m[104+2*i:], uint16(t.Box[i]))
		if i > 0 {
			le.PutUint64(m[64+8*i:], uint64(t.Strides[i-1]))
		}
	}
	return m, nil
}

// tensor is a decoded map.
type tensor struct {
	at      uint64
	elem    int // bytes
	n       int
	swizzle int
	dims    [5]int64
	strides [5]int64 // of dimension 0: the element
	box     [5]int64
}

func decodeTensor(b []byte) (t tensor, ok bool) {
	le := binary.LittleEndian
	if le.Uint64(b) != tensorMagic || b[17] < 1 || b[17] > 5 || b[16] > byte(cuda.F32) {
		return t, false
	}
	t = tensor{at: le.Uint64(b[8:]), elem: cuda.Elem(b[16]).Bytes(), n: int(b[17]), swizzle: int(b[18])}
	for i := range t.n {
		t.dims[i] = int64(le.Uint64(b[24+8*i:]))
		t.box[i] = int64(le.Uint16(b[104+2*i:]))
		t.strides[i] = int64(t.elem)
		if i > 0 {
			t.strides[i] = int64(le.Uint64(b[64+8*i:]))
		}
	}
	return t, true
}

// bytes is the size of a box in shared memory.
func (t *tensor) bytes() int {
	n := t.elem
	for i := range t.n {
		n *= int(t.box[i])
	}
	return n
}

// swizzled is where the byte for an address goes: the bits that count rows of
// 128 bytes are mixed into those that count 16 bytes.
func swizzled(at uint64, width int) uint64 {
	switch width {
	case 128:
		return at ^ at>>3&0x70
	case 64:
		return at ^ at>>3&0x30
	case 32:
		return at ^ at>>3&0x10
	}
	return at
}

// rows calls f for each contiguous row of a box: its number, its address in
// device memory and its first element in the tensor; elements below 0 or above
// the dimension are outside, as are all when inside is false.
func (t *tensor) rows(coords [5]int64, f func(row int, at uint64, first int64, inside bool) bool) bool {
	count := 1
	for i := 1; i < t.n; i++ {
		count *= int(t.box[i])
	}
	for row := range count {
		at, inside, rest := int64(t.at), true, int64(row)
		for i := 1; i < t.n; i++ {
			c := coords[i] + rest%t.box[i]
			rest /= t.box[i]
			inside = inside && c >= 0 && c < t.dims[i]
			at += c * t.strides[i]
		}
		if !f(row, uint64(at+coords[0]*int64(t.elem)), coords[0], inside) {
			return false
		}
	}
	return true
}
