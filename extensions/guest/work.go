package guest

import (
	"time"

	"corenode/wasm/abi"
)

// Work are the counters of each operation, by opIndex. Each instance counts its
// own, which belong to whoever has it; native ones use atomics.
type Work [len(opsCounted)]Counters

func (w *Work) add(more *Work) {
	for op := range more {
		w[op].add(&more[op])
	}
}

// Total is the work of all operations.
func (w *Work) Total() (c Counters) {
	for op := range w {
		c.add(&w[op])
	}
	return c
}

// Counters are the work of calls.
type Counters struct {
	Calls, Ticks, BytesIn, BytesOut uint64
	CPU                             time.Duration // measured, or estimated from the calls that were; see cost
}

func (c *Counters) add(more *Counters) {
	c.Calls += more.Calls
	c.Ticks += more.Ticks
	c.BytesIn += more.BytesIn
	c.BytesOut += more.BytesOut
	c.CPU += more.CPU
}

// opIndex numbers the operations, for arrays of what is counted of each.
func opIndex(op abi.Op) int {
	for i, known := range opsCounted {
		if op == known {
			return i
		}
	}
	return opNone
}

// opNone is the place of a vector's operations, which no host calls, and of what is no call: making
// instances, and their memory fresh.
const opNone = len(opsCounted) - 1

var opsCounted = [...]abi.Op{abi.OpEvents, abi.OpRequest, abi.OpResponse, abi.OpError, abi.OpQuote, abi.OpCharge, abi.OpDecide,
	abi.OpModels, abi.OpCount, abi.OpRewrite, abi.OpFilter, 0}
