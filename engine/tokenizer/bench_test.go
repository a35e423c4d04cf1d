package tokenizer

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/modelfile"
)

// BenchmarkEncode runs over real texts with the real vocabulary of Qwen2, which
// a loop over one sentence would flatter: its words fit any memory.
func BenchmarkEncode(b *testing.B) {
	tok := openVocab(b, "rebuilt-vocab-qwen2.gguf")
	for _, c := range corpora(b) {
		b.Run(c.name, func(b *testing.B) { benchmarkEncode(b, tok, c.text) })
	}
}

// BenchmarkEncodeFirst encodes each text with a tokenizer that remembers nothing:
// short texts, over and over, would come from memory alone.
func BenchmarkEncodeFirst(b *testing.B) {
	tok := openVocab(b, "rebuilt-vocab-qwen2.gguf")
	for _, c := range corpora(b) {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			var dst []int32
			for b.Loop() {
				b.StopTimer()
				tok.memo, tok.pieces = newMemo(tok.Size()), newPieces()
				b.StartTimer()
				dst = tok.EncodePrompt(dst[:0], c.text)
			}
		})
	}
}

func benchmarkEncode(b *testing.B, tok *Tokenizer, text string) {
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var dst []int32
	for b.Loop() {
		dst = tok.EncodePrompt(dst[:0], text)
	}
	b.ReportMetric(float64(len(text))/float64(len(dst)), "bytes/token")
}

type corpus struct{ name, text string }

// corpora are texts that come with the Go distribution and modules in use, and some made here.
// The first is English. A text that this machine lacks is left out.
func corpora(t testing.TB) (out []corpus) {
	t.Helper()
	root := goPrints("env", "GOROOT")
	books := filepath.Join(goPrints("list", "-m", "-f", "{{.Dir}}", "golang.org/x/text"), "encoding/testdata")
	for _, c := range []struct{ name, files string }{
		{"english", filepath.Join(root, "src/testdata/Isaac.Newton-Opticks.txt")},
		{"french", filepath.Join(books, "candide-utf-8.txt")},
		{"chinese", filepath.Join(books, "sunzi-bingfa-*-utf-8.txt")},
		{"japanese", filepath.Join(books, "rashomon-utf-8.txt")},
		{"korean", filepath.Join(books, "unsu-joh-eun-nal-utf-8.txt")},
		{"code", filepath.Join(root, "src/net/http/*.go")},
	} {
		if text := readAll(c.files); text != "" {
			out = append(out, corpus{c.name, text})
		}
	}
	if len(out) == 0 || out[0].name != "english" {
		t.Skip("no Go distribution with its test data")
	}
	return append(out, corpus{"numbers", numbers()}, corpus{"emoji", emoji()},
		corpus{"letter", strings.Repeat("a", 1<<20)}, corpus{"space", strings.Repeat(" ", 1<<20)})
}

// goPrints is what a go command prints, or the name of nothing if it cannot.
func goPrints(args ...string) string {
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return "absent"
	}
	return strings.TrimSpace(string(out))
}

func readAll(pattern string) string {
	files, _ := filepath.Glob(pattern)
	var b strings.Builder
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil {
			b.Write(text)
		}
	}
	return b.String()
}

func numbers() string {
	var b strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&b, "%d,%d.%02d,2024-%02d-%02d\n", i*7919%100003, i*31%977, i%100, i%12+1, i%28+1)
	}
	return b.String()
}

func emoji() string {
	var b strings.Builder
	for i := range 20000 {
		b.WriteRune(rune(0x1f600 + i*7%80))
		if i%5 == 0 {
			b.WriteString(" 👍🏽 👩‍🚀 ok ")
		}
	}
	return b.String()
}

func BenchmarkProtect(b *testing.B) {
	tok := openVocab(b, "rebuilt-vocab-qwen2.gguf")
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 1000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_ = tok.Protect(text)
	}
}

func BenchmarkLoad(b *testing.B) {
	f, err := modelfile.Open(filepath.Join(sharedVocab(b), "rebuilt-vocab-qwen2.gguf"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromFile(f); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := openVocab(b, "rebuilt-vocab-qwen2.gguf")
	ids := tok.Encode(nil, "The quick brown fox jumps over the lazy dog, naïve 你好 🦙.")
	d := tok.NewDecoder(false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = d.Feed(ids[i%len(ids)])
	}
}
