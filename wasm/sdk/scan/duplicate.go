package scan

import "bytes"

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

// repeated returns a name that is among names twice, or nil.
func repeated(names [][]byte) []byte {
	if len(names) <= fewNames {
		for i, a := range names {
			for _, b := range names[:i] {
				if len(a) == len(b) && string(a) == string(b) {
					return append([]byte{}, a...)
				}
			}
		}
		return nil
	}
	places := Grouped(names)
	for i, at := range places[1:] {
		if name := names[at]; bytes.Equal(name, names[places[i]]) {
			return append([]byte{}, name...)
		}
	}
	return nil
}
