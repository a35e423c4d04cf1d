package check

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"corenode/extensions/guest"
)

// Report is what a check found. As JSON its counts of ticks and bytes are
// exact and repeat, so they can be compared with an earlier report's.
type Report struct {
	Module   string  `json:"module"`
	Kind     string  `json:"kind"`
	Protocol string  `json:"protocol,omitempty"`
	Digest   string  `json:"digest"`
	Size     int     `json:"size"`
	Passed   bool    `json:"passed"`
	Stages   []Stage `json:"stages"`
	Ticks    []Ticks `json:"ticks"`
	// Vectors are the vectors that passed.
	Vectors []VectorTicks `json:"vectors"`
	// Updated are the vectors of Options.Files whose want is another now, all of them.
	Updated []Updated `json:"updated,omitempty"`
	Memory  Memory    `json:"memory"`
}

// Updated is a vector whose want was made what the module gives.
type Updated struct {
	Name string `json:"name"`
	Was  string `json:"was"` // what was not as wanted before
}

// String says it to a person.
func (u Updated) String() string {
	return fmt.Sprintf("%q: its want was written; read it before you keep it: %s", u.Name, u.Was)
}

// Stage is one thing that was tried.
type Stage struct {
	Name     string    `json:"name"`
	Passed   bool      `json:"passed"`
	Skipped  bool      `json:"skipped,omitempty"` // it is not for modules of this kind
	Summary  string    `json:"summary,omitempty"`
	Findings []Finding `json:"findings,omitempty"`
	More     int       `json:"more,omitempty"` // findings left out beyond findingsMax
	// Fatal: the stages after it make no sense.
	Fatal bool `json:"-"`
}

// findingsMax bounds the findings that a stage lists.
const findingsMax = 12

// Finding is one thing that a person reads. Without Fix it is only worth knowing.
type Finding struct {
	What string `json:"what"`
	Fix  string `json:"fix,omitempty"` // what must be done
}

// Ticks is what one usual call takes on a fresh instance.
type Ticks struct {
	Call       string `json:"call"`
	Op         string `json:"op"`
	InputBytes int    `json:"input_bytes"`
	Ticks      int64  `json:"ticks"`
	Budget     int64  `json:"budget"` // what the host grants
}

// share is the part of the granted ticks that a call takes.
func (t Ticks) share() string {
	percent := 100 * float64(t.Ticks) / float64(t.Budget)
	if percent < 0.1 {
		return "<0.1%"
	}
	return fmt.Sprintf("%.1f%%", percent)
}

// VectorTicks is what all calls of one vector take, from a fresh instance on.
type VectorTicks struct {
	Name  string `json:"name"`
	Calls int    `json:"calls"`
	Ticks int64  `json:"ticks"`
}

// Memory is the linear memory of an instance in bytes.
type Memory struct {
	First  int64 `json:"first"` // when it opened
	Max    int64 `json:"most"`  // after the one usual call that takes the most
	Last   int64 `json:"last"`  // after many small calls
	Calls  int   `json:"calls"`
	GrewAt int   `json:"grew_at"` // the call that last made it grow, 0 = none
}

// begin runs one stage; false ends the check.
func (r *Report) begin(name string, do func(*Stage)) bool {
	s := Stage{Name: name, Passed: true}
	do(&s)
	if !s.Skipped {
		r.Stages = append(r.Stages, s)
	}
	return !s.Fatal
}

func (r *Report) finish() *Report {
	r.Passed = true
	for _, s := range r.Stages {
		r.Passed = r.Passed && s.Passed
	}
	return r
}

func (s *Stage) add(f Finding) {
	if len(s.Findings) == findingsMax {
		s.More++
		return
	}
	s.Findings = append(s.Findings, f)
}

// fix is a finding that fails the check; how says what must be done.
func (s *Stage) fix(how, format string, args ...any) {
	s.Passed = false
	s.add(Finding{What: fmt.Sprintf(format, args...), Fix: how})
}

// note is a finding that only tells.
func (s *Stage) note(format string, args ...any) { s.add(Finding{What: fmt.Sprintf(format, args...)}) }

// Write prints the report for a person.
func (r *Report) Write(w io.Writer) {
	kind := r.Kind
	if r.Protocol != "" {
		kind += " of " + r.Protocol
	}
	if kind != "" {
		kind += ", "
	}
	fmt.Fprintf(w, "%s, %s%d bytes\n%s\n\n", r.Module, kind, r.Size, r.Digest)
	for _, s := range r.Stages {
		mark := "ok"
		if !s.Passed {
			mark = "FIX"
		}
		fmt.Fprintf(w, "%-4s %-14s %s\n", mark, s.Name, s.Summary)
		for i, f := range s.Findings {
			fmt.Fprintf(w, "       - %s\n", strings.ReplaceAll(f.What, "\n", "\n         "))
			if last := i+1 == len(s.Findings) || s.Findings[i+1].Fix != f.Fix; last && f.Fix != "" {
				fmt.Fprintf(w, "         to do: %s\n", f.Fix)
			}
		}
		if s.More > 0 {
			fmt.Fprintf(w, "       - and %d more\n", s.More)
		}
	}
	if len(r.Ticks) > 0 {
		fmt.Fprintf(w, "\n%-34s %12s %12s %8s\n", "USUAL CALL", "INPUT BYTES", "TICKS", "OF GRANT")
		for _, t := range r.Ticks {
			fmt.Fprintf(w, "%-34s %12d %12d %8s\n", t.Call, t.InputBytes, t.Ticks, t.share())
		}
	}
	if r.Passed {
		fmt.Fprintln(w, "\nNothing must be fixed.")
		return
	}
	fmt.Fprintln(w, "\nWhat is marked FIX must be fixed.")
}

// refused adds a finding of the load path.
func (s *Stage) refused(err error) {
	if e, ok := errors.AsType[*guest.LoadError](err); ok {
		s.fix(e.Fix, "%s: %s", e.Stage, e.Reason)
		return
	}
	s.fix("", "%v", err)
}

// flat takes joined errors apart.
func flat(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}
