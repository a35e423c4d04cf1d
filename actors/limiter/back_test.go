package limiter

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
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

// TestEndBeforeTheFirstLoad: a request ends while its limiter reads the account for the first time. The settlement is handled at
// once, and is not kept with what waits for the read, also when the limiter fails meanwhile or is stopped.
func TestEndBeforeTheFirstLoad(t *testing.T) {
	for _, stopped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var loaded func(limit.Loaded, error) // of the last load
			seen := 0
			var given []Back // to the next limiter
			deps := Deps{Live: func(string) []limit.Live { return nil },
				Load: func(_ string, done func(limit.Loaded, error)) { loaded = done }}
			sys, cell := system.New(system.Config{}), &Cell{}
			ref, err := sys.Start(system.Spec{Name: "limiter", MailboxMax: 10, Policy: system.Policy{FailuresMax: 10, Within: time.Minute},
				New: func() system.Actor { return New("a", cell, deps) }})
			if err != nil {
				t.Fatal(err)
			}
			m := Back{Leaves: true, Leave: limit.Leave{RequestID: "r"}, Settles: true,
				Settle: limit.Settle{RequestID: "r", Amount: -10, Seq: 2},
				Seen:   func() { seen++ }, Again: func(m Message) { given = append(given, m.(Back)) }}
			_, _ = ref.Tell(m), ref.Tell(system.Kill{})
			synctest.Wait()
			if stopped {
				sys.Stop()
				if seen != 1 || len(given) != 1 || given[0].Settles || !given[0].Leaves {
					t.Errorf("the settlement was seen %d times, the next limiter is given %+v", seen, given)
				}
				return
			}
			defer sys.Stop()
			loaded(limit.Loaded{Account: account.Account{ID: "a"}, Balance: 90, Seq: 2}, nil)
			synctest.Wait()
			if use, _ := cell.Use(time.Now()); seen != 1 || len(given) != 0 || use.Available != 90 {
				t.Errorf("the settlement was seen %d times, and the account has %+v; the next limiter is given %+v", seen, use, given)
			}
		})
	}
}

// answers counts those of a request.
type answers struct{ granted, denied int }

func (a *answers) Granted(limit.Reservation, account.Limits) *abi.Error {
	a.granted++
	return nil
}
func (a *answers) Denied(*abi.Error, account.Limits) { a.denied++ }
func (a *answers) HoldRow() account.Entry            { return account.Entry{} }

// TestWaitingRequestsAreAnsweredOnce: of three requests that wait for a load the second one panics. Each has one answer: the third
// of the next incarnation. They came with another budget of their key than the one that was read, and that one counts.
func TestWaitingRequestsAreAnsweredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var loaded func(limit.Loaded, error) // of the last load
		reserved := 0
		deps := Deps{PendingMax: 3, Live: func(string) []limit.Live { return nil },
			Load: func(_ string, done func(limit.Loaded, error)) { loaded = done },
			Hook: func(at string) {
				if reserved++; reserved == 2 {
					panic("in " + at)
				}
			}}
		sys := system.New(system.Config{})
		defer sys.Stop()
		ref, err := sys.Start(system.Spec{Name: "limiter", MailboxMax: 10, Policy: system.Policy{FailuresMax: 10, Within: time.Minute},
			New: func() system.Actor { return New("a", &Cell{}, deps) }})
		if err != nil {
			t.Fatal(err)
		}
		all := [3]answers{}
		for i := range all {
			ask := limit.Ask{RequestID: fmt.Sprint(i), Key: account.LimitedKey{ID: "k", Budget: 50}}
			if err := ref.Send(Reserve{Ask: ask, Ticket: &all[i]}); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			synctest.Wait()
			loaded(limit.Loaded{Account: account.Account{ID: "a"}, Seq: 1, At: time.Now(),
				Keys: []account.KeyUse{{KeyID: "k", Budget: 90}}}, nil)
		}
		synctest.Wait()
		if want := [3]answers{{1, 0}, {0, 1}, {1, 0}}; all != want {
			t.Errorf("granted and denied %v times, want %v", all, want)
		}
	})
}
