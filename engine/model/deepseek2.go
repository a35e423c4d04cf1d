package model

import (
	"fmt"
	"math"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// What is particular to deepseek2, the architecture of DeepSeek V2 and V3 and of Kimi K2: latent
// attention. A position has one vector of latents, of which a head's key and value are products
// with matrices of the head, and a key with a position that all heads share. Queries are brought
// to the latents instead, so that the cache holds these alone: all heads read one KV head, whose
// value is its key, and the product with a head's values comes after the sum over positions.

// latent is latent attention.
type latent struct {
	queryIn      kernel.Weight // nil where queries are made by one matrix
	queryNorm    kernel.Buffer
	query        kernel.Weight
	kv, turned   kernel.Weight // latents, and the key with a position
	norm         kernel.Buffer
	keys, values kernel.Weight // of each head: query to latents, latents to value
}

// latent reads the shape of latent attention, which old files give as that of the heads.
func (k *keys) latent(c *Config) {
	c.KVHeads = 1
	if n := k.heads("attention.head_count_kv", 1); n != 1 && n != c.Heads {
		k.fail("attention.head_count_kv is %d, want 1 or the heads, %d", n, c.Heads)
	}
	c.LatentDim = k.int("attention.kv_lora_rank", required, 1, headDimMax)
	c.QueryRank = k.int("attention.q_lora_rank", 0, 0, hiddenMax)
	rope := k.int("rope.dimension_count", required, 2, headDimMax)
	key := k.int("attention.key_length_mla", k.int("attention.key_length", required, 1, headDimMax), 1, headDimMax)
	c.ValueDim = k.int("attention.value_length_mla", k.int("attention.value_length", required, 1, headDimMax), 1, headDimMax)
	c.KeyDim, c.HeadDim = key-rope, rope+c.LatentDim
	if c.KeyDim < 1 || c.HeadDim > headDimMax {
		k.fail("attention.key_length is %d with %d values of a position and %d latents, want more than these, and at most %d of both",
			key, rope, c.LatentDim, headDimMax)
	}
	k.usual("attention.causal")
}

// logMultiplier is how much YaRN changes the scale of queries, times the logarithm of its factor.
func (k *keys) logMultiplier() float64 {
	return k.float("rope.scaling.yarn_log_multiplier", 0, 0, 1e6)
}

// latentScale multiplies what a query and a key have in common.
func (k *keys) latentScale(c *Config) float64 {
	gain := 1 + k.logMultiplier()*math.Log(max(c.RopeScale, 1))
	return gain * gain / math.Sqrt(float64(c.KeyDim+c.RopeDim))
}

// latent loads a layer's attention.
func (t *tensors) latent(c Config, p string) *latent {
	if _, ok := t.b.(kernel.HeadBackend); !ok && !t.dry {
		t.errs = append(t.errs, fmt.Errorf("%s does not compute latent attention", t.b.Name()))
		return nil
	}
	kv := t.split(p+"attn_kv_a_mqa.weight", c.Hidden, c.LatentDim, c.RopeDim)
	w := &latent{kv: kv[0], turned: kv[1], norm: t.vector(p+"attn_kv_a_norm.weight", c.LatentDim)}
	queries := c.Heads * (c.KeyDim + c.RopeDim)
	if c.QueryRank > 0 {
		w.queryIn = t.matrix(p+"attn_q_a.weight", c.QueryRank, c.Hidden)
		w.queryNorm = t.vector(p+"attn_q_a_norm.weight", c.QueryRank)
		w.query = t.matrix(p+"attn_q_b.weight", queries, c.QueryRank)
	} else {
		w.query = t.matrix(p+"attn_q.weight", queries, c.Hidden)
	}
	joined := p + "attn_kv_b.weight"
	if !t.has(p + "attn_k_b.weight") {
		w.keys, w.values = t.apart(c, joined)
		return w
	}
	w.keys = t.experts(p+"attn_k_b.weight", c.Heads, c.LatentDim, c.KeyDim)
	w.values = t.experts(p+"attn_v_b.weight", c.Heads, c.ValueDim, c.LatentDim)
	t.used[joined] = true // some files have both
	return w
}

// apart loads the matrices of keys and of values from the one that old files have: of each head
// the rows of its key, then those of its value. Those of keys are turned.
func (t *tensors) apart(c Config, name string) (keys, values kernel.Weight) {
	rows := c.KeyDim + c.ValueDim
	x := t.find(name, c.LatentDim, c.Heads*rows)
	if x == nil || !t.ready(x) {
		return nil, nil
	}
	all, err := x.Floats()
	if err != nil {
		t.errs = append(t.errs, err)
		return nil, nil
	}
	turned := make([]float32, c.Heads*c.LatentDim*c.KeyDim)
	for i := range turned {
		head, latent, key := i/(c.LatentDim*c.KeyDim), i/c.KeyDim%c.LatentDim, i%c.KeyDim
		turned[i] = all[(head*rows+key)*c.LatentDim+latent]
	}
	typ := kernel.F16
	if slices.Contains([]kernel.Type{kernel.F32, kernel.BF16}, x.Type) {
		typ = x.Type
	}
	data, err := modelfile.Quantize(typ, turned)
	if err != nil {
		t.errs = append(t.errs, err)
		return nil, nil
	}
	keys = t.bring(kernel.Source{
		Name: name + "[keys]", Type: typ, Experts: c.Heads, Rows: c.LatentDim, Cols: c.KeyDim, Data: data, Copied: true,
	})
	src := kernel.Source{Name: name + "[values]", Type: x.Type, Experts: c.Heads, Rows: c.ValueDim, Cols: c.LatentDim}
	data = x.Bytes()
	size := len(data) / c.Heads
	for h := range c.Heads {
		src.Pieces = append(src.Pieces, data[h*size+c.KeyDim*size/rows:(h+1)*size])
	}
	return keys, t.bring(src)
}

// latentActivations are the buffers of latent attention, nil without.
type latentActivations struct {
	queryIn, query kernel.Buffer // query: of all heads, without and with a position
	kv, turned     kernel.Buffer
	heads          kernel.Buffer // what heads read, as latents
}

// grow makes room; wide makes a buffer of so many values for each row.
func (a *latentActivations) grow(c Config, wide func(d int) kernel.Buffer) {
	if c.LatentDim == 0 {
		return
	}
	a.query, a.heads = wide(c.Heads*(c.KeyDim+c.RopeDim)), wide(c.Heads*c.HeadDim)
	a.kv, a.turned = wide(c.LatentDim), wide(c.RopeDim)
	if c.QueryRank > 0 {
		a.queryIn = wide(c.QueryRank)
	}
}

// mixLatent runs latent attention from h into mix.
func (m *Model) mixLatent(l *layer, step *kernel.Step, cache kernel.Cache) {
	a, c, n, w := &m.act, m.cfg, step.Rows, l.latent
	b, x := m.b.(kernel.HeadBackend), &m.act.latent
	m.products = m.products.with(x.kv, w.kv).and(x.turned, w.turned)
	if w.queryIn != nil {
		m.products = m.products.and(x.queryIn, w.queryIn)
		m.products.run(b, a.h, n)
		b.RMSNorm(x.queryIn, x.queryIn, w.queryNorm, n, c.QueryRank, c.Eps)
		m.multiply(x.queryIn, n, x.query, w.query)
	} else {
		m.products = m.products.and(x.query, w.query)
		m.products.run(b, a.h, n)
	}
	b.RMSNorm(x.kv, x.kv, w.norm, n, c.LatentDim, c.Eps)
	of := func(buffer kernel.Buffer, width, at int) kernel.Heads {
		return kernel.Heads{Buffer: buffer, Width: width, At: at}
	}
	b.CopyHeads(of(a.k, c.HeadDim, 0), of(x.turned, c.RopeDim, 0), n, 1, c.RopeDim)
	b.CopyHeads(of(a.k, c.HeadDim, c.RopeDim), of(x.kv, c.LatentDim, 0), n, 1, c.LatentDim)
	b.Rope(a.k, a.angles, n, 1, c.HeadDim, c.RopeDim/2, c.Neox)
	b.StoreKV(cache, l.index, a.k, nil, step)
	b.CopyHeads(of(a.q, c.HeadDim, 0), of(x.query, c.KeyDim+c.RopeDim, c.KeyDim), n, c.Heads, c.RopeDim)
	b.MatMulHeads(of(a.q, c.HeadDim, c.RopeDim), of(x.query, c.KeyDim+c.RopeDim, 0), n, w.keys)
	b.Rope(a.q, a.angles, n, c.Heads, c.HeadDim, c.RopeDim/2, c.Neox)
	b.Attend(cache, l.index, x.heads, a.q, step, c.Heads, 0, float32(c.QueryScale), nil)
	b.MatMulHeads(of(a.mix, c.ValueDim, 0), of(x.heads, c.HeadDim, c.RopeDim), n, w.values)
}
