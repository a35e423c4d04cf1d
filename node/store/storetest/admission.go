package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Cluster is a store of many nodes whose clock a test can change.
type Cluster interface {
	store.Cluster
	SetDatabaseClock(func() time.Time)
}

// walker drives nodes that share a store beside one limit.State of each account, which decides alone.
type walker struct {
	t        *testing.T
	rnd      *rand.Rand
	nodes    []Cluster
	now      time.Time
	accounts []*walked
	next     int
	// how often something happened, so that a walk that proves little is noticed
	admitted, refusedMoney, refusedRate, partial, counted, repeated int
}

// walked is an account and what it has by the oracle.
type walked struct {
	account account.Account
	keys    []account.LimitedKey
	state   *limit.State
	open    []*asked
	seq     uint64
}

// asked is a request that was admitted.
type asked struct {
	ask  limit.Ask
	got  limit.Reservation
	left bool
}

// WalkAdmission lets nodes ask for everything that a request can ask for, settle and release in
// any order, and holds each verdict to that of one state that decides alone: to the nano-dollar and the token.
func WalkAdmission(t *testing.T, nodes []Cluster, steps int) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	w := &walker{t: t, rnd: rand.New(rand.NewPCG(seed, 31)), nodes: nodes, now: time.Date(2026, 11, 27, 10, 0, 0, 123_456_000, time.UTC)}
	for _, s := range nodes {
		s.SetDatabaseClock(func() time.Time { return w.now })
	}
	for i := range 3 {
		w.account(i)
	}
	for range steps {
		w.now = w.now.Add(time.Duration(w.rnd.Int64N(int64(3 * time.Second))))
		if w.step(); t.Failed() {
			return
		}
	}
	t.Logf("%d admitted, %d partly, %d with counters; refused %d for money, %d for a rate; %d batches were given twice",
		w.admitted, w.partial, w.counted, w.refusedMoney, w.refusedRate, w.repeated)
	if min(w.admitted, w.partial, w.counted, w.refusedMoney, w.refusedRate, w.repeated) < steps/100 {
		t.Error("the walk proves little")
	}
	if v, err := nodes[0].Verify(); err != nil || len(v.Findings) > 0 {
		t.Errorf("%v, %v", v.Findings, err)
	}
}

// account makes one, with two keys of which one is limited.
func (w *walker) account(i int) {
	s := w.nodes[0]
	a, err := s.CreateAccount(account.Account{Name: fmt.Sprint("walked", i), Concurrency: []int{0, 4, 9}[i],
		TokensPerMinute: []int64{6000, 0, 3000}[i]}, 3000)
	if err != nil {
		w.t.Fatal(err)
	}
	k := &walked{account: a}
	for _, l := range []account.KeyLimits{{}, {Budget: 2000, TokensPerMinute: 2000}} {
		key, _, err := s.CreateKey(a.ID, l, time.Time{})
		if err != nil {
			w.t.Fatal(err)
		}
		k.keys = append(k.keys, account.LimitedKey{ID: key.ID, Budget: l.Budget, TokensPerMinute: l.TokensPerMinute})
	}
	k.state = limit.New(a, limit.NewBucket(a.TokensPerMinute, w.now))
	k.state.Load(limit.Loaded{Account: a, Balance: 3000, At: w.now, Seq: 1,
		Keys: []account.KeyUse{{KeyID: k.keys[1].ID, Budget: 2000}}}, nil)
	k.seq, w.accounts = 1, append(w.accounts, k)
}

// step is one batch of one node, or what an operator does.
func (w *walker) step() {
	s, k := w.nodes[w.rnd.IntN(len(w.nodes))], w.accounts[w.rnd.IntN(len(w.accounts))]
	switch w.rnd.IntN(12) {
	case 0:
		amount := abi.Nano(w.rnd.IntN(2500))
		if _, err := s.TopUp(k.account.ID, amount, "", ""); err != nil {
			w.t.Fatal(err)
		}
		k.settle(limit.Settle{Amount: amount, At: w.now})
		return
	case 1:
		k.account.Unlimited = w.rnd.IntN(6) == 0
		if k.account.TokensPerMinute > 0 {
			k.account.TokensPerMinute = 2000 + 1000*w.rnd.Int64N(5)
		}
		if _, err := s.UpdateAccount(k.account.ID, func(a *account.Account) { *a = k.account }); err != nil {
			w.t.Fatal(err)
		}
		k.state.Change(k.account, w.now)
		return
	}
	w.batch(s)
}

func (k *walked) settle(m limit.Settle) {
	k.seq++
	m.Seq = k.seq
	k.state.Settle(m)
}

// batch is one of a node: ends of requests, and new ones. The oracle does the same one by one.
func (w *walker) batch(s Cluster) {
	var b limit.Batch
	touched := map[*walked]bool{}
	for range w.rnd.IntN(4) {
		if k := w.accounts[w.rnd.IntN(len(w.accounts))]; len(k.open) > 0 {
			w.end(k, k.open[w.rnd.IntN(len(k.open))], &b)
			touched[k] = true
		}
	}
	for range 1 + w.rnd.IntN(4) {
		k := w.accounts[w.rnd.IntN(len(w.accounts))]
		ask := w.ask(k)
		p := limit.Proposal{Ask: ask, AccountID: k.account.ID}
		if !ask.Free {
			p.Hold = account.Entry{KeyID: ask.Key.ID, Model: "m", Time: w.now, ModuleDigest: "sha256:aa"}
		}
		b.Asks = append(b.Asks, p)
	}
	// What a node does first in its batch, the oracle did in end: rows, then releases.
	got, err := s.Commit(b)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, p := range b.Asks {
		w.compare(p, got[i])
	}
	if w.rnd.IntN(4) > 0 {
		return
	}
	w.repeated++
	again, err := s.Commit(b)
	for i := range got {
		if err != nil || got[i].Refusal == nil && !sameReservation(again[i], got[i]) {
			w.t.Fatalf("given again, %+v became %+v, %v", got[i], again[i], err)
		}
		if got[i].Refusal != nil && again[i].Refusal == nil { // it was asked again, and there was more
			w.compare(b.Asks[i], again[i])
		}
	}
}

