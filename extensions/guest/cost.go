package guest

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// cost is what the calls of one operation of a module take. It is learned
// from those that are timed: the first ones, a sample of the others, and every
// one of an operation that is slow, where the clock adds little.
type cost struct {
	mean    atomic.Int64 // of a call, in nanoseconds
	perTick atomic.Int64 // in 1/tickUnit nanoseconds
	learned atomic.Bool  // the first calls were timed

	mu      sync.Mutex
	sums    costSums
	windows [costWindows]costSums // the latest timed calls, a ring
	window  int                   // the one that is being filled
}

// costWindows are what latest calls are cut into, so that a few that the machine
// held up spoil one window, and not what is compared.
const costWindows = 4

// costSums are sums over timed calls.
type costSums struct {
	calls, ticks uint64
	units        uint64 // a call has one, and one for each KB of its input, as a budget is given
	cpu          time.Duration
}

const (
	costSample = 256                   // one in so many calls is timed
	costSlow   = 50 * time.Microsecond // of a mean call: then all are; two readings of the clock take 2
	costLearn  = 256                   // the first calls that are timed
	costKeep   = 8                     // times as many calls stand behind the sums at most: older ones count less and less
	tickUnit   = 1 << 16
)

// timed says whether to time a call. draw is random.
func (c *cost) timed(draw uint64) bool {
	return !c.learned.Load() || c.mean.Load() >= int64(costSlow) || draw%costSample == 0
}

// estimate is what a call of so many ticks took that was not timed.
func (c *cost) estimate(ticks uint64) time.Duration {
	return time.Duration(ticks * uint64(c.perTick.Load()) / tickUnit)
}

// expect says what calls took before the first that is timed.
func (c *cost) expect(tried costSums) {
	if tried.calls > 0 {
		c.mean.Store(int64(tried.cpu) / int64(tried.calls))
	}
}

// learn takes a timed call in. Of the first ones so many are timed, and at least
// compared are in the windows once they are full.
func (c *cost) learn(inputBytes int, ticks uint64, cpu time.Duration, first, compared uint64) {
	one := costSums{calls: 1, ticks: ticks, units: uint64(inputBytes)/1024 + 1, cpu: cpu}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.windows[c.window].calls*costWindows >= compared {
		c.window = (c.window + 1) % costWindows
		c.windows[c.window] = costSums{}
	}
	c.windows[c.window].add(one, math.MaxUint64)
	c.sums.add(one, costKeep*first)
	c.mean.Store(int64(c.sums.cpu) / int64(c.sums.calls))
	c.perTick.Store(int64(c.sums.perTick()))
	if c.sums.calls >= first {
		c.learned.Store(true)
	}
}

// Usual is what a call, or a KB of its input, takes as a rule.
type Usual struct {
	Calls uint64 // that were timed; how many are remembered
	Ticks float64
	CPU   time.Duration
}

// usual is that of the latest calls: their mean ticks, and the processor time of
// the lower of the two windows in the middle.
func (c *cost) usual() Usual {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all costSums
	var each []time.Duration
	for _, w := range c.windows {
		if w.calls > 0 {
			all.add(w, math.MaxUint64)
			each = append(each, w.cpu/time.Duration(w.units))
		}
	}
	if all.calls == 0 {
		return Usual{}
	}
	slices.Sort(each)
	return Usual{Calls: c.sums.calls, Ticks: float64(all.ticks) / float64(all.units), CPU: each[(len(each)-1)/2]}
}

// add takes more calls in. Beyond keep calls the sums are halved first.
func (s *costSums) add(more costSums, keep uint64) {
	if s.calls >= keep {
		s.calls, s.ticks, s.units, s.cpu = s.calls/2, s.ticks/2, s.units/2, s.cpu/2
	}
	s.calls += more.calls
	s.ticks += more.ticks
	s.units += more.units
	s.cpu += more.cpu
}

// perTick is the time of a tick in 1/tickUnit nanoseconds.
func (s *costSums) perTick() uint64 {
	return uint64(float64(s.cpu) * tickUnit / float64(max(s.ticks, 1)))
}
