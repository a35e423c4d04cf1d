package cpu

import (
	"fmt"
	"slices"

	"corenode/engine/kernel"
)

// cache implements kernel.Cache. Pages and state slots are taken when first
// written; only the step loop touches the tables.
type cache struct {
	of     *Backend
	cfg    kernel.CacheConfig
	dim    int // HeadDim rounded up to kvTile
	elem   int // bytes of a K or V element
	pages  []block
	slots  []slot
	used   int64
	layout stateLayout
}

// slot is the recurrent state of one sequence.
type slot struct {
	mem  block
	conv []float32 // [LinearLayers][ConvKernel-1][ConvDim]
	s    []float32 // [LinearLayers][VHeads][cols/16][StateDim][16]
}

// stateLayout holds sizes of a slot, in float32 values per layer.
type stateLayout struct{ conv, s int }

// NewCache implements kernel.Backend.
func (b *Backend) NewCache(c kernel.CacheConfig) (kernel.Cache, error) {
	sizes := []int{c.Layers, c.KVHeads, c.HeadDim, c.Pages, c.LinearLayers, c.StateSlots, c.ConvDim, c.ConvKernel, c.VHeads, c.StateDim}
	for _, n := range sizes {
		if n < 0 {
			return nil, fmt.Errorf("new cache: negative size in %+v", c)
		}
	}
	if c.HeadDim > headDimMax {
		return nil, fmt.Errorf("new cache: head dimension %d, at most %d", c.HeadDim, headDimMax)
	}
	if c.Layers > 0 && (c.PageTokens < kvTile || c.PageTokens%kvTile != 0) {
		return nil, fmt.Errorf("new cache: %d positions per page, want a multiple of %d", c.PageTokens, kvTile)
	}
	if c.LinearLayers > 0 && c.ConvKernel < 1 {
		return nil, fmt.Errorf("new cache: convolution of %d taps", c.ConvKernel)
	}
	k := &cache{of: b, cfg: c, dim: roundUp(c.HeadDim, kvTile), elem: 2, pages: make([]block, c.Pages), slots: make([]slot, c.StateSlots)}
	if c.KVFloat32 {
		k.elem = 4
	}
	k.layout.conv = (c.ConvKernel - 1) * c.ConvDim
	k.layout.s = c.VHeads * c.StateDim * roundUp(c.StateDim, kvTile)
	b.caches = append(b.caches, k)
	return k, nil
}

// Close implements kernel.Cache.
func (c *cache) Close() {
	c.free()
	c.of.caches = slices.DeleteFunc(c.of.caches, func(o *cache) bool { return o == c })
}

// free gives all memory back.
func (c *cache) free() {
	for i := range c.pages {
		c.pages[i].free()
	}
	for i := range c.slots {
		c.slots[i].mem.free()
	}
	c.pages, c.slots, c.used = nil, nil, 0
}

// tileBytes is the size of the K or the V half of a tile.
func (c *cache) tileBytes() int { return c.dim * kvTile * c.elem }

// page returns the memory of a page, which exists from its first use on.
func (c *cache) page(id int32) []byte {
	p := &c.pages[id]
	if p.b == nil {
		tiles := c.cfg.Layers * c.cfg.KVHeads * (c.cfg.PageTokens / kvTile)
		*p = newBlock(2 * tiles * c.tileBytes())
		c.used += int64(len(p.b))
	}
	return p.b
}

// tile is K and V of the 16 positions around pos, of one layer and KV head.
func (c *cache) tile(layer, head int, pages []int32, pos int) []byte {
	size := c.cfg.PageTokens
	per := size / kvTile
	n := 2 * c.tileBytes()
	at := ((layer*c.cfg.KVHeads+head)*per + pos%size/kvTile) * n
	return c.page(pages[pos/size])[at : at+n : at+n]
}

// state returns a slot, zeroed when it is new.
func (c *cache) state(id int32) *slot {
	s := &c.slots[id]
	if s.mem.b == nil {
		conv, m := roundUp(c.cfg.LinearLayers*c.layout.conv, 16), c.cfg.LinearLayers*c.layout.s
		s.mem = newBlock(4*(conv+m) + 64)
		f := s.mem.floats()
		s.conv, s.s = f[:c.cfg.LinearLayers*c.layout.conv], f[conv:conv+m]
		c.used += int64(len(s.mem.b))
	}
	return s
}

