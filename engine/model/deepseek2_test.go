package model

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/kernel/ref"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// TestJoinedHeads: a GGUF file as it was before there was latent attention in its keys, with the
// matrices of keys and values in one, computes what transformers does.
func TestJoinedHeads(t *testing.T) {
	r := folderRecordings(t)["deepseek_v3"]
	folder := openFolder(t, r.Config, r.stored(), 1)
	var meta []modelfile.KV
	for _, v := range folder.Keys() {
		var value any = v
		switch strings.TrimPrefix(v.Key, "deepseek2.attention.") {
		case "key_length_mla", "value_length_mla":
			continue
		case "key_length":
			value = uint32(24)
		case "value_length":
			value = uint32(16)
		case "head_count_kv":
			value = uint32(26)
		}
		meta = append(meta, modelfile.KV{Key: v.Key, Value: value})
	}
	var tensors []*modelfile.Tensor
	for _, x := range folder.Tensors() {
		if !strings.HasSuffix(x.Name, "attn_k_b.weight") && !strings.HasSuffix(x.Name, "attn_v_b.weight") {
			tensors = append(tensors, x)
		}
	}
	for _, x := range r.stored() {
		if layer, ok := strings.CutSuffix(strings.TrimPrefix(x.Name, "model.layers."), ".self_attn.kv_b_proj.weight"); ok {
			tensors = append(tensors, &modelfile.Tensor{
				Name: "blk." + layer + ".attn_kv_b.weight", Type: kernel.BF16, Shape: []int{x.Shape[1], x.Shape[0]}, Data: x.Data,
			})
		}
	}
	var written bytes.Buffer
	if err := modelfile.Write(&written, meta, tensors, nil); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.OpenBytes("joined", written.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range exactMakers(t) {
		prompt, greedy := r.replay(t, loadOn(t, f, k.make(t, 2)), []int{100})
		if d := max(worst(prompt, r.Logits), worst(greedy, r.Greedy)); !(d <= 1e-3) {
			t.Errorf("%s: a logit differs by %g, want at most 0.001", k.name, d)
		}
	}
}

// TestKimi: a config of Kimi K2 is one of DeepSeek V3 by another name, with keys of its publisher.
func TestKimi(t *testing.T) {
	r := folderRecordings(t)["deepseek_v3"]
	config := maps.Clone(r.Config)
	maps.Copy(config, map[string]any{
		"model_type": "kimi_k2", "auto_map": map[string]any{"AutoConfig": "x"}, "aux_loss_alpha": 0.001, "ep_size": 1, "seq_aux": true,
		"moe_layer_freq": 1, "scoring_func": "sigmoid", "topk_method": "noaux_tc",
	})
	prompt, _ := r.replay(t, loadOn(t, openFolder(t, config, r.stored(), 1), exactMakers(t)[1].make(t, 2)), []int{1000})
	if d := worst(prompt, r.Logits); !(d <= 1e-3) {
		t.Errorf("a logit differs by %g, want at most 0.001", d)
	}
}

// TestLatentPages: a position takes its latents and its rotated key in each layer, once.
func TestLatentPages(t *testing.T) {
	r := folderRecordings(t)["deepseek_v3"]
	m := loadOn(t, openFolder(t, r.Config, r.stored(), 1), exactMakers(t)[0].make(t, 1))
	if got, want := m.BytesPerPage(16, kernel.KVF32), int64(3*16*(32+8)*4); got != want {
		t.Errorf("a page of 16 positions takes %d bytes, want %d", got, want)
	}
}

// TestLatentLevels: with weights of 8 bits, whose products round, every level computes what the reference does, to what
// rounding makes of logits, and the same bits wherever a prompt is cut.
func TestLatentLevels(t *testing.T) {
	r := folderRecordings(t)["deepseek_v3"]
	f := converted(t, openFolder(t, r.Config, r.stored(), 1), kernel.Q8_0)
	var want [][]float32
	for _, k := range makers(t) {
		m := loadOn(t, f, k.make(t, 2))
		prompt, greedy := r.replay(t, m, []int{1000})
		all := slices.Concat(prompt, greedy)
		if want == nil {
			want = all
			continue
		}
		if d := meanDistance(t, all, want); !(d <= 0.03) {
			t.Errorf("%s: the logits differ by %g on average", k.name, d)
		} else {
			t.Logf("%s: %.2g", k.name, d)
		}
		prompt, greedy = r.replay(t, m, []int{7, 57, 1, 33})
		sameBits(t, k.name+" in pieces", slices.Concat(prompt, greedy), all)
	}
}

// TestLatentRefusals: what latent attention cannot be is refused by name.
func TestLatentRefusals(t *testing.T) {
	all := folderRecordings(t)
	backend := exactMakers(t)[1]
	for _, c := range []struct {
		recording, key string
		value          any
		want           string
	}{
		{"deepseek_v3", "num_key_value_heads", 2, "num_key_value_heads is 2"},
		{"deepseek_v3", "rope_interleave", false, "rope_interleave is false"},
		{"deepseek_v3", "kv_lora_rank", 31, "attn_kv_a_mqa.weight"},
		{"deepseek_v3", "kv_lora_rank", 5000, "kv_lora_rank is 5000"},
		{"deepseek_v3", "v_head_dim", 17, "kv_b_proj"},
		{"deepseek_v3", "qk_nope_head_dim", 0, "kv_b_proj"},
		{"deepseek_v3", "scoring_func", "softmax", "scoring_func is softmax"},
		{"deepseek_v3", "topk_method", "greedy", "topk_method is greedy"},
		{"deepseek_v3", "index_topk", 4, "index_topk is not understood"},
		{"deepseek_v2", "topk_method", "noaux_tc", `topk_method is "noaux_tc"`},
		{"deepseek_v2", "norm_topk_prob", true, "norm_topk_prob is true"},
		{"deepseek_v2", "moe_layer_freq", 2, "moe_layer_freq is 2"},
	} {
		r := all[c.recording]
		config := maps.Clone(r.Config)
		config[c.key] = c.value
		f, err := tryFolder(t, config, r.stored(), 1)
		if err == nil {
			_, err = Load(f, backend.make(t, 1))
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: %v, want an error with %q", c.key, c.value, err, c.want)
		}
	}
	r := all["deepseek_v3"]
	f := openFolder(t, r.Config, r.stored(), 1)
	plain := struct{ kernel.Backend }{ref.New()} // which loads nothing in the background: Load would not see its Wait
	if _, err := Load(f, plain); err == nil || !strings.Contains(err.Error(), "does not compute latent attention") {
		t.Errorf("on a backend without heads: %v", err)
	}
	more := append(r.stored(), gguftest.Made{Name: "model.layers.1.self_attn.q_a_proj.bias", DType: "BF16", Shape: []int{24}}.Store())
	if _, err := Load(openFolder(t, r.Config, more, 1), backend.make(t, 1)); err == nil || !strings.Contains(err.Error(), "q_a_proj.bias") {
		t.Errorf("with a bias: %v", err)
	}
	fewer := slices.DeleteFunc(r.stored(), func(x gguftest.Stored) bool {
		return strings.HasSuffix(x.Name, "1.mlp.gate.e_score_correction_bias")
	})
	if _, err := Load(openFolder(t, r.Config, fewer, 1), backend.make(t, 1)); err == nil || !strings.Contains(err.Error(), "exp_probs_b") {
		t.Errorf("without a bias of the scores: %v", err)
	}
}

// TestGatingWithoutKey: a deepseek2 file that does not say how scores become weights takes sigmoid where they
// have a bias, as that of GLM 4.7 Flash, and else softmax, as those of DeepSeek V2.
func TestGatingWithoutKey(t *testing.T) {
	for _, name := range []string{"deepseek_v2", "deepseek_v3"} {
		r := folderRecordings(t)[name]
		folder := openFolder(t, r.Config, r.stored(), 1)
		var meta []modelfile.KV
		for _, v := range folder.Keys() {
			if v.Key != "deepseek2.expert_gating_func" {
				meta = append(meta, modelfile.KV{Key: v.Key, Value: v})
			}
		}
		var written bytes.Buffer
		if err := modelfile.Write(&written, meta, folder.Tensors(), nil); err != nil || len(meta) == len(folder.Keys()) {
			t.Fatalf("%d keys of %d, %v", len(meta), len(folder.Keys()), err)
		}
		f, err := modelfile.OpenBytes("written", written.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		prompt, _ := r.replay(t, loadOn(t, f, exactMakers(t)[1].make(t, 2)), []int{1000})
		if d := worst(prompt, r.Logits); !(d <= 1e-3) {
			t.Errorf("%s: a logit differs by %g, want at most 0.001", name, d)
		}
	}
}
