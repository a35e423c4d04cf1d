package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"corenode/node/admin"
	"corenode/node/config"
	"corenode/node/operators"
	"corenode/node/store"
	"corenode/node/store/sqlite"
	"corenode/node/store/sqlite/sqlitetest"
)

// typed runs one command line and returns what it printed.
func typed(line ...string) (string, error) { return typedTo(io.Discard, line...) }

// typedTo is the same with another standard error.
func typedTo(warned io.Writer, line ...string) (string, error) {
	root := Root("test", nil)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(warned)
	root.SetArgs(line)
	err := root.Execute()
	return out.String(), err
}

// bothWays runs a test on a folder without a node and on one with a node.
func bothWays(t *testing.T, test func(t *testing.T, do func(line ...string) string, fails func(line ...string) string)) {
	for _, way := range []string{"folder", "node"} {
		t.Run(way, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "data")
			if way == "node" {
				startNode(t, dir)
			}
			do := func(line ...string) string {
				t.Helper()
				out, err := typed(append([]string{line[0], "--data-dir", dir}, line[1:]...)...)
				if err != nil {
					t.Fatalf("%v: %v", line, err)
				}
				return out
			}
			fails := func(line ...string) string {
				t.Helper()
				out, err := typed(append([]string{line[0], "--data-dir", dir}, line[1:]...)...)
				if err == nil {
					t.Fatalf("%v succeeded: %s", line, out)
				}
				return err.Error()
			}
			test(t, do, fails)
		})
	}
}

// startNode owns a folder and answers on an admin address, like a node.
func startNode(t *testing.T, dir string) {
	t.Helper()
	startNodeWith(t, dir, nil)
}

// startNodeWith is startNode with modules.
func startNodeWith(t *testing.T, dir string, modules admin.Modules) {
	t.Helper()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	api := admin.New(s, nobody{}, modules, nil, nil)
	token := operators.NewToken()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		status, _, answer := api.Handle(r.Context(), r.Method, r.URL.Path, []byte(r.URL.RawQuery), body)
		w.WriteHeader(status)
		w.Write(answer)
	}))
	withdraw, err := admin.Announce(dir, strings.TrimPrefix(server.URL, "http://"), token, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { withdraw(); server.Close(); s.Close() })
}

func fromJSON[T any](t *testing.T, text string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestAccountCommands(t *testing.T) {
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		made := fromJSON[map[string]any](t, do("account", "create", "alice", "--balance", "10.000000001",
			"--concurrency", "2", "--tokens-per-minute", "500", "--models", "core-1.1, core-1.1-mini", "--json"))
		key, _ := made["key"].(string)
		if !strings.HasPrefix(key, "sk-") || made["balance_nano_usd"] != 10000000001.0 || made["name"] != "alice" {
			t.Fatalf("made %v", made)
		}
		a := fromJSON[admin.Account](t, do("account", "show", "alice", "--json"))
		if want := []string{"core-1.1", "core-1.1-mini"}; !slices.Equal(a.Models, want) {
			t.Errorf("it may use %q, want %q", a.Models, want)
		}
		text := do("account", "create", "bob", "--unlimited")
		if strings.Count(text, "sk-") != 1 || !strings.Contains(text, "bob") {
			t.Errorf("create printed %s", text)
		}
		a = fromJSON[admin.Account](t, do("account", "topup", "alice", "0.5", "--note", "gift", "--idempotency-key", "k", "--json"))
		a = fromJSON[admin.Account](t, do("account", "topup", "alice", "0.5", "--idempotency-key", "k", "--json"))
		if a.BalanceNanoUSD != 10_500_000_001 {
			t.Errorf("after a top-up: %+v", a)
		}
		a = fromJSON[admin.Account](t, do("account", "topup", "alice", "--json", "--", "-0.5"))
		if a.BalanceNanoUSD != 10_000_000_001 {
			t.Errorf("after a correction: %+v", a)
		}
		a = fromJSON[admin.Account](t, do("account", "set", "alice", "--concurrency", "0", "--models", "", "--json"))
		if a.Concurrency != 0 || len(a.Models) != 0 || a.TokensPerMinute != 500 {
			t.Errorf("after set: %+v", a)
		}
		if text := do("account", "disable", a.ID); !strings.Contains(text, "disabled") {
			t.Errorf("disable printed %s", text)
		}
		if text := do("account", "enable", "alice"); !strings.Contains(text, "active") {
			t.Errorf("enable printed %s", text)
		}
		shown := fromJSON[map[string]any](t, do("account", "show", "alice", "--json"))
		if shown["balance_nano_usd"] != 10000000001.0 || shown["held_nano_usd"] != 0.0 {
			t.Errorf("show gives %v", shown)
		}
		text = do("account", "list")
		for _, part := range []string{"alice", "$10.000000001", "no limit", "500", "bob", "unlimited", "NAME"} {
			if !strings.Contains(text, part) {
				t.Errorf("list has no %q:\n%s", part, text)
			}
		}
		do("account", "topup", "bob", "--", "-0.0007")
		if text := do("account", "show", "bob") + do("account", "list"); strings.Count(text, " -$0.0007") != 2 {
			t.Errorf("of an account that owes:\n%s", text)
		}
		if all := fromJSON[[]admin.Account](t, do("account", "list", "--json")); len(all) != 2 {
			t.Errorf("list gives %v", all)
		}
		if text := do("account", "show", "alice") + do("account", "list"); strings.Contains(text, key) {
			t.Error("a secret was shown twice")
		}
	})
}

