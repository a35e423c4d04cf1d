package tokenizer

import "unicode/utf8"

// blockBytes is how much of a long piece is merged at a time: more than all but
// hostile pieces have, in 2 MB of scratch.
const blockBytes = scratchKept

// mergeLong appends the ids that a piece of any length merges into, which are
// those that merging it at once would give, in memory for about block bytes of it.
// It stops at the end of a block once dst has more than most ids.
//
// Merges are local: two neighbors of the result that stay apart when they alone
// are merged stay apart in any text. So blocks are merged one after the other, the
// last tokens of each once more with the next block, since they may become others
// with what follows. Where the two do not stay apart, the next block begins
// earlier, twice as many tokens each time, in the end with the piece.
func (t *Tokenizer) mergeLong(dst []int32, piece string, block, most int) []int32 {
	if piece = t.known(piece); piece == "" { // here, as places in it are counted by the bytes of tokens
		return dst
	}
	s := t.scratch.Get().(*mergeScratch)
	defer func() {
		if cap(s.ids) <= scratchKept {
			t.scratch.Put(s)
		}
	}()
	tail := min(block/2, 8*t.tokens.longest)
	from, at := len(dst), 0 // dst[from:] stands for piece[:at]
	for done, back, more := 0, 1, 0; ; {
		start, end := len(dst), t.cut(piece, min(len(piece), at+block+more))
		dst = s.merge(t, dst, piece[at:end])
		if start > from && !t.apart(dst[start-1], dst[start]) {
			dst, more = t.takeBack(dst[:start], from, back, end-at)
			at, back = end-more, 2*back
			continue
		}
		if end == len(piece) || start > most {
			return dst
		}
		for at = end; at > end-tail; dst = dst[:len(dst)-1] {
			last := len(t.tokens.bytes(dst[len(dst)-1]))
			if at-last <= done { // each block must come further than those before it
				break
			}
			at -= last
		}
		done, back, more = at, 1, 0
	}
}

// cut is where a block of piece ends that could end at a place: with SentencePiece not within
// a character, which blocks are much longer than.
func (t *Tokenizer) cut(piece string, at int) int {
	for k := at; t.sentences != nil && k > at-utf8.UTFMax && k < len(piece); k-- {
		if utf8.RuneStart(piece[k]) {
			return k
		}
	}
	return at
}

// takeBack takes up to n ids from the end of dst, but none before from, and adds
// the bytes that they stand for to a length.
func (t *Tokenizer) takeBack(dst []int32, from, n, length int) ([]int32, int) {
	for ; n > 0 && len(dst) > from; n-- {
		length += len(t.tokens.bytes(dst[len(dst)-1]))
		dst = dst[:len(dst)-1]
	}
	return dst, length
}

// apart says whether two tokens beside each other do not merge.
func (t *Tokenizer) apart(a, b int32) bool {
	var buffer [shortPiece]int32
	ids := t.merge(buffer[:0], t.tokens.bytes(a)+t.tokens.bytes(b))
	return len(ids) == 2 && ids[0] == a && ids[1] == b
}
