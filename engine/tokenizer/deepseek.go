package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// The splitters of DeepSeek are sequences: each expression cuts the pieces of those before it.

// Sets of characters, as pairs of a first and a last one.
const (
	ideographs    = "一龥぀ゟ゠ヿ"
	westernSigns  = "!/:~！／：～‘‟　。"
	easternOnes   = "一龥ࠀ一가\ud7ff"
	westernsASCII = "AZaz"
)

// westerns are the letters of deepseek-llm.
const westerns = westernsASCII + "µµÀÖØöøƺƼƿǄʓʕʯͰͳͶͷͻͽͿͿΆΆΈΊΌΌΎΡΣϵϷҁҊԯԱՖႠჅᎠᏽᏸᏽ" +
	"ᲐᲺᲽᲿᴀᴫᵫᵷᵹᶚḀἕἘἝἠὅὈὍὐὗὙὙὛὛὝὝὟ\u1f7d" +
	"ᾀᾴᾶᾼ\u1fbe\u1fbeῂῄῆῌῐ\u1fd3ῖ\u1fdbῠῬῲῴῶῼℂℂℇℇℊℓℕℕℙℝℤℤ\u2126\u2126ℨℨ" +
	"\u212aℭℯℴℹℹℼℿⅅⅉⅎⅎↃↄⰀⱻⱾⳤⳫⳮⳲⳳꙀꙭꚀꚛꜢꝯꝱꞇꞋꞎꭰꮿﬀﬆﬓﬗＡＺａｚ𐐀𐑏𐒰𐓓𐓘𐓻𐲀𐲲𐳀𐳲𑢠𑣟𞤀𞥃"

// rangesOf are the sets by their classes.
var rangesOf = map[class]string{ideograph: ideographs, western: westerns, westernSign: westernSigns, eastern: easternOnes}

// nextDeepSeek3 is next of deepseek-v3:
//
//	\p{N}{1,3}, then [一-龥぀-ゟ゠-ヿ]+, then
//	[ASCII punctuation][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
func nextDeepSeek3(c cursor) int {
	const word = letter | mark
	first, width := c.at(0)
	if first&number != 0 {
		return (&splitter{digitsMax: 3}).digits(c)
	}
	cut, all := number|ideograph, class(0) // what ends the text for the last expression, and what all of it has
	if first&ideograph != 0 {
		cut, all = 0, ideograph
	}
	if c.text[0] < utf8.RuneSelf && first&sign != 0 {
		if end := asciiLetters(c.text, 1); end > 1 {
			return end
		}
	}
	start := 0
	if first&(newline|letter|sign) == 0 {
		start = width
	}
	if end := c.runIn(start, word, cut, all); end > start {
		return end
	}
	if first&mark != 0 {
		return width
	}
	start = 0
	if c.text[0] == ' ' {
		start = 1
	}
	if end := c.runIn(start, sign, cut, all); end > start {
		return c.runIn(end, newline, cut, all)
	}
	end := c.run(0, space)
	switch at := strings.LastIndexAny(c.text[:end], "\r\n"); {
	case at >= 0:
		return at + 1
	case end == 0:
		return c.others(word|sign|space, cut, all)
	}
	if next, _ := c.at(end); next&cut != 0 {
		return end
	}
	return blanks(c, end)
}

// runIn returns the end of the longest run of characters that have a class of any, none of cut, and all of all.
func (c cursor) runIn(i int, any, cut, all class) int {
	for {
		k, width := c.at(i)
		if k&any == 0 || k&cut != 0 || k&all != all {
			return i
		}
		i += width
	}
}

// others returns the end of a run of characters that no alternative of deepseek-v3 begins with. The last one
// belongs to a word behind it, unless it is all there is.
func (c cursor) others(known, cut, all class) int {
	last := 0
	for i := 0; ; {
		k, width := c.at(i)
		if k&(known|cut) != 0 || k&all != all || width == 0 {
			if last > 0 && k&(letter|mark) != 0 && k&cut == 0 && k&all == all {
				return last
			}
			return i
		}
		last = i
		i += width
	}
}

// nextDeepSeek is next of deepseek-llm, whose expressions cut what the ones before have cut again:
//
//	[\r\n], then \s?[western]+, then \s?[westernSign]+, then \s+$, then [eastern]+, then digits one by one
//
// So a piece is a run of characters of the same sets. A blank may stand before it, and belongs to it if both or none are eastern.
func nextDeepSeek(c cursor) int {
	first, width := c.at(0)
	if first&(newline|number) != 0 {
		return width
	}
	if !c.attaches(0) {
		return c.sameSets(0, first)
	}
	next, _ := c.at(width)
	if first&eastern != next&eastern || first&westernSign != 0 && next&westernSign == 0 {
		return width
	}
	return c.sameSets(width, next)
}

// attaches says whether the character at i is a blank that an expression takes together with what follows.
func (c cursor) attaches(i int) bool {
	k, width := c.at(i)
	if k&space == 0 || k&newline != 0 {
		return false
	}
	next, after := c.at(i + width)
	if next&western != 0 {
		return true
	}
	behind, _ := c.at(i + width + after)
	taken := next&space != 0 && behind&western != 0 // with the letters behind it
	return next&westernSign != 0 && k&westernSign == 0 && !taken
}

// sameSets returns the end of the run from i on of characters of the sets that of has, or where the white space
// at its end begins if that is a piece.
func (c cursor) sameSets(i int, of class) int {
	const sets = western | westernSign | eastern
	words, end := 0, i // words is behind the last character that is no white space
	for {
		k, width := c.at(end)
		if width == 0 || k&sets != of&sets || k&(newline|number) != 0 || end > i && c.attaches(end) {
			break
		}
		if end += width; k&space == 0 {
			words = end
		}
	}
	if words == 0 || words == end {
		return end
	}
	after := end // of the white space, whose other part may be of another set
	for {
		k, width := c.at(after)
		if k&space == 0 || k&(newline|westernSign) != 0 || c.attaches(after) {
			break
		}
		after += width
	}
	next, width := c.at(after)
	ends := width == 0 || c.attaches(after) || next&(newline|western) != 0 || next&westernSign != of&westernSign
	if ends {
		return words
	}
	return end
}
