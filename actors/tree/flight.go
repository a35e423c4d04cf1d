package tree

import (
	"errors"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/ledger"
	"corenode/actors/limiter"
	"corenode/actors/session"
	"corenode/engine"
	"corenode/wasm/abi"
)

// The phases of a flight: it waits for an answer, then is decided once.
const (
	waiting   int32 = iota
	accepted        // the caller has been told yes
	refused         // the caller has been told no
	abandoned       // the caller stopped waiting
)

// reply is the one answer to a caller.
type reply struct {
	state limiter.State
	err   *abi.Error
}

// flight is one request on its way through the tree: limiter, session, batcher,
// and back to the caller. The message that carries it owns it; its atomic fields may be read by anyone.
//
// Invariant: whatever the limiter granted is given back exactly once, by leave
// (permit, tokens) and giveBack (money); the flight is registered until both are on their way.
type flight struct {
	t       *Tree
	call    Call
	ask     limiter.Ask
	quote   Quote // of a request with a job; closed when the flight is removed
	model   *model
	key     session.Key
	began   time.Time
	expires time.Time // of its reservation
	lostAt  time.Time // when it must have been decided

	phase atomic.Int32
	reply chan reply // has room for one

	// reservation and state are written by the limiter before granted is set.
	reservation limiter.Reservation
	state       limiter.State
	granted     atomic.Bool
	left        atomic.Bool // permit and tokens are on their way back
	paid        atomic.Bool // so is the hold

	job engine.Job
	// generation is written on the step loop before the job can finish; result
	// and admitted before done is closed.
	generation uint64
	admitted   time.Time
	result     engine.Result
	done       chan struct{} // closed when the job has ended
	doneAt     atomic.Int64  // when, in Unix nanoseconds; 0 before
	cancelled  atomic.Bool   // by the client or the tree

	holdSent atomic.Bool   // a hold row is or was on its way
	held     chan error    // what Stream.Held gives out; has room for one
	holdDone chan struct{} // closed when holdErr is known
	holdErr  *abi.Error
	// holdRefused says that the store never saw the hold.
	holdRefused bool
	checkpoint  atomic.Pointer[abi.Usage]

	settling  atomic.Bool
	awaitedAt atomic.Int64  // when its owner began to wait for the settlement, in Unix nanoseconds; 0 before
	settledCh chan struct{} // closed when settled and settleErr are known
	settled   Settled
	settleErr error
	bill      bill
}

// admission, turn and ticket are a flight as the three actors see it.
type (
	admission flight
	turn      flight
	ticket    flight
)

// Granted takes what the limiter reserved and goes on to the session.
func (a *admission) Granted(r limiter.Reservation, st limiter.State) *abi.Error {
	f := (*flight)(a)
	f.reservation, f.state = r, st
	f.granted.Store(true)
	if err := f.forward(); err != nil {
		f.granted.Store(false) // the limiter takes it back itself
		return err
	}
	return nil
}

// forward passes a granted flight on; one that takes no model is through.
func (f *flight) forward() *abi.Error {
	if f.ask.Free {
		if f.decide(accepted, reply{state: f.state}) {
			return nil
		}
		return errGone()
	}
	if f.phase.Load() != waiting {
		return errGone()
	}
	if f.t.sessions.Send(f.key, session.Turn{Ticket: (*turn)(f)}) != nil {
		return (*turn)(f).Enqueue() // no session can take it: it goes on without one
	}
	return nil
}

// Refused ends a flight in the limiter.
func (a *admission) Refused(err *abi.Error, st limiter.State) { (*flight)(a).refuse(err, st) }

// Enqueue goes on to the batcher.
func (u *turn) Enqueue() *abi.Error {
	f := (*flight)(u)
	if err := f.model.ref.Send(batcher.Enqueue{Ticket: (*ticket)(f)}); err != nil {
		return f.model.refusal(err)
	}
	return nil
}

// Refused ends a flight in the session.
func (u *turn) Refused(err *abi.Error) { (*flight)(u).refuse(err, u.state) }

// Job returns what the stepper is to compute.
func (k *ticket) Job() *engine.Job { return &k.job }

// Gone says that the caller stopped waiting.
func (k *ticket) Gone() bool { return k.phase.Load() != waiting }

// Accepted tells the caller that its stream runs. One that is gone by now is cancelled.
func (k *ticket) Accepted(generation uint64) {
	f := (*flight)(k)
	f.generation = generation
	f.admitted = time.Now()
	if !f.decide(accepted, reply{state: f.state}) {
		f.cancelled.Store(true)
		f.job.Cancel()
	}
}

// Refused ends a flight in the batcher.
func (k *ticket) Refused(err *abi.Error) { (*flight)(k).refuse(err, k.state) }

// decide answers the caller unless that was done before.
func (f *flight) decide(phase int32, r reply) bool {
	if !f.phase.CompareAndSwap(waiting, phase) {
		return false
	}
	f.reply <- r
	return true
}

// refuse ends a flight that never ran: what was granted goes back before the
// answer, so that a caller who tries again at once finds it free.
func (f *flight) refuse(err *abi.Error, st limiter.State) {
	won := f.phase.CompareAndSwap(waiting, refused)
	if !won && f.phase.Load() == accepted {
		return // it runs; its end gives everything back
	}
	f.giveBack(abi.Usage{}, 0, 0)
	f.t.requests.remove(f)
	if won {
		f.reply <- reply{st, err}
	}
}

// leave gives the permit back and corrects the tokens to what was used, once.
func (f *flight) leave(u abi.Usage) {
	if f.granted.Load() && f.left.CompareAndSwap(false, true) {
		m := f.leaving(u)
		f.t.tellLimiter(f.call.Account.ID, func(lost func()) limiter.Message { m.Lost = lost; return m })
	}
}

