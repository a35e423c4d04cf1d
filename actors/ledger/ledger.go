// Package ledger makes rows durable. One actor gathers all rows that wait and commits
// them in one transaction of the store, on a goroutine of its own. It answers each row
// when it is durable, and then serves the reads that waited with them.
//
// A restart forgets nothing: the queue is in the Log, and the next incarnation takes
// it over.
//
// When the store fails or is too slow, rows go to the spill journal, where they are as
// durable as in the store. While rows are there the ledger serves no reads, because the
// store does not have all rows. It replays them, in order, before it gives the store
// anything else. When the journal is full, new rows are refused at once. Settlements
// are kept and tried again with a growing delay. The ledger gives up a settlement only
// if the store rejects it for what it says.
package ledger

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/clock"
	"corenode/actors/limit"
	"corenode/actors/outage"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// Store is where rows become durable. It is called from one goroutine at a time.
type Store interface {
	// Append writes all entries in one transaction and returns when they are
	// durable. A failed call may be repeated with the same entries: a Hold or a
	// Settlement whose request has one already must be ignored, not doubled.
	Append([]account.Entry) error
	// Balance returns the sum of an account's rows and the sum of its open holds.
	Balance(accountID string) (balance, held abi.Nano, err error)
	// AccountHolds returns the account's holds without a settlement.
	AccountHolds(accountID string) ([]account.Entry, error)
	// Counters returns what an account used of counters, in periods from account.OldestPeriod on.
	Counters(accountID string) ([]account.CounterUse, error)
	// KeysCharged returns the account's keys with a budget, and what they were charged in the
	// calendar month of at, UTC.
	KeysCharged(accountID string, at time.Time) ([]account.KeyUse, error)
}

// Spill keeps rows, durably, while the store does not take them. It is called
// from one goroutine at a time.
type Spill interface {
	Append([]account.Entry) error
	// Batches gives put rows in the order in which they were appended, n at a time, until it fails. put says
	// how many from the first one are done with, one at least unless it fails: they are not given again.
	Batches(n int, put func([]account.Entry) (taken int, err error)) error
	Reset() error
	Rows() int
	Room() int64 // bytes
}

// Commit is the fate of one row. Seq rises with every transaction of this process.
type Commit struct {
	Seq uint64
	Err *abi.Error
	// Refused says, with Err, that the store was never asked: the row is certainly
	// not in it. Without Refused a row that failed may be there.
	Refused bool
	// Rejected says, with Err, that the store will never take this settlement.
	Rejected bool
	// Withdrawn answers a Withhold: the settlement charges nothing, without a refund.
	Withdrawn bool
}

// Message is the closed set of things the ledger is told.
type Message interface{ ledgerMessage() }

// Append asks for a row. Done is called once, on any goroutine. It must not wait and may
// be nil. A Settlement is never refused while the node lives, unless the store rejects it
// for what it says. If the hold of its request still waits, the settlement takes its
// place, and both are answered together.
type Append struct {
	Entry account.Entry
	Done  func(Commit)
}

// Withhold says that a client gets an error instead of its answer: the settlement that
// was appended before must charge nothing. If the store was not yet asked for that
// settlement, it becomes free. Else Refund becomes durable after it. Done is called as in
// Append. A Withhold is not refused while the node lives.
type Withhold struct {
	Refund account.Entry
	Done   func(Commit)
}

// Read asks for the balance and the open holds of one account. It keeps its place among
// the rows: it sees those that were sent before it.
type Read struct {
	AccountID string
	Done      func(Balance)
}

// Balance is what the store knew right after commit Seq.
type Balance struct {
	Balance abi.Nano
	Holds   []account.Entry
	// Counters are those of periods from account.OldestPeriod on.
	Counters []account.CounterUse
	// Keys are those with a budget, and what they were charged in the month of At.
	Keys []account.KeyUse
	At   time.Time
	Seq  uint64
	Err  error
}

