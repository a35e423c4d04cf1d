package guest

import (
	"errors"
	"fmt"

	"corenode/wasm/abi"
)

// A tick is one function call or one loop round of a guest: 2 to 3 ns on the
// machines this was measured on. Defaults are what a call of that size takes
// with plenty of room; caps are what no manifest gets more of.
const (
	ticksRequest = 10_000_000  // an op of a whole request or answer: about 20 ms
	ticksEvents  = 1_000_000   // an event group or a policy's decision: about 2 ms
	ticksPerKB   = 20_000      // about 50 us for each KB of input; the shipped chat module takes 3,000 ticks
	ticksInit    = 100_000_000 // _initialize and init together
	ticksHost    = 50          // of one call to the host, taken there; a long one takes more

	// A Go guest may collect its garbage within any call, which takes
	// milliseconds whatever the call is.
	ticksGo = 20_000_000

	ticksCallMax  = 200_000_000
	ticksPerKBMax = 200_000
)

// VectorTicksMax bounds what is run of a module before it may serve: its golden
// vectors, and one usual call of each operation. It is about 5 s of processor
// time, in which a host builds no other.
const VectorTicksMax = 1_600_000_000

// VectorTicksServed is the bound for modules that served already: they were
// taken when it was this.
const VectorTicksServed = 5_000_000_000

// Memory of one instance.
const (
	memoryDefault = 128 << 20 // room for a body of 32 MiB going in and one coming out
	memoryMax     = 512 << 20
)

// Budget is the ticks of one call.
func (m *Manifest) Budget(op abi.Op, inputBytes int) int64 {
	call, perKB := min(m.Ticks.Call, ticksCallMax), min(m.Ticks.PerKB, ticksPerKBMax)
	if call == 0 {
		call = ticksRequest
		if op != abi.OpRequest && op != abi.OpResponse && op != abi.OpModels && op != abi.OpRewrite {
			call = ticksEvents
		}
		if m.Runtime == RuntimeGo {
			call = ticksGo
		}
	}
	if perKB == 0 {
		perKB = ticksPerKB
	}
	return call + perKB*(int64(inputBytes)/1024+1)
}

// memoryBytesMax is the cap of one instance's memory in bytes, whole pages.
func (m *Manifest) memoryBytesMax() int64 {
	n := m.MemoryMaxBytes
	if n == 0 {
		n = memoryDefault
	}
	return (min(n, memoryMax) + pageBytes - 1) / pageBytes * pageBytes
}

// CheckBounds says which numbers are above what a host grants.
func (m *Manifest) CheckBounds() error {
	var errs []error
	for _, n := range []struct {
		key       string
		asks, max int64
	}{{"memory_max_bytes", m.MemoryMaxBytes, memoryMax}, {"ticks.call", m.Ticks.Call, ticksCallMax},
		{"ticks.per_kb", m.Ticks.PerKB, ticksPerKBMax}} {
		if n.asks > n.max {
			errs = append(errs, fmt.Errorf("manifest: %s is %d, at most %d", n.key, n.asks, n.max))
		}
	}
	return errors.Join(errs...)
}

// pageBytes is the size of a page of memory.
const pageBytes = 64 << 10

// outputBytesMax bounds the payload of one output: what a call of that input can
// sensibly say, and never more than outputMax.
func outputBytesMax(op abi.Op, inputBytes int) int {
	switch op {
	case abi.OpQuote, abi.OpCharge, abi.OpDecide:
		return 8 << 10
	case abi.OpError: // the end of a stream may tell all of the request and the answer again
		return min(outputMax, 256<<10+4*inputBytes)
	}
	return min(outputMax, 1<<20+16*inputBytes)
}

// FilteredMax bounds what a filter gives of all pieces of an answer together, which had so many
// bytes: as much as if they were one. Translators and clients keep answers as a whole.
func FilteredMax(answerBytes int) int { return outputBytesMax(abi.OpFilter, answerBytes) }

// outputMax bounds every output.
const outputMax = 64 << 20
