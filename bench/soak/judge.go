package soak

import (
	"fmt"
	"slices"
	"time"

	"corenode/bench/report"
)

// Sample is what the node took at a moment without requests, after a collection of garbage.
type Sample struct {
	At          time.Duration `json:"at_ns"` // since the traffic began
	Resident    float64       `json:"resident_bytes"`
	Modules     float64       `json:"module_bytes"` // of Resident, at most: the memory of the modules' instances
	Goroutines  float64       `json:"goroutines"`
	Descriptors float64       `json:"descriptors"`
	// Requests are those that ended so far; of them Whole and Refused are as in Counts.
	Requests int64 `json:"requests"`
	Whole    int64 `json:"whole"`
	Refused  int64 `json:"refused"`
}

// Trend is how one of these moved once the node was warm.
type Trend struct {
	Name    string  `json:"name"`
	Median  float64 `json:"median"`
	Growth  float64 `json:"growth"`  // by its slope, from the first warm sample to the last
	Halves  float64 `json:"halves"`  // how much more the median of the second half is than that of the first
	Allowed float64 `json:"allowed"` // the most of either that counts as flat
	Flat    bool    `json:"flat"`
}

// quantity is what is judged: how much growth is flat, as a number and as a part of the median, whichever is more.
type quantity struct {
	name   string
	of     func(Sample) float64
	slack  float64
	within float64
}

var quantities = []quantity{
	// The memory of an instance grows until it is replaced, which takes longer than short runs; the node bounds it.
	{"memory without modules'", func(s Sample) float64 { return s.Resident - s.Modules }, 32 << 20, 0.05},
	{"goroutines", func(s Sample) float64 { return s.Goroutines }, 8, 0.05},
	{"descriptors", func(s Sample) float64 { return s.Descriptors }, 8, 0.05},
}

// samplesMin is the fewest warm samples that say anything.
const samplesMin = 5

// Judge says how the warm samples, those from warm on, moved. The slope is the median of the
// slopes between all pairs of them (Theil and Sen), which a few disturbed samples do not move.
func Judge(samples []Sample, warm time.Duration) ([]Trend, error) {
	rest := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return s.At < warm })
	if len(rest) < samplesMin {
		return nil, fmt.Errorf("%d samples after the first %v: want at least %d", len(rest), warm, samplesMin)
	}
	span := (rest[len(rest)-1].At - rest[0].At).Seconds()
	var trends []Trend
	for _, q := range quantities {
		var values, slopes []float64
		for i, s := range rest {
			values = append(values, q.of(s))
			for _, before := range rest[:i] {
				if dt := (s.At - before.At).Seconds(); dt > 0 {
					slopes = append(slopes, (q.of(s)-q.of(before))/dt)
				}
			}
		}
		t := Trend{Name: q.name, Median: report.SpreadOf(values).Median, Growth: report.SpreadOf(slopes).Median * span}
		half := len(values) / 2
		t.Halves = report.SpreadOf(values[len(values)-half:]).Median - report.SpreadOf(values[:half]).Median
		t.Allowed = max(q.slack, q.within*t.Median)
		t.Flat = t.Growth <= t.Allowed && t.Halves <= t.Allowed
		trends = append(trends, t)
	}
	return trends, nil
}
