package cudatest

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/cudatest/tensor"
)

const canonicalNaN = 0x7fff_ffff

// modes are the roundings of float32 arithmetic by their names in PTX.
var modes = map[string]tensor.Rounding{".rn": tensor.RN, ".rz": tensor.RZ, ".rm": tensor.RM, ".rp": tensor.RP}

// specials are float32 codes with a rule of their own.
var specials = []uint64{0, 0x8000_0000, 1, 0x8000_0001, 0x007f_ffff, 0x0080_0000, 0x3f80_0000, 0xbf80_0000, 0x3f80_0001, 0x7f7f_ffff,
	0xff7f_ffff, 0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc1_2345, 0x4b00_0001, 0x3f00_0000, 0x4020_0000}

// floatValues are all pairs of special codes and random ones, half of them of
// magnitudes near each other.
func floatValues() (values [][3]uint64) {
	random := rand.New(rand.NewPCG(13, 14))
	for _, a := range specials {
		for _, b := range specials {
			values = append(values, [3]uint64{a, b, specials[random.IntN(len(specials))]})
		}
	}
	near := func(spread uint32) uint64 {
		return uint64(random.Uint32()&0x807f_ffff | (127-spread/2+random.Uint32N(spread))<<23)
	}
	for i := range 900 {
		v := [3]uint64{uint64(random.Uint32()), uint64(random.Uint32()), uint64(random.Uint32())}
		if i%2 == 0 {
			v = [3]uint64{near(4), near(4), near(28)}
		}
		values = append(values, v)
	}
	return values
}

// exact is a finite value with all its bits.
func exact(x float64) *big.Float { return new(big.Float).SetPrec(1000).SetFloat64(x) }

// odd is a value cut to 53 bits, with the last one set if anything was lost: to
// round it again to 24 bits or fewer gives what one rounding would have given.
func odd(x *big.Float) float64 {
	y := new(big.Float).SetPrec(53).SetMode(big.ToZero).Set(x)
	f, _ := y.Float64()
	if y.Acc() != big.Exact {
		return math.Float64frombits(math.Float64bits(f) | 1)
	}
	return f
}

// fused is a·b + c of finite or special values, rounded once.
func fused(f tensor.Format, a, b, c float64, conversion tensor.Conversion) uint64 {
	rough := math.FMA(a, b, c)
	if math.IsNaN(rough) || math.IsInf(a, 0) || math.IsInf(b, 0) || math.IsInf(c, 0) {
		return uint64(f.Encode(rough, conversion))
	}
	x := new(big.Float).SetPrec(1000).Mul(exact(a), exact(b))
	x.Add(x, exact(c))
	if x.Sign() == 0 { // what cancels is +0, rounding down -0
		if conversion.Rounding == tensor.RM && (math.Signbit(a) != math.Signbit(b)) != math.Signbit(c) {
			return uint64(f.Encode(math.Copysign(0, -1), conversion))
		}
		return uint64(f.Encode(rough, conversion))
	}
	return uint64(f.Encode(odd(x), conversion))
}

// zeroLike is a zero that changes nothing when it is added to a·b.
func zeroLike(a, b float64) float64 {
	if math.Signbit(a) != math.Signbit(b) {
		return math.Copysign(0, -1)
	}
	return 0
}

// arithmetic is what add, sub, mul and fma compute in a format.
var arithmetic = map[string]func(f tensor.Format, a, b, c float64, conversion tensor.Conversion) uint64{
	"add": func(f tensor.Format, a, b, _ float64, r tensor.Conversion) uint64 { return fused(f, a, 1, b, r) },
	"sub": func(f tensor.Format, a, b, _ float64, r tensor.Conversion) uint64 { return fused(f, a, 1, -b, r) },
	"mul": func(f tensor.Format, a, b, _ float64, r tensor.Conversion) uint64 {
		return fused(f, a, b, zeroLike(a, b), r)
	},
	"fma": fused,
}

// flush replaces subnormal codes of float32 by a zero of their sign.
func flush(code uint64) uint64 {
	if code&0x7f80_0000 == 0 {
		return code & 0x8000_0000
	}
	return code
}

