package tokenizer

import (
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/modelfile"
	"corenode/engine/modelfile/gguftest"
)

// sentenceRecording is what testdata/sentencepiece/record.py writes.
type sentenceRecording struct {
	Texts  []string
	Models []struct { // ids are by SentencePiece
		Tokens []string
		Types  []int32
		Scores []float32
		Prefix bool
		IDs    [][]int32
	}
	JSON  map[string]json.RawMessage
	Files []struct { // a tokenizer.json with other parts; ids are by the tokenizers library
		Normalizer   json.RawMessage
		PreTokenizer json.RawMessage `json:"pre_tokenizer"`
		IDs          [][]int32
	}
}

func recordedSentences(t testing.TB, name string) (r sentenceRecording) {
	t.Helper()
	readJSON(t, "testdata/sentencepiece/"+name, &r)
	if len(r.Models) == 0 || len(r.Texts) < 200 {
		t.Fatalf("%d models, %d texts", len(r.Models), len(r.Texts))
	}
	return r
}

// sentenceFiles are the recorded vocabularies as the metadata of GGUF.
func sentenceFiles(t testing.TB, r sentenceRecording) (files []*modelfile.File) {
	for _, m := range r.Models {
		files = append(files, fileOf(t, metaOf(map[string]any{"model": "llama", "pre": "default", "tokens": m.Tokens, "token_type": m.Types,
			"scores": m.Scores, "add_space_prefix": m.Prefix, "bos_token_id": uint32(1), "eos_token_id": uint32(2)})...))
	}
	return files
}

func sameIDs(t *testing.T, texts []string, want [][]int32, encode func(string) []int32) {
	t.Helper()
	if len(want) != len(texts) {
		t.Fatalf("%d texts, %d recorded", len(texts), len(want))
	}
	for i, text := range texts {
		if got := encode(text); got != nil && !slices.Equal(got, want[i]) {
			t.Errorf("%q is %v, want %v", text, got, want[i])
		}
	}
}

// TestSentencePiece: a vocabulary in GGUF gives the ids of the library that made it, also in
// pieces that are remembered, and they say the text again.
func TestSentencePiece(t *testing.T) {
	r := recordedSentences(t, "small.json")
	for i, f := range sentenceFiles(t, r) {
		tok, err := FromFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if id, add := tok.BOS(); id != 1 || !add {
			t.Errorf("BOS %d %v: a text begins with it unless the file says no", id, add)
		}
		for range 2 {
			sameIDs(t, r.Texts, r.Models[i].IDs, func(text string) []int32 { return tok.Encode(nil, text) })
		}
		for _, text := range r.Texts {
			if got := decode(tok, tok.Encode(nil, text)); got != strings.ReplaceAll(text, spaceMark, " ") {
				t.Errorf("%q comes back as %q", text, got)
			}
			checkProtected(t, tok, text)
		}
	}
}

// TestSentencePieceJSON: so does a tokenizer.json, in every form that people use, and the GGUF
// metadata made of it.
func TestSentencePieceJSON(t *testing.T) {
	r := recordedSentences(t, "small.json")
	if len(r.Files) < 5 {
		t.Fatalf("%d files", len(r.Files))
	}
	for _, form := range r.Files {
		r.JSON["normalizer"], r.JSON["pre_tokenizer"] = form.Normalizer, form.PreTokenizer
		text, err := json.Marshal(r.JSON)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := fromJSON(text)
		if err != nil {
			t.Fatalf("%s %s: %v", form.Normalizer, form.PreTokenizer, err)
		}
		sameIDs(t, r.Texts, form.IDs, prompt(tok))
	}
}

// prompt encodes a text with its special tokens. Where a token with U+2581 is written in a text, it is
// read as spaces here, and as the token by the library: such texts, which nobody writes, give
// nothing to compare.
func prompt(tok *Tokenizer) func(string) []int32 {
	return func(text string) []int32 {
		if strings.Contains(text, spaceMark+spaceMark) {
			return nil
		}
		return tok.EncodePrompt(nil, strings.ReplaceAll(text, guard, escapedGuard))
	}
}

