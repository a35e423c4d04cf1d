package route

import (
	"testing"
	"time"
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
