package tokenizer

import (
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

func fileOf(t testing.TB, meta ...gguftest.KV) *modelfile.File {
	t.Helper()
	f, err := modelfile.OpenBytes("vocab", gguftest.Bytes(meta, nil))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func vocabMeta(v Vocab) map[string]any {
	return map[string]any{"model": "gpt2", "pre": v.Pre, "tokens": v.Tokens, "token_type": v.Types, "merges": v.Merges,
		"eos_token_id": uint32(511), "padding_token_id": uint32(509), "bos_token_id": int32(509), "eot_token_id": uint32(1<<32 - 1)}
}

func metaOf(m map[string]any) (out []gguftest.KV) {
	for k, v := range m {
		out = append(out, gguftest.KV{Key: "tokenizer.ggml." + k, Value: v})
	}
	return out
}

func TestFromFile(t *testing.T) {
	m := vocabMeta(smallVocab(t, "qwen35"))
	tok, err := FromFile(fileOf(t, metaOf(m)...))
	if err != nil {
		t.Fatal(err)
	}
	want := small(t, "qwen35")
	text := "The server's naïve <think> e\u0301\n"
	if got := tok.Encode(nil, text); !slices.Equal(got, want.Encode(nil, text)) {
		t.Errorf("%q is %v", text, got)
	}
	if id, add := tok.BOS(); id != 509 || add {
		t.Errorf("BOS %d %v", id, add)
	}
	m["pre"] = "llama-bpe" // adds BOS unless the file says no
	if tok, err = FromFile(fileOf(t, metaOf(m)...)); err != nil {
		t.Fatal(err)
	}
	if _, add := tok.BOS(); !add {
		t.Error("llama-bpe does not add BOS by itself")
	}
	m["add_bos_token"], m["eom_token_id"] = false, uint32(510)
	if tok, err = FromFile(fileOf(t, metaOf(m)...)); err != nil {
		t.Fatal(err)
	}
	if _, add := tok.BOS(); add {
		t.Error("add_bos_token false is ignored")
	}
	if stops := tok.Stops(); !slices.Contains(stops, 510) || !slices.Contains(stops, 511) {
		t.Errorf("stops %v, want 510 and 511 among them", stops)
	}
}

// TestOtherNames: a file may call a splitter by another name, with which it has all that it is.
func TestOtherNames(t *testing.T) {
	for other, pre := range map[string]string{"deepseek-r1-qwen": "qwen2", "llama3": "llama-bpe", "llama-v3": "llama-bpe",
		"falcon3": "llama-bpe", "pixtral": "llama-bpe"} {
		m := vocabMeta(smallVocab(t, pre))
		m["pre"] = other
		f := fileOf(t, metaOf(m)...)
		v, err := readVocab(f)
		if err != nil || v.Pre != pre || v.IgnoreMerges != splitters[pre].ignoreMerges || v.AddBOS != splitters[pre].addBOS {
			t.Errorf("%s is read as %q, %v", other, v.Pre, err)
			continue
		}
		tok, err := FromFile(f)
		if err != nil {
			t.Fatal(err)
		}
		const text = "The server's 12345 naïve\n\n x1y2"
		if got, want := tok.Encode(nil, text), small(t, pre).Encode(nil, text); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", other, got, want)
		}
	}
}

func TestFromFileRefuses(t *testing.T) {
	cases := []struct {
		key   string
		value any // nil: the key is absent
		want  string
	}{
		{"model", "t5", `"t5"`}, {"model", nil, "tokenizer.ggml.model"}, {"pre", nil, "tokenizer.ggml.pre"},
		{"pre", "falcon", `"falcon"`}, {"tokens", nil, "tokenizer.ggml.tokens"}, {"tokens", []int32{1}, "[]i32"},
		{"merges", nil, "tokenizer.ggml.merges"}, {"token_type", []int32{1}, "1 token types"},
		{"token_type", []int64{1 << 32}, "token_type"}, {"eos_token_id", uint64(1 << 40), "eos_token_id"},
		{"token_type", "x", "token_type"}, {"token_type", []int32{-1}, "token 0 is -1"}, {"pre", uint8(1), "tokenizer.ggml.pre"},
		{"eom_token_id", "x", "eom_token_id"}, {"eos_token_id", int32(-2), "is -2"},
		{"eos_token_id", "x", "eos_token_id"}, {"eos_token_id", []int32{1, 2}, "eos_token_id"},
		{"eos_token_id", uint32(518), "518"}, {"eos_token_id", int64(5 - 1<<40), "no token has that id"}, {"add_bos_token", uint8(1), "add_bos_token"},
	}
	for _, c := range cases {
		m := vocabMeta(smallVocab(t, "qwen2"))
		m[c.key] = c.value
		if c.value == nil {
			delete(m, c.key)
		}
		if _, err := FromFile(fileOf(t, metaOf(m)...)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s = %v: error %v, want one with %q", c.key, c.value, err, c.want)
		}
	}
}

// TestStripsRefused: which tokens strip is read from whole pairs of tokens that there are.
func TestStripsRefused(t *testing.T) {
	for want, value := range map[string]any{"has 1 values": []int32{509}, "token 518 with 1": []int32{518, 1},
		"token -1 with 2": []int32{509, 3, -1, 2}, "token 4294967805 with 1": []int64{1<<32 + 509, 1},
		"token 509 with 4": []int32{509, 4}, "want integers": "yes"} {
		meta := append(metaOf(vocabMeta(smallVocab(t, "qwen2"))), gguftest.KV{Key: stripsKey, Value: value})
		if _, err := FromFile(fileOf(t, meta...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", value, err, want)
		}
	}
}

// TestOwnKeysRefused: keys of our own have the types that they are written with.
func TestOwnKeysRefused(t *testing.T) {
	for key, value := range map[string]any{rowlessKey: []int32{1}, mergesKey: "yes"} {
		meta := append(metaOf(vocabMeta(smallVocab(t, "qwen2"))), gguftest.KV{Key: key, Value: value})
		if _, err := FromFile(fileOf(t, meta...)); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s = %v: %v", key, value, err)
		}
	}
}

// TestStopsRefused: what ends an answer are tokens that there are.
func TestStopsRefused(t *testing.T) {
	for want, value := range map[string]any{"token 518": []int32{509, 518}, "token -1": []int32{-1},
		"token 4294967805": []int64{1<<32 + 509}, "want integers": "yes"} {
		meta := append(metaOf(vocabMeta(smallVocab(t, "qwen2"))), gguftest.KV{Key: stopsKey, Value: value})
		if _, err := FromFile(fileOf(t, meta...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one with %q", value, err, want)
		}
	}
}

// Whatever the metadata says, loading ends in a tokenizer or an error.
func FuzzFromFile(f *testing.F) {
	v := Vocab{Pre: "qwen2", Tokens: append(byteTokens(), "he", "<|im_end|>", "<0x41>"), Types: append(slices.Repeat([]int32{1}, 257), 3, 6), Merges: []string{"h e"}}
	f.Add(gguftest.Bytes(metaOf(vocabMeta(v)), nil))
	m := vocabMeta(v)
	m["eos_token_id"], m["padding_token_id"], m["bos_token_id"] = uint32(257), int32(-1), uint8(3)
	f.Add(gguftest.Bytes(metaOf(m), nil))
	f.Add(gguftest.Bytes(append(metaOf(m), gguftest.KV{Key: stripsKey, Value: []int32{257, 3}}), nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := modelfile.OpenBytes("fuzz", data)
		if err != nil {
			return
		}
		tok, err := FromFile(file)
		if err != nil {
			return
		}
		const text = "hello <|im_end|> \uFDD0 12"
		checkProtected(t, tok, text)
		for id := range int32(tok.Size()) {
			if string(tok.Bytes(id)) != tok.Text(id) && tok.Bytes(id) != nil {
				t.Fatalf("token %d is %q and %q", id, tok.Bytes(id), tok.Text(id))
			}
		}
	})
}
