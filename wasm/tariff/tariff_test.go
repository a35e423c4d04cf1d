package tariff

import (
	"errors"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"testing"

	"corenode/wasm/abi"
)

// oracle is the contract's formula in arithmetic that cannot overflow.
func oracle(p Prices, u abi.Usage) *big.Int {
	term := func(price abi.Nano, tokens ...int64) *big.Int {
		sum := new(big.Int)
		for _, n := range tokens {
			sum.Add(sum, big.NewInt(n))
		}
		return sum.Mul(sum, big.NewInt(int64(price)))
	}
	total := term(p.Input, u.InputUncached, u.CacheWrite)
	total.Add(total, term(p.Cached, u.CacheRead))
	total.Add(total, term(p.Output, u.Output))
	context := term(1, u.InputUncached, u.CacheRead, u.CacheWrite)
	if context.Cmp(big.NewInt(200000)) > 0 {
		total.Lsh(total, 1)
	}
	return total
}

func rates(input, cached, output abi.Nano) Prices {
	return Prices{Input: input, Cached: cached, Output: output}
}

// magnitude draws numbers of every size, so that overflow is not rare.
func magnitude(r *rand.Rand, bitsMax int) int64 {
	return int64(r.Uint64() >> (64 - r.IntN(bitsMax) - 1) & math.MaxInt64)
}

func TestRateAgreesWithBigIntegers(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	overflows, longs := 0, 0
	for range 200_000 {
		p := rates(abi.Nano(magnitude(r, 40)), abi.Nano(magnitude(r, 40)), abi.Nano(magnitude(r, 40)))
		u := abi.Usage{InputUncached: magnitude(r, 30), CacheRead: magnitude(r, 30), CacheWrite: magnitude(r, 8), Output: magnitude(r, 30)}
		if r.IntN(4) == 0 { // around the tier's edge
			u.CacheRead, u.CacheWrite = r.Int64N(200_000), 0
			u.InputUncached = 200_000 - u.CacheRead + r.Int64N(3) - 1
		}
		want := oracle(p, u)
		got, err := Rate(p, u)
		if !want.IsInt64() {
			overflows++
			if !errors.Is(err, ErrOverflow) {
				t.Fatalf("Rate(%+v, %+v) = %d, %v; want ErrOverflow for %v", p, u, got.Total, err, want)
			}
			continue
		}
		if err != nil || int64(got.Total) != want.Int64() {
			t.Fatalf("Rate(%+v, %+v) = %d, %v; want %v", p, u, got.Total, err, want)
		}
		var sum abi.Nano
		for _, line := range got.Lines {
			if line.Amount < 0 || line.Amount != line.Price*abi.Nano(line.Tokens) {
				t.Fatalf("line %+v", line)
			}
			sum += line.Amount
		}
		if sum != got.Total {
			t.Fatalf("lines add up to %d, total %d", sum, got.Total)
		}
		longs += got.Tier - 1
	}
	if overflows == 0 || longs == 0 {
		t.Errorf("%d overflows and %d long contexts: the draw misses a case", overflows, longs)
	}
}

func TestQuoteBoundsEveryCharge(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 50_000 {
		p := rates(abi.Nano(r.IntN(1000)), abi.Nano(r.IntN(1000)), abi.Nano(r.IntN(5000)))
		input, outputMax := r.Int64N(262_145), 1+r.Int64N(40_000)
		upper, minimum, err := Quote(p, input, outputMax)
		if err != nil {
			t.Fatal(err)
		}
		cached := r.Int64N(input + 1)
		u := abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: r.Int64N(outputMax + 1)}
		c, err := Rate(p, u)
		if err != nil || c.Total > upper || minimum > upper {
			t.Fatalf("charge %d of %+v at %+v, quote %d (minimum %d), %v", c.Total, u, p, upper, minimum, err)
		}
		if want := oracle(p, abi.Usage{InputUncached: input, Output: 1}); want.Int64() != int64(minimum) {
			t.Fatalf("minimum %d, want %v", minimum, want)
		}
	}
}

