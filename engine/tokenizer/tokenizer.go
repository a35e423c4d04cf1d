// Package tokenizer turns text into token ids and back: byte-level BPE and the BPE
// of SentencePiece, as GGUF metadata, a tokenizer.json or a file of ranks describes them.
//
// Encoding has three stages. A splitter cuts the text into pieces (words with
// their leading space, numbers, punctuation, white space), each piece starts
// as one token per byte, and the pair of neighbors with the lowest merge rank
// is joined until no pair has a rank. With SentencePiece pieces start as one token
// per character, and user-defined tokens are cut out of any text first.
//
// Two kinds of text go in. Content (Encode) comes from clients: whatever it
// says, no special token comes out. A prompt (EncodePrompt) is a rendered chat
// template: the template's own special tokens count, those inside content must
// not, so content is passed through Protect before it is rendered.
//
// A Tokenizer is immutable, but for memos of bounded size that are written
// atomically, and safe for concurrent use. A Decoder belongs to one stream.
package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
)

// Types of tokens, as numbered by the file format.
const (
	typeNormal      = 1
	typeUnknown     = 2
	typeControl     = 3
	typeUserDefined = 4
	typeUnused      = 5
	typeByte        = 6
)

// Vocab is what a model file says about its tokenizer.
type Vocab struct {
	// Pre names the splitter of byte-level BPE, as splitters has it: gpt-2, llama-bpe, qwen2 and others.
	Pre string
	// SentencePiece is the other kind of vocabulary, which has no splitter. Without Merges
	// its tokens are joined in the order of Scores, best first.
	SentencePiece bool
	Scores        []float32
	Prefix        Prefix
	// Tokens in id order; normal ones in the printable form of byte-level BPE, or with
	// U+2581 for each space.
	Tokens []string
	// Types of the tokens, empty when all are normal.
	Types []int32
	// Merges are "left right", best first.
	Merges []string
	// Ranked says that the rank of a merge is the id of what it makes, whatever it is made of.
	Ranked bool
	// BOS, EOS, EOT and Pad are token ids, -1 when the model has none.
	BOS, EOS, EOT, Pad int32
	// AddBOS says that every prompt begins with BOS.
	AddBOS bool
	// Stops are further tokens that end an answer.
	Stops []int32
	// IgnoreMerges says that a piece that is a token is that token, whatever the merges say.
	IgnoreMerges bool
	// Strips are the special tokens that take white space around them away.
	Strips []Strip
	// Rowless are the names of added tokens that are none, as the model has no rows for them.
	Rowless []string
}

// Strip is a special token that takes the white space to its left or right away.
type Strip struct {
	ID          int32
	Left, Right bool
}

// Tokenizer encodes and decodes text of one model.
type Tokenizer struct {
	split        *splitter
	sentences    *sentencePiece // nil for byte-level BPE
	ignoreMerges bool
	strips       map[int32]Strip
	tokens       tokenTable
	kinds        []uint8    // token types by id
	bytes        [256]int32 // tokens of one byte, -1 without one
	lacking      bool       // some byte has none
	pairs        pairTable
	memo         memo
	pieces       pieces
	specials     specialSet
	stops        []int32
	rowless      []string
	bos, eos     int32
	addBOS       bool
	scratch      sync.Pool // *mergeScratch
}

// New builds a tokenizer. The vocabulary must have a token for every byte, but for
// those that findBytes lets go, and every merge must join tokens into a token, so that
// any text can be encoded.
func New(v Vocab) (*Tokenizer, error) {
	s, ok := splitters[v.Pre]
	if !ok && !v.SentencePiece {
		return nil, fmt.Errorf("pre-tokenizer %q is not supported, want one of %q", v.Pre, splitterNames())
	}
	if err := checkVocab(v); err != nil {
		return nil, err
	}
	t := &Tokenizer{split: s, ignoreMerges: v.IgnoreMerges, bos: v.BOS, eos: v.EOS, addBOS: v.AddBOS && v.BOS >= 0,
		strips: map[int32]Strip{}, rowless: v.Rowless}
	for _, s := range v.Strips {
		t.strips[s.ID] = s
	}
	t.scratch.New = func() any { return new(mergeScratch) }
	t.kinds = kindsOf(v)
	t.memo = newMemo(len(v.Tokens))
	t.pieces = newPieces()
	load := t.loadBytes
	if v.SentencePiece {
		load = t.loadSentences
	}
	if err := load(v); err != nil {
		return nil, err
	}
	t.stops = t.findStops(v)
	return t, nil
}

