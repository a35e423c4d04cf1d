package tree

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/actors/ledger"
	"corenode/actors/ledger/ledgertest"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/engine"
	"corenode/wasm/abi"
)

// fleet is some trees before one store.
type fleet struct {
	t       testing.TB
	store   *clusterStore
	members []*member
	ids     atomic.Int64
	hook    atomic.Pointer[system.Hook]
	began   time.Time

	mu      sync.Mutex
	told    map[string]map[string]abi.Nano // charges that requests were told, by account and request
	used    map[string]map[string]int64    // tokens, likewise
	running map[string]int
	most    map[string]int // requests at once, by account
}

// member is one tree of a fleet.
type member struct {
	f       *fleet
	tree    *Tree
	node    *storeNode
	model   *fakeModel
	billing fakeBilling
	spill   ledgertest.Spill
	fatal   atomic.Int64
}

// newFleet starts n trees whose grants live so long.
func newFleet(t testing.TB, n int, life time.Duration, cfg Config) *fleet {
	f := &fleet{t: t, store: newClusterStore(life), began: time.Now(), told: map[string]map[string]abi.Nano{},
		used: map[string]map[string]int64{}, running: map[string]int{}, most: map[string]int{}}
	for i := range n {
		m := &member{f: f, node: f.store.Node(fmt.Sprint("node", i)), model: newFakeModel(),
			spill: ledgertest.Spill{RoomFor: spillRowsMax}}
		c := required(cfg)
		c.Lease = life
		c.RecallEvery, c.SweepEvery = 5*time.Millisecond, cmp.Or(cfg.SweepEvery, 20*time.Millisecond)
		c.Ledger.Spill, c.Ledger.RetryMin, c.Ledger.RetryMax = &m.spill, time.Millisecond, 20*time.Millisecond
		c.hook = func(point string) {
			if h := f.hook.Load(); h != nil {
				(*h)(point)
			}
		}
		tree, err := Start(c, Deps{Store: m.node, Cluster: m.node, Accounts: m.node, Billing: &m.billing,
			Fatal:  func(string, any) { m.fatal.Add(1) },
			Models: []Model{{ID: "one", New: m.model.New, PollEvery: 5 * time.Millisecond, PinBytesPerToken: 10}}})
		if err != nil {
			t.Fatal(err)
		}
		m.tree = tree
		f.members = append(f.members, m)
		t.Cleanup(tree.Stop)
	}
	return f
}

func (f *fleet) account(a account.Account, money abi.Nano) account.Account {
	f.store.Set(a, money)
	return a
}

func (m *member) call(a account.Account, prompt, output int, stream bool) account.Call {
	return account.Call{RequestID: fmt.Sprintf("req-%d", m.f.ids.Add(1)), Account: a,
		Request: &engine.Request{Model: "one", Prompt: make([]int32, prompt), MaxTokens: output, Stream: stream}}
}

// count notes that a request of an account began or ended.
func (f *fleet) count(id string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running[id] += n
	f.most[id] = max(f.most[id], f.running[id])
}

// play runs a request to its end, and names that.
func (m *member) play(c account.Call, cancelAfter time.Duration) string {
	s, _, err := m.tree.Generate(c)
	if err != nil {
		return "refused " + abi.KindOf(err).String()
	}
	counted := 1 // one that is canceled settles by itself, maybe before its end is seen here
	if cancelAfter > 0 {
		counted = 0
		time.AfterFunc(cancelAfter, s.Cancel)
	}
	m.f.count(c.Account.ID, counted)
	if err := <-s.Held(); err != nil {
		m.f.count(c.Account.ID, -counted)
		counted = 0
		s.Cancel()
	}
	end := lastEvent(s)
	m.f.count(c.Account.ID, -counted)
	got, err := settled(s)
	m.f.mu.Lock()
	defer m.f.mu.Unlock()
	if m.f.told[c.Account.ID] == nil {
		m.f.told[c.Account.ID], m.f.used[c.Account.ID] = map[string]abi.Nano{}, map[string]int64{}
	}
	m.f.used[c.Account.ID][c.RequestID] = s.r.result.Usage.InputUncached + s.r.result.Usage.Output
	if err == nil {
		m.f.told[c.Account.ID][c.RequestID] = got.Charge
	}
	if end.Kind == abi.EventError {
		return "error " + end.Err.Kind.String()
	}
	return "end"
}

