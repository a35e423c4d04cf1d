package modelfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// architectures are the values of model_type that are understood.
var architectures = map[string]string{
	"llama": "llama", "mistral": "llama", "qwen2": "qwen2", "qwen3": "qwen3", "qwen3_moe": "qwen3moe",
	"deepseek_v2": deepseek2, "deepseek_v3": deepseek2, "kimi_k2": deepseek2, "glm4_moe_lite": deepseek2,
	"glm4_moe": "glm4moe", "gpt_oss": "gpt-oss", "gemma3": "gemma3", "gemma3_text": "gemma3",
	"qwen3_5": "qwen35", "qwen3_5_text": "qwen35", "qwen3_5_moe": "qwen35moe", "qwen3_5_moe_text": "qwen35moe",
}

// idle are keys of a config.json that change nothing of what is computed here: the tensors
// say the same, they are for training, or they name the program that wrote them.
var idle = setOf("architectures attention_bias attention_dropout auto_map aux_loss_alpha bos_token_id cache_implementation dtype " +
	"ep_size eos_token_id initializer_range is_llama_config mamba_ssm_dtype max_window_layers mlp_bias model_type mtp_num_hidden_layers " +
	"output_router_logits pad_token_id pretraining_tp router_aux_loss_coef seq_aux sliding_window torch_dtype transformers.js_config " +
	"transformers_version unsloth_fixed unsloth_version use_cache _name_or_path")

// idleOutside are those beside a text_config.
var idleOutside = setOf("architectures boi_token_index bos_token_id dtype eoi_token_index eos_token_id image_token_id image_token_index " +
	"initializer_range language_model_only mm_tokens_per_image model_type multimodal_projector_bias pad_token_id projector_hidden_act " +
	"spatial_merge_size text_config torch_dtype transformers_version unsloth_fixed unsloth_version use_cache video_token_id " +
	"vision_config vision_end_token_id vision_feature_layer vision_start_token_id")

