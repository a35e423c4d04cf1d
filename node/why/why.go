// Package why says what a node is slow for. It compares two samples of the node, some
// seconds apart: what each cause would look like is a rule of its own, with a bound below
// which it is not one. It is pure; the node takes the samples.
//
// What slows the node from outside or inside (other programs, the host, the disk, a module,
// the collector) stands before what is the work itself (a long prompt, a full batch), and
// that before the queue, which all of them fill.
package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Sample is a node at one moment. Counters only rise.
type Sample struct {
	At         time.Time
	Processors int // of the machine
	// Of the machine: processor time in use by anybody, and taken by its host. Zero where it is not known.
	Busy, Stolen time.Duration
	Own          time.Duration // processor time of this process
	// Of the collector of garbage, and that of the process it is a part of, both as of the end of the latest collection: they
	// may rise by what a longer time than that between two samples took.
	Collector, CollectorOf time.Duration
	Models                 []Model
	Requests               []Request // live ones
	Modules                []Module
	Slots                  []Slot
	Ledger                 Ledger
	Down                   []string // models that failed too often and refuse every request
	Out                    bool     // the node lost its place among those that share its database, and admits nothing
}

// Model is the step loop of a model.
type Model struct {
	ID                     string
	Running, Waiting       int
	BatchMax               int // sequences that may run at once
	SequencesMax           int // those that are configured; more than BatchMax would make gaps too long, or lack pages
	QueueWait              time.Duration
	StepTook, StepExpected time.Duration // of the latest step
	PrefillTokens          int64         // counter, as of the end of a step
	DecodeTokens           int64         // likewise
	Preempted              int64         // counter
	PagesFree, PagesAll    int
}

// Request is a live request.
type Request struct {
	ID, AccountID, Model  string
	Prefill               bool  // this node computes its prompt
	Prompt, Cached, Input int64 // tokens: of the prompt, found of it, computed of it
}

// Module is a loaded module.
type Module struct {
	Slot, Name string
	Requests   uint64        // counter
	CPU        time.Duration // counter
}

// Slot is what the modules of a slot use of their share of the processors.
type Slot struct {
	Name            string
	Limit           float64       // processors
	CPU             time.Duration // counter
	Waits, Declined uint64        // counters
}

// Ledger is what makes rows durable.
type Ledger struct {
	Commits uint64        // counter
	Busy    time.Duration // counter: time in commits
	Under   time.Duration // how long the commit that runs now has taken
	Waiting int64         // rows
	Spilled int64         // rows in the spill journal
	// Elsewhere says that they are made durable by a database, not by this node's disk.
	Elsewhere bool
}

// Cause is one thing that was looked at.
type Cause struct {
	Name     string  `json:"name" doc:"neighbor, stolen, place, model, disk, module, collector, prompt, batch, memory or queue."`
	Weight   float64 `json:"weight" doc:"1 and more slows the node."`
	Sentence string  `json:"sentence"`
	rank     int     `json:"-"` // causes before effects
}

// Diagnosis is what two samples say.
type Diagnosis struct {
	Slow     bool    `json:"slow"`
	Sentence string  `json:"sentence"`
	Causes   []Cause `json:"causes"` // all that was looked at, what slows the node first
}

// The bounds: at these a cause has the weight 1.
const (
	othersShare    = 0.25 // of the machine's processors, used by other programs
	idleShare      = 0.15 // of them idle: with more nobody is in the way
	stolenShare    = 0.05
	collectorShare = 0.10 // of this process's processor time
	commitMean     = 100 * time.Millisecond
	commitUnder    = 500 * time.Millisecond
	promptTokens   = 4096
	promptShare    = 0.5 // of all prompt tokens computed meanwhile
	modulePerCall  = 50 * time.Millisecond
	slotShare      = 0.8
	queueWait      = time.Second
)

// The ranks of causes.
const (
	outside = iota
	work
	effect
)

// Diagnose compares two samples, the older first.
func Diagnose(before, after Sample) Diagnosis {
	causes := slices.Concat(machine(before, after), []Cause{place(after), down(after), disk(before, after), module(before, after),
		collector(before, after), prompt(before, after)}, models(before, after))
	slices.SortStableFunc(causes, func(a, b Cause) int {
		if slows := cmp.Compare(min(1, int(b.Weight)), min(1, int(a.Weight))); slows != 0 {
			return slows
		}
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(b.Weight, a.Weight))
	})
	d := Diagnosis{Causes: causes, Sentence: "Nothing is slow: no cause was found."}
	if causes[0].Weight >= 1 {
		d.Slow, d.Sentence = true, causes[0].Sentence
	}
	return d
}

