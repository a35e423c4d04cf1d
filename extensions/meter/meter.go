// Package meter rewrites WebAssembly modules so that a host can bound what
// they do. It is pure: bytes in, bytes out, no engine.
//
// The engine that runs guests cannot interrupt them cheaply, and a guest that
// spins keeps the garbage collector of the whole process waiting. So every
// module is rewritten before it is compiled. The rewritten module computes the
// same results, and in addition
//
//   - counts ticks: one per function entry and per pass of a loop header, one
//     more per 256 bytes of code that run without either, one per 64 bytes that
//     a bulk operation touches, and 1024 per page that memory grows. Growing a memory takes at least 50, which
//     growing a table takes beside its entries. The count depends on the module and
//     its input only, never on the machine. A guest whose budget is spent traps.
//   - enters the host at least every Options.SafepointTicks ticks, so that the
//     scheduler and the collector get their turn.
//   - counts the depth of recursion and traps beyond Options.DepthMax.
//   - cannot grow memory and tables beyond the caps of Options.
//   - exports the counters and all mutable globals under names that begin with
//     Prefix, so that a host can arm, read, snapshot and restore an instance.
//
// What the rewriter does not know it refuses: anything beyond core 2.0 with
// SIMD, every index out of range (a guest must not reach the counters), and
// every malformed byte. Functions, types and globals are appended behind the
// module's own, so no index of the module shifts.
//
// Host functions must not call back into the instance that called them: their
// calls would share its counters.
//
// Not metered exactly: the entry of a function of at most tinyBytes bytes
// without calls, loops and bulk operations. Its size counts as code of its
// caller. A function that reaches its first loop on a straight path counts one
// tick for both, the entry and the first pass.
package meter

import "errors"

// Prefix begins the names of all exports that Rewrite adds. A module that
// exports such a name already is refused.
const Prefix = "__meter_"

// Exported globals that carry the counters. A host sets GlobalLeft and
// GlobalBudget before each call (Arm computes them) and reads them after it
// (Remaining). GlobalDepth and GlobalCause need no care while calls return
// normally; after a trap the instance is to be discarded.
const (
	GlobalLeft   = Prefix + "left"   // i64: ticks until the next safepoint
	GlobalBudget = Prefix + "budget" // i64: ticks beyond those of GlobalLeft
	GlobalDepth  = Prefix + "depth"  // i64: what remains of Options.DepthMax
	GlobalCause  = Prefix + "cause"  // i32: why the guest was stopped, a Cause
)

// FuncStart is the name of the start function as an export; see Options.ExportStart.
const FuncStart = Prefix + "start"

// Cause is the value of GlobalCause after a trap.
type Cause uint32

// The causes. CauseNone after a trap means that the module itself trapped.
const (
	CauseNone  Cause = 0
	CauseTicks Cause = 1
	CauseDepth Cause = 2
)

// Limits of what is accepted. They bound the memory that parsing, rewriting
// and compiling take; compilers stay far below them.
const (
	typesMax       = 100_000
	signatureMax   = 1_000 // parameters, and results, of one type
	functionsMax   = 200_000
	localsMax      = 50_000    // of one function
	localsTotalMax = 4_000_000 // of all functions
	globalsMax     = 10_000
	elementsMax    = 200_000 // of all element segments, each of which counts as one more: an instance keeps 40 bytes for each
	dataMax        = 100_000 // segments; the Go toolchain makes no more
	customsMax     = 10_000
	tablesMax      = 16
	nestingMax     = 4_000  // blocks open at once in one function; the engine's time grows with the square
	pagesMax       = 65_536 // of 64 KiB, what the format can say
)

// Defaults of Options.
const (
	DefaultSafepointTicks  = 50_000
	DefaultDepthMax        = 4096
	DefaultMemoryPagesMax  = 1024
	DefaultTableEntriesMax = 100_000
	DefaultStartTicks      = 100_000_000
)

// Options are the bounds that Rewrite builds into a module. Zero fields take
// their defaults.
type Options struct {
	// SafepointTicks is the most ticks between two entries into the host.
	// The default is about 100 microseconds of ordinary code.
	SafepointTicks int32
	// DepthMax bounds recursion. Every activation of a function that can come
	// to call itself counts one, and one more per 64 locals and per 4 KiB of
	// its code, which bounds the stack that it can take.
	DepthMax int32
	// SafepointPages, if not 0, makes a safepoint ask for so many pages in all
	// instead of for none more. The memory is declared to take them; the host's
	// allocator refuses, as it then must whatever is over the module's own
	// maximum or MemoryPagesMax, and may let others run before it returns.
	SafepointPages uint32
	// MemoryPagesMax caps the memory's maximum, in pages of 64 KiB. A module
	// whose minimum is above it is refused.
	MemoryPagesMax uint32
	// TableEntriesMax caps every table likewise.
	TableEntriesMax uint32
	// StartTicks is the budget of a fresh instance, for its start function and
	// until the host arms it.
	StartTicks int64
	// ExportStart exports the start function as FuncStart instead of having it
	// run while the instance is made: a host that calls it first can see why it
	// was stopped.
	ExportStart bool
}

func (o Options) withDefaults() (Options, error) {
	setDefault(&o.SafepointTicks, DefaultSafepointTicks)
	setDefault(&o.DepthMax, DefaultDepthMax)
	setDefault(&o.MemoryPagesMax, DefaultMemoryPagesMax)
	setDefault(&o.TableEntriesMax, DefaultTableEntriesMax)
	setDefault(&o.StartTicks, DefaultStartTicks)
	if o.SafepointTicks < 0 || o.SafepointTicks > 1<<30 || o.DepthMax < 0 || o.DepthMax > 1<<30 ||
		o.StartTicks < 0 || o.MemoryPagesMax > pagesMax || o.SafepointPages > pagesMax {
		return o, errors.New("meter: an option is out of range")
	}
	return o, nil
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Arm returns what GlobalLeft and GlobalBudget must hold for a call that may
// use ticks. safepointTicks is Options.SafepointTicks, zero for its default.
func Arm(ticks int64, safepointTicks int32) (left, budget uint64) {
	setDefault(&safepointTicks, DefaultSafepointTicks)
	first := min(ticks, int64(safepointTicks))
	return uint64(first), uint64(ticks - first)
}

// Remaining returns the ticks that are left, from the values of GlobalLeft and
// GlobalBudget. It is negative after CauseTicks, by what was counted beyond the
// budget: -1, or more after a bulk operation. It can also be negative after a
// call that ended with a bulk operation and without another tick.
func Remaining(left, budget uint64) int64 {
	return int64(budget) + int64(left)
}

// Inspect parses and checks a module as Rewrite does, whatever its memory
// and tables need, and reports what it holds.
func Inspect(module []byte) (*Info, error) {
	m, err := parse(module)
	if err != nil {
		return nil, err
	}
	return m.info(), nil
}

// Rewrite returns the metered module. The input is not changed; info aliases
// it. Errors about the module are of type *Error.
func Rewrite(module []byte, o Options) (metered []byte, info *Info, err error) {
	o, err = o.withDefaults()
	if err != nil {
		return nil, nil, err
	}
	m, err := parse(module)
	if err != nil {
		return nil, nil, err
	}
	if err := m.checkCaps(o); err != nil {
		return nil, nil, err
	}
	return newRewriter(m, o).module(), m.info(), nil
}
