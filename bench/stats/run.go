package stats

import "encoding/json"

// Distribution is one latency of a run, in milliseconds, from an HDR histogram
// of microseconds with three digits.
type Distribution struct {
	Count int64   `json:"count"`
	Min   float64 `json:"min"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	P999  float64 `json:"p999"`
	Max   float64 `json:"max"`
}

// Run is everything measured in one run: what stands in `runs` of the file.
type Run struct {
	Seed     uint64  `json:"seed"`
	Started  string  `json:"started"`  // RFC 3339
	WindowS  float64 `json:"window_s"` // that the rates are over
	FromS    float64 `json:"from_s"`   // where the window begins, after the run's begin
	Stopped  bool    `json:"stopped,omitempty"`
	Requests Counts  `json:"requests"`
	Rates    Rates   `json:"rates"`
	Tokens   Tokens  `json:"tokens"`
	// Latency has ttft, itl, tpot, e2e and queue of the requests that succeeded, as far as there are any.
	Latency  map[string]Distribution `json:"latency_ms"`
	Turns    []Turn                  `json:"turns,omitempty"` // of conversations with several
	Errors   []Failure               `json:"errors,omitempty"`
	Harness  Harness                 `json:"harness"`
	Timeline Timeline                `json:"timeline"`
	Blocks   []Block                 `json:"blocks"`
	Sample   []Point                 `json:"sample"`
}

// Counts are numbers of requests.
type Counts struct {
	Due       int64 `json:"due"`       // in the window, those not sent left out
	Succeeded int64 `json:"succeeded"` // of them
	Failed    int64 `json:"failed"`    // of them
	Good      int64 `json:"good"`      // succeeded and met every objective
	// NotSent were due in the window but not sent, since too many were in flight.
	NotSent int64 `json:"not_sent"`
	Outside int64 `json:"outside"` // due before or after the window
	Aborted int64 `json:"aborted"` // cut off by the harness when it was told to stop; in no other number
	NoUsage int64 `json:"no_usage"`
	// Silent succeeded without any output.
	Silent int64 `json:"without_output"`
}

// InputTold says whether tokens of prompts are known: some reply has usage, unless there was none.
func (r *Run) InputTold() bool {
	return r.Requests.Succeeded == 0 || r.Requests.NoUsage < r.Requests.Succeeded
}

// OutputTold says whether tokens of answers are known: by usage, or by events.
func (r *Run) OutputTold() bool { return r.InputTold() || r.Latency["ttft"].Count > 0 }

// Rates are over the window. Those of tokens are 0, too, where nothing tells tokens.
type Rates struct {
	Requests     float64 `json:"requests_per_s"` // that succeeded
	Goodput      float64 `json:"goodput_per_s"`
	Failed       float64 `json:"failed_per_s"`
	OutputTokens float64 `json:"output_tokens_per_s"`
	InputTokens  float64 `json:"input_tokens_per_s"`
}

// Tokens are sums over the requests due in the window that succeeded, as usage says, and means over those that have usage.
type Tokens struct {
	Input       int64   `json:"input"`
	Cached      int64   `json:"cached"`
	Output      int64   `json:"output"`
	CachedShare float64 `json:"cached_share"` // of the input of replies that say what was cached; negative if none does
	InputMean   float64 `json:"input_per_request"`
	Shorter     int64   `json:"shorter"` // answers of fewer tokens than were asked for at most
	OutputMean  float64 `json:"output_per_request"`
	PerEvent    float64 `json:"output_per_event"` // 0 when nothing was streamed
}

// Turn is one place in the conversations.
type Turn struct {
	Turn        int          `json:"turn"`
	TTFT        Distribution `json:"ttft_ms"`
	E2E         Distribution `json:"e2e_ms"`
	InputMean   float64      `json:"input_per_request"`
	CachedShare float64      `json:"cached_share"` // as of Tokens
}

// Failure is one kind of failure among the requests due in the window.
type Failure struct {
	Kind    string `json:"kind"`
	Count   int64  `json:"count"`
	Example string `json:"example"`
	// RetryAfter says how many had one, and from where to where it went.
	RetryAfter     int64   `json:"retry_after"`
	RetryAfterMinS float64 `json:"retry_after_min_s,omitempty"`
	RetryAfterMaxS float64 `json:"retry_after_max_s,omitempty"`
}

// Harness is what the load generator says about itself.
type Harness struct {
	CPUSeconds float64 `json:"cpu_s"`
	// CPUShare is of the whole machine over the run, BusyShare that of all programs; negative if not known.
	CPUShare  float64 `json:"cpu_share"`
	BusyShare float64 `json:"busy_share"`
	// Lateness is how much later than due requests were begun.
	Lateness    Distribution `json:"lateness_ms"`
	Connections int64        `json:"connections"`
	Retried     int64        `json:"retried"` // on a new connection, a kept one having been closed
}

// Timeline is the whole run, warm-up included, in equal buckets of a second; their width is doubled
// when there would be more than momentsMax.
type Timeline struct {
	BucketS float64  `json:"bucket_s"`
	Points  []Moment `json:"points"`
}

// Moment is one bucket. TTFT and E2E belong to where their requests were due, ITL to where the gap ended; all are of
// requests that succeeded.
type Moment struct {
	Sent         int64   `json:"sent"`
	Succeeded    int64   `json:"succeeded"` // ended here
	Failed       int64   `json:"failed"`
	NotSent      int64   `json:"not_sent"`
	InFlight     int64   `json:"in_flight"` // at the bucket's end
	OutputTokens float64 `json:"output_tokens"`
	InputTokens  float64 `json:"input_tokens"`
	// TTFT and E2E are p50, p90 and p99 in milliseconds; empty for none.
	TTFT []float64 `json:"ttft_ms,omitempty"`
	ITL  []float64 `json:"itl_ms,omitempty"`
	E2E  []float64 `json:"e2e_ms,omitempty"`
}

// Block is a piece of the window, one of at most blocksMax. Blocks are what noise is estimated from.
type Block struct {
	Seconds      float64    `json:"seconds"`
	Succeeded    int64      `json:"succeeded"`
	Good         int64      `json:"good"`
	Failed       int64      `json:"failed"`
	OutputTokens float64    `json:"output_tokens"`
	InputTokens  float64    `json:"input_tokens"`
	Histograms   Histograms `json:"histograms"` // by latency: count by bucket, of which bucketMid is the middle
}

// Point is one request of a random sample of at most sampleMax.
type Point struct {
	AtS    float64
	TTFTms float64 // negative for none
	E2Ems  float64
	Failed bool
}

// MarshalJSON writes [at_s, ttft_ms, e2e_ms, failed].
func (p Point) MarshalJSON() ([]byte, error) {
	failed := 0.0
	if p.Failed {
		failed = 1
	}
	return json.Marshal([4]float64{round(p.AtS), round(p.TTFTms), round(p.E2Ems), failed})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Point) UnmarshalJSON(b []byte) error {
	var v [4]float64
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*p = Point{v[0], v[1], v[2], v[3] != 0}
	return nil
}
