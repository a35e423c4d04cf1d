package tokenizer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

func readJSON(t testing.TB, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// smallVocab is 256 bytes, 253 merges and specials that overlap: "<|im" begins
// "<|im_start|>".
func smallVocab(t testing.TB, pre string) Vocab {
	t.Helper()
	v := Vocab{Pre: pre, BOS: -1, EOS: 511, EOT: -1, Pad: 509, IgnoreMerges: splitters[pre].ignoreMerges}
	var file struct {
		Tokens []string
		Types  []int32
		Merges []string
	}
	readJSON(t, "testdata/vocab.json", &file)
	v.Tokens, v.Types, v.Merges = file.Tokens, file.Types, file.Merges
	return v
}

func build(t testing.TB, v Vocab) *Tokenizer {
	t.Helper()
	tok, err := New(v)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

func small(t testing.TB, pre string) *Tokenizer { return build(t, smallVocab(t, pre)) }

type splitCases struct {
	Texts     []string
	Splitters []struct {
		Pre     string
		Lengths [][]int
	}
}

// The pieces were recorded from the original regular expressions.
func TestSplitters(t *testing.T) {
	files, err := filepath.Glob("testdata/splits*.json")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range files {
		var recorded splitCases
		readJSON(t, file, &recorded)
		if len(recorded.Texts) < 100 {
			t.Fatalf("%s: %d texts", file, len(recorded.Texts))
		}
		for _, r := range recorded.Splitters {
			seen[r.Pre] = true
			for i, text := range recorded.Texts {
				if got := lengths(splitters[r.Pre], text); !slices.Equal(got, r.Lengths[i]) {
					t.Errorf("%s: %q splits into lengths %v, want %v", r.Pre, text, got, r.Lengths[i])
				}
			}
		}
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, splitterNames()) {
		t.Errorf("recorded are %q, splitters %q", got, splitterNames())
	}
}

// lengths are those of the pieces of a text.
func lengths(s *splitter, text string) (out []int) {
	for text != "" {
		n := s.next(text)
		out, text = append(out, n), text[n:]
	}
	return out
}

// The ids were recorded from an independent implementation of BPE.
func TestIDsAgainstRecorded(t *testing.T) {
	var texts splitCases
	readJSON(t, "testdata/splits.json", &texts)
	var recorded struct {
		Extra []string
		Cases []struct {
			Pre string
			IDs [][]int32
		}
	}
	readJSON(t, "testdata/ids.json", &recorded)
	if len(recorded.Cases) < 4 {
		t.Fatalf("%d cases recorded", len(recorded.Cases))
	}
	all := append(texts.Texts, recorded.Extra...)
	for _, c := range recorded.Cases {
		tok := small(t, c.Pre)
		for i, text := range all {
			if got := tok.Encode(nil, text); !slices.Equal(got, c.IDs[i]) {
				t.Errorf("%s: %q is %v, want %v", c.Pre, text, got, c.IDs[i])
			}
		}
	}
}

// definition is BPE as its inventors write it: over strings, in printable form.
type definition struct {
	rank   map[string]int
	ids    map[string]int32
	symbol [256]string
}

func define(v Vocab) *definition {
	d := &definition{rank: map[string]int{}, ids: map[string]int32{}}
	for i, m := range v.Merges {
		d.rank[m] = i
	}
	for i, token := range v.Tokens {
		d.ids[token] = int32(i)
	}
	for r, b := range alphabet {
		if b >= 0 {
			d.symbol[b] = string(rune(r))
		}
	}
	return d
}

// merge joins the leftmost of the best pairs until there is none.
func (d *definition) merge(piece string) (ids []int32) {
	var symbols []string
	for i := range len(piece) {
		symbols = append(symbols, d.symbol[piece[i]])
	}
	for {
		best, at := len(d.rank), -1
		for i := range len(symbols) - 1 {
			if r, ok := d.rank[symbols[i]+" "+symbols[i+1]]; ok && r < best {
				best, at = r, i
			}
		}
		if at < 0 {
			for _, s := range symbols {
				ids = append(ids, d.ids[s])
			}
			return ids
		}
		symbols = slices.Replace(symbols, at, at+2, symbols[at]+symbols[at+1])
	}
}

func TestMergeAgainstDefinition(t *testing.T) {
	v := smallVocab(t, "qwen2")
	tok := build(t, v)
	d := define(v)
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 400 {
		var b strings.Builder
		for b.Len() < 1+n {
			if r.IntN(3) == 0 {
				b.WriteByte(byte(r.IntN(256)))
			} else {
				b.WriteString([]string{"the", "in", "re", "tokens", "e", "th", "ing", " a"}[r.IntN(8)])
			}
		}
		piece := b.String()
		want := d.merge(piece)
		var s mergeScratch
		if got := s.merge(tok, nil, piece); !slices.Equal(got, want) {
			t.Fatalf("heap: %q merges into %v, want %v", piece, got, want)
		}
		if len(piece) <= shortPiece {
			if got := tok.mergeShort(nil, piece); !slices.Equal(got, want) {
				t.Fatalf("short: %q merges into %v, want %v", piece, got, want)
			}
		}
	}
}

// TestHeap: entries come out in rising order, those that were there and those that are pushed in between.
func TestHeap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for n := range 300 {
		var s mergeScratch
		var want []uint64
		for range n {
			s.heap = append(s.heap, r.Uint64N(1000))
		}
		want = slices.Clone(s.heap)
		for i := (n - 2) / heapWays; i >= 0; i-- {
			s.down(i)
		}
		for len(want) > 0 {
			slices.Sort(want)
			if got := s.pop(); got != want[0] {
				t.Fatalf("of %d entries at first, %d comes before %d", n, got, want[0])
			}
			if want = want[1:]; r.IntN(3) == 0 {
				entry := r.Uint64N(1000)
				s.push(entry)
				want = append(want, entry)
			}
		}
	}
}

func TestIgnoreMerges(t *testing.T) {
	for pre, wantOne := range map[string]bool{"qwen2": false, "llama-bpe": true} {
		v := smallVocab(t, pre)
		v.Tokens, v.Types = append(v.Tokens, "zqzq"), append(v.Types, 1) // no merge makes it
		tok := build(t, v)
		for range 2 { // the second time from the memo
			got := tok.Encode(nil, "zqzq")
			if one := len(got) == 1; one != wantOne {
				t.Errorf("%s: zqzq is %v", pre, got)
			}
		}
	}
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	tok := small(t, "qwen2")
	text := "The server reads a request, splits it into tokens and unforeseeable things.\n"
	dst := make([]int32, 0, 200)
	if n := testing.AllocsPerRun(20, func() { dst = tok.Encode(dst[:0], text) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A file names one end; a Llama 3 model that was tuned for chat has three.
func TestStopsOfLlama(t *testing.T) {
	v := smallVocab(t, "llama-bpe")
	n := int32(len(v.Tokens))
	v.Tokens = append(v.Tokens, "<|end_of_text|>", "<|eom_id|>")
	v.Types = append(v.Types, typeControl, typeControl)
	v.EOS = 514
	if got := build(t, v).Stops(); !slices.Equal(got, []int32{509, 511, 514, n, n + 1}) {
		t.Errorf("stops %v, want <|end_of_text|> (%d) and <|eom_id|> among them", got, n)
	}
}

func TestKinds(t *testing.T) {
	v := smallVocab(t, "llama-bpe")
	v.AddBOS, v.BOS, v.Types['a'] = true, 509, 0 // no type says a normal one
	tok := build(t, v)
	if got := tok.Bytes(tok.Encode(nil, "a")[0]); string(got) != "a" {
		t.Errorf("a token without a type stands for %q", got)
	}
	if tok.Size() != 518 {
		t.Errorf("size %d", tok.Size())
	}
	if got := tok.Stops(); !slices.Equal(got, []int32{509, 511, 514}) {
		t.Errorf("stops %v, want <|endoftext|>, <|im_end|>, <|eot_id|>", got)
	}
	if got := tok.Unreachable(); !slices.Equal(got, []int32{516, 517}) {
		t.Errorf("unreachable %v", got)
	}
	if got := tok.Specials(); !slices.Equal(got, []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|eot_id|>", "<|im"}) {
		t.Errorf("specials %q", got)
	}
	if id, add := tok.BOS(); id != 509 || !add {
		t.Errorf("BOS %d %v", id, add)
	}
	if tok.Bytes(511) != nil || tok.Bytes(517) != nil || tok.Bytes(518) != nil || tok.Bytes(-1) != nil || string(tok.Bytes(512)) != "<think>" {
		t.Error("control, unused and unknown ids stand for nothing, user-defined ones for their name")
	}
	if tok.Text(511) != "<|im_end|>" || tok.Text(518) != "" || tok.Text(-1) != "" {
		t.Error("Text does not show the name")
	}
	if id, ok := tok.ID(" does"); !ok || string(tok.Bytes(id)) != " does" {
		t.Errorf("ID of a plain token: %d %v", id, ok)
	}
	if _, ok := tok.ID("unused"); ok {
		t.Error("an unused token can be found")
	}
}

func TestNewRefuses(t *testing.T) {
	cases := []struct {
		name   string
		change func(v *Vocab)
		want   string
	}{
		{"pre", func(v *Vocab) { v.Pre = "falcon" }, `"falcon"`},
		{"no tokens", func(v *Vocab) { v.Tokens = nil }, "0 tokens"},
		{"types", func(v *Vocab) { v.Types = v.Types[1:] }, "517 token types"},
		{"type 9", func(v *Vocab) { v.Types[3] = 9 }, "token 3 has the unknown type 9"},
		{"type -1", func(v *Vocab) { v.Types[3] = -1 }, "token 3 has the unknown type -1"},
		{"stop", func(v *Vocab) { v.Stops = []int32{0, 518} }, "a stop token is 518"},
		{"stop -1", func(v *Vocab) { v.Stops = []int32{-1} }, "a stop token is -1"},
		{"eot", func(v *Vocab) { v.EOT = -2 }, "EOT token is -2"},
		{"padding", func(v *Vocab) { v.Pad = 518 }, "padding token is 518"},
		{"merge of nothing on the left", func(v *Vocab) { v.Merges[7] = " he" }, "merge 7"},
		{"merge of nothing on the right", func(v *Vocab) { v.Merges[7] = "he " }, "merge 7"},
		{"eos", func(v *Vocab) { v.EOS = 518 }, "EOS token is 518"},
		{"bos", func(v *Vocab) { v.BOS = -2 }, "BOS token is -2"},
		{"missing letter", func(v *Vocab) { v.Tokens['A'] += "x" }, "no token for the byte 0x41"},
		{"missing space", func(v *Vocab) { v.Tokens[' '] += "x" }, "no token for the byte 0x20"},
		{"missing line break", func(v *Vocab) { v.Tokens['\n'] += "x" }, "no token for the byte 0x0a"},
		{"merge form", func(v *Vocab) { v.Merges[7] = "abc" }, "merge 7"},
		{"merge parts", func(v *Vocab) { v.Merges[7] = "q qq" }, "merge 7"},
		{"merge of no token on the left", func(v *Vocab) { v.Tokens[300], v.Merges[7] = "zqzq", "zqz q" }, "merge 7"},
		{"merge of no token on the right", func(v *Vocab) { v.Tokens[300], v.Merges[7] = "zqzq", "z qzq" }, "merge 7"},
		{"special with guard", func(v *Vocab) { v.Tokens[511] = "<\uFDD0>" }, "special token 511"},
		{"special not UTF-8", func(v *Vocab) { v.Tokens[511] = "<\xff>" }, "special token 511"},
		{"special too long", func(v *Vocab) { v.Tokens[511] = strings.Repeat("x", 2000) }, "special token 511"},
	}
	for _, c := range cases {
		v := smallVocab(t, "qwen2")
		v.EOS = -1
		c.change(&v)
		if _, err := New(v); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}

// TestMissingBytes: a vocabulary without tokens for bytes that texts hardly have leaves those out, and is the same otherwise: in pieces
// of one byte, remembered ones, short and long ones, and blocks.
func TestMissingBytes(t *testing.T) {
	v := smallVocab(t, "qwen2")
	missing := []byte("\xc0\xc1\xf5\xf6\xf7\xf8\xf9\xfa\xfb\xfc\xfd\xfe\xff\xf1\x05")
	for _, b := range missing {
		v.Tokens[b], v.Types[b] = fmt.Sprintf("[unused %d]", b), typeUnused
	}
	whole, tok := small(t, "qwen2"), build(t, v)
	loaded, err := fromJSON(asJSON(t, v, true))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"\xff", "\x05", "\x00the\x00", "!\x00\xf1\x00", "\xc0\xc1", "the \U00040000 server's\x05\x05 \U0007ffff", "!\xf1!", "é\xc3\xa9\U0001f642",
		strings.Repeat("!\U00040000", 4), strings.Repeat("\U00040000", 20), strings.Repeat("\xf1", 100),
		strings.Repeat("!\U00040000", 1<<15), strings.Repeat("\xff", 1<<18), strings.Repeat("\xff", 1<<17) + "the"} {
		want := slices.DeleteFunc(whole.Encode(nil, text), func(id int32) bool { return slices.Contains(missing, byte(id)) && id < 256 })
		for _, tok := range []*Tokenizer{tok, tok, loaded} { // the second time from what is remembered
			if got := tok.Encode([]int32{7}, text); !slices.Equal(got[1:], want) || got[0] != 7 {
				t.Errorf("%.40q of %d bytes: %d tokens, want %d, or others", text, len(text), len(got)-1, len(want))
			}
			if len(text) < 1000 {
				checkProtected(t, tok, text)
			}
		}
	}
	for piece, same := range map[string]string{
		"h\xc0e": "he", "\xf1t\x05he\xff": "the", strings.Repeat("in\xf1g", 30): strings.Repeat("ing", 30),
	} {
		want := whole.merge(nil, same)
		if got := tok.merge(nil, piece); !slices.Equal(got, want) {
			t.Errorf("%q merges into %v, want %v", piece, got, want)
		}
		if got := tok.mergeLong(nil, piece, 16, 1<<20); !slices.Equal(got, want) {
			t.Errorf("in blocks %q merges into %v, want %v", piece, got, want)
		}
	}
}

func TestMergesNeverMakeSpecials(t *testing.T) {
	v := smallVocab(t, "qwen2")
	v.Tokens, v.Types = append(v.Tokens, "zq"), append(v.Types, 3)
	v.Merges = append(v.Merges, "z q")
	tok := build(t, v)
	if got := tok.Encode(nil, "zq"); len(got) != 2 {
		t.Errorf("content became the control token: %v", got)
	}
}

func TestLongRunsRoundTrip(t *testing.T) {
	for _, pre := range splitterNames() {
		tok := small(t, pre)
		for _, unit := range []string{"a", "the", " ", "\n", "1", "!", "é", "\u0301", "\xff", "<"} {
			text := strings.Repeat(unit, 1<<20/len(unit))
			var back strings.Builder
			for _, id := range tok.Encode(nil, text) {
				back.Write(tok.Bytes(id))
			}
			if back.String() != text {
				t.Errorf("%s: a megabyte of %q does not come back", pre, unit)
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := small(t, "qwen2")
	text := strings.Repeat("The server reads a request <|im_end|> "+strings.Repeat("therequest", 10), 5)
	want := small(t, "qwen2").EncodePrompt(nil, text)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 20 {
				if got := tok.EncodePrompt(nil, text); !slices.Equal(got, want) {
					t.Error("concurrent encoding differs")
					return
				}
			}
		})
	}
	group.Wait()
}

// TestLongPiecesAreLinear counts the entries of the heap, each of which costs
// the logarithm of its size: at most three per byte, whatever the piece.
func TestLongPiecesAreLinear(t *testing.T) {
	tok := small(t, "qwen2")
	for _, unit := range []string{"a", "the", "in", " ", "ertheing", "\xff"} {
		for _, n := range []int{100, 10000, 1000000} {
			piece := strings.Repeat(unit, n/len(unit))
			var s mergeScratch
			if s.merge(tok, nil, piece); s.pushed > 3*len(piece) {
				t.Errorf("%d bytes of %q: %d entries", len(piece), unit, s.pushed)
			}
		}
	}
}
