package tree

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/wasm/abi"
)

// errAway is what a store says that does not answer.
var errAway = errors.New("the store is away")

// partsPerToken are the parts of a bucket.
const partsPerToken = 60_000

// clusterStore is a store in memory that many nodes share, the truth of all of them. It decides by
// limit.State, as a database does, and keeps count of broken promises: more permits, tokens or money
// given out than there are, a request that is settled twice. It is safe for concurrent use.
type clusterStore struct {
	life time.Duration

	mu      sync.Mutex
	nodes   int
	numbers int64
	books   map[string]*book
	freed   []string // the requests that releases named, in their order
	faults  []string
}

// book is one account.
type book struct {
	account   account.Account
	balance   abi.Nano
	bucket    limit.Bucket // without what grants have
	open      map[string]*open
	settled   map[string]abi.Nano // what was charged, by request
	refunded  map[string]bool
	closed    int               // settlements of what never ran
	grants    map[string]*grant // by node
	overshoot int               // holds beyond what a grant had
	arrivals  uint64
}

// open is a request that has something.
type open struct {
	node   string
	permit bool
	free   bool
	tokens int64
	got    limit.Reservation
}

// grant is what a node has of an account.
type grant struct {
	number                 int64
	given, moved, returned limit.Part
	until                  time.Time
	wanted                 bool
}

func (g *grant) left() limit.Part { return g.given.Minus(g.moved).Minus(g.returned) }

// newClusterStore makes a store whose grants live so long.
func newClusterStore(life time.Duration) *clusterStore {
	return &clusterStore{life: life, books: map[string]*book{}}
}

// Set makes or changes an account, with a balance that it adds to.
func (s *clusterStore) Set(a account.Account, money abi.Nano) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[a.ID]
	if b == nil {
		b = &book{bucket: limit.NewBucket(a.TokensPerMinute, time.Now()), open: map[string]*open{},
			settled: map[string]abi.Nano{}, refunded: map[string]bool{}, grants: map[string]*grant{}}
		s.books[a.ID] = b
	}
	b.account, b.balance = a, b.balance+money
}

// storeNode is the store as one node has it.
type storeNode struct {
	s    *clusterStore
	name string
	// Failing makes calls fail, before or after they did what was asked.
	Failing atomic.Bool
	// Refuse makes calls with a row fail. Set before there are any; may be nil.
	Refuse func(account.Entry) error
	// Gate, locked by a test, makes calls wait.
	Gate sync.RWMutex
	// Delay is how long a call takes.
	Delay time.Duration
}

// Node adds a node.
func (s *clusterStore) Node(name string) *storeNode {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes++
	return &storeNode{s: s, name: name}
}

// Append implements the ledger's store.
func (n *storeNode) Append(rows []account.Entry) error {
	_, err := n.Commit(limit.Batch{Rows: rows})
	return err
}

// Commit implements the ledger's ClusterStore.
func (n *storeNode) Commit(b limit.Batch) ([]limit.Verdict, error) {
	n.Gate.RLock()
	defer n.Gate.RUnlock()
	time.Sleep(n.Delay)
	failing := n.Failing.Load()
	if failing && rand.IntN(2) == 0 {
		return nil, errAway
	}
	for _, e := range b.Rows {
		if n.Refuse == nil {
			break
		}
		if err := n.Refuse(e); err != nil {
			return nil, err
		}
	}
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	verdicts := n.commit(b, time.Now())
	if failing {
		return nil, errAway // the answer is lost
	}
	return verdicts, nil
}

func (n *storeNode) commit(b limit.Batch, now time.Time) []limit.Verdict {
	s := n.s
	for _, k := range s.books {
		k.bucket.Refill(now)
		k.expire(now)
	}
	for _, e := range b.Rows {
		n.row(s.books[e.AccountID], e)
	}
	for _, r := range b.Releases {
		s.freed = append(s.freed, r.RequestID)
		s.books[r.AccountID].release(r)
	}
	for _, r := range b.Returns {
		s.books[r.AccountID].giveBack(n.name, r)
	}
	var verdicts []limit.Verdict
	for _, p := range b.Asks {
		verdicts = append(verdicts, n.ask(p, now))
	}
	for _, k := range s.books {
		s.check(k)
	}
	return verdicts
}

// add puts tokens into the bucket, or takes them.
func (b *book) add(tokens int64) {
	b.bucket.Parts = min(b.bucket.Parts+tokens*partsPerToken, b.bucket.Capacity*partsPerToken)
}

// expire ends grants whose time is over.
func (b *book) expire(now time.Time) {
	for node, g := range b.grants {
		if now.After(g.until) {
			b.add(g.left().Tokens)
			delete(b.grants, node)
		}
	}
}

