package model

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/template"
)

// Recorded folders are as transformers writes them now, which leaves out what its classes do not know.
// The tables below say what config.json files of released models have beside that, or in other places.

// gone is a key that a released config leaves out.
var gone any = new(int)

// with is a config with some keys changed.
func with(config, changes map[string]any) map[string]any {
	config = maps.Clone(config)
	maps.Copy(config, changes)
	maps.DeleteFunc(config, func(_ string, v any) bool { return v == gone })
	return config
}

// described are a file's keys with their types and values.
func described(f *modelfile.File) map[string]string {
	all := map[string]string{}
	for _, v := range f.Keys() {
		all[v.Key] = v.TypeName() + " " + v.Text()
	}
	return all
}

// TestReleasedConfigs: keys that released configs have and recorded ones lack change nothing where their
// values mean what is computed.
func TestReleasedConfigs(t *testing.T) {
	type keys = map[string]any
	qwen25 := keys{"use_mrope": false, "sliding_window": 32768, "max_window_layers": 24, "rope_parameters": gone, "rope_theta": 1e6,
		"layer_types": gone, "torch_dtype": "bfloat16"}
	qwen35 := keys{"attn_output_gate": true, "full_attention_interval": 4, "mamba_ssm_dtype": "float32", "mlp_only_layers": []int{},
		"mtp_num_hidden_layers": 1, "mtp_use_dedicated_embeddings": false}
	outside := keys{"image_token_id": 7, "video_token_id": 8, "vision_config": keys{"depth": 2}, "vision_start_token_id": 5,
		"vision_end_token_id": 6}
	for _, c := range []struct {
		name, recording string
		text, outside   keys // outside: nil where there is no text_config
	}{
		{"Qwen3.5-0.8B", "qwen3_5", qwen35, outside},
		{"Qwen3.5-4B of unsloth", "qwen3_5", with(qwen35, keys{"partial_rotary_factor": 0.5, "pad_token_id": nil}),
			with(outside, keys{"unsloth_fixed": true, "unsloth_version": "2026.3.3", "use_cache": false})},
		{"Qwen3.6-27B", "qwen3_5", with(qwen35, keys{"mlp_only_layers": gone, "output_gate_type": "swish"}),
			with(outside, keys{"language_model_only": false})},
		{"a gate by its other name", "qwen3_5_moe", keys{"output_gate_type": "silu"}, nil},
		{"Qwen3-Coder-30B-A3B", "qwen3_moe", keys{"max_window_layers": 28, "qkv_bias": false, "rope_scaling": nil,
			"shared_expert_intermediate_size": 0, "use_qk_norm": true}, nil},
		{"Qwen2.5-0.5B, and DeepSeek-R1-Distill-Qwen-7B", "qwen2", qwen25, nil},
		{"Llama-3.2-1B of unsloth", "llama", keys{"unsloth_fixed": true, "unsloth_version": "2026.1"}, nil},
		{"gemma-3-1b", "gemma3", keys{"cache_implementation": "hybrid", "sliding_window_pattern": 6, "rope_scaling": nil}, nil},
		{"gemma-3-12b, written anew", "gemma3", keys{"cache_implementation": "hybrid"},
			keys{"mm_tokens_per_image": 256, "unsloth_fixed": true}},
		{"SmolLM2", "llama", keys{"is_llama_config": true, "rope_interleaved": false,
			"transformers.js_config": keys{"dtype": "q4"}}, nil},
	} {
		r := folderRecordings(t)[c.recording]
		config := with(r.Config, c.text)
		if c.outside != nil {
			config = with(keys{"model_type": r.Config["model_type"], "text_config": config}, c.outside)
		}
		f, err := tryFolder(t, config, r.stored(), 1)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got, want := described(f), described(openFolder(t, r.Config, r.stored(), 1)); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want what the recorded one has, %v", c.name, got, want)
		}
		f.Close()
	}
}

// TestReleasedRefusals: the same keys are refused where their values mean something else than what is computed.
func TestReleasedRefusals(t *testing.T) {
	yarn := map[string]any{"rope_type": "linear", "factor": 4.0, "rope_theta": 1e6, "attn_factor": 0.9}
	for _, c := range []struct {
		recording, key string
		value          any
		want           string
	}{
		{"qwen3_5", "output_gate_type", "sigmoid", `output_gate_type is "sigmoid"`},
		{"qwen3_moe", "use_qk_norm", false, "use_qk_norm is false"},
		{"qwen3_moe", "shared_expert_intermediate_size", 24, "shared_expert_intermediate_size is 24"},
		{"qwen3_moe", "qkv_bias", true, "qkv_bias is true"},
		{"qwen3_moe", "mlp_only_layers", []int{1}, "mlp_only_layers is [1]"},
		{"qwen3", "use_qk_norm", true, "use_qk_norm is not understood"},
		{"qwen2", "use_mrope", true, "use_mrope is true"},
		{"llama", "rope_interleaved", true, "rope_interleaved is true"},
		{"qwen3", "rope_parameters", yarn, "attn_factor is not understood"},
		{"gemma3", "query_pre_attn_scalar", gone, "query_pre_attn_scalar is 256"}, // its default is no head's size
		{"gemma3", "num_hidden_layers", 62, "query_pre_attn_scalar is 24, only 14 is"},
	} {
		r := folderRecordings(t)[c.recording]
		f, err := tryFolder(t, with(r.Config, map[string]any{c.key: c.value}), r.stored(), 1)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s of %s = %v: %v, want an error with %q", c.key, c.recording, c.value, err, c.want)
		}
	}
}

