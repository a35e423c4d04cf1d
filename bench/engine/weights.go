package engine

import (
	"fmt"
	"strconv"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/model"
	"corenode/engine/modelfile"
)

// Weights is what one decode step reads, as large as the file stores it.
type Weights struct {
	Arch string `json:"arch"`
	// Type is the storage type of most of the values in matrices, such as Q8_0.
	Type string `json:"type"`
	// BytesPerToken are all matrices that one token needs, each once. Vectors,
	// the KV cache and activations are not in it: they are small beside it.
	BytesPerToken int64 `json:"bytes_per_token"`
	FileBytes     int64 `json:"file_bytes"` // of all tensors
}

// ReadWeights reads the directory of a model file.
func ReadWeights(path string) (Weights, error) {
	f, err := modelfile.Open(path)
	if err != nil {
		return Weights{}, err
	}
	defer f.Close()
	c, err := model.ReadConfig(f)
	if err != nil {
		return Weights{}, fmt.Errorf("read model %s: %w", path, err)
	}
	return weightsOf(c, f.Tensors()), nil
}

// weightsOf counts. Of a stack of experts those count that a token is routed to;
// of the embedding table one row, unless it is the output matrix too.
func weightsOf(c model.Config, tensors []*modelfile.Tensor) Weights {
	w, tied := Weights{Arch: c.Arch}, true
	for _, t := range tensors {
		tied = tied && t.Name != "output.weight"
	}
	w.Type = mostly(tensors)
	for _, t := range tensors {
		size := int64(t.Size())
		w.FileBytes += size
		switch {
		case !isMatrix(t) || beyond(t.Name, c.Layers):
		case t.Name == "token_embd.weight" && !tied:
			w.BytesPerToken += size / int64(t.Shape[1])
		case strings.Contains(t.Name, "_exps.") && c.Experts > 0:
			w.BytesPerToken += size / int64(c.Experts) * int64(c.ExpertsUsed)
		default:
			w.BytesPerToken += size
		}
	}
	return w
}

// mostly names the type that most values in matrices have; the first of equals.
func mostly(tensors []*modelfile.Tensor) (name string) {
	values, largest := map[kernel.Type]int64{}, int64(0)
	for _, t := range tensors {
		if !isMatrix(t) {
			continue
		}
		if values[t.Type] += count(t); values[t.Type] > largest {
			largest = values[t.Type]
			name, _, _, _ = modelfile.TypeInfo(t.Type)
		}
	}
	return name
}

// count is the number of values in a tensor.
func count(t *modelfile.Tensor) int64 {
	n := int64(1)
	for _, d := range t.Shape {
		n *= int64(d)
	}
	return n
}

// isMatrix tells what is multiplied from norms, biases and convolution taps.
func isMatrix(t *modelfile.Tensor) bool {
	wide := 0
	for _, d := range t.Shape {
		if d > 1 {
			wide++
		}
	}
	return wide >= 2 && !strings.HasSuffix(t.Name, ".ssm_conv1d.weight")
}

// beyond tells the blocks behind the last layer, which predict several tokens
// at once and are not computed.
func beyond(name string, layers int) bool {
	rest, ok := strings.CutPrefix(name, "blk.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return ok && err == nil && n >= layers
}
