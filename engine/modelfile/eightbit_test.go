package modelfile_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// hybridConfig is a layer whose value heads of so many values are tiled, with two experts.
const hybridConfig = `{"model_type": "qwen3_5_moe_text", "num_hidden_layers": 1, "max_position_embeddings": 64, "hidden_size": 256,
	"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 128, "vocab_size": 3, "linear_key_head_dim": %[1]d,
	"linear_value_head_dim": %[1]d, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_conv_kernel_dim": 2, "num_experts": 2,
	"num_experts_per_tok": 1, "moe_intermediate_size": 128, "shared_expert_intermediate_size": 2, "layer_types": ["linear_attention"],
	"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}`

// eightBits is a matrix of codes with scales, and what they mean.
func eightBits(name string, shape ...int) (stored []gguftest.Stored, meant gguftest.Stored) {
	rows, cols := shape[len(shape)-2], shape[len(shape)-1]
	stacked := 1
	for _, n := range shape[:len(shape)-2] {
		stacked *= n
	}
	down, across := (rows+127)/128, (cols+127)/128
	codes, scales, x := make([]byte, stacked*rows*cols), make([]float32, stacked*down*across), make([]float32, stacked*rows*cols)
	for i := range scales {
		scales[i] = float32(i+1) / 512
	}
	for i := range codes {
		codes[i] = byte(i*37%127 | i&1<<7)
		r, c := i/cols, i%cols
		x[i] = modelfile.E4M3()[codes[i]] * scales[(r/rows*down+r%rows/128)*across+c/128]
	}
	return []gguftest.Stored{{Name: name, DType: "F8_E4M3", Shape: shape, Data: codes},
			gguftest.Store(name+"_scale_inv", "F32", scales, len(scales))},
		gguftest.Store(name, "F32", x, shape...)
}

// TestEightBitsMoveWithTheirScales: what is put in another order, cut or joined means what the same values of F32
// mean then, and a block cut by it becomes F16.
func TestEightBitsMoveWithTheirScales(t *testing.T) {
	for _, width := range []int{128, 64} {
		var eight, plain []gguftest.Stored
		for name, shape := range map[string][]int{
			"linear_attn.in_proj_z.weight": {4 * width, 256}, "linear_attn.in_proj_qkv.weight": {8 * width, 256},
			"linear_attn.out_proj.weight": {130, 4 * width}, "mlp.experts.gate_up_proj": {2, 256, 256},
			"mlp.experts.0.down_proj.weight": {200, 128}, "mlp.experts.1.down_proj.weight": {200, 128},
		} {
			codes, meant := eightBits("model.layers.0."+name, shape...)
			eight, plain = append(eight, codes...), append(plain, meant)
		}
		var files [2]*modelfile.File
		for i, tensors := range [][]gguftest.Stored{eight, plain} {
			var err error
			if files[i], err = modelfile.Translate([]byte(fmt.Sprintf(hybridConfig, width)), gguftest.Safetensors(tensors)); err != nil {
				t.Fatal(err)
			}
		}
		if len(files[0].Tensors()) != 6 {
			t.Fatalf("%d tensors", len(files[0].Tensors()))
		}
		for _, x := range files[0].Tensors() {
			want, ok := files[1].Tensor(x.Name)
			typ := kernel.F8E4M3
			if width == 64 && strings.Contains(x.Name, "ssm_out") {
				typ = kernel.F16
			}
			if !ok || x.Type != typ || !slices.Equal(x.Shape, want.Shape) || x.Halves().Type != kernel.F16 {
				t.Fatalf("heads of %d: %s has the type %d and the shape %v", width, x.Name, x.Type, x.Shape)
			}
			exact, _ := want.Floats()
			for _, form := range []*modelfile.Tensor{x, x.Halves()} {
				got, err := form.Floats()
				if err != nil {
					t.Fatal(err)
				}
				for i, v := range exact {
					bound := float64(0)
					if form.Type == kernel.F16 {
						bound = math.Abs(float64(v))/2048 + 0x1p-25
					}
					if !(math.Abs(float64(got[i]-v)) <= bound) {
						t.Fatalf("heads of %d: value %d of %s is %g, want %g", width, i, x.Name, got[i], v)
					}
				}
			}
		}
	}
}

// TestHalves: a stack, a matrix and a vector of codes with a minimum are what they mean as F16, and all others themselves.
func TestHalves(t *testing.T) {
	for _, shape := range [][]int{{64, 3, 2}, {32, 5}, {96}} {
		for typ, bytes := range map[kernel.Type]int{kernel.Q4_1: 20, kernel.Q5_1: 24} {
			x := &modelfile.Tensor{Name: "x", Type: typ, Shape: shape}
			x.Data = make([]byte, x.Size())
			for i, v := range gguftest.Hashed("x", len(x.Data), 127) {
				if x.Data[i] = byte(int8(v)); i%bytes == 1 || i%bytes == 3 {
					x.Data[i] = x.Data[i]&0x83 | 0x2c // scale and minimum are between 2^-4 and 1/2
				}
			}
			h := x.Halves()
			want, err := x.Floats()
			if err != nil {
				t.Fatal(err)
			}
			got, err := h.Floats()
			if err != nil || h.Type != kernel.F16 || !slices.Equal(h.Shape, shape) {
				t.Fatalf("the type is %d, the shape %v, %v", h.Type, h.Shape, err)
			}
			for i, v := range want {
				if !(math.Abs(float64(got[i]-v)) <= math.Abs(float64(v))/2048+0x1p-25) {
					t.Fatalf("value %d of type %d is %g, want %g", i, typ, got[i], v)
				}
			}
		}
	}
	for _, typ := range []kernel.Type{kernel.F32, kernel.F16, kernel.Q4_0, kernel.Q5_0, kernel.Q6_K} {
		if x := (&modelfile.Tensor{Type: typ}); x.Halves() != x {
			t.Errorf("type %d becomes another one", typ)
		}
	}
}

// TestEightBitsRoundToTheNearest: every value of E4M3 comes back, and what lies between goes to the nearer one.
func TestEightBitsRoundToTheNearest(t *testing.T) {
	x := make([]float32, 128)
	values := modelfile.E4M3()
	copy(x, values[:127])
	x[127] = -448
	for name, by := range map[string]float32{"as they are": 1, "a little more": 1.01, "a little less": -0.985} {
		in := slices.Clone(x)
		for i := range 126 {
			in[i] *= by
		}
		data, err := modelfile.Quantize(kernel.F8E4M3, in)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, 128)
		if err := modelfile.Dequantize(got, kernel.F8E4M3, data); err != nil {
			t.Fatal(err)
		}
		for i, v := range in {
			if want := float32(math.Copysign(float64(x[i]), float64(v))); got[i] != want {
				t.Errorf("%s: %g becomes %g, want %g", name, v, got[i], want)
			}
		}
	}
	if data, _ := modelfile.Quantize(kernel.F8E4M3, make([]float32, 128)); slices.Max(data) != 0 {
		t.Error("zeros have codes")
	}
}
