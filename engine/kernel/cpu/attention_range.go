package cpu

import (
	"math"

	"corenode/engine/kernel"
)

// widenFrom is how many queries of a unit pay for converting K and V to float32
// once per range, instead of once per query tile.
const widenFrom = 2 * queryMax

// tileList is what the kernels of one range read, in order: the tiles of K,
// those of V, and what memory is asked for while the last of them are read.
type tileList struct {
	list   [2*rangeTiles + prefetchTiles]*byte
	values int // where V begins; K is there as often as the kernels like
	count  int // tiles of the range
}

// wideRange is a range of K and V converted to float32, codes without their scales.
type wideRange struct {
	k      []float32 // [tile][dim][16], each tile followed by its float16 scales
	v      []float32 // [position][dim]
	scales []float32 // of V: [block][position]
	p      []float32 // probabilities times scales, [queryMax][scoreStride]
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
	start := rng * rangeSize
	p.reset(u.rows*t.group, t.c.shape.dim)
	switch {
	case rng < t.farRanges(u):
		t.wordRange(&w.words, u, start, start+rangeSize, p)
	case t.byBlocks(u.span) && start+rangeSize > u.span.Pos+u.row:
		t.ownRange(w, i, start, p)
	default:
		t.floatRange(w, i, u, 0, start, p)
	}
}

// floatRange computes u, which is unit i or its queries from first on, over the positions of
// one range from start on.
func (t *attendTask) floatRange(w *attendScratch, i int, u *attendUnit, first, start int, p *partial) {
	n, at := u.rows*t.group, u.span.Pos+u.row
	t.listTiles(&w.tiles, i, u, start)
	many := n >= widenFrom && t.b.ops.wideValues != nil
	switch {
	case t.c.cfg.Shared:
		t.widenShared(w)
	case many:
		t.widen(w)
	}
	for m := 0; m < n; m += queryMax {
		height, index := queryHeight(n, m)
		last := min(m+height, n) - 1
		count := min(at+last/t.group+1-start, rangeSize) // positions the tile's last row sees
		if count <= 0 {
			continue
		}
		tiles := roundUp(count, kvTile) / kvTile
		t.scores(w, first+m, index, roundUp(tiles, queryTiles[index]), many)
		t.softmax(w, p, m, last, index, count, at-start)
		if many {
			t.addWide(w, p.out[m*t.c.shape.dim:], count)
		} else {
			t.b.ops.values[t.read()][index](&p.out[m*t.c.shape.dim], &w.scores[0], &w.tiles.list[w.tiles.values], count, t.c.shape.dim)
		}
	}
}

// scores computes the tile of queries from m on against the first tiles of the list.
func (t *attendTask) scores(w *attendScratch, m, index, tiles int, many bool) {
	kv := t.read()
	f := t.b.ops.scores[kv][index]
	switch {
	case many && kv == kernel.KVQ8:
		f = t.b.ops.wideScores
	case many:
		f = t.b.ops.scores[kernel.KVF32][index]
	}
	f(&w.scores[0], &w.q[m*t.c.shape.dim], &w.tiles.list[0], tiles, t.c.shape.dim)
}

// softmax turns scores of queries m to last into probabilities of the first
// count positions of a range; query i sees positions up to visible + i/group.
func (t *attendTask) softmax(w *attendScratch, p *partial, m, last, index, count, visible int) {
	tiles := roundUp(count, kvTile)
	for i := range queryRows[index] {
		row := w.scores[i*scoreStride : i*scoreStride+tiles]
		seen := 0 // earlier rows of the tile may end before this range
		if m+i <= last {
			seen = min(max(visible+(m+i)/t.group+1, 0), count)
		}
		masked, unseen := roundUp(seen, kvTile), 0
		if t.window > 0 {
			unseen = max(visible+(m+i)/t.group+1-t.window, 0)
		}
		if unseen >= seen {
			masked, seen = 0, 0
		}
		if seen > 0 {
			for j := range unseen {
				row[j] = float32(math.Inf(-1))
			}
			for j := seen; j < masked; j++ {
				row[j] = float32(math.Inf(-1))
			}
			t.b.ops.softmax(&row[0], masked, &p.stat[m+i])
		}
		clear(row[masked:])
	}
}

