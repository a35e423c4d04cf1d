package result

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/bench/proc"
	"corenode/bench/report"
	"corenode/bench/stats"
)

const msec = time.Millisecond

// measured makes a run of a closed loop of one client with random latencies:
// TTFT around a mean, then three gaps.
func measured(seed uint64, mean time.Duration) stats.Run {
	r := rand.New(rand.NewPCG(seed, 1))
	rec := stats.New(stats.Config{Until: 20 * time.Second, Streamed: true})
	for at := time.Duration(0); at < 20*time.Second; {
		first := at + time.Duration(float64(mean)*(0.5+r.Float64()))
		gap := 5*msec + time.Duration(r.IntN(int(10*msec)))
		one := stats.Record{Turn: 1, Intended: at, Sent: at, First: first, Last: first + 3*gap, End: first + 3*gap, RetryAfter: -1,
			Queue:       -1,
			InputTokens: 100, OutputTokens: 4, UsageKnown: true, Outputs: 4, Gaps: []time.Duration{gap, gap, gap}}
		rec.Begin(at)
		rec.Add(&one)
		at = one.End
	}
	return rec.Finish()
}

func file(runs ...stats.Run) File {
	return New(proc.Host{Processor: "p", Processors: 2},
		Conditions{URL: "http://a", Protocol: "chat", Model: "m", Stream: true, Loop: "closed", Clients: 1, Turns: 1, Seed: 1}, runs)
}

func find(t *testing.T, list []Difference, name string) Difference {
	for _, d := range list {
		if d.Metric.Name == name {
			return d
		}
	}
	t.Fatalf("no %s in %d differences", name, len(list))
	return Difference{}
}

// Runs of the same kind differ by noise only; one of twice the latency differs.
func TestCompareKnowsNoise(t *testing.T) {
	repeats := func(seed uint64, mean time.Duration) File {
		return file(measured(seed, mean), measured(seed+1, mean), measured(seed+2, mean))
	}
	cases := []struct {
		name        string
		same, other File
		base        File
	}{
		{"one run each", file(measured(2, 100*msec)), file(measured(3, 200*msec)), file(measured(1, 100*msec))},
		{"repeats", repeats(20, 100*msec), repeats(30, 200*msec), repeats(10, 100*msec)},
	}
	for _, c := range cases {
		same, other := Compare(c.base, c.same), Compare(c.base, c.other)
		for _, name := range []string{"ttft_p50", "ttft_p90", "e2e_p50", "requests_per_s", "output_tokens_per_s"} {
			if d := find(t, same, name); d.Verdict != Noise && d.Verdict != Same {
				t.Errorf("%s: %s %v to %v is %q, range %v to %v", c.name, name, d.A, d.B, d.Verdict, d.Low, d.High)
			}
			if d := find(t, other, name); d.Verdict != Worse || d.Low > d.Ratio || d.High < d.Ratio {
				t.Errorf("%s: %s %v to %v is %q, %v in %v to %v", c.name, name, d.A, d.B, d.Verdict, d.Ratio, d.Low, d.High)
			}
		}
		if d := find(t, Compare(c.other, c.base), "ttft_p50"); d.Verdict != Better {
			t.Errorf("%s: the other way round it is %q", c.name, d.Verdict)
		}
	}
	var b bytes.Buffer
	if err := PrintComparison(&b, Compare(cases[0].base, cases[0].other)); err != nil || !strings.Contains(b.String(), "ttft_p50") {
		t.Errorf("%v: %s", err, b.String())
	}
}

func TestNoiseThatCannotBeKnown(t *testing.T) {
	rec := stats.New(stats.Config{Until: 20 * time.Second, Streamed: true})
	one := stats.Record{Turn: 1, First: 100 * msec, Last: 100 * msec, End: 100 * msec, RetryAfter: -1, Queue: -1, Outputs: 1}
	rec.Begin(0)
	rec.Add(&one)
	few := file(rec.Finish())
	if d := find(t, Compare(file(measured(1, 50*msec)), few), "ttft_p50"); d.Verdict != Unknown {
		t.Errorf("one request gave %+v", d)
	}
	if d := find(t, Compare(few, few), "ttft_p50"); d.Verdict != Same {
		t.Errorf("the same file gave %+v", d)
	}
}

