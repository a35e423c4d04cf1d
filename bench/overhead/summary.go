package overhead

import (
	"slices"

	"corenode/bench/proc"
	"corenode/bench/report"
)

// Targets and works are the two sides of a cell: who is asked, and what.
const (
	PassThrough = "pass-through" // bare fasthttp to the mock: the floor
	Node        = "node"         // as it is shipped
	NodeQuiet   = "node, no log" // without a log line per request: what that line costs

	Plain  = "plain"        // a messages request, not streaming
	Count  = "count_tokens" // front end, prepare and permit only: no engine, no ledger
	Short  = "short stream"
	Long   = "long stream"
	Single = "long stream, 1 client" // the least that one write can carry
)

// ForeignMax is the share of the machine's time that other programs may use
// during a cell; above it the round does not count.
const ForeignMax = 0.05

// cell is one measurement of a round.
type cell struct{ target, work string }

// cells are all of a round's. Those that are compared are neighbours.
var cells = []cell{
	{PassThrough, Plain}, {Node, Plain}, {NodeQuiet, Plain}, {Node, Count},
	{PassThrough, Short}, {Node, Short}, {PassThrough, Long}, {Node, Long},
	{PassThrough, Single}, {Node, Single},
}

// order is the cells of one round: every other round runs backwards, so that a
// machine that gets slower or faster favours nobody.
func order(round int) []cell {
	c := slices.Clone(cells)
	if round%2 == 1 {
		slices.Reverse(c)
	}
	return c
}

// Sample is one cell of one round.
type Sample struct {
	Round   int
	Target  string
	Work    string
	Replies int64
	Bytes   int64 // of reply bodies
	Writes  int64 // pieces that the bodies came in
	Events  int64
	Tokens  int64
	Seconds float64
	CPU     float64 // microseconds of the server, all replies together
	P50     float64 // microseconds until the whole reply
	P99     float64
	First   float64 // microseconds until the first byte, median
	RSS     int64   // bytes of the server's memory afterwards
	Foreign float64 // share of the machine's time that others used
}

func (s Sample) cpuPerReply() float64 { return report.Ratio(s.CPU, float64(s.Replies)) }

func (s Sample) eventsPerReply() float64 { return report.Ratio(float64(s.Events), float64(s.Replies)) }

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.overhead/1"

// Report is the result of one run. METHOD.md documents its JSON.
type Report struct {
	Schema    string      `json:"schema"`
	Host      proc.Host   `json:"host"`
	Options   Options     `json:"options"`
	Rounds    Rounds      `json:"rounds"`
	Rows      []Row       `json:"rows"`
	Events    []EventRow  `json:"events"`
	Breakdown []Breakdown `json:"breakdown,omitempty"`
	Ledger    *Ledger     `json:"ledger,omitempty"` // nil without a breakdown
	Gates     []Gate      `json:"gates"`
}

// Rounds says which rounds count.
type Rounds struct {
	Run       int     `json:"run"`
	Discarded int     `json:"discarded"`
	Disturbed bool    `json:"disturbed"`   // every round was, so that all count
	Foreign   float64 `json:"foreign_max"` // the most foreign CPU use in a round that counts
}

// Row is one cell over all rounds that count.
type Row struct {
	Target          string        `json:"target"`
	Work            string        `json:"work"`
	CPU             report.Spread `json:"cpu_us_per_reply"`
	Ratio           report.Spread `json:"cpu_ratio_to_pass_through"` // within each round; zero where there is none
	P50             report.Spread `json:"latency_p50_us"`
	P99             report.Spread `json:"latency_p99_us"`
	First           report.Spread `json:"first_byte_p50_us"`
	RepliesPerS     report.Spread `json:"replies_per_s"`
	ReplyBytes      float64       `json:"bytes_per_reply"`
	EventsPerReply  float64       `json:"events_per_reply"`
	TokensPerReply  float64       `json:"tokens_per_reply"`
	EventsPerWrite  float64       `json:"events_per_write"`
	RSS             int64         `json:"rss_bytes"` // after the last round
	RepliesMeasured int64         `json:"replies"`
}

// EventRow is what one more event of a stream costs: the slope between the
// short and the long streams of a round.
type EventRow struct {
	Target         string        `json:"target"`
	CPU            report.Spread `json:"cpu_us_per_event"`
	Ratio          report.Spread `json:"cpu_ratio_to_pass_through"`
	EventsPerWrite float64       `json:"events_per_write"` // of the long streams
}

// Ledger is what the ledger and the database below it cost a plain request.
type Ledger struct {
	Share float64 `json:"share"`
	CPU   float64 `json:"cpu_us_per_reply"`
	// RatioWithout is the ratio to the pass-through of all the rest.
	RatioWithout float64 `json:"cpu_ratio_without"`
}

// Gate is a bound on a median.
type Gate struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit"` // the run fails above it
	Aim   float64 `json:"aim"`   // what the project wants to reach
	Met   bool    `json:"met"`
}

// The aims that a run is held beside; design.md section 9 of the project has them.
const (
	aimRatio   = 2
	aimEventUS = 3
)

