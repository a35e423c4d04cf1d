package fused

import (
	"encoding/binary"
	"fmt"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// Blocks of the kernels of products: outputs of each.
const (
	warps      = 8
	normedOuts = 4 * warps
	addedOuts  = 2 * warps
)

// What attention is cut into: parts until so many blocks run as the device's table says, at most splitsMax
// of them, for up to headsAtOnce heads of a KV head each.
const (
	splitsMax   = 32
	headsAtOnce = 8
)

// buffers is one piece of device memory and what lies where in it.
type buffers struct {
	at                             cuda.Pointer
	x, ids, projected, mix, found  cuda.Pointer
	h, between, given              cuda.Pointer
	scores, gates, chosen, weights cuda.Pointer // of experts: logits, shared gates, choices and their weights
	works, pairs                   cuda.Pointer
	logits                         cuda.Pointer
	parts                          cuda.Pointer // of all launches of normed
	partsOf                        []int        // where those of each launch begin: two a layer and the head

}

// widths are the widest of what the layers need of a row, in values.
type widths struct{ projected, mix, inner, experts, top int }

func (d *decoder) widths() (w widths) {
	n := d.n
	for i := range n.Layers {
		l := &n.Layers[i]
		w.mix = max(w.mix, l.Out.Cols())
		if a := l.Attention; a != nil {
			w.projected = max(w.projected, a.Q.Rows()+a.K.Rows()+a.V.Rows())
		} else {
			r := l.Linear
			w.projected = max(w.projected, r.QKV.Rows()+r.Z.Rows()+2*r.Beta.Rows())
		}
		if l.FFN.Gate != nil {
			w.inner = max(w.inner, l.FFN.Gate.Rows())
		}
		if l.Router != nil {
			w.inner, w.top = max(w.inner, l.Experts.Gate.Rows()), max(w.top, l.Routing.Top)
			w.experts = max(w.experts, l.Experts.Gate.Experts())
		}
	}
	return w
}

// grow takes memory for steps of rows rows. All graphs are forgotten.
func (d *decoder) grow(rows int) {
	n, w := d.n, d.widths()
	d.b.Wait()
	d.free(d.buffers.at)
	d.buffers, d.rows = buffers{}, 0
	var total int
	places := []*cuda.Pointer{}
	var sizes []int
	take := func(p *cuda.Pointer, values int) {
		places, sizes = append(places, p), append(sizes, total)
		total += (4*values + 255) &^ 255
	}
	v := &d.buffers
	most := 0 // parts of attention, over the buckets
	for _, bucket := range buckets {
		if bucket <= rows {
			most = max(most, bucket*d.splitsOf(bucket))
		}
	}
	take(&v.x, rows*n.Hidden)
	take(&v.ids, rows)
	take(&v.projected, rows*w.projected)
	take(&v.mix, rows*w.mix)
	take(&v.found, most*n.Heads*(n.HeadDim+2))
	take(&v.h, rows*n.Hidden)
	take(&v.between, rows*(w.top+1)*w.inner)
	if w.experts > 0 {
		take(&v.given, rows*(w.top+1)*n.Hidden)
		take(&v.scores, rows*w.experts)
		take(&v.gates, rows)
		take(&v.chosen, rows*w.top)
		take(&v.weights, rows*w.top)
		take(&v.works, 1+3*(min(w.experts, rows*w.top)+1))
		take(&v.pairs, rows*(w.top+1))
	}
	take(&v.logits, rows*n.Vocabulary)
	table := d.table()
	take(&v.parts, len(table)/4)
	v.at = d.alloc(total)
	for i, p := range places {
		*p = v.at + cuda.Pointer(sizes[i])
	}
	d.b.CopyBytes(v.parts, d.table()) // again: now it knows the addresses
	d.rows = rows
}

// part is one product of a launch of normed, as kernels/products.cu has it.
type part struct {
	w, pair kernel.Weight
	biases  kernel.Buffer
	dst     cuda.Pointer
	stride  int
}

// table is the parts of all launches, in order.
func (d *decoder) table() (table []byte) {
	d.partsOf = d.partsOf[:0]
	add := func(parts []part) {
		d.partsOf = append(d.partsOf, len(table))
		for _, p := range parts {
			m, pair := d.b.Matrix(p.w), eager.Matrix{}
			if p.pair != nil {
				pair = d.b.Matrix(p.pair)
			}
			for _, at := range []cuda.Pointer{m.At, pair.At, p.dst, d.b.Address(p.biases, m.Rows)} {
				table = binary.LittleEndian.AppendUint64(table, uint64(at))
			}
			for _, x := range []int{m.Kind | pair.Kind<<16, m.Rows, p.stride, up(m.Rows, normedOuts)} {
				table = binary.LittleEndian.AppendUint32(table, uint32(x))
			}
		}
	}
	for i := range d.n.Layers {
		l := &d.n.Layers[i]
		add(d.mixerParts(l))
		add(d.ffnParts(l))
	}
	add([]part{{w: d.n.Head, dst: d.logits, stride: d.n.Vocabulary}})
	return table
}

// mixerParts are what a layer's mixer needs of the normed row, side by side.
func (d *decoder) mixerParts(l *kernel.Layer) (parts []part) {
	var weights []kernel.Weight
	biases := make([]kernel.Buffer, 4)
	if a := l.Attention; a != nil {
		weights, biases = []kernel.Weight{a.Q, a.K, a.V}, []kernel.Buffer{a.QBias, a.KBias, a.VBias}
	} else {
		r := l.Linear
		weights = []kernel.Weight{r.QKV, r.Z, r.Beta, r.Alpha}
	}
	stride := 0
	for _, w := range weights {
		stride += w.Rows()
	}
	at := d.projected
	for i, w := range weights {
		parts = append(parts, part{w: w, biases: biases[i], dst: at, stride: stride})
		at += cuda.Pointer(4 * w.Rows())
	}
	return parts
}

// ffnParts are what its FFN needs: what is between, or what chooses experts.
func (d *decoder) ffnParts(l *kernel.Layer) []part {
	if l.Router == nil {
		return []part{{w: l.FFN.Gate, pair: l.FFN.Up, dst: d.between, stride: l.FFN.Gate.Rows()}}
	}
	parts := []part{{w: l.Router, biases: l.RouterBias, dst: d.scores, stride: l.Router.Rows()}}
	if l.SharedGate != nil {
		parts = append(parts, part{w: l.SharedGate, dst: d.gates, stride: 1})
	}
	return parts
}

// splitsOf is how many parts attention is cut into.
func (d *decoder) splitsOf(rows int) int {
	blocks := rows * d.n.KVHeads * up(d.n.Heads/d.n.KVHeads, headsAtOnce)
	return max(1, min(splitsMax, d.blocks/blocks))
}

// products is the name of a kernel for so many rows at once.
func products(name string, rows int) string { return fmt.Sprintf("%s%d", name, rows) }

// atOnce is how many of a bucket's rows a product takes.
func (d *decoder) atOnce(rows int) int {
	for _, n := range d.rowsAtOnce {
		if rows <= n {
			return n
		}
	}
	return d.rowsAtOnce[len(d.rowsAtOnce)-1]
}

// record queues a step of a bucket, for a graph.
func (d *decoder) record(rows int) {
	n, b, p := d.n, d.b, d.b.Places(d.cache)
	embed := b.Matrix(n.Embed)
	drawn, frees := b.Drawn()
	b.Queue("begin", eager.Shape{X: rows, Threads: 256}, d.x, d.ids, embed.At, drawn, d.step.at, embed.Kind, n.Hidden)
	for i := range n.Layers {
		l := &n.Layers[i]
		if l.Attention != nil {
			d.attention(l, &p, rows, d.partsOf[2*i])
		} else {
			d.linear(l, &p, rows, d.partsOf[2*i])
		}
		d.add(d.mix, l.Out, l.OutBias, rows)
		if l.Router != nil {
			d.experts(l, rows, d.partsOf[2*i+1])
		} else {
			d.normed(l.FFNNorm, 0, d.partsOf[2*i+1], []kernel.Weight{l.FFN.Gate}, rows, convolution{})
			d.add(d.between, l.FFN.Down, nil, rows)
		}
	}
	d.normed(n.Norm, 0, d.partsOf[2*len(n.Layers)], []kernel.Weight{n.Head}, rows, convolution{})
	records := d.step.at + cuda.Pointer(d.recordsAt(rows))
	b.Queue("draw", eager.Shape{X: rows, Threads: 256}, drawn, frees, d.logits, records, d.step.at+cuda.Pointer(d.listsAt(rows)), d.ids,
		n.Vocabulary)
}

// convolution is what the first of the weights goes through, if anything.
type convolution struct {
	at   cuda.Pointer
	w    kernel.Buffer
	slot int64 // values of one
	taps int
	wide int // channels
}

// normed queues the products of the normed rows with the weights of a launch. h, if it is there, gets the rows.
func (d *decoder) normed(norm kernel.Buffer, h cuda.Pointer, parts int, weights []kernel.Weight, rows int, c convolution) {
	tiles, once := 0, d.atOnce(rows)
	for _, w := range weights {
		tiles += up(w.Rows(), normedOuts)
	}
	d.b.Queue(products("normed", once), eager.Shape{X: up(rows, once), Y: tiles, Threads: 32 * warps, Shared: 4 * once * d.n.Hidden},
		d.x, d.b.Address(norm, d.n.Hidden), h, d.parts+cuda.Pointer(parts), d.step.at,
		c.at, d.b.Address(c.w, c.wide*c.taps), c.slot, c.taps, d.n.Hidden, d.n.Eps)
}

// add queues the product of rows with a matrix, which goes to the residual stream.
func (d *decoder) add(y cuda.Pointer, w kernel.Weight, bias kernel.Buffer, rows int) {
	m, once := d.b.Matrix(w), d.atOnce(rows)
	d.b.Queue(products("added", once), eager.Shape{X: up(rows, once), Y: up(m.Rows, addedOuts), Threads: 32 * warps},
		d.x, y, m.At, d.b.Address(bias, m.Rows), d.step.at, m.Kind, m.Rows, m.Cols)
}

// storages are the numbers of what K and V are stored as.
var storages = map[kernel.KVType]int{kernel.KVF16: 0, kernel.KVF32: 1, kernel.KVQ8: 2}

func (d *decoder) attention(l *kernel.Layer, p *eager.Places, rows, parts int) {
	n, b, a := d.n, d.b, l.Attention
	d.normed(l.Norm, 0, parts, []kernel.Weight{a.Q, a.K, a.V}, rows, convolution{})
	splits, half := d.splitsOf(rows), len(n.InvFreq)
	shape := []any{n.Heads, n.KVHeads, n.HeadDim, a.Q.Rows() / n.Heads, storages[p.Config.KV], l.Index, p.Config.PageTokens, splits,
		p.PageBytes, p.RowBytes}
	with := func(before []any, after ...any) []any { return append(append(before, shape...), after...) }
	b.Queue("place", eager.Shape{X: rows, Y: up(n.Heads+2*n.KVHeads, 4), Threads: 128}, with([]any{d.projected, p.Pages, d.step.at,
		d.step.at + cuda.Pointer(d.anglesAt(rows)), b.Address(a.QNorm, n.HeadDim), b.Address(a.KNorm, n.HeadDim)}, half, n.Neox, n.Eps)...)
	group, each := n.Heads/n.KVHeads, 8
	if n.HeadDim <= 128 {
		each = 4
	}
	if n.HeadDim <= 64 {
		each = 2
	}
	threads := 32 * max(4, min(group, headsAtOnce))
	b.Queue(products("attend", each), eager.Shape{X: rows * splits, Y: n.KVHeads * up(group, headsAtOnce), Threads: threads},
		with([]any{d.found, d.projected, p.Pages, d.step.at}, a.Window, n.QueryScale)...)
	b.Queue("merge", eager.Shape{X: rows, Y: n.Heads, Threads: 64},
		with([]any{d.mix, d.found, d.projected, b.Address(a.Sinks, n.Heads), d.step.at})...)
}

func (d *decoder) linear(l *kernel.Layer, p *eager.Places, rows, parts int) {
	b, r, s := d.b, l.Linear, d.n.Delta
	channels := r.QKV.Rows()
	d.normed(l.Norm, 0, parts, []kernel.Weight{r.QKV, r.Z, r.Beta, r.Alpha}, rows, convolution{
		at: p.Slots + cuda.Pointer(4*l.Index*(s.ConvKernel-1)*channels), w: r.Small.Conv, slot: p.SlotFloats,
		taps: s.ConvKernel, wide: channels,
	})
	states := p.Slots + cuda.Pointer(4*(p.StatesAt+int64(l.Index)*int64(s.VHeads*s.Dim*s.Dim)))
	b.Queue(stateDims[s.Dim], eager.Shape{X: rows, Y: s.VHeads, Threads: 4 * s.Dim}, d.mix, d.projected, b.Address(r.Small.A, s.VHeads),
		b.Address(r.Small.DtBias, s.VHeads), b.Address(r.Small.Norm, s.Dim), states, d.step.at, p.SlotFloats,
		s.KHeads, s.VHeads, s.Tiled, s.Eps)
}

func (d *decoder) experts(l *kernel.Layer, rows, parts int) {
	n, b, e, r := d.n, d.b, l.Experts, l.Routing
	weights := []kernel.Weight{l.Router}
	if l.SharedGate != nil {
		weights = append(weights, l.SharedGate)
	}
	d.normed(l.FFNNorm, d.h, parts, weights, rows, convolution{})
	experts, shared, sharedAt := e.Gate.Experts(), l.FFN.Gate != nil, rows*r.Top
	scale := r.Scale
	if scale == 0 {
		scale = 1
	}
	b.Queue("route", eager.Shape{X: rows, Threads: 32}, d.chosen, d.weights, d.scores, b.Address(r.Bias, experts), experts, r.Top,
		r.Sigmoid, r.Groups, r.GroupsUsed, r.GroupTop, r.Plain, scale)
	b.Queue("group", eager.Shape{X: 1, Threads: 256}, d.works, d.pairs, d.chosen, d.step.at, experts, r.Top, shared, sharedAt)
	gate, above, down := b.Matrix(e.Gate), b.Matrix(e.Up), b.Matrix(e.Down)
	var of [3]eager.Matrix // of the shared expert
	if shared {
		of = [3]eager.Matrix{b.Matrix(l.FFN.Gate), b.Matrix(l.FFN.Up), b.Matrix(l.FFN.Down)}
	}
	once, most, gates := 4, min(experts, rows*r.Top), cuda.Pointer(0)
	if rows == 1 {
		once = 1
	}
	if shared {
		most++
	}
	if l.SharedGate != nil {
		gates = d.gates
	}
	tail := []any{gate.Rows, of[0].Rows, r.Top, sharedAt, n.Hidden, 0} // the last fills up a Stack
	b.Queue(products("expertUp", once), eager.Shape{X: up(max(gate.Rows, of[0].Rows), addedOuts), Y: most, Threads: 32 * warps},
		append([]any{d.between, d.h, d.works, d.pairs, gate.At, above.At, of[0].At, of[1].At, gate.Kind, above.Kind,
			of[0].Kind, of[1].Kind}, tail...)...)
	b.Queue(products("expertDown", once), eager.Shape{X: up(n.Hidden, addedOuts), Y: most, Threads: 32 * warps},
		append([]any{d.given, d.between, d.works, d.pairs, down.At, cuda.Pointer(0), of[2].At, cuda.Pointer(0), down.Kind, 0,
			of[2].Kind, 0}, tail...)...)
	b.Queue("sumExperts", eager.Shape{X: rows, Y: up(n.Hidden, 256), Threads: 256}, d.x, d.given, d.weights, gates, d.step.at, r.Top,
		shared, sharedAt, n.Hidden)
}