func TestThresholds(t *testing.T) {
	list := Compare(file(measured(1, 100*msec)), file(measured(2, 200*msec)))
	for text, want := range map[string]bool{
		"ttft_p50>1.1": true, "ttft_p50>3": false, "ttft_p50_ms >= 1.5": true, "output_tokens_per_s<0.9": true, "requests<=0.1": false, "queue_p50>9": true,
	} {
		th, err := ParseThreshold(text)
		if err != nil {
			t.Fatal(err)
		}
		if crossed, why := th.Crossed(list); crossed != want || why == "" {
			t.Errorf("%s: crossed %v, %s", text, crossed, why)
		}
	}
	for _, text := range []string{"ttft_p50", "speed>1", "ttft_p50>x", "ttft_p50=1", ">1"} {
		if th, err := ParseThreshold(text); err == nil {
			t.Errorf("%q became %+v", text, th)
		}
	}
}

func TestWarnings(t *testing.T) {
	a, b := file(measured(1, 100*msec)), file(measured(2, 100*msec))
	b.Conditions.URL, b.Conditions.Seed = "http://b", 2
	if w := Warnings(a, b); len(w) != 0 {
		t.Errorf("%q", w)
	}
	b.Conditions.Protocol, b.Conditions.Clients, b.Conditions.Rate, b.Host.Processors = "messages", 0, 3, 4
	if w := strings.Join(Warnings(a, b), "; "); strings.Count(w, ";") != 3 || !strings.Contains(w, "protocol") || !strings.Contains(w, "machines") {
		t.Errorf("%q", w)
	}
}

// TestLengthsOfAnswers: who stops early answers sooner. Lengths are metrics of their own, of which neither direction is better.
func TestLengthsOfAnswers(t *testing.T) {
	lengths := func(seed uint64, input, output float64) stats.Run {
		run := measured(seed, 100*msec)
		run.Tokens.InputMean, run.Tokens.OutputMean = input, output
		return run
	}
	a := file(lengths(1, 100, 50), lengths(2, 100, 51))
	for _, c := range []struct {
		input, output float64
		warns         string
		verdict       Verdict
	}{{101, 50.5, "", Same}, {100, 25, "answers differ in length: 50.5 and 25.0", Differs}, {103, 50.5, "prompts differ in length: 100 and 103", Same}} {
		b := file(lengths(3, c.input, c.output), lengths(4, c.input, c.output))
		w := strings.Join(Warnings(a, b), "; ")
		if strings.Contains(w, "differ in length") != (c.warns != "") || !strings.Contains(w, c.warns) {
			t.Errorf("%+v: %q", c, w)
		}
		if d := find(t, Compare(a, b), "output_per_request"); d.Verdict != c.verdict || d.Metric.Unit != "tokens" {
			t.Errorf("%+v: %+v", c, d)
		}
	}
	var out bytes.Buffer
	if err := PrintComparison(&out, Compare(a, file(lengths(3, 100, 25), lengths(4, 100, 25)))); err != nil ||
		!regexp.MustCompile(`output_per_request .* - +differs\n`).MatchString(out.String()) {
		t.Errorf("%v\n%s", err, out.String())
	}
	if _, err := ParseThreshold("output_per_request<0.98"); err != nil {
		t.Error(err)
	}
}

// TestShortAnswersAreNoted: only where the load says that none may end early.
func TestShortAnswersAreNoted(t *testing.T) {
	run := measured(1, 100*msec)
	run.Tokens.Shorter = 3
	for extra, want := range map[string]bool{"": false, `{"ignore_eos":false}`: false, `{"ignore_eos":true}`: true} {
		f := file(run)
		f.Conditions.Extra = extra
		if text := strings.Join(New(f.Host, f.Conditions, f.Runs).Notes, "; "); strings.Contains(text, "3 answers are shorter than asked") != want {
			t.Errorf("%q: %s", extra, text)
		}
	}
}

