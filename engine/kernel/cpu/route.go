package cpu

import (
	"math"
	"slices"

	"corenode/engine/kernel"
)

// route picks the experts of every row and sorts the pairs by expert.
func (e *expertScratch) route(logits []float32, n, experts int, r kernel.Routing) {
	top := r.Top
	e.choice, e.place, e.row = growInts(e.choice, n*top), growInts(e.place, n*top), growInts(e.row, n*top)
	e.share, e.start = grow(e.share, n*top), growInts(e.start, experts+1)
	clear(e.start)
	for i := range n {
		chosen, share := e.choice[i*top:(i+1)*top], e.share[i*top:(i+1)*top]
		e.choose(chosen, share, logits[i*experts:(i+1)*experts], r)
		for _, x := range chosen {
			e.start[x+1]++
		}
	}
	e.jobs = e.jobs[:0]
	for x := range experts {
		if c := e.start[x+1]; c > 0 {
			e.jobs = append(e.jobs, actJob{expert: x, first: int(e.start[x]), n: int(c)})
		}
		e.start[x+1] += e.start[x]
	}
	for i, x := range e.choice {
		e.place[i] = e.start[x]
		e.row[e.start[x]] = int32(i / top)
		e.start[x]++
	}
}

// choose finds the experts of one row, best first, and their weights.
func (e *expertScratch) choose(chosen []int32, share, logits []float32, r kernel.Routing) {
	total := float32(1)
	if r.Sigmoid || r.Plain || r.Bias != nil || r.Groups > 1 {
		e.rankAll(logits, r)
		pickTop(chosen, share, e.rank)
		for i, x := range chosen {
			share[i] = e.scores[x]
		}
		if !r.Plain {
			total = sum(share)
		}
	} else { // the shares of the chosen among themselves are the softmax of their logits
		pickTop(chosen, share, logits)
		softmax(share, share)
	}
	if r.Scale != 0 {
		total /= r.Scale
	}
	for i := range share {
		share[i] /= total
	}
}

// rankAll fills in the scores of all experts of a row, and what they are ranked by.
func (e *expertScratch) rankAll(logits []float32, r kernel.Routing) {
	e.scores, e.rank = grow(e.scores, len(logits)), grow(e.rank, len(logits))
	if r.Sigmoid {
		for i, l := range logits {
			e.scores[i] = 1 / (1 + exp32(-l))
		}
	} else {
		softmax(e.scores, logits)
	}
	copy(e.rank, e.scores)
	if r.Bias != nil {
		for i, b := range floats(r.Bias, len(logits)) {
			e.rank[i] += b
		}
	}
	if r.Groups > 1 {
		e.onlyGroups(r)
	}
}

// onlyGroups ranks the experts outside of the best groups behind all others.
func (e *expertScratch) onlyGroups(r kernel.Routing) {
	size := len(e.rank) / r.Groups
	e.groups, e.ids = grow(e.groups, r.Groups+max(r.GroupTop, r.GroupsUsed)), growInts(e.ids, max(r.GroupTop, r.GroupsUsed))
	sums, top := e.groups[:r.Groups], e.groups[r.Groups:]
	for g := range sums {
		pickTop(e.ids[:r.GroupTop], top[:r.GroupTop], e.rank[g*size:(g+1)*size])
		sums[g] = sum(top[:r.GroupTop])
	}
	used := e.ids[:r.GroupsUsed]
	pickTop(used, top[:r.GroupsUsed], sums)
	for i := range e.rank {
		if !slices.Contains(used, int32(i/size)) {
			e.rank[i] = float32(math.Inf(-1))
		}
	}
}

// softmax writes the shares of logits to dst, which may be logits.
func softmax(dst, logits []float32) {
	most := slices.Max(logits)
	for i, v := range logits {
		dst[i] = exp32(v - most)
	}
	total := sum(dst)
	for i := range dst {
		dst[i] /= total
	}
}

func sum(x []float32) (total float32) {
	for _, v := range x {
		total += v
	}
	return total
}

// pickTop finds the largest values, largest first, and of equal ones the first.
func pickTop(chosen []int32, largest, values []float32) {
	k := 0
	for x, v := range values {
		at := k
		for at > 0 && v > largest[at-1] {
			at--
		}
		if at == len(chosen) {
			continue
		}
		k = min(k+1, len(chosen))
		copy(chosen[at+1:k], chosen[at:])
		copy(largest[at+1:k], largest[at:])
		chosen[at], largest[at] = int32(x), v
	}
}
