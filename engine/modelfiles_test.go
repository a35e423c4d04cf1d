package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/tokenizer"
)

// modelRow finds the words of the README's table of model files.
var modelRow = regexp.MustCompile(`(?m)^\| Model files \| GGUF, also in parts: (.*); folders of safetensors: (.*); (.qwen.*|.llama.*); (.*) scaling of positions \|$`)

// TestModelFilesOfTheReadme: every type, architecture and scaling that the README names loads and
// answers, and what loads here is named there.
func TestModelFilesOfTheReadme(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	row := modelRow.FindSubmatch(readme)
	if row == nil {
		t.Fatal("the README has no row of model files")
	}
	cases := map[string]string{} // a file or folder, by the cell
	for name, typ := range map[string]kernel.Type{"F32": kernel.F32, "F16": kernel.F16, "BF16": kernel.BF16, "Q8_0": kernel.Q8_0,
		"Q4_0": kernel.Q4_0, "Q4_1": kernel.Q4_1, "Q5_0": kernel.Q5_0, "Q5_1": kernel.Q5_1, "Q4_K": kernel.Q4_K, "Q5_K": kernel.Q5_K, "Q6_K": kernel.Q6_K,
		"IQ4_NL": kernel.IQ4_NL, "MXFP4": kernel.MXFP4} {
		cases["1 "+name] = ggufOf(t, typ)
	}
	for _, dtype := range []string{"F32", "F16", "BF16", "FP8 with block scales"} {
		cases["2 "+dtype] = folderOf(t, "qwen3", dtype, nil)
	}
	for arch, recording := range map[string]string{"llama": "llama", "mistral": "mistral", "gemma3": "gemma3", "glm4moe": "glm4_moe",
		"qwen2": "qwen2", "qwen3": "qwen3", "qwen3moe": "qwen3_moe", "gpt-oss": "gpt_oss", "deepseek2": "deepseek_v3",
		"qwen35": "qwen3_5", "qwen35moe": "qwen3_5_moe"} {
		cases["3 `"+arch+"`"] = folderOf(t, recording, "BF16", nil)
	}
	for scaling, parameters := range map[string]string{
		"linear": `{"rope_type": "linear", "factor": 2}`, "YaRN": `{"rope_type": "yarn", "factor": 2}`,
		"Llama 3": `{"rope_type": "llama3", "factor": 2, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 64}`,
	} {
		cases["4 "+scaling] = folderOf(t, "llama", "BF16", json.RawMessage(parameters))
	}
	var named []string
	for i, cell := range row[1:] {
		for _, word := range regexp.MustCompile(`, | and `).Split(string(cell), -1) {
			named = append(named, fmt.Sprintf("%d %s", i+1, word))
		}
	}
	slices.Sort(named)
	if have := slices.Sorted(maps.Keys(cases)); !slices.Equal(named, have) {
		t.Fatalf("the README names %q, tried are %q", named, have)
	}
	for i, name := range named {
		if i%4 < atMost(4, 1) {
			t.Run(name, func(t *testing.T) { answers(t, cases[name]) })
		}
	}
}

// answers opens a model file and asks it something.
func answers(t *testing.T, path string) {
	o := options(CPU)
	o.Data, o.Path, o.Info.ContextLength = nil, path, 512
	e, s := open2(t, o)
	_, a := submit(t, s, "acct", ask(t, e, body))
	runAll(t, s)
	checkStream(t, a.events)
	if a.finished != 1 || a.result.Usage.Output == 0 || a.result.Usage.Input() == 0 {
		t.Errorf("the answer is %+v", a.result)
	}
}

