package ref

import (
	"fmt"
	"math"

	"corenode/engine/kernel"
)

// cache holds pages and states in maps, so memory is taken when first touched.
type cache struct {
	cfg    kernel.CacheConfig
	pages  map[int32][]float32
	states map[int32]*state
}

// state is what the linear layers of one sequence carry.
type state struct {
	conv []float32 // [LinearLayers][ConvKernel-1][ConvDim], oldest input first
	s    []float32 // [LinearLayers][VHeads][dk][dv]
}

// NewCache implements kernel.Backend.
func (*Backend) NewCache(c kernel.CacheConfig) (kernel.Cache, error) {
	if c.Layers < 0 || c.KVHeads < 0 || c.HeadDim < 0 || c.PageTokens < 1 || c.Pages < 0 || c.LinearLayers < 0 || c.StateSlots < 0 ||
		c.HostSlots < 0 {
		return nil, fmt.Errorf("new cache: negative size in %+v", c)
	}
	return &cache{cfg: c, pages: map[int32][]float32{}, states: map[int32]*state{}}, nil
}

// stored is how many of K and V a cache has.
func stored(c kernel.CacheConfig) int {
	if c.Shared {
		return 1
	}
	return 2
}

// page returns the memory of a page: [Layers][K, V][PageTokens][KVHeads*HeadDim].
func (c *cache) page(id int32) []float32 {
	if id < 0 || int(id) >= c.cfg.Pages {
		panic(fmt.Sprintf("page %d of a pool of %d", id, c.cfg.Pages))
	}
	p := c.pages[id]
	if p == nil {
		p = make([]float32, c.cfg.Layers*stored(c.cfg)*c.cfg.PageTokens*c.cfg.KVHeads*c.cfg.HeadDim)
		c.pages[id] = p
	}
	return p
}

// row is the K (kv 0) or V (kv 1) row of a position, all KV heads.
func (c *cache) row(layer, kv int, pages []int32, pos int) []float32 {
	width, size := c.cfg.KVHeads*c.cfg.HeadDim, c.cfg.PageTokens
	n := stored(c.cfg)
	at := ((layer*n+kv%n)*size + pos%size) * width
	return c.page(pages[pos/size])[at : at+width]
}

// state returns the memory of a slot, zeroed when it is new.
func (c *cache) state(slot int32) *state {
	if slot < 0 || int(slot) >= c.cfg.StateSlots+c.cfg.HostSlots {
		panic(fmt.Sprintf("state slot %d of %d", slot, c.cfg.StateSlots+c.cfg.HostSlots))
	}
	s := c.states[slot]
	if s == nil {
		n := c.cfg.LinearLayers
		s = &state{
			conv: make([]float32, n*(c.cfg.ConvKernel-1)*c.cfg.ConvDim),
			s:    make([]float32, n*c.cfg.VHeads*c.cfg.StateDim*c.cfg.StateDim),
		}
		c.states[slot] = s
	}
	return s
}

// States is what a slot of such a cache has for a layer, [VHeads][dk][dv]: the cache's own memory.
func States(c kernel.Cache, layer int, slot int32) []float32 { return c.(*cache).linear(layer, slot).s }

// ResetState implements kernel.Cache.
func (c *cache) ResetState(slot int32) {
	s := c.state(slot)
	clear(s.conv)
	clear(s.s)
}

// CopyState implements kernel.Cache.
func (c *cache) CopyState(dst, src int32) {
	to, from := c.state(dst), c.state(src)
	copy(to.conv, from.conv)
	copy(to.s, from.s)
}

// Close implements kernel.Cache.
func (c *cache) Close() { c.pages, c.states = nil, nil }

// BytesUsed implements kernel.Cache.
func (c *cache) BytesUsed() int64 {
	var n int
	for _, p := range c.pages {
		n += len(p)
	}
	for _, s := range c.states {
		n += len(s.conv) + len(s.s)
	}
	return int64(n) * 4
}

// PageBytes implements kernel.Backend: float32 of any type.
func (*Backend) PageBytes(c kernel.CacheConfig) int64 {
	return 4 * int64(c.Layers) * int64(stored(c)) * int64(c.PageTokens) * int64(c.KVHeads) * int64(c.HeadDim)
}

// StateBytes implements kernel.Backend: float32 of any type.
func (*Backend) StateBytes(c kernel.CacheConfig) int64 { return c.StateSize(4) }

// StoreKV implements kernel.Backend. Values are float32, rounded to what
// storage as the cache's type would give back.
func (*Backend) StoreKV(kc kernel.Cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	c := kc.(*cache)
	width := c.cfg.KVHeads * c.cfg.HeadDim
	for _, s := range step.Spans {
		for i := range s.Len {
			at := (s.Row + i) * width
			c.put(c.row(layer, 0, s.Pages, s.Pos+i), mem(k)[at:at+width])
			if !c.cfg.Shared {
				c.put(c.row(layer, 1, s.Pages, s.Pos+i), mem(v)[at:at+width])
			}
		}
	}
}

// put stores a row of all heads in the precision of the cache.
func (c *cache) put(dst, src []float32) {
	copy(dst, src)
	switch c.cfg.KV {
	case kernel.KVF16:
		for i, x := range dst {
			dst[i] = roundHalf(x)
		}
	case kernel.KVQ8:
		for d := c.cfg.HeadDim; len(dst) > 0; dst = dst[d:] {
			for at := 0; at < d; at += kernel.KVBlock {
				roundCodes(dst[at:min(at+kernel.KVBlock, d)])
			}
		}
	}
}

// roundCodes is a block after storage as 8-bit codes: the scale is the largest
// value over 127, as float16 and finite; a code is the nearest whole number of
// scales, ties to even. Arithmetic is float32, so that codes are the same everywhere.
func roundCodes(x []float32) {
	var top float32
	for _, v := range x {
		top = max(top, float32(math.Abs(float64(v))))
	}
	scale := roundHalf(min(top/127, 65504))
	var inverse float32
	if scale != 0 {
		inverse = 1 / scale
	}
	for i, v := range x {
		code := math.RoundToEven(float64(v * inverse))
		x[i] = scale * float32(max(-128, min(127, code)))
	}
}

// roundHalf is x after storage as float16: nearest, ties to even, infinite
// beyond the largest finite value. float64 holds every step exactly.
func roundHalf(x float32) float32 {
	v := float64(x)
	if x == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
		return x
	}
	_, e := math.Frexp(v) // |v| = f * 2^e, f in [0.5, 1): 11 bits of it are kept
	ulp := math.Ldexp(1, max(e-11, -24))
	r := math.RoundToEven(v/ulp) * ulp
	if math.Abs(r) > 65504 {
		r = math.Inf(int(math.Copysign(1, r)))
	}
	return float32(r)
}
