package tree

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/engine"
	"corenode/extensions"
	"corenode/wasm/abi"
)

// Where a fakeModel stops its jobs.
const (
	running int32 = iota
	stuckInQueue
	stuckInPrefill
	stuckElsewhere // in the prefill of a server that does not say how far it is
	stuckInDecode
	stuckInCall // in decode, with a token that is held back
)

// fakeModel is an engine that computes nothing: its steppers answer every prompt
// token by token. It outlives them, as the weights do.
type fakeModel struct {
	mode     atomic.Int32
	panics   atomic.Bool // the next step panics
	broken   atomic.Bool // New fails
	gate     sync.Mutex  // held by a test: steps block
	slots    int
	stepTime time.Duration // of a step that computes something
	queueMax int
	taking   func() // called with each job that is taken, before that is said; may be nil
	steppers atomic.Int64
	live     atomic.Int64 // jobs in the newest stepper
	mu       sync.Mutex
	pins     map[batcher.Pin]bool // of the newest stepper
	doubles  int                  // releases of what was not pinned
}

func newFakeModel() *fakeModel { return &fakeModel{slots: 8, queueMax: 1000} }

func (m *fakeModel) New(func()) (batcher.Stepper, error) {
	if m.broken.Load() {
		return nil, errors.New("no memory")
	}
	incarnation := uint64(m.steppers.Add(1))
	m.mu.Lock()
	m.pins = map[batcher.Pin]bool{}
	m.mu.Unlock()
	m.live.Store(0)
	return &fakeStepper{m: m, incarnation: incarnation}, nil
}

func (m *fakeModel) pinned() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pins)
}

type fakeJob struct {
	job      *engine.Job
	computed int
	produced int
	given    int // of these, up to the last one with content
}

type fakeStepper struct {
	m           *fakeModel
	incarnation uint64
	jobs        []*fakeJob
	nextID      int32
}

func (s *fakeStepper) Submit(j *engine.Job, _ time.Time, taken func(*abi.Error)) {
	if len(s.jobs) >= s.m.queueMax {
		taken(&abi.Error{Kind: abi.Overloaded, Msg: "the model's queue is full"})
		return
	}
	s.jobs = append(s.jobs, &fakeJob{job: j})
	s.m.live.Add(1)
	j.Output.Push(abi.Event{Kind: abi.EventStart})
	if s.m.taking != nil {
		s.m.taking()
	}
	taken(nil)
}

func (s *fakeStepper) Step(time.Time) (progress bool) {
	s.m.gate.Lock()
	defer s.m.gate.Unlock()
	if s.m.panics.CompareAndSwap(true, false) {
		panic("kernel fault")
	}
	if len(s.jobs) > 0 {
		time.Sleep(s.m.stepTime)
	}
	mode := s.m.mode.Load()
	for i, f := range slices.Clone(s.jobs) {
		switch {
		case f.job.Canceled():
			s.end(f, &abi.Error{Kind: abi.Canceled, Msg: "canceled"})
		case mode == stuckInQueue || mode == stuckElsewhere || i >= s.m.slots || !f.job.Output.Room():
			continue
		case f.computed < len(f.job.Request.Prompt):
			if mode == stuckInPrefill && f.computed > 0 {
				continue
			}
			f.computed = min(f.computed+32, len(f.job.Request.Prompt))
		case (mode == stuckInDecode || mode == stuckInCall) && f.produced > 0:
			continue
		case f.produced < f.job.Request.MaxTokens:
			f.produced++
			if mode != stuckInCall {
				f.given = f.produced
				f.job.Output.Push(abi.Event{Kind: abi.EventDelta, Text: "a"})
			}
		default:
			s.end(f, nil)
		}
		setObserved(f.job, f.usage(), f.given)
		f.job.Began(time.Now())
		if f.produced > 0 {
			f.job.Answered(time.Now())
		}
		progress = true
	}
	return progress
}

