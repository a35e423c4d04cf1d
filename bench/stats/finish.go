package stats

import (
	"cmp"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Cut ends the window before its end, if it has one: at the last reply, or at a later moment.
// Nothing was due from there on, since the run was stopped or had sent all.
func (r *Recorder) Cut(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at = max(at, r.lastEnd)
	if r.c.Until > 0 {
		at = min(at, r.c.Until)
	}
	r.c.Until = at
}

// Finish returns the run's numbers; the recorder is not used any more.
func (r *Recorder) Finish() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run
	until := r.c.Until
	if until == 0 {
		until = r.lastEnd
	}
	until = max(until, r.c.From)
	run.FromS, run.WindowS = r.c.From.Seconds(), (until - r.c.From).Seconds()
	run.Latency = map[string]Distribution{}
	for kind, h := range r.hist {
		if h.TotalCount() > 0 {
			run.Latency[Latencies[kind]] = distribution(h)
		}
	}
	run.Harness.Lateness = distribution(r.late)
	run.Timeline = r.timeline()
	run.Blocks = r.blocksUntil(until)
	run.Rates = rates(run.Blocks, run.WindowS)
	r.finishTokens(&run.Tokens, run.Requests.Succeeded-run.Requests.NoUsage)
	run.Turns = r.finishTurns()
	for _, f := range r.errors {
		run.Errors = append(run.Errors, *f)
	}
	slices.SortFunc(run.Errors, func(a, b Failure) int { return int(b.Count - a.Count) })
	slices.SortFunc(run.Sample, func(a, b Point) int { return cmp.Compare(a.AtS, b.AtS) })
	return run
}

// finishTokens completes the tokens of so many requests that have usage.
func (r *Recorder) finishTokens(t *Tokens, known int64) {
	t.CachedShare = cachedShare(t.Cached, r.cachedOf)
	t.InputMean, t.OutputMean = share(t.Input, known), share(t.Output, known)
	if r.c.Streamed {
		t.PerEvent = share(t.Output, r.outputs)
	}
}

func share(part, whole int64) float64 {
	if whole == 0 {
		return 0
	}
	return float64(part) / float64(whole)
}

// cachedShare is of input tokens of which it is known; negative without any.
func cachedShare(cached, of int64) float64 {
	if of == 0 {
		return -1
	}
	return share(cached, of)
}

func (r *Recorder) finishTurns() (turns []Turn) {
	if len(r.turns) < 2 {
		return nil
	}
	for i, s := range r.turns {
		turns = append(turns, Turn{Turn: i + 1, TTFT: distribution(s.ttft), E2E: distribution(s.e2e),
			InputMean: share(s.input, s.known), CachedShare: cachedShare(s.cached, s.cachedOf)})
	}
	return turns
}

func distribution(h *hdrhistogram.Histogram) Distribution {
	if h.TotalCount() == 0 {
		return Distribution{}
	}
	n := h.TotalCount()
	at := func(share float64) float64 { // the histogram's own rank is another: here it is told that of all others
		return float64(h.ValueAtPercentile(100*float64(rankOf(share, n))/float64(n))) / 1000
	}
	return Distribution{Count: n, Min: float64(h.Min()) / 1000, Mean: round(h.Mean() / 1000), Max: float64(h.Max()) / 1000,
		P50: at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999)}
}

func (r *Recorder) timeline() Timeline {
	t := Timeline{BucketS: r.moments.width.Seconds()}
	inFlight := int64(0)
	for _, m := range r.moments.list {
		inFlight += m.Sent - m.ended
		m.InFlight, m.OutputTokens, m.InputTokens = inFlight, round(m.OutputTokens), round(m.InputTokens)
		m.TTFT, m.ITL, m.E2E = m.ttft.Percentiles(0.5, 0.9, 0.99), m.itl.Percentiles(0.5, 0.9, 0.99), m.e2e.Percentiles(0.5, 0.9, 0.99)
		t.Points = append(t.Points, m.Moment)
	}
	return t
}

// blocksUntil covers the whole window: a stall at its end is blocks with nothing in them.
func (r *Recorder) blocksUntil(until time.Duration) (blocks []Block) {
	if until > r.c.From {
		r.blocks.at(until - r.c.From - 1)
	}
	for i := range r.blocks.list {
		b := r.blocks.list[i]
		b.Seconds = max(0, min(r.blocks.width, until-r.c.From-time.Duration(i)*r.blocks.width).Seconds())
		b.OutputTokens, b.InputTokens = round(b.OutputTokens), round(b.InputTokens)
		blocks = append(blocks, b)
	}
	return blocks
}

func rates(blocks []Block, seconds float64) (r Rates) {
	if seconds <= 0 {
		return Rates{}
	}
	for _, b := range blocks {
		r.Requests += float64(b.Succeeded) / seconds
		r.Goodput += float64(b.Good) / seconds
		r.Failed += float64(b.Failed) / seconds
		r.OutputTokens += b.OutputTokens / seconds
		r.InputTokens += b.InputTokens / seconds
	}
	return r
}
