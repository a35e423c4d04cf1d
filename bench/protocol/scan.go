package protocol

// scanner walks over one JSON value without building it: an event of a stream
// is some hundred bytes of which one or two members count, and a load generator
// reads hundreds of thousands of them a second beside the server it measures.
//
// It checks no more than it needs to find its way. What it cannot find its way
// through sets bad, and every later step then finds nothing.
type scanner struct {
	b   []byte
	at  int
	bad bool
}

func (s *scanner) peek() byte {
	for s.at < len(s.b) {
		switch c := s.b[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		default:
			return c
		}
	}
	return 0
}

// take reads one byte that must be there.
func (s *scanner) take(want byte) bool {
	if s.bad || s.peek() != want {
		s.bad = true
		return false
	}
	s.at++
	return true
}

// fields yields the keys of an object, as they stand in the text; another value
// is skipped. The value of a key is read by the loop's body, or skipped when it
// was not.
func (s *scanner) fields(yield func(key []byte) bool) {
	if s.bad || s.peek() != '{' {
		s.skip()
		return
	}
	s.at++
	if s.peek() == '}' {
		s.at++
		return
	}
	for {
		key := s.text()
		if !s.take(':') {
			return
		}
		s.peek() // to the value itself: whoever only looks at it has not read it
		before := s.at
		if !yield(key) {
			s.bad = true // nobody stops half-way and goes on
			return
		}
		if s.at == before {
			s.skip()
		}
		if s.bad || !s.more('}') {
			return
		}
	}
}

// elements yields once for each element of an array, like fields.
func (s *scanner) elements(yield func() bool) {
	if s.bad || s.peek() != '[' {
		s.skip()
		return
	}
	s.at++
	if s.peek() == ']' {
		s.at++
		return
	}
	for {
		s.peek()
		before := s.at
		if !yield() {
			s.bad = true
			return
		}
		if s.at == before {
			s.skip()
		}
		if s.bad || !s.more(']') {
			return
		}
	}
}

// more reads a comma, or the end of what is read.
func (s *scanner) more(end byte) bool {
	switch s.peek() {
	case ',':
		s.at++
		return true
	case end:
		s.at++
	default:
		s.bad = true
	}
	return false
}

// text reads a string and returns what stands between its quotes, escapes and
// all; nil for another value, which it skips.
func (s *scanner) text() []byte {
	if s.bad || s.peek() != '"' {
		s.skip()
		return nil
	}
	s.at++
	begin := s.at
	for ; s.at < len(s.b); s.at++ {
		switch s.b[s.at] {
		case '\\':
			s.at++
		case '"':
			s.at++
			return s.b[begin : s.at-1]
		}
	}
	s.bad = true
	return nil
}

// count reads a number that counts something: its digits up to a point or an
// exponent, at most countMax; -1 for a negative one and for any other value.
func (s *scanner) count() int {
	const countMax = 1 << 40
	if c := s.peek(); s.bad || c < '0' || c > '9' {
		s.skip()
		return -1
	}
	n := 0
	for ; s.at < len(s.b) && s.b[s.at] >= '0' && s.b[s.at] <= '9'; s.at++ {
		n = min(n*10+int(s.b[s.at]-'0'), countMax)
	}
	s.literal()
	return n
}

// skip passes over one value of any kind.
func (s *scanner) skip() {
	for depth := 0; !s.bad; {
		switch s.peek() {
		case 0:
			s.bad = true
		case '"':
			s.text()
		case '{', '[':
			depth++
			s.at++
			continue
		case '}', ']':
			if depth--; depth < 0 {
				s.bad = true
				return
			}
			s.at++
		case ',', ':':
			if depth == 0 {
				s.bad = true
				return
			}
			s.at++
			continue
		default:
			s.literal()
		}
		if depth == 0 {
			return
		}
	}
}

// literal passes over the rest of a number or a name.
func (s *scanner) literal() {
	for ; s.at < len(s.b); s.at++ {
		switch s.b[s.at] {
		case ',', ':', '}', ']', '{', '[', '"', ' ', '\t', '\n', '\r':
			return
		}
	}
}

// end says that the value was whole and nothing stands behind it.
func (s *scanner) end() bool { return !s.bad && s.peek() == 0 && s.at == len(s.b) }
