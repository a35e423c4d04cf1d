package limiter

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// keyed is a state of an account with money whose key "k" has a budget of 100, of which 40 are spent.
func keyed(balance abi.Nano) *state {
	s := newState(account.Account{ID: "a", TokensPerMinute: 10_000}, newBucket(10_000, start))
	s.load(Loaded{Balance: balance, Seq: 1, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}}, nil)
	return s
}

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

// TestKeyRefusalTakesNothing: what a key refuses takes no money, tokens or permit of its account,
// and what the account refuses takes nothing of the key.
func TestKeyRefusalTakesNothing(t *testing.T) {
	for name, ask := range map[string]Ask{
		"budget": {Upper: 80, Minimum: 61, Prompt: 10, OutputMax: 10, Key: limited},
		"tokens": {Upper: 10, Minimum: 1, Prompt: 10, OutputMax: 10, Key: account.LimitedKey{ID: "k", Budget: 100, TokensPerMinute: 15}},
		"money":  {Upper: 80, Minimum: 55, Prompt: 10, OutputMax: 10, Key: limited},
	} {
		balance := abi.Nano(1000)
		if name == "money" {
			balance = 50
		}
		s := keyed(balance)
		if name == "tokens" { // the first request leaves 10 of 15
			if _, err := s.reserve(Ask{RequestID: "first", Prompt: 3, OutputMax: 2, Key: ask.Key}, start); err != nil {
				t.Fatal(err)
			}
			s.leave(Leave{RequestID: "first", Taken: 5, Used: 5, Key: ask.Key, KeyTaken: 5}, start)
		}
		account, key, tokens, bucket := s.counters(), s.keys["k"], s.bucket, s.buckets["k"].parts
		ask.RequestID = "r"
		_, err := s.reserve(ask, start)
		switch name {
		case "budget":
			wantRefusal(t, err, abi.InsufficientBalance, "this key's budget of $0.000000100 a month", "$0.000000060 left", "at least $0.000000061")
		case "tokens":
			wantRefusal(t, err, abi.RateLimited, "this key's limit of 15 tokens per minute", "15 needed now, 10 remaining")
			if err.RetryAfter != 20*time.Second {
				t.Errorf("retry after %v, want 20 s", err.RetryAfter)
			}
		case "money":
			wantRefusal(t, err, abi.InsufficientBalance, "insufficient balance")
		}
		if s.counters() != account || s.keys["k"] != key || s.bucket != tokens || len(s.open) != 0 {
			t.Errorf("%s: the refusal took something: %+v %+v %v", name, s.counters(), s.keys["k"], s.open)
		}
		if got := s.buckets["k"].parts; name == "tokens" && got != bucket {
			t.Errorf("%s: the refusal took %d parts of the key's bucket", name, bucket-got)
		}
	}
}

// TestBudgetIsReservedAndSettled: requests together never hold more than the budget has, but for
// one's overshoot; what one gives back serves who is short of it; the month's end frees all that was charged.
func TestBudgetIsReservedAndSettled(t *testing.T) {
	s := keyed(1000)
	reserve := func(id string, upper, minimum abi.Nano, at time.Time) (Reservation, *abi.Error) {
		return s.reserve(Ask{RequestID: id, Upper: upper, Minimum: minimum, Key: account.LimitedKey{ID: "k", Budget: 100}}, at)
	}
	one, err := reserve("one", 50, 10, start)
	if err != nil || one.KeyHold != 50 {
		t.Fatal(one, err)
	}
	two, err := reserve("two", 50, 10, start)
	if err != nil || two.KeyHold != 10 || two.Hold != 50 {
		t.Fatal(two, err)
	}
	_, err = reserve("three", 50, 1, start)
	wantRefusal(t, err, abi.InsufficientBalance, "$0.000000000 left")
	if _, err := s.reserve(Ask{RequestID: "other", Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "l"}}, start); err != nil {
		t.Errorf("another key of the account: %v", err)
	}
	s.leave(Leave{RequestID: "one", Key: limited}, start)
	s.settle(Settle{RequestID: "one", KeyID: "k", At: start, Amount: -20, Seq: 2})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 60, held: 40, short: 10}) {
		t.Errorf("after the first settlement the key has %+v", k)
	}
	next := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	s.settle(Settle{RequestID: "two", KeyID: "k", At: next.Add(-1), Amount: -45, Seq: 3})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 105}) {
		t.Errorf("one request's overshoot: %+v", k)
	}
	s.settle(Settle{RequestID: "two", KeyID: "k", At: next.Add(-1), Amount: 45, Seq: 4}) // its refund
	if four, err := reserve("four", 50, 10, start); err != nil || four.KeyHold != 40 {
		t.Fatalf("%+v %v; left %d", four, err, s.keys["k"].left())
	}
	if five, err := reserve("five", 90, 50, next); err != nil || five.KeyHold != 50 {
		t.Fatalf("in the next month: %+v, %v", five, err)
	}
	s.settle(Settle{RequestID: "four", KeyID: "k", At: next.Add(-1), Amount: -50, Seq: 5}) // its row is of the month before
	if k := s.keys["k"]; k.charged != 0 || k.held != 90 {
		t.Errorf("a late row of last month counts in this one: %+v", k)
	}
}

