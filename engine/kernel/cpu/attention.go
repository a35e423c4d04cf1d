package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// queryBlock is how many queries (rows x heads of one KV head) of a span are
// computed together, so that K and V are read once for all of them.
const queryBlock = 64

// attendUnit is a run of rows of one span and one KV head. Its queries are
// numbered row-major: query i is row i/group, head i%group of the KV head.
type attendUnit struct {
	span *kernel.Span
	row  int // first row within the span
	rows int
	head int // KV head
	part int // split mode: number of the unit's first partial result
}

// ranges is how many attention ranges the unit's last row sees.
func (u *attendUnit) ranges() int { return (u.span.Pos + u.row + u.rows + rangeSize - 1) / rangeSize }

// partial is what queries got from some ranges: out is the sum of exp(s-top)·v,
// total the sum of exp(s-top). total 0 means nothing seen yet.
type partial struct {
	out        []float32 // [queries][dim]
	top, total []float32
}

func (p *partial) resize(queries, dim int) {
	p.out, p.top, p.total = grow(p.out, queries*dim), grow(p.top, queries), grow(p.total, queries)
}

// attendScratch is one thread's memory.
type attendScratch struct {
	q      []float32 // query tiles, [dim][height] each
	scores [queryMax * rangeSize]float32
	part   partial
	sum    partial
	tiles  [rangeTiles]*byte
	stat   [2]float32 // of the last softmax
}

// attendTask is one Attend. When there are too few units for the threads,
// every (unit, range) is a piece of its own and the results are folded
// afterwards: in the same order, so with the same bits.
type attendTask struct {
	b       *Backend
	scratch []attendScratch

	c       *cache
	layer   int
	dst, q  []float32
	heads   int
	group   int // query heads per KV head
	scale   float32
	units   []attendUnit
	pieces  []attendPiece
	parts   []partial
	folding bool
}

// attendPiece is one range of a unit, in split mode.
type attendPiece struct{ unit, rng int }

// Attend implements kernel.Backend.
func (b *Backend) Attend(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads int, scale float32) {
	c, t := kc.(*cache), &b.attend
	n := step.Rows * heads * c.cfg.HeadDim
	t.c, t.layer, t.heads, t.group, t.scale = c, layer, heads, heads/c.cfg.KVHeads, scale
	t.dst, t.q = floats(dst, n), floats(q, n)
	t.plan(step)
	if len(t.pieces) == 0 {
		b.pool.run(len(t.units), t)
		return
	}
	b.pool.run(len(t.pieces), t)
	t.folding = true
	b.pool.run(len(t.units), t)
	t.folding = false
}

// plan lists the units, longest context first within a span, and the pieces
// when the units alone would leave threads idle.
func (t *attendTask) plan(step *kernel.Step) {
	t.units, t.pieces = t.units[:0], t.pieces[:0]
	block := max(queryBlock/t.group, 1)
	ranges := 0
	for i := range step.Spans {
		s := &step.Spans[i]
		for row := (s.Len - 1) / block * block; row >= 0; row -= block {
			for head := range t.c.cfg.KVHeads {
				u := attendUnit{s, row, min(block, s.Len-row), head, ranges}
				ranges += u.ranges()
				t.units = append(t.units, u)
			}
		}
	}
	if t.b.Threads() == 1 || ranges == len(t.units) || len(t.units) >= 4*t.b.Threads() {
		return
	}
	for i := range t.units {
		for r := range t.units[i].ranges() {
			t.pieces = append(t.pieces, attendPiece{i, r})
		}
	}
	for len(t.parts) < len(t.pieces) {
		t.parts = append(t.parts, partial{})
	}
}

// do computes a whole unit, or one piece, or folds the pieces of a unit.
func (t *attendTask) do(worker, i int) {
	w := &t.scratch[worker]
	switch {
	case t.folding:
		u := &t.units[i]
		w.sum.reset(u.rows*t.group, t.c.dim)
		for r := range u.ranges() {
			w.sum.fold(&t.parts[u.part+r], t.c.dim)
		}
		t.finish(u, &w.sum)
	case len(t.pieces) > 0:
		p := t.pieces[i]
		t.loadQueries(w, &t.units[p.unit])
		t.rangeOf(w, &t.units[p.unit], p.rng, &t.parts[i])
	default:
		u := &t.units[i]
		t.loadQueries(w, u)
		w.sum.reset(u.rows*t.group, t.c.dim)
		for r := range u.ranges() {
			t.rangeOf(w, u, r, &w.part)
			w.sum.fold(&w.part, t.c.dim)
		}
		t.finish(u, &w.sum)
	}
}

