package scan

import (
	"bytes"
	"unicode/utf8"
)

// Valid says what is wrong with text as one JSON value, nil if nothing is.
func Valid(text []byte) *Error {
	var s Scanner
	s.Reset(text)
	if s.End() {
		return nil
	}
	return s.Err()
}

// Unescape appends what a string means whose checked raw form is given.
func Unescape(dst, raw []byte) []byte {
	for {
		i := bytes.IndexByte(raw, '\\')
		if i < 0 || i+1 >= len(raw) {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:i]...)
		c := raw[i+1]
		raw = raw[i+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 't':
			dst = append(dst, '\t')
		case 'r':
			dst = append(dst, '\r')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			var r rune
			r, raw = codePoint(raw)
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
}

// codePoint reads the digits behind a \u, and a second \u escape that makes a
// surrogate pair of it. What Scanner would have refused becomes U+FFFD.
func codePoint(raw []byte) (rune, []byte) {
	if len(raw) < 4 {
		return utf8.RuneError, nil
	}
	r := unit(raw)
	raw = raw[4:]
	if r&^0x3FF != 0xD800 || len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return r, raw
	}
	low := unit(raw[2:])
	if low&^0x3FF != 0xDC00 {
		return r, raw
	}
	return 0x10000 + (r&0x3FF)<<10 + low&0x3FF, raw[6:]
}

func unit(digits []byte) (r rune) {
	for _, c := range digits[:4] {
		r = r<<4 | rune(max(hexDigit(c), 0))
	}
	return r
}

// integerMax is the largest integer up to which a float64 tells every two apart.
const integerMax = 1 << 53

// Integer reads the text of a checked JSON number that is an integer of at most
// 2^53 either side of zero, however it is written: 5, 5.0 and 50e-1 are the same.
func Integer(text []byte) (n int64, ok bool) {
	i, shift, zeros, point := 0, 0, 0, false
	if i < len(text) && text[i] == '-' {
		i++
	}
	for ; i < len(text) && text[i]|0x20 != 'e'; i++ {
		c := text[i]
		if c == '.' {
			point = true
			continue
		}
		if point {
			shift--
		}
		if zeros++; c == '0' { // counts only when a digit follows or the number ends
			continue
		}
		for ; zeros > 0 && n <= integerMax; zeros-- {
			n *= 10
		}
		if n += int64(c - '0'); n > integerMax {
			return 0, false // too many digits: too large, or a fraction
		}
	}
	if n == 0 {
		return 0, true
	}
	shift += zeros + power(text[i:])
	if shift < 0 || shift > 15 {
		return 0, false
	}
	for range shift {
		if n *= 10; n > integerMax {
			return 0, false
		}
	}
	if text[0] == '-' {
		n = -n
	}
	return n, true
}

// power reads the exponent of a number's text, from its e on; it saturates
// beyond what any text's length could outweigh.
func power(text []byte) int {
	if len(text) < 2 {
		return 0
	}
	text = text[1:]
	negative := text[0] == '-'
	if negative || text[0] == '+' {
		text = text[1:]
	}
	n := 0
	for _, c := range text {
		if n = n*10 + int(c-'0'); n > 1<<30 {
			n = 1 << 30
		}
	}
	if negative {
		return -n
	}
	return n
}
