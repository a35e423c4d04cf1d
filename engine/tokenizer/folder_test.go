package tokenizer

import (
	"fmt"
	"slices"
	"testing"
)

// TestMendedTekken: the vocabulary of Mistral's models, known by the place of its bytes, is cut as it was trained where an old
// tokenizer.json has the expression of Llama 3, also once it is converted; every other one as its file says.
func TestMendedTekken(t *testing.T) {
	for _, c := range []struct {
		first, digits int // the place of the bytes, and the tokens of "12eB": two joined pairs or none
		pre, version  string
	}{
		{tekkenBytes, 4, "llama-bpe", `"transformers_version":"4.50.0.dev0",`}, {tekkenBytes, 4, "llama-bpe", ""},
		{tekkenBytes, 2, "llama-bpe", `"transformers_version":"5.2.0",`}, {tekkenBytes, 4, "tekken", `"transformers_version":"5.2.0",`},
		{tekkenBytes - 1, 2, "llama-bpe", ""}, {tekkenBytes, 3, "qwen2", ""},
	} {
		v := Vocab{Pre: c.pre, Merges: []string{"1 2", "e B"}}
		for id := range c.first {
			v.Tokens, v.Types = append(v.Tokens, fmt.Sprintf("<SPECIAL_%d>", id)), append(v.Types, typeControl)
		}
		for _, r := range letters {
			v.Tokens = append(v.Tokens, string(r))
		}
		v.Tokens = append(v.Tokens, "12", "eB")
		v.Types = append(v.Types, slices.Repeat([]int32{typeNormal}, 258)...)
		folder := openedFolder(t, c.version, map[string]string{"tokenizer.json": string(asJSON(t, v, false))})
		tok, err := FromFile(folder)
		if err != nil {
			t.Fatal(err)
		}
		meta, err := Metadata(folder, 0)
		if err != nil {
			t.Fatal(err)
		}
		again, err := FromFile(fileOf(t, meta...))
		if err != nil {
			t.Fatal(err)
		}
		ids := tok.Encode(nil, "12eB")
		if len(ids) != c.digits {
			t.Errorf("%+v: the tokens are %v, want %d of them", c, ids, c.digits)
		}
		if got := again.Encode(nil, "12eB"); !slices.Equal(got, ids) {
			t.Errorf("%+v: converted they are %v, want %v", c, got, ids)
		}
	}
}
