//go:build invariants

package limit

import (
	"fmt"

	"corenode/wasm/abi"
)

// check panics when an invariant of the state does not hold.
func (s *State) check() {
	sum := held{hold: s.rest.Money}
	permits := s.rest.Permits
	counted := map[counterKey]int64{}
	keyed := map[string]keyHeld{}
	count := func(all []abi.Counter) {
		for _, c := range all {
			if c.Amount < 0 {
				panic(fmt.Sprintf("limit: %d held of %s", c.Amount, c.Name))
			}
			counted[counterKey{c.Name, c.Period}] += c.Amount
		}
	}
	for id, h := range s.open {
		if h.permit {
			permits++
		}
		if h.empty() || h.hold < 0 || h.short < 0 || h.key.hold < 0 || h.key.short < 0 || h.arrival > s.arrivals {
			panic(fmt.Sprintf("limit: request %s has %+v", id, h))
		}
		sum.hold += h.hold
		sum.short += h.short
		count(h.counters)
		keyed[h.key.id] = keyHeld{h.key.id, keyed[h.key.id].hold + h.key.hold, keyed[h.key.id].short + h.key.short}
	}
	for _, o := range s.orphans {
		sum.hold += o.hold
		count(o.counters)
		keyed[o.key.id] = keyHeld{o.key.id, keyed[o.key.id].hold + o.key.hold, keyed[o.key.id].short}
	}
	for k, c := range s.taken {
		if c.held != counted[k] || c.used < 0 {
			panic(fmt.Sprintf("limit: of %v %d are used and %d held; the open ones have %d", k, c.used, c.held, counted[k]))
		}
		delete(counted, k)
	}
	if len(counted) > 0 {
		panic(fmt.Sprintf("limit: open ones have %v, which nobody counted", counted))
	}
	s.checkKeys(keyed)
	switch b := s.bucket; {
	case b.Parts > b.Capacity*partsPerToken:
		panic(fmt.Sprintf("limit: a bucket of %d tokens has %d parts", b.Capacity, b.Parts))
	case permits != s.permits || sum.hold != s.held || sum.short != s.short:
		panic(fmt.Sprintf("limit: counted %d permits, %d held, %d short; the open ones have %d, %d, %d",
			s.permits, s.held, s.short, permits, sum.hold, sum.short))
	case s.short > 0 && (s.account.Unlimited || s.balance > s.held):
		panic(fmt.Sprintf("limit: %d available while requests are %d short", s.balance-s.held, s.short))
	}
}

// checkKeys panics unless what keys have is what the open ones have of them.
func (s *State) checkKeys(open map[string]keyHeld) {
	short := abi.Nano(0)
	for id, k := range s.keys {
		short += k.short
		if h := open[id]; k.held != h.hold || k.short != h.short {
			panic(fmt.Sprintf("limit: of key %s %d are held and %d short; the open ones have %d and %d",
				id, k.held, k.short, h.hold, h.short))
		}
		if k.short > 0 && (k.budget == 0 || k.left() > 0) {
			panic(fmt.Sprintf("limit: key %s has %d left while requests are %d short", id, k.left(), k.short))
		}
		delete(open, id)
	}
	delete(open, "")
	for id, h := range open {
		if h.hold != 0 || h.short != 0 {
			panic(fmt.Sprintf("limit: key %s is held by nobody's count", id))
		}
	}
	if short != s.keyShort {
		panic(fmt.Sprintf("limit: keys are short of %d, counted %d", short, s.keyShort))
	}
	for id, b := range s.buckets {
		if b.Parts > b.Capacity*partsPerToken {
			panic(fmt.Sprintf("limit: the bucket of key %s has %d parts of %d tokens", id, b.Parts, b.Capacity))
		}
	}
}
