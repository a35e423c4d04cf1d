package rules

import (
	"fmt"

	"corenode/actors/account"
	"corenode/node/store"
	"corenode/wasm/abi"
)

// Entry holds the rules of each kind that need no database.
func Entry(e *account.Entry) error {
	u := e.Usage
	if min(u.InputUncached, u.CacheRead, u.CacheWrite, u.Output, u.Reasoning) < 0 || u.Reasoning > u.Output {
		return fmt.Errorf("%w: usage %+v", store.ErrInvalid, u)
	}
	switch e.Kind {
	case account.Hold, account.Checkpoint, account.Settlement, account.TopUp, account.Adjustment:
	default:
		return fmt.Errorf("%w: entry kind %q", store.ErrInvalid, e.Kind)
	}
	byRequest := e.Kind != account.TopUp && e.Kind != account.Adjustment
	charges := e.Kind == account.Settlement && e.Amount > 0
	rated := e.Refund && (e.Kind != account.Adjustment || u != abi.Usage{} || e.ModuleDigest != "" || e.Provisional)
	moves := (e.Kind == account.Hold || e.Kind == account.Checkpoint) && e.Amount != 0
	switch {
	case e.AccountID == "":
		return fmt.Errorf("%w: no account", store.ErrInvalid)
	case byRequest && e.RequestID == "":
		return fmt.Errorf("%w: no request id", store.ErrInvalid)
	case rated:
		return fmt.Errorf("%w: a refund that a module made, or of kind %q", store.ErrInvalid, e.Kind)
	case charges || moves || e.Held < 0:
		return fmt.Errorf("%w: amount %d, held %d", store.ErrInvalid, e.Amount, e.Held)
	}
	return counters(e)
}

// counters holds the rules of what each kind may have of counters.
func counters(e *account.Entry) error {
	for _, n := range e.Counters {
		var wrong bool
		switch e.Kind {
		case account.Hold, account.Settlement:
			wrong = n.Amount < 0
		case account.Adjustment:
			wrong = n.Amount > 0
		default:
			wrong = true
		}
		if wrong || n.Name == "" || n.Period == "" || n.Limit < 0 || max(n.Amount, -n.Amount, n.Limit) > abi.CounterMax {
			return fmt.Errorf("%w: a %s with %d of counter %q, period %q, limit %d",
				store.ErrInvalid, e.Kind, n.Amount, n.Name, n.Period, n.Limit)
		}
	}
	return nil
}

// ErrOthersHold refuses a settlement of a request that another account's hold is open for: it would charge one account, and
// leave the other's money held.
var ErrOthersHold = fmt.Errorf("%w: another account holds money for the request", store.ErrInvalid)

// About names a row in an error.
func About(e *account.Entry, err error) error {
	return fmt.Errorf("%s of request %q, account %s: %w", e.Kind, e.RequestID, e.AccountID, err)
}
