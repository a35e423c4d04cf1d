package interp

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda"
)

// bigSum is the rule of the tensor cores in big numbers: align to the largest
// exponent, cut off, add, cut off.
func bigSum(r sumRule, c float32, a, b []float64, exponents []int) float32 {
	most := -1 << 20
	if c != 0 {
		_, e := math.Frexp(float64(c))
		most = max(e-1, -126)
	}
	for i := range a {
		if a[i] != 0 && b[i] != 0 {
			most = max(most, exponents[i])
		}
	}
	if most == -1<<20 {
		return c
	}
	total := new(big.Int)
	cut := func(x *big.Float) {
		whole, _ := x.SetMantExp(x, r.fraction-most).Int(nil) // toward zero
		total.Add(total, whole)
	}
	cut(bigOf(float64(c)))
	for i := range a {
		cut(new(big.Float).SetPrec(2000).Mul(bigOf(a[i]), bigOf(b[i])))
	}
	sum := new(big.Float).SetPrec(2000).SetInt(total)
	sum.SetMantExp(sum, most-r.fraction)
	kept := new(big.Float).SetMode(big.ToZero).SetPrec(uint(r.keep + 1)).Set(sum)
	v, _ := kept.Float32()
	return v
}

// smallestExponent is that of the subnormal numbers of a format.
func smallestExponent(f format) int { return 2 - 1<<(f.exponent-1) }

func TestTensorCoreSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		f    format
		rule sumRule
	}{{brainFormat, wideSums}, {halfFormat, wideSums}, {tf32Format, tf32Sums}, {e4m3Format, narrowSums}, {e5m2Format, narrowSums}} {
		for range 3000 {
			n := c.rule.block
			a, b, x, y, exponents := make([]term, n), make([]term, n), make([]float64, n), make([]float64, n), make([]int, n)
			place := func(v float64) int {
				_, e := math.Frexp(v)
				return max(e-1, smallestExponent(c.f))
			}
			spread := random.IntN(9)
			for i := range n {
				ca := c.f.code(random.NormFloat64()*math.Ldexp(1, random.IntN(1+spread)-spread), nearest, true)
				cb := c.f.code(random.NormFloat64()*math.Ldexp(1, random.IntN(1+spread)-spread), nearest, true)
				a[i], b[i], x[i], y[i] = termOf(c.f, ca), termOf(c.f, cb), c.f.value(ca), c.f.value(cb)
				exponents[i] = place(x[i]) + place(y[i])
			}
			acc := float32(random.NormFloat64() * math.Ldexp(1, random.IntN(40)-20))
			if got, want := c.rule.sum(acc, a, b), bigSum(c.rule, acc, x, y, exponents); got != want {
				t.Fatalf("%+v: %g, want %g (c = %g)", c.f, got, want, acc)
			}
		}
	}
	inf := termOf(brainFormat, 0x7f80)
	if got := wideSums.sum(1, []term{inf}, []term{termOf(brainFormat, 0)}); got == got {
		t.Errorf("infinity times zero: %g", got)
	}
	if got := wideSums.sum(1, []term{inf}, []term{termOf(brainFormat, 0xbf80)}); !math.IsInf(float64(got), -1) {
		t.Errorf("infinity times -1: %g", got)
	}
}

// fragments are the places of the values of a thread, as the instruction set
// lists them: value i of thread t in group g.
type fragments struct {
	text, in, out string // instruction; types
	k, per        int    // depth; values per register
	a, b          func(g, t, i int) (row, col int)
}

func pick(i int, yes ...int) bool {
	return slices.Contains(yes, i/2)
}

var fragmentCases = []fragments{
	{"m16n8k16.row.col.f32.bf16.bf16.f32", "bf16", "f32", 16, 2, pairsA, pairsB},
	{"m16n8k16.row.col.f32.f16.f16.f32", "f16", "f32", 16, 2, pairsA, pairsB},
	{"m16n8k32.row.col.s32.s8.s8.s32", "s8", "s32", 32, 4, bytesA, bytesB},
	{"m16n8k32.row.col.f32.e4m3.e4m3.f32", "e4m3", "f32", 32, 4, bytesA, bytesB},
	{"m16n8k8.row.col.f32.tf32.tf32.f32", "tf32", "f32", 8, 1,
		func(g, t, i int) (int, int) { return g + i%2*8, t + i/2*4 }, func(g, t, i int) (int, int) { return t + i*4, g }},
}

