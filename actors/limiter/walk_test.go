package limiter

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// walkSteps is how many steps the random walk makes.
const walkSteps = 1_000_000

// walked is one request of the walk, as its owner and the ledger know it.
type walked struct {
	ask     limit.Ask
	got     limit.Reservation
	inStore bool     // its hold row is in the ledger
	left    bool     // its permit is on its way back
	paid    bool     // its settlement is durable
	cost    abi.Nano // of the settlement
	seq     uint64   // of the settlement
	// delivered and gone: the limiter has been told of the settlement and of the end.
	delivered, gone bool
	// permit and hold are what it has now, as the model says, and upper is what hold
	// may grow to.
	permit      bool
	hold, upper abi.Nano
	// took is what its settlement takes of the counter, counted what it has of it now.
	took, counted int64
	// keyHold is what it has of its key's budget, and may grow to upper too; a request without a key has none.
	keyHold abi.Nano
}

func (r *walked) keyed() bool { return r.ask.Key.ID != "" }

// keyAt is the time of all rows: no clock reaches a later month.
var keyAt = time.Date(2250, 1, 2, 3, 4, 5, 0, time.UTC)

// The counter of the walk: limit is what an account may take of it.
const counterName, counterPeriod, counterLimit = "m/tokens", "2026-11", 200

func counters(n int64) []abi.Counter {
	if n == 0 {
		return nil
	}
	return []abi.Counter{{Name: counterName, Period: counterPeriod, Limit: counterLimit, Amount: n}}
}

// walk drives one limiter beside a model that is a list of requests and no more.
type walk struct {
	t        *testing.T
	rnd      *rand.Rand
	l        *limiter
	account  account.Account
	all      []*walked // in the order in which they were admitted; none that is over
	orphans  map[string]account.Entry
	used     int64         // of the counter, in the ledger
	knownUse int64         // as the limiter can know it
	known    abi.Nano      // the balance that the limiter can know
	balance  abi.Nano      // the ledger's
	seq      uint64        // of its last commit
	knownSeq uint64        // of the last read
	read     *limit.Loaded // of a load that is under way
	next     int
	// key is the one key's budget and charges in the ledger, keyKnown as the limiter can know them.
	key, keyKnown account.KeyUse
	// knownAccount is account as the limiter read it last.
	knownAccount account.Account
	// what happened, so that a walk that proves little is noticed
	partial, zero, refused, crossed, restarts, covered, short, keyRefused, keyPartial int
}

// ticket takes what the limiter says. It may refuse to be passed on.
type ticket struct {
	broken bool
	got    *limit.Reservation
	err    *abi.Error
}

func (k *ticket) Granted(r limit.Reservation, _ account.Limits) *abi.Error {
	if k.broken {
		return &abi.Error{Kind: abi.Overloaded}
	}
	k.got = &r
	return nil
}

func (k *ticket) HoldRow() account.Entry { return account.Entry{} }

func (k *ticket) Denied(err *abi.Error, _ account.Limits) { k.err = err }

// TestWalk is a million steps through every interleaving of reserve, leave,
// settle, change, load and restart, with partial holds and such of 0. After each the
// limiter has what a model says that is recomputed from its list of requests.
// With the build tag invariants the limiter checks itself as well.
func TestWalk(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	w := &walk{t: t, rnd: rand.New(rand.NewPCG(seed, 4)), account: account.Account{ID: "a"}, balance: 100, seq: 1,
		key: account.KeyUse{KeyID: "k", Budget: 90}}
	w.restart()
	steps := walkSteps
	if testing.Short() {
		steps /= 10
	}
	for range steps {
		w.step()
		w.compare()
	}
	t.Logf("%d partial holds, %d of 0, %d refused, %d loads were crossed, %d restarts, %d covered, %d short of the counter",
		w.partial, w.zero, w.refused, w.crossed, w.restarts, w.covered, w.short)
	if min(w.partial, w.zero, w.refused, w.crossed, w.restarts, w.covered, w.short, w.keyRefused, w.keyPartial) < steps/1000 {
		t.Error("the walk proves little")
	}
	w.finish()
}

// step does one thing at random.
func (w *walk) step() {
	at := func() *walked { return w.all[w.rnd.IntN(len(w.all))] }
	switch n := w.rnd.IntN(100); {
	case n < 25:
		if len(w.all) < 12 {
			w.reserve()
		}
	case n < 80:
		if len(w.all) > 0 {
			w.end(at(), n%4)
		}
	case n < 85:
		w.balance = abi.Nano(w.rnd.IntN(200) - 20) // an operator: the limiter learns of it with the next load
		w.used = w.rnd.Int64N(w.used + 1)          // refunds
		w.key.Budget, w.key.Charged = abi.Nano(w.rnd.IntN(4)*50), abi.Nano(w.rnd.IntN(60))
		w.seq++
	case n < 88:
		w.account.Unlimited = w.rnd.IntN(4) == 0
		w.account.Concurrency = w.rnd.IntN(8)
	case n < 93:
		w.begin()
	case n < 98:
		w.adopt()
	default:
		w.restart()
	}
}

