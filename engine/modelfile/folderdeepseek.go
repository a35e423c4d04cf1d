package modelfile

import (
	"fmt"
	"math"
)

// What is particular to folders of DeepSeek V2 and V3 and of Kimi K2.

const deepseek2 = "deepseek2"

// latentConfig is the shape of a head in latent attention.
type latentConfig struct{ key, value int }

// latents reads the shape of latent attention. GGUF has that of the one KV head which all query
// heads share, and that of the heads.
func (c *folderConfig) latents(k *folderKeys) {
	must(k, "num_key_value_heads", c.heads)
	must(k, "rope_interleave", true)
	rank := c.number("attention.kv_lora_rank", k.int("kv_lora_rank", requiredKey))
	if n := k.int("q_lora_rank", 0); n > 0 {
		c.number("attention.q_lora_rank", n)
	}
	c.headDim = k.int("qk_rope_head_dim", requiredKey) // of what is rotated
	c.latent = latentConfig{k.int("qk_nope_head_dim", requiredKey), k.int("v_head_dim", requiredKey)}
	c.kvHeads = c.number("attention.head_count_kv", 1)
	c.number("attention.key_length", rank+c.headDim)
	c.number("attention.value_length", rank)
	c.number("attention.key_length_mla", c.latent.key+c.headDim)
	c.number("attention.value_length_mla", c.latent.value)
	for _, name := range []string{"head_dim", "qk_head_dim"} { // other keys say the same
		k.read[name] = true
	}
}

// choose reads how experts are chosen, and says whether within groups.
func (c *folderConfig) choose(k *folderKeys, kind string) (grouped bool) {
	const softmax, sigmoid = 1, 2
	if kind != "deepseek_v2" {
		must(k, "scoring_func", "sigmoid")
		must(k, "topk_method", "noaux_tc")
		must(k, "moe_layer_freq", 1)
		c.number("expert_gating_func", sigmoid)
		return true
	}
	method := "greedy"
	if k.get("topk_method", &method); method != "greedy" && method != "group_limited_greedy" {
		k.fail("topk_method is %q, only greedy and group_limited_greedy are supported", method)
	}
	must(k, "scoring_func", "softmax")
	must(k, "moe_layer_freq", 1)
	must(k, "norm_topk_prob", false)
	k.read["topk_group"] = true
	c.number("expert_gating_func", softmax)
	return method == "group_limited_greedy"
}

// latentGain is by how much YaRN enlarges positions, and what of it readers know. The rest is in
// the scale of queries where the config says so.
func (c *folderConfig) latentGain(r *folderKeys, factor float64) (gain, known float64) {
	log, mscale, all := 0.1*math.Log(max(factor, 1)), 0.0, 0.0
	r.get("mscale", &mscale)
	if r.get("mscale_all_dim", &all); all == 0 {
		return 1 + log, 1 + log
	}
	c.put("rope.scaling.yarn_log_multiplier", float32(0.1*all))
	if mscale == 0 {
		return 1 + log, 1
	}
	return (1 + log*mscale) / (1 + log*all), 1
}

// headMatrices adds the matrices of each head that latents are made keys and values by: keys
// turned, so that a query is brought to the latents.
func (b *builder) headMatrices(t *Tensor, stem string) error {
	heads, key, value := b.config.heads, b.config.latent.key, b.config.latent.value
	if len(t.Shape) != 2 || heads < 1 || key < 1 || value < 1 || max(heads, key, value) > t.Shape[1] || t.Shape[1] != heads*(key+value) {
		return fmt.Errorf("it has the shape %v, want %d heads of %d and %d rows", t.Shape, heads, key, value)
	}
	t.Shape = []int{t.Shape[0], key + value, heads}
	keys, err := t.middle("", 0, key).transposed()
	if err != nil {
		return err
	}
	keys.Name = stem + "attn_k_b.weight"
	if err := b.add(keys); err != nil {
		return err
	}
	return b.add(t.middle(stem+"attn_v_b.weight", key, value))
}
