package page

import (
	"math"
	"strings"

	"corenode/bench/plot"
	"corenode/bench/report"
	"corenode/bench/stats"
)

// Colours by what they stand for.
const (
	grey = iota
	blue
	orange
	red
	green
	violet
)

// charts are those of one run.
func charts(r *stats.Run) []plot.Chart {
	t := &r.Timeline
	list := []plot.Chart{
		latency(r, "Time to first token", func(m *stats.Moment) []float64 { return m.TTFT }, func(p stats.Point) float64 { return p.TTFTms }),
		latency(r, "End to end", func(m *stats.Moment) []float64 { return m.E2E }, func(p stats.Point) float64 { return p.E2Ems }),
		latency(r, "Gaps between tokens (ITL)", func(m *stats.Moment) []float64 { return m.ITL }, nil),
		over(r, "Tokens per second", "tokens/s",
			plot.Series{Name: "output", Kind: plot.Area, Color: blue, Y: perSecond(t, func(m *stats.Moment) float64 { return m.OutputTokens })},
			plot.Series{Name: "input", Kind: plot.Line, Color: orange, Y: perSecond(t, func(m *stats.Moment) float64 { return m.InputTokens })}),
		over(r, "Requests per second", "requests/s", requests(t)...),
		over(r, "In flight", "requests",
			plot.Series{Name: "in flight", Kind: plot.Area, Color: violet, Y: each(t, func(m *stats.Moment) float64 { return float64(m.InFlight) })}),
	}
	for _, name := range []string{"ttft", "itl", "e2e"} {
		list = append(list, histogram(r, name))
	}
	return list
}

// each is one value of every moment.
func each(t *stats.Timeline, of func(*stats.Moment) float64) []float64 {
	values := make([]float64, len(t.Points))
	for i := range t.Points {
		values[i] = of(&t.Points[i])
	}
	return values
}

func perSecond(t *stats.Timeline, of func(*stats.Moment) float64) []float64 {
	return each(t, func(m *stats.Moment) float64 { return of(m) / t.BucketS })
}

// requests has lines for what failed or was not sent only when something was.
func requests(t *stats.Timeline) []plot.Series {
	list := []plot.Series{
		{Name: "sent", Kind: plot.Line, Color: grey, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Sent) })},
		{Name: "succeeded", Kind: plot.Line, Color: green, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Succeeded) })},
	}
	for _, s := range []plot.Series{
		{Name: "failed", Kind: plot.Line, Color: red, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Failed) })},
		{Name: "not sent", Kind: plot.Line, Color: orange, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.NotSent) })},
	} {
		for _, y := range s.Y {
			if y > 0 {
				list = append(list, s)
				break
			}
		}
	}
	return list
}

// over is a chart over the run's time; a moment stands at its middle.
func over(r *stats.Run, title, unit string, series ...plot.Series) plot.Chart {
	for i := range series {
		for j := range series[i].Y {
			series[i].X = append(series[i].X, (float64(j)+0.5)*r.Timeline.BucketS)
		}
	}
	return plot.Chart{Title: title, XName: "seconds", YName: unit, Series: series, Window: [2]float64{r.FromS, r.FromS + r.WindowS},
		XMax: float64(len(r.Timeline.Points)) * r.Timeline.BucketS}
}

// latency is percentiles over time, and the sample of requests behind them.
func latency(r *stats.Run, title string, of func(*stats.Moment) []float64, point func(stats.Point) float64) plot.Chart {
	names := []string{"p50", "p90", "p99"}
	var lines []plot.Series
	for i, color := range []int{blue, orange, red} {
		lines = append(lines, plot.Series{Name: names[i], Kind: plot.Line, Color: color, Y: each(&r.Timeline, func(m *stats.Moment) float64 {
			if p := of(m); i < len(p) {
				return p[i]
			}
			return math.NaN()
		})})
	}
	c := over(r, title, "ms", lines...)
	c.LogY = true
	if point == nil {
		return c
	}
	dots := plot.Series{Name: "a request", Kind: plot.Dots, Color: grey}
	for _, p := range r.Sample {
		if y := point(p); y > 0 && !p.Failed {
			dots.X, dots.Y = append(dots.X, p.AtS), append(dots.Y, y)
		}
	}
	c.Series = append([]plot.Series{dots}, c.Series...)
	return c
}

// columnsMax is how many bars a histogram has at most.
const columnsMax = 48

// histogram is the distribution in the window, its bars of equal ratio.
func histogram(r *stats.Run, name string) plot.Chart {
	var all stats.Sparse
	for _, b := range r.Blocks {
		all.Merge(b.Histograms[name])
	}
	bars := plot.Series{Name: "share of the values", Kind: plot.Bars, Color: blue}
	bars.X, bars.X2, bars.Y = columns(all.Bars())
	c := plot.Chart{Title: "Histogram of " + strings.ToUpper(name), XName: "ms", YName: "%", LogX: true, Series: []plot.Series{bars}}
	if d := r.Latency[name]; d.Count > 0 {
		for _, m := range []struct {
			name string
			at   float64
		}{{"p50", d.P50}, {"p90", d.P90}, {"p99", d.P99}} {
			if m.at > 0 {
				c.Marks = append(c.Marks, plot.Mark{X: m.at, Name: m.name + " " + report.Number(m.at)})
			}
		}
	}
	return c
}

// columns sums bars into columns of equal ratio, in percent of all. Values of 0
// count in the first.
func columns(bars []stats.Bar) (from, to, share []float64) {
	if len(bars) == 0 {
		return nil, nil, nil
	}
	var total float64
	for _, b := range bars {
		total += float64(b.Count)
	}
	const least = 0.001 // ms: what the clock can tell
	low, high := max(bars[0].MS, least)*0.99, max(bars[len(bars)-1].MS, least)*1.01
	// Columns narrower than the histogram's own buckets would leave holes.
	ratio := max(math.Log(high/low)/columnsMax, math.Log(1.034))
	n := int(math.Ceil(math.Log(high/low) / ratio))
	share = make([]float64, n)
	for i := range n {
		from = append(from, low*math.Exp(float64(i)*ratio))
		to = append(to, low*math.Exp(float64(i+1)*ratio))
	}
	for _, b := range bars {
		i := int(math.Log(max(b.MS, least)/low) / ratio)
		share[min(max(i, 0), n-1)] += 100 * float64(b.Count) / total
	}
	return from, to, share
}