// committed is the end of a commit.
type committed struct {
	batch []item
	seq   uint64
	decisions
	err error // of the rows
}

// retry ends the delay after a failure, replay the delay before another try with spilled rows.
type (
	retry  struct{}
	replay struct{}
)

func (Append) ledgerMessage()    {}
func (Withhold) ledgerMessage()  {}
func (Read) ledgerMessage()      {}
func (committed) ledgerMessage() {}
func (retry) ledgerMessage()     {}
func (replay) ledgerMessage()    {}

// Refuse answers a row that no ledger will see.
func (m Append) Refuse(err error) {
	answer(item{done: m.Done}, Commit{Err: unavailable(err), Refused: true})
}

// Refuse answers a refund that no ledger will see.
func (m Withhold) Refuse(err error) {
	answer(item{done: m.Done}, Commit{Err: unavailable(err), Refused: true})
}

// Refuse answers a read that no ledger will see.
func (m Read) Refuse(err error) { m.Done(Balance{Err: err}) }

// Refuse answers the rows of a commit that no ledger will hear of: nobody else knows them.
func (m committed) Refuse(error) {
	if m.err == nil {
		answerDecided(m.batch, m.seq, m.decisions)
		return
	}
	for _, it := range m.batch {
		answer(it, Commit{Err: unavailable(m.err)})
	}
}

func unavailable(err error) *abi.Error { return system.LedgerUnavailable("ledger.Append", err) }

func rejected(err error) *abi.Error {
	return &abi.Error{Kind: abi.Internal, Op: "ledger.Append", Msg: "the charge of this request cannot be recorded", Err: err}
}

// Config of a Log.
type Config struct {
	// RowsMax is the most rows that wait, settlements apart. Default 8192.
	RowsMax int
	// BatchMax is the most rows of one transaction. Default 1024.
	BatchMax int
	// RetryMin and RetryMax bound the delay after a failure. Default 50 ms and 5 s.
	RetryMin, RetryMax time.Duration
	// Spill takes the rows that the store does not take. nil: none.
	Spill Spill
	// SlowAfter is how long the store may take for a transaction before its rows
	// are spilled. Default 2 s.
	SlowAfter time.Duration
	// Rejects says whether an error of the store is about a row and not about the
	// store: such a row is not spilled, nor tried again by itself. nil: none is.
	Rejects func(error) bool
	// Open returns how many requests may yet settle; their rows must find room in
	// the spill journal. nil: 0.
	Open func() int
	// Cluster is the store where it is one that decides on requests; else nil.
	Cluster ClusterStore
	// Failed is told of transactions that failed, and of rows that were spilled instead: of the first, and while it goes
	// on each outage.Every, with how many failed since it was last told. It is told of each row that the store rejects.
	// Recovered is told when the store has all rows again. They must not wait and may be nil.
	Failed    func(err error, failures int)
	Recovered func(failures int)
	Hook      system.Hook
}

// Log is what survives the actor: the queue, the store and the counters.
type Log struct {
	cfg     Config
	store   Store
	journal journal // owned by the actor's goroutine

	committing worker       // runs commits; owned by the actor's goroutine
	asking     worker       // asks the store; owned by the commit under way
	ends       chan outcome // what came of that; has room for one
	// stuck is a transaction that took the store too long; nil without one. Until it ends no row
	// may go to the store. Owned by the commit under way.
	stuck *slow
	// late is what became of the last such transaction that wrote or was rejected, for as many rows
	// as the journal gives next. Owned by the commit under way.
	late outcome
	// reason is why the last such transaction failed, if the store failed and has not worked since. Owned by the commit under way.
	reason error
	// replayed is when a replay of the spill journal last ended. Owned by the commit under way.
	replayed time.Time
	// cause is why the store last did not take rows, and said what Config.Failed was told of that. Both are owned by the
	// commit under way.
	cause error
	said  outage.State

	running                 sync.WaitGroup // one at a time
	waiting                 atomic.Int64
	behind                  atomic.Int64 // rows in the spill journal
	commits, rows, failures atomic.Uint64
	busy                    atomic.Int64              // nanoseconds in commits
	begun                   atomic.Pointer[time.Time] // when the one that runs began; nil without one
}

