package sample

// scanner holds the two loops that read whole vocabularies. All scanners give
// the same results to the last bit: a seed draws the same tokens everywhere.
type scanner struct {
	name string
	// firstIn is the index of the first value from lo to hi, both included, or -1.
	firstIn func(x []float32, lo, hi float32) int
	// weightSum is the sum of the weights of values of at least bar, none of
	// which may be below the floor of f. Eight sums take every eighth value of
	// the first len(x)/8*8; the fifth joins the first and so on until one is
	// left, and what remains of x is added to it, one by one.
	weightSum func(x []float32, f softmax, bar float32) float64
}

var portable = scanner{"portable", firstIn, weightSum}

// scanners are what this machine can run, fastest first, and scan is in use.
var (
	scanners = append(archScanners(), portable)
	scan     = scanners[0]
)

func firstIn(x []float32, lo, hi float32) int {
	for i, v := range x {
		if v >= lo && v <= hi {
			return i
		}
	}
	return -1
}

func weightSum(x []float32, f softmax, bar float32) float64 {
	var s [8]float64
	whole := len(x) &^ 7
	for i := 0; i < whole; i += 8 {
		for j, v := range x[i : i+8] {
			if v >= bar {
				s[j] += f.weight(v)
			}
		}
	}
	sum := ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
	return weightRest(sum, x[whole:], f, bar)
}

// weightRest adds the weights of the values of x one by one.
func weightRest(sum float64, x []float32, f softmax, bar float32) float64 {
	for _, v := range x {
		if v >= bar {
			sum += f.weight(v)
		}
	}
	return sum
}
