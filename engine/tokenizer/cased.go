package tokenizer

import "strings"

// nextCased is next where words end before a capital letter that follows a small one:
//
//	[^\r\n\p{L}\p{N}]?[upper]*[lower]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	[^\r\n\p{L}\p{N}]?[upper]+[lower]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?
//	\p{N}{1,digitsMax}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
//
// With apart, what has a class of it is cut out first where a piece begins, [\p{Han}]+, words have none of it, and symbols
// end without a slash.
//
// Upper are \p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}, lower \p{Ll}\p{Lm}\p{Lo}\p{M}: letters without case, and
// marks, are both.
func (s *splitter) nextCased(c cursor) int {
	text, after := c.text, "\r\n/"
	if s.apart != 0 {
		after = "\r\n"
		if end := c.run(0, s.apart); end > 0 {
			return end
		}
	}
	if end := casedWord(c, s.apart); end > 0 {
		if s.endings {
			end += contraction(text[end:], true)
		}
		return end
	}
	if k, _ := c.at(0); k&number != 0 {
		return s.digits(c)
	}
	if end := symbols(c, letter|number|space); end > 0 {
		return end + len(text[end:]) - len(strings.TrimLeft(text[end:], after))
	}
	end := c.run(0, space)
	if at := strings.LastIndexAny(text[:end], "\r\n"); at >= 0 {
		return at + 1
	}
	return blanks(c, end)
}

// casedWord returns the end of a word and of one character before it, 0 if there is none.
func casedWord(c cursor, apart class) int {
	first, start := c.at(0)
	if first&(newline|letter|number) != 0 {
		start = 0
	}
	whole, end := casedRun(c, start, apart)
	if start > 0 && first&mark != 0 && !whole { // the mark is of the word then
		_, end = casedRun(c, 0, apart)
	}
	if end > start || start > 0 && end > 0 && first&mark != 0 {
		return end
	}
	return 0
}

// casedRun returns the end of upper and lower from start on, start if there are none. It is whole if
// lower ones are among them; otherwise it is of upper ones alone.
func casedRun(c cursor, start int, apart class) (whole bool, end int) {
	last := start // behind the last one that is lower, too
	for end = start; ; {
		k, width := c.at(end)
		if k&(letter|mark) == 0 || k&(lowercase|apart) != 0 {
			break
		}
		end += width
		if k&uppercase == 0 {
			last = end
		}
	}
	if low := c.runOf(end, letter|mark, uppercase|apart); low > end {
		return true, low
	}
	if last > start {
		return true, last
	}
	return false, end
}

// runOf returns the end of the longest run of characters with a class of any and none of none.
func (c cursor) runOf(i int, any, none class) int {
	for {
		k, width := c.at(i)
		if k&any == 0 || k&none != 0 {
			return i
		}
		i += width
	}
}
