package scan

// Str reads a string and returns what stands between its quotes, escapes and
// all: it may stand between quotes again as it is.
func (s *Scanner) Str() (raw []byte, ok bool) {
	if s.Kind() != String {
		return nil, false
	}
	from := s.at + 1
	end := s.str(from)
	if end < 0 {
		return nil, false
	}
	s.at, s.due = end+1, false
	return s.text[from:end:end], true
}

// Text reads a string and returns it without escapes. It aliases the text
// when there are none in it.
func (s *Scanner) Text() (text []byte, ok bool) {
	raw, ok := s.Str()
	if ok && s.escaped {
		return Unescape(make([]byte, 0, len(raw)), raw), true
	}
	return raw, ok
}

// Number reads a number and returns its text.
func (s *Scanner) Number() (text []byte, ok bool) {
	if s.Kind() != Number {
		return nil, false
	}
	from := s.at
	end := s.number(from)
	if end < 0 {
		return nil, false
	}
	s.at, s.due = end, false
	return s.text[from:end:end], true
}

// Int reads a number that is an integer of at most 2^53 either side of zero,
// however it is written: 5, 5.0 and 50e-1 are the same. False for any other
// number, which is then consumed, and for other kinds, which are not.
func (s *Scanner) Int() (n int64, ok bool) {
	text, ok := s.Number()
	if !ok {
		return 0, false
	}
	return Integer(text)
}

// Bool reads true or false.
func (s *Scanner) Bool() (v, ok bool) {
	if s.Kind() != Bool {
		return false, false
	}
	v = s.text[s.at] == 't'
	end := s.scalar(s.at)
	if end < 0 {
		return false, false
	}
	s.at, s.due = end, false
	return v, true
}

// Null reads a null and says whether there was one.
func (s *Scanner) Null() bool {
	if !s.due || s.at >= len(s.text) || s.text[s.at] != 'n' {
		return false
	}
	end := s.scalar(s.at)
	if end < 0 {
		return false
	}
	s.at, s.due = end, false
	return true
}

// Raw reads any value and returns its text, nil after an error.
func (s *Scanner) Raw() []byte {
	if s.Kind() == Invalid {
		return nil
	}
	from := s.at
	end := s.value(from)
	if end < 0 {
		return nil
	}
	s.at, s.due = end, false
	return s.text[from:end:end]
}

// Skip passes any value, checking it.
func (s *Scanner) Skip() { s.Raw() }