// setObserved writes the counters that only the real engine may: a fake one has
// no other way to be observed.
func setObserved(j *engine.Job, u abi.Usage, given int) {
	set := func(field string, n int64) {
		(*atomic.Int64)(reflect.ValueOf(j).Elem().FieldByName(field).Addr().UnsafePointer()).Store(n)
	}
	set("input", u.InputUncached)
	set("output", u.Output)
	set("delivered", int64(given))
}

func (f *fakeJob) usage() abi.Usage {
	return abi.Usage{InputUncached: int64(f.computed), Output: int64(f.produced)}
}

func (s *fakeStepper) end(f *fakeJob, err *abi.Error) {
	s.jobs = slices.DeleteFunc(s.jobs, func(o *fakeJob) bool { return o == f })
	s.m.live.Add(-1)
	r := engine.Result{Usage: f.usage(), Err: err, Computed: f.computed + f.produced}
	if err != nil && s.m.mode.Load() == stuckElsewhere {
		r.Untold = int64(len(f.job.Request.Prompt))
	}
	if err == nil {
		if r.Stop = abi.StopMaxTokens; f.job.Pin {
			s.nextID++
			r.Handle = engine.Handle{ID: s.nextID, Epoch: 1}
			s.m.mu.Lock()
			s.m.pins[batcher.Pin{Handle: r.Handle, Incarnation: s.incarnation}] = true
			s.m.mu.Unlock()
		}
		f.job.Output.Push(abi.Event{Kind: abi.EventEnd, Usage: r.Usage, Stop: r.Stop})
	} else {
		f.job.Output.Push(abi.Event{Kind: abi.EventError, Err: err})
	}
	f.job.Finished(r)
}

func (s *fakeStepper) NextDeadline() (time.Time, bool) { return time.Time{}, false }

func (s *fakeStepper) Release(h engine.Handle) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	p := batcher.Pin{Handle: h, Incarnation: s.incarnation}
	if !s.m.pins[p] {
		s.m.doubles++
	}
	delete(s.m.pins, p)
}

func (s *fakeStepper) Abort(err *abi.Error) {
	for _, f := range slices.Clone(s.jobs) {
		s.end(f, err)
	}
}

func (s *fakeStepper) Close() {}

// fakeStore is a ledger in memory that keeps the store's promises: all or
// nothing, one hold and one settlement per request.
type fakeStore struct {
	failing atomic.Bool
	delay   time.Duration
	gate    sync.RWMutex // locked by a test: it stalls
	rejects string       // the request whose settlement it never takes
	repeats bool         // rows may come twice, as after a stall

	mu       sync.Mutex
	balances map[string]abi.Nano
	open     map[string]account.Entry
	settled  map[string]account.Entry
	doubled  []string
	refunded map[string]abi.Nano
	observed map[string]abi.Usage // the last checkpoint
	budgets  map[string]abi.Nano  // of keys, by id
}

var errRejected = errors.New("rejected")

func newFakeStore() *fakeStore {
	return &fakeStore{balances: map[string]abi.Nano{}, open: map[string]account.Entry{}, settled: map[string]account.Entry{},
		refunded: map[string]abi.Nano{}, observed: map[string]abi.Usage{}}
}

func (s *fakeStore) Append(entries []account.Entry) error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	time.Sleep(s.delay)
	if s.failing.Load() {
		return errors.New("disk full")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if e.Kind == account.Settlement && s.rejects != "" && e.RequestID == s.rejects {
			return errRejected
		}
	}
	if !s.refundable(entries) {
		return errRejected
	}
	for _, e := range entries {
		switch e.Kind {
		case account.TopUp:
			s.balances[e.AccountID] += e.Amount
		case account.Hold:
			if _, ok := s.settled[e.RequestID]; ok && s.repeats {
				continue
			} else if ok {
				s.doubled = append(s.doubled, "hold after settlement of "+e.RequestID)
			}
			s.open[e.RequestID] = e
		case account.Checkpoint:
			s.observed[e.RequestID] = e.Usage
		case account.Settlement:
			if _, ok := s.settled[e.RequestID]; ok {
				if !s.repeats {
					s.doubled = append(s.doubled, "settlement of "+e.RequestID)
				}
				continue
			}
			s.settled[e.RequestID] = e
			s.balances[e.AccountID] += e.Amount
			delete(s.open, e.RequestID)
		case account.Adjustment:
			if _, ok := s.refunded[e.RequestID]; e.Refund && !ok {
				s.refunded[e.RequestID] = -s.settled[e.RequestID].Amount
				s.balances[e.AccountID] -= s.settled[e.RequestID].Amount
			}
		}
	}
	return nil
}

