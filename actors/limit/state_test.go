package limit

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 678_901_234, time.UTC)

// rational is a bucket in exact fractions of a token: the oracle for the integer one.
type rational struct {
	capacity int64
	level    *big.Rat
	at       time.Time
}

func (r *rational) Refill(now time.Time) {
	if !now.After(r.at) {
		return
	}
	got := new(big.Rat).SetFrac64(now.Sub(r.at).Nanoseconds(), int64(time.Minute))
	r.level.Add(r.level, got.Mul(got, new(big.Rat).SetInt64(r.capacity)))
	if full := new(big.Rat).SetInt64(r.capacity); r.level.Cmp(full) > 0 {
		r.level = full
	}
	r.at = now
}

// TestBucketAgainstRational drives both with random takes and waits. The integer
// bucket may be off by the part of a millisecond that it has not counted yet:
// behind, or ahead after it was filled to the brim by hand.
func TestBucketAgainstRational(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		capacity := 1 + rnd.Int64N(10_000_000)
		b := NewBucket(capacity, start)
		r := &rational{capacity, new(big.Rat).SetInt64(capacity), start}
		now := start
		lag := new(big.Rat).SetFrac64(capacity, 60_000) // what refills in a millisecond
		for range 100 {
			now = now.Add(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			b.Refill(now)
			r.Refill(now)
			taken := rnd.Int64N(capacity) - capacity/4
			b.add(-taken)
			r.level.Sub(r.level, new(big.Rat).SetInt64(taken))
			if full := new(big.Rat).SetInt64(capacity); r.level.Cmp(full) > 0 {
				r.level = full
			}
			diff := new(big.Rat).Sub(r.level, new(big.Rat).SetFrac64(b.Parts, partsPerToken))
			if diff.Abs(diff).Cmp(lag) > 0 {
				t.Fatalf("capacity %d: level %v, want %v", capacity, b.Parts, r.level)
			}
		}
	}
}

// TestRetryAfterIsTrue: a single caller who waits exactly that long is admitted,
// and one who waits a millisecond less is not.
func TestRetryAfterIsTrue(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 2))
	refusals := 0
	for i := range 2000 {
		a := account.Account{ID: "a", Unlimited: true, TokensPerMinute: 1 + rnd.Int64N(1_000_000)}
		s := New(a, NewBucket(a.TokensPerMinute, start))
		now := start.Add(time.Duration(rnd.Int64N(1e9)))
		s.bucket.Refill(now)
		s.bucket.add(-rnd.Int64N(3 * a.TokensPerMinute)) // overdrawn more often than not
		ask := Ask{RequestID: "r", Prompt: rnd.Int64N(2 * a.TokensPerMinute), OutputMax: rnd.Int64N(3000), Free: i%5 == 0}
		now = now.Add(time.Duration(rnd.Int64N(1e7)))
		_, err := s.Reserve(ask, now)
		if err == nil {
			continue
		}
		refusals++
		if err.Kind != abi.RateLimited || err.RetryAfter <= 0 {
			t.Fatalf("got %v with retry after %v", err, err.RetryAfter)
		}
		early := *s
		early.open = map[string]held{}
		if _, err := early.Reserve(ask, now.Add(err.RetryAfter-2*time.Millisecond)); err == nil && err.RetryAfter > 2*time.Millisecond {
			t.Fatalf("case %d: admitted 2 ms early", i)
		}
		if _, err := s.Reserve(ask, now.Add(err.RetryAfter)); err != nil {
			t.Fatalf("case %d: refused after waiting: %v", i, err)
		}
	}
	if refusals < 500 {
		t.Fatalf("only %d refusals: the test proves little", refusals)
	}
}

func loadedState(a account.Account, balance abi.Nano) *State {
	s := New(a, NewBucket(a.TokensPerMinute, start))
	s.Load(Loaded{Balance: balance, Seq: 1}, nil)
	return s
}

