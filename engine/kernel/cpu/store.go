package cpu

import "corenode/engine/kernel"

const (
	// headDimMax bounds the scratch of a head.
	headDimMax = 1024
	// storeParallel is the number of rows of a step from which K and V are
	// stored on all threads.
	storeParallel = 8
	// storeRun is how many positions one thread stores at a time: whole tiles, so
	// that no two threads write to the same line.
	storeRun = 4 * kvTile
)

// storeTask is one StoreKV.
type storeTask struct {
	b       *Backend
	c       *cache
	layer   int
	k, v    []float32
	units   []storeUnit
	scratch []storeScratch // one per thread
}

// storeUnit is a run of rows of a span, for one KV head.
type storeUnit struct {
	span      *kernel.Span
	row, rows int
	head      int
}

// storeScratch holds one row of a head: padded, and as it is stored; and K of a
// whole tile.
type storeScratch struct {
	tile   []float32 // [dim][16]
	x      [headDimMax]float32
	halves [headDimMax]uint16
	codes  [headDimMax]byte
	scales [headDimMax / kernel.KVBlock]uint16
}

// StoreKV implements kernel.Backend.
func (b *Backend) StoreKV(kc kernel.Cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	t, c := &b.store, kc.(*cache)
	width := c.cfg.KVHeads * c.cfg.HeadDim
	t.c, t.layer, t.k, t.v = c, layer, floats(k, step.Rows*width), nil
	if !c.cfg.Shared {
		t.v = floats(v, step.Rows*width)
	}
	t.units = t.units[:0]
	for i := range step.Spans {
		t.plan(&step.Spans[i])
	}
	if step.Rows >= storeParallel {
		b.pool.run(len(t.units), t)
		return
	}
	for i := range t.units {
		t.do(0, i)
	}
}

// plan cuts a span into units and makes its pages: threads must find pages, not
// make them.
func (t *storeTask) plan(s *kernel.Span) {
	size := t.c.cfg.PageTokens
	for pos := s.Pos; pos < s.Pos+s.Len; pos += size - pos%size {
		t.c.page(s.Pages[pos/size])
	}
	for head := range t.c.cfg.KVHeads {
		for row := 0; row < s.Len; {
			n := min(storeRun-(s.Pos+row)%storeRun, s.Len-row)
			t.units = append(t.units, storeUnit{s, row, n, head})
			row += n
		}
	}
}

// do stores one unit, whole tiles at a time where they come in rows as wide as they are.
func (t *storeTask) do(worker, i int) {
	u, w, d := &t.units[i], &t.scratch[worker], t.c.cfg.HeadDim
	whole := t.c.shape.kv != kernel.KVQ8 && d == t.c.shape.dim
	for row := u.row; row < u.row+u.rows; {
		pos := u.span.Pos + row
		tile := t.c.tile(t.layer, u.head, u.span.Pages, pos)
		at := ((u.span.Row+row)*t.c.cfg.KVHeads + u.head) * d
		if t.c.cfg.Shared {
			t.row(w, tile, t.k[at:at+d], pos%kvTile, false)
			row++
			continue
		}
		keys, values := tile[:t.c.shape.half], tile[t.c.shape.half:]
		if whole && pos%kvTile == 0 && row+kvTile <= u.row+u.rows {
			t.wholeTile(w, keys, values, at)
			row += kvTile
			continue
		}
		t.row(w, keys, t.k[at:at+d], pos%kvTile, true)
		t.row(w, values, t.v[at:at+d], pos%kvTile, false)
		row++
	}
}

// wholeTile stores 16 rows, the first of which begins at at.
func (t *storeTask) wholeTile(w *storeScratch, keys, values []byte, at int) {
	d, o := t.c.shape.dim, t.b.ops
	width := t.c.cfg.KVHeads * d
	if t.c.shape.kv == kernel.KVF32 {
		o.transpose(ptr(asFloats(keys)), &t.k[at], 4*width, d)
	} else {
		w.tile = grow(w.tile, d*kvTile)
		o.transpose(&w.tile[0], &t.k[at], 4*width, d)
		o.toHalf(&asHalves(keys)[0], &w.tile[0], d*kvTile)
	}
	for lane := range kvTile {
		x := t.v[at+lane*width:][:d]
		if t.c.shape.kv == kernel.KVF32 {
			copy(asFloats(values)[lane*d:], x)
		} else {
			o.toHalf(&asHalves(values)[lane*d], &x[0], d)
		}
	}
}

// row writes x as a position of one half of a tile: down a column of K
// [dim][16], or along a row of V [16][dim].
func (t *storeTask) row(w *storeScratch, half []byte, x []float32, lane int, isK bool) {
	dim := t.c.shape.dim
	if len(x) < dim { // the padding of K meets zeros of queries: it must be finite
		copy(w.x[:], x)
		clear(w.x[len(x):dim])
		x = w.x[:dim]
	}
	switch t.c.shape.kv {
	case kernel.KVF32:
		put(asFloats(half), x, lane, isK)
	case kernel.KVQ8:
		blocks := dim / kernel.KVBlock
		t.b.ops.encodeKV(&w.codes[0], &w.scales[0], ptr(x), blocks)
		put(half, w.codes[:dim], lane, isK)
		scales := asHalves(half[dim*kvTile:])
		for b, s := range w.scales[:blocks] {
			scales[b*kvTile+lane] = s
		}
	default:
		t.b.ops.toHalf(&w.halves[0], ptr(x), dim)
		put(asHalves(half), w.halves[:dim], lane, isK)
	}
}

// put writes one position of a half tile.
func put[T float32 | uint16 | byte](half, x []T, lane int, isK bool) {
	if !isK {
		copy(half[lane*len(x):], x)
		return
	}
	for i, v := range x {
		half[i*kvTile+lane] = v
	}
}
