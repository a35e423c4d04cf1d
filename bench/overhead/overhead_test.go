package overhead

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/bench/profile"
	"corenode/bench/report"
)

// made builds the samples of a server whose costs are known: fixed us per
// request and event us per event. The result must give them back.
func made(round int, target string, fixed, event, foreign float64) (all []Sample) {
	for work, events := range map[string]int64{Plain: 0, Count: 0, Short: 21, Long: 261, Single: 261, Paced: 261} {
		const replies = 100
		all = append(all, Sample{Round: round, Target: target, Work: work, Replies: replies, Bytes: 300 * replies,
			Events: events * replies, Writes: max(1, events/3) * replies, Tokens: 16 * replies, Seconds: 2,
			CPU: replies * (fixed + event*float64(events)), P50: fixed, P99: 2 * fixed, First: fixed / 2,
			RSS: int64(round+1) << 20, Foreign: foreign})
	}
	return all
}

func options() Options {
	o := Defaults()
	o.MaxRatio, o.MaxEventUS = 4, 8
	return o
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestSummarizeGivesBackWhatWasPutIn(t *testing.T) {
	var all []Sample
	for round, fixed := range []float64{60, 90, 75} {
		all = append(all, made(round, PassThrough, 30, 4, 0.01)...)
		all = append(all, made(round, Node, fixed, 2, 0.02)...)
		all = append(all, made(round, Upstream, fixed, 2.5, 0.02)...)
	}
	r := Summarize(all, options())
	plain := r.row(Node, Plain)
	if plain.CPU != (report.Spread{Min: 60, Median: 75, Max: 90}) || plain.Ratio != (report.Spread{Min: 2, Median: 2.5, Max: 3}) {
		t.Errorf("plain: CPU %v, ratio %v", plain.CPU, plain.Ratio)
	}
	if plain.RSS != 3<<20 || plain.RepliesMeasured != 300 || plain.RepliesPerS.Median != 50 || plain.ReplyBytes != 300 ||
		plain.P99.Median != 150 {
		t.Errorf("plain: %+v", plain)
	}
	if long := r.row(Node, Long); long.EventsPerReply != 261 || long.EventsPerWrite != 3 {
		t.Errorf("long: %+v", long)
	}
	if r.Events[0].Target != PassThrough || !near(r.Events[0].CPU.Median, 4) || !near(r.Events[1].CPU.Median, 2) ||
		!near(r.Events[1].Ratio.Median, 0.5) {
		t.Errorf("events: %+v", r.Events)
	}
	if !r.Met() || r.Rounds != (report.Rounds{Run: 3, Foreign: 0.02}) {
		t.Errorf("gates %+v, rounds %+v", r.Gates, r.Rounds)
	}
}

func TestGates(t *testing.T) {
	cases := []struct {
		name         string
		fixed, event float64
		upstream     float64 // an event of the node with one
		met          []bool
	}{
		{"all", 119, 7.9, 11.8, []bool{true, true, true}},
		{"ratio missed", 121, 7.9, 11.8, []bool{false, true, true}},
		{"event missed", 119, 8.1, 11.8, []bool{true, false, true}},
		{"paced missed", 119, 7.9, 12.2, []bool{true, true, false}},
		{"nothing measured", 0, 0, 0, []bool{false, false, false}},
	}
	for _, c := range cases {
		r := Summarize(slices.Concat(made(0, PassThrough, 30, 4, 0), made(0, Node, c.fixed, c.event, 0),
			made(0, Upstream, c.fixed, c.upstream, 0)), options())
		got := []bool{r.Gates[0].Met, r.Gates[1].Met, r.Gates[2].Met}
		if !slices.Equal(got, c.met) || r.Met() == slices.Contains(c.met, false) {
			t.Errorf("%s: %v, want %v", c.name, got, c.met)
		}
	}
	if Summarize(nil, options()).Met() {
		t.Error("a run without samples met its gates")
	}
}

// TestUpstreamRatiosAreTakenWithinARound: on a machine that is slower for a while, the medians of the two sides are of
// different rounds, and their ratio is none that was measured.
func TestUpstreamRatiosAreTakenWithinARound(t *testing.T) {
	var all []Sample
	for round, us := range [][2]float64{{60, 66}, {90, 180}, {100, 105}} { // ratios of 1.1, 2 and 1.05; the medians' is 1.17
		all = append(all, made(round, PassThrough, 30, 4, 0)...)
		all = append(all, made(round, Node, us[0], us[0], 0)...)
		all = append(all, made(round, Upstream, us[1], us[1], 0)...)
	}
	r := Summarize(all, options())
	want := report.Spread{Min: 1.05, Median: 1.1, Max: 2}
	if got := r.Gates[2].Value; !near(got, want.Median) {
		t.Errorf("a paced event costs %v times the node's, want %v", got, want.Median)
	}
	r.Ledger, r.UpstreamLedger = &Ledger{Share: 0.5, CPU: 45}, &Ledger{Share: 0.4, CPU: 42, RatioWithout: 3}
	if got := upstreamGates(r, options())[0].Value; !near(got, 1.1*0.6/0.5) {
		t.Errorf("a plain request, ledger apart, costs %v times the node's, want %v", got, 1.1*0.6/0.5)
	}
	for name, got := range map[string]report.Spread{"plain": r.Upstream.Plain, "paced": r.Upstream.Paced} {
		if !near(got.Min, want.Min) || !near(got.Median, want.Median) || !near(got.Max, want.Max) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestDisturbedRoundsAreThrownOut(t *testing.T) {
	cases := []struct {
		foreign []float64
		want    report.Rounds
		cpu     report.Spread
	}{
		{[]float64{0, 0.05, 0.051}, report.Rounds{Run: 3, Discarded: 1, Foreign: 0.05}, report.Spread{Min: 60, Median: 65, Max: 70}},
		{[]float64{0.5, 0.04, 0.6}, report.Rounds{Run: 3, Discarded: 2, Foreign: 0.04}, report.Spread{Min: 70, Median: 70, Max: 70}},
		{[]float64{0.5, 0.7, 0.6}, report.Rounds{Run: 3, Discarded: 3, Disturbed: true, Foreign: 0.7},
			report.Spread{Min: 60, Median: 70, Max: 80}},
	}
	for _, c := range cases {
		var all []Sample
		for round, foreign := range c.foreign {
			all = append(all, made(round, PassThrough, 30, 4, 0)...) // one cell's foreign use condemns its whole round
			all = append(all, made(round, Node, 60+10*float64(round), 2, foreign)...)
		}
		r := Summarize(all, options())
		if r.Rounds != c.want || r.row(Node, Plain).CPU != c.cpu {
			t.Errorf("%v: %+v, CPU %v; want %+v, %v", c.foreign, r.Rounds, r.row(Node, Plain).CPU, c.want, c.cpu)
		}
		if disturbed := strings.Contains(r.Rounds.String(), "DISTURBED"); disturbed != c.want.Disturbed {
			t.Errorf("%v: %s", c.foreign, r.Rounds)
		}
	}
}

func TestSlopeNeedsMoreEvents(t *testing.T) {
	s := Sample{Replies: 10, Events: 100, CPU: 1000}
	if _, ok := slope(s, s); ok {
		t.Error("a slope between equal streams")
	}
	if _, ok := slope(Sample{}, Sample{}); ok {
		t.Error("a slope between nothing")
	}
}

func TestOrderVisitsEveryCellOnceAndAlternates(t *testing.T) {
	forth, back := order(cells, 0), order(cells, 1)
	slices.Reverse(back)
	if !slices.Equal(forth, back) || !slices.Equal(forth, cells) || !slices.Equal(order(cells, 2), cells) {
		t.Errorf("orders %v, %v", forth, back)
	}
}

// TestWhatIsComparedStandsTogether: plain requests, LiteLLM's among them, are over the pass-through's of the same minute.
func TestWhatIsComparedStandsTogether(t *testing.T) {
	o := options()
	o.LiteLLM = "litellm"
	works := map[string]bool{}
	last := ""
	for _, c := range o.cells() {
		if c.work != last && works[c.work] {
			t.Errorf("%s, %s stands apart from the others of its work", c.target, c.work)
		}
		works[c.work], last = true, c.work
	}
	if len(o.cells()) != len(cells)+1 {
		t.Errorf("%d cells", len(o.cells()))
	}
}

func TestValidateNamesEveryFlag(t *testing.T) {
	good := Defaults()
	if err := good.List().Validate(); err != nil {
		t.Fatal(err)
	}
	bad := Options{Clients: 0, Rounds: -1, PlainTokens: 0, ShortTokens: 9, LongTokens: 9,
		Duration: time.Millisecond, Warmup: -1, Profile: time.Millisecond, MaxRatio: 0, MaxEventUS: math.NaN()}
	err := bad.List().Validate()
	for _, flag := range []string{"clients", "rounds", "plain-tokens", "long-tokens", "duration", "warmup", "profile", "max-ratio", "max-event-us"} {
		if err == nil || !strings.Contains(err.Error(), "--"+flag+" is") {
			t.Errorf("--%s is not named: %v", flag, err)
		}
	}
}

func TestBaseURL(t *testing.T) {
	for line, want := range map[string]string{
		"  base URL   http://127.0.0.1:4711": "http://127.0.0.1:4711", "  API key    in x": "", "": "", "base URL": "",
	} {
		if got, ok := proc.BaseURL(line); got != want || ok != (want != "") {
			t.Errorf("%q: %q %v", line, got, ok)
		}
	}
}

func TestBreakdownDividesAllTime(t *testing.T) {
	b := breakdownOf([]profile.Sample{
		{Stack: []string{"syscall", "corenode/node/store/sqlite.(*conn).exec", "corenode/actors/ledger.(*Writer).run"}, Nanos: 50},
		{Stack: []string{"runtime._ExternalCode"}, Nanos: 30},
		{Stack: []string{"x", "corenode/actors/limiter.(*Limiter).Receive"}, Nanos: 15},
		{Stack: []string{"runtime.futex"}, Nanos: 5},
	}, Plain, 200)
	got, sum := map[string]float64{}, 0.0
	for _, p := range b.Parts {
		got[p.Name] = p.CPU
		sum += p.Share
	}
	if got[partLedger] != 100 || got["WebAssembly code of modules"] != 60 || got["actors"] != 30 || got[partScheduler] != 10 || !near(sum, 1) {
		t.Errorf("parts %+v", b.Parts)
	}
	l := ledgerOf(b, Row{Ratio: report.Spread{Min: 9, Median: 10, Max: 11}})
	if !near(l.Share, 0.5) || !near(l.CPU, 100) || !near(l.RatioWithout, 5) {
		t.Errorf("ledger %+v", l)
	}
	if b.Top[0] != (Part{"syscall", 0.5, 100}) {
		t.Errorf("top %+v", b.Top)
	}
}

// Programs read the JSON: its names are a promise.
func TestJSONKeepsItsNames(t *testing.T) {
	r := Summarize(append(made(0, PassThrough, 30, 4, 0), made(0, Node, 60, 2, 0)...), options())
	r.Breakdown = []Breakdown{breakdownOf(nil, Plain, 1)}
	r.Ledger = ledgerOf(r.Breakdown[0], r.row(Node, Plain))
	path := filepath.Join(t.TempDir(), "r.json")
	if err := report.WriteJSON(path, r); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var top map[string]json.RawMessage
	if err := json.Unmarshal(b, &top); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"schema", "host", "options", "rounds", "rows", "events", "breakdown", "ledger", "gates"} {
		if _, ok := top[name]; !ok {
			t.Errorf("no %q", name)
		}
	}
	var back Report
	if err := json.Unmarshal(b, &back); err != nil || back.Schema != "corebench.overhead/1" || back.Gates[0] != r.Gates[0] ||
		back.row(Node, Long).CPU != r.row(Node, Long).CPU {
		t.Errorf("read back: %v %+v", err, back)
	}
}

func TestPrintShowsEveryRowAndGate(t *testing.T) {
	r := Summarize(append(made(0, PassThrough, 30, 4, 0), made(0, Node, 150, 2, 0)...), options())
	var bare strings.Builder
	if err := r.Print(&bare); err != nil || !strings.Contains(bare.String(), "no profile was taken") {
		t.Errorf("without profiles: %v\n%s", err, bare.String())
	}
	r.Breakdown = []Breakdown{breakdownOf(nil, Plain, 1)}
	r.Ledger = ledgerOf(r.Breakdown[0], r.row(Node, Plain))
	var b strings.Builder
	if err := r.Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{PassThrough, Node, Count, Single, "MISSED", "met", "5.00", "1 rounds", "the ledger is 0 %",
		"paced event -"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}