// unit is .sat: the nearest code in [+0, 1], of NaN +0.
func unit(code uint64) uint64 {
	f := math.Float32frombits(uint32(code))
	return uint64(math.Float32bits(max(0, min(1, f)))) * uint64(b2i(f == f && f > 0))
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func single(code uint64) float64 { return float64(math.Float32frombits(uint32(code))) }

// Floats checks floating-point instructions.
func Floats(t *testing.T, d cuda.Driver) {
	values := floatValues()
	for name, f := range arithmetic {
		n := 2 + b2i(name == "fma")
		for suffix, mode := range modes {
			r := tensor.Conversion{Rounding: mode}
			plain := func(a, b, c uint64) uint64 { return f(tensor.F32, single(a), single(b), single(c), r) }
			flushed := func(a, b, c uint64) uint64 { return flush(plain(flush(a), flush(b), flush(c))) }
			expect(t, d, op32(name+suffix+".f32", n), values, plain)
			expect(t, d, op32(name+suffix+".ftz.f32", n), values, flushed)
			expect(t, d, op32(name+suffix+".sat.f32", n), values, func(a, b, c uint64) uint64 { return unit(plain(a, b, c)) })
		}
		narrow(t, d, name, n, values)
		expect(t, d, op64(name+".rn.f64", n), doubles(), func(a, b, c uint64) uint64 {
			x, y, z := math.Float64frombits(a), math.Float64frombits(b), math.Float64frombits(c)
			return math.Float64bits(map[string]float64{"add": x + y, "sub": x - y, "mul": x * y, "fma": math.FMA(x, y, z)}[name])
		})
	}
	quotients(t, d, values)
	choices(t, d, values)
	comparisons(t, d, values)
	approximations(t, d, values)
}

// doubles are float64 codes that are numbers.
func doubles() (values [][3]uint64) {
	random := rand.New(rand.NewPCG(15, 16))
	draw := func() uint64 { return math.Float64bits(math.Ldexp(random.NormFloat64(), random.IntN(100)-50)) }
	for range 500 {
		values = append(values, [3]uint64{draw(), draw(), draw()})
	}
	return values
}

// narrow checks an operation in f16 and bf16, alone and in pairs.
func narrow(t *testing.T, d cuda.Driver, name string, operands int, values [][3]uint64) {
	for suffix, f := range map[string]tensor.Format{".f16": tensor.F16, ".bf16": tensor.BF16} {
		one := func(a, b, c uint64) uint64 {
			x, y, z := f.Decode(uint32(a&0xffff)), f.Decode(uint32(b&0xffff)), f.Decode(uint32(c&0xffff))
			return arithmetic[name](f, x, y, z, tensor.Conversion{})
		}
		var spread [][3]uint64 // codes of either half, with all exponents
		for _, v := range values {
			spread = append(spread, [3]uint64{v[0] ^ v[1]>>16, v[1] ^ v[2]>>16, v[2] ^ v[0]>>16})
		}
		expect(t, d, op16(name+".rn"+suffix, operands), spread, one)
		expect(t, d, op32(name+".rn"+suffix+"x2", operands), spread, func(a, b, c uint64) uint64 {
			a, b, c = a&math.MaxUint32, b&math.MaxUint32, c&math.MaxUint32
			return one(a, b, c) | one(a>>16, b>>16, c>>16)<<16
		})
	}
}

// quotients checks what is rounded right though its value has no end.
func quotients(t *testing.T, d cuda.Driver, values [][3]uint64) {
	wide := func() *big.Float { return new(big.Float).SetPrec(200).SetMode(big.ToZero) }
	divide := func(a, b float64) float64 {
		if a == 0 || b == 0 || math.IsInf(a, 0) || math.IsInf(b, 0) || a != a || b != b {
			return a / b
		}
		x := wide().Quo(exact(a), exact(b))
		return odd(x) // 200 bits of an endless quotient of 24-bit values are never a tie
	}
	root := func(a float64) float64 {
		if a != a || a <= 0 || math.IsInf(a, 0) {
			return math.Sqrt(a)
		}
		return odd(wide().Sqrt(exact(a)))
	}
	for suffix, mode := range modes {
		code := func(x float64) uint64 { return uint64(tensor.F32.Encode(x, tensor.Conversion{Rounding: mode})) }
		expect(t, d, op32("div"+suffix+".f32", 2), values, func(a, b, _ uint64) uint64 { return code(divide(single(a), single(b))) })
		expect(t, d, op32("rcp"+suffix+".f32", 1), values, func(a, _, _ uint64) uint64 { return code(divide(1, single(a))) })
		expect(t, d, op32("sqrt"+suffix+".f32", 1), values, func(a, _, _ uint64) uint64 { return code(root(single(a))) })
	}
}

// choices checks min, max, abs and neg.
func choices(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for name, less := range map[string]func(a, b float64) bool{
		"min": func(a, b float64) bool { return a < b || a == b && math.Signbit(a) },
		"max": func(a, b float64) bool { return a > b || a == b && !math.Signbit(a) },
	} {
		answer := func(a, b, _ uint64) uint64 {
			x, y := single(a), single(b)
			switch {
			case x != x && y != y:
				return canonicalNaN
			case x != x:
				return b
			case y != y || less(x, y):
				return a
			}
			return b
		}
		expect(t, d, op32(name+".f32", 2), values, answer)
		expect(t, d, op32(name+".NaN.f32", 2), values, func(a, b, c uint64) uint64 {
			if single(a) != single(a) || single(b) != single(b) {
				return canonicalNaN
			}
			return answer(a, b, c)
		})
	}
	var numbers [][3]uint64 // what becomes of NaN is not defined
	for _, v := range values {
		if x := single(v[0]); x == x {
			numbers = append(numbers, v)
		}
	}
	expect(t, d, op32("abs.f32", 1), numbers, func(a, _, _ uint64) uint64 { return a & 0x7fff_ffff })
	expect(t, d, op32("neg.f32", 1), numbers, func(a, _, _ uint64) uint64 { return a ^ 0x8000_0000 })
}

// comparisons checks setp of floats, ordered and not, and of integers.
func comparisons(t *testing.T, d cuda.Driver, values [][3]uint64) {
	const ends = "\nselp.b64 %d, 1, 0, %p;"
	for name, f := range map[string]func(a, b float64) bool{
		"eq": func(a, b float64) bool { return a == b },
		"ne": func(a, b float64) bool { return a < b || a > b },
		"lt": func(a, b float64) bool { return a < b },
		"le": func(a, b float64) bool { return a <= b },
		"gt": func(a, b float64) bool { return a > b },
		"ge": func(a, b float64) bool { return a >= b },
	} {
		ordered := func(a, b, _ uint64) uint64 { return uint64(b2i(f(single(a), single(b)))) }
		expect(t, d, "setp."+name+".f32 %p, %ra, %rb;"+ends, values, ordered)
		expect(t, d, "setp."+name+"u.f32 %p, %ra, %rb;"+ends, values, func(a, b, c uint64) uint64 {
			return max(ordered(a, b, c), uint64(b2i(single(a) != single(a) || single(b) != single(b))))
		})
		expect(t, d, "setp."+name+".s32 %p, %ra, %rb;"+ends, values, func(a, b, _ uint64) uint64 {
			return uint64(b2i(f(float64(signed(a)), float64(signed(b)))))
		})
		expect(t, d, "setp."+name+".u32 %p, %ra, %rb;"+ends, values, func(a, b, _ uint64) uint64 {
			return uint64(b2i(f(float64(a), float64(b))))
		})
	}
	expect(t, d, "setp.nan.f32 %p, %ra, %rb;"+ends, values, func(a, b, _ uint64) uint64 {
		return uint64(b2i(single(a) != single(a) || single(b) != single(b)))
	})
}

// approximations checks that the fast functions are as near as the ISA promises,
// with twice its bound, on values that are no specials.
func approximations(t *testing.T, d cuda.Driver, values [][3]uint64) {
	middling := func(a float64) bool { return math.Abs(a) > 1e-30 && math.Abs(a) < 1e30 }
	positive := func(a float64) bool { return a > 0 && middling(a) }
	for _, c := range []struct {
		name  string
		bound float64 // relative
		f     func(a float64) float64
		takes func(a float64) bool
	}{
		{"ex2.approx.f32", 0x1p-21, math.Exp2, func(a float64) bool { return math.Abs(a) < 100 }},
		{"ex2.approx.ftz.f32", 0x1p-21, math.Exp2, func(a float64) bool { return math.Abs(a) < 100 }},
		{"lg2.approx.f32", 0x1p-21, math.Log2, func(a float64) bool { return positive(a) && (a > 2 || a < 0.5) }},
		{"rcp.approx.f32", 0x1p-22, func(a float64) float64 { return 1 / a }, middling},
		{"sqrt.approx.f32", 0x1p-21, math.Sqrt, positive},
		{"rsqrt.approx.f32", 0x1p-21, func(a float64) float64 { return 1 / math.Sqrt(a) }, positive},
		{"tanh.approx.f32", 0x1p-9, math.Tanh, middling},
	} {
		var taken [][3]uint64
		for _, v := range values {
			if c.takes(single(v[0])) {
				taken = append(taken, v)
			}
		}
		for i, got := range run(t, d, op32(c.name, 1), taken)[:] {
			if i == len(taken) {
				break
			}
			x := single(taken[i][0])
			if want := c.f(x); math.Abs(single(got)-want) > c.bound*math.Abs(want) {
				t.Errorf("%s of %g: %g, want %g", c.name, x, single(got), want)
				break
			}
		}
	}
}
