package gguftest

import (
	"strconv"
	"strings"

	"corenode/engine/modelfile"
)

// FirstLayers is a model file with its first layers only: it answers at a fraction of the cost.
func FirstLayers(f *modelfile.File, n int) []byte {
	var meta []KV
	for _, v := range f.Keys() {
		switch v.Key {
		case "general.alignment": // Write has its own
		case f.Architecture() + ".block_count":
			meta = append(meta, KV{Key: v.Key, Value: uint32(n)})
		default:
			meta = append(meta, KV{Key: v.Key, Value: v})
		}
	}
	var tensors []*modelfile.Tensor
	for _, t := range f.Tensors() {
		if rest, ok := strings.CutPrefix(t.Name, "blk."); ok {
			layer, _, _ := strings.Cut(rest, ".")
			if i, err := strconv.Atoi(layer); err == nil && i >= n {
				continue
			}
		}
		tensors = append(tensors, t)
	}
	return Bytes(meta, tensors)
}
