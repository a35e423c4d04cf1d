package model

import "corenode/engine/kernel"

// fuse is what computes whole steps where the backend can: nil where it cannot.
func (m *Model) fuse() (kernel.Fused, error) {
	f, ok := m.b.(kernel.Fuser)
	if !ok {
		return nil, nil
	}
	n := m.network()
	if n == nil {
		return nil, nil
	}
	return f.Fuse(n)
}

// network is the model as its backend may fuse it; nil for one with operations that a Network has no word for.
func (m *Model) network() *kernel.Network {
	c, a := m.cfg, archs[m.cfg.Arch]
	if a.latent || a.gemma || len(c.LocalInvFreq) > 0 {
		return nil
	}
	n := &kernel.Network{
		Hidden: c.Hidden, Vocabulary: c.Vocab, Eps: c.Eps, Embed: m.embed, Head: m.head, Norm: m.norm,
		Heads: c.Heads, KVHeads: c.KVHeads, HeadDim: c.HeadDim, QueryScale: float32(c.QueryScale),
		InvFreq: c.InvFreq, RopeGain: c.RopeGain, Neox: c.Neox,
	}
	if m.HasState() {
		n.Delta = m.deltaShape()
	}
	for i := range m.layers {
		n.Layers = append(n.Layers, m.fused(&m.layers[i]))
	}
	if p := m.prediction; p != nil {
		n.Prediction = &kernel.Prediction{
			Embed: p.embed, Head: p.head, ENorm: p.eNorm, HNorm: p.hNorm, FromE: p.fromE, FromH: p.fromH,
			Layer: m.fused(&p.layer), Norm: p.norm,
		}
	}
	return n
}

// fused is a layer of a network.
func (m *Model) fused(l *layer) kernel.Layer {
	f := kernel.Layer{Index: l.index, Norm: l.norm, FFNNorm: l.ffnNorm, Out: l.out, OutBias: l.outBias}
	if w := l.attention; w != nil {
		f.Attention = &kernel.Attention{
			Q: w.q, K: w.k, V: w.v, QBias: w.qBias, KBias: w.kBias, VBias: w.vBias,
			QNorm: w.qNorm, KNorm: w.kNorm, Sinks: w.sinks, Gated: w.gated,
		}
		if l.local {
			f.Attention.Window = m.cfg.Window
		}
	}
	if w := l.delta; w != nil {
		f.Linear = &kernel.Linear{QKV: w.qkv, Z: w.z, Beta: w.beta, Alpha: w.alpha, Small: w.small}
	}
	ffn := l.dense
	if w := l.moe; w != nil {
		f.Router, f.RouterBias, f.Experts, f.Routing, f.SharedGate = w.router, w.routerBias, w.stack, w.routing, w.sharedGate
		ffn = w.shared
	}
	if ffn != nil {
		f.FFN = kernel.FFN{Gate: ffn.gate, Up: ffn.up, Down: ffn.down}
	}
	return f
}