// lastEvent drains a stream to its end.
func lastEvent(s *Stream) abi.Event {
	var events []abi.Event
	for {
		events = s.Output().Drain(events[:0])
		for _, e := range events {
			if e.Kind == abi.EventEnd || e.Kind == abi.EventError {
				<-s.r.done
				return e
			}
		}
		<-s.Output().Ready()
	}
}

// eventually waits for what must become so.
func (f *fleet) eventually(what string, is func() bool) {
	f.t.Helper()
	for began := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			f.t.Fatalf("it never came to be that %s; broken promises: %v", what, f.store.Faults())
		}
	}
}

// quiet waits until nothing of an account is in use, and checks what is left.
func (f *fleet) quiet(a account.Account, money abi.Nano) {
	f.t.Helper()
	for _, m := range f.members {
		f.eventually("no request lives", func() bool { return m.tree.requests.len() == 0 })
		f.eventually("the journal is empty", func() bool { return m.tree.Ledger().Spilled == 0 })
	}
	f.eventually("nothing of account "+a.ID+" is open or granted", func() bool {
		u := f.store.Usage(a.ID)
		return u.Open == 0 && u.Permits == 0 && u.Granted == limit.Part{}
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	charged := abi.Nano(0)
	for id, charge := range f.told[a.ID] {
		got, ok := f.store.Charged(a.ID, id)
		if got != charge || !ok && charge != 0 { // without a row nothing was held, and nothing left
			f.t.Errorf("%s was told %d, the store has %d (%v)", id, charge, got, ok)
		}
		charged += charge
	}
	if u := f.store.Usage(a.ID); u.Balance != money-charged {
		f.t.Errorf("account %s has %d, want %d less %d", a.ID, u.Balance, money, charged)
	}
	f.checkTokens(a)
	if faults := f.store.Faults(); len(faults) > 0 {
		f.t.Errorf("broken promises: %v", faults)
	}
	if most := f.most[a.ID]; a.Concurrency > 0 && most > a.Concurrency+f.store.Usage(a.ID).Overshoot {
		f.t.Errorf("account %s had %d requests at once, of %d", a.ID, most, a.Concurrency)
	}
}

// checkTokens verifies that what is missing in the bucket is what settled requests used, not less
// (forgiven) and not more (leaked). It is called with the lock.
func (f *fleet) checkTokens(a account.Account) {
	f.t.Helper()
	capacity := a.TokensPerMinute
	if capacity == 0 {
		return
	}
	used := int64(0)
	for id, n := range f.used[a.ID] {
		if _, ok := f.store.Charged(a.ID, id); ok {
			used += n
		}
	}
	left := f.store.Usage(a.ID).Remaining
	refill := int64(time.Since(f.began).Seconds()*float64(capacity)/60) + 1
	if left < min(capacity, capacity-used) || left > max(0, min(capacity, capacity-used+refill)) {
		f.t.Errorf("account %s: %d tokens are left of %d, %d were used, %d came back", a.ID, left, capacity, used, refill)
	}
}

// TestGrantCoversABusyAccount: the store is asked about few requests of a busy account, and the
// rest is admitted at once. What is idle goes back.
func TestGrantCoversABusyAccount(t *testing.T) {
	f := newFleet(t, 2, 10*time.Second, Config{})
	a := f.account(account.Account{ID: "a", Concurrency: 100, TokensPerMinute: 10_000_000}, 1_000_000_000)
	m := f.members[0]
	const requests = 200
	for i := range requests {
		if end := m.play(m.call(a, 10, 2, i%2 == 0), 0); end != "end" {
			t.Fatalf("request %d: %s", i, end)
		}
	}
	for range 20 {
		release, limits, err := m.tree.Enter(a, account.LimitedKey{})
		if err != nil || limits.RequestsLimit != 100 {
			t.Fatalf("free request: %+v, %v", limits, err)
		}
		release()
		release()
	}
	n := &m.tree.Counters().Limits
	f.quiet(a, 1_000_000_000) // the last one is counted behind its answer
	if covered, asked := n.Covered.Load(), n.Proposed.Load(); covered < requests/2 || covered+asked != requests+20 {
		t.Errorf("%d requests were covered by a grant, the store was asked about %d", covered, asked)
	}
	if n.Returned.Load() == 0 {
		t.Error("nothing was given back")
	}
	f.eventually("no grant is held", func() bool { return n.Held.Load() == 0 }) // it ends behind its return
}

// TestAnotherNodesNeedRecallsAGrant: a node whose request finds all of an account granted to another
// one gets it back without telling its client.
func TestAnotherNodesNeedRecallsAGrant(t *testing.T) {
	f := newFleet(t, 2, 10*time.Second, Config{SweepEvery: time.Hour})
	a := f.account(account.Account{ID: "a", Concurrency: 6}, 1_000_000_000)
	m, other := f.members[0], f.members[1]
	f.eventually("a busy account has a grant", func() bool {
		m.play(m.call(a, 10, 2, false), 0)
		return f.store.Usage("a").Granted.Permits > 0
	})
	given := system.Hook(func(point string) { // a retry is due in time, however long what was asked back takes
		for end := time.Now().Add(30 * time.Second); point == "limiter.propose" && time.Now().Before(end); {
			if wanted, err := m.node.Wanted(); err == nil && len(wanted) == 0 {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	f.hook.Store(&given)
	other.model.mode.Store(stuckInDecode)
	var all []*Stream
	for i := range 6 {
		s, _, err := other.tree.Generate(other.call(a, 10, 2, true))
		if err != nil {
			t.Fatalf("request %d: %v", i, err)
		}
		all = append(all, s)
	}
	if _, _, err := other.tree.Generate(other.call(a, 10, 2, true)); abi.KindOf(err) != abi.RateLimited {
		t.Errorf("the seventh of six: %v", err)
	}
	other.model.mode.Store(running)
	for _, s := range all {
		lastEvent(s)
		settled(s)
	}
	if m.tree.Counters().Limits.Returned.Load() == 0 {
		t.Error("nothing was given back")
	}
}

// TestOwnGrantRefusesNothing: what a node has idle of its grant is there for requests that no grant covers.
func TestOwnGrantRefusesNothing(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{SweepEvery: time.Hour})
	a := f.account(account.Account{ID: "a", Concurrency: 6}, 1_000_000_000)
	m := f.members[0]
	f.eventually("a busy account has a grant", func() bool {
		m.play(m.call(a, 10, 2, false), 0)
		return f.store.Usage("a").Granted.Permits > 0
	})
	m.model.mode.Store(stuckInDecode)
	var all []*Stream
	for i := range 6 {
		c := m.call(a, 10, 2, true)
		c.Key = account.LimitedKey{ID: "k", TokensPerMinute: 1_000_000}
		s, _, err := m.tree.Generate(c)
		if err != nil {
			t.Errorf("request %d of six: %v", i, err)
			break
		}
		all = append(all, s)
	}
	m.model.mode.Store(running)
	for _, s := range all {
		lastEvent(s)
		settled(s)
	}
}

// TestAbandonedProposalLeavesNothing: a caller that stopped waiting for the verdict has nothing of
// its account, and pays nothing.
func TestAbandonedProposalLeavesNothing(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{AdmissionTimeout: 10 * time.Millisecond})
	a := f.account(account.Account{ID: "a", Concurrency: 1}, 1000)
	m := f.members[0]
	m.node.Gate.Lock()
	c := m.call(a, 10, 2, true)
	if end := m.play(c, 0); end != "refused overloaded" {
		t.Errorf("without a verdict: %s", end)
	}
	if _, _, err := m.tree.Enter(a, account.LimitedKey{}); abi.KindOf(err) != abi.Overloaded {
		t.Errorf("free request without a verdict: %v", err)
	}
	m.node.Gate.Unlock()
	f.eventually("the request is settled", func() bool { _, ok := f.store.Charged("a", c.RequestID); return ok })
	f.quiet(a, 1000)
	f.eventually("the permit is free", func() bool { return m.play(m.call(a, 10, 2, true), 0) == "end" })
}

// TestCancelledRequestWaitsForItsClosingRow: a request that an operator cancels before its model has it is registered until the
// row that gives its hold back is durable, whoever else finds it gone. The sweep has nothing to do for it.
func TestCancelledRequestWaitsForItsClosingRow(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{SweepEvery: time.Hour, Ledger: ledger.Config{SlowAfter: time.Hour}})
	a := f.account(account.Account{ID: "a", Concurrency: 1}, 1000)
	m := f.members[0]
	reached, leave := make(chan struct{}), make(chan struct{})
	wait := system.Hook(func(point string) {
		if point == "session.turn" { // it has its hold
			close(reached)
			<-leave
		}
	})
	f.hook.Store(&wait)
	c := m.call(a, 10, 2, true)
	end := make(chan string)
	go func() { end <- m.play(c, 0) }()
	<-reached
	r := m.tree.requests.find(c.RequestID)
	m.node.Gate.Lock() // the row is on its way
	if !m.tree.CancelRequest(c.RequestID) {
		t.Error("it was not cancelled")
	}
	if got := <-end; got != "refused overloaded" {
		t.Error(got)
	}
	close(leave)
	r.Refused(errGone())
	m.tree.sweepRequests(r.lostAt.Add(time.Second))
	r.expire()
	if m.tree.requests.find(c.RequestID) != r || m.tree.Counters().Expired.Load() != 0 {
		t.Errorf("before the row is durable: registered %d, expired %d", m.tree.requests.len(), m.tree.Counters().Expired.Load())
	}
	m.node.Gate.Unlock()
	f.eventually("the request is settled", func() bool { _, ok := f.store.Charged("a", c.RequestID); return ok })
	f.quiet(a, 1000)
}

// TestCancelledProposalWaitsForItsVerdict: a request that an operator cancels while the store decides is registered until what
// the store gave it is given back.
func TestCancelledProposalWaitsForItsVerdict(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{SweepEvery: time.Hour, Ledger: ledger.Config{SlowAfter: time.Hour}})
	a := f.account(account.Account{ID: "a", Concurrency: 1}, 1000)
	m := f.members[0]
	m.node.Gate.Lock()
	c := m.call(a, 10, 2, true)
	end := make(chan string)
	go func() { end <- m.play(c, 0) }()
	f.eventually("the request is registered", func() bool { return m.tree.requests.find(c.RequestID) != nil })
	if !m.tree.CancelRequest(c.RequestID) {
		t.Error("it was not cancelled")
	}
	if got := <-end; got != "refused overloaded" {
		t.Error(got)
	}
	if m.tree.requests.find(c.RequestID) == nil {
		t.Error("it is forgotten although nobody knows what it has")
	}
	m.node.Gate.Unlock()
	f.eventually("the request is settled", func() bool { _, ok := f.store.Charged("a", c.RequestID); return ok })
	f.quiet(a, 1000)
}

// TestRequestThatFindsNoRoomGivesItsHoldBack: the next one finds all of the account free.
func TestRequestThatFindsNoRoomGivesItsHoldBack(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{})
	a := f.account(account.Account{ID: "a", Concurrency: 1, TokensPerMinute: 2000}, 1_000_000)
	m := f.members[0]
	m.model.queueMax = 0
	for range 10 {
		if end := m.play(m.call(a, 1000, 1000, true), 0); end != "refused overloaded" {
			t.Fatalf("without room: %s", end)
		}
	}
	m.model.queueMax = 1
	if end := m.play(m.call(a, 1000, 2, true), 0); end != "end" {
		t.Errorf("with room: %s", end)
	}
	f.quiet(a, 1_000_000)
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	if n := f.store.books["a"].closed; n != 10 {
		t.Errorf("%d of 10 refused requests are closed as such", n)
	}
}

// TestVerdictOfTheDistantPast: a process that was stopped for longer than a lease between a
// decision and its verdict does not begin what others may count as free.
func TestVerdictOfTheDistantPast(t *testing.T) {
	f := newFleet(t, 1, 20*time.Millisecond, Config{})
	a := f.account(account.Account{ID: "a", Concurrency: 1}, 1000)
	m := f.members[0]
	stop := system.Hook(func(point string) {
		if point == "limiter.verdict" {
			time.Sleep(25 * time.Millisecond)
		}
	})
	f.hook.Store(&stop)
	if end := m.play(m.call(a, 10, 2, true), 0); end != "refused overloaded" {
		t.Errorf("after a pause: %s", end)
	}
	f.hook.Store(nil)
	f.quiet(a, 1000)
}

// TestOutageOfAClusterStore: an account with a grant goes on for its time, others are refused with
// an advice when to come again; what ran ends well, and every charge is exact afterwards.
func TestOutageOfAClusterStore(t *testing.T) {
	const life = 2 * time.Second
	f := newFleet(t, 1, life, Config{SweepEvery: time.Hour})
	busy := f.account(account.Account{ID: "busy", Concurrency: 1000}, 1_000_000_000)
	rare := f.account(account.Account{ID: "rare", Concurrency: 1000}, 1_000_000_000)
	m := f.members[0]
	n := &m.tree.Counters().Limits
	f.eventually("a grant covers", func() bool {
		m.play(m.call(busy, 10, 2, false), 0)
		return n.Covered.Load() > 20
	})
	m.node.Failing.Store(true)
	before := n.Covered.Load()
	for m.play(m.call(busy, 10, 2, false), 0) == "end" {
	}
	if n.Covered.Load() == before {
		t.Error("the grant covered nothing in the outage")
	}
	for range 5 {
		_, _, err := m.tree.Generate(m.call(rare, 10, 2, false))
		if e := abi.AsError(err); e == nil || e.Kind != abi.Overloaded || e.RetryAfter <= 0 {
			t.Errorf("without a grant: %+v", e)
		}
	}
	m.node.Failing.Store(false)
	f.eventually("requests are admitted again", func() bool { return m.play(m.call(rare, 10, 2, false), 0) == "end" })
	m.tree.AccountChanged("busy")
	f.quiet(busy, 1_000_000_000)
	f.quiet(rare, 1_000_000_000)
}

// TestStopReturnsGrants: another node has all of an account at once, when one that had a grant of it ends.
func TestStopReturnsGrants(t *testing.T) {
	f := newFleet(t, 1, time.Hour, Config{SweepEvery: time.Hour})
	a := f.account(account.Account{ID: "a", Concurrency: 1000}, 1_000_000_000)
	m := f.members[0]
	f.eventually("the account has a grant", func() bool {
		m.play(m.call(a, 10, 2, false), 0)
		return f.store.Usage("a").Granted.Permits > 0
	})
	defer func(is time.Duration) { returnMax = is }(returnMax)
	returnMax = time.Minute
	m.tree.Stop()
	if u := f.store.Usage("a"); u.Granted != (limit.Part{}) || u.Open != 0 {
		t.Errorf("after the stop: %+v", u)
	}
}

// TestStopWithoutAClusterStore: a tree ends although the store that it asks does not answer.
func TestStopWithoutAClusterStore(t *testing.T) {
	f := newFleet(t, 1, 10*time.Second, Config{SettleWait: 10 * time.Millisecond, Ledger: ledger.Config{SlowAfter: 10 * time.Millisecond}})
	a := f.account(account.Account{ID: "a", Concurrency: 1000}, 1_000_000_000)
	m := f.members[0]
	f.eventually("the account has a grant", func() bool {
		m.play(m.call(a, 10, 2, false), 0)
		return m.tree.Counters().Limits.Held.Load() > 0
	})
	m.node.Gate.Lock()
	defer m.node.Gate.Unlock()
	time.Sleep(20 * time.Millisecond) // it asks what others want
	stopped := make(chan struct{})
	go func() {
		m.tree.Stop()
		close(stopped)
	}()
	f.eventually("the tree stops", func() bool {
		select {
		case <-stopped:
			return true
		default:
			return false
		}
	})
}

// TestStormOfTwoNodes runs requests on two nodes with random cancels while their actors are killed
// at every hook, answers of the store are lost, and it stalls and goes. No limit is ever passed, and nothing is left over.
func TestStormOfTwoNodes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := newFleet(t, 2, 500*time.Millisecond, Config{Ledger: ledger.Config{SlowAfter: 20 * time.Millisecond}})
	accounts := []account.Account{
		f.account(account.Account{ID: "small", Concurrency: 3}, 1_000_000_000),
		f.account(account.Account{ID: "busy", Concurrency: 12, TokensPerMinute: 6000}, 1_000_000_000),
		f.account(account.Account{ID: "open"}, 1_000_000_000),
		f.account(account.Account{ID: "poor", Concurrency: 8}, 20_000),
	}
	money := []abi.Nano{1_000_000_000, 1_000_000_000, 1_000_000_000, 20_000}
	var kills atomic.Int64
	hook := system.Hook(func(point string) {
		if rand.IntN(150) == 0 && (point[:6] != "ledger" || kills.Add(1) < 10) {
			panic("killed at " + point)
		}
	})
	f.hook.Store(&hook)
	quit := make(chan struct{})
	var weather sync.WaitGroup
	for i, m := range f.members {
		m.model.stepTime = 100 * time.Microsecond
		weather.Go(func() { m.weather(rand.New(rand.NewPCG(seed, uint64(i))), quit) })
	}
	ends := f.load(accounts, 24, 1500, seed)
	close(quit)
	weather.Wait()
	f.hook.Store(nil)
	t.Logf("clients saw %v", ends)
	covered, failed, returned := uint64(0), uint64(0), uint64(0)
	for i, m := range f.members {
		n := &m.tree.Counters().Limits
		t.Logf("node %d: %d covered, %d asked, %d refused, %d without a verdict, %d grants, %d returns, failures %v, %d rows spilled at most", i,
			n.Covered.Load(), n.Proposed.Load(), n.Refused.Load(), n.Failed.Load(), n.Grants.Load(), n.Returned.Load(),
			m.tree.Inspect().Failures, m.spill.Peak)
		if m.fatal.Load() != 0 {
			t.Fatal("a node gave up")
		}
		covered, failed, returned = covered+n.Covered.Load(), failed+n.Failed.Load(), returned+n.Returned.Load()
	}
	if covered == 0 || failed == 0 || returned == 0 {
		t.Error("the storm proves little")
	}
	for i, a := range accounts {
		f.quiet(a, money[i])
	}
}

