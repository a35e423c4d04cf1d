package main

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
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
	log.Info("a <kind>")
	log.Warn("draining", "signal", "terminated")
	if n := strings.Count(passed.String(), "\n"); n != all+2 {
		t.Errorf("%d lines passed", n)
	}
	if text := ring.latest.text; cap(text) > logRingBytes {
		t.Errorf("%d bytes are kept", cap(text))
	}
	latest := ring.list(admin.LogQuery{Limit: 4}).Data
	if len(latest) != 4 || latest[3].Number != all+2 || latest[3].Kind != "draining" || latest[3].Level != "WARN" ||
		latest[1].Number != all || latest[1].AccountID != "acct_0" || latest[1].Text != `{"account":"acct_0","n":9000}` {
		t.Errorf("%+v", latest)
	}
	whole := ring.list(admin.LogQuery{Limit: 1 << 20}).Data
	if kept := ring.latest.numbers; len(whole) < 3000 || whole[0].Number != kept[0] || len(whole) != len(kept) {
		t.Errorf("%d lines from %d; kept %d from %d", len(whole), whole[0].Number, len(kept), kept[0])
	}
	for _, c := range []struct {
		q    admin.LogQuery
		want int
	}{
		{admin.LogQuery{Level: slog.LevelWarn, Limit: 10}, 1},
		{admin.LogQuery{Kind: "request", AccountID: "acct_1", Limit: 10}, 10},
		{admin.LogQuery{AccountID: "acct_9", Limit: 10}, 0},
		{admin.LogQuery{After: all + 1, Limit: 10}, 1},
		{admin.LogQuery{After: all + 2, Limit: 10}, 0},
		{admin.LogQuery{After: all + 3, Kind: "draining", Limit: 10}, 1}, // a number of the process before: all lines are new
		{admin.LogQuery{Kind: "a <kind>", Limit: 10}, 1},
	} {
		if got := ring.list(c.q).Data; len(got) != c.want {
			t.Errorf("%+v: %d lines", c.q, len(got))
		}
	}
	if _, err := io.WriteString(ring, "not an object\n"); err != nil {
		t.Fatal(err)
	}
	if odd := ring.list(admin.LogQuery{Limit: 1}).Data; odd[0].Text != "not an object\n" {
		t.Errorf("%+v", odd)
	}
}

// TestLogRingIsFollowed: who asks for what came behind the last line gets each line that is kept, once and in order,
// however many came, and is told how many were forgotten. A filter does not change what counts as forgotten.
func TestLogRingIsFollowed(t *testing.T) {
	ring := newLogRing(io.Discard)
	log := slog.New(slog.NewJSONHandler(ring, nil))
	n := 0
	write := func(lines int) {
		for range lines {
			n++
			log.Info([]string{"even", "odd"}[n%2], "n", n)
		}
	}
	write(10)
	for _, c := range []struct {
		kind      string
		step      uint64 // between two lines that are wanted
		more      int
		forgotten bool
	}{{"", 1, 3500, false}, {"odd", 2, 3500, false}, {"", 1, 30_000, true}, {"odd", 2, 30_000, true}} {
		after := ring.list(admin.LogQuery{Limit: 1}).Next
		write(c.more)
		expected, missed, got := after+1, uint64(0), 0
		for {
			page := ring.list(admin.LogQuery{After: after, Kind: c.kind, Limit: 1000})
			missed += page.Missed
			expected += page.Missed
			for _, l := range page.Data {
				if l.Number < expected || l.Number >= expected+c.step {
					t.Fatalf("%+v: line %d comes where %d is next", c, l.Number, expected)
				}
				expected = l.Number + 1
			}
			got, after = got+len(page.Data), page.Next
			if len(page.Data) < 1000 {
				break
			}
		}
		if after != uint64(n) || got == 0 || (missed > 0) != c.forgotten || (got+1)*int(c.step)+int(missed) < c.more {
			t.Errorf("%+v: %d of %d lines up to %d of %d, %d forgotten", c, got, c.more, after, n, missed)
		}
	}
}

// TestLogRingKeepsWarnings: lines of requests, which a busy node has by the thousand, push no warning out. Who asks for a level gets
// those that went and those among the latest as one list, and is told of lines that are missing only where warnings are.
func TestLogRingKeepsWarnings(t *testing.T) {
	ring := newLogRing(io.Discard)
	log := slog.New(slog.NewJSONHandler(ring, nil))
	busy := func() {
		for range 2000 {
			log.Info("request", "id", strings.Repeat("x", 300), "level_of_it", "WARN")
		}
	}
	warnings := func(after uint64, level slog.Level) (kinds []string, missed uint64) {
		page := ring.list(admin.LogQuery{Level: level, After: after, Limit: 1000})
		for i, l := range page.Data {
			if i > 0 && l.Number <= page.Data[i-1].Number {
				t.Errorf("line %d comes behind %d", l.Number, page.Data[i-1].Number)
			}
			kinds = append(kinds, l.Kind)
		}
		return kinds, page.Missed
	}
	log.Info("first")
	log.Warn("a warning")
	busy()
	log.Error("an error")
	busy()
	log.Warn("another")
	all := []string{"a warning", "an error", "another"}
	for _, after := range []uint64{0, 1, 1 << 40} {
		if got, missed := warnings(after, slog.LevelWarn); !slices.Equal(got, all) || missed != 0 {
			t.Errorf("behind %d: %q, %d missed", after, got, missed)
		}
	}
	if got, missed := warnings(2, slog.LevelWarn); !slices.Equal(got, all[1:]) || missed != 0 {
		t.Errorf("behind the first: %q, %d missed", got, missed)
	}
	if got, _ := warnings(1, slog.LevelError); !slices.Equal(got, all[1:2]) {
		t.Errorf("errors: %q", got)
	}
	if got, missed := warnings(1, slog.LevelInfo); missed == 0 || slices.Contains(got, "a warning") {
		t.Errorf("of all lines %d are missing, and the first is %q", missed, got[0])
	}
	for range 3000 {
		log.Warn("more", "text", strings.Repeat("x", 300))
	}
	if _, missed := warnings(1, slog.LevelWarn); missed == 0 || cap(ring.severe.text) > logSevereBytes {
		t.Errorf("%d missed, and %d bytes of warnings are kept", missed, cap(ring.severe.text))
	}
}

// BenchmarkLogRing is a look at the log with a filter that few lines pass.
func BenchmarkLogRing(b *testing.B) {
	ring := newLogRing(io.Discard)
	log := slog.New(slog.NewJSONHandler(ring, nil))
	for i := range 5000 {
		log.Info("request", "id", fmt.Sprint("req_", i), "account", "acct_1", "model", "core-1.1", "total_ms", 12.5, "status", 200)
	}
	for _, q := range []admin.LogQuery{{Limit: 100}, {Limit: 100, Level: slog.LevelWarn}} {
		b.Run(q.Level.String(), func(b *testing.B) {
			for b.Loop() {
				ring.list(q)
			}
		})
	}
}
