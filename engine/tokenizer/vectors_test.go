package tokenizer

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"corenode/engine/modelfile"
)

// sharedVocab finds the folder with the vocabularies of real models, which are
// not part of the repository.
func sharedVocab(t testing.TB) string {
	t.Helper()
	dirs := []string{"../../../shared/data/vocab"}
	if shared := os.Getenv("CORENODE_SHARED"); shared != "" {
		dirs = []string{filepath.Join(shared, "data/vocab")}
	}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err == nil {
			return dir
		}
	}
	t.Skip("no folder with real vocabularies: set CORENODE_SHARED")
	return ""
}

func openVocab(t testing.TB, name string) *Tokenizer {
	t.Helper()
	f, err := modelfile.Open(filepath.Join(sharedVocab(t), name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tok, err := FromFile(f)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// llama.cpp's own vectors: 47 texts and their ids.
func TestSharedVectors(t *testing.T) {
	dir := sharedVocab(t)
	files := map[string]string{"gpt-2": "ggml-vocab-gpt-2.gguf", "qwen2": "rebuilt-vocab-qwen2.gguf", "llama-bpe": "rebuilt-vocab-llama-bpe.gguf"}
	for name, file := range files {
		tok := openVocab(t, file)
		in, err := os.ReadFile(filepath.Join(dir, "ggml-vocab-"+name+".gguf.inp"))
		if err != nil {
			t.Fatal(err)
		}
		out, err := os.ReadFile(filepath.Join(dir, "ggml-vocab-"+name+".gguf.out"))
		if err != nil {
			t.Fatal(err)
		}
		texts := strings.Split(string(in), "\n__ggml_vocab_test__\n")
		lines := strings.Split(string(out), "\n")
		if len(texts) != 47 || len(lines) != len(texts) { // the last text is empty
			t.Fatalf("%s: %d texts, %d lines, want 47", name, len(texts), len(lines))
		}
		for i, text := range texts {
			checkVector(t, tok, name, text, lines[i])
		}
	}
}

func checkVector(t *testing.T, tok *Tokenizer, name, text, line string) {
	t.Helper()
	var want []int32
	for field := range strings.FieldsSeq(line) {
		id, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, int32(id))
	}
	got := tok.Encode(nil, text)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q is %v, want %v", name, text, got, want)
	}
	if back := decode(tok, got); back != text {
		t.Errorf("%s: %q comes back as %q", name, text, back)
	}
}

// The merges of Qwen3.5 alone make a vocabulary of their own numbering: enough
// to see that every merge result is one token and that text survives.
func TestQwen35Merges(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(sharedVocab(t), "qwen35-merges.txt"))
	if err != nil {
		t.Skip("no qwen35-merges.txt")
	}
	v := Vocab{Pre: "qwen35", BOS: -1, EOS: -1, EOT: -1, Pad: -1}
	known := map[string]bool{}
	add := func(token string) {
		if !known[token] {
			known[token] = true
			v.Tokens = append(v.Tokens, token)
		}
	}
	for r, b := range alphabet {
		if b >= 0 {
			add(string(rune(r)))
		}
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if left, right, ok := strings.Cut(line, " "); ok && !strings.HasPrefix(line, "#version") {
			v.Merges = append(v.Merges, line)
			add(left)
			add(right)
			add(left + right)
		}
	}
	if len(v.Merges) != 247587 {
		t.Fatalf("%d merges", len(v.Merges))
	}
	tok := build(t, v)
	whole := 0
	for id := range tok.Size() {
		s := string(tok.Bytes(int32(id)))
		if tok.split.next(s) == len(s) && len(tok.Encode(nil, s)) == 1 {
			whole++
		}
	}
	if whole < tok.Size()*95/100 {
		t.Errorf("only %d of %d tokens encode to themselves", whole, tok.Size())
	}
	for _, s := range []string{"नमस्ते दुनिया", "สวัสดีชาวโลก", "Hello, world! 12345 e\u0301\n\n  x", "مَرحَبًا"} {
		if back := decode(tok, tok.Encode(nil, s)); back != s {
			t.Errorf("%q comes back as %q", s, back)
		}
	}
}

// TestRealTexts encodes the texts of the benchmarks twice, the second time from
// memory, and compares with the definition, piece by piece.
func TestRealTexts(t *testing.T) {
	f, err := modelfile.Open(filepath.Join(sharedVocab(t), "rebuilt-vocab-qwen2.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := readVocab(f)
	if err != nil {
		t.Fatal(err)
	}
	tok, d := build(t, v), define(v)
	for _, c := range corpora(t) {
		text := c.text[:min(len(c.text), 30000)]
		if c.name == "letter" || c.name == "space" {
			text = text[:300]
		}
		var want []int32
		for rest := text; rest != ""; {
			n := tok.split.nextAny(rest)
			want = append(want, d.merge(rest[:n])...)
			rest = rest[n:]
		}
		for range 2 {
			if got := tok.Encode(nil, text); !slices.Equal(got, want) {
				t.Errorf("%s: the ids differ from the definition's", c.name)
			}
		}
	}
}
