package result

import (
	"maps"
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
// another would differ. Pieces, not requests, since neighbours are alike.
type resampler struct {
	seconds []float64
	sums    []float64 // of a rate
	keys    []stats.Bar
	counts  [][]int64 // of a latency: per piece, per key
	share   float64
	weights []int
}

// newResampler returns nil when the runs have too few pieces with values.
func newResampler(m Metric, runs []stats.Run) *resampler {
	if m.sum == nil && (m.latency == "" || m.share >= 1) {
		return nil
	}
	var list []stats.Block
	for i := range runs {
		list = append(list, gather(runs[i].Blocks, pieces)...)
	}
	r := &resampler{share: m.share}
	filled := 0
	for i := range list {
		r.seconds = append(r.seconds, list[i].Seconds)
		if m.sum != nil {
			r.sums = append(r.sums, m.sum(&list[i]))
			filled++
		} else if list[i].Histograms[m.latency].Count() > 0 {
			filled++
		}
	}
	if filled < piecesMin {
		return nil
	}
	if m.sum == nil {
		r.tabulate(m.latency, list)
	}
	r.weights = make([]int, len(list))
	return r
}

// gather merges neighbours until there are at most n.
func gather(blocks []stats.Block, n int) []stats.Block {
	each := (len(blocks) + n - 1) / n
	var list []stats.Block
	for i := 0; i < len(blocks); i += each {
		b := stats.Block{Histograms: map[string]stats.Sparse{}}
		for _, o := range blocks[i:min(i+each, len(blocks))] {
			b.Seconds += o.Seconds
			b.Succeeded += o.Succeeded
			b.Good += o.Good
			b.Failed += o.Failed
			b.OutputTokens += o.OutputTokens
			b.InputTokens += o.InputTokens
			for name, h := range o.Histograms {
				sum := b.Histograms[name]
				sum.Merge(h)
				b.Histograms[name] = sum
			}
		}
		list = append(list, b)
	}
	return list
}

func (r *resampler) tabulate(latency string, list []stats.Block) {
	var all stats.Sparse
	for i := range list {
		all.Merge(list[i].Histograms[latency])
	}
	r.keys = all.Bars()
	order := slices.Sorted(maps.Keys(all))
	for i := range list {
		row := make([]int64, len(order))
		for j, key := range order {
			row[j] = list[i].Histograms[latency][key]
		}
		r.counts = append(r.counts, row)
	}
}

// draw returns one value; false when the pieces drawn have none.
func (r *resampler) draw(random *rand.Rand) (float64, bool) {
	clear(r.weights)
	for range r.weights {
		r.weights[random.IntN(len(r.weights))]++
	}
	if r.sums != nil {
		sum, seconds := 0.0, 0.0
		for i, w := range r.weights {
			sum += float64(w) * r.sums[i]
			seconds += float64(w) * r.seconds[i]
		}
		return sum / seconds, seconds > 0
	}
	for k := range r.keys {
		r.keys[k].Count = 0
	}
	for i, w := range r.weights {
		for k, n := range r.counts[i] {
			r.keys[k].Count += int64(w) * n
		}
	}
	p := stats.PercentilesOf(r.keys, r.share)
	if p == nil {
		return 0, false
	}
	return p[0], true
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
