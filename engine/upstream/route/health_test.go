package route

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// TestLastOneThatAnswers: a replica that drains is none that could answer instead.
func TestLastOneThatAnswers(t *testing.T) {
	s := New(Config{PrefixesMax: 1, PrefixAge: time.Second, InFlightMax: 1})
	s.Add("a")
	s.Add("b")
	s.Drain("b", true)
	now := time.Unix(1000, 0)
	for range 3 * failuresOut {
		if s.Failed("a", "reset", now) || s.Probed("a", false, "down", now) {
			t.Fatal("the last one that takes requests is taken out")
		}
	}
}

// TestReasonsAreCut: of why a replica failed a line is kept, however much there was.
func TestReasonsAreCut(t *testing.T) {
	s := New(Config{PrefixesMax: 1, PrefixAge: time.Second, InFlightMax: 1})
	s.Add("a")
	reason, now := "a"+strings.Repeat("é", 1<<20), time.Unix(1000, 0)
	for name, tell := range map[string]func(){
		"failed": func() { s.Failed("a", reason, now) }, "probed": func() { s.Probed("a", false, reason, now) },
		"refused": func() { s.Refused("a", reason) }, "short": func() { s.Refused("a", "short") },
	} {
		tell()
		got := s.States(now)[0].Reason
		if name == "short" && got != "short" || len(got) > 600 || !utf8.ValidString(got) || name != "short" && !strings.HasPrefix(got, "aé") {
			t.Errorf("%s: %d bytes: %.40s", name, len(got), got)
		}
	}
}
