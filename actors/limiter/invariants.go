//go:build invariants

package limiter

import "fmt"

// check panics when an invariant of the desk does not hold.
func (d *desk) check() {
	var sum held
	permits := 0
	for id, h := range d.open {
		if h.permit {
			permits++
		}
		if (!h.permit && h.hold == 0 && h.short == 0) || h.hold < 0 || h.short < 0 {
			panic(fmt.Sprintf("limiter: request %s has %+v", id, h))
		}
		sum.hold += h.hold
		sum.short += h.short
	}
	for _, hold := range d.orphans {
		sum.hold += hold
	}
	switch {
	case permits != d.permits || sum.hold != d.held || sum.short != d.short:
		panic(fmt.Sprintf("limiter: counted %d permits, %d held, %d short; the open ones have %d, %d, %d",
			d.permits, d.held, d.short, permits, sum.hold, sum.short))
	case d.short > 0 && (d.account.Unlimited || d.balance > d.held):
		panic(fmt.Sprintf("limiter: %d available while requests are %d short", d.balance-d.held, d.short))
	}
}