// reserve asks for one request and checks the answer against the model.
func (w *walk) reserve() {
	w.next++
	ask := limit.Ask{RequestID: fmt.Sprint("r", w.next), Upper: abi.Nano(w.rnd.IntN(80)),
		Minimum: abi.Nano(w.rnd.IntN(3) * w.rnd.IntN(40)), Free: w.rnd.IntN(12) == 0}
	ask.Minimum = min(ask.Minimum, ask.Upper)
	most := int64(w.rnd.IntN(3) * w.rnd.IntN(30))
	if ask.Free {
		ask.Upper, ask.Minimum, most = 0, 0, 0
	}
	if w.rnd.IntN(2) == 0 {
		ask.Key = account.LimitedKey{ID: "k", Budget: w.keyKnown.Budget}
	}
	ask.Takes = counters(most)
	ask.CoveredUpper, ask.CoveredMinimum = ask.Upper/2, ask.Minimum/2
	if w.l.state == nil {
		return // it would wait for the load
	}
	a, available := w.knownAccount, w.available()
	count := max(min(most, counterLimit-w.knownUse-w.counted()), 0)
	upper, minimum := ask.Upper, ask.Minimum
	if most > 0 && count == most {
		w.covered++
		upper, minimum = ask.CoveredUpper, ask.CoveredMinimum
	} else if most > 0 {
		w.short++
	}
	want := abi.Kind(0)
	switch {
	case !ask.Free && !a.Unlimited && available < minimum:
		want = abi.InsufficientBalance
	case !ask.Free && w.keyKnown.Budget > 0 && ask.Key.ID != "" && w.keyLeft() < minimum:
		w.keyRefused++
		want = abi.InsufficientBalance
	case a.Concurrency > 0 && w.permits() >= a.Concurrency:
		want = abi.RateLimited
	}
	k := &ticket{broken: w.rnd.IntN(20) == 0}
	w.l.decide(Reserve{Ask: ask, Ticket: k})
	switch {
	case k.err != nil && k.broken && want == 0 && k.err.Kind == abi.Overloaded:
		return
	case want != 0:
		w.refused++
		if k.err == nil || k.err.Kind != want {
			w.t.Fatalf("step of %+v with %d available: %v, want kind %v", ask, available, k.err, want)
		}
		return
	case k.err != nil:
		w.t.Fatalf("refused %+v with %d available: %v", ask, available, k.err)
	}
	hold, keyHold := upper, w.keyHold(ask, upper)
	if !a.Unlimited {
		hold = min(upper, max(available, 0))
	}
	if hold < upper && hold > 0 {
		w.partial++
	} else if hold < upper {
		w.zero++
	}
	if k.got.KeyHold != keyHold {
		w.t.Fatalf("%+v has %+v with %d left for its key, want %d", ask, *k.got, w.keyLeft(), keyHold)
	}
	if k.got.Hold != hold || k.got.Upper != upper || !slices.Equal(k.got.Counters, counters(count)) {
		w.t.Fatalf("%+v has %+v with %d available, want %d of %d and %d of the counter", ask, *k.got, available, hold, upper, count)
	}
	w.all = append(w.all, &walked{ask: ask, got: *k.got, permit: true, hold: hold, upper: upper, counted: count, keyHold: keyHold})
}

// end does one of the things that end a request, in any order of the two halves.
func (w *walk) end(r *walked, what int) {
	switch {
	case what == 0 && !r.left:
		r.left = true
	case what == 1 && r.left && !r.gone:
		r.gone, r.permit = true, false
		w.l.leave(Back{Leaves: true, Leave: limit.Leave{RequestID: r.ask.RequestID}})
	case what == 2 && !r.ask.Free && !r.inStore && !r.paid:
		r.inStore = true
		w.seq++
	case what == 2 && !r.ask.Free && !r.paid:
		w.pay(r)
	case what == 3 && r.paid && !r.delivered:
		r.delivered = true
		w.deliver(r)
	}
	w.forget()
}

