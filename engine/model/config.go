package model

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// Bounds of hyperparameters. They are far above every published model and low
// enough that no product of a few of them overflows an int; what really limits
// memory is that each size is also the shape of a tensor in the file.
const (
	layersMax  = 1024
	hiddenMax  = 1 << 17
	headsMax   = 1024
	headDimMax = 1024
	ffMax      = 1 << 20
	expertsMax = 4096
	vocabMax   = 1 << 22
	contextMax = 1 << 30
	tapsMax    = 16
)

// Config is the shape of a model as its file describes it.
type Config struct {
	Arch    string
	Layers  int // transformer blocks; multi-token-prediction blocks are not counted
	Further int // those: blocks behind the last layer
	Hidden  int
	Vocab   int // rows of the embedding table
	Heads   int
	KVHeads int
	HeadDim int
	FF      int // inner width of the dense FFN; 0 for mixtures of experts alone
	Eps     float32

	// The four below are of latent attention, 0 without. There HeadDim is that of the one KV head:
	// RopeDim values with a position, then LatentDim of which keys and values of all heads are made.
	LatentDim int
	KeyDim    int // values of a head's key that are made of latents
	ValueDim  int
	QueryRank int // inner width of what makes queries; 0 for one matrix

	// Window is how many positions a local layer sees; 0 without such layers. Their
	// positions turn with frequencies of their own where LocalInvFreq is set.
	Window       int
	Local        []bool // len Layers where Window is set
	LocalInvFreq []float64
	// QueryScale multiplies what a query and a key have in common.
	QueryScale float64

	RopeDim   int       // leading values of a head that are rotated
	RopeBase  float64   // frequency base
	RopeScale float64   // positions are divided by it: 1, or the factor of linear scaling
	Neox      bool      // pairs are (i, i+RopeDim/2), else (2i, 2i+1)
	InvFreq   []float64 // RopeDim/2 angles per position, everything above applied
	RopeGain  float64   // cos and sin are multiplied by it: 1 but for YaRN

	Experts     int // 0 for a dense FFN
	ExpertsUsed int
	ExpertFF    int
	SharedFF    int // inner width of the shared expert; 0 without
	DenseLead   int // how many first layers have a dense FFN all the same
	Routing     kernel.Routing

	// Linear tells for each layer whether it is Gated DeltaNet; otherwise it
	// is full attention. Invariant: len Layers, at least one is false.
	Linear       []bool
	LinearKHeads int // the five below are 0 without linear layers
	LinearVHeads int
	LinearDim    int // dk = dv
	ConvKernel   int
	ConvDim      int // 2*LinearKHeads*LinearDim + LinearVHeads*LinearDim

	ContextLength int // as the file says; nothing here depends on it
}

// FullLayers is the number of layers with a KV cache.
func (c Config) FullLayers() int { return c.Layers - c.LinearLayers() }

// LinearLayers is the number of layers with a recurrent state.
func (c Config) LinearLayers() int {
	n := 0
	for _, linear := range c.Linear {
		if linear {
			n++
		}
	}
	return n
}

// arch is what the name of an architecture decides.
type arch struct {
	neox     bool
	qkNorm   bool // per-head norms of q and k
	bias     bool // q, k and v have biases; otherwise they may
	hybrid   bool // DeltaNet layers, gated attention, the second norm's other name
	moe      bool
	ffnNorm  string
	sharedFF bool
	windows  bool // all layers are local where the file has a window
	scored   bool // experts with scores of their own, see keys.scored; norms of q and k are optional
	clamped  bool // sinks, experts with biases and limits, layers that are local in turns
	latent   bool // latent attention
	gemma    bool // embeddings times the root of their width, norms behind mixer and FFN, GELU, local layers
}

