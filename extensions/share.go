package extensions

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"corenode/wasm/abi"
)

// cpuShare is a slot's part of the machine's processors: an allowance of
// processor time that fills as time passes, and that calls are taken from when
// it is known what they took. It may go below nothing: that is debt, and nobody
// gets a turn before it is paid.
type cpuShare struct {
	rate  float64       // processor time that it gains per time: 1 is one processor
	burst time.Duration // the most it holds
}

// CPUShareDefault is the default of Options.CPUShare. BenchmarkHonestShare of node
// says what modules that ship take of two processors at most: 8 % with short
// bodies, 21 % with conversations of 100 KB over all protocols, and about 30 % where
// all of these are of the responses protocol.
const CPUShareDefault = 0.5

// shareWindow is the time after which an unused share is full.
const shareWindow = 500 * time.Millisecond

// newCPUShare is a share of so many processors.
func newCPUShare(share float64, processors int) cpuShare {
	rate := share * float64(processors)
	return cpuShare{rate: rate, burst: time.Duration(rate * float64(shareWindow))}
}

// filled is what an allowance of level has become after some time.
func (s cpuShare) filled(level, passed time.Duration) time.Duration {
	if passed <= 0 || level >= s.burst {
		return level
	}
	if float64(passed) >= float64(s.burst-level)/s.rate { // also where the product would not fit
		return s.burst
	}
	return level + time.Duration(s.rate*float64(passed))
}

// wait is the time until an allowance of level is more than nothing.
func (s cpuShare) wait(level time.Duration) time.Duration {
	if level > 0 {
		return 0
	}
	return time.Duration(float64(-level)/s.rate) + 1
}

// behind is the time until a call of so much has a processor of the share to
// itself, when calls of so much in all run or wait before it.
func (s cpuShare) behind(before, held time.Duration) time.Duration {
	free := time.Duration(max(1, s.rate) * float64(held)) // what can run at once
	return max(0, time.Duration(float64(before+held-free)/s.rate))
}

// cost is what the calls of one operation of a generation take. It is learned
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

// usual is what a call, or a KB of its input, takes as a rule.
type usual struct {
	calls uint64 // that were timed; how many are remembered
	ticks float64
	cpu   time.Duration
}

// usual is that of the latest calls: their mean ticks, and the processor time of
// the lower of the two windows in the middle.
func (c *cost) usual() usual {
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
		return usual{}
	}
	slices.Sort(each)
	return usual{calls: c.sums.calls, ticks: float64(all.ticks) / float64(all.units), cpu: each[(len(each)-1)/2]}
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

// opIndex numbers the operations, for arrays of what is counted of each.
func opIndex(op abi.Op) int {
	for i, known := range opsCounted {
		if op == known {
			return i
		}
	}
	return len(opsCounted) - 1 // a vector's: no host calls it
}

var opsCounted = [...]abi.Op{abi.OpEvents, abi.OpRequest, abi.OpResponse, abi.OpError, abi.OpQuote, abi.OpCharge, abi.OpDecide, 0}
