package cpu

import (
	"math"
	"unsafe"

	"corenode/engine/kernel"
)

// queryBlock is how many queries (rows x heads of one KV head) of a span are
// computed together, so that K and V are read once for all of them: whole
// query tiles for the usual numbers of heads.
const queryBlock = 96

// widenFrom is how many queries of a unit pay for converting K and V to float32
// once per range, instead of once per query tile.
const widenFrom = 2 * queryMax

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
	wide   []float32 // half tiles of a range as float32
}

// tileList is what the kernels of one range read, in order: the tiles of K,
// those of V, and what memory is asked for while the last of them are read.
type tileList struct {
	list   [2*rangeTiles + tilesAhead]*byte
	values int // where V begins; K is there as often as the kernels like
	count  int // tiles of the range
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

// queryHeight is the height of the tile at query m of n, and its place in
// queryRows.
func queryHeight(n, m int) (rows, index int) {
	for i, r := range queryRows {
		if n-m <= r && n < widenFrom {
			return r, i
		}
	}
	return queryMax, len(queryRows) - 1
}

// wholeTiles is n queries and what their last tile hangs over.
func wholeTiles(n int) int {
	full := n / queryMax * queryMax
	if full == n {
		return n
	}
	height, _ := queryHeight(n, full)
	return full + height
}

// rangeOf computes the queries of unit i over one range into p.
func (t *attendTask) rangeOf(w *attendScratch, i, rng int, p *partial) {
	u := &t.units[i]
	n, start, first := u.rows*t.group, rng*rangeSize, u.span.Pos+u.row
	p.reset(n, t.c.shape.dim)
	t.listTiles(&w.tiles, i, start)
	if n >= widenFrom {
		t.widen(w)
	}
	for m := 0; m < n; m += queryMax {
		height, index := queryHeight(n, m)
		last := min(m+height, n) - 1
		count := min(first+last/t.group+1-start, rangeSize) // positions the tile's last row sees
		if count > 0 {
			t.queryTile(w, p, m, last, index, count, first-start)
		}
	}
}

// queryTile computes queries m to last over the first count positions of a
// range; query i sees positions up to visible + i/group.
func (t *attendTask) queryTile(w *attendScratch, p *partial, m, last, index, count, visible int) {
	dim := t.c.shape.dim
	scores, values := t.kernels(len(p.stat) >= widenFrom, index)
	tiles := roundUp(count, kvTile)
	scores(&w.scores[0], &w.q[m*dim], &w.tiles.list[0], roundUp(tiles/kvTile, queryTiles[index]), dim)
	for i := range queryRows[index] {
		row := w.scores[i*scoreStride : i*scoreStride+tiles]
		seen := 0 // earlier rows of the tile may end before this range
		if m+i <= last {
			seen = min(max(visible+(m+i)/t.group+1, 0), count)
		}
		if masked := roundUp(seen, kvTile); seen > 0 {
			for j := seen; j < masked; j++ {
				row[j] = float32(math.Inf(-1))
			}
			t.b.ops.softmax(&row[0], masked, &p.stat[m+i])
			clear(row[masked:])
		} else {
			clear(row)
		}
	}
	values(&p.out[m*dim], &w.scores[0], &w.tiles.list[w.tiles.values], count, dim)
}

// kernels are those for query tiles of an index in queryRows, of units with
// enough queries to convert K and V or not.
func (t *attendTask) kernels(many bool, index int) (scoresFunc, valuesFunc) {
	o, kv := t.b.ops, t.c.shape.kv
	if many && o.widen[kv] != nil {
		if kv == kernel.KVQ8 {
			return o.wideScores, o.wideValues
		}
		kv = kernel.KVF32
	}
	return o.scores[kv][index], o.values[kv][index]
}

// widen replaces the listed tiles by their elements as float32, scales after them.
func (t *attendTask) widen(w *attendScratch) {
	convert, n := t.b.ops.widen[t.c.shape.kv], t.c.shape.dim*kvTile
	if convert == nil {
		return
	}
	scales := 0 // bytes
	if t.c.shape.kv == kernel.KVQ8 {
		scales = t.c.shape.half - n
	}
	size := n + scales/4
	w.wide = grow(w.wide, 2*rangeTiles*size)
	l := &w.tiles
	for i := range l.count {
		for h, at := range [2]int{i, l.values + i} {
			dst := w.wide[(h*rangeTiles+i)*size:][:size]
			convert(&dst[0], l.list[at], n)
			if scales > 0 {
				copy(asBytes(dst[n:]), unsafe.Slice(skip(l.list[at], n), scales))
			}
			l.list[at] = bytePtr(dst)
		}
	}
	for i := l.count; i < l.values; i++ {
		l.list[i] = l.list[l.count-1]
	}
}

// listTiles lists the tiles of unit i's range from position start on. What
// comes after them is the unit's next range, or the unit that this thread
// probably claims next.
func (t *attendTask) listTiles(l *tileList, i, start int) {
	u := &t.units[i]
	stop := min(start+rangeSize, u.end())
	n := t.appendTiles(l.list[:0], u, start, stop, 0)
	for len(n)%queryTiles[0] != 0 {
		n = append(n, n[len(n)-1])
	}
	l.values = len(n)
	n = t.appendTiles(n, u, start, stop, t.c.shape.half)
	l.count = len(n) - l.values
	full := len(n) + tilesAhead
	if next := i + t.b.Threads(); stop < u.end() {
		n = t.appendTiles(n, u, stop, min(stop+tilesAhead*kvTile, u.end()), 0)
	} else if next < len(t.units) {
		u = &t.units[next]
		n = t.appendTiles(n, u, 0, min(tilesAhead*kvTile, u.end()), 0)
	}
	for len(n) < full {
		n = append(n, n[len(n)-1])
	}
}

// appendTiles lists half tiles of positions start to stop, at bytes after their beginning.
func (t *attendTask) appendTiles(list []*byte, u *attendUnit, start, stop, at int) []*byte {
	size, n := t.c.cfg.PageTokens, 2*t.c.shape.half
	at += t.c.tilesAt(t.layer, u.head)
	for pos := start; pos < stop; {
		page := t.c.page(u.span.Pages[pos/size])
		for end := min(pos-pos%size+size, stop); pos < end; pos += kvTile {
			list = append(list, &page[at+pos%size/kvTile*n])
		}
	}
	return list
}
