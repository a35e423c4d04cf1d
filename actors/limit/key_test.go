package limit

import (
	"strings"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// keyed is a state of an account with money whose key "k" has a budget of 100, of which 40 are spent.
func keyed(balance abi.Nano) *State {
	s := New(account.Account{ID: "a", TokensPerMinute: 10_000}, NewBucket(10_000, start))
	s.Load(Loaded{Balance: balance, Seq: 1, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}}, nil)
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
			if _, err := s.Reserve(Ask{RequestID: "first", Prompt: 3, OutputMax: 2, Key: ask.Key}, start); err != nil {
				t.Fatal(err)
			}
			s.Leave(Leave{RequestID: "first", Taken: 5, Used: 5, Key: ask.Key, KeyTaken: 5}, start)
		}
		account, key, tokens, bucket := s.Counters(), s.keys["k"], s.bucket, s.buckets["k"].Parts
		ask.RequestID = "r"
		_, err := s.Reserve(ask, start)
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
		if s.Counters() != account || s.keys["k"] != key || s.bucket != tokens || len(s.open) != 0 {
			t.Errorf("%s: the refusal took something: %+v %+v %v", name, s.Counters(), s.keys["k"], s.open)
		}
		if got := s.buckets["k"].Parts; name == "tokens" && got != bucket {
			t.Errorf("%s: the refusal took %d parts of the key's bucket", name, bucket-got)
		}
	}
}

// TestBudgetIsReservedAndSettled: requests together never hold more than the budget has, but for
// one's overshoot; what one gives back serves who is short of it; the month's end frees all that was charged.
func TestBudgetIsReservedAndSettled(t *testing.T) {
	s := keyed(1000)
	reserve := func(id string, upper, minimum abi.Nano, at time.Time) (Reservation, *abi.Error) {
		return s.Reserve(Ask{RequestID: id, Upper: upper, Minimum: minimum, Key: account.LimitedKey{ID: "k", Budget: 100}}, at)
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
	if _, err := s.Reserve(Ask{RequestID: "other", Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "l"}}, start); err != nil {
		t.Errorf("another key of the account: %v", err)
	}
	s.Leave(Leave{RequestID: "one", Key: limited}, start)
	s.Settle(Settle{RequestID: "one", KeyID: "k", At: start, Amount: -20, Seq: 2})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 60, held: 40, short: 10}) {
		t.Errorf("after the first settlement the key has %+v", k)
	}
	next := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	s.Settle(Settle{RequestID: "two", KeyID: "k", At: next.Add(-1), Amount: -45, Seq: 3})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 105}) {
		t.Errorf("one request's overshoot: %+v", k)
	}
	s.Settle(Settle{RequestID: "two", KeyID: "k", At: next.Add(-1), Amount: 45, Seq: 4}) // its refund
	if four, err := reserve("four", 50, 10, start); err != nil || four.KeyHold != 40 {
		t.Fatalf("%+v %v; left %d", four, err, s.keys["k"].left())
	}
	if five, err := reserve("five", 90, 50, next); err != nil || five.KeyHold != 50 {
		t.Fatalf("in the next month: %+v, %v", five, err)
	}
	s.Settle(Settle{RequestID: "four", KeyID: "k", At: next.Add(-1), Amount: -50, Seq: 5}) // its row is of the month before
	if k := s.keys["k"]; k.charged != 0 || k.held != 90 {
		t.Errorf("a late row of last month counts in this one: %+v", k)
	}
}