func (n *storeNode) row(b *book, e account.Entry) {
	switch e.Kind {
	case account.TopUp:
		b.balance += e.Amount
	case account.Hold:
		if _, settled := b.settled[e.RequestID]; !settled && b.open[e.RequestID] == nil {
			n.open(b, e.RequestID, e.Granted)
		}
	case account.Settlement:
		n.settle(b, e)
	case account.Adjustment:
		if e.Refund && !b.refunded[e.RequestID] {
			b.refunded[e.RequestID] = true
			b.balance -= b.settled[e.RequestID]
		}
	}
}

// open moves what a hold has of a grant to its request.
func (n *storeNode) open(b *book, id string, from *account.Granted) {
	if from == nil {
		n.s.fault("a hold of %s has no grant", id)
		return
	}
	part := limit.Reservation{Tokens: from.Tokens, Hold: from.Held, AnyPermits: from.AnyPermits, AnyMoney: from.AnyMoney}.Of()
	if g := b.grants[n.name]; g != nil && g.number == from.Number {
		g.moved = g.moved.Plus(part)
		if left := g.left(); b.account.Concurrency > 0 && left.Permits < 0 || b.account.TokensPerMinute > 0 && left.Tokens < 0 ||
			!b.account.Unlimited && left.Money < 0 {
			n.s.fault("a node took %+v too much of a grant", left)
		}
	} else {
		b.overshoot++
		b.add(-from.Tokens)
	}
	b.arrivals++
	b.open[id] = &open{node: n.name, permit: true, tokens: from.Tokens,
		got: limit.Reservation{Tokens: from.Tokens, Hold: from.Held, Upper: from.Held, Arrival: b.arrivals}}
}

func (n *storeNode) settle(b *book, e account.Entry) {
	if _, settled := b.settled[e.RequestID]; settled {
		return
	}
	if b.open[e.RequestID] == nil && e.Granted != nil {
		n.open(b, e.RequestID, e.Granted)
	}
	b.settled[e.RequestID] = e.Amount
	b.balance += e.Amount
	if e.Note == account.NeverRan {
		b.closed++
	}
	o := b.open[e.RequestID]
	if o == nil {
		if e.Amount != 0 {
			n.s.fault("%s was charged without a hold", e.RequestID)
		}
		return
	}
	if o.permit {
		b.add(o.tokens - e.Spent)
	}
	delete(b.open, e.RequestID)
}

func (b *book) release(r limit.Release) {
	o := b.open[r.RequestID]
	switch {
	case o == nil:
		if _, settled := b.settled[r.RequestID]; !settled {
			b.settled[r.RequestID] = 0 // an ask that comes late is refused
		}
	case o.free:
		delete(b.open, r.RequestID)
		b.settled[r.RequestID] = 0
	case o.permit:
		o.permit = false
		b.add(o.tokens - r.Used)
	}
}

func (b *book) giveBack(node string, r limit.Return) {
	if g := b.grants[node]; g != nil && g.number == r.Number {
		more := r.Part.Minus(g.returned).Atmost(g.left()) // one that is told late says less
		b.add(more.Tokens)
		g.returned, g.wanted = g.returned.Plus(more), false
	}
}

// state is the account as limit knows it: grants are requests of their nodes.
func (b *book) state() *limit.State {
	s := limit.New(b.account, b.bucket)
	var live []limit.Live
	for id, o := range b.open {
		live = append(live, limit.Live{RequestID: id, Permit: o.permit, Hold: o.got.Hold, Upper: o.got.Upper, Arrival: o.got.Arrival})
	}
	for node, g := range b.grants {
		left := g.left()
		for i := range max(left.Permits, 0) {
			live = append(live, limit.Live{RequestID: fmt.Sprintf("grant %s %d", node, i), Permit: true})
		}
		live = append(live, limit.Live{RequestID: "grant " + node, Hold: max(left.Money, 0), Upper: max(left.Money, 0)})
	}
	s.Load(limit.Loaded{Account: b.account, Balance: b.balance, At: time.Now()}, live)
	for id, o := range b.open {
		if l, ok := s.Open(id); ok {
			o.got.Hold = l.Hold // it may have been topped up
		}
	}
	return s
}

func (n *storeNode) ask(p limit.Proposal, now time.Time) (v limit.Verdict) {
	b := n.s.books[p.AccountID]
	if b == nil {
		v.Refusal = &abi.Error{Kind: abi.Unauthenticated, Msg: "no such account"}
		return v
	}
	s := b.state()
	if p.RequestID != "" {
		o, settled := b.open[p.RequestID], false
		if _, settled = b.settled[p.RequestID]; settled {
			v.Refusal = &abi.Error{Kind: abi.Internal, Msg: "the request has ended"}
		} else if o != nil {
			v.Reservation = o.got
		} else if v.Reservation, v.Refusal = s.Reserve(p.Ask, now); v.Refusal == nil {
			b.arrivals++
			v.Arrival = b.arrivals
			b.open[p.RequestID] = &open{node: n.name, permit: true, free: p.Free, tokens: v.Tokens, got: v.Reservation}
			b.bucket = s.Kept().Bucket
		} else {
			v.Recalled = b.recall()
		}
	}
	v.Grant = n.lend(b, p.Wish, now)
	s = b.state()
	v.Counters, v.Limits = s.Counters(), s.Limits(p.Key, now)
	return v
}

