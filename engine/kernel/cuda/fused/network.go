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
	logits, draws                  cuda.Pointer
	parts                          cuda.Pointer // of all launches of normed
	partsOf                        []int        // where those of each launch begin: two a layer, the head, then a prediction's

	// Of a prediction: what Step or Draft left in the end; what Remember made of it, and its projections; the tokens that
	// come next; what is drafted.
	last, after, kept, keptProjected cuda.Pointer
	next, likely                     cuda.Pointer
}

// work is what kernels compute on: rows of a step in device memory, their residual stream and their projections.
type work struct {
	rows         int
	step         cuda.Pointer
	x, projected cuda.Pointer
}

// widths are the widest of what the layers need of a row, in values.
type widths struct{ projected, mix, inner, experts, top int }

// layers are all there are, that of a prediction last.
func (d *decoder) layers() (all []*kernel.Layer) {
	for i := range d.n.Layers {
		all = append(all, &d.n.Layers[i])
	}
	if p := d.n.Prediction; p != nil {
		all = append(all, &p.Layer)
	}
	return all
}

func (d *decoder) widths() (w widths) {
	for _, l := range d.layers() {
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
	take(&v.draws, rows*int(eager.DrawBytes(n.Vocabulary))/4)
	if n.Prediction != nil {
		for _, p := range []*cuda.Pointer{&v.last, &v.after, &v.kept} {
			take(p, rows*n.Hidden)
		}
		take(&v.keptProjected, rows*w.projected)
		take(&v.next, rows)
		take(&v.likely, 2*rows)
	}
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
	adds    bool
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
			adds := 0
			if p.adds {
				adds = 1
			}
			for _, x := range []int{m.Kind | pair.Kind<<16, m.Rows, p.stride, up(m.Rows, normedOuts), adds, 0} {
				table = binary.LittleEndian.AppendUint32(table, uint32(x))
			}
		}
	}
	for i := range d.n.Layers {
		l := &d.n.Layers[i]
		add(d.mixerParts(l, d.projected))
		add(d.ffnParts(l))
	}
	add([]part{{w: d.n.Head, dst: d.logits, stride: d.n.Vocabulary}})
	if p := d.n.Prediction; p != nil {
		for _, w := range []work{{x: d.kept, projected: d.keptProjected}, {x: d.x, projected: d.projected}} {
			add([]part{{w: p.FromE, dst: w.x, stride: d.n.Hidden}})
			add([]part{{w: p.FromH, dst: w.x, stride: d.n.Hidden, adds: true}})
			add(d.mixerParts(&p.Layer, w.projected))
		}
		add(d.ffnParts(&p.Layer))
		add([]part{{w: p.Head, dst: d.logits, stride: d.n.Vocabulary}})
	}
	return table
}