// TestKeyBudgetSurvivesARestart: charges come from the ledger, holds from the requests that run
// and from open holds of the ledger that nobody owns.
func TestKeyBudgetSurvivesARestart(t *testing.T) {
	s := keyed(1000)
	r, err := s.Reserve(Ask{RequestID: "runs", Upper: 30, Minimum: 1, Key: limited}, start)
	if err != nil {
		t.Fatal(err)
	}
	again := New(s.account, s.bucket)
	again.Load(Loaded{Balance: 1000, Seq: 9, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}}, Holds: []account.Entry{
		{Kind: account.Hold, AccountID: "a", RequestID: "orphan", KeyID: "k", Held: 25}}},
		[]Live{{RequestID: "runs", Permit: true, Hold: r.Hold, Upper: r.Upper, Arrival: r.Arrival, KeyID: "k", KeyHold: r.KeyHold}})
	if k := again.keys["k"]; k != (keyState{budget: 100, charged: 40, held: 55}) {
		t.Errorf("after a restart the key has %+v", k)
	}
	again.Settle(Settle{RequestID: "orphan", KeyID: "k", At: start, Amount: -5, Seq: 10})
	if k := again.keys["k"]; k != (keyState{budget: 100, charged: 45, held: 30}) {
		t.Errorf("after the orphan's end the key has %+v", k)
	}
	again.Settle(Settle{RequestID: "orphan", KeyID: "k", At: start, Amount: 5, Seq: 11}) // its refund, which has no hold to give back
	if k := again.keys["k"]; k != (keyState{budget: 100, charged: 40, held: 30}) || again.held != 30 {
		t.Errorf("after the orphan's refund the key has %+v, and %d is held", k, again.held)
	}
}

// TestClockThatWasAhead: a moment in a later month forgets nothing for good. Once the clock was set back, what goes by the month
// is not known until the account was read again; then its charges and counters count as ever.
func TestClockThatWasAhead(t *testing.T) {
	s := keyed(1000)
	read := Loaded{Balance: 1000, Seq: 3, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 40}},
		Counters: []account.CounterUse{{Name: "free", Period: "2026-01", Used: 8}}}
	s.Load(read, nil)
	count := func(period string) []abi.Counter {
		return []abi.Counter{{Name: "free", Period: period, Limit: 10, Amount: 4}}
	}
	if r, err := s.Reserve(Ask{RequestID: "ahead", Takes: count("2026-04"), Key: limited}, start.AddDate(0, 3, 0)); err != nil {
		t.Fatal(r, err)
	}
	s.Leave(Leave{RequestID: "ahead", Key: limited}, start)
	s.Settle(Settle{RequestID: "ahead"})
	for name, c := range map[string]struct {
		ask   Ask
		known bool
	}{
		"plain":   {Ask{Key: account.LimitedKey{ID: "l"}}, true},
		"budget":  {Ask{Key: limited}, false},
		"counter": {Ask{Takes: count("2026-01")}, false},
		"policy":  {Ask{Needs: []Need{{Counter: count("2026-01")[0]}}}, false},
		"both":    {Ask{Takes: count("2026-01"), Needs: []Need{{Counter: count("2026-01")[0]}}}, false},
	} {
		if got := s.Knows(c.ask, start); got != c.known {
			t.Errorf("%s: after the clock was set back it is known: %v", name, got)
		}
		if !s.Knows(c.ask, start.AddDate(0, 3, 0)) || !s.Knows(c.ask, start.AddDate(0, 4, 0)) {
			t.Errorf("%s: it is not known although no clock went back", name)
		}
	}
	s.Load(read, nil)
	if !s.Knows(Ask{Key: limited, Takes: count("2026-01")}, start) {
		t.Error("what was read is not known")
	}
	s.Settle(Settle{RequestID: "row", KeyID: "k", At: start, Amount: -20, Seq: 4})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 60}) {
		t.Errorf("the key has %+v", k)
	}
	if got, covered := s.takes(count("2026-01")); covered || len(got) != 1 || got[0].Amount != 2 {
		t.Errorf("of 10, of which 8 are used, %+v is given out", got)
	}
}

// TestRowOfALaterMonth: a row of a clock that is ahead begins no month, and does not count in this one.
func TestRowOfALaterMonth(t *testing.T) {
	s := keyed(1000)
	s.Settle(Settle{RequestID: "ahead", KeyID: "k", At: start.AddDate(0, 1, 0), Amount: -20, Seq: 2})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 40}) || s.balance != 980 {
		t.Errorf("the key has %+v, of a balance of %d", k, s.balance)
	}
}

