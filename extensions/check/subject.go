package check

import (
	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Subject is a module to be checked.
type Subject struct {
	probe.Module
	Name    string // name@version
	Digest  string
	Size    int // of the file, bytes
	Vectors []byte
	// Open makes a fresh instance that was initialized with config.
	Open func(config []byte) (Guest, error)
	// CheckConfig holds a configuration to the module's schema.
	CheckConfig func(config []byte) error
	// Budget is the ticks that the host grants a call.
	Budget func(op abi.Op, inputBytes int) int64
	// Native is the shipped native build for the same slot; nil if there is none.
	Native vector.Call
	// Try is what a node does before it takes the module; nil leaves it out.
	Try func(config []byte) error
	// Notes are what the load path accepted and a person should know.
	Notes []string
}

// Guest is one instance of a subject, for one call at a time. After an error
// of Call it is only closed.
type Guest interface {
	// Call does one operation and returns the whole output frame, which the
	// caller owns, and the ticks it took. An error is a fault, as the host sees it.
	Call(op abi.Op, in []byte) (frame []byte, ticks int64, err error)
	MemoryBytes() int64
	Close()
}

// Options say how to check a module.
type Options struct {
	// Files are vectors beside those in the module. With Update their wants
	// become what the module gives; the caller writes those that Report.Updated names.
	Files  []vector.File
	Update bool
	// Config is what instances are initialized with, but for vectors that say
	// their own. Default {}.
	Config []byte
	// Calls is how many calls the growth of memory is measured over. Default 20,000.
	Calls int
	// Quick leaves out what a node does itself when it is asked next; and of a Go guest, whose
	// instances take long to open, all but vectors and money.
	Quick bool

	// fresh bounds the instances that determinism opens, 0 = freshMax: a large
	// module takes milliseconds for each.
	fresh int
	// only: tests of one stage leave the others out; load always runs.
	only []string
}

// checker is the work on one report.
type checker struct {
	Subject
	o        Options
	report   *Report
	vectors  []*vector.Vector
	recorded []exchange   // calls of the vectors that passed, with what they gave
	samples  []probe.Call // usual calls
}

// exchange is one call and its answer.
type exchange struct {
	what   string // for messages
	config []byte
	op     abi.Op
	in     []byte
	frame  []byte
	ticks  int64
}

// sandbox runs calls on one instance and takes a fresh one after a fault.
type sandbox struct {
	open func(config []byte) (Guest, error)
	conf []byte
	g    Guest
}

func (ck *checker) sandbox(config []byte) *sandbox { return &sandbox{open: ck.Open, conf: config} }

// call is Guest.Call.
func (b *sandbox) call(op abi.Op, in []byte) (frame []byte, ticks int64, err error) {
	if b.g == nil {
		if b.g, err = b.open(b.conf); err != nil {
			b.g = nil
			return nil, 0, err
		}
	}
	frame, ticks, err = b.g.Call(op, in)
	if err != nil {
		b.close()
	}
	return frame, ticks, err
}

// frame is a vector.Call.
func (b *sandbox) frame(op abi.Op, in []byte) ([]byte, error) {
	frame, _, err := b.call(op, in)
	return frame, err
}

func (b *sandbox) close() {
	if b.g != nil {
		b.g.Close()
		b.g = nil
	}
}
