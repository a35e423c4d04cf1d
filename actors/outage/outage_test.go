package outage

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// TestLines: each case is what happens at which second, and what the log is told of it.
func TestLines(t *testing.T) {
	const fails, works, lasts = "fails", "works", "lasts"
	type event struct {
		at  float64
		how string
	}
	long := []event{}
	for i := range 1000 {
		long = append(long, event{float64(i) * 0.025, fails})
	}
	byTurns := []event{}
	for i := range 100 {
		byTurns = append(byTurns, event{float64(i), fails}, event{float64(i) + 0.5, works})
	}
	for _, c := range []struct {
		name   string
		quiet  time.Duration
		events []event
		want   []string
	}{
		{"nothing fails", 0, []event{{0, works}, {1, works}}, nil},
		{"one failure", 0, []event{{0, fails}, {1, works}, {2, works}}, []string{"0 fails 1", "1 works 0"}},
		{"a long outage", 0, append(long, event{26, works}, event{27, works}),
			[]string{"0 fails 1", "10 fails 400", "20 fails 400", "26 works 199"}},
		{"another one at once", 0, []event{{0, fails}, {1, works}, {2, fails}, {3, works}, {12, fails}, {13, works}},
			[]string{"0 fails 1", "1 works 0", "12 fails 2", "13 works 0"}},
		{"another one that lasts", 0, []event{{0, fails}, {1, works}, {2, fails}, {10, fails}, {11, works}},
			[]string{"0 fails 1", "1 works 0", "10 fails 2", "11 works 0"}},
		{"another one in which little fails", 0, []event{{0, fails}, {1, works}, {2, fails}, {3, lasts}, {9.9, lasts}, {10, lasts}, {19, lasts},
			{20, lasts}, {25, fails}, {30, lasts}, {31, works}, {32, lasts}, {40, lasts}, {41, works}},
			[]string{"0 fails 1", "1 works 0", "10 lasts 1", "20 lasts 0", "30 lasts 1", "31 works 0", "40 lasts 0", "41 works 0"}},
		{"it lasts, and is not quiet", 5 * time.Second, []event{{0, fails}, {4, lasts}, {8, works}, {9, works}}, []string{"0 fails 1", "9 works 0"}},
		{"quiet comes late", 5 * time.Second, []event{{0, fails}, {4, works}, {4.5, fails}, {9, works}, {9.5, works}, {20, works}},
			[]string{"0 fails 1", "9.5 works 1"}},
		{"by turns", 5 * time.Second, append(byTurns, event{104, works}), slices.Concat([]string{"0 fails 1"},
			[]string{"10 fails 10", "20 fails 10", "30 fails 10", "40 fails 10", "50 fails 10", "60 fails 10", "70 fails 10",
				"80 fails 10", "90 fails 10", "104 works 9"})},
	} {
		began := time.Unix(1_000_000, 0)
		s := State{Quiet: c.quiet}
		var got []string
		for _, e := range c.events {
			now := began.Add(time.Duration(e.at * float64(time.Second)))
			step := map[string]func(time.Time) (int, bool){fails: s.Failed, works: s.Worked, lasts: s.Lasts}[e.how]
			if failures, tell := step(now); tell {
				got = append(got, fmt.Sprint(e.at, " ", e.how, " ", failures))
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the log is told %q, want %q", c.name, got, c.want)
		}
	}
}
