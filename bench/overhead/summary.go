package overhead

import (
	"maps"
	"slices"

	"corenode/bench/proc"
	"corenode/bench/report"
)

// Targets and works are the two sides of a cell: who is asked, and what.
const (
	PassThrough = "pass-through"   // bare fasthttp to the mock: the floor
	Node        = "node"           // as it is shipped
	Upstream    = "node, upstream" // whose model the mock answers
	NodeQuiet   = "node, no log"   // without a log line per request: what that line costs
	LiteLLM     = "LiteLLM proxy"  // a gateway in front of the mock, which counts tokens and money; only where it is named

	Plain  = "plain"        // a messages request, not streaming
	Count  = "count_tokens" // front end, prepare and permit only: no engine, no ledger
	Short  = "short stream"
	Long   = "long stream"
	Single = "long stream, 1 client" // the least that one write can carry
	Paced  = "paced stream"          // as long, by clients of its own number: each event has its own write
)

// cell is one measurement of a round.
type cell struct{ target, work string }

// cells are all of a round's. Those that are compared are neighbors.
var cells = []cell{
	{PassThrough, Plain}, {Upstream, Plain}, {Node, Plain}, {NodeQuiet, Plain}, {Node, Count},
	{PassThrough, Short}, {Node, Short}, {Upstream, Short}, {PassThrough, Long}, {Node, Long}, {Upstream, Long},
	{PassThrough, Single}, {Node, Single}, {PassThrough, Paced}, {Node, Paced}, {Upstream, Paced},
}

// cells are those of a run: LiteLLM's stands behind the other plain ones.
func (o Options) cells() []cell {
	if o.LiteLLM == "" {
		return cells
	}
	behind := slices.IndexFunc(cells, func(c cell) bool { return c.work != Plain })
	return slices.Insert(slices.Clone(cells), behind, cell{LiteLLM, Plain})
}