func TestRatesOfTheContract(t *testing.T) {
	core := Prices{Input: 240, Cached: 24, Output: 2400}
	cases := []struct {
		name string
		u    abi.Usage
		want abi.Nano
		tier int
	}{
		{"nothing", abi.Usage{}, 0, 1},
		{"a million of each kind would be 2x", abi.Usage{InputUncached: 1e6, CacheRead: 1e6, Output: 1e6}, 2 * 2_664_000_000, 2},
		{"at the edge", abi.Usage{InputUncached: 100_000, CacheRead: 100_000, Output: 1}, 24_000_000 + 2_400_000 + 2400, 1},
		{"one over, by the cached part", abi.Usage{InputUncached: 100_000, CacheRead: 100_001, Output: 1}, 2 * (24_000_000 + 2_400_024 + 2400), 2},
		{"output does not count as context", abi.Usage{InputUncached: 1, Output: 250_000}, 240 + 600_000_000, 1},
		{"cache writes cost like input", abi.Usage{CacheWrite: 3}, 720, 1},
		{"reasoning is part of output", abi.Usage{Output: 5, Reasoning: 5}, 12_000, 1},
	}
	for _, c := range cases {
		got, err := Rate(core, c.u)
		if err != nil || got.Total != c.want || got.Tier != c.tier {
			t.Errorf("%s: %d in tier %d, %v; want %d in tier %d", c.name, got.Total, got.Tier, err, c.want, c.tier)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	p := rates(1, 1, 1)
	cases := []struct {
		p    Prices
		u    abi.Usage
		want error
	}{
		{p, abi.Usage{InputUncached: -1}, ErrUsage},
		{p, abi.Usage{CacheRead: -1}, ErrUsage},
		{p, abi.Usage{CacheWrite: -1}, ErrUsage},
		{p, abi.Usage{Output: -1}, ErrUsage},
		{p, abi.Usage{Reasoning: -1}, ErrUsage},
		{p, abi.Usage{Output: 1, Reasoning: 2}, ErrUsage},
		{p, abi.Usage{InputUncached: math.MaxInt64, CacheRead: 1}, ErrUsage},
		{p, abi.Usage{InputUncached: math.MaxInt64, CacheWrite: 1}, ErrUsage},
		{p, abi.Usage{InputUncached: math.MaxInt64, CacheRead: math.MaxInt64, CacheWrite: math.MaxInt64}, ErrUsage},
		{rates(-1, 1, 1), abi.Usage{}, ErrPrice},
		{rates(1, -1, 1), abi.Usage{}, ErrPrice},
		{rates(1, 1, -1), abi.Usage{}, ErrPrice},
		{rates(math.MaxInt64, 1, 1), abi.Usage{InputUncached: 200_001}, ErrOverflow},
		{rates(math.MaxInt64, math.MaxInt64, 0), abi.Usage{InputUncached: 1, CacheRead: 1}, ErrOverflow},
	}
	for _, c := range cases {
		if got, err := Rate(c.p, c.u); !errors.Is(err, c.want) || !reflect.DeepEqual(got, Charge{}) {
			t.Errorf("Rate(%+v, %+v) = %+v, %v; want %v", c.p, c.u, got, err, c.want)
		}
	}
	if _, _, err := Quote(p, -1, 1); !errors.Is(err, ErrUsage) {
		t.Errorf("Quote of a negative prompt: %v", err)
	}
	if upper, _, err := Quote(rates(1, 1, math.MaxInt64/2), 1, 3); !errors.Is(err, ErrOverflow) {
		t.Errorf("Quote of an output that nothing can pay: %d, %v", upper, err)
	}
	if _, minimum, err := Quote(rates(0, 0, math.MaxInt64), LongContext+1, 0); !errors.Is(err, ErrOverflow) {
		t.Errorf("Quote of one token of output that nothing can pay: %d, %v", minimum, err)
	}
	if c, err := Rate(rates(0, 0, 1), abi.Usage{Output: math.MaxInt64}); err != nil || c.Total != math.MaxInt64 {
		t.Errorf("the largest amount: %d, %v", c.Total, err)
	}
}

func TestParse(t *testing.T) {
	cases := []struct {
		parse func(string) (abi.Nano, error)
		text  string
		want  abi.Nano
		err   error
	}{
		{ParsePrice, "0.24", 240, nil},
		{ParsePrice, "0.008", 8, nil},
		{ParsePrice, "2.40", 2400, nil},
		{ParsePrice, "0.0080000", 8, nil},
		{ParsePrice, "15", 15000, nil},
		{ParsePrice, "0", 0, nil},
		{ParsePrice, "0.0085", 0, ErrDecimal},
		{ParsePrice, "-1", 0, ErrPrice},
		{ParsePrice, "9300000000000000000", 0, ErrOverflow},
		{ParseUSD, "12.5", 12_500_000_000, nil},
		{ParseUSD, "-0.000000001", -1, nil},
		{ParseUSD, "0.0000000001", 0, ErrDecimal},
		{ParseUSD, "9223372036.854775807", math.MaxInt64, nil},
		{ParseUSD, "9223372036.854775808", 0, ErrOverflow},
		{ParseUSD, "", 0, ErrDecimal}, {ParseUSD, "-", 0, ErrDecimal}, {ParseUSD, ".5", 0, ErrDecimal},
		{ParseUSD, "5.", 0, ErrDecimal}, {ParseUSD, "1e3", 0, ErrDecimal}, {ParseUSD, "+1", 0, ErrDecimal},
		{ParseUSD, "--1", 0, ErrDecimal}, {ParseUSD, "1,5", 0, ErrDecimal}, {ParseUSD, " 1", 0, ErrDecimal},
		{ParseUSD, "1.2.3", 0, ErrDecimal}, {ParseUSD, "0x10", 0, ErrDecimal}, {ParseUSD, "1_0", 0, ErrDecimal},
		{ParseUSD, "\u0661", 0, ErrDecimal},
	}
	for _, c := range cases {
		got, err := c.parse(c.text)
		if !errors.Is(err, c.err) || err == nil && got != c.want {
			t.Errorf("parse %q = %d, %v; want %d, %v", c.text, got, err, c.want, c.err)
		}
	}
}

func TestFormatUSD(t *testing.T) {
	cases := map[abi.Nano]string{
		0: "0.00", 1: "0.000000001", -1: "-0.000000001", 12_500_000_000: "12.50", 1e9: "1.00", 123_456_000: "0.123456",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	}
	for amount, want := range cases {
		if got := FormatUSD(amount); got != want {
			t.Errorf("FormatUSD(%d) = %s, want %s", amount, got, want)
		}
	}
}

// FuzzParseUSD checks every accepted text against big rationals, and the way back.
func FuzzParseUSD(f *testing.F) {
	for _, text := range []string{"0.24", "-1", "5.", "1e9", "00012.500", "9223372036.854775808"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseUSD(text)
		if err != nil {
			return
		}
		want, ok := new(big.Rat).SetString(text)
		if !ok || want.Mul(want, big.NewRat(1e9, 1)).Cmp(new(big.Rat).SetInt64(int64(got))) != 0 {
			t.Errorf("ParseUSD(%q) = %d", text, got)
		}
		if back, err := ParseUSD(FormatUSD(got)); err != nil || back != got {
			t.Errorf("%d is written %s and read as %d, %v", got, FormatUSD(got), back, err)
		}
	})
}
