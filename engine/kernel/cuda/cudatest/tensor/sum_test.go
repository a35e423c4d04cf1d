package tensor_test

import (
	"encoding/hex"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"corenode/engine/kernel/cuda/cudatest/tensor"
)

// exponentOf is the exponent that the unit sees in an element: subnormal numbers
// have the smallest of their format.
func exponentOf(x float64, smallest int) int {
	_, e := math.Frexp(x)
	return max(e-1, smallest)
}

// ruleSum is the rule in exact fractions: each term is cut to a multiple of
// 2^(largest exponent - kept), the sum is cut to fraction bits.
func ruleSum(c float64, a, b []float64, smallest, kept, fraction int) float64 {
	terms, top := []*big.Rat{new(big.Rat).SetFloat64(c)}, math.MinInt32
	if c != 0 {
		top = exponentOf(c, -126)
	}
	for i := range a {
		terms = append(terms, new(big.Rat).Mul(new(big.Rat).SetFloat64(a[i]), new(big.Rat).SetFloat64(b[i])))
		if a[i]*b[i] != 0 {
			top = max(top, exponentOf(a[i], smallest)+exponentOf(b[i], smallest))
		}
	}
	if top == math.MinInt32 {
		return 0
	}
	sum := new(big.Rat)
	for _, term := range terms {
		sum.Add(sum, cut(term, top-kept))
	}
	f, _ := sum.Float64() // exact: a few more bits than kept
	if f == 0 {
		return 0
	}
	f, _ = cut(sum, exponentOf(f, -126)-fraction).Float64()
	return f
}

// cut drops what is below 2^e.
func cut(x *big.Rat, e int) *big.Rat {
	unit := new(big.Rat).SetFloat64(math.Ldexp(1, e))
	q := new(big.Rat).Quo(x, unit)
	whole := new(big.Int).Quo(q.Num(), q.Denom()) // toward zero
	return unit.Mul(unit, new(big.Rat).SetInt(whole))
}

func TestSumsFollowTheRuleInExactFractions(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rows := []struct {
		f        tensor.Format
		u        tensor.Unit
		smallest int
		finite   uint32 // codes below are numbers
	}{
		{tensor.F16, tensor.Wide, -14, 0x7c00},
		{tensor.BF16, tensor.Wide, -126, 0x7f80},
		{tensor.E4M3, tensor.Wide, -6, 0x7f},
		{tensor.E4M3, tensor.Narrow, -6, 0x7f},
		{tensor.E5M2, tensor.Narrow, -14, 0x7c},
	}
	for _, r := range rows {
		for range 3000 {
			n := []int{8, 16, 32}[random.IntN(3)]
			a, b := make([]tensor.Number, n), make([]tensor.Number, n)
			av, bv := make([]float64, n), make([]float64, n)
			spread := random.IntN(3) // all codes, codes near 1, few codes
			draw := func() uint32 {
				one := r.f.Encode(1, tensor.Conversion{})
				code := random.Uint32N(r.finite)
				if spread > 0 {
					code = one + random.Uint32N(one/8)*uint32(spread)
				}
				return min(code, r.finite-1) | random.Uint32N(2)<<(8*r.f.Bytes()-1)
			}
			for i := range n {
				x, y := draw(), draw()
				a[i], b[i] = r.f.Take(x), r.f.Take(y)
				av[i], bv[i] = value(r.f, x), value(r.f, y)
			}
			c := float32(math.Ldexp(random.Float64()*2-1, random.IntN(40)-20))
			got, want := r.u.Dot(c, r.f, r.f, a, b), ruleSum(float64(c), av, bv, r.smallest, r.u.Kept, r.u.Fraction)
			if math.Abs(want) >= 0x1p128 {
				want = math.Inf(int(math.Copysign(1, want)))
			}
			if float64(got) != want {
				t.Fatalf("format %d, %+v: %v + %v · %v is %v, want %v", r.f, r.u, c, av, bv, got, want)
			}
		}
	}
}

