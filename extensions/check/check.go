// Package check tells an author and an operator what is wrong with a module
// before a node is asked to load it. It takes a module file through the load
// path of package extensions without a node, and then tries what a running node
// would meet: golden vectors at every cut of every stream, the same call on
// fresh and on used instances, input that no client should send, many calls in
// a row, large input, and for billing the rules that keep money right.
//
// A study has no clock and no randomness: the same file gives the same report,
// its counts of ticks included, so that a report can be kept and compared.
package check

import (
	"slices"

	"corenode/extensions/probe"
	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

// Subject is a module under study.
type Subject struct {
	Name     string // name@version
	Kind     string // translator, billing or admission
	Protocol string // of a translator: chat or responses
	Digest   string
	Size     int  // of the file, bytes
	History  bool // the manifest asks for history
	Free     bool // the manifest allows a charge of nothing
	Vectors  []byte
	// Open makes a fresh instance that was initialised with config.
	Open func(config []byte) (Guest, error)
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

// Options say how to study a module.
type Options struct {
	// Files are vectors beside those in the module. With Update their wants
	// become what the module gives; the caller writes the files.
	Files  []vector.File
	Update bool
	// Config is what instances are initialised with, but for vectors that say
	// their own. Default {}.
	Config []byte
	// Calls is how many calls the growth of memory is measured over. Default 20,000.
	Calls int

	// fresh bounds the instances that determinism opens, 0 = freshMax: a large
	// module takes milliseconds for each.
	fresh int
	// only: tests of one stage leave the others out; load always runs.
	only []string
}

// study is the work on one report.
type study struct {
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

// Study does everything that can be done with a module that loads.
func Study(s Subject, o Options) *Report {
	if len(o.Config) == 0 {
		o.Config = []byte("{}")
	}
	if o.Calls == 0 {
		o.Calls = 20_000
	}
	if o.fresh == 0 {
		o.fresh = freshMax
	}
	st := &study{Subject: s, o: o, report: &Report{
		Module: s.Name, Kind: s.Kind, Protocol: s.Protocol, Digest: s.Digest, Size: s.Size,
	}}
	for _, stage := range []struct {
		name string
		do   func(*Stage)
	}{
		{"load", st.load},
		{"vectors", st.golden},
		{"determinism", st.determinism},
		{"ticks", st.ticks},
		{"hostile input", st.hostile},
		{"money", st.money},
		{"memory", st.memory},
		{"native", st.native},
		{"node", st.node},
	} {
		if o.only != nil && stage.name != "load" && !slices.Contains(o.only, stage.name) {
			continue
		}
		if !st.report.begin(stage.name, stage.do) {
			break // nothing runs on a module that does not open
		}
	}
	return st.report.finish()
}

// load opens one instance and makes the usual calls from what it says.
func (st *study) load(s *Stage) {
	for _, note := range st.Notes {
		s.note("%s", note)
	}
	g, err := st.Open(st.o.Config)
	if err != nil {
		s.Fatal = true
		s.fix("an instance must open and take its configuration", "%v", err)
		return
	}
	defer g.Close()
	st.report.Memory.First = g.MemoryBytes()
	l := st.lab(st.o.Config)
	defer l.close()
	st.samples = probe.Calls(st.Kind, st.Protocol, st.History, l.frame)
	s.Summary = "it loads, is metered, compiles and opens"
}

// node does what a node does before it takes the module, by the node's own code:
// what passes here is loaded there. Vectors in files are not packed yet.
func (st *study) node(s *Stage) {
	if st.Try == nil || len(st.o.Files) > 0 {
		s.Skipped = true
		return
	}
	s.Summary = "a node loads it"
	if err := st.Try(st.o.Config); err != nil {
		s.Summary = "a node refuses it"
		fixOf(s, err)
	}
}

// lab runs calls on one instance and takes a fresh one after a fault.
type lab struct {
	open func(config []byte) (Guest, error)
	conf []byte
	g    Guest
}

func (st *study) lab(config []byte) *lab { return &lab{open: st.Open, conf: config} }

// call is Guest.Call.
func (l *lab) call(op abi.Op, in []byte) (frame []byte, ticks int64, err error) {
	if l.g == nil {
		if l.g, err = l.open(l.conf); err != nil {
			l.g = nil
			return nil, 0, err
		}
	}
	frame, ticks, err = l.g.Call(op, in)
	if err != nil {
		l.close()
	}
	return frame, ticks, err
}

// frame is a vector.Call.
func (l *lab) frame(op abi.Op, in []byte) ([]byte, error) {
	frame, _, err := l.call(op, in)
	return frame, err
}

func (l *lab) close() {
	if l.g != nil {
		l.g.Close()
		l.g = nil
	}
}
