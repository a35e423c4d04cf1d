package extensions

import (
	"sync"

	"corenode/wasm/abi"
)

// scratch is what one call needs: its input and the copy of its output. They
// are used for the length of a call and then by another.
type scratch struct {
	in, out []byte
	held    []abi.Counter // what a charge's request holds of counters, of whichever module; the caller's
}

// scratchKeep is the most that a scratch may hold to be kept for the next call.
const scratchKeep = 256 << 10

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func takeScratch() *scratch { return scratches.Get().(*scratch) }

// putScratch gives s back; nothing may alias it any more.
func putScratch(s *scratch) {
	s.held = nil
	if cap(s.in)+cap(s.out) > scratchKeep {
		return
	}
	s.in, s.out = s.in[:0], s.out[:0]
	scratches.Put(s)
}
