package cpu

import (
	"fmt"

	"corenode/engine/kernel"
)

// expertScratch is the memory of Experts. A pair is one (row, chosen expert);
// pairs are sorted by expert, so those of one expert are adjacent rows.
type expertScratch struct {
	choice []int32   // [rows][top] experts, best first
	share  []float32 // [rows][top] their weights
	scores []float32 // [experts] of a row
	rank   []float32 // [experts] scores with their bias; -Inf outside of the chosen groups
	groups []float32 // sums of groups, and of one its best
	ids    []int32   // of the best
	place  []int32   // [rows][top] where the pair stands
	row    []int32   // [pairs] row of x
	start  []int32   // [experts+1] first pair of each expert
	gate   []float32 // [pairs][width]
	up     []float32
	down   []float32 // [pairs][Cols of x]
	acts   []float32 // activation tiles of x's pairs
	hidden []float32 // activation tiles of the hidden pairs
	jobs   []actJob
	tiles  expertTiles
	join   expertJoin

	between expertBetween
	after   *prefetchPlan // what follows gate and up; nil until first used
	next    []matJob      // what after was made from
}

// actJob is where the activation tiles of an expert's pairs lie.
type actJob struct {
	expert, first, n int
	at               int // bytes from the first tile
}

// Experts implements kernel.Backend.
func (b *Backend) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	g, u, d := s.Gate.(*weight), s.Up.(*weight), s.Down.(*weight)
	e, experts, top := &b.expert, g.src.Experts, r.Top
	if top < 1 || top > experts {
		panic(fmt.Sprintf("experts: top %d of %d in %s", top, experts, g.src.Name))
	}
	in := floats(x, n*g.src.Cols)
	e.route(floats(logits, n*experts), n, experts, r)
	pairs := n * top
	e.gate, e.up = grow(e.gate, pairs*g.src.Rows), grow(e.up, pairs*g.src.Rows)
	e.down = grow(e.down, pairs*d.src.Rows)

	b.last = nil // what follows the router is another product each time
	quantized := shapes[g.layout].quantized
	b.expertInputs(quantized, in, n, g.src.Cols)
	b.expectDown(d, n)
	if shapes[u.layout].quantized == quantized {
		b.expertRun(e.acts, g, e.gate, u, e.up)
	} else {
		b.expertRun(e.acts, g, e.gate, nil, nil)
		b.expertInputs(!quantized, in, n, g.src.Cols)
		b.expertRun(e.acts, u, e.up, nil, nil)
	}
	e.between = expertBetween{e.bias(s.GateBias, g), e.bias(s.UpBias, u), s.Limit, s.Alpha}
	b.expertHidden(shapes[d.layout].quantized, d.src.Cols)
	if n <= prefetchRows && b.prefetches() {
		b.expectAfter(d, n)
	}
	b.expertRun(e.hidden, d, e.down, nil, nil)
	e.join = expertJoin{b, floats(dst, n*d.src.Rows), d.src.Rows, top, e.bias(s.DownBias, d)}
	if n*d.src.Rows < vectorParallel {
		for i := range n {
			e.join.do(0, i)
		}
		return
	}
	b.pool.run(n, &e.join)
}

// expectDown tells the pool that the down matrices of the touched experts
// follow.
func (b *Backend) expectDown(d *weight, n int) {
	if !b.prefetches() {
		return
	}
	if n > prefetchRows {
		b.pool.setPrefetch(nil)
		return
	}
	e := &b.expert
	if e.after == nil {
		e.after = b.newPrefetchPlan()
	}
	e.next = e.next[:0]
	for _, j := range e.jobs {
		e.next = append(e.next, matJob{w: d, expert: j.expert, n: j.n})
	}
	b.beginWith(e.after, e.next)
	b.pool.setPrefetch(e.after)
}

// expertJoin is the weighted sum of each row's experts, best first; unit i is row i.
type expertJoin struct {
	b     *Backend
	out   []float32
	width int
	top   int
	bias  []float32 // of the experts; nil without
}

