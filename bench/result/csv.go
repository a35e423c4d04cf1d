package result

import (
	"cmp"
	"encoding/csv"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"corenode/bench/stats"
)

// columns of the table of requests. Times are seconds since the run's begin,
// latencies milliseconds; what a request does not have is empty.
var columns = []string{"run", "conversation", "turn", "key", "intended_s", "sent_s", "first_s", "last_s", "end_s",
	"ttft_ms", "tpot_ms", "e2e_ms", "queue_ms", "itl_max_ms", "outcome", "status", "retry_after_s",
	"input_tokens", "cached_tokens", "output_tokens", "output_events", "output_max"}

// Rows writes a line for every request as it ends, so that a long run needs no
// memory for them. It is safe for concurrent use.
type Rows struct {
	mu  sync.Mutex
	csv *csv.Writer
	run int
}

// NewRows writes the headings.
func NewRows(w io.Writer) *Rows {
	r := &Rows{csv: csv.NewWriter(w)}
	_ = r.csv.Write(columns) // errors are kept for Close
	return r
}

// NextRun gives the lines that follow the next number, from 1.
func (r *Rows) NextRun() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run++
}

// Add writes one request.
func (r *Rows) Add(rec *stats.Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ttft, hasTTFT := rec.TTFT()
	tpot, hasTPOT := rec.TPOT()
	longest := slices.Max(append([]time.Duration{-1}, rec.Gaps...))
	count := strconv.Itoa
	known := func(n int, told bool) string {
		if !told {
			return ""
		}
		return count(n)
	}
	_ = r.csv.Write([]string{count(r.run), count(rec.Conversation), count(rec.Turn), count(rec.Key),
		number(rec.Intended, true, time.Second), number(rec.Sent, true, time.Second), number(rec.First, rec.First >= 0, time.Second),
		number(rec.Last, rec.Last >= 0, time.Second), number(rec.End, true, time.Second),
		number(ttft, hasTTFT, time.Millisecond), number(tpot, hasTPOT, time.Millisecond), number(rec.E2E(), true, time.Millisecond),
		number(rec.Queue, rec.Queue >= 0, time.Millisecond), number(longest, longest >= 0, time.Millisecond),
		cmp.Or(rec.Kind, "ok"), count(rec.Status), number(rec.RetryAfter, rec.RetryAfter >= 0, time.Second),
		known(rec.InputTokens, rec.UsageKnown), known(rec.CachedTokens, rec.CachedKnown), known(rec.OutputTokens, rec.UsageKnown),
		count(rec.Outputs), count(rec.OutputMax)})
}

func number(d time.Duration, known bool, unit time.Duration) string {
	if !known {
		return ""
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(float64(d)/float64(unit), 'f', 6, 64), "0"), ".")
}

// Close writes what is left.
func (r *Rows) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.csv.Flush()
	return r.csv.Error()
}
