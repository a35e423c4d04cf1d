package limiter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)

var limited = account.LimitedKey{ID: "k", Budget: 100, TokensPerMinute: 1000}

func wantRefusal(t *testing.T, err *abi.Error, kind abi.Kind, parts ...string) {
	t.Helper()
	if err == nil || err.Kind != kind {
		t.Fatalf("refused with %v, want kind %v", err, kind)
	}
	for _, part := range parts {
		if !strings.Contains(err.Msg, part) {
			t.Errorf("the refusal says %q, not %q", err.Msg, part)
		}
	}
}

// TestKeyBucketOutlivesTheLimiter: tokens that a key used are not forgiven by a restart, whatever
// else the account has; its limit is the one that the request came with.
func TestKeyBucketOutlivesTheLimiter(t *testing.T) {
	loaded := limit.Loaded{Account: account.Account{ID: "a", Unlimited: true}, Seq: 1, At: time.Now()}
	cell, key := &Cell{}, account.LimitedKey{ID: "k", TokensPerMinute: 1000}
	deps := Deps{Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) {}}
	ask := func(l *limiter, id string, prompt int64) *ticket {
		k := &ticket{}
		l.decide(Reserve{Ask: limit.Ask{RequestID: id, Prompt: prompt, Key: key}, Ticket: k})
		return k
	}
	first := New("a", cell, deps).(*limiter)
	first.adopt(loaded, time.Now())
	if k := ask(first, "one", 900); k.err != nil || k.got.KeyTokens != 900 {
		t.Fatal(k.got, k.err)
	}
	if l, ok := cell.Limits(key, time.Now()); !ok || l.TokensLimit != 1000 || l.TokensRemaining > 900 {
		t.Errorf("limits of the key are %+v", l)
	}
	if l, _ := cell.Limits(account.LimitedKey{ID: "other"}, time.Now()); l.TokensLimit != 0 {
		t.Errorf("limits of another key are %+v", l)
	}
	second := New("a", cell, deps).(*limiter)
	second.adopt(loaded, time.Now())
	wantRefusal(t, ask(second, "two", 900).err, abi.RateLimited, "this key's limit of 1000")
	if second.idle(time.Now()) || !second.idle(time.Now().Add(time.Minute)) {
		t.Error("a limiter is idle exactly when the buckets of its keys are full")
	}
	key.TokensPerMinute = 5000
	if k := ask(second, "three", 900); k.err != nil {
		t.Errorf("after the limit was raised: %v", k.err)
	}
}

// TestBudgetThatIsNewIsReadFirst: a request whose key has a budget that the limiter has not read
// waits until it has.
func TestBudgetThatIsNewIsReadFirst(t *testing.T) {
	var loads []func(limit.Loaded, error)
	deps := Deps{PendingMax: 2, Live: func(string) []limit.Live { return nil },
		Load: func(_ string, done func(limit.Loaded, error)) { loads = append(loads, done) }}
	l := New("a", &Cell{}, deps).(*limiter)
	l.adopt(limit.Loaded{Account: account.Account{ID: "a"}, Balance: 1000, Seq: 1, At: time.Now()}, time.Now())
	if l.state.Knows(limit.Ask{Key: limited}, time.Now()) {
		t.Fatal("a budget is known that was never read")
	}
	l.loading = true // nothing is sent
	var asked []*ticket
	for i := range 3 {
		k := &ticket{}
		asked = append(asked, k)
		ask := limit.Ask{RequestID: fmt.Sprint("r", i), Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "k", Budget: 100}}
		l.reserve(&system.Context{}, Reserve{Ask: ask, Ticket: k})
	}
	if len(l.pending) != 2 || asked[2].err == nil {
		t.Fatalf("%d wait, the third has %v", len(l.pending), asked[2].err)
	}
	l.again = false
	l.onLoaded(&system.Context{}, limit.Loaded{Account: account.Account{ID: "a"}, Balance: 1000, Seq: 2, At: time.Now(),
		Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}}, nil)
	if asked[0].got == nil || asked[1].err == nil || asked[1].err.Kind != abi.InsufficientBalance {
		t.Errorf("the first got %v, the second %v", asked[0].got, asked[1].err)
	}
}

// TestBudgetThatCannotBeRead: without the store a request whose budget was not read is refused, and one of which all is known
// is not.
func TestBudgetThatCannotBeRead(t *testing.T) {
	deps := Deps{PendingMax: 9, Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) {}}
	l := New("a", &Cell{}, deps).(*limiter)
	l.adopt(limit.Loaded{Account: account.Account{ID: "a", Unlimited: true}, Seq: 1, At: time.Now()}, time.Now())
	l.Receive(&system.Context{}, Changed{}) // for what is asked from now on the account is read
	known, unknown := &ticket{}, &ticket{}
	l.reserve(&system.Context{}, Reserve{Ask: limit.Ask{RequestID: "known", Upper: 50}, Ticket: known})
	l.reserve(&system.Context{}, Reserve{Ask: limit.Ask{RequestID: "unknown", Upper: 50, Key: limited}, Ticket: unknown})
	l.Receive(&system.Context{}, loaded{err: errors.New("no store"), asked: l})
	if known.got == nil || unknown.got != nil || unknown.err == nil || unknown.err.Kind == abi.InsufficientBalance {
		t.Errorf("one got %+v, %v, the one with a budget %+v, %v", known.got, known.err, unknown.got, unknown.err)
	}
}

