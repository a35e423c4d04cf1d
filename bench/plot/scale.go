package plot

import (
	"math"
	"strconv"
)

// scale maps values to places along an axis.
type scale struct {
	low, high float64 // values at its ends
	from, to  float64 // places of them
	log       bool
}

// at is the place of a value; what is beyond an end is at that end.
func (s scale) at(v float64) float64 {
	low, high := s.low, s.high
	if s.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, s.low))
	}
	if high == low {
		return s.from
	}
	return s.from + (s.to-s.from)*min(max((v-low)/(high-low), 0), 1)
}

// ticks are round values within the scale, about as many as asked for.
func (s scale) ticks(about int) []float64 {
	if s.log {
		return logTicks(s.low, s.high, about)
	}
	step := niceStep((s.high - s.low) / float64(max(about, 1)))
	if step <= 0 {
		return []float64{s.low}
	}
	var list []float64
	for i := math.Ceil(s.low/step - 1e-9); i*step <= s.high*(1+1e-12)+step*1e-9; i++ {
		list = append(list, i*step+0) // + 0 makes a zero of -0
	}
	return list
}

// niceStep is the smallest of 1, 2 and 5 times a power of ten that is at least x.
func niceStep(x float64) float64 {
	if x <= 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 0
	}
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks are powers of ten, with 2 and 5 times them where there is room, or
// with fewer where there is none.
func logTicks(low, high float64, about int) (list []float64) {
	decades := math.Log10(high / low)
	steps, every := []float64{1, 2, 5}, 1
	if 3*decades > float64(about)*1.5 {
		steps, every = []float64{1}, max(1, int(math.Ceil(decades/float64(max(about, 1)))))
	}
	first := int(math.Floor(math.Log10(low)))
	for e := first; math.Pow(10, float64(e)) <= high; e++ {
		if (e%every+every)%every != 0 {
			continue
		}
		for _, m := range steps {
			if v := m * math.Pow(10, float64(e)); v >= low*(1-1e-9) && v <= high*(1+1e-9) {
				list = append(list, v)
			}
		}
	}
	return list
}

// label writes a value as short as it can be read.
func label(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e6:
		return trim(v/1e6) + "M"
	case a >= 1e4:
		return trim(v/1e3) + "k"
	default:
		return trim(v)
	}
}

func trim(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'g', 5, 64)
}