// Stats are the counters of a Log.
type Stats struct {
	Commits, Failures uint64 // Commits are those that wrote something, to the store or to the journal
	Rows              uint64 // written in them, with the holds of proposals
	Waiting           int64
	Spilled           int64         // rows in the spill journal
	Busy              time.Duration // in Commits
	Under             time.Duration // how long the commit that runs now has taken
}

// NewLog makes an empty queue before a store.
func NewLog(cfg Config, store Store) *Log {
	cfg.RowsMax, cfg.BatchMax = cmp.Or(cfg.RowsMax, 8192), cmp.Or(cfg.BatchMax, 1024)
	cfg.RetryMin, cfg.RetryMax = cmp.Or(cfg.RetryMin, 50*time.Millisecond), cmp.Or(cfg.RetryMax, 5*time.Second)
	cfg.SlowAfter = cmp.Or(cfg.SlowAfter, 2*time.Second)
	if cfg.Rejects == nil {
		cfg.Rejects = func(error) bool { return false }
	}
	if cfg.Open == nil {
		cfg.Open = func() int { return 0 }
	}
	return &Log{cfg: cfg, store: store, journal: journal{rowsMax: cfg.RowsMax, batchMax: cfg.BatchMax}, ends: make(chan outcome, 1)}
}

// Stats may be called from any goroutine.
func (l *Log) Stats() Stats {
	s := Stats{Commits: l.commits.Load(), Rows: l.rows.Load(), Failures: l.failures.Load(), Waiting: l.waiting.Load(),
		Spilled: l.behind.Load(), Busy: time.Duration(l.busy.Load())}
	if begun := l.begun.Load(); begun != nil {
		s.Under = time.Since(*begun)
	}
	return s
}

// New returns the actor of a log. At most one lives at a time.
func New(l *Log) system.Actor { return &ledger{log: l} }

// ledger is the actor; the journal decides.
type ledger struct {
	log     *Log
	backoff bool // a retry is due; until then nothing is committed
	// replaying says that a replay is due. A restart forgets it; the end of the next
	// commit asks for another.
	replaying bool
	// away is until when proposals are refused, after so many batches in a row without verdicts.
	away     time.Time
	refusals int
}

// Started goes on where the last incarnation stopped. A commit that is still under way
// reports to this one. A restart ends the delay after a failure.
func (a *ledger) Started(c *system.Context) { a.owe(c.Self()) }

// Receive implements system.Actor.
func (a *ledger) Receive(c *system.Context, m any) {
	switch m := m.(type) {
	case Append:
		a.append(c.Self(), m)
	case Withhold:
		a.withhold(c.Self(), m)
	case Read:
		if !a.log.journal.add(item{read: &m}) {
			m.Refuse(system.ErrFull)
		}
		a.next(c.Self())
	case Propose:
		a.propose(c.Self(), m)
	case GiveBack:
		a.giveBack(c.Self(), m)
	case owe:
		a.owe(c.Self())
	case committed:
		a.committed(c.Self(), m)
	case retry:
		a.backoff = false
		a.next(c.Self())
	case replay:
		a.replaying = false
		if !a.log.journal.add(item{read: &Read{Done: func(Balance) {}}}) {
			a.replayLater(c.Self()) // the queue is full: what is in it asks for the store
		}
		a.next(c.Self())
	}
}

