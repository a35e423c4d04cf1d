package extensions

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// countingGuest is a billing module with a counter of the month whose answers are fixed.
func countingGuest(t testing.TB, version string, q abi.Quote, c abi.Charge) []byte {
	t.Helper()
	return countingOf(t, "test", version, q, c)
}

func countingOf(t testing.TB, name, version string, q abi.Quote, c abi.Charge) []byte {
	t.Helper()
	g := newGuest(SlotBilling, version)
	g.manifest.Name = name
	g.manifest.ABI, g.manifest.Free = guest.ABI11, true
	g.manifest.Counters = []guest.Counter{{Name: "tokens", Period: "month"}, {Name: "requests", Period: "day"}}
	g.answers[abi.OpQuote] = q.Append(nil)
	g.answers[abi.OpCharge] = c.Append(nil)
	return g.bytes(t)
}

var (
	countingQuote = abi.Quote{Upper: 1000, Minimum: 10, CoveredUpper: 500, Takes: []abi.Take{{Limit: 100, Max: 50}, {Limit: 7, Max: 1}}}
	tookTokens    = []int64{20, 1}
)

// held is what admission gave of what a quote asked for.
func held(q *Quote, amounts ...int64) []abi.Counter {
	all := slices.Clone(q.Bounds().Takes)
	for i := range all {
		all[i].Amount = amounts[i]
	}
	return all
}

// TestAttackCounters: what a module says of its counters is held to the rules. What breaks one
// is charged by the built-in tariff, which takes all that was held, for a later rating to give back.
func TestAttackCounters(t *testing.T) {
	fair := abi.Charge{Total: 400, Tier: 1, Lines: []abi.Line{line(1, 400, 400)}, Taken: tookTokens}
	quoteOf := func(change func(*abi.Quote)) abi.Quote {
		q := countingQuote
		q.Takes = slices.Clone(q.Takes)
		change(&q)
		return q
	}
	took := func(n ...int64) abi.Charge {
		c := fair
		c.Taken = n
		return c
	}
	cases := []struct {
		name   string
		quote  abi.Quote
		charge abi.Charge
		held   []int64
		says   string // in the log; "" = the module's charge stands
	}{
		{"fair", countingQuote, fair, []int64{50, 1}, ""},
		{"nothing taken", countingQuote, took(0, 0), []int64{50, 1}, ""},
		{"all taken", countingQuote, took(50, 1), []int64{50, 1}, ""},
		{"more than held", countingQuote, took(51, 1), []int64{50, 1}, "the charge takes 51 of counter 0, the request holds 50"},
		{"more than the part that was held", countingQuote, fair, []int64{19, 1}, "takes 20 of counter 0, the request holds 19"},
		{"below zero", countingQuote, took(-1, 0), []int64{50, 1}, "takes -1 of counter 0"},
		{"overflow", countingQuote, took(-1<<63, 1<<63-1), []int64{50, 1}, "of counter 0"},
		{"one counter too few", countingQuote, took(20), []int64{50, 1}, "takes of 1 counters, the request holds of 2"},
		{"none", countingQuote, took(), []int64{50, 1}, "takes of 0 counters"},
		{"above the covered quote", countingQuote, abi.Charge{Total: 501, Lines: []abi.Line{line(1, 501, 501)}, Taken: tookTokens},
			[]int64{50, 1}, "the charge of 501 is above the quote of 500"},
		{"not covered, so the other bound holds", countingQuote, abi.Charge{Total: 501, Lines: []abi.Line{line(1, 501, 501)}, Taken: tookTokens},
			[]int64{49, 1}, ""},
		{"a quote of no counter", abi.Quote{Upper: 1000}, fair, nil, "takes of 0 counters, the manifest has 2"},
		{"a quote of too many", quoteOf(func(q *abi.Quote) { q.Takes = append(q.Takes, abi.Take{}) }), fair, nil, "takes of 3 counters"},
		{"a limit below zero", quoteOf(func(q *abi.Quote) { q.Takes[0].Limit = -1 }), fair, nil, "whose limit is -1"},
		{"most below zero", quoteOf(func(q *abi.Quote) { q.Takes[1].Max = -1 }), fair, nil, "takes -1 of counter 1"},
		{"a limit that overflows", quoteOf(func(q *abi.Quote) { q.Takes[0].Limit = 1<<63 - 1 }), fair, nil, "whose limit is 9223372036854775807"},
		{"covered for more money", quoteOf(func(q *abi.Quote) { q.CoveredUpper = 1001 }), fair, nil, "covered, the quote has"},
		{"covered upside down", quoteOf(func(q *abi.Quote) { q.CoveredMinimum = -1 }), fair, nil, "covered, the quote has minimum -1"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h, said := openTest(t, Options{})
			activate(t, h, countingGuest(t, "1", c.quote, c.charge))
			q, err := h.Quote("r", ratingInput)
			if err != nil {
				t.Fatal(err)
			}
			defer q.Close()
			if c.held == nil {
				if !q.Provisional() || q.Bounds().Takes != nil || !strings.Contains(said.String(), c.says) {
					t.Errorf("%+v, the log:\n%s", q, said)
				}
				return
			}
			have := held(q, c.held...)
			got, err := q.Charge(ratingUsage, have)
			switch {
			case err != nil:
				t.Fatal(err)
			case c.says != "":
				if !got.Provisional || got.Amount != nativeAmount || !slices.Equal(got.Counters, have) ||
					!strings.Contains(said.String(), c.says) {
					t.Errorf("%+v, the log:\n%s", got, said)
				}
			case got.Provisional || got.Amount != c.charge.Total || !slices.Equal(got.Counters, held(q, c.charge.Taken...)):
				t.Errorf("%+v, the log:\n%s", got, said)
			}
		})
	}
}