// TestListOfManyAccounts prints several pages: as one table with one header, and
// as one JSON array; of no account, both are empty.
func TestListOfManyAccounts(t *testing.T) {
	const accounts = 2*store.HoldersMax + 5
	for _, count := range []int{0, accounts} {
		dir := t.TempDir()
		if err := sqlitetest.Fill(dir, count, 1); err != nil {
			t.Fatal(err)
		}
		startNode(t, dir)
		text, err := typed("account", "list", "--data-dir", dir)
		if lines := strings.Count(text, "\n"); err != nil || lines != 1+count || strings.Count(text, "BALANCE") != 1 {
			t.Errorf("%d accounts: %d lines, %v", count, lines, err)
		}
		text, err = typed("account", "list", "--json", "--data-dir", dir)
		if err != nil {
			t.Fatal(err)
		}
		all := fromJSON[[]admin.Account](t, text)
		if len(all) != count || all == nil || count > 0 && all[count-1].Name != sqlitetest.AccountName(count-1) {
			t.Errorf("%d of %d accounts", len(all), count)
		}
		// The form is that of every other --json.
		if again, err := json.MarshalIndent(all, "", "  "); err != nil || string(again)+"\n" != text {
			t.Errorf("%v, and the array reads %.200s", err, text)
		}
	}
}

func TestKeyCommands(t *testing.T) {
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		do("account", "create", "alice")
		made := fromJSON[admin.Key](t, do("key", "create", "alice", "--expires", "720h", "--json"))
		if !strings.HasPrefix(made.Secret, "sk-") || time.Until(made.Expires) < 700*time.Hour {
			t.Errorf("made %+v", made)
		}
		if text := do("key", "create", "alice"); !strings.Contains(text, "sk-") {
			t.Errorf("create printed %s", text)
		}
		do("key", "set", made.ID, "--budget", "5")
		for _, line := range [][]string{{"key", "set", made.ID, "--budget", ""}, {"key", "create", "alice", "--budget", ""}} {
			if got := fails(line...); !strings.Contains(got, `--budget is ""`) {
				t.Errorf("%v, as with a variable that is not set: %s", line, got)
			}
		}
		do("key", "set", made.ID, "--models", "core-1.1")
		if k := fromJSON[admin.Key](t, do("key", "set", made.ID, "--models", "", "--json")); len(k.Models) != 0 {
			t.Errorf("models %q, want all", k.Models)
		}
		if k := fromJSON[admin.Key](t, do("key", "show", made.ID, "--json")); k.BudgetUSD != "5.00" {
			t.Errorf("the budget is %q", k.BudgetUSD)
		}
		if k := fromJSON[map[string]any](t, do("key", "show", made.ID, "--json")); k["charged_usd"] != "0.00" || k["charged_nano_usd"] != 0.0 {
			t.Errorf("of a budget nothing is spent yet: %v", k)
		}
		do("key", "set", made.ID, "--budget", "0")
		if text := do("key", "show", made.ID, "--json"); strings.Contains(text, "charged") {
			t.Errorf("without a budget nobody counts what is charged: %s", text)
		}
		do("key", "revoke", made.ID)
		keys := fromJSON[[]admin.Key](t, do("key", "list", "alice", "--json"))
		if len(keys) != 3 || keys[1].ID != made.ID || keys[1].Revoked.IsZero() || !keys[0].Revoked.IsZero() {
			t.Errorf("keys %+v", keys)
		}
		if text := do("key", "list", "alice"); strings.Contains(text, made.Secret) || !strings.Contains(text, made.ID) {
			t.Errorf("list printed %s", text)
		}
	})
}

