package extensions

import (
	"sync/atomic"

	"corenode/extensions/guest"
)

// tally counts what goes wrong and what runs beside, all rare.
type tally struct {
	faults           [guest.CauseEnd]atomic.Uint64
	requests         atomic.Uint64 // that it worked for, by their first calls
	declined         atomic.Uint64
	fallbacks        atomic.Uint64 // calls that the builtin answered instead
	shadowRuns       atomic.Uint64
	shadowMismatches atomic.Uint64
	shadowDropped    atomic.Uint64
}

// nativeCounters are counters of a generation without a pool.
type nativeCounters struct{ calls, bytesIn, bytesOut atomic.Uint64 }

func (n *nativeCounters) add(in, out int) {
	n.calls.Add(1)
	n.bytesIn.Add(uint64(in))
	n.bytesOut.Add(uint64(out))
}

func (n *nativeCounters) load() guest.Counters {
	return guest.Counters{Calls: n.calls.Load(), BytesIn: n.bytesIn.Load(), BytesOut: n.bytesOut.Load()}
}