// TestLoadThatCrossesTheMonthsEnd: what was read in the last moment of a month, and comes when the next has begun, takes
// nothing of the next one's budget.
func TestLoadThatCrossesTheMonthsEnd(t *testing.T) {
	s := keyed(1000)
	next := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	ask := Ask{RequestID: "one", Upper: 50, Minimum: 50, Key: account.LimitedKey{ID: "k", Budget: 100}}
	if r, err := s.Reserve(ask, next); err != nil {
		t.Fatal(r, err)
	}
	s.Load(Loaded{Balance: 1000, Seq: 5, At: next.Add(-1), Keys: []account.KeyUse{{KeyID: "k", Budget: 100, Charged: 95}}},
		[]Live{{RequestID: "one", Permit: true, Hold: 50, Upper: 50, Arrival: 1, KeyID: "k", KeyHold: 50}})
	s.BeginMonth(next)
	s.Settle(Settle{RequestID: "one", KeyID: "k", At: next, Amount: -30, Seq: 6})
	if k := s.keys["k"]; k != (keyState{budget: 100, charged: 30}) {
		t.Errorf("the key has %+v", k)
	}
	ask.RequestID, ask.Upper = "two", 90
	if r, err := s.Reserve(ask, next); err != nil || r.KeyHold != 70 {
		t.Errorf("%+v, %v; 70 are left of the budget", r, err)
	}
}

// TestKeyTokensAreSettled: the bucket of a key ends at what was used, also when the state began anew in between;
// a free request takes nothing of it, and is refused while it is exhausted.
func TestKeyTokensAreSettled(t *testing.T) {
	key := account.LimitedKey{ID: "k", TokensPerMinute: 1000}
	s := New(account.Account{ID: "a", Unlimited: true}, NewBucket(0, start))
	remaining := func(want int64, now time.Time) {
		t.Helper()
		if got := s.Limits(key, now).TokensRemaining; got != want {
			t.Errorf("%d tokens remain of the key, want %d", got, want)
		}
	}
	remaining(1000, start)
	r, err := s.Reserve(Ask{RequestID: "long", Prompt: 100, OutputMax: 50, Key: key}, start)
	if err != nil || r.KeyTokens != 150 {
		t.Fatal(r, err)
	}
	remaining(850, start)
	remaining(900, start.Add(3*time.Second))
	later := start.Add(time.Minute)
	s = New(s.account, s.bucket) // it was started anew, without the bucket, which was full
	s.Load(Loaded{Account: s.account, At: later}, []Live{{RequestID: "long", Permit: true, KeyID: "k"}})
	s.Leave(Leave{RequestID: "long", Key: key, KeyTaken: r.KeyTokens, Used: 700}, later)
	remaining(450, later)
	if _, err := s.Reserve(Ask{RequestID: "free", Free: true, Key: key}, later); err != nil {
		t.Fatal(err)
	}
	s.Leave(Leave{RequestID: "free", Key: key}, later)
	remaining(450, later)
	s.Leave(Leave{RequestID: "more", Key: key, Used: 450}, later)
	_, err = s.Reserve(Ask{RequestID: "free", Free: true, Key: key}, later)
	wantRefusal(t, err, abi.RateLimited, "1 needed now, 0 remaining")
	if _, err := s.Reserve(Ask{RequestID: "free", Free: true, Key: key}, later.Add(60*time.Millisecond)); err != nil {
		t.Errorf("with one token: %v", err)
	}
}

// TestKeyLimitChanges: what refilled until then refilled at the old rate, and what was spent stays spent.
func TestKeyLimitChanges(t *testing.T) {
	s := New(account.Account{ID: "a", Unlimited: true}, NewBucket(0, start))
	ask := Ask{RequestID: "one", Prompt: 600, OutputMax: 0, Key: account.LimitedKey{ID: "k", TokensPerMinute: 600}}
	if _, err := s.Reserve(ask, start); err != nil {
		t.Fatal(err)
	}
	ask.RequestID, ask.Prompt, ask.Key.TokensPerMinute = "two", 0, 6000
	now := start.Add(10 * time.Second)
	if _, err := s.Reserve(ask, now); err != nil {
		t.Fatal(err)
	}
	if got := s.Limits(ask.Key, now); got.TokensLimit != 6000 || got.TokensRemaining != 5500 {
		t.Errorf("%d of %d tokens remain, want 5500 of 6000", got.TokensRemaining, got.TokensLimit)
	}
	ask.RequestID, ask.Key.TokensPerMinute = "emptied", 100
	ask.Prompt = 100
	if _, err := s.Reserve(ask, now); err != nil {
		t.Fatal(err)
	}
	ask.RequestID, ask.Key.TokensPerMinute = "without a limit", 0
	if _, err := s.Reserve(ask, now); err != nil {
		t.Errorf("its limit was taken away: %v", err)
	}
}
