package extensions

import (
	"fmt"
	"sync"
	"time"
)

// breaker decides when a generation has failed too often to go on. It hears of
// faults only, which are rare; calls are counted elsewhere and told with each.
type breaker struct {
	mu      sync.Mutex
	recent  [breakerFaults]time.Time // of the last faults, a ring
	next    int
	faults  uint64 // since the window began
	from    uint64 // calls when the window began
	tripped bool
}

const (
	breakerFaults  = 5 // within breakerSpan trip it
	breakerSpan    = 10 * time.Second
	breakerPercent = 1 // of at least breakerCallsMin calls trip it as well
	breakerCallsMin,
	breakerCallsMax = 500, 20_000 // a window of more calls than that begins again
)

// fault hears of one fault after calls calls. The reason is not empty once, at
// the fault that trips it.
func (b *breaker) fault(now time.Time, calls uint64) (reason string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tripped {
		return ""
	}
	b.recent[b.next] = now
	b.next = (b.next + 1) % breakerFaults
	oldest := b.recent[b.next] // of the last breakerFaults, this one included
	b.faults++
	if calls-b.from > breakerCallsMax {
		b.from, b.faults = calls, 0 // the next window has the calls behind this fault, and so not the fault
	}
	n := calls - b.from
	switch {
	case !oldest.IsZero() && now.Sub(oldest) <= breakerSpan:
		reason = fmt.Sprintf("%d faults in %v", breakerFaults, now.Sub(oldest).Round(time.Millisecond))
	case n >= breakerCallsMin && b.faults*100 > n*breakerPercent:
		reason = fmt.Sprintf("%d faults in %d calls", b.faults, n)
	}
	b.tripped = reason != ""
	return reason
}

// reset forgets everything, for a generation that is given another chance.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.recent, b.next, b.faults, b.from, b.tripped = [breakerFaults]time.Time{}, 0, 0, 0, false
}
