package tokenizer

import (
	"fmt"
	"strings"
)

// addMerges fills the pair table. A merge that involves a special token is
// left out: merging must never make one. A merge of or into nothing means that
// the vocabulary and the merges are not of one model.
func (t *Tokenizer) addMerges(v Vocab) error {
	special := make(map[string]bool)
	for id, kind := range t.kinds {
		if kind != typeNormal {
			special[v.Tokens[id]] = true
		}
	}
	t.pairs = newPairTable(len(v.Merges))
	var buffer []byte
	for rank, merge := range v.Merges {
		left, right, ok := strings.Cut(merge, " ")
		if !ok || left == "" || right == "" {
			return fmt.Errorf("merge %d is %q, want two tokens and a space", rank, merge)
		}
		buffer = t.meant(buffer[:0], left)
		cut := len(buffer)
		buffer = t.meant(buffer, right)
		joined := string(buffer)
		a, okA := t.tokens.find(joined[:cut])
		b, okB := t.tokens.find(joined[cut:])
		c, okC := t.tokens.find(joined)
		switch {
		case okA && okB && okC:
			if v.Ranked {
				rank = int(c)
			}
			t.pairs.insert(a, b, rank, c)
			if len(joined) == 2 && t.sentences == nil {
				t.pairs.insertBytes(joined[0], joined[1], t.pairs.find(a, b))
			}
		case special[left] || special[right] || special[left+right]:
		default:
			return fmt.Errorf("merge %d (%q) is not of two tokens into a token of the vocabulary", rank, merge)
		}
	}
	return nil
}

// meant appends what a normal token of the vocabulary stands for.
func (t *Tokenizer) meant(dst []byte, token string) []byte {
	if t.sentences != nil {
		return append(dst, strings.ReplaceAll(token, spaceMark, " ")...)
	}
	dst, _ = tokenBytes(dst, token, typeNormal)
	return dst
}

// shortPiece is the length in bytes up to which looking at every pair again
// after each merge is faster than a heap.
const shortPiece = 48

// merge appends the ids that the bytes of piece merge into, which has at most
// scratchKept bytes. Those without a token are left out first, so that what stands
// around them are neighbors.
func (t *Tokenizer) merge(dst []int32, piece string) []int32 {
	if piece = t.known(piece); piece == "" {
		return dst
	}
	if len(piece) <= shortPiece {
		return t.mergeShort(dst, piece)
	}
	s := t.scratch.Get().(*mergeScratch)
	defer t.scratch.Put(s)
	return s.merge(t, dst, piece)
}

// mergeShort merges the leftmost of the best pairs until none is left. Equal
// values are equal pairs, so comparing values compares ranks.
func (t *Tokenizer) mergeShort(dst []int32, piece string) []int32 {
	var idBuffer [shortPiece]int32
	var valueBuffer [shortPiece]uint64
	ids := t.symbols(idBuffer[:0], piece)
	values := valueBuffer[:len(ids)-1] // values[i] is of ids[i], ids[i+1]
	t.firstValues(values, ids, piece)
	for {
		best, at := noPair, 0
		for i, value := range values {
			if value < best {
				best, at = value, i
			}
		}
		if best == noPair {
			return append(dst, ids...)
		}
		ids[at] = int32(uint32(best))
		ids = append(ids[:at+1], ids[at+2:]...)
		values = append(values[:at], values[at+1:]...)
		if at < len(values) {
			values[at] = t.pairs.find(ids[at], ids[at+1])
		}
		if at > 0 {
			values[at-1] = t.pairs.find(ids[at-1], ids[at])
		}
	}
}

// symbols appends what merging begins with: a token for each byte or character of piece,
// whose bytes all have one.
func (t *Tokenizer) symbols(dst []int32, piece string) []int32 {
	if t.sentences != nil {
		return t.characters(dst, piece)
	}
	for i := range len(piece) {
		dst = append(dst, t.bytes[piece[i]])
	}
	return dst
}

// firstValues writes the values of all pairs of symbols of piece.
func (t *Tokenizer) firstValues(values []uint64, symbols []int32, piece string) {
	if t.sentences != nil {
		for i := range values {
			values[i] = t.pairs.find(symbols[i], symbols[i+1])
		}
		return
	}
	for i := range values {
		values[i] = t.pairs.findBytes(piece[i], piece[i+1])
	}
}