// loadBytes takes over a vocabulary of byte-level BPE.
func (t *Tokenizer) loadBytes(v Vocab) error {
	t.tokens = newTokenTable(v.Tokens, t.kinds, false)
	if err := t.findBytes(); err != nil {
		return err
	}
	if err := t.addMerges(v); err != nil {
		return err
	}
	return t.specials.build(v.Tokens, t.kinds, typeControl, typeUserDefined)
}

const tokensMax = 1 << 24 // far above any model; keeps ids and their sums inside an int32

func checkVocab(v Vocab) error {
	n := len(v.Tokens)
	if n == 0 || n > tokensMax {
		return fmt.Errorf("the vocabulary has %d tokens, want 1 to %d", n, tokensMax)
	}
	if len(v.Types) != 0 && len(v.Types) != n {
		return fmt.Errorf("the vocabulary has %d tokens but %d token types", n, len(v.Types))
	}
	for i, typ := range v.Types {
		if typ < 0 || typ > typeByte {
			return fmt.Errorf("token %d has the unknown type %d", i, typ)
		}
	}
	for _, special := range []struct {
		name string
		id   int32
	}{{"BOS", v.BOS}, {"EOS", v.EOS}, {"EOT", v.EOT}, {"padding", v.Pad}} {
		if special.id < -1 || int(special.id) >= n {
			return fmt.Errorf("the %s token is %d, the vocabulary ends at %d", special.name, special.id, n-1)
		}
	}
	for _, id := range v.Stops {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("a stop token is %d, the vocabulary ends at %d", id, n-1)
		}
	}
	return nil
}

// kindsOf narrows the types and marks rows that only fill up the matrix.
func kindsOf(v Vocab) []uint8 {
	kinds := make([]uint8, len(v.Tokens))
	for i, token := range v.Tokens {
		kinds[i] = typeNormal
		if len(v.Types) > 0 && v.Types[i] != 0 {
			kinds[i] = uint8(v.Types[i])
		}
		if isPaddingName(token, i) {
			kinds[i] = typeUnused
		}
	}
	return kinds
}

// isPaddingName recognizes "[PAD123]" as the name of token 123, by which
// converters fill a vocabulary that is smaller than the embedding matrix.
func isPaddingName(token string, id int) bool {
	return len(token) > 5 && token[:4] == "[PAD" && token == fmt.Sprintf("[PAD%d]", id)
}

// findBytes fills the first stage of merging: one token per byte value. Published
// vocabularies lack some: the 13 that UTF-8 never has, and whatever the texts did not
// have that they were made from, such as the first byte of unassigned characters.
// Those are left out of texts, as other programs do that run these models. Without a
// line break or a printable character of ASCII a vocabulary is of another kind.
func (t *Tokenizer) findBytes() error {
	for b := range 256 {
		id, ok := t.tokens.find(string([]byte{byte(b)}))
		switch {
		case !ok && (b == '\n' || b >= ' ' && b <= '~'):
			return fmt.Errorf("the vocabulary has no token for the byte 0x%02x", b)
		case !ok:
			id, t.lacking = -1, true
		}
		t.bytes[b] = id
	}
	return nil
}

// known is a text without the bytes that have no token.
func (t *Tokenizer) known(text string) string {
	at := 0
	for t.lacking && at < len(text) && t.bytes[text[at]] >= 0 {
		at++
	}
	if !t.lacking || at == len(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text))
	b.WriteString(text[:at])
	for ; at < len(text); at++ {
		if t.bytes[text[at]] >= 0 {
			b.WriteByte(text[at])
		}
	}
	return b.String()
}

// findStops lists what ends an answer: the tokens that the file names, and the
// usual end markers of chat models, which older files forget to name.
func (t *Tokenizer) findStops(v Vocab) []int32 {
	var stops []int32
	for _, id := range append([]int32{v.EOS, v.EOT}, v.Stops...) {
		if id >= 0 {
			stops = append(stops, id)
		}
	}
	for _, name := range []string{"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>",
		"<end_of_turn>", "<|return|>", "<|call|>"} {
		if id, ok := t.specials.ids[name]; ok && t.kinds[id] == typeControl {
			stops = append(stops, id)
		}
	}
	slices.Sort(stops)
	return slices.Compact(stops)
}

