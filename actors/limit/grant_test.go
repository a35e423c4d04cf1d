package limit

import (
	"reflect"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// TestGrantCovers: a grant covers a plain request of which nothing is lacking, and with exactly what it takes.
func TestGrantCovers(t *testing.T) {
	whole := Grant{Number: 3, Part: Part{5, 500, 50}, TokensPerMinute: 400}
	plain := Ask{Prompt: 70, OutputMax: 30, Upper: 20, Minimum: 5, Key: account.LimitedKey{ID: "k"}}
	got := Reservation{Tokens: 100, Hold: 20, Upper: 20, KeyHold: 20, GrantNumber: 3}
	grant := func(change func(*Grant)) Grant { g := whole; change(&g); return g }
	ask := func(change func(*Ask)) Ask { a := plain; change(&a); return a }
	large, noKey, noPermits, noTokens, noMoney := got, got, got, got, got
	large.Tokens, noKey.KeyHold, noPermits.AnyPermits, noTokens.Tokens, noMoney.AnyMoney = 400, 0, true, 0, true
	free, none := Ask{Free: true, Prompt: 70, Upper: 20}, Reservation{}
	counter := abi.Counter{Name: "n", Period: "2026-01", Limit: 9, Amount: 1}
	anyPermits := func(g *Grant) { g.AnyPermits = true }
	anyTokens := func(g *Grant) { g.AnyTokens = true }
	anyMoney := func(g *Grant) { g.AnyMoney = true }
	for name, c := range map[string]struct {
		grant Grant
		ask   Ask
		taken Part
		want  Reservation // none: it does not cover it
		of    Part
	}{
		"plain":                 {whole, plain, Part{}, got, Part{1, 100, 20}},
		"all that is left":      {whole, plain, Part{4, 400, 30}, got, Part{1, 100, 20}},
		"no permit":             {whole, plain, Part{5, 0, 0}, none, Part{}},
		"a token too few":       {whole, plain, Part{0, 401, 0}, none, Part{}},
		"too little money":      {whole, plain, Part{0, 0, 31}, none, Part{}},
		"larger than a bucket":  {whole, ask(func(a *Ask) { a.Prompt = 9000 }), Part{}, large, Part{1, 400, 20}},
		"no key":                {whole, ask(func(a *Ask) { a.Key.ID = "" }), Part{}, noKey, Part{1, 100, 20}},
		"no limit of permits":   {grant(anyPermits), plain, Part{9, 0, 0}, noPermits, Part{0, 100, 20}},
		"no limit of tokens":    {grant(anyTokens), plain, Part{0, 900, 0}, noTokens, Part{1, 0, 20}},
		"no limit of money":     {grant(anyMoney), plain, Part{0, 0, 90}, noMoney, Part{1, 100, 0}},
		"free":                  {whole, free, Part{4, 499, 50}, Reservation{GrantNumber: 3}, Part{1, 0, 0}},
		"free, no permit":       {whole, free, Part{5, 0, 0}, none, Part{}},
		"free, no token":        {whole, free, Part{0, 500, 0}, none, Part{}},
		"free, without a limit": {grant(anyTokens), free, Part{0, 500, 0}, Reservation{GrantNumber: 3}, Part{1, 0, 0}},
		"takes of a counter":    {whole, ask(func(a *Ask) { a.Takes = []abi.Counter{counter} }), Part{}, none, Part{}},
		"needs of a counter":    {whole, ask(func(a *Ask) { a.Needs = []Need{{Counter: counter}} }), Part{}, none, Part{}},
		"a key's tokens":        {whole, ask(func(a *Ask) { a.Key.TokensPerMinute = 1 }), Part{}, none, Part{}},
		"a key's budget":        {whole, ask(func(a *Ask) { a.Key.Budget = 1 }), Part{}, none, Part{}},
	} {
		r, ok := c.grant.Covers(c.ask, c.taken)
		if covers := !reflect.DeepEqual(c.want, none); ok != covers || !reflect.DeepEqual(r, c.want) {
			t.Errorf("%s: %t, %+v, want %+v", name, ok, r, c.want)
		} else if covers && r.Of() != c.of {
			t.Errorf("%s: of the grant it is %+v, want %+v", name, r.Of(), c.of)
		}
	}
	want := account.Granted{Number: 3, Tokens: 100, Held: 20}
	if rows := got.Granted(); rows == nil || *rows != want || (Reservation{Tokens: 9}).Granted() != nil {
		t.Errorf("rows say %+v of it, want %+v, and of one without a grant nothing", rows, want)
	}
}

// lender is an account of which parts are lent, after a change.
func lender(change func(*account.Account, *abi.Nano)) *State {
	a, balance := account.Account{ID: "a", Concurrency: 40, TokensPerMinute: 6000}, abi.Nano(900)
	if change != nil {
		change(&a, &balance)
	}
	return loadedState(a, balance)
}

// TestLendable: a node gets its share of what is free, as far as it wishes and above what it has; an account that
// has hardly more than its requests take lends nothing.
func TestLendable(t *testing.T) {
	wish, quote := Part{12, 3000, 500}, Part{1, 100, 10}
	nothing := func(*account.Account, *abi.Nano) {}
	noLimits := func(a *account.Account, _ *abi.Nano) { a.Concurrency, a.TokensPerMinute, a.Unlimited = 0, 0, true }
	fewTokens := func(a *account.Account, _ *abi.Nano) { a.TokensPerMinute = 400 }
	poor := func(a *account.Account, b *abi.Nano) { *b, a.Unlimited = 39, true }
	for name, c := range map[string]struct {
		change func(a *account.Account, balance *abi.Nano)
		left   Part
		want   Part
		ok     bool
	}{
		"a third, for two nodes":       {nothing, Part{}, Part{12, 2000, 300}, true},
		"above what it has":            {nothing, Part{4, 500, 100}, Part{8, 1500, 200}, true},
		"more than it wishes":          {nothing, Part{12, 2500, 400}, Part{}, true},
		"without a limit":              {noLimits, Part{}, Part{}, true},
		"no limit of permits":          {func(a *account.Account, _ *abi.Nano) { a.Concurrency = 0 }, Part{}, Part{0, 2000, 300}, true},
		"no limit of tokens":           {func(a *account.Account, _ *abi.Nano) { a.TokensPerMinute = 0 }, Part{}, Part{12, 0, 300}, true},
		"no limit of money":            {func(a *account.Account, _ *abi.Nano) { a.Unlimited = true }, Part{}, Part{12, 2000, 0}, true},
		"disabled":                     {func(a *account.Account, _ *abi.Nano) { a.Disabled = true }, Part{}, Part{}, false},
		"two permits for each node":    {func(a *account.Account, _ *abi.Nano) { a.Concurrency = 4 }, Part{}, Part{}, false},
		"one more":                     {func(a *account.Account, _ *abi.Nano) { a.Concurrency = 5 }, Part{}, Part{1, 2000, 300}, true},
		"tokens of four requests":      {fewTokens, Part{}, Part{12, 133, 300}, true},
		"fewer":                        {func(a *account.Account, _ *abi.Nano) { a.TokensPerMinute = 399 }, Part{}, Part{}, false},
		"money of four requests":       {func(_ *account.Account, b *abi.Nano) { *b = 40 }, Part{}, Part{12, 2000, 13}, true},
		"less":                         {func(_ *account.Account, b *abi.Nano) { *b = 39 }, Part{}, Part{}, false},
		"less, but it need not pay it": {poor, Part{}, Part{12, 2000, 0}, true},
	} {
		s := lender(c.change)
		s.Lend(c.left)
		more, ok := s.Lendable(wish, c.left, 2, quote)
		if more != c.want || ok != c.ok {
			t.Errorf("%s: %+v, %t, want %+v, %t", name, more, ok, c.want, c.ok)
		}
	}
	for name, part := range map[string]Part{"permits": {Permits: 37}, "tokens": {Tokens: 5700}, "money": {Money: 870}} {
		s := lender(nil)
		s.Lend(part) // to others: the share of what remains is just enough for one request
		if more, ok := s.Lendable(wish, Part{}, 2, quote); !ok {
			t.Errorf("with few %s left: %+v", name, more)
		}
		s.Lend(part.Atmost(Part{1, 1, 1}))
		if more, ok := s.Lendable(wish, Part{}, 2, quote); ok {
			t.Errorf("with too few %s left: %+v", name, more)
		}
	}
	s := lender(nil)
	s.Load(Loaded{Account: s.account, Balance: 900, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 100}}}, nil)
	ask := Ask{RequestID: "short", Upper: 300, Minimum: 1, Key: account.LimitedKey{ID: "k", Budget: 100}}
	if r, err := s.Reserve(ask, start); err != nil {
		t.Fatal(r, err)
	}
	if more, ok := s.Lendable(wish, Part{}, 2, quote); ok {
		t.Errorf("a request is short of its key's budget: %+v", more)
	}
}

