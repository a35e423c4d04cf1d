// Package model is the forward pass: it reads what a model file says about its
// architecture, brings every tensor to a kernel.Backend and calls the
// backend's operations in order. It owns no arithmetic.
//
// One pass computes a kernel.Step: rows of many sequences, prefill and decode
// mixed. Each layer is a mixer (full attention over KV pages, or Gated
// DeltaNet over a recurrent state) and an FFN (dense, or experts), both with
// a norm before and a residual connection around. The output head runs only
// for the rows whose logits were asked for.
//
// Life of a Model: Load (all weights on the backend) -> Forward, any number
// of times, from one goroutine at a time -> Close. KV pages and states live in
// a kernel.Cache that the caller makes from CacheConfig; the caller also
// decides which page and which slot belongs to whom.
package model

import (
	"cmp"
	"errors"
	"fmt"
	"sync"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// Model is a loaded model. Not safe for concurrent use, except Config and the sizes.
type Model struct {
	cfg        Config
	b          kernel.Backend
	embed      kernel.Weight
	head       kernel.Weight // embed when the file has no output tensor
	norm       kernel.Buffer
	layers     []layer
	prediction *predictionLayer // nil without a layer that predicts further tokens
	act        activations
	products   products
	close      sync.Once
	sealed     error
}

// SealError says why the backend keeps no repacked weights for the next start,
// such as a full disk; nil when it does. The model runs all the same.
func (m *Model) SealError() error { return m.sealed }

// layer is one transformer block. Exactly one of attention, latent and delta is set, and
// exactly one of dense and moe.
type layer struct {
	index     int // among the layers of its kind: where its KV or state lies
	norm      kernel.Buffer
	attention *attention
	latent    *latent
	delta     *deltaNet
	out       kernel.Weight // from the mixer back to the hidden width
	outBias   kernel.Buffer // nil without
	ffnNorm   kernel.Buffer
	dense     *dense
	moe       *moe
	local     bool // attention sees the window only

	mixNorm, endNorm kernel.Buffer // of what mixer and FFN add; nil without
}

// attention is full attention. In gated models q computes q and gate of each head.
type attention struct {
	q, k, v             kernel.Weight
	qBias, kBias, vBias kernel.Buffer // nil without
	qNorm, kNorm        kernel.Buffer // nil without
	sinks               kernel.Buffer // nil without
	gated               bool
}

// deltaNet is linear attention.
type deltaNet struct {
	qkv, z, beta, alpha kernel.Weight
	small               kernel.DeltaWeights
}

// dense is a SwiGLU FFN.
type dense struct{ gate, up, down kernel.Weight }

// moe is a mixture of experts. shared is nil without a shared expert, whose
// weight in the sum is sigmoid(sharedGate · x), or 1 where sharedGate is nil.
type moe struct {
	router     kernel.Weight
	routerBias kernel.Buffer // nil without
	stack      kernel.ExpertStack
	routing    kernel.Routing
	shared     *dense
	sharedGate kernel.Weight
}

// sealer is a backend that wants to know when the last weight is loaded.
type sealer interface{ Seal() error }

// waiter is a backend that reads and packs weights after Load has returned.
type waiter interface{ Wait() }

// keeper is a backend that may have the weights of an earlier start.
type keeper interface{ Kept() bool }

// Load brings the model to b, which then belongs to the model: Close closes
// it. After an error b is still the caller's. The file must stay open until Close.
// A prediction layer that the file may have is left out.
func Load(f *modelfile.File, b kernel.Backend) (*Model, error) { return load(f, b, false) }

// LoadPredicting is Load with the layer that predicts further tokens, where the
// file has one that this package computes: then Predicts is true.
func LoadPredicting(f *modelfile.File, b kernel.Backend) (*Model, error) { return load(f, b, true) }

// ErrPrediction is of a file that Load takes: what is wrong is of the layer that predicts further tokens.
var ErrPrediction = errors.New("its prediction layer")

// Check is ReadConfig, and says why LoadPredicting would refuse the tensors by their names, types and
// shapes. No weights are read.
func Check(f *modelfile.File) (Config, error) {
	cfg, err := ReadConfig(f)
	if err != nil {
		return Config{}, err
	}
	check := func(predicting bool) error {
		m, t := &Model{cfg: cfg}, &tensors{f: f, used: map[string]bool{}, dry: true}
		m.loadLayers(t, predicting)
		return t.err(cfg)
	}
	if err = check(true); err != nil && check(false) == nil {
		err = fmt.Errorf("%w: %w", ErrPrediction, err)
	}
	return cfg, err
}

func load(f *modelfile.File, b kernel.Backend, predicting bool) (*Model, error) {
	cfg, err := ReadConfig(f)
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	m := &Model{cfg: cfg, b: b}
	t := &tensors{f: f, b: b, used: map[string]bool{}}
	if k, ok := b.(keeper); !ok || !k.Kept() {
		defer f.Prefetch()()
		t.read = f.Read
	}
	wait := func() {}
	if w, ok := b.(waiter); ok {
		wait = w.Wait
	}
	defer wait() // before reading ends
	m.loadLayers(t, predicting)
	wait()
	if err := cmp.Or(t.err(cfg), f.Failed()); err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	if s, ok := b.(sealer); ok {
		m.sealed = s.Seal()
	}
	m.grow(rowsAtStart)
	return m, nil
}

// loadLayers loads all tensors.
func (m *Model) loadLayers(t *tensors, predicting bool) {
	m.loadEnds(t)
	full, linear := 0, 0
	for i := 0; i < m.cfg.Layers && len(t.errs) == 0; i++ {
		l := t.layer(m.cfg, i, m.cfg.Linear[i])
		if m.cfg.Linear[i] {
			l.index, linear = linear, linear+1
		} else {
			l.index, full = full, full+1
		}
		m.layers = append(m.layers, l)
	}
	if predicting {
		m.loadPrediction(t)
	}
}

// loadEnds loads what stands before the first and after the last layer.
func (m *Model) loadEnds(t *tensors) {
	if t.has("output.weight") {
		m.embed = t.table("token_embd.weight", m.cfg.Vocab, m.cfg.Hidden)
		m.head = t.matrix("output.weight", m.cfg.Vocab, m.cfg.Hidden)
	} else {
		m.embed = t.tied("token_embd.weight", m.cfg.Vocab, m.cfg.Hidden)
		m.head = m.embed
	}
	m.norm = t.vector("output_norm.weight", m.cfg.Hidden)
}

// layer loads block i.
func (t *tensors) layer(c Config, i int, linear bool) layer {
	a, p := archs[c.Arch], fmt.Sprintf("blk.%d.", i)
	l := layer{norm: t.vector(p+"attn_norm.weight", c.Hidden)}
	switch {
	case linear:
		l.delta = t.deltaNet(c, p)
		l.out = t.matrix(p+"ssm_out.weight", c.Hidden, c.LinearVHeads*c.LinearDim)
	case a.latent:
		l.latent = t.latent(c, p)
		l.out = t.matrix(p+"attn_output.weight", c.Hidden, c.Heads*c.ValueDim)
	default:
		l.attention = t.attention(c, a, p)
		l.out = t.matrix(p+"attn_output.weight", c.Hidden, c.Heads*c.HeadDim)
		l.outBias = t.optional(p+"attn_output.bias", c.Hidden)
	}
	l.ffnNorm = t.vector(p+a.ffnNorm, c.Hidden)
	l.local = c.Local != nil && i < c.Layers && c.Local[i]
	if a.gemma {
		share := float32(1 / c.embeddingScale())
		l.mixNorm = t.scaled(p+"post_attention_norm.weight", share, c.Hidden)
		l.endNorm = t.scaled(p+"post_ffw_norm.weight", share, c.Hidden)
	}
	if a.clamped {
		l.attention.sinks = t.vector(p+"attn_sinks.weight", c.Heads)
	}
	switch {
	case i < c.DenseLead || !a.moe:
		l.dense = t.dense(p, "", c.Hidden, c.FF)
	case a.scored:
		l.moe = t.scored(c, p)
	default:
		l.moe = t.moe(c, p)
		if a.clamped {
			t.clamp(l.moe, c, p)
		}
	}
	return l
}

func (t *tensors) attention(c Config, arch arch, p string) *attention {
	q, kv := c.Heads*c.HeadDim, c.KVHeads*c.HeadDim
	a := &attention{gated: arch.hybrid}
	rows := q
	if a.gated {
		rows = 2 * q
	}
	if t.has(p + "attn_qkv.weight") {
		parts := t.split(p+"attn_qkv.weight", c.Hidden, rows, kv, kv)
		a.q, a.k, a.v = parts[0], parts[1], parts[2]
	} else {
		a.q = t.matrix(p+"attn_q.weight", rows, c.Hidden)
		a.k = t.matrix(p+"attn_k.weight", kv, c.Hidden)
		a.v = t.matrix(p+"attn_v.weight", kv, c.Hidden)
	}
	vector := t.optional
	if arch.bias {
		vector = func(name string, n int) kernel.Buffer { return t.vector(name, n) }
	}
	a.qBias, a.kBias, a.vBias = vector(p+"attn_q.bias", rows), vector(p+"attn_k.bias", kv), vector(p+"attn_v.bias", kv)
	if arch.qkNorm || arch.scored && t.has(p+"attn_q_norm.weight") {
		a.qNorm, a.kNorm = t.vector(p+"attn_q_norm.weight", c.HeadDim), t.vector(p+"attn_k_norm.weight", c.HeadDim)
	}
	return a
}

func (t *tensors) deltaNet(c Config, p string) *deltaNet {
	return &deltaNet{
		qkv:   t.matrix(p+"attn_qkv.weight", c.ConvDim, c.Hidden),
		z:     t.matrix(p+"attn_gate.weight", c.LinearVHeads*c.LinearDim, c.Hidden),
		beta:  t.matrix(p+"ssm_beta.weight", c.LinearVHeads, c.Hidden),
		alpha: t.matrix(p+"ssm_alpha.weight", c.LinearVHeads, c.Hidden),
		small: kernel.DeltaWeights{
			Conv:   t.vector(p+"ssm_conv1d.weight", c.ConvKernel, c.ConvDim),
			A:      t.vector(p+"ssm_a", c.LinearVHeads),
			DtBias: t.vector(p+"ssm_dt.bias", c.LinearVHeads),
			Norm:   t.vector(p+"ssm_norm.weight", c.LinearDim),
		},
	}
}

// dense loads a SwiGLU FFN; suffix tells a layer's several apart.
func (t *tensors) dense(p, suffix string, hidden, ff int) *dense {
	return &dense{
		gate: t.matrix(p+"ffn_gate"+suffix+".weight", ff, hidden),
		up:   t.matrix(p+"ffn_up"+suffix+".weight", ff, hidden),
		down: t.matrix(p+"ffn_down"+suffix+".weight", hidden, ff),
	}
}

func (t *tensors) moe(c Config, p string) *moe {
	m := &moe{
		routing: c.Routing,
		router:  t.matrix(p+"ffn_gate_inp.weight", c.Experts, c.Hidden),
		stack:   kernel.ExpertStack{Down: t.experts(p+"ffn_down_exps.weight", c.Experts, c.Hidden, c.ExpertFF)},
	}
	if fused := p + "ffn_gate_up_exps.weight"; t.has(fused) {
		m.stack.Gate, m.stack.Up = t.halves(fused, c.Experts, c.ExpertFF, c.Hidden)
	} else {
		m.stack.Gate = t.experts(p+"ffn_gate_exps.weight", c.Experts, c.ExpertFF, c.Hidden)
		m.stack.Up = t.experts(p+"ffn_up_exps.weight", c.Experts, c.ExpertFF, c.Hidden)
	}
	if c.SharedFF > 0 {
		m.shared = t.dense(p, "_shexp", c.Hidden, c.SharedFF)
		if archs[c.Arch].sharedFF {
			m.sharedGate = t.matrix(p+"ffn_gate_inp_shexp.weight", 1, c.Hidden)
		}
	}
	return m
}

// Config returns what ReadConfig found.
func (m *Model) Config() Config { return m.cfg }

// HasState says that sequences carry a recurrent state beside their pages.
func (m *Model) HasState() bool { return m.cfg.LinearLayers() > 0 }

// fullLayers is the number of layers with K and V in the pages: the prediction
// layer's come last.
func (m *Model) fullLayers() int {
	if m.prediction != nil {
		return m.cfg.FullLayers() + 1
	}
	return m.cfg.FullLayers()
}

// CacheConfig is the cache shape for this model: pages of pageTokens positions
// and, for models with state, stateSlots slots.
func (m *Model) CacheConfig(pageTokens, pages, stateSlots int, kv kernel.KVType) kernel.CacheConfig {
	c := m.cfg.Pages(m.fullLayers(), pageTokens, pages, kv)
	if m.HasState() {
		c.LinearLayers, c.StateSlots = m.cfg.LinearLayers(), stateSlots
		c.ConvDim, c.ConvKernel = m.cfg.ConvDim, m.cfg.ConvKernel
		c.VHeads, c.StateDim = m.cfg.LinearVHeads, m.cfg.LinearDim
	}
	return c
}

// Pages is the shape of the pages of so many layers with K and V.
func (c Config) Pages(layers, pageTokens, pages int, kv kernel.KVType) kernel.CacheConfig {
	return kernel.CacheConfig{Layers: layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim,
		PageTokens: pageTokens, Pages: pages, KV: kv, Shared: c.LatentDim > 0}
}

// BytesPerPage is the memory of one page of K and V, all layers, as the backend
// takes it.
func (m *Model) BytesPerPage(pageTokens int, kv kernel.KVType) int64 {
	return m.b.PageBytes(m.CacheConfig(pageTokens, 1, 0, kv))
}

// BytesPerState is the memory of one state slot, all layers, as the backend takes it; 0 without state.
func (m *Model) BytesPerState(states kernel.StateType) int64 {
	c := m.CacheConfig(1, 0, 1, kernel.KVF16)
	c.States = states
	return m.b.StateBytes(c)
}

// Close closes the backend the model was loaded on. A second Close does nothing.
func (m *Model) Close() { m.close.Do(m.b.Close) }
