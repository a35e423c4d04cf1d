package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// splitter is one pre-tokenizer: a regular expression written by hand, since
// the originals look ahead, which package regexp cannot. Each alternative of
// the expression is a step of nextAny or nextGPT2, in its order; nextASCII is a
// shorter way to the same.
type splitter struct {
	gpt2         bool               // the oldest form
	cased        bool               // words end where their case says so
	endings      bool               // and have contractions at their end
	word         class              // what words are made of
	digitsMax    int                // length of a piece of digits
	apart        class              // cased only: what is apart from words
	by           func(c cursor) int // a way of its own, in place of all of the above
	ignoreMerges bool               // this and the next one unless the file says otherwise
	addBOS       bool
}

// splitters by the name that model files use.
var splitters = map[string]*splitter{
	"gpt-2":        {gpt2: true, word: letter},
	"llama-bpe":    {word: letter, digitsMax: 3, ignoreMerges: true, addBOS: true},
	"glm4":         {word: letter, digitsMax: 3},
	"chatglm-bpe":  {word: letter, digitsMax: 3},
	"qwen2":        {word: letter, digitsMax: 1},
	"qwen35":       {word: letter | mark, digitsMax: 1},
	"tekken":       {cased: true, digitsMax: 1, ignoreMerges: true, addBOS: true},
	"gpt-4o":       {cased: true, endings: true, digitsMax: 3},
	"kimi-k2":      {cased: true, endings: true, digitsMax: 3, apart: han, ignoreMerges: true},
	"deepseek-v3":  {by: nextDeepSeek3},
	"deepseek-llm": {by: nextDeepSeek},
	"smollm":       {by: nextSmolLM},
}

// otherNames are what some model files call a splitter.
var otherNames = map[string]string{"deepseek-r1-qwen": "qwen2", "llama3": "llama-bpe", "llama-v3": "llama-bpe",
	"falcon3": "llama-bpe", "pixtral": "llama-bpe"}

func splitterNames() []string { return slices.Sorted(maps.Keys(splitters)) }

// next returns the length of the first piece of text, which is not empty.
func (s *splitter) next(text string) int {
	if !s.cased && s.by == nil {
		if n := s.nextASCII(text); n > 0 {
			return n
		}
	}
	return s.nextAny(text)
}

// nextAny is next for any text. Each call reads little more than the piece it returns, but for white space,
// of which it may read a run twice.
func (s *splitter) nextAny(text string) int {
	c := cursor{text, classTable()}
	switch {
	case s.by != nil:
		return s.by(c)
	case s.gpt2:
		return nextGPT2(c)
	case s.cased:
		return s.nextCased(c)
	}
	// (?i:'s|'t|'re|'ve|'m|'ll|'d)
	if n := contraction(text, true); n > 0 {
		return n
	}
	first, width := c.at(0)
	// [^\r\n\p{L}\p{N}]?[word]+
	start := 0
	if first&(newline|letter|number) == 0 {
		start = width
	}
	if end := c.run(start, s.word); end > start {
		return end
	}
	if first&s.word != 0 { // a lone mark: the optional prefix stays empty
		return width
	}
	// \p{N}{1,digitsMax}
	if first&number != 0 {
		return s.digits(c)
	}
	//  ?[^\s word \p{N}]+[\r\n]*
	if end := symbols(c, s.word|number|space); end > 0 {
		return c.run(end, newline)
	}
	// \s*[\r\n]+
	end := c.run(0, space)
	if at := strings.LastIndexAny(text[:end], "\r\n"); at >= 0 {
		return at + 1
	}
	return blanks(c, end)
}

// digits returns the end of at most digitsMax digits.
func (s *splitter) digits(c cursor) int {
	end := 0
	for range s.digitsMax {
		k, width := c.at(end)
		if k&number == 0 {
			break
		}
		end += width
	}
	return end
}

// nextGPT2: 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
func nextGPT2(c cursor) int {
	if n := contraction(c.text, false); n > 0 {
		return n
	}
	start := 0
	if c.text[0] == ' ' {
		start = 1
	}
	for _, k := range []class{letter, number} {
		if end := c.run(start, k); end > start {
			return end
		}
	}
	if end := symbols(c, letter|number|space); end > 0 {
		return end
	}
	return blanks(c, c.run(0, space))
}

// nextSmolLM is next of smollm: digits one by one, then what gpt-2 does with each text between them.
func nextSmolLM(c cursor) int {
	first, width := c.at(0)
	if first&number != 0 {
		return width
	}
	end := c.run(0, space)
	if next, _ := c.at(end); end > 0 && next&number != 0 { // white space at the end of such a text
		return end
	}
	return nextGPT2(c)
}

// symbols returns the end of an optional space and characters without a class
// of none, 0 when there are no such characters.
func symbols(c cursor, none class) int {
	start := 0
	if c.text[0] == ' ' {
		start = 1
	}
	if end := c.runWithout(start, none); end > start {
		return end
	}
	return 0
}

// blanks cuts a run of white space that ends at end: \s+(?!\S)|\s+. Before
// something else its last character is left for the next piece, unless it is
// all there is.
func blanks(c cursor, end int) int {
	if end == len(c.text) {
		return end
	}
	last := 0
	for i := 0; i < end; {
		_, width := c.at(i)
		last = i
		i += width
	}
	if last == 0 {
		return end
	}
	return last
}

// contraction returns the length of an English contraction at the start of
// text, 0 if there is none. fold accepts any case; U+017F folds to s.
func contraction(text string, fold bool) int {
	if len(text) < 2 || text[0] != '\'' {
		return 0
	}
	lower := func(b byte) byte {
		if fold && b >= 'A' && b <= 'Z' {
			return b + 'a' - 'A'
		}
		return b
	}
	switch lower(text[1]) {
	case 's', 't', 'm', 'd':
		return 2
	}
	if fold && strings.HasPrefix(text[1:], "\u017F") {
		return 1 + len("\u017F")
	}
	if len(text) < 3 {
		return 0
	}
	switch string([]byte{lower(text[1]), lower(text[2])}) {
	case "re", "ve", "ll":
		return 3
	}
	return 0
}
