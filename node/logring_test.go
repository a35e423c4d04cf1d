package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"corenode/node/admin"
)

// TestLogRingKeepsTheLatest: lines pass on unchanged; the latest are kept within the bytes, with
// their numbers, and found by level, kind and account.
func TestLogRingKeepsTheLatest(t *testing.T) {
	var passed strings.Builder
	ring := newLogRing(&passed)
	log := slog.New(slog.NewJSONHandler(ring, nil))
	const all = 9000
	for i := 1; i <= all; i++ {
		log.Info("request", "account", fmt.Sprint("acct_", i%3), "n", i)
	}
	log.Warn("draining", "signal", "terminated")
	if n := strings.Count(passed.String(), "\n"); n != all+1 {
		t.Errorf("%d lines passed", n)
	}
	if len(ring.text) > logRingBytes || cap(ring.text) > logRingBytes {
		t.Errorf("%d bytes are kept", cap(ring.text))
	}
	latest := ring.list(admin.LogQuery{Limit: 4})
	if len(latest) != 4 || latest[3].Number != all+1 || latest[3].Kind != "draining" || latest[3].Level != "WARN" ||
		latest[2].Number != all || latest[2].AccountID != "acct_0" || latest[2].Text != `{"account":"acct_0","n":9000}` {
		t.Errorf("%+v", latest)
	}
	whole := ring.list(admin.LogQuery{Limit: 1 << 20})
	if len(whole) < 3000 || whole[0].Number != ring.first || uint64(len(whole)) != ring.lines {
		t.Errorf("%d lines from %d; kept %d from %d", len(whole), whole[0].Number, ring.lines, ring.first)
	}
	for _, c := range []struct {
		q    admin.LogQuery
		want int
	}{
		{admin.LogQuery{Level: slog.LevelWarn, Limit: 10}, 1},
		{admin.LogQuery{Kind: "request", AccountID: "acct_1", Limit: 10}, 10},
		{admin.LogQuery{AccountID: "acct_9", Limit: 10}, 0},
		{admin.LogQuery{After: all, Limit: 10}, 1},
	} {
		if got := ring.list(c.q); len(got) != c.want {
			t.Errorf("%+v: %d lines", c.q, len(got))
		}
	}
	if _, err := io.WriteString(ring, "not an object\n"); err != nil {
		t.Fatal(err)
	}
	if odd := ring.list(admin.LogQuery{Limit: 1}); odd[0].Text != "not an object\n" {
		t.Errorf("%+v", odd)
	}
}
