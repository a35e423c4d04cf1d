package modelfile

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"corenode/engine/kernel"
)

// targets are the types that Convert writes matrices in, with their general.file_type. That
// of Q4_K is a mix: the table of embeddings and the output head are Q6_K.
var targets = map[kernel.Type]uint32{kernel.F16: 1, kernel.Q8_0: 7, kernel.Q4_K: 15}

// Convert writes f as a GGUF file whose matrices have the type typ: F16, Q8_0 or Q4_K.
// more is metadata beside that of f. progress is told how many of all values are written.
// Memory is taken for one tensor at a time.
func Convert(w io.Writer, f *File, typ kernel.Type, more []KV, progress func(done, all int64)) error {
	fileType, ok := targets[typ]
	if !ok {
		return fmt.Errorf("matrices cannot be written as %s, want F16, Q8_0 or Q4_K", typeName(typ))
	}
	var meta []KV
	for _, v := range f.keys {
		switch v.Key { // Write makes one file with an alignment of its own
		case "general.alignment", "general.file_type", "general.quantization_version", "split.no", "split.count", "split.tensors.count":
		default:
			meta = append(meta, KV{v.Key, v})
		}
	}
	meta = append(append(meta, KV{"general.file_type", fileType}, KV{"general.quantization_version", uint32(2)}), more...)
	var out []*Tensor
	all := int64(0)
	for _, t := range f.tensors {
		out = append(out, &Tensor{Name: t.Name, Type: target(t, typ), Shape: t.Shape})
		all += int64(t.Elements())
	}
	done := int64(0)
	return Write(w, meta, out, func(t *Tensor) ([]byte, error) {
		done += int64(t.Elements())
		defer progress(done, all)
		return recode(f.byName[t.Name], t.Type)
	})
}

// target is the type that a tensor is written in: F32 where it is small or where other
// readers want it so, and a wider type where the rows are no whole blocks.
func target(t *Tensor, typ kernel.Type) kernel.Type {
	small := len(t.Shape) < 2 || !strings.HasSuffix(t.Name, ".weight")
	if small || strings.Contains(t.Name, "ffn_gate_inp") || strings.Contains(t.Name, "ssm_conv1d") {
		return kernel.F32
	}
	if typ == kernel.Q4_K && (t.Name == "token_embd.weight" || t.Name == "output.weight") {
		typ = kernel.Q6_K
	}
	candidates := []kernel.Type{typ, kernel.Q8_0, kernel.F16}
	return candidates[slices.IndexFunc(candidates, func(c kernel.Type) bool {
		_, block, _, _ := TypeInfo(c)
		return t.Shape[0]%block == 0
	})]
}

// recode is the data of a tensor in another type.
func recode(t *Tensor, typ kernel.Type) ([]byte, error) {
	if t.Type == typ {
		return t.Bytes(), nil
	}
	values, err := t.Floats()
	if err != nil {
		return nil, err
	}
	top := float64(math.MaxFloat32)
	if typ == kernel.F16 {
		top = 65504
	}
	for i, x := range values {
		if !(math.Abs(float64(x)) <= top) {
			return nil, fmt.Errorf("value %d is %g, which %s does not have", i, x, typeName(typ))
		}
	}
	return Quantize(typ, values)
}
