package server

import (
	"time"

	"corenode/wasm/abi"
)

// plain answers a request that does not stream.
func (x *exchange) plain(stream Stream, model string) {
	a := &answer{}
	defer a.close()
	a.open(x, stream, model)
	a.wait()
}

// wait waits for all events, then for the engine and the ledger, or for the clock, or the client's leaving.
func (a *answer) wait() {
	x := a.x
	var body []byte
	timer := startTimer(x.s.cfg.RequestTimeout - time.Since(x.begun))
	defer stopTimer(timer)
	held, ready := a.stream.Held(), a.stream.Output().Ready()
	for {
		select {
		case err := <-held: // only an answer that streams waits for it: this one waits for its settlement
			if held = nil; err != nil {
				a.refuse(abi.AsError(err))
				return
			}
		case <-ready:
			a.events = a.stream.Output().Drain(a.events)
			var err error
			if body, err = a.whole(); err != nil {
				a.refuse(abi.AsError(err))
				return
			}
			if a.ending != nil {
				held, ready = nil, nil
			}
		case <-a.ending:
			a.ending, a.settling = nil, a.settle()
		case <-a.settling:
			if err := a.outcome(); err != nil {
				a.refuse(err)
				return
			}
			x.json(body)
			return
		case <-timer.C:
			a.refuse(a.late())
			return
		case <-a.gone:
			a.refuse(errGone())
			return
		case <-x.s.life.Done():
			a.refuse(errDraining())
			return
		}
	}
}

// plainBytes is the room a plain answer starts with: its frame and a short text.
const plainBytes = 768

// whole makes the answer once its last event is there, and before its charge: clients send again what was a 500.
// It is nil before; the error ends the request.
func (a *answer) whole() (body []byte, err error) {
	if len(a.events) == 0 {
		return nil, nil
	}
	last := &a.events[len(a.events)-1]
	switch last.Kind {
	case abi.EventError:
		return nil, a.failure(last.Err)
	case abi.EventEnd:
		if a.x.module != nil {
			last.Elapsed = a.x.elapsed(a.untilFirst())
		}
		events, err := a.filtered(a.events, true)
		if err != nil {
			return nil, err
		}
		if body, err = a.dialect.whole(make([]byte, 0, plainBytes), events); err != nil {
			return nil, err
		}
		a.complete(last.Stop)
	}
	return body, nil
}

// untilFirst is the time until the first token of an answer that is complete, 0 without one.
func (a *answer) untilFirst() time.Duration {
	first := a.stream.Output().First()
	if first.IsZero() {
		return 0
	}
	return first.Sub(a.x.arrived)
}

// late is the error of a request whose time is over. What the ledger has kept
// waiting is not the client's to pay.
func (a *answer) late() *abi.Error {
	if a.settling != nil {
		return &abi.Error{Kind: abi.Overloaded, Op: "server.plain", RetryAfter: time.Second,
			Msg: "the ledger did not record this request in time; try again"}
	}
	return &abi.Error{Kind: abi.Timeout, Op: "server.plain", Msg: "the request took too long"}
}

// refuse ends the request and answers with an error. When that it is free cannot be kept, the connection ends
// without an answer.
func (a *answer) refuse(e *abi.Error) {
	if e.Kind == abi.Canceled { // its client has left
		a.leave()
	} else if certain := a.cancel(free(e.Kind, false)); !certain {
		a.x.note(e)
		a.x.hangUp()
		return
	}
	a.x.fail(e)
}
