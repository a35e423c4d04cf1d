package cost

// Load is what the duration of a step depends on.
type Load struct {
	Rows    int // tokens computed
	Logits  int // rows whose logits are computed: the output head
	Context int // positions whose keys and values are read, once per sequence
	Pairs   int // rows times the positions that each attends to
}

// With adds n rows of a sequence that begin at position start.
func (l Load) With(start, n, logits int) Load {
	return Load{l.Rows + n, l.Logits + logits, l.Context + start + n, l.Pairs + n*start + n*(n+1)/2}
}

// Times is the load of n sequences that each have l.
func (l Load) Times(n int) Load { return Load{n * l.Rows, n * l.Logits, n * l.Context, n * l.Pairs} }

// knots are the numbers of rows at which the cost of a further row may change. Few rows wait
// for the weights, many for the arithmetic. Kernels that compute rows in groups make stairs, so
// behind each power of two, and each 16 up to 64, the first row of the next group has a knot of
// its own.
var knots = [...]int{1, 2, 3, 4, 5, 6, 8, 9, 12, 16, 17, 24, 32, 33, 48, 49, 64, 65, 96, 128, 192, 256, 512, 1024}

// The features of a load, in order: one for each step, the logits, context and
// pairs, and the rows between two knots and above the last one. So those of a small
// step are the first ones, and the others are zero.
const (
	logits = iota + 1
	context
	pairs
	ramps
	features = ramps + len(knots)
)

type vector [features]float64

// featuresOf also says how many of them there are up to the last that is not zero.
func featuresOf(l Load) (x vector, n int) {
	x[0], x[logits], x[context], x[pairs] = 1, float64(l.Logits), float64(l.Context), float64(l.Pairs)
	n = ramps
	for k, low := range knots {
		width := l.Rows - low
		if width <= 0 {
			break
		}
		n++
		if k+1 < len(knots) {
			width = min(width, knots[k+1]-low)
		}
		x[ramps+k] = float64(width)
	}
	return x, n
}

// dot is the sum over the features of a, which may be fewer than b's.
func dot(a []float64, b *vector) (sum float64) {
	for i, v := range a {
		sum += v * b[i]
	}
	return sum
}