// TestLentComesBack: what is lent nobody else has, until it comes back.
func TestLentComesBack(t *testing.T) {
	s := lender(nil)
	before, part := s.Kept(), Part{39, 5950, 850}
	s.Lend(part)
	if k, want := s.Kept(), (Kept{Permits: 39, Held: 850, Bucket: s.bucket}); k != want || s.bucket.Remaining() != 50 {
		t.Errorf("kept is %+v, want %+v; %d tokens remain", k, want, s.bucket.Remaining())
	}
	ask := Ask{RequestID: "r", Prompt: 60, OutputMax: 0, Upper: 50, Minimum: 50}
	if r, err := s.Reserve(ask, start); err == nil {
		t.Errorf("of what is lent a request got %+v", r)
	}
	short, err := s.Reserve(Ask{RequestID: "short", Prompt: 10, Upper: 100, Minimum: 1}, start)
	if err != nil || short.Hold != 50 {
		t.Fatal(short, err)
	}
	s.Lend(Part{}.Minus(part))
	if l, _ := s.Open("short"); l.Hold != 100 {
		t.Errorf("what comes back serves who is short of it: %+v", l)
	}
	s.Leave(Leave{RequestID: "short", Taken: short.Tokens}, start)
	s.Settle(Settle{RequestID: "short"})
	before.Arrivals++
	if k := s.Kept(); k != before {
		t.Errorf("when all is back there is %+v, not %+v", k, before)
	}
}

