// Package check tells an author and an operator what is wrong with a module
// before a node is asked to load it. It takes a module file through the load
// path of package extensions without a node, and then tries what a running node
// would meet: golden vectors at every cut of every stream, the same call on
// fresh and on used instances, input that no client should send, many calls in
// a row, large input, and for billing the rules that keep money right.
//
// A check has no clock and no randomness: the same file gives the same report,
// its counts of ticks included, so that a report can be kept and compared.
package check

import (
	"slices"

	"corenode/extensions/probe"
)

// Run does everything that can be done with a module that loads.
func Run(s Subject, o Options) *Report {
	if len(o.Config) == 0 {
		o.Config = []byte("{}")
	}
	if o.Calls == 0 {
		o.Calls = 20_000
	}
	if o.fresh == 0 {
		o.fresh = freshMax
	}
	ck := &checker{Subject: s, o: o, report: &Report{
		Module: s.Name, Kind: s.Kind, Protocol: s.Protocol, Digest: s.Digest, Size: s.Size,
	}}
	for _, stage := range []struct {
		name string
		do   func(*Stage)
	}{
		{"load", ck.load},
		{"vectors", ck.golden},
		{"determinism", ck.determinism},
		{"ticks", ck.ticks},
		{"hostile input", ck.hostile},
		{"money", ck.money},
		{"memory", ck.memory},
		{"native", ck.native},
		{"node", ck.node},
	} {
		if o.only != nil && stage.name != "load" && !slices.Contains(o.only, stage.name) {
			continue
		}
		if !ck.report.begin(stage.name, stage.do) {
			break // nothing runs on a module that does not open
		}
	}
	return ck.report.finish()
}

// load opens one instance and makes the usual calls from what it says.
func (ck *checker) load(s *Stage) {
	for _, note := range ck.Notes {
		s.note("%s", note)
	}
	if ck.CheckConfig != nil {
		if err := ck.CheckConfig(ck.o.Config); err != nil {
			s.Fatal = true
			s.refused(err)
			return
		}
	}
	g, err := ck.Open(ck.o.Config)
	if err != nil {
		s.Fatal = true
		s.fix("an instance must open and take its configuration", "%v", err)
		return
	}
	defer g.Close()
	ck.report.Memory.First = g.MemoryBytes()
	b := ck.sandbox(ck.o.Config)
	defer b.close()
	ck.samples = probe.Calls(ck.Module, b.frame)
	s.Summary = "it loads, is metered, compiles and opens"
}

// node does what a node does before it takes the module, by the node's own code:
// what passes here is loaded there. Vectors in files are not packed yet.
func (ck *checker) node(s *Stage) {
	if ck.Try == nil || len(ck.o.Files) > 0 {
		s.Skipped = true
		return
	}
	s.Summary = "a node loads it"
	if err := ck.Try(ck.o.Config); err != nil {
		s.Summary = "a node refuses it"
		s.refused(err)
	}
}