// TestCountersAreNamedByModuleAndPeriod: versions of a module share its counters, other
// modules do not, and the period is that of the request, in UTC.
func TestCountersAreNamedByModuleAndPeriod(t *testing.T) {
	h, _ := openTest(t, Options{})
	charge := abi.Charge{Total: 400, Tier: 1, Lines: []abi.Line{line(1, 400, 400)}, Taken: tookTokens}
	in := ratingInput
	in.At = 1_798_761_599 // 2026-12-31 23:59:59
	var before []abi.Counter
	for _, version := range []string{"1", "2"} {
		activate(t, h, countingGuest(t, version, countingQuote, charge))
		q, err := h.Quote("r", in)
		if err != nil {
			t.Fatal(err)
		}
		want := []abi.Counter{{Name: "test/tokens", Period: "2026-12", Limit: 100, Amount: 50},
			{Name: "test/requests", Period: "2026-12-31", Limit: 7, Amount: 1}}
		if takes := q.Bounds().Takes; !slices.Equal(takes, want) {
			t.Errorf("version %s takes %+v", version, takes)
		}
		before = held(q, 30, 1)
		got, err := q.Charge(ratingUsage, before)
		if err != nil || got.Provisional {
			t.Fatal(got, err)
		}
		again, err := h.Replay(got.ModuleDigest, got.Input)
		if err != nil || again.Amount != got.Amount || again.InputHash != got.InputHash {
			t.Errorf("replayed: %+v, %v; was %+v", again, err, got)
		}
		asked := abi.ChargeInput{Prices: q.in.Prices, Usage: ratingUsage, At: in.At, Model: in.Model, Account: in.Account}
		left := h.Settling()
		by, err := left.RateBy(got.ModuleDigest, asked, before)
		left.Close()
		if err != nil || by.InputHash != got.InputHash || !slices.Equal(by.Counters, got.Counters) {
			t.Errorf("after a crash: %+v, %v; was %+v", by, err, got)
		}
		q.Close()
	}
	activate(t, h, billingGuest(t, "3", abi.Quote{Upper: 1000, Minimum: 1}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}))
	got, err := h.Rate("r", ratingCharge, before)
	if err != nil || got.Provisional || !slices.Equal(got.Counters, []abi.Counter{
		{Name: "test/tokens", Period: "2026-12", Limit: 100}, {Name: "test/requests", Period: "2026-12-31", Limit: 7}}) {
		t.Errorf("a module without counters takes %+v, %v", got, err)
	}
}

// TestSettlingOpensAModuleOnce: a crash may leave many requests open that one module quoted, which is not in memory.
func TestSettlingOpensAModuleOnce(t *testing.T) {
	o := Options{Dir: filepath.Join(t.TempDir(), "modules")}
	h, _ := openTest(t, o)
	charge := abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}
	digest := mustLoad(t, h, billingGuest(t, "1", abi.Quote{Upper: 1000, Minimum: 1}, charge))
	_ = h.Close()
	h, _ = openTest(t, o)
	left := h.Settling()
	for range 2 {
		if c, err := left.RateBy(digest, ratingCharge, nil); err != nil || c.Amount != 5 || c.ModuleDigest != digest {
			t.Errorf("charged %+v, %v", c, err)
		}
		if err := os.RemoveAll(h.folder.path(digest, extWasm)); err != nil { // it is not read again
			t.Fatal(err)
		}
	}
	opened := left.by[digest].pool
	if left.Close(); opened.Use().Instances != 0 {
		t.Errorf("the module stays open: %+v", opened.Use())
	}
	again := h.Settling()
	defer again.Close()
	if c, err := again.RateBy(digest, ratingCharge, nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without its file it charged %+v, %v", c, err)
	}
}

// TestSettlingFindsWhatShips: what ships charges what a crash left open also before it is loaded, and nothing of
// the start goes on before.
func TestSettlingFindsWhatShips(t *testing.T) {
	wasm := billingGuest(t, "1", abi.Quote{Upper: 1000, Minimum: 1}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}})
	shipped := testShipped()
	for i := range shipped {
		if s := &shipped[i]; s.slot == SlotBilling {
			s.digest, s.wasm = digestOf(wasm), func() ([]byte, error) { return wasm, nil }
		}
	}
	h, err := open(Options{After: make(chan struct{}), Log: slog.New(slog.DiscardHandler)}, shipped)
	if err != nil {
		t.Fatal(err)
	}
	left := h.Settling()
	if c, err := left.RateBy(digestOf(wasm), ratingCharge, nil); err != nil || c.Amount != 5 {
		t.Errorf("charged %+v, %v", c, err)
	}
	left.Close()
	select {
	case <-h.Ready():
		t.Error("the modules are loaded already")
	default:
	}
	_ = h.Close() // which does not wait for After
}
