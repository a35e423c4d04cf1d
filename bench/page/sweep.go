package page

import (
	"fmt"
	"io"
	"math"

	"corenode/bench/result"
)

// Sweep writes the page of a sweep.
func Sweep(w io.Writer, s result.Sweep) error {
	t := s.Table()
	c := content{Title: "Sweep over " + s.Over, Tables: []result.Table{t}}
	if len(s.Points) > 0 {
		f := &s.Points[0].File
		c.Title += ", " + f.Conditions.Model + ", " + f.Conditions.Protocol
		c.Lead = []string{f.Conditions.URL + ", " + f.Runs[0].Started, f.Conditions.Lines()[1]}
		c.Tables = append(c.Tables, conditionsTable("Conditions of the first level", f))
	}
	c.Notes = s.Notes()
	c.Tiles = []tile{{Name: "knee", Value: "none", Note: "no request was good"}}
	if s.Knee > 0 {
		c.Tiles = []tile{{Name: "knee", Value: fmt.Sprintf("%g %s", s.Knee, s.Over), Note: "least strength with the highest goodput"}}
	}
	c.Sections = []section{{Charts: figures(
		against(s, "Latency by throughput: first token", "ttft_p50", "ttft_p99"),
		against(s, "Latency by throughput: end to end", "e2e_p50", "e2e_p99"),
		against(s, "Latency by throughput: gaps", "itl_p50", "itl_p99"),
		by(s, "Goodput", "requests/s", "goodput_per_s", "requests_per_s"),
		by(s, "Output", "tokens/s", "output_tokens_per_s"),
		by(s, "Failed or not sent", "share", "failed_share"),
	)}}
	return c.write(w)
}

func metric(l *result.Level, name string) float64 {
	v, ok := l.File.Metrics[name]
	if !ok {
		return math.NaN()
	}
	return v.Median
}

// against draws latencies over the throughput that they were had at, in the
// order of the levels: past the knee the curve turns back.
func against(s result.Sweep, title string, names ...string) chart {
	return chart{Title: title, XName: "output tokens/s", YName: "ms", LogY: true,
		Series: lines(s, func(l *result.Level) float64 { return metric(l, "output_tokens_per_s") }, []int{blue, red}, names)}
}

// by draws metrics over the strength.
func by(s result.Sweep, title, unit string, names ...string) chart {
	c := chart{Title: title, XName: s.Over, YName: unit, LogX: true,
		Series: lines(s, func(l *result.Level) float64 { return l.At }, []int{green, gray}, names)}
	if s.Knee > 0 {
		c.Marks = []mark{{X: s.Knee, Name: "knee"}}
	}
	return c
}

// lines are metrics of the levels, each in a color of its own.
func lines(s result.Sweep, x func(*result.Level) float64, colors []int, names []string) (list []series) {
	for i, name := range names {
		one := series{Name: name, Kind: line, Color: colors[i]}
		for j := range s.Points {
			one.X, one.Y = append(one.X, x(&s.Points[j])), append(one.Y, metric(&s.Points[j], name))
		}
		list = append(list, one)
	}
	return list
}
