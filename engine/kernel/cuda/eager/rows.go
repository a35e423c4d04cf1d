package eager

import (
	"math"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
)

// Embed implements kernel.Backend.
func (b *Backend) Embed(dst kernel.Buffer, table kernel.Weight, ids []int32) {
	t := table.(*weight)
	n := len(ids) * t.cols
	b.Queue("embed", each(n), at(dst, n), t.at, b.numbers(ids), n, t.cols, t.kind)
}

// numbers brings a list to the device, until the next one.
func (b *Backend) numbers(v []int32) cuda.Pointer {
	p := b.Need(&b.ints, 4*int64(len(v)))
	b.CopyIn(p, v)
	return p
}

// GatherRows implements kernel.Backend.
func (b *Backend) GatherRows(dst, src kernel.Buffer, rows []int32, d int) {
	n := len(rows) * d
	b.Queue("gatherRows", each(n), at(dst, n), at(src, d), b.numbers(rows), n, d)
}

// MatMul implements kernel.Backend.
func (b *Backend) MatMul(dst []kernel.Buffer, x kernel.Buffer, n int, w []kernel.Weight) {
	name, rows := "matmul4", 4
	if n == 1 {
		name, rows = "matmul1", 1
	}
	for i := range w {
		m := w[i].(*weight)
		b.Queue(name, Shape{X: up(m.rows, 4), Y: up(n, rows), Threads: 128},
			at(dst[i], n*m.rows), at(x, n*m.cols), m.at, m.kind, n, m.rows, m.cols)
	}
}

// AddBias implements kernel.Backend.
func (b *Backend) AddBias(x, bias kernel.Buffer, n, d int) {
	b.Queue("addBias", each(n*d), at(x, n*d), at(bias, d), n*d, d)
}

// RMSNorm implements kernel.Backend.
func (b *Backend) RMSNorm(dst, x, w kernel.Buffer, n, d int, eps float32) {
	b.norm(dst, x, nil, w, n, d, eps)
}

// AddRMSNorm implements kernel.Backend.
func (b *Backend) AddRMSNorm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	b.norm(dst, x, delta, w, n, d, eps)
}

func (b *Backend) norm(dst, x, delta, w kernel.Buffer, n, d int, eps float32) {
	threads := max(32, min(256, d/8&^31))
	b.Queue("rmsNorm", Shape{X: n, Threads: threads}, at(dst, n*d), at(x, n*d), at(delta, n*d), at(w, d), d, eps)
}

// SiLUMul implements kernel.Backend.
func (b *Backend) SiLUMul(dst, gate, up kernel.Buffer, n, d int) {
	b.Queue("siluMul", each(n*d), at(dst, n*d), at(gate, n*d), at(up, n*d), n*d)
}

// GELUMul implements kernel.Backend.
func (b *Backend) GELUMul(dst, gate, up kernel.Buffer, n, d int) {
	b.Queue("geluMul", each(n*d), at(dst, n*d), at(gate, n*d), at(up, n*d), n*d)
}

// SigmoidMul implements kernel.Backend.
func (b *Backend) SigmoidMul(x, gate kernel.Buffer, n, d int) {
	b.Queue("sigmoidMul", each(n*d), at(x, n*d), at(gate, n*d), n*d)
}

// AddScaled implements kernel.Backend.
func (b *Backend) AddScaled(x, y, gate kernel.Buffer, n, d int) {
	b.Queue("addScaled", each(n*d), at(x, n*d), at(y, n*d), at(gate, n), n*d, d)
}

// SplitHeads implements kernel.Backend.
func (b *Backend) SplitHeads(first, second, x kernel.Buffer, n, heads, d int) {
	all := n * heads * d
	b.Queue("splitHeads", each(all), at(first, all), at(second, all), at(x, 2*all), all, d)
}

// RopeAngles implements kernel.Backend: on the host, whose float64 a device cannot match.
func (b *Backend) RopeAngles(dst kernel.Buffer, step *kernel.Step, invFreq []float64, gain float64) {
	half := len(invFreq)
	table := make([]float32, step.Rows*2*half)
	for _, s := range step.Spans {
		for i := range s.Len {
			row := table[(s.Row+i)*2*half:]
			for j, f := range invFreq {
				sin, cos := math.Sincos(float64(s.Pos+i) * f)
				row[j], row[half+j] = float32(cos*gain), float32(sin*gain)
			}
		}
	}
	b.Upload(dst, 0, table)
}

// Rope implements kernel.Backend.
func (b *Backend) Rope(x, angles kernel.Buffer, n, heads, headDim, half int, neox bool) {
	if half == 0 {
		return
	}
	b.Queue("rope", each(n*heads*half), at(x, n*heads*headDim), at(angles, 2*n*half), n*heads*half, heads, headDim, half, neox)
}

// pairRowsMax is how many rows go through the experts at a time: a grid is at most 65,535 high.
const pairRowsMax = 1024

// expertsMax is the size of the router's lists.
const expertsMax = 1024

// Experts implements kernel.Backend.
func (b *Backend) Experts(dst, x, logits kernel.Buffer, n int, s kernel.ExpertStack, r kernel.Routing) {
	gate, upper, down := s.Gate.(*weight), s.Up.(*weight), s.Down.(*weight)
	to, from, scores := at(dst, n*down.rows), at(x, n*gate.cols), at(logits, n*gate.experts)
	scale := r.Scale
	if scale == 0 {
		scale = 1
	}
	most := min(n, pairRowsMax)
	list := (4*most*r.Top + 15) &^ 15 // what follows is read by 16 bytes
	ids := b.Need(&b.pairs, int64(2*list+4*most*r.Top*gate.rows))
	weights, between := ids+cuda.Pointer(list), ids+cuda.Pointer(2*list)
	for done := 0; done < n; done += most {
		rows := min(most, n-done)
		b.Queue("route", Shape{X: rows, Threads: 32}, ids, weights, scores+cuda.Pointer(4*done*gate.experts), at(r.Bias, gate.experts),
			gate.experts, r.Top, r.Sigmoid, r.Groups, r.GroupsUsed, r.GroupTop, r.Plain, scale)
		b.Queue("expertUp", Shape{X: up(gate.rows, 4), Y: rows * r.Top, Threads: 128}, between, from+cuda.Pointer(4*done*gate.cols),
			ids, gate.at, upper.at, at(s.GateBias, gate.experts*gate.rows), at(s.UpBias, gate.experts*gate.rows),
			gate.kind, upper.kind, r.Top, gate.rows, gate.cols, s.Limit, s.Alpha)
		b.Queue("expertDown", Shape{X: up(down.rows, 4), Y: rows, Threads: 128}, to+cuda.Pointer(4*done*down.rows), between,
			ids, weights, down.at, at(s.DownBias, down.experts*down.rows), down.kind, r.Top, down.rows, down.cols)
	}
}
