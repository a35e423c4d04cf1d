//go:build invariants

package limiter

import (
	"fmt"

	"corenode/wasm/abi"
)

// check panics when an invariant of the state does not hold.
func (s *state) check() {
	var sum held
	permits := 0
	counted := map[counterKey]int64{}
	count := func(all []abi.Counter) {
		for _, c := range all {
			if c.Amount < 0 {
				panic(fmt.Sprintf("limiter: %d held of %s", c.Amount, c.Name))
			}
			counted[counterKey{c.Name, c.Period}] += c.Amount
		}
	}
	for id, h := range s.open {
		if h.permit {
			permits++
		}
		if (!h.permit && h.hold == 0 && h.short == 0 && len(h.counters) == 0) || h.hold < 0 || h.short < 0 || h.arrival > s.arrivals {
			panic(fmt.Sprintf("limiter: request %s has %+v", id, h))
		}
		sum.hold += h.hold
		sum.short += h.short
		count(h.counters)
	}
	for _, o := range s.orphans {
		sum.hold += o.hold
		count(o.counters)
	}
	for k, c := range s.taken {
		if c.held != counted[k] || c.used < 0 {
			panic(fmt.Sprintf("limiter: of %v %d are used and %d held; the open ones have %d", k, c.used, c.held, counted[k]))
		}
		delete(counted, k)
	}
	if len(counted) > 0 {
		panic(fmt.Sprintf("limiter: open ones have %v, which nobody counted", counted))
	}
	switch b := s.bucket; {
	case b.parts > b.capacity*partsPerToken:
		panic(fmt.Sprintf("limiter: a bucket of %d tokens has %d parts", b.capacity, b.parts))
	case permits != s.permits || sum.hold != s.held || sum.short != s.short:
		panic(fmt.Sprintf("limiter: counted %d permits, %d held, %d short; the open ones have %d, %d, %d",
			s.permits, s.held, s.short, permits, sum.hold, sum.short))
	case s.short > 0 && (s.account.Unlimited || s.balance > s.held):
		panic(fmt.Sprintf("limiter: %d available while requests are %d short", s.balance-s.held, s.short))
	}
}
