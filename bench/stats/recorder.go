package stats

import (
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	latencyMax    = int64(time.Hour / time.Microsecond)
	latencyDigits = 3
	sampleMax     = 3000
	momentsMax    = 900
	blocksMax     = 40
	turnsMax      = 64 // of a conversation that are told apart
	detailMax     = 200
)

// Config says what a recorder counts.
type Config struct {
	From  time.Duration // the window's begin
	Until time.Duration // its end; 0: the end of the last reply
	// Streamed replies have times of outputs; of others there is only the end.
	Streamed   bool
	Objectives []Objective
	Seed       uint64 // of the sample
}

// Recorder takes records as requests end. It is safe for concurrent use, and its
// memory does not grow with their number.
type Recorder struct {
	mu       sync.Mutex
	c        Config
	run      Run
	hist     [kinds]*hdrhistogram.Histogram
	late     *hdrhistogram.Histogram
	turns    []turnSum
	errors   map[string]*Failure
	moments  line[moment]
	blocks   line[Block]
	random   *rand.Rand
	sampled  int64
	lastEnd  time.Duration
	outputs  int64 // events of requests whose usage is known
	cachedOf int64 // input tokens of requests that say what of them was cached
	live     Live
	recent   Histogram // TTFT since the last progress
}

// The latencies, by number.
const (
	ttft = iota
	itl
	tpot
	e2e
	queue
	kinds
)

// Latencies are the names of the distributions, in the order they are shown.
var Latencies = [kinds]string{"ttft", "itl", "tpot", "e2e", "queue"}

type turnSum struct {
	ttft, e2e                      *hdrhistogram.Histogram
	known, input, cached, cachedOf int64 // known is how many have usage
}

// moment is a Moment under way; its percentiles are made in the end.
type moment struct {
	Moment
	ended          int64
	ttft, itl, e2e Histogram
}

func (m *moment) merge(o *moment) {
	m.Sent += o.Sent
	m.ended += o.ended
	m.Succeeded += o.Succeeded
	m.Failed += o.Failed
	m.NotSent += o.NotSent
	m.OutputTokens += o.OutputTokens
	m.InputTokens += o.InputTokens
	m.ttft.Merge(o.ttft, 1)
	m.itl.Merge(o.itl, 1)
	m.e2e.Merge(o.e2e, 1)
}

// Merge adds another block's counts and its time.
func (b *Block) Merge(o *Block) {
	b.Seconds += o.Seconds
	b.Succeeded += o.Succeeded
	b.Good += o.Good
	b.Failed += o.Failed
	b.OutputTokens += o.OutputTokens
	b.InputTokens += o.InputTokens
	for i := range b.Histograms {
		b.Histograms[i].Merge(o.Histograms[i], 1)
	}
}

// Live is what a progress line shows.
type Live struct {
	InFlight, Ended, Failed, NotSent int64
	TTFTms                           float64 // p50 since the last progress, negative for none
}

// New returns an empty recorder.
func New(c Config) *Recorder {
	r := &Recorder{c: c, late: newHistogram(), errors: map[string]*Failure{}, random: rand.New(rand.NewPCG(c.Seed, 0x5a3b1e))}
	for i := range r.hist {
		r.hist[i] = newHistogram()
	}
	r.moments = line[moment]{width: time.Second, bucketsMax: momentsMax, merge: (*moment).merge}
	// Short runs have blocks too: they begin small and grow with the run.
	r.blocks = line[Block]{width: 100 * time.Millisecond, bucketsMax: blocksMax, merge: (*Block).Merge}
	return r
}

func newHistogram() *hdrhistogram.Histogram { return hdrhistogram.New(1, latencyMax, latencyDigits) }

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Only a value out of range fails, and min and max keep it in.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), latencyMax))
}

// Begin counts a request that is sent.
func (r *Recorder) Begin(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments.at(at).Sent++
	r.live.InFlight++
}

