package upstream

import (
	"encoding/json"
	"net/url"
	"regexp/syntax"
	"strconv"
	"strings"
)

// A schema is a client's, and the validator compiles whatever it is given: it writes out the place of every part, takes
// its time over many references, and makes a program of each pattern. So an outline is made before, of all schemas of a
// request that are used, and one that goes beyond these bounds is not compiled.
const (
	outlineValuesMax  = 1 << 15 // values; objects and booleans, which mostly are schemas, count twice
	outlineDepthsMax  = 1 << 18 // how deep they stand, added up: a reference to each level has all below it read again
	outlineBytesMax   = 1 << 23 // bytes of the JSON pointers of all values
	outlineNamesMax   = 1 << 24 // different references and ids, times values
	outlineProgramMax = 1 << 19 // instructions of all patterns; a byte of a pattern is 16
	numberMax         = 320     // digits, or the exponent, of a number
)

type outline struct {
	values, depths, bytes, program int
	numbers                        int             // the steps of the heaviest number
	names                          map[string]bool // references and ids
	patterns                       map[string]int  // their instructions
}

// takes adds a schema, and says whether all that were added may be compiled.
func (o *outline) takes(schema any) bool {
	return o.add(schema, 0, 0) && len(o.names)*o.values <= outlineNamesMax
}

// add adds a value of a schema, which stands depth deep. bytes are those of its pointer.
func (o *outline) add(value any, depth, bytes int) bool {
	o.values, o.depths, o.bytes = o.values+1, o.depths+depth, o.bytes+bytes
	if o.values > outlineValuesMax || o.depths > outlineDepthsMax || o.bytes > outlineBytesMax {
		return false
	}
	switch v := value.(type) {
	case bool:
		o.values++
	case json.Number:
		steps, ok := numberSteps(v.String())
		o.numbers = max(o.numbers, steps)
		return ok
	case []any:
		for i, item := range v {
			if !o.add(item, depth+1, bytes+1+len(strconv.Itoa(i))) {
				return false
			}
		}
	case map[string]any:
		o.values++
		for name, member := range v {
			if !o.addWord(name, member) || !o.add(member, depth+1, bytes+1+len(name)) {
				return false
			}
		}
	}
	return true
}

// addWord adds what a keyword takes beside the value behind it. It may be none, but a name in an example: that is no harm.
func (o *outline) addWord(word string, value any) bool {
	text, _ := value.(string)
	switch word {
	case "$ref", "$dynamicRef", "$recursiveRef", "$id", "id":
		o.names[text] = true
		return !respelled(text)
	case "pattern":
		return o.addPattern(text)
	case "patternProperties":
		patterns, _ := value.(map[string]any)
		for pattern := range patterns {
			if !o.addPattern(pattern) {
				return false
			}
		}
	}
	return true
}

// respelled says whether a reference writes a number otherwise than it must: 01 in place of 1 finds the same item of an
// array, and the validator would compile all that is below it once more.
func respelled(reference string) bool {
	_, pointer, _ := strings.Cut(reference, "#")
	pointer, err := url.PathUnescape(pointer)
	if err != nil {
		return false // no reference either
	}
	for token := range strings.SplitSeq(pointer, "/") {
		if n, err := strconv.Atoi(token); err == nil && strconv.Itoa(n) != token {
			return true
		}
	}
	return false
}

// addPattern adds a regular expression. It is parsed when its bytes are within bounds, and not repeated until it is.
func (o *outline) addPattern(pattern string) bool {
	if o.program += 16 * len(pattern); o.program > outlineProgramMax {
		return false
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return true // it is the compiler's to refuse
	}
	o.patterns[pattern] = instructions(parsed)
	o.program += o.patterns[pattern]
	return o.program <= outlineProgramMax
}

// instructions is how large the program of a regular expression gets, about: what it repeats stands there as often.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n += len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(1, re.Min, re.Max)
	}
	return n
}

// numberSteps is what it takes to read a number, as effort counts it; not ok of one that is too long or too large to
// reckon with.
func numberSteps(raw string) (steps int, ok bool) {
	digits, exponent := len(raw), 0
	if at := strings.IndexAny(raw, "eE"); at >= 0 {
		e, err := strconv.Atoi(raw[at+1:])
		if err != nil || e < -numberMax || e > numberMax {
			return 0, false
		}
		digits, exponent = at, max(e, -e)
	}
	if digits > numberMax {
		return 0, false
	}
	n := digits + exponent
	return 32 + n*n/64, true
}
