package model

// What is particular to gpt-oss: every other layer is local, attention has sinks, and experts
// have biases and limits.

// The limit of what is between an expert's matrices, and the gain of its sigmoid. Files do not say them.
const (
	clampLimit = 7
	clampAlpha = 1.702
)

// alternating makes every other layer local, from the first on. Their positions turn as those of
// the others do.
func (k *keys) alternating(c *Config, window int) {
	c.Window, c.Local = window, make([]bool, c.Layers)
	for i := range c.Local {
		c.Local[i] = window > 0 && i%2 == 0
	}
}

// clamp loads the biases of router and experts.
func (t *tensors) clamp(m *moe, c Config, p string) {
	m.routerBias = t.vector(p+"ffn_gate_inp.bias", c.Experts)
	m.stack.GateBias = t.vector(p+"ffn_gate_exps.bias", c.ExpertFF, c.Experts)
	m.stack.UpBias = t.vector(p+"ffn_up_exps.bias", c.ExpertFF, c.Experts)
	m.stack.DownBias = t.vector(p+"ffn_down_exps.bias", c.Hidden, c.Experts)
	m.stack.Limit, m.stack.Alpha = clampLimit, clampAlpha
}
