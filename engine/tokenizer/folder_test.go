package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile/gguftest"
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

// TestTokensWithoutRows: added tokens that the model has no rows for are none, in a folder and once it is converted. They stay, for
// the model to be refused, where the template writes one, a text ends with one, or the tokens are no added ones; one that pads does not.
func TestTokensWithoutRows(t *testing.T) {
	v := smallVocab(t, "qwen2")
	size, last := len(v.Tokens), string(v.Tokens[511])
	v.Tokens, v.Types = append(v.Tokens, "<image>", "<patch>"), append(v.Types, typeControl, typeUserDefined)
	for _, c := range []struct {
		rows, left               int
		template, end, also, pad string
	}{
		{rows: size, left: size}, {rows: size + 1, left: size + 1}, {rows: size + 2, left: size + 2}, {rows: size + 9, left: size + 2},
		{rows: size, left: size, template: "<imag", end: last}, {rows: size, left: size + 2, template: "{{ '<patch>' }}"},
		{rows: size, left: size, pad: "<image>"}, {rows: size + 1, left: size + 1, pad: "<patch>"}, {rows: size, left: size, pad: last},
		{rows: size, left: size + 2, end: "<image>"}, {rows: size, left: size + 3, also: "he\u0120s"},
	} {
		v := v
		if c.also != "" {
			v.Tokens, v.Types = append(slices.Clone(v.Tokens), c.also), append(slices.Clone(v.Types), typeNormal)
		}
		names, _ := json.Marshal(map[string]string{"eos_token": c.end, "chat_template": c.template, "pad_token": c.pad})
		text := strings.Replace(string(asJSON(t, v, false)), `"content":"\u003cimage\u003e"`, `"content":"<image>","rstrip":true`, 1)
		folder := openedFolder(t, "", map[string]string{"tokenizer.json": text, "tokenizer_config.json": string(names)},
			gguftest.Made{Name: "model.embed_tokens.weight", DType: "BF16", Shape: []int{c.rows, 2}, Scale: 1}.Store())
		tok, err := FromFile(folder)
		if err != nil {
			t.Fatal(err)
		}
		if cut := []string{"<image>", "<patch>"}[min(2, c.left-size):]; tok.Size() != c.left || !slices.Equal(tok.Rowless(), cut) {
			t.Errorf("%+v: %d tokens, without %q", c, tok.Size(), tok.Rowless())
		}
		meta, err := Metadata(folder, c.rows)
		if refused := c.left > c.rows; refused != (err != nil) {
			t.Errorf("%+v: conversion says %v", c, err)
		}
		if err != nil {
			continue
		}
		again, err := FromFile(fileOf(t, meta...))
		if err != nil || again.Size() != c.rows || !slices.Equal(again.Rowless(), tok.Rowless()) {
			t.Fatalf("%+v: %v, or not a token for each row once converted, without %q", c, err, again.Rowless())
		}
		const prompt = "a<image> <patch>b"
		ids := tok.EncodePrompt(nil, prompt)
		if got := again.EncodePrompt(nil, prompt); !slices.Equal(got, ids) || int(slices.Max(ids)) >= c.rows {
			t.Errorf("%+v: %v, converted %v", c, ids, got)
		}
	}
}
