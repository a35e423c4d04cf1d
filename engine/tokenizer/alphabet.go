package tokenizer

import "strconv"

// The byte alphabet of byte-level BPE: printable bytes stand for themselves
// (as the character with that number), the other 68, in order, for U+0100 and
// up. Vocabularies are written in it.
const alphabetEnd = 256 + 68

func selfPrinting(b int) bool {
	return 33 <= b && b <= 126 || 161 <= b && b <= 172 || 174 <= b && b <= 255
}

// alphabet maps characters below alphabetEnd to bytes, -1 for those outside.
var alphabet = makeAlphabet()

func makeAlphabet() (t [alphabetEnd]int16) {
	for i := range t {
		t[i] = -1
	}
	next := 256
	for b := range 256 {
		if selfPrinting(b) {
			t[b] = int16(b)
			continue
		}
		t[next] = int16(b)
		next++
	}
	return t
}

// fromAlphabet appends the bytes that a token stands for; ok is false when it
// has a character outside the alphabet.
func fromAlphabet(dst []byte, token string) (out []byte, ok bool) {
	for _, r := range token {
		if r >= alphabetEnd || alphabet[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(alphabet[r]))
	}
	return dst, true
}

// toAlphabet writes bytes in the alphabet.
func toAlphabet(raw string) string {
	out := make([]rune, len(raw))
	for i := range len(raw) {
		out[i] = letters[raw[i]]
	}
	return string(out)
}

// letters are the characters of the bytes.
var letters = func() (t [256]rune) {
	for r, b := range alphabet {
		if b >= 0 {
			t[b] = rune(r)
		}
	}
	return t
}()

// byteToken appends the byte that a token of the form <0xAB> stands for, or
// the token itself.
func byteToken(dst []byte, token string) []byte {
	if len(token) == 6 && token[:3] == "<0x" && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return append(dst, byte(b))
		}
	}
	return append(dst, token...)
}
