package server

import (
	"errors"
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

// plain answers a request that does not stream: it waits for all events, the
// clock, or the client's leaving.
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
		case <-timer.C:
			a.refuse(&abi.Error{Kind: abi.Timeout, Op: "server.plain", Msg: "the request took too long"})
			return
		case <-a.gone:
			a.refuse(errGone())
			return
		case <-x.s.abort:
			a.stream.Fail() // as when the tree's own drain ends it first
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

// answered writes the answer when its last event is there.
func (a *answer) answered() bool {
	if len(a.events) == 0 {
		return false
	}
	last := &a.events[len(a.events)-1]
	switch last.Kind {
	case abi.EventError:
		a.refuse(a.failure(last.Err))
		return true
	case abi.EventEnd:
		body, err := a.dialect.whole(make([]byte, 0, plainBytes), a.events) // before its charge: clients send again what was a 500
		if err != nil {
			a.stream.Fail()
			a.refuse(abi.AsError(err))
			return true
		}
		if err := a.settle(); err != nil {
			a.refuse(err)
			return true
		}
		a.x.json(body)
		return true
	}
	return false
}

// refuse cancels, settles and answers with an error. What settling says is
// logged, not shown: the client has its error already.
func (a *answer) refuse(e *abi.Error) {
	a.stream.Cancel()
	if err := a.settle(); err != nil && err.Err != nil {
		e = &abi.Error{Kind: e.Kind, Op: e.Op, Msg: e.Msg, RetryAfter: e.RetryAfter, Err: errors.Join(e.Err, err.Err)}
	}
	a.x.fail(e)
}

// errGone is a client that left.
func errGone() *abi.Error {
	return &abi.Error{Kind: abi.Canceled, Op: "server.watch", Msg: "the client closed the connection"}
}
