package limiter

import (
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/actors/system"
)

// TestHalfThatAlwaysPanics: a request gives two things back in one message. One that cannot be handled is given up after
// attemptsMax failures, and does not take the other with it; who waits for the settlement is told in either case.
func TestHalfThatAlwaysPanics(t *testing.T) {
	for point, other := range map[string]string{"limiter.leave": "limiter.settle", "limiter.settle": "limiter.leave"} {
		synctest.Test(t, func(t *testing.T) {
			tries, seen, lost := map[string]int{}, 0, 0
			deps := Deps{Live: func(string) []limit.Live { return nil },
				Load: func(_ string, done func(limit.Loaded, error)) {
					done(limit.Loaded{Account: account.Account{ID: "a"}, Seq: 1}, nil)
				},
				Hook: func(at string) {
					if tries[at]++; at == point {
						panic("in " + at)
					}
				}}
			sys, cell := system.New(system.Config{}), &Cell{}
			defer sys.Stop()
			ref, err := sys.Start(system.Spec{Name: "limiter", MailboxMax: 10, Policy: system.Policy{FailuresMax: 10, Within: time.Minute},
				New: func() system.Actor { return New("a", cell, deps) }})
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			m := Back{Leaves: true, Leave: limit.Leave{RequestID: "r"}, Settles: true, Settle: limit.Settle{RequestID: "r"},
				Seen: func() { seen++ }, Again: func(Message) { lost++ }}
			if err := ref.Tell(m); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if tries[point] != attemptsMax || tries[other] != 1 || seen != 1 || lost != 0 {
				t.Errorf("it came to %v, the settlement was seen %d times and lost %d times", tries, seen, lost)
			}
		})
	}
}
