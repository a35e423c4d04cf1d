package gguftest

import (
	"slices"
	"strings"

	"corenode/engine/kernel"
	"corenode/engine/modelfile"
)

// Mixture makes a qwen3moe of a qwen3 of width 256 with an FFN of 512: its FFN three times, as experts, each with its
// outputs in an order of its own.
func Mixture(f *modelfile.File) []byte {
	tensors := slices.Clone(f.Tensors())
	meta := []KV{
		{Key: "qwen3moe.expert_count", Value: uint32(3)}, {Key: "qwen3moe.expert_used_count", Value: uint32(2)},
		{Key: "qwen3moe.expert_feed_forward_length", Value: uint32(512)}, {Key: "general.architecture", Value: "qwen3moe"},
	}
	for _, v := range f.Keys() {
		rest, own := strings.CutPrefix(v.Key, "qwen3.")
		switch {
		case own:
			meta = append(meta, KV{Key: "qwen3moe." + rest, Value: v})
		case v.Key != "general.alignment" && v.Key != "general.architecture":
			meta = append(meta, KV{Key: v.Key, Value: v})
		}
	}
	for i, x := range tensors {
		head, ffn, _ := strings.Cut(x.Name, ".ffn_")
		if !slices.Contains([]string{"gate.weight", "up.weight", "down.weight"}, ffn) {
			continue
		}
		name := head + ".ffn_" + strings.TrimSuffix(ffn, ".weight") + "_exps.weight"
		tensors[i] = &modelfile.Tensor{Name: name, Type: x.Type, Shape: append(slices.Clone(x.Shape), 3),
			Data: slices.Concat(x.Data, turned(x, 1), turned(x, 2))}
		if ffn == "gate.weight" {
			router := &modelfile.Tensor{Name: head + ".ffn_gate_inp.weight", Shape: []int{256, 3}}
			Set(router, kernel.F32, Hashed(router.Name, 3*256, 1))
			tensors = append(tensors, router)
		}
	}
	return Bytes(meta, tensors)
}

// turned is a matrix whose first n rows come last.
func turned(x *modelfile.Tensor, n int) []byte {
	at := n * len(x.Data) / x.Shape[1]
	return slices.Concat(x.Data[at:], x.Data[:at])
}