func setOf(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// folderConfig is a config.json in the keys of GGUF, and what the order of tensors
// depends on.
type folderConfig struct {
	meta            []KV
	arch            string
	layers          int
	heads, kvHeads  int
	headDim         int
	kHeads, vHeads  int // of linear attention, 0 without
	kDim, vDim      int
	experts         int
	hybrid, gemma   bool
	glm             bool
	latent          latentConfig
	tied            bool   // whatever the files hold
	untied          bool   // the config says so
	block           [2]int // rows and columns that share a scale of FP8 weights; 0 without
	ropeFactors     []float32
	predictionFound bool // the files have a prediction block
}

// folderKeys reads a JSON object key by key and knows which keys were read.
type folderKeys struct {
	values map[string]json.RawMessage
	read   map[string]bool
	errs   *[]error
	where  string // of the object in the file
}

func newFolderKeys(text []byte, where string, errs *[]error) *folderKeys {
	k := &folderKeys{read: map[string]bool{}, errs: errs, where: where}
	if err := json.Unmarshal(text, &k.values); err != nil {
		*errs = append(*errs, fmt.Errorf("%s%w", where, err))
	}
	return k
}

func (k *folderKeys) fail(format string, args ...any) {
	*k.errs = append(*k.errs, fmt.Errorf("key "+k.where+format, args...))
}

// get reads a key into to and says whether it is there; null is not.
func (k *folderKeys) get(name string, to any) bool {
	k.read[name] = true
	text, ok := k.values[name]
	if !ok || string(text) == "null" {
		return false
	}
	if err := json.Unmarshal(text, to); err != nil {
		k.fail("%s: %w", name, err)
		return false
	}
	return true
}

// int reads a number from 0 to the largest uint32; required as fallback means that it must be there.
func (k *folderKeys) int(name string, fallback int) int {
	n := fallback
	if !k.get(name, &n) && fallback < 0 {
		k.fail("%s is absent", name)
		return 0
	}
	if n < 0 || n > math.MaxUint32 {
		k.fail("%s is %d", name, n)
		return 0
	}
	return n
}

// first reads a required number that goes by one of two names.
func (k *folderKeys) first(name, other string) int {
	if _, ok := k.values[name]; ok {
		other = name
	}
	return k.int(other, requiredKey)
}

// must refuses a key that has another value than the one that is computed here.
func must[T comparable](k *folderKeys, name string, want T) {
	if got := want; k.get(name, &got) && got != want {
		k.fail("%s is %v, only %v is supported", name, got, want)
	}
}

// unknown names the keys that nothing read.
func (k *folderKeys) unknown(idle map[string]bool) {
	for _, name := range slices.Sorted(maps.Keys(k.values)) {
		if !k.read[name] && !idle[name] {
			k.fail("%s is not understood", name)
		}
	}
}

const requiredKey = -1

// ropeDimMax bounds what the size of a head may cost.
const ropeDimMax = 1 << 16

func readFolderConfig(text []byte, raw []*rawTensor) (*folderConfig, error) {
	var errs []error
	c := &folderConfig{}
	outer := newFolderKeys(text, "", &errs)
	k := outer
	var inner json.RawMessage
	if outer.get("text_config", &inner) {
		k = newFolderKeys(inner, "text_config.", &errs)
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	var kind string
	k.get("model_type", &kind)
	if c.arch = architectures[kind]; c.arch == "" {
		return nil, fmt.Errorf("key %smodel_type is %q, want one of %q", k.where, kind, slices.Sorted(maps.Keys(architectures)))
	}
	c.hybrid, c.gemma = strings.HasPrefix(c.arch, "qwen35"), c.arch == "gemma3"
	c.glm = c.arch == "glm4moe"
	c.common(k, raw)
	if kind == "mistral" {
		c.window(k)
	}
	c.ffn(k, kind)
	c.rope(k)
	if c.hybrid {
		c.linear(k)
	}
	c.tie(outer, k)
	c.quantization(outer, k)
	k.unknown(idle)
	if k != outer {
		outer.unknown(idleOutside)
	}
	return c, errors.Join(errs...)
}

// put adds a key of the architecture.
func (c *folderConfig) put(key string, value any) {
	c.meta = append(c.meta, KV{c.arch + "." + key, value})
}

// number adds an integer.
func (c *folderConfig) number(key string, n int) int {
	c.put(key, uint32(n))
	return n
}

// usual is what a key means that a config.json of gemma3 leaves out; those of others must have it.
func (c *folderConfig) usual(n int) int {
	if c.gemma {
		return n
	}
	return requiredKey
}

func (c *folderConfig) common(k *folderKeys, raw []*rawTensor) {
	c.meta = append(c.meta, KV{"general.architecture", c.arch})
	c.layers = k.int("num_hidden_layers", requiredKey)
	prefix, count := "mtp.", "mtp_num_hidden_layers"
	if c.glm || c.arch == deepseek2 {
		prefix, count = fmt.Sprintf("model.layers.%d.", c.layers), "num_nextn_predict_layers"
	}
	for _, t := range raw {
		c.predictionFound = c.predictionFound || strings.HasPrefix(t.name, prefix)
	}
	blocks := c.layers
	if n := k.int(count, 1); c.predictionFound {
		blocks += c.number("nextn_predict_layers", n)
	}
	if c.hybrid || c.predictionFound {
		must(k, "mtp_use_dedicated_embeddings", false)
	}
	c.number("block_count", blocks)
	c.number("context_length", k.int("max_position_embeddings", c.usual(131072)))
	hidden := c.number("embedding_length", k.int("hidden_size", requiredKey))
	c.heads = c.number("attention.head_count", k.int("num_attention_heads", c.usual(8)))
	if c.arch == deepseek2 {
		c.latents(k)
	} else {
		kvHeads, dim := c.heads, hidden/max(c.heads, 1)
		if c.gemma {
			kvHeads, dim = 4, 256
		}
		c.kvHeads = c.number("attention.head_count_kv", k.int("num_key_value_heads", kvHeads))
		c.headDim = k.int("head_dim", dim)
		c.number("attention.key_length", c.headDim)
		c.number("attention.value_length", c.headDim)
	}
	if n := k.int("vocab_size", c.usual(0)); n > 0 || !c.gemma { // else the rows of embeddings say it
		c.number("vocab_size", n)
	}
	eps := 1e-6
	k.get("rms_norm_eps", &eps)
	c.put("attention.layer_norm_rms_epsilon", float32(eps))
	switch {
	case c.gemma:
		c.windows(k, hidden)
		return
	case c.arch == gptOSS:
		c.alternating(k)
		return
	}
	must(k, "hidden_act", "silu")
	must(k, "use_sliding_window", false)
	must(k, "use_mrope", false)
	must(k, "rope_interleaved", false)
	if c.hybrid {
		must(k, "attn_output_gate", true)
		return
	}
	var kinds []string
	k.get("layer_types", &kinds)
	for i, kind := range kinds {
		if kind != "full_attention" {
			k.fail("layer_types[%d] is %q, only full_attention is supported", i, kind)
			return
		}
	}
}

// window reads how far all layers of a Mistral see: nothing means the default, null all positions.
func (c *folderConfig) window(k *folderKeys) {
	n := 4096
	if text, ok := k.values["sliding_window"]; ok && string(text) == "null" {
		n = 0
	}
	c.number("attention.sliding_window", k.int("sliding_window", n))
}

// windows reads what is particular to gemma3.
func (c *folderConfig) windows(k *folderKeys, hidden int) {
	must(k, "hidden_activation", "gelu_pytorch_tanh")
	must(k, "use_bidirectional_attention", false)
	for _, name := range []string{"attn_logit_softcapping", "final_logit_softcapping"} {
		if x := 0.0; k.get(name, &x) {
			k.fail("%s is %g, only null is supported", name, x)
		}
	}
	c.number("attention.sliding_window", k.int("sliding_window", 4096))
	scalar, known := 256.0, float64(c.headDim)
	if c.layers == 62 { // the largest has another one, which readers know by this
		known = float64(hidden) / float64(max(c.heads, 1))
	}
	if k.get("query_pre_attn_scalar", &scalar); scalar != known {
		k.fail("query_pre_attn_scalar is %g, only %g is supported for %d layers with heads of %d", scalar, known, c.layers, c.headDim)
	}
	every := k.int("sliding_window_pattern", k.int("_sliding_window_pattern", 6))
	var kinds []string
	if !k.get("layer_types", &kinds) {
		c.number("attention.sliding_window_pattern", every)
		return
	}
	local := make([]bool, len(kinds))
	for i, kind := range kinds {
		local[i] = kind == "sliding_attention"
		if !local[i] && kind != "full_attention" {
			k.fail("layer_types[%d] is %q", i, kind)
		}
	}
	c.put("attention.sliding_window_pattern", local)
}

func (c *folderConfig) ffn(k *folderKeys, kind string) {
	if c.arch == gptOSS {
		c.clamped(k)
		return
	}
	if ff := k.int("intermediate_size", 0); ff > 0 {
		c.number("feed_forward_length", ff)
	}
	if c.glm || c.arch == deepseek2 {
		c.scored(k, kind)
		return
	}
	if !strings.HasSuffix(c.arch, "moe") {
		k.read["mlp_only_layers"] = true // without experts all layers are
		return
	}
	c.experts = c.number("expert_count", k.first("num_experts", "num_local_experts"))
	c.number("expert_used_count", k.int("num_experts_per_tok", requiredKey))
	c.number("expert_feed_forward_length", k.int("moe_intermediate_size", requiredKey))
	if c.hybrid {
		c.number("expert_shared_feed_forward_length", k.int("shared_expert_intermediate_size", requiredKey))
	} else {
		if normed := false; !k.get("norm_topk_prob", &normed) || !normed {
			k.fail("norm_topk_prob is %v, only true is supported", normed)
		}
		must(k, "shared_expert_intermediate_size", 0)
		must(k, "use_qk_norm", true)
		must(k, "qkv_bias", false)
	}
	must(k, "norm_topk_prob", true)
	must(k, "decoder_sparse_step", 1)
	if dense := []int(nil); k.get("mlp_only_layers", &dense) && len(dense) > 0 {
		k.fail("mlp_only_layers is %v, only [] is supported", dense)
	}
}

// linear reads the shape of Gated DeltaNet layers and where they are.
func (c *folderConfig) linear(k *folderKeys) {
	c.kDim, c.vDim = k.int("linear_key_head_dim", requiredKey), k.int("linear_value_head_dim", requiredKey)
	c.kHeads, c.vHeads = k.int("linear_num_key_heads", requiredKey), k.int("linear_num_value_heads", requiredKey)
	if c.kHeads < 1 || c.vHeads%c.kHeads != 0 || c.kDim != c.vDim {
		k.fail("linear_num_value_heads is %d of %d, want a multiple of the %d key heads of %d", c.vHeads, c.vDim, c.kHeads, c.kDim)
	}
	c.number("ssm.conv_kernel", k.int("linear_conv_kernel_dim", requiredKey))
	c.number("ssm.state_size", c.kDim)
	c.number("ssm.group_count", c.kHeads)
	c.number("ssm.time_step_rank", c.vHeads)
	c.number("ssm.inner_size", c.vHeads*c.vDim)
	if gate := "silu"; k.get("output_gate_type", &gate) && gate != "silu" && gate != "swish" { // of the norm behind DeltaNet
		k.fail("output_gate_type is %q, only silu and swish, its other name, are supported", gate)
	}
	every := k.int("full_attention_interval", 4)
	var kinds []string
	if !k.get("layer_types", &kinds) {
		c.number("full_attention_interval", every)
		return
	}
	recurrent := make([]bool, len(kinds))
	for i, kind := range kinds {
		recurrent[i] = kind == "linear_attention"
		if kind != "linear_attention" && kind != "full_attention" {
			k.fail("layer_types[%d] is %q", i, kind)
		}
	}
	c.put("attention.recurrent_layers", recurrent)
	for ; every <= min(len(kinds), 64); every++ { // for readers that know only the interval
		if regular(recurrent, every) {
			c.number("full_attention_interval", every)
			break
		}
	}
}

// regular says whether every layer but each so-manieth is recurrent.
func regular(recurrent []bool, every int) bool {
	for i, r := range recurrent {
		if r != ((i+1)%max(every, 1) != 0) {
			return false
		}
	}
	return true
}

// tie finds out whether the output head is the embedding table.
func (c *folderConfig) tie(outer, k *folderKeys) {
	if k.get("tie_word_embeddings", &c.tied) {
		c.untied = !c.tied
	}
	if outer != k && outer.get("tie_word_embeddings", &c.tied) {
		c.untied = !c.tied
	}
}

// quantization reads how weights of eight bits are scaled.
func (c *folderConfig) quantization(outer, k *folderKeys) {
	var text json.RawMessage
	if !outer.get("quantization_config", &text) && !k.get("quantization_config", &text) {
		return
	}
	q := newFolderKeys(text, "quantization_config.", outer.errs)
	method := "none"
	if q.get("quant_method", &method); method == "mxfp4" && c.arch == gptOSS {
		q.unknown(setOf("modules_to_not_convert"))
		return
	}
	if method != "fp8" {
		q.fail("quant_method is %q, only fp8 is supported", method)
		return
	}
	must(q, "fmt", "e4m3")
	var block []int
	if !q.get("weight_block_size", &block) || len(block) != 2 || block[0] < 1 || block[1] < 1 {
		q.fail("weight_block_size is %v, want the rows and columns of a block", block)
		return
	}
	c.block = [2]int(block)
	q.unknown(setOf("activation_scheme modules_to_not_convert ignored_layers dequantize scale_fmt"))
}

// rope reads the position encoding: newer configs have it in one object, older ones in
// keys of their own.
func (c *folderConfig) rope(k *folderKeys) {
	r := &folderKeys{values: map[string]json.RawMessage{}, read: map[string]bool{}, errs: k.errs, where: k.where + "rope_parameters."}
	for _, name := range []string{"rope_scaling", "rope_parameters"} {
		if text := json.RawMessage(nil); k.get(name, &text) {
			maps.Copy(r.values, newFolderKeys(text, k.where+name+".", k.errs).values)
		}
	}
	local := 10000.0
	if c.gemma {
		k.get("rope_local_base_freq", &local)
		c.ropeOfKinds(r, &local)
		c.put("rope.freq_base_swa", float32(local))
	}
	for _, name := range []string{"rope_theta", "partial_rotary_factor"} {
		if text := json.RawMessage(nil); k.get(name, &text) && r.values[name] == nil {
			r.values[name] = text
		}
	}
	theta, share := 10000.0, 1.0
	if c.hybrid {
		share = 0.25
	}
	if c.glm {
		share = 0.5
	}
	switch {
	case c.gemma:
		theta = 1e6
	case c.arch == gptOSS:
		theta = 150000
	}
	r.get("rope_theta", &theta)
	r.get("partial_rotary_factor", &share)
	c.put("rope.freq_base", float32(theta))
	if share <= 0 || share > 1 || c.headDim > ropeDimMax {
		r.fail("partial_rotary_factor is %g of %d values, want 0 to 1 of at most %d", share, c.headDim, ropeDimMax)
		return
	}
	dim := c.number("rope.dimension_count", int(float64(c.headDim)*share))
	if sections := []int32(nil); r.get("mrope_section", &sections) { // all streams are the text's position
		must(r, "mrope_interleaved", true)
		for len(sections) < 4 {
			sections = append(sections, 0)
		}
		c.put("rope.dimension_sections", sections)
	}
	kind := "default"
	r.get("type", &kind)
	r.get("rope_type", &kind)
	c.ropeScaling(r, kind, theta, dim)
	r.unknown(nil)
}

// ropeOfKinds takes apart what newer configs say for each kind of layer.
func (c *folderConfig) ropeOfKinds(r *folderKeys, local *float64) {
	full, sliding := r.values["full_attention"], r.values["sliding_attention"]
	if full == nil || sliding == nil {
		return
	}
	s := newFolderKeys(sliding, r.where+"sliding_attention.", r.errs)
	s.get("rope_theta", local)
	must(s, "rope_type", "default")
	s.unknown(nil)
	r.values = newFolderKeys(full, r.where+"full_attention.", r.errs).values
}

func (c *folderConfig) ropeScaling(r *folderKeys, kind string, theta float64, dim int) {
	number := func(name string, fallback float64) float64 {
		if x := fallback; r.get(name, &x) || fallback >= 0 {
			return x
		}
		r.fail("%s is absent", name)
		return 1
	}
	context := number("original_max_position_embeddings", 0)
	switch kind {
	case "default":
		return
	case "linear":
		c.put("rope.scaling.type", "linear")
		c.put("rope.scaling.factor", float32(number("factor", requiredKey)))
	case "llama3":
		low, high := number("low_freq_factor", requiredKey), number("high_freq_factor", requiredKey)
		c.stretch(theta, dim, context, number("factor", requiredKey), low, high)
	case "yarn":
		factor := number("factor", requiredKey)
		c.put("rope.scaling.type", "yarn")
		c.put("rope.scaling.factor", float32(factor))
		if context > 0 {
			c.put("rope.scaling.original_context_length", uint32(min(context, math.MaxUint32)))
		}
		c.put("rope.scaling.yarn_beta_fast", float32(number("beta_fast", 32)))
		c.put("rope.scaling.yarn_beta_slow", float32(number("beta_slow", 1)))
		c.yarnGain(r, factor)
		truncate := true
		if r.get("truncate", &truncate); truncate == (c.arch == gptOSS) {
			r.fail("truncate is %v, which is not supported for %s", truncate, c.arch)
		}
	default:
		r.fail("rope_type is %q, want default, linear, llama3 or yarn", kind)
	}
}

// yarnGain reads by how much YaRN enlarges positions. Of two keys that are alike, attention_factor is the gain
// and attn_factor a share of the usual one, as vLLM reads it: the one that is published makes the gain 1.
// transformers does not know it.
func (c *folderConfig) yarnGain(r *folderKeys, factor float64) {
	usual := 0.1*math.Log(factor) + 1
	gain, of := usual, usual // of is what readers multiply by
	if c.arch == deepseek2 {
		gain, of = c.latentGain(r, factor)
	}
	share := 1.0
	r.get("attn_factor", &share)
	gain *= share
	r.get("attention_factor", &gain)
	c.put("rope.scaling.yarn_attn_factor", float32(gain/of))
}

// stretch computes the factors of Llama 3.1: frequencies of waves that are longer than a
// part of the old context are divided by the factor, short ones stay, and between them
// there is a ramp.
func (c *folderConfig) stretch(theta float64, dim int, context, factor, low, high float64) {
	c.ropeFactors = make([]float32, dim/2)
	for i := range c.ropeFactors {
		turns := context / (2 * math.Pi) * math.Pow(theta, -2*float64(i)/float64(dim)) // within the old context
		ramp := min(1, max(0, (turns-low)/(high-low)))
		c.ropeFactors[i] = float32(1 / ((1-ramp)/factor + ramp))
	}
}
