package scan

import (
	"bytes"
	"slices"
)

// Duplicate reads a value and looks for an object in it, at any depth, that
// has one name twice. It returns the path of the second one within the value,
// such as "a.0.b", and stops there. Other reads leave such objects as they
// are, as RFC 8259 allows; the messages protocol refuses them.
func (s *Scanner) Duplicate() (path string, found bool) {
	path, found = s.duplicate(s.names[:0], s.depth)
	clear(s.names) // keep the room, not the text
	return path, found
}

// duplicate searches the value the scanner stands before. names holds the
// names of the objects that are open, each object's behind its parent's; levels
// from base on are within the value that Duplicate reads.
func (s *Scanner) duplicate(names [][]byte, base int) (path string, found bool) {
	object := s.Kind() == Object
	own := len(names)
	if !s.Open() {
		s.Skip()
		return "", false
	}
	for s.Next() {
		if object {
			names = append(names, s.Key())
		}
		if k := s.Kind(); k == Object || k == Array {
			if path, found = s.duplicate(names, base); found {
				return path, true
			}
		}
	}
	if cap(names) > cap(s.names) {
		s.names = names
	}
	twice := repeated(names[own:])
	if twice == nil {
		return "", false
	}
	if path = s.path(base); path != "" {
		path += "."
	}
	return path + string(twice), true
}

// fewNames is how many names are quicker compared in pairs than sorted.
const fewNames = 8

// repeated returns a name that is among names twice, or nil; it may reorder them.
func repeated(names [][]byte) []byte {
	switch {
	case len(names) <= fewNames:
		for i, a := range names {
			for _, b := range names[:i] {
				if len(a) == len(b) && string(a) == string(b) {
					return append([]byte{}, a...)
				}
			}
		}
		return nil
	case len(names) > 1<<placeBits:
		return repeatedSorted(names)
	}
	order := make([]uint64, len(names))
	for i := range order {
		order[i] = uint64(i)
	}
	return repeatedFrom(names, order, 0)
}

const (
	// placeBits of a word are the place of a name among names, the others the
	// piece of it that is looked at.
	placeBits  = 24
	pieceBytes = 4
	// piecesTo is how far into names pieces go: names that are the same so far
	// are long, and so few.
	piecesTo = 16 * pieceBytes
)

// repeatedFrom is repeated for the names at the places in order, which are the
// same before from. Sorting words takes a guest a fraction of what sorting names
// does, and clients choose the names.
func repeatedFrom(names [][]byte, order []uint64, from int) []byte {
	for i, word := range order {
		place := word & (1<<placeBits - 1)
		order[i] = piece(names[place], from)<<placeBits | place
	}
	slices.Sort(order)
	for len(order) > 0 {
		same := 1
		for same < len(order) && order[same]>>placeBits == order[0]>>placeBits {
			same++
		}
		group := order[:same]
		order = order[same:]
		if same == 1 {
			continue
		}
		first := names[group[0]&(1<<placeBits-1)]
		if len(first) < from+pieceBytes { // it ends in this piece, and so do the others
			return append([]byte{}, first...)
		}
		if from < piecesTo {
			if twice := repeatedFrom(names, group, from+pieceBytes); twice != nil {
				return twice
			}
			continue
		}
		long := make([][]byte, same)
		for i, word := range group {
			long[i] = names[word&(1<<placeBits-1)]
		}
		if twice := repeatedSorted(long); twice != nil {
			return twice
		}
	}
	return nil
}

// piece is the bytes of a name from a place on, at most pieceBytes of them, and
// how many they are.
func piece(name []byte, from int) uint64 {
	var p uint64
	end := min(len(name), from+pieceBytes)
	for i := from; i < end; i++ {
		p = p<<8 | uint64(name[i])
	}
	return p<<8 | uint64(end-from)
}

// repeatedSorted sorts the names themselves.
func repeatedSorted(names [][]byte) []byte {
	slices.SortFunc(names, bytes.Compare)
	for i := 1; i < len(names); i++ {
		if bytes.Equal(names[i-1], names[i]) {
			return append([]byte{}, names[i]...)
		}
	}
	return nil
}
