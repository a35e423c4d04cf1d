package tensor_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// value decodes an element another way: its bits are moved into a float32, whose
// exponent then differs by the difference of the biases.
func value(f tensor.Format, bits uint32) float64 {
	width, fraction, shift, bias := 16, 10, 13, 127-15
	switch f {
	case tensor.BF16:
		return float64(math.Float32frombits(bits << 16))
	case tensor.E5M2:
		width, fraction, shift = 8, 2, 21
	case tensor.E4M3:
		width, fraction, shift, bias = 8, 3, 20, 127-7
	}
	mag := bits & (1<<(width-1) - 1)
	v := float64(math.Float32frombits(mag<<shift)) * math.Ldexp(1, bias)
	switch top := mag >> fraction; {
	case f == tensor.E4M3 && mag == 0x7f, f != tensor.E4M3 && top == 31 && mag&(1<<fraction-1) != 0:
		v = math.NaN()
	case f != tensor.E4M3 && top == 31:
		v = math.Inf(1)
	}
	if bits>>(width-1) != 0 {
		v = -v
	}
	return v
}

func same(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || a == b && math.Signbit(a) == math.Signbit(b)
}

func TestDecode(t *testing.T) {
	for _, f := range []tensor.Format{tensor.F16, tensor.BF16, tensor.E4M3, tensor.E5M2} {
		for bits := range uint32(1) << (8 * f.Bytes()) {
			if got, want := f.Decode(bits), value(f, bits); !same(got, want) {
				t.Fatalf("format %d: %#x is %g, want %g", f, bits, got, want)
			}
		}
	}
	if got := tensor.TF32.Decode(0x3f80_1fff); got != 1 {
		t.Errorf("tf32 with noise in its low bits is %g, want 1", got)
	}
	for _, bits := range []uint32{0, 1, 0x007f_ffff, 0x3f80_0001, 0x7f7f_ffff, 0x7f80_0000, 0xff80_0000, 0x8000_0000, 0xc123_4567} {
		if got, want := tensor.F32.Decode(bits), float64(math.Float32frombits(bits)); !same(got, want) {
			t.Errorf("f32: %#x is %g, want %g", bits, got, want)
		}
	}
}

// nearest is what rounding means: of the two numbers around x, the one that the
// direction names. codes are those of low and low + 1.
func nearest(x, low, high float64, code uint32, r tensor.Rounding) uint32 {
	up := false
	switch r {
	case tensor.RN:
		up = x-low > high-x || x-low == high-x && code%2 == 1
	case tensor.RNA:
		up = x-low >= high-x
	case tensor.RP:
		up = x > low
	}
	if up {
		return code + 1
	}
	return code
}

func TestEncodeRoundsToTheNeighborThatItsDirectionNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	mirror := map[tensor.Rounding]tensor.Rounding{tensor.RM: tensor.RP, tensor.RP: tensor.RM}
	for _, f := range []tensor.Format{tensor.F16, tensor.BF16, tensor.E4M3, tensor.E5M2} {
		sign := uint32(1) << (8*f.Bytes() - 1)
		for code := range sign - 1 {
			low, high := value(f, code), value(f, code+1)
			if math.IsNaN(high) || math.IsInf(high, 0) {
				break
			}
			for _, x := range []float64{low, high, (low + high) / 2, low + (high-low)*random.Float64()} {
				for _, r := range []tensor.Rounding{tensor.RN, tensor.RNA, tensor.RZ, tensor.RM, tensor.RP} {
					want := nearest(x, low, high, code, r)
					if x == high {
						want = code + 1
					}
					if got := f.Encode(x, tensor.Conversion{Rounding: r}); got != want {
						t.Fatalf("format %d, rounding %d: %g is %#x, want %#x", f, r, x, got, want)
					}
					other, ok := mirror[r]
					if !ok {
						other = r
					}
					if got := f.Encode(-x, tensor.Conversion{Rounding: other}); got != want|sign {
						t.Fatalf("format %d, rounding %d: %g is %#x, want %#x", f, other, -x, got, want|sign)
					}
				}
			}
		}
	}
	for range 100_000 {
		x := math.Float64frombits(random.Uint64())
		if math.IsNaN(x) {
			continue
		}
		if got, want := tensor.F32.Encode(x, tensor.Conversion{}), math.Float32bits(float32(x)); got != want {
			t.Fatalf("f32: %g is %#x, want %#x", x, got, want)
		}
	}
}

func TestEncodeEnds(t *testing.T) {
	rows := []struct {
		f    tensor.Format
		x    float64
		c    tensor.Conversion
		want uint32
	}{
		{tensor.F16, 65504, tensor.Conversion{}, 0x7bff},
		{tensor.F16, 65519.999, tensor.Conversion{}, 0x7bff},
		{tensor.F16, 65520, tensor.Conversion{}, 0x7c00},
		{tensor.F16, 1e9, tensor.Conversion{Rounding: tensor.RZ}, 0x7bff},
		{tensor.F16, -1e9, tensor.Conversion{Rounding: tensor.RP}, 0xfbff},
		{tensor.F16, 1e9, tensor.Conversion{Rounding: tensor.RP}, 0x7c00},
		{tensor.F16, 1e9, tensor.Conversion{Rounding: tensor.RM}, 0x7bff},
		{tensor.F16, -1e9, tensor.Conversion{Rounding: tensor.RM}, 0xfc00},
		{tensor.F16, math.Inf(1), tensor.Conversion{Rounding: tensor.RZ}, 0x7c00},
		{tensor.F16, math.Inf(-1), tensor.Conversion{Finite: true}, 0xfbff},
		{tensor.F16, math.NaN(), tensor.Conversion{}, 0x7fff},
		{tensor.F16, 0x1p-25, tensor.Conversion{}, 0},
		{tensor.F16, 0x1.8p-25, tensor.Conversion{}, 1},
		{tensor.BF16, math.NaN(), tensor.Conversion{}, 0x7fff},
		{tensor.BF16, -3, tensor.Conversion{ReLU: true}, 0},
		{tensor.BF16, math.MaxFloat32, tensor.Conversion{}, 0x7f80},
		{tensor.E4M3, 448, tensor.Conversion{Finite: true}, 0x7e},
		{tensor.E4M3, 1e6, tensor.Conversion{Finite: true}, 0x7e},
		{tensor.E4M3, -1e6, tensor.Conversion{Finite: true}, 0xfe},
		{tensor.E4M3, 464, tensor.Conversion{}, 0x7e}, // a tie, and 448 is even
		{tensor.E4M3, 465, tensor.Conversion{}, 0x7f},
		{tensor.E4M3, math.NaN(), tensor.Conversion{Finite: true}, 0x7f},
		{tensor.E4M3, 0x1p-9, tensor.Conversion{}, 1},
		{tensor.E5M2, 57344, tensor.Conversion{}, 0x7b},
		{tensor.E5M2, math.Inf(1), tensor.Conversion{Finite: true}, 0x7b},
		{tensor.E5M2, math.Inf(1), tensor.Conversion{}, 0x7c},
		{tensor.TF32, 1 + 0x1p-11, tensor.Conversion{Rounding: tensor.RNA}, 0x3f80_2000},
		{tensor.TF32, 1 + 0x1p-11, tensor.Conversion{}, 0x3f80_0000},
		{tensor.TF32, -1 - 0x1p-10, tensor.Conversion{}, 0xbf80_2000},
	}
	for _, r := range rows {
		if got := r.f.Encode(r.x, r.c); got != r.want {
			t.Errorf("format %d, %+v: %g is %#x, want %#x", r.f, r.c, r.x, got, r.want)
		}
	}
}
