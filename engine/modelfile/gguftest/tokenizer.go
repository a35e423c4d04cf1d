package gguftest

import (
	"encoding/json"

	"corenode/engine/modelfile"
)

// qwen2 is the pattern of that splitter, as tokenizer.json files write it.
const qwen2 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

// TokenizerJSON is the vocabulary of a GGUF file with the splitter qwen2 as a tokenizer.json.
func TokenizerJSON(f *modelfile.File) string {
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	types, err2 := f.Ints("tokenizer.ggml.token_type")
	merges, err3 := f.Strings("tokenizer.ggml.merges")
	if err != nil || err2 != nil || err3 != nil {
		panic("the file has no whole tokenizer")
	}
	vocab, added := map[string]int{}, []map[string]any{}
	for id, token := range tokens {
		if types[id] == 1 {
			vocab[token] = id
		} else {
			added = append(added, map[string]any{"id": id, "content": token, "special": types[id] == 3})
		}
	}
	text, err := json.Marshal(map[string]any{
		"added_tokens": added, "normalizer": map[string]any{"type": "NFC"},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{
			map[string]any{"type": "Split", "pattern": map[string]any{"Regex": qwen2}, "behavior": "Isolated"},
			map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}},
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges},
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}
