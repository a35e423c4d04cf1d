package cli

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"corenode/extensions/compare"
	"corenode/wasm/abi"
)

var update = flag.Bool("update", false, "rewrite golden files; read the diff before you commit it")

// shadowOf compares charges of three accounts, as a node does.
func shadowOf() compare.Report {
	frame := func(payload []byte) []byte {
		f := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
		abi.EndOutput(f, 0)
		return f
	}
	c := compare.New(time.Date(2026, 1, 31, 8, 40, 12, 0, time.UTC), false, 0)
	for n := range int64(1789) {
		in := abi.ChargeInput{Prices: abi.Prices{Input: 240, Output: 2400}, Usage: abi.Usage{InputUncached: 100 + n%7, Output: 20},
			Model: "core-1.1", Account: []string{"acct_one", "acct_two", "acct_three"}[n%3]}
		older := abi.Nano(240*in.Usage.InputUncached + 2400*in.Usage.Output)
		newer := older * []abi.Nano{80, 100, 105}[n%3] / 100
		charge := func(total abi.Nano) []byte {
			return frame(abi.Charge{Total: total, Tier: 1, Lines: []abi.Line{{Unit: "input", Tokens: in.Usage.Input(),
				Price: 240, Amount: total}}}.Append(nil))
		}
		c.Add(compare.Call{Op: abi.OpCharge, Account: in.Account, By: "tariff@1.0.0", In: in.Append(nil), Old: charge(older), New: charge(newer)})
		quote := abi.QuoteInput{Input: in.Usage.Input(), OutputMax: 64, Model: in.Model, Account: in.Account}
		c.Add(compare.Call{Op: abi.OpQuote, Account: in.Account, By: "tariff@1.0.0", In: quote.Append(nil),
			Old: frame(abi.Quote{Upper: 9, Minimum: 1}.Append(nil)), New: frame(abi.Quote{Upper: 9, Minimum: 1}.Append(nil))})
	}
	c.Add(compare.Call{Op: abi.OpCharge, Account: "acct_one", By: "tariff@1.0.0", In: abi.ChargeInput{Model: "core-1.1"}.Append(nil),
		Old: frame(abi.Charge{}.Append(nil)), Fault: "ticks"})
	c.Drop()
	r := c.Report()
	r.Module, r.Digest, r.Percent = "discount@1.2.0", "sha256:"+strings.Repeat("3f2a91c04b1e", 6)[:64], 10
	return r
}

// TestShadowReport is what an operator sees of the shadow of a billing change.
func TestShadowReport(t *testing.T) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	printShadow(w, shadowOf())
	printShadow(w, compare.Report{Module: "other@1", Digest: "sha256:00", First: []compare.Difference{
		{Op: "response", Account: "acct_one", Byte: 17, Old: compare.Answer{Status: "ok", Bytes: 90}, New: compare.Answer{Status: "decline", Bytes: 8}}}})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", "shadow.golden")
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || out.String() != string(want) {
		t.Errorf("%v, printed\n%s", err, out.String())
	}
}

// TestChangeOfSums: the change of two sums says more or less also where it does not fit.
func TestChangeOfSums(t *testing.T) {
	for _, c := range []struct {
		older, newer abi.Nano
		begins       string
	}{{1e9, 2e9, "+$1.00 (+100.0 %)"}, {2e9, 1e9, "-$1.00"}, {1, math.MinInt64, "-$9223372036"}, {math.MinInt64, 1, "+$9223372036"}} {
		if got := changeOf(c.older, c.newer); !strings.HasPrefix(got, c.begins) {
			t.Errorf("from %d to %d: %s, want %s", c.older, c.newer, got, c.begins)
		}
	}
}