// statePiece is how much of a state a thread copies at once: from this size on,
// copies go past the caches and need not read what they overwrite.
const statePiece = 4 << 20

// ResetState implements kernel.Cache. One thread clears as fast as memory takes
// it, in one piece.
func (c *cache) ResetState(id int32) {
	if c.slots[id].mem.b != nil {
		clear(c.slots[id].mem.b)
		return
	}
	c.state(id) // zero already
}

// CopyState implements kernel.Cache, on all threads when it pays.
func (c *cache) CopyState(dst, src int32) {
	to, from := c.state(dst).mem.b, c.state(src).mem.b
	n := len(to)
	pieces := n / statePiece
	if pieces < 2 {
		copy(to, from)
		return
	}
	c.of.pool.run(pieces, taskFunc(func(_, i int) {
		copy(to[i*n/pieces:(i+1)*n/pieces], from[i*n/pieces:])
	}))
}

// ReleaseState implements kernel.Cache.
func (c *cache) ReleaseState(id int32) {
	s := &c.slots[id]
	c.used -= int64(len(s.mem.b))
	s.mem.free()
	*s = slot{}
}

// BytesUsed implements kernel.Cache.
func (c *cache) BytesUsed() int64 { return c.used }

// storeParallel is the number of rows of a step from which K and V are stored on
// all threads.
const storeParallel = 8

// storeTask is one StoreKV; a unit is one KV head of one span.
type storeTask struct {
	b       *Backend
	c       *cache
	layer   int
	k, v    []float32
	spans   []kernel.Span
	scratch []storeScratch // one per thread
}

// storeScratch holds a head's k and v as float16.
type storeScratch struct{ k, v [headDimMax]uint16 }

// StoreKV implements kernel.Backend.
func (b *Backend) StoreKV(kc kernel.Cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	t, c := &b.store, kc.(*cache)
	width := c.cfg.KVHeads * c.cfg.HeadDim
	t.c, t.layer, t.k, t.v = c, layer, floats(k, step.Rows*width), floats(v, step.Rows*width)
	t.spans = step.Spans
	for _, s := range step.Spans {
		for pos := s.Pos; pos < s.Pos+s.Len; pos += c.cfg.PageTokens - pos%c.cfg.PageTokens {
			c.page(s.Pages[pos/c.cfg.PageTokens]) // threads must find pages, not make them
		}
	}
	units := len(step.Spans) * c.cfg.KVHeads
	if step.Rows >= storeParallel {
		b.pool.run(units, t)
		return
	}
	for i := range units {
		t.do(0, i)
	}
}

// do stores one KV head of one span's rows.
func (t *storeTask) do(worker, i int) {
	heads, d := t.c.cfg.KVHeads, t.c.cfg.HeadDim
	s, h := &t.spans[i/heads], i%heads
	w := &t.scratch[worker]
	for i := range s.Len {
		tile, lane := t.c.tile(t.layer, h, s.Pages, s.Pos+i), (s.Pos+i)%kvTile
		at := ((s.Row+i)*heads + h) * d
		k, v := t.k[at:at+d], t.v[at:at+d]
		if t.c.cfg.KVFloat32 {
			scatter(asFloats(tile), t.c.dim, lane, k, v)
			continue
		}
		t.b.halves(&w.k, k)
		t.b.halves(&w.v, v)
		scatter(asHalves(tile), t.c.dim, lane, w.k[:d], w.v[:d])
	}
}

// halves rounds x to float16, any length up to headDimMax.
func (b *Backend) halves(dst *[headDimMax]uint16, x []float32) {
	body := len(x) &^ 15
	b.ops.toHalf(&dst[0], ptr(x), body)
	for i := body; i < len(x); i++ {
		dst[i] = floatToHalf(x[i])
	}
}

// headDimMax bounds the scratch of a head.
const headDimMax = 1024

// scatter writes k down one column of K [d][16], v into the chunks of V [d/16][16][16].
func scatter[T float32 | uint16](tile []T, dim, lane int, k, v []T) {
	for i, x := range k {
		tile[i*kvTile+lane] = x
	}
	values := tile[dim*kvTile:]
	for i := 0; i < len(v); i += kvTile {
		copy(values[i*kvTile+lane*kvTile:][:kvTile], v[i:min(i+kvTile, len(v))])
	}
}
