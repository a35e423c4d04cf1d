package upstream

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"time"

	"corenode/engine"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// traceHeader tells the server where the request stands in its trace. A node keeps what this one says: where nothing is
// recorded here that it should is the client's word, and does not go there.
func (r *relay) traceHeader() []field {
	t := &r.job.Request.Trace
	if t.ID == [16]byte{} {
		return nil
	}
	span, flags := t.Span, "-00"
	if t.Record {
		span = r.span
	}
	if t.Sampled && (t.Record || r.model.options.Flavor != wire.Corenode) {
		flags = "-01"
	}
	h := []field{{"Traceparent", "00-" + hex.EncodeToString(t.ID[:]) + "-" + hex.EncodeToString(span[:]) + flags}}
	if t.State != "" {
		h = append(h, field{"Tracestate", t.State})
	}
	return h
}

// recorded begins the span of an attempt, if the request's trace wants it. What it returns ends it.
func (r *relay) recorded(rep *replica, began time.Time) func(**outcome) {
	if !r.job.Request.Trace.Record {
		return func(**outcome) {}
	}
	binary.LittleEndian.PutUint64(r.span[:], rand.Uint64()|1) // an id of zeros is none
	return func(o **outcome) {
		a := engine.Attempt{Replica: rep.base, RequestID: r.source.RequestID, Span: r.span, Began: began, Ended: time.Now()}
		switch o := *o; {
		case r.ctx.Err() != nil:
			a.Failure = "stopped"
		case o == nil:
		case o.verdict == full:
			a.Failure = "full"
		case o.verdict.final():
			a.Failure = o.refusal().Kind.String()
		default:
			a.Failure = o.reason.String()
		}
		r.result.Attempts = append(r.result.Attempts, a)
	}
}

// tried is a refusal of the request that carries what servers were asked, if that is recorded. Other jobs may have the same err.
func (r *relay) tried(err *abi.Error) *abi.Error {
	if len(r.result.Attempts) == 0 || err == nil {
		return err
	}
	refusal := *err
	refusal.Err = &engine.Tried{Attempts: r.result.Attempts, Err: err.Err}
	return &refusal
}