// TestReserve is the table of who is admitted when several ask at once.
func TestReserve(t *testing.T) {
	money := func(upper, minimum abi.Nano) Ask {
		return Ask{Prompt: 10, OutputMax: 10, Upper: upper, Minimum: minimum}
	}
	for _, c := range []struct {
		name     string
		account  account.Account
		balance  abi.Nano
		ask      Ask
		parallel int
		admitted int
		kind     abi.Kind // of the others
		held     abi.Nano
	}{
		{"concurrency 2", account.Account{Concurrency: 2, Unlimited: true}, 0, money(5, 1), 20, 2, abi.RateLimited, 10},
		{"no limits", account.Account{Unlimited: true}, 0, money(5, 1), 20, 20, 0, 100},
		{"three upper bounds and less than a minimum", account.Account{}, 3*100 + 9, money(100, 10), 20, 3, abi.InsufficientBalance, 300},
		{"three upper bounds and a minimum", account.Account{}, 3*100 + 10, money(100, 10), 20, 4, abi.InsufficientBalance, 310},
		{"one partial hold takes all", account.Account{}, 50, money(100, 10), 20, 1, abi.InsufficientBalance, 50},
		{"exactly the minimum", account.Account{}, 10, money(100, 10), 20, 1, abi.InsufficientBalance, 10},
		{"nothing", account.Account{}, 0, money(100, 10), 20, 0, abi.InsufficientBalance, 0},
		{"in debt, free model", account.Account{}, -1, money(0, 0), 5, 0, abi.InsufficientBalance, 0},
		{"no money, free model", account.Account{}, 0, money(0, 0), 5, 5, 0, 0},
		{"tokens", account.Account{Unlimited: true, TokensPerMinute: 50}, 0, money(1, 1), 20, 2, abi.RateLimited, 2},
		{"tokens, output counted to 1024", account.Account{Unlimited: true, TokensPerMinute: 3000}, 0,
			Ask{Prompt: 400, OutputMax: 32000, Upper: 1, Minimum: 1}, 20, 2, abi.RateLimited, 2},
		{"larger than the bucket", account.Account{Unlimited: true, TokensPerMinute: 50}, 0,
			Ask{Prompt: 9000, OutputMax: 10, Upper: 1, Minimum: 1}, 20, 1, abi.RateLimited, 1},
		{"free takes permits only", account.Account{Concurrency: 3, TokensPerMinute: 1}, 0, Ask{Free: true}, 20, 3, abi.RateLimited, 0},
		{"402 before 429", account.Account{Concurrency: 1}, 10, money(10, 10), 3, 1, abi.InsufficientBalance, 10},
		{"disabled", account.Account{Disabled: true, Unlimited: true}, 0, money(1, 1), 3, 0, abi.Unauthenticated, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := loadedState(c.account, c.balance)
			admitted, held := 0, abi.Nano(0)
			for i := range c.parallel {
				ask := c.ask
				ask.RequestID = string(rune('a' + i))
				r, err := s.Reserve(ask, start)
				if err == nil {
					admitted++
					held += r.Hold
				} else if err.Kind != c.kind || err.Msg == "" {
					t.Errorf("request %d: %v, want kind %v", i, err, c.kind)
				} else if (err.RetryAfter > 0) != (c.kind == abi.RateLimited) {
					t.Errorf("request %d: retry after %v for %v", i, err.RetryAfter, err.Kind)
				}
			}
			if admitted != c.admitted || held != c.held || s.held != c.held || s.permits != c.admitted {
				t.Errorf("admitted %d (permits %d) holding %d (state %d), want %d holding %d",
					admitted, s.permits, held, s.held, c.admitted, c.held)
			}
		})
	}
}

// TestGiveBack: what is reserved comes back, the bucket ends at the truth, and
// nothing can be given back twice.
func TestGiveBack(t *testing.T) {
	a := account.Account{ID: "a", Concurrency: 4, TokensPerMinute: 6000}
	s := loadedState(a, 1000)
	r, err := s.Reserve(Ask{RequestID: "x", Prompt: 100, OutputMax: 50, Upper: 300, Minimum: 10}, start)
	if err != nil || !reflect.DeepEqual(r, Reservation{Tokens: 150, Hold: 300, Upper: 300, Arrival: 1}) {
		t.Fatal(r, err)
	}
	s.Leave(Leave{RequestID: "x", Taken: r.Tokens, Used: 7000}, start)
	if got := s.bucket.Parts / partsPerToken; got != 6000-7000 {
		t.Errorf("bucket at %d, want -1000: it settles the truth", got)
	}
	if s.permits != 0 || s.held != 300 {
		t.Errorf("permits %d held %d after leave", s.permits, s.held)
	}
	s.Settle(Settle{RequestID: "x", Amount: -200, Seq: 2})
	if s.held != 0 || s.balance != 800 || len(s.open) != 0 {
		t.Errorf("held %d balance %d open %v after settle", s.held, s.balance, s.open)
	}
	s.Settle(Settle{RequestID: "x", Amount: -200, Seq: 1}) // a commit the balance knows
	if s.balance != 800 || s.held != 0 {
		t.Errorf("balance %d held %d after a second settle", s.balance, s.held)
	}
}

