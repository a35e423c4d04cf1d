package guest

import (
	"errors"
	"fmt"
	"slices"

	"corenode/extensions/meter"
)

// Cause is why a call failed. All but overloaded are faults of the module: its
// breaker hears of them, and but for a broken rule the instance is discarded.
type Cause uint8

// The causes; their names are the keys of Info.Faults.
const (
	CauseTrap        Cause = iota // the guest trapped, or its program exited
	CauseTicks                    // it used up its ticks
	CauseDepth                    // it called itself too deep
	CauseMemory                   // it wanted more memory than it may have
	CauseProtocol                 // its answer breaks the ABI (bad pointer, malformed or oversized output) or the protocol of the client
	CauseRule                     // its answer breaks a rule of the host: a charge that does not add up
	CauseInstantiate              // no instance could be made
	CauseOverloaded               // every instance was busy for too long, or the node has no room for one
	CauseEnd                      // how many there are
)

var causeNames = [CauseEnd]string{"trap", "ticks", "depth", "memory", "protocol", "rule", "instantiate", "overloaded"}

// String is the name of the cause.
func (c Cause) String() string { return causeNames[c] }

// Causes are the names of all causes.
func Causes() []string { return slices.Clone(causeNames[:]) }

// Fault is a call that gave no usable answer.
type Fault struct {
	Cause  Cause
	Detail string // for the log
	Input  int    // bytes of the call's input, where it is a client's
}

// BodyBytesFair is the input with which every module must cope: when a larger
// one takes more ticks or memory than there are, that is the body's fault.
const BodyBytesFair = 1 << 20

// ByBody says whether the client's body, and not the module, is to blame: one
// client must not be able to take a module out of service for all.
func (f *Fault) ByBody() bool {
	return f.Input > BodyBytesFair && (f.Cause == CauseTicks || f.Cause == CauseMemory)
}

// Error says cause and detail.
func (f *Fault) Error() string { return f.Cause.String() + ": " + f.Detail }

// Faultf makes a fault.
func Faultf(c Cause, format string, args ...any) *Fault {
	return &Fault{Cause: c, Detail: fmt.Sprintf(format, args...)}
}

// LoadError is why a module was refused.
type LoadError struct {
	// size, signature, parse, manifest, denied, imports, exports, memory, floats, config, meter, effort,
	// compile, instantiate, abi, init, vectors, probe, time; digest
	Stage  string
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

// Refused makes the error of a module that is refused at a stage; fix says how to mend it.
func Refused(stage, fix, format string, args ...any) *LoadError {
	err := fmt.Errorf(format, args...)
	return &LoadError{Stage: stage, Reason: err.Error(), Fix: fix, Err: err}
}

// fixRebuild is the remedy for a file in which something is wrong that no source says.
const fixRebuild = "the file is damaged or was made by a tool with a fault: build it again with a current toolchain"

// fixManifest is the remedy for a manifest that this node does not take. A newer one may know its keys, kinds and bounds.
const fixManifest = "if it was packed for a newer node, upgrade this one; else correct it, and pack the module again: corenode module pack"

// refusedByMeter takes reason and remedy apart, which the meter says in one.
func refusedByMeter(stage string, err error) *LoadError {
	r := Refused(stage, fixRebuild, "%w", err)
	if e, ok := errors.AsType[*meter.Error](err); ok && e.Fix != "" {
		plain := *e
		plain.Fix = ""
		r.Reason, r.Fix = plain.Error(), e.Fix
	}
	return r
}
