package workload

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"time"
)

// Arrivals says when conversations begin in an open loop, as offsets from its
// begin: never earlier than the one before. ok is false when no more come.
type Arrivals func() (at time.Duration, ok bool)

// Poisson has gaps that are exponential, independent and of mean 1/rate. During
// the ramp the rate grows from 0 to its value in a straight line.
func Poisson(rate float64, ramp time.Duration, r *rand.Rand) Arrivals {
	return ramped(rate, ramp, r.ExpFloat64)
}

// Constant has equal gaps, after a ramp as that of Poisson.
func Constant(rate float64, ramp time.Duration) Arrivals {
	return ramped(rate, ramp, func() float64 { return 1 })
}

// ramped turns a process of rate 1 into one of a changing rate: the n-th arrival
// is when the rate's integral has reached the sum of n gaps. Its integral is
// rate*t*t/(2*ramp) within the ramp, and rate*(t-ramp/2) behind it.
func ramped(rate float64, ramp time.Duration, gap func() float64) Arrivals {
	sum, length := 0.0, ramp.Seconds()
	return func() (time.Duration, bool) {
		sum += gap()
		at := length/2 + sum/rate
		if sum < rate*length/2 {
			at = math.Sqrt(2 * sum * length / rate)
		}
		if at > math.MaxInt64/1e9/2 {
			return 0, false // a rate so low that it will not come
		}
		return time.Duration(at * float64(time.Second)), true
	}
}

// Trace plays recorded offsets once.
func Trace(offsets []time.Duration) Arrivals {
	next := 0
	return func() (time.Duration, bool) {
		if next == len(offsets) {
			return 0, false
		}
		next++
		return offsets[next-1], true
	}
}

// ReadTrace reads offsets in seconds, one at the begin of each line, rising.
func ReadTrace(r io.Reader) ([]time.Duration, error) {
	rows, err := readRows(r, 1)
	if err != nil {
		return nil, err
	}
	offsets := make([]time.Duration, len(rows))
	before := 0.0
	for i, row := range rows {
		if row[0] < before || row[0] > 1e8 {
			return nil, fmt.Errorf("offset %d is %v s, want at least the one before (%v s)", i+1, row[0], before)
		}
		before = row[0]
		offsets[i] = time.Duration(row[0] * float64(time.Second))
	}
	return offsets, nil
}
