package cudatest

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda"
)

// awkward are values at which integer arithmetic goes wrong first.
var awkward = []uint64{0, 1, 2, 31, 32, 33, 63, 64, 255, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff,
	1 << 32, math.MaxInt64, 1 << 63, math.MaxUint64, math.MaxUint64 - 31, 0x0102_0304_0506_0708}

// integerValues are all pairs of awkward values and random ones.
func integerValues() (values [][3]uint64) {
	random := rand.New(rand.NewPCG(11, 12))
	for _, a := range awkward {
		for _, b := range awkward {
			values = append(values, [3]uint64{a, b, awkward[random.IntN(len(awkward))]})
		}
	}
	for range 600 {
		values = append(values, [3]uint64{random.Uint64() >> random.IntN(64), random.Uint64() >> random.IntN(64), random.Uint64()})
	}
	return values
}

func signed(x uint64) int64   { return int64(int32(x)) }
func unsigned(x uint64) int64 { return int64(uint32(x)) }

// shiftLeft and its like shift by any distance: beyond the width nothing is left.
func shiftLeft(a uint32, n uint32) uint32 {
	if n > 31 {
		return 0
	}
	return a << n
}

func arithmetic32(extend func(uint64) int64) map[string]func(a, b, c uint64) uint64 {
	wide := func(x int64) *big.Int { return big.NewInt(x) }
	low := func(x *big.Int) uint64 { // two's complement, 32 bits
		return new(big.Int).And(x, wide(math.MaxUint32)).Uint64()
	}
	product := func(a, b uint64) *big.Int { return new(big.Int).Mul(wide(extend(a)), wide(extend(b))) }
	return map[string]func(a, b, c uint64) uint64{
		"add":    func(a, b, _ uint64) uint64 { return low(wide(extend(a) + extend(b))) },
		"sub":    func(a, b, _ uint64) uint64 { return low(wide(extend(a) - extend(b))) },
		"mul.lo": func(a, b, _ uint64) uint64 { return low(product(a, b)) },
		"mul.hi": func(a, b, _ uint64) uint64 { return low(new(big.Int).Rsh(product(a, b), 32)) },
		"min":    func(a, b, _ uint64) uint64 { return low(wide(min(extend(a), extend(b)))) },
		"max":    func(a, b, _ uint64) uint64 { return low(wide(max(extend(a), extend(b)))) },
		"mad.lo": func(a, b, c uint64) uint64 { return low(new(big.Int).Add(product(a, b), wide(extend(c)))) },
		"mad.hi": func(a, b, c uint64) uint64 {
			return low(new(big.Int).Add(new(big.Int).Rsh(product(a, b), 32), wide(extend(c))))
		},
		"shr": func(a, b, _ uint64) uint64 { return low(wide(extend(a) >> min(unsigned(b), 32))) },
		"bfe": func(a, b, c uint64) uint64 { return low(wide(field(extend, a, b&255, c&255))) },
	}
}

// field is bfe, bit by bit as the ISA defines it.
func field(extend func(uint64) int64, a, at, length uint64) (v int64) {
	sign := uint64(0)
	if extend(math.MaxUint64) < 0 && length > 0 {
		sign = a >> min(at+length-1, 31) & 1
	}
	for i := range uint64(32) {
		bit := sign
		if i < length && at+i <= 31 {
			bit = a >> (at + i) & 1
		}
		v |= int64(bit << i)
	}
	return v
}

// Integers checks integer instructions.
func Integers(t *testing.T, d cuda.Driver) {
	values := integerValues()
	operands := map[string]int{"mad.lo": 3, "mad.hi": 3, "bfe": 3}
	for suffix, extend := range map[string]func(uint64) int64{".u32": unsigned, ".s32": signed} {
		for name, answer := range arithmetic32(extend) {
			expect(t, d, op32(name+suffix, max(2, operands[name])), values, answer)
		}
		wide := "mul.wide" + suffix + " %d, %ra, %rb;"
		expect(t, d, wide, values, func(a, b, _ uint64) uint64 { return uint64(extend(a)) * uint64(extend(b)) })
		mad := "mad.wide" + suffix + " %d, %ra, %rb, %c;"
		expect(t, d, mad, values, func(a, b, c uint64) uint64 { return uint64(extend(a))*uint64(extend(b)) + c })
	}
	integerBits(t, d, values)
	integers64(t, d, values)
	divisions(t, d, values)
}