func (f *flight) leaving(u abi.Usage) limiter.Leave {
	used := u.InputUncached + u.CacheWrite + u.Output
	if f.t.cfg.CountCached {
		used += u.CacheRead
	}
	return limiter.Leave{RequestID: f.ask.RequestID, Taken: f.reservation.Tokens, Used: used}
}

// giveBack gives back the hold, with what was settled in commit seq, and what
// leave does unless that was done before: both in one message.
func (f *flight) giveBack(u abi.Usage, amount abi.Nano, seq uint64) {
	if !f.granted.Load() || !f.paid.CompareAndSwap(false, true) || f.ask.Free {
		f.leave(u)
		return
	}
	settle := limiter.Settle{RequestID: f.ask.RequestID, Amount: amount, Seq: seq}
	if !f.left.CompareAndSwap(false, true) {
		f.t.tellLimiter(f.call.Account.ID, func(lost func()) limiter.Message { settle.Lost = lost; return settle })
		return
	}
	t, id := f.t, f.call.Account.ID
	again := func(m limiter.Message) { _ = t.limits.Tell(id, m) } // fails only when the whole tree stops
	again(limiter.End{Leave: f.leaving(u), Settle: settle, Again: again})
}

// live is what a restarted limiter is told of the flight.
func (f *flight) live() (limiter.Live, bool) {
	if !f.granted.Load() {
		return limiter.Live{}, false
	}
	l := limiter.Live{RequestID: f.ask.RequestID, Permit: !f.left.Load(), Arrival: f.reservation.Arrival}
	if !f.paid.Load() {
		l.Hold, l.Upper = f.reservation.Hold, f.ask.Upper
	}
	return l, l.Permit || l.Upper != 0 // a hold of 0 may be short of all it needs
}

// finished is the job's Finished: it runs on the step loop and does not wait.
func (f *flight) finished(r engine.Result) {
	f.result = r
	if r.Handle != (engine.Handle{}) {
		f.keep(batcher.Pin{Handle: r.Handle, Generation: f.generation})
	}
	f.doneAt.Store(time.Now().UnixNano())
	close(f.done)
	if f.cancelled.Load() || f.phase.Load() != accepted {
		f.selfSettle()
	}
}

// keep hands the pin of the finished turn to the session.
func (f *flight) keep(p batcher.Pin) {
	m := session.Finished{Pin: p, Model: f.call.Request.Model, Account: f.call.Account.ID,
		Bytes: int64(f.result.Computed) * f.model.pinBytes,
		Lost:  func() { f.t.release(f.call.Request.Model, p) }}
	if f.t.sessions.Tell(f.key, m) != nil {
		m.Lost()
	}
}

// cancel ends the flight's job; its permit is given back when the step loop has
// let go of it, without waiting for a writer.
func (f *flight) cancel() {
	f.cancelled.Store(true)
	f.job.Cancel()
	f.model.unit.Wake()
	if f.doneAt.Load() != 0 {
		f.selfSettle()
	}
}

// selfSettle settles for an owner that is gone.
func (f *flight) selfSettle() {
	f.leave(f.result.Usage)
	if !f.settling.Load() {
		f.t.background.Go(f.settle)
	}
}

// hold sends the hold row to the ledger. Called once, by Generate.
func (f *flight) hold() *abi.Error {
	f.holdSent.Store(true)
	e := f.entry(account.Hold)
	e.Held, e.Time, e.ModuleDigest, e.Provisional = f.reservation.Hold, f.began, f.quote.Module(), f.quote.Provisional()
	if err := f.t.ledger.Send(ledger.Append{Entry: e, Done: f.holdLanded}); err != nil {
		f.holdSent.Store(false)
		return unrecorded("tree.hold", err)
	}
	return nil
}

// holdLanded is called by the ledger, once.
func (f *flight) holdLanded(c ledger.Commit) {
	f.holdErr, f.holdRefused = c.Err, c.Refused
	close(f.holdDone) // before anyone can settle because of it
	if c.Err != nil {
		f.held <- c.Err
	} else {
		f.held <- nil // a nil *abi.Error would not be a nil error
	}
}

// holdFate is what is known of a hold when its request settles.
type holdFate uint8

const (
	// holdPending: on its way. No output has left a stream yet, and a request that
	// does not stream needs none: the settlement, which may take the hold's place
	// in the ledger, is durable before its answer.
	holdPending holdFate = iota
	holdDurable
	holdFailed  // the store may have the row or not
	holdRefused // the store never saw it
)

func (f *flight) holdFate() holdFate {
	if !f.holdSent.Load() {
		return holdRefused
	}
	select {
	case <-f.holdDone:
	default:
		return holdPending
	}
	switch {
	case f.holdErr == nil:
		return holdDurable
	case f.holdRefused:
		return holdRefused
	}
	return holdFailed
}

// entry returns a row with what all rows of the request share.
func (f *flight) entry(k account.EntryKind) account.Entry {
	return account.Entry{Kind: k, AccountID: f.call.Account.ID, RequestID: f.call.RequestID, KeyID: f.call.KeyID,
		Model: f.call.Request.Model, Time: time.Now()}
}

func errGone() *abi.Error {
	return &abi.Error{Kind: abi.Canceled, Op: "tree.forward", Msg: "the request was given up"}
}

func errNoHold() *abi.Error {
	return unrecorded("tree.settle", errors.New("the request has no hold"))
}

// unrecorded is the error of a request that the ledger did not record.
func unrecorded(op string, err error) *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: op, RetryAfter: time.Second,
		Msg: "the ledger is unavailable; try again", Err: err}
}

func overloaded(op string, err error) *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: op, RetryAfter: time.Second,
		Msg: "the node has too many waiting requests; try again", Err: err}
}