// scratchKept bounds the memory that stays in the pool: 64 Ki positions, about
// 2 MB. What is longer is merged in blocks.
const scratchKept = 1 << 16

// mergeScratch merges one long piece in O(n log n): a linked list of ids over
// the symbols and a heap of candidate pairs. At most one entry is
// pushed per changed pair, so the heap holds at most 3n entries.
type mergeScratch struct {
	ids        []int32
	next, prev []int32  // positions; -1 = none
	values     []uint64 // of the pair that starts here; noPair when dead or last
	heap       []uint64 // rank<<32 | position, smallest first; stale entries are skipped
	pushed     int      // entries that the heap has had, the measure of the work
}

func (s *mergeScratch) merge(t *Tokenizer, dst []int32, piece string) []int32 {
	s.start(t, piece)
	for len(s.heap) > 0 {
		entry := s.pop()
		at := int32(uint32(entry))
		value := s.values[at]
		if value == noPair || value>>32 != entry>>32 {
			continue // the pair has changed since
		}
		right := s.next[at]
		s.ids[at] = int32(uint32(value))
		s.values[right] = noPair
		s.next[at] = s.next[right]
		if after := s.next[at]; after >= 0 {
			s.prev[after] = at
		}
		s.refresh(t, at)
		if before := s.prev[at]; before >= 0 {
			s.refresh(t, before)
		}
	}
	for at := int32(0); at >= 0; at = s.next[at] {
		dst = append(dst, s.ids[at])
	}
	return dst
}

// start lays out the symbols and heapifies all pairs.
func (s *mergeScratch) start(t *Tokenizer, piece string) {
	s.ids = t.symbols(resize(s.ids, len(piece))[:0], piece)
	n := len(s.ids)
	s.next, s.prev = resize(s.next, n), resize(s.prev, n)
	s.values, s.heap = resize(s.values, n), s.heap[:0]
	for i := range n {
		s.next[i], s.prev[i] = int32(i+1), int32(i-1)
	}
	s.next[n-1] = -1
	s.values[n-1] = noPair
	t.firstValues(s.values[:n-1], s.ids, piece)
	for i := range n - 1 {
		if s.values[i] != noPair {
			s.heap = append(s.heap, s.values[i]>>32<<32|uint64(i))
		}
	}
	s.pushed = len(s.heap)
	for i := (len(s.heap) - 2) / heapWays; i >= 0; i-- {
		s.down(i)
	}
}

// refresh looks the pair at a position up again after one of its ids changed.
func (s *mergeScratch) refresh(t *Tokenizer, at int32) {
	s.values[at] = noPair
	if right := s.next[at]; right >= 0 {
		s.values[at] = t.pairs.find(s.ids[at], s.ids[right])
	}
	if s.values[at] != noPair {
		s.push(s.values[at]>>32<<32 | uint64(uint32(at)))
	}
}

// heapWays is how many children an entry of the heap has. With four the heap is
// half as deep as with two, and siblings share a cache line.
const heapWays = 4

func (s *mergeScratch) push(entry uint64) {
	s.heap = append(s.heap, entry)
	s.pushed++
	for i := len(s.heap) - 1; i > 0; {
		parent := (i - 1) / heapWays
		if s.heap[parent] <= entry {
			break
		}
		s.heap[i], s.heap[parent] = s.heap[parent], entry
		i = parent
	}
}

func (s *mergeScratch) pop() uint64 {
	top, last := s.heap[0], len(s.heap)-1
	s.heap[0] = s.heap[last]
	s.heap = s.heap[:last]
	s.down(0)
	return top
}

// down restores the heap below i.
func (s *mergeScratch) down(i int) {
	h := s.heap
	for {
		child := heapWays*i + 1
		if child >= len(h) {
			return
		}
		for other := child + 1; other < min(heapWays*i+1+heapWays, len(h)); other++ {
			if h[other] < h[child] {
				child = other
			}
		}
		if h[i] <= h[child] {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// resize returns a slice of length n with any content, reusing s if it fits.
func resize[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