// TestSumsShowWhatWasMeasured has the features by which the papers tell Hopper's
// units from others.
func TestSumsShowWhatWasMeasured(t *testing.T) {
	dot := func(u tensor.Unit, f tensor.Format, c float32, products ...[2]float64) float32 {
		var a, b []tensor.Number
		for _, p := range products {
			a = append(a, f.Take(f.Encode(p[0], tensor.Conversion{})))
			b = append(b, f.Take(f.Encode(p[1], tensor.Conversion{})))
		}
		return u.Dot(c, f, f, a, b)
	}
	small, smaller := [2]float64{0x1p-12, 0x1p-13}, [2]float64{0x1p-13, 0x1p-13}
	tiny := [2]float64{0x1p-76, 0x1p-76}
	inf, nan := math.Inf(1), math.NaN()
	rows := []struct {
		what string
		got  float32
		want float64
	}{
		{"four products of 2^-25 are seen beside 1", dot(tensor.Wide, tensor.F16, 1, small, small, small, small), 1 + 0x1p-23},
		{"three of them are cut off at the end", dot(tensor.Wide, tensor.F16, 1, small, small, small), 1},
		{"products of 2^-26 are not seen", dot(tensor.Wide, tensor.F16, 1, smaller, smaller, smaller, smaller, smaller, smaller, smaller, smaller), 1},
		{"a cut is toward zero from below too", dot(tensor.Wide, tensor.F16, -1, smaller, smaller), -1},
		{"fp8 sees 2^-13 beside 1", dot(tensor.Narrow, tensor.E5M2, 1, [2]float64{0x1p-6, 0x1p-7}), 1 + 0x1p-13},
		{"but not 2^-14", dot(tensor.Narrow, tensor.E5M2, 1, [2]float64{0x1p-7, 0x1p-7}, [2]float64{0x1p-7, 0x1p-7}), 1},
		{"the accumulator of fp8 is cut as well", dot(tensor.Narrow, tensor.E5M2, 1+0x1p-20, [2]float64{1, 1}), 2},
		{"large terms cancel before small ones are lost", dot(tensor.Wide, tensor.BF16, 0, [2]float64{1 << 20, 1}, [2]float64{-1 << 20, 1}, [2]float64{1, 1}), 1},
		{"a zero accumulator has no exponent", dot(tensor.Wide, tensor.BF16, 0, tiny, tiny, tiny, tiny, tiny, tiny, tiny, tiny), 0x1p-149},
		{"zero has no sign", dot(tensor.Wide, tensor.F16, float32(math.Copysign(0, -1)), [2]float64{0, -1}), 0},
		{"infinity", dot(tensor.Wide, tensor.F16, 1, [2]float64{inf, -2}), -inf},
		{"infinity less infinity", dot(tensor.Wide, tensor.F16, float32(inf), [2]float64{inf, -2}), nan},
		{"infinity by zero", dot(tensor.Wide, tensor.F16, 1, [2]float64{inf, 0}), nan},
		{"NaN", dot(tensor.Wide, tensor.E4M3, 1, [2]float64{nan, 1}), nan},
		{"too large", dot(tensor.Wide, tensor.BF16, math.MaxFloat32, [2]float64{0x1p127, 1}), inf},
	}
	for _, r := range rows {
		if !same(float64(r.got), r.want) {
			t.Errorf("%s: %g, want %g", r.what, r.got, r.want)
		}
	}
	if bits := math.Float32bits(dot(tensor.Wide, tensor.F16, 1, [2]float64{nan, 1})); bits != 0x7fff_ffff {
		t.Errorf("NaN is %#x, want the canonical one", bits)
	}
	if got := tensor.DotInt(math.MaxInt32, []int32{1, 2}, []int32{1, 3}, false); got != math.MinInt32+6 {
		t.Errorf("integers wrap to %d", got)
	}
	if got := tensor.DotInt(math.MinInt32, []int32{127}, []int32{-128}, true); got != math.MinInt32 {
		t.Errorf("integers saturate at %d", got)
	}
}