// pay makes a settlement durable, mostly below what was quoted.
func (w *walk) pay(r *walked) {
	r.paid = true
	r.cost = r.got.Upper
	if w.rnd.IntN(4) != 0 {
		r.cost = r.got.Upper * abi.Nano(w.rnd.IntN(3)) / 6
	}
	for _, c := range r.got.Counters {
		r.took = w.rnd.Int64N(c.Amount + 1)
	}
	if w.used += r.took; w.used > counterLimit {
		w.t.Fatalf("%d of the counter are used, its limit is %d", w.used, counterLimit)
	}
	w.seq++
	r.seq = w.seq
	w.balance -= r.cost
	if r.keyed() {
		w.key.Charged += r.cost
	}
}

// deliver tells the limiter that a settlement is durable.
func (w *walk) deliver(r *walked) {
	if w.read != nil {
		w.crossed++
	}
	w.l.settle(Back{Settles: true, Settle: limit.Settle{RequestID: r.ask.RequestID, Amount: -r.cost, Counters: counters(r.took), Seq: r.seq,
		KeyID: r.ask.Key.ID, At: keyAt}})
	if w.l.state == nil {
		return // the load that is coming applies it
	}
	if r.seq > w.knownSeq {
		w.known -= r.cost
		w.knownUse += r.took
		if r.keyed() {
			w.keyKnown.Charged += r.cost
		}
	}
	r.hold, r.upper, r.counted, r.keyHold = 0, 0, 0, 0
	delete(w.orphans, r.ask.RequestID)
	w.topUp()
}

// forget drops the requests that are over.
func (w *walk) forget() {
	w.all = slices.DeleteFunc(w.all, func(r *walked) bool { return r.gone && (r.ask.Free || r.delivered) })
}

// begin reads the ledger for a load, as the limiter does after a change.
func (w *walk) begin() {
	if w.read != nil {
		return
	}
	w.read = &limit.Loaded{Account: w.account, Balance: w.balance, Seq: w.seq, At: keyAt,
		Counters: []account.CounterUse{{Name: counterName, Period: counterPeriod, Used: w.used}}}
	if w.key.Budget > 0 {
		w.read.Keys = []account.KeyUse{w.key}
	}
	for _, r := range w.all {
		if r.inStore && !r.paid {
			w.read.Holds = append(w.read.Holds, account.Entry{
				Kind: account.Hold, AccountID: "a", RequestID: r.ask.RequestID, KeyID: r.ask.Key.ID,
				Held: r.got.Hold, Counters: r.got.Counters})
		}
	}
	w.l.loading = true
}

// live is what the registry of requests says, in no order.
func (w *walk) live(string) []limit.Live {
	var live []limit.Live
	for _, r := range w.all {
		l := limit.Live{RequestID: r.ask.RequestID, Permit: !r.left, Arrival: r.got.Arrival}
		if !r.delivered {
			l.Hold, l.Upper, l.Counters = r.got.Hold, r.got.Upper, r.got.Counters
			l.KeyID, l.KeyHold = r.ask.Key.ID, r.got.KeyHold
		}
		if l.Permit || l.Upper != 0 || len(l.Counters) > 0 {
			live = append(live, l)
		}
	}
	w.rnd.Shuffle(len(live), func(i, k int) { live[i], live[k] = live[k], live[i] })
	return live
}

// adopt ends a load and makes the model anew: what is read, what lives now, and
// the settlements that were told since the read began.
func (w *walk) adopt() {
	if w.read == nil {
		return
	}
	told := slices.Clone(w.l.recent)
	w.knownAccount = w.read.Account
	w.known, w.knownSeq, w.knownUse = w.read.Balance, w.read.Seq, w.read.Counters[0].Used
	w.keyKnown = account.KeyUse{}
	for _, k := range w.read.Keys {
		w.keyKnown = k
	}
	w.orphans = map[string]account.Entry{}
	for _, h := range w.read.Holds {
		w.orphans[h.RequestID] = h
	}
	for _, r := range w.all {
		r.permit, r.hold, r.upper, r.counted, r.keyHold = !r.left, 0, 0, 0, 0
		if !r.delivered {
			r.hold, r.upper, r.counted = r.got.Hold, r.got.Upper, sum(r.got.Counters)
		}
		if !r.delivered && r.keyed() {
			r.keyHold = r.got.KeyHold
		}
		if !r.left || (!r.delivered && (r.got.Upper != 0 || len(r.got.Counters) > 0)) { // it lives
			delete(w.orphans, r.ask.RequestID)
		}
	}
	early := len(w.l.early)
	w.l.loading = false
	w.l.adopt(*w.read, start)
	w.read = nil
	if early > 0 && w.l.early != nil {
		w.t.Fatal("what came before the first load is still kept")
	}
	w.topUp()
	for _, s := range told {
		if s.Seq > w.knownSeq {
			w.known += s.Amount
			w.knownUse += sum(s.Counters)
			if s.KeyID != "" {
				w.keyKnown.Charged -= s.Amount
			}
		}
		delete(w.orphans, s.RequestID)
		w.topUp()
	}
}

