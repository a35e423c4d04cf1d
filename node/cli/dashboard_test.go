package cli

import (
	"strings"
	"testing"
)

// TestDashboardAndAlerts: both are printed without a node, ready to be used.
func TestDashboardAndAlerts(t *testing.T) {
	board, err := typed("grafana")
	if err != nil || !strings.Contains(board, "corenode_ttft_seconds_bucket") {
		t.Errorf("%v\n%s", err, board)
	}
	fromJSON[map[string]any](t, board)
	if rules, err := typed("alerts"); err != nil || !strings.HasPrefix(rules, "# Alerts") || !strings.Contains(rules, "corenode_ledger_spilled_rows > 0") {
		t.Errorf("%v\n%s", err, rules)
	}
}