// machine looks for other programs and for the host.
func machine(before, after Sample) []Cause {
	took := after.At.Sub(before.At).Seconds() * float64(after.Processors)
	if took <= 0 || after.Busy == 0 {
		return []Cause{{Name: "neighbor", Sentence: "What other programs use of the machine is not known here."}}
	}
	share := func(d time.Duration) float64 { return d.Seconds() / took }
	busy, own, stolen := share(after.Busy-before.Busy), share(after.Own-before.Own), share(after.Stolen-before.Stolen)
	others := max(0, busy-own)
	neighbor := Cause{Name: "neighbor", rank: outside, Sentence: fmt.Sprintf("Other programs use %.1f of %d processors, this node %.1f.%s",
		others*float64(after.Processors), after.Processors, own*float64(after.Processors), steps(after))}
	if working(after) && 1-busy-stolen < idleShare {
		neighbor.Weight = others / othersShare
	}
	return []Cause{neighbor, {Name: "stolen", rank: outside, Weight: stolen / stolenShare,
		Sentence: fmt.Sprintf("The host of this machine takes %.0f %% of its processor time.", 100*stolen)}}
}

// working says whether the node has something to compute.
func working(s Sample) bool {
	return len(s.Requests) > 0 || slices.ContainsFunc(s.Models, func(m Model) bool { return m.Running+m.Waiting > 0 })
}

// steps says how the latest steps compare with what was expected of them.
func steps(s Sample) string {
	text := ""
	for _, m := range s.Models {
		if m.Running > 0 && m.StepExpected > 0 {
			text += fmt.Sprintf(" A step of %s took %v; %v were expected.", m.ID, rounded(m.StepTook), rounded(m.StepExpected))
		}
	}
	return text
}

func rounded(d time.Duration) time.Duration {
	if d > time.Second {
		return d.Round(10 * time.Millisecond)
	}
	return d.Round(100 * time.Microsecond)
}

// place is that of a node among others.
func place(s Sample) Cause {
	if !s.Out && !s.Ledger.Elsewhere {
		return Cause{Name: "place", Sentence: "The node shares its rows with no other."}
	}
	if !s.Out {
		return Cause{Name: "place", Sentence: "The node has its place among those of its database."}
	}
	return Cause{Name: "place", rank: outside, Weight: 100, Sentence: "The node lost its place among those that share its database, " +
		"and answers 503 until the database answers it again. corenode cluster nodes shows them."}
}

// down is about models that answer nothing any more.
func down(s Sample) Cause {
	if len(s.Down) == 0 {
		return Cause{Name: "model", Sentence: "No model is down."}
	}
	return Cause{Name: "model", rank: outside, Weight: 100, Sentence: fmt.Sprintf("Models that are down: %s. They failed too often and "+
		"refuse every request until the node is restarted; the log has their stacks.", strings.Join(s.Down, ", "))}
}

func disk(before, after Sample) Cause {
	who := "disk"
	if after.Ledger.Elsewhere {
		who = "database"
	}
	if after.Ledger.Spilled > 0 {
		return Cause{Name: "disk", rank: outside, Weight: 100, Sentence: fmt.Sprintf(
			"%d rows are in the spill journal, and the %s does not have all of them yet; %d wait.",
			after.Ledger.Spilled, who, after.Ledger.Waiting)}
	}
	commits, busy := after.Ledger.Commits-before.Ledger.Commits, after.Ledger.Busy-before.Ledger.Busy
	mean := time.Duration(0)
	if commits > 0 {
		mean = busy / time.Duration(commits)
	}
	c := Cause{Name: "disk", rank: outside,
		Weight: max(float64(after.Ledger.Under)/float64(commitUnder), float64(mean)/float64(commitMean)),
		Sentence: fmt.Sprintf("The %s makes %d commits of the ledger durable in %v each; %d rows wait.",
			who, commits, rounded(mean), after.Ledger.Waiting)}
	if after.Ledger.Under >= commitUnder {
		c.Sentence = fmt.Sprintf("The %s does not keep up: the commit of the ledger that runs has taken %v; %d rows wait.",
			who, rounded(after.Ledger.Under), after.Ledger.Waiting)
	}
	return c
}