// The oracle counts the orders in which runs of equal loads can come.
func TestFewRunsAreWarnedOf(t *testing.T) {
	for n := 2; n <= 5; n++ {
		for m := 2; m <= 5; m++ {
			orders, apartIn := 0, 0
			for set := range 1 << (n + m) { // the places of A's runs
				if bits.OnesCount(uint(set)) != n {
					continue
				}
				orders++
				if set == 1<<n-1 || set == (1<<n-1)<<m {
					apartIn++
				}
			}
			want := float64(apartIn) / float64(orders)
			if got := apart(n, m); math.Abs(got-want) > 1e-12 {
				t.Errorf("%d and %d runs: %v, want %v", n, m, got, want)
			}
		}
	}
	one := measured(1, 100*msec)
	if w := strings.Join(Warnings(file(one, one), file(one, one)), "; "); !strings.Contains(w, "33 %") {
		t.Errorf("two runs of each: %q", w)
	}
	four := file(one, one, one, one)
	if w := append(Warnings(four, four), Warnings(file(one), four)...); len(w) != 0 {
		t.Errorf("%q", w)
	}
}

// TestRunsWithoutAMetricAreNoRunsOfIt: a run that was interrupted before its window says nothing of how runs differ.
func TestRunsWithoutAMetricAreNoRunsOfIt(t *testing.T) {
	none := stats.New(stats.Config{From: time.Minute, Until: time.Minute, Streamed: true}).Finish()
	none.Stopped = true
	same := Compare(file(measured(1, 100*msec)), file(measured(2, 100*msec)))
	a, b := file(measured(1, 100*msec), none), file(measured(2, 100*msec), none)
	for _, name := range []string{"ttft_p50", "e2e_p50", "requests_per_s"} {
		got, want := find(t, Compare(a, b), name), find(t, same, name)
		if got.Low != want.Low || got.High != want.High || got.Verdict != want.Verdict || want.Low == want.High {
			t.Errorf("%s: %q, %v to %v beside runs without it; alone %q, %v to %v", name, got.Verdict, got.Low, got.High, want.Verdict,
				want.Low, want.High)
		}
	}
	w := strings.Join(Warnings(a, b), "; ")
	if strings.Contains(w, "33 %") || strings.Count(w, "1 of 2 runs was stopped") != 2 {
		t.Errorf("%q", w)
	}
	a = file(measured(1, 100*msec), measured(2, 100*msec), none)
	b = file(measured(3, 100*msec), measured(4, 100*msec), measured(5, 100*msec))
	if w := strings.Join(Warnings(a, b), "; "); !strings.Contains(w, "ranges of 2 and 3 runs") || strings.Count(w, "ranges of") != 1 {
		t.Errorf("%q", w)
	}
}

func TestFilesAreReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.json")
	f := file(measured(1, 100*msec))
	if err := report.WriteCompact(path, f); err != nil {
		t.Fatal(err)
	}
	back, err := ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := Compare(f, back); find(t, d, "ttft_p99").Ratio != 1 || len(d) != len(Compare(f, f)) {
		t.Errorf("a file differs from itself: %+v", d)
	}
	for name, text := range map[string]string{"schema": `{"schema":"corebench.sweep/1"}`, "JSON": `{`, "runs": `{"schema":"corebench.load/1"}`} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), map[string]string{"JSON": "result"}[name]) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	if _, err := ReadFile(path + ".none"); !os.IsNotExist(err) {
		t.Errorf("error %v", err)
	}
}

