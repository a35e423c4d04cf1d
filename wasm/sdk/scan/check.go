package scan

import (
	"encoding/binary"
	"math/bits"
)

// The functions of this file check one value or token that begins at i and
// return where it ends, or -1 after setting the error.

// value checks any value. Levels inside it are not pushed: only a bit each
// says what closes them.
func (s *Scanner) value(i int) int {
	b := s.text
	var objects [DepthMax/64 + 1]uint64 // bit d is set when level d is an object
	room := DepthMax - s.depth
	depth, object := 0, false
	for {
		if object {
			if i = s.member(i); i < 0 {
				return -1
			}
		}
		if i = space(b, i); i == len(b) {
			s.fail(i, Truncated)
			return -1
		}
		if c := b[i]; c != '{' && c != '[' {
			if i = s.scalar(i); i < 0 {
				return -1
			}
		} else {
			if depth == room {
				s.fail(i, TooDeep)
				return -1
			}
			j := space(b, i+1)
			if j == len(b) || b[j] != c+2 { // '{' and '}' are two apart, so are the brackets
				object = c == '{'
				bit := uint64(1) << (depth & 63)
				objects[depth>>6] &^= bit
				if object {
					objects[depth>>6] |= bit
				}
				depth++
				i = j
				continue
			}
			i = j + 1
		}
		for depth > 0 { // levels that end here
			if i = space(b, i); i == len(b) {
				s.fail(i, Truncated)
				return -1
			}
			if b[i] == ',' {
				i++
				break
			}
			if b[i] != closing(!object) {
				s.fail(i, Syntax)
				return -1
			}
			i++
			if depth--; depth > 0 {
				object = objects[(depth-1)>>6]>>((depth-1)&63)&1 != 0
			}
		}
		if depth == 0 {
			return i
		}
	}
}

// member checks a name and its colon.
func (s *Scanner) member(i int) int {
	b := s.text
	end := s.name(space(b, i))
	if end < 0 {
		return -1
	}
	if i = space(b, end+1); i == len(b) || b[i] != ':' {
		s.fail(i, Syntax)
		return -1
	}
	return i + 1
}

// name checks a member's name; it returns where its closing quote stands.
func (s *Scanner) name(i int) int {
	if i == len(s.text) || s.text[i] != '"' {
		s.fail(i, Syntax)
		return -1
	}
	return s.str(i + 1)
}

// scalar checks a value that is no array and no object; i is within the text.
func (s *Scanner) scalar(i int) int {
	switch kinds[s.text[i]] {
	case String:
		if i = s.str(i + 1); i < 0 {
			return -1
		}
		return i + 1
	case Number:
		return s.number(i)
	case Null:
		return s.literal(i, "null")
	case Bool:
		if s.text[i] == 't' {
			return s.literal(i, "true")
		}
		return s.literal(i, "false")
	}
	s.fail(i, Syntax)
	return -1
}

func (s *Scanner) literal(i int, want string) int {
	for k := range len(want) {
		if i+k >= len(s.text) || s.text[i+k] != want[k] {
			s.fail(i+k, Syntax)
			return -1
		}
	}
	return i + len(want)
}

func (s *Scanner) number(i int) int {
	b := s.text
	if b[i] == '-' {
		i++
	}
	from := i
	if i = digits(b, i); i == from {
		s.fail(i, Syntax)
		return -1
	}
	if b[from] == '0' && i > from+1 {
		s.fail(from+1, Syntax)
		return -1
	}
	if i < len(b) && b[i] == '.' {
		from = i + 1
		if i = digits(b, from); i == from {
			s.fail(i, Syntax)
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		from = i
		if i = digits(b, i); i == from {
			s.fail(i, Syntax)
			return -1
		}
	}
	return i
}

func digits(b []byte, i int) int {
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// str checks a string from behind its opening quote; it returns where the
// closing quote stands and leaves in escaped whether there is an escape.
func (s *Scanner) str(i int) int {
	b := s.text
	s.escaped = false
	for {
		// Eight plain bytes at once: a byte that is a quote, a backslash, a control
		// character or not ASCII sets its high bit in odd, and the lowest bit set
		// belongs to the first such byte.
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			odd := (x | (x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones)) & highs
			if odd != 0 {
				i += bits.TrailingZeros64(odd) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && plain[b[i]] { // the text's last bytes
			i++
		}
		if i == len(b) {
			s.fail(i, Truncated)
			return -1
		}
		switch c := b[i]; {
		case c == '"':
			return i
		case c == '\\':
			s.escaped = true
			i = s.escape(i)
		case c < ' ':
			s.fail(i, Syntax)
			return -1
		default:
			i = s.wide(i)
		}
		if i < 0 {
			return -1
		}
	}
}

// plain are the bytes that stand for themselves in a string.
var plain = func() (t [256]bool) {
	for c := ' '; c < 0x80; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

// escape checks one escape, or a surrogate pair of two.
func (s *Scanner) escape(i int) int {
	b := s.text
	if i+1 >= len(b) {
		s.fail(len(b), Truncated)
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
	default:
		s.fail(i, Syntax)
		return -1
	}
	r := s.hex4(i)
	if r < 0 {
		return -1
	}
	if r < 0xD800 || r > 0xDFFF {
		return i + 6
	}
	if r > 0xDBFF {
		s.fail(i, Surrogate)
		return -1
	}
	if i+6 < len(b) && b[i+6] != '\\' || i+7 < len(b) && b[i+7] != 'u' {
		s.fail(i, Surrogate)
		return -1
	}
	low := s.hex4(i + 6)
	if low < 0 {
		return -1
	}
	if low < 0xDC00 || low > 0xDFFF {
		s.fail(i, Surrogate)
		return -1
	}
	return i + 12
}

// hex4 reads the digits of the \uXXXX at i, or sets the error and returns -1.
func (s *Scanner) hex4(i int) int {
	b := s.text
	r := 0
	for k := i + 2; k < i+6; k++ {
		if k >= len(b) {
			s.fail(len(b), Truncated)
			return -1
		}
		d := hexDigit(b[k])
		if d < 0 {
			s.fail(k, Syntax)
			return -1
		}
		r = r<<4 | d
	}
	return r
}

func hexDigit(c byte) int {
	switch {
	case c-'0' <= 9:
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20) - 'a' + 10
	}
	return -1
}

// wide checks a run of characters outside ASCII (RFC 3629: shortest form, no
// surrogates, at most U+10FFFF).
func (s *Scanner) wide(i int) int {
	b := s.text
	for i < len(b) && b[i] >= 0x80 {
		c := b[i]
		low, high, more := byte(0x80), byte(0xBF), 1 // bounds of the second byte, how many follow
		switch {
		case c >= 0xE1 && c <= 0xEC || c == 0xEE || c == 0xEF:
			more = 2
		case c >= 0xC2 && c <= 0xDF:
		case c == 0xE0:
			more, low = 2, 0xA0
		case c == 0xED:
			more, high = 2, 0x9F
		case c == 0xF0:
			more, low = 3, 0x90
		case c >= 0xF1 && c <= 0xF3:
			more = 3
		case c == 0xF4:
			more, high = 3, 0x8F
		default:
			s.fail(i, UTF8)
			return -1
		}
		if i+more >= len(b) || b[i+1] < low || b[i+1] > high {
			s.fail(i, UTF8)
			return -1
		}
		for k := i + 2; k <= i+more; k++ {
			if b[k]&0xC0 != 0x80 {
				s.fail(i, UTF8)
				return -1
			}
		}
		i += more + 1
	}
	return i
}
