package extensions

import (
	"time"

	"corenode/extensions/capture"
	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// Translation is one request's use of a translator. It is pinned to the
// generation that it opened on; what the module must remember between calls is
// kept here, so that any instance can serve the next call. It belongs to one
// goroutine.
type Translation struct {
	host       *Host
	slot       *slot
	generation *generation
	of         caller
	facts      abi.Facts
	route      *abi.Route // how the request came to a module with routes, else nil
	kept       []byte     // Translated.Kept
	state      []byte     // Written.State
	answer     answer     // the whole answer so far, if the module wants it or the native build may need it

	// spared: the native build understands the request that a foreign module
	// translates, would keep spare of it, and can take the answer over.
	spared bool
	spare  []byte
	began  bool // a module was called for the request
	wrote  bool // bytes of the stream have been given out
	early  bool // nothing of the answer was in them
	broken bool // what the module wrote breaks the protocol: it is not asked for an error

	captured *capture.Request // nil: nothing is kept of it

	patience time.Duration // what its calls may yet wait for the share of the processors

	// in is the input of Events: its first prefix bytes are the encoded facts and
	// state without kept and history, which most groups have in common. 0: not made.
	in     []byte
	prefix int
}

// Translate pins the generation that serves this account on a translator's
// slot, for one request, whose id the log names. Close gives it back. It is nil where
// none serves: in the slot of another protocol, or where nothing stands in for what is missing.
func (h *Host) Translate(s Slot, account, request string, facts abi.Facts) *Translation {
	sl := h.slot(s)
	g, _ := sl.acquire(account)
	if g == nil {
		return nil
	}
	return &Translation{host: h, slot: sl, generation: g, of: caller{account: account, request: request}, facts: facts,
		patience: quotaWaitMax, captured: h.capture(sl, account, request)}
}

// Close gives the generation back; more than once is harmless.
func (t *Translation) Close() {
	if t.generation != nil {
		t.generation.release()
		t.generation = nil
		t.captured.End()
	}
}

// Module names the generation that translates, by its digest; empty once it is given back.
func (t *Translation) Module() string {
	if t.generation == nil {
		return ""
	}
	return t.generation.digest
}

// SetFacts tells what preparing the request found out: model and stream.
func (t *Translation) SetFacts(f abi.Facts) { t.facts, t.prefix = f, 0 }

// call runs one op on the pinned generation, when the share admits it; rule is as in Host.call. The output aliases s.
func (t *Translation) call(op abi.Op, s *scratch, rule func(abi.Output) *guest.Fault) (abi.Output, *guest.Fault) {
	advance, ok := t.admit(op)
	if !ok {
		return abi.Output{}, overQuota
	}
	of := t.of
	of.begins, t.began = !t.began, true
	return t.host.call(t.slot, t.generation, op, of, advance, s, rule)
}

// admit waits until the slot's share of the processors admits a call, and takes
// the call's advance from it. It is not ok where something else is to answer instead.
func (t *Translation) admit(op abi.Op) (advance time.Duration, ok bool) {
	g, patience := t.generation, t.patience
	switch {
	case g.pool == nil:
		return 0, true
	case op == abi.OpError: // the native build writes it
		patience = 0
	case op == abi.OpEvents && t.alone() && !t.replayable(), op == abi.OpResponse && t.alone() && !t.spared:
		return g.throttle.delay(g.pool.Mean(op)), true
	}
	advance, waited, ok := g.admit(op, patience)
	t.patience -= min(waited, t.patience)
	return advance, ok
}

// alone says whether the native build cannot go on with what the module has begun.
func (t *Translation) alone() bool { return !t.generation.shipped || t.slot.builtin == nil }

// replayable says whether the native build can take a stream over from a foreign module.
func (t *Translation) replayable() bool { return !t.generation.shipped && t.spared && !t.wrote }

// useBuiltin moves the request to the native build; false when it is there already.
func (t *Translation) useBuiltin() bool {
	b := t.slot.builtin
	if t.generation == b || b == nil {
		return false
	}
	t.generation.tally.fallbacks.Add(1)
	t.generation.release()
	b.acquire() // never retired
	t.generation = b
	return true
}

// again is what follows a call for the answer that failed with f or, without one, declined. A shipped module's
// failure is made good by its native build, which reads the same state; a foreign one's is an error.
func (t *Translation) again(where string, op abi.Op, s *scratch, f *guest.Fault) (abi.Output, error) {
	t.broken = t.broken || f != nil && f.Cause == guest.CauseProtocol
	if t.generation.shipped && t.useBuiltin() {
		t.broken = false // the native build reads the same state and may write the error too
		var o abi.Output
		if o, f = t.call(op, s, nil); f == nil && o.Status == abi.StatusOK {
			return o, nil
		}
	}
	if f == nil && (op != abi.OpError || t.slot.builtin == nil) {
		t.declined(op)
	}
	return abi.Output{}, t.failure(where, f)
}

// declined makes a fault of a decline that leaves a call to nobody. A request may be
// declined: it is the client's.
func (t *Translation) declined(op abi.Op) {
	t.host.failed(t.generation, op, t.of, guest.Faultf(guest.CauseProtocol, "it declines what nobody else can answer"))
}

// failure is the error of a call that nothing else answers: f, or without one a decline.
// Behind the slot of another protocol there is no native build, so that the module
// fails is a time at which the node does not serve it.
func (t *Translation) failure(where string, f *guest.Fault) *abi.Error {
	e := &abi.Error{Kind: abi.Internal, Op: where, Msg: "internal error", Err: errDeclined}
	if f != nil {
		e.Err = f
	}
	if t.slot.builtin == nil {
		e.Kind, e.Msg, e.RetryAfter = abi.Overloaded, "the module of this path does not answer, try again", time.Second
	}
	return e
}

// SetRoute tells how the request came, before its other calls: by a route of a manifest. It is false where the
// generation has other routes, as when it took over since the route was found.
func (t *Translation) SetRoute(m *guest.Manifest, r *abi.Route) bool {
	t.route = r
	return sameRoutes(m, &t.generation.manifest)
}

// Models appends what answers a route of op models. The error is an *abi.Error:
// InvalidRequest or ModelNotFound is what the module says to the client.
func (t *Translation) Models(dst []byte, models []abi.Model, body []byte) ([]byte, error) {
	return t.whole("extensions.Models", dst, abi.OpModels,
		abi.ModelsInput{Facts: t.facts, Route: *t.route, Models: models, Body: body}.Append)
}

// Count appends what answers a route of op count, whose request was translated.
func (t *Translation) Count(dst []byte, tokens int) ([]byte, error) {
	return t.whole("extensions.Count", dst, abi.OpCount, abi.CountInput{Facts: t.facts, Kept: t.kept, Tokens: int64(tokens)}.Append)
}

// whole appends the body that an op gives which no native build answers.
func (t *Translation) whole(where string, dst []byte, op abi.Op, in func([]byte) []byte) ([]byte, error) {
	s := takeScratch()
	defer putScratch(s)
	s.in = in(s.in[:0])
	t.captured.Add(op, in)
	o, f := t.call(op, s, nil)
	switch {
	case f != nil && f.Cause == guest.CauseOverloaded:
		return dst, overloaded(where, f)
	case f != nil:
		return dst, t.failure(where, f)
	case o.Status == abi.StatusDecline:
		t.declined(op)
		return dst, t.failure(where, nil)
	case o.Status == abi.StatusError:
		return dst, refusal(where, o)
	}
	return append(dst, o.Payload...), nil
}

// refusal is what a module says to the client. Only a listing may miss a model.
func refusal(where string, o abi.Output) *abi.Error {
	r, _ := abi.ParseRefusal(o.Payload) // CheckOutput decoded it before
	r = guest.CleanRefusal(r)
	e := &abi.Error{Kind: abi.InvalidRequest, Op: where, Msg: r.Msg, Param: r.Param}
	if o.Kind == abi.ModelNotFound && where == "extensions.Models" {
		e.Kind = abi.ModelNotFound
	}
	return e
}