// recall says whether nodes have idle grants, and that they are wanted.
func (b *book) recall() (wanted bool) {
	for _, g := range b.grants {
		if left := g.left(); left != (limit.Part{}) {
			g.wanted, wanted = true, true
		}
	}
	return wanted
}

// lend brings a node's grant to what it wishes, as far as that is its share.
func (n *storeNode) lend(b *book, wish limit.Part, now time.Time) *limit.Grant {
	g := b.grants[n.name]
	small := b.account.Concurrency > 0 && b.account.Concurrency <= 2*n.s.nodes
	if wish != (limit.Part{}) && !small && !b.account.Disabled {
		if g == nil {
			n.s.numbers++
			g = &grant{number: n.s.numbers}
		}
		sums, share := b.state().Sums(), n.s.nodes+1
		free := limit.Part{Permits: (b.account.Concurrency - sums.Permits) / share, Tokens: b.bucket.Remaining() / int64(share),
			Money: (sums.Balance - sums.Held) / abi.Nano(share)}
		more := wish.Minus(g.left()).Atmost(free)
		g.given, g.until = g.given.Plus(more), now.Add(n.s.life)
		b.add(-more.Tokens)
		b.grants[n.name] = g
	}
	if g == nil {
		return nil
	}
	a := b.account
	return &limit.Grant{Number: g.number, Part: g.given, AnyPermits: a.Concurrency == 0, AnyTokens: a.TokensPerMinute == 0,
		AnyMoney: a.Unlimited, TokensPerMinute: a.TokensPerMinute, Life: g.until.Sub(now), Wanted: g.wanted}
}

func (s *clusterStore) fault(format string, args ...any) {
	if len(s.faults) < 20 {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// check notes what an account gave out beyond its limits.
func (s *clusterStore) check(b *book) {
	permits, granted := 0, limit.Part{}
	for _, o := range b.open {
		if o.permit {
			permits++
		}
	}
	for _, g := range b.grants {
		granted = granted.Plus(g.left())
	}
	if most := b.account.Concurrency; most > 0 && permits+granted.Permits > most+b.overshoot {
		s.fault("account %s: %d permits are out and %d granted, of %d", b.account.ID, permits, granted.Permits, most)
	}
}

// Faults are the promises that were broken.
func (s *clusterStore) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// storeUsage is what is known of an account.
type storeUsage struct {
	Balance   abi.Nano
	Open      int // requests
	Permits   int // theirs
	Granted   limit.Part
	Remaining int64 // tokens, without those of grants
	Overshoot int
}

// Usage says what an account has now.
func (s *clusterStore) Usage(id string) (u storeUsage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[id]
	b.bucket.Refill(time.Now())
	b.expire(time.Now())
	u = storeUsage{Balance: b.balance, Open: len(b.open), Remaining: b.bucket.Remaining(), Overshoot: b.overshoot}
	for _, o := range b.open {
		if o.permit {
			u.Permits++
		}
	}
	for _, g := range b.grants {
		u.Granted = u.Granted.Plus(g.left())
	}
	return u
}

// Charged is what a request was charged in the end, and whether it is settled.
func (s *clusterStore) Charged(accountID, requestID string) (charged abi.Nano, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.books[accountID]
	charged, settled = b.settled[requestID]
	if b.refunded[requestID] {
		charged = 0
	}
	return -charged, settled
}

// Wanted implements the tree's ClusterStore.
func (n *storeNode) Wanted() (all []string, err error) {
	n.Gate.RLock()
	defer n.Gate.RUnlock()
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	for id, b := range n.s.books {
		if g := b.grants[n.name]; g != nil && g.wanted {
			all = append(all, id)
		}
	}
	return all, nil
}

// Account implements the tree's accounts.
func (n *storeNode) Account(id string) (account.Account, error) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if b := n.s.books[id]; b != nil {
		return b.account, nil
	}
	return account.Account{}, fmt.Errorf("no account %s", id)
}

// Balance implements the ledger's store.
func (n *storeNode) Balance(id string) (balance, held abi.Nano, err error) {
	n.s.mu.Lock()
	defer n.s.mu.Unlock()
	if b := n.s.books[id]; b != nil {
		sums := b.state().Sums()
		return sums.Balance, sums.Held, nil
	}
	return 0, 0, fmt.Errorf("no account %s", id)
}

// AccountHolds implements the ledger's store: a shared one is not asked for them.
func (n *storeNode) AccountHolds(string) ([]account.Entry, error) { return nil, nil }

// Counters implements the ledger's store.
func (n *storeNode) Counters(string) ([]account.CounterUse, error) { return nil, nil }

// KeysCharged implements the ledger's store.
func (n *storeNode) KeysCharged(string, time.Time) ([]account.KeyUse, error) { return nil, nil }