func pairsA(g, t, i int) (row, col int) {
	if !pick(i, 0, 2) {
		g += 8
	}
	if i >= 4 {
		return g, t*2 + i&1 + 8
	}
	return g, t*2 + i&1
}

func pairsB(g, t, i int) (row, col int) { return t*2 + i&1 + i/2*8, g }

func bytesA(g, t, i int) (row, col int) {
	if !pick(i, 0, 1, 4, 5) {
		g += 8
	}
	if i >= 8 {
		return g, t*4 + i&3 + 16
	}
	return g, t*4 + i&3
}

func bytesB(g, t, i int) (row, col int) { return t*4 + i&3 + i/4*16, g }

// encode writes a small whole number as a type; all sums of them are exact.
func encode(in string, v int) uint32 {
	switch in {
	case "bf16":
		return math.Float32bits(float32(v)) >> 16
	case "tf32":
		return math.Float32bits(float32(v))
	case "s8":
		return uint32(uint8(int8(v)))
	case "f16":
		return uint32(narrows[0].nearest(float64(v), false)) | uint32(truth(v < 0))<<15
	}
	return uint32(narrows[2].nearest(float64(v), true)) | uint32(truth(v < 0))<<7
}

func TestMatrixFragments(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, f := range fragmentCases {
		regsA, regsB := 16*f.k/32/f.per, 8*f.k/32/f.per
		a, b := make([]int, 16*f.k), make([]int, f.k*8)
		for _, m := range [][]int{a, b} {
			for i := range m {
				m[i] = random.IntN(9) - 4
			}
		}
		data := make([]byte, 32*64)
		put := func(lane, reg, half int, v int) {
			at := lane*64 + reg*4
			old := binary.LittleEndian.Uint32(data[at:])
			binary.LittleEndian.PutUint32(data[at:], old|encode(f.in, v)<<(half*32/f.per))
		}
		for lane := range 32 {
			g, th := lane/4, lane%4
			for i := range regsA * f.per {
				row, col := f.a(g, th, i)
				put(lane, i/f.per, i%f.per, a[row*f.k+col])
			}
			for i := range regsB * f.per {
				row, col := f.b(g, th, i)
				put(lane, 4+i/f.per, i%f.per, b[row*8+col])
			}
		}
		r := newRig(t, Config{Seed: 1})
		at := r.in(data)
		r.must(r.stream.Launch(r.function(fragmentText(f, regsA, regsB), "k"), cuda.Launch{Block: cuda.Dim{X: 32}, Params: params(at)}))
		r.must(r.stream.CopyOut(data, at))
		r.must(r.stream.Synchronize())
		for lane := range 32 {
			for i := range 4 {
				row, col := lane/4+i/2*8, lane%4*2+i%2
				want := 0
				for x := range f.k {
					want += a[row*f.k+x] * b[x*8+col]
				}
				raw := binary.LittleEndian.Uint32(data[lane*64+4*i:])
				got := int(int32(raw))
				if f.out == "f32" {
					got = int(math.Float32frombits(raw))
				}
				if got != want {
					t.Fatalf("%s, lane %d, value %d: %d, want %d", f.text, lane, i, got, want)
				}
			}
		}
	}
}

func fragmentText(f fragments, regsA, regsB int) string {
	list := func(name string, n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%%%s%d", name, i))
		}
		return "{" + strings.Join(all, ", ") + "}"
	}
	return `.version 8.0
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 p)
{
.reg .b64 %x, %o; .reg .b32 %t, %a<4>, %b<4>, %c<4>;
ld.param.u64 %x, [p]; mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, 64; add.u64 %x, %x, %o;
ld.global.v4.b32 {%a0, %a1, %a2, %a3}, [%x]; ld.global.v4.b32 {%b0, %b1, %b2, %b3}, [%x+16];
mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;
mma.sync.aligned.` + f.text + " " + list("c", 4) + ", " + list("a", regsA) + ", " + list("b", regsB) + ", " + list("c", 4) + `;
st.global.v4.b32 [%x], {%c0, %c1, %c2, %c3}; ret;
}
`
}
