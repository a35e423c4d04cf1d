package draft

import "math/bits"

const (
	// Runs of this many tokens are found again: long ones first, all of the
	// latest places; of a short one only the latest place.
	longRun, shortRun = 4, 2
	// placesMax is how many places of a long run are compared.
	placesMax = 8
	// matchMax is how many tokens are compared at a place. Where so many are equal,
	// an older place is not looked for.
	matchMax = 32
	// The window is how many of the latest tokens can be found. It doubles as the
	// sequence grows; at most, the books take 20 bytes times windowMax.
	windowMin, windowMax = 1 << 8, 1 << 16
)

// lookup finds the latest tokens of a sequence at an earlier place of it. A place
// is the position after a run of tokens; 0 is none, since no run ends there. Its
// work is bounded for each token: a few hashes and placesMax comparisons of at
// most matchMax tokens.
type lookup struct {
	next   int     // places before it are in the books
	window int     // a power of two
	long   []int32 // by hash of a long run: its latest place; twice the window, as short
	before []int32 // by place modulo window: the one before it with the same hash
	short  []int32 // by hash of a short run: its latest place
}

// follow appends TokensMax tokens that may come after tokens, and says how many of
// the latest tokens also stand before the place they come from; 0 for none.
func (l *lookup) follow(dst, tokens []int32) (draft []int32, match int) {
	l.extend(tokens)
	place, match := l.find(tokens)
	if match < shortRun {
		return dst, 0
	}
	from := len(dst)
	for i := range TokensMax {
		// Behind the end of the sequence the draft goes on from its own beginning:
		// what repeats with a period is expected to go on so.
		if at := place + i; at < len(tokens) {
			dst = append(dst, tokens[at])
		} else {
			dst = append(dst, dst[from+at-len(tokens)])
		}
	}
	return dst, match
}

// find returns the place with the longest match, the latest of several.
func (l *lookup) find(tokens []int32) (place, match int) {
	n := len(tokens)
	if n < shortRun {
		return 0, 0
	}
	if n >= longRun {
		at := int(l.long[l.hash(tokens[n-longRun:])])
		for i := 0; i < placesMax && at > n-l.window && at > 0; i++ {
			if m := equal(tokens, at); m > match {
				place, match = at, m
			}
			if match == matchMax {
				return place, match
			}
			earlier := int(l.before[at&(l.window-1)])
			if earlier >= at {
				break // overwritten by a later place
			}
			at = earlier
		}
	}
	if match < longRun {
		if at := int(l.short[l.hash(tokens[n-shortRun:])]); at > 0 {
			return at, equal(tokens, at)
		}
	}
	return place, match
}

// equal is how many tokens before place and before the end are the same.
func equal(tokens []int32, place int) int {
	n := 0
	for n < min(place, matchMax) && tokens[place-1-n] == tokens[len(tokens)-1-n] {
		n++
	}
	return n
}

// extend brings the places up to the last token into the books: the end itself is
// no place yet, as nothing follows it.
func (l *lookup) extend(tokens []int32) {
	if len(tokens) > l.window && l.window < windowMax {
		l.resize(min(windowMax, max(windowMin, 1<<bits.Len(uint(len(tokens))))))
	}
	l.next = max(l.next, shortRun, len(tokens)-l.window)
	for ; l.next < len(tokens); l.next++ {
		l.short[l.hash(tokens[l.next-shortRun:l.next])] = int32(l.next)
		if l.next < longRun {
			continue
		}
		h := l.hash(tokens[l.next-longRun : l.next])
		l.before[l.next&(l.window-1)] = l.long[h]
		l.long[h] = int32(l.next)
	}
}

// resize empties the books; extend fills them again.
func (l *lookup) resize(window int) {
	all := make([]int32, 5*window)
	l.window, l.next = window, 0
	l.long, l.before, l.short = all[:2*window], all[2*window:3*window], all[3*window:]
}

// hash is below twice the window. Equal hashes of different runs cost a comparison,
// or a draft.
func (l *lookup) hash(run []int32) int {
	h := uint64(len(run))
	for _, id := range run {
		h = (h ^ uint64(uint32(id))) * 0x9e3779b97f4a7c15
		h ^= h >> 32
	}
	return int(h) & (2*l.window - 1)
}
