package extensions

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"strings"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

var (
	ratingInput = abi.QuoteInput{Model: "core", Account: "a", Input: 1000, OutputMax: 100, At: 7}
	ratingUsage = abi.Usage{InputUncached: 600, CacheRead: 400, Output: 50}
	// ratingCharge has the prices of openTest.
	ratingCharge = abi.ChargeInput{Model: "core", Prices: abi.Prices{Input: 240, Cached: 24, Output: 2400}, Usage: ratingUsage}
)

func line(tokens int64, price, amount abi.Nano) abi.Line {
	return abi.Line{Unit: "input", Tokens: tokens, Price: price, Amount: amount}
}

// nativeAmount is what the builtin tariff charges for ratingUsage.
const nativeAmount = 600*240 + 400*24 + 50*2400

// TestChargeRules holds the charges of modules to the rules; what breaks one
// is charged by the builtin, provisionally.
func TestChargeRules(t *testing.T) {
	ok := abi.Quote{Upper: 1000, Minimum: 10}
	cases := []struct {
		name   string
		quote  abi.Quote
		charge abi.Charge
		free   bool
		says   string // in the log; "" = the module's charge stands
	}{
		{"fair", ok, abi.Charge{Total: 900, Tier: 1, Lines: []abi.Line{line(1, 800, 800), line(1, 100, 100)}}, false, ""},
		{"the whole quote", ok, abi.Charge{Total: 1000, Lines: []abi.Line{line(1, 1, 1000)}}, false, ""},
		{"triple", ok, abi.Charge{Total: 3000, Lines: []abi.Line{line(1, 3000, 3000)}}, false, "above the quote"},
		{"negative", ok, abi.Charge{Total: -5, Lines: []abi.Line{line(1, 1, -5)}}, false, "is negative"},
		{"negative tokens", ok, abi.Charge{Total: 5, Lines: []abi.Line{line(-1, 1, 5)}}, false, "is negative"},
		{"negative price", ok, abi.Charge{Total: 5, Lines: []abi.Line{line(1, -1, 5)}}, false, "is negative"},
		{"negative line within a positive total", ok, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 1, 10), line(1, 1,
			-5)}}, false, "is negative"},
		{"total that is no sum", ok, abi.Charge{Total: 6, Lines: []abi.Line{line(1, 1, 5)}}, false, "add up to 5"},
		{"the most", abi.Quote{Upper: abi.ChargeMax}, abi.Charge{Total: abi.ChargeMax, Lines: []abi.Line{line(1, 1,
			abi.ChargeMax-1), line(1, 1, 1)}}, false, ""},
		{"more than the most", abi.Quote{Upper: abi.ChargeMax}, abi.Charge{Total: abi.ChargeMax + 1,
			Lines: []abi.Line{line(1, 1, abi.ChargeMax), line(1, 1, 1)}}, false, "more than 1000000000000000"},
		{"overflow", abi.Quote{Upper: abi.ChargeMax}, abi.Charge{Total: math.MinInt64, Lines: []abi.Line{line(1, 1,
			math.MaxInt64), line(1, 1, 1)}}, false, "more than 1000000000000000"},
		{"quote above the most", abi.Quote{Upper: abi.ChargeMax + 1}, abi.Charge{Total: 1, Lines: []abi.Line{line(1, 1,
			1)}}, false, "<= 1000000000000000"},
		{"free by accident", ok, abi.Charge{Lines: []abi.Line{line(0, 0, 0)}}, false, "does not say free"},
		{"free by manifest", ok, abi.Charge{Lines: []abi.Line{line(0, 0, 0)}}, true, ""},
		{"quote upside down", abi.Quote{Upper: 1, Minimum: 2}, abi.Charge{Total: 1, Lines: []abi.Line{line(1, 1, 1)}},
			false, "want 0 <= minimum"},
		{"negative quote", abi.Quote{Upper: -1, Minimum: -2}, abi.Charge{}, false, "want 0 <= minimum"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, l := openTest(t, Options{})
			g := newGuest(SlotBilling, "1")
			g.manifest.Free = c.free
			g.answers = map[abi.Op][]byte{abi.OpQuote: c.quote.Append(nil), abi.OpCharge: c.charge.Append(nil)}
			info := activate(t, h, g.bytes(t))
			q, err := h.Quote("", ratingInput)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			got, err := q.Charge(ratingUsage, nil)
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(got.Input)
			in, err := abi.ParseChargeInput(got.Input)
			if err != nil || in.Usage != ratingUsage || in.At != 7 || in.Account != "a" || got.InputHash != hex.EncodeToString(sum[:]) {
				t.Errorf("input %+v, %v, hash %s", in, err, got.InputHash)
			}
			if c.says == "" {
				if got.Provisional || got.Amount != c.charge.Total || got.ModuleDigest != info.Digest {
					t.Errorf("%+v", got)
				}
				if again, err := h.Replay(got.ModuleDigest, got.Input); err != nil || again.Amount != got.Amount {
					t.Errorf("replay %+v, %v", again, err)
				}
				return
			}
			if !got.Provisional || got.Amount != nativeAmount || got.ModuleDigest != builtin.TariffDigest ||
				!strings.Contains(l.String(), c.says) {
				t.Errorf("%+v; log:\n%s", got, l)
			}
			// A charge that a crash left open is made by a replay.
			if again, err := h.Replay(info.Digest, got.Input); err == nil && c.says != "above the quote" &&
				!strings.Contains(c.name, "quote") {
				t.Errorf("a replay takes it: %+v", again)
			}
			if info, _ = h.info(info.Digest); info.Fallbacks != 1 || info.Faults["rule"] != 1 {
				t.Errorf("%+v", info)
			}
		})
	}
}