// low32 makes an answer of a function of 32-bit values.
func low32(f func(a, b, c uint32) uint32) func(a, b, c uint64) uint64 {
	return func(a, b, c uint64) uint64 { return uint64(f(uint32(a), uint32(b), uint32(c))) }
}

func integerBits(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for name, f := range map[string]func(a, b, c uint32) uint32{
		"and.b32": func(a, b, _ uint32) uint32 { return a & b },
		"or.b32":  func(a, b, _ uint32) uint32 { return a | b },
		"xor.b32": func(a, b, _ uint32) uint32 { return a ^ b },
		"shl.b32": func(a, b, _ uint32) uint32 { return shiftLeft(a, b) },
	} {
		expect(t, d, op32(name, 2), values, low32(f))
	}
	for name, f := range map[string]func(a, b, c uint32) uint32{
		"not.b32":  func(a, _, _ uint32) uint32 { return ^a },
		"brev.b32": func(a, _, _ uint32) uint32 { return bits.Reverse32(a) },
		"popc.b32": func(a, _, _ uint32) uint32 { return uint32(bits.OnesCount32(a)) },
		"clz.b32":  func(a, _, _ uint32) uint32 { return uint32(bits.LeadingZeros32(a)) },
		"neg.s32":  func(a, _, _ uint32) uint32 { return -a },
		"abs.s32":  func(a, _, _ uint32) uint32 { return uint32(max(int32(a), -int32(a))) },
		"bfind.u32": func(a, _, _ uint32) uint32 {
			return uint32(bits.Len32(a) - 1)
		},
	} {
		expect(t, d, op32(name, 1), values, low32(f))
	}
	for name, f := range map[string]func(a, b, c uint32) uint32{
		"prmt.b32":       permute,
		"shf.l.wrap.b32": func(a, b, c uint32) uint32 { return uint32((uint64(b)<<32 | uint64(a)) << (c & 31) >> 32) },
		"shf.r.wrap.b32": func(a, b, c uint32) uint32 { return uint32((uint64(b)<<32 | uint64(a)) >> (c & 31)) },
		"shf.l.clamp.b32": func(a, b, c uint32) uint32 {
			return uint32((uint64(b)<<32 | uint64(a)) << min(c, 32) >> 32)
		},
		"shf.r.clamp.b32": func(a, b, c uint32) uint32 { return uint32((uint64(b)<<32 | uint64(a)) >> min(c, 32)) },
		"dp4a.s32.s32": func(a, b, c uint32) uint32 {
			for i := 0; i < 32; i += 8 {
				c += uint32(int32(int8(a>>i)) * int32(int8(b>>i)))
			}
			return c
		},
	} {
		expect(t, d, op32(name, 3), values, low32(f))
	}
	expect(t, d, "lop3.b32 %rd, %ra, %rb, %rc, 0xca;"+result32, values, low32(func(a, b, c uint32) uint32 { return a&b | ^a&c }))
	expect(t, d, "bfi.b32 %rd, %ra, %rb, 5, 11;"+result32, values, low32(func(a, b, _ uint32) uint32 {
		const field = (1<<11 - 1) << 5
		return b&^field | a<<5&field
	}))
}

// permute is prmt: each of four selectors picks one of eight bytes, or its sign.
func permute(a, b, c uint32) (v uint32) {
	all := uint64(b)<<32 | uint64(a)
	for i := range 4 {
		s := c >> (4 * i) & 15
		x := byte(all >> (8 * (s & 7)))
		if s&8 != 0 {
			x = byte(int8(x) >> 7)
		}
		v |= uint32(x) << (8 * i)
	}
	return v
}

