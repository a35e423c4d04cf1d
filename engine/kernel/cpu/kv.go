package cpu

import (
	"fmt"
	"slices"

	"corenode/engine/kernel"
)

// cache implements kernel.Cache. Its address space is taken when it is made, so that no
// step finds that there is none; memory comes with the first write. Only the step
// loop touches the tables.
type cache struct {
	of     *Backend
	cfg    kernel.CacheConfig
	shape  tileShape
	slabs  []block  // slabPages pages each
	pages  [][]byte // nil until first used
	slots  []slot
	used   int64
	layout stateLayout
}

// slot is the recurrent state of one sequence.
type slot struct {
	mem  block // where it is small, empty until first used
	used bool
	conv []float32 // [LinearLayers][ConvKernel-1][ConvDim]
	s    []float32 // [LinearLayers][VHeads][cols/16][StateDim][16]
}

// stateLayout holds sizes of a slot, in float32 values per layer.
type stateLayout struct{ conv, s int }

// tileShape says how the K and V of 16 positions of a head lie in memory.
type tileShape struct {
	kv   kernel.KVType
	dim  int // HeadDim rounded up to kernel.KVBlock
	half int // bytes of K, and of V, scales included
	size int // bytes of both; of V alone where it is K too
}

func newTileShape(c kernel.CacheConfig) tileShape {
	s := tileShape{kv: c.KV, dim: roundUp(c.HeadDim, kernel.KVBlock)}
	elements := s.dim * kvTile
	switch c.KV {
	case kernel.KVF32:
		s.half = 4 * elements
	case kernel.KVQ8:
		s.half = elements + 2*elements/kernel.KVBlock
	default:
		s.half = 2 * elements
	}
	s.size = 2 * s.half
	if c.Shared {
		s.size = s.half
	}
	return s
}

// slabBytes is the size of a slab, at most, unless a single page is larger: memory is
// in huge pages where the system has them. KV in small ones, with a walk of the page table
// per tile, was read 5 to 15 % slower.
const slabBytes = 64 << 20

// pageBytes is the size of a page, a multiple of 64.
func pageBytes(c kernel.CacheConfig) int {
	return c.Layers * c.KVHeads * (c.PageTokens / kvTile) * newTileShape(c).size
}

// slabPages is how many pages of a pool lie in one slab.
func slabPages(c kernel.CacheConfig) int {
	return max(1, min(c.Pages, slabBytes/max(1, pageBytes(c))))
}

// PageBytes implements kernel.Backend.
func (*Backend) PageBytes(c kernel.CacheConfig) int64 { return int64(pageBytes(c)) }

// StateBytes implements kernel.Backend.
func (*Backend) StateBytes(c kernel.CacheConfig) int64 { return c.StateSize(4) }

// NewCache implements kernel.Backend.
func (b *Backend) NewCache(c kernel.CacheConfig) (kernel.Cache, error) {
	if err := checkCache(c); err != nil {
		return nil, fmt.Errorf("new cache: %w", err)
	}
	k := &cache{of: b, cfg: c, shape: newTileShape(c), pages: make([][]byte, c.Pages), slots: make([]slot, c.StateSlots+c.HostSlots)}
	k.layout.conv = (c.ConvKernel - 1) * c.ConvDim
	k.layout.s = c.VHeads * c.StateDim * roundUp(c.StateDim, kvTile)
	if err := k.takeAddresses(); err != nil {
		k.free()
		return nil, fmt.Errorf("new cache: %w", err)
	}
	b.caches = append(b.caches, k)
	return k, nil
}

// takeAddresses maps all that the cache may use. Small states wait in Go's heap until they are used.
func (c *cache) takeAddresses() (err error) {
	per, n := slabPages(c.cfg), pageBytes(c.cfg)
	c.slabs = make([]block, (len(c.pages)+per-1)/per)
	for i := range c.slabs {
		if c.slabs[i], err = newBlock(min(per, len(c.pages)-i*per) * n); err != nil {
			return err
		}
	}
	if c.slotBytes() < mapMin {
		return nil
	}
	for i := range c.slots {
		if c.slots[i].mem, err = newBlock(c.slotBytes()); err != nil {
			return err
		}
	}
	return nil
}

