package cli

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// TestLedgerExport prints the rows in both forms, beside a node and without one.
func TestLedgerExport(t *testing.T) {
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		do("account", "create", "alice", "--balance", "2.50")
		lines := strings.Split(strings.TrimSpace(do("ledger", "export")), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "id,kind,") || !strings.Contains(lines[1], ",2500000000,") {
			t.Errorf("as CSV: %q", lines)
		}
		row := fromJSON[admin.Entry](t, do("ledger", "export", "--json"))
		if row.AmountNanoUSD != 2_500_000_000 || row.Kind != "topup" {
			t.Errorf("as JSON: %+v", row)
		}
		fails("ledger", "export", "--since", "yesterday")
		fails("ledger", "export", "--csv=false")
		fails("ledger", "export", "--csv", "--json")
	})
}

// TestLedgerExportEnds: a page that is not full is the last one, or who reads a ledger that is written to as fast as it is
// read never ends.
func TestLedgerExportEnds(t *testing.T) {
	asked := 0
	dir := answeringBy(t, func(w http.ResponseWriter, _ *http.Request) {
		asked++
		rows := 1
		if asked == 1 {
			rows = store.EntriesMax
		}
		if asked > 2 {
			http.Error(w, "a page behind the last one", http.StatusInternalServerError)
			return
		}
		var page struct {
			Data []admin.Entry `json:"data"`
		}
		for n := range rows {
			page.Data = append(page.Data, admin.Entry{ID: int64(asked*store.EntriesMax + n), Kind: account.TopUp})
		}
		if err := json.NewEncoder(w).Encode(page); err != nil {
			t.Error(err)
		}
	})
	out, err := typed("ledger", "export", "--data-dir", dir)
	if lines := strings.Count(out, "\n"); err != nil || asked != 2 || lines != 1+store.EntriesMax+1 {
		t.Errorf("%d pages were read, %d lines printed: %v", asked, lines, err)
	}
}

// TestLedgerExportHasCounters: the last column is what the JSON has of counters, and empty without any.
func TestLedgerExportHasCounters(t *testing.T) {
	var text strings.Builder
	counters := []abi.Counter{{Name: "plan/tokens", Period: "2026-01", Limit: 1000, Amount: 7}}
	if err := rowsAsCSV(&text)([]admin.Entry{{ID: 1, Counters: counters}, {ID: 2}}); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(text.String())).ReadAll()
	if err != nil || len(rows) != 3 {
		t.Fatalf("%v in %s", err, text.String())
	}
	last := len(rows[0]) - 1
	if rows[0][last] != "counters" || rows[2][last] != "" {
		t.Errorf("the last column is %q, %q without counters", rows[0][last], rows[2][last])
	} else if got := fromJSON[[]abi.Counter](t, rows[1][last]); !reflect.DeepEqual(got, counters) {
		t.Errorf("counters %+v, want %+v", got, counters)
	}
}

// TestLedgerListAndUsage prints what moved money, and sums, beside a node and without one.
func TestLedgerListAndUsage(t *testing.T) {
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		do("account", "create", "alice", "--balance", "2.50")
		do("account", "create", "bob", "--balance", "3")
		for range 3 {
			do("account", "topup", "alice", "1")
		}
		if long, short := do("ledger", "list", "--account", "alice"), do("ledger", "list", "alice"); long != short {
			t.Errorf("ledger list alice is\n%s\nwith --account\n%s", short, long)
		}
		if said := fails("ledger", "list", "alice", "--account", "bob"); !strings.Contains(said, "name one") {
			t.Errorf("two accounts: %s", said)
		}
		lines := strings.Split(strings.TrimSpace(do("ledger", "list", "--account", "alice", "--newest", "--limit", "3")), "\n")
		if len(lines) != 4 || !strings.Contains(lines[1], "topup") || !strings.Contains(lines[3], "+1") {
			t.Errorf("the newest three rows of alice: %q", lines)
		}
		if rows := do("ledger", "list", "--kind", "topup", "--json"); strings.Count(rows, "\n") != 5 {
			t.Errorf("all top-ups: %s", rows)
		}
		if got := do("ledger", "list", "--until", "2020-01-01"); strings.Count(got, "\n") != 1 {
			t.Errorf("rows of long ago: %s", got)
		}
		if got := do("account", "usage", "alice", "--by", "day,model,key"); !strings.Contains(got, "total") {
			t.Errorf("usage: %s", got)
		}
		if got := do("account", "usage", "alice", "--since", "2999-01-01", "--json"); got != "[]\n" {
			t.Errorf("the usage of a time without any: %q", got)
		}
		if got := fails("ledger", "list", "--limit", "-1"); !strings.Contains(got, "--limit is -1") {
			t.Errorf("fewer than no rows: %s", got)
		}
		fails("ledger", "list", "--kind", "hold")
		fails("ledger", "list", "--since", "yesterday")
		fails("ledger", "show", "req_none")
		fails("account", "usage", "alice", "--by", "week")
		fails("account", "usage", "nobody")
	})
}

// TestOperatorAndAudit makes an operator, and shows what was changed.
func TestOperatorAndAudit(t *testing.T) {
	made, err := typed("operator", "new", "alice", "--role", "operator")
	if err != nil || !strings.Contains(made, "\nalice:operator:") {
		t.Errorf("%s, %v", made, err)
	}
	for _, line := range [][]string{{"operator", "new", "Alice"}, {"operator", "new", "admin"}, {"operator", "new", "alice", "--role", "king"}} {
		if out, err := typed(line...); err == nil {
			t.Errorf("%v printed %s", line, out)
		}
	}
	bothWays(t, func(t *testing.T, do, fails func(line ...string) string) {
		do("account", "create", "alice")
		if rows := do("audit"); !strings.Contains(rows, "local") || !strings.Contains(rows, "POST /accounts") {
			t.Errorf("the audit: %s", rows)
		}
		do("account", "disable", "alice")
		if rows := do("audit", "--limit", "1"); !strings.Contains(rows, "PATCH") || !strings.HasSuffix(rows, "There may be more: --before 2\n") {
			t.Errorf("a page of the audit: %s", rows)
		}
		if rows := do("audit", "--before", "2"); strings.Contains(rows, "PATCH") || !strings.Contains(rows, "POST /accounts") {
			t.Errorf("the page behind: %s", rows)
		}
		fails("reload")
		fails("why")
		fails("requests", "list")
	})
}
