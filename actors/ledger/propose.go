package ledger

import (
	"errors"
	"fmt"
	"time"

	"corenode/actors/account"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// ClusterStore is what a store that many nodes share can do more than Store: it decides on requests
// in the transaction that writes rows. It is called like Store.
type ClusterStore interface {
	// Commit writes the rows of a batch, takes what is given back, and then decides on its
	// proposals, in one transaction. There is a verdict for each proposal. A failed call wrote all
	// of it or nothing.
	Commit(limit.Batch) ([]limit.Verdict, error)
}

// Propose asks a cluster's store what a request gets. It keeps its place among the rows and
// is decided in their transaction. Done is called as that of Append. Without a verdict nothing
// is reserved: what the store may have decided in a transaction that failed is closed by the ledger.
type Propose struct {
	Proposal limit.Proposal
	Done     func(Verdict)
}

// Verdict is the fate of a proposal.
type Verdict struct {
	limit.Verdict
	// Asked is before the store began to decide.
	Asked time.Time
	Err   *abi.Error // there is no verdict
}

// GiveBack tells a cluster's store what a node has of an account and does not need: the permit of a
// request without a hold, or parts of a grant. It is told again until the store knows it.
type GiveBack struct {
	Release limit.Release // unless it names no request
	Return  limit.Return
}

// owe ends the delay before things that were given back are told again.
type owe struct{}

func (Propose) ledgerMessage()  {}
func (GiveBack) ledgerMessage() {}
func (owe) ledgerMessage()      {}

// Refuse answers a proposal that no ledger will see.
func (m Propose) Refuse(err error) { m.Done(Verdict{Err: undecided(err)}) }

func undecided(err error) *abi.Error { return system.LedgerUnavailable("ledger.Propose", err) }

// errAway is the cause of a refusal while nothing that is proposed can be decided.
var errAway = errors.New("ledger: the store decides nothing now")

// decisions are what a cluster's store made of the proposals of a batch.
type decisions struct {
	asked    time.Time
	verdicts []limit.Verdict
	// err says why there are none, maybe whether the store may have decided all the same.
	err   error
	maybe bool
}

// propose queues a proposal. While the store is away it refuses at once.
func (a *ledger) propose(self *system.Ref, m Propose) {
	queued := false
	defer system.OnPanic(func(reason any) {
		if !queued {
			m.Refuse(fmt.Errorf("ledger: %v", reason))
		}
	})
	a.log.cfg.Hook.At("ledger.propose")
	if a.backoff || a.log.behind.Load() > 0 || time.Now().Before(a.away) {
		m.Refuse(errAway)
		return
	}
	if !a.log.journal.add(item{ask: &m}) {
		m.Refuse(system.ErrFull)
		return
	}
	queued = true
	a.next(self)
}

// giveBack queues what a node does not need.
func (a *ledger) giveBack(self *system.Ref, m GiveBack) {
	a.log.journal.add(item{back: &m, must: true})
	a.next(self)
}

// decided notes what became of the proposals of a batch whose rows are durable. Those that the
// store may have taken are closed; permits that it was not told of are told again later.
func (a *ledger) decided(self *system.Ref, done []item, d decisions) {
	if d.err == nil {
		a.away, a.refusals = time.Time{}, 0
		return
	}
	asked := false
	for _, it := range done {
		switch {
		case it.ask != nil:
			asked = true
			if d.maybe {
				a.close(it.ask.Proposal)
			}
		case it.back != nil:
			asked = true
			a.log.journal.owed = append(a.log.journal.owed, it)
		}
	}
	if !asked {
		return
	}
	a.refusals++
	wait := a.delay(a.refusals)
	a.away = time.Now().Add(wait)
	if len(a.log.journal.owed) > 0 {
		time.AfterFunc(wait, func() { _ = self.Tell(owe{}) })
	}
}

// close makes sure that nothing stays reserved for a request that was refused.
func (a *ledger) close(p limit.Proposal) {
	switch {
	case p.RequestID == "": // it asked for a grant alone, which ends by itself
	case p.Free:
		a.log.journal.add(item{back: &GiveBack{Release: limit.Release{AccountID: p.AccountID, RequestID: p.RequestID}}, must: true})
	default:
		e := p.Hold.Withheld()
		e.Kind, e.Time, e.Note = account.Settlement, time.Now(), account.NeverRan
		a.log.journal.add(item{entry: e, must: true})
	}
}

// put gives a batch to the store. Without anything in it the store is not asked.
func (l *Log) put(b limit.Batch) ([]limit.Verdict, error) {
	switch {
	case l.cfg.Cluster == nil && len(b.Rows) > 0:
		return nil, l.store.Append(b.Rows)
	case l.cfg.Cluster == nil || isEmpty(b):
		return nil, nil
	}
	verdicts, err := l.cfg.Cluster.Commit(b)
	if err == nil && len(verdicts) != len(b.Asks) {
		err = fmt.Errorf("store gave %d verdicts on %d proposals", len(verdicts), len(b.Asks))
	}
	return verdicts, err
}

// isEmpty says that the store has nothing to do.
func isEmpty(b limit.Batch) bool { return len(b.Rows)+len(b.Asks)+len(b.Releases)+len(b.Returns) == 0 }

// batchOf returns what the store is asked for.
func batchOf(batch []item) (b limit.Batch) {
	b.Rows = make([]account.Entry, 0, len(batch))
	for _, it := range batch {
		switch {
		case it.read != nil:
		case it.ask != nil:
			b.Asks = append(b.Asks, it.ask.Proposal)
		case it.back != nil && it.back.Release.RequestID != "":
			b.Releases = append(b.Releases, it.back.Release)
		case it.back != nil:
			b.Returns = append(b.Returns, it.back.Return)
		default:
			b.Rows = append(b.Rows, it.entry)
		}
		if it.refund != nil {
			b.Rows = append(b.Rows, it.refund.entry)
		}
	}
	return b
}

// answerDecided answers a batch whose rows are durable in a commit.
func answerDecided(done []item, seq uint64, d decisions) {
	next := 0
	for _, it := range done {
		if it.ask == nil {
			answer(it, Commit{Seq: seq})
			continue
		}
		v := Verdict{Asked: d.asked}
		if d.err != nil {
			v.Err = undecided(d.err)
		} else {
			v.Verdict = d.verdicts[next]
		}
		next++
		it.ask.Done(v)
	}
}
