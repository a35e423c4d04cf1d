package tree

import (
	"fmt"
	"time"

	"corenode/actors/limit"
	"corenode/actors/system"
	"corenode/extensions"
	"corenode/wasm/abi"
)

// consult asks the operator's policy, if there is one, and does what it says.
func (t *Tree) consult(r *request) *abi.Error {
	if t.deps.Policy == nil || !t.deps.Policy.Deciding() {
		return nil
	}
	in, err := t.admissionInput(r)
	if err != nil { // as the limiter would say
		return system.AccountsUnavailable("tree.consult", fmt.Errorf("counters for the admission policy: %w", err))
	}
	began := time.Now()
	d, err := t.decide(r.call.RequestID, in)
	r.verdictTook = time.Since(began)
	if err != nil {
		return abi.AsError(err)
	}
	switch d.Verdict {
	case abi.Deny:
		return denial(d.Decision)
	case abi.Queue:
		r.job.Priority = d.Priority
	}
	for _, n := range d.Needs {
		r.ask.Needs = append(r.ask.Needs, limit.Need{Counter: n.Counter, Refusal: denial(n.Denial)})
	}
	return nil
}

// decide asks the policy; its panic refuses the request.
func (t *Tree) decide(request string, in abi.AdmissionInput) (d extensions.Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = system.TooManyRequests("tree.decide", fmt.Errorf("the admission policy panicked: %v", r))
		}
	}()
	return t.deps.Policy.Decide(request, in)
}

// denial is the error of a request that the policy refused.
func denial(d abi.Decision) *abi.Error {
	return &abi.Error{Kind: d.Kind, Op: "tree.consult", Msg: d.Msg, RetryAfter: time.Duration(d.RetryAfterMS) * time.Millisecond}
}

func (t *Tree) admissionInput(r *request) (in abi.AdmissionInput, err error) {
	a := r.call.Account
	in = abi.AdmissionInput{
		At: r.beganAt().Unix(), PromptTokens: r.ask.Prompt, OutputMax: r.ask.OutputMax, Stream: r.call.Request.Stream,
		Account: a.ID, Key: r.call.Key.ID, Model: r.call.Request.Model, Protocol: r.call.Protocol,
	}
	n := &in.Counters
	if *n, err = t.use(a.ID, r.beganAt()); err != nil {
		return in, err
	}
	n.AccountRequestsMax, n.TokensPerMinute, n.Unlimited = int64(a.Concurrency), a.TokensPerMinute, a.Unlimited
	n.NodeRequests, n.NodeRequestsMax = int64(t.requests.len()), int64(t.cfg.RequestsMax)
	if r.model.load != nil {
		r.model.load(n)
	}
	return in, nil
}

// use reads what an account has: from its limiter, or, when it has none yet,
// from the ledger.
func (t *Tree) use(id string, now time.Time) (abi.Counters, error) {
	if c := t.limits.Cell(id); c != nil {
		if u, ok := c.Use(now); ok {
			return u, nil
		}
	}
	a, err := t.deps.Accounts.Account(id)
	if err != nil {
		return abi.Counters{}, err
	}
	balance, held, err := t.deps.Accounts.Balance(id)
	u := limit.NewCounters(a, now).Use(now)
	u.Available = balance - held
	return u, err
}
