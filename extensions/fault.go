package extensions

import (
	"errors"
	"fmt"
	"slices"

	"corenode/extensions/meter"
)

// cause is why a call failed. All but overloaded are faults of the module: its
// breaker hears of them, and but for a broken rule the instance is discarded.
type cause uint8

const (
	causeTrap        cause = iota // the guest trapped, or its program exited
	causeTicks                    // it used up its ticks
	causeDepth                    // it called itself too deep
	causeMemory                   // it wanted more memory than it may have
	causeProtocol                 // its answer breaks the ABI (bad pointer, malformed or oversized output) or the protocol of the client
	causeRule                     // its answer breaks a rule of the host: a charge that does not add up
	causeInstantiate              // no instance could be made
	causeOverloaded               // every instance was busy for too long
	causeEnd
)

var causeNames = [causeEnd]string{"trap", "ticks", "depth", "memory", "protocol", "rule", "instantiate", "overloaded"}

func (c cause) String() string { return causeNames[c] }

// Causes are all that a call can fail of: the keys of Info.Faults.
func Causes() []string { return slices.Clone(causeNames[:]) }

// fault is a call that gave no usable answer.
type fault struct {
	cause  cause
	detail string // for the log
	input  int    // bytes of the call's input, where it is a client's
}

// bodyBytesFair is the input with which every module must cope: when a larger
// one takes more ticks or memory than there are, that is the body's fault.
const bodyBytesFair = 1 << 20

// byBody says whether the client's body, and not the module, is to blame: one
// client must not be able to take a module out of service for all.
func (f *fault) byBody() bool {
	return f.input > bodyBytesFair && (f.cause == causeTicks || f.cause == causeMemory)
}

func (f *fault) Error() string { return f.cause.String() + ": " + f.detail }

func faultf(c cause, format string, args ...any) *fault {
	return &fault{cause: c, detail: fmt.Sprintf(format, args...)}
}

// LoadError is why a module was refused.
type LoadError struct {
	Stage  string // size, signature, parse, manifest, denied, imports, exports, memory, floats, meter, effort, compile, instantiate, abi, init, vectors, probe, time; digest
	Reason string // what is wrong
	Fix    string // what to do about it
	Err    error  // cause, may be nil
}

// Error says where, what and how to mend it.
func (e *LoadError) Error() string {
	s := "module refused (" + e.Stage + "): " + e.Reason
	if e.Fix != "" {
		s += "; " + e.Fix
	}
	return s
}

// Unwrap returns the cause.
func (e *LoadError) Unwrap() error { return e.Err }

func refused(stage, fix, format string, args ...any) *LoadError {
	err := fmt.Errorf(format, args...)
	return &LoadError{Stage: stage, Reason: err.Error(), Fix: fix, Err: err}
}

// fixRebuild is the remedy for a file in which something is wrong that no source says.
const fixRebuild = "the file is damaged or was made by a tool with a fault: build it again with a current toolchain"

// refusedByMeter takes reason and remedy apart, which the meter says in one.
func refusedByMeter(stage string, err error) *LoadError {
	r := refused(stage, fixRebuild, "%w", err)
	if e, ok := errors.AsType[*meter.Error](err); ok && e.Fix != "" {
		plain := *e
		plain.Fix = ""
		r.Reason, r.Fix = plain.Error(), e.Fix
	}
	return r
}