// widen converts the listed tiles, and makes the list of K point there.
func (t *attendTask) widen(w *attendScratch) {
	kv, dim, r, l := t.c.shape.kv, t.c.shape.dim, &w.wide, &w.tiles
	convert, n := t.b.ops.widen[kv], dim*kvTile
	scales := 0 // float32 values that the scales of a half tile take the place of
	if kv == kernel.KVQ8 {
		scales = (t.c.shape.half - n) / 4
	}
	r.k, r.v = grow(r.k, rangeTiles*(n+scales)), grow(r.v, rangeTiles*n)
	for i := range l.count {
		k, v := l.list[i], l.list[l.values+i]
		dst := r.k[i*(n+scales):][:n+scales]
		convert(&dst[0], k, n)
		convert(&r.v[i*n], v, n)
		if scales > 0 {
			copy(asBytes(dst[n:]), bytesAt(k, n, 4*scales))
			t.widenScales(r, i, skip(v, n))
		}
		l.list[i] = bytePtr(dst)
	}
	for i := l.count; i < l.values; i++ {
		l.list[i] = l.list[l.count-1]
	}
}

// widenScales converts the scales of V of tile i.
func (t *attendTask) widenScales(r *wideRange, i int, src *byte) {
	blocks := t.c.shape.dim / kernel.KVBlock
	r.scales, r.p = grow(r.scales, blocks*rangeSize), grow(r.p, queryMax*scoreStride)
	for b := range blocks {
		t.b.ops.widen[kernel.KVF16](&r.scales[b*rangeSize+i*kvTile], skip(src, 2*b*kvTile), kvTile)
	}
}

// addWide adds converted V to the sums of queryMax queries.
func (t *attendTask) addWide(w *attendScratch, dst []float32, count int) {
	r, dim, o := &w.wide, t.c.shape.dim, t.b.ops
	if t.read() != kernel.KVQ8 {
		o.wideValues(&dst[0], &w.scores[0], &r.v[0], count, dim, dim)
		return
	}
	for at := 0; at < dim; at += kernel.KVBlock {
		o.weigh(&r.p[0], &w.scores[0], &r.scales[at/kernel.KVBlock*rangeSize], roundUp(count, kvTile))
		o.wideValues(&dst[at], &r.p[0], &r.v[at], count, kernel.KVBlock, dim)
	}
}

// listTiles lists the tiles of u's range from position start on; u is of unit i. What
// comes after them is the unit's next range, or the unit that this thread
// probably claims next.
func (t *attendTask) listTiles(l *tileList, i int, u *attendUnit, start int) {
	stop := min(start+rangeSize, u.end())
	n := t.appendTiles(l.list[:0], u, start, stop, 0)
	for len(n)%queryTiles[0] != 0 {
		n = append(n, n[len(n)-1])
	}
	l.values = len(n)
	n = t.appendTiles(n, u, start, stop, t.c.shape.size-t.c.shape.half)
	l.count = len(n) - l.values
	full := len(n) + prefetchTiles
	if next := i + t.b.Threads(); stop < u.end() {
		n = t.appendTiles(n, u, stop, min(stop+prefetchTiles*kvTile, u.end()), 0)
	} else if next < len(t.units) {
		u = &t.units[next]
		n = t.appendTiles(n, u, 0, min(prefetchTiles*kvTile, u.end()), 0)
	}
	for len(n) < full {
		n = append(n, n[len(n)-1])
	}
}

// appendTiles lists half tiles of positions start to stop, at bytes after their beginning.
func (t *attendTask) appendTiles(list []*byte, u *attendUnit, start, stop, at int) []*byte {
	size, n := t.c.cfg.PageTokens, t.c.shape.size
	at += t.c.tilesAt(t.layer, u.head)
	for pos := start; pos < stop; {
		page := t.c.page(u.span.Pages[pos/size])
		for end := min(pos-pos%size+size, stop); pos < end; pos += kvTile {
			list = append(list, &page[at+pos%size/kvTile*n])
		}
	}
	return list
}