func checkCache(c kernel.CacheConfig) error {
	sizes := []int{c.Layers, c.KVHeads, c.HeadDim, c.Pages, c.LinearLayers, c.StateSlots, c.HostSlots, c.ConvDim, c.ConvKernel,
		c.VHeads, c.StateDim}
	for _, n := range sizes {
		if n < 0 {
			return fmt.Errorf("negative size in %+v", c)
		}
	}
	switch {
	case c.KV > kernel.KVQ8:
		return fmt.Errorf("kv type %d is not known", c.KV)
	case c.States != kernel.StateF32:
		return fmt.Errorf("states of type %v: this backend has f32 alone", c.States)
	case c.HeadDim > headDimMax:
		return fmt.Errorf("head dimension %d, at most %d", c.HeadDim, headDimMax)
	case c.Layers > 0 && (c.PageTokens < kvTile || c.PageTokens%kvTile != 0):
		return fmt.Errorf("%d positions per page, want a multiple of %d", c.PageTokens, kvTile)
	case c.LinearLayers > 0 && c.ConvKernel < 1:
		return fmt.Errorf("convolution of %d taps", c.ConvKernel)
	}
	return nil
}

// Close implements kernel.Cache.
func (c *cache) Close() {
	c.free()
	c.of.caches = slices.DeleteFunc(c.of.caches, func(o *cache) bool { return o == c })
}

// free gives all memory back.
func (c *cache) free() {
	for i := range c.slabs {
		c.slabs[i].free()
	}
	for i := range c.slots {
		c.slots[i].mem.free()
	}
	c.slabs, c.pages, c.slots, c.used = nil, nil, nil, 0
}

// page returns the memory of a page, which exists from its first use on.
func (c *cache) page(id int32) []byte {
	if p := c.pages[id]; p != nil {
		return p
	}
	return c.takePage(int(id))
}

func (c *cache) takePage(id int) []byte {
	per, n := slabPages(c.cfg), pageBytes(c.cfg)
	at := id % per * n
	c.pages[id] = c.slabs[id/per].b[at : at+n : at+n]
	c.used += int64(n)
	return c.pages[id]
}

// tilesAt is how far into a page the tiles of a layer and KV head begin; they
// follow each other.
func (c *cache) tilesAt(layer, head int) int {
	return (layer*c.cfg.KVHeads + head) * (c.cfg.PageTokens / kvTile) * c.shape.size
}

// tile is K and V of the 16 positions around pos, of one layer and KV head.
func (c *cache) tile(layer, head int, pages []int32, pos int) []byte {
	size := c.cfg.PageTokens
	n := c.shape.size
	at := c.tilesAt(layer, head) + pos%size/kvTile*n
	return c.page(pages[pos/size])[at : at+n : at+n]
}

// slotFloats are the values of a slot: where its matrices begin, behind the convolution, and how many they have.
func (c *cache) slotFloats() (at, n int) {
	return roundUp(c.cfg.LinearLayers*c.layout.conv, 16), c.cfg.LinearLayers * c.layout.s
}

// slotBytes is the size of a slot.
func (c *cache) slotBytes() int {
	at, n := c.slotFloats()
	return 4*(at+n) + 64
}

// state returns a slot, zeroed when it is new.
func (c *cache) state(id int32) *slot {
	s := &c.slots[id]
	if !s.used {
		if s.mem.b == nil {
			s.mem = block{b: heapBytes(c.slotBytes())}
		}
		at, n := c.slotFloats()
		f := s.mem.floats()
		s.conv, s.s, s.used = f[:c.cfg.LinearLayers*c.layout.conv], f[at:at+n], true
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
	if c.slots[id].used {
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

// BytesUsed implements kernel.Cache.
func (c *cache) BytesUsed() int64 { return c.used }

// PageMemory implements kernel.Memory.
func (c *cache) PageMemory(page int32) []byte { return c.page(page) }

// StateMemory implements kernel.Memory.
func (c *cache) StateMemory(id int32) [][]byte {
	s := c.state(id)
	var pieces [][]byte
	for _, f := range [][]float32{s.conv, s.s} {
		if len(f) > 0 {
			pieces = append(pieces, asBytes(f))
		}
	}
	return pieces
}
