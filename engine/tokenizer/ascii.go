package tokenizer

import "math/bits"

// Classes of asciiClass alone, which has none for case.
const (
	symbol class = 1 << 5 // ASCII that is nothing else
	beyond class = 1 << 7 // a byte that is no ASCII character
)

// asciiClass holds the class of every byte taken by itself.
var asciiClass = func() (t [256]class) {
	for b := range t {
		switch {
		case b >= 0x80:
			t[b] = beyond
		case b|0x20 >= 'a' && b|0x20 <= 'z':
			t[b] = letter
		case b >= '0' && b <= '9':
			t[b] = number
		case b == '\n' || b == '\r':
			t[b] = space | newline
		case b == ' ' || b >= '\t' && b <= '\r':
			t[b] = space
		default:
			t[b] = symbol
		}
	}
	return t
}()

// nextASCII is next where the first piece and the character after it are
// ASCII, as in most text, and 0 where they are not. What it has read in vain
// is part of the piece, so that no text is read over and over.
func (s *splitter) nextASCII(text string) int {
	start := 1 // of the letters of a word, after one character that may precede them
	switch first := asciiClass[text[0]]; {
	case first == letter:
		start = 0
	case first == beyond || text[0] == '\'': // which may begin a contraction
		return 0
	case s.gpt2 && text[0] != ' ' || first&(number|newline) != 0:
		return s.asciiOther(text)
	}
	end := asciiLetters(text, start)
	switch {
	case end < len(text) && text[end] >= 0x80:
		return 0
	case end > start:
		return end
	}
	return s.asciiOther(text)
}

// asciiOther is nextASCII where no word begins: numbers, symbols, white space.
func (s *splitter) asciiOther(text string) int {
	start := 0
	if text[0] == ' ' {
		start = 1
	}
	switch {
	case start < len(text) && asciiClass[text[start]] == symbol:
		end := asciiRun(text, start, symbol)
		for end > 0 && !s.gpt2 && end < len(text) && asciiClass[text[end]]&newline != 0 {
			end++
		}
		return end
	case s.gpt2 && start < len(text) && asciiClass[text[start]] == number:
		return asciiRun(text, start, number)
	case asciiClass[text[0]] == number:
		return asciiRun(text[:min(len(text), s.digitsMax)], 0, number)
	}
	end := asciiRun(text, 0, space)
	switch {
	case end == 0:
		return 0
	case !s.gpt2:
		for at := end; at > 0; at-- {
			if asciiClass[text[at-1]]&newline != 0 {
				return at
			}
		}
	}
	if end == len(text) || end == 1 {
		return end
	}
	return end - 1 // the last is left for what follows
}

// asciiRun returns the end of the run from i on of bytes of one class, 0 when
// a byte beyond ASCII ends it.
func asciiRun(text string, i int, of class) int {
	for i < len(text) && asciiClass[text[i]]&of != 0 {
		i++
	}
	if i < len(text) && text[i] >= 0x80 {
		return 0
	}
	return i
}

// asciiLetters returns the end of the run of letters from i on.
func asciiLetters(text string, i int) int {
	for ; i+8 <= len(text); i += 8 {
		if others := notLetters(load64(text[i:])); others != 0 {
			return i + bits.TrailingZeros64(others)/8
		}
	}
	for i < len(text) && asciiClass[text[i]] == letter {
		i++
	}
	return i
}

// notLetters sets the top bit of each byte of x that is no ASCII letter. The
// sums stay inside their bytes.
func notLetters(x uint64) uint64 {
	const each = 0x0101010101010101
	low := (x | each*0x20) & (each * 0x7f)
	from, past := low+each*(0x80-'a'), low+each*(0x7f-'z')
	return (^from | past | x) & (each * 0x80)
}

// load64 is the first eight bytes of s, the first one lowest.
func load64(s string) uint64 {
	_ = s[7]
	return uint64(s[0]) | uint64(s[1])<<8 | uint64(s[2])<<16 | uint64(s[3])<<24 |
		uint64(s[4])<<32 | uint64(s[5])<<40 | uint64(s[6])<<48 | uint64(s[7])<<56
}