// reset makes p nothing seen.
func (p *partial) reset(queries, dim int) {
	p.resize(queries, dim)
	clear(p.total)
}

// fold adds the next range to p.
func (p *partial) fold(next *partial, dim int) {
	for m, total := range next.total {
		sum, add := p.out[m*dim:(m+1)*dim], next.out[m*dim:(m+1)*dim]
		switch {
		case total == 0:
		case p.total[m] == 0:
			copy(sum, add)
			p.top[m], p.total[m] = next.top[m], total
		default:
			top := max(p.top[m], next.top[m])
			a, b := exp32(p.top[m]-top), exp32(next.top[m]-top)
			for i, v := range add {
				sum[i] = sum[i]*a + v*b
			}
			p.top[m], p.total[m] = top, p.total[m]*a+total*b
		}
	}
}

// finish writes the unit's rows.
func (t *attendTask) finish(u *attendUnit, p *partial) {
	d, dim := t.c.cfg.HeadDim, t.c.dim
	for m := range p.total {
		inv := 1 / p.total[m]
		row := u.span.Row + u.row + m/t.group
		at := (row*t.heads + u.head*t.group + m%t.group) * d
		for i, v := range p.out[m*dim : m*dim+d] {
			t.dst[at+i] = v * inv
		}
	}
}

// queryHeight is the height of the query tile with left queries to go, and its
// place in queryRows.
func queryHeight(left int) (rows, index int) {
	for i, r := range queryRows {
		if left <= r {
			return r, i
		}
	}
	return queryMax, len(queryRows) - 1
}

// loadQueries scales the unit's queries into tiles [dim][height]; padding is zero.
func (t *attendTask) loadQueries(w *attendScratch, u *attendUnit) {
	d, dim, n := t.c.cfg.HeadDim, t.c.dim, u.rows*t.group
	w.q = grow(w.q, roundUp(n, queryMax)*dim)
	clear(w.q)
	for m := range n {
		first := m / queryMax * queryMax
		height, _ := queryHeight(n - first)
		tile := w.q[first*dim:]
		row := u.span.Row + u.row + m/t.group
		at := (row*t.heads + u.head*t.group + m%t.group) * d
		for i, v := range t.q[at : at+d] {
			tile[i*height+m-first] = v * t.scale
		}
	}
}

// rangeOf computes the unit's queries over one range.
func (t *attendTask) rangeOf(w *attendScratch, u *attendUnit, rng int, p *partial) {
	dim, n := t.c.dim, u.rows*t.group
	p.resize(n+queryMax, dim) // a full tile may hang over
	start := rng * rangeSize
	first := u.span.Pos + u.row
	end := min(start+rangeSize, first+u.rows)
	for i, pos := 0, start; pos < end; i, pos = i+1, pos+kvTile {
		w.tiles[i] = &t.c.tile(t.layer, u.head, u.span.Pages, pos)[0]
	}
	for m := 0; m < n; m += queryMax {
		height, index := queryHeight(n - m)
		last := min(m+height, n) - 1
		count := min(first+last/t.group+1-start, rangeSize) // positions the tile's last row sees
		if count <= 0 {
			clear(p.total[m : last+1])
			continue
		}
		t.queryTile(w, p, m, last, index, count, first-start)
	}
	p.out, p.top, p.total = p.out[:n*dim], p.top[:n], p.total[:n]
}

// queryTile computes queries m to last over the first count positions of a
// range; query i sees positions up to visible + i/group.
func (t *attendTask) queryTile(w *attendScratch, p *partial, m, last, index, count, visible int) {
	dim, kv := t.c.dim, 0
	if t.c.cfg.KVFloat32 {
		kv = 1
	}
	tiles := (count + kvTile - 1) / kvTile
	t.b.ops.scores[kv][index](&w.scores[0], &w.q[m*dim], &w.tiles[0], tiles, dim)
	for i := range queryRows[index] {
		row := w.scores[i*rangeSize : i*rangeSize+tiles*kvTile]
		if m+i > last {
			clear(row)
			continue
		}
		seen := min(max(visible+(m+i)/t.group+1, 0), count)
		if seen == 0 { // earlier rows of the tile may end before this range
			clear(row)
			p.total[m+i] = 0
			continue
		}
		for j := seen; j < len(row); j++ {
			row[j] = float32(math.Inf(-1))
		}
		t.b.ops.softmax(&row[0], len(row), &w.stat)
		p.top[m+i], p.total[m+i] = w.stat[0], w.stat[1]
	}
	t.b.ops.values[kv][index](&p.out[m*dim], &w.scores[0], &w.tiles[0], count, dim, t.c.tileBytes())
}