// refundable says whether each refund has its settlement, in the store or before it.
func (s *fakeStore) refundable(entries []account.Entry) bool {
	for i, e := range entries {
		_, ok := s.settled[e.RequestID]
		settles := func(o account.Entry) bool { return o.Kind == account.Settlement && o.RequestID == e.RequestID }
		if e.Refund && !ok && !slices.ContainsFunc(entries[:i], settles) {
			return false
		}
	}
	return true
}

// cost is what a request was charged in the end.
func (s *fakeStore) cost(id string) abi.Nano {
	s.mu.Lock()
	defer s.mu.Unlock()
	return -s.settled[id].Amount - s.refunded[id]
}

func (s *fakeStore) Balance(id string) (balance, held abi.Nano, err error) {
	if s.failing.Load() {
		return 0, 0, errors.New("disk gone")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.open {
		if e.AccountID == id {
			held += e.Held
		}
	}
	return s.balances[id], held, nil
}

func (s *fakeStore) AccountHolds(id string) (all []account.Entry, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.open {
		if e.AccountID == id {
			all = append(all, e)
		}
	}
	return all, nil
}

// KeysCharged sums what settlements charged to the keys with a budget that tests made.
func (s *fakeStore) KeysCharged(id string, _ time.Time) (all []account.KeyUse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, budget := range s.budgets {
		use := account.KeyUse{KeyID: key, Budget: budget}
		for request, e := range s.settled {
			if e.AccountID == id && e.KeyID == key {
				use.Charged += -e.Amount - s.refunded[request]
			}
		}
		all = append(all, use)
	}
	return all, nil
}

// Counters sums what settlements took and what open holds have, of the one counter that there is.
func (s *fakeStore) Counters(id string) (all []account.CounterUse, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var use account.CounterUse
	see := func(e account.Entry, to *int64) {
		for _, c := range e.Counters {
			if e.AccountID == id {
				use.Name, use.Period = c.Name, c.Period
				*to += c.Amount
			}
		}
	}
	for _, e := range s.open {
		see(e, &use.Held)
	}
	for request, e := range s.settled {
		if _, refunded := s.refunded[request]; !refunded {
			see(e, &use.Used)
		}
	}
	if use.Name != "" {
		all = append(all, use)
	}
	return all, nil
}

func (s *fakeStore) settlement(id string) (account.Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.settled[id]
	return e, ok
}

// fakePolicy denies and ranks as it is told; without a decision there is no policy.
type fakePolicy struct {
	decision atomic.Pointer[abi.Decision]
	asked    atomic.Pointer[abi.AdmissionInput]
	needs    []extensions.Need // set before requests come
	takes    time.Duration     // as needs
}

func (p *fakePolicy) Deciding() bool { return p.decision.Load() != nil }

func (p *fakePolicy) Decide(_ string, in abi.AdmissionInput) (extensions.Decision, error) {
	p.asked.Store(&in)
	time.Sleep(p.takes)
	d := extensions.Decision{Decision: *p.decision.Load(), Needs: p.needs}
	if d.Msg == "fail" {
		return d, &abi.Error{Kind: abi.Overloaded, Msg: "the policy failed", RetryAfter: time.Second}
	}
	return d, nil
}

// world is a tree on fakes.
type world struct {
	t       testing.TB
	tree    *Tree
	models  map[string]*fakeModel
	store   *fakeStore
	billing *fakeBilling
	policy  fakePolicy
	began   time.Time
	ids     atomic.Int64
	fatal   atomic.Int64

	mu       sync.Mutex
	accounts map[string]account.Account
	used     map[string]int64    // tokens by account, as settled
	told     map[string]abi.Nano // charges that requests were told, by request
}

func (w *world) Account(id string) (account.Account, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a, ok := w.accounts[id]
	if !ok {
		return a, fmt.Errorf("no account %s", id)
	}
	return a, nil
}

func (w *world) Balance(id string) (balance, held abi.Nano, err error) { return w.store.Balance(id) }

func (w *world) set(a account.Account, balance abi.Nano) account.Account {
	w.mu.Lock()
	w.accounts[a.ID] = a
	w.mu.Unlock()
	w.store.mu.Lock()
	w.store.balances[a.ID] = balance
	w.store.mu.Unlock()
	return a
}

// required has something in each field that has no default.
func required(c Config) Config {
	c.Secret = []byte("0123456789abcdef")
	c.AccountSessionsMax, c.AccountPinnedBytesMax = cmp.Or(c.AccountSessionsMax, 64), cmp.Or(c.AccountPinnedBytesMax, 1<<30)
	c.SessionIdleMax = cmp.Or(c.SessionIdleMax, 10*time.Minute)
	return c
}

func newWorld(t testing.TB, cfg Config) *world {
	w := &world{t: t, store: newFakeStore(), billing: &fakeBilling{}, began: time.Now(),
		models:   map[string]*fakeModel{"one": newFakeModel(), "two": newFakeModel(), "elsewhere": newFakeModel()},
		accounts: map[string]account.Account{}, used: map[string]int64{}, told: map[string]abi.Nano{}}
	tree, err := Start(required(cfg), Deps{Store: w.store, Accounts: w, Billing: w.billing, Policy: &w.policy,
		Fatal: func(string, any) { w.fatal.Add(1) },
		Models: []Model{
			{ID: "one", New: w.models["one"].New, PollEvery: 5 * time.Millisecond, PinBytesPerToken: 10,
				Load: func(n *abi.Counters) {
					n.ModelQueued, n.ModelQueuedMax, n.ModelWaitMS, n.ModelPagesUsed, n.ModelPages = 3, 9, 1500, 5, 7
				}},
			{ID: "two", New: w.models["two"].New, PollEvery: 5 * time.Millisecond, PinBytesPerToken: 10},
			{ID: "elsewhere", New: w.models["elsewhere"].New, PollEvery: 5 * time.Millisecond}}})
	if err != nil {
		t.Fatal(err)
	}
	w.tree = tree
	return w
}

func (w *world) call(a account.Account, model string, prompt, output int, stream bool) account.Call {
	return account.Call{RequestID: fmt.Sprintf("req-%d", w.ids.Add(1)), Account: a, Key: account.LimitedKey{ID: "key"},
		Request: &engine.Request{Model: model, Prompt: make([]int32, prompt), MaxTokens: output, Stream: stream}}
}

// read drains a stream to its end and returns its last event. An event after
// that is a failure.
func (w *world) read(s *Stream) abi.Event {
	var events []abi.Event
	for {
		events = s.Output().Drain(events[:0])
		for i, e := range events {
			if e.Kind != abi.EventEnd && e.Kind != abi.EventError {
				continue
			}
			<-s.r.done
			if more := s.Output().Drain(events[i+1:]); len(more) > 0 {
				w.t.Errorf("%d events after the last one, first %+v", len(more), more[0])
			}
			return e
		}
		<-s.Output().Ready()
	}
}

// settle settles and notes what the account used. What is finished when its hold
// is known to have failed must be free and fail; a settlement that went out before
// that stands for itself.
func (w *world) settle(s *Stream) (account.Settled, error) {
	fate := s.r.hold.fate()
	known := !s.r.settling.Load() // read second: whoever settles from here on knows the fate, too
	got, err := settled(s)
	finished := got.Reason == account.Finished
	free := abi.KindOf(err) == abi.Overloaded && got.Charge == 0
	if now := s.r.hold.fate(); free && (now == holdRefused || now == holdFailed) && (finished || s.r.bill.isWithheld()) {
		err = nil // a withheld one had finished before it was
	} else if (fate == holdRefused || fate == holdFailed) && known && finished {
		w.t.Errorf("finished without a hold: %+v, %v", got, err)
	}
	w.mu.Lock()
	u := s.r.result.Usage
	w.used[s.r.call.Account.ID] += u.InputUncached + u.Output
	if err == nil {
		w.told[s.r.call.RequestID] = got.Charge
	}
	w.mu.Unlock()
	return got, err
}

// settled settles and waits for the outcome.
func settled(s *Stream) (account.Settled, error) {
	<-s.Settle()
	return s.Outcome()
}

// play runs one request to its end like a good writer.
func (w *world) play(c account.Call) (account.Settled, error) {
	s, _, err := w.tree.Generate(c)
	if err != nil {
		return account.Settled{}, err
	}
	if err := <-s.Held(); err != nil {
		s.Cancel()
	}
	w.read(s)
	return w.settle(s)
}

// checkClean verifies that nothing of an account is in use: permits, tokens and
// money are what the settlements say, not less (leaked) and not more (forgiven).
func (w *world) checkClean(a account.Account) {
	w.t.Helper()
	if n := w.tree.requests.len(); n != 0 {
		w.t.Errorf("%d requests are still registered", n)
	}
	if n := w.billing.open.Load(); n != 0 {
		w.t.Errorf("%d quotes are still open", n)
	}
	a, _ = w.Account(a.ID)
	w.calm(a)
	st := w.tree.Limits(a, account.LimitedKey{})
	if st.RequestsRemaining != a.Concurrency {
		w.t.Errorf("account %s: %d of %d permits are free", a.ID, st.RequestsRemaining, a.Concurrency)
	}
	w.mu.Lock()
	used := w.used[a.ID]
	w.mu.Unlock()
	if c := a.TokensPerMinute; c > 0 {
		refill := int64(time.Since(w.began).Seconds()*float64(c)/60) + 1
		if got := st.TokensRemaining; got < min(c, c-used) && got != 0 || got > min(c, c-used+refill) {
			w.t.Errorf("account %s: %d tokens remain, want %d to %d", a.ID, got, c-used, c-used+refill)
		}
	}
	w.store.mu.Lock()
	balance, open, doubled := w.store.balances[a.ID], len(w.store.open), w.store.doubled
	w.store.mu.Unlock()
	if open != 0 || len(doubled) != 0 {
		w.t.Errorf("open holds %d, doubled rows %v", open, doubled)
	}
	if a.Unlimited {
		return
	}
	w.probe(a, max(balance+1, 1), abi.InsufficientBalance)
	if balance > 0 {
		w.probe(a, balance, abi.Internal) // Internal stands for success
	}
}

// probe asks for exactly so much money.
func (w *world) probe(a account.Account, money abi.Nano, want abi.Kind) {
	w.t.Helper()
	w.billing.probe.Store(int64(money))
	c := w.call(a, "one", 0, 0, false)
	c.RequestID = probePrefix + c.RequestID
	s, _, err := w.tree.Generate(c)
	if err != nil {
		if abi.KindOf(err) != want {
			w.t.Errorf("account %s with %d to hold: %v", a.ID, money, err)
		}
		return
	}
	if want == abi.InsufficientBalance {
		w.t.Errorf("account %s may hold %d, which is more than it has", a.ID, money)
	}
	w.read(s)
	if _, err := w.settle(s); err != nil {
		w.t.Error(err)
	}
}

// checkTold: what requests were told they cost is what the ledger says.
func (w *world) checkTold() {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) == 0 {
		w.t.Error("nobody was told a charge")
	}
	for id, charge := range w.told {
		if cost := w.store.cost(id); cost != charge {
			w.t.Errorf("%s was told %d, the ledger has %d", id, charge, cost)
		}
	}
}

// calm waits until the limiter has read everything sent to it, as far as that
// ever happens.
func (w *world) calm(a account.Account) {
	for range 30_000 {
		if a.Concurrency == 0 || w.tree.Limits(a, account.LimitedKey{}).RequestsRemaining == a.Concurrency {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

func resultOf(u abi.Usage, err *abi.Error) engine.Result { return engine.Result{Usage: u, Err: err} }
