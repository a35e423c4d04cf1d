package vector

import (
	"bytes"
	"errors"
	"fmt"

	"corenode/wasm/abi"
)

// Call does one operation on a module and returns its raw output frame, which
// need stay untouched only until the next Call. An error is a fault of the
// module: a trap, spent ticks, memory.
type Call func(op abi.Op, in []byte) ([]byte, error)

// ErrNoWant means that a vector was never given a result.
var ErrNoWant = errors.New("it has no want yet")

// Run runs the vector and describes the first thing that is not as wanted; nil
// means that it passes. history says whether the module's manifest asks for
// the answer so far. The module was initialized with ConfigBytes.
func (v *Vector) Run(call Call, history bool) error {
	return v.run(runner{call: call, history: history, v: v})
}

// RunServed is Run for a module that served with the vector: it asks no more of it than was asked then.
func (v *Vector) RunServed(call Call, history bool) error {
	return v.run(runner{call: call, history: history, v: v, served: true})
}

func (v *Vector) run(r runner) error {
	if v.spec.Want == nil {
		return ErrNoWant
	}
	return r.each(func(how string, got *want) error {
		if err := difference(got.like(v.spec.Want).parts(), v.spec.Want.parts()); err != nil {
			return fmt.Errorf("%s%w", how, err)
		}
		return nil
	})
}

// Update runs the vector and makes what came back what it wants; changed says
// whether that is something else than before. A stream must come out the same
// however it is cut.
func (v *Vector) Update(call Call, history bool) (changed bool, err error) {
	before := v.spec.Want
	if v.Run(call, history) == nil {
		return false, nil
	}
	v.spec.Want = nil
	r := runner{call: call, history: history, v: v}
	err = r.each(func(how string, got *want) error {
		if v.spec.Want == nil {
			v.spec.Want = got
			if before == nil || before.Kept == nil {
				v.spec.Want.Kept = nil
			}
			if r := got.Refusal; r != nil && r.Kind == abi.InvalidRequest.String() {
				r.Kind = "" // what all refuse with is not written
			}
			return nil
		}
		if err := difference(got.parts(), v.spec.Want.parts()); err != nil {
			return fmt.Errorf("%s%w", how, err)
		}
		return nil
	})
	if err != nil {
		v.spec.Want = before
	}
	return err == nil, err
}

// runner is one run of one vector.
type runner struct {
	call    Call
	history bool
	v       *Vector
	served  bool // as in RunServed
}

// each runs the vector in each way it can be run; how says which, for messages.
func (r *runner) each(see func(how string, got *want) error) error {
	kept, err := r.kept()
	if err != nil {
		return err
	}
	if r.v.Op == "filter" {
		return r.filter(see)
	}
	if r.v.Op != "stream" {
		got, err := r.once(kept)
		if err != nil {
			return err
		}
		return see("", got)
	}
	for _, g := range groupings(len(r.v.stream)) {
		got, err := r.streamed(g.sizes, kept)
		if err != nil {
			return fmt.Errorf("%s%w", g.how, err)
		}
		if err := see(g.how, got); err != nil {
			return err
		}
	}
	return nil
}

// kept is Translated.Kept of the vector's request, or as given.
func (r *runner) kept() ([]byte, error) {
	if r.v.spec.Request == nil {
		return or(r.v.spec.Kept, nil), nil
	}
	f := r.v.facts()
	f.Model, f.Stream = "", false // nothing is known of them before the translation
	out, err := r.output(abi.OpRequest, abi.RequestInput{Facts: f, Route: r.v.spec.Route.abi(), Body: *r.v.spec.Request}.Append(nil))
	if err != nil {
		return nil, err
	}
	if out.Status != abi.StatusOK {
		w, err := refused(abi.OpRequest, out)
		if err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("the vector's request was not translated: %s", describe(w))
	}
	t, err := abi.ParseTranslated(out.Payload)
	if err != nil {
		return nil, fmt.Errorf("op request: %w", err)
	}
	return bytes.Clone(t.Kept), nil
}

// output does one call and takes the frame apart. The payload is the caller's
// until the next call.
func (r *runner) output(op abi.Op, in []byte) (abi.Output, error) {
	frame, err := r.call(op, in)
	if err != nil {
		return abi.Output{}, fmt.Errorf("op %s: %w", op, err)
	}
	out, err := abi.ParseOutput(frame)
	if err != nil {
		return abi.Output{}, fmt.Errorf("op %s: the output frame: %w", op, err)
	}
	return out, nil
}