// append queues a row. After a failure it queues only settlements until the retry.
func (a *ledger) append(self *system.Ref, m Append) {
	queued := false
	defer system.OnPanic(func(reason any) {
		if !queued {
			m.Refuse(fmt.Errorf("ledger: %v", reason))
		}
	})
	a.log.cfg.Hook.At("ledger.append")
	it := item{entry: m.Entry, done: m.Done, must: m.Entry.Kind == account.Settlement}
	if a.backoff && !it.must {
		m.Refuse(fmt.Errorf("store is failing"))
		return
	}
	if !a.log.journal.add(it) {
		m.Refuse(system.ErrFull)
		return
	}
	queued = true
	a.next(self)
}

// withhold makes a settlement free while it waits, or queues its refund.
func (a *ledger) withhold(self *system.Ref, m Withhold) {
	if a.log.journal.withhold(&refund{m.Refund, m.Done}) {
		m.Done(Commit{Withdrawn: true})
		return
	}
	a.next(self)
}

// owe queues again what the store was not told, and starts a commit.
func (a *ledger) owe(self *system.Ref) {
	j := &a.log.journal
	for _, it := range j.owed {
		j.add(it)
	}
	j.owed = nil
	a.next(self)
}

// next starts a commit if something waits and none is under way.
func (a *ledger) next(self *system.Ref) {
	j := &a.log.journal
	defer func() { a.log.waiting.Store(int64(len(j.waiting) + len(j.reads) + len(j.committing))) }()
	if a.backoff {
		return
	}
	if batch := j.take(); batch != nil {
		seq := j.seq + 1
		a.log.running.Add(1)
		a.log.committing.do(func() { a.log.runCommit(self, batch, seq) })
	}
}

// runCommit commits a batch and reports.
func (l *Log) runCommit(self *system.Ref, batch []item, seq uint64) {
	defer l.running.Done()
	began := time.Now()
	l.begun.Store(&began)
	m := l.commit(batch, seq)
	l.begun.Store(nil)
	if err := self.Tell(m); err != nil {
		m.Refuse(err)
	}
}

// Wait returns when the last commit has ended. Call it once, after the actor has stopped.
func (l *Log) Wait() {
	l.running.Wait()
	l.committing.end()
	l.asking.end()
}

// Stopped answers what waits: nothing, unless the store is failing or the ledger was given up.
func (a *ledger) Stopped() {
	j := &a.log.journal
	left := append(j.reads, j.waiting...)
	for _, r := range j.late {
		left = append(left, r.item())
	}
	j.waiting, j.reads, j.late = nil, nil, nil
	for _, it := range left {
		answer(it, Commit{Err: unavailable(system.ErrStopped), Refused: true})
	}
}

// committed answers the rows of a commit that has ended.
func (a *ledger) committed(self *system.Ref, m committed) {
	j := &a.log.journal
	defer a.replayLater(self)
	if m.err == nil {
		j.seq = m.seq
		done := j.succeed()
		a.decided(self, done, m.decisions)
		a.next(self) // the next transaction runs while these are answered
		answerDecided(done, m.seq, m.decisions)
		return
	}
	if a.log.cfg.Rejects(m.err) {
		if it, alone := j.setAside(); alone {
			a.log.leftOut(it.entry, m.err)
			a.next(self)
			answer(it, Commit{Err: rejected(m.err), Rejected: true})
			return
		}
	}
	tried, untried := j.fail()
	for _, it := range tried {
		if it.ask != nil && m.maybe {
			a.close(it.ask.Proposal)
		}
		answer(it, Commit{Err: unavailable(m.err)})
	}
	for _, it := range untried {
		answer(it, Commit{Err: unavailable(m.err), Refused: true})
	}
	if len(j.waiting) > 0 {
		a.backoff = true
		time.AfterFunc(a.delay(j.failures), func() { _ = self.Tell(retry{}) })
	}
	a.next(self)
}

