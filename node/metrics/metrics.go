// Package metrics is the one table of what a node shows at /metrics: the name, type, unit, labels
// and meaning of every family, and the panel of the dashboard that draws it. The page itself, the
// tables of OPERATING.md, the dashboard and the alerts are made of it, so they cannot disagree. It
// is pure: the node writes samples, and this package puts them in order and says what they are.
package metrics

import "iter"

// Type is what Prometheus calls the type of a family.
type Type string

// The types. A counter only rises while a node runs, and its name ends in _total.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
	Summary   Type = "summary"
)

// Metric is one family of series.
type Metric struct {
	Name   string
	Type   Type
	Unit   string   // "" is a plain number
	Labels []string // besides those that Prometheus has for buckets and quantiles
	Help   string   // what it says
	Watch  string   // what an operator looks for; may be empty
	// Panel is the title of the panel that draws it. One that none draws has Hidden instead: why.
	Panel, Hidden string
	// When is the condition under which it has series, behind the word only; empty is always.
	When string
}

// Section is a table of OPERATING.md.
type Section struct {
	Title, Intro string
	Metrics      []Metric
}

// Sections are the tables in their order.
func Sections() []Section {
	return []Section{
		{"Requests", "", requests},
		{"Latency and tokens", "", latency},
		{"Each model", "Label `model`. Its step loop refreshes them every 50 ms. Models of servers elsewhere have those of the next table.",
			models},
		{"Servers elsewhere", "Label `model`: sums over the servers of an [upstream model](#upstream-engines).", upstreams},
		{"Actors and ledger", "", actors},
		{"Cluster", "Of a node whose rows are in a [database](#many-nodes). One with a data folder of its own shows that it is alone.",
			cluster},
		{"Modules", "Labels `slot`, `module` as name@version, `digest`. Counters begin again when a module is brought into memory.",
			modules},
		{"Slots", "Label `slot`: what all modules of a slot use of the processors, see [Slow modules](#slow-modules).", slots},
		{"Process", "Of the process and the Go runtime, under their usual names. Packed weights are a mapped file.", process},
	}
}

// All visits every family, in the order of the tables.
func All() iter.Seq[*Metric] {
	return func(yield func(*Metric) bool) {
		for _, s := range Sections() {
			for i := range s.Metrics {
				if !yield(&s.Metrics[i]) {
					return
				}
			}
		}
	}
}
