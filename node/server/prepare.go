package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// prepare makes tokens of the body.
func (x *exchange) prepare() (prepared *engine.Request, refusal *abi.Error) {
	refusal = x.withRequest(func(request *messages.Request, model Model) (err error) {
		if asks(model) {
			x.rest()
		}
		prepared, err = model.Prepare(x.who.Account.CacheAccount(x.who.Peer), request)
		return err
	})
	if refusal != nil {
		return nil, refusal
	}
	if ignored := prepared.Ignored(); len(ignored) > 0 {
		x.s.log.Info("keywords of a schema are not enforced", "id", x.id, "keywords", ignored)
	}
	return prepared, nil
}

// withRequest reads the body and hands what it asks for to use, within the gate.
// The body counts until use returns, with what is made of it on the way.
func (x *exchange) withRequest(use func(*messages.Request, Model) error) *abi.Error {
	defer x.body.release()
	b, refusal := x.readBody()
	if refusal != nil {
		return refusal
	}
	if refusal := x.s.gate.enter(x.who.Account.ID, x.who.Account.Concurrency); refusal != nil {
		return refusal
	}
	defer func() { x.s.gate.leave(x.who.Account.ID, x.rests) }()
	request, model, refusal := x.parse(b)
	if refusal != nil {
		return refusal
	}
	if asks(model) {
		ctx, cancel := context.WithCancel(x.s.life)
		defer cancel()
		defer x.s.watcher.remove(x.s.watcher.add(x.conn.socket, cancel))
		request.Context = ctx
	}
	err := use(request, model)
	switch {
	case err == nil:
		return nil
	case request.Context == nil || request.Context.Err() == nil:
		return abi.AsError(err)
	case x.s.life.Err() != nil:
		return errDraining()
	default: // nobody waited for it
		return errGone()
	}
}

// rest gives the gate's place to others while the request waits for what is not of this process's making.
func (x *exchange) rest() {
	x.s.gate.rest()
	x.rests = true
}

// resume takes a place again.
func (x *exchange) resume() *abi.Error {
	refusal := x.s.gate.resume()
	x.rests = refusal != nil
	return refusal
}

// asks says whether a model waits for servers elsewhere when it prepares a request or counts it.
func asks(m Model) bool {
	a, ok := m.(Asking)
	return ok && a.Asks()
}

// parse reads the body and finds its model. What follows may take seconds, so a
// drain that is over ends the request here.
func (x *exchange) parse(b *body) (*messages.Request, Model, *abi.Error) {
	if refusal := b.takePrepared(b.bytes); refusal != nil {
		return nil, nil, refusal
	}
	request, err := x.read(b.bytes)
	b.bytes = nil // the request has its own
	if err != nil {
		return nil, nil, abi.AsError(err)
	}
	x.stream = request.Stream
	model, ok := x.s.deps.Catalog.Model(request.Model)
	if !ok || !x.who.mayUse(model.Info().ID) {
		return nil, nil, modelNotFound(request.Model)
	}
	request.Model = model.Info().ID
	x.modelName, x.structured = request.Model, request.Format != nil
	if x.s.aborted() {
		return nil, nil, errDraining()
	}
	if s, ok := model.(Replicated); ok && x.who.Peer.Forwards() {
		model = s.Own()
	}
	if f, ok := model.(HeaderForwarder); ok {
		if x.ctx.Request.Header.Peek(wire.HopHeader) != nil {
			return nil, nil, errForwarded()
		}
		request.Forward = x.forwarded(f.ForwardHeaders())
	}
	return request, model, nil
}

// read makes a request of a body: it is translated, then rewritten, then parsed.
func (x *exchange) read(body []byte) (request *messages.Request, err error) {
	if x.translation != nil {
		if body, err = x.translate(body); err != nil {
			return nil, err
		}
	}
	if x.ruled() && x.s.deps.Policies.Rewriting() {
		if body, err = x.rewrite(body); err != nil {
			return nil, err
		}
	}
	switch {
	case x.translation != nil && x.counts():
		request, err = messages.ParseTranslatedCount(body)
	case x.translation != nil:
		request, err = messages.ParseTranslated(body)
	case x.route == routeCount:
		request, err = messages.ParseCount(body)
	default:
		request, err = messages.Parse(body)
	}
	if err != nil {
		return nil, err
	}
	return request, x.streams(request)
}

// forwarded are the client's headers that go along: each line of the names that it sent, but for empty ones.
func (x *exchange) forwarded(names []string) (headers [][2]string) {
	for _, name := range names {
		if x.module != nil && x.module.hasKey(name) {
			continue
		}
		for _, v := range x.ctx.Request.Header.PeekAll(name) {
			if len(v) > 0 {
				headers = append(headers, [2]string{name, string(v)})
			}
		}
	}
	return headers
}

// errForwarded refuses to forward what another node forwarded here: two nodes that name each
// other would do so for ever.
func errForwarded() *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: "server.prepare", RetryAfter: 30 * time.Second,
		Msg: "the model is not served by this node"}
}

// modelNotFound is the same for a model that does not exist and for one that
// the account may not use. The id is the client's: it is cut before it is repeated.
func modelNotFound(id string) *abi.Error {
	const shown = 100
	if len(id) > shown {
		id = strings.ToValidUTF8(id[:shown], "") + "..."
	}
	return &abi.Error{Kind: abi.ModelNotFound, Param: "model",
		Msg: "unknown model " + strconv.Quote(id) + "; GET /v1/models lists those of this key"}
}

// countTokens serves POST /v1/messages/count_tokens: a permit, no tokens, no money.
func (x *exchange) countTokens() {
	if n, ok := x.count(); ok {
		x.json(append(strconv.AppendInt([]byte(`{"input_tokens":`), int64(n), 10), '}'))
	}
}

// countInput serves POST /v1/responses/input_tokens: the same for a body of the responses protocol.
func (x *exchange) countInput() {
	if n, ok := x.count(); ok {
		x.json(fmt.Appendf(nil, `{"object":"response.input_tokens","input_tokens":%d}`, n))
	}
}

// count counts the tokens of the body, or answers why it does not. The answer is no stream, whatever the body asks for.
func (x *exchange) count() (n int, ok bool) {
	refusal := x.withRequest(func(request *messages.Request, model Model) error {
		x.rest()
		release, err := x.enter()
		if err != nil {
			return err
		}
		defer release()
		if !asks(model) {
			if refusal := x.resume(); refusal != nil {
				return refusal
			}
		}
		n, err = model.Count(request)
		return err
	})
	x.stream = false
	if refusal != nil {
		x.fail(refusal)
	}
	return n, refusal == nil
}
