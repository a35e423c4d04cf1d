package model

import (
	"cmp"
	"fmt"

	"corenode/engine/kernel"
)

// scored reads a mixture of experts that are chosen by a score of their own and a bias, or by softmax, within
// groups, beside a shared expert that every row goes to. The first layers may be dense.
func (k *keys) scored(c *Config) {
	const softmax, sigmoid = 1, 2
	c.DenseLead = k.int("leading_dense_block_count", 0, 0, c.Layers)
	if c.DenseLead > 0 {
		c.FF = k.int("feed_forward_length", required, 1, ffMax)
	}
	c.Experts = k.int("expert_count", required, 1, expertsMax)
	c.ExpertsUsed = k.int("expert_used_count", required, 1, max(c.Experts, 1))
	c.ExpertFF = k.int("expert_feed_forward_length", required, 1, ffMax)
	c.SharedFF = c.ExpertFF * k.int("expert_shared_count", 0, 0, expertsMax)
	usual, groupTop := sigmoid, 2
	// Without the key, latent attention goes with softmax, as in DeepSeek V2, unless scores have a bias,
	// as in GLM 4.7 Flash.
	if _, biased := k.f.Tensor(fmt.Sprintf("blk.%d.exp_probs_b.bias", c.DenseLead)); archs[k.arch].latent && !biased {
		usual = softmax
	}
	gating := cmp.Or(k.int("expert_gating_func", usual, 0, sigmoid), usual)
	if gating == softmax {
		groupTop = 1
	}
	c.Routing = kernel.Routing{
		Top: c.ExpertsUsed, GroupTop: groupTop,
		Sigmoid:    gating == sigmoid,
		Plain:      !get(k, "expert_weights_norm", k.f.Bool, false),
		Scale:      float32(k.float("expert_weights_scale", 1, 0, 1e6)),
		Groups:     k.int("expert_group_count", 1, 0, max(c.Experts, 1)),
		GroupsUsed: k.int("expert_group_used_count", 1, 0, max(c.Experts, 1)),
	}
	r := c.Routing
	if r.Groups > 1 && (c.Experts%r.Groups != 0 || c.Experts/r.Groups < r.GroupTop || r.GroupsUsed < 1 || r.GroupsUsed > r.Groups ||
		r.GroupsUsed*(c.Experts/r.Groups) < c.ExpertsUsed) {
		k.fail("expert_group_used_count is %d: of %d groups of %d experts, %d cannot be chosen", r.GroupsUsed, r.Groups, c.Experts, r.Top)
	}
}

// scored loads such a mixture.
func (t *tensors) scored(c Config, p string) *moe {
	m := t.moe(c, p)
	if c.Routing.Sigmoid {
		m.routing.Bias = t.vector(p+"exp_probs_b.bias", c.Experts)
	}
	return m
}