// Size is the number of tokens, padding included. The model's matrices may
// have more rows.
func (t *Tokenizer) Size() int { return len(t.kinds) }

// ID finds a special token by its name, or a normal token by the text it
// stands for ("Hello", " world").
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.specials.ids[token]; ok {
		return id, true
	}
	return t.tokens.find(token)
}

// Specials lists the names of control and user-defined tokens, in id order.
func (t *Tokenizer) Specials() []string { return slices.Clone(t.specials.names) }

// Rowless lists the names of tokens that a folder has and the model no rows for: as text they are not one token.
func (t *Tokenizer) Rowless() []string { return slices.Clone(t.rowless) }

// Stops lists the ids that end an answer, ascending.
func (t *Tokenizer) Stops() []int32 { return slices.Clone(t.stops) }

// BOS is the token before the first one, -1 when there is none, and whether
// prompts begin with it.
func (t *Tokenizer) BOS() (id int32, add bool) { return t.bos, t.addBOS }

// EOS is the token that ends a text, -1 when there is none.
func (t *Tokenizer) EOS() int32 { return t.eos }

// Unreachable lists the ids below Size that stand for nothing, unused ones and padding
// rows, ascending. Sampling must never choose one of them.
func (t *Tokenizer) Unreachable() []int32 {
	var out []int32
	for id, kind := range t.kinds {
		if kind == typeUnused {
			out = append(out, int32(id))
		}
	}
	return out
}

// Encode appends the ids of text to dst. Text is content: the names of special
// tokens are text like any other.
func (t *Tokenizer) Encode(dst []int32, text string) []int32 {
	return t.EncodeMax(dst, text, math.MaxInt)
}

// EncodeMax is Encode that stops, a little later, once dst has more than most ids,
// also within one piece.
func (t *Tokenizer) EncodeMax(dst []int32, text string, most int) []int32 {
	return t.encodePart(dst, text, most, true)
}

// encodePart is EncodeMax of the whole of a text, or of a part behind a special token.
func (t *Tokenizer) encodePart(dst []int32, text string, most int, whole bool) []int32 {
	if t.sentences != nil {
		return t.encodeSentences(dst, text, most, whole)
	}
	return t.encodePieces(dst, text, most)
}

// encodePieces appends the ids of a text, piece by piece.
func (t *Tokenizer) encodePieces(dst []int32, text string, most int) []int32 {
	for len(text) > 0 && len(dst) <= most {
		n := 0
		if t.sentences != nil {
			n = t.sentences.next(text)
		} else {
			n = t.split.next(text)
		}
		if n > blockBytes {
			dst = t.mergeLong(dst, text[:n], blockBytes, most)
		} else {
			dst = t.encodePiece(dst, text, n)
		}
		text = text[n:]
	}
	return dst
}

// encodePiece encodes a piece of the splitter, text[:n], of at most blockBytes.
func (t *Tokenizer) encodePiece(dst []int32, text string, n int) []int32 {
	if n == 1 {
		if id := t.bytes[text[0]]; id >= 0 {
			dst = append(dst, id)
		}
		return dst
	}
	if n > pieceBytesMax {
		return t.encodeNew(dst, text[:n])
	}
	key := keyOf(text, n)
	places := t.pieces.places(&key)
	for i := range places {
		if out, ok := places[i].find(dst, &key); ok {
			return out
		}
	}
	from := len(dst)
	dst = t.encodeNew(dst, text[:n])
	older(places).put(&key, dst[from:])
	return dst
}

// encodeNew encodes a piece that is not remembered.
func (t *Tokenizer) encodeNew(dst []int32, piece string) []int32 {
	if len(piece) <= t.tokens.longest {
		if id, ok := t.tokens.find(piece); ok && (t.ignoreMerges || t.isWhole(id, piece)) {
			return append(dst, id)
		}
	}
	return t.merge(dst, piece)
}

// isWhole reports whether the merges turn the text of token id into that one
// token. A few tokens of real vocabularies cannot be reached by merges. The
// answer is remembered, which makes most pieces one table look-up.
func (t *Tokenizer) isWhole(id int32, piece string) bool {
	whole, known := t.memo.get(id)
	if known {
		return whole
	}
	var buffer [shortPiece]int32
	ids := t.merge(buffer[:0], piece)
	whole = len(ids) == 1 && ids[0] == id
	t.memo.set(id, whole)
	return whole
}
