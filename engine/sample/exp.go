package sample

import "math"

// expMin is where weights end: e to a lower power is no normal number, and counts as 0.
const expMin = -708

// expConstants are log2(e), the number that rounds to an integer whatever is
// added to it, -ln(2), and the factors of the exponential series from the tenth
// power down to the zeroth.
var expConstants = [14]float64{math.Log2E, 3 << 51, -math.Ln2,
	1. / 3628800, 1. / 362880, 1. / 40320, 1. / 5040, 1. / 720, 1. / 120, 1. / 24, 1. / 6, 1. / 2, 1, 1}

// exp is e^x for x <= 0 within a relative error of 1e-12. The argument splits
// into a power of two and a rest of at most ln(2)/2, for which eleven terms do;
// even and odd powers are summed apart, so that neither waits for the other.
// Assembly does the same operations in the same order and comes to the same
// bits, and the compiler, to which fusing would be open, is told where to.
func exp(x float64) float64 {
	if !(x >= expMin) {
		return 0
	}
	c := &expConstants
	rounded := math.FMA(x, c[0], c[1])
	r := math.FMA(rounded-c[1], c[2], x)
	square := r * r
	even := math.FMA(c[3], square, c[5])
	odd := math.FMA(c[4], square, c[6])
	even, odd = math.FMA(even, square, c[7]), math.FMA(odd, square, c[8])
	even, odd = math.FMA(even, square, c[9]), math.FMA(odd, square, c[10])
	even, odd = math.FMA(even, square, c[11]), math.FMA(odd, square, c[12])
	p := math.FMA(odd, r, math.FMA(even, square, c[13]))
	return math.Float64frombits(math.Float64bits(p) + math.Float64bits(rounded)<<52)
}
