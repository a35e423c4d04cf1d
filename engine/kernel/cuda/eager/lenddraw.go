package eager

import (
	"cmp"
	"encoding/binary"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

// What follows is for packages whose kernels compute whole steps: where caches lie, and draws that come with a
// step's other work.

// Device is the device that the backend owns.
func (b *Backend) Device() cuda.Driver { return b.device }

// Stream is where all work is queued.
func (b *Backend) Stream() cuda.Stream { return b.stream }

// Places is where a cache lies, and how.
type Places struct {
	Config kernel.CacheConfig
	Pages  cuda.Pointer // Config.Pages of PageBytes each, positions of K or V in them of RowBytes
	Slots  cuda.Pointer // of SlotFloats words: old inputs of all layers, then their states (States)
	// PageBytes and RowBytes are of pages, SlotFloats is of slots.
	PageBytes, RowBytes, SlotFloats int64
	Brain                           int // 1 where states are bfloat16
}

// Slot is how far a slot is behind the first one.
func (p Places) Slot(i int) cuda.Pointer { return cuda.Pointer(4 * int64(i) * p.SlotFloats) }

// Places is where one of this backend's caches lies.
func (b *Backend) Places(c kernel.Cache) Places {
	v := c.(*cache)
	return Places{v.cfg, v.pages, v.slots, b.PageBytes(v.cfg), rowBytes(v.cfg), slotFloats(v.cfg), brain(v.cfg)}
}

// CheckSpan panics for a span whose pages or slots the cache does not have.
func (b *Backend) CheckSpan(kc kernel.Cache, s *kernel.Span) {
	c := kc.(*cache)
	if c.cfg.Layers > 0 {
		c.enough(s)
		c.check(s.Pages)
	}
	if c.cfg.LinearLayers > 0 {
		c.slot(s.State)
		for _, slot := range s.Saves {
			c.slot(slot)
		}
	}
}

// Drawn is where the tokens of the step that drew last lie, and what each was if nothing held it.
func (b *Backend) Drawn() (tokens, frees cuda.Pointer) {
	d := &b.draws
	if d.drawn == 0 {
		p, err := b.device.Alloc(2 * 4 * drawRowsMax)
		b.Must(err)
		b.Must(b.stream.Fill(p, 0, 2*4*drawRowsMax))
		d.drawn = p
	}
	return d.drawn, d.drawn + 4*drawRowsMax
}

// RecordBytes is how long the description of a row is that the kernel draw reads.
const RecordBytes = 128

// What kernels/draw.cu makes of a row: slices of its logits, sums of each slice, and a list of the few that top_k keeps.
const (
	drawSlice = 2048
	drawSums  = 16
	drawList  = 1024
	drawState = 128
	// drawLaunches are enough for all phases of nearly every row: one for the largest logit, eight for the end of top_k or
	// top_p, one for the draw, and as many where a mask may end. One more launch ends what is left, with a block for each row.
	drawLaunches = 20
	drawBlocks   = 1024 // some for each multiprocessor
)

// DrawBytes is how much device memory draws need for a row.
func DrawBytes(vocabulary int) int64 {
	return drawState + 8*drawList + 8*drawSums*int64(up(vocabulary, drawSlice))
}

// QueueDraws queues the draws for rows of logits that records and lists describe (Describe). At work are DrawBytes for each
// row, which need not be kept; ids are the tokens of the step's rows.
func (b *Backend) QueueDraws(work, logits, records, lists, ids cuda.Pointer, rows, vocabulary int) {
	tokens, frees := b.Drawn()
	b.Queue("beginDraws", Shape{X: rows, Threads: 256}, work, logits, records, lists, ids, vocabulary)
	slices := up(vocabulary, drawSlice)
	most := max(1, rows*slices/cmp.Or(b.draws.blocks, drawBlocks)) // slices of a block
	draw := func(each int) {
		b.Queue("draw", Shape{X: rows, Y: up(slices, each), Threads: 256}, tokens, frees, work, logits, records, lists, vocabulary, each)
	}
	if most < slices {
		for range drawLaunches {
			draw(most)
		}
	}
	draw(slices)
}

// Describe says how rows of logits are drawn: the i-th one for in.Rows[of[i]], or not at all where of[i] is
// negative. Both results are valid until the next call; offsets in the records are words of the lists.
func (b *Backend) Describe(in *kernel.Input, vocabulary int, of []int) (records []byte, lists []int32) {
	d := &b.draws
	d.lists, d.records, d.begins = d.lists[:0], d.records[:0], map[shared]int{}
	for _, i := range of {
		if i >= 0 {
			d.record(in, i, vocabulary)
			continue
		}
		d.records = append(d.records, make([]byte, RecordBytes-4)...)
		d.records = binary.LittleEndian.AppendUint32(d.records, 0xffffffff) // nothing is drawn
	}
	return d.records, d.lists
}

// Answer queues copies of the logits that in's Rows ask for; those of the step's row r are row r of logits. It
// comes before Submit.
func (b *Backend) Answer(in *kernel.Input, vocabulary int, logits cuda.Pointer) {
	t, asked := b.ticket(in, vocabulary), 0
	for i := range in.Rows {
		if !in.Rows[i].Logits {
			continue
		}
		to := t.host[8*len(in.Rows)+4*vocabulary*asked:][:4*vocabulary]
		b.Must(b.stream.CopyOut(to, logits+cuda.Pointer(4*vocabulary*int(in.Rows[i].Row))))
		asked++
	}
}