// archs is the closed set of architectures this package computes.
var archs = map[string]arch{
	"llama":     {ffnNorm: "ffn_norm.weight", windows: true},
	"qwen2":     {ffnNorm: "ffn_norm.weight", neox: true, bias: true},
	"qwen3":     {ffnNorm: "ffn_norm.weight", neox: true, qkNorm: true},
	"qwen3moe":  {ffnNorm: "ffn_norm.weight", neox: true, qkNorm: true, moe: true},
	"gemma3":    {ffnNorm: "ffn_norm.weight", neox: true, qkNorm: true, gemma: true},
	"glm4moe":   {ffnNorm: "post_attention_norm.weight", neox: true, moe: true, scored: true},
	"deepseek2": {ffnNorm: "ffn_norm.weight", moe: true, scored: true, latent: true},
	"gpt-oss":   {ffnNorm: "post_attention_norm.weight", neox: true, bias: true, moe: true, clamped: true},
	"qwen35":    {ffnNorm: "post_attention_norm.weight", neox: true, qkNorm: true, hybrid: true},
	"qwen35moe": {ffnNorm: "post_attention_norm.weight", neox: true, qkNorm: true, hybrid: true, moe: true, sharedFF: true},
}

// ReadConfig reads and validates the hyperparameters of f. All bad values are
// reported at once, each with its key, value and bound.
func ReadConfig(f *modelfile.File) (Config, error) {
	a, ok := archs[f.Architecture()]
	if !ok {
		return Config{}, fmt.Errorf("architecture %q is not one of %q", f.Architecture(), slices.Sorted(maps.Keys(archs)))
	}
	k := &keys{f: f, arch: f.Architecture(), read: map[string]bool{}}
	c := Config{Arch: k.arch, Neox: a.neox}
	blocks := k.int("block_count", required, 1, layersMax)
	c.Further = k.int("nextn_predict_layers", 0, 0, max(blocks-1, 0))
	c.Layers = blocks - c.Further
	c.ContextLength = k.int("context_length", required, 1, contextMax)
	c.Eps = float32(k.float("attention.layer_norm_rms_epsilon", required, 1e-12, 1))
	k.attention(&c)
	c.Linear = make([]bool, max(c.Layers, 0))
	if a.hybrid {
		k.linear(&c)
	}
	k.ffn(&c, a)
	k.rope(&c)
	k.windows(&c, a)
	c.Vocab = k.vocab(c.Hidden)
	k.unknown()
	if err := errors.Join(k.errs...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// attention reads the shape of full attention.
func (k *keys) attention(c *Config) {
	c.Hidden = k.int("embedding_length", required, 1, hiddenMax)
	c.Heads = k.heads("attention.head_count", required)
	if archs[k.arch].latent {
		k.latent(c)
		return
	}
	c.KVHeads = k.heads("attention.head_count_kv", c.Heads)
	dim := required
	if c.Heads > 0 && c.Hidden%c.Heads == 0 {
		dim = c.Hidden / c.Heads
	}
	c.HeadDim = k.int("attention.key_length", dim, 2, headDimMax)
	if v := k.int("attention.value_length", c.HeadDim, 1, headDimMax); v != c.HeadDim {
		k.fail("attention.value_length is %d, want the key length %d", v, c.HeadDim)
	}
	k.usual("attention.causal")
	if c.KVHeads > 0 && c.Heads%c.KVHeads != 0 {
		k.fail("attention.head_count is %d, want a multiple of head_count_kv %d", c.Heads, c.KVHeads)
	}
}

// windows reads which layers see the latest positions only.
func (k *keys) windows(c *Config, a arch) {
	c.QueryScale = 1 / math.Sqrt(float64(c.HeadDim))
	if a.latent {
		c.QueryScale = k.latentScale(c)
	}
	w := k.int("attention.sliding_window", 0, 0, contextMax)
	if a.clamped {
		k.alternating(c, w)
		return
	}
	if !a.gemma {
		switch {
		case w == 0 || w >= c.ContextLength:
		case a.windows:
			c.Window, c.Local = w, slices.Repeat([]bool{true}, c.Layers)
		default:
			k.fail("attention.sliding_window is %d of %d tokens, which is not supported", w, c.ContextLength)
		}
		return
	}
	if c.Layers == 62 { // of 27 billion parameters: the file does not say so
		c.QueryScale = math.Sqrt(float64(c.Heads) / float64(c.Hidden))
	}
	c.Window, c.Local = w, make([]bool, c.Layers)
	base := k.float("rope.freq_base_swa", 10000, 1, 1e15)
	for pair := range c.RopeDim / 2 {
		c.LocalInvFreq = append(c.LocalInvFreq, math.Pow(base, -2*float64(pair)/float64(c.RopeDim)))
	}
	const name = "attention.sliding_window_pattern"
	every, kinds := 6, []int64(nil)
	if k.has(name) {
		var err error
		if kinds, err = k.f.Ints(k.arch + "." + name); err != nil || len(kinds) != 1 && len(kinds) != c.Layers {
			k.fail("%s has %d entries, want one or %d: %v", name, len(kinds), c.Layers, err)
			return
		}
		if len(kinds) == 1 {
			every = max(int(kinds[0]), 1)
		}
	}
	for i := range c.Local {
		c.Local[i] = w > 0 && (i+1)%every != 0
		if len(kinds) == c.Layers {
			c.Local[i] = w > 0 && kinds[i] != 0
		}
	}
}

// linear reads the shape of Gated DeltaNet layers and where they are.
func (k *keys) linear(c *Config) {
	c.ConvKernel = k.int("ssm.conv_kernel", required, 2, tapsMax)
	c.LinearDim = k.int("ssm.state_size", required, 1, headDimMax)
	c.LinearKHeads = k.int("ssm.group_count", required, 1, headsMax)
	c.LinearVHeads = k.int("ssm.time_step_rank", required, 1, headsMax)
	inner := c.LinearVHeads * c.LinearDim
	if n := k.int("ssm.inner_size", required, 1, headsMax*headDimMax); n != inner {
		k.fail("ssm.inner_size is %d, want time_step_rank x state_size = %d", n, inner)
	}
	if c.LinearKHeads > 0 && c.LinearVHeads%c.LinearKHeads != 0 {
		k.fail("ssm.time_step_rank is %d, want a multiple of group_count %d", c.LinearVHeads, c.LinearKHeads)
	}
	c.ConvDim = 2*c.LinearKHeads*c.LinearDim + inner
	if kinds := k.kinds(c.Layers); kinds != nil {
		c.Linear = kinds
	} else {
		every := k.int("full_attention_interval", 4, 1, layersMax)
		for i := range c.Linear {
			c.Linear[i] = (i+1)%max(every, 1) != 0
		}
	}
	if c.FullLayers() == 0 {
		k.fail("full_attention_interval or attention.recurrent_layers leave no full-attention layer among %d", c.Layers)
	}
	if c.LinearLayers() == 0 { // nothing of it is allocated or loaded
		c.ConvKernel, c.LinearDim, c.LinearKHeads, c.LinearVHeads, c.ConvDim = 0, 0, 0, 0, 0
	}
}

// ffn reads the shape of the FFN.
func (k *keys) ffn(c *Config, a arch) {
	if !a.moe {
		c.FF = k.int("feed_forward_length", required, 1, ffMax)
		if n := k.int("expert_count", 0, 0, expertsMax); n != 0 {
			k.fail("expert_count is %d, but architecture %s has no experts here", n, k.arch)
		}
		return
	}
	if a.scored {
		k.scored(c)
		return
	}
	c.Experts = k.int("expert_count", required, 1, expertsMax)
	c.ExpertsUsed = k.int("expert_used_count", required, 1, max(c.Experts, 1))
	c.Routing = kernel.Routing{Top: c.ExpertsUsed}
	k.usual("expert_weights_norm")
	k.usual("expert_weights_scale")
	k.usual("expert_gating_func") // softmax
	c.ExpertFF = k.int("expert_feed_forward_length", required, 1, ffMax)
	if a.sharedFF {
		c.SharedFF = k.int("expert_shared_feed_forward_length", c.ExpertFF, 1, ffMax)
	}
}

// rope reads the position encoding. Scaling types other than linear and yarn change
// the frequencies in ways that this forward pass does not know: an error, not a guess.
func (k *keys) rope(c *Config) {
	c.RopeDim = k.int("rope.dimension_count", c.HeadDim, 2, headDimMax)
	if c.RopeDim%2 != 0 || c.RopeDim > c.HeadDim {
		k.fail("rope.dimension_count is %d, want an even number of at most the head dimension %d", c.RopeDim, c.HeadDim)
	}
	c.RopeBase = k.float("rope.freq_base", 10000, 1, 1e15)
	c.RopeScale, c.RopeGain = 1, 1
	blend := func(int) float64 { return 0 }
	switch kind := get(k, "rope.scaling.type", k.f.String, "linear"); kind {
	case "none":
	case "linear":
		old := k.float("rope.scale_linear", 1, 0, 1e6) // the key of old files
		c.RopeScale = k.float("rope.scaling.factor", old, 0, 1e6)
		if c.RopeScale == 0 { // converters write 0 for "not scaled"
			c.RopeScale = 1
		}
	case "yarn":
		blend = k.yarn(c)
	default:
		k.fail("rope.scaling.type is %q, want none, linear or yarn", kind)
	}
	if len(k.errs) > 0 {
		return
	}
	c.InvFreq = make([]float64, c.RopeDim/2)
	factors := k.ropeFactors(len(c.InvFreq))
	for i := range c.InvFreq {
		plain := blend(i)
		c.InvFreq[i] = math.Pow(c.RopeBase, -2*float64(i)/float64(c.RopeDim)) * (plain + (1-plain)/c.RopeScale) / factors[i]
	}
}

// yarn reads YaRN (Peng et al. 2023, sections 3.2 to 3.4): frequencies that turn often
// within the context that the model was trained on stay as they are, those that turn less
// than once are divided by the factor, between them there is a ramp, and attention gets
// a gain. It returns the share of its own frequency that a pair of values keeps.
func (k *keys) yarn(c *Config) func(pair int) float64 {
	c.RopeScale = k.float("rope.scaling.factor", required, 1, 1e6)
	context := k.float("rope.scaling.original_context_length", float64(c.ContextLength), 1, 1<<40)
	fast := k.float("rope.scaling.yarn_beta_fast", 32, 1e-3, 1e6)
	slow := k.float("rope.scaling.yarn_beta_slow", 1, 1e-3, 1e6)
	if k.float("rope.scaling.yarn_ext_factor", 1, -1, 1e6) != 1 || k.logMultiplier() != 0 && !archs[c.Arch].latent {
		k.fail("rope.scaling.yarn_ext_factor and yarn_log_multiplier are not supported")
	}
	gain := k.float("rope.scaling.yarn_attn_factor", k.float("rope.scaling.attn_factor", 1, 0, 1e3), 0, 1e3)
	c.RopeGain = gain * (0.1*math.Log(c.RopeScale) + 1)
	if k.logMultiplier() != 0 { // then the scale of queries has it
		c.RopeGain = gain
	}
	// at is the pair that turns so many times within the context.
	at := func(turns float64) float64 {
		return float64(c.RopeDim) * math.Log(context/(turns*2*math.Pi)) / (2 * math.Log(c.RopeBase))
	}
	low, high := at(fast), at(slow)
	if !archs[c.Arch].clamped {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(0, low), min(float64(c.RopeDim-1), high)
	if high == low {
		high += 0.001
	}
	return func(pair int) float64 { return 1 - min(1, max(0, (float64(pair)-low)/(high-low))) }
}

// ropeFactors reads rope_freqs.weight, by which some files divide each
// frequency; ones without it.
func (k *keys) ropeFactors(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = 1
	}
	t, ok := k.f.Tensor(ropeFactorsName)
	if !ok {
		return out
	}
	values, err := floats(t, n)
	if err != nil {
		k.errs = append(k.errs, err)
		return out
	}
	for i, v := range values {
		if !(v > 0) || math.IsInf(float64(v), 1) {
			k.errs = append(k.errs, fmt.Errorf("tensor %s: value %d is %g, want a positive number", t.Name, i, v))
			return out
		}
		out[i] = float64(v)
	}
	return out
}

// vocab is the number of embedding rows; the metadata's count is optional.
func (k *keys) vocab(hidden int) int {
	t, ok := k.f.Tensor("token_embd.weight")
	if !ok {
		k.errs = append(k.errs, fmt.Errorf("tensor token_embd.weight is missing"))
		return 0
	}
	if len(t.Shape) != 2 || t.Shape[0] != hidden || t.Shape[1] < 1 || t.Shape[1] > vocabMax {
		k.errs = append(k.errs, fmt.Errorf("tensor token_embd.weight: shape %v, want [%d 1..%d]", t.Shape, hidden, vocabMax))
		return 0
	}
	if n := k.int("vocab_size", t.Shape[1], 1, vocabMax); n != t.Shape[1] {
		k.fail("vocab_size is %d, but token_embd.weight has %d rows", n, t.Shape[1])
	}
	return t.Shape[1]
}
