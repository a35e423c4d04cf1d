package scan

import (
	"math"
	"slices"
)

// Grouped is the places of names in an order in which the same ones are beside each other, the first
// one first. Sorting words takes a guest a fraction of what sorting names does, and clients choose the names.
func Grouped(names [][]byte) []int {
	words := make([]uint64, len(names))
	for i := range words {
		words[i] = uint64(i)
	}
	groupFrom(names, words, 0)
	places := make([]int, len(names))
	for i, word := range words {
		places[i] = int(uint32(word))
	}
	return places
}

// pieceBytes of a name and how many they are, fewer at its end, are the upper half of a word; the lower one
// is the place of the name.
const pieceBytes = 3

// groupFrom sorts words whose names are the same before from.
func groupFrom(names [][]byte, words []uint64, from int) {
	for len(words) > 1 {
		for i, word := range words {
			words[i] = piece(names[uint32(word)], from)<<32 | word&math.MaxUint32
		}
		slices.Sort(words)
		from += pieceBytes
		if words[0]>>32 != words[len(words)-1]>>32 {
			break
		}
		if ends(words[0]) {
			return
		}
	}
	for len(words) > 1 {
		same := 1
		for same < len(words) && words[same]>>32 == words[0]>>32 {
			same++
		}
		if !ends(words[0]) {
			groupFrom(names, words[:same], from)
		}
		words = words[same:]
	}
}

// ends says that a word's name ends in its piece: so do all that have the same one, which are the same then.
func ends(word uint64) bool { return word>>32&0xff < pieceBytes }

// piece is the bytes of a name from a place on, at most pieceBytes of them, and
// how many they are.
func piece(name []byte, from int) uint64 {
	var p uint64
	end := min(len(name), from+pieceBytes)
	for i := from; i < from+pieceBytes; i++ {
		p <<= 8
		if i < end {
			p |= uint64(name[i])
		}
	}
	return p<<8 | uint64(end-from)
}