// NotSent counts a request that was due but could not be sent.
func (r *Recorder) NotSent(due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments.at(due).NotSent++
	r.live.NotSent++
	if r.in(due) {
		r.run.Requests.NotSent++
	}
}

// Abort takes back a request that the harness cut off itself.
func (r *Recorder) Abort(at time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.moments.at(at).ended++
	r.live.InFlight--
	r.run.Requests.Aborted++
}

// Progress returns what is now, and begins a new span of recent latencies.
func (r *Recorder) Progress() Live {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := r.live
	l.TTFTms = -1
	if p := r.recent.Percentiles(0.5); p != nil {
		l.TTFTms = p[0]
	}
	clear(r.recent)
	return l
}

func (r *Recorder) in(t time.Duration) bool {
	return t >= r.c.From && (r.c.Until == 0 || t < r.c.Until)
}

// Add takes the record of a request that ended.
func (r *Recorder) Add(rec *Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.live.InFlight--
	r.live.Ended++
	r.lastEnd = max(r.lastEnd, rec.End)
	good := rec.Kind == "" && met(r.c.Objectives, rec)
	r.addEnd(rec, good)
	r.addTokens(rec)
	if rec.Kind == "" { // as in addLatencies: what failed at once is not fast
		r.addLatenciesOverTime(rec)
	}
	r.sample(rec)
	if !r.in(rec.Intended) {
		r.run.Requests.Outside++
		return
	}
	r.run.Requests.Due++
	record(r.late, rec.Sent-rec.Intended)
	if rec.Kind != "" {
		r.run.Requests.Failed++
		r.addFailure(rec)
		return
	}
	r.run.Requests.Succeeded++
	if good {
		r.run.Requests.Good++
	}
	r.addLatencies(rec)
	r.addUsage(rec)
}

// addEnd counts where the request ended.
func (r *Recorder) addEnd(rec *Record, good bool) {
	m, b := r.moments.at(rec.End), &Block{}
	if r.in(rec.End) {
		b = r.blocks.at(rec.End - r.c.From)
	}
	m.ended++
	if rec.Kind != "" {
		m.Failed++
		b.Failed++
		r.live.Failed++
		return
	}
	m.Succeeded++
	b.Succeeded++
	if good {
		b.Good++
	}
}

// addTokens spreads a request's tokens over the moments of its outputs: the
// totals are usage's, and each output has an equal part. The prompt counts at
// the first output, when all of it has been computed or found. Of a stream that
// failed usage tells what stood at its begin, if anything: there each output is a token. The gaps are latencies,
// which only requests that succeeded have.
func (r *Recorder) addTokens(rec *Record) {
	tokens := float64(rec.OutputTokens)
	if !rec.UsageKnown || rec.Kind != "" {
		tokens = max(tokens, float64(rec.Outputs))
	}
	if rec.First < 0 || rec.Outputs == 0 {
		if rec.Kind == "" {
			r.addAt(rec.End, tokens, float64(rec.InputTokens))
		}
		return
	}
	part := tokens / float64(rec.Outputs)
	r.addAt(rec.First, part, float64(rec.InputTokens))
	at := rec.First
	for begin, gaps := 0, rec.Gaps; begin < len(gaps); {
		// Outputs that came at one moment are added together: most servers that
		// are fast enough to matter write several at once.
		end := begin + 1
		for end < len(gaps) && gaps[end] == 0 {
			end++
		}
		at += gaps[begin]
		if rec.Kind == "" {
			m := r.moments.at(at)
			for _, gap := range gaps[begin:end] {
				m.itl.Add(gap)
			}
		}
		r.addAt(at, part*float64(end-begin), 0)
		begin = end
	}
}

func (r *Recorder) addAt(at time.Duration, output, input float64) {
	m := r.moments.at(at)
	m.OutputTokens += output
	m.InputTokens += input
	if r.in(at) {
		b := r.blocks.at(at - r.c.From)
		b.OutputTokens += output
		b.InputTokens += input
	}
}

