package modelfile

// scored reads a mixture of experts that have scores of their own, as GLM 4.5 and later and
// DeepSeek have it.
func (c *folderConfig) scored(k *folderKeys, kind string) {
	c.experts = c.number("expert_count", k.int("n_routed_experts", requiredKey))
	c.number("expert_used_count", k.int("num_experts_per_tok", requiredKey))
	c.number("expert_feed_forward_length", k.int("moe_intermediate_size", requiredKey))
	c.number("expert_shared_count", k.int("n_shared_experts", 1))
	c.number("leading_dense_block_count", k.int("first_k_dense_replace", 1))
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
