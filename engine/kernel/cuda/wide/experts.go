package wide

import (
	"cmp"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
)

// expertRowsMax is how many rows go through the experts at a time, for the memory that their pairs take.
const expertRowsMax = 4096

// pairing is the memory of the pairs of some rows with their experts.
type pairing struct {
	ids, weights, places, rows, firsts, tiles cuda.Pointer
	between, output                           cuda.Pointer
	pairs, reserved                           int // reserved: tiles
}

// pairing lays it out for n rows.
func (b *Backend) pairing(n, top int, gate, down eager.Matrix) pairing {
	pairs := n * top
	p := pairing{pairs: pairs, reserved: min(pairs, up(pairs, tileRows)+gate.Experts)}
	bytes := int64(0)
	place := func(values int) int64 {
		at := bytes
		bytes += (4*int64(values) + 255) &^ 255
		return at
	}
	var offsets []int64
	for _, values := range []int{pairs, pairs, pairs, pairs, gate.Experts, 3 * p.reserved, pairs * gate.Rows, pairs * down.Rows} {
		offsets = append(offsets, place(values))
	}
	at := b.Need(&b.experts, bytes)
	for i, to := range []*cuda.Pointer{&p.ids, &p.weights, &p.places, &p.rows, &p.firsts, &p.tiles, &p.between, &p.output} {
		*to = at + cuda.Pointer(offsets[i])
	}
	return p
}

// Experts implements kernel.Backend.
func (b *Backend) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	gate, upper, down := b.Matrix(s.Gate), b.Matrix(s.Up), b.Matrix(s.Down)
	if n < rowsMin || !b.fits(gate) || !b.fits(down) || upper.Kind != gate.Kind {
		b.Backend.Experts(dst, x, logits, n, s, r)
		return
	}
	to, from, scores := b.Address(dst, n*down.Rows), b.Address(x, n*gate.Cols), b.Address(logits, n*gate.Experts)
	for done := 0; done < n; done += expertRowsMax {
		rows := min(expertRowsMax, n-done)
		b.expertRows(to+cuda.Pointer(4*done*down.Rows), from+cuda.Pointer(4*done*gate.Cols), scores+cuda.Pointer(4*done*gate.Experts),
			rows, s, r)
	}
}

// expertRows sorts the pairs of rows and experts by expert, multiplies each expert's rows, and sums up each row's.
func (b *Backend) expertRows(dst, x, logits cuda.Pointer, n int, s kernel.ExpertStack, r kernel.Routing) {
	gate, upper, down := b.Matrix(s.Gate), b.Matrix(s.Up), b.Matrix(s.Down)
	pairs, p := n*r.Top, b.pairing(n, r.Top, gate, down)
	b.Queue("route", eager.Shape{X: n, Threads: 32}, p.ids, p.weights, logits, b.Address(r.Bias, gate.Experts), gate.Experts, r.Top,
		r.Sigmoid, r.Groups, r.GroupsUsed, r.GroupTop, r.Plain, cmp.Or(r.Scale, 1))
	b.Queue("sortPairs", eager.Shape{X: gate.Experts, Threads: 128}, p.places, p.rows, p.firsts, p.ids, pairs, r.Top)
	b.Queue("listTiles", eager.Shape{X: 1, Threads: (gate.Experts + 31) &^ 31}, p.tiles, p.firsts, gate.Experts, pairs, p.reserved)
	tiles := tileList{p.tiles, p.reserved}
	b.gated(x, n, p, tiles, gate, upper, s)
	form := formOf(down)
	b.narrow(form, p.between, 0, pairs, down.Cols)
	b.product(p.output, form, tiles, down, n)
	b.Queue("combine", eager.Shape{X: up(n*down.Rows, 256), Threads: 256}, dst, p.output, p.places, p.ids, p.weights,
		b.Address(s.DownBias, down.Experts*down.Rows), n, r.Top, down.Rows)
}

// gated computes what is between gate and up on one side and down on the other, for each pair.
func (b *Backend) gated(x cuda.Pointer, n int, p pairing, tiles tileList, gate, upper eager.Matrix, s kernel.ExpertStack) {
	form := formOf(gate)
	in := &b.input[form]
	gateBias, upBias := b.Address(s.GateBias, gate.Experts*gate.Rows), b.Address(s.UpBias, gate.Experts*gate.Rows)
	if b.grouped(gate) { // tensor copies take rows that follow each other
		b.narrow(form, x, p.rows, p.pairs, gate.Cols)
		b.Queue(groupGates[form], b.groupGrid(tiles, gate.Rows, groupOuts/2), p.between, b.rows(in), in.by, tiles.at, b.matrix(gate),
			b.matrix(upper), gateBias, upBias, tiles.count, gate.Rows, gate.Cols, s.Limit, s.Alpha)
		return
	}
	b.narrow(form, x, 0, n, gate.Cols)
	b.Queue(gates[gate.Kind], tiles.grid(gate.Rows, tileOuts/2), p.between, in.at, in.by, p.rows, tiles.at, gate.At, upper.At, gateBias,
		upBias, gate.Rows, gate.Cols, s.Limit, s.Alpha)
}
