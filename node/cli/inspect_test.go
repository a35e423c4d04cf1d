package cli

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// changedModel writes a model file with keys in place of its own, and other tensors.
func changedModel(t *testing.T, keys map[string]any, change func([]*modelfile.Tensor) []*modelfile.Tensor) string {
	t.Helper()
	f, err := modelfile.Open("../../engine/model/testdata/parity/tiny-qwen3-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var meta []gguftest.KV
	for _, v := range f.Keys() {
		if _, ok := keys[v.Key]; !ok {
			meta = append(meta, gguftest.KV{Key: v.Key, Value: v})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if value := keys[key]; value != nil {
			meta = append(meta, gguftest.KV{Key: key, Value: value})
		}
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := os.WriteFile(path, gguftest.Bytes(meta, change(f.Tensors())), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestModelInspect: a line each says what of a model this node cannot run, and status and words say so where it can.
func TestModelInspect(t *testing.T) {
	const cannot = "this node cannot run it: "
	same := func(x []*modelfile.Tensor) []*modelfile.Tensor { return x }
	further := func(x []*modelfile.Tensor) []*modelfile.Tensor {
		return append(x[:len(x):len(x)], &modelfile.Tensor{Name: "blk.0.gates", Shape: []int{1}, Data: make([]byte, 4)})
	}
	coarse := func(all []*modelfile.Tensor) (changed []*modelfile.Tensor) {
		for _, x := range all {
			y := *x
			if x.Name == "blk.0.ffn_up.weight" {
				y.Type = 11
				y.Data = make([]byte, y.Size())
			}
			changed = append(changed, &y)
		}
		return changed
	}
	template := map[string]any{"tokenizer.chat_template": "{{ messages }}"}
	for _, c := range []struct {
		path string
		want []string // how the lines go on
	}{
		{smallFolder(t), nil},
		{changedModel(t, template, same), nil},
		{changedModel(t, template, coarse), []string{"tensor blk.0.ffn_up.weight: type Q3_K is not one of F32, "}},
		{changedModel(t, template, further), []string{"tensor blk.0.gates of shape [1] is not part of"}},
		{changedModel(t, map[string]any{"tokenizer.chat_template": nil, "tokenizer.ggml.pre": "abacus"}, same),
			[]string{"its tokenizer: ", "its chat template: "}},
		{changedModel(t, map[string]any{"tokenizer.chat_template": "{% abacus %}"}, same), []string{"its chat template: "}},
		{changedModel(t, map[string]any{"tokenizer.chat_template": "mistral-v7-tekken"}, same),
			[]string{"its chat template: it shows nothing of a conversation"}},
		{changedModel(t, map[string]any{"qwen3.abacus": uint32(1), "qwen3.beads": uint32(1), "tokenizer.chat_template": "{{ messages }}"}, same),
			[]string{"metadata key qwen3.abacus is", "metadata key qwen3.beads is"}},
	} {
		out, err := typed("model", "inspect", c.path)
		if err != nil {
			t.Errorf("%v: %v", c.want, err)
			continue
		}
		lines := strings.Split(strings.TrimSpace(out[strings.LastIndex(out, "digest "):]), "\n")[1:]
		if strings.HasPrefix(lines[0], "architecture ") {
			lines = lines[1:]
		}
		for i, want := range c.want {
			if len(lines) != len(c.want) || !strings.HasPrefix(lines[i], cannot+want) {
				t.Errorf("the last lines are %q, want %q", lines, c.want)
				break
			}
		}
		if c.want == nil && (len(lines) != 1 || lines[0] != "this node can run it") {
			t.Errorf("the last lines are %q", lines)
		}
		if _, err := typed("model", "verify", c.path); strings.Contains(strings.Join(c.want, ""), "tensor ") &&
			(err == nil || !strings.Contains(err.Error(), c.want[0])) {
			t.Errorf("verify says %v, want %q", err, c.want)
		}
	}
}

// TestModelInspectPrediction: of a layer that only predicts, what is wrong is said, and in a line behind it the key that serves the rest,
// unless more is wrong.
func TestModelInspectPrediction(t *testing.T) {
	f, err := modelfile.Open("../../engine/model/testdata/parity/tiny-qwen35-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	path := filepath.Join(t.TempDir(), "m.gguf")
	lacking := gguftest.WithPrediction(f, func(x map[string]*modelfile.Tensor) { delete(x, "attn_k.weight") })
	if err := os.WriteFile(path, lacking, 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "this node cannot run it: its prediction layer: tensor blk.4.attn_k.weight is missing"
	const wayOut = "\nwith speculation: off it runs without that layer"
	out, err := typed("model", "inspect", path)
	if err != nil || !strings.Contains(out, want) || !strings.HasSuffix(out, wayOut+"\n") {
		t.Errorf("%v: %q", err, out[max(0, len(out)-400):])
	}
	_, err = typed("model", "verify", path)
	if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), wayOut) {
		t.Errorf("verify says %v", err)
	}
	further, err := modelfile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer further.Close()
	worse := filepath.Join(t.TempDir(), "m.gguf")
	meta := []gguftest.KV{{Key: "tokenizer.ggml.pre", Value: "abacus"}}
	for _, v := range further.Keys() {
		if v.Key != meta[0].Key {
			meta = append(meta, gguftest.KV{Key: v.Key, Value: v})
		}
	}
	if err := os.WriteFile(worse, gguftest.Bytes(meta, further.Tensors()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err = typed("model", "inspect", worse)
	if err != nil || !strings.Contains(out, want) || !strings.Contains(out, "its tokenizer: ") || strings.Contains(out, wayOut) {
		t.Errorf("beside a tokenizer that cannot be: %v: %q", err, out[max(0, len(out)-400):])
	}
}

// TestModelInspectSizes: more tokens than the model has rows are named.
func TestModelInspectSizes(t *testing.T) {
	f, err := modelfile.Open("../../engine/model/testdata/parity/tiny-qwen3-f16.gguf")
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]any{"tokenizer.ggml.token_type": nil, "tokenizer.chat_template": "{{ messages }}"}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	f.Close()
	if err != nil {
		t.Fatal(err)
	}
	keys["tokenizer.ggml.tokens"] = append(tokens, "<one>", "<two>", "<three>")
	out, err := typed("model", "inspect", changedModel(t, keys, func(x []*modelfile.Tensor) []*modelfile.Tensor { return x }))
	if err != nil || !strings.Contains(out, "cannot run it: the tokenizer has ") {
		t.Errorf("%v: %q", err, out[max(0, len(out)-400):])
	}
}