// TestSentencePieceConverted: the metadata that is made of a tokenizer.json means the same in every form, and
// tells readers of GGUF whether a space stands in front of each part of a text.
func TestSentencePieceConverted(t *testing.T) {
	r := recordedSentences(t, "small.json")
	for _, form := range r.Files {
		r.JSON["normalizer"], r.JSON["pre_tokenizer"] = form.Normalizer, form.PreTokenizer
		text, err := json.Marshal(r.JSON)
		if err != nil {
			t.Fatal(err)
		}
		f := converted(t, text)
		tok, err := FromFile(f)
		if err != nil {
			t.Fatal(err)
		}
		sameIDs(t, r.Texts, form.IDs, prompt(tok))
		var model struct {
			Vocab  map[string]int
			Merges []jsonMerge
		}
		scores, err := f.Floats("tokenizer.ggml.scores")
		if err := errors.Join(err, json.Unmarshal(r.JSON["model"], &model)); err != nil {
			t.Fatal(err)
		}
		first := map[int]int{} // by token
		for rank, merge := range model.Merges {
			id := model.Vocab[strings.ReplaceAll(string(merge), " ", "")]
			if _, known := first[id]; !known {
				first[id] = rank + 1
			}
		}
		for id, score := range scores {
			if score != -float32(first[id]) {
				t.Fatalf("the score of token %d is %v, want minus the rank of the first merge that makes it, %d", id, score, first[id])
			}
		}
		each := strings.Contains(string(form.Normalizer), "Prepend") || strings.Contains(string(form.PreTokenizer), "always")
		if put, err := f.Bool("tokenizer.ggml.add_space_prefix"); err != nil || put != each {
			t.Errorf("%s %s: add_space_prefix is %v, %v", form.Normalizer, form.PreTokenizer, put, err)
		}
	}
}

// converted is the GGUF metadata of a folder with a tokenizer.json.
func converted(t *testing.T, text []byte) *modelfile.File {
	t.Helper()
	return convertedFolder(t, map[string]string{"tokenizer.json": string(text)})
}

// convertedFolder is that of a folder with some files.
func convertedFolder(t *testing.T, files map[string]string) *modelfile.File {
	t.Helper()
	meta, err := Metadata(openedFolder(t, "", files), 0)
	if err != nil {
		t.Fatal(err)
	}
	return fileOf(t, meta...)
}

// openedFolder is a folder with some files and tensors, and with further keys in its config, each with a comma behind it.
func openedFolder(t *testing.T, keys string, files map[string]string, tensors ...gguftest.Stored) *modelfile.File {
	t.Helper()
	dir := t.TempDir()
	files["config.json"] = `{` + keys +
		`"model_type":"llama","num_hidden_layers":1,"max_position_embeddings":8,"hidden_size":2,"num_attention_heads":1,"vocab_size":1}`
	if err := gguftest.WriteFolder(dir, files, tensors, 1); err != nil {
		t.Fatal(err)
	}
	folder, err := modelfile.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = folder.Close() })
	return folder
}

// TestSentencesInBlocks: a long text without a place to cut merges in blocks as it does at once.
func TestSentencesInBlocks(t *testing.T) {
	tok, err := FromFile(sentenceFiles(t, recordedSentences(t, "small.json"))[0])
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"the", "token", "请求", "Ω", "🙂", "é", "в", "node", "\ufdd0", "a"}
	for range 50 {
		var text strings.Builder
		for text.Len() < 3000 {
			text.WriteString(parts[r.IntN(len(parts))])
		}
		want := tok.merge(nil, text.String())
		for _, block := range []int{64, 100, 777} {
			if got := tok.mergeLong(nil, text.String(), block, 1<<20); !slices.Equal(got, want) {
				t.Fatalf("in blocks of %d: %q differs", block, text.String())
			}
		}
	}
}

