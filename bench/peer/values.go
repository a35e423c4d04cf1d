package peer

import (
	"time"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// valuesOf are the numbers of a scenario, from its requests that succeeded. A
// number that nothing says is zero.
func valuesOf(s scenario, records []stats.Record) map[metric]float64 {
	var rate, tpot, ttft, second []float64
	output, first, last := 0, time.Duration(-1), time.Duration(0)
	for i := range records {
		rec := &records[i]
		if rec.Kind != "" {
			continue
		}
		output += rec.OutputTokens
		if first < 0 || rec.Intended < first {
			first = rec.Intended
		}
		last = max(last, rec.End)
		if t, ok := rec.TPOT(); ok {
			tpot = append(tpot, t.Seconds())
		}
		t, ok := rec.TTFT()
		if !ok {
			continue
		}
		ttft = append(ttft, 1e3*t.Seconds())
		rate = append(rate, report.Ratio(float64(rec.InputTokens-rec.CachedTokens), t.Seconds()))
		if rec.Turn == 2 {
			second = append(second, 1e3*t.Seconds())
		}
	}
	return map[metric]float64{
		prefillRate: report.SpreadOf(rate).Median,
		decodeRate:  report.Ratio(float64(s.clients), report.SpreadOf(tpot).Median),
		outputRate:  report.Ratio(float64(output), (last - max(first, 0)).Seconds()),
		ttftMedian:  report.SpreadOf(ttft).Median,
		ttftLast:    report.SpreadOf(ttft).Max,
		ttftTurn2:   report.SpreadOf(second).Median,
	}
}

// failedOf counts the requests that were not answered in full. An answer that its
// model ended early is none: that side had less to do than the other.
func failedOf(s scenario, records []stats.Record) (n int) {
	for i := range records {
		if records[i].Kind != "" || records[i].OutputTokens < s.output {
			n++
		}
	}
	return n
}
