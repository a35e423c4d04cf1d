package cpu

import "corenode/engine/kernel"

// Latent attention. Its K is V, in pages as [16][dim] alone. All query heads share one KV head,
// so a range is converted to float32 for any number of queries, and turned for the scores. What
// takes K and V apart, or rounds them, begins there.

// read is the type that the kernels of ranges read.
func (t *attendTask) read() kernel.KVType {
	if t.c.cfg.Shared {
		return kernel.KVF32
	}
	return t.c.shape.kv
}

// widenShared converts the listed tiles of V with their scales, makes those of K of them, and
// makes the list point there.
func (t *attendTask) widenShared(w *attendScratch) {
	dim, r, l := t.c.shape.dim, &w.wide, &w.tiles
	n := dim * kvTile
	r.k, r.v, r.scales = grow(r.k, rangeTiles*n), grow(r.v, rangeTiles*n), grow(r.scales, n/kernel.KVBlock)
	for i := range l.count {
		k, v := r.k[i*n:][:n], r.v[i*n:][:n]
		t.widenRows(v, r.scales, l.list[i])
		t.b.ops.transpose(&k[0], &v[0], 4*dim, dim)
		l.list[i], l.list[l.values+i] = bytePtr(k), bytePtr(v)
	}
	for i := l.count; i < l.values; i++ {
		l.list[i] = l.list[l.count-1]
	}
	for i := l.values + l.count; i < len(l.list); i++ { // nothing is asked for: it would be converted first
		l.list[i] = l.list[l.values]
	}
}

// widenRows converts a tile of V, whose scales are made in scales.
func (t *attendTask) widenRows(v, scales []float32, tile *byte) {
	kv, dim, n, o := t.c.shape.kv, t.c.shape.dim, t.c.shape.dim*kvTile, t.b.ops
	o.widen[kv](&v[0], tile, n)
	if kv != kernel.KVQ8 {
		return
	}
	o.widen[kernel.KVF16](&scales[0], skip(tile, n), n/kernel.KVBlock)
	for at := 0; at < n; at += kernel.KVBlock {
		o.scale(&v[at], &v[at], scales[at%dim/kernel.KVBlock*kvTile+at/dim], kernel.KVBlock)
	}
}

// splitShared is splitBlock: tiles of V become float32 and are turned to be those of K.
func (t *attendTask) splitShared(w *promptScratch, u *attendUnit, start int) {
	o, dim := t.b.ops.prompts, t.c.shape.dim
	n, stop := dim*kvTile, min(start+promptBlock, u.end())
	w.v32, w.k32, w.scales = grow(w.v32, 2*n), grow(w.k32, n), grow(w.scales, n/kernel.KVBlock)
	for pos := start; pos < stop; pos += 2 * kvTile {
		for i := range 2 {
			first, rows := pos+i*kvTile, w.v32[i*n:][:n]
			if first < stop {
				t.widenRows(rows, w.scales, &t.c.tile(t.layer, u.head, u.span.Pages, first)[0])
				t.b.ops.transpose(&w.k32[0], &rows[0], 4*dim, dim)
				o.keys[kernel.KVF32](bytePtr(w.k[(pos-start)*dim+i*pairPart:]), bytePtr(w.k32), dim/32)
			}
			clear(rows[min(max(stop-first, 0), kvTile)*dim:]) // as copyValues does
		}
		o.values[kernel.KVF32](bytePtr(w.v[(pos-start)*dim:]), bytePtr(w.v32), bytePtr(w.v32[n:]), dim)
	}
}

// sharedWords is what wordPositions does with a tile.
func (t *attendTask) sharedWords(w *wordScratch, tile []byte, at int) {
	o, dim := t.b.ops.words, t.c.shape.dim
	t.widenWords(w, tile)
	o.values(bytePtr(w.v[at*dim/2:]), &w.vScales[at], &w.wide[0], &w.times[0], valueLimit, dim/kernel.KVBlock)
	w.turned = grow(w.turned, wordTile*dim)
	t.b.ops.transpose(&w.turned[0], &w.wide[0], 4*dim, dim)
	o.keys(bytePtr(w.k[at*dim/2:]), &w.kScales[at], &w.turned[0], &w.times[0], scoreLimit, dim/kernel.KVBlock)
}

// CopyHeads implements kernel.HeadBackend.
func (b *Backend) CopyHeads(dst, src kernel.Heads, n, heads, d int) {
	out, in := floats(dst.Buffer, n*heads*dst.Width), floats(src.Buffer, n*heads*src.Width)
	for i := range n * heads {
		copy(out[i*dst.Width+dst.At:][:d], in[i*src.Width+src.At:][:d])
	}
}

// headTask is one MatMulHeads; unit i is head i, whose rows are gathered and made tiles of, or
// whose products are brought to their places.
type headTask struct {
	b                *Backend
	w                *weight
	dst, src         kernel.Heads
	n                int
	in, out          []float32 // [heads][n][cols], [heads][n][rows]
	acts             []float32 // activation tiles
	size             int       // bytes of a head's
	quantized, after bool
}

// MatMulHeads implements kernel.HeadBackend.
func (b *Backend) MatMulHeads(dst, src kernel.Heads, n int, kw kernel.Weight) {
	t, w := &b.heads, kw.(*weight)
	heads, rows, cols := w.src.Experts, w.src.Rows, w.src.Cols
	t.w, t.dst, t.src, t.n, t.after = w, dst, src, n, false
	t.quantized = shapes[w.layout].quantized
	t.size = b.ops.actSize(t.quantized, n, cols)
	t.in, t.out, t.acts = grow(t.in, heads*n*cols), grow(t.out, heads*n*rows), grow(t.acts, heads*t.size/4)
	b.pool.run(heads, t)
	b.last = nil // what follows is learned from products of whole rows only
	b.pool.setPrefetch(nil)
	b.mm.jobs = b.mm.jobs[:0]
	for h := range heads {
		dst, act := t.out[h*n*rows:(h+1)*n*rows], skip(bytePtr(t.acts), h*t.size)
		b.mm.jobs = append(b.mm.jobs, matJob{w: w, expert: h, dst: dst, act: act, n: n})
	}
	b.mm.run()
	t.after = true
	b.pool.run(heads, t)
	t.w = nil
}

func (t *headTask) do(worker, h int) {
	heads, rows, cols := t.w.src.Experts, t.w.src.Rows, t.w.src.Cols
	if t.after {
		for i := range t.n {
			to := (i*heads+h)*t.dst.Width + t.dst.At
			copy(t.dst.Buffer.(buffer)[to:to+rows], t.out[(h*t.n+i)*rows:])
		}
		return
	}
	x := t.in[h*t.n*cols : (h+1)*t.n*cols]
	for i := range t.n {
		from := (i*heads+h)*t.src.Width + t.src.At
		copy(x[i*cols:(i+1)*cols], t.src.Buffer.(buffer)[from:])
	}
	q := quantTask{b: t.b, quantized: t.quantized, dst: skip(bytePtr(t.acts), h*t.size), x: x, n: t.n, cols: cols}
	for tile := range q.tiles() {
		q.do(worker, tile)
	}
}
