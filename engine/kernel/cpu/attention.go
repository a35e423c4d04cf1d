package cpu

import (
	"corenode/engine/kernel"
)

// queryBlock is how many queries (rows x heads of one KV head) of a span are
// computed together, so that K and V are read once for all of them: whole
// query tiles for the usual numbers of heads.
const queryBlock = 192

// attendUnit is a run of rows of one span and one KV head. Its queries are
// numbered row-major: query i is row i/group, head i%group of the KV head.
type attendUnit struct {
	span *kernel.Span
	row  int // first row within the span
	rows int
	head int // KV head
	part int // split mode: number of the unit's first partial result
}

// end is how many positions the unit's last row sees.
func (u *attendUnit) end() int { return u.span.Pos + u.row + u.rows }

// ranges is how many attention ranges the unit's last row sees.
func (u *attendUnit) ranges() int { return (u.end() + rangeSize - 1) / rangeSize }

// partial is what queries got from some ranges: out is the sum of exp(s-top)·v,
// stat is top and the sum of exp(s-top). A sum of 0 means nothing seen.
type partial struct {
	out  []float32 // [queries of whole tiles][dim]
	stat [][2]float32
}

// reset makes p the sum of nothing.
func (p *partial) reset(queries, dim int) {
	p.out = grow(p.out, wholeTiles(queries)*dim)
	clear(p.out)
	if cap(p.stat) < queries {
		p.stat = make([][2]float32, queries)
	}
	p.stat = p.stat[:queries]
	clear(p.stat)
}

// attendScratch is one thread's memory.
type attendScratch struct {
	q      []float32 // [queries][dim], scaled
	scores []float32 // [queryMax][scoreStride]
	part   partial
	sum    partial
	tiles  tileList
	wide   wideRange
	prompt promptScratch
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
	prompts []attendUnit // that are computed on matrix tiles
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
	t.generated()
	t.planPrompts(step)
	b.pool.run(len(t.prompts), (*promptTask)(t))
}

// generated computes the spans that are not computed on matrix tiles.
func (t *attendTask) generated() {
	b := t.b
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
		if t.b.tiled(s) {
			continue
		}
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
	if w.scores == nil {
		w.scores = grow(nil, queryMax*scoreStride)
	}
	switch {
	case t.folding:
		u := &t.units[i]
		first := &t.parts[u.part]
		for r := 1; r < u.ranges(); r++ {
			t.fold(first, &t.parts[u.part+r])
		}
		t.finish(u, first)
	case len(t.pieces) > 0:
		p := t.pieces[i]
		t.loadQueries(w, &t.units[p.unit])
		t.rangeOf(w, p.unit, p.rng, &t.parts[i])
	default:
		t.loadQueries(w, &t.units[i])
		t.rangeOf(w, i, 0, &w.sum)
		for r := 1; r < t.units[i].ranges(); r++ {
			t.rangeOf(w, i, r, &w.part)
			t.fold(&w.sum, &w.part)
		}
		t.finish(&t.units[i], &w.sum)
	}
}

// fold adds the next range to p; the first range is never empty.
func (t *attendTask) fold(p, next *partial) {
	dim := t.c.shape.dim
	for m := range next.stat {
		if next.stat[m][1] != 0 {
			t.b.ops.fold(&p.out[m*dim], &p.stat[m], &next.out[m*dim], &next.stat[m], dim)
		}
	}
}

// place is where query m of a unit lies in rows of q and dst.
func (t *attendTask) place(u *attendUnit, m int) int {
	row := u.span.Row + u.row + m/t.group
	return (row*t.heads + u.head*t.group + m%t.group) * t.c.cfg.HeadDim
}

// scaled is dst = x·scale, any length.
func (t *attendTask) scaled(dst, x []float32, scale float32) {
	body := len(x) &^ 15
	t.b.ops.scale(ptr(dst), ptr(x), scale, body)
	for i := body; i < len(x); i++ {
		dst[i] = x[i] * scale
	}
}

// finish writes the unit's rows.
func (t *attendTask) finish(u *attendUnit, p *partial) {
	d, dim := t.c.cfg.HeadDim, t.c.shape.dim
	for m := range p.stat {
		at := t.place(u, m)
		t.scaled(t.dst[at:at+d], p.out[m*dim:m*dim+d], 1/p.stat[m][1])
	}
}

// loadQueries scales the unit's queries; padding is zero.
func (t *attendTask) loadQueries(w *attendScratch, u *attendUnit) {
	d, dim, n := t.c.cfg.HeadDim, t.c.shape.dim, u.rows*t.group
	w.q = grow(w.q, wholeTiles(n)*dim)
	for m := range n {
		at, row := t.place(u, m), w.q[m*dim:(m+1)*dim]
		t.scaled(row[:d], t.q[at:at+d], t.scale)
		clear(row[d:])
	}
	clear(w.q[n*dim:])
}