// TestOneOvershoot: whatever is given back while a request runs that found less than its
// upper bound, and however the state is rebuilt, the balance ends at most one overshoot below zero.
func TestOneOvershoot(t *testing.T) {
	const upperMax = 1000
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 3))
	below := 0
	for i := range 300 {
		balance, seq := abi.Nano(rnd.Int64N(3000)), uint64(1)
		s := loadedState(account.Account{ID: "a"}, balance)
		var running []Live
		for n := range 200 {
			switch {
			case rnd.IntN(2) == 0:
				ask := Ask{RequestID: fmt.Sprint(n), Upper: 10 + abi.Nano(rnd.Int64N(upperMax-10)), Minimum: 10}
				if r, err := s.Reserve(ask, start); err == nil {
					running = append(running, Live{RequestID: ask.RequestID, Permit: true,
						Hold: r.Hold, Upper: ask.Upper, Arrival: r.Arrival})
				}
			case rnd.IntN(20) == 0: // money is paid in, or the limiter starts anew
				balance += abi.Nano(rnd.Int64N(500))
				seq++
				s.Load(Loaded{Balance: balance, Seq: seq}, running)
			case len(running) > 0:
				at := rnd.IntN(len(running))
				cost := abi.Nano(rnd.Int64N(10))
				if rnd.IntN(3) == 0 {
					cost = running[at].Upper
				}
				balance -= cost
				seq++
				s.Leave(Leave{RequestID: running[at].RequestID}, start)
				s.Settle(Settle{RequestID: running[at].RequestID, Amount: -cost, Seq: seq})
				running = slices.Delete(running, at, at+1)
			}
			worst := balance
			for _, o := range running {
				worst -= o.Upper
			}
			if worst < -upperMax {
				t.Fatalf("case %d: %d run with a balance of %d: it may end at %d", i, len(running), balance, worst)
			}
			if balance < 0 {
				below++
			}
		}
	}
	if below == 0 {
		t.Error("no balance fell below zero: the test proves little")
	}
}

// TestRebuild: a new state told what lives is as the old one was, and settlements
// that cross the read are counted once.
func TestRebuild(t *testing.T) {
	a := account.Account{ID: "a", Concurrency: 3}
	s := New(a, NewBucket(0, start))
	s.Load(Loaded{Balance: 1000, Seq: 5, Holds: []account.Entry{
		{Kind: account.Hold, AccountID: "a", RequestID: "live", Held: 100},
		{Kind: account.Hold, AccountID: "a", RequestID: "orphan", Held: 50},
		{Kind: account.Hold, AccountID: "b", RequestID: "other", Held: 500},
	}}, []Live{{RequestID: "live", Permit: true, Hold: 100, Upper: 100, Arrival: 1}, {RequestID: "left", Hold: 30, Upper: 30, Arrival: 2},
		{RequestID: "fresh", Permit: true, Hold: 20, Upper: 20, Arrival: 3}})
	if s.permits != 2 || s.held != 100+50+30+20 {
		t.Fatalf("permits %d held %d", s.permits, s.held)
	}
	s.Settle(Settle{RequestID: "orphan", Amount: -10, Seq: 6}) // its end was on its way
	s.Settle(Settle{RequestID: "left", Amount: -5, Seq: 4})    // the read saw this one
	if s.held != 120 || s.balance != 990 {
		t.Errorf("held %d balance %d, want 120 and 990", s.held, s.balance)
	}
	for _, id := range []string{"live", "fresh", "unknown"} {
		s.Leave(Leave{RequestID: id}, start)
		s.Settle(Settle{RequestID: id, Amount: -1, Seq: 7})
	}
	if s.permits != 0 || s.held != 0 || s.balance != 987 || !s.Idle(start) {
		t.Errorf("at the end: permits %d held %d balance %d open %v", s.permits, s.held, s.balance, s.open)
	}
}

