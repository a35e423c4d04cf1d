package tensor_test

import (
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// mode is a canonical layout: x is the pattern's width in units of 16 bytes,
// and exchanged the number of address bits that it changes.
type mode struct {
	swizzle      tensor.Swizzle
	x, exchanged uint32
}

var modes = []mode{{0, 1, 0}, {32, 2, 1}, {64, 4, 2}, {128, 8, 3}}

// exchange is the map on addresses that the canonical layouts are composed with:
// bits 4 and up are changed by bits 7 and up.
func (m mode) exchange(at uint32) uint32 {
	upper := (uint32(1)<<m.exchanged - 1) << 7
	return at ^ (at&upper)>>3
}

func TestDescriptorsNameTheCanonicalLayouts(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, m := range modes {
		for range 50 {
			d := tensor.Descriptor{
				Start:   m.swizzle.Period() * (1 + random.Uint32N(16)),
				Leading: 16 * (1 + random.Uint32N(512)), Stride: m.swizzle.Period() * (1 + random.Uint32N(8)),
				Swizzle: m.swizzle,
			}
			for _, size := range []int{1, 2, 4} {
				perUnit := 16 / size // the T of the layouts
				for row := range 64 {
					for k := range 2 * perUnit {
						// rows (8, m), k (T, 2): strides (x·T, SBO), (1, LBO or T) in elements
						step := uint32(16)
						if m.swizzle == 0 {
							step = d.Leading
						}
						at := d.Start + uint32(row%8)*m.x*16 + uint32(row/8)*d.Stride + uint32(k%perUnit*size) + uint32(k/perUnit)*step
						if got, want := d.At(row, k, size), m.exchange(at); got != want {
							t.Fatalf("%+v: (%d, %d) of %d bytes at %#x, want %#x", d, row, k, size, got, want)
						}
					}
				}
			}
			for row := range 64 {
				for k := range 16 {
					// rows (T, x, m): strides (1, T, LBO); k (8, k): (x·T, SBO). Without a pattern rows take SBO, k takes LBO.
					outer, inner := d.Leading, d.Stride
					if m.swizzle == 0 {
						outer, inner = d.Stride, d.Leading
					}
					units := uint32(row / 8)
					at := d.Start + uint32(row%8*2) + units%m.x*16 + units/m.x*outer + uint32(k%8)*m.x*16 + uint32(k/8)*inner
					if got, want := d.AtTransposed(row, k), m.exchange(at); got != want {
						t.Fatalf("%+v: transposed (%d, %d) at %#x, want %#x", d, row, k, got, want)
					}
				}
			}
		}
	}
}

func TestDescriptorBits(t *testing.T) {
	// A tile at 0x400 in rows of 128 bytes: stride 1024, mode 1 in the two upper bits.
	const bits = 1<<62 | uint64(1024>>4)<<32 | 1<<16 | 0x400>>4
	d, err := tensor.ReadDescriptor(bits)
	if want := (tensor.Descriptor{Start: 0x400, Leading: 16, Stride: 1024, Swizzle: 128}); err != nil || d != want {
		t.Fatalf("%+v, %v, want %+v", d, err, want)
	}
	for code, swizzle := range map[uint64]tensor.Swizzle{0: 0, 1: 128, 2: 64, 3: 32} {
		d, err := tensor.ReadDescriptor(code<<62 | 5)
		if err != nil || d.Swizzle != swizzle || d.Bits() != code<<62|5 {
			t.Errorf("mode %d: %+v, %v, bits %#x", code, d, err, d.Bits())
		}
	}
	for _, bad := range []uint64{1 << 49, 1 << 14, 1 << 30, 1 << 46, 1 << 52} {
		if _, err := tensor.ReadDescriptor(bits | bad); err == nil {
			t.Errorf("%#x was taken", bits|bad)
		}
	}
}