// replayLater queues a read that nobody waits for, after a delay. It makes the ledger try
// the spilled rows again when no request does.
func (a *ledger) replayLater(self *system.Ref) {
	if a.log.behind.Load() == 0 || a.replaying {
		return
	}
	a.replaying = true
	time.AfterFunc(a.log.cfg.RetryMax/4, func() { _ = self.Tell(replay{}) })
}

// delay doubles with each failure from RetryMin to RetryMax. Up to half of it is taken off
// at random.
func (a *ledger) delay(failures int) time.Duration {
	d := a.log.cfg.RetryMin
	for ; failures > 1 && d < a.log.cfg.RetryMax; failures-- {
		d *= 2
	}
	d = min(d, a.log.cfg.RetryMax)
	return d - time.Duration(rand.Int64N(int64(d)/2+1))
}

func answer(it item, c Commit) {
	switch {
	case it.read != nil && c.Err != nil:
		it.read.Done(Balance{Err: c.Err})
	case it.ask != nil:
		it.ask.Refuse(c.Err)
	case it.read == nil:
		if it.hold != nil {
			it.hold(c)
		}
		if it.done != nil {
			it.done(c)
		}
		if it.refund != nil {
			c.Withdrawn = c.Rejected
			it.refund.done(c)
		}
	}
}

// commit gives a batch to the store, then serves its reads. It runs beside the actor,
// which does not change the batch meanwhile.
func (l *Log) commit(batch []item, seq uint64) (m committed) {
	m = committed{batch: batch, seq: seq, decisions: decisions{asked: clock.Now()}}
	defer func() {
		if r := recover(); r != nil {
			m.err = fmt.Errorf("store panicked: %v", r)
			m.decisions.err, m.maybe = m.err, true
		}
		switch {
		case m.err == nil:
		case l.cfg.Rejects(m.err):
			l.rowFailed(m.err)
		default:
			l.failed(m.err)
		}
	}()
	b := batchOf(batch)
	if m.err = l.write(b, batch, &m.decisions); m.err != nil {
		return m
	}
	if m.decisions.err != nil && len(b.Asks) > 0 && len(b.Rows) == 0 { // else it is said with the rows
		l.failed(fmt.Errorf("%d requests are refused: %w", len(b.Asks), m.decisions.err))
	}
	l.wrote(b, &m.decisions)
	for _, it := range batch { // of rows or of reads
		if it.read != nil {
			it.read.Done(l.read(it.read.AccountID, seq))
		}
	}
	return m
}

// wrote counts a batch of which nothing failed. The hold of a proposal that was admitted is a row as well.
func (l *Log) wrote(b limit.Batch, d *decisions) {
	rows := len(b.Rows)
	if isEmpty(b) || d.err != nil && rows == 0 {
		return // nothing was
	}
	for i := range d.verdicts {
		if p := &b.Asks[i]; d.err == nil && d.verdicts[i].Refusal == nil && !p.Free && p.RequestID != "" {
			rows++
		}
	}
	l.commits.Add(1)
	l.rows.Add(uint64(rows))
	l.busy.Add(int64(time.Since(*l.begun.Load())))
}

// read asks for holds only if the account has any.
func (l *Log) read(accountID string, seq uint64) Balance {
	if l.behind.Load() > 0 {
		return Balance{Seq: seq, Err: errBehind}
	}
	balance, held, err := l.store.Balance(accountID)
	if err != nil {
		return Balance{Seq: seq, Err: err}
	}
	counters, err := l.store.Counters(accountID)
	if err != nil {
		return Balance{Seq: seq, Err: err}
	}
	b := Balance{Balance: balance, Counters: counters, At: time.Now(), Seq: seq}
	b.Keys, err = l.store.KeysCharged(accountID, b.At)
	b.Err = err
	counted := slices.ContainsFunc(counters, func(c account.CounterUse) bool { return c.Held > 0 })
	if err == nil && (held > 0 || counted) {
		b.Holds, b.Err = l.store.AccountHolds(accountID)
	}
	return b
}
