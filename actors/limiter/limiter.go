// Package limiter admits requests: one actor per active account owns the
// account's permits, token bucket and available money, and reserves from all
// three at once or from none. What is decided is package limit's; here is what waits.
//
// Life of a limiter: loading (account, balance and open holds are being read,
// requests wait in a list) -> ready -> retired by a sweep when it holds nothing.
// A restart forgets the state and rebuilds it. Permits and holds come from the registry
// of live requests and from the ledger's open holds, the bucket from the last published
// counters, the balance from the ledger. Nothing is forgiven and nothing leaks.
package limiter

import (
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// Ticket is a request that asks for admission. Exactly one of its methods
// decides it; neither may wait.
type Ticket interface {
	// Granted passes the request on with what it was given. An error means that it
	// could not be passed on; the reservation is then taken back and Denied is called. One that is
	// Durable the ticket gives back itself.
	Granted(limit.Reservation, account.Limits) *abi.Error
	Denied(*abi.Error, account.Limits)
	// HoldRow is the row that a cluster's store is to write for the request. It is asked for before
	// the ticket is decided.
	HoldRow() account.Entry
}

// Message is the closed set of things a limiter is told.
type Message interface{ limiterMessage() }

// Reserve asks for everything a request needs before it starts, all or nothing.
type Reserve struct {
	Ask    limit.Ask
	Ticket Ticket
}

// Back gives back what a granted Reserve took: the permit and the tokens of the request, its money, or both.
type Back struct {
	// Leaves says that the request no longer runs. Exactly one per granted Reserve.
	Leaves bool
	Leave  limit.Leave
	// Settles says that the request's settlement, or a refund of it, is durable. Exactly one per granted
	// Reserve with money.
	Settles bool
	Settle  limit.Settle
	Seen    func()        // called when Settle was handled: from then on Live has no hold; may be nil
	Again   func(Message) // sends what this limiter did not handle to the account's next one
	panics  int           // of its handler
}

// Changed says that the account's limits or balance were changed by an operator.
type Changed struct{}

// loaded is the answer of the loader to one incarnation; a later one ignores it.
type loaded struct {
	limit.Loaded
	err   error
	asked *limiter
}

func (Reserve) limiterMessage() {}
func (Back) limiterMessage()    {}
func (Changed) limiterMessage() {}
func (loaded) limiterMessage()  {}

// Refuse answers a Reserve that no limiter will see.
func (r Reserve) Refuse(err error) { r.Ticket.Denied(busy(err), account.Limits{}) }

// Refuse gives m to the next limiter.
func (m Back) Refuse(error) {
	m.panics = 0
	m.Again(m)
}

// errPanicked is what the request in hand gets when its handler panics.
func errPanicked() *abi.Error {
	return &abi.Error{Kind: abi.Internal, Op: "limiter.Reserve", Msg: "internal error"}
}

func busy(err error) *abi.Error { return system.TooManyRequests("limiter.Reserve", err) }

// Deps is what a limiter needs from outside.
type Deps struct {
	// Load reads an account and calls done once, from any goroutine. It must not wait.
	Load func(accountID string, done func(limit.Loaded, error))
	// Live returns what the requests of an account have: its permit as long as it runs, its
	// hold until the Seen of its Settle was called. Between the two no read of the ledger can
	// miss both the hold and what was taken of it.
	Live func(accountID string) []limit.Live
	// PendingMax bounds the requests that wait for a load.
	PendingMax int
	Hook       system.Hook
}

// Cell is what of an account's limiter others may read, and what survives its restarts.
type Cell struct {
	counters atomic.Pointer[limit.Counters]
	// buckets are those of keys with a limit that are not full, by key id. One limiter writes them.
	buckets sync.Map
	// What the limiter of a cluster's store knows. Owned by it.
	lent    lent
	pace    pace
	changed time.Time // when an operator changed the account
	asking  int       // questions whose answer was not read yet
}

// Limits returns the last published limits for a key, computed for now. ok is false before the first.
func (c *Cell) Limits(key account.LimitedKey, now time.Time) (l account.Limits, ok bool) {
	s := c.counters.Load()
	if s == nil {
		return account.Limits{}, false
	}
	return limit.Narrow(s.Limits(now), c.bucket(key, now), now), true
}

// bucket is the published one of a key, or the full one that it has before.
func (c *Cell) bucket(key account.LimitedKey, now time.Time) limit.Bucket {
	if b, ok := c.buckets.Load(key.ID); ok && key.TokensPerMinute > 0 {
		return b.(limit.Bucket)
	}
	return limit.NewBucket(key.TokensPerMinute, now)
}

// publish stores the bucket of a key; one that is full is not told from one that there never was.
func (c *Cell) publish(id string, b limit.Bucket, ok bool) {
	if ok && !b.Full() {
		c.buckets.Store(id, b)
	} else {
		c.buckets.Delete(id)
	}
}

// full says whether no bucket of a key is short of anything at the time now.
func (c *Cell) full(now time.Time) bool {
	full := true
	c.buckets.Range(func(_, b any) bool {
		key := b.(limit.Bucket)
		key.Refill(now)
		full = key.Full()
		return full
	})
	return full
}

// Use returns the last published counters, computed for now. ok is false before the first.
func (c *Cell) Use(now time.Time) (u abi.Counters, ok bool) {
	if s := c.counters.Load(); s != nil {
		return s.Use(now), true
	}
	return abi.Counters{}, false
}

// New returns the limiter of an account.
func New(id string, cell *Cell, deps Deps) system.Actor {
	return &limiter{id: id, cell: cell, deps: deps}
}

// limiter owns the counters of one account.
type limiter struct {
	id      string
	cell    *Cell
	deps    Deps
	state   *limit.State // nil until the first load
	loading bool
	again   bool      // something changed since the load began
	changed bool      // an operator changed the account, and that was not read yet: requests wait for it
	stale   bool      // the last load failed; the next request starts one
	pending []Reserve // that wait for a load; at most PendingMax
	// recent are the settlements that arrived during a load: its answer
	// may be older than they are.
	recent []limit.Settle
	early  []Back // ends that arrived before the first load
}

// Started begins the load that a limiter needs before it can decide.
func (l *limiter) Started(c *system.Context) { l.load(c.Self()) }

// Stopped refuses what waited for a load.
func (l *limiter) Stopped() {
	l.refusePending(busy(system.ErrStopped))
	for _, m := range l.early {
		m.Refuse(system.ErrStopped)
	}
}

// Restarting queues again what waited for a load, for the next incarnation.
func (l *limiter) Restarting(c *system.Context) {
	for _, m := range l.pending {
		if err := c.Self().Tell(m); err != nil {
			m.Refuse(err)
		}
	}
	for _, m := range l.early {
		_ = c.Self().Tell(m) // fails only if the limiter was stopped
	}
	l.pending, l.early = nil, nil
}

// Receive implements system.Actor.
func (l *limiter) Receive(c *system.Context, m any) {
	switch m := m.(type) {
	case Reserve:
		l.reserve(c, m)
	case Back:
		l.back(c, m)
	case Changed:
		l.again = l.loading // the answer that is coming may be older than the change
		l.changed = true
		l.load(c.Self())
	case loaded:
		if m.asked == l {
			l.onLoaded(c, m.Loaded, m.err)
		}
	case system.Sweep:
		if l.idle(time.Now()) {
			c.Retire()
		}
	}
}

// attemptsMax is how often a message that gives something back is handled when
// handling it panics.
const attemptsMax = 3

// idle says whether a new limiter would know all that this one does. One whose
// load failed knows nothing, but its cell may: the bucket that an earlier
// incarnation left, which is forgiven when the cell goes.
func (l *limiter) idle(now time.Time) bool {
	if l.loading || len(l.early) > 0 {
		return false
	}
	if l.state == nil {
		s := l.cell.counters.Load()
		return (s == nil || s.Full(now)) && l.cell.full(now)
	}
	return l.state.Idle(now)
}

// reserve answers at once, or after the load when what there is to decide on is nothing, of a later month, or older than a change.
func (l *limiter) reserve(c *system.Context, m Reserve) {
	full := len(l.pending) >= l.deps.PendingMax
	if l.state == nil || !l.state.Knows(m.Ask, time.Now()) || l.changed && !full {
		if full {
			m.Refuse(system.ErrFull)
			return
		}
		l.pending = append(l.pending, m)
		l.load(c.Self())
		return
	}
	if l.stale {
		l.load(c.Self()) // and decide on what is known
	}
	l.decide(m)
}

// decide reserves and passes the request on. Whatever panics, the caller is
// answered and the bucket is as before.
func (l *limiter) decide(m Reserve) {
	before, key := l.state.Counters(), m.Ask.Key
	bucketBefore, ok := l.state.KeyBucket(key.ID)
	handed := false // from then on the ticket gives back what it has
	defer system.OnPanic(func(any) {
		if !handed {
			l.cell.counters.Store(&before)
			l.cell.publish(key.ID, bucketBefore, ok)
		}
		m.Ticket.Denied(errPanicked(), before.Limits(time.Now()))
	})
	now := time.Now()
	r, err := l.state.Reserve(m.Ask, now)
	l.publish(key.ID)
	l.deps.Hook.At("limiter.reserved")
	if err == nil {
		handed = true
		if err = m.Ticket.Granted(r, l.state.Limits(key, now)); err == nil {
			return
		}
		l.state.Leave(limit.Leave{RequestID: m.Ask.RequestID, Taken: r.Tokens, Key: key, KeyTaken: r.KeyTokens}, now)
		l.state.Settle(limit.Settle{RequestID: m.Ask.RequestID})
		l.publish(key.ID)
	}
	m.Ticket.Denied(err, l.state.Limits(key, now))
}

// back handles both halves of m. If one panics, each that was not handled is queued for the next
// incarnation, as a message of its own: one that panics again and again does not take the other with it.
func (l *limiter) back(c *system.Context, m Back) {
	defer system.OnPanic(func(any) {
		if m.panics++; m.panics == attemptsMax {
			m.seen() // the next incarnation reads it from the ledger
			return
		}
		leave, settle := m, m
		leave.Settles, settle.Leaves = false, false
		if m.Leaves {
			_ = c.Self().Tell(leave) // fails only if the limiter was stopped, which rebuilds as well
		}
		if m.Settles {
			_ = c.Self().Tell(settle)
		}
	})
	if m.Leaves {
		l.leave(m)
		m.Leaves = false
	}
	if m.Settles {
		l.settle(m)
		m.Settles = false
	}
}

// seen says that the settlement was handled.
func (m Back) seen() {
	if m.Settles && m.Seen != nil {
		m.Seen()
	}
}

func (l *limiter) leave(m Back) {
	l.deps.Hook.At("limiter.leave")
	if l.state == nil {
		m.Settles = false // it waits by itself
		l.early = append(l.early, m)
		return
	}
	l.state.Leave(m.Leave, time.Now())
	l.publish(m.Leave.Key.ID)
}

func (l *limiter) settle(m Back) {
	l.deps.Hook.At("limiter.settle")
	if l.loading {
		l.recent = append(l.recent, m.Settle)
	}
	if l.state != nil {
		l.state.BeginMonth(time.Now())
		l.state.Settle(m.Settle)
		l.publish("")
	}
	m.seen()
}

// load reads the account unless it is being read.
func (l *limiter) load(self *system.Ref) {
	if l.loading {
		return
	}
	l.loading = true
	l.deps.Load(l.id, func(r limit.Loaded, err error) { _ = self.Tell(loaded{r, err, l}) })
}

// onLoaded adopts what was read, applies what happened since, and decides what waited. Without an answer that
// goes by what is known. An answer that may be older than a change, or is of a later month, since the clock was set back after
// it was read, decides nothing: the load that follows does.
func (l *limiter) onLoaded(c *system.Context, r limit.Loaded, err error) {
	l.loading, l.stale, l.changed = false, err != nil, l.again
	if err != nil {
		l.recent = nil
	} else {
		now := time.Now()
		l.adopt(r, now)
		l.again = l.again || account.Month(r.At) > account.Month(now)
	}
	if l.again {
		l.again = false
		l.load(c.Self())
		return
	}
	pending := l.pending
	for i, m := range pending {
		l.pending = pending[i+1:] // the rest is queued again if this one panics
		if err != nil && (l.state == nil || !l.state.Knows(m.Ask, time.Now())) {
			m.Ticket.Denied(system.AccountsUnavailable("limiter.load", err), account.Limits{})
		} else {
			l.decide(m)
		}
	}
	l.pending = nil
}

// adopt makes the state anew; the buckets are as they were published. Settlements that arrived during the load are
// applied again: those that the answer knows are recognized by their commit.
func (l *limiter) adopt(r limit.Loaded, now time.Time) {
	b := limit.NewBucket(r.Account.TokensPerMinute, now)
	if s := l.cell.counters.Load(); s != nil {
		b = s.Bucket(r.Account, now)
	}
	l.state = limit.New(r.Account, b)
	l.cell.buckets.Range(func(id, b any) bool {
		l.state.SetKeyBucket(id.(string), b.(limit.Bucket))
		return true
	})
	l.state.Load(r, l.deps.Live(l.id))
	l.state.BeginMonth(now)
	for _, s := range l.recent {
		l.state.Settle(s)
	}
	for _, e := range l.early {
		l.state.Leave(e.Leave, now)
		l.publish(e.Leave.Key.ID)
	}
	l.recent, l.early = nil, nil
	l.publish("")
}

func (l *limiter) refusePending(err *abi.Error) {
	pending := l.pending
	l.pending = nil
	for _, m := range pending {
		m.Ticket.Denied(err, account.Limits{})
	}
}

// publish shows the state to others, and the bucket of a key unless that is empty.
func (l *limiter) publish(keyID string) {
	s := l.state.Counters()
	l.cell.counters.Store(&s)
	if keyID != "" {
		b, ok := l.state.KeyBucket(keyID)
		l.cell.publish(keyID, b, ok)
	}
}
