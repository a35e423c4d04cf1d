package tree

import (
	"errors"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/actors/batcher"
	"corenode/actors/clock"
	"corenode/actors/ledger"
	"corenode/actors/limit"
	"corenode/actors/limiter"
	"corenode/actors/session"
	"corenode/actors/system"
	"corenode/engine"
	"corenode/wasm/abi"
)

// The phases of a request: it waits for an answer, then is decided once.
const (
	waiting   int32 = iota
	accepted        // the caller has been told yes
	refused         // the caller has been told no
	abandoned       // the caller stopped waiting
)

// reply is the one answer to a caller.
type reply struct {
	limits account.Limits
	err    *abi.Error
}

// request is one request on its way through the tree: limiter, session, batcher,
// and back to the caller. It is the Ticket of all three. The message that carries it owns it; its atomic fields may be read by anyone.
//
// Invariant: whatever the limiter granted is given back exactly once, by leave
// (permit, tokens) and giveBack (money); the request is registered until both are on their way.
type request struct {
	t       *Tree
	call    account.Call
	ask     limit.Ask
	quote   Quote // of a request with a job; closed when the request is removed
	billing string
	model   *model
	key     session.Key
	began   time.Time
	// quoteTook and verdictTook are how long billing and the admission policy were asked.
	quoteTook, verdictTook time.Duration

	expires time.Time // of its reservation
	lostAt  time.Time // when it must have been decided

	phase atomic.Int32
	reply chan reply // has room for one

	// reservation and limits are written by the limiter before granted is set.
	reservation limit.Reservation
	limits      account.Limits
	granted     atomic.Bool
	left        atomic.Bool // permit and tokens are on their way back
	paid        atomic.Bool // so is the hold

	job engine.Job
	// incarnation is written on the step loop before the job can finish; result
	// and admitted before done is closed.
	incarnation uint64
	admitted    time.Time
	result      engine.Result
	done        chan struct{}             // closed when the job has ended
	doneAt      atomic.Pointer[time.Time] // when; nil before
	canceled    atomic.Bool               // by the client or the tree
	givenUp     atomic.Bool               // by its owner: no answer leaves but what has left
	stopped     atomic.Bool               // by an operator

	hold       hold
	shown      atomic.Bool // content of its answer has left
	checkpoint atomic.Pointer[abi.Usage]

	settling  atomic.Bool
	awaitedAt atomic.Pointer[time.Time] // when its owner began to wait for the settlement; nil before
	settledCh chan struct{}             // closed when settled and settleErr are known
	settled   account.Settled
	settleErr error
	bill      bill
}

// Granted takes what the limiter reserved and goes on to the session.
func (r *request) Granted(got limit.Reservation, l account.Limits) *abi.Error {
	r.reservation, r.limits = got, l
	if got.Durable && !r.ask.Free { // the store wrote its hold when it admitted it
		r.hold.begin()
		r.hold.committed(ledger.Commit{})
	}
	r.granted.Store(true)
	err := r.begin()
	switch {
	case err == nil || got.Durable:
		return err
	case !r.left.CompareAndSwap(false, true):
		return nil // who refused it meanwhile has given all back: the limiter must not do that, too
	}
	r.granted.Store(false) // the limiter takes it back itself
	return err
}

// begin passes a granted request on, unless it was granted too long ago: the process may have been stopped since.
func (r *request) begin() *abi.Error {
	if err := r.overdue("tree.begin"); err != nil {
		return err
	}
	return r.forward()
}

// overdue is why a request does not go on whose grant or verdict has ended: others may count what it has as free.
func (r *request) overdue(op string) *abi.Error {
	if r.reservation.Until.Passed(clock.Now()) {
		return system.LedgerUnavailable(op, errors.New("its grant or verdict is too old"))
	}
	return nil
}

// forward passes a granted request on; one that takes no model is through.
func (r *request) forward() *abi.Error {
	if r.ask.Free {
		if r.decide(accepted, reply{limits: r.limits}) {
			return nil
		}
		return errGone()
	}
	if r.phase.Load() != waiting {
		return errGone()
	}
	if !r.job.Pin || r.t.sessions.Send(r.key, session.Turn{Ticket: r}) != nil {
		return r.Enqueue() // there is nothing to keep, or no session can take it: it goes on without one
	}
	return nil
}

// Denied ends a request in the limiter.
func (r *request) Denied(err *abi.Error, l account.Limits) { r.refuse(err, l) }

// Enqueue goes on from the session to the batcher.
func (r *request) Enqueue() *abi.Error {
	if err := r.model.ref.Send(batcher.Enqueue{Ticket: r}); err != nil {
		return r.model.refusal(err)
	}
	return nil
}

// Refused ends a request in the session or the batcher.
func (r *request) Refused(err *abi.Error) { r.refuse(err, r.limits) }

// Job returns what the stepper is to compute.
func (r *request) Job() *engine.Job { return &r.job }

// Gone says that the caller stopped waiting. One that a grant covered is told no here when that has ended: it has no hold yet.
func (r *request) Gone() bool {
	if !r.reservation.Durable {
		if err := r.overdue("tree.Gone"); err != nil {
			r.decide(refused, reply{r.limits, err})
		}
	}
	return r.phase.Load() != waiting
}

// Accepted tells the caller that its stream runs. One that is gone by now is canceled.
func (r *request) Accepted(incarnation uint64) {
	r.incarnation = incarnation
	r.admitted = time.Now()
	if !r.decide(accepted, reply{limits: r.limits}) {
		r.canceled.Store(true)
		r.job.Cancel()
	}
}

