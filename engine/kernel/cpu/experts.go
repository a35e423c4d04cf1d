package cpu

import (
	"fmt"

	"corenode/engine/kernel"
)

// expertScratch is the memory of Experts. A pair is one (row, chosen expert);
// pairs are sorted by expert, so those of one expert are adjacent rows.
type expertScratch struct {
	choice []int32   // [rows][top] experts, best first
	share  []float32 // [rows][top] their weights, which sum to 1
	place  []int32   // [rows][top] where the pair stands
	row    []int32   // [pairs] row of x
	start  []int32   // [experts+1] first pair of each expert
	gate   []float32 // [pairs][width]
	up     []float32
	down   []float32 // [pairs][Cols of x]
	acts   []float32 // activation tiles of x's pairs
	hidden []float32 // activation tiles of the hidden pairs
	jobs   []actJob
}

// actJob is where the activation tiles of an expert's pairs lie.
type actJob struct {
	expert, first, n int
	at               int // bytes from the first tile
}

// Experts implements kernel.Backend. Equal logits prefer the lower expert.
func (b *Backend) Experts(dst, x, logits kernel.Buffer, n int, gate, up, down kernel.Weight, top int) {
	g, u, d := gate.(*weight), up.(*weight), down.(*weight)
	e, experts := &b.expert, g.src.Experts
	if top < 1 || top > experts {
		panic(fmt.Sprintf("experts: top %d of %d in %s", top, experts, g.src.Name))
	}
	in := floats(x, n*g.src.Cols)
	e.route(floats(logits, n*experts), n, experts, top)
	pairs := n * top
	e.gate, e.up = grow(e.gate, pairs*g.src.Rows), grow(e.up, pairs*g.src.Rows)
	e.down = grow(e.down, pairs*d.src.Rows)

	quantized := shapes[g.layout].quantized
	b.expertActs(&e.acts, quantized, in, e.row, g.src.Cols)
	if shapes[u.layout].quantized == quantized {
		b.expertRun(e.acts, g, e.gate, u, e.up)
	} else {
		b.expertRun(e.acts, g, e.gate, nil, nil)
		b.expertActs(&e.acts, !quantized, in, e.row, g.src.Cols)
		b.expertRun(e.acts, u, e.up, nil, nil)
	}
	b.eachRow(pairs, g.src.Rows, func(i int) {
		row := e.gate[i*g.src.Rows : (i+1)*g.src.Rows]
		b.siluMulRow(row, row, e.up[i*g.src.Rows:(i+1)*g.src.Rows])
	})
	b.expertActs(&e.hidden, shapes[d.layout].quantized, e.gate, nil, d.src.Cols)
	b.expertRun(e.hidden, d, e.down, nil, nil)

	out := floats(dst, n*d.src.Rows)
	b.eachRow(n, d.src.Rows, func(i int) { b.combine(out[i*d.src.Rows:(i+1)*d.src.Rows], i, top) })
}

// combine is the weighted sum of a row's experts, best first.
func (b *Backend) combine(dst []float32, row, top int) {
	e := &b.expert
	clear(dst)
	for k := range top {
		at := int(e.place[row*top+k]) * len(dst)
		b.addScaledRow(dst, e.down[at:at+len(dst)], e.share[row*top+k])
	}
}

// route picks the experts of every row and sorts the pairs by expert.
func (e *expertScratch) route(logits []float32, n, experts, top int) {
	e.choice, e.place, e.row = growInts(e.choice, n*top), growInts(e.place, n*top), growInts(e.row, n*top)
	e.share, e.start = grow(e.share, n*top), growInts(e.start, experts+1)
	clear(e.start)
	for i := range n {
		chosen, share := e.choice[i*top:(i+1)*top], e.share[i*top:(i+1)*top]
		pickTop(chosen, share, logits[i*experts:(i+1)*experts])
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

// pickTop finds the largest logits, best first, and their softmax: a softmax
// over all, renormalised over the chosen, is the softmax of the chosen.
func pickTop(chosen []int32, share, logits []float32) {
	k := 0
	for x, v := range logits {
		at := k
		for at > 0 && v > share[at-1] {
			at--
		}
		if at == len(chosen) {
			continue
		}
		k = min(k+1, len(chosen))
		copy(chosen[at+1:k], chosen[at:])
		copy(share[at+1:k], share[at:])
		chosen[at], share[at] = int32(x), v
	}
	var total float32
	best := share[0]
	for i, v := range share {
		share[i] = exp32(v - best)
		total += share[i]
	}
	for i := range share {
		share[i] /= total
	}
}

// expertActs makes the activation tiles of all pairs; pair i is row index[i]
// of x, or row i without index.
func (b *Backend) expertActs(dst *[]float32, quantized bool, x []float32, index []int32, cols int) {
	e := &b.expert
	size := 0
	for i := range e.jobs {
		e.jobs[i].at = size
		size += b.ops.actSize(quantized, e.jobs[i].n, cols)
	}
	*dst = grow(*dst, size/4)
	out := bytePtr(*dst)
	b.pool.run(len(e.jobs), taskFunc(func(worker, i int) {
		j := &e.jobs[i]
		t := quantTask{b: b, quantized: quantized, dst: skip(out, j.at), n: j.n, cols: cols}
		if t.x = x; index != nil {
			t.index = index[j.first : j.first+j.n]
		} else {
			t.x = x[j.first*cols:]
		}
		for tile := range t.tiles() {
			t.do(worker, tile)
		}
	}))
}

// expertRun multiplies the tiles with one or two weights of every touched expert.
func (b *Backend) expertRun(acts []float32, w *weight, dst []float32, w2 *weight, dst2 []float32) {
	t := &b.mm
	t.jobs = t.jobs[:0]
	rows := w.src.Rows
	for _, j := range b.expert.jobs {
		act, low, high := skip(bytePtr(acts), j.at), j.first*rows, (j.first+j.n)*rows
		t.jobs = append(t.jobs, matJob{w: w, expert: j.expert, dst: dst[low:high], act: act, n: j.n})
		if w2 != nil {
			t.jobs = append(t.jobs, matJob{w: w2, expert: j.expert, dst: dst2[low:high], act: act, n: j.n})
		}
	}
	t.run()
}

func growInts(s []int32, n int) []int32 {
	if cap(s) >= n {
		return s[:n]
	}
	return make([]int32, n)
}
