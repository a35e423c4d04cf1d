package gguftest

import (
	"fmt"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// fileTypes is general.file_type for a file whose matrices have the type.
var fileTypes = map[kernel.Type]uint32{
	kernel.F32: 0, kernel.F16: 1, kernel.Q4_0: 2, kernel.Q8_0: 7, kernel.Q4_K: 14, kernel.Q5_K: 16, kernel.Q6_K: 18, kernel.BF16: 32,
	kernel.Q4_1: 3, kernel.Q5_0: 8, kernel.Q5_1: 9, kernel.IQ4_NL: 25, kernel.MXFP4: 38,
}

// Requantize rewrites a model file with its matrices in typ. Norms, biases,
// vectors, routers and short convolutions are written as F32, as are matrices
// whose rows are not a multiple of typ's block.
func Requantize(f *modelfile.File, typ kernel.Type) ([]byte, error) {
	fileType, ok := fileTypes[typ]
	if !ok {
		return nil, fmt.Errorf("requantize %s: type %d has no encoder", f.Name(), typ)
	}
	var meta []KV
	for _, v := range f.Keys() {
		switch v.Key {
		case "general.alignment": // Write has its own
		case "general.file_type":
			meta = append(meta, KV{Key: v.Key, Value: fileType})
		default:
			meta = append(meta, KV{Key: v.Key, Value: v})
		}
	}
	var tensors []*modelfile.Tensor
	for _, t := range f.Tensors() {
		r, err := recode(t, typ)
		if err != nil {
			return nil, fmt.Errorf("requantize %s: %w", f.Name(), err)
		}
		tensors = append(tensors, r)
	}
	return Bytes(meta, tensors), nil
}

func recode(t *modelfile.Tensor, typ kernel.Type) (*modelfile.Tensor, error) {
	_, block, _, _ := modelfile.TypeInfo(typ)
	if !big(t) || t.Shape[0]%block != 0 {
		typ = kernel.F32
	}
	x, err := t.Floats()
	if err != nil {
		return nil, err
	}
	if typ == kernel.Q5_0 {
		return &modelfile.Tensor{Name: t.Name, Type: typ, Shape: t.Shape, Data: fiveBits(x)}, nil
	}
	if typ == kernel.Q4_1 || typ == kernel.Q5_1 {
		return &modelfile.Tensor{Name: t.Name, Type: typ, Shape: t.Shape, Data: fromMinimum(typ, x)}, nil
	}
	if typ == kernel.IQ4_NL || typ == kernel.MXFP4 {
		return &modelfile.Tensor{Name: t.Name, Type: typ, Shape: t.Shape, Data: fourBits(typ, x)}, nil
	}
	data, err := modelfile.Quantize(typ, x)
	return &modelfile.Tensor{Name: t.Name, Type: typ, Shape: t.Shape, Data: data}, err
}

// big tells the matrices that are worth quantizing.
func big(t *modelfile.Tensor) bool {
	return len(t.Shape) > 1 && strings.HasSuffix(t.Name, ".weight") &&
		!strings.Contains(t.Name, "ffn_gate_inp") && !strings.Contains(t.Name, "ssm_conv1d")
}
