package console

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"corenode/node/admin"
	"corenode/node/metrics"
)

// The history keeps an hour by seconds and a day by minutes of a few dozen numbers: 40 of them
// are 0.8 MB. They are read from what the node shows at /metrics, so charts and alerts agree.
const (
	secondsKept = 3600
	minutesKept = 24 * 60
	rateOver    = 10 // seconds that a rate of the charts is taken over
	tailOver    = 60 // seconds that a quantile is taken over
)

// scrape is one reading of the series: counters and gauges by family, and by family and the
// value of a label (family/value), summed over all others; histograms by family.
type scrape struct {
	at      time.Time
	value   map[string]float64
	models  map[string]map[string]float64 // modelFamilies by model
	buckets map[string][]bucket
}

// bucket counts what was at most le.
type bucket struct{ le, count float64 }

// labels are those by which families are kept apart, as they begin in a series.
var labels = map[string]string{
	"corenode_tokens_total": `kind="`, "corenode_refusals_total": `kind="`, "corenode_requests_total": `kind="`,
}

// histograms are the families of which quantiles are shown.
var histograms = []string{"corenode_ttft_seconds", "corenode_itl_seconds", "corenode_queue_seconds"}

// read reads the text format of Prometheus. Most series are of families that nothing is kept of.
func read(text []byte, at time.Time) *scrape {
	s := &scrape{at, map[string]float64{}, map[string]map[string]float64{}, map[string][]bucket{}}
	for series, value := range metrics.Samples(text) {
		name, labelText, _ := bytes.Cut(series, []byte("{"))
		f := families[string(name)]
		if f == nil || f.noProbes && slices.Contains(metrics.Probes, string(label(labelText, `route="`))) { // are none of the charts
			continue
		}
		if f.sum != "" {
			s.value[f.sum] += value
		}
		if f.by != "" {
			if sum, is := f.apart[string(label(labelText, f.by))]; is {
				s.value[sum] += value
			}
		}
		if f.model != "" {
			model := label(labelText, `model="`)
			if s.models[string(model)] == nil {
				s.models[string(model)] = map[string]float64{}
			}
			s.models[string(model)][f.model] += value
		}
		if f.buckets != "" {
			if le, err := strconv.ParseFloat(string(label(labelText, `le="`)), 64); err == nil {
				s.buckets[f.buckets] = addTo(s.buckets[f.buckets], bucket{le, value})
			}
		}
	}
	return s
}

// addTo adds a bucket to those of a histogram, which are in order.
func addTo(all []bucket, b bucket) []bucket {
	i, found := slices.BinarySearchFunc(all, b.le, byBound)
	if !found {
		return slices.Insert(all, i, b)
	}
	all[i].count += b.count
	return all
}

func byBound(b bucket, le float64) int { return cmp.Compare(b.le, le) }

// label is the value of the label that begins so, unescaped as far as the node's own series need it.
func label(text []byte, begin string) []byte {
	_, value, _ := bytes.Cut(text, []byte(begin))
	value, _, _ = bytes.Cut(value, []byte(`"`))
	return value
}

// quantile is that of what a histogram took up between two readings, in seconds: linear within
// a bucket, as Prometheus computes it. NaN when it took up nothing.
func quantile(q float64, before, now []bucket) float64 {
	if len(now) == 0 {
		return math.NaN()
	}
	grown := func(i int) float64 {
		count := now[i].count
		if j, found := slices.BinarySearchFunc(before, now[i].le, byBound); found {
			count -= before[j].count
		}
		return count
	}
	all := grown(len(now) - 1)
	if all <= 0 {
		return math.NaN()
	}
	want, below, from := q*all, 0.0, 0.0
	for i, b := range now {
		count := grown(i)
		if count >= want {
			if math.IsInf(b.le, 1) || count == below {
				return from
			}
			return from + (b.le-from)*(want-below)/(count-below)
		}
		below, from = count, b.le
	}
	return from
}

// line is one number of the charts, made of the readings of now and some seconds ago.
type line struct {
	name, unit string
	family     string // of a counter or gauge
	of         func(now, rateFrom, tailFrom *scrape) float64
}

// of is the value of a family; NaN where the reading has none.
func (s *scrape) of(family string) float64 {
	if v, is := s.value[family]; is {
		return v
	}
	return math.NaN()
}

func gauge(name, unit, family string) line {
	return line{name, unit, family, func(now, _, _ *scrape) float64 { return now.of(family) }}
}