func TestMistakes(t *testing.T) {
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		do("account", "create", "alice")
		cases := []struct {
			line []string
			says string
		}{
			{[]string{"account", "create"}, "accepts 1 arg(s), received 0; want corenode account create NAME [flags]"},
			{[]string{"account", "list", "alice"}, "want corenode account list [flags]"},
			{[]string{"account", "topup", "alice", "-3"}, "see corenode account topup --help"},
			{[]string{"requests", "list", "--id", "req_1"}, "those of --past"},
			{[]string{"top"}, "start one with corenode serve"},
			{[]string{"account", "create", "alice"}, "taken"},
			{[]string{"account", "create", "b", "--balance", "1e3"}, "1e3"},
			{[]string{"account", "show", "nobody"}, "not found"},
			{[]string{"account", "set", "alice"}, "at least one of the flags"},
			{[]string{"account", "set", "alice", "--concurrency", "-1"}, "concurrency"},
			{[]string{"account", "topup", "alice", "lots"}, "lots"},
			{[]string{"account", "lst"}, `"lst" for "corenode account", did you mean list or set; see corenode account --help`},
			{[]string{"account", "nothing"}, `"nothing" for "corenode account"; see corenode account --help`},
			{[]string{"key", "create", "alice", "--expires", "soon"}, "soon"},
			{[]string{"key", "create", "alice", "--expires", "2001-01-01"}, "over already"},
			{[]string{"key", "revoke", "key_no"}, "not found"},
			{[]string{"account", "create", "b", "--models", "core-1.1,"}, `model id "": want`},
			{[]string{"account", "set", "alice", "--models", "core 1"}, `model id "core 1": want`},
			// As of variables that are not set.
			{[]string{"account", "create", "b", "--models", ""}, `--models is ""`},
			{[]string{"key", "create", "alice", "--expires", ""}, `--expires is ""`},
			{[]string{"key", "create", "alice", "--models", ""}, `--models is ""`},
			{[]string{"account", "topup", "alice", "3", "--idempotency-key", ""}, `--idempotency-key is ""`},
			{[]string{"module", "capture", "chat", "--for", "5m", "--account", ""}, `--account is ""`},
			{[]string{"module", "load", "none.wasm", "--config", ""}, `--config is ""`},
			{[]string{"module", "dev", "none", "--config", ""}, `--config is ""`},
			{[]string{"module", "replay", "--since", "2026-01-31", "--prices", ""}, `--prices is ""`},
			{[]string{"ledger", "list", ""}, `argument 1 is "", as of a variable that is not set; want corenode ledger list [ACCOUNT]`},
			{[]string{"ledger", "list", "--account", "", "--since", ""}, "--since is \"\""},
			{[]string{"health", "--config", ""}, `--config is ""`},
		}
		for _, c := range cases {
			if err := fails(c.line...); !strings.Contains(err, c.says) {
				t.Errorf("%v: %s, want %q", c.line, err, c.says)
			}
		}
	})
}

// TestFlagsOfServe: what is typed wins, and a flag without a value, as of a variable that is not set, is no default.
func TestFlagsOfServe(t *testing.T) {
	t.Setenv("CORENODE_LISTEN", "127.0.0.1:2")
	load := func(line ...string) (c *config.Config, err error) {
		cmd := Root("test", func(from config.Sources, _, _ io.Writer) error {
			c, _, err = config.Load(from)
			return err
		})
		cmd.SetArgs(append([]string{"serve"}, line...))
		return c, cmd.Execute()
	}
	if c, err := load("--admin-listen", "127.0.0.1:3"); err != nil || c.Listen != "127.0.0.1:2" || c.Admin.Listen != "127.0.0.1:3" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := load("--listen=", "--admin-listen=", "--data-dir="); err == nil || !strings.Contains(err.Error(), `--data-dir is ""`) ||
		!strings.Contains(err.Error(), `--admin-listen is ""`) || !strings.Contains(err.Error(), `--listen is ""`) {
		t.Errorf("flags without values: %v", err)
	}
	if _, err := load("--config="); err == nil || !strings.Contains(err.Error(), `--config is ""`) {
		t.Errorf("a file without a name: %v", err)
	}
}

