package tokenizer

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// TestBlocksMergeAsOne: a piece that is merged in blocks gives what it gives at
// once, however small the blocks are.
func TestBlocksMergeAsOne(t *testing.T) {
	tok := small(t, "qwen2")
	random := rand.New(rand.NewPCG(3, 4))
	alphabets := []string{"a", "ab", "the", "therinag ", "\xff\xfe", "erth\xc3\xa9"}
	var whole mergeScratch
	for i := range 4000 {
		letters := alphabets[i%len(alphabets)]
		piece := make([]byte, 1+random.IntN(400))
		for j := range piece {
			piece[j] = letters[random.IntN(len(letters))]
		}
		want := whole.merge(tok, nil, string(piece))
		block := 1 + random.IntN(64)
		if got := tok.mergeLong([]int32{7}, string(piece), block, math.MaxInt); !slices.Equal(got[1:], want) || got[0] != 7 {
			t.Fatalf("%q in blocks of %d: %v, want %v", piece, block, got[1:], want)
		}
	}
}

// chained is a vocabulary whose merges change far behind where a text begins: a
// run of "ab" is tokens of "ab" or of "ba", by what its first byte is.
func chained(t *testing.T) *Tokenizer {
	v := smallVocab(t, "qwen2")
	v.Tokens = append(v.Tokens, "xa", "bab", "baba")
	v.Types = append(v.Types, typeNormal, typeNormal, typeNormal)
	for _, pair := range []string{"a b", "b a"} {
		if joined := strings.ReplaceAll(pair, " ", ""); !slices.Contains(v.Tokens, joined) {
			v.Tokens, v.Types = append(v.Tokens, joined), append(v.Types, typeNormal)
		}
	}
	v.Merges = append([]string{"x a", "b a", "ba ba", "ba b"}, slices.DeleteFunc(v.Merges, func(m string) bool {
		return m == "x a" || m == "b a"
	})...)
	return build(t, v)
}

// TestBlocksBeginAgain: also where tokens depend on what is far before them.
func TestBlocksBeginAgain(t *testing.T) {
	tok := chained(t)
	var whole mergeScratch
	for _, piece := range []string{"x" + strings.Repeat("ab", 500), strings.Repeat("ab", 333), strings.Repeat("ba", 333), strings.Repeat("xab", 300)} {
		want := whole.merge(tok, nil, piece)
		for block := 1; block < 80; block++ {
			if got := tok.mergeLong(nil, piece, block, math.MaxInt); !slices.Equal(got, want) {
				t.Fatalf("%.20q in blocks of %d: %d tokens, want %d", piece, block, len(got), len(want))
			}
		}
	}
}

// TestEncodeStops: a text of any form stops a little past the most ids, with the
// ids that it begins with, in memory that does not grow with it.
func TestEncodeStops(t *testing.T) {
	tok := small(t, "qwen2")
	const most, bytes = 5000, 8 << 20
	for name, unit := range map[string]string{"words": "the server ", "one word": "therequest", "one letter": "a", "white space": " ", "lines": "\n", "specials": "<|im_end|>"} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(unit, bytes/len(unit))
			encode := tok.EncodePromptMax
			tok.EncodePromptMax(nil, text[:4*blockBytes], most) // fills the pools
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ids := encode(nil, text, most)
			runtime.ReadMemStats(&after)
			if len(ids) <= most || len(ids) > most+2*blockBytes {
				t.Errorf("%d ids, want a little more than %d", len(ids), most)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > bytes/2 {
				t.Errorf("%d bytes of memory for %d bytes of text", used, bytes)
			}
			if want := tok.EncodePrompt(nil, text[:bytes/4]); !slices.Equal(ids[:most], want[:most]) {
				t.Error("other ids than those that the text begins with")
			}
		})
	}
}