// requestsOf adds up gauges of the models: that of a step loop here, or of what servers elsewhere have of this node.
func requestsOf(name, here, elsewhere string) line {
	return line{name, "", "", func(now, _, _ *scrape) float64 {
		sum, known := 0.0, false
		for _, series := range now.models {
			v, is := series[here]
			if !is {
				v, is = series[elsewhere]
			}
			sum, known = sum+v, known || is
		}
		if !known {
			return math.NaN()
		}
		return sum
	}}
}

func rate(name, unit, family string) line {
	return line{name, unit, family, func(now, from, _ *scrape) float64 {
		seconds := now.at.Sub(from.at).Seconds()
		if seconds <= 0 {
			return math.NaN()
		}
		return max(0, now.of(family)-from.of(family)) / seconds
	}}
}

func tail(name string, q float64, family string) line {
	return line{name, "s", "", func(now, _, from *scrape) float64 { return quantile(q, from.buckets[family], now.buckets[family]) }}
}

// lines are what is kept.
var lines = []line{
	rate("requests", "1/s", "corenode_requests_total"),
	rate("refused", "1/s", "corenode_refusals_total"),
	rate("failed", "1/s", "corenode_requests_total/internal"),
	rate("computed_in", "1/s", "corenode_step_prefill_tokens_total"),
	rate("computed_out", "1/s", "corenode_step_decode_tokens_total"),
	rate("tokens_in", "1/s", "corenode_tokens_total/prefill"),
	rate("tokens_cached", "1/s", "corenode_tokens_total/cached"),
	rate("tokens_out", "1/s", "corenode_tokens_total/decode"),
	tail("ttft_p50", 0.5, "corenode_ttft_seconds"),
	tail("ttft_p95", 0.95, "corenode_ttft_seconds"),
	tail("ttft_p99", 0.99, "corenode_ttft_seconds"),
	tail("itl_p50", 0.5, "corenode_itl_seconds"),
	tail("itl_p95", 0.95, "corenode_itl_seconds"),
	tail("itl_p99", 0.99, "corenode_itl_seconds"),
	tail("queue_p95", 0.95, "corenode_queue_seconds"),
	gauge("in_flight", "", "corenode_requests_in_flight"),
	requestsOf("running", "sequences_running", "upstream_in_flight"),
	requestsOf("waiting", "sequences_waiting", "upstream_waiting"),
	gauge("pages_free", "", "corenode_pages_free"),
	gauge("pages_cached", "", "corenode_pages_cached"),
	gauge("ledger_waiting", "", "corenode_ledger_waiting"),
	gauge("ledger_spilled", "", "corenode_ledger_spilled_rows"),
	rate("processor", "cores", "process_cpu_seconds_total"),
	gauge("memory", "B", "process_resident_memory_bytes"),
}

// family is what is kept of the series of one name. Its texts are those of the tables here: a part of what was read would
// keep all of it.
type family struct {
	sum      string            // of all; empty: not kept
	by       string            // how the label begins by which some are kept apart as well
	apart    map[string]string // their sums by that label's values
	noProbes bool
	model    string // among modelFamilies
	buckets  string // the histogram whose buckets they are
}

// families are all of which something is kept.
var families = func() map[string]*family {
	all := map[string]*family{}
	of := func(name string) *family {
		if all[name] == nil {
			all[name] = &family{by: labels[name], apart: map[string]string{}, noProbes: name == "corenode_requests_total"}
		}
		return all[name]
	}
	for _, l := range lines {
		if name, value, apart := strings.Cut(l.family, "/"); apart {
			of(name).apart[value] = l.family
		} else if name != "" {
			of(name).sum = l.family
		}
	}
	for _, short := range modelFamilies {
		of("corenode_" + short).model = short
	}
	for _, name := range histograms {
		of(name + "_bucket").buckets = name
	}
	return all
}()

// history is the lines over time, a ring by seconds and one by minutes.
type history struct {
	mu      sync.Mutex
	recent  []*scrape       // the latest, at most tailOver and one, oldest first; guarded by mu, as is what follows
	seconds ring[[]float32] // by line
	minutes ring[[]float32]
	minute  int64     // the open one, in minutes of Unix time; 0 before the first reading
	sum     []float64 // of the open minute
	summed  []int
}

// ring keeps the latest of something, with their times.
type ring[T any] struct {
	at    []int64 // Unix seconds, oldest first from next on
	items []T
	next  int
	size  int
}

func (r *ring[T]) add(at int64, item T) {
	if len(r.items) < r.size {
		r.at, r.items = append(r.at, at), append(r.items, item)
		return
	}
	r.at[r.next], r.items[r.next] = at, item
	r.next = (r.next + 1) % r.size
}