// module finds the slot that uses most of its share, and the module that takes most for each request.
func module(before, after Sample) Cause {
	worst := Cause{Name: "module", rank: outside, Sentence: "No module takes long."}
	take := func(c Cause) {
		if c.Weight > worst.Weight {
			worst = c
		}
	}
	for _, m := range after.Modules {
		was := find(before.Modules, func(o Module) bool { return o.Slot == m.Slot && o.Name == m.Name })
		if requests := m.Requests - was.Requests; requests > 0 && m.Requests >= was.Requests {
			each := (m.CPU - was.CPU) / time.Duration(requests)
			take(Cause{"module", float64(each) / float64(modulePerCall), fmt.Sprintf(
				"The module %s of slot %s takes %v of processor time for each request.",
				m.Name, m.Slot, rounded(each)), outside})
		}
	}
	seconds := after.At.Sub(before.At).Seconds()
	for _, s := range after.Slots {
		was := find(before.Slots, func(o Slot) bool { return o.Name == s.Name })
		used := (s.CPU - was.CPU).Seconds() / max(seconds*s.Limit, 1e-9)
		declined, waits := s.Declined-was.Declined, s.Waits-was.Waits
		take(Cause{"module", max(used/slotShare, float64(min(1, declined))), fmt.Sprintf(
			"The modules of slot %s use %.0f %% of their share of the processors: %d calls waited, %d were answered by something else.",
			s.Name, 100*used, waits, declined), outside})
	}
	return worst
}

// find returns the element that matches, or the zero value.
func find[T any](all []T, matches func(T) bool) (zero T) {
	if i := slices.IndexFunc(all, matches); i >= 0 {
		return all[i]
	}
	return zero
}

func collector(before, after Sample) Cause {
	own := after.Own - before.Own
	share := min(1, (after.Collector-before.Collector).Seconds()/max((after.CollectorOf-before.CollectorOf).Seconds(), 1e-9))
	c := Cause{Name: "collector", rank: outside,
		Sentence: fmt.Sprintf("The collector takes %.0f %% of the node's processor time.", 100*share)}
	if seconds := after.At.Sub(before.At).Seconds(); own.Seconds() > 0.1*seconds { // of a node at rest it is most, and nothing
		c.Weight = share / collectorShare
	}
	return c
}

// prompt finds the longest prompt that is being computed while others want steps too.
func prompt(before, after Sample) Cause {
	longest := Cause{Name: "prompt", rank: work, Sentence: "No long prompt is computed."}
	for _, r := range after.Requests {
		m := find(after.Models, func(m Model) bool { return m.ID == r.Model })
		if !r.Prefill || m.ID == "" {
			continue
		}
		was := find(before.Models, func(o Model) bool { return o.ID == r.Model })
		all, mine := m.PrefillTokens-was.PrefillTokens, r.Input-find(before.Requests, func(o Request) bool { return o.ID == r.ID }).Input
		weight := float64(r.Prompt-r.Cached) / promptTokens
		idle := m.Running == 0 || m.DecodeTokens > was.DecodeTokens // else it is in a step that has lasted all the time
		if all == 0 && idle || float64(mine) < promptShare*float64(all) || m.Running+m.Waiting < 2 {
			weight = min(weight, 0.9) // nothing was computed, others compute as much, or nobody else is there to wait
		}
		if weight > longest.Weight {
			longest.Weight, longest.Sentence = weight, fmt.Sprintf(
				"The long prompt of request %s (account %s) is computed: %d of %d tokens so far; "+
					"%d sequences of %s run beside it, %d wait.",
				r.ID, r.AccountID, r.Cached+r.Input, r.Prompt, max(0, m.Running-1), m.ID, m.Waiting)
		}
	}
	return longest
}

// models says of each model how full it is.
func models(before, after Sample) (causes []Cause) {
	for _, m := range after.Models {
		was := find(before.Models, func(o Model) bool { return o.ID == m.ID })
		full := Cause{Name: "batch", rank: work, Sentence: fmt.Sprintf(
			"%s runs %d sequences of %d that it would run at once; %d are configured.%s",
			m.ID, m.Running, m.BatchMax, m.SequencesMax, steps(Sample{Models: []Model{m}}))}
		if m.Waiting > 0 && m.Running >= m.BatchMax {
			full.Weight = 1 + float64(m.Waiting)/float64(max(1, m.Running))
		}
		memory := Cause{Name: "memory", rank: work, Sentence: fmt.Sprintf(
			"%s took the pages of %d sequences away; %d of %d pages are free.",
			m.ID, m.Preempted-was.Preempted, m.PagesFree, m.PagesAll), Weight: float64(m.Preempted - was.Preempted)}
		queue := Cause{Name: "queue", rank: effect, Weight: float64(m.QueueWait) / float64(queueWait), Sentence: fmt.Sprintf(
			"%d requests of %s wait for their first step, about %v of work.", m.Waiting, m.ID, rounded(m.QueueWait))}
		if m.Waiting == 0 {
			queue.Weight = 0
		}
		causes = append(causes, full, memory, queue)
	}
	return causes
}