// The layout that the schema names.
func TestLayout(t *testing.T) {
	b, err := json.Marshal(file(measured(1, 100*msec)))
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"schema", "host.processor", "conditions.model", "conditions.seed", "metrics.ttft_p99.median", "notes.0",
		"runs.0.window_s", "runs.0.requests.due", "runs.0.requests.not_sent", "runs.0.rates.goodput_per_s", "runs.0.rates.output_tokens_per_s",
		"runs.0.tokens.cached_share", "runs.0.latency_ms.ttft.p50", "runs.0.latency_ms.itl.p999", "runs.0.harness.cpu_share", "runs.0.harness.lateness_ms.p99",
		"runs.0.timeline.bucket_s", "runs.0.timeline.points.0.in_flight", "runs.0.blocks.0.histograms.itl", "runs.0.sample.0.3"} {
		at := v
		for _, step := range strings.Split(path, ".") {
			var next any
			switch x := at.(type) {
			case map[string]any:
				next = x[step]
			case []any:
				var i int
				if _, err := fmt.Sscan(step, &i); err == nil && i < len(x) {
					next = x[i]
				}
			}
			at = next
		}
		if at == nil {
			t.Errorf("no %s", path)
		}
	}
}

func TestNotes(t *testing.T) {
	run := measured(1, 100*msec)
	plain := strings.Join(file(run).Notes, "\n")
	if !strings.Contains(plain, "closed loop") || strings.Contains(plain, "carries") {
		t.Errorf("%s", plain)
	}
	run.Tokens.PerEvent, run.Tokens.CachedShare, run.Requests.NotSent, run.Stopped, run.Harness.CPUShare = 3, 0.5, 7, true, 0.4
	run.Harness.Retried = 9
	for _, want := range []string{"carries 3.00 tokens", "50 % of the input", "7 requests were not sent", "9 requests were sent again", "stopped", "40 % of this machine"} {
		if all := strings.Join(file(run).Notes, "\n"); !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if all := strings.Join(file(run, run).Notes, "\n"); !strings.Contains(all, "run 2: stopped") {
		t.Errorf("%s", all)
	}
}

func TestKnee(t *testing.T) {
	level := func(at, goodput float64) Level {
		run := measured(1, 100*msec)
		run.Rates.Goodput = goodput
		return Level{at, file(run)}
	}
	s := NewSweep("clients", []Level{level(1, 10), level(4, 30), level(2, 19), level(8, 30.4), level(16, 12)})
	if s.Knee != 4 {
		t.Errorf("knee at %v", s.Knee)
	}
	var b bytes.Buffer
	if err := s.Print(&b); err != nil || !strings.Contains(b.String(), "knee: 4 clients") || strings.Count(b.String(), "<- knee") != 1 {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// A sweep of which nothing was good has no knee; its notes are shown with their levels.
func TestSweepOfFailures(t *testing.T) {
	run := measured(1, 100*msec)
	run.Rates.Goodput, run.Requests.Succeeded, run.Requests.NotSent = 0, 0, 7
	s := NewSweep("rate", []Level{{At: 2, File: file(run)}, {At: 4, File: file(measured(2, 100*msec))}})
	if s.Knee != 4 || !s.Met() {
		t.Errorf("knee at %v, succeeded %v", s.Knee, s.Met())
	}
	var b bytes.Buffer
	if err := s.Print(&b); err != nil || !strings.Contains(b.String(), "note: rate 2: 7 requests were not sent") || !strings.Contains(b.String(), "note: closed loop") {
		t.Errorf("%v\n%s", err, b.String())
	}
	b.Reset()
	s = NewSweep("rate", []Level{{At: 2, File: file(run)}})
	if err := s.Print(&b); err != nil || s.Knee != 0 || s.Met() || !strings.Contains(b.String(), "knee: none") || strings.Contains(b.String(), "<- knee") {
		t.Errorf("%v, knee at %v\n%s", err, s.Knee, b.String())
	}
}

// A level in which nothing was due has no share of failures.
func TestLevelWithoutRequests(t *testing.T) {
	none := stats.New(stats.Config{From: time.Minute, Until: time.Minute, Streamed: true}).Finish()
	rows := NewSweep("rate", []Level{{At: 2, File: file(measured(1, 100*msec))}, {At: 4, File: file(none)}}).Table().Rows
	if got := strings.Join(rows[1], " "); got != "4 - - - - - - - - - - " {
		t.Errorf("the empty level is %q", got)
	}
	if failed := rows[0][len(rows[0])-2]; failed != "0" {
		t.Errorf("of a level without failures %s %% failed", failed)
	}
}

func TestLengthOfALoad(t *testing.T) {
	for want, c := range map[string]Conditions{
		", 30.0 s after": {DurationS: 30}, ", 7 requests after": {Count: 7}, ", 7 requests or 30.0 s after": {Count: 7, DurationS: 30},
		", to the end of its trace after": {},
	} {
		if line := c.Lines()[0]; !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
}

func TestPrint(t *testing.T) {
	run := measured(1, 100*msec)
	run.Errors = []stats.Failure{{Kind: "http_429", Count: 3, Example: "slow down", RetryAfter: 3, RetryAfterMinS: 1, RetryAfterMaxS: 2}}
	run.Turns = []stats.Turn{{Turn: 1}, {Turn: 2, InputMean: 7, CachedShare: 0.5}}
	var b bytes.Buffer
	if err := file(run, measured(2, 100*msec)).Print(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"TTFT", "ITL", "TPOT", "E2E", "http_429", "1.00-2.00 s", "output tokens/s", "note: closed loop", "TURN", "50.0 %"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

// A run that was interrupted before its window has no latencies, rates or shares: the tables are of those that have.
func TestRunsWithoutAValueAreNotZeros(t *testing.T) {
	whole, none := measured(1, 100*msec), stats.New(stats.Config{From: time.Minute, Until: time.Minute, Streamed: true}).Finish()
	whole.Tokens.CachedShare, whole.Harness.CPUShare, none.Harness.CPUShare = 0.25, 0.125, -1
	whole.Turns = []stats.Turn{{Turn: 1}, {Turn: 2, InputMean: 7, CachedShare: 0.5,
		TTFT: stats.Distribution{Count: 1, P50: 5, P99: 6}, E2E: stats.Distribution{Count: 1, P50: 9}}}
	other := whole
	other.Turns = []stats.Turn{{Turn: 1}, {Turn: 2, InputMean: 7, CachedShare: 0.5, E2E: stats.Distribution{Count: 1, P50: 9}}}
	rows := func(runs ...stats.Run) map[string]string {
		f, list := file(runs...), map[string]string{}
		f.Conditions.Objectives = []string{"ttft=1s"}
		for _, table := range f.Tables() {
			for _, row := range table.Rows {
				list[table.Title+" "+row[0]] = strings.Join(row[1:], "|")
			}
		}
		return list
	}
	want := rows(whole)
	for _, name := range []string{"Latencies TTFT", "Rates and sums output tokens/s", "Rates and sums cached share of the input", "Turns 2"} {
		if want[name] == "" {
			t.Errorf("one run has no %s: %q", name, want)
		}
	}
	if row := want["Turns 1"]; row != "-|-|-|-|-|0" {
		t.Errorf("a turn that nobody had: %s", row)
	}
	for name, runs := range map[string][]stats.Run{"second": {whole, none}, "first": {none, whole}} {
		got := rows(runs...)
		delete(got, "Rates and sums window") // which it has, as it has counts
		delete(got, "Rates and sums requests due")
		for row, text := range got {
			if text != want[row] {
				t.Errorf("the %s run is empty: %s is %s, want %s", name, row, text, want[row])
			}
		}
		if len(got) != len(want)-2 {
			t.Errorf("the %s run is empty: %d rows, want %d", name, len(got), len(want)-2)
		}
	}
	if row := rows(whole, other)["Turns 2"]; row != "5.00|6.00|9.00|7.00|50.0 %|2" {
		t.Errorf("a turn without output in one run: %s", row)
	}
	for row, text := range rows(none) {
		if !strings.HasPrefix(row, "Failures") {
			t.Errorf("only an empty run: %s is %s", row, text)
		}
	}
}

// TestWhatNoReplyTellsIsLeftOut: a server that says nothing of tokens or of its cache has no numbers of them, and no zeros.
func TestWhatNoReplyTellsIsLeftOut(t *testing.T) {
	one := stats.Record{Turn: 1, First: 100 * msec, Last: 150 * msec, End: 150 * msec, RetryAfter: -1, Queue: -1, Status: 200, Outputs: 2,
		Gaps: []time.Duration{50 * msec}}
	whole := one
	whole.First, whole.Outputs, whole.Gaps = -1, 0, nil
	usage := one
	usage.UsageKnown, usage.InputTokens, usage.OutputTokens = true, 10, 2
	cached := usage
	cached.CachedKnown = true
	names := []string{"output_tokens_per_s", "input_tokens_per_s", "cached_share"}
	lines := []string{"output tokens/s", "input tokens/s", "output tokens per request", "input tokens per request"}
	for name, c := range map[string]struct {
		rec          stats.Record
		streamed     bool
		names, lines int // how many of them there are
		turn         string
	}{
		"no usage":           {whole, false, 0, 0, "-|-"},
		"no usage, streamed": {one, true, 1, 1, "-|-"},
		"usage":              {usage, true, 2, 4, "10.0|-"},
		"usage with a cache": {cached, true, 3, 4, "10.0|0 %"},
	} {
		rec := stats.New(stats.Config{Until: time.Second, Streamed: c.streamed})
		second := c.rec
		second.Turn = 2
		for _, one := range []stats.Record{c.rec, second} {
			rec.Begin(0)
			rec.Add(&one)
		}
		f := file(rec.Finish())
		got := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, has := f.Metrics[name]; return !has })
		if !slices.Equal(got, names[:c.names]) {
			t.Errorf("%s: metrics %v", name, got)
		}
		shown := map[string]string{}
		for _, table := range f.Tables() {
			for _, row := range table.Rows {
				shown[row[0]] = strings.Join(row[1:], "|")
			}
		}
		n := 0
		for _, line := range lines {
			if shown[line] != "" {
				n++
			}
		}
		if n != c.lines || !strings.Contains(shown["2"], "|"+c.turn+"|") {
			t.Errorf("%s: %v", name, shown)
		}
	}
}

// What was not sent met no objective either.
func TestShareThatMetTheObjectives(t *testing.T) {
	run := measured(1, 100*msec)
	run.Requests = stats.Counts{Due: 50, Succeeded: 50, Good: 50, NotSent: 50}
	f := file(run)
	f.Conditions.Objectives = []string{"ttft=1s"}
	var b bytes.Buffer
	if err := f.Print(&b); err != nil || !strings.Contains(b.String(), "requests that met the objectives  50.0 %") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// The oracle is the CSV reader of Go's library.
func TestRows(t *testing.T) {
	var b bytes.Buffer
	rows := NewRows(&b)
	rows.NextRun()
	rows.Add(&stats.Record{Conversation: 5, Turn: 2, Intended: 1500 * msec, Sent: 1501 * msec, First: 1600 * msec, Last: 1700 * msec,
		End:        1710 * msec,
		RetryAfter: -1, Queue: -1, Status: 200, UsageKnown: true, InputTokens: 7, OutputTokens: 3, Outputs: 3, OutputMax: 9,
		Gaps: []time.Duration{40 * msec, 60 * msec}})
	rows.Add(&stats.Record{First: -1, Last: -1, RetryAfter: 2 * time.Second, Queue: -1, Kind: "http_429", Status: 429})
	if err := rows.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(got) != 3 {
		t.Fatalf("%d lines, %v", len(got), err)
	}
	cell := func(line int, name string) string {
		for i, n := range got[0] {
			if n == name {
				return got[line][i]
			}
		}
		return "no column " + name
	}
	for name, want := range map[string][2]string{
		"run": {"1", "1"}, "conversation": {"5", "0"}, "turn": {"2", "0"}, "intended_s": {"1.5", "0"}, "ttft_ms": {"100", ""}, "tpot_ms": {"50", ""},
		"e2e_ms": {"210", "0"}, "itl_max_ms": {"60", ""}, "outcome": {"ok", "http_429"}, "retry_after_s": {"", "2"}, "input_tokens": {"7", ""}, "cached_tokens": {"", ""}, "output_max": {"9", "0"}, "queue_ms": {"", ""},
	} {
		for i := range want {
			if cell(i+1, name) != want[i] {
				t.Errorf("line %d, %s: %q, want %q", i+1, name, cell(i+1, name), want[i])
			}
		}
	}
}