// TestChargeBeyondTheQuote: the quote bounds only what it was made for.
func TestChargeBeyondTheQuote(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 10}, abi.Charge{Total: 20, Lines: []abi.Line{line(1, 20, 20)}}))
	q, err := h.Quote("", ratingInput)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	for _, u := range []abi.Usage{{InputUncached: 1001}, {Output: 101}} {
		if c, err := q.Charge(u, nil); err != nil || c.Amount != 20 || c.Provisional {
			t.Errorf("%+v: %+v, %v", u, c, err)
		}
	}
	if c, err := q.Charge(ratingUsage, nil); err != nil || !c.Provisional {
		t.Errorf("%+v, %v", c, err)
	}
}

// TestPolicyFaults: whatever ends a billing module's call, the builtin charges.
func TestPolicyFaults(t *testing.T) {
	for name, frame := range map[string][]byte{
		"no output": nil, "declined": statusFrame(abi.StatusDecline, 0, nil), "a refusal": statusFrame(abi.StatusError,
			abi.InvalidRequest, abi.Refusal{}.Append(nil)),
		"short": okFrame([]byte{1}),
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := openTest(t, Options{})
			g := newGuest(SlotBilling, "1")
			if frame != nil {
				g.raw[abi.OpQuote], g.raw[abi.OpCharge] = frame, frame
			}
			activate(t, h, g.bytes(t))
			q, err := h.Quote("", ratingInput)
			if err != nil || q.Bounds().Upper != 480_000 {
				t.Fatalf("%+v, %v", q, err)
			}
			defer q.Close()
			if c, err := q.Charge(ratingUsage, nil); err != nil || c.Amount != nativeAmount || !c.Provisional {
				t.Errorf("%+v, %v", c, err)
			}
			if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Amount != nativeAmount || !c.Provisional {
				t.Errorf("rate: %+v, %v", c, err)
			}
		})
	}
}

func TestNoPrice(t *testing.T) {
	h, _ := openTest(t, Options{})
	if _, err := h.Quote("", abi.QuoteInput{Model: "other"}); !errors.Is(err, ErrNoPrice) {
		t.Error(err)
	}
	if _, err := h.Prices("other"); !errors.Is(err, ErrNoPrice) {
		t.Error(err)
	}
	if _, err := h.Rate("", abi.ChargeInput{Model: "core", Usage: abi.Usage{Output: -1}}, nil); err == nil {
		t.Error("negative usage was charged")
	}
	// What was free when it was used stays so, whatever its model costs now.
	if c, err := h.Rate("", abi.ChargeInput{Model: "core", Usage: ratingUsage}, nil); err != nil || c.Amount != 0 || c.Provisional {
		t.Errorf("at prices of zero: %+v, %v", c, err)
	}
	c, err := h.Rate("", ratingCharge, nil)
	if err != nil || c.Amount != nativeAmount || c.Provisional {
		t.Errorf("%+v, %v", c, err)
	}
	if again, err := h.Replay(builtin.TariffDigest, c.Input); err != nil || again.Amount != c.Amount {
		t.Errorf("%+v, %v", again, err)
	}
	if _, err := h.Replay("sha256:unknown", c.Input); !errors.Is(err, ErrUnknownModule) {
		t.Error(err)
	}
}

