package modelfile_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// tinyConfig is a model of one layer whose tensors tinyTensors are.
const tinyConfig = `{"model_type": "qwen3", "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 4,
	"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 2, "vocab_size": 3, "intermediate_size": 6}`

func tinyTensors() []gguftest.Stored {
	made := func(name string, shape ...int) gguftest.Stored {
		return gguftest.Made{Name: name, DType: "BF16", Shape: shape, Scale: 1}.Store()
	}
	return []gguftest.Stored{
		made("model.embed_tokens.weight", 3, 4), made("model.layers.0.self_attn.q_proj.weight", 4, 4),
		made("model.layers.0.mlp.down_proj.weight", 4, 6), made("model.norm.weight", 4),
	}
}

// TestReorderedRows: a matrix in another order is the same in one piece and in those that lie
// together in the file, which there are where enough rows stay together.
func TestReorderedRows(t *testing.T) {
	for _, c := range []struct{ kHeads, vHeads, size, from, pieces int }{
		{2, 4, 64, 0, 4}, {2, 4, 64, 128, 6}, {2, 4, 64, 32, 9}, {3, 6, 96, 192, 8}, {2, 4, 48, 0, 0}, {2, 4, 64, 1, 0}, {2, 2, 64, 64, 1},
	} {
		stored := &modelfile.Tensor{Name: "a", Type: kernel.BF16, Shape: []int{3, c.from + c.vHeads*c.size}}
		stored.Data = make([]byte, stored.Size())
		for i := range stored.Data {
			stored.Data[i] = byte(i / 6 * 7)
		}
		x, err := stored.Tiled(c.kHeads, c.vHeads, c.size, c.from)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.Clone(stored.Data)
		for i := range c.vHeads {
			from := i%c.kHeads*(c.vHeads/c.kHeads) + i/c.kHeads
			copy(want[6*(c.from+i*c.size):][:6*c.size], stored.Data[6*(c.from+from*c.size):])
		}
		if got := x.Bytes(); !slices.Equal(got, want) {
			t.Errorf("%v: the bytes are others", c)
		}
		if got := slices.Concat(x.Pieces()...); len(x.Pieces()) != c.pieces || c.pieces > 0 && !slices.Equal(got, want) {
			t.Errorf("%v: %d pieces, or with other bytes", c, len(x.Pieces()))
		}
	}
}