// load runs clients on all nodes, and counts how their requests ended.
func (f *fleet) load(accounts []account.Account, clients, requests int, seed uint64) map[string]int {
	var mu sync.Mutex
	ends := map[string]int{}
	var all sync.WaitGroup
	for i := range clients {
		rnd := rand.New(rand.NewPCG(seed, 100+uint64(i)))
		all.Go(func() {
			for range requests / clients {
				m, a := f.members[rnd.IntN(len(f.members))], accounts[rnd.IntN(len(accounts))]
				end := ""
				if rnd.IntN(8) == 0 {
					release, _, err := m.tree.Enter(a, account.LimitedKey{})
					if end = "free"; err != nil {
						end += " " + abi.KindOf(err).String()
					} else {
						release()
					}
				} else {
					cancel := time.Duration(0)
					if rnd.IntN(4) == 0 {
						cancel = time.Duration(1+rnd.IntN(3000)) * time.Microsecond
					}
					end = m.play(m.call(a, rnd.IntN(60), 1+rnd.IntN(12), rnd.IntN(2) == 0), cancel)
				}
				if slices.Contains([]string{"free overloaded", "refused overloaded"}, end) {
					time.Sleep(2 * time.Millisecond)
				}
				mu.Lock()
				ends[end]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return ends
}

// weather takes the store away from a node now and then.
func (m *member) weather(rnd *rand.Rand, quit chan struct{}) {
	for {
		select {
		case <-quit:
			return
		case <-time.After(time.Duration(50+rnd.IntN(150)) * time.Millisecond):
		}
		if rnd.IntN(2) == 0 {
			m.node.Failing.Store(true)
			time.Sleep(time.Duration(5+rnd.IntN(30)) * time.Millisecond)
			m.node.Failing.Store(false)
		} else {
			m.node.Gate.Lock()
			time.Sleep(time.Duration(5+rnd.IntN(40)) * time.Millisecond)
			m.node.Gate.Unlock()
		}
	}
}