// TestQuotePinsItsGeneration: a swap between quote and charge changes nothing
// for that request.
func TestQuotePinsItsGeneration(t *testing.T) {
	h, _ := openTest(t, Options{})
	charge := func(n abi.Nano) abi.Charge { return abi.Charge{Total: n, Lines: []abi.Line{line(1, n, n)}} }
	first := activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 10}, charge(5)))
	q, err := h.Quote("", ratingInput)
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2", "3"} {
		activate(t, h, billingGuest(t, version, abi.Quote{Upper: 10}, charge(7)))
	}
	if _, err := h.info(first.Digest); err != nil {
		t.Fatal(err)
	}
	c, err := q.Charge(ratingUsage, nil)
	if err != nil || c.Amount != 5 || c.ModuleDigest != first.Digest {
		t.Errorf("%+v, %v", c, err)
	}
	q.Close()
	q.Close()
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Amount != 7 {
		t.Errorf("without a quote the active module charges: %+v, %v", c, err)
	}
	if c, err := h.Replay(first.Digest, c.Input); err != nil || c.Amount != 5 {
		t.Errorf("replay of a generation that is gone: %+v, %v", c, err)
	}
}

// TestCanaryComesLast: until a canary is in memory, or when it does not load, the
// accounts that it is to charge are charged provisionally.
func TestCanaryComesLast(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	charge := func(n abi.Nano) abi.Charge { return abi.Charge{Total: n, Lines: []abi.Line{line(1, n, n)}} }
	activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 10}, charge(5)))
	canary := mustLoad(t, h, billingGuest(t, "2", abi.Quote{Upper: 10}, charge(7)))
	if _, err := h.Canary(canary, 50); err != nil {
		t.Fatal(err)
	}
	_ = h.Close()
	accounts := map[bool]string{} // by whether the canary is for it
	for _, account := range []string{"a", "b", "c", "d", "e", "f"} {
		accounts[inShare(account, 50)] = account
	}
	check := func(inCanary bool, amount abi.Nano, provisional bool) {
		t.Helper()
		in, again := ratingInput, ratingCharge
		in.Account, again.Account = accounts[inCanary], accounts[inCanary]
		q, err := h.Quote("", in)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Close()
		quoted, err := q.Charge(ratingUsage, nil)
		rated, err2 := h.Rate("", again, nil)
		if err != nil || err2 != nil || quoted.Amount != amount || rated.Amount != amount ||
			quoted.Provisional != provisional || rated.Provisional != provisional {
			t.Errorf("in the canary %v: %+v, %v and %+v, %v; want %d, provisional %v", inCanary, quoted, err, rated, err2,
				amount, provisional)
		}
	}
	h, goOn := openHalf(t, o)
	check(true, 5, true)
	check(false, 5, false)
	goOn()
	check(true, 7, false)
	_ = h.Close()
	flip(t, h.folder.path(canary, extWasm), 30)
	h, _ = openTest(t, o)
	check(true, 5, true)
	if _, err := h.Rollback(SlotBilling); err != nil {
		t.Fatal(err)
	}
	check(true, 5, false)
}

// TestStandInIsProvisional: a charge that what ships has begun stays provisional
// when the operator's module comes into memory before it is made.
func TestStandInIsProvisional(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h, _ := openTest(t, o)
	digest := activate(t, h, billingGuest(t, "1", abi.Quote{Upper: 9}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}})).Digest
	_ = h.Close()
	flip(t, h.folder.path(digest, extWasm), 30)
	shipped := testShipped()
	native := shipped[0].native
	shipped[0].native = func(op abi.Op, in, dst []byte) []byte {
		flip(t, h.folder.path(digest, extWasm), 30)
		if _, err := h.Activate(digest); err != nil {
			t.Error(err)
		}
		return native(op, in, dst)
	}
	o.AllowUnsigned = true
	h, _ = openWith(t, o, shipped)
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Amount != nativeAmount || !c.Provisional {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err := h.Rate("", ratingCharge, nil); err != nil || c.Amount != 5 || c.Provisional {
		t.Errorf("by the module: %+v, %v", c, err)
	}
}