func TestState(t *testing.T) {
	a := account.Account{Concurrency: 2, TokensPerMinute: 600, Unlimited: true}
	s := loadedState(a, 0)
	for i, want := range []account.Limits{
		{RequestsLimit: 2, RequestsRemaining: 2, TokensLimit: 600, TokensRemaining: 600, RequestsReset: start, TokensReset: start},
		{RequestsLimit: 2, RequestsRemaining: 1, TokensLimit: 600, TokensRemaining: 500,
			RequestsReset: start, TokensReset: start.Add(10 * time.Second)},
		{RequestsLimit: 2, RequestsRemaining: 0, TokensLimit: 600, TokensRemaining: 400,
			RequestsReset: start.Add(time.Second), TokensReset: start.Add(20 * time.Second)},
	} {
		if got := s.Counters().Limits(start); got != want {
			t.Errorf("after %d requests: %+v, want %+v", i, got, want)
		}
		_, _ = s.Reserve(Ask{RequestID: string(rune('a' + i)), Prompt: 90, OutputMax: 10}, start)
	}
	later := start.Add(5 * time.Second)
	if got, use := s.Counters().Limits(later).TokensRemaining, s.Counters().Use(later).TokensRemaining; got != 450 || use != 450 {
		t.Errorf("5 s later %d tokens remain, %d for a policy, want 450", got, use)
	}
}

func TestResize(t *testing.T) {
	for _, c := range []struct{ from, spent, to, want int64 }{
		{100, 0, 200, 200}, {100, 40, 200, 160}, {100, 40, 50, 50}, {100, 90, 50, 10},
		{100, 150, 50, -50}, {0, 0, 50, 50}, {100, 40, 0, 0},
	} {
		b := NewBucket(c.from, start)
		b.add(-c.spent)
		b.Resize(c.to, start)
		if got := b.Parts / partsPerToken; got != c.want || b.Capacity != c.to {
			t.Errorf("%+v: level %d of %d", c, got, b.Capacity)
		}
	}
}

// TestBucketAtItsEnds: what a store or a policy may name overflows nothing.
func TestBucketAtItsEnds(t *testing.T) {
	const most = math.MaxInt64
	b := NewBucket(most, start)
	for name, change := range map[string]func(){
		"nothing": func() {},
		"added":   func() { b.add(most) },
		"resized": func() { b.Resize(1, start); b.Resize(most, start) },
		"back after years": func() {
			b.add(-most)
			b.Refill(start.AddDate(100, 0, 0))
		},
	} {
		if change(); !b.has(capacityMax-1) || b.Remaining() > capacityMax {
			t.Errorf("%s: %d tokens remain", name, b.Remaining())
		}
		b = NewBucket(most, start)
	}
	if b.add(-most); b.Remaining() != 0 || b.Wait(1) <= 0 {
		t.Errorf("all are taken, and %d remain; one is there in %v", b.Remaining(), b.Wait(1))
	}
}

// TestBucketClockStepsBack: it neither refills the bucket nor takes from it, and what was refilled is not refilled again.
func TestBucketClockStepsBack(t *testing.T) {
	b := NewBucket(6000, start)
	b.add(-5000)
	b.Refill(start.Add(10 * time.Second))
	was := b
	if b.Refill(start); b != was {
		t.Errorf("back at the start there are %d tokens, not %d", b.Remaining(), was.Remaining())
	}
	if b.Refill(start.Add(20 * time.Second)); b.Remaining() != 3000 {
		t.Errorf("after 20 s there are %d tokens, want 3000", b.Remaining())
	}
}

func TestDollars(t *testing.T) {
	for n, want := range map[abi.Nano]string{0: "$0.000000000", 8: "$0.000000008", 2_500_000_000: "$2.500000000", -1: "-$0.000000001"} {
		if got := dollars(n); got != want {
			t.Errorf("dollars(%d) = %s, want %s", n, got, want)
		}
	}
}

