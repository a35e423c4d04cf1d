package extensions

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
	"corenode/wasm/tariff"
)

// charged is the contract's formula in arithmetic that cannot overflow.
func charged(p abi.Prices, u abi.Usage) *big.Int {
	sum := func(numbers ...int64) *big.Int {
		total := new(big.Int)
		for _, n := range numbers {
			total.Add(total, big.NewInt(n))
		}
		return total
	}
	total := new(big.Int)
	for _, term := range []struct {
		price  abi.Nano
		tokens *big.Int
	}{{p.Input, sum(u.InputUncached, u.CacheWrite)}, {p.Cached, sum(u.CacheRead)}, {p.Output, sum(u.Output)}} {
		total.Add(total, term.tokens.Mul(term.tokens, big.NewInt(int64(term.price))))
	}
	if sum(u.InputUncached, u.CacheRead, u.CacheWrite).Cmp(big.NewInt(200_000)) > 0 {
		total.Lsh(total, 1)
	}
	return total
}

// tariffDraws are random prices and usages.
type tariffDraws struct{ *rand.Rand }

// number draws numbers of every size up to so many bits.
func (r tariffDraws) number(bitsMax int) int64 {
	return int64(r.Uint64() >> (64 - r.IntN(bitsMax+1)))
}

func (r tariffDraws) prices(bitsMax int) abi.Prices {
	return abi.Prices{Input: 1 + abi.Nano(r.number(bitsMax)), Cached: abi.Nano(r.number(bitsMax)), Output: abi.Nano(r.number(bitsMax))}
}

// usage draws a usage; in every other case the input is 199,999 to 200,002 tokens.
func (r tariffDraws) usage() abi.Usage {
	u := abi.Usage{InputUncached: r.number(30), CacheRead: r.number(30), CacheWrite: r.number(20), Output: r.number(30)}
	if r.IntN(2) == 0 {
		input := 199_999 + r.Int64N(4)
		u.CacheRead = r.Int64N(input + 1)
		u.CacheWrite = r.Int64N(input - u.CacheRead + 1)
		u.InputUncached = input - u.CacheRead - u.CacheWrite
	}
	u.Reasoning = r.Int64N(u.Output + 1)
	return u
}

// openTariff is a host whose billing is the shipped module, as Wasm, and the
// prices of some models. It compiles the module: the tests share one host.
func openTariff(t *testing.T, r tariffDraws) (h *Host, digest string, prices map[string]abi.Prices) {
	t.Helper()
	prices = map[string]abi.Prices{"contract": {Input: 240, Cached: 24, Output: 2400}}
	for i := range 40 {
		prices[fmt.Sprint("model-", i)] = r.prices(12)
	}
	var shipped []shippedModule
	for _, s := range shippedModules() {
		if s.slot == SlotBilling {
			shipped = append(shipped, s)
		}
	}
	h, l := openWith(t, Options{Dir: t.TempDir(), Prices: prices}, shipped)
	for _, m := range h.Modules() {
		if m.Slot == SlotBilling && m.State == StateActive && m.Digest != builtin.TariffDigest {
			digest = m.Digest
		}
	}
	if digest == "" {
		t.Fatalf("the tariff does not serve as Wasm:\n%s", l)
	}
	return h, digest, prices
}

// TestTariffsAgree holds the Wasm tariff behind the host, the native one and
// big integers to each other, to the nano-dollar.
func TestTariffsAgree(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a Go guest, which takes seconds: left out of -short")
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := tariffDraws{rand.New(rand.NewPCG(seed, 0))}
	h, digest, prices := openTariff(t, r)
	t.Run("charges", func(t *testing.T) { chargesAgree(t, r, h, digest) })
	t.Run("quotes", func(t *testing.T) { quotesAgree(t, r, h, digest, prices) })
	t.Run("refusals", func(t *testing.T) { tariffsRefuse(t, h, digest) })
}

