package ref

import (
	"cmp"
	"math"
	"slices"

	"corenode/engine/kernel"
)

// Experts implements kernel.Backend.
func (*Backend) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	var bias []float32
	if r.Bias != nil {
		bias = mem(r.Bias)
	}
	g, u, dn := s.Gate.(*weight), s.Up.(*weight), s.Down.(*weight)
	a, b, y := make([]float32, g.rows), make([]float32, g.rows), make([]float32, dn.rows)
	for i := range n {
		row := mem(x)[i*g.cols : (i+1)*g.cols]
		ids, weights := route(mem(logits)[i*g.experts:(i+1)*g.experts], bias, r)
		sum := make([]float64, dn.rows)
		for k, e := range ids {
			matMul(a, row, 1, g, e)
			matMul(b, row, 1, u, e)
			addBias(a, s.GateBias, e)
			addBias(b, s.UpBias, e)
			for j := range a {
				a[j] = float32(between(float64(a[j]), float64(b[j]), s))
			}
			matMul(y, a, 1, dn, e)
			addBias(y, s.DownBias, e)
			for j, v := range y {
				sum[j] += weights[k] * float64(v)
			}
		}
		for j, v := range sum {
			mem(dst)[i*dn.rows+j] = float32(v)
		}
	}
}

// addBias adds the bias of an expert, where there is one.
func addBias(x []float32, bias kernel.Buffer, expert int) {
	if bias != nil {
		for i, b := range mem(bias)[expert*len(x) : (expert+1)*len(x)] {
			x[i] += b
		}
	}
}

// between is what goes from gate and up to down.
func between(gate, up float64, s kernel.ExpertStack) float64 {
	if s.Limit == 0 {
		return silu(gate) * up
	}
	limit := float64(s.Limit)
	gate, up = min(gate, limit), max(-limit, min(up, limit))
	return (up + 1) * gate / (1 + math.Exp(-float64(s.Alpha)*gate))
}

// route picks a row's experts, best first, and their weights.
func route(logits, bias []float32, r kernel.Routing) (ids []int, weights []float64) {
	scores := scoresOf(logits, r.Sigmoid)
	rank := slices.Clone(scores)
	for i, b := range bias {
		rank[i] += float64(b)
	}
	if r.Groups > 1 {
		onlyGroups(rank, r)
	}
	ids = best(rank, r.Top)
	var total float64
	for _, e := range ids {
		weights = append(weights, scores[e])
		total += scores[e]
	}
	for k := range weights {
		if !r.Plain {
			weights[k] /= total
		}
		if r.Scale != 0 {
			weights[k] *= float64(r.Scale)
		}
	}
	return ids, weights
}

// scoresOf is the softmax of logits, or the sigmoid of each.
func scoresOf(logits []float32, sigmoid bool) []float64 {
	scores, most, total := make([]float64, len(logits)), float64(slices.Max(logits)), 0.0
	for i, l := range logits {
		if sigmoid {
			scores[i] = 1 / (1 + math.Exp(-float64(l)))
			continue
		}
		scores[i] = math.Exp(float64(l) - most)
		total += scores[i]
	}
	for i := range scores {
		if !sigmoid {
			scores[i] /= total
		}
	}
	return scores
}

// onlyGroups ranks the experts outside of the best groups behind all others.
func onlyGroups(rank []float64, r kernel.Routing) {
	size, sums := len(rank)/r.Groups, make([]float64, r.Groups)
	for g := range sums {
		group := rank[g*size : (g+1)*size]
		for _, e := range best(group, r.GroupTop) {
			sums[g] += group[e]
		}
	}
	used := best(sums, r.GroupsUsed)
	for e := range rank {
		if !slices.Contains(used, e/size) {
			rank[e] = math.Inf(-1)
		}
	}
}

// best are the indices of the n largest values, largest first.
func best(values []float64, n int) []int {
	ids := make([]int, len(values))
	for i := range ids {
		ids[i] = i
	}
	slices.SortStableFunc(ids, func(i, j int) int { return cmp.Compare(values[j], values[i]) })
	return ids[:n]
}
