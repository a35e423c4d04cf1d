package meter

import (
	"slices"
	"time"
)

var epoch = time.Now()

// cpuTime returns nanoseconds. Monotonic time serves: medians of runs in turns
// cancel most of the noise.
func cpuTime() float64 { return float64(time.Since(epoch)) }

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}
