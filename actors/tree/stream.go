package tree

import (
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/wasm/abi"
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
// error, Withhold, Cancel and Settle.
func (s *Stream) Held() <-chan error { return s.f.held }

// Cancel ends the request: its client is gone. The engine lets go of it within a
// step, and then its permit is free, whatever the writer does. It may be called
// at any time and again.
func (s *Stream) Cancel() { s.f.cancel() }

// Withhold says that the client gets an error of ours instead of the answer, and
// pays nothing for it, whatever was computed. It may come at any time, and again.
// The channel is closed when that is certain: at once before a settlement is on
// its way; else when it was withdrawn, or a refund behind it is durable. Until then
// no error may leave. It never is when the ledger ends before.
func (s *Stream) Withhold() <-chan struct{} { return s.f.withhold() }

// Settle waits for the end of the request, bills it and sends its settlement. The
// channel is closed when Outcome is known: the settlement is durable, or never
// will be. The request keeps its permit for SettleWait of that. It may be called again.
func (s *Stream) Settle() <-chan struct{} {
	f := s.f
	<-f.done
	f.settle()
	select {
	case <-f.settledCh: // the usual case needs no clock
	default:
		f.awaitedAt.CompareAndSwap(0, time.Now().UnixNano())
	}
	return f.settledCh
}

// Outcome is how the request ended; Settle's channel says when. After an error
// nothing more of the answer may leave: a finished request whose hold failed has one, too.
func (s *Stream) Outcome() (Settled, error) {
	settled := s.f.settled
	if s.f.bill.isWithheld() {
		settled.Usage, settled.Reason = abi.Usage{}, account.Failed
	}
	settled.Charge = s.f.bill.charge()
	return settled, s.f.settleErr
}
