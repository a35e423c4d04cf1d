package extensions

import (
	"corenode/extensions/guest"
	"corenode/wasm/abi"
	"time"
)

// denialRetryMax bounds what a policy may tell a client to wait.
const denialRetryMax = 24 * time.Hour

// Deciding says whether there is an admission policy, so that a caller without
// one need not gather the counters.
func (h *Host) Deciding() bool {
	a := h.slot(SlotAdmission).now.Load()
	return a.active != nil || a.canary != nil || (a.missing || a.canaryPercent > 0) && !h.options.AdmissionFailOpen
}

// AdmissionClosed says whether every request is refused because the policy that
// an operator chose is not in memory, yet or any more.
func (h *Host) AdmissionClosed() bool {
	a := h.slot(SlotAdmission).now.Load()
	return a.active == nil && a.canary == nil && a.missing && !h.options.AdmissionFailOpen
}

// Decide asks the admission policy; without one everything is allowed, and so is
// what one declines that is over its share of the processors. The error is
// Overloaded: the policy failed, and Options.AdmissionFailOpen is false.
func (h *Host) Decide(request string, in abi.AdmissionInput) (abi.Decision, error) {
	sl := h.slot(SlotAdmission)
	g, standsIn := sl.acquire(in.Account)
	if g == nil {
		if standsIn && !h.options.AdmissionFailOpen {
			return abi.Decision{}, overloaded("extensions.Decide", policyMissing)
		}
		return abi.Decision{}, nil
	}
	defer g.release()
	captured := h.capture(sl, in.Account, request)
	captured.Add(abi.OpDecide, in.Append)
	captured.End()
	advance, _, ok := g.admit(abi.OpDecide, shareWaitMax)
	if !ok {
		return abi.Decision{}, nil // as if it had no opinion: the account's own limits decide
	}
	s := takeScratch()
	defer putScratch(s)
	if g.manifest.ABI == guest.ABI10 {
		s.in = in.Append10(s.in[:0])
	} else {
		s.in = in.Append(s.in[:0])
	}
	o, f := h.call(sl, g, abi.OpDecide, caller{in.Account, request}, advance, s)
	if f == nil && o.Status == abi.StatusDecline {
		return abi.Decision{}, nil // it has no opinion
	}
	if f != nil {
		if h.options.AdmissionFailOpen {
			g.tally.fallbacks.Add(1)
			return abi.Decision{}, nil
		}
		return abi.Decision{}, overloaded("extensions.Decide", f)
	}
	d, _ := abi.ParseDecision(o.Payload) // checkOutput decoded it before
	return cleanDecision(d), nil
}

// cleanDecision is a decision that callers may act on as it is.
func cleanDecision(d abi.Decision) abi.Decision {
	if d.Verdict != abi.Deny {
		d.Kind, d.RetryAfterMS, d.Msg = 0, 0, ""
		if d.Verdict != abi.Queue {
			d.Priority = 0
		}
		return d
	}
	d.Priority = 0
	switch d.Kind {
	case abi.RateLimited, abi.Overloaded, abi.InsufficientBalance, abi.InvalidRequest, abi.ModelNotFound:
	default:
		d.Kind = abi.RateLimited
	}
	d.RetryAfterMS = min(d.RetryAfterMS, uint32(denialRetryMax/time.Millisecond))
	if d.Msg = guest.Clean(d.Msg, abi.RefusalBytesMax); d.Msg == "" {
		d.Msg = "the request was refused by the admission policy"
	}
	return d
}