// TestCoveredByAllCounters: a request costs less only if it gets all of every counter that it asks for, in whatever order.
func TestCoveredByAllCounters(t *testing.T) {
	scarce, plenty := abi.Counter{Name: "scarce", Limit: 5, Amount: 6}, abi.Counter{Name: "plenty", Limit: 9, Amount: 3}
	for _, c := range []struct {
		takes []abi.Counter
		upper abi.Nano
	}{
		{[]abi.Counter{scarce, plenty}, 100}, {[]abi.Counter{plenty, scarce}, 100}, {[]abi.Counter{plenty, plenty}, 10}, {nil, 100},
	} {
		s := loadedState(account.Account{ID: "a"}, 1000)
		r, err := s.Reserve(Ask{RequestID: "r", Upper: 100, Minimum: 50, CoveredUpper: 10, CoveredMinimum: 1, Takes: c.takes}, start)
		if err != nil || r.Upper != c.upper || r.Hold != c.upper {
			t.Errorf("%v: %+v, %v, want %d held", c.takes, r, err, c.upper)
		}
	}
}

// TestLongerThanReserved: a bucket that was full when a request ended lacks all that the request used beyond what was reserved,
// that of its key too.
func TestLongerThanReserved(t *testing.T) {
	key := account.LimitedKey{ID: "k", TokensPerMinute: 6000}
	s := loadedState(account.Account{ID: "a", Unlimited: true, TokensPerMinute: 6000}, 0)
	r, err := s.Reserve(Ask{RequestID: "r", Prompt: 100, OutputMax: 32_000, Key: key}, start)
	if err != nil {
		t.Fatal(err)
	}
	later := start.Add(5 * time.Minute)
	s.Leave(Leave{RequestID: "r", Taken: r.Tokens, Used: r.Tokens + 4000, Key: key, KeyTaken: r.KeyTokens}, later)
	if account, key := s.Counters().Limits(later).TokensRemaining, s.buckets["k"].Remaining(); account != 2000 || key != 2000 {
		t.Errorf("%d tokens remain of the account, %d of the key, want 2000 of 6000", account, key)
	}
}

// TestChange: a new limit of tokens counts from then on, and what was spent stays spent. Who need not pay any more
// is short of nothing.
func TestChange(t *testing.T) {
	a := account.Account{ID: "a", TokensPerMinute: 600}
	s := loadedState(a, 50)
	if _, err := s.Reserve(Ask{RequestID: "r", Prompt: 600, Upper: 80, Minimum: 1}, start); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ to, want int64 }{{600, 100}, {6000, 5500}, {50, 50}} {
		a.TokensPerMinute, a.Unlimited = c.to, c.to == 50
		s.Change(a, start.Add(10*time.Second)) // 100 tokens of the first limit came back
		if got := s.Counters().Limits(start.Add(10 * time.Second)); got.TokensLimit != c.to || got.TokensRemaining != c.want {
			t.Errorf("%d of %d tokens remain, want %d of %d", got.TokensRemaining, got.TokensLimit, c.want, c.to)
		}
	}
	if l, _ := s.Open("r"); l.Hold != 80 {
		t.Errorf("of an account that need not pay any more a request holds %d of %d", l.Hold, l.Upper)
	}
}

// TestFirstTokensFree is the interleaving of an account whose requests may cost
// nothing: a policy that gives the first tokens away quotes a minimum of 0 and an
// upper bound above the balance. The second request holds nothing, ends while the
// first runs, and must not take the money that the first gives back.
func TestFirstTokensFree(t *testing.T) {
	s := loadedState(account.Account{ID: "a"}, 50)
	for i, want := range []abi.Nano{50, 0, 0} {
		id := fmt.Sprint("r", i)
		if r, err := s.Reserve(Ask{RequestID: id, Upper: 100, Minimum: 0}, start); err != nil || r.Hold != want {
			t.Fatalf("%s holds %d (%v), want %d", id, r.Hold, err, want)
		}
	}
	s.Leave(Leave{RequestID: "r1"}, start)
	s.Settle(Settle{RequestID: "r1", Amount: 0, Seq: 2})
	s.Leave(Leave{RequestID: "r0"}, start)
	s.Settle(Settle{RequestID: "r0", Amount: 0, Seq: 3})
	if s.held != 50 || s.permits != 1 {
		t.Errorf("with one request left %d are held by %d permits, want all 50 by 1", s.held, s.permits)
	}
	s.Leave(Leave{RequestID: "r2"}, start)
	s.Settle(Settle{RequestID: "r2", Amount: -20, Seq: 4})
	if s.held != 0 || s.balance != 30 || !s.Idle(start) {
		t.Errorf("at the end: balance %d, held %d, open %v; want 30, 0 and none", s.balance, s.held, s.open)
	}
}

