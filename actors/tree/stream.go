package tree

import (
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
)

// Stream is an admitted request. Its owner writes the events of Output until one
// ends the answer, and settles it, however it ended. Who has canceled it need not: the tree does.
type Stream struct{ r *request }

// Output receives the events, the last of them EventEnd or EventError.
func (s *Stream) Output() *engine.Output { return s.r.job.Output }

// Held receives once: nil when the money of the request is durably reserved, or
// why it is not. The first byte of output must not leave before that. After an
// error, Withhold, Cancel and Settle.
func (s *Stream) Held() <-chan error { return s.r.hold.told }

// Cancel ends the request: its client is gone. The engine lets go of it within a
// step, and then its permit is free, whatever the writer does. An answer that is
// complete but not settled is settled as canceled. It may be called at any time
// and again.
func (s *Stream) Cancel() {
	s.r.givenUp.Store(true)
	s.r.cancel()
}

// Shown says that content of the answer has left. Before that no checkpoint is written: a crash
// costs who was shown nothing nothing. It may be called again.
func (s *Stream) Shown() { s.r.shown.Store(true) }

// Withhold says that the client gets an error of ours instead of the answer, and
// pays nothing for it, whatever was computed. It may come at any time, and again.
// The channel is closed when that is certain: at once before a settlement is on
// its way; else when it was withdrawn, or a refund behind it is durable. Until then
// no error may leave. It never is when the ledger ends before.
func (s *Stream) Withhold() <-chan struct{} { return s.r.withhold() }

// Done is closed when the job has ended: the engine has let go of it.
func (s *Stream) Done() <-chan struct{} { return s.r.done }

// Settle waits for the end of the job, bills it and sends its settlement. The
// channel is closed when Outcome is known: the settlement is durable, or never
// will be. The request keeps its permit for SettleWait of that. It may be called again.
func (s *Stream) Settle() <-chan struct{} {
	r := s.r
	<-r.done
	r.settle()
	select {
	case <-r.settledCh: // the usual case needs no clock
	default:
		now := time.Now()
		r.awaitedAt.CompareAndSwap(nil, &now)
	}
	return r.settledCh
}

// Outcome is how the request ended; Settle's channel says when. After an error
// nothing more of the answer may leave: a finished request whose hold failed has one, too.
func (s *Stream) Outcome() (account.Settled, error) {
	settled := s.r.settled
	if s.r.bill.isWithheld() {
		settled.Usage, settled.Reason = abi.Usage{}, account.Failed
	}
	settled.Charge, _, _ = s.r.bill.charge()
	return settled, s.r.settleErr
}

// Stopped is the error of a request that an operator cancelled, nil of others.
func (s *Stream) Stopped() *abi.Error {
	if s.r.stopped.Load() {
		return errOperator()
	}
	return nil
}
