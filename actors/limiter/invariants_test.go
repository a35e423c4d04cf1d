//go:build invariants

package limiter

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/system"
)

// faults break one invariant each, of a state with one request that holds money and one
// that is short of it.
var faults = []struct {
	name  string
	plant func(s *state)
	want  string // in the panic
}{
	{"a permit too many", func(s *state) { s.permits++ }, "counted 3 permits"},
	{"a permit lost", func(s *state) { s.permits-- }, "counted 1 permits"},
	{"money held for nobody", func(s *state) { s.held += 5 }, "held"},
	{"a sum that forgot an orphan", func(s *state) { s.orphans["dead"] = orphan{hold: 7} }, "held"},
	{"short of more than anybody is", func(s *state) { s.short++ }, "short"},
	{"a counter that forgot an orphan", func(s *state) { s.orphans["dead"] = orphan{counters: counters(7)} }, "which nobody counted"},
	{"a counter that nobody holds", func(s *state) { s.count(nil, counters(7)) }, "0 are used and 7 held"},
	{"a hold below zero", func(s *state) { s.put("a", held{permit: true, hold: -1}) }, "request a has"},
	{"a request that has nothing", func(s *state) { s.open["c"] = held{} }, "request c has"},
	{"a request from the future", func(s *state) { s.open["a"] = held{permit: true, hold: 60, arrival: 9} }, "request a has"},
	{"a bucket that overflows", func(s *state) { s.bucket.parts = s.bucket.capacity*partsPerToken + 1 }, "a bucket of 1000 tokens"},
	{"money kept from one who is short", func(s *state) { s.balance += 10 }, "10 available while requests are 20 short"},
}

// TestPlantedFaults: the check sees each broken invariant in the next call, here one
// that is refused and changes nothing.
func TestPlantedFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			s := loadedState(account.Account{ID: "a", TokensPerMinute: 1000}, 100)
			for _, id := range []string{"a", "b"} {
				if _, err := s.reserve(Ask{RequestID: id, Upper: 60, Minimum: 10}, start); err != nil {
					t.Fatal(err)
				}
			}
			f.plant(s)
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, f.want) {
					t.Errorf("the check says %q, want something about %q", got, f.want)
				}
			}()
			_, _ = s.reserve(Ask{RequestID: "c", Upper: 500, Minimum: 500}, start)
		})
	}
}

// TestPlantedFaultFailsTheActor: a sum that breaks in a running limiter is a failure that
// its supervisor sees; the next incarnation is sound again.
func TestPlantedFaultFailsTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reasons := make(chan any, 10)
		sys := system.New(system.Config{Logger: slog.New(slog.DiscardHandler), Failed: func(_ string, reason any) { reasons <- reason }})
		defer sys.Stop()
		var l *limiter // the incarnation that lives
		deps := Deps{PendingMax: 10, Live: func(string) []Live { return nil },
			Load: func(_ string, done func(Loaded)) {
				done(Loaded{Account: account.Account{ID: "a"}, Balance: 100, Seq: 1})
			},
			Hook: func(point string) { // breaks the sum of what is held, once
				if point == "limiter.leave" && len(reasons) == 0 {
					l.state.held++
				}
			}}
		cell := &Cell{}
		ref, err := sys.Start(system.Spec{Name: "limiter", MailboxMax: 10,
			Policy: system.Policy{FailuresMax: 10, Within: time.Minute},
			New: func() system.Actor {
				l = New("a", cell, deps).(*limiter)
				return l
			}})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		for range 2 {
			if err := ref.Tell(Leave{RequestID: "nobody"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := len(reasons); n != 1 {
			t.Fatalf("%d failures, want 1", n)
		}
		if reason := fmt.Sprint(<-reasons); !strings.Contains(reason, "counted 0 permits, 1 held") {
			t.Errorf("it failed with %q", reason)
		}
	})
}