// TestKeyBudgetSurvivesARestart: charges come from the ledger, holds from the requests that run
// and from open holds of the ledger that nobody owns.
func TestKeyBudgetSurvivesARestart(t *testing.T) {
	s := keyed(1000)
	r, err := s.reserve(Ask{RequestID: "runs", Upper: 30, Minimum: 1, Key: limited}, start)
	if err != nil {
		t.Fatal(err)
	}
	again := newState(s.account, s.bucket)
	again.load(Loaded{Balance: 1000, Seq: 9, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}, Holds: []account.Entry{
		{Kind: account.Hold, AccountID: "a", RequestID: "orphan", KeyID: "k", Held: 25}}},
		[]Live{{RequestID: "runs", Permit: true, Hold: r.Hold, Upper: r.Upper, Arrival: r.Arrival, KeyID: "k", KeyHold: r.KeyHold}})
	if k := again.keys["k"]; k != (keyState{budget: 100, charged: 40, held: 55}) {
		t.Errorf("after a restart the key has %+v", k)
	}
	again.settle(Settle{RequestID: "orphan", KeyID: "k", At: start, Amount: -5, Seq: 10})
	if k := again.keys["k"]; k != (keyState{budget: 100, charged: 45, held: 30}) {
		t.Errorf("after the orphan's end the key has %+v", k)
	}
}

// TestKeyBucketOutlivesTheLimiter: tokens that a key used are not forgiven by a restart, whatever
// else the account has; its limit is the one that the request came with.
func TestKeyBucketOutlivesTheLimiter(t *testing.T) {
	loaded := Loaded{Account: account.Account{ID: "a", Unlimited: true}, Seq: 1, At: time.Now()}
	cell, key := &Cell{}, account.LimitedKey{ID: "k", TokensPerMinute: 1000}
	deps := Deps{Live: func(string) []Live { return nil }, Load: func(string, func(Loaded)) {}}
	ask := func(l *limiter, id string, prompt int64) *ticket {
		k := &ticket{}
		l.decide(Reserve{Ask: Ask{RequestID: id, Prompt: prompt, Key: key}, Ticket: k})
		return k
	}
	first := New("a", cell, deps).(*limiter)
	first.adopt(loaded, time.Now())
	if k := ask(first, "one", 900); k.err != nil || k.got.KeyTokens != 900 {
		t.Fatal(k.got, k.err)
	}
	if l, ok := cell.Limits(key, time.Now()); !ok || l.TokensLimit != 1000 || l.TokensRemaining > 120 {
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
	var loads []func(Loaded)
	deps := Deps{PendingMax: 2, Live: func(string) []Live { return nil },
		Load: func(_ string, done func(Loaded)) { loads = append(loads, done) }}
	l := New("a", &Cell{}, deps).(*limiter)
	l.adopt(Loaded{Account: account.Account{ID: "a"}, Balance: 1000, Seq: 1, At: time.Now()}, time.Now())
	if l.state.knows(limited) {
		t.Fatal("a budget is known that was never read")
	}
	l.loading = true // nothing is sent
	var asked []*ticket
	for i := range 3 {
		k := &ticket{}
		asked = append(asked, k)
		ask := Ask{RequestID: fmt.Sprint("r", i), Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "k", Budget: 100}}
		l.reserve(&system.Context{}, Reserve{Ask: ask, Ticket: k})
	}
	if len(l.pending) != 2 || asked[2].err == nil {
		t.Fatalf("%d wait, the third has %v", len(l.pending), asked[2].err)
	}
	l.again = false
	l.onLoaded(&system.Context{}, Loaded{Account: account.Account{ID: "a"}, Balance: 1000, Seq: 2, At: time.Now(),
		Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}})
	if asked[0].got == nil || asked[1].err == nil || asked[1].err.Kind != abi.InsufficientBalance {
		t.Errorf("the first got %v, the second %v", asked[0].got, asked[1].err)
	}
}
