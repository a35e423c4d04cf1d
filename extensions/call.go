package extensions

import (
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/probe"
	"corenode/wasm/abi"
)

// call runs one op on a generation of a slot, which the caller has acquired:
// the one way to every module, native or Wasm. advance is what
// generation.admit took for it. What a rule, if there is one, does not find in order is a fault, and no answer
// that a shadow is compared with. The output aliases s.out.
func (h *Host) call(sl *slot, g *generation, op abi.Op, of caller, advance time.Duration, s *scratch,
	rule func(abi.Output) *guest.Fault) (abi.Output, *guest.Fault) {
	out, f := g.do(op, of, s.in, advance, s.out[:0])
	s.out = out
	var o abi.Output
	if f == nil {
		if o, _ = abi.ParseOutput(out); rule != nil { // CheckOutput has decoded it
			f = rule(o)
		}
	}
	if f != nil {
		f.Input = len(s.in)
		h.failed(g, op, of, f)
		return abi.Output{}, f
	}
	if o.Status == abi.StatusDecline {
		g.tally.declined.Add(1)
	}
	a := sl.now.Load()
	if a.canary == g {
		h.compareCanary(a, g, op)
	}
	// Who comes without a key fills no queue: see capture. A request is repeated as a whole.
	if sh := a.shadow; sh != nil && sh.generation != g && of.account != "" && inShare(of.request, sh.percent) {
		sh.offer(g, op, of, s)
	}
	return o, nil
}

// broken is the fault of an answer that breaks a rule, nil without a problem.
func broken(p *probe.Problem) *guest.Fault {
	if p == nil {
		return nil
	}
	return guest.Faultf(guest.CauseRule, "%s", p.What)
}

// failed hears of every fault: it is counted and logged, and too many of them
// take the generation out of service.
func (h *Host) failed(g *generation, op abi.Op, of caller, f *guest.Fault) {
	g.tally.faults[f.Cause].Add(1)
	if f.Cause == guest.CauseOverloaded {
		return
	}
	if g.faultLines.Allow(h.now()) {
		h.log.Warn("a module failed on a call", "slot", string(slotOf(&g.manifest)), "module", g.title(), "op", op.String(),
			"id", of.request, "account", of.account, "cause", f.Cause.String(), "detail", f.Detail)
	}
	if g.native != nil || f.ByBody() {
		return
	}
	if reason := g.breaker.fault(h.now(), g.calls()); reason != "" {
		reason += ", the last: " + f.Error()
		h.mu.Lock()
		h.spawn(func() { h.demote(g, reason) })
		h.mu.Unlock()
	}
}

// overloaded is the error of a call that may succeed later.
func overloaded(where string, f *guest.Fault) *abi.Error {
	return &abi.Error{Kind: abi.Overloaded, Op: where, Msg: "the node is busy, try again", RetryAfter: time.Second, Err: f}
}