// TestRelativeGain: attn_factor, which DeepSeek-R1-0528-Qwen3-8B has, is a share of the usual gain of YaRN, and
// with attention_factor beside it, which is the gain itself, it counts nothing.
func TestRelativeGain(t *testing.T) {
	r := folderRecordings(t)["qwen3"]
	for want, changes := range map[float64]map[string]any{
		1:                          {"attn_factor": 1 / (0.1*math.Log(4) + 1)},
		0.1*math.Log(4) + 1:        {},
		0.9:                        {"attention_factor": 0.9, "attn_factor": 0.5},
		0.5 * (1 + math.Log(4)/10): {"attn_factor": 0.5},
	} {
		rope := with(r.Config["rope_parameters"].(map[string]any), changes)
		c, err := ReadConfig(openFolder(t, with(r.Config, map[string]any{"rope_parameters": rope}), r.stored(), 1))
		if err != nil || !(math.Abs(c.RopeGain-want) < 1e-6) {
			t.Errorf("%v: the gain is %g, want %g: %v", changes, c.RopeGain, want, err)
		}
	}
}

// TestGemmaDefaults: the configs of gemma-3-4b, -12b and -27b say only where they differ from what the keys mean otherwise.
func TestGemmaDefaults(t *testing.T) {
	const hidden, rows, ff = 12, 40, 16
	config := map[string]any{"hidden_size": hidden, "intermediate_size": ff, "model_type": "gemma3_text", "num_hidden_layers": 1,
		"rope_scaling": map[string]any{"factor": 8.0, "rope_type": "linear"}, "sliding_window": 32}
	var tensors []gguftest.Stored
	for name, shape := range map[string][]int{"embed_tokens": {rows, hidden}, "norm": {hidden},
		"layers.0.self_attn.q_proj": {8 * 256, hidden}, "layers.0.self_attn.k_proj": {4 * 256, hidden},
		"layers.0.self_attn.v_proj": {4 * 256, hidden}, "layers.0.self_attn.o_proj": {hidden, 8 * 256},
		"layers.0.self_attn.q_norm": {256}, "layers.0.self_attn.k_norm": {256},
		"layers.0.mlp.gate_proj": {ff, hidden}, "layers.0.mlp.up_proj": {ff, hidden}, "layers.0.mlp.down_proj": {hidden, ff},
		"layers.0.input_layernorm": {hidden}, "layers.0.post_attention_layernorm": {hidden},
		"layers.0.pre_feedforward_layernorm": {hidden}, "layers.0.post_feedforward_layernorm": {hidden}} {
		name = "language_model.model." + name + ".weight"
		tensors = append(tensors, gguftest.Made{Name: name, DType: "BF16", Shape: shape, Scale: 1}.Store())
	}
	in := func(changes map[string]any) *modelfile.File {
		return openFolder(t, map[string]any{"model_type": "gemma3", "text_config": with(config, changes)}, tensors, 1)
	}
	c, err := Check(in(nil))
	if err != nil {
		t.Fatal(err)
	}
	type sizes struct {
		heads, kvHeads, dim, context, rows, window int
		base, scale, query                         float64
		eps                                        float32
	}
	got := sizes{c.Heads, c.KVHeads, c.HeadDim, c.ContextLength, c.Vocab, c.Window, c.RopeBase, c.RopeScale, c.QueryScale, c.Eps}
	if want := (sizes{8, 4, 256, 131072, rows, 32, 1e6, 8, 1.0 / 16, 1e-6}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	c, err = ReadConfig(in(map[string]any{"num_hidden_layers": 62, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 4,
		"query_pre_attn_scalar": 6}))
	if err != nil || c.HeadDim != 4 || c.QueryScale != math.Sqrt(1.0/6) {
		t.Errorf("of 27 billion parameters: heads of %d, scale %g: %v", c.HeadDim, c.QueryScale, err)
	}
}

// TestSharedConfigs: every released config that lies beside this repository, or where CORENODE_SHARED says, is understood.
func TestSharedConfigs(t *testing.T) {
	shared := cmp.Or(os.Getenv("CORENODE_SHARED"), filepath.Join("..", "..", "..", "shared"))
	paths, err := filepath.Glob(filepath.Join(shared, "data", "config", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Skipf("no config of a released model is under %s", shared)
	}
	r := folderRecordings(t)["qwen3"]
	recorded, err := json.Marshal(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	var ends []gguftest.Stored
	for _, name := range []string{"model.embed_tokens.weight", "lm_head.weight"} {
		ends = append(ends, gguftest.Store(name, "F32", []float32{1}, 1, 1))
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts, tensors := map[string]string{"config.json": string(text)}, ends
		if strings.HasSuffix(path, "tokenizer_config.json") {
			texts, tensors = map[string]string{"config.json": string(recorded), "tokenizer_config.json": string(text)}, r.stored()
		}
		if err := openTexts(t, texts, tensors); err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		}
	}
}

// openTexts opens a folder and reads the template that it may have.
func openTexts(t *testing.T, texts map[string]string, tensors []gguftest.Stored) error {
	t.Helper()
	dir := t.TempDir()
	if err := gguftest.WriteFolder(dir, texts, tensors, 1); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if source, err := f.String("tokenizer.chat_template"); err == nil {
		_, err = template.New(source)
		return err
	}
	return nil
}
