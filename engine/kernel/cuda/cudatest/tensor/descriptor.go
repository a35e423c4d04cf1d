package tensor

import "fmt"

// Swizzle is the width in bytes of the pattern that spreads rows over the banks
// of shared memory: 0, 32, 64 or 128.
type Swizzle int

// swizzles are the codes of a wgmma descriptor.
var swizzles = [...]Swizzle{0, 128, 64, 32}

// Address is where the pattern moves a byte to: which 16 bytes of a row are
// exchanged depends on the address in units of 128 bytes.
func (s Swizzle) Address(at uint32) uint32 {
	if s == 0 {
		return at
	}
	return at ^ at>>3&(uint32(s)-16)
}

// Period is the alignment at which the pattern begins: 8 rows of its width.
func (s Swizzle) Period() uint32 { return max(16, 8*uint32(s)) }

// Descriptor is a matrix in shared memory as an operand of wgmma names it. The
// matrix is made of core matrices of 8 rows by 16 bytes.
type Descriptor struct {
	Start   uint32 // shared address, a multiple of 16
	Leading uint32 // bytes, see At
	Stride  uint32 // bytes, see At
	Swizzle Swizzle
}

// ReadDescriptor takes the 64 bits apart.
func ReadDescriptor(bits uint64) (Descriptor, error) {
	const field = 1<<14 - 1
	d := Descriptor{
		Start: uint32(bits&field) << 4, Leading: uint32(bits>>16&field) << 4, Stride: uint32(bits>>32&field) << 4,
		Swizzle: swizzles[bits>>62],
	}
	if base := bits >> 49 & 7; base != 0 {
		return d, fmt.Errorf("wgmma descriptor %#x has base offset %d: patterns have to begin at a multiple of %d",
			bits, base, d.Swizzle.Period())
	}
	if bits&^(field|field<<16|field<<32|7<<49|3<<62) != 0 {
		return d, fmt.Errorf("wgmma descriptor %#x sets bits that have no meaning", bits)
	}
	return d, nil
}

// Bits is the descriptor as kernels build it.
func (d Descriptor) Bits() uint64 {
	code := uint64(0)
	for i, s := range swizzles {
		if s == d.Swizzle {
			code = uint64(i)
		}
	}
	return uint64(d.Start>>4) | uint64(d.Leading>>4)<<16 | uint64(d.Stride>>4)<<32 | code<<62
}

// At is the shared address of element (row, k) of an operand whose rows are
// contiguous along k: row counts M for A and N for B, size is of one element.
// Stride leads to the next 8 rows. Leading leads to the next 16 bytes of k
// without a swizzle; with one, k goes on within the row of the pattern.
func (d Descriptor) At(row, k, size int) uint32 {
	line, byteInRow := uint32(row%8), uint32(k*size)
	at := d.Start + uint32(row/8)*d.Stride
	if d.Swizzle == 0 {
		return at + line*16 + byteInRow/16*d.Leading + byteInRow%16
	}
	return d.Swizzle.Address(at + line*uint32(d.Swizzle) + byteInRow)
}

// AtTransposed is At for an operand of 16-bit elements that is contiguous along
// its rows index: each line of a core matrix has 8 of them for one k.
func (d Descriptor) AtTransposed(row, k int) uint32 {
	byteInLine := uint32(row * 2)
	if d.Swizzle == 0 {
		return d.Start + byteInLine/16*d.Stride + byteInLine%16 + uint32(k%8)*16 + uint32(k/8)*d.Leading
	}
	width := uint32(d.Swizzle)
	at := d.Start + byteInLine/width*d.Leading + byteInLine%width + uint32(k%8)*width + uint32(k/8)*d.Stride
	return d.Swizzle.Address(at)
}
