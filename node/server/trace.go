package server

import (
	"bytes"
	"encoding/hex"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/engine"
	"corenode/node/trace"
	"corenode/wasm/abi"
)

// beginTrace takes the caller's place in its trace, or begins one. Without a tracer the caller's
// headers go along to servers elsewhere as they came.
func (x *exchange) beginTrace() {
	h := &x.ctx.Request.Header
	switch {
	case h.IsPost():
		x.method = fasthttp.MethodPost
	case h.IsHead():
		x.method = fasthttp.MethodHead
	default:
		x.method = fasthttp.MethodGet
	}
	t, parent := x.s.deps.Tracer, h.PeekCanonical([]byte("Traceparent"))
	if t == nil && len(parent) == 0 {
		return
	}
	state := bytes.Join(h.PeekAll("Tracestate"), []byte(",")) // a list, which may stand in several lines
	if t != nil {
		x.trace = t.Begin(parent, state, x.who.Peer.Forwards())
	} else {
		x.trace, _ = trace.Parse(parent, state)
	}
}

// furtherTrace is what servers elsewhere go on with.
func (x *exchange) furtherTrace() engine.Trace {
	c := &x.trace
	return engine.Trace{ID: c.Trace, Span: c.Parent, Sampled: c.Sampled, State: c.State, Record: x.s.deps.Tracer != nil}
}

// called notes a call of a module that took long.
func (x *exchange) called(name, digest string, began time.Time) {
	if took := time.Since(began); x.s.deps.Tracer.Calls(took) {
		x.calls = append(x.calls, trace.Call{Name: name, Digest: digest, Began: began, Took: took})
	}
}

// endTrace hands the trace of a request that ended to the tracer, if it is kept, and returns its id then.
func (x *exchange) endTrace(now time.Time) (id string) {
	t := x.s.deps.Tracer
	if t == nil || x.trace.Span == [8]byte{} {
		return ""
	}
	ours := x.failed && (x.status >= 500 || x.kind == abi.Internal || x.kind == abi.Timeout || x.kind == abi.Overloaded)
	why := t.Keep(&x.trace, now.Sub(x.begun), ours, !x.admitted.IsZero())
	if why == "" {
		return ""
	}
	t.Take(x.traced(now, why, ours))
	return hex.EncodeToString(x.trace.Trace[:])
}

// traced is the record of a request for its trace: nothing in it is of a body.
func (x *exchange) traced(now time.Time, why string, ours bool) *trace.Record {
	s, u := &x.settled, &x.settled.Usage
	r := &trace.Record{
		Context: x.trace, Kept: why, Method: x.method, Route: x.pattern(), Status: x.status,
		Began: x.begun, Ended: now, Arrived: x.arrived, Prepared: x.prepared, Admitted: !x.admitted.IsZero(),
		Done: s.Done, Admission: s.Admission, Hold: s.Hold, Queue: s.Queue, Prefill: s.Prefill, Decode: s.Decode,
		SettleBegan: x.settleBegan, SettleEnded: x.settleEnded, TTFT: x.ttft,
		RequestID: x.id, AccountID: x.who.Account.ID, KeyID: x.who.KeyID, Model: x.modelName, Asked: x.shownModel(x.modelName),
		MaxTokens: x.outputMax, Stream: x.stream,
		Finish: x.finish.String(), Ours: ours, Conversation: s.Session, ChargeNano: int64(s.Charge),
		Usage: trace.Usage{Input: u.Input(), CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Output: u.Output, Reasoning: u.Reasoning},
	}
	if r.Admitted && s.Reason == "" { // what came of it is not known
		r.Admission = x.admitted.Sub(x.prepared)
	}
	if x.failed {
		r.Failure = x.kind.String()
	}
	for _, c := range x.calls {
		r.CallIn(c)
	}
	x.tracedCharge(r)
	for _, a := range s.Attempted {
		r.Attempts = append(r.Attempts, trace.Attempt{URL: a.Replica, RequestID: a.RequestID, Span: a.Span, Began: a.Began, Ended: a.Ended,
			Failure: a.Failure})
	}
	return r
}

// tracedCharge adds the calls of the modules that admit and charge, which the backend made one after the other.
func (x *exchange) tracedCharge(r *trace.Record) {
	s := &x.settled
	for _, c := range []trace.Call{
		{Name: "quote", Digest: s.Billing, Began: x.prepared, Took: s.Quote},
		{Name: "admit", Began: x.prepared.Add(s.Quote), Took: s.Verdict},
		{Name: "charge", Digest: s.Billing, Began: x.settleBegan, Took: s.Price},
	} {
		if c.Took > 0 && x.s.deps.Tracer.Calls(c.Took) {
			r.CallIn(c)
		}
	}
}

// pattern is the path of a resource, without what a client chose of it.
func (r *resource) pattern() string {
	switch {
	case r.module != nil:
		return r.module.route().Path
	case r.route == routeModel:
		return "/v1/models/{id}"
	}
	return endpoints[r.route].path
}
