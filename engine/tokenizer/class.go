package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is the set of properties of a character that the splitters ask for. A
// character with none is "other": punctuation, symbols, control characters,
// invalid bytes.
type class uint16

const (
	letter    class = 1 << iota // \p{L}
	mark                        // \p{M}
	number                      // \p{N}
	space                       // \s: Unicode White_Space
	newline                     // \r and \n, which are space too
	uppercase                   // \p{Lu} and \p{Lt}, which are letters too
	lowercase                   // \p{Ll}, which is a letter too
	_                           // asciiClass has it
	sign                        // \p{P} and \p{S}
	han                         // \p{Han}
	ideograph                   // of the expressions of deepseek-v3
	western                     // letters, signs and the rest of those of deepseek-llm, which overlap
	westernSign
	eastern
)

// classTableEnd is the first character outside the table. It covers all
// letters, so that only tags, variation selectors and private use are looked
// up in ranges.
const classTableEnd = 0x34000

// classTable is computed once, in a millisecond, from the standard tables.
var classTable = sync.OnceValue(func() *[classTableEnd]class {
	var t [classTableEnd]class
	add := func(ranges *unicode.RangeTable, c class) {
		for _, r := range ranges.R16 {
			for x := uint32(r.Lo); x <= uint32(r.Hi); x += uint32(r.Stride) {
				t[x] |= c
			}
		}
		for _, r := range ranges.R32 {
			for x := r.Lo; x <= r.Hi && x < classTableEnd; x += r.Stride {
				t[x] |= c
			}
		}
	}
	add(unicode.L, letter)
	add(unicode.Lu, uppercase)
	add(unicode.Lt, uppercase)
	add(unicode.Ll, lowercase)
	add(unicode.M, mark)
	add(unicode.N, number)
	add(unicode.White_Space, space)
	add(unicode.P, sign)
	add(unicode.S, sign)
	add(unicode.Han, han)
	for c, text := range rangesOf {
		all := []rune(text)
		for i := 0; i < len(all); i += 2 {
			for r := all[i]; r <= all[i+1]; r++ {
				t[r] |= c
			}
		}
	}
	t['\r'] |= newline
	t['\n'] |= newline
	return &t
})

// classOf is the class of any character.
func classOf(r rune, table *[classTableEnd]class) class {
	if uint32(r) < classTableEnd {
		return table[r]
	}
	var c class
	if unicode.Is(unicode.L, r) {
		c |= letter
	}
	if unicode.Is(unicode.M, r) {
		c |= mark
	}
	if unicode.Is(unicode.N, r) {
		c |= number
	}
	return c
}

// cursor reads the classes of a text. Invalid bytes are "other", one by one.
type cursor struct {
	text  string
	table *[classTableEnd]class
}

// at returns the class and the width of the character at offset i; width 0 at
// the end.
func (c cursor) at(i int) (class, int) {
	if i >= len(c.text) {
		return 0, 0
	}
	if b := c.text[i]; b < utf8.RuneSelf {
		return c.table[b], 1
	}
	r, width := utf8.DecodeRuneInString(c.text[i:])
	return classOf(r, c.table), width
}

// run returns the end of the longest run from i on of characters that have a
// class of any.
func (c cursor) run(i int, any class) int {
	for {
		k, width := c.at(i)
		if k&any == 0 { // also at the end
			return i
		}
		i += width
	}
}

// runWithout returns the end of the longest run of characters that have no
// class of none.
func (c cursor) runWithout(i int, none class) int {
	for {
		k, width := c.at(i)
		if k&none != 0 || width == 0 {
			return i
		}
		i += width
	}
}