// TestUnknownBelowModel: a command that is mistyped is none that succeeds with a help text.
func TestUnknownBelowModel(t *testing.T) {
	if _, err := typed("model", "verfy", "m.gguf"); err == nil || !strings.Contains(err.Error(), `"verfy" for "corenode model"`) {
		t.Error(err)
	}
}

// TestUsageOfGivenCommands: a command of package main says what it wants as all do.
func TestUsageOfGivenCommands(t *testing.T) {
	cmd := Root("test", nil, DoctorCommand(func() int64 { return 1 }))
	cmd.SetArgs([]string{"doctor", "extra"})
	if err := cmd.Execute(); err == nil || !strings.Contains(err.Error(), "want corenode doctor [flags]") {
		t.Error(err)
	}
}

// TestWhatNobodyIsShown: a command whose output takes nothing fails. Of a secret that is shown once it says what was made all the
// same, and how to go on.
func TestWhatNobodyIsShown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct {
		line []string
		says string
	}{
		{[]string{"version"}, ""},
		{[]string{"account", "create", "alice", "--data-dir", dir}, "account alice is made, and its key was not shown; corenode key create alice"},
		{[]string{"account", "create", "bob", "--json", "--data-dir", dir}, "account bob is made"},
		{[]string{"key", "create", "alice", "--data-dir", dir}, "is made, and was not shown; corenode key revoke key_"},
	} {
		cmd := Root("test", nil)
		cmd.SetArgs(c.line)
		cmd.SetOut(failing{})
		cmd.SetErr(io.Discard)
		if err := cmd.Execute(); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q", c.line, err, c.says)
		}
	}
	if out, err := typed("key", "list", "alice", "--json", "--data-dir", dir); err != nil || len(fromJSON[[]admin.Key](t, out)) != 2 {
		t.Errorf("%s, %v", out, err)
	}
}

func TestNoFolderIsMadeByLooking(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "typo")
	if _, err := typed("account", "list", "--data-dir", dir); err == nil || !strings.Contains(err.Error(), "not a data folder") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("looking at a folder made it")
	}
}

// TestNewFolderIsTold: the key of an account in the wrong folder works nowhere.
func TestNewFolderIsTold(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, c := range []struct{ name, want string }{{"a", dir + " is a new data folder"}, {"b", ""}} {
		var warned strings.Builder
		if _, err := typedTo(&warned, "account", "create", c.name, "--data-dir", dir); err != nil {
			t.Fatal(err)
		}
		if got := warned.String(); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: it warned %q, want %q", c.name, got, c.want)
		}
	}
}

func TestOwnedFolderThatDoesNotAnswer(t *testing.T) {
	dir := t.TempDir()
	s, err := sqlite.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = typed("account", "list", "--data-dir", dir)
	if err == nil || !strings.Contains(err.Error(), "in use by another process") || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("error %v", err)
	}
}

// TestStaleAddress is a node that was killed: its files are there, it is not.
func TestStaleAddress(t *testing.T) {
	dir := t.TempDir()
	if _, err := admin.Announce(dir, "127.0.0.1:1", operators.NewToken(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("account", "create", "alice", "--data-dir", dir); err != nil {
		t.Error(err)
	}
}

// TestHelpTeaches holds every command to a summary and an example that is one
// of its own lines.
func TestHelpTeaches(t *testing.T) {
	seen := 0
	var visit func(cmd *cobra.Command, path string)
	visit = func(cmd *cobra.Command, path string) {
		seen++
		path += " " + cmd.Name()
		if cmd.Short == "" || !strings.Contains(cmd.Example, "corenode"+path) {
			t.Errorf("%s: summary %q, example %q", path, cmd.Short, cmd.Example)
		}
		for _, child := range cmd.Commands() {
			visit(child, path)
		}
	}
	for _, cmd := range Root("test", nil).Commands() {
		visit(cmd, "")
	}
	if seen < 12 {
		t.Errorf("saw %d commands", seen)
	}
	out, err := typed("account", "--help")
	if err != nil || !strings.Contains(out, "--data-dir") || !strings.Contains(out, "topup") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestParseExpiry(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	cases := map[string]time.Time{
		"": {}, "1h": now.Add(time.Hour), "2026-05-02": now.Add(12 * time.Hour),
		"2026-05-01T15:00:00+02:00": now.Add(time.Hour),
	}
	for text, want := range cases {
		if got, err := parseExpiry(text, now); err != nil || !got.Equal(want) {
			t.Errorf("parseExpiry(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
}
