package modelfile_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// ossConfig is a model of one layer with two experts of two rows.
const ossConfig = `{"model_type": "gpt_oss", "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 64, "num_attention_heads": 2,
	"num_key_value_heads": 1, "head_dim": 2, "vocab_size": 3, "intermediate_size": 2, "num_local_experts": 2, "experts_per_token": 1,
	"sliding_window": 8, "swiglu_limit": 7.0, "initial_context_length": 4096, "layer_types": ["sliding_attention"],
	"rope_scaling": {"rope_type": "yarn", "factor": 32.0, "truncate": false}, "quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": []}}`

// fourBits is a stack of four-bit codes by testdata/fourbits.py.
func fourBits(t testing.TB) (blocks, scales gguftest.Stored, values []float32) {
	t.Helper()
	text, err := os.ReadFile("testdata/fourbits.json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Blocks, Scales []int
		Values         []float32
	}
	if err := json.Unmarshal(text, &r); err != nil || len(r.Values) != 512 {
		t.Fatalf("%d values: %v", len(r.Values), err)
	}
	const name = "model.layers.0.mlp.experts.gate_up_proj"
	blocks = gguftest.Stored{Name: name + "_blocks", DType: "U8", Shape: []int{2, 4, 2, 16}}
	scales = gguftest.Stored{Name: name + "_scales", DType: "U8", Shape: []int{2, 4, 2}}
	for _, x := range r.Blocks {
		blocks.Data = append(blocks.Data, byte(x))
	}
	for _, x := range r.Scales {
		scales.Data = append(scales.Data, byte(x))
	}
	return blocks, scales, r.Values
}

// TestFourBitFolder: gate and up of four-bit codes have the values that transformers gives them,
// and so have the same stacks of floats.
func TestFourBitFolder(t *testing.T) {
	blocks, scales, values := fourBits(t) // [expert][column][row]
	floats := gguftest.Store("model.layers.0.mlp.experts.gate_up_proj", "F32", values, 2, 64, 4)
	for _, tensors := range [][]gguftest.Stored{{blocks, scales}, {floats}} {
		f, err := modelfile.Translate([]byte(ossConfig), gguftest.Safetensors(tensors))
		if err != nil {
			t.Fatal(err)
		}
		for turn, name := range []string{"blk.0.ffn_gate_exps.weight", "blk.0.ffn_up_exps.weight"} {
			x, ok := f.Tensor(name)
			if !ok || len(x.Shape) != 3 || x.Shape[0] != 64 || x.Shape[1] != 2 || x.Shape[2] != 2 {
				t.Fatalf("%s is %+v", name, x)
			}
			got, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			for i, v := range got {
				expert, row, col := i/128, i/64%2, i%64
				if want := values[(expert*64+col)*4+2*row+turn]; v != want {
					t.Fatalf("%s: expert %d, row %d, column %d is %g, want %g", name, expert, row, col, v, want)
				}
			}
		}
	}
}

// TestFourBitRefusals: what cannot be such a stack is refused by name, also a shape whose data is not there.
func TestFourBitRefusals(t *testing.T) {
	blocks, scales, _ := fourBits(t)
	short, alone, flat := scales, blocks, gguftest.Store("model.layers.0.mlp.experts.gate_up_proj", "F32", make([]float32, 64), 64)
	short.Shape, short.Data = []int{2, 4, 1}, scales.Data[:8]
	sized := func(n, bytes int) []gguftest.Stored { // both agree, whatever they have
		blocks, scales := blocks, scales
		blocks.Shape, blocks.Data = []int{2, 4, n, 16}, make([]byte, 16*bytes)
		scales.Shape, scales.Data = []int{2, 4, n}, make([]byte, bytes)
		return []gguftest.Stored{blocks, scales}
	}
	odd := gguftest.Store("model.layers.0.mlp.experts.gate_up_proj_bias", "F32", make([]float32, 6), 2, 3)
	for want, tensors := range map[string][]gguftest.Stored{
		"gate_up_proj_blocks: it has the shape [2 4 2 16] of U8": {blocks, short},
		"gate_up_proj_blocks: it has the shape":                  {alone},
		"gate_up_proj: it has the shape [64], want a stack":      {flat},
		"gate_up_proj_bias: it has the shape [3 2], want gate":   {odd},
		"gate_up_proj_blocks (U8, shape [2 4 2 16]) has 128 byt": sized(2, 8),
		"gate_up_proj_blocks (U8, shape [2 4 1125899906842624 1": sized(1<<50, 0),
		"gate_up_proj_blocks has the shape [2 4 922337203685477": sized(1<<63-1, 0),
	} {
		_, err := modelfile.Translate([]byte(ossConfig), gguftest.Safetensors(tensors))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for was, change := range map[string]string{`"swiglu_limit": 7.0`: `"swiglu_limit": 8.0`, `"truncate": false`: `"truncate": true`,
		`["sliding_attention"]`: `["full_attention"]`, `"sliding_window": 8`: `"sliding_door": 8`, "mxfp4": "mxfp6"} {
		config := strings.Replace(ossConfig, was, change, 1)
		_, err := modelfile.Translate([]byte(config), gguftest.Safetensors([]gguftest.Stored{blocks, scales}))
		if err == nil || config == ossConfig {
			t.Errorf("%s passed", change)
		}
	}
}
