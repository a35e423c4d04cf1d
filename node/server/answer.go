package server

import (
	"sync"
	"sync/atomic"
	"time"

	"corenode/actors/account"
	"corenode/wasm/abi"
)

// answer is an admitted request on its way out. It belongs to the connection's
// goroutine; the watcher only closes gone and cancels. Invariant: it is
// settled, whatever happens, since every path ends in close.
type answer struct {
	x       *exchange
	stream  Stream
	dialect dialect
	events  []abi.Event
	shown   []abi.Event // of events, what has passed the filter
	facts   abi.Facts   // that modules may show of it

	gone chan struct{} // closed by the watcher when the client has left
	lost atomic.Bool   // set before gone is closed
	seen *watch

	// ending is closed when the engine has let go of an answer that is complete; nil before, and once that was seen.
	ending <-chan struct{}
	// settling is closed when the outcome is known of an answer that the engine has let go of; nil before.
	settling <-chan struct{}
	settled  bool
}

// open begins to watch the client. From here on the stream is settled by close. The translation learns here, and not
// before, that the answer is a stream: until then its errors are bodies. What follows the first line may panic.
func (a *answer) open(x *exchange, stream Stream, model string) {
	a.x, a.stream, a.gone = x, stream, make(chan struct{})
	a.dialect, a.facts = x.dialectOf(model), x.answerFacts(model)
	if x.translation != nil {
		x.translation.SetFacts(a.facts)
	}
	a.seen = x.s.watcher.add(x.conn.socket, a.left)
}

// left runs on the watcher, at most once. The write deadline wakes a writer
// that waits for a reader who is not coming back.
func (a *answer) left() {
	a.lost.Store(true)
	close(a.gone)
	a.stream.Cancel()
	if a.x.stream {
		_ = a.x.conn.SetWriteDeadline(time.Unix(1, 0)) // fails only on a closed connection
	}
}

// free says whether an answer that ends early costs nothing, whatever was computed: its client gets an error of that kind
// instead. Who has seen content of it pays, and whose time is over.
func free(kind abi.Kind, shown bool) bool { return !shown && kind != abi.Timeout }

// leave ends an answer that nobody waits for: who left pays what was computed. A step may take long, and log and metrics say what
// came of it, so it waits for the engine until a drain wants the end.
func (a *answer) leave() {
	a.stream.Cancel()
	if !a.settled {
		select {
		case <-a.stream.Done():
		case <-a.x.s.life.Done():
		}
	}
	a.cancel(false)
}

// cancel ends an answer that is not finished, or that must not leave. It waits for the
// engine and the ledger at most LedgerWait in all. With withhold the client gets an error and pays nothing;
// certain says that this will stay so.
func (a *answer) cancel(withhold bool) (certain bool) {
	var withheld <-chan struct{}
	if withhold {
		withheld = a.stream.Withhold()
	}
	a.stream.Cancel()
	timer := startTimer(a.x.s.cfg.LedgerWait)
	defer stopTimer(timer)
	if !a.settled && !a.settleBy(timer.C) {
		timer.Reset(0)
	}
	if !withhold {
		return true
	}
	select { // the usual case is certain, whatever the timer says
	case <-withheld:
		return a.freed()
	default:
	}
	select {
	case <-withheld:
		return a.freed()
	case <-timer.C:
		return a.unrefunded()
	}
}

// settleBy settles what was canceled. It is false when the time is over before the outcome is known: the engine may hang
// in a step, or the ledger. Whoever canceled a stream need not settle it.
func (a *answer) settleBy(late <-chan time.Time) bool {
	a.settled = true
	select {
	case <-a.stream.Done():
	case <-late:
		return false
	}
	select {
	case <-a.settle():
		a.x.settled, _ = a.stream.Outcome() // its error is the ledger's to report
		a.x.settleEnded = time.Now()
		return true
	case <-late:
		return false
	}
}

// complete notes that the last event is there. The engine may be in a step yet, and lets go of the job behind it.
func (a *answer) complete(stop abi.StopReason) {
	a.x.finish, a.x.settleBegan, a.ending = stop, time.Now(), a.stream.Done()
}

// settle begins to settle a job that has ended; the channel is closed when the outcome is known.
func (a *answer) settle() <-chan struct{} {
	if a.x.settleBegan.IsZero() {
		a.x.settleBegan = time.Now()
	}
	return a.stream.Settle()
}

// freed notes for the log that the request costs nothing, where it is known what came of it.
func (a *answer) freed() bool {
	if a.x.settled.Reason != "" {
		a.x.settled.Charge, a.x.settled.Usage, a.x.settled.Reason = 0, abi.Usage{}, account.Failed
	}
	return true
}

// unrefunded tells that a request was charged although its client has no answer:
// an operator has to look after it.
func (a *answer) unrefunded() bool {
	a.x.s.metrics.unrefunded.Inc()
	a.x.s.log.Error("a charge was not taken back: the ledger is unavailable", "id", a.x.id, "account", a.x.who.Account.ID)
	return false
}

// close ends watching and settles what was not settled: after a panic, or when
// the headers of a stream could not be written.
func (a *answer) close() {
	defer func() {
		a.stream.Output().Close(a.events)
		a.events = nil
	}()
	if a.seen != nil {
		a.x.s.watcher.remove(a.seen)
	}
	if a.settled {
		return
	}
	if a.x.streamed { // and nothing of it was written: its client has left
		a.leave()
	} else if certain := a.cancel(true); !certain { // what has panicked is a 500
		a.x.hangUp()
	}
	if !a.x.failed {
		a.x.note(errGone())
		a.x.status = statusClientClosed
	}
}

// failure is the error of a stream's EventError. One that says cancelled when
// the client is there is an operator's doing, or a node that stops.
func (a *answer) failure(e *abi.Error) *abi.Error {
	switch {
	case e == nil:
		return &abi.Error{Kind: abi.Internal, Op: "server.stream", Msg: "internal error"}
	case e.Kind != abi.Canceled || a.lost.Load():
		return e
	}
	if stopped := a.stream.Stopped(); stopped != nil {
		return stopped
	}
	return &abi.Error{Kind: abi.Overloaded, Op: e.Op, Msg: "the request was stopped by the node; retry", RetryAfter: time.Second, Err: e}
}

// outcome notes how a finished answer was settled.
func (a *answer) outcome() *abi.Error {
	settled, err := a.stream.Outcome()
	a.settled, a.x.settled, a.x.settleEnded = true, settled, time.Now()
	if err != nil {
		return abi.AsError(err)
	}
	return nil
}

// timers holds stopped ones: every request needs one that almost never fires.
var timers sync.Pool

func startTimer(d time.Duration) *time.Timer {
	if t, ok := timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// stopTimer takes a timer that nobody reads any more.
func stopTimer(t *time.Timer) {
	t.Stop()
	timers.Put(t)
}

// errGone is a client that left.
func errGone() *abi.Error {
	return &abi.Error{Kind: abi.Canceled, Op: "server.watch", Msg: "the client closed the connection"}
}
