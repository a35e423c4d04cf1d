package extensions

import (
	"sync/atomic"
	"time"

	"corenode/wasm/abi"
)

// work are the counters of each operation, by opIndex. Each instance counts its
// own, which belong to whoever has it; native ones use atomics.
type work [len(opsCounted)]counters

func (w *work) add(more *work) {
	for op := range more {
		w[op].add(&more[op])
	}
}

// total is the work of all operations.
func (w *work) total() (c counters) {
	for op := range w {
		c.add(&w[op])
	}
	return c
}

// requests are the requests that were worked for: each has one call of one of
// these operations.
func (w *work) requests() uint64 {
	return w[opIndex(abi.OpRequest)].calls + w[opIndex(abi.OpQuote)].calls + w[opIndex(abi.OpDecide)].calls
}

// counters are the work of calls.
type counters struct {
	calls, ticks, bytesIn, bytesOut uint64
	cpu                             time.Duration // measured, or estimated from the calls that were; see cost
}

func (c *counters) add(more *counters) {
	c.calls += more.calls
	c.ticks += more.ticks
	c.bytesIn += more.bytesIn
	c.bytesOut += more.bytesOut
	c.cpu += more.cpu
}

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
