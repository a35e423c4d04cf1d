package cpu

import "corenode/engine/kernel"

// Latent attention. Its K is V, in pages as [16][dim] alone. All query heads share one KV head,
// so a range is converted to float32 for any number of queries, and turned for the scores.

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
	kv, dim, r, l, o := t.c.shape.kv, t.c.shape.dim, &w.wide, &w.tiles, t.b.ops
	n, blocks := dim*kvTile, dim/kernel.KVBlock
	r.k, r.v, r.scales = grow(r.k, rangeTiles*n), grow(r.v, rangeTiles*n), grow(r.scales, blocks*kvTile)
	for i := range l.count {
		tile, k, v := l.list[i], r.k[i*n:][:n], r.v[i*n:][:n]
		o.widen[kv](&v[0], tile, n)
		if kv == kernel.KVQ8 {
			o.widen[kernel.KVF16](&r.scales[0], skip(tile, n), blocks*kvTile)
			for at := 0; at < n; at += kernel.KVBlock {
				scale := r.scales[at%dim/kernel.KVBlock*kvTile+at/dim]
				o.scale(&v[at], &v[at], scale, kernel.KVBlock)
			}
		}
		o.transpose(&k[0], &v[0], 4*dim, dim)
		l.list[i], l.list[l.values+i] = bytePtr(k), bytePtr(v)
	}
	for i := l.count; i < l.values; i++ {
		l.list[i] = l.list[l.count-1]
	}
	for i := l.values + l.count; i < len(l.list); i++ { // nothing is asked for: it would be converted first
		l.list[i] = l.list[l.values]
	}
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
