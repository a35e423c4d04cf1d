package gguftest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// Stored is a tensor of a safetensors file, its shape outermost first.
type Stored struct {
	Name, DType string
	Shape       []int
	Data        []byte
}

// Made is a rule for a tensor's values: an offset and a share of Hashed, rounded to a type.
type Made struct {
	Name, DType   string
	Shape         []int
	Offset, Scale float32
}

// Store makes the tensor.
func (m Made) Store() Stored {
	n := 1
	for _, d := range m.Shape {
		n *= d
	}
	values := Hashed(m.Name, n, m.Scale)
	for i := range values {
		values[i] += m.Offset
	}
	return Store(m.Name, m.DType, values, m.Shape...)
}

// Store is a tensor of values rounded to F32, F16 or BF16.
func Store(name, dtype string, values []float32, shape ...int) Stored {
	data, err := modelfile.Quantize(map[string]kernel.Type{"F32": kernel.F32, "F16": kernel.F16, "BF16": kernel.BF16}[dtype], values)
	if err != nil {
		panic(err) // a mistake in a test
	}
	return Stored{name, dtype, shape, data}
}

// Safetensors is a file of the tensors.
func Safetensors(tensors []Stored) []byte {
	header, at := map[string]any{"__metadata__": map[string]string{"format": "pt"}}, 0
	for _, t := range tensors {
		shape := t.Shape
		if shape == nil {
			shape = []int{}
		}
		header[t.Name] = map[string]any{"dtype": t.DType, "shape": shape, "data_offsets": []int{at, at + len(t.Data)}}
		at += len(t.Data)
	}
	text, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	out := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	for _, t := range tensors {
		out = append(out, t.Data...)
	}
	return out
}

// WriteFolder writes a model's folder: texts by their names, and the tensors in one file,
// or cut into several with an index.
func WriteFolder(dir string, texts map[string]string, tensors []Stored, shards int) error {
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if shards == 1 {
		return os.WriteFile(filepath.Join(dir, "model.safetensors"), Safetensors(tensors), 0o600)
	}
	where := map[string]string{}
	for i := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, shards)
		part := tensors[len(tensors)*i/shards : len(tensors)*(i+1)/shards]
		for _, t := range part {
			where[t.Name] = name
		}
		if err := os.WriteFile(filepath.Join(dir, name), Safetensors(part), 0o600); err != nil {
			return err
		}
	}
	index, err := json.Marshal(map[string]any{"metadata": map[string]int{}, "weight_map": where})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), index, 0o600)
}
