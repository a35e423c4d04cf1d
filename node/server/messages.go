package server

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// generate serves POST /v1/messages, and the endpoints of the protocols that a
// translator makes messages of.
func (x *exchange) generate() {
	read := messages.Parse
	if x.route.translated() {
		x.translation = x.s.deps.Translators.Translate(protocols[x.route], x.who.Account.ID, x.id, x.facts())
		read = x.translate
	}
	prepared, refusal := x.prepare(read)
	if refusal != nil {
		x.fail(refusal)
		return
	}
	call := Call{RequestID: x.id, Account: *x.who.Account, KeyID: x.who.KeyID, Request: prepared,
		SessionID: string(x.ctx.Request.Header.Peek("X-Session-Id")), Protocol: protocols[x.route]}
	stream, limits, err := x.s.deps.Backend.Generate(call)
	x.setLimits(limits)
	if err != nil {
		x.fail(abi.AsError(err))
		return
	}
	a := newAnswer(x, stream, prepared.Model)
	defer func() {
		if !x.streamed { // else the body stream's Close does it
			a.close()
		}
	}()
	if x.stream {
		a.beginStream()
		return
	}
	a.plain()
}

// prepare reads the body and makes tokens of it, within the gate. The body
// counts until then, with what is made of it on the way.
func (x *exchange) prepare(read func([]byte) (*messages.Request, error)) (*engine.Request, *abi.Error) {
	defer x.body.release()
	b, refusal := x.readBody()
	if refusal != nil {
		return nil, refusal
	}
	if refusal := x.s.gate.enter(x.who.Account.ID, x.who.Account.Concurrency); refusal != nil {
		return nil, refusal
	}
	defer x.s.gate.leave(x.who.Account.ID)
	request, model, refusal := x.parse(b, read)
	if refusal != nil {
		return nil, refusal
	}
	prepared, err := model.Prepare(x.who.Account.ID, request)
	if err != nil {
		return nil, abi.AsError(err)
	}
	if g := prepared.Grammar; g != nil && len(g.Ignored()) > 0 {
		x.s.log.Info("keywords of a schema are not enforced", "id", x.id, "keywords", g.Ignored())
	}
	return prepared, nil
}

// parse reads the body and finds its model. What follows may take seconds, so a
// drain that is over ends the request here.
func (x *exchange) parse(b *body, read func([]byte) (*messages.Request, error)) (*messages.Request, Model, *abi.Error) {
	if refusal := b.prepare(int64(len(b.bytes))); refusal != nil {
		return nil, nil, refusal
	}
	request, err := read(b.bytes)
	b.bytes = nil // the request has its own
	if err != nil {
		return nil, nil, abi.AsError(err)
	}
	x.stream = request.Stream
	model, ok := x.s.deps.Catalog.Model(request.Model)
	if !ok || !x.who.Account.MayUse(request.Model) {
		return nil, nil, modelNotFound(request.Model)
	}
	x.modelName = model.Info().ID
	if x.s.aborted() {
		return nil, nil, errDraining()
	}
	return request, model, nil
}

// modelNotFound is the same for a model that does not exist and for one that
// the account may not use. The id is the client's: it is cut before it is repeated.
func modelNotFound(id string) *abi.Error {
	const shown = 100
	if len(id) > shown {
		id = strings.ToValidUTF8(id[:shown], "") + "..."
	}
	return &abi.Error{Kind: abi.ModelNotFound, Msg: "unknown model " + strconv.Quote(id), Param: "model"}
}

// countTokens serves POST /v1/messages/count_tokens: a permit, no tokens, no money.
func (x *exchange) countTokens() {
	defer x.body.release()
	b, refusal := x.readBody()
	if refusal != nil {
		x.fail(refusal)
		return
	}
	n, refusal := x.count(b)
	if refusal != nil {
		x.fail(refusal)
		return
	}
	x.json(fmt.Appendf(nil, `{"input_tokens":%d}`, n))
}

func (x *exchange) count(b *body) (int, *abi.Error) {
	if refusal := x.s.gate.enter(x.who.Account.ID, x.who.Account.Concurrency); refusal != nil {
		return 0, refusal
	}
	defer x.s.gate.leave(x.who.Account.ID)
	request, model, refusal := x.parse(b, messages.ParseCount)
	if refusal != nil {
		return 0, refusal
	}
	release, limits, err := x.s.deps.Backend.Enter(*x.who.Account)
	x.setLimits(limits)
	if err != nil {
		return 0, abi.AsError(err)
	}
	defer release()
	n, err := model.Count(request)
	if err != nil {
		return 0, abi.AsError(err)
	}
	return n, nil
}

// plain answers a request that does not stream: it waits for all events and then
// for the ledger, or for the clock, or the client's leaving.
func (a *answer) plain() {
	x := a.x
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
			if a.answered() {
				return
			}
			if a.settling != nil {
				held, ready = nil, nil
			}
		case <-a.settling:
			if err := a.outcome(); err != nil {
				a.refuse(err)
				return
			}
			x.json(a.body)
			return
		case <-timer.C:
			a.refuse(a.late())
			return
		case <-a.gone:
			a.refuse(errGone())
			return
		case <-x.s.abort:
			a.refuse(errDraining())
			return
		}
	}
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

// plainBytes is the room a plain answer starts with: its frame and a short text.
const plainBytes = 768

// answered says that the request has ended in an error. When its last event is
// there the answer is made, before its charge: clients send again what was a 500.
func (a *answer) answered() (refused bool) {
	if len(a.events) == 0 {
		return false
	}
	last := &a.events[len(a.events)-1]
	switch last.Kind {
	case abi.EventError:
		a.refuse(a.failure(last.Err))
		return true
	case abi.EventEnd:
		body, err := a.dialect.whole(make([]byte, 0, plainBytes), a.events)
		if err != nil {
			a.refuse(abi.AsError(err))
			return true
		}
		a.body, a.settling = body, a.stream.Settle()
	}
	return false
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

// refuse ends the request and answers with an error. It is free, but for one whose
// client left or whose time is over; when that cannot be kept, the connection ends
// without an answer.
func (a *answer) refuse(e *abi.Error) {
	withhold := e.Kind != abi.Timeout && e.Kind != abi.Canceled
	if certain := a.end(withhold); !certain {
		a.x.note(e)
		a.x.hangUp()
		return
	}
	a.x.fail(e)
}

// errGone is a client that left.
func errGone() *abi.Error {
	return &abi.Error{Kind: abi.Canceled, Op: "server.watch", Msg: "the client closed the connection"}
}