// each visits what is kept, oldest first.
func (r *ring[T]) each(visit func(at int64, item T)) {
	for i := range r.items {
		j := (r.next + i) % len(r.items)
		visit(r.at[j], r.items[j])
	}
}

// add takes a reading.
func (h *history) add(s *scrape) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seconds.size == 0 {
		h.seconds.size, h.minutes.size = secondsKept, minutesKept
		h.sum, h.summed = make([]float64, len(lines)), make([]int, len(lines))
	}
	if n := len(h.recent); n > 0 {
		h.recent[n-1].models = nil // the newest are shown
	}
	h.recent = append(h.recent, s)
	if len(h.recent) > tailOver+1 {
		h.recent = slices.Delete(h.recent, 0, 1)
	}
	if minute := s.at.Unix() / 60; minute != h.minute {
		if h.minute != 0 {
			h.closeMinute(60*h.minute + 59)
		}
		h.minute = minute
	}
	values := make([]float32, len(lines))
	rateFrom, tailFrom := h.recent[max(0, len(h.recent)-1-rateOver)], h.recent[0]
	for i, l := range lines {
		v := l.of(s, rateFrom, tailFrom)
		values[i] = float32(v)
		if !math.IsNaN(v) {
			h.sum[i] += v
			h.summed[i]++
		}
	}
	h.seconds.add(s.at.Unix(), values)
}

// closeMinute keeps the means of a minute.
func (h *history) closeMinute(at int64) {
	means := make([]float32, len(lines))
	for i := range lines {
		means[i] = float32(h.sum[i] / float64(h.summed[i])) // NaN where there was none
		h.sum[i], h.summed[i] = 0, 0
	}
	h.minutes.add(at, means)
}

// latest are the newest numbers by name; NaN where there is none.
func (h *history) latest() map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := map[string]float64{}
	for i, l := range lines {
		all[l.name] = math.NaN()
		if n := len(h.seconds.items); n > 0 {
			all[l.name] = float64(h.seconds.items[(h.seconds.next+n-1)%n][i])
		}
	}
	return all
}

// newest are modelFamilies by model as they were read last, nil before the first reading.
// Nobody changes them.
func (h *history) newest() map[string]map[string]float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.recent) == 0 {
		return nil
	}
	return h.recent[len(h.recent)-1].models
}

// Run reads the series once a second until stopped is closed.
func (c *Console) Run(stopped <-chan struct{}) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var b bytes.Buffer
	for {
		select {
		case <-stopped:
			return
		case at := <-tick.C:
			b.Reset()
			c.deps.Samples(&b)
			c.history.add(read(b.Bytes(), at))
		}
	}
}

// column is one line as a chart takes it: null where there is no number.
type column struct {
	Name   string     `json:"name"`
	Unit   string     `json:"unit"`
	Values []*float32 `json:"values"`
}

// columns are some lines behind a time: by seconds within an hour, or by minutes within a day.
func (h *history) columns(names []string, span time.Duration, behind int64) (at []int64, all []column) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept, from := &h.seconds, max(time.Now().Add(-span).Unix(), behind+1)
	if span > secondsKept*time.Second {
		kept = &h.minutes
	}
	var places []int
	for i, l := range lines {
		if slices.Contains(names, l.name) {
			places = append(places, i)
			all = append(all, column{Name: l.name, Unit: l.unit})
		}
	}
	kept.each(func(t int64, values []float32) {
		if t < from {
			return
		}
		at = append(at, t)
		for c, i := range places {
			var v *float32
			if !math.IsNaN(float64(values[i])) {
				v = &values[i]
			}
			all[c].Values = append(all[c].Values, v)
		}
	})
	return at, all
}

// series answers the charts: all that is kept, or what came behind a time.
func (c *Console) series(w http.ResponseWriter, r *http.Request, s *session) {
	span, err := time.ParseDuration(r.URL.Query().Get("span"))
	if err != nil || span <= 0 || span > minutesKept*time.Minute {
		c.fail(w, r, s, &admin.Error{Kind: admin.KindInvalid, Message: "span is missing, or over a day"})
		return
	}
	behind, _ := strconv.ParseInt(r.URL.Query().Get("behind"), 10, 64) // 0 is from the first
	var answer struct {
		At    []int64  `json:"at"`
		Lines []column `json:"lines"`
	}
	answer.At, answer.Lines = c.history.columns(strings.Split(r.URL.Query().Get("names"), ","), span, behind)
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // a browser that has left
}
