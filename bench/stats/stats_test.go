package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const msec = time.Millisecond

// near says whether a number is within a share of another.
func near(got, want, share float64) bool { return math.Abs(got-want) <= share*math.Abs(want)+1e-9 }

// latencies are random durations over five orders of magnitude.
func latencies(n int) []time.Duration {
	r, list := rand.New(rand.NewPCG(1, 1)), make([]time.Duration, n)
	for i := range list {
		list[i] = time.Duration(math.Exp(r.Float64()*11.5)) * time.Microsecond
	}
	return list
}

// nearestRank is the definition: the least value that at least a share of all are not above.
func nearestRank(values []time.Duration, share float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	for i, v := range sorted {
		if float64(i+1) >= share*float64(len(sorted))-1e-9 {
			return ms(v)
		}
	}
	return ms(sorted[len(sorted)-1])
}

func TestHistogramAgainstBruteForce(t *testing.T) {
	for _, n := range []int{1, 2, 10, 999, 20_000} {
		values := latencies(n)
		var s, left, right Histogram
		for i, v := range values {
			s.Add(v)
			if i%3 == 0 {
				left.Add(v)
			} else {
				right.Add(v)
			}
		}
		left.Merge(right, 1)
		for _, share := range []float64{0, 0.01, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
			got, merged, want := s.Percentiles(share)[0], left.Percentiles(share)[0], nearestRank(values, share)
			if !near(got, want, 1.0/subBuckets) || got != merged {
				t.Errorf("%d values, %v: %v, merged %v, want %v", n, share, got, merged, want)
			}
		}
		if s.Count() != int64(n) {
			t.Errorf("%d of %d values", s.Count(), n)
		}
	}
	if Histogram(nil).Percentiles(0.5) != nil {
		t.Error("a percentile of nothing")
	}
	for us := range int64(200_000) { // buckets rise, and hold their middle
		b := bucketOf(us)
		if b < bucketOf(us-1) || bucketOf(int64(bucketMid(b))) != b || !near(bucketMid(b), float64(us), 1.0/subBuckets) {
			t.Fatalf("%d us is in bucket %d with middle %v", us, b, bucketMid(b))
		}
	}
}