// decide answers the caller unless that was done before.
func (r *request) decide(phase int32, answer reply) bool {
	if !r.phase.CompareAndSwap(waiting, phase) {
		return false
	}
	r.reply <- answer
	return true
}

// refuse ends a request that never ran: what was granted goes back before the
// answer, so that a caller who tries again at once finds it free.
func (r *request) refuse(err *abi.Error, l account.Limits) {
	won := r.phase.CompareAndSwap(waiting, refused)
	if !won && r.phase.Load() == accepted {
		return // it runs; its end gives everything back
	}
	if !r.t.clustered() {
		r.giveBack(abi.Usage{}, limit.Settle{})
	}
	if !r.t.clustered() || !r.undo() {
		r.t.requests.remove(r)
	}
	if won {
		r.reply <- reply{l, err}
	}
}

// leave gives the permit back and corrects the tokens to what was used, once.
func (r *request) leave(u abi.Usage) {
	if r.t.clustered() {
		r.leaveClustered(u)
	} else if r.granted.Load() && r.left.CompareAndSwap(false, true) {
		tell := r.t.limiterOf(r.call.Account.ID)
		tell(limiter.Back{Leaves: true, Leave: r.leaving(u), Again: tell})
	}
}

// taken is what a request that has ended took of its limits: its usage, and what may have been computed besides.
func (r *request) taken() abi.Usage {
	u := r.result.Usage
	u.InputUncached += r.result.Untold
	return u
}

func (r *request) leaving(u abi.Usage) limit.Leave {
	used := u.InputUncached + u.CacheWrite + u.Output
	if r.t.cfg.CountCached {
		used += u.CacheRead
	}
	return limit.Leave{RequestID: r.ask.RequestID, Taken: r.reservation.Tokens, Used: used,
		Key: r.ask.Key, KeyTaken: r.reservation.KeyTokens}
}

// giveBack gives back the hold, with what was settled of it, and what leave does unless that was
// done before: both in one message.
func (r *request) giveBack(u abi.Usage, settle limit.Settle) {
	if !r.granted.Load() || r.ask.Free || !r.t.requests.pay(r) {
		r.leave(u)
		return
	}
	settle.RequestID, settle.KeyID = r.ask.RequestID, r.ask.Key.ID
	tell := r.t.limiterOf(r.call.Account.ID)
	m := limiter.Back{Settles: true, Settle: settle, Seen: func() { r.t.requests.seen(r) }, Again: tell}
	if r.left.CompareAndSwap(false, true) {
		m.Leaves, m.Leave = true, r.leaving(u)
	}
	tell(m)
}

// live is what a restarted limiter is told of the request. untold: no limiter has seen its
// settlement yet.
func (r *request) live(untold bool) (limit.Live, bool) {
	if !r.granted.Load() {
		return limit.Live{}, false
	}
	l := limit.Live{RequestID: r.ask.RequestID, Permit: !r.left.Load(), Arrival: r.reservation.Arrival, KeyID: r.ask.Key.ID}
	if untold || !r.paid.Load() {
		l.Hold, l.Upper, l.Counters = r.reservation.Hold, r.reservation.Upper, r.reservation.Counters
		l.KeyHold = r.reservation.KeyHold
	}
	return l, l.Permit || l.Upper != 0 || len(l.Counters) > 0 // a hold of 0 may be short of all it needs
}

// finished is the job's Finished: it runs on the step loop and does not wait.
func (r *request) finished(result engine.Result) {
	r.result = result
	if result.Handle != (engine.Handle{}) {
		r.keep(batcher.Pin{Handle: result.Handle, Incarnation: r.incarnation})
	}
	now := time.Now()
	r.doneAt.Store(&now)
	close(r.done)
	if r.canceled.Load() || r.phase.Load() != accepted {
		r.selfSettle()
	}
}

// keep hands the pin of the finished turn to the session.
func (r *request) keep(p batcher.Pin) {
	m := session.Finished{Pin: p, Model: r.call.Request.Model, Account: r.job.Account,
		Bytes: int64(r.result.Computed) * r.model.pinBytes,
		Lost:  func() { r.t.release(r.call.Request.Model, p) }}
	if r.t.sessions.Tell(r.key, m) != nil {
		m.Lost()
	}
}

// cancel ends the request's job; its permit is given back when the step loop has
// let go of it, without waiting for a writer.
func (r *request) cancel() {
	r.canceled.Store(true)
	r.job.Cancel()
	r.model.unit.Wake()
	if r.doneAt.Load() != nil {
		r.selfSettle()
	}
}

// selfSettle settles for an owner that is gone.
func (r *request) selfSettle() {
	if !r.t.clustered() { // there the settlement gives all back
		r.leave(r.taken())
	}
	if !r.settling.Load() {
		r.t.background.Go(r.settle)
	}
}

// entry returns a row with what all rows of the request share.
func (r *request) entry(k account.EntryKind) account.Entry {
	return account.Entry{Kind: k, AccountID: r.call.Account.ID, RequestID: r.call.RequestID, KeyID: r.call.Key.ID,
		Model: r.call.Request.Model, Time: time.Now().Add(r.t.cfg.ClockOff)}
}

// beganAt is when the request began, as rows and modules are told.
func (r *request) beganAt() time.Time { return r.began.Add(r.t.cfg.ClockOff) }

func errGone() *abi.Error {
	return &abi.Error{Kind: abi.Canceled, Op: "tree.forward", Msg: "the request was given up"}
}
