package model

import (
	"maps"
	"strings"
	"testing"

	"corenode/engine/modelfile/gguftest"
)

// TestFurtherBlocks: a block that predicts further tokens is left out where the config has one,
// and refused by name where it has none, or in a file of an architecture without.
func TestFurtherBlocks(t *testing.T) {
	all, backend := folderRecordings(t), exactMakers(t)[1]
	r := all["glm4_moe"]
	further := r.stored()
	for _, x := range r.stored() {
		if rest, ok := strings.CutPrefix(x.Name, "model.layers.2."); ok {
			x.Name = "model.layers.3." + rest
			further = append(further, x)
		}
	}
	const hidden, vocab = 40, 96
	for name, shape := range map[string][]int{"eh_proj.weight": {hidden, 2 * hidden}, "enorm.weight": {hidden}, "hnorm.weight": {hidden},
		"shared_head.norm.weight": {hidden}, "shared_head.head.weight": {vocab, hidden}, "embed_tokens.weight": {vocab, hidden}} {
		further = append(further, gguftest.Made{Name: "model.layers.3." + name, DType: "BF16", Shape: shape, Scale: 1}.Store())
	}
	config := maps.Clone(r.Config)
	config["num_nextn_predict_layers"] = 1
	prompt, _ := r.replay(t, loadOn(t, openFolder(t, config, further, 1), backend.make(t, 2)), []int{1000})
	if d := worst(prompt, r.Logits); !(d <= 1e-3) {
		t.Errorf("a logit differs by %g with a further block", d)
	}
	config["num_nextn_predict_layers"] = 0
	if _, err := Load(openFolder(t, config, further, 1), backend.make(t, 1)); err == nil || !strings.Contains(err.Error(), "blk.3.") {
		t.Errorf("with a block that the config does not have: %v", err)
	}
	m := all["mistral"]
	more := append(m.stored(), gguftest.Made{Name: "model.layers.3.input_layernorm.weight", DType: "BF16", Shape: []int{hidden}}.Store())
	if _, err := Load(openFolder(t, m.Config, more, 1), backend.make(t, 1)); err == nil || !strings.Contains(err.Error(), "blk.3.attn_norm") {
		t.Errorf("with a layer too many: %v", err)
	}
}

// TestScoredRefusals: what experts with scores of their own cannot be is refused.
func TestScoredRefusals(t *testing.T) {
	r := folderRecordings(t)["glm4_moe-groups"]
	for key, c := range map[string]struct {
		value any
		want  string
	}{
		"n_group":               {5, "of 5 groups"},
		"topk_group":            {0, "of 4 groups"},
		"num_experts_per_tok":   {7, "7 cannot be chosen"},
		"routed_scaling_factor": {-1.0, "expert_weights_scale"},
		"first_k_dense_replace": {3, "leading_dense_block_count"},
		"n_shared_experts":      {2, "ffn_gate_shexp"},
	} {
		config := maps.Clone(r.Config)
		config[key] = c.value
		f := openFolder(t, config, r.stored(), 1)
		if _, err := Load(f, exactMakers(t)[1].make(t, 1)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v, want an error with %q", key, c.value, err, c.want)
		}
	}
}