// mixerParts are what a layer's mixer needs of the normed row, side by side from at on.
func (d *decoder) mixerParts(l *kernel.Layer, at cuda.Pointer) (parts []part) {
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

// sized is the name of a kernel for so many rows at once, or so wide a head.
func sized(name string, rows int) string { return fmt.Sprintf("%s%d", name, rows) }

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
func (d *decoder) record(k bucket) {
	n, b, p := d.n, d.b, d.b.Places(d.cache)
	w := work{k.rows, d.step.at, d.x, d.projected}
	embed := b.Matrix(n.Embed)
	drawn, _ := b.Drawn()
	b.Queue("begin", eager.Shape{X: w.rows, Threads: 256}, d.x, d.ids, embed.At, drawn, w.step, embed.Kind, n.Hidden)
	for i := range n.Layers {
		l := &n.Layers[i]
		if l.Attention != nil {
			d.project(l, w, d.partsOf[2*i])
			d.place(l, &p, w)
			d.attend(l, &p, w)
		} else {
			d.linear(l, &p, w, k.does == verifying, d.partsOf[2*i])
		}
		d.rest(l, w, d.partsOf[2*i+1])
	}
	d.normed(w, d.x, n.Norm, d.last, d.partsOf[2*len(n.Layers)], []kernel.Weight{n.Head}, convolution{})
	records := d.step.at + cuda.Pointer(d.recordsAt(w.rows))
	b.QueueDraws(d.draws, d.logits, records, d.step.at+cuda.Pointer(d.listsAt(w.rows)), d.ids, w.rows, n.Vocabulary)
}

// rest queues what follows a layer's mixer.
func (d *decoder) rest(l *kernel.Layer, w work, parts int) {
	d.add(w, d.mix, l.Out, l.OutBias)
	if l.Router != nil {
		d.experts(l, w, parts)
		return
	}
	d.normed(w, w.x, l.FFNNorm, 0, parts, []kernel.Weight{l.FFN.Gate}, convolution{})
	d.add(w, d.between, l.FFN.Down, nil)
}

// convolution is what the first of the weights goes through, if anything.
type convolution struct {
	at   cuda.Pointer
	w    kernel.Buffer
	slot int64 // values of one
	taps int
	wide int // channels
}

// normed queues the products of the norms of rows with the weights of a launch. h, if it is there, gets the norms.
func (d *decoder) normed(w work, from cuda.Pointer, norm kernel.Buffer, h cuda.Pointer, parts int, weights []kernel.Weight, c convolution) {
	tiles, once := 0, d.atOnce(w.rows)
	for _, w := range weights {
		tiles += up(w.Rows(), normedOuts)
	}
	d.b.Queue(sized("normed", once), eager.Shape{X: up(w.rows, once), Y: tiles, Threads: 32 * warps, Shared: 4 * once * d.n.Hidden},
		from, d.b.Address(norm, d.n.Hidden), h, d.parts+cuda.Pointer(parts), w.step,
		c.at, d.b.Address(c.w, c.wide*c.taps), c.slot, c.taps, d.n.Hidden, d.n.Eps)
}

// add queues the product of rows with a matrix, which goes to the residual stream.
func (d *decoder) add(w work, y cuda.Pointer, matrix kernel.Weight, bias kernel.Buffer) {
	m, once := d.b.Matrix(matrix), d.atOnce(w.rows)
	d.b.Queue(sized("added", once), eager.Shape{X: up(w.rows, once), Y: up(m.Rows, addedOuts), Threads: 32 * warps},
		w.x, y, m.At, d.b.Address(bias, m.Rows), w.step, m.Kind, m.Rows, m.Cols)
}

// storages are the numbers of what K and V are stored as.
var storages = map[kernel.KVType]int{kernel.KVF16: 0, kernel.KVF32: 1, kernel.KVQ8: 2}

// project queues the products of the normed rows that a layer with attention begins with.
func (d *decoder) project(l *kernel.Layer, w work, parts int) {
	a := l.Attention
	d.normed(w, w.x, l.Norm, 0, parts, []kernel.Weight{a.Q, a.K, a.V}, convolution{})
}

// shaped is parameters with the shape of a layer with attention between them.
func (d *decoder) shaped(l *kernel.Layer, p *eager.Places, w work, before []any, after ...any) []any {
	n := d.n
	return append(append(before, n.Heads, n.KVHeads, n.HeadDim, l.Attention.Q.Rows()/n.Heads, storages[p.Config.KV], l.Index,
		p.Config.PageTokens, d.splitsOf(w.rows), p.PageBytes, p.RowBytes), after...)
}

// place queues norms and rotation of projected rows, whose K and V go to their pages.
func (d *decoder) place(l *kernel.Layer, p *eager.Places, w work) {
	n, b, a := d.n, d.b, l.Attention
	angles := w.step + cuda.Pointer(d.anglesAt(w.rows))
	b.Queue("place", eager.Shape{X: w.rows, Y: up(n.Heads+2*n.KVHeads, 4), Threads: 128},
		d.shaped(l, p, w, []any{w.projected, p.Pages, w.step, angles, b.Address(a.QNorm, n.HeadDim), b.Address(a.KNorm, n.HeadDim)},
			len(n.InvFreq), n.Neox, n.Eps)...)
}

// attend queues the attention of placed rows.
func (d *decoder) attend(l *kernel.Layer, p *eager.Places, w work) {
	n, b, a := d.n, d.b, l.Attention
	group, each := n.Heads/n.KVHeads, 8
	if n.HeadDim <= 128 {
		each = 4
	}
	if n.HeadDim <= 64 {
		each = 2
	}
	threads := 32 * max(4, min(group, headsAtOnce))
	b.Queue(sized("attend", each), eager.Shape{X: w.rows * d.splitsOf(w.rows), Y: n.KVHeads * up(group, headsAtOnce), Threads: threads},
		d.shaped(l, p, w, []any{d.found, w.projected, p.Pages, w.step}, a.Window, n.QueryScale)...)
	b.Queue("merge", eager.Shape{X: w.rows, Y: n.Heads, Threads: 64},
		d.shaped(l, p, w, []any{d.mix, d.found, w.projected, b.Address(a.Sinks, n.Heads), w.step})...)
}

func (d *decoder) linear(l *kernel.Layer, p *eager.Places, w work, drafted bool, parts int) {
	b, r, s, rows := d.b, l.Linear, d.n.Delta, w.rows
	channels := r.QKV.Rows()
	conv := p.Slots + cuda.Pointer(4*l.Index*(s.ConvKernel-1)*channels)
	c := convolution{at: conv, w: r.Small.Conv, slot: p.SlotFloats, taps: s.ConvKernel, wide: channels}
	if drafted {
		c = convolution{}
	}
	weights, stride := []kernel.Weight{r.QKV, r.Z, r.Beta, r.Alpha}, 0
	for _, w := range weights {
		stride += w.Rows()
	}
	d.normed(w, w.x, l.Norm, 0, parts, weights, c)
	name := "recur"
	if drafted {
		name = "recurSpan"
		b.Queue("convolveSpan", eager.Shape{X: rows, Y: up(channels, 128), Threads: 128}, w.projected, conv,
			b.Address(r.Small.Conv, channels*s.ConvKernel), w.step, p.SlotFloats, channels, stride, s.ConvKernel)
	}
	b.Queue(sized(name, s.Dim), eager.Shape{X: rows, Y: s.VHeads, Threads: 4 * s.Dim}, d.mix, w.projected, b.Address(r.Small.A, s.VHeads),
		b.Address(r.Small.DtBias, s.VHeads), b.Address(r.Small.Norm, s.Dim), b.States(d.cache, l.Index, s), w.step, p.SlotFloats,
		s.KHeads, s.VHeads, s.Tiled, p.Brain, s.Eps)
}

func (d *decoder) experts(l *kernel.Layer, w work, parts int) {
	n, b, e, r, rows := d.n, d.b, l.Experts, l.Routing, w.rows
	weights := []kernel.Weight{l.Router}
	if l.SharedGate != nil {
		weights = append(weights, l.SharedGate)
	}
	d.normed(w, w.x, l.FFNNorm, d.h, parts, weights, convolution{})
	experts, shared, sharedAt := e.Gate.Experts(), l.FFN.Gate != nil, rows*r.Top
	scale := r.Scale
	if scale == 0 {
		scale = 1
	}
	b.Queue("route", eager.Shape{X: rows, Threads: 32}, d.chosen, d.weights, d.scores, b.Address(r.Bias, experts), experts, r.Top,
		r.Sigmoid, r.Groups, r.GroupsUsed, r.GroupTop, r.Plain, scale)
	b.Queue("group", eager.Shape{X: 1, Threads: 256}, d.works, d.pairs, d.chosen, w.step, experts, r.Top, shared, sharedAt)
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
	b.Queue(sized("expertUp", once), eager.Shape{X: up(max(gate.Rows, of[0].Rows), addedOuts), Y: most, Threads: 32 * warps},
		append([]any{d.between, d.h, d.works, d.pairs, gate.At, above.At, of[0].At, of[1].At, gate.Kind, above.Kind,
			of[0].Kind, of[1].Kind}, tail...)...)
	b.Queue(sized("expertDown", once), eager.Shape{X: up(n.Hidden, addedOuts), Y: most, Threads: 32 * warps},
		append([]any{d.given, d.between, d.works, d.pairs, down.At, cuda.Pointer(0), of[2].At, cuda.Pointer(0), down.Kind, 0,
			of[2].Kind, 0}, tail...)...)
	b.Queue("sumExperts", eager.Shape{X: rows, Y: up(n.Hidden, 256), Threads: 256}, w.x, d.given, d.weights, gates, w.step, r.Top,
		shared, sharedAt, n.Hidden)
}
