package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/tokenizer"
)

// smallFolder is a folder of one layer with a tokenizer.
func smallFolder(t *testing.T) string {
	t.Helper()
	f, err := modelfile.Open("../../engine/model/testdata/parity/tiny-qwen3-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	config := map[string]any{"model_type": "qwen3", "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 32, "vocab_size": 520,
		"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "intermediate_size": 64, "tie_word_embeddings": true}
	shapes := map[string][]int{"embed_tokens": {520, 32}, "norm": {32}, "layers.0.input_layernorm": {32}, "layers.0.post_attention_layernorm": {32},
		"layers.0.self_attn.q_proj": {32, 32}, "layers.0.self_attn.k_proj": {16, 32}, "layers.0.self_attn.v_proj": {16, 32},
		"layers.0.self_attn.o_proj": {32, 32}, "layers.0.self_attn.q_norm": {16}, "layers.0.self_attn.k_norm": {16},
		"layers.0.mlp.gate_proj": {64, 32}, "layers.0.mlp.up_proj": {64, 32}, "layers.0.mlp.down_proj": {32, 64}}
	var tensors []gguftest.Stored
	for name, shape := range shapes {
		tensors = append(tensors, gguftest.Made{Name: "model." + name + ".weight", DType: "BF16", Shape: shape, Scale: 1}.Store())
	}
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	texts := map[string]string{"config.json": string(text), "tokenizer.json": gguftest.TokenizerJSON(f),
		"tokenizer_config.json": `{"bos_token": null, "eos_token": {"content": "<|im_end|>"}, "add_bos_token": false}`, "chat_template.jinja": "{{ messages }}"}
	if err := gguftest.WriteFolder(dir, texts, tensors, 1); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestConvert: the file that is written has the folder's tokenizer, template and tensors, and
// nothing is drawn where no terminal is.
func TestConvert(t *testing.T) {
	dir, out := smallFolder(t), filepath.Join(t.TempDir(), "out.gguf")
	var warned bytes.Buffer
	if _, err := typedTo(&warned, "model", "convert", dir, out, "--type", "q8_0"); err != nil || warned.Len() > 0 {
		t.Fatalf("%v: %q", err, &warned)
	}
	folder, err := modelfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	file, err := modelfile.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if x, _ := file.Tensor("blk.0.ffn_down.weight"); x == nil || x.Type != kernel.Q8_0 || len(file.Tensors()) != len(folder.Tensors()) {
		t.Errorf("the file has %d tensors, ffn_down is %+v", len(file.Tensors()), x)
	}
	if s, err := file.String("tokenizer.chat_template"); s != "{{ messages }}" {
		t.Errorf("chat template %q, %v", s, err)
	}
	a, err := tokenizer.FromFile(folder)
	if err != nil {
		t.Fatal(err)
	}
	b, err := tokenizer.FromFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const text = "<|im_start|>user\nThe server's tokens 123<|im_end|>"
	if got, want := b.EncodePrompt(nil, text), a.EncodePrompt(nil, text); !slices.Equal(got, want) || len(got) < 5 {
		t.Errorf("%v, in the folder %v", got, want)
	}
	if !slices.Equal(a.Stops(), b.Stops()) || len(a.Stops()) == 0 || a.EOS() != b.EOS() || b.Size() != 520 {
		t.Errorf("stops %v and %v, %d tokens", a.Stops(), b.Stops(), b.Size())
	}
	left, err := os.ReadDir(filepath.Dir(out))
	if err != nil || len(left) != 1 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
	for _, line := range [][]string{{dir, out, "--type", "q2_k"}, {t.TempDir(), out}, {dir, filepath.Join(out, "x")}} {
		if _, err := typed(append([]string{"model", "convert"}, line...)...); err == nil {
			t.Errorf("%v succeeded", line)
		}
	}
}

// passing passes on what is written to a file, as main does.
type passing struct {
	io.Writer
	to *os.File
}

func (p passing) Stat() (os.FileInfo, error) { return p.to.Stat() }

// TestScreen: a device for characters is one, written to or passed on to, and a file is none.
func TestScreen(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var text strings.Builder
	if !isScreen(device) || !isScreen(passing{&text, device}) {
		t.Error("what leads to a device is no screen")
	}
	if isScreen(file) || isScreen(passing{&text, file}) || isScreen(&text) {
		t.Error("what leads to no device is a screen")
	}
	bar(passing{&text, device})(1, 2)
	bar(passing{io.Discard, file})(1, 2)
	if !strings.Contains(text.String(), "50 %") {
		t.Errorf("the bar is %q", text.String())
	}
}

func TestBar(t *testing.T) {
	var b strings.Builder
	draw := drawBar(&b)
	for _, done := range []int64{0, 1, 500, 504, 1000} {
		draw(done, 1000)
	}
	lines := strings.Split(b.String(), "\r")
	if len(lines) != 4 || lines[2] != "["+strings.Repeat("#", 20)+strings.Repeat(" ", 20)+"] 50 %" || !strings.HasSuffix(lines[3], "] 100 %\n") {
		t.Errorf("drawn is %q", lines)
	}
}

// TestAnEndedConversionLeavesNothing: a signal ends it, and what it wrote is as large as a model.
func TestAnEndedConversionLeavesNothing(t *testing.T) {
	out := t.TempDir()
	ctx, end := context.WithCancel(t.Context())
	err := convert(ctx, smallFolder(t), filepath.Join(out, "out.gguf"), kernel.F16, func(int64, int64) { end() })
	if left, _ := os.ReadDir(out); !errors.Is(err, context.Canceled) || len(left) != 0 {
		t.Errorf("%v, and there is %v", err, left)
	}
}

// TestAConversionReplacesFilesAlone: of a link the file that it leads to; whatever else is there stays as it is.
func TestAConversionReplacesFilesAlone(t *testing.T) {
	from, dir := smallFolder(t), t.TempDir()
	file, link, device, lost := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "device"), filepath.Join(dir, "lost")
	err := errors.Join(os.WriteFile(file, nil, 0o600), os.Symlink("file", link), os.Symlink(os.DevNull, device), os.Symlink("nowhere", lost))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := typed("model", "convert", from, link); err != nil {
		t.Error(err)
	}
	if to, err := os.Readlink(link); err != nil || to != "file" {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Errorf("the file behind the link: %v, %v", info, err)
	}
	for _, out := range []string{device, lost, dir} {
		if _, err := typed("model", "convert", from, out); err == nil || !strings.Contains(err.Error(), out) {
			t.Errorf("%s: %v", out, err)
		}
	}
	for _, link := range []string{device, lost} {
		if _, err := os.Readlink(link); err != nil {
			t.Error(err)
		}
	}
}