// ggufOf is a small model with its matrices in a type.
func ggufOf(t *testing.T, typ kernel.Type) string {
	t.Helper()
	data, err := gguftest.Requantize(vocabulary(t), typ)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func vocabulary(t *testing.T) *modelfile.File {
	t.Helper()
	f, err := modelfile.Open("model/testdata/parity/tiny-qwen3-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// folderOf is the folder of a recorded checkpoint with more tokens, its matrices in a type.
func folderOf(t *testing.T, recording, dtype string, rope json.RawMessage) string {
	t.Helper()
	if recording == "gemma3" || recording == "mistral" { // which are published with the other kind of vocabulary
		return folderWith(t, recording, dtype, rope, 760, map[string]string{"tokenizer.json": sentences(t),
			"tokenizer_config.json": `{"bos_token": "<s>", "eos_token": "</s>"}`, "generation_config.json": `{"eos_token_id": 2, "top_k": 64}`,
			"chat_template.jinja": "{{ bos_token }}{% for m in messages %}[INST] {{ m.content }}[/INST]{% endfor %}"})
	}
	return folderWith(t, recording, dtype, rope, 512, map[string]string{"tokenizer.json": gguftest.TokenizerJSON(vocabulary(t)),
		"tokenizer_config.json": `{"eos_token": "<|im_end|>"}`, "generation_config.json": `{"eos_token_id": [511, 509]}`,
		"chat_template.jinja": "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}{{ eos_token }}"})
}

// TestFolderWithoutATokenizer: the error says which files are missing, also where the folder is to be converted.
func TestFolderWithoutATokenizer(t *testing.T) {
	o := options(Instant)
	o.Data, o.Info.ContextLength = nil, 512
	o.Path = folderWith(t, "qwen3", "BF16", nil, 512, map[string]string{"tokenizer_config.json": `{"eos_token": "x"}`, "chat_template.jinja": plainTemplate})
	const want = "model m: load tokenizer: the folder has neither tokenizer.json nor tiktoken.model (tekken.json and tokenizer.model are not read)"
	if _, err := Open(o); err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	f, err := modelfile.Open(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if meta, err := tokenizer.Metadata(f, 0); err == nil {
		t.Errorf("it is converted to %d keys", len(meta))
	}
}

// sentences is a tokenizer.json of SentencePiece.
func sentences(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("tokenizer/testdata/sentencepiece/small.json")
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct{ JSON json.RawMessage }
	if err := json.Unmarshal(text, &recorded); err != nil {
		t.Fatal(err)
	}
	return string(recorded.JSON)
}

func folderWith(t *testing.T, recording, dtype string, rope json.RawMessage, vocab int, texts map[string]string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("model/testdata/folders", recording+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Config  map[string]any
		Tensors []gguftest.Made
	}
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	r.Config["vocab_size"] = vocab
	if rope != nil {
		r.Config["rope_parameters"] = rope
	}
	var tensors []gguftest.Stored
	for _, m := range r.Tensors {
		if strings.Contains(m.Name, "embed_tokens") || strings.Contains(m.Name, "lm_head") {
			m.Shape[0] = vocab
		}
		m.DType = dtype
		if strings.HasPrefix(dtype, "FP8") {
			m.DType = "BF16"
			if strings.HasSuffix(m.Name, "proj.weight") {
				tensors = append(tensors, eightBits(m)...)
				continue
			}
		}
		tensors = append(tensors, m.Store())
	}
	if strings.HasPrefix(dtype, "FP8") {
		r.Config["quantization_config"] = map[string]any{"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": []int{128, 128}}
	}
	config, err := json.Marshal(r.Config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts["config.json"] = string(config)
	if err := gguftest.WriteFolder(dir, texts, tensors, 2); err != nil {
		t.Fatal(err)
	}
	return dir
}

// eightBits is a matrix of random E4M3 codes with scales.
func eightBits(m gguftest.Made) []gguftest.Stored {
	codes := make([]byte, m.Shape[0]*m.Shape[1])
	for i, x := range gguftest.Hashed(m.Name, len(codes), 120) {
		codes[i] = byte(int8(x))&127 | byte(i&1)<<7
	}
	scales := []int{(m.Shape[0] + 127) / 128, (m.Shape[1] + 127) / 128}
	return []gguftest.Stored{{Name: m.Name, DType: "F8_E4M3", Shape: m.Shape, Data: codes},
		gguftest.Made{Name: m.Name + "_scale_inv", DType: "BF16", Shape: scales, Offset: m.Scale / 448, Scale: m.Scale / 1000}.Store()}
}
