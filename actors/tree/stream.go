package tree

import (
	"errors"
	"time"

	"corenode/engine"
)

// Stream is an admitted request. Its owner writes the events of Output until one
// ends the answer, and settles it exactly once, however it ended.
type Stream struct {
	// Output receives the events, the last of them EventEnd or EventError.
	Output *engine.Output
	f      *flight
}

// Held receives once: nil when the money of the request is durably reserved, or
// why it is not. The first byte of output must not leave before that. After an
// error, Cancel and Settle; the request is free.
func (s *Stream) Held() <-chan error { return s.f.held }

// Cancel ends the request: its client is gone. The engine lets go of it within a
// step, and then its permit is free, whatever the writer does. It may be called
// at any time and again.
func (s *Stream) Cancel() { s.f.cancel() }

// Fail says that the answer, which was to come in one piece, will not be written:
// its client gets an error of ours instead and pays nothing. It comes before Cancel and Settle.
func (s *Stream) Fail() { s.f.unwritten.Store(true) }

// Settle waits for the end of the request, bills it, waits until its settlement
// is durable and gives back what the request held. Every call returns the same.
// After an error nothing more of the answer may leave: a finished request whose
// hold failed has one, too.
// When the ledger takes longer than SettleWait, the error says so and the
// settlement goes on without the caller.
func (s *Stream) Settle() (Settled, error) {
	f := s.f
	<-f.done
	f.settle()
	select { // the usual case needs no timer
	case <-f.settledCh:
		return f.settled, f.settleErr
	default:
	}
	timer := time.NewTimer(f.t.cfg.SettleWait)
	defer timer.Stop()
	select {
	case <-f.settledCh:
		return f.settled, f.settleErr
	case <-timer.C:
		f.leave(f.result.Usage)
		return Settled{}, overloaded("tree.Settle", errors.New("the ledger is slow"))
	}
}
