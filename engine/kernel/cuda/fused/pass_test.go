package fused

import "corenode/engine/kernel"

// pass is what a step of a network is: the operations of a Backend, one after the other. It returns the logits of all rows.
func (r *rig) pass(in *kernel.Input) []float32 {
	b, n, rows := r.refs, r.want, in.Step.Rows
	p := &passing{b: b, n: n, rows: rows, step: &in.Step, cache: r.refCache}
	x := p.buffer(n.Hidden)
	b.Embed(x, n.Embed, in.Tokens)
	p.angles = p.buffer(2 * len(n.InvFreq))
	b.RopeAngles(p.angles, p.step, n.InvFreq, n.RopeGain)
	for i := range n.Layers {
		l := &n.Layers[i]
		h := p.buffer(n.Hidden)
		b.RMSNorm(h, x, l.Norm, rows, n.Hidden, n.Eps)
		mix := p.buffer(l.Out.Cols())
		if l.Attention != nil {
			p.attention(l, h, mix)
		} else {
			p.linear(l, h, mix)
		}
		delta := p.times(mix, l.Out, l.OutBias)
		b.AddRMSNorm(h, x, delta, l.FFNNorm, rows, n.Hidden, n.Eps)
		delta = p.rest(l, h)
		b.AddRMSNorm(h, x, delta, n.Norm, rows, n.Hidden, n.Eps)
	}
	r.hidden = p.buffer(n.Hidden)
	b.RMSNorm(r.hidden, x, n.Norm, rows, n.Hidden, n.Eps)
	return p.logits(r.hidden, n.Head)
}

// predict is the network's prediction behind what is hidden, of rows with the tokens that come next. It returns logits.
func (r *rig) predict(step *kernel.Step, next []int32) []float32 {
	b, n, v := r.refs, r.want, r.want.Prediction
	p := &passing{b: b, n: n, rows: step.Rows, step: step, cache: r.refCache, angles: b.NewBuffer(2 * len(n.InvFreq) * step.Rows)}
	b.RopeAngles(p.angles, step, n.InvFreq, n.RopeGain)
	x, h := p.buffer(n.Hidden), p.buffer(n.Hidden)
	b.Embed(x, v.Embed, next)
	b.RMSNorm(h, x, v.ENorm, p.rows, n.Hidden, n.Eps)
	x = p.times(h, v.FromE, nil)
	b.RMSNorm(h, r.hidden, v.HNorm, p.rows, n.Hidden, n.Eps)
	b.AddRMSNorm(h, x, p.times(h, v.FromH, nil), v.Layer.Norm, p.rows, n.Hidden, n.Eps)
	mix := p.buffer(v.Layer.Out.Cols())
	p.attention(&v.Layer, h, mix)
	b.AddRMSNorm(h, x, p.times(mix, v.Layer.Out, v.Layer.OutBias), v.Layer.FFNNorm, p.rows, n.Hidden, n.Eps)
	b.AddRMSNorm(h, x, p.rest(&v.Layer, h), v.Norm, p.rows, n.Hidden, n.Eps)
	r.hidden = h
	return p.logits(h, v.Head)
}

func (p *passing) logits(h kernel.Buffer, head kernel.Weight) []float32 {
	logits := make([]float32, p.rows*p.n.Vocabulary)
	p.b.Download(logits, p.times(h, head, nil), 0)
	return logits
}

type passing struct {
	b      kernel.Backend
	n      *kernel.Network
	rows   int
	step   *kernel.Step
	cache  kernel.Cache
	angles kernel.Buffer
}

func (p *passing) buffer(width int) kernel.Buffer { return p.b.NewBuffer(p.rows * width) }

func (p *passing) times(x kernel.Buffer, w kernel.Weight, bias kernel.Buffer) kernel.Buffer {
	to := p.buffer(w.Rows())
	p.b.MatMul([]kernel.Buffer{to}, x, p.rows, []kernel.Weight{w})
	if bias != nil {
		p.b.AddBias(to, bias, p.rows, w.Rows())
	}
	return to
}

func (p *passing) attention(l *kernel.Layer, h, mix kernel.Buffer) {
	a, n, b, half := l.Attention, p.n, p.b, len(p.n.InvFreq)
	q, k, v := p.times(h, a.Q, a.QBias), p.times(h, a.K, a.KBias), p.times(h, a.V, a.VBias)
	gate := p.buffer(n.Heads * n.HeadDim)
	if a.Gated {
		both := q
		q = p.buffer(n.Heads * n.HeadDim)
		b.SplitHeads(q, gate, both, p.rows, n.Heads, n.HeadDim)
	}
	if a.QNorm != nil {
		b.RMSNorm(q, q, a.QNorm, p.rows*n.Heads, n.HeadDim, n.Eps)
		b.RMSNorm(k, k, a.KNorm, p.rows*n.KVHeads, n.HeadDim, n.Eps)
	}
	b.Rope(q, p.angles, p.rows, n.Heads, n.HeadDim, half, n.Neox)
	b.Rope(k, p.angles, p.rows, n.KVHeads, n.HeadDim, half, n.Neox)
	b.StoreKV(p.cache, l.Index, k, v, p.step)
	b.Attend(p.cache, l.Index, mix, q, p.step, n.Heads, a.Window, n.QueryScale, a.Sinks)
	if a.Gated {
		b.SigmoidMul(mix, gate, p.rows, n.Heads*n.HeadDim)
	}
}

func (p *passing) linear(l *kernel.Layer, h, mix kernel.Buffer) {
	r := l.Linear
	p.b.DeltaNet(p.cache, l.Index, mix, p.times(h, r.QKV, nil), p.times(h, r.Z, nil), p.times(h, r.Beta, nil), p.times(h, r.Alpha, nil),
		r.Small, p.n.Delta, p.step)
}

// rest is the FFN or the experts.
func (p *passing) rest(l *kernel.Layer, h kernel.Buffer) kernel.Buffer {
	b := p.b
	var shared kernel.Buffer
	if f := l.FFN; f.Gate != nil {
		gate := p.times(h, f.Gate, nil)
		b.SiLUMul(gate, gate, p.times(h, f.Up, nil), p.rows, f.Gate.Rows())
		shared = p.times(gate, f.Down, nil)
	}
	if l.Router == nil {
		return shared
	}
	sum := p.buffer(p.n.Hidden)
	b.Experts(sum, h, p.times(h, l.Router, l.RouterBias), p.rows, l.Experts, l.Routing)
	if shared != nil {
		gate := p.buffer(1)
		open := make([]float32, p.rows)
		for i := range open {
			open[i] = 100 // whose sigmoid is 1
		}
		b.Upload(gate, 0, open)
		if l.SharedGate != nil {
			gate = p.times(h, l.SharedGate, nil)
		}
		b.AddScaled(sum, shared, gate, p.rows, p.n.Hidden)
	}
	return sum
}