// TestRealSentencePiece: the vocabulary of a published model.
func TestRealSentencePiece(t *testing.T) {
	data, err := gguftest.Published()
	if errors.Is(err, gguftest.ErrNotInstalled) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	f, err := modelfile.OpenBytes("gemma3-270m", data)
	if err != nil {
		t.Fatal(err)
	}
	r := recordedSentences(t, "gemma3-270m.json")
	tok, err := FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	sameIDs(t, r.Texts, r.Models[0].IDs, func(text string) []int32 { return tok.Encode(nil, text) })
	if !slices.Contains(tok.Stops(), 106) || !slices.Contains(tok.Stops(), 1) {
		t.Errorf("stops %v, want the ends of a text and of a turn", tok.Stops())
	}
}

func TestSentencePieceRefusals(t *testing.T) {
	r := recordedSentences(t, "small.json")
	m := r.Models[0]
	good := func() map[string]any {
		return map[string]any{"model": "llama", "tokens": m.Tokens, "token_type": m.Types, "scores": m.Scores}
	}
	for what, change := range map[string]func(map[string]any){
		"no token for the byte": func(m map[string]any) {
			m["tokens"], m["token_type"], m["scores"] = []string{"a"}, []int32{1}, []float32{0}
		},
		"has 1025 bytes, want at most 1024": func(m map[string]any) {
			m["tokens"] = append(slices.Clone(r.Models[0].Tokens), strings.Repeat("a", 1024), strings.Repeat("a", 1025))
			m["token_type"] = append(slices.Clone(r.Models[0].Types), typeNormal, typeNormal)
			m["scores"] = append(slices.Clone(r.Models[0].Scores), 0, 0)
		},
		"that guards content": func(m map[string]any) {
			m["tokens"] = append(slices.Clone(r.Models[0].Tokens), "<\uFDD0>")
			m["token_type"] = append(slices.Clone(r.Models[0].Types), typeUserDefined)
			m["scores"] = append(slices.Clone(r.Models[0].Scores), 0)
		},
		"but 3 scores":     func(m map[string]any) { m["scores"] = []float32{1, 2, 3} },
		"scores":           func(m map[string]any) { delete(m, "scores") },
		"are supported":    func(m map[string]any) { m["model"] = "t5" },
		"add_space_prefix": func(m map[string]any) { m["add_space_prefix"] = "yes" },
	} {
		meta := good()
		change(meta)
		if _, err := FromFile(fileOf(t, metaOf(meta)...)); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error that says %q, got %v", what, err)
		}
	}
	for want, value := range map[string]any{"has 3 values, want 4": []bool{true, true, true}, "want integers": "yes"} {
		meta := append(metaOf(good()), gguftest.KV{Key: spacesKey, Value: value})
		if _, err := FromFile(fileOf(t, meta...)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error that says %q, got %v", want, err)
		}
	}
	for what, change := range map[string][2]string{
		"normalizer has the type":           {"normalizer", `{"type":"NFKC"}`},
		"neither normalizer":                {"normalizer", `null`},
		"pre_tokenizer has the type":        {"pre_tokenizer", `{"type":"Whitespace"}`},
		"want Metaspace that does not":      {"pre_tokenizer", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first","split":true}`},
		`has the type "Metaspace"`:          {"pre_tokenizer", `{"type":"Metaspace","replacement":"▁","prepend_scheme":"first"}`},
		`has the type "Other"`:              {"pre_tokenizer", `{"type":"Other","replacement":"▁","prepend_scheme":"first","split":false}`},
		"model.ignore_merges":               {"model", `{"type":"BPE","byte_fallback":true,"ignore_merges":true}`},
		"want Prepend of U+2581 and Replac": {"normalizer", `{"type":"Prepend","prepend":"x"}`},
	} {
		form := map[string]json.RawMessage{}
		maps.Copy(form, r.JSON)
		form["normalizer"], form["pre_tokenizer"] = r.Files[0].Normalizer, json.RawMessage("null")
		form[change[0]] = json.RawMessage(change[1])
		text, err := json.Marshal(form)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fromJSON(text); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want an error that says %q, got %v", what, err)
		}
	}
}
