package sample

import "math"

const (
	expSteps = 64
	// expLeast is where results stop being normal numbers; below it they are 0.
	expLeast = -708
)

// expTable holds 2^(i/expSteps).
var expTable = func() (t [expSteps]float64) {
	for i := range t {
		t[i] = math.Exp2(float64(i) / expSteps)
	}
	return t
}()

// exp is e^x for x <= 0 within a relative error of 1e-12. A pass over a vocabulary takes
// most of its time here, and the library's function, exact to the last bit and
// open to every argument, takes three times as long. The argument splits into a power of
// two, a table step and a rest of at most ln2/128, for which four terms do.
func exp(x float64) float64 {
	if !(x >= expLeast) {
		return 0
	}
	n := int64(x*(expSteps/math.Ln2) - 0.5) // to nearest: truncation goes up for x <= 0
	r := x - float64(n)*(math.Ln2/expSteps)
	p := 1 + r*(1+r*(1./2+r*(1./6+r*(1./24))))
	return p * expTable[n&(expSteps-1)] * math.Float64frombits(uint64(1023+n>>6)<<52)
}
