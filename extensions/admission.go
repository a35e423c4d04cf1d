package extensions

import (
	"strings"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/probe"
	"corenode/wasm/abi"
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

// Closed are the slots for which every request is refused, because the policy that an
// operator chose is not in memory, yet or any more. Rewriting and filtering have no open door.
func (h *Host) Closed() (slots []Slot) {
	for _, kind := range []Slot{SlotAdmission, SlotRewrite, SlotFilter} {
		for _, sl := range h.members(kind) {
			a := sl.now.Load()
			if a.active == nil && a.canary == nil && a.missing && !(kind == SlotAdmission && h.options.AdmissionFailOpen) {
				slots = append(slots, sl.name)
			}
		}
	}
	return slots
}

// Decision is what the admission policies say together.
type Decision struct {
	abi.Decision
	// Needs are what the request takes of the policies' counters: all of it, or it is refused.
	Needs []Need
}

// Need is an amount of one counter, and how its policy refuses a request that does not get it.
type Need struct {
	Counter abi.Counter
	Denial  abi.Decision
}

// Decide asks the admission policies in their order; without one everything is allowed, and
// so is what one declines that is over its share of the processors. The first that denies
// decides, and of those that queue the last; a reserve with priority 0 leaves what was said
// before it. What they reserve they reserve together. The error is Overloaded: a policy
// failed, and Options.AdmissionFailOpen is false.
func (h *Host) Decide(request string, in abi.AdmissionInput) (d Decision, err error) {
	for _, sl := range h.members(SlotAdmission) {
		next, takes, err := h.decide(sl, request, in)
		if err != nil || next.Verdict == abi.Deny {
			return Decision{Decision: next}, err
		}
		if next.Verdict == abi.Queue || next.Priority != 0 {
			d.Decision = abi.Decision{Verdict: abi.Queue, Priority: next.Priority}
		}
		if len(takes) > 0 {
			denial := next
			denial.Verdict = abi.Deny
			denial = cleanDecision(denial)
			for _, c := range takes {
				of := denial
				if len(takes) > 1 { // the policy does not know which of them is used up
					of.Msg += " (" + c.Name[strings.LastIndexByte(c.Name, '/')+1:] + " of " + c.Period + ")"
				}
				d.Needs = append(d.Needs, Need{c, of})
			}
		}
	}
	return d, nil
}

// decide asks the policy of one place, and gives what it takes of its counters.
func (h *Host) decide(sl *slot, request string, in abi.AdmissionInput) (d abi.Decision, takes []abi.Counter, err error) {
	g, standsIn := sl.acquire(in.Account)
	if g == nil {
		if standsIn && !h.options.AdmissionFailOpen {
			return d, nil, absent("extensions.Decide", sl.name)
		}
		return d, nil, nil
	}
	defer g.release()
	captured := h.capture(sl, in.Account, request)
	captured.Add(abi.OpDecide, in.Append)
	captured.End()
	advance, _, ok := g.admit(abi.OpDecide, quotaWaitMax)
	if !ok {
		return d, nil, nil // as if it had no opinion: the account's own limits decide
	}
	s := takeScratch()
	defer putScratch(s)
	if g.manifest.ABI == guest.ABI10 {
		s.in = in.Append10(s.in[:0])
	} else {
		s.in = in.Append(s.in[:0])
	}
	o, f := h.call(sl, g, abi.OpDecide, caller{in.Account, request, true}, advance, s, func(o abi.Output) *guest.Fault {
		if o.Status == abi.StatusDecline {
			return nil
		}
		d, _ = abi.ParseDecision(o.Payload) // CheckOutput decoded it before
		return broken(probe.CheckDecision(d, len(g.manifest.Counters)))
	})
	if f == nil && o.Status == abi.StatusDecline {
		return abi.Decision{}, nil, nil // it has no opinion
	}
	if f != nil {
		if h.options.AdmissionFailOpen {
			g.tally.fallbacks.Add(1)
			return abi.Decision{}, nil, nil
		}
		return abi.Decision{}, nil, overloaded("extensions.Decide", f)
	}
	takes = g.manifest.Takes(d.Takes, in.At)
	return cleanDecision(d), takes, nil
}

// cleanDecision is a decision that callers may act on as it is.
func cleanDecision(d abi.Decision) abi.Decision {
	d.Takes = nil
	if d.Verdict == abi.Reserve {
		return d // its denial is cleaned where it is one
	}
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
