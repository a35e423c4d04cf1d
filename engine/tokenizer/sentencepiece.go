package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// spaceMark is what a vocabulary of SentencePiece writes for a space.
const spaceMark = "\u2581"

// Prefix says where a vocabulary of SentencePiece wants a space that a text does not have.
type Prefix struct {
	Space   bool // in front of a text
	Parts   bool // and behind each special token
	Missing bool // only where there is none already
	// Between user-defined tokens is where it stands, not in front of them: Parts counts these too.
	Between bool
}

// put is a text, or a part of one, with the space that it lacks.
func (p Prefix) put(text string, whole bool) string {
	if text == "" || !p.Space || !whole && !p.Parts || p.Missing && text[0] == ' ' {
		return text
	}
	return " " + text
}

// sentencePiece is what a vocabulary of SentencePiece needs beside its merges. Its
// tokens and texts have plain spaces here; a text's own U+2581 are read as such, as its
// makers do.
type sentencePiece struct {
	defined specialSet // user-defined tokens, which are found in any text
	prefix  Prefix
	// joins tells the last bytes of the characters that a token has in front of a space:
	// behind all others a text can be cut there.
	joins [256]bool
}

// newSentencePiece reads tokens, which have spaces for spaceMark.
func newSentencePiece(tokens []string, kinds []uint8, prefix Prefix) (*sentencePiece, error) {
	s := &sentencePiece{prefix: prefix}
	for id, token := range tokens {
		for i := 1; i < len(token) && kinds[id] == typeNormal; i++ {
			if token[i] == ' ' && token[i-1] != ' ' {
				s.joins[token[i-1]] = true
			}
		}
	}
	return s, s.defined.build(tokens, kinds, typeUserDefined)
}

// next is the length of the first piece of text that merges alone as it does within text:
// white space and what follows it.
func (s *sentencePiece) next(text string) int {
	for i := 1; ; i++ {
		at := strings.IndexByte(text[i:], ' ')
		if at < 0 {
			return len(text)
		}
		if i += at; text[i-1] != ' ' && !s.joins[text[i-1]] {
			return i
		}
	}
}

// encodeSentences appends the ids of a text, or of a part behind a special token.
func (t *Tokenizer) encodeSentences(dst []int32, text string, most int, whole bool) []int32 {
	s := t.sentences
	text = strings.ReplaceAll(text, spaceMark, " ")
	if !s.prefix.Between {
		text = s.prefix.put(text, whole)
	}
	between := func(part string, whole bool) string {
		if s.prefix.Between {
			return s.prefix.put(part, whole)
		}
		return part
	}
	from := 0 // of what is not encoded yet
	for i := s.defined.candidate(text, 0); i >= 0 && len(dst) <= most; i = s.defined.candidate(text, i) {
		id, n, _ := s.defined.matchAt(text[i:])
		if n == 0 {
			i++
			continue
		}
		dst = append(t.encodePieces(dst, between(text[from:i], whole && from == 0), most), id)
		i += n
		from = i
	}
	return t.encodePieces(dst, between(text[from:], whole && from == 0), most)
}

// characters appends a token for each character of piece, or for each byte of a character
// that is none.
func (t *Tokenizer) characters(dst []int32, piece string) []int32 {
	for i := 0; i < len(piece); {
		_, width := utf8.DecodeRuneInString(piece[i:])
		if id, ok := t.tokens.find(piece[i : i+width]); ok && width > 1 {
			dst = append(dst, id)
			i += width
			continue
		}
		for end := i + width; i < end; i++ {
			dst = append(dst, t.bytes[piece[i]])
		}
	}
	return dst
}

// loadSentences takes over a vocabulary of SentencePiece. Its user-defined tokens are text
// like any other: only control tokens are special.
func (t *Tokenizer) loadSentences(v Vocab) (err error) {
	v.Tokens = slices.Clone(v.Tokens)
	for i, token := range v.Tokens {
		v.Tokens[i] = strings.ReplaceAll(token, spaceMark, " ")
	}
	t.tokens = newTokenTable(v.Tokens, t.kinds, true)
	if t.sentences, err = newSentencePiece(v.Tokens, t.kinds, v.Prefix); err != nil {
		return err
	}
	if err := t.findCharacters(); err != nil {
		return err
	}
	if err := t.specials.build(v.Tokens, t.kinds, typeControl); err != nil {
		return err
	}
	if len(v.Merges) > 0 {
		return t.addMerges(v)
	}
	return t.addScores(v.Scores)
}

// findCharacters fills in the tokens of bytes: those of ASCII characters, and byte tokens
// for all others.
func (t *Tokenizer) findCharacters() error {
	for b := range t.bytes {
		t.bytes[b] = -1
	}
	for id, kind := range t.kinds {
		if text := t.tokens.bytes(int32(id)); kind == typeByte && len(text) == 1 {
			t.bytes[text[0]] = int32(id)
		}
	}
	for b := range t.bytes {
		if id, ok := t.tokens.find(string(rune(b))); ok && b < utf8.RuneSelf {
			t.bytes[b] = id
		}
		if t.bytes[b] < 0 {
			return fmt.Errorf("the vocabulary has no token for the byte 0x%02x", b)
		}
	}
	return nil
}

// merged is one way to make a token of two.
type merged struct {
	left, right, token int32
	rank               int
}

// scoredBytesMax bounds a token that merges by its score, since each place is tried where it can be cut. Published
// vocabularies have runs of spaces of a hundred bytes or so.
const scoredBytesMax = 1 << 10

// addScores fills the pair table: any two tokens whose text is a token's merge into it, the
// token with the best score first.
func (t *Tokenizer) addScores(scores []float32) error {
	if len(scores) != len(t.kinds) {
		return fmt.Errorf("the vocabulary has %d tokens but %d scores", len(t.kinds), len(scores))
	}
	var order []int32
	for id := range t.kinds {
		if text := t.tokens.bytes(int32(id)); len(text) > 1 {
			if len(text) > scoredBytesMax && t.kinds[id] == typeNormal {
				return fmt.Errorf("token %d has %d bytes, want at most %d", id, len(text), scoredBytesMax)
			}
			if found, ok := t.tokens.find(text); ok && found == int32(id) {
				order = append(order, found)
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	var all []merged
	for rank, id := range order {
		text := t.tokens.bytes(id)
		for cut := range text {
			if cut == 0 {
				continue
			}
			left, ok := t.tokens.find(text[:cut])
			right, okRight := t.tokens.find(text[cut:])
			if ok && okRight {
				all = append(all, merged{left, right, id, rank})
			}
		}
	}
	t.pairs = newPairTable(len(all))
	for _, m := range all {
		t.pairs.insert(m.left, m.right, m.rank, m.token)
	}
	return nil
}