// once does the call of every op but stream.
func (r *runner) once(kept []byte) (*want, error) {
	s := &r.v.spec
	switch r.v.Op {
	case "request":
		return r.result(abi.OpRequest, abi.RequestInput{Facts: r.v.facts(), Route: s.Route.abi(), Body: *s.Body}.Append(nil))
	case "response":
		return r.result(abi.OpResponse, abi.ResponseInput{Facts: r.v.facts(), Kept: kept, Events: Whole(r.v.stream)}.Append(nil))
	case "error":
		return r.failed(kept)
	case "models":
		in := abi.ModelsInput{Facts: r.v.facts(), Route: *s.Route.abi(), Body: or(s.Body, nil)}
		for _, m := range s.Models {
			in.Models = append(in.Models, abi.Model{ID: m.ID, Name: m.Name, Created: m.Created, Context: m.Context, Output: m.Output})
		}
		return r.result(abi.OpModels, in.Append(nil))
	case "count":
		return r.result(abi.OpCount, abi.CountInput{Facts: r.v.facts(), Kept: kept, Tokens: *s.Tokens}.Append(nil))
	case "quote":
		return r.result(abi.OpQuote, s.Quote.abi().Append(nil))
	case "charge":
		return r.result(abi.OpCharge, s.Charge.abi().Append(nil))
	case "rewrite":
		return r.result(abi.OpRewrite, s.Rewrite.abi().Append(nil))
	}
	return r.result(abi.OpDecide, s.Admission.abi().Append(nil))
}

// failed streams the events that went well, then does the error.
func (r *runner) failed(kept []byte) (*want, error) {
	in := r.v.spec.Error.abi()
	in.Facts, in.Kept = r.v.facts(), kept
	if len(r.v.stream) > 0 {
		state, _, declined, err := r.stream([]int{len(r.v.stream)}, kept)
		if err != nil || declined != nil {
			return declined, err
		}
		in.State = state
		if r.history {
			in.History = Whole(r.v.stream)
		}
	}
	return r.result(abi.OpError, in.Append(nil))
}

func (r *runner) streamed(sizes []int, kept []byte) (*want, error) {
	_, written, declined, err := r.stream(sizes, kept)
	if err != nil || declined != nil {
		return declined, err
	}
	return &want{Stream: (*lines)(&written)}, nil
}

// isWhole says whether what was written of a group is whole lines of objects, or whole server-sent events.
func isWhole(b []byte) bool {
	switch {
	case len(b) == 0:
		return true
	case b[0] == '{':
		return bytes.HasSuffix(b, []byte("}\n"))
	}
	return bytes.HasSuffix(b, []byte("\n\n")) || bytes.HasSuffix(b, []byte("\r\n\r\n"))
}

// stream runs the events in groups of the given sizes, as the host does.
func (r *runner) stream(sizes []int, kept []byte) (state, written []byte, declined *want, err error) {
	done := 0
	for i, n := range sizes {
		group := r.v.stream[done : done+n]
		done += n
		in := abi.EventsInput{Facts: r.v.facts(), State: state, Events: Frames(group)}
		if has(group, abi.EventStart, abi.EventEnd) {
			in.Kept = kept
		}
		if r.history && has(group, abi.EventBlockStop, abi.EventEnd) {
			in.History = Whole(r.v.stream[:done])
		}
		out, err := r.output(abi.OpEvents, in.Append(nil))
		if err != nil {
			return nil, nil, nil, err
		}
		if out.Status != abi.StatusOK {
			declined, err := refused(abi.OpEvents, out)
			return nil, nil, declined, err
		}
		w, err := abi.ParseWritten(out.Payload)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("op events: %w", err)
		}
		if !isWhole(w.Bytes) {
			return nil, nil, nil, fmt.Errorf("op events: group %d of %d ends within an event: %s",
				i+1, len(sizes), quoteAround(w.Bytes, max(0, len(w.Bytes)-shownAfter)))
		}
		state = bytes.Clone(w.State)
		written = append(written, w.Bytes...)
	}
	return state, written, nil, nil
}
