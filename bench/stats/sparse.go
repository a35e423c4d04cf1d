package stats

import (
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Sparse is a histogram of durations that keeps only the buckets in use: many of
// them fit into a file. A bucket is 1 us wide below 128 us, from there on
// at most 1/64 of its values. The keys are bucketOf a value in microseconds.
type Sparse map[int]int64

const subBuckets = 64

func bucketOf(us int64) int {
	us = max(us, 0)
	if us < subBuckets {
		return int(us)
	}
	shift := bits.Len64(uint64(us)) - 7 // then us>>shift is 64 to 127
	return subBuckets*shift + int(us>>shift)
}

// bucketMid is the middle of a bucket, in microseconds.
func bucketMid(bucket int) float64 {
	if bucket < 2*subBuckets {
		return float64(bucket)
	}
	shift := bucket/subBuckets - 1
	low := int64(bucket-shift*subBuckets) << shift
	return float64(low) + float64(int64(1)<<shift-1)/2
}

// Add counts a duration, in a histogram that is made if need be.
func (s *Sparse) Add(d time.Duration) {
	if *s == nil {
		*s = Sparse{}
	}
	(*s)[bucketOf(d.Microseconds())]++
}

// Merge adds another histogram's counts.
func (s *Sparse) Merge(o Sparse) {
	if *s == nil && len(o) > 0 {
		*s = Sparse{}
	}
	for k, n := range o {
		(*s)[k] += n
	}
}

// tally is a histogram of the same buckets that is fast to add to: counts by
// bucket, as far as there are any. The largest bucket of an hour is below 2048.
type tally []uint32

func (t *tally) add(d time.Duration) {
	i := bucketOf(min(d, time.Hour).Microseconds())
	if i >= len(*t) {
		*t = append(*t, make([]uint32, i+1-len(*t))...)
	}
	(*t)[i]++
}

func (t *tally) merge(o tally) {
	if len(o) > len(*t) {
		*t = append(*t, make([]uint32, len(o)-len(*t))...)
	}
	for i, n := range o {
		(*t)[i] += n
	}
}

func (t tally) sparse() Sparse {
	s := Sparse{}
	for i, n := range t {
		if n > 0 {
			s[i] = int64(n)
		}
	}
	return s
}

func (t tally) percentiles(shares ...float64) []float64 { return t.sparse().Percentiles(shares...) }

// Count is how many values there are.
func (s Sparse) Count() (n int64) {
	for _, c := range s {
		n += c
	}
	return n
}

// Bar is one bucket: its middle in milliseconds, and its count.
type Bar struct {
	MS    float64
	Count int64
}

// Bars are the buckets in use, in order.
func (s Sparse) Bars() []Bar {
	bars := make([]Bar, 0, len(s))
	for _, k := range slices.Sorted(maps.Keys(s)) {
		bars = append(bars, Bar{bucketMid(k) / 1000, s[k]})
	}
	return bars
}

// Percentiles returns values in milliseconds by nearest rank, for shares from 0
// to 1; nil when there are no values.
func (s Sparse) Percentiles(shares ...float64) []float64 {
	return PercentilesOf(s.Bars(), shares...)
}

// PercentilesOf is Percentiles of bars in order.
func PercentilesOf(bars []Bar, shares ...float64) []float64 {
	var total int64
	for _, b := range bars {
		total += b.Count
	}
	if total == 0 {
		return nil
	}
	out := make([]float64, len(shares))
	for i, share := range shares {
		rank, seen := rankOf(share, total), int64(0)
		for _, b := range bars {
			if seen += b.Count; seen >= rank {
				out[i] = b.MS
				break
			}
		}
	}
	return out
}

// rankOf is the nearest rank, from 1. The small term takes back what a share
// such as 0.95 is above its decimal digits.
func rankOf(share float64, n int64) int64 {
	return min(max(1, int64(math.Ceil(share*float64(n)-1e-9))), n)
}

// percentile is the nearest-rank percentile of values, which it sorts.
func percentile(values []time.Duration, share float64) time.Duration {
	slices.Sort(values)
	return values[rankOf(share, int64(len(values)))-1]
}