func integers64(t *testing.T, d cuda.Driver, values [][3]uint64) {
	for name, f := range map[string]func(a, b, _ uint64) uint64{
		"add.s64":    func(a, b, _ uint64) uint64 { return a + b },
		"sub.s64":    func(a, b, _ uint64) uint64 { return a - b },
		"mul.lo.s64": func(a, b, _ uint64) uint64 { return a * b },
		"mul.hi.u64": func(a, b, _ uint64) uint64 { high, _ := bits.Mul64(a, b); return high },
		"min.s64":    func(a, b, _ uint64) uint64 { return uint64(min(int64(a), int64(b))) },
		"max.u64":    func(a, b, _ uint64) uint64 { return max(a, b) },
		"and.b64":    func(a, b, _ uint64) uint64 { return a & b },
		"xor.b64":    func(a, b, _ uint64) uint64 { return a ^ b },
	} {
		expect(t, d, op64(name, 2), values, f)
	}
	expect(t, d, "shl.b64 %d, %a, %rb;", values, func(a, b, _ uint64) uint64 { return a << uint32(b) })
	expect(t, d, "shr.u64 %d, %a, %rb;", values, func(a, b, _ uint64) uint64 { return a >> uint32(b) })
	expect(t, d, "shr.s64 %d, %a, %rb;", values, func(a, b, _ uint64) uint64 { return uint64(int64(a) >> uint32(b)) })
	expect(t, d, "popc.b64 %rd, %a;"+result32, values, func(a, _, _ uint64) uint64 { return uint64(bits.OnesCount64(a)) })
	expect(t, d, "clz.b64 %rd, %a;"+result32, values, func(a, _, _ uint64) uint64 { return uint64(bits.LeadingZeros64(a)) })
	expect(t, d, op64("mad.lo.s64", 3), values, func(a, b, c uint64) uint64 { return a*b + c })
	for name, f := range map[string]func(a uint64) uint64{
		"cvt.s64.s32 %d, %ra;":                 func(a uint64) uint64 { return uint64(signed(a)) },
		"cvt.u64.u32 %d, %ra;":                 func(a uint64) uint64 { return uint64(uint32(a)) },
		"cvt.s64.s16 %d, %ha;":                 func(a uint64) uint64 { return uint64(int64(int16(a))) },
		"cvt.s32.s8 %rd, %ra;" + result32:      func(a uint64) uint64 { return uint64(uint32(int32(int8(a)))) },
		"cvt.u32.u8 %rd, %ra;" + result32:      func(a uint64) uint64 { return a & 255 },
		"cvt.sat.s32.s64 %rd, %a;" + result32:  func(a uint64) uint64 { return uint64(uint32(clamp32(int64(a)))) },
		"cvt.sat.u32.s32 %rd, %ra;" + result32: func(a uint64) uint64 { return uint64(max(signed(a), 0)) },
		"cvt.sat.s32.u32 %rd, %ra;" + result32: func(a uint64) uint64 { return min(a&math.MaxUint32, math.MaxInt32) },
	} {
		expect(t, d, name, values, func(a, _, _ uint64) uint64 { return f(a) })
	}
}

func clamp32(x int64) int32 { return int32(min(max(x, math.MinInt32), math.MaxInt32)) }

// divisions checks div and rem by what is defined: no zero, no overflow.
func divisions(t *testing.T, d cuda.Driver, all [][3]uint64) {
	var values [][3]uint64
	for _, v := range all {
		if uint32(v[1]) != 0 && uint32(v[1]) != math.MaxUint32 && v[1] != math.MaxUint64 {
			values = append(values, v)
		}
	}
	for name, f := range map[string]func(a, b, c uint32) uint32{
		"div.u32": func(a, b, _ uint32) uint32 { return a / b },
		"rem.u32": func(a, b, _ uint32) uint32 { return a % b },
		"div.s32": func(a, b, _ uint32) uint32 { return uint32(int32(a) / int32(b)) },
		"rem.s32": func(a, b, _ uint32) uint32 { return uint32(int32(a) % int32(b)) },
	} {
		expect(t, d, op32(name, 2), values, low32(f))
	}
	expect(t, d, op64("div.u64", 2), values, func(a, b, _ uint64) uint64 { return a / b })
	expect(t, d, op64("rem.s64", 2), values, func(a, b, _ uint64) uint64 { return uint64(int64(a) % int64(b)) })
}