// TestChangeDuringALoad: what was asked of the store before a change, or by a limiter before this one, decides nothing.
func TestChangeDuringALoad(t *testing.T) {
	loads := 0
	deps := Deps{PendingMax: 9, Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) { loads++ }}
	l, before := New("a", &Cell{}, deps).(*limiter), New("a", &Cell{}, deps).(*limiter)
	k := &ticket{}
	l.reserve(&system.Context{}, Reserve{Ask: limit.Ask{RequestID: "r", Upper: 50, Minimum: 50}, Ticket: k})
	read := func(by *limiter, balance abi.Nano) {
		l.Receive(&system.Context{}, loaded{asked: by,
			Loaded: limit.Loaded{Account: account.Account{ID: "a"}, Balance: balance, At: time.Now()}})
	}
	read(before, 0)
	l.Receive(&system.Context{}, Changed{})
	if read(l, 0); k.got != nil || k.err != nil || loads != 2 {
		t.Fatalf("after %d loads it got %+v, %v", loads, k.got, k.err)
	}
	if read(l, 100); k.got == nil {
		t.Errorf("with the money of the change: %v", k.err)
	}
}

// TestLoadByAClockThatWasAhead: what was read as of a later month, before the clock was set back, decides nothing. The account
// is read once more.
func TestLoadByAClockThatWasAhead(t *testing.T) {
	loads := 0
	deps := Deps{PendingMax: 9, Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) { loads++ }}
	l := New("a", &Cell{}, deps).(*limiter)
	read := func(at time.Time, charged abi.Nano) {
		l.onLoaded(&system.Context{}, limit.Loaded{Account: account.Account{ID: "a", Unlimited: true}, Seq: 1, At: at,
			Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: charged}}}, nil)
	}
	k := &ticket{}
	l.reserve(&system.Context{}, Reserve{Ask: limit.Ask{RequestID: "r", Upper: 50, Minimum: 50, Key: limited}, Ticket: k})
	read(time.Now().AddDate(0, 2, 0), 0)
	if k.got != nil || k.err != nil || loads != 2 {
		t.Fatalf("after %d loads it got %+v, %v", loads, k.got, k.err)
	}
	read(time.Now(), 90)
	wantRefusal(t, k.err, abi.InsufficientBalance, "$0.000000010 left")
	if loads != 2 {
		t.Errorf("%d loads", loads)
	}
}

// TestClockThatWasAheadIsReadAgain: when the clock was set back to an earlier month, requests with a budget or counters wait until
// the account was read again, and those that go by neither do not.
func TestClockThatWasAheadIsReadAgain(t *testing.T) {
	deps := Deps{PendingMax: 9, Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) {}}
	l := New("a", &Cell{}, deps).(*limiter)
	a, now := account.Account{ID: "a", Unlimited: true}, time.Now()
	l.adopt(limit.Loaded{Account: a, Seq: 1, At: now.AddDate(0, 2, 0), Keys: []account.KeyUse{{KeyID: "k", Budget: 100}}}, now)
	asked := 0
	ask := func(a limit.Ask) *ticket {
		asked++
		a.RequestID = fmt.Sprint("r", asked)
		k := &ticket{}
		l.reserve(&system.Context{}, Reserve{Ask: a, Ticket: k})
		return k
	}
	free := abi.Counter{Name: "free", Period: now.UTC().Format("2006-01"), Limit: 10, Amount: 4}
	refusal := &abi.Error{Kind: abi.RateLimited}
	budget := limit.Ask{Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "k", Budget: 100}}
	takes, needs := limit.Ask{Takes: []abi.Counter{free}}, limit.Ask{Needs: []limit.Need{{Counter: free, Refusal: refusal}}}
	one, two, three, plain := ask(budget), ask(takes), ask(needs), ask(limit.Ask{})
	if plain.got == nil || len(l.pending) != 3 {
		t.Fatalf("one that goes by no month got %v; %d wait", plain.got, len(l.pending))
	}
	l.onLoaded(&system.Context{}, limit.Loaded{Account: a, Seq: 2, At: now,
		Keys:     []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 90}},
		Counters: []account.CounterUse{{Name: free.Name, Period: free.Period, Used: 8}}}, nil)
	wantRefusal(t, one.err, abi.InsufficientBalance, "$0.000000010 left")
	if two.got == nil || len(two.got.Counters) != 1 || two.got.Counters[0].Amount != 2 || three.err != refusal {
		t.Errorf("of the 2 that are left one got %+v, and the next %v", two.got, three.err)
	}
	if k := ask(takes); k.got == nil || len(l.pending) > 0 {
		t.Errorf("after that one got %v, %d wait", k.got, len(l.pending))
	}
}

// TestLoadOfTheMonthBefore: a settlement of the month that has begun counts in it, though the read that it was told
// beside is of the month before.
func TestLoadOfTheMonthBefore(t *testing.T) {
	deps := Deps{PendingMax: 9, Live: func(string) []limit.Live { return nil }, Load: func(string, func(limit.Loaded, error)) {}}
	l := New("a", &Cell{}, deps).(*limiter)
	now, k := time.Now().UTC(), &ticket{}
	ask := limit.Ask{RequestID: "r", Upper: 90, Minimum: 71, Key: limited}
	l.reserve(&system.Context{}, Reserve{Ask: ask, Ticket: k})
	l.settle(Back{Settles: true, Settle: limit.Settle{RequestID: "one", KeyID: "k", At: now, Amount: -30, Seq: 2}})
	before := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).Add(-1)
	l.onLoaded(&system.Context{}, limit.Loaded{Account: account.Account{ID: "a", Unlimited: true}, Seq: 1, At: before,
		Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 95}}}, nil)
	wantRefusal(t, k.err, abi.InsufficientBalance, "$0.000000070 left")
}
