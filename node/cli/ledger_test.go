package cli

import (
	"strings"
	"testing"

	"corenode/node/admin"
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
	})
}
