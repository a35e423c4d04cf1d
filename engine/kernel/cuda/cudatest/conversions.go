package cudatest

import (
	"math"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// integral are the roundings to integers by their names in PTX.
var integral = map[string]func(float64) float64{
	".rni": math.RoundToEven, ".rzi": math.Trunc, ".rmi": math.Floor, ".rpi": math.Ceil,
}

// Conversions checks cvt between numbers of different kinds.
func Conversions(t *testing.T, d cuda.Driver) {
	floats, integers := floatValues(), integerValues()
	narrowing(t, d, floats)
	widening(t, d, integers)
	toIntegers(t, d, floats)
	fromIntegers(t, d, integers)
}

func narrowing(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for suffix, mode := range modes {
		expect(t, d, "cvt"+suffix+".f16.f32 %hd, %ra;"+result16, values, func(a, _, _ uint64) uint64 {
			return uint64(tensor.F16.Encode(single(a), tensor.Conversion{Rounding: mode}))
		})
	}
	for _, c := range []struct {
		name string // of the mode
		c    tensor.Conversion
	}{
		{".rn", tensor.Conversion{}},
		{".rz", tensor.Conversion{Rounding: tensor.RZ}},
		{".rn.relu", tensor.Conversion{ReLU: true}},
	} {
		expect(t, d, "cvt"+c.name+".bf16.f32 %hd, %ra;"+result16, values, func(a, _, _ uint64) uint64 {
			return uint64(tensor.BF16.Encode(single(a), c.c))
		})
		for suffix, f := range map[string]tensor.Format{".bf16x2.f32": tensor.BF16, ".f16x2.f32": tensor.F16} {
			expect(t, d, op32("cvt"+c.name+suffix, 2), values, func(a, b, _ uint64) uint64 {
				return uint64(f.Encode(single(a), c.c))<<16 | uint64(f.Encode(single(b), c.c))
			})
		}
	}
	for suffix, f := range map[string]tensor.Format{".e4m3x2.f32": tensor.E4M3, ".e5m2x2.f32": tensor.E5M2} {
		c := tensor.Conversion{Finite: true}
		expect(t, d, "cvt.rn.satfinite"+suffix+" %hd, %ra, %rb;"+result16, values, func(a, b, _ uint64) uint64 {
			return uint64(f.Encode(single(a), c))<<8 | uint64(f.Encode(single(b), c))
		})
	}
	// A NaN keeps its sign and its upper bits: an H200 has shown it of quiet ones. That a signaling NaN may become infinity so
	// is what the code says that ptxas 13.0 makes of it, two integer instructions.
	signaling := [3]uint64{0x7f80_0001, 0, 0}
	expect(t, d, op32("cvt.rna.tf32.f32", 1), append(values, signaling), func(a, _, _ uint64) uint64 {
		if x := single(a); x != x {
			return a &^ 0x1fff
		}
		return uint64(tensor.TF32.Encode(single(a), tensor.Conversion{Rounding: tensor.RNA}))
	})
	for suffix, round := range integral {
		expect(t, d, op32("cvt"+suffix+".f32.f32", 1), values, func(a, _, _ uint64) uint64 {
			return uint64(tensor.F32.Encode(round(single(a)), tensor.Conversion{}))
		})
	}
}

func widening(t *testing.T, d cuda.Driver, values [][3]uint64) {
	expect(t, d, "cvt.f32.f16 %rd, %ha;"+result32, values, func(a, _, _ uint64) uint64 {
		return uint64(tensor.F32.Encode(tensor.F16.Decode(uint32(a&0xffff)), tensor.Conversion{}))
	})
	// Bits are moved, those of NaN as well: an H200 does it so.
	expect(t, d, "cvt.f32.bf16 %rd, %ha;"+result32, values, func(a, _, _ uint64) uint64 { return a & 0xffff << 16 })
	for suffix, f := range map[string]tensor.Format{".e4m3x2": tensor.E4M3, ".e5m2x2": tensor.E5M2} {
		half := func(code uint64) uint64 {
			return uint64(tensor.F16.Encode(f.Decode(uint32(code&255)), tensor.Conversion{}))
		}
		expect(t, d, "cvt.rn.f16x2"+suffix+" %rd, %ha;"+result32, values, func(a, _, _ uint64) uint64 { return half(a>>8)<<16 | half(a) })
	}
}

// toIntegers checks that values beyond the type become its ends, and NaN 0.
func toIntegers(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for suffix, round := range integral {
		expect(t, d, "cvt"+suffix+".s32.f32 %rd, %ra;"+result32, values, func(a, _, _ uint64) uint64 {
			x := round(single(a))
			if x != x {
				return 0
			}
			return uint64(uint32(int32(max(min(x, math.MaxInt32), math.MinInt32))))
		})
		expect(t, d, "cvt"+suffix+".u32.f32 %rd, %ra;"+result32, values, func(a, _, _ uint64) uint64 {
			x := round(single(a))
			if x != x {
				return 0
			}
			return uint64(max(min(x, math.MaxUint32), 0))
		})
		expect(t, d, "cvt"+suffix+".s64.f32 %d, %ra;", values, func(a, _, _ uint64) uint64 {
			switch x := round(single(a)); {
			case x != x:
				return 1 << 63
			case x >= 0x1p63:
				return math.MaxInt64
			case x < -0x1p63:
				return 1 << 63
			default:
				return uint64(int64(x))
			}
		})
	}
}

func fromIntegers(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for suffix, mode := range modes {
		code := func(x float64) uint64 { return uint64(tensor.F32.Encode(x, tensor.Conversion{Rounding: mode})) }
		expect(t, d, "cvt"+suffix+".f32.s32 %rd, %ra;"+result32, values, func(a, _, _ uint64) uint64 { return code(float64(signed(a))) })
		expect(t, d, "cvt"+suffix+".f32.u32 %rd, %ra;"+result32, values, func(a, _, _ uint64) uint64 { return code(float64(uint32(a))) })
		expect(t, d, "cvt"+suffix+".f32.u64 %rd, %a;"+result32, values, func(a, _, _ uint64) uint64 {
			return code(odd(exact(0).SetUint64(a)))
		})
		expect(t, d, "cvt"+suffix+".f32.s64 %rd, %a;"+result32, values, func(a, _, _ uint64) uint64 {
			return code(odd(exact(0).SetInt64(int64(a))))
		})
	}
	expect(t, d, "cvt.rn.f16.s32 %hd, %ra;"+result16, values, func(a, _, _ uint64) uint64 {
		return uint64(tensor.F16.Encode(float64(signed(a)), tensor.Conversion{}))
	})
}