// TestRestore: a state that a store has kept decides as the one that it was, though only those requests are told apart
// that are short of something.
func TestRestore(t *testing.T) {
	a := account.Account{ID: "a", Concurrency: 4, TokensPerMinute: 6000}
	keys := []account.KeyUse{{KeyID: "k", Budget: 500, Charged: 30}}
	counters := []account.CounterUse{{Name: "n", Period: "2026-01", Used: 2}}
	s := loadedState(a, 100)
	s.Load(Loaded{Account: a, Balance: 100, At: start, Keys: keys, Counters: counters}, nil)
	if r, err := s.Reserve(Ask{RequestID: "all", Prompt: 500, Upper: 40, Minimum: 1}, start); err != nil {
		t.Fatal(r, err)
	}
	takes := []abi.Counter{{Name: "n", Period: "2026-01", Limit: 10, Amount: 3}}
	if r, err := s.Reserve(Ask{RequestID: "short", Prompt: 500, Upper: 90, Minimum: 1, CoveredUpper: 90, CoveredMinimum: 1, Takes: takes,
		Key: account.LimitedKey{ID: "k", Budget: 500}}, start); err != nil || r.Hold != 60 {
		t.Fatal(r, err)
	}
	short, _ := s.Open("short")
	again := Restore(Loaded{Account: a, Balance: 100, At: start, Keys: keys, Counters: counters}, s.Kept(), []Live{short})
	if again.Kept() != s.Kept() || again.Sums() != s.Sums() || again.KeySums("k") != s.KeySums("k") || again.Counters() != s.Counters() {
		t.Errorf("restored is %+v, it was %+v", again.Sums(), s.Sums())
	}
	if used, held := again.Counter("n", "2026-01"); used != 2 || held != 3 {
		t.Errorf("of the counter %d are used and %d held", used, held)
	}
	richer := Restore(Loaded{Account: a, Balance: 115, At: start, Keys: keys}, s.Kept(), []Live{short})
	if l, _ := richer.Open("short"); l.Hold != 75 || richer.Sums().Held != 115 || richer.Sums().Short != 15 {
		t.Errorf("with more money the request has %+v, of %+v", l, richer.Sums())
	}
	again.Add(Live{RequestID: "elsewhere", Permit: true, Hold: 10, Upper: 10, KeyID: "k", KeyHold: 10}, 700)
	want := Kept{Permits: 3, Held: 110, Arrivals: 3, Bucket: s.bucket}
	if want.Bucket.add(-700); again.Kept() != want || again.KeySums("k").Held != s.KeySums("k").Held+10 {
		t.Errorf("with one that was admitted elsewhere it is %+v, want %+v", again.Kept(), want)
	}
}

// TestRefillOfAChangedLimit: both buckets have the limits of today, and what was spent of them.
func TestRefillOfAChangedLimit(t *testing.T) {
	kept := Kept{Bucket: NewBucket(6000, start)}
	kept.Bucket.add(-5000)
	s := Restore(Loaded{Account: account.Account{ID: "a", TokensPerMinute: 12_000}}, kept, nil)
	spent := NewBucket(600, start)
	spent.add(-600)
	s.SetKeyBucket("k", spent)
	key := account.LimitedKey{ID: "k", TokensPerMinute: 1200}
	for range 2 {
		s.Refill(key, start.Add(10*time.Second))
		b, ok := s.KeyBucket("k")
		if s.bucket.Capacity != 12_000 || s.bucket.Remaining() != 8000 || !ok || b.Capacity != 1200 || b.Remaining() != 700 {
			t.Errorf("the account has %d of %d tokens, the key %d of %d",
				s.bucket.Remaining(), s.bucket.Capacity, b.Remaining(), b.Capacity)
		}
	}
}
