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
	"corenode/actors/limit"
	"corenode/actors/system"
)

// TestPlantedFaultFailsTheActor: an invariant that breaks in a running limiter is a failure that
// its supervisor sees; the next incarnation is sound again.
func TestPlantedFaultFailsTheActor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reasons := make(chan any, 10)
		sys := system.New(system.Config{Logger: slog.New(slog.DiscardHandler), Failed: func(_ string, reason any) { reasons <- reason }})
		defer sys.Stop()
		var l *limiter // the incarnation that lives
		deps := Deps{PendingMax: 10, Live: func(string) []limit.Live { return nil },
			Load: func(_ string, done func(limit.Loaded, error)) {
				done(limit.Loaded{Account: account.Account{ID: "a"}, Balance: 100, Seq: 1}, nil)
			},
			Hook: func(point string) { // plants a fault, once
				if point == "limiter.leave" && len(reasons) == 0 {
					l.state.SetKeyBucket("k", limit.Bucket{Capacity: 1, Parts: 1e9})
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
			if err := ref.Tell(Back{Leaves: true, Leave: limit.Leave{RequestID: "nobody"}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if n := len(reasons); n != 1 {
			t.Fatalf("%d failures, want 1", n)
		}
		if reason := fmt.Sprint(<-reasons); !strings.Contains(reason, "the bucket of key k") {
			t.Errorf("it failed with %q", reason)
		}
	})
}
