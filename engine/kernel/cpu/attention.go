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
	from int // the first range that a row sees
	part int // number of the unit's first piece in the wave
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
	near   partial
	tiles  tileList
	wide   wideRange
	prompt promptScratch
	words  wordScratch
}

// attendTask is one Attend. When there are too few units for the threads,
// every (unit, range) is a piece of its own and the results are folded
// afterwards: in the same order, so with the same bits. That goes by waves of
// ranges, since the results of all ranges of a long context are many times as
// large as what they become.
type attendTask struct {
	b         *Backend
	scratch   []attendScratch
	floatsMax int // of the results of a wave, unless threads would be idle

	c       *cache
	layer   int
	dst, q  []float32
	heads   int
	group   int // query heads per KV head
	window  int // positions that a row sees; 0 is all
	scale   float32
	sinks   []float32 // of the heads; nil without
	units   []attendUnit
	wave    int           // ranges of a wave; 0 when a unit is computed as a whole
	first   int           // range of the wave
	pieces  []attendPiece // of the wave
	parts   []partial     // their results
	sums    []partial     // of the units, from the waves before
	folding bool
	prompts []attendUnit // that are computed on matrix tiles
}

// attendPiece is one range of a unit, in split mode.
type attendPiece struct{ unit, rng int }

// Attend implements kernel.Backend.
func (b *Backend) Attend(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads, window int, scale float32,
	sinks kernel.Buffer) {
	c, t := kc.(*cache), &b.attend
	n := step.Rows * heads * c.cfg.HeadDim
	t.c, t.layer, t.heads, t.group, t.window, t.scale = c, layer, heads, heads/c.cfg.KVHeads, window, scale
	t.dst, t.q, t.sinks = floats(dst, n), floats(q, n), nil
	if sinks != nil {
		t.sinks = floats(sinks, heads)
	}
	t.plan(step)
	t.generated()
	t.planPrompts(step)
	b.pool.run(len(t.prompts), (*promptTask)(t))
}

// generated computes the spans that are not computed on matrix tiles.
func (t *attendTask) generated() {
	if t.wave == 0 {
		t.b.pool.run(len(t.units), t)
		return
	}
	from, end := t.units[0].from, 0
	for i := range t.units {
		from, end = min(from, t.units[i].from), max(end, t.units[i].ranges())
	}
	for t.first = from; t.first < end; t.first += t.wave {
		t.planWave()
		t.folding = false
		t.b.pool.run(len(t.pieces), t)
		t.folding = true
		t.b.pool.run(len(t.units), t)
	}
}

// attendFloats is the usual floatsMax: 32 MiB.
const attendFloats = 8 << 20

// plan lists the units, longest context first within a span, and decides on
// waves when the units alone would leave threads idle.
func (t *attendTask) plan(step *kernel.Step) {
	t.units, t.wave = t.units[:0], 0
	ranges, queries := 0, 0 // of all units, of the largest
	for i := range step.Spans {
		s := &step.Spans[i]
		if t.tiled(s) {
			continue
		}
		block := t.unitRows(s)
		for row := (s.Len - 1) / block * block; row >= 0; row -= block {
			for from, end := row, 0; from < min(row+block, s.Len); from = end {
				end = min(row+block, s.Len, t.unitEnd(s, from))
				for head := range t.c.cfg.KVHeads {
					u := attendUnit{span: s, row: from, rows: end - from, head: head}
					u.from = t.begins(&u, 0) / rangeSize
					ranges, queries = ranges+u.ranges()-u.from, max(queries, u.rows*t.group)
					t.units = append(t.units, u)
				}
			}
		}
	}
	threads := t.b.Threads()
	if threads == 1 || ranges == len(t.units) || len(t.units) >= 4*threads {
		return
	}
	least := (4*threads + len(t.units) - 1) / len(t.units)
	t.wave = max(t.floatsMax/(len(t.units)*wholeTiles(queries)*t.c.shape.dim), least)
	for len(t.sums) < len(t.units) {
		t.sums = append(t.sums, partial{})
	}
}

// begins is the first position that a row of a unit sees.
func (t *attendTask) begins(u *attendUnit, row int) int {
	if t.window == 0 {
		return 0
	}
	return max(0, u.span.Pos+u.row+row+1-t.window)
}

// planWave lists the pieces of the wave.
func (t *attendTask) planWave() {
	t.pieces = t.pieces[:0]
	for i := range t.units {
		u := &t.units[i]
		u.part = len(t.pieces)
		for r := max(t.first, u.from); r < min(t.first+t.wave, u.ranges()); r++ {
			t.pieces = append(t.pieces, attendPiece{i, r})
		}
	}
	for len(t.parts) < len(t.pieces) {
		t.parts = append(t.parts, partial{})
	}
}

// foldWave adds the wave's ranges of unit i to those before, and writes the
// unit's rows after the last one.
func (t *attendTask) foldWave(i int) {
	u, sum := &t.units[i], &t.sums[i]
	first, end := max(t.first, u.from), min(t.first+t.wave, u.ranges())
	for r := first; r < end; r++ {
		part := &t.parts[u.part+r-first]
		if r == u.from {
			*sum, *part = *part, *sum
		} else {
			t.fold(sum, part)
		}
	}
	if first < end && end == u.ranges() {
		t.finish(u, sum)
	}
}

// do computes a whole unit, or one piece, or folds the pieces of a unit.
func (t *attendTask) do(worker, i int) {
	w := &t.scratch[worker]
	if w.scores == nil {
		w.scores = grow(nil, queryMax*scoreStride)
	}
	switch {
	case t.wave > 0 && t.folding:
		t.foldWave(i)
	case t.wave > 0:
		p := t.pieces[i]
		t.loadQueries(w, &t.units[p.unit])
		t.rangeOf(w, p.unit, p.rng, &t.parts[i])
	default:
		t.loadQueries(w, &t.units[i])
		from := t.units[i].from
		t.rangeOf(w, i, from, &w.sum)
		for r := from + 1; r < t.units[i].ranges(); r++ {
			t.rangeOf(w, i, r, &w.part)
			t.fold(&w.sum, &w.part)
		}
		t.finish(&t.units[i], &w.sum)
	}
}

// fold adds the next range to p. What a row of a window does not see is empty.
func (t *attendTask) fold(p, next *partial) {
	dim := t.c.shape.dim
	for m := range next.stat {
		switch {
		case next.stat[m][1] == 0:
		case p.stat[m][1] == 0:
			copy(p.out[m*dim:(m+1)*dim], next.out[m*dim:])
			p.stat[m] = next.stat[m]
		default:
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
		at, sum := t.place(u, m), p.stat[m][1]
		if t.sinks != nil {
			sum += exp32(t.sinks[u.head*t.group+m%t.group] - p.stat[m][0])
		}
		t.scaled(t.dst[at:at+d], p.out[m*dim:m*dim+d], 1/sum)
	}
}

// loadQueries scales the unit's queries; padding is zero.
func (t *attendTask) loadQueries(w *attendScratch, u *attendUnit) {
	d, dim, n := t.c.cfg.HeadDim, t.c.shape.dim, u.rows*t.group
	w.q = grow(w.q, (roundUp(n, wordTile)+queryMax)*dim) // the last tile hangs over
	for m := range n {
		at, row := t.place(u, m), w.q[m*dim:(m+1)*dim]
		t.scaled(row[:d], t.q[at:at+d], t.scale)
		clear(row[d:])
	}
	clear(w.q[n*dim:])
	if t.farRanges(u) > 0 || t.byBlocks(u.span) {
		t.roundQueries(w, n)
	}
}
