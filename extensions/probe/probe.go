// Package probe is what every module must manage: the usual calls of its kind,
// and the rules that each answer must keep. A node makes one usual call of
// each operation before it takes a module, and holds what serves to the rules
// of billing; package check makes all of the calls, and many that are not usual.
//
// It is pure: it calls the module through a function that it is given.
package probe

import (
	"bytes"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Module is what the usual calls of a module depend on, as in its manifest.
type Module struct {
	Kind, Protocol string
	History, Free  bool
	Counters       int     // how many a billing module has
	Framing        string  // of a module with routes: sse, ndjson, json, or "sse or array"; else empty
	Routes         []Route // likewise
	// Own is a request that one of its vectors has, in place of the usual ones, of
	// a module that does not take those; nil where it does. See OwnRequest.
	Own *abi.RequestInput
}

// Route is one route of a module, as a usual request comes by it.
type Route struct {
	Op string
	abi.Route
}

// Streams says whether its answers may be streams; with framing json they are whole bodies, and so are errors.
func (m *Module) Streams() bool { return m.Framing != "json" }

// route is the first route of an op; nil where there is none.
func (m *Module) route(op string) *abi.Route {
	for i := range m.Routes {
		if m.Routes[i].Op == op {
			return &m.Routes[i].Route
		}
	}
	return nil
}

// Subject is the module that is tried.
type Subject struct {
	Module
	// Call calls an instance that may have answered others; Fresh one that has
	// answered nothing yet.
	Call, Fresh vector.Call
}

// Run makes one usual call of each operation and gives the first problem with
// its answer; nil is none. Each call is made on a fresh instance, and twice on
// one that has answered the calls before it: all must give the same.
func Run(s Subject) *Problem {
	var quoted *abi.Quote
	for _, c := range Calls(s.Module, s.Call) {
		if !c.First {
			continue
		}
		frame, err := s.Fresh(c.Op, c.In)
		if err != nil {
			return problemf(FixUnanswered, "%s: %v", c.Name, err)
		}
		frame = bytes.Clone(frame)
		if p := s.answer(c, frame, &quoted); p != nil {
			return p
		}
		for range 2 {
			again, err := s.Call(c.Op, c.In)
			if err != nil {
				return problemf(FixDepends, "%s, on an instance that answered before: %v", c.Name, err)
			}
			if !bytes.Equal(frame, again) {
				return problemf(FixDepends, "%s gives other bytes on an instance that answered before: %s", c.Name,
					FirstDifference(again, frame))
			}
		}
	}
	return nil
}

// Wrong is what is wrong with an answer to the call for whom it is written; nil when nothing is.
func (c *Call) Wrong(frame []byte, framing string) *Problem {
	if what := Malformed(c.Op, c.In, frame, framing); what != "" {
		return problemf(FixMalformed, "%s: %s", c.Name, what)
	}
	if out, _ := abi.ParseOutput(frame); c.Alone && out.Status == abi.StatusDecline {
		return problemf(FixDeclined, "%s: it declines what nobody else can answer", c.Name)
	}
	return nil
}

// answer holds one answer to the rules. quoted is the quote, for the charge after it.
func (s Subject) answer(c Call, frame []byte, quoted **abi.Quote) *Problem {
	if p := c.Wrong(frame, s.Framing); p != nil {
		return p
	}
	given := func(abi.Op, []byte) ([]byte, error) { return frame, nil }
	var p *Problem
	switch c.Op {
	case abi.OpQuote:
		in, _ := abi.ParseQuoteInput(c.In) // Calls made it
		var q abi.Quote
		var ok bool
		if q, ok, p = Quote(given, in, s.Counters); ok {
			*quoted = &q
		}
	case abi.OpDecide:
		if out, err := abi.ParseOutput(frame); err == nil && out.Status == abi.StatusOK {
			d, _ := abi.ParseDecision(out.Payload) // Malformed did
			p = CheckDecision(d, s.Counters)
		}
	case abi.OpCharge:
		in, _ := abi.ParseChargeInput(c.In)
		_, _, p = Charge(given, in, UpperOf(*quoted, in.Held), s.Free)
	}
	if p != nil {
		return problemf(p.Fix, "%s: %s", c.Name, p.What)
	}
	return nil
}
