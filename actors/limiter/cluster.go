package limiter

import (
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/clock"
	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/wasm/abi"
)

// Where many nodes share a store, the store decides, in the transaction that writes the hold. The
// limiter proposes, and answers on the verdict. For a busy account it has a grant: what that
// covers it gives out at once. It never refuses by itself.

// ClusterDeps is what the limiter of a cluster's store needs in place of Deps.
type ClusterDeps struct {
	// Propose asks the store and calls done once, from any goroutine, or returns an error. asked is
	// before the store began to decide. It must not wait.
	Propose func(p limit.Proposal, done func(v limit.Verdict, asked time.Time, err *abi.Error)) error
	// Return tells the store what is given back of a grant. It must not wait.
	Return func(limit.Return)
	// Tell delivers a message to the limiter of an account, and makes one if there is none.
	Tell   func(accountID string, m Message) error
	Counts *Counts
	// Lease is how long a node may be silent before the store counts what it has as free.
	Lease time.Duration
	Hook  system.Hook
}

// Counts are numbers of all limiters of a cluster's store together. They may be read at any time.
type Counts struct {
	Covered  atomic.Uint64 // requests that a grant covered
	Proposed atomic.Uint64 // requests that the store was asked about
	Refused  atomic.Uint64 // of those, refused by a verdict
	Failed   atomic.Uint64 // of those, refused because there was no verdict
	Grants   atomic.Uint64 // grants that were not the renewal of one
	Returned atomic.Uint64 // times that idle parts of a grant were given back
	Held     atomic.Int64  // grants that are believed in now
}

// lent is what a limiter knows of the grant that its node has. It is in the cell: a restart
// forgets nothing of it. The zero value is no grant.
//
// Invariant: taken is all that was ever taken of the grant of this number: what requests have
// or had of it and what was returned.
type lent struct {
	grant    limit.Grant
	taken    limit.Part
	returned limit.Part
	until    time.Time  // when this node stops to believe in it
	end      *limit.End // the same for requests that it covered, whatever has become of it here
	over     time.Time  // when the store has certainly ended it
	asked    time.Time  // when it was last asked for without a request
}

// left is what nobody has of it, of a limit too that the account has lost since: the store counts that until it is given back.
func (l *lent) left() limit.Part {
	p := l.grant.Minus(l.taken)
	return p.Atmost(p)
}

// short says whether less than half of a need is left, of what is counted.
func (l *lent) short(need limit.Part) bool {
	left := l.left()
	return !l.grant.AnyPermits && left.Permits < need.Permits/2 || !l.grant.AnyTokens && left.Tokens < need.Tokens/2 ||
		!l.grant.AnyMoney && left.Money < need.Money/2
}

// Recall says that the store needs what is idle of the account's grant.
type Recall struct{}

// Unused says that a request has nothing more of a grant: it never ran, or it is one without a hold.
type Unused struct {
	Number int64 // of the grant
	Part   limit.Part
	Again  func(Message) // as in Back
	panics int           // of its handler
}

// verdict is the store's answer.
type verdict struct {
	limit.Verdict
	request Reserve // without a ticket where a grant alone was asked for
	asked   time.Time
	err     *abi.Error
	again   bool // it was asked for the second time
	tell    func(verdict) error
	panics  int // of what learns from it
}

// retry asks the store for a request again.
type retry struct{ request Reserve }

func (Recall) limiterMessage()  {}
func (Unused) limiterMessage()  {}
func (verdict) limiterMessage() {}
func (retry) limiterMessage()   {}

// Refuse gives m to the next limiter.
func (m Unused) Refuse(error) {
	m.panics = 0
	m.Again(m)
}

// Refuse gives the verdict to the next limiter.
func (m verdict) Refuse(err error) {
	if m.tell(m) != nil && m.request.Ticket != nil { // the tree has stopped: the next start settles what is open
		m.request.Refuse(err)
	}
}

// Refuse answers a request that no limiter will see.
func (m retry) Refuse(err error) { m.request.Refuse(err) }

// NewClustered returns the limiter of an account in a cluster's store.
func NewClustered(id string, cell *Cell, deps ClusterDeps) system.Actor {
	return &clustered{id: id, cell: cell, deps: deps}
}

// clustered is the limiter of one account in a cluster's store. All that it knows is in its cell.
type clustered struct {
	id   string
	cell *Cell
	deps ClusterDeps
}

// Receive implements system.Actor.
func (l *clustered) Receive(c *system.Context, m any) {
	switch m := m.(type) {
	case Reserve:
		l.reserve(m)
	case verdict:
		l.onVerdict(c, m)
	case retry:
		l.propose(m.request, true)
	case Unused:
		l.unused(c, m)
	case Recall:
		l.giveBack(true)
	case Changed:
		l.giveBack(false)
		l.cell.changed = clock.Now()
		l.end()
	case system.Sweep:
		if l.sweep(clock.Now()) {
			c.Retire()
		}
	}
}

