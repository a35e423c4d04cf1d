package page

import (
	"math"
	"strings"

	"corenode/bench/report"
	"corenode/bench/stats"
)

// Colors by what they stand for.
const (
	gray = iota
	blue
	orange
	red
	green
	violet
)

// charts are those of one run.
func charts(r *stats.Run) []chart {
	t := &r.Timeline
	list := []chart{
		latency(r, "Time to first token", func(m *stats.Moment) []float64 { return m.TTFT },
			func(p stats.Point) float64 { return p.TTFTms }),
		latency(r, "End to end", func(m *stats.Moment) []float64 { return m.E2E }, func(p stats.Point) float64 { return p.E2Ems }),
		latency(r, "Gaps between tokens (ITL)", func(m *stats.Moment) []float64 { return m.ITL }, nil),
		over(r, "Tokens per second", "tokens/s",
			series{Name: "output", Kind: area, Color: blue, Y: perSecond(t, func(m *stats.Moment) float64 { return m.OutputTokens })},
			series{Name: "input", Kind: line, Color: orange, Y: perSecond(t, func(m *stats.Moment) float64 { return m.InputTokens })}),
		over(r, "Requests per second", "requests/s", requests(t)...),
		over(r, "In flight", "requests",
			series{Name: "in flight", Kind: area, Color: violet, Y: each(t, func(m *stats.Moment) float64 { return float64(m.InFlight) })}),
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
func requests(t *stats.Timeline) []series {
	list := []series{
		{Name: "sent", Kind: line, Color: gray, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Sent) })},
		{Name: "succeeded", Kind: line, Color: green, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Succeeded) })},
	}
	for _, s := range []series{
		{Name: "failed", Kind: line, Color: red, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.Failed) })},
		{Name: "not sent", Kind: line, Color: orange, Y: perSecond(t, func(m *stats.Moment) float64 { return float64(m.NotSent) })},
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
func over(r *stats.Run, title, unit string, all ...series) chart {
	for i := range all {
		for j := range all[i].Y {
			all[i].X = append(all[i].X, (float64(j)+0.5)*r.Timeline.BucketS)
		}
	}
	return chart{Title: title, XName: "seconds", YName: unit, Series: all, Window: [2]float64{r.FromS, r.FromS + r.WindowS},
		XMax: float64(len(r.Timeline.Points)) * r.Timeline.BucketS}
}

// latency is percentiles over time, and the sample of requests behind them.
func latency(r *stats.Run, title string, of func(*stats.Moment) []float64, point func(stats.Point) float64) chart {
	names := []string{"p50", "p90", "p99"}
	var lines []series
	for i, color := range []int{blue, orange, red} {
		lines = append(lines, series{Name: names[i], Kind: line, Color: color, Y: each(&r.Timeline, func(m *stats.Moment) float64 {
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
	dots := series{Name: "a request", Kind: dots, Color: gray}
	for _, p := range r.Sample {
		if y := point(p); y > 0 && !p.Failed {
			dots.X, dots.Y = append(dots.X, p.AtS), append(dots.Y, y)
		}
	}
	c.Series = append([]series{dots}, c.Series...)
	return c
}

// columnsMax is how many bars a histogram has at most.
const columnsMax = 48

// histogram is the distribution in the window, its bars of equal ratio.
func histogram(r *stats.Run, name string) chart {
	var all stats.Histogram
	for _, b := range r.Blocks {
		all.Merge(b.Histograms.Of(name), 1)
	}
	bars := series{Name: "share of the values", Kind: steps, Color: blue}
	bars.X, bars.Y = columns(all.Bars())
	c := chart{Title: "Histogram of " + strings.ToUpper(name), XName: "ms", YName: "%", LogX: true, Series: []series{bars}}
	if d := r.Latency[name]; d.Count > 0 {
		for _, m := range []struct {
			name string
			at   float64
		}{{"p50", d.P50}, {"p90", d.P90}, {"p99", d.P99}} {
			if m.at > 0 {
				c.Marks = append(c.Marks, mark{X: m.at, Name: m.name + " " + report.Number(m.at)})
			}
		}
	}
	return c
}

// columns sums bars into columns of equal ratio, in percent of all, and returns
// their edges with the share from each edge on: 0 from the last one. Values of 0
// count in the first.
func columns(bars []stats.Bar) (edges, share []float64) {
	if len(bars) == 0 {
		return nil, nil
	}
	var total float64
	for _, b := range bars {
		total += float64(b.Count)
	}
	const msMin = 0.001 // ms: what the clock can tell
	low, high := max(bars[0].MS, msMin)*0.99, max(bars[len(bars)-1].MS, msMin)*1.01
	// Columns narrower than the histogram's own buckets would leave holes.
	ratio := max(math.Log(high/low)/columnsMax, math.Log(1.034))
	n := int(math.Ceil(math.Log(high/low) / ratio))
	share = make([]float64, n+1)
	for i := range share {
		edges = append(edges, low*math.Exp(float64(i)*ratio))
	}
	for _, b := range bars {
		i := int(math.Log(max(b.MS, msMin)/low) / ratio)
		share[min(max(i, 0), n-1)] += 100 * float64(b.Count) / total
	}
	return edges, share
}
