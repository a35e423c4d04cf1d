package modelfile

import "bytes"

// ReadPython is a text of JSON that Python wrote, without the numbers that only Python reads and writes: NaN, Infinity and
// -Infinity are null. Some published configs have them, for limits that are none.
func ReadPython(text []byte) []byte {
	out, quoted := make([]byte, 0, len(text)), false
	for len(text) > 0 {
		n := 1
		switch {
		case text[0] == '"':
			quoted = !quoted
		case text[0] == '\\': // in JSON there is none outside of strings
			n = min(2, len(text))
		case quoted:
		default:
			for _, word := range [][]byte{[]byte("-Infinity"), []byte("Infinity"), []byte("NaN")} {
				if bytes.HasPrefix(text, word) {
					out, text, n = append(out, "null"...), text[len(word):], 0
					break
				}
			}
		}
		out, text = append(out, text[:n]...), text[n:]
	}
	return out
}
