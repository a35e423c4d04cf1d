package tokenizer

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile"
)

// asJSON writes a vocabulary as a tokenizer.json; pairs writes merges as newer files do.
func asJSON(t testing.TB, v Vocab, pairs bool) []byte {
	t.Helper()
	vocab, added := map[string]int{}, []map[string]any{}
	for id, token := range v.Tokens {
		switch v.Types[id] {
		case typeNormal:
			vocab[token] = id
		case typeControl, typeUserDefined:
			added = append(added, map[string]any{"id": id, "content": token, "special": v.Types[id] == typeControl})
		}
	}
	merges := []any{}
	for _, m := range v.Merges {
		if left, right, _ := strings.Cut(m, " "); pairs {
			merges = append(merges, []string{left, right})
		} else {
			merges = append(merges, m)
		}
	}
	split := map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
	for pattern, name := range patterns {
		if name == v.Pre && name != "gpt-2" {
			split = map[string]any{"type": "Sequence", "pretokenizers": []any{
				map[string]any{"type": "Split", "pattern": map[string]any{"Regex": pattern}, "behavior": "Isolated"},
				map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}}}
		}
	}
	text, err := json.Marshal(map[string]any{"added_tokens": added, "normalizer": map[string]any{"type": "NFC"}, "pre_tokenizer": split,
		"model": map[string]any{"type": "BPE", "vocab": vocab, "merges": merges, "ignore_merges": v.IgnoreMerges}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestFromJSON: a tokenizer.json gives the ids of the same vocabulary in a GGUF file.
func TestFromJSON(t *testing.T) {
	texts := []string{"The server's naïve <think> e\u0301\n", "<|im_start|>user\nHello, world 12345!<|im_end|>\n", "  \t\n\n x1y2  "}
	for _, pre := range []string{"qwen2", "qwen35", "llama-bpe", "gpt-2"} {
		for _, pairs := range []bool{false, true} {
			v := smallVocab(t, pre)
			if len(v.Types) == 0 {
				t.Fatal("the vocabulary has no types")
			}
			tok, err := FromJSON(asJSON(t, v, pairs))
			if err != nil {
				t.Fatalf("%s: %v", pre, err)
			}
			want, err := New(v)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range texts {
				if got := tok.EncodePrompt(nil, text); !slices.Equal(got, want.EncodePrompt(nil, text)) {
					t.Errorf("%s, pairs %v: %q is %v", pre, pairs, text, got)
				}
			}
		}
	}
}

// TestRealFromJSON compares the two forms of a vocabulary that people use.
func TestRealFromJSON(t *testing.T) {
	f, err := modelfile.Open(filepath.Join(sharedVocab(t), "rebuilt-vocab-qwen2.gguf"))
	if err != nil {
		t.Skipf("no vocabulary to compare with: %v", err)
	}
	defer f.Close()
	v, err := readVocab(f)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Types) == 0 {
		v.Types = slices.Repeat([]int32{typeNormal}, len(v.Tokens))
	}
	tok, err := FromJSON(asJSON(t, v, true))
	if err != nil {
		t.Fatal(err)
	}
	want, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("json.go")
	if err != nil {
		t.Fatal(err)
	}
	if got := tok.Encode(nil, string(text)); !slices.Equal(got, want.Encode(nil, string(text))) {
		t.Error("the tokens differ")
	}
}

func TestJSONRefusals(t *testing.T) {
	good := string(asJSON(t, smallVocab(t, "qwen2"), false))
	for what, change := range map[string][2]string{
		"model.type is":            {`"type":"BPE"`, `"type":"Unigram"`},
		"normalizer.type":          {`"type":"NFC"`, `"type":"Lowercase"`},
		"which is none of":         {`\\p{N}|`, `\\p{N}+|`},
		"add_prefix_space":         {`"add_prefix_space":false`, `"add_prefix_space":true`},
		"want Split and ByteLevel": {`"type":"ByteLevel"`, `"type":"Metaspace"`},
		"unexpected end":           {good, good[:len(good)/2]},
		"are not within":           {`"added_tokens":[`, `"added_tokens":[{"id":2147483647,"content":"x"},`},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		if changed == good {
			t.Errorf("%s: nothing was changed", what)
		}
		if _, err := FromJSON([]byte(changed)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error that says %q, got %v", what, err)
		}
	}
}