func TestObjectives(t *testing.T) {
	rec := Record{Intended: 0, First: 100 * msec, Last: 400 * msec, End: 450 * msec, Outputs: 4, OutputTokens: 4, UsageKnown: true,
		Queue: -1, RetryAfter: -1, Gaps: []time.Duration{10 * msec, 280 * msec, 10 * msec}}
	for text, want := range map[string]bool{
		"": true, "ttft=100ms": true, "ttft=99ms": false, "tpot=100ms": true, "tpot=99ms": false, "e2e=450ms": true, "e2e=449ms": false,
		"itl_p50=10ms": true, "itl_p99=280ms": true, "itl_p99=279ms": false, "itl_max=279ms": false, "queue=1ms": true,
		"ttft=1s,e2e=449ms": false, " ttft=1s , e2e=1s,": true,
	} {
		o, err := ParseObjectives(text)
		if err != nil || met(o, &rec) != want {
			t.Errorf("%q: met %v, error %v", text, !want, err)
		}
	}
	silent := Record{First: -1, End: 300 * msec, Queue: 5 * msec}
	for text, want := range map[string]bool{"ttft=299ms": false, "ttft=300ms": true, "tpot=1ms": true, "itl_p99=1ms": true, "queue=4ms": false} {
		o, err := ParseObjectives(text)
		if err != nil || met(o, &silent) != want {
			t.Errorf("without output, %q: met %v, error %v", text, !want, err)
		}
	}
	for _, text := range []string{"ttft", "ttft=5", "ttft=-1s", "itl=1s", "itl_99=1s", "itl_p0=1s", "itl_p101=1s", "speed=1s"} {
		if _, err := ParseObjectives(text); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// done is a record of a stream of four tokens in events of one.
func done(intended, first time.Duration, gaps ...time.Duration) *Record {
	r := &Record{Turn: 1, Intended: intended, Sent: intended + msec, First: first, Last: first, RetryAfter: -1, Queue: -1,
		InputTokens: 100, CachedTokens: 25, UsageKnown: true, CachedKnown: true,
		Outputs: 1 + len(gaps), OutputTokens: 1 + len(gaps), Status: 200, Gaps: gaps}
	for _, g := range gaps {
		r.Last += g
	}
	r.End = r.Last
	return r
}

func add(r *Recorder, records ...*Record) {
	for _, rec := range records {
		r.Begin(rec.Sent)
		r.Add(rec)
	}
}

// A window of 2 s to 4 s: latencies by when requests were due, rates by when
// things happened.
func TestWindow(t *testing.T) {
	objectives, err := ParseObjectives("ttft=500ms")
	if err != nil {
		t.Fatal(err)
	}
	r := New(Config{From: 2 * time.Second, Until: 4 * time.Second, Streamed: true, Objectives: objectives})
	add(r,
		done(1000*msec, 1500*msec, 100*msec, 900*msec), // due before, ends within: one token of three, one request
		done(2100*msec, 2300*msec, 100*msec, 100*msec), // within
		done(2200*msec, 3000*msec, 100*msec),           // within, not good
		done(3900*msec, 4100*msec, 100*msec),           // due within, ends behind
		done(4000*msec, 4100*msec),                     // due behind
		&Record{Turn: 1, Intended: 3 * time.Second, Sent: 3 * time.Second, First: -1, End: 3100 * msec, Kind: "http_429", Status: 429,
			RetryAfter: 2 * time.Second, Queue: -1, Detail: "busy"},
		&Record{Turn: 1, Intended: 3 * time.Second, Sent: 3 * time.Second, First: -1, End: 3100 * msec, Kind: "http_429", Status: 429,
			RetryAfter: time.Second, Queue: -1},
	)
	r.NotSent(3 * time.Second)
	r.NotSent(5 * time.Second)
	run := r.Finish()
	want := Counts{Due: 5, Succeeded: 3, Failed: 2, Good: 2, NotSent: 1, Outside: 2}
	if run.Requests != want {
		t.Errorf("counts %+v, want %+v", run.Requests, want)
	}
	if got := run.Rates; !near(got.Requests, 1.5, 1e-9) || !near(got.Goodput, 1, 1e-9) || !near(got.Failed, 1, 1e-9) ||
		!near(got.OutputTokens, (1+3+2)/2.0, 1e-9) || !near(got.InputTokens, 200/2.0, 1e-9) || run.WindowS != 2 || run.FromS != 2 {
		t.Errorf("rates %+v over %v s from %v s", got, run.WindowS, run.FromS)
	}
	if d := run.Latency["ttft"]; d.Count != 3 || !near(d.Min, 200, 0.001) || !near(d.Max, 800, 0.001) || !near(d.P50, 200, 0.001) {
		t.Errorf("TTFT %+v", d)
	}
	if d := run.Latency["itl"]; d.Count != 4 || !near(d.Mean, 100, 0.001) {
		t.Errorf("ITL %+v", d)
	}
	if _, has := run.Latency["queue"]; has {
		t.Error("there is a queue time that nobody told")
	}
	if e := run.Errors; len(e) != 1 || e[0] != (Failure{"http_429", 2, "busy", 2, 1, 2}) {
		t.Errorf("errors %+v", e)
	}
	if tok := run.Tokens; tok.Input != 300 || tok.CachedShare != 0.25 || tok.Output != 7 || tok.PerEvent != 1 {
		t.Errorf("tokens %+v", tok)
	}
	if run.Harness.Lateness.Count != 5 {
		t.Errorf("lateness %+v", run.Harness.Lateness)
	}
}

// A refusal of 1 ms is no fast answer, nor are the gaps of a stream that broke those of one: latencies over time, and
// those of the progress line, are of the requests that the table has. What arrived did arrive: tokens count.
func TestFailuresHaveNoLatencyOverTime(t *testing.T) {
	refused := &Record{Turn: 1, Intended: 100 * msec, Sent: 100 * msec, First: -1, End: 101 * msec, Kind: "http_429", RetryAfter: -1, Queue: -1}
	broken := done(100*msec, 110*msec, 3*msec, 0)
	broken.Kind = KindBroken
	r := New(Config{Streamed: true})
	add(r, refused, broken)
	if l := r.Progress(); l.Failed != 2 || l.TTFTms >= 0 {
		t.Errorf("only failures: progress %+v", l)
	}
	m := r.Finish().Timeline.Points[0]
	if m.TTFT != nil || m.ITL != nil || m.E2E != nil || m.Failed != 2 || m.OutputTokens != 3 || m.InputTokens != 100 {
		t.Errorf("only failures: %+v", m)
	}
	r = New(Config{Streamed: true})
	add(r, refused, broken, done(100*msec, 500*msec, 50*msec, 50*msec), refused, broken)
	run := r.Finish()
	m = run.Timeline.Points[0]
	if m.Failed != 4 || m.Succeeded != 1 || m.OutputTokens != 9 {
		t.Errorf("counts of %+v", m)
	}
	for name, list := range map[string][]float64{"ttft": m.TTFT, "itl": m.ITL, "e2e": m.E2E} {
		if want := run.Latency[name].P50; len(list) != 3 || !near(list[0], want, 0.02) || !near(list[2], want, 0.02) {
			t.Errorf("%s over time is %v, in the table %v", name, list, want)
		}
	}
}

// Without an end the window ends with the last reply.
func TestOpenWindow(t *testing.T) {
	r := New(Config{From: time.Second, Streamed: true})
	add(r, done(time.Second, 2*time.Second, 500*msec, 500*msec), done(1500*msec, 4*time.Second, 1000*msec))
	if run := r.Finish(); run.WindowS != 4 || !near(run.Rates.OutputTokens, 5/4.0, 1e-9) || run.Requests.Due != 2 {
		t.Errorf("%+v over %v s, %+v", run.Rates, run.WindowS, run.Requests)
	}
}

// A run that is stopped in a stall has the stall in its window, whether that had an end of its own or not; one that had
// sent all ends with its last reply.
func TestStoppedInAStall(t *testing.T) {
	for _, c := range []struct {
		until, at time.Duration
		window    float64
	}{
		{0, 11 * time.Second, 10}, {60 * time.Second, 11 * time.Second, 10}, {6 * time.Second, 11 * time.Second, 5},
		{0, 0, 1.5}, {60 * time.Second, 0, 1.5}, {0, 2 * time.Second, 1.5},
	} {
		r := New(Config{From: time.Second, Until: c.until, Streamed: true})
		add(r, done(time.Second, 1500*msec), done(2*time.Second, 2500*msec))
		r.Cut(c.at)
		run, sum := r.Finish(), 0.0
		for _, b := range run.Blocks {
			sum += b.Seconds
		}
		if !near(run.WindowS, c.window, 1e-9) || !near(sum, c.window, 1e-9) || !near(run.Rates.Requests, 2/c.window, 1e-9) {
			t.Errorf("until %v, cut at %v: a window of %v s, %d blocks of %v s, %v requests/s; want %v s", c.until, c.at, run.WindowS,
				len(run.Blocks), sum, run.Rates.Requests, c.window)
		}
	}
}

// What a server is silent for belongs to the window's pieces, from which the
// noise of rates is estimated.
func TestBlocksCoverTheWindow(t *testing.T) {
	r := New(Config{From: time.Second, Until: 11 * time.Second, Streamed: true})
	add(r, done(time.Second, 1500*msec), done(2*time.Second, 2500*msec))
	run, sum := r.Finish(), 0.0
	for _, b := range run.Blocks {
		sum += b.Seconds
	}
	if !near(sum, run.WindowS, 1e-9) {
		t.Errorf("%d blocks cover %v s of %v s", len(run.Blocks), sum, run.WindowS)
	}
}

// An event of several tokens counts as many as usage says, and as one gap.
func TestTokensOfEvents(t *testing.T) {
	r := New(Config{Until: time.Second, Streamed: true})
	rec := done(0, 100*msec, 100*msec, 100*msec)
	rec.OutputTokens = 12
	unknown := done(0, 100*msec, 100*msec)
	unknown.UsageKnown, unknown.OutputTokens, unknown.InputTokens, unknown.CachedTokens = false, 0, 0, 0
	add(r, rec, unknown)
	run := r.Finish()
	if run.Latency["itl"].Count != 3 || run.Tokens.PerEvent != 4 || !near(run.Rates.OutputTokens, 14, 1e-9) || run.Requests.NoUsage != 1 {
		t.Errorf("%+v, %+v, %+v", run.Latency["itl"], run.Tokens, run.Rates)
	}
	if d := run.Latency["tpot"]; d.Count != 1 || !near(d.P50, 200.0/11, 0.001) {
		t.Errorf("TPOT %+v", d)
	}
}

// The messages protocol tells usage at a stream's begin, the chat protocol at its
// end: one that breaks off has as many tokens in both.
func TestTokensOfFailedStreams(t *testing.T) {
	for _, known := range []bool{true, false} {
		r := New(Config{Until: time.Second, Streamed: true})
		rec := done(0, 100*msec, 100*msec, 100*msec)
		rec.Kind, rec.UsageKnown, rec.OutputTokens = KindBroken, known, 0
		if known {
			rec.OutputTokens = 1
		}
		add(r, rec)
		if run := r.Finish(); !near(run.Rates.OutputTokens, 3, 1e-9) {
			t.Errorf("usage known %v: %v output tokens/s, want 3", known, run.Rates.OutputTokens)
		}
	}
}

func TestRepliesThatAreNotStreamed(t *testing.T) {
	r := New(Config{Until: 2 * time.Second})
	add(r, &Record{Turn: 1, Sent: 0, First: -1, Last: -1, End: 300 * msec, RetryAfter: -1, Queue: 40 * msec, UsageKnown: true,
		InputTokens: 10, OutputTokens: 8})
	run := r.Finish()
	if len(run.Latency) != 2 || run.Latency["queue"].Count != 1 || !near(run.Latency["e2e"].P50, 300, 0.001) ||
		run.Rates.OutputTokens != 4 || run.Requests.Silent != 0 {
		t.Errorf("%+v, %+v, %+v", run.Latency, run.Rates, run.Requests)
	}
}

func TestTurns(t *testing.T) {
	r := New(Config{Until: 10 * time.Second, Streamed: true})
	for range 3 {
		first, second := done(0, 400*msec, msec), done(time.Second, 1100*msec, msec)
		first.CachedTokens, second.Turn, second.CachedTokens = 0, 2, 90
		add(r, first, second)
	}
	turns := r.Finish().Turns
	if len(turns) != 2 || turns[0].TTFT.Count != 3 || !near(turns[0].TTFT.P50, 400, 0.001) || !near(turns[1].TTFT.P50, 100, 0.001) ||
		turns[1].CachedShare != 0.9 || turns[0].CachedShare != 0 {
		t.Errorf("%+v", turns)
	}
}

// TestWhatIsNotToldIsNotZero: means are of the replies that have usage, and shares of those that say what was cached.
func TestWhatIsNotToldIsNotZero(t *testing.T) {
	plain, silent := done(0, 100*msec, msec), done(0, 100*msec, msec)
	plain.CachedTokens, plain.CachedKnown = 0, false
	silent.InputTokens, silent.CachedTokens, silent.OutputTokens, silent.UsageKnown, silent.CachedKnown = 0, 0, 0, false, false
	second := func(rec *Record) *Record {
		again := *rec
		again.Turn = 2
		return &again
	}
	plain.OutputMax, silent.OutputMax = 3, 3
	for name, c := range map[string]struct {
		records         []*Record
		cached          float64
		input, output   float64
		tells, toldRate bool
	}{
		"nobody says what was cached": {[]*Record{plain, silent}, -1, 100, 2, true, true},
		"one of three says it":        {[]*Record{plain, silent, done(0, 100*msec, msec)}, 0.25, 100, 2, true, true},
		"no usage, events":            {[]*Record{silent}, -1, 0, 0, false, true},
		"nothing":                     {nil, -1, 0, 0, true, true},
	} {
		r := New(Config{Until: time.Second, Streamed: true})
		for _, rec := range c.records {
			add(r, rec, second(rec))
		}
		run := r.Finish()
		if tok := run.Tokens; tok.CachedShare != c.cached || tok.InputMean != c.input || tok.OutputMean != c.output {
			t.Errorf("%s: %+v", name, tok)
		}
		if got, want := run.Tokens.Shorter, 2*int64(c.input)/100; len(c.records) > 0 && got != want { // of two turns
			t.Errorf("%s: %d answers are shorter than asked, want %d", name, got, want)
		}
		if run.InputTold() != c.tells || run.OutputTold() != c.toldRate {
			t.Errorf("%s: input told %v, output told %v", name, run.InputTold(), run.OutputTold())
		}
		for _, turn := range run.Turns {
			if turn.CachedShare != c.cached || turn.InputMean != c.input {
				t.Errorf("%s: %+v", name, turn)
			}
		}
	}
	r := New(Config{Until: time.Second})
	silent.First, silent.Outputs, silent.Gaps = -1, 0, nil
	add(r, silent)
	if run := r.Finish(); run.InputTold() || run.OutputTold() {
		t.Error("whole replies without usage tell tokens")
	}
}

func TestInFlightAndProgress(t *testing.T) {
	r := New(Config{Streamed: true})
	for i := range 3 {
		r.Begin(time.Duration(i) * time.Second)
	}
	if l := r.Progress(); l.InFlight != 3 || l.TTFTms >= 0 {
		t.Errorf("%+v", l)
	}
	r.Add(done(0, 1500*msec))
	r.Abort(2500 * msec)
	if l := r.Progress(); l.InFlight != 1 || l.Ended != 1 || !near(l.TTFTms, 1500, 0.02) {
		t.Errorf("%+v", l)
	}
	if l := r.Progress(); l.TTFTms >= 0 {
		t.Errorf("an old latency in %+v", l)
	}
	run := r.Finish()
	var inFlight []int64
	for _, m := range run.Timeline.Points {
		inFlight = append(inFlight, m.InFlight)
	}
	if !slices.Equal(inFlight, []int64{1, 1, 1}) || run.Requests.Aborted != 1 {
		t.Errorf("in flight %v, %+v", inFlight, run.Requests)
	}
}

// However long a run is, its file stays small and nothing is lost.
func TestLongRunsAreFolded(t *testing.T) {
	r := New(Config{Streamed: true, Seed: 1})
	const n = 20_000
	for i := range n {
		at := time.Duration(i) * time.Second
		add(r, done(at, at+100*msec, 50*msec))
	}
	run := r.Finish()
	sent, output, ttft := int64(0), 0.0, int64(0)
	for _, m := range run.Timeline.Points {
		sent += m.Sent
	}
	for _, b := range run.Blocks {
		output += b.OutputTokens
		ttft += b.Histograms.Of("ttft").Count()
	}
	if len(run.Timeline.Points) > momentsMax || len(run.Blocks) > blocksMax || len(run.Sample) != sampleMax || sent != n ||
		output != 2*n || ttft != n {
		t.Errorf("%d moments, %d blocks, %d points; %d sent, %v tokens, %d latencies", len(run.Timeline.Points), len(run.Blocks), len(run.Sample), sent, output, ttft)
	}
	// The sample is of the whole run: its mean is near the middle.
	mean := 0.0
	for _, p := range run.Sample {
		mean += p.AtS / sampleMax
	}
	if !near(mean, n/2, 0.05) {
		t.Errorf("the sample's mean is at %v s of %d", mean, n)
	}
	b, err := json.Marshal(run)
	var back Run
	if err == nil {
		err = json.Unmarshal(b, &back)
	}
	if err != nil || len(back.Blocks) != len(run.Blocks) || back.Sample[5] != run.Sample[5] ||
		back.Blocks[0].Histograms.Of("itl").Count() != run.Blocks[0].Histograms.Of("itl").Count() {
		t.Errorf("read back: %v", err)
	}
}

// The summary is HDR's: three digits, checked against the values themselves, also where one more of them is another rank.
func TestDistributionAgainstBruteForce(t *testing.T) {
	for _, n := range []int{1, 12, 60, 600, 10_000} {
		r := New(Config{Until: time.Hour})
		values := latencies(n)
		for i, v := range values {
			at := time.Duration(i) * msec
			add(r, &Record{Turn: 1 + i%2, Intended: at, Sent: at + v, First: -1, End: at + v, RetryAfter: -1, Queue: -1})
		}
		run := r.Finish()
		lists := map[string]Distribution{"latency": run.Latency["e2e"], "lateness": run.Harness.Lateness}
		of := map[string][]time.Duration{"latency": values, "lateness": values}
		for i, turn := range run.Turns {
			name := fmt.Sprint("turn ", i+1)
			lists[name] = turn.E2E
			for ; i < n; i += 2 {
				of[name] = append(of[name], values[i])
			}
		}
		for name, d := range lists {
			for share, got := range map[float64]float64{0.5: d.P50, 0.9: d.P90, 0.95: d.P95, 0.99: d.P99, 0.999: d.P999, 1: d.Max} {
				if want := nearestRank(of[name], share); !near(got, want, 0.002) {
					t.Errorf("%s of %d, %v: %v, want %v", name, n, share, got, want)
				}
			}
			if d.Count != int64(len(of[name])) {
				t.Errorf("%s of %d: %d values", name, n, d.Count)
			}
		}
	}
}
