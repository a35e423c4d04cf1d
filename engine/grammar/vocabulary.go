package grammar

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Vocabulary is a model's tokens in the order in which a matcher walks them. It
// does not change and is safe for concurrent use.
type Vocabulary struct {
	size    int
	texts   [][]byte // by id; nil for tokens that stand for nothing
	longest int32    // bytes of a token, at most longestMax
	stops   []int32
	marker  int32 // the token that begins a call; -1 without one
	all     walk
	// rest is what of all is not of a class of plain tokens; those are in plain.
	rest  [plainKinds]walk
	plain [plainKinds]idSet
}

// longestMax is the most bytes of a token for which a string with a limit keeps room. A
// longer token may lead beyond the limit.
const longestMax = 512

// walk lists tokens so that those with the same beginning follow each other.
type walk struct {
	ids  []int32
	same []uint16 // bytes that a token shares with the one before
}

// idSet is a set of token ids.
type idSet []uint64

func (b idSet) set(id int32) { b[id>>6] |= 1 << (id & 63) }

// NewVocabulary takes size tokens. text gives the bytes that a token stands for, none
// for control tokens, which are never allowed but for the stops: those end an answer.
// marker is the token that begins a call, which stands for no bytes; -1 without one.
func NewVocabulary(size int, text func(id int32) []byte, stops []int32, marker int32) *Vocabulary {
	texts := make([][]byte, size)
	v := &Vocabulary{size: size, texts: texts, stops: stops, marker: marker}
	for id := range int32(size) {
		if t := text(id); len(t) > 0 && len(t) < 1<<16 && id != marker && !slices.Contains(stops, id) {
			texts[id] = t
			v.longest = max(v.longest, min(longestMax, int32(len(t))))
			v.all.ids = append(v.all.ids, id)
		}
	}
	slices.SortFunc(v.all.ids, func(a, b int32) int { return bytes.Compare(texts[a], texts[b]) })
	v.all.fill(texts)
	for _, of := range []plain{plainJSON, plainText} {
		v.plain[of] = make(idSet, (size+63)/64)
		for _, id := range v.all.ids {
			if of.matches(texts[id]) {
				v.plain[of].set(id)
			} else {
				v.rest[of].ids = append(v.rest[of].ids, id)
			}
		}
		v.rest[of].fill(texts)
	}
	return v
}

func (w *walk) fill(texts [][]byte) {
	var before []byte
	for _, id := range w.ids {
		t := texts[id]
		n := 0
		for n < len(t) && n < len(before) && t[n] == before[n] {
			n++
		}
		w.same = append(w.same, uint16(n))
		before = t
	}
}

var plainASCII = [plainKinds]byteSet{plainJSON: span(0x20, 0x7e).without(`"\<`), plainText: textASCII}

// holds says whether a token is of the class: a few whole characters of it.
func (p plain) matches(text []byte) bool {
	if len(text) > plainMax || !utf8.Valid(text) {
		return false
	}
	for _, c := range text {
		if c < utf8.RuneSelf && !plainASCII[p].has(c) {
			return false
		}
	}
	return true
}
