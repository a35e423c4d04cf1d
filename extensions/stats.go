package extensions

import (
	"sync/atomic"
	"time"
)

// counters are the work of the calls of one generation. Each instance counts
// its own, which belong to whoever has it; native ones use atomics.
type counters struct {
	calls, ticks, bytesIn, bytesOut uint64
	cpu                             time.Duration // measured on one call in cpuSample, and multiplied
}

func (c *counters) add(more *counters) {
	c.calls += more.calls
	c.ticks += more.ticks
	c.bytesIn += more.bytesIn
	c.bytesOut += more.bytesOut
	c.cpu += more.cpu
}

// cpuSample is how many calls of an instance stand behind one that reads the clock.
const cpuSample = 64

// tally counts what goes wrong and what runs beside, all rare.
type tally struct {
	faults           [causeEnd]atomic.Uint64
	declined         atomic.Uint64
	fallbacks        atomic.Uint64 // calls that the builtin answered instead
	shadowRuns       atomic.Uint64
	shadowMismatches atomic.Uint64
	shadowDropped    atomic.Uint64
	metrics          [metricsMax]atomic.Int64 // what the module counts itself
}

// metricsMax is how many counters a module has: ids 0 to metricsMax-1.
const metricsMax = 16

// nativeCounters are counters of a generation without a pool.
type nativeCounters struct{ calls, bytesIn, bytesOut atomic.Uint64 }

func (n *nativeCounters) add(in, out int) {
	n.calls.Add(1)
	n.bytesIn.Add(uint64(in))
	n.bytesOut.Add(uint64(out))
}

func (n *nativeCounters) load() counters {
	return counters{calls: n.calls.Load(), bytesIn: n.bytesIn.Load(), bytesOut: n.bytesOut.Load()}
}