func (j *expertJoin) do(_, row int) {
	e, dst := &j.b.expert, j.out[row*j.width:(row+1)*j.width]
	clear(dst)
	for k := range j.top {
		at := int(e.place[row*j.top+k]) * j.width
		j.b.addScaledRow(dst, e.down[at:at+j.width], e.share[row*j.top+k])
		if j.bias != nil {
			at = int(e.choice[row*j.top+k]) * j.width
			j.b.addScaledRow(dst, j.bias[at:at+j.width], e.share[row*j.top+k])
		}
	}
}

// expertTiles makes the activation tiles of every job; unit i is job i.
type expertTiles struct {
	b         *Backend
	quantized bool
	out       *byte
	x         []float32 // inputs; nil makes the hidden values, silu(gate)·up, and their tiles
	cols      int
}

func (t *expertTiles) do(worker, i int) {
	e := &t.b.expert
	j := &e.jobs[i]
	q := quantTask{b: t.b, quantized: t.quantized, dst: skip(t.out, j.at), x: t.x, n: j.n, cols: t.cols}
	if t.x != nil {
		q.index = e.row[j.first : j.first+j.n]
	} else {
		gate, up := e.gate[j.first*t.cols:(j.first+j.n)*t.cols], e.up[j.first*t.cols:(j.first+j.n)*t.cols]
		for at := 0; at < len(gate); at += t.cols {
			e.between.prepare(gate[at:at+t.cols], up[at:at+t.cols], j.expert)
			t.b.siluMulRow(gate[at:at+t.cols], gate[at:at+t.cols], up[at:at+t.cols])
		}
		q.x = gate
	}
	for tile := range q.tiles() {
		q.do(worker, tile)
	}
}

// expertBetween is what is done to the products of gate and up before one's SiLU is
// multiplied by the other.
type expertBetween struct {
	gate, up     []float32 // biases of the experts; nil without
	limit, alpha float32
}

// bias is the memory of the biases of all experts.
func (*expertScratch) bias(b kernel.Buffer, w *weight) []float32 {
	if b == nil {
		return nil
	}
	return floats(b, w.src.Experts*w.src.Rows)
}

// prepare adds biases and takes limits. Of the limited form, (u+1)·g·sigmoid(alpha·g), it makes
// silu(alpha·g)·(u+1)/alpha.
func (t *expertBetween) prepare(gate, up []float32, expert int) {
	if t.gate != nil {
		for i, b := range t.gate[expert*len(gate) : (expert+1)*len(gate)] {
			gate[i] += b
			up[i] += t.up[expert*len(gate)+i]
		}
	}
	if t.limit != 0 {
		for i, g := range gate {
			gate[i] = min(g, t.limit) * t.alpha
			up[i] = (max(-t.limit, min(up[i], t.limit)) + 1) / t.alpha
		}
	}
}

// expertInputs makes the tiles of the inputs of all pairs. A single row serves
// all its experts.
func (b *Backend) expertInputs(quantized bool, x []float32, n, cols int) {
	e := &b.expert
	if n > 1 {
		e.tiles = expertTiles{b, quantized, b.placeTiles(&e.acts, quantized, cols), x, cols}
		b.pool.run(len(e.jobs), &e.tiles)
		return
	}
	e.acts = grow(e.acts, b.ops.actSize(quantized, 1, cols)/4)
	for i := range e.jobs {
		e.jobs[i].at = 0
	}
	b.makeTiles(quantized, bytePtr(e.acts), x, 1, cols)
}

// expertHidden makes the hidden values of all pairs and their tiles.
func (b *Backend) expertHidden(quantized bool, cols int) {
	e := &b.expert
	e.tiles = expertTiles{b, quantized, b.placeTiles(&e.hidden, quantized, cols), nil, cols}
	b.pool.run(len(e.jobs), &e.tiles)
}

// placeTiles makes room for the tiles of all jobs.
func (b *Backend) placeTiles(dst *[]float32, quantized bool, cols int) *byte {
	e, size := &b.expert, 0
	for i := range e.jobs {
		e.jobs[i].at = size
		size += b.ops.actSize(quantized, e.jobs[i].n, cols)
	}
	*dst = grow(*dst, size/4)
	return bytePtr(*dst)
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