func chargesAgree(t *testing.T, r tariffDraws, h *Host, digest string) {
	overflows, at := 0, map[int64]int{}
	for i := range 4000 {
		in := abi.ChargeInput{Prices: r.prices(34), Usage: r.usage(), At: 7, Model: "any", Account: "a"}
		if i == 0 { // the draw may have none that overflows
			in.Prices, in.Usage = abi.Prices{Input: 1<<34 - 1, Output: 1<<34 - 1}, abi.Usage{InputUncached: 1<<30 - 1, Output: 1<<30 - 1}
		}
		want := charged(in.Prices, in.Usage)
		native, errNative := tariff.Rate(in.Prices, in.Usage)
		if want.Cmp(big.NewInt(int64(abi.ChargeMax))) > 0 {
			_, err := h.Replay(digest, in.Append(nil))
			if fits := want.IsInt64(); err == nil || fits != (errNative == nil) || fits && int64(native.Total) != want.Int64() {
				t.Fatalf("%+v comes to %v, and was charged (%v); native %d, %v", in, want, err, native.Total, errNative)
			} else if !fits {
				overflows++
			}
			continue
		}
		guest, err := h.Rate("", in, nil)
		if err != nil || errNative != nil || guest.Provisional || guest.ModuleDigest != digest {
			t.Fatalf("%+v: %+v, %v; native %v", in, guest, err, errNative)
		}
		if int64(guest.Amount) != want.Int64() || native.Total != guest.Amount || native.Tier != guest.Tier {
			t.Fatalf("%+v: Wasm %d (tier %d), native %d (tier %d), want %v", in, guest.Amount, guest.Tier, native.Total, native.Tier, want)
		}
		if long := in.Usage.Input() > 200_000; long != (guest.Tier == 2) {
			t.Fatalf("an input of %d is of tier %d", in.Usage.Input(), guest.Tier)
		}
		at[in.Usage.Input()]++
	}
	if overflows == 0 || at[200_000] < 100 || at[200_001] < 100 {
		t.Errorf("%d overflows, %d inputs of 200,000 and %d of 200,001: the draw misses a case", overflows, at[200_000], at[200_001])
	}
}

// quotesAgree also charges what was quoted, at the pinned generation.
func quotesAgree(t *testing.T, r tariffDraws, h *Host, digest string, prices map[string]abi.Prices) {
	cut := 0
	for i := range 2000 {
		model := fmt.Sprint("model-", i%40)
		p := prices[model]
		used := r.usage()
		input, outputMax := used.Input(), used.Output+r.number(20)+1
		upper, minimum, errNative := tariff.Quote(p, input, outputMax)
		dearest := p
		dearest.Input = max(p.Input, p.Cached)
		wantUpper := charged(dearest, abi.Usage{InputUncached: input, Output: outputMax})
		wantMinimum := charged(p, abi.Usage{InputUncached: input, Output: 1})
		q, err := h.Quote("", abi.QuoteInput{Model: model, Account: "a", Input: input, OutputMax: outputMax, At: 7})
		if err != nil || errNative != nil || q.Module() != digest {
			t.Fatalf("%+v for %d and %d: %v, native %v", p, input, outputMax, err, errNative)
		}
		b := q.Bounds()
		if b.Upper != upper || b.Minimum != minimum || int64(upper) != wantUpper.Int64() || int64(minimum) != wantMinimum.Int64() {
			t.Fatalf("%+v for %d and %d: Wasm %d, %d, native %d, %d, want %v, %v", p, input, outputMax,
				b.Upper, b.Minimum, upper, minimum, wantUpper, wantMinimum)
		}
		c, err := q.Charge(used, nil)
		q.Close()
		if err != nil || c.Provisional || c.ModuleDigest != digest || int64(c.Amount) != charged(p, used).Int64() || c.Amount > upper {
			t.Fatalf("%+v of %+v: %+v, %v, want %v of at most %d", used, p, c, err, charged(p, used), upper)
		}
		if c.Amount < upper {
			cut++
		}
	}
	if cut < 1000 {
		t.Errorf("only %d charges are below their quote: the draw proves little", cut)
	}
}

// tariffsRefuse shows the usages that make no sense to both tariffs and to the
// host: no one charges them, and the host has nobody left to ask.
func tariffsRefuse(t *testing.T, h *Host, digest string) {
	p := abi.Prices{Input: 240, Cached: 24, Output: 2400}
	const most = math.MaxInt64
	for name, u := range map[string]abi.Usage{
		"uncached": {InputUncached: -1, CacheRead: 5}, "read": {CacheRead: -1, InputUncached: 5},
		"write": {CacheWrite: -1, InputUncached: 5}, "output": {InputUncached: 5, Output: -1},
		"reasoning": {Output: 5, Reasoning: -1}, "more reasoning than output": {Output: 5, Reasoning: 6},
		"least": {Output: math.MinInt64}, "a sum that wraps": {InputUncached: most, CacheRead: most, CacheWrite: 2},
		"a sum that wraps to below zero": {InputUncached: most, CacheWrite: 1},
	} {
		in := abi.ChargeInput{Prices: p, Usage: u, Model: "contract", Account: "a"}
		if c, err := tariff.Rate(p, u); err == nil {
			t.Errorf("%s: native charges %+v", name, c)
		}
		if c, err := h.Replay(digest, in.Append(nil)); err == nil {
			t.Errorf("%s: Wasm charges %+v", name, c)
		}
		if c, err := h.Rate("", in, nil); err == nil {
			t.Errorf("%s: the host charges %+v", name, c)
		}
	}
	// What makes sense is charged afterwards as before, by the module.
	in := abi.ChargeInput{Prices: p, Usage: abi.Usage{InputUncached: 200_001, Output: 1}, Model: "contract", Account: "a"}
	c, err := h.Rate("", in, nil)
	if err != nil || c.Amount != 2*(200_001*240+2400) {
		t.Errorf("afterwards: %+v, %v", c, err)
	}
}
