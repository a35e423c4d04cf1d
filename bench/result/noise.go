package result

import (
	"math/rand/v2"
	"slices"

	"corenode/bench/stats"
)

const (
	pieces    = 12  // of the window that are drawn from
	piecesMin = 5   // with fewer there is no estimate
	drawn     = 400 // times
	interval  = 0.95
)

// resampler draws the value of one metric again and again, each time from pieces
// of the windows drawn with replacement: what one run can say about how much
// another would differ. Pieces, not requests, since neighbors are alike.
type resampler struct {
	metric  Metric
	pieces  []stats.Block
	weights []uint32
	drawn   stats.Histogram
}

// newResampler returns nil when the runs have too few pieces with values.
func newResampler(m Metric, runs []stats.Run) *resampler {
	if m.sum == nil && (m.latency == "" || m.share >= 1) {
		return nil
	}
	r := &resampler{metric: m}
	filled := 0
	for i := range runs {
		for _, piece := range gather(runs[i].Blocks, pieces) {
			r.pieces = append(r.pieces, piece)
			if m.sum != nil || piece.Histograms.Of(m.latency).Count() > 0 {
				filled++
			}
		}
	}
	if filled < piecesMin {
		return nil
	}
	r.weights = make([]uint32, len(r.pieces))
	return r
}

// gather merges neighbors until there are at most n.
func gather(blocks []stats.Block, n int) (list []stats.Block) {
	for piece := range slices.Chunk(blocks, max(1, (len(blocks)+n-1)/n)) {
		var b stats.Block
		for i := range piece {
			b.Merge(&piece[i])
		}
		list = append(list, b)
	}
	return list
}

// draw returns one value; false when the pieces drawn have none.
func (r *resampler) draw(random *rand.Rand) (float64, bool) {
	clear(r.weights)
	for range r.weights {
		r.weights[random.IntN(len(r.weights))]++
	}
	sum, seconds := 0.0, 0.0
	clear(r.drawn)
	for i, w := range r.weights {
		p := &r.pieces[i]
		switch {
		case w == 0:
		case r.metric.sum != nil:
			sum += float64(w) * r.metric.sum(p)
			seconds += float64(w) * p.Seconds
		default:
			r.drawn.Merge(p.Histograms.Of(r.metric.latency), w)
		}
	}
	if r.metric.sum != nil {
		return sum / seconds, seconds > 0
	}
	if p := r.drawn.Percentiles(r.metric.share); p != nil {
		return p[0], true
	}
	return 0, false
}

// spreadOfRatio is the interval that holds most ratios of b to a.
func spreadOfRatio(m Metric, a, b []stats.Run) (low, high float64, ok bool) {
	ra, rb := newResampler(m, a), newResampler(m, b)
	if ra == nil || rb == nil {
		return 0, 0, false
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same files always compare the same
	var ratios []float64
	for range drawn {
		va, okA := ra.draw(random)
		vb, okB := rb.draw(random)
		if okA && okB && va > 0 {
			ratios = append(ratios, vb/va)
		}
	}
	if len(ratios) < drawn/2 {
		return 0, 0, false
	}
	slices.Sort(ratios)
	edge := int(float64(len(ratios)) * (1 - interval) / 2)
	return ratios[edge], ratios[len(ratios)-1-edge], true
}
