package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/node/admin"
)

// TestTopFitsItsTerminal: however many requests run, the summary stays where it is: no line is wider than the terminal, and the
// last one, where the cursor goes, is free. Who shows them to no terminal has the first forty, whole.
func TestTopFitsItsTerminal(t *testing.T) {
	var all []admin.Request
	for i := range 4096 {
		all = append(all, admin.Request{ID: fmt.Sprintf("req_%026d", i), AccountID: "acct_0123456789abcdef0123", Model: "modèle-1.1",
			Phase: "decode", DecodeRate: 2})
	}
	all[1].Phase, all[2].Phase = "paused", "settlement"
	for _, c := range []struct{ requests, columns, lines, shown, more int }{
		{4096, 80, 24, 19, 4077}, {19, 80, 24, 19, 0}, {3, 200, 50, 3, 0}, {4096, 20, 3, 0, 0}, {4096, 300, 100, 95, 4001},
		{4096, 0, 0, topRows, 4096 - topRows}, {3, 0, 0, 3, 0},
	} {
		screen := topScreen(all[:c.requests], c.columns, c.lines)
		lines := strings.Split(screen, "\n")
		if c.lines > 0 && len(lines) > c.lines {
			t.Errorf("%d requests at %dx%d take %d lines:\n%s", c.requests, c.columns, c.lines, len(lines), screen)
		}
		for _, line := range lines {
			if c.columns > 0 && utf8.RuneCountInString(line) > c.columns {
				t.Errorf("%d columns do not hold %q", c.columns, line)
			}
		}
		counts := []string{fmt.Sprintf("%d decode", c.requests-2), "1 paused", "1 settlement"}
		slices.Sort(counts)
		summary := fmt.Sprintf("%d requests: %s; %.1f tokens/s", c.requests, strings.Join(counts, ", "), 2*float64(c.requests-2))
		if !strings.HasPrefix(summary, lines[0]) || c.columns != 20 && lines[0] != summary {
			t.Errorf("the first line is %q, want %q", lines[0], summary)
		}
		if got := strings.Count(screen, "\nreq_"); got != c.shown {
			t.Errorf("%d requests at %dx%d: %d are shown, want %d", c.requests, c.columns, c.lines, got, c.shown)
		}
		if strings.Contains(screen, "more\n") != (c.more > 0) || c.more > 0 && !strings.HasSuffix(screen, fmt.Sprintf("\nand %d more\n", c.more)) {
			t.Errorf("%d requests at %dx%d do not say that %d are not shown:\n%s", c.requests, c.columns, c.lines, c.more, screen)
		}
	}
}