// Summarize makes the report of a run's samples. Host is the caller's to fill in.
func Summarize(samples []Sample, o Options) Report {
	kept, rounds := quiet(samples)
	r := Report{Schema: Schema, Options: o, Rounds: rounds}
	for _, c := range cells {
		r.Rows = append(r.Rows, rowOf(kept, c))
	}
	for _, target := range []string{PassThrough, Node} {
		r.Events = append(r.Events, eventsOf(kept, target))
	}
	plain := r.row(Node, Plain).Ratio.Median
	event := r.Events[1].CPU.Median
	r.Gates = []Gate{
		{"plain request: CPU of the node / pass-through", plain, o.MaxRatio, aimRatio, plain > 0 && plain <= o.MaxRatio},
		{"streamed event: CPU of the node, us", event, o.MaxEventUS, aimEventUS, event > 0 && event <= o.MaxEventUS},
	}
	return r
}

func (r Report) row(target, work string) Row {
	i := slices.IndexFunc(r.Rows, func(row Row) bool { return row.Target == target && row.Work == work })
	if i < 0 {
		return Row{}
	}
	return r.Rows[i]
}

// Met says whether every gate is.
func (r Report) Met() bool {
	return !slices.ContainsFunc(r.Gates, func(g Gate) bool { return !g.Met })
}

// quiet leaves out the rounds in which other programs disturbed any cell. When
// that leaves nothing, all rounds count and the report says so.
func quiet(samples []Sample) (kept []Sample, r Rounds) {
	foreign := map[int]float64{}
	for _, s := range samples {
		foreign[s.Round] = max(foreign[s.Round], s.Foreign)
	}
	r.Run = len(foreign)
	for _, f := range foreign {
		if f > ForeignMax {
			r.Discarded++
		}
	}
	r.Disturbed = r.Run > 0 && r.Discarded == r.Run
	for _, s := range samples {
		if r.Disturbed || foreign[s.Round] <= ForeignMax {
			kept = append(kept, s)
			r.Foreign = max(r.Foreign, s.Foreign)
		}
	}
	return kept, r
}

// pick returns the samples of one cell by round.
func pick(samples []Sample, c cell) map[int]Sample {
	picked := map[int]Sample{}
	for _, s := range samples {
		if s.Target == c.target && s.Work == c.work {
			picked[s.Round] = s
		}
	}
	return picked
}

func rowOf(samples []Sample, c cell) Row {
	own, floor := pick(samples, c), pick(samples, cell{PassThrough, c.work})
	var cpu, ratios, p50, p99, first, rate []float64
	var replies, bytes, events, tokens, writes float64
	r := Row{Target: c.target, Work: c.work}
	last := -1
	for round, s := range own {
		cpu = append(cpu, s.cpuPerReply())
		if f, ok := floor[round]; ok && f.CPU > 0 {
			ratios = append(ratios, s.cpuPerReply()/f.cpuPerReply())
		}
		p50, p99, first = append(p50, s.P50), append(p99, s.P99), append(first, s.First)
		rate = append(rate, report.Ratio(float64(s.Replies), s.Seconds))
		replies, bytes = replies+float64(s.Replies), bytes+float64(s.Bytes)
		events, tokens, writes = events+float64(s.Events), tokens+float64(s.Tokens), writes+float64(s.Writes)
		if round > last {
			last, r.RSS = round, s.RSS
		}
	}
	r.CPU, r.Ratio = report.SpreadOf(cpu), report.SpreadOf(ratios)
	r.P50, r.P99, r.First = report.SpreadOf(p50), report.SpreadOf(p99), report.SpreadOf(first)
	r.RepliesPerS, r.RepliesMeasured = report.SpreadOf(rate), int64(replies)
	r.ReplyBytes, r.EventsPerReply, r.TokensPerReply = report.Ratio(bytes, replies), report.Ratio(events, replies), report.Ratio(tokens, replies)
	r.EventsPerWrite = report.Ratio(events, writes)
	return r
}

// slope is the CPU of one more event: what long streams cost more than short
// ones, by the events they have more. What a request costs whatever its length
// is in both, and falls out.
func slope(short, long Sample) (float64, bool) {
	events := long.eventsPerReply() - short.eventsPerReply()
	if events <= 0 {
		return 0, false
	}
	return (long.cpuPerReply() - short.cpuPerReply()) / events, true
}

func slopes(samples []Sample, target string) map[int]float64 {
	short, long := pick(samples, cell{target, Short}), pick(samples, cell{target, Long})
	all := map[int]float64{}
	for round, s := range short {
		if l, ok := long[round]; ok {
			if v, ok := slope(s, l); ok {
				all[round] = v
			}
		}
	}
	return all
}

func eventsOf(samples []Sample, target string) EventRow {
	own, floor := slopes(samples, target), slopes(samples, PassThrough)
	var cpu, ratios []float64
	for round, v := range own {
		cpu = append(cpu, v)
		if f := floor[round]; f > 0 {
			ratios = append(ratios, v/f)
		}
	}
	return EventRow{target, report.SpreadOf(cpu), report.SpreadOf(ratios), rowOf(samples, cell{target, Long}).EventsPerWrite}
}
