package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// lanesOf runs "op d, a, b, c" with the operands of each case in a lane of its
// own, and returns the results. The operands and the result have 64-bit places.
func lanesOf(t *testing.T, op string, dst string, src []string, cases [][]uint64) []uint64 {
	t.Helper()
	var body strings.Builder
	body.WriteString(".reg .b64 %a, %i; .reg .b32 %t, %b, %n;\n" +
		"ld.param.u64 %a, [k_0]; mov.u32 %b, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %t, %tid.x;\n" +
		"mad.lo.u32 %t, %b, %n, %t; mul.wide.u32 %i, %t, 32; add.u64 %a, %a, %i;\n")
	args := "%d"
	for i, k := range src {
		fmt.Fprintf(&body, ".reg .%s %%s%d; ld.global.%s %%s%d, [%%a+%d];\n", k, i, k, i, 8*(i+1))
		args += fmt.Sprintf(", %%s%d", i)
	}
	fmt.Fprintf(&body, ".reg .%s %%d; %s %s; st.global.%s [%%a], %%d; ret;\n", dst, op, args, dst)
	text := ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 k_0)\n{\n" + body.String() + "}\n"
	data := make([]byte, 32*((len(cases)+31)/32*32))
	for i, c := range cases {
		for j, v := range c {
			binary.LittleEndian.PutUint64(data[32*i+8*(j+1):], v)
		}
	}
	r := newRig(t, Config{Seed: 1})
	at := r.in(data)
	l := cuda.Launch{Grid: cuda.Dim{X: len(data) / 1024}, Block: cuda.Dim{X: 32}, Params: params(at)}
	r.must(r.stream.Launch(r.function(text, "k"), l))
	r.must(r.stream.CopyOut(data, at))
	r.must(r.stream.Synchronize())
	out := make([]uint64, len(cases))
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(data[32*i:])
	}
	return out
}

// edges are 32-bit patterns where integers and floats do something special.
var edges = []uint64{0, 1, 2, 31, 32, 33, 255, 0x7fff, 0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x3f80_0000, 0xbf80_0000,
	0x7f80_0000, 0xff80_0000, 0x7fc0_0000, 0x0000_0001, 0x807f_ffff,
	0x0080_0000, 0x7f7f_ffff, 0x477f_e000, 0x477f_f000, 0x3880_0000, 0x3300_0000,
	0x43df_ffff, 0x43e0_0000, 0x3b00_0000, 0x4f00_0000, 0xcf00_0001, 0x3f00_0000, 0x3fc0_0000, 0x4020_0000}

func operands(n int) [][]uint64 {
	random := rand.New(rand.NewPCG(4, 5))
	var all [][]uint64
	for range 4096 {
		c := make([]uint64, n)
		for i := range c {
			switch random.IntN(4) {
			case 0:
				c[i] = edges[random.IntN(len(edges))]
			case 1: // floats of similar size
				c[i] = uint64(math.Float32bits(float32(random.NormFloat64())))
			default:
				c[i] = uint64(random.Uint32())
			}
		}
		all = append(all, c)
	}
	return all
}

