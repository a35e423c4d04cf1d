package tokenizer

import (
	"path/filepath"
	"strings"
	"testing"

	"corenode/engine/modelfile"
)

func BenchmarkEncodeEnglish(b *testing.B) {
	benchmarkEncode(b, strings.Repeat("The quick brown fox jumps over the lazy dog, and in the morning nobody remembers why it happened. Engineers measure twice; "+
		"managers, on the other hand, estimate. It wasn't until 1987 that the committee finally published its recommendations.\n", 400))
}

func BenchmarkEncodeCode(b *testing.B) {
	benchmarkEncode(b, strings.Repeat("func (s *scratch) merge(dst []int32, piece string) []int32 {\n\tfor len(s.heap) > 0 {\n\t\tat := int32(s.pop() & 0xffffffff)\n\t}\n\treturn dst\n}\n", 400))
}

func BenchmarkEncodeOneLetter(b *testing.B) { benchmarkEncode(b, strings.Repeat("a", 1<<20)) }

func benchmarkEncode(b *testing.B, text string) {
	tok := openVocab(b, "rebuilt-vocab-qwen2.gguf")
	b.SetBytes(int64(len(text)))
	var dst []int32
	for b.Loop() {
		dst = tok.Encode(dst[:0], text)
	}
	b.ReportMetric(float64(len(text))/float64(len(dst)), "bytes/token")
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
	d := tok.NewDecoder()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_ = d.Feed(ids[i%len(ids)])
	}
}
