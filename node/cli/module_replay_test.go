package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/check"
	"corenode/node/admin"
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
	return writeIn(t, "fee.wasm", string(packExample(t, "billing-c")))
}

// freeTier packs the example of a billing module with a counter, as a module of another name, version and counter.
func freeTier(t *testing.T, name, version, counter string) []byte {
	t.Helper()
	return packExample(t, "billing-tier-c", `"free-tier-c"`, `"`+name+`"`, `"1.0.0"`, `"`+version+`"`,
		`"name": "tokens"`, `"name": "`+counter+`"`)
}

// packExample packs an example with replacements in its manifest.
func packExample(t *testing.T, name string, replacements ...string) []byte {
	t.Helper()
	module, err := os.ReadFile(filepath.Join("..", "..", "wasm", "examples", name, "module.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return packInstead(t, module, name, replacements...)
}

// packInstead packs a module with the manifest of an example.
func packInstead(t *testing.T, module []byte, name string, replacements ...string) []byte {
	t.Helper()
	manifest, err := os.ReadFile(filepath.Join("..", "..", "wasm", "examples", name, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	packed, err := check.Pack(module, []byte(strings.NewReplacer(replacements...).Replace(string(manifest))), nil)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// keepModule puts a module where a node keeps those that served.
func keepModule(t *testing.T, dir string, wasm []byte) (digest string) {
	t.Helper()
	hash := sha256.Sum256(wasm)
	name := hex.EncodeToString(hash[:])
	if err := os.MkdirAll(filepath.Join(dir, "modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "modules", name+".wasm"), wasm, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sha256:" + name
}

// ratedBy is a charge row as a module made it of an input that holds something of its counter.
func ratedBy(t *testing.T, e account.Entry, digest string, amount abi.Nano, held int64) account.Entry {
	t.Helper()
	in, err := abi.ParseChargeInput(e.ChargeInput)
	if err != nil {
		t.Fatal(err)
	}
	in.Held = []int64{held}
	e.ChargeInput, e.ModuleDigest, e.Amount = in.Append(nil), digest, -amount
	hash := sha256.Sum256(e.ChargeInput)
	e.InputHash = hex.EncodeToString(hash[:])
	return e
}

// heldTokens is what a row has of a counter.
func heldTokens(name string, n int64) []abi.Counter {
	return []abi.Counter{{Name: name, Period: "2026-01", Limit: 1000, Amount: n}}
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
	prices := writeIn(t, "node.yaml", "server: {tls_certificate: node.pem} # its key is in a variable\n"+
		"models:\n  core-1.1: {prices: {input: \"0.005\", cached_input: \"0.002\", output: \"0.02\"}}\n")
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
			if configured := slices.Contains(c.line, settings); configured != (r.Config == settings) {
				t.Errorf("%v: configured with %q", c.line, r.Config)
			}
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

// TestReplayHeading: it says what computed the charges, and with which configuration.
func TestReplayHeading(t *testing.T) {
	for want, r := range map[string]replayReport{
		"computed by the modules that made them: 0 differ.":    {},
		"computed by fee@1 without a configuration: 0 differ.": {Module: "fee@1"},
		"computed by fee@1 with discounts/fee.json: 0 differ.": {Module: "fee@1", Config: "discounts/fee.json"},
	} {
		var out strings.Builder
		if printReplays(&out, r); !strings.Contains(out.String(), want) {
			t.Errorf("%s\nwant %s", out.String(), want)
		}
	}
}

// oneAccount is an open ledger in a new data folder, with an account that has money.
func oneAccount(t *testing.T) (dir string, s *sqlite.Store, a account.Account) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "data")
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a, err = s.CreateAccount(account.Account{Name: "a"}, 1<<40); err != nil {
		t.Fatal(err)
	}
	return dir, s, a
}

// TestReplayLeavesOut: what cannot be computed is named with why, and is in no sum; what was rated
// again counts with what that came to.
func TestReplayLeavesOut(t *testing.T) {
	dir, s, a := oneAccount(t)
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
		{"--since", "2026-01-30", "--prices", os.DevNull},
		{"--since", "2026-01-30", "--module", flatFee(t), "--config", writeIn(t, "bad.json", `{"fee_nano": -1}`)},
	} {
		if out, err := typed(append([]string{"module", "--data-dir", dir, "replay"}, bad...)...); err == nil {
			t.Errorf("%v went well: %s", bad, out)
		}
	}
}

// TestReplayOfRatedAgain: a charge that was rated again, or that its node settled later than
// another had, is computed by the module and of the input of that. With the module that made it
// nothing differs. Another one gets of counters what the request held by name, and of others nothing.
func TestReplayOfRatedAgain(t *testing.T) {
	dir, s, a := oneAccount(t)
	tier := keepModule(t, dir, freeTier(t, "tier", "1.0.0", "tokens"))
	// 10 tokens at 3 and 2 at 15. With 4 free ones it is 48, with 12 nothing.
	row := func(n int) account.Entry {
		return chargeRow(a.ID, fmt.Sprintf("req_%d", n), replayStart.Add(time.Duration(n)*time.Second),
			abi.Usage{InputUncached: 10, Output: 2}, 60)
	}
	byTariff, byHold, crashed, final, covered := row(0), row(1), row(2), row(3), row(4)
	byTariff.Provisional, byTariff.Counters = true, heldTokens("tier/tokens", 4)
	byHold.Provisional, byHold.Counters, byHold.Amount = true, heldTokens("tier/tokens", 4), -90
	byHold.ChargeInput, byHold.InputHash, byHold.ModuleDigest = nil, "", ""
	crashed.Reason = account.Crashed
	final = ratedBy(t, final, tier, 48, 4)
	final.Counters = heldTokens("tier/tokens", 4)
	covered = ratedBy(t, covered, tier, 0, 100)
	covered.Counters = heldTokens("tier/tokens", 12)
	if err := s.Append([]account.Entry{byTariff, byHold, crashed, final, covered}); err != nil {
		t.Fatal(err)
	}
	for n, was := range []abi.Nano{60, 90, 60} {
		settled, err := s.Settlement(fmt.Sprintf("req_%d", n))
		if err != nil {
			t.Fatal(err)
		}
		again := ratedBy(t, row(n), tier, 48, 4)
		again.Amount, again.Settles, again.Time = was-48, settled.ID, replayStart.Add(time.Hour)
		if done, err := s.Adjust(again); err != nil || !done {
			t.Fatal(done, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	later := writeIn(t, "later.wasm", string(freeTier(t, "tier", "2.0.0", "tokens")))
	for _, c := range []struct {
		by   string
		line []string
		want replaySum
	}{
		{"what made them", nil, replaySum{5, 0, 4 * 48, 4 * 48}},
		{"a build of the same name", []string{"--module", later}, replaySum{5, 0, 4 * 48, 4 * 48}},
		{"a module of another name", []string{"--module", writeIn(t, "promo.wasm", string(freeTier(t, "promo", "1.0.0", "tokens")))},
			replaySum{5, 5, 4 * 48, 5 * 60}},
		{"one with another counter", []string{"--module", writeIn(t, "gift.wasm", string(freeTier(t, "tier", "1.0.0", "gift")))},
			replaySum{5, 5, 4 * 48, 5 * 60}},
	} {
		out, err := typed(append([]string{"module", "--data-dir", dir, "replay", "--json", "--since", "2026-01-30"}, c.line...)...)
		if err != nil {
			t.Fatal(err)
		}
		if r := fromJSON[replayReport](t, out); r.Sum != c.want || r.Left != 0 {
			t.Errorf("by %s: %+v, want %+v; %d left: %+v", c.by, r.Sum, c.want, r.Left, r.Named)
		}
	}
	// Without the file nobody knows what the counters of its charges are called. A module without counters need not.
	if err := os.RemoveAll(filepath.Join(dir, "modules")); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		module     string
		made, left int64
	}{{later, 2, 3}, {flatFee(t), 5, 0}} {
		out, err := typed("module", "--data-dir", dir, "replay", "--json", "--since", "2026-01-30", "--module", c.module)
		if err != nil {
			t.Fatal(err)
		}
		if r := fromJSON[replayReport](t, out); r.Sum.Charges != c.made || r.Left != c.left {
			t.Errorf("without the file: %+v, %d left: %+v", r.Sum, r.Left, r.Named)
		}
	}
}

// idle are the modules of a node that is to compute nothing.
type idle struct {
	unused
	t *testing.T
}

type unused interface{ admin.Modules }

func (i idle) Replay(string, []byte) (extensions.Charge, error) {
	i.t.Error("the node that runs computes a charge")
	return extensions.Charge{}, nil
}

// writeRatedAgain writes a charge of a crash, which a module with 4 free tokens rated again.
func writeRatedAgain(t *testing.T, dir, digest string) {
	t.Helper()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	a, err := s.CreateAccount(account.Account{Name: "a"}, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	row := chargeRow(a.ID, "req_0", replayStart, abi.Usage{InputUncached: 10, Output: 2}, 60)
	row.Reason, row.Counters = account.Crashed, heldTokens("tier/tokens", 4)
	if err := s.Append([]account.Entry{row}); err != nil {
		t.Fatal(err)
	}
	settled, err := s.Settlement("req_0")
	if err != nil {
		t.Fatal(err)
	}
	again := ratedBy(t, row, digest, 48, 4)
	again.Amount, again.Settles, again.Counters, again.Time = 60-48, settled.ID, nil, replayStart.Add(time.Hour)
	if done, err := s.Adjust(again); err != nil || !done {
		t.Fatal(done, err)
	}
}

// TestReplayLeavesTheNodeAlone: beside a node the command computes all charges itself, those that were rated again too.
func TestReplayLeavesTheNodeAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	writeRatedAgain(t, dir, keepModule(t, dir, freeTier(t, "tier", "1.0.0", "tokens")))
	startNodeWith(t, dir, idle{t: t})
	out, err := typed("module", "--data-dir", dir, "replay", "--json", "--since", "2026-01-30")
	if err != nil {
		t.Fatal(err)
	}
	if r := fromJSON[replayReport](t, out); (r.Sum != replaySum{1, 0, 48, 48}) || r.Left != 0 {
		t.Errorf("%+v, %d left: %+v", r.Sum, r.Left, r.Named)
	}
}

// TestReplayReadsWhatCountersAreCalled: of the module that made a charge another one needs the
// manifest only: its code need not run any more.
func TestReplayReadsWhatCountersAreCalled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	empty := packInstead(t, []byte("\x00asm\x01\x00\x00\x00"), "billing-tier-c", `"free-tier-c"`, `"tier"`)
	writeRatedAgain(t, dir, keepModule(t, dir, empty))
	later := writeIn(t, "later.wasm", string(freeTier(t, "tier", "2.0.0", "tokens")))
	for _, c := range []struct {
		line []string
		want replaySum
		left int64
	}{{[]string{"--module", later}, replaySum{1, 0, 48, 48}, 0}, {nil, replaySum{}, 1}} {
		out, err := typed(append([]string{"module", "--data-dir", dir, "replay", "--json", "--since", "2026-01-30"}, c.line...)...)
		if err != nil {
			t.Fatal(err)
		}
		if r := fromJSON[replayReport](t, out); r.Sum != c.want || r.Left != c.left {
			t.Errorf("%v: %+v, %d left: %+v", c.line, r.Sum, r.Left, r.Named)
		}
	}
}
