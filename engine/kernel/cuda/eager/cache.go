package eager

import (
	"fmt"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

// The most that the kernels take.
const (
	stateDimMax = 192
	tapsMax     = 8
)

// cache is the pages and states of one model: two pieces of device memory, taken at once.
type cache struct {
	b     *Backend
	cfg   kernel.CacheConfig
	pages cuda.Pointer
	slots cuda.Pointer
	host  []byte // page-locked: the slots behind those of the device
	bytes int64
}

// rowBytes is what one position of K or V of one layer takes.
func rowBytes(c kernel.CacheConfig) int64 {
	width := int64(c.KVHeads) * int64(c.HeadDim)
	switch c.KV {
	case kernel.KVF32:
		return 4 * width
	case kernel.KVQ8:
		return (width+1)/2*2 + 2*int64(c.KVHeads)*int64(up(c.HeadDim, kernel.KVBlock))
	}
	return 2 * width
}

// PageBytes implements kernel.Backend.
func (b *Backend) PageBytes(c kernel.CacheConfig) int64 {
	return int64(c.Layers) * int64(storedOf(c)) * int64(c.PageTokens) * rowBytes(c)
}

// convFloats and slotFloats are the inputs that a slot keeps, and all of it, in words: inputs are float32, and
// two values of a state take one where they are bfloat16.
func convFloats(c kernel.CacheConfig) int64 {
	if c.LinearLayers == 0 {
		return 0
	}
	return int64(c.LinearLayers) * int64(c.ConvKernel-1) * int64(c.ConvDim)
}

func slotFloats(c kernel.CacheConfig) int64 {
	return c.StateSize(stateValueBytes(c)) / 4
}

// stateValueBytes is what a value of a state takes.
func stateValueBytes(c kernel.CacheConfig) int { return 4 >> brain(c) }

// brain is 1 where states are bfloat16, as the kernels want it.
func brain(c kernel.CacheConfig) int {
	if c.States == kernel.StateBF16 {
		return 1
	}
	return 0
}

// StateBytes implements kernel.Backend.
func (b *Backend) StateBytes(c kernel.CacheConfig) int64 { return 4 * slotFloats(c) }

// NewCache implements kernel.Backend. Its memory is taken at once.
func (b *Backend) NewCache(c kernel.CacheConfig) (_ kernel.Cache, err error) {
	defer cuda.Catch(&err)
	if c.Layers < 0 || c.KVHeads < 0 || c.PageTokens < 1 || c.Pages < 0 || c.LinearLayers < 0 || c.StateSlots < 0 {
		return nil, fmt.Errorf("new cache: sizes %+v", c)
	}
	if err := refuseHeads(c); err != nil {
		return nil, fmt.Errorf("new cache: %w", err)
	}
	if c.LinearLayers > 0 &&
		(c.StateDim%32 != 0 || c.StateDim < 32 || c.StateDim > stateDimMax || c.ConvKernel < 1 || c.ConvKernel > tapsMax) {
		return nil, fmt.Errorf("new cache: states of %d and %d taps, want a multiple of 32 up to %d and at most %d taps",
			c.StateDim, c.ConvKernel, stateDimMax, tapsMax)
	}
	if bytes := recurShared(c.StateDim); c.LinearLayers > 0 {
		if err := b.kernels["recur"].AllowShared(bytes); err != nil {
			return nil, fmt.Errorf("new cache: states of %d take %d bytes of a block's memory: %w", c.StateDim, bytes, b.note(err))
		}
	}
	v := &cache{b: b, cfg: c}
	if v.pages, err = v.take(int64(c.Pages) * b.PageBytes(c)); err != nil {
		return nil, err
	}
	if v.slots, err = v.take(4 * int64(c.StateSlots) * slotFloats(c)); err != nil {
		v.Close()
		return nil, err
	}
	if v.slots != 0 {
		b.Must(b.stream.Fill(v.slots, 0, 4*int64(c.StateSlots)*slotFloats(c)))
	}
	if err := v.takeHost(); err != nil {
		v.Close()
		return nil, err
	}
	return v, nil
}

func (c *cache) take(bytes int64) (cuda.Pointer, error) {
	if bytes == 0 {
		return 0, nil
	}
	p, err := c.b.device.Alloc(bytes)
	if err != nil {
		return 0, fmt.Errorf("new cache: %w", c.b.note(err))
	}
	c.bytes += bytes
	return p, nil
}

// slot is where a state begins.
func (c *cache) slot(i int32) cuda.Pointer {
	if i < 0 || int(i) >= c.cfg.StateSlots {
		panic(fmt.Sprintf("state slot %d of %d", i, c.cfg.StateSlots))
	}
	return c.slots + cuda.Pointer(4*int64(i)*slotFloats(c.cfg))
}

// ResetState implements kernel.Cache.
func (c *cache) ResetState(slot int32) {
	c.b.Must(c.b.stream.Fill(c.slot(slot), 0, 4*slotFloats(c.cfg)))
}

// CopyState implements kernel.Cache.
func (c *cache) CopyState(dst, src int32) {
	switch {
	case c.onHost(dst):
		c.b.Must(c.b.stream.CopyOut(c.hostSlot(dst), c.slot(src)))
	case c.onHost(src):
		c.b.Must(c.b.stream.CopyIn(c.slot(dst), c.hostSlot(src)))
	default:
		c.b.Must(c.b.stream.Copy(c.slot(dst), c.slot(src), 4*slotFloats(c.cfg)))
	}
}

// BytesUsed implements kernel.Cache.
func (c *cache) BytesUsed() int64 { return c.bytes }

// Close implements kernel.Cache. On a device that failed there is nothing to give back to.
func (c *cache) Close() {
	if c.b.device == nil || c.b.failed != nil {
		return
	}
	for _, p := range []cuda.Pointer{c.pages, c.slots} {
		if p != 0 {
			c.b.Wait()
			c.b.Must(c.b.device.Free(p))
		}
	}
	c.giveHost()
	c.pages, c.slots, c.bytes = 0, 0, 0
}

// layout is a step as the kernels read it: lists of numbers in one piece of device memory.
type layout struct {
	memory Room
	have   []int32 // what the device has
	next   []int32 // reused
	// Where the lists begin: position and page table of each row; span and place in it of each
	// row; the spans; their page tables; their saves.
	places, spans, tables, saves int
}

// spanWords is the size of a span's record.
const spanWords = 5

func (l *layout) at(i int) cuda.Pointer { return l.memory.at + cuda.Pointer(4*i) }

// arrange brings a step to the device, unless it is the one that is there.
func (b *Backend) arrange(step *kernel.Step, c *cache) *layout {
	l := &b.steps
	l.places, l.spans = 2*step.Rows, 4*step.Rows
	l.tables = l.spans + spanWords*len(step.Spans)
	l.saves = l.tables
	for _, s := range step.Spans {
		l.saves += len(s.Pages)
	}
	v, pagesAt, savesAt := l.next[:0], 0, 0
	for _, s := range step.Spans {
		for i := range s.Len {
			v = append(v, int32(s.Pos+i), int32(pagesAt))
		}
		pagesAt += len(s.Pages)
	}
	for n, s := range step.Spans {
		for i := range s.Len {
			v = append(v, int32(n), int32(i))
		}
	}
	for _, s := range step.Spans {
		saves := min(len(s.Saves), s.Len)
		v = append(v, int32(s.Row), int32(s.Len), s.State, int32(saves), int32(savesAt))
		savesAt += len(s.Saves)
	}
	for _, s := range step.Spans {
		if c.cfg.Layers > 0 {
			c.enough(&s)
		}
		v = append(v, s.Pages...)
	}
	for _, s := range step.Spans {
		v = append(v, s.Saves...)
	}
	l.next = v
	if !slices.Equal(l.have, v) {
		c.check(v[l.tables:l.saves])
		b.Need(&l.memory, 4*int64(len(v)))
		b.CopyIn(l.memory.at, v)
		l.have = append(l.have[:0], v...)
	}
	return l
}

// enough wants a page table that covers its span.
func (c *cache) enough(s *kernel.Span) {
	if need := up(s.Pos+s.Len, c.cfg.PageTokens); len(s.Pages) < need {
		panic(fmt.Sprintf("a page table of %d pages, want %d", len(s.Pages), need))
	}
}

// check finds pages that are not in the pool.
func (c *cache) check(pages []int32) {
	for _, p := range pages {
		if p < 0 || int(p) >= c.cfg.Pages {
			panic(fmt.Sprintf("page %d of a pool of %d", p, c.cfg.Pages))
		}
	}
}

// stores and attends are the kernels by storage; those of heads are by 32 values.
var (
	stores  = map[kernel.KVType]string{kernel.KVF16: "storeF16", kernel.KVF32: "storeF32", kernel.KVQ8: "storeCodes"}
	attends = map[kernel.KVType]string{kernel.KVF32: "attendF32x8", kernel.KVQ8: "attendCodesx8"}
)

// StoreKV implements kernel.Backend.
func (b *Backend) StoreKV(kc kernel.Cache, layer int, k, v kernel.Buffer, step *kernel.Step) {
	c := kc.(*cache)
	if broad(c.cfg) {
		b.storeBroad(c, layer, k, v, step)
		return
	}
	l, width := b.arrange(step, c), c.cfg.KVHeads*c.cfg.HeadDim
	b.Queue(stores[c.cfg.KV], Shape{X: step.Rows, Y: 2, Threads: 128}, c.pages, at(k, step.Rows*width), at(v, step.Rows*width),
		l.at(0), l.at(l.tables), layer, c.cfg.PageTokens, b.PageBytes(c.cfg), rowBytes(c.cfg), c.cfg.KVHeads, c.cfg.HeadDim)
}

// Attend implements kernel.Backend.
func (b *Backend) Attend(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, heads, window int, scale float32,
	sinks kernel.Buffer) {
	b.AttendRows(kc, layer, dst, q, step, 0, step.Rows, heads, window, scale, sinks)
}

// AttendRows is Attend for n rows of a step, from one on.
func (b *Backend) AttendRows(kc kernel.Cache, layer int, dst, q kernel.Buffer, step *kernel.Step, from, n, heads, window int,
	scale float32, sinks kernel.Buffer) {
	c := kc.(*cache)
	l, d, size := b.arrange(step, c), c.cfg.HeadDim, step.Rows*heads*c.cfg.HeadDim
	further := cuda.Pointer(4 * from * heads * d)
	if broad(c.cfg) {
		b.attendBroad(c, layer, at(dst, size)+further, at(q, size)+further, at(sinks, heads), l, from, n, heads, window, scale)
		return
	}
	name := attends[c.cfg.KV]
	switch {
	case name != "":
	case d <= 64:
		name = "attendF16x2"
	case d <= 128:
		name = "attendF16x4"
	default:
		name = "attendF16x8"
	}
	b.Queue(name, Shape{X: n, Y: heads, Threads: 128}, at(dst, size)+further, at(q, size)+further, c.pages, at(sinks, heads),
		l.at(2*from), l.at(l.tables), layer, c.cfg.PageTokens, b.PageBytes(c.cfg), rowBytes(c.cfg), heads, c.cfg.KVHeads, d, window, scale)
}

// DeltaNet implements kernel.Backend.
func (b *Backend) DeltaNet(kc kernel.Cache, layer int, dst, qkv, z, beta, alpha kernel.Buffer,
	w kernel.DeltaWeights, s kernel.DeltaShape, step *kernel.Step) {
	b.Convolve(kc, layer, qkv, w, s, step)
	b.Recur(kc, layer, dst, z, beta, alpha, w, s, step, 0, len(step.Spans))
}

// Convolve is the first half of DeltaNet: the short convolution, whose result it returns, rows of all channels.
func (b *Backend) Convolve(kc kernel.Cache, layer int, qkv kernel.Buffer, w kernel.DeltaWeights, s kernel.DeltaShape,
	step *kernel.Step) cuda.Pointer {
	c := kc.(*cache)
	for _, span := range step.Spans { // slots that are none must not reach the device
		c.slot(span.State)
		for _, save := range span.Saves {
			c.slot(save)
		}
	}
	l, n, channels, spans := b.arrange(step, c), step.Rows, c.cfg.ConvDim, len(step.Spans)
	conv := c.slots + cuda.Pointer(4*int64(layer)*int64(s.ConvKernel-1)*int64(channels))
	mixed := b.Need(&b.mixed, 4*int64(n)*int64(channels))
	b.Queue("convolve", Shape{X: up(channels, 128), Y: n, Threads: 128}, mixed, at(qkv, n*channels), conv,
		at(w.Conv, channels*s.ConvKernel), l.at(l.places), l.at(l.spans), slotFloats(c.cfg), channels, s.ConvKernel)
	b.Queue("keepInputs", Shape{X: up(channels, 128), Y: spans, Threads: 128}, at(qkv, n*channels), conv, l.at(l.spans), l.at(l.saves),
		slotFloats(c.cfg), channels, s.ConvKernel)
	return mixed
}

// Recur is the second half of DeltaNet for n spans, from one on.
func (b *Backend) Recur(kc kernel.Cache, layer int, dst, z, beta, alpha kernel.Buffer, w kernel.DeltaWeights, s kernel.DeltaShape,
	step *kernel.Step, from, n int) {
	c := kc.(*cache)
	l, width := b.arrange(step, c), step.Rows*s.VHeads*s.Dim
	shared := recurShared(s.Dim)
	b.Must(b.kernels["recur"].AllowShared(shared))
	b.Queue("recur", Shape{X: s.VHeads, Y: n, Threads: s.Dim, Shared: shared}, at(dst, width), b.mixed.at, at(z, width),
		at(beta, step.Rows*s.VHeads), at(alpha, step.Rows*s.VHeads), at(w.A, s.VHeads), at(w.DtBias, s.VHeads), at(w.Norm, s.Dim),
		c.states(layer, s), l.at(l.spans+spanWords*from), l.at(l.saves), slotFloats(c.cfg), c.cfg.ConvDim, s.KHeads, s.VHeads, s.Dim,
		s.Tiled, brain(c.cfg), s.Eps)
}

// recurShared is what a block of recur takes of shared memory: a state, two rows, and what its warps tell each other.
func recurShared(dim int) int { return 4 * (dim*dim + 2*dim + 3*32) }

// states is where the states of a layer begin in the first slot.
func (c *cache) states(layer int, s kernel.DeltaShape) cuda.Pointer {
	return c.slots + cuda.Pointer(4*convFloats(c.cfg)+int64(stateValueBytes(c.cfg)*layer*s.VHeads*s.Dim*s.Dim))
}