// TestNeeds: what a request needs of counters it gets whole or not at all, whoever else holds
// some, and a refusal takes nothing.
func TestNeeds(t *testing.T) {
	s := New(account.Account{ID: "a", Unlimited: true}, NewBucket(0, start))
	refusal := &abi.Error{Kind: abi.RateLimited, Msg: "no more"}
	need := func(name string, amount int64) Need {
		return Need{abi.Counter{Name: name, Period: "2023-11", Limit: 10, Amount: amount}, refusal}
	}
	for _, c := range []struct {
		needs []Need
		ok    bool
	}{
		{[]Need{need("x", 6), need("y", 10)}, true},
		{[]Need{need("x", 4), need("y", 1)}, false}, // of y there is none: nothing of x is taken
		{[]Need{need("x", 2), need("x", 3)}, false}, // one counter twice
		{[]Need{need("x", 11)}, false},
		{[]Need{need("y", 0)}, true},
		{[]Need{need("x", 2), need("x", 2)}, true},
		{[]Need{need("x", 1)}, false},
		{[]Need{need("v", 1), need("u", 8), need("u", 3)}, false},                      // twice, behind another
		{[]Need{{abi.Counter{Name: "x", Period: "2023-11", Limit: 3}, refusal}}, true}, // of less than is taken already: nothing is there
	} {
		id := fmt.Sprint(c.needs)
		r, err := s.Reserve(Ask{RequestID: id, Needs: c.needs, Takes: []abi.Counter{{Name: "z", Period: "2023-11", Limit: 1, Amount: 1}}}, start)
		if (err == nil) != c.ok || err != nil && err != refusal {
			t.Errorf("%s: %+v, %v", id, r, err)
		}
	}
	wider := need("s", 3)
	wider.Counter.Limit = 12
	r, err := s.Reserve(Ask{RequestID: "wider", Needs: []Need{need("t", 1), need("s", 2), wider}}, start)
	both := []abi.Counter{need("t", 1).Counter, {Name: "s", Period: "2023-11", Limit: 12, Amount: 5}}
	if err != nil || !reflect.DeepEqual(r.Counters, both) {
		t.Errorf("%v, %v, want %v", r.Counters, err, both)
	}
	// The ledger has a row for each counter of a hold.
	once := s.open[fmt.Sprint([]Need{need("x", 2), need("x", 2)})].counters
	if want := []abi.Counter{{Name: "x", Period: "2023-11", Limit: 10, Amount: 4}}; !reflect.DeepEqual(once, want) {
		t.Errorf("what two policies take of one counter is held as %v, want %v", once, want)
	}
	other := need("x", 0)
	other.Counter.Period = "2023-11-14"
	if _, err := s.Reserve(Ask{RequestID: "periods", Needs: []Need{need("x", 0), other}}, start); err != nil {
		t.Errorf("nothing of two periods: %v", err)
	}
	day, month := need("w", 1), need("w", 1)
	day.Counter.Period = "2023-11-14"
	if r, err := s.Reserve(Ask{RequestID: "both", Needs: []Need{day, month}}, start); err == nil {
		t.Errorf("one counter by day and by month, which the ledger does not take: %+v", r)
	}
	want := map[counterKey]counter{{"x", "2023-11"}: {held: 10}, {"y", "2023-11"}: {held: 10}, {"z", "2023-11"}: {held: 1},
		{"t", "2023-11"}: {held: 1}, {"s", "2023-11"}: {held: 5}}
	if !reflect.DeepEqual(s.taken, want) {
		t.Errorf("%v, want %v", s.taken, want)
	}
}