// reserve answers at once where the grant covers the request. Else it asks the store.
func (l *clustered) reserve(m Reserve) {
	now := clock.Now()
	lent := &l.cell.lent
	part := limit.Part{Permits: 1}
	if !m.Ask.Free {
		part.Tokens, part.Money = m.Ask.Tokens(needMax), m.Ask.Upper
	}
	l.cell.pace.saw(part, now)
	r, ok := lent.grant.Covers(m.Ask, lent.taken)
	if !ok || !now.Before(lent.until) {
		l.propose(m, false)
		return
	}
	l.give(m, r)
	l.renew(m.Ask, now)
}

// give passes a request on with a part of the grant. Whatever panics, the caller is answered,
// and what it does not have is in the grant.
func (l *clustered) give(m Reserve, r limit.Reservation) {
	lent := &l.cell.lent
	r.Until = lent.end
	before, after := lent.taken, lent.taken.Plus(r.Of())
	handed := false // from then on the ticket gives back what it has
	defer system.OnPanic(func(any) {
		if !handed {
			lent.taken = before
		}
		m.Ticket.Denied(errPanicked(), l.limits())
	})
	lent.taken = after
	l.deps.Hook.At("limiter.reserved")
	handed = true
	if err := m.Ticket.Granted(r, l.limits()); err != nil {
		lent.taken = before
		m.Ticket.Denied(err, l.limits())
		return
	}
	l.deps.Counts.Covered.Add(1)
}

// renewEvery is how long a limiter waits for a grant before it asks again.
const renewEvery = 100 * time.Millisecond

// renew asks for more of a grant before requests like the last have to wait for it: the store goes by what one takes.
func (l *clustered) renew(last limit.Ask, now time.Time) {
	lent := &l.cell.lent
	need := l.cell.pace.need(now)
	if need == (limit.Part{}) || now.Sub(lent.asked) < renewEvery ||
		!lent.short(need) && lent.until.Sub(now) > lent.grant.Life/2 {
		return
	}
	lent.asked = now
	like := limit.Ask{Free: last.Free, Prompt: last.Prompt, OutputMax: last.OutputMax, Upper: last.Upper}
	l.ask(limit.Proposal{Ask: like, AccountID: l.id, Wish: need}, verdict{})
}

// propose asks the store for a request.
func (l *clustered) propose(m Reserve, again bool) {
	handed := false
	defer system.OnPanic(func(any) {
		if !handed {
			m.Ticket.Denied(errPanicked(), l.limits())
		}
	})
	l.deps.Hook.At("limiter.propose")
	p := limit.Proposal{Ask: m.Ask, AccountID: l.id, Wish: l.cell.pace.need(clock.Now())}
	if !m.Ask.Free {
		p.Hold = m.Ticket.HoldRow()
	}
	handed = true
	l.deps.Counts.Proposed.Add(1)
	l.ask(p, verdict{request: m, again: again})
}

// ask sends a proposal; the answer comes as a message, to whoever is the account's limiter by then.
func (l *clustered) ask(p limit.Proposal, answer verdict) {
	tell, id := l.deps.Tell, l.id
	answer.tell = func(v verdict) error { return tell(id, v) }
	err := l.deps.Propose(p, func(v limit.Verdict, asked time.Time, err *abi.Error) {
		answer.Verdict, answer.asked, answer.err = v.By(time.Now()), asked, err
		if answer.tell(answer) != nil {
			answer.Refuse(system.ErrStopped)
		}
	})
	if err == nil {
		l.cell.asking++
		return
	}
	if answer.request.Ticket != nil {
		l.deps.Counts.Failed.Add(1)
		answer.request.Refuse(err)
	}
}

// onVerdict learns what came with a verdict, then answers the request.
func (l *clustered) onVerdict(c *system.Context, m verdict) {
	l.cell.asking--
	l.learn(c, m)
	if m.request.Ticket != nil {
		l.answer(m)
	}
}

// learn takes the grant that came with a verdict. If that panics the verdict is queued again, so that its request is answered by
// the next incarnation; in the end without the grant.
func (l *clustered) learn(c *system.Context, m verdict) {
	if m.err != nil { // the store may have renewed the grant all the same
		l.cell.lent.forget(clock.Now().Add(l.deps.Lease + unsureFor))
	}
	if m.panics == attemptsMax {
		return
	}
	defer system.OnPanic(func(any) {
		if m.request.Ticket != nil {
			m.panics++
			l.cell.asking++
			_ = c.Self().Tell(m) // fails only if the limiter was stopped, which gives it to the next
		}
	})
	l.deps.Hook.At("limiter.verdict")
	if m.err == nil {
		l.adopt(m, clock.Now())
	}
}

// answer tells a request what the store decided, or asks again.
func (l *clustered) answer(m verdict) {
	switch ticket := m.request.Ticket; {
	case m.err != nil:
		l.deps.Counts.Failed.Add(1)
		ticket.Denied(m.err, account.Limits{})
	case m.Refusal == nil:
		l.admit(m)
	case m.Recalled && !m.again:
		tell, id, again := l.deps.Tell, l.id, retry{m.request}
		time.AfterFunc(limit.RecallTime, func() { // this limiter may have retired by then
			if err := tell(id, again); err != nil {
				again.Refuse(err)
			}
		})
	default:
		l.deps.Counts.Refused.Add(1)
		ticket.Denied(m.Refusal, m.Limits)
	}
}

