package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions/check"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// replayed is what a test knows of the charges that it wrote, computed by hand.
type replayed struct {
	charges, input, cached, output int64
}

func (r replayed) plus(o replayed) replayed {
	return replayed{r.charges + o.charges, r.input + o.input, r.cached + o.cached, r.output + o.output}
}

// dollars is what the charges come to at prices, and with a fee for each.
func (r replayed) dollars(input, cached, output, fee int64) abi.Nano {
	return abi.Nano(r.input*input + r.cached*cached + r.output*output + r.charges*fee)
}

var replayStart = time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)

// writeCharges writes charges of two accounts at prices of 3, 1 and 15, one in each minute,
// more than two pages of them, and sums up those of a day and, by account, all.
func writeCharges(t *testing.T, dir string) (day replayed, all [2]replayed) {
	t.Helper()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var ids [2]string
	for i, name := range []string{"alice", "bob"} {
		a, err := s.CreateAccount(account.Account{Name: name}, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		ids[i] = a.ID
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []account.Entry
	for n := range 2*store.EntriesMax + 300 {
		at, who := replayStart.Add(time.Duration(n)*time.Minute), n%2
		u := abi.Usage{InputUncached: rng.Int64N(1000), CacheRead: rng.Int64N(1000), Output: 1 + rng.Int64N(1000)}
		one := replayed{1, u.InputUncached, u.CacheRead, u.Output}
		row := chargeRow(ids[who], fmt.Sprintf("req_%d", n), at, u, one.dollars(3, 1, 15, 0))
		rows = append(rows, row)
		if all[who] = all[who].plus(one); at.Day() == 31 {
			day = day.plus(one)
		}
	}
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	return day, all
}

func chargeRow(owner, request string, at time.Time, u abi.Usage, amount abi.Nano) account.Entry {
	in := abi.ChargeInput{Prices: abi.Prices{Input: 3, Cached: 1, Output: 15}, Usage: u, At: at.Unix(), Model: "core-1.1", Account: owner}
	input := in.Append(nil)
	hash := sha256.Sum256(input)
	return account.Entry{Kind: account.Settlement, AccountID: owner, RequestID: request, KeyID: "key_1", Model: "core-1.1", Time: at,
		Amount: -amount, Usage: u, Tier: 1, Reason: account.Finished, ModuleDigest: builtin.TariffDigest, ChargeInput: input,
		InputHash: hex.EncodeToString(hash[:])}
}

// flatFee packs the example of a billing module in C.
func flatFee(t *testing.T) (file string) {
	t.Helper()
	example := filepath.Join("..", "..", "wasm", "examples", "billing-c")
	module, err := os.ReadFile(filepath.Join(example, "module.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := os.ReadFile(filepath.Join(example, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := check.Pack(module, manifest, nil)
	if err != nil {
		t.Fatal(err)
	}
	return writeIn(t, "fee.wasm", string(packed))
}

func writeIn(t *testing.T, name, text string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestReplaySince: a time's charges by another module and at other prices, in sum and by
// account, are what they come to by hand, beside a node and without one.
func TestReplaySince(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	day, all := writeCharges(t, dir)
	fee, settings := flatFee(t), writeIn(t, "fee.json", `{"fee_nano": 7}`)
	prices := writeIn(t, "node.yaml", "models:\n  core-1.1: {prices: {input: \"0.005\", cached_input: \"0.002\", output: \"0.02\"}}\n")
	whole := all[0].plus(all[1])
	do := func(line ...string) replayReport {
		t.Helper()
		out, err := typed(append([]string{"module", "--data-dir", dir, "replay", "--json"}, line...)...)
		if err != nil {
			t.Fatal(err)
		}
		return fromJSON[replayReport](t, out)
	}
	test := func(t *testing.T) {
		for _, c := range []struct {
			line []string
			of   replayed
			new  abi.Nano
		}{
			{[]string{"--since", "2026-01-30"}, whole, whole.dollars(3, 1, 15, 0)},
			{[]string{"--since", "2026-01-31", "--until", "2026-02-01"}, day, day.dollars(3, 1, 15, 0)},
			{[]string{"--since", "2026-01-31", "--until", "2026-02-01", "--module", fee, "--config", settings}, day, day.dollars(3, 1, 15, 7)},
			{[]string{"--since", "2026-01-30", "--account", "bob", "--prices", prices}, all[1], all[1].dollars(5, 2, 20, 0)},
			{[]string{"--since", "2026-01-30", "--prices", prices, "--module", fee, "--config", settings}, whole, whole.dollars(5, 2, 20, 7)},
		} {
			r, old := do(c.line...), c.of.dollars(3, 1, 15, 0)
			if r.Sum.Charges != c.of.charges || r.Sum.OldNanoUSD != old || r.Sum.NewNanoUSD != c.new || r.Left != 0 {
				t.Errorf("%v: %+v, %d left, want %d charges, %d and %d", c.line, r.Sum, r.Left, c.of.charges, old, c.new)
			}
			if differ := c.new != old; differ != (r.Sum.Differ == c.of.charges) || differ != (len(r.First) == replayFirstMax) {
				t.Errorf("%v: %d differ, %d are shown", c.line, r.Sum.Differ, len(r.First))
			}
			var sum replaySum
			for _, a := range r.Accounts {
				sum = replaySum{sum.Charges + a.Charges, sum.Differ + a.Differ, sum.OldNanoUSD + a.OldNanoUSD,
					sum.NewNanoUSD + a.NewNanoUSD}
			}
			if sum != r.Sum {
				t.Errorf("%v: the accounts come to %+v, all to %+v", c.line, sum, r.Sum)
			}
		}
	}
	t.Run("folder", test)
	t.Run("node", func(t *testing.T) {
		startNode(t, dir)
		test(t)
	})
}

// TestReplayLeavesOut: what cannot be computed is named with why, and is in no sum; what was rated
// again counts with what that came to.
func TestReplayLeavesOut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	used := abi.Usage{InputUncached: 10, Output: 2}
	row := func(n int, change func(*account.Entry)) account.Entry {
		e := chargeRow(a.ID, fmt.Sprintf("req_%d", n), replayStart.Add(time.Duration(n)*time.Second), used, 60)
		change(&e)
		return e
	}
	rows := []account.Entry{
		row(0, func(*account.Entry) {}),
		row(1, func(e *account.Entry) { e.ModuleDigest = "sha256:" + strings.Repeat("ab", 32) }),
		row(2, func(e *account.Entry) { e.ChargeInput, e.InputHash = nil, "" }),
		row(3, func(e *account.Entry) { e.ChargeInput, e.InputHash, e.Amount, e.Usage = nil, "", 0, abi.Usage{} }),
		row(4, func(e *account.Entry) { e.Provisional, e.Amount = true, -90 }),
	}
	if err := s.Append(rows); err != nil {
		t.Fatal(err)
	}
	settled, err := s.Settlement("req_4")
	if err != nil {
		t.Fatal(err)
	}
	again := rows[4]
	again.Amount, again.Settles, again.Provisional, again.Note = 30, settled.ID, false, "rated again"
	if done, err := s.Adjust(again); err != nil || !done {
		t.Fatal(done, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	line := []string{"module", "--data-dir", dir, "replay", "--since", "2026-01-30"}
	out, err := typed(append(line, "--json")...)
	if err != nil {
		t.Fatal(err)
	}
	r := fromJSON[replayReport](t, out)
	if (r.Sum != replaySum{3, 0, 120, 120}) || r.Left != 2 || len(r.Named) != 2 {
		t.Fatalf("%+v", r)
	}
	if n := r.Named; n[0].Request != "req_1" || !strings.Contains(n[0].Why, "abababababab") || n[1].Request != "req_2" ||
		!strings.Contains(n[1].Why, "charged by its hold") {
		t.Errorf("%+v", n)
	}
	if text, err := typed(line...); err != nil || !strings.Contains(text, "2 cannot be computed") || !strings.Contains(text, "req_1") {
		t.Errorf("%s, %v", text, err)
	}
	for _, bad := range [][]string{
		{}, {"req_0", "--since", "2026-01-30"}, {"--since", "yesterday"}, {"--since", "2026-01-30", "--config", "x.json"},
		{"--since", "2026-01-30", "--module", "none.wasm"}, {"--since", "2026-01-30", "--account", "nobody"},
		{"--since", "2026-01-30", "--prices", writeIn(t, "bad.yaml", "models: [1]")},
		{"--since", "2026-01-30", "--module", flatFee(t), "--config", writeIn(t, "bad.json", `{"fee_nano": -1}`)},
	} {
		if out, err := typed(append([]string{"module", "--data-dir", dir, "replay"}, bad...)...); err == nil {
			t.Errorf("%v went well: %s", bad, out)
		}
	}
}
