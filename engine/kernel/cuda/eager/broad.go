package eager

import (
	"errors"
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

var _ kernel.HeadBackend = (*Backend)(nil)

const (
	plainDimMax = 256 // of heads that the ordinary kernels take
	headDimMax  = 640
)

// broad says whether a cache needs the kernels for wide heads and for K that is V.
func broad(c kernel.CacheConfig) bool { return c.Shared || c.HeadDim > plainDimMax }

// storedOf is how many of K and V a cache has.
func storedOf(c kernel.CacheConfig) int {
	if c.Shared {
		return 1
	}
	return 2
}

// refuseHeads refuses what no kernel takes.
func refuseHeads(c kernel.CacheConfig) error {
	if c.HeadDim < 0 || c.HeadDim > headDimMax {
		return fmt.Errorf("heads of %d values, at most %d", c.HeadDim, headDimMax)
	}
	if broad(c) && c.KV == kernel.KVQ8 {
		return errors.New("latent attention and heads over 256 values are not stored as codes of 8 bits")
	}
	return nil
}

// broadKernel is the name of one for a cache.
func broadKernel(verb string, c kernel.CacheConfig) string {
	if c.KV == kernel.KVF32 {
		return verb + "BroadF32"
	}
	return verb + "BroadF16"
}

// ofLayer is where a layer begins in a page, and V behind K.
func (c *cache) ofLayer(layer int) (begins, further int64) {
	each := int64(c.cfg.PageTokens) * rowBytes(c.cfg)
	return int64(layer*storedOf(c.cfg)) * each, int64(storedOf(c.cfg)-1) * each
}

func (b *Backend) storeBroad(c *cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	l, width := b.arrange(step, c), c.cfg.KVHeads*c.cfg.HeadDim
	begins, further := c.ofLayer(layer)
	b.Queue(broadKernel("store", c.cfg), Shape{X: step.Rows, Y: storedOf(c.cfg), Threads: 128}, c.pages, at(k, step.Rows*width),
		at(v, step.Rows*width), l.at(0), l.at(l.tables), begins, further, c.cfg.PageTokens, b.PageBytes(c.cfg), rowBytes(c.cfg), width)
}

func (b *Backend) attendBroad(c *cache, layer int, dst, q, sinks cuda.Pointer, l *layout, from, n, heads, window int, scale float32) {
	begins, further := c.ofLayer(layer)
	b.Queue(broadKernel("attend", c.cfg), Shape{X: n, Y: heads, Threads: 128}, dst, q, c.pages, sinks, l.at(2*from), l.at(l.tables),
		begins, further, c.cfg.PageTokens, b.PageBytes(c.cfg), rowBytes(c.cfg), heads, c.cfg.KVHeads, c.cfg.HeadDim, window, scale)
}

// headsAt is where the first value of heads is, of so many of them.
func headsAt(h kernel.Heads, count, d int) cuda.Pointer {
	return at(h.Buffer, (count-1)*h.Width+h.At+d) + cuda.Pointer(4*h.At)
}

// CopyHeads implements kernel.HeadBackend.
func (b *Backend) CopyHeads(dst, src kernel.Heads, n, heads, d int) {
	count := n * heads
	b.Queue("copyHeads", each(count*d), headsAt(dst, count, d), headsAt(src, count, d), count*d, d, dst.Width, src.Width)
}

// MatMulHeads implements kernel.HeadBackend.
func (b *Backend) MatMulHeads(dst, src kernel.Heads, n int, w kernel.Weight) {
	m := w.(*weight)
	count := n * m.experts
	b.Queue("headsProduct", Shape{X: count, Y: up(m.rows, 4), Threads: 128}, headsAt(dst, count, m.rows), headsAt(src, count, m.cols),
		m.at, m.kind, m.experts, m.rows, m.cols, dst.Width, src.Width)
}
