// Package fused computes steps that decode, a row for each sequence and one for each token of its draft, with few
// kernels for a layer of a model, as one CUDA graph for each bucket of rows. All else is the business of packages
// wide and eager, whose backend it extends: all work on the same weights, pages and states, so each step may go
// either way.
//
// What changes from step to step lies in device memory: a graph is recorded once for a bucket and replayed.
// A step of fewer rows than its bucket has costs little more than its own rows.
package fused

import (
	_ "embed"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/kernel/cuda"
	"corenode/engine/kernel/cuda/eager"
	"corenode/engine/kernel/cuda/wide"
)

//go:embed kernels/ptx.tar.zst
var ptx []byte

// images are the modules, by their file.
func images() map[string]string { return eager.Images(ptx) }

// Backend is a backend that fuses networks, too.
type Backend struct{ *wide.Backend }

var _ kernel.Fuser = (*Backend)(nil)

// New takes a device over; it is closed when this fails, too.
func New(d cuda.Driver, o eager.Options) (*Backend, error) {
	b, err := wide.New(d, o)
	if err != nil {
		return nil, err
	}
	return extend(b, images())
}

func extend(b *wide.Backend, images map[string]string) (*Backend, error) {
	for _, text := range images {
		if err := b.Extend(text, nil); err != nil {
			b.Close()
			return nil, err
		}
	}
	return &Backend{b}, nil
}

// Name implements kernel.Backend.
func (b *Backend) Name() string { return "cuda/fused " + b.Device().Name() }

// The most that the kernels take.
const (
	headDimMax = 256
	expertsMax = 1024
	sharedMax  = 160 << 10 // bytes of a block, for normed rows
)

// stateDims are the widths that a step of DeltaNet is compiled for.
var stateDims = []int{64, 128}

// Fuse implements kernel.Fuser.
func (b *Backend) Fuse(n *kernel.Network) (_ kernel.Fused, err error) {
	defer cuda.Catch(&err)
	if !b.knows(n) {
		return nil, nil
	}
	d := &decoder{b: b, n: n, blocks: b.Shapes().AttentionBlocks, graphs: map[bucket]cuda.Graph{}}
	b.Drawn() // is there before a graph is recorded, which would clear it with each step
	if n.Prediction != nil {
		d.hidden = b.Hidden(nil) // has room for more
	}
	fits := func(rows int) bool {
		bytes := 4 * rows * n.Hidden
		return bytes <= sharedMax && b.Allow(sized("normed", rows), bytes)
	}
	for _, rows := range b.Shapes().RowsAtOnce {
		if fits(rows) {
			d.rowsAtOnce = append(d.rowsAtOnce, rows)
		}
	}
	if len(d.rowsAtOnce) == 0 { // none of the table's
		if !fits(1) {
			return nil, nil
		}
		d.rowsAtOnce = []int{1}
	}
	return d, nil
}

// knows says whether the kernels compute such a network.
func (b *Backend) knows(n *kernel.Network) bool {
	if n.Hidden%8 != 0 || n.HeadDim%2 != 0 || n.HeadDim > headDimMax || !b.multiplies(n.Head) {
		return false
	}
	if p := n.Prediction; p != nil {
		if !b.multiplies(p.FromE) || !b.multiplies(p.FromH) || !b.multiplies(p.Head) ||
			p.Layer.Attention == nil || !b.knowsLayer(n, &p.Layer) {
			return false
		}
	}
	return !slices.ContainsFunc(n.Layers, func(l kernel.Layer) bool { return !b.knowsLayer(n, &l) })
}

func (b *Backend) knowsLayer(n *kernel.Network, l *kernel.Layer) bool {
	weights := []kernel.Weight{l.Out}
	if a := l.Attention; a != nil {
		weights = append(weights, a.Q, a.K, a.V)
	}
	if r := l.Linear; r != nil {
		if !slices.Contains(stateDims, n.Delta.Dim) {
			return false
		}
		weights = append(weights, r.QKV, r.Z, r.Beta, r.Alpha)
	}
	if f := l.FFN; f.Gate != nil {
		weights = append(weights, f.Gate, f.Up, f.Down)
	}
	if l.Router != nil {
		e := l.Experts
		weights = append(weights, l.Router, e.Gate, e.Up, e.Down)
		if e.GateBias != nil || e.Limit != 0 || e.Gate.Experts() > expertsMax {
			return false
		}
		if l.SharedGate != nil {
			weights = append(weights, l.SharedGate)
		}
	}
	return !slices.ContainsFunc(weights, func(w kernel.Weight) bool { return !b.multiplies(w) })
}

// multiplies says whether the kernels multiply with such a matrix.
func (b *Backend) multiplies(w kernel.Weight) bool {
	return w.Cols()%8 == 0 && b.Matrix(w).Kind <= eager.KindE4M3
}

// up is n/d rounded up.
func up(n, d int) int { return (n + d - 1) / d }
