package compare

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

func frame(status abi.Status, payload []byte) []byte {
	f := append(abi.BeginOutput(nil, status, 0), payload...)
	abi.EndOutput(f, 0)
	return f
}

func chargeFrame(total abi.Nano) []byte {
	return frame(abi.StatusOK, abi.Charge{Total: total, Tier: 1, Lines: []abi.Line{{Unit: "input", Tokens: 1, Price: total,
		Amount: total}}}.Append(nil))
}

var chargeInput = abi.ChargeInput{Prices: abi.Prices{Input: 5}, Usage: abi.Usage{InputUncached: 30, Output: 7}, Model: "core", Account: "a"}

func charge(account string, older, newer abi.Nano) Call {
	return Call{Op: abi.OpCharge, Account: account, By: "tariff@1", In: chargeInput.Append(nil), Old: chargeFrame(older),
		New: chargeFrame(newer)}
}

// TestCharges: sums, directions, the bars and what cannot be compared.
func TestCharges(t *testing.T) {
	c := New(time.Unix(9, 0), false, 0)
	for _, pair := range []struct{ older, newer abi.Nano }{
		{0, 0}, {7, 7}, {0, 3}, {3, 0}, {100, 49}, {100, 50}, {100, 89}, {100, 90}, {100, 98}, {100, 99}, {1000, 999},
		{1000, 1001}, {100, 101}, {100, 109}, {100, 110}, {100, 199}, {100, 200}, {100, 999}, {100, 1000}, {1,
			abi.ChargeMax}, {abi.ChargeMax, 1},
	} {
		call := charge("a", pair.older, pair.newer)
		call.In = abi.ChargeInput{Usage: chargeInput.Usage}.Append(nil) // at prices at which nothing may be free
		if differ := c.Add(call); differ != (pair.older != pair.newer) {
			t.Errorf("%v: differ %v", pair, differ)
		}
	}
	for _, call := range []Call{
		{Op: abi.OpCharge, In: chargeInput.Append(nil), Old: chargeFrame(5), Fault: "trap"},
		{Op: abi.OpCharge, In: chargeInput.Append(nil), Old: chargeFrame(5), New: frame(abi.StatusDecline, nil)},
		// the tariff charged, in another call
		{Op: abi.OpCharge, In: chargeInput.Append(nil), Old: frame(abi.StatusDecline, nil), New: chargeFrame(5)},
		{Op: abi.OpCharge, In: chargeInput.Append(nil), Old: chargeFrame(5), New: chargeFrame(0)}, // not free
		{Op: abi.OpCharge, In: chargeInput.Append(nil), Old: chargeFrame(5), New: frame(abi.StatusOK, abi.Charge{Total: 4}.Append(nil))},
	} {
		if !c.Add(call) {
			t.Errorf("%+v is no difference", call)
		}
	}
	r := c.Report()
	if o := r.Operations; len(o) != 1 || o[0] != (Operation{Op: "charge", Calls: 26, Differ: 24, Failed: 1}) {
		t.Errorf("%+v", o)
	}
	g := r.Charges
	var bars []uint64
	for _, bar := range g.Ratios {
		bars = append(bars, bar.Calls)
	}
	if got, want := fmt.Sprint(bars), "[1 1 2 2 2 2 2 1 2 2 2 2]"; got != want {
		t.Errorf("bars %s, want %s", got, want)
	}
	if g.Calls != 21 || g.Same != 2 || g.Less != 9 || g.More != 10 || g.NotMade != 2 || g.AgainstRules != 2 || g.Rule == "" {
		t.Errorf("%+v", g)
	}
	if g.OldNanoUSD != abi.ChargeMax+3311 || g.NewNanoUSD != abi.ChargeMax+5204 {
		t.Errorf("sums %d and %d", g.OldNanoUSD-abi.ChargeMax, g.NewNanoUSD-abi.ChargeMax)
	}
	if len(r.First) != firstMax || r.Since != time.Unix(9, 0) || fmt.Sprint(r.Beside) != "[tariff@1 ]" {
		t.Errorf("%d first calls, since %v, beside %q", len(r.First), r.Since, r.Beside)
	}
}

// TestSumsStop: sums end at the largest number instead of turning negative.
func TestSumsStop(t *testing.T) {
	c := New(time.Time{}, true, 0)
	for range 9300 {
		c.Add(charge("a", abi.ChargeMax, abi.ChargeMax-1))
	}
	if g := c.Report().Charges; g.OldNanoUSD != 1<<63-1 || g.Accounts[0].NewNanoUSD != 1<<63-1 {
		t.Errorf("%+v", g)
	}
}

