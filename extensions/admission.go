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
	for _, sl := range h.members(SlotAdmission) {
		if a := sl.now.Load(); a.active != nil || a.canary != nil || (a.missing || a.canaryPercent > 0) && !h.options.AdmissionFailOpen {
			return true
		}
	}
	return false
}

// AdmissionClosed says whether every request is refused because the policy that
// an operator chose is not in memory, yet or any more. Rewriting and filtering have no open door.
func (h *Host) AdmissionClosed() bool {
	for _, kind := range []Slot{SlotAdmission, SlotRewrite, SlotFilter} {
		for _, sl := range h.members(kind) {
			a := sl.now.Load()
			if a.active == nil && a.canary == nil && a.missing && !(kind == SlotAdmission && h.options.AdmissionFailOpen) {
				return true
			}
		}
	}
	return false
}

// Decide asks the admission policies in their order; without one everything is allowed, and
// so is what one declines that is over its share of the processors. The first that denies
// decides, and of those that queue the last. The error is Overloaded: a policy failed, and
// Options.AdmissionFailOpen is false.
func (h *Host) Decide(request string, in abi.AdmissionInput) (d abi.Decision, err error) {
	for _, sl := range h.members(SlotAdmission) {
		next, err := h.decide(sl, request, in)
		if err != nil || next.Verdict == abi.Deny {
			return next, err
		}
		if next.Verdict == abi.Queue {
			d = next
		}
	}
	return d, nil
}

// decide asks the policy of one place.
func (h *Host) decide(sl *slot, request string, in abi.AdmissionInput) (abi.Decision, error) {
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