// admit passes a request on with what the store reserved. The ticket gives that back if it does not go on, whatever panics.
func (l *clustered) admit(m verdict) {
	ticket := m.request.Ticket
	defer system.OnPanic(func(any) { ticket.Denied(errPanicked(), m.Limits) })
	r := m.Reservation
	r.Durable, r.Until = true, limit.NewEnd(believed(m.asked, l.deps.Lease))
	if err := ticket.Granted(r, m.Limits); err != nil {
		ticket.Denied(err, m.Limits)
	}
}

// adopt takes the counters and the grant of a verdict.
func (l *clustered) adopt(m verdict, now time.Time) {
	l.cell.counters.Store(&m.Counters)
	known, g := &l.cell.lent, m.Grant
	switch {
	case g == nil:
		l.end()
		return
	case g.Number != known.grant.Number:
		l.end()
		*known = lent{grant: *g, end: limit.NewEnd(believed(m.asked, g.Life))}
		l.deps.Counts.Grants.Add(1)
	default:
		known.grant = *g
	}
	if known.until.IsZero() {
		l.deps.Counts.Held.Add(1)
	}
	known.until = believed(m.asked, g.Life)
	known.end.Rise(known.until)
	known.forget(now.Add(g.Life))
	if g.Wanted || m.asked.Before(l.cell.changed) { // or an operator has changed what it is a part of
		l.giveBack(g.Wanted)
	}
}

// unsureFor bounds how long after an error the store may still do what it was asked.
const unsureFor = time.Minute

// graceOfLife is the part of a grant's life in which its node does not believe in it any more.
const graceOfLife = 10

// believed is until when a node believes in what the store gave it for some time, when it was
// asked at that time.
func believed(asked time.Time, life time.Duration) time.Time {
	return asked.Add(life - life/graceOfLife)
}

// forget says that the store may have renewed the grant so that it ends at a time: until then it is known what
// was taken of it.
func (l *lent) forget(over time.Time) {
	if l.over.Before(over) {
		l.over = over
	}
}

// end stops to believe in the grant. What was taken of it stays known: the store may renew it.
func (l *clustered) end() {
	lent := &l.cell.lent
	if !lent.until.IsZero() {
		lent.until = time.Time{}
		l.deps.Counts.Held.Add(-1)
	}
}

// giveBack gives the store what nobody has of the grant. Where that is wanted the store is told that it is
// nothing, too: else it would not renew the grant.
func (l *clustered) giveBack(wanted bool) {
	lent := &l.cell.lent
	if lent.until.IsZero() {
		return
	}
	defer l.end() // the store may renew it
	left := lent.left()
	if left == (limit.Part{}) && !wanted {
		return
	}
	if left != (limit.Part{}) {
		l.deps.Counts.Returned.Add(1)
	}
	lent.taken, lent.returned = lent.taken.Plus(left), lent.returned.Plus(left)
	l.deps.Return(limit.Return{AccountID: l.id, Number: lent.grant.Number, Part: lent.returned})
}

// unused puts back into the grant what a request does not need. Of a grant that ended it is nothing.
func (l *clustered) unused(c *system.Context, m Unused) {
	defer system.OnPanic(func(any) {
		if m.panics++; m.panics < attemptsMax {
			_ = c.Self().Tell(m) // fails only if the limiter was stopped: then the grant ends by itself
		}
	})
	l.deps.Hook.At("limiter.unused")
	if lent := &l.cell.lent; lent.grant.Number == m.Number {
		lent.taken = lent.taken.Minus(m.Part)
	}
}

// idleFor is how long an account has asked for nothing when its grant is given back.
const idleFor = grantWindows * paceWindow

// sweep gives an idle grant back, forgets one that is over, and says whether the limiter may go.
func (l *clustered) sweep(now time.Time) (retire bool) {
	cell := l.cell
	if !now.Before(cell.lent.until) {
		l.end()
	}
	if now.Sub(cell.pace.latest) < idleFor {
		return false
	}
	l.giveBack(false)
	if cell.asking > 0 { // the store may have renewed the grant, for which over is the answer's
		return false
	}
	if !now.Before(cell.lent.over) {
		l.end()
		cell.lent = lent{}
	}
	return cell.lent.grant.Number == 0
}

// limits is what the headers of an answer say that the store did not decide on: what the
// store knew last, and what is left of the grant.
func (l *clustered) limits() account.Limits {
	now := time.Now()
	c := l.cell.counters.Load()
	if c == nil {
		return account.Limits{}
	}
	limits := c.Limits(now)
	left := l.cell.lent.left()
	limits.RequestsRemaining = min(limits.RequestsRemaining+left.Permits, limits.RequestsLimit)
	limits.TokensRemaining = min(limits.TokensRemaining+left.Tokens, limits.TokensLimit)
	return limits
}