// wholes define integer instructions by big integers or plain Go of another shape.
var wholes = []struct {
	op   string
	n    int
	dst  string
	want func(c []uint64) uint64
}{
	{"add.s32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(c[0]) + uint32(c[1])) }},
	{"sub.u32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(c[0]) - uint32(c[1])) }},
	{"mul.lo.s32", 2, "b32", func(c []uint64) uint64 { return bigProduct(c, false, 0, 32) }},
	{"mul.hi.s32", 2, "b32", func(c []uint64) uint64 { return bigProduct(c, true, 32, 32) }},
	{"mul.hi.u32", 2, "b32", func(c []uint64) uint64 { return bigProduct(c, false, 32, 32) }},
	{"mul.wide.s32", 2, "b64", func(c []uint64) uint64 { return bigProduct(c, true, 0, 64) }},
	{"mul.wide.u32", 2, "b64", func(c []uint64) uint64 { return bigProduct(c, false, 0, 64) }},
	{"mad.lo.s32", 3, "b32", func(c []uint64) uint64 { return uint64(uint32(int32(c[0])*int32(c[1]) + int32(c[2]))) }},
	{"min.s32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(min(int32(c[0]), int32(c[1])))) }},
	{"max.u32", 2, "b32", func(c []uint64) uint64 { return uint64(max(uint32(c[0]), uint32(c[1]))) }},
	{"abs.s32", 1, "b32", func(c []uint64) uint64 { return new(big.Int).Abs(big.NewInt(int64(int32(c[0])))).Uint64() }},
	{"and.b32", 2, "b32", func(c []uint64) uint64 { return c[0] & c[1] }},
	{"xor.b32", 2, "b32", func(c []uint64) uint64 { return c[0] ^ c[1] }},
	{"not.b32", 1, "b32", func(c []uint64) uint64 { return 0xffff_ffff - c[0] }},
	{"shl.b32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(c[0]) << uint32(c[1])) }},
	{"shr.u32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(c[0]) >> uint32(c[1])) }},
	{"shr.s32", 2, "b32", func(c []uint64) uint64 { return uint64(uint32(int32(c[0]) >> uint32(c[1]))) }},
	{"shf.l.wrap.b32", 3, "b32", func(c []uint64) uint64 { return uint64(uint32((c[1]<<32 | c[0]) << (c[2] % 32) >> 32)) }},
	{"shf.r.wrap.b32", 3, "b32", func(c []uint64) uint64 { return uint64(uint32((c[1]<<32 | c[0]) >> (c[2] % 32))) }},
	{"bfe.u32", 3, "b32", func(c []uint64) uint64 { return bitField(c, false) }},
	{"bfe.s32", 3, "b32", func(c []uint64) uint64 { return bitField(c, true) }},
	{"popc.b32", 1, "b32", func(c []uint64) uint64 { return uint64(strings.Count(fmt.Sprintf("%b", c[0]), "1")) }},
	{"clz.b32", 1, "b32", func(c []uint64) uint64 { return uint64(32 - new(big.Int).SetUint64(c[0]).BitLen()) }},
	{"prmt.b32", 3, "b32", func(c []uint64) uint64 {
		var out uint64
		for i := range 4 {
			s := c[2] >> (4 * i) & 15
			b := byte(binary.LittleEndian.AppendUint64(nil, c[1]<<32|c[0])[s&7])
			if s > 7 {
				b = byte(int8(b) >> 7)
			}
			out |= uint64(b) << (8 * i)
		}
		return out
	}},
	{"div.u32", 2, "b32", func(c []uint64) uint64 {
		if c[1] == 0 {
			return 0xffff_ffff
		}
		return c[0] / c[1]
	}},
	{"rem.s32", 2, "b32", func(c []uint64) uint64 {
		if c[1] == 0 {
			return c[0]
		}
		return uint64(uint32(new(big.Int).Rem(big.NewInt(int64(int32(c[0]))), big.NewInt(int64(int32(c[1])))).Int64()))
	}},
	{"dp4a.s32.u32", 3, "b32", func(c []uint64) uint64 {
		sum := int32(c[2])
		for i := range 4 {
			sum += int32(int8(c[0]>>(8*i))) * int32(uint8(c[1]>>(8*i)))
		}
		return uint64(uint32(sum))
	}},
}

func bigProduct(c []uint64, signed bool, shift uint, width uint) uint64 {
	a, b := new(big.Int).SetUint64(c[0]), new(big.Int).SetUint64(c[1])
	if signed {
		a, b = big.NewInt(int64(int32(c[0]))), big.NewInt(int64(int32(c[1])))
	}
	p := new(big.Int).Rsh(a.Mul(a, b), shift)
	m := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), width), big.NewInt(1))
	return p.And(p, m).Uint64()
}

// bitField follows the definition bit by bit.
func bitField(c []uint64, signed bool) uint64 {
	at, n := int(c[1]&255), int(c[2]&255)
	sign := uint64(0)
	if signed && n > 0 {
		sign = c[0] >> min(at+n-1, 31) & 1
	}
	var out uint64
	for i := range 32 {
		bit := sign
		if i < n && at+i <= 31 {
			bit = c[0] >> (at + i) & 1
		}
		out |= bit << i
	}
	return out
}

func TestIntegerInstructions(t *testing.T) {
	for _, w := range wholes {
		src := []string{"b32", "b32", "b32"}[:w.n]
		cases := operands(w.n)
		for i, got := range lanesOf(t, w.op, w.dst, src, cases) {
			if want := w.want(cases[i]); got != want {
				t.Errorf("%s of %#x: %#x, want %#x", w.op, cases[i], got, want)
				break
			}
		}
	}
}

// precise is a result with many bits, or nil for a NaN or an infinity that is in special.
type precise struct {
	exact   *big.Float
	special float64
}

func bigOf(v float64) *big.Float { return new(big.Float).SetPrec(2000).SetFloat64(v) }

// rounded rounds to float32 by math/big, which knows nothing of our formats.
func (p precise) rounded(mode big.RoundingMode) uint64 {
	if p.exact == nil {
		return canonical(float32(p.special))
	}
	f := new(big.Float).SetMode(mode).SetPrec(24).Set(p.exact)
	if f.Sign() != 0 && f.MantExp(nil) < -125 { // subnormal: fewer bits
		prec := 24 + 125 + new(big.Float).Set(p.exact).MantExp(nil)
		if prec < 1 {
			return tinyBits(p.exact, mode)
		}
		f = new(big.Float).SetMode(mode).SetPrec(uint(prec)).Set(p.exact)
	}
	v, _ := f.Float64()
	if math.Abs(v) > math.MaxFloat32 {
		up := mode == big.ToNearestEven || mode == big.ToPositiveInf && v > 0 || mode == big.ToNegativeInf && v < 0
		if !up {
			return uint64(math.Float32bits(float32(math.Copysign(math.MaxFloat32, v))))
		}
	}
	return uint64(math.Float32bits(float32(v)))
}

// tinyBits rounds what is below the smallest float32.
func tinyBits(x *big.Float, mode big.RoundingMode) uint64 {
	sign := uint64(0)
	if x.Sign() < 0 {
		sign = 1 << 31
	}
	half := bigOf(math.Ldexp(1, -150))
	above := new(big.Float).Abs(x).Cmp(half) > 0
	if mode == big.ToNearestEven && above || mode == big.ToPositiveInf && sign == 0 || mode == big.ToNegativeInf && sign != 0 {
		return sign | 1
	}
	return sign
}

var roundingModes = map[string]big.RoundingMode{"rn": big.ToNearestEven, "rz": big.ToZero, "rm": big.ToNegativeInf, "rp": big.ToPositiveInf}

func TestFloatInstructionsRoundOnce(t *testing.T) {
	ops := map[string]struct {
		n    int
		f    func(v []float64) float64 // for special values
		bits func(v []*big.Float) *big.Float
	}{
		"add": {2, func(v []float64) float64 { return v[0] + v[1] }, func(v []*big.Float) *big.Float { return v[0].Add(v[0], v[1]) }},
		"sub": {2, func(v []float64) float64 { return v[0] - v[1] }, func(v []*big.Float) *big.Float { return v[0].Sub(v[0], v[1]) }},
		"mul": {2, func(v []float64) float64 { return v[0] * v[1] }, func(v []*big.Float) *big.Float { return v[0].Mul(v[0], v[1]) }},
		"div": {2, func(v []float64) float64 { return v[0] / v[1] }, func(v []*big.Float) *big.Float { return v[0].Quo(v[0], v[1]) }},
		"fma": {3, func(v []float64) float64 { return v[0]*v[1] + v[2] }, func(v []*big.Float) *big.Float {
			return v[0].Add(v[0].Mul(v[0], v[1]), v[2])
		}},
	}
	for name, op := range ops {
		for suffix, mode := range roundingModes {
			cases := operands(op.n)
			for i, got := range lanesOf(t, name+"."+suffix+".f32", "b32", []string{"b32", "b32", "b32"}[:op.n], cases) {
				values, bigs, plainValues := make([]float64, op.n), make([]*big.Float, op.n), true
				for j, c := range cases[i] {
					values[j] = fromSingle(c)
					if plainValues = plainValues && !math.IsNaN(values[j]) && !math.IsInf(values[j], 0); plainValues {
						bigs[j] = bigOf(values[j])
					}
				}
				p := precise{special: op.f(values)}
				if plainValues && !math.IsNaN(p.special) && !math.IsInf(p.special, 0) {
					p.exact = op.bits(bigs)
					if p.exact.Sign() == 0 { // the sign of zero is that of IEEE 754 in Go, but for rm
						continue
					}
				}
				if want := p.rounded(mode); got != want {
					t.Fatalf("%s.%s of %#x: %#x, want %#x", name, suffix, cases[i], got, want)
				}
			}
		}
	}
}