// order is the cells of one round: every other round runs backwards, so that a
// machine that gets slower or faster favors nobody.
func order(all []cell, round int) []cell {
	c := slices.Clone(all)
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

// cpuPerEvent is what an event costs, its request's share in it.
func (s Sample) cpuPerEvent() float64 { return report.Ratio(s.CPU, float64(s.Events)) }

func (s Sample) eventsPerReply() float64 { return report.Ratio(float64(s.Events), float64(s.Replies)) }

// Schema names the layout of Report as JSON; it changes when a field changes its meaning.
const Schema = "corebench.overhead/1"

// Report is the result of one run, as it is written to a file.
type Report struct {
	Schema    string        `json:"schema"`
	Host      proc.Host     `json:"host"`
	Options   Options       `json:"options"`
	Rounds    report.Rounds `json:"rounds"`
	Rows      []Row         `json:"rows"`
	Events    []EventRow    `json:"events"`
	Upstream  Beside        `json:"upstream"`
	Breakdown []Breakdown   `json:"breakdown,omitempty"`
	Ledger    *Ledger       `json:"ledger,omitempty"` // nil without a breakdown
	// UpstreamLedger is the same of the node with an upstream.
	UpstreamLedger *Ledger `json:"upstream_ledger,omitempty"`
	report.Gates   `json:"gates"`
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
	ReplyBytes      float64       `json:"bytes_per_reply"` // of bodies
	EventsPerReply  float64       `json:"events_per_reply"`
	TokensPerReply  float64       `json:"tokens_per_reply"` // as usage says; the mock's is fixed
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

// Beside is the node with an upstream beside the node, within each round.
type Beside struct {
	Plain report.Spread `json:"cpu_ratio_plain"`       // of a plain request, ledger included
	Paced report.Spread `json:"cpu_ratio_paced_event"` // of an event of a paced stream, the request's share in it
}

// Ledger is what the ledger and the database below it cost a plain request.
type Ledger struct {
	Share float64 `json:"share"`
	CPU   float64 `json:"cpu_us_per_reply"`
	// RatioWithout is the ratio to the pass-through of all the rest.
	RatioWithout float64 `json:"cpu_ratio_without"`
}

// The aims that a run is held beside.
const (
	aimRatio   = 2
	aimEventUS = 3

	aimUpstreamRatio = 1.1
	maxUpstreamFloor = 5
	aimUpstreamFloor = 3

	maxUpstreamPaced = 1.5
	aimUpstreamPaced = 1.2
)

// upstreamGates hold what a model costs that servers elsewhere answer at once, ledger apart.
func upstreamGates(r Report, o Options) report.Gates {
	apart := report.Ratio(1-r.UpstreamLedger.Share, 1-r.Ledger.Share)
	return report.Gates{
		report.AtMost("plain request, ledger apart: CPU of the node with an upstream / the node",
			r.Upstream.Plain.Median*apart, o.MaxUpstreamRatio, aimUpstreamRatio),
		report.AtMost("plain request, ledger apart: CPU of the node with an upstream / pass-through",
			r.UpstreamLedger.RatioWithout, maxUpstreamFloor, aimUpstreamFloor),
	}
}

// Summarize makes the report of a run's samples. Host is the caller's to fill in.
func Summarize(samples []Sample, o Options) Report {
	kept, rounds := quiet(samples)
	r := Report{Schema: Schema, Options: o, Rounds: rounds}
	for _, c := range o.cells() {
		r.Rows = append(r.Rows, rowOf(kept, c))
	}
	for _, target := range []string{PassThrough, Node, Upstream} {
		r.Events = append(r.Events, eventsOf(kept, target))
	}
	r.Upstream = Beside{ratios(kept, cell{Upstream, Plain}, cell{Node, Plain}, Sample.cpuPerReply),
		ratios(kept, cell{Upstream, Paced}, cell{Node, Paced}, Sample.cpuPerEvent)}
	r.Gates = report.Gates{
		report.AtMost("plain request: CPU of the node / pass-through", r.row(Node, Plain).Ratio.Median, o.MaxRatio, aimRatio),
		report.AtMost("streamed event: CPU of the node, us", r.Events[1].CPU.Median, o.MaxEventUS, aimEventUS),
		report.AtMost("paced event: CPU of the node with an upstream / the node", r.Upstream.Paced.Median,
			maxUpstreamPaced, aimUpstreamPaced),
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

// quiet leaves out the rounds in which other programs disturbed any cell.
func quiet(samples []Sample) ([]Sample, report.Rounds) {
	by := map[int][]Sample{}
	for _, s := range samples {
		by[s.Round] = append(by[s.Round], s)
	}
	kept, rounds := report.Quiet(slices.Collect(maps.Values(by)), func(round []Sample) float64 {
		return report.SpreadBy(round, func(s Sample) float64 { return s.Foreign }).Max
	})
	return slices.Concat(kept...), rounds
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

// ratios is a number of one cell over that of another, each within a round.
func ratios(samples []Sample, c, to cell, of func(Sample) float64) report.Spread {
	own, other := pick(samples, c), pick(samples, to)
	var all []float64
	for round, s := range own {
		if o, ok := other[round]; ok && of(o) > 0 {
			all = append(all, of(s)/of(o))
		}
	}
	return report.SpreadOf(all)
}

func rowOf(samples []Sample, c cell) Row {
	own := pick(samples, c)
	var replies, bytes, events, tokens, writes float64
	r := Row{Target: c.target, Work: c.work}
	for _, s := range own {
		replies, bytes = replies+float64(s.Replies), bytes+float64(s.Bytes)
		events, tokens, writes = events+float64(s.Events), tokens+float64(s.Tokens), writes+float64(s.Writes)
	}
	if len(own) > 0 {
		r.RSS = own[slices.Max(slices.Collect(maps.Keys(own)))].RSS
	}
	over := func(of func(Sample) float64) report.Spread {
		return report.SpreadBy(slices.Collect(maps.Values(own)), of)
	}
	r.CPU, r.Ratio = over(Sample.cpuPerReply), ratios(samples, c, cell{PassThrough, c.work}, Sample.cpuPerReply)
	r.P50, r.P99 = over(func(s Sample) float64 { return s.P50 }), over(func(s Sample) float64 { return s.P99 })
	r.First = over(func(s Sample) float64 { return s.First })
	r.RepliesPerS = over(func(s Sample) float64 { return report.Ratio(float64(s.Replies), s.Seconds) })
	r.RepliesMeasured = int64(replies)
	r.ReplyBytes, r.EventsPerReply = report.Ratio(bytes, replies), report.Ratio(events, replies)
	r.TokensPerReply, r.EventsPerWrite = report.Ratio(tokens, replies), report.Ratio(events, writes)
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