func sameReservation(a, b limit.Verdict) bool {
	a.KeyHold, b.KeyHold, a.Arrival, b.Arrival = 0, 0, 0, 0 // the hold may have grown; a Free request keeps no arrival
	return a.Refusal == nil && reflect.DeepEqual(a.Reservation, b.Reservation)
}

// end settles or releases a request, in the batch and in the oracle.
func (w *walker) end(k *walked, q *asked, b *limit.Batch) {
	if slices.ContainsFunc(b.Releases, func(r limit.Release) bool { return r.RequestID == q.ask.RequestID }) || len(b.Releases) > 0 {
		return // rows come before releases: the oracle does them in the order of the batch
	}
	used := w.rnd.Int64N(q.got.Tokens + 200)
	if q.ask.Free {
		used = 0
	}
	leave := limit.Leave{RequestID: q.ask.RequestID, Taken: q.got.Tokens, Used: used, Key: q.ask.Key, KeyTaken: q.got.KeyTokens}
	if q.ask.Free || !q.left && w.rnd.IntN(4) == 0 {
		if !q.left {
			leave.Taken, leave.KeyTaken = q.got.Tokens, q.got.KeyTokens
			k.state.Leave(leave, w.now)
		}
		q.left = true
		b.Releases = append(b.Releases, limit.Release{AccountID: k.account.ID, RequestID: q.ask.RequestID, Used: used})
		if q.ask.Free {
			k.open = slices.DeleteFunc(k.open, func(o *asked) bool { return o == q })
		}
		return
	}
	e := Settlement(k.account.ID, q.ask.RequestID, -abi.Nano(w.rnd.Int64N(int64(q.got.Upper)+1)))
	e.Time, e.KeyID, e.Spent, e.Provisional = w.now, q.ask.Key.ID, used+1, false
	e.ModuleDigest = "sha256:aa"
	for _, n := range q.got.Counters {
		n.Amount = w.rnd.Int64N(n.Amount + 1)
		e.Counters = append(e.Counters, n)
	}
	b.Rows = append(b.Rows, e)
	if !q.left {
		leave.Used = e.Spent
		k.state.Leave(leave, w.now)
	}
	k.settle(limit.Settle{RequestID: q.ask.RequestID, Amount: e.Amount, Counters: e.Counters, KeyID: e.KeyID, At: e.Time})
	k.open = slices.DeleteFunc(k.open, func(o *asked) bool { return o == q })
}

// ask is one of any kind.
func (w *walker) ask(k *walked) limit.Ask {
	w.next++
	a := limit.Ask{RequestID: fmt.Sprint("r", w.next), Prompt: w.rnd.Int64N(800), OutputMax: w.rnd.Int64N(2000),
		Upper: abi.Nano(w.rnd.IntN(1500)), Free: w.rnd.IntN(8) == 0}
	a.Minimum = a.Upper / abi.Nano(1+w.rnd.IntN(20))
	if n := w.rnd.IntN(3); n < 2 {
		a.Key = k.keys[n]
	}
	if a.Free {
		a.Upper, a.Minimum = 0, 0
		return a
	}
	period := w.now.Format("2006-01-02")
	if w.rnd.IntN(4) == 0 {
		a.Takes = []abi.Counter{{Name: "m/free", Period: period, Limit: 3000, Amount: 1 + w.rnd.Int64N(300)}}
		a.CoveredUpper, a.CoveredMinimum = a.Upper/2, a.Minimum/2
	}
	if w.rnd.IntN(4) == 0 {
		a.Needs = []limit.Need{{Counter: abi.Counter{Name: "p/requests", Period: period, Limit: 2000, Amount: w.rnd.Int64N(100)},
			Refusal: &abi.Error{Kind: abi.RateLimited, Msg: "too many for today"}}}
	}
	return a
}

// compare holds a verdict to the oracle's.
func (w *walker) compare(p limit.Proposal, got limit.Verdict) {
	w.t.Helper()
	i := slices.IndexFunc(w.accounts, func(k *walked) bool { return k.account.ID == p.AccountID })
	k := w.accounts[i]
	want, refusal := k.state.Reserve(p.Ask, w.now)
	switch {
	case refusal != nil && refusal.Kind == abi.InsufficientBalance:
		w.refusedMoney++
	case refusal != nil:
		w.refusedRate++
	default:
		w.admitted++
		k.open = append(k.open, &asked{ask: p.Ask, got: want})
	}
	if refusal == nil && want.Hold < want.Upper {
		w.partial++
	}
	if len(want.Counters) > 0 {
		w.counted++
	}
	if refusal != nil {
		want = limit.Reservation{}
	}
	if !reflect.DeepEqual(refusal, got.Refusal) || !reflect.DeepEqual(want, got.Reservation) {
		w.t.Fatalf("%+v: got %+v, %v; want %+v, %v", p.Ask, got.Reservation, got.Refusal, want, refusal)
	}
}
