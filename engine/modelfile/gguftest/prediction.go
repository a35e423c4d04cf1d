package gguftest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// WithPrediction returns a copy of a hybrid model's file with a block more that
// predicts further tokens (MTP). Its layer has the shapes of the last block's,
// which must be full attention; every tensor has the values of Hashed, norms
// around 1. change may edit, add and remove the block's tensors, by their names
// without the block's, before the file is written; nil changes nothing.
func WithPrediction(f *modelfile.File, change func(tensors map[string]*modelfile.Tensor)) []byte {
	arch := f.Architecture()
	blocks, err := f.Uint(arch + ".block_count")
	if err != nil {
		panic(err)
	}
	last, p := fmt.Sprintf("blk.%d.", blocks-1), fmt.Sprintf("blk.%d.", blocks)
	var meta []KV
	for _, v := range f.Keys() {
		if v.Key != arch+".block_count" {
			meta = append(meta, KV{Key: v.Key, Value: v})
		}
	}
	meta = append(meta, KV{Key: arch + ".block_count", Value: uint32(blocks + 1)},
		KV{Key: arch + ".nextn_predict_layers", Value: uint32(1)})
	added, hidden := map[string]*modelfile.Tensor{}, 0
	for _, x := range f.Tensors() {
		if name, ok := strings.CutPrefix(x.Name, last); ok {
			added[name] = hashedTensor(p+name, x.Type, x.Shape...)
			if name == "attn_norm.weight" {
				hidden = x.Shape[0]
			}
		}
	}
	added["nextn.eh_proj.weight"] = hashedTensor(p+"nextn.eh_proj.weight", kernel.F16, 2*hidden, hidden)
	for _, name := range []string{"nextn.enorm.weight", "nextn.hnorm.weight", "nextn.shared_head_norm.weight"} {
		added[name] = hashedTensor(p+name, kernel.F32, hidden)
	}
	if change != nil {
		change(added)
	}
	tensors := slices.Clone(f.Tensors())
	for _, name := range slices.Sorted(maps.Keys(added)) {
		x := *added[name]
		x.Name = p + name
		tensors = append(tensors, &x)
	}
	return Bytes(meta, tensors)
}

func hashedTensor(name string, typ kernel.Type, shape ...int) *modelfile.Tensor {
	x := &modelfile.Tensor{Name: name, Shape: shape}
	if !strings.HasSuffix(name, "norm.weight") {
		Set(x, typ, Hashed(name, values(x), float32(2/math.Sqrt(float64(shape[0])))))
		return x
	}
	weights := Hashed(name, values(x), 0.25)
	for i := range weights {
		weights[i]++
	}
	Set(x, typ, weights)
	return x
}

// Set gives a tensor other values, as typ.
func Set(x *modelfile.Tensor, typ kernel.Type, values []float32) {
	data, err := modelfile.Quantize(typ, values)
	if err != nil {
		panic(err)
	}
	x.Type, x.Data = typ, data
}

// Hashed are n values from -scale to scale that depend on a name and on nothing
// else: random enough for weights, and the same in any language.
func Hashed(name string, n int, scale float32) []float32 {
	seed := uint32(2166136261) // FNV-1a
	for _, c := range []byte(name) {
		seed = (seed ^ uint32(c)) * 16777619
	}
	out := make([]float32, n)
	for i := range out {
		h := uint32(i)*0x9e3779b9 + seed
		h = (h ^ h>>16) * 0x7feb352d
		h = (h ^ h>>15) * 0x846ca68b
		h ^= h >> 16
		out[i] = scale * (float32(h>>8)/(1<<23) - 1)
	}
	return out
}

// WithAptPrediction is WithPrediction of a model whose next token is nearly a
// function of its latest one, and of a block that knows this function: the layers
// add a share of what they did to the residual stream, and the block passes on the
// embedding that it gets.
func WithAptPrediction(f *modelfile.File, share float32) []byte {
	quiet, err := modelfile.OpenBytes("quiet", quieted(f, share))
	if err != nil {
		panic(err)
	}
	return WithPrediction(quiet, func(x map[string]*modelfile.Tensor) {
		for name, t := range x {
			if adds(name) {
				Set(t, t.Type, make([]float32, values(t)))
			}
		}
		norm, _ := f.Tensor("output_norm.weight")
		*x["nextn.shared_head_norm.weight"] = *norm
		hidden := norm.Shape[0]
		Set(x["nextn.enorm.weight"], kernel.F32, slices.Repeat([]float32{1}, hidden))
		pass := make([]float32, 2*hidden*hidden)
		for i := range hidden {
			pass[i*2*hidden+i] = 1 // of the embedding's half
		}
		Set(x["nextn.eh_proj.weight"], kernel.F16, pass)
	})
}

// quieted is the file with a share of the weights that add to the residual stream.
func quieted(f *modelfile.File, share float32) []byte {
	var meta []KV
	for _, v := range f.Keys() {
		meta = append(meta, KV{Key: v.Key, Value: v})
	}
	var tensors []*modelfile.Tensor
	for _, x := range f.Tensors() {
		c := *x
		if adds(x.Name) {
			v, err := x.Floats()
			if err != nil {
				panic(err)
			}
			v = slices.Clone(v)
			for i := range v {
				v[i] *= share
			}
			Set(&c, x.Type, v)
		}
		tensors = append(tensors, &c)
	}
	return Bytes(meta, tensors)
}

// adds says whether a tensor's product is added to the residual stream.
func adds(name string) bool {
	return strings.Contains(name, "ssm_out.") || strings.Contains(name, "attn_output.") || strings.Contains(name, "ffn_down")
}

func values(x *modelfile.Tensor) int {
	n := 1
	for _, d := range x.Shape {
		n *= d
	}
	return n
}
