package interp

import (
	"math"
	"math/rand/v2"
	"testing"
)

// narrow is a type as IEEE 754, or the FP8 paper for e4m3, writes it down. Its
// positive finite values by code are the oracle for conversions.
type narrow struct {
	name               string
	exponent, mantissa int
	codes              int // of positive finite values
	infinite           uint64
}

var narrows = []narrow{
	{"f16", 5, 10, 0x7c00, 0x7c00},
	{"bf16", 8, 7, 0x7f80, 0x7f80},
	{"e4m3x2", 4, 3, 0x7f, 0},
	{"e5m2x2", 5, 2, 0x7c, 0},
}

func (n narrow) value(code int) float64 {
	e, m := code>>n.mantissa, float64(code&(1<<n.mantissa-1))/float64(int(1)<<n.mantissa)
	bias := 1<<(n.exponent-1) - 1
	if e == 0 {
		return m * math.Pow(2, float64(1-bias))
	}
	return (1 + m) * math.Pow(2, float64(e-bias))
}

// nearest searches all values for the one that is nearest; of two the even code.
func (n narrow) nearest(v float64, saturate bool) uint64 {
	low, high := 0, n.codes // the first code above |v|
	a := math.Abs(v)
	for low < high {
		if mid := (low + high) / 2; n.value(mid) <= a {
			low = mid + 1
		} else {
			high = mid
		}
	}
	below, above := low-1, low
	code := uint64(below)
	if d := (n.value(above) - a) - (a - n.value(below)); d < 0 || d == 0 && above%2 == 0 {
		code = uint64(above) // the code after the last is the value that rounds to infinity
	}
	if code >= uint64(n.codes) {
		code = n.infinite
		if saturate {
			code = uint64(n.codes - 1)
		}
	}
	return code
}

func TestConversionsFindTheNearestValue(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	var cases [][]uint64
	for range 8192 {
		v := float32(random.NormFloat64() * math.Pow(2, float64(random.IntN(48)-28)))
		if random.IntN(2) == 0 { // halfway between two values of f16, bf16 or FP8
			drop := []int{13, 16, 20, 21}[random.IntN(4)]
			v = math.Float32frombits(math.Float32bits(v)&^(1<<drop-1) | 1<<(drop-1))
		}
		cases = append(cases, []uint64{uint64(math.Float32bits(v)), 0})
	}
	for _, n := range narrows {
		op, src, saturate, shift := "cvt.rn."+n.name+".f32", []string{"f32"}, false, 15
		if n.infinite == 0 { // FP8 comes in pairs: the first operand is the upper one
			op, src, saturate, shift = "cvt.rn.satfinite."+n.name+".f32", []string{"f32", "f32"}, true, 7
		}
		for i, got := range lanesOf(t, op, "b16", src, cases) {
			v := fromSingle(cases[i][0])
			want := n.nearest(v, saturate)
			if v < 0 {
				want |= 1 << shift
			}
			if saturate {
				got >>= 8
			}
			if got != want {
				t.Fatalf("%s of %g (%#x): %#x, want %#x", op, v, cases[i][0], got, want)
			}
		}
	}
}

// TestConversionsBack reads every code of the narrow types.
func TestConversionsBack(t *testing.T) {
	for _, n := range narrows[:2] {
		var cases [][]uint64
		for code := range n.codes {
			cases = append(cases, []uint64{uint64(code)}, []uint64{uint64(code) | 0x8000})
		}
		for i, got := range lanesOf(t, "cvt.f32."+n.name, "f32", []string{"b16"}, cases) {
			want := float32(n.value(i / 2))
			if i%2 == 1 {
				want = -want
			}
			if got != uint64(math.Float32bits(want)) {
				t.Fatalf("%s %#x: %#x, want %g", n.name, cases[i][0], got, want)
			}
		}
	}
	for _, n := range narrows[2:] {
		var cases [][]uint64
		for code := range n.codes {
			cases = append(cases, []uint64{uint64(code) | uint64(n.codes-1-code)<<8})
		}
		for i, got := range lanesOf(t, "cvt.rn.f16x2."+n.name, "b32", []string{"b16"}, cases) {
			low, high := narrows[0].nearest(n.value(i), false), narrows[0].nearest(n.value(n.codes-1-i), false)
			if got != low|high<<16 {
				t.Fatalf("%s %#x: %#x, want %#x", n.name, cases[i][0], got, low|high<<16)
			}
		}
	}
}

func TestConversionsToIntegers(t *testing.T) {
	for op, want := range map[string]func(v float64) uint64{
		"cvt.rzi.s32.f32": func(v float64) uint64 { return uint64(uint32(int32(clampTo(math.Trunc(v), -1<<31, 1<<31-1)))) },
		"cvt.rni.s32.f32": func(v float64) uint64 { return uint64(uint32(int32(clampTo(math.RoundToEven(v), -1<<31, 1<<31-1)))) },
		"cvt.rmi.u32.f32": func(v float64) uint64 { return uint64(uint32(clampTo(math.Floor(v), 0, 1<<32-1))) },
		"cvt.rpi.u32.f32": func(v float64) uint64 { return uint64(uint32(clampTo(math.Ceil(v), 0, 1<<32-1))) },
	} {
		cases := operands(1)
		for i, got := range lanesOf(t, op, "b32", []string{"f32"}, cases) {
			v := fromSingle(cases[i][0])
			w := uint64(0)
			if v == v {
				w = want(v)
			}
			if got != w {
				t.Fatalf("%s of %g: %#x, want %#x", op, v, got, w)
			}
		}
	}
	cases := operands(1)
	for i, got := range lanesOf(t, "cvt.rn.f32.s32", "f32", []string{"b32"}, cases) {
		if want := uint64(math.Float32bits(float32(int32(cases[i][0])))); got != want {
			t.Fatalf("cvt.rn.f32.s32 of %#x: %#x, want %#x", cases[i][0], got, want)
		}
	}
	for i, got := range lanesOf(t, "cvt.sat.s8.s32", "b32", []string{"b32"}, cases) {
		if want := int8(clampTo(float64(int32(cases[i][0])), -128, 127)); int8(got) != want {
			t.Fatalf("cvt.sat.s8.s32 of %#x: %#x, want %d", cases[i][0], got, want)
		}
	}
}

func clampTo(v, low, high float64) float64 { return math.Min(math.Max(v, low), high) }