func (r *Recorder) addFailure(rec *Record) {
	f := r.errors[rec.Kind]
	if f == nil {
		f = &Failure{Kind: rec.Kind, Example: rec.Detail[:min(len(rec.Detail), detailMax)]}
		r.errors[rec.Kind] = f
	}
	f.Count++
	if s := rec.RetryAfter.Seconds(); rec.RetryAfter >= 0 {
		if f.RetryAfter == 0 || s < f.RetryAfterMinS {
			f.RetryAfterMinS = s
		}
		f.RetryAfterMaxS = max(f.RetryAfterMaxS, s)
		f.RetryAfter++
	}
}

func (r *Recorder) addLatenciesOverTime(rec *Record) {
	m := r.moments.at(rec.Intended)
	m.e2e.Add(rec.E2E())
	if first, ok := rec.TTFT(); ok && r.c.Streamed {
		m.ttft.Add(first)
		r.recent.Add(first)
	}
}

func (r *Recorder) addLatency(b *Block, kind int, d time.Duration) {
	record(r.hist[kind], d)
	b.Histograms[kind].Add(d)
}

func (r *Recorder) addLatencies(rec *Record) {
	b := r.blocks.at(rec.Intended - r.c.From)
	r.addLatency(b, e2e, rec.E2E())
	if rec.Queue >= 0 {
		r.addLatency(b, queue, rec.Queue)
	}
	if !r.c.Streamed {
		return
	}
	first, ok := rec.TTFT()
	if !ok {
		r.run.Requests.Silent++
		return
	}
	r.addLatency(b, ttft, first)
	if perToken, ok := rec.TPOT(); ok {
		r.addLatency(b, tpot, perToken)
	}
	for _, gap := range rec.Gaps {
		r.addLatency(b, itl, gap)
	}
}

func (r *Recorder) addUsage(rec *Record) {
	t := &r.run.Tokens
	if rec.UsageKnown {
		r.outputs += int64(rec.Outputs)
		if rec.OutputTokens < rec.OutputMax {
			t.Shorter++
		}
	} else {
		r.run.Requests.NoUsage++
	}
	cachedOf := int64(0)
	if rec.CachedKnown {
		cachedOf = int64(rec.InputTokens)
	}
	r.cachedOf += cachedOf
	t.Input += int64(rec.InputTokens)
	t.Cached += int64(rec.CachedTokens)
	t.Output += int64(rec.OutputTokens)
	turn := rec.Turn - 1
	if turn < 0 || turn >= turnsMax {
		return
	}
	for len(r.turns) <= turn {
		r.turns = append(r.turns, turnSum{ttft: newHistogram(), e2e: newHistogram()})
	}
	s := &r.turns[turn]
	if rec.UsageKnown {
		s.known++
	}
	s.input += int64(rec.InputTokens)
	s.cached += int64(rec.CachedTokens)
	s.cachedOf += cachedOf
	record(s.e2e, rec.E2E())
	if first, ok := rec.TTFT(); ok && r.c.Streamed {
		record(s.ttft, first)
	}
}

// sample keeps each request with the same probability, whatever their number.
func (r *Recorder) sample(rec *Record) {
	p := Point{AtS: rec.Intended.Seconds(), TTFTms: -1, E2Ems: ms(rec.E2E()), Failed: rec.Kind != ""}
	if first, ok := rec.TTFT(); ok && r.c.Streamed {
		p.TTFTms = ms(first)
	}
	r.sampled++
	if len(r.run.Sample) < sampleMax {
		r.run.Sample = append(r.run.Sample, p)
	} else if i := r.random.Int64N(r.sampled); i < sampleMax {
		r.run.Sample[i] = p
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// round keeps a microsecond of milliseconds and a millisecond of seconds.
func round(x float64) float64 { return math.Round(x*1000) / 1000 }