// TestWorstAccounts: among more accounts than there is room for, those whose
// charges change most are found, their change is known to within what is said
// to be missed, and the table does not grow.
func TestWorstAccounts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	c := New(time.Time{}, true, 0)
	const heavy, light = 8, 20 * accountsMax
	truth := map[string]abi.Nano{}
	for n := range 60_000 {
		account, change := fmt.Sprintf("light-%d", rng.IntN(light)), abi.Nano(rng.IntN(10))
		if n%3 == 0 {
			i := rng.IntN(heavy)
			account, change = fmt.Sprintf("heavy-%d", i), 40+abi.Nano(10*i)
		}
		truth[account] += change
		c.Add(charge(account, 1000, 1000-change))
	}
	if len(c.accounts.all) != accountsMax {
		t.Errorf("the table has %d accounts", len(c.accounts.all))
	}
	worst := c.Report().Charges.Accounts
	if len(worst) != worstMax {
		t.Fatalf("%d accounts", len(worst))
	}
	for i, a := range worst[:heavy] {
		if want := fmt.Sprintf("heavy-%d", heavy-1-i); a.Account != want {
			t.Errorf("account %d is %s, want %s", i, a.Account, want)
		}
		if counted := a.OldNanoUSD - a.NewNanoUSD; counted > truth[a.Account] || counted+a.MissedNanoUSD < truth[a.Account] {
			t.Errorf("%s changed by %d, said are %d and at most %d missed", a.Account, truth[a.Account], counted, a.MissedNanoUSD)
		}
	}
}

// TestNoTexts: the first calls that differ show numbers, never what anybody wrote.
func TestNoTexts(t *testing.T) {
	const secret = "a secret of the client"
	c := New(time.Time{}, false, 0)
	in := abi.RequestInput{Body: []byte(secret)}.Append(nil)
	c.Add(Call{Op: abi.OpRequest, In: in, Old: frame(abi.StatusOK, []byte("old "+secret)), New: frame(abi.StatusOK,
		[]byte("old "+strings.ToUpper(secret)))})
	c.Add(Call{Op: abi.OpDecide, In: abi.AdmissionInput{Model: "core", PromptTokens: 3}.Append(nil),
		Old: frame(abi.StatusOK, abi.Decision{}.Append(nil)),
		New: frame(abi.StatusOK, abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: secret}.Append(nil))})
	c.Add(Call{Op: abi.OpError, In: in, Old: frame(abi.StatusOK, []byte(secret)), New: frame(abi.StatusError, []byte(secret))})
	unit := charge("a", 5, 6)
	unit.New = frame(abi.StatusOK, abi.Charge{Total: 6, Lines: []abi.Line{{Unit: "in\x1b[2J", Tokens: 1, Price: 6, Amount: 6}}}.Append(nil))
	c.Add(unit)
	text := fmt.Sprintf("%+v", c.Report())
	if strings.Contains(strings.ToLower(text), "secret") || strings.Contains(text, "\x1b") || len(c.first) != 4 {
		t.Error(text)
	}
	if d := c.first[0]; d.Byte != abi.OutputHeader+len("old ") || d.Old.Bytes != abi.OutputHeader+4+len(secret) {
		t.Errorf("%+v", d)
	}
	if d := c.first[3]; d.Model != "core" || fmt.Sprint(d.Asked) != "[{input 30} {output 7}]" || d.New.Lines[0].Unit != "in?[2J" {
		t.Errorf("%+v", d)
	}
}

// TestQuotesKeepRules: a quote that a node would not take is counted, also where no charge came.
func TestQuotesKeepRules(t *testing.T) {
	c := New(time.Unix(9, 0), false, 1)
	good := abi.Quote{Upper: 9, Minimum: 1, Takes: []abi.Take{{Limit: 5, Max: 5}}}
	upside, bare := good, good
	upside.Upper, upside.Minimum = 1, 9
	bare.Takes = nil
	for _, q := range []abi.Quote{good, upside, bare} {
		c.Add(Call{Op: abi.OpQuote, In: abi.QuoteInput{}.Append(nil), Old: frame(abi.StatusOK, good.Append(nil)),
			New: frame(abi.StatusOK, q.Append(nil))})
	}
	c.Add(Call{Op: abi.OpQuote, In: abi.QuoteInput{}.Append(nil), Old: frame(abi.StatusOK, good.Append(nil)), Fault: "trap"})
	if g := c.Report().Charges; g == nil || g.AgainstRules != 2 || !strings.Contains(g.Rule, "0 counters, the manifest has 1") {
		t.Errorf("%+v", g)
	}
}

// TestEarlyIsTold: two answers to an event group that differ in nothing but the mark, which decides what a broken stream
// costs, say so.
func TestEarlyIsTold(t *testing.T) {
	c := New(time.Unix(9, 0), false, 0)
	plain := frame(abi.StatusOK, abi.Written{Bytes: []byte("x")}.Append(nil))
	marked := bytes.Clone(plain)
	abi.MarkEarly(marked, 0)
	if !c.Add(Call{Op: abi.OpEvents, Old: plain, New: marked}) {
		t.Fatal("no difference")
	}
	if d := c.Report().First[0]; d.Old.Status != "ok" || d.New.Status != "ok, early" {
		t.Errorf("%+v", d)
	}
}
