package ref

import (
	"math"
	"sort"

	"corenode/engine/kernel"
)

// Experts implements kernel.Backend. Equal logits prefer the lower expert.
func (*Backend) Experts(dst, x, logits kernel.Buffer, n int, gate, up, down kernel.Weight, top int) {
	g, u, dn := gate.(*weight), up.(*weight), down.(*weight)
	a, b, y := make([]float32, g.rows), make([]float32, g.rows), make([]float32, dn.rows)
	for i := range n {
		row := mem(x)[i*g.cols : (i+1)*g.cols]
		ids, weights := route(mem(logits)[i*g.experts:(i+1)*g.experts], top)
		sum := make([]float64, dn.rows)
		for k, e := range ids {
			matMul(a, row, 1, g, e)
			matMul(b, row, 1, u, e)
			for j := range a {
				a[j] = float32(silu(float64(a[j])) * float64(b[j]))
			}
			matMul(y, a, 1, dn, e)
			for j, v := range y {
				sum[j] += weights[k] * float64(v)
			}
		}
		for j, v := range sum {
			mem(dst)[i*dn.rows+j] = float32(v)
		}
	}
}

// route picks the top experts, best first. A softmax over all, renormalized
// over the chosen, is the softmax of the chosen logits.
func route(logits []float32, top int) (ids []int, weights []float64) {
	ids = make([]int, len(logits))
	for i := range ids {
		ids[i] = i
	}
	sort.SliceStable(ids, func(i, j int) bool { return logits[ids[i]] > logits[ids[j]] })
	ids = ids[:top]
	weights = make([]float64, top)
	var total float64
	for k, e := range ids {
		weights[k] = math.Exp(float64(logits[e]) - float64(logits[ids[0]]))
		total += weights[k]
	}
	for k := range weights {
		weights[k] /= total
	}
	return ids, weights
}