func TestFolderNames(t *testing.T) {
	dir := t.TempDir()
	texts := map[string]string{"config.json": tinyConfig, "tokenizer_config.json": `{"chat_template": [{"name": "tools", "template": "T"},
		{"name": "default", "template": "D"}]}`, "tokenizer.json": "{}", "generation_config.json": `{"temperature": NaN, "top_p": 0.5, "top_k": 7}`}
	if err := gguftest.WriteFolder(dir, texts, tinyTensors(), 2); err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, x := range f.Tensors() {
		names = append(names, fmt.Sprintf("%s%v%d", x.Name, x.Shape, x.Type))
	}
	want := []string{"token_embd.weight[4 3]30", "blk.0.attn_q.weight[4 4]30", "blk.0.ffn_down.weight[6 4]30", "output_norm.weight[4]30"}
	if !slices.Equal(names, want) {
		t.Errorf("tensors %q, want %q", names, want)
	}
	if got, err := f.String("tokenizer.chat_template"); err != nil || got != "D" {
		t.Errorf("chat template %q, %v", got, err)
	}
	if n, err := f.Uint("qwen3.attention.head_count_kv"); err != nil || n != 1 || f.Architecture() != "qwen3" {
		t.Errorf("%d KV heads of %s, %v", n, f.Architecture(), err)
	}
	if x, _ := f.Tensor("output_norm.weight"); !slices.Equal(x.Bytes(), tinyTensors()[3].Data) || x.Copied() {
		t.Error("a plain tensor is not what the file has")
	} else if file, err := os.ReadFile(filepath.Join(dir, "model-00002-of-00002.safetensors")); err != nil || !bytes.HasPrefix(file[x.Offset:], x.Data) {
		t.Errorf("a plain tensor is not where it says that it is, %v", err)
	}
	if p, err := f.Float("general.sampling.top_p"); err != nil || p != 0.5 || f.Has("general.sampling.temp") {
		t.Errorf("top_p %v, %v, or a temperature that is no number", p, err)
	}
	if k, err := f.Uint("general.sampling.top_k"); err != nil || k != 7 {
		t.Errorf("top_k %v, %v", k, err)
	}
	if string(f.Beside("tokenizer.json")) != "{}" || f.Beside("README.md") != nil {
		t.Error("the texts beside the tensors are not those of the folder")
	}
	f.ReleasePages()
	digest := f.Digest()
	for name := range texts { // the template and the tokenizer are no part of the weights
		text := strings.Replace(texts[name], `"num_hidden_layers": 1`, `"num_hidden_layers": 2`, 1)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed, err := modelfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer changed.Close()
	if len(digest) != 64 || changed.Digest() == digest {
		t.Error("another config has the same digest")
	}
}

func TestPredictionNames(t *testing.T) {
	config := strings.Replace(tinyConfig, `"qwen3"`, `"qwen3_5_text", "linear_key_head_dim": 2, "linear_value_head_dim": 2, "linear_num_key_heads": 1,
		"linear_num_value_heads": 1, "linear_conv_kernel_dim": 2, "partial_rotary_factor": 1`, 1)
	one := func(name string, shape ...int) gguftest.Stored {
		return gguftest.Store(name, "F32", make([]float32, 8), shape...)
	}
	f, err := modelfile.Translate([]byte(config), gguftest.Safetensors([]gguftest.Stored{
		one("mtp.fc.weight", 1, 8), one("mtp.norm.weight", 8), one("mtp.pre_fc_norm_hidden.weight", 8), one("mtp.pre_fc_norm_embedding.weight", 8),
		one("mtp.layers.0.self_attn.k_proj.weight", 2, 4), one("mtp.layers.0.post_attention_layernorm.weight", 8),
	}))
	if err != nil {
		t.Fatal(err)
	}
	for name, first := range map[string]float32{"nextn.eh_proj.weight": 0, "nextn.shared_head_norm.weight": 1, "nextn.hnorm.weight": 1,
		"nextn.enorm.weight": 1, "attn_k.weight": 0, "post_attention_norm.weight": 1} {
		x, ok := f.Tensor("blk.1." + name)
		if !ok {
			t.Errorf("there is no %s", name)
			continue
		}
		if values, err := x.Floats(); err != nil || values[0] != first {
			t.Errorf("%s begins with %g, want %g: %v", name, values[0], first, err)
		}
	}
	blocks, _ := f.Uint("qwen35.block_count")
	if n, err := f.Uint("qwen35.nextn_predict_layers"); err != nil || n != 1 || blocks != 2 {
		t.Errorf("%d of %d blocks predict, %v", n, blocks, err)
	}
	const own = "mtp_use_dedicated_embeddings"
	config = strings.Replace(config, "{", `{"`+own+`": true, `, 1)
	for _, name := range []string{"mtp.fc.weight", "model.embed_tokens.weight"} { // with the block and without
		_, err := modelfile.Translate([]byte(config), gguftest.Safetensors([]gguftest.Stored{one(name, 1, 8)}))
		if err == nil || strings.Count(err.Error(), own) != 1 {
			t.Errorf("%s: error %v, want one that names %s once", name, err, own)
		}
	}
}

// TestFolderRefusals: what is not understood is named.
func TestFolderRefusals(t *testing.T) {
	good := gguftest.Safetensors(tinyTensors())
	for want, key := range map[string]string{
		"model_type is \"mamba\"":             `"model_type": "mamba"`,
		"key attention_sink_size is not":      `"attention_sink_size": 4`,
		"hidden_act is gelu":                  `"hidden_act": "gelu"`,
		"use_sliding_window is true":          `"use_sliding_window": true`,
		"layer_types[1] is":                   `"layer_types": ["full_attention", "sliding_attention"]`,
		"rope_type is \"dynamic\"":            `"rope_parameters": {"rope_type": "dynamic"}`,
		"rope_parameters.wavelength":          `"rope_parameters": {"wavelength": 3}`,
		"partial_rotary_factor is":            `"partial_rotary_factor": 1e300`,
		"hidden_size: json":                   `"hidden_size": "4"`,
		"quant_method is \"gptq\"":            `"quantization_config": {"quant_method": "gptq"}`,
		"weight_block_size is":                `"quantization_config": {"quant_method": "fp8", "fmt": "e4m3"}`,
		"tie_word_embeddings is false":        `"tie_word_embeddings": false`,
		"num_key_value_heads is -1":           `"num_key_value_heads": -1`,
		"norm_topk_prob is false, only true":  `"model_type": "qwen3_moe", "norm_topk_prob": false`,
		"mlp_only_layers is [1], only []":     `"model_type": "qwen3_moe", "mlp_only_layers": [1]`,
		"decoder_sparse_step is 2":            `"model_type": "qwen3_moe", "decoder_sparse_step": 2`,
		"query_pre_attn_scalar is 100":        `"model_type": "gemma3_text", "query_pre_attn_scalar": 100`,
		"final_logit_softcapping is 30":       `"model_type": "gemma3_text", "final_logit_softcapping": 30`,
		"use_bidirectional_attention is true": `"model_type": "gemma3_text", "use_bidirectional_attention": true`,
		"layer_types[0] is \"x\"":             `"model_type": "gemma3_text", "layer_types": ["x"]`,
		"linear_num_value_heads is 3":         `"model_type": "qwen3_5_text", "linear_num_value_heads": 3, "linear_num_key_heads": 2`,
		"output_gate_type is \"tanh\"":        `"model_type": "qwen3_5_text", "output_gate_type": "tanh"`,
		"layer_types[0] is \"y\"":             `"model_type": "qwen3_5_text", "layer_types": ["y"]`,
		"rope_parameters.factor is absent":    `"rope_parameters": {"rope_type": "yarn"}`,
		"text_config.model_type is \"x\"":     `"text_config": {"model_type": "x"}`,
	} {
		config := strings.Replace(tinyConfig, `"model_type": "qwen3"`, key, 1)
		if !strings.Contains(key, "model_type") {
			config = strings.Replace(tinyConfig, `{`, "{"+key+", ", 1)
			if name, _, _ := strings.Cut(key, ":"); strings.Count(config, name+":") > 1 { // the last of two would count
				config = strings.Replace(tinyConfig, name+": 1", key, 1)
				config = strings.Replace(config, name+": 4", key, 1)
			}
		}
		if _, err := modelfile.Translate([]byte(config), good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", key, err, want)
		}
	}
	if _, err := modelfile.Translate([]byte(tinyConfig), good); err != nil {
		t.Errorf("the config without a change: %v", err)
	}
}

// TestFolderTensors: a tensor that means nothing keeps its name, for whoever loads the
// model to refuse it by; what is broken is refused here.
func TestFolderTensors(t *testing.T) {
	f, err := modelfile.Translate([]byte(tinyConfig), gguftest.Safetensors([]gguftest.Stored{
		{Name: "model.layers.0.self_attn.gates", DType: "F32", Shape: []int{1}, Data: make([]byte, 4)},
		{Name: "model.layers.00.mlp.down_proj.weight", DType: "F32", Shape: []int{1}, Data: make([]byte, 4)},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.layers.0.self_attn.gates", "model.layers.00.mlp.down_proj.weight"} {
		if _, ok := f.Tensor(name); !ok {
			t.Errorf("%s lost its name", name)
		}
	}
	moe := strings.Replace(tinyConfig, `"qwen3"`, `"qwen3_moe", "num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 2,
		"norm_topk_prob": true`, 1)
	expert := func(i int, dtype string) gguftest.Stored {
		return gguftest.Store(fmt.Sprintf("model.layers.0.mlp.experts.%d.up_proj.weight", i), dtype, make([]float32, 8), 2, 4)
	}
	for want, tensors := range map[string][]gguftest.Stored{
		"type I8 cannot":            {{Name: "model.norm.weight", DType: "I8", Shape: []int{4}, Data: make([]byte, 4)}},
		"no model.norm.weight_sca":  {{Name: "model.norm.weight", DType: "F8_E4M3", Shape: []int{4}, Data: make([]byte, 4)}},
		"it has 5 dimensions":       {gguftest.Store("model.layers.0.mlp.down_proj.weight", "F32", make([]float32, 24), 4, 1, 1, 1, 6)},
		"two tensors are output_n":  {gguftest.Store("model.norm.weight", "F32", []float32{1}, 1), gguftest.Store("norm.weight", "F32", []float32{1}, 1)},
		"has 1 experts of 2":        {expert(0, "F32"), gguftest.Store("x", "F32", []float32{1}, 1)},
		"expert 1 has another type": {expert(0, "F32"), expert(1, "F16")},
	} {
		if _, err := modelfile.Translate([]byte(moe), gguftest.Safetensors(tensors)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestFolderWithPictures: the parts of a model that a text-only node leaves out may have shapes that no used tensor has.
func TestFolderWithPictures(t *testing.T) {
	for _, prefix := range []string{"model.visual.", "visual.", "model.vision_tower."} {
		patches := gguftest.Store(prefix+"patch_embed.proj.weight", "BF16", make([]float32, 48), 2, 3, 2, 2, 2)
		dir := t.TempDir()
		if err := gguftest.WriteFolder(dir, map[string]string{"config.json": tinyConfig}, append(tinyTensors(), patches), 2); err != nil {
			t.Fatal(err)
		}
		f, err := modelfile.Open(dir)
		if err != nil {
			t.Errorf("%s: %v", prefix, err)
			continue
		}
		if n := len(f.Tensors()); n != len(tinyTensors()) {
			t.Errorf("%s: %d tensors", prefix, n)
		}
		f.Close()
	}
}

func header(text string, data int) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...), make([]byte, data)...)
}

func TestBrokenSafetensors(t *testing.T) {
	entry := func(name, dtype, shape, offsets string) string {
		return fmt.Sprintf(`"%s":{"dtype":"%s","shape":%s,"data_offsets":%s}`, name, dtype, shape, offsets)
	}
	for want, data := range map[string][]byte{
		"has no header":          make([]byte, 7),
		"the file has 8":         append(le64(9), make([]byte, 8)...),
		"no JSON object":         header(`[]`, 0),
		"EOF":                    header(`{"a":`, 0),
		"goes on":                header(`{}{}`, 0),
		"appears twice":          header("{"+entry("a", "F32", "[1]", "[0,4]")+","+entry("a", "F32", "[1]", "[4,8]")+"}", 8),
		"overlaps":               header("{"+entry("a", "F32", "[1]", "[0,4]")+","+entry("b", "F32", "[1]", "[3,7]")+"}", 8),
		"lies at 4 to 3":         header("{"+entry("a", "F32", "[1]", "[4,3]")+"}", 8),
		"lies at 0 to 12":        header("{"+entry("a", "F32", "[3]", "[0,12]")+"}", 8),
		"has 4 bytes, want 8":    header("{"+entry("a", "F32", "[2]", "[0,4]")+"}", 8),
		"has 5 dimensions":       header("{"+entry("a", "F32", "[1,1,1,1,1]", "[0,4]")+"}", 8),
		"has 9 dimensions":       header("{"+entry("model.visual.a", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]")+"}", 8),
		"has the shape":          header("{"+entry("a", "F32", "[4611686018427387904,4]", "[0,0]")+"}", 8),
		"has the shape [-1]":     header("{"+entry("a", "F32", "[-1]", "[0,4]")+"}", 8),
		"has 0 bytes, want 1 to": header("{"+entry("", "F32", "[1]", "[0,4]")+"}", 8),
		"want printable":         header("{"+entry(`a\u009b2J`, "F32", "[1]", "[0,4]")+"}", 4),
		"cannot unmarshal":       header(`{"a":{"data_offsets":[0,-4]}}`, 8),
	} {
		_, err := modelfile.Translate([]byte(tinyConfig), data)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// TestShards: the index and the files must agree, and name files of the folder only.
func TestShards(t *testing.T) {
	write := func(shards int, index string) error {
		dir := t.TempDir()
		if err := gguftest.WriteFolder(dir, map[string]string{"config.json": tinyConfig}, tinyTensors(), shards); err != nil {
			t.Fatal(err)
		}
		if index == "none" {
			if err := os.Remove(filepath.Join(dir, "model.safetensors.index.json")); err != nil {
				t.Fatal(err)
			}
		} else if index != "" {
			if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		f, err := modelfile.Open(dir)
		if err == nil {
			f.Close()
		}
		return err
	}
	for _, shards := range []int{1, 2} {
		if err := write(shards, ""); err != nil {
			t.Errorf("a whole folder of %d: %v", shards, err)
		}
	}
	for want, index := range map[string]string{
		"has 2 safetensors files and no": "none",
		"model.safetensors.index.json":   `{`,
		"names 0 files":                  `{}`,
		"is in \"../a.safetensors\"":     `{"weight_map": {"x": "../a.safetensors"}}`,
		"no such file":                   `{"weight_map": {"x": "a.safetensors"}}`,
		"is not in this file by":         `{"weight_map": {"model.embed_tokens.weight": "model-00002-of-00002.safetensors"}}`,
		"names 3 tensors, the files ha": `{"weight_map": {"model.embed_tokens.weight": "model-00001-of-00002.safetensors",
			"model.layers.0.self_attn.q_proj.weight": "model-00001-of-00002.safetensors", "x": "model-00001-of-00002.safetensors"}}`,
	} {
		if err := write(2, index); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	if _, err := modelfile.Open(t.TempDir()); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestChatTemplate: the newest place that has a template counts.
func TestChatTemplate(t *testing.T) {
	for _, c := range []struct {
		texts     map[string]string
		want, err string
	}{
		{nil, "", ""},
		{map[string]string{"chat_template.jinja": "J", "tokenizer_config.json": `{"chat_template":"T"}`}, "J", ""},
		{map[string]string{"chat_template.json": `{"chat_template":"C"}`, "tokenizer_config.json": `{"chat_template":"T"}`}, "C", ""},
		{map[string]string{"chat_template.json": `{"chat_template":null}`, "tokenizer_config.json": `{"x":NaN,"chat_template":"T"}`}, "T", ""},
		{map[string]string{"chat_template.json": `{}`, "tokenizer_config.json": `{"chat_template":null}`}, "", ""},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[{"name":"tools","template":"X"}]}`}, "", "none of 1 templates is the default"},
		{map[string]string{"tokenizer_config.json": `{"chat_template":[7]}`}, "", "tokenizer_config.json: chat_template: "},
		{map[string]string{"tokenizer_config.json": `{"chat_template":7}`}, "", "tokenizer_config.json: chat_template: "},
		{map[string]string{"chat_template.json": `{`}, "", "chat_template.json: "},
	} {
		got, err := modelfile.ChatTemplate(func(name string) []byte {
			if text, ok := c.texts[name]; ok {
				return []byte(text)
			}
			return nil
		})
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%v: %q, %v, want %q, %q", c.texts, got, err, c.want, c.err)
		}
	}
}

// TestEightBits: every byte of E4M3 means what the format says, and blocks that the matrix
// cuts have their scale. These values were read off torch.float8_e4m3fn.
func TestEightBits(t *testing.T) {
	values := modelfile.E4M3()
	for code, want := range map[int]float32{0: 0, 1: 0.001953125, 7: 0.013671875, 8: 0.015625, 0x3c: 1.5, 0x7e: 448, 0x81: -0.001953125} {
		if values[code] != want {
			t.Errorf("byte %#x is %g, want %g", code, values[code], want)
		}
	}
	var all, weighted float64
	for code, x := range values {
		if x == x {
			all, weighted = all+math.Abs(float64(x)), weighted+float64(code)*float64(x)
		}
	}
	if all != 10815.75 || weighted != -692208 {
		t.Errorf("the sums of all values are %g and %g, want 10815.75 and -692208", all, weighted)
	}
	if values[127] == values[127] || values[255] == values[255] {
		t.Error("a byte with all bits set is a number")
	}
	config := strings.Replace(tinyConfig, "{", `{"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
		"weight_block_size": [2, 3]}, `, 1)
	const name = "model.layers.0.mlp.up_proj.weight"
	codes, scales := make([]byte, 5*4), []float32{1, 0.3, 3, 1e-3, 5, 7}
	for i := range codes {
		codes[i] = byte(i * 13 % 127)
	}
	f, err := modelfile.Translate([]byte(config), gguftest.Safetensors([]gguftest.Stored{
		{Name: name, DType: "F8_E4M3", Shape: []int{5, 4}, Data: codes}, gguftest.Store(name+"_scale_inv", "F32", scales, 3, 2),
	}))
	if err != nil {
		t.Fatal(err)
	}
	x, ok := f.Tensor("blk.0.ffn_up.weight")
	if !ok || len(f.Tensors()) != 1 || x.Type != kernel.F16 {
		t.Fatalf("the folder has the tensors %v", f.Tensors())
	}
	got, err := x.Floats()
	if err != nil {
		t.Fatal(err)
	}
	for i, code := range codes {
		want := values[code] * scales[i/4/2*2+i%4/3]
		if math.Abs(float64(got[i]-want)) > math.Abs(float64(want))/2048+0x1p-25 {
			t.Errorf("value %d is %g, want %g", i, got[i], want)
		}
	}
}

// latentConfig is a small one of DeepSeek V3.
const latentConfig = `{"model_type": "deepseek_v3", "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 4,
	"num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 8, "kv_lora_rank": 3, "q_lora_rank": 2, "qk_nope_head_dim": 3,
	"qk_rope_head_dim": 2, "v_head_dim": 1, "n_routed_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 2, "n_group": 1,
	"rope_scaling": {"type": "yarn", "factor": 2, "mscale": 1, "mscale_all_dim": 1}}`

// TestHeadMatrices: the matrices of keys are turned and those of values are as they are, and heads that
// cannot be are refused, however large they say they are.
func TestHeadMatrices(t *testing.T) {
	x := make([]float32, 24)
	for i := range x {
		x[i] = float32(i)
	}
	data := gguftest.Safetensors([]gguftest.Stored{gguftest.Store("model.layers.0.self_attn.kv_b_proj.weight", "F32", x, 8, 3)})
	f, err := modelfile.Translate([]byte(latentConfig), data)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]float32{
		"blk.0.attn_k_b.weight": {0, 3, 6, 1, 4, 7, 2, 5, 8, 12, 15, 18, 13, 16, 19, 14, 17, 20},
		"blk.0.attn_v_b.weight": {9, 10, 11, 21, 22, 23},
	} {
		x, ok := f.Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		if got, err := x.Floats(); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v: %v", name, got, want, err)
		}
	}
	for _, sizes := range []string{`"qk_nope_head_dim": 4294967295`, `"qk_nope_head_dim": 2`, `"qk_nope_head_dim": 0`} {
		config := strings.Replace(latentConfig, `"qk_nope_head_dim": 3`, sizes, 1)
		if _, err := modelfile.Translate([]byte(config), data); err == nil || !strings.Contains(err.Error(), "heads of") {
			t.Errorf("%s: %v", sizes, err)
		}
	}
}

// FuzzFolder: no config and no header makes the reader fail other than by an error, and what
// it takes is bounded by what it reads.
func FuzzFolder(f *testing.F) {
	f.Add([]byte(tinyConfig), gguftest.Safetensors(tinyTensors()))
	f.Add([]byte(strings.Replace(tinyConfig, `"qwen3"`, `"qwen3_5_moe_text", "linear_key_head_dim": 2, "linear_value_head_dim": 2,
		"linear_num_key_heads": 1, "linear_num_value_heads": 2, "linear_conv_kernel_dim": 2, "num_experts": 1, "num_experts_per_tok": 1,
		"moe_intermediate_size": 2, "shared_expert_intermediate_size": 2, "layer_types": ["linear_attention"], "rope_parameters":
		{"rope_type": "yarn", "factor": 2, "mrope_section": [1]}, "quantization_config": {"quant_method": "fp8", "weight_block_size": [2, 2]}`, 1)),
		gguftest.Safetensors([]gguftest.Stored{
			{Name: "model.layers.0.mlp.experts.0.up_proj.weight", DType: "F8_E4M3", Shape: []int{2, 4}, Data: make([]byte, 8)},
			gguftest.Store("model.layers.0.mlp.experts.0.up_proj.weight_scale_inv", "BF16", []float32{1, 2}, 1, 2),
			gguftest.Store("model.layers.0.mlp.experts.gate_up_proj", "BF16", make([]float32, 16), 1, 4, 4),
			gguftest.Store("model.layers.0.linear_attn.A_log", "F32", []float32{1, 2}, 2),
			gguftest.Store("model.layers.0.linear_attn.conv1d.weight", "F16", make([]float32, 16), 8, 1, 2),
			gguftest.Store("mtp.fc.weight", "F16", make([]float32, 32), 4, 8),
		}))
	f.Add([]byte(latentConfig), gguftest.Safetensors([]gguftest.Stored{
		gguftest.Store("model.layers.0.self_attn.kv_b_proj.weight", "F32", make([]float32, 24), 8, 3),
		gguftest.Store("model.layers.0.mlp.gate.e_score_correction_bias", "F32", []float32{1, 2}, 2)}))
	blocks, scales, values := fourBits(f)
	f.Add([]byte(ossConfig), gguftest.Safetensors([]gguftest.Stored{blocks, scales}))
	f.Add([]byte(ossConfig), gguftest.Safetensors([]gguftest.Stored{
		gguftest.Store("model.layers.0.mlp.experts.down_proj", "F32", values[:64], 2, 8, 4),
		gguftest.Store("model.layers.0.mlp.experts.gate_up_proj_bias", "F32", values[:8], 2, 4)}))
	f.Fuzz(func(t *testing.T, config, safetensors []byte) {
		n := len(config) + len(safetensors)
		var file *modelfile.File
		var err error
		if took := gguftest.Allocated(func() { file, err = modelfile.Translate(config, safetensors) }); took > 1<<20+200*n {
			t.Fatalf("%d bytes taken to open %d", took, n)
		}
		if err != nil {
			return
		}
		total := 0
		took := gguftest.Allocated(func() {
			for _, x := range file.Tensors() {
				total += len(x.Bytes())
			}
		})
		if most := 4*len(safetensors) + 16*len(config) + 1<<18; total > most || took > 4*most {
			t.Fatalf("%d bytes of tensors, with %d taken, from %d and %d bytes", total, took, len(config), len(safetensors))
		}
	})
}

// FuzzSafetensors: what a header takes is bounded by its length, and its tensors lie apart in the file.
func FuzzSafetensors(f *testing.F) {
	f.Add(gguftest.Safetensors(tinyTensors()))
	for _, header := range []string{`{}`, `{"__metadata__":{"a":"b"}}`, `{"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]}}`,
		`{"a":{"dtype":"X","shape":[1,2,3,4],"data_offsets":[0,0]},"b":{"dtype":"F16","shape":[18446744073709551615,2],"data_offsets":[0,4]}}`} {
		f.Add(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header+"1234"...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var sizes []int
		var err error
		if took := gguftest.Allocated(func() { sizes, err = modelfile.SafetensorsSizes(data) }); took > 1<<16+100*len(data) {
			t.Fatalf("%d bytes taken to read %d", took, len(data))
		}
		total := 0
		for _, n := range sizes {
			total += n
		}
		if err == nil && total > len(data) {
			t.Fatalf("tensors of %d bytes in a file of %d", total, len(data))
		}
	})
}
