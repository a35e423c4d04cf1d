package gguftest

import (
	"strconv"
	"strings"

	"corenode/engine/modelfile"
)

// FirstLayers is a model file with its first layers only: it answers at a fraction of the cost.
func FirstLayers(f *modelfile.File, n int) []byte { return someLayers(f, 0, n) }

// LastLayers is a model file with its last layers only, of which the last one alone has full attention where the
// model is hybrid.
func LastLayers(f *modelfile.File, n int) []byte {
	blocks, err := f.Uint(f.Architecture() + ".block_count")
	if err != nil {
		panic(err)
	}
	return someLayers(f, int(blocks)-n, n)
}

// someLayers are n layers, from one on.
func someLayers(f *modelfile.File, first, n int) []byte {
	var meta []KV
	for _, v := range f.Keys() {
		switch v.Key {
		case "general.alignment": // Write has its own
		case f.Architecture() + ".block_count":
			meta = append(meta, KV{Key: v.Key, Value: uint32(n)})
		case f.Architecture() + ".full_attention_interval":
			if first > 0 {
				meta = append(meta, KV{Key: v.Key, Value: uint32(n)})
				continue
			}
			meta = append(meta, KV{Key: v.Key, Value: v})
		default:
			meta = append(meta, KV{Key: v.Key, Value: v})
		}
	}
	var tensors []*modelfile.Tensor
	for _, t := range f.Tensors() {
		if rest, ok := strings.CutPrefix(t.Name, "blk."); ok {
			layer, name, _ := strings.Cut(rest, ".")
			i, err := strconv.Atoi(layer)
			if err != nil || i < first || i >= first+n {
				continue
			}
			moved := *t
			moved.Name = "blk." + strconv.Itoa(i-first) + "." + name
			t = &moved
		}
		tensors = append(tensors, t)
	}
	return Bytes(meta, tensors)
}
