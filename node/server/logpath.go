package server

import (
	"net/url"
	"strings"
)

// loggedPathMax is the most bytes that the log shows of a path that does not exist.
const loggedPathMax = 100

// loggedPath is what the log shows of a path that does not exist, so that an
// operator sees which client has a wrong base URL. Bytes that are no plain path
// are escaped as in a URL, segments that look like keys are cut to their
// beginning, and the whole is at most loggedPathMax bytes.
func loggedPath(path []byte) string {
	const cut = "..."
	shown := make([]byte, 0, loggedPathMax)
	var last int // where the last byte begins that left room for cut
	for i, segment := range strings.Split(string(path[:min(len(path), 4*loggedPathMax)]), "/") {
		if i > 0 {
			segment = "/" + segment
		}
		if looksLikeKey(strings.TrimPrefix(segment, "/")) {
			segment = segment[:min(len(segment), 4)] + cut
		}
		for _, c := range []byte(segment) {
			if len(shown) <= loggedPathMax-len(cut) {
				last = len(shown)
			}
			if shown = appendPlain(shown, c); len(shown) > loggedPathMax {
				return string(shown[:last]) + cut
			}
		}
	}
	return string(shown)
}

// appendPlain appends one byte of a path, escaped unless it is plain.
func appendPlain(dst []byte, c byte) []byte {
	const plain, digits = "/-_.~%:@!$&'()*+,;=", "0123456789ABCDEF"
	if isLetter(c) || isDigit(c) || strings.IndexByte(plain, c) >= 0 {
		return append(dst, c)
	}
	return append(dst, '%', digits[c>>4], digits[c&15])
}

const (
	keyRun   = 16 // letters and digits on end, of both kinds, that are more a key than a word
	keyBytes = 32 // likewise with other characters between them
)

// looksLikeKey says whether a segment of a path may be a secret: it begins like
// one, or it is a long mixture of letters and digits.
func looksLikeKey(segment string) bool {
	if plain, err := url.PathUnescape(segment); err == nil {
		segment = plain
	}
	lower := strings.ToLower(segment)
	for _, mark := range [...]string{"sk-", "sk_", "bearer", "eyj"} { // the last: a JSON web token
		if strings.HasPrefix(lower, mark) {
			return true
		}
	}
	if len(segment) >= keyBytes && mixed(segment) {
		return true
	}
	apart := func(c rune) bool { return c > 0x7f || !isLetter(byte(c)) && !isDigit(byte(c)) && c != '_' }
	for _, run := range strings.FieldsFunc(segment, apart) {
		if len(run) >= keyRun && mixed(run) {
			return true
		}
	}
	return false
}

// mixed says whether s has a letter and a digit.
func mixed(s string) bool {
	letter, digit := false, false
	for _, c := range []byte(s) {
		letter, digit = letter || isLetter(c), digit || isDigit(c)
	}
	return letter && digit
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
