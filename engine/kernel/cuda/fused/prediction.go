package fused

import (
	"encoding/binary"
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// The launches of products of a prediction, behind those of the network's layers and its head: three on what is
// remembered, three on what is drafted from, and two for both.
const (
	fromE = iota
	fromH
	toMixer
	ofDraft // as many further on are the same for a draft behind a draft
	toFFN   = 2 * ofDraft
	toHead  = toFFN + 1
)

// launchOf is where the parts of a launch of the prediction begin.
func (d *decoder) launchOf(i int) int { return d.partsOf[2*len(d.n.Layers)+1+i] }

// Remember implements kernel.Fused. The step is still in device memory.
func (d *decoder) Remember(next []int32) {
	k := bucket{bucketOf(len(next)), remembering}
	d.b.CopyIn(d.next, next)
	d.run(k, func() {
		p := d.b.Places(d.cache)
		d.combine(work{k.rows, d.step.at, d.kept, d.keptProjected}, d.next, 0, &p)
	})
}

// combine queues the input of the prediction's layer, from what is in last and the tokens that come next, and its
// projections. K and V are placed.
func (d *decoder) combine(w work, ids cuda.Pointer, launch int, p *eager.Places) {
	n, b, v := d.n, d.b, d.n.Prediction
	embed := b.Matrix(v.Embed)
	b.Queue("embedRows", eager.Shape{X: w.rows, Threads: 256}, d.h, ids, embed.At, w.step, embed.Kind, n.Hidden)
	d.normed(w, d.h, v.ENorm, 0, d.launchOf(launch+fromE), []kernel.Weight{v.FromE}, convolution{})
	d.normed(w, d.last, v.HNorm, 0, d.launchOf(launch+fromH), []kernel.Weight{v.FromH}, convolution{})
	d.project(&v.Layer, w, d.launchOf(launch+toMixer))
	d.place(&v.Layer, p, w)
}

// rowsAt and tokensAt are where a draft has the rows that it goes on from, and their tokens; pages are behind them.
func (d *decoder) rowsAt(rows int) int { return d.anglesAt(rows) + rows*8*len(d.n.InvFreq) }

func (d *decoder) tokensAt(rows int) int { return d.rowsAt(rows) + 4*rows }

// Draft implements kernel.Fused.
func (d *decoder) Draft(step *kernel.Step, rows, tokens, hidden []int32, out []kernel.Drafted) {
	k := bucket{bucketOf(step.Rows), drafting}
	if tokens != nil {
		k.does = draftingOn
	}
	if k.rows == 0 || k.rows > d.rows {
		panic(fmt.Sprintf("drafts for %d rows behind a step of at most %d", step.Rows, d.rows))
	}
	for i := range step.Spans {
		d.b.CheckSpan(d.cache, &step.Spans[i])
	}
	d.writeDraft(step, rows, tokens, k.rows)
	d.make(&d.second)
	if at := d.b.Hidden(hidden); at != d.hidden {
		d.forget()
		d.hidden = at
	}
	d.b.CopyBytes(d.second.at, d.bytes)
	d.run(k, func() { d.recordDraft(k) })
	d.b.TakeDrafted(d.likely, out)
}

// writeDraft puts down a draft for the device: as a step, with rows and tokens in place of records.
func (d *decoder) writeDraft(step *kernel.Step, from, tokens []int32, rows int) {
	put := binary.LittleEndian.AppendUint32
	v := put(put(put(put(d.bytes[:0], uint32(step.Rows)), uint32(d.tokensAt(rows)/4+rows)), 0), 0)
	at := 0
	for _, s := range step.Spans {
		v = put(put(put(put(put(put(v, 0), uint32(s.Pos)), uint32(at)), 0), 1), 0xffffffff)
		at += len(s.Pages)
	}
	v = append(v, make([]byte, d.anglesAt(rows)-len(v))...)
	for _, s := range step.Spans {
		v = d.angles(v, s.Pos)
	}
	end := d.rowsAt(rows)
	for _, list := range [][]int32{from, tokens} {
		v = append(v, make([]byte, end-len(v))...)
		for _, x := range list {
			v = put(v, uint32(x))
		}
		end += 4 * rows
	}
	v = append(v, make([]byte, end-len(v))...)
	for _, s := range step.Spans {
		for _, page := range s.Pages {
			v = put(v, uint32(page))
		}
	}
	d.bytes = v
}

// recordDraft queues a draft, for a graph.
func (d *decoder) recordDraft(k bucket) {
	n, b, p, v := d.n, d.b, d.b.Places(d.cache), d.n.Prediction
	w := work{k.rows, d.second.at, d.x, d.projected}
	from := w.step + cuda.Pointer(d.rowsAt(w.rows))
	pick := func(dst, src cuda.Pointer, cols int) {
		b.Queue("pickRows", eager.Shape{X: w.rows, Threads: 256}, dst, src, from, w.step, cols)
	}
	if k.does == drafting {
		a := v.Layer.Attention
		pick(w.x, d.kept, n.Hidden)
		pick(w.projected, d.keptProjected, a.Q.Rows()+a.K.Rows()+a.V.Rows())
	} else {
		pick(d.last, d.after, n.Hidden)
		d.combine(w, w.step+cuda.Pointer(d.tokensAt(w.rows)), ofDraft, &p)
	}
	d.attend(&v.Layer, &p, w)
	d.rest(&v.Layer, w, d.launchOf(toFFN))
	d.normed(w, w.x, v.Norm, d.after, d.launchOf(toHead), []kernel.Weight{v.Head}, convolution{})
	b.Queue("likeliest", eager.Shape{X: w.rows, Threads: 256}, d.likely, d.logits, d.hidden, w.step, n.Vocabulary)
}
