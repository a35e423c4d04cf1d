package stats

import (
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Histogram counts durations by bucket, as far as there are any: hundreds of
// them fit into memory, which HDR histograms of an hour would not, and into a
// file. A bucket is 1 us wide below 128 us, from there on at most 1/64 of its
// values; its number is bucketOf a value in microseconds. The largest bucket of
// an hour is below 2048.
type Histogram []uint32

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

// Add counts a duration.
func (h *Histogram) Add(d time.Duration) {
	i := bucketOf(min(d, time.Hour).Microseconds())
	h.grow(i + 1)
	(*h)[i]++
}

func (h *Histogram) grow(n int) {
	if n > len(*h) {
		*h = append(*h, make([]uint32, n-len(*h))...)
	}
}

// Merge adds another histogram's counts so many times.
func (h *Histogram) Merge(o Histogram, times uint32) {
	h.grow(len(o))
	for i, n := range o {
		(*h)[i] += n * times
	}
}

// Count is how many values there are.
func (h Histogram) Count() (n int64) {
	for _, c := range h {
		n += int64(c)
	}
	return n
}

// Bar is one bucket: its middle in milliseconds, and its count.
type Bar struct {
	MS    float64
	Count int64
}

// Bars are the buckets in use, in order.
func (h Histogram) Bars() (bars []Bar) {
	for i, n := range h {
		if n > 0 {
			bars = append(bars, Bar{bucketMid(i) / 1000, int64(n)})
		}
	}
	return bars
}

// Percentiles returns values in milliseconds by nearest rank, for shares from 0
// to 1; nil when there are no values.
func (h Histogram) Percentiles(shares ...float64) []float64 {
	total := h.Count()
	if total == 0 {
		return nil
	}
	out := make([]float64, len(shares))
	for i, share := range shares {
		rank, seen := rankOf(share, total), int64(0)
		at := slices.IndexFunc(h, func(n uint32) bool { seen += int64(n); return seen >= rank })
		out[i] = bucketMid(at) / 1000
	}
	return out
}

// MarshalJSON writes the counts by the numbers of the buckets in use.
func (h Histogram) MarshalJSON() ([]byte, error) {
	used := map[int]uint32{}
	for i, n := range h {
		if n > 0 {
			used[i] = n
		}
	}
	return json.Marshal(used)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Histogram) UnmarshalJSON(b []byte) error {
	var used map[int]uint32
	if err := json.Unmarshal(b, &used); err != nil {
		return err
	}
	*h = nil
	for i, n := range used {
		if i < 0 || i > bucketOf(math.MaxInt64) {
			return fmt.Errorf("there is no bucket %d", i)
		}
		h.grow(i + 1)
		(*h)[i] = n
	}
	return nil
}

// Histograms are one for each of Latencies; as JSON by name, as far as they have values.
type Histograms [kinds]Histogram

// Of is the histogram of a latency.
func (h *Histograms) Of(latency string) Histogram {
	if i := slices.Index(Latencies[:], latency); i >= 0 {
		return h[i]
	}
	return nil
}

// MarshalJSON writes those that have values.
func (h Histograms) MarshalJSON() ([]byte, error) {
	named := map[string]Histogram{}
	for i, one := range h {
		if one.Count() > 0 {
			named[Latencies[i]] = one
		}
	}
	return json.Marshal(named)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (h *Histograms) UnmarshalJSON(b []byte) error {
	named := map[string]Histogram{}
	err := json.Unmarshal(b, &named)
	for i, name := range Latencies {
		h[i] = named[name]
	}
	return err
}

// rankOf is the nearest rank, from 1. The small term takes back what a share
// such as 0.95 is above its decimal digits.
func rankOf(share float64, n int64) int64 {
	return min(max(1, int64(math.Ceil(share*float64(n)-1e-9))), n)
}

// Percentile is that of sorted values by nearest rank; zero of none.
func Percentile[T any](sorted []T, share float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[rankOf(share, int64(len(sorted)))-1]
}