func TestBlocksAreSumsOfTheirOwn(t *testing.T) {
	two := tensor.Unit{Kept: 25, Block: 2, Fraction: 23}
	take := func(values ...float64) (all []tensor.Number) {
		for _, v := range values {
			all = append(all, tensor.BF16.Take(tensor.BF16.Encode(v, tensor.Conversion{})))
		}
		return all
	}
	ones := take(1, 1, 1, 1)
	values := take(1<<25, 1, -1<<25, 1)
	if got := two.Dot(0, tensor.BF16, tensor.BF16, values, ones); got != 1 {
		t.Errorf("in two blocks: %g, want 1: the first result has no room for its one", got)
	}
	if got := tensor.Wide.Dot(0, tensor.BF16, tensor.BF16, values, ones); got != 2 {
		t.Errorf("in one block: %g, want 2", got)
	}
}

// TestUnpackedCodesAddAsADeviceSaid has elements that an H200 computed with mma.sync.m16n8k32: their codes as bytes, the
// accumulator, and the result. All at once, by halves of the depth or in the other order other bits come out.
func TestUnpackedCodesAddAsADeviceSaid(t *testing.T) {
	for _, r := range []struct {
		f       tensor.Format
		a, b    string
		c, want uint32
	}{
		{tensor.E4M3, "3a03ad1df1bd633ec58a399f01b533407c3aacf72e13ce1b1fbf02ef7e5e5418",
			"f15fb64daf9183c7a12eb4d1de322494479a437e554656839359592e1f7bfce5", 0x3dcb7065, 0xc7c56c08},
		{tensor.E4M3, "3a03ad1df1bd633ec58a399f01b533407c3aacf72e13ce1b1fbf02ef7e5e5418",
			"cd1503c88304ad4af067759badac2666ce31f7ed5bc9d36047345fd12ee0e6cf", 0x3f60c8ab, 0x46b2efd2},
		{tensor.E5M2, "8e0a2066c32f5f0e823e48e2cca0b0015108576bc459187935cf522dc637b630",
			"cd1503c88304ad4af067759badac2666ce31f7ed5bc9d36047345fd12ee0e6cf", 0xbc31d6fd, 0xc8cbb950},
		{tensor.E5M2, "332e7812c64279c424e5779e700ae95f1cd0f9ce74b9b58a2c6a7073ad5b6e64",
			"00e6f176ab66989359577add80c200422cad096c9f43d22a9fa58519500273ab", 0x3c5cc699, 0x4e8a78cb},
		{tensor.E5M2, "0a85a260524ca77186a03b39a5e46503e514de5f0af7f36f8d8e3f9cae58361c",
			"00e6f176ab66989359577add80c200422cad096c9f43d22a9fa58519500273ab", 0xc173c9cc, 0x4b662192},
	} {
		got := math.Float32bits(tensor.DotUnpacked(math.Float32frombits(r.c), r.f, r.f, codes(t, r.a), codes(t, r.b)))
		if got != r.want {
			t.Errorf("format %d, %s · %s: %#x, want %#x", r.f, r.a, r.b, got, r.want)
		}
	}
	nan, one := []uint32{0x7f, 0, 0, 0}, []uint32{0x38, 0, 0, 0}
	if got := math.Float32bits(tensor.DotUnpacked(1, tensor.E4M3, tensor.E4M3, nan, one)); got != 0x7fff_ffff {
		t.Errorf("NaN is %#x, want the canonical one", got)
	}
}

// codes reads codes from their bytes as hex.
func codes(t *testing.T, text string) (all []uint32) {
	t.Helper()
	bytes, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range bytes {
		all = append(all, uint32(b))
	}
	return all
}
