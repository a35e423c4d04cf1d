package modelfile

// scored reads a mixture of experts that have scores of their own, as GLM 4.5 and later and
// DeepSeek have it.
func (c *folderConfig) scored(k *folderKeys, kind string) {
	c.experts = c.number("expert_count", k.int("n_routed_experts", requiredKey))
	c.number("expert_used_count", k.int("num_experts_per_tok", requiredKey))
	c.number("expert_feed_forward_length", k.int("moe_intermediate_size", requiredKey))
	c.number("expert_shared_count", k.int("n_shared_experts", 1))
	c.number("leading_dense_block_count", c.leadingDense(k))
	if groups := k.int("n_group", 1); c.choose(k, kind) {
		c.number("expert_group_count", groups)
		c.number("expert_group_used_count", k.int("topk_group", 1))
	}
	normed, scale := kind != "deepseek_v2", 1.0
	k.get("norm_topk_prob", &normed)
	k.get("routed_scaling_factor", &scale)
	c.put("expert_weights_norm", normed)
	c.put("expert_weights_scale", float32(scale))
	k.get("use_qk_norm", new(bool)) // the tensors say the same
}

// leadingDense is how many layers have no experts: the first ones. Newer configs list all, which counts more than the number.
func (c *folderConfig) leadingDense(k *folderKeys) int {
	n := k.int("first_k_dense_replace", 1)
	var kinds []string
	if !k.get("mlp_layer_types", &kinds) {
		return n
	}
	n = 0
	for n < len(kinds) && kinds[n] == "dense" {
		n++
	}
	for i, kind := range kinds {
		if i >= n && kind != "sparse" {
			k.fail("mlp_layer_types[%d] is %q, only sparse is supported behind the first %d", i, kind, n)
			break
		}
	}
	if len(kinds) != c.layers {
		k.fail("mlp_layer_types has %d layers, want %d", len(kinds), c.layers)
	}
	return n
}
