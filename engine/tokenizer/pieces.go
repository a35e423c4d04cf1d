package tokenizer

import (
	"math/bits"
	"sync/atomic"
)

const (
	pieceSlots    = 1 << 14 // a power of two; 1 MB, of which the system gives what is touched
	pieceBytesMax = 23      // of a remembered piece
	pieceIDsMax   = 8
)

// pieces remembers the ids of short pieces: text repeats its words, numbers
// and punctuation. Each piece has two places, each one cache line, and takes the
// one that changed hands less often.
type pieces struct{ slots []pieceSlot }

// pieceSlot is one piece and its ids. Readers and writers need no lock: a
// writer makes state odd while it writes, and a reader who finds it odd, or
// changed after he has read, knows nothing. A writer who finds it odd gives up.
type pieceSlot struct {
	state atomic.Uint64 // number of writes << 8 | number of ids << 1 | being written
	key   [3]atomic.Uint64
	ids   [pieceIDsMax / 2]atomic.Uint64 // two each, the first one low
}

// pieceKey holds the bytes of a piece, followed by zeros, and in the last one its length.
type pieceKey [3]uint64

func newPieces() pieces { return pieces{make([]pieceSlot, pieceSlots)} }

// keyOf is the key of text[:n]; n is 1 to pieceBytesMax.
func keyOf(text string, n int) (k pieceKey) {
	if len(text) < 24 {
		var padded [24]byte
		copy(padded[:], text[:n])
		text = string(padded[:]) // stays on the stack
	}
	k[0] = load64(text)
	if n <= 8 {
		k[0] &= ^uint64(0) >> (64 - 8*n)
	} else {
		k[1] = load64(text[8:])
		if n <= 16 {
			k[1] &= ^uint64(0) >> (128 - 8*n)
		} else {
			k[2] = load64(text[16:]) & (^uint64(0) >> (192 - 8*n))
		}
	}
	k[2] |= uint64(n) << 56
	return k
}

// places are the two places of a piece.
func (p *pieces) places(k *pieceKey) *[2]pieceSlot {
	hi, lo := bits.Mul64(k[0]^bits.RotateLeft64(k[1], 29)^k[2]*0xd6e8feb86659fd93, 0x9e3779b97f4a7c15)
	return (*[2]pieceSlot)(p.slots[(hi^lo>>32)&(pieceSlots-2):])
}

// older is the place to write to.
func older(places *[2]pieceSlot) *pieceSlot {
	if places[1].state.Load()>>8 < places[0].state.Load()>>8 {
		return &places[1]
	}
	return &places[0]
}

// find appends the ids of a piece; ok is false when they are not known.
func (s *pieceSlot) find(dst []int32, k *pieceKey) (out []int32, ok bool) {
	state := s.state.Load()
	if s.key[0].Load() != k[0] || s.key[2].Load() != k[2] || s.key[1].Load() != k[1] || state&1 != 0 {
		return dst, false
	}
	n := int(state >> 1 & 0x7f)
	first := s.ids[0].Load()
	if n == 1 {
		if s.state.Load() != state {
			return dst, false
		}
		return append(dst, int32(first)), true
	}
	var ids [pieceIDsMax]int32
	for i := range (n + 1) / 2 {
		two := s.ids[i].Load()
		ids[2*i], ids[2*i+1] = int32(two), int32(two>>32)
	}
	if s.state.Load() != state {
		return dst, false
	}
	return append(dst, ids[:n]...), true
}

// put remembers the ids of a piece, if they are few enough.
func (s *pieceSlot) put(k *pieceKey, ids []int32) {
	state := s.state.Load()
	if len(ids) > pieceIDsMax || state&1 != 0 || !s.state.CompareAndSwap(state, state|1) {
		return
	}
	for i := range k {
		s.key[i].Store(k[i])
	}
	for i := 0; i < len(ids); i += 2 {
		two := uint64(uint32(ids[i]))
		if i+1 < len(ids) {
			two |= uint64(ids[i+1]) << 32
		}
		s.ids[i/2].Store(two)
	}
	s.state.Store((state>>8+1)<<8 | uint64(len(ids))<<1)
}
