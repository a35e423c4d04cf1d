package tokenizer

import (
	"hash/maphash"
	"slices"
	"strings"
	"sync/atomic"
)

const (
	pieceSlots    = 1 << 12 // a power of two; full, some 500 KB
	pieceBytesMax = 32      // of a remembered piece
)

// pieces remembers what short pieces merge into: text repeats its words, and
// those that are no token of their own take a merge per token boundary. Each
// piece has one place, which the latest to need it takes. Entries are
// immutable; racing writers lose at most a memory.
type pieces struct {
	slots []atomic.Pointer[merged]
	seed  maphash.Seed
}

// merged is one piece and its ids.
type merged struct {
	piece string
	ids   []int32
}

func newPieces() pieces {
	return pieces{slots: make([]atomic.Pointer[merged], pieceSlots), seed: maphash.MakeSeed()}
}

// slot is the place of a piece.
func (p *pieces) slot(piece string) *atomic.Pointer[merged] {
	return &p.slots[maphash.String(p.seed, piece)&(pieceSlots-1)]
}

// mergeRemembered is merge for a piece of any length, remembering short ones.
func (t *Tokenizer) mergeRemembered(dst []int32, piece string) []int32 {
	if len(piece) > pieceBytesMax {
		return t.merge(dst, piece)
	}
	slot := t.pieces.slot(piece)
	if m := slot.Load(); m != nil && m.piece == piece {
		return append(dst, m.ids...)
	}
	from := len(dst)
	dst = t.merge(dst, piece)
	slot.Store(&merged{strings.Clone(piece), slices.Clone(dst[from:])}) // a part of dst or of a prompt would keep all of it
	return dst
}