// restart makes a new limiter that knows nothing and begins to load.
func (w *walk) restart() {
	w.restarts++
	cell := &Cell{}
	early := []Back(nil)
	if w.l != nil {
		early = w.l.early // they are queued again
	}
	w.l = &limiter{id: "a", cell: cell, deps: Deps{Live: w.live}, early: early}
	w.read = nil
	w.begin()
}

// topUp gives what is available to the oldest requests that are short.
func (w *walk) topUp() {
	for _, r := range w.all {
		more := r.upper - r.hold
		if !w.knownAccount.Unlimited {
			more = min(more, max(w.available(), 0))
		}
		r.hold += more
	}
	for _, r := range w.all {
		if r.keyed() {
			r.keyHold = r.keyHold + min(r.upper-r.keyHold, w.keyRoom(r.upper-r.keyHold))
		}
	}
}

// keyHold is what a new request gets of its key's budget.
func (w *walk) keyHold(a limit.Ask, upper abi.Nano) abi.Nano {
	if a.Free || a.Key.ID == "" {
		return 0
	}
	got := min(upper, w.keyRoom(upper))
	if got < upper {
		w.keyPartial++
	}
	return got
}

// keyRoom is what can be had of the budget, all that is wanted where there is none.
func (w *walk) keyRoom(wanted abi.Nano) abi.Nano {
	if w.keyKnown.Budget == 0 {
		return wanted
	}
	return max(w.keyLeft(), 0)
}

func (w *walk) keyLeft() abi.Nano { return w.keyKnown.Budget - w.keyKnown.Charged - w.keyHeld() }

func (w *walk) keyHeld() (sum abi.Nano) {
	for _, r := range w.all {
		sum += r.keyHold
	}
	for _, o := range w.orphans {
		if o.KeyID != "" {
			sum += o.Held
		}
	}
	return sum
}

func (w *walk) held() (sum abi.Nano) {
	for _, r := range w.all {
		sum += r.hold
	}
	for _, o := range w.orphans {
		sum += o.Held
	}
	return sum
}

// counted is what is held of the counter.
func (w *walk) counted() (n int64) {
	for _, r := range w.all {
		n += r.counted
	}
	for _, o := range w.orphans {
		n += sum(o.Counters)
	}
	return n
}

func sum(all []abi.Counter) (n int64) {
	for _, c := range all {
		n += c.Amount
	}
	return n
}

func (w *walk) available() abi.Nano { return w.known - w.held() }

func (w *walk) permits() (n int) {
	for _, r := range w.all {
		if r.permit {
			n++
		}
	}
	return n
}

// compare holds the limiter to the model.
func (w *walk) compare() {
	s := w.l.state
	if s == nil {
		return
	}
	sums := s.Sums()
	if sums.Held != w.held() || sums.Balance != w.known || sums.Permits != w.permits() ||
		s.Counters().Use(start).Available != w.available() {
		w.t.Fatalf("%+v; want balance %d, held %d, %d permits", sums, w.known, w.held(), w.permits())
	}
	if used, held := s.Counter(counterName, counterPeriod); used != w.knownUse || held != w.counted() {
		w.t.Fatalf("of the counter %d are used and %d held, want %d and %d", used, held, w.knownUse, w.counted())
	}
	if k := s.KeySums("k"); k.Held != w.keyHeld() || k.Budget != w.keyKnown.Budget || k.Budget > 0 && k.Charged != w.keyKnown.Charged {
		w.t.Fatalf("the key has %+v, want %+v and %d held", k, w.keyKnown, w.keyHeld())
	}
	for _, r := range w.all {
		if got, _ := s.Open(r.ask.RequestID); got.Hold != r.hold {
			w.t.Fatalf("%s holds %d, want %d", r.ask.RequestID, got.Hold, r.hold)
		}
	}
}

// finish ends all requests: nothing may be held then, and all money is available.
func (w *walk) finish() {
	w.adopt()
	for len(w.all) > 0 {
		for what := range 4 {
			w.end(w.all[0], what)
			if len(w.all) == 0 {
				break
			}
		}
	}
	w.begin()
	w.adopt()
	s := w.l.state
	if used, held := s.Counter(counterName, counterPeriod); used != w.used || held != 0 {
		w.t.Errorf("at the end %d of the counter are held and %d used, want %d", held, used, w.used)
	}
	key := s.KeySums("k")
	if got := s.Sums(); got != (limit.Sums{Balance: w.balance}) || key.Held != 0 || key.Short != 0 ||
		w.key.Budget > 0 && key.Charged != w.key.Charged {
		w.t.Errorf("at the end %+v, the key has %+v; want balance %d", got, key, w.balance)
	}
}