// TestLoadTwice: a read of the ledger is the whole of it, whatever was known before.
func TestLoadTwice(t *testing.T) {
	load := func(times int) *State {
		s := New(account.Account{ID: "a"}, NewBucket(0, start))
		count := func(amount int64) []abi.Counter {
			return []abi.Counter{{Name: "free", Period: "2026-01", Limit: 10, Amount: amount},
				{Name: "unread", Period: "2026-01", Limit: 10, Amount: 1}}
		}
		for range times {
			s.Load(Loaded{Balance: 100, Seq: 1, At: start, Keys: []account.KeyUse{{KeyID: "k", Budget: 60, Charged: 5}},
				Counters: []account.CounterUse{{Name: "free", Period: "2026-01", Used: 1}},
				Holds:    []account.Entry{{AccountID: "a", RequestID: "dead", Held: 7, KeyID: "k", Counters: count(2)}}},
				[]Live{{RequestID: "live", Permit: true, Hold: 90, Upper: 120, Arrival: 3, KeyID: "k", KeyHold: 40, Counters: count(3)}})
		}
		return s
	}
	once, twice := load(1), load(2)
	if !reflect.DeepEqual(once, twice) {
		t.Errorf("once\n%+v, twice\n%+v", once, twice)
	}
	free := counterKey{"free", "2026-01"}
	if got := twice.taken[free]; got != (counter{used: 1, held: 5}) {
		t.Errorf("of the counter there is %+v", got)
	}
	twice.Settle(Settle{RequestID: "dead", Seq: 2, Counters: []abi.Counter{{Name: "free", Period: "2026-01", Amount: 1}}})
	if got := twice.taken[free]; got != (counter{used: 2, held: 3}) {
		t.Errorf("after what nobody owned has ended there is %+v", got)
	}
}

// TestCountersAreForgotten: what was used in a period that nobody asks for any more goes when a new one begins, unless a
// request still has of it.
func TestCountersAreForgotten(t *testing.T) {
	s := loadedState(account.Account{ID: "a", Unlimited: true}, 0)
	take := func(id, period string, now time.Time) {
		if _, err := s.Reserve(Ask{RequestID: id, Takes: []abi.Counter{{Name: "n", Period: period, Limit: 10, Amount: 1}}}, now); err != nil {
			t.Fatal(err)
		}
	}
	take("open", "2026-01-02", start)
	take("ended", "2026-01-03", start)
	s.Leave(Leave{RequestID: "ended"}, start)
	s.Settle(Settle{RequestID: "ended", Seq: 9})
	s.taken[counterKey{"n", "2026-04"}] = counter{used: 9} // of the month that goes on
	take("new", "2026-04-02", start.AddDate(0, 3, 0))
	want := map[counterKey]counter{{"n", "2026-01-02"}: {held: 1}, {"n", "2026-04"}: {used: 9}, {"n", "2026-04-02"}: {held: 1}}
	if !reflect.DeepEqual(s.taken, want) {
		t.Errorf("%v are known, want %v", s.taken, want)
	}
}

// TestIdleWithoutALimit: what the requests of an account without a limit of tokens used does not keep its state.
func TestIdleWithoutALimit(t *testing.T) {
	s := loadedState(account.Account{ID: "a", Unlimited: true}, 0)
	if _, err := s.Reserve(Ask{RequestID: "r", Prompt: 9, OutputMax: 9}, start); err != nil {
		t.Fatal(err)
	}
	s.Leave(Leave{RequestID: "r", Used: 500}, start)
	s.Settle(Settle{RequestID: "r", Seq: 9})
	if !s.Idle(start) {
		t.Error("it is not idle")
	}
}

// TestSpentTokensKeepAState: the state of an account is kept until nothing runs and its bucket is full again.
func TestSpentTokensKeepAState(t *testing.T) {
	s := loadedState(account.Account{ID: "a", Unlimited: true, TokensPerMinute: 600}, 0)
	if _, err := s.Reserve(Ask{RequestID: "r", Prompt: 100}, start); err != nil {
		t.Fatal(err)
	}
	s.Leave(Leave{RequestID: "r", Taken: 100, Used: 100}, start)
	s.Settle(Settle{RequestID: "r", Seq: 9})
	full := start.Add(10 * time.Second)
	if s.Idle(full.Add(-time.Millisecond)) {
		t.Errorf("idle while %d tokens remain of 600", s.bucket.Remaining())
	}
	if _, err := s.Reserve(Ask{RequestID: "free", Free: true}, full); err != nil {
		t.Fatal(err)
	}
	if s.Idle(full) {
		t.Error("idle with a request")
	}
	if s.Leave(Leave{RequestID: "free"}, full); !s.Idle(full) {
		t.Error("it is not idle")
	}
}
