package grammar

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
)

const (
	patternMax   = 4000   // bytes of a pattern that is enforced
	countedMax   = 20_000 // states of a pattern with a bound of its length
	looseProgram = 1000   // instructions of a pattern that a loose grammar enforces
)

// patterned is a string that matches the pattern of a schema; nil when it has none
// that can be enforced. quoted says that it stands in a JSON string, where some
// characters are escaped.
func (c *compiler) patterned(s *schema, quoted bool) expr {
	if len(s.pattern) == 0 {
		return nil
	}
	if len(s.pattern) > 1 {
		c.ignore("pattern") // of which one is enforced
	}
	v := s.pattern[0]
	p := &pattern{compiler: c, quoted: quoted, noAngle: c.noAngle || !quoted}
	var e expr
	if re := c.parsePattern(v); re != nil && (!c.loose || instructions(re) <= looseProgram) {
		e = p.whole(re.Simplify())
	}
	if e == nil || p.exotic {
		c.ignore("pattern")
		return nil
	}
	least, most := s.least[ofLength], s.most[ofLength]
	if least == 0 && most < 0 {
		return e
	}
	within := counted(e, least, most)
	if within == nil {
		c.ignore("minLength and maxLength")
		return e
	}
	return within
}

// counted is the texts of a pattern that have at least least and at most most (no bound
// with most < 0) characters: its states for each number of characters before them. It
// is nil when they are too many.
func counted(e expr, least, most int) expr {
	part := &builder{most: statesMax, onward: roleGoesOn}
	end := part.add(state{kind: kindEnd})
	first := e(part, end)
	counts := most + 1
	if most < 0 {
		counts = least + 1 // those beyond it are not told apart
	}
	if part.err != nil || len(part.states)*counts > countedMax {
		return nil
	}
	return func(b *builder, next int32) int32 {
		type place struct {
			state int32
			count int
		}
		known := map[place]int32{}
		nowhere := b.add(state{})
		var visit func(p place) int32
		visit = func(p place) int32 {
			s := part.states[p.state]
			if s.kind == kindCall { // of a character
				p.count++
			}
			switch {
			case most >= 0 && p.count > most, s.kind == kindEnd && p.count < least:
				return nowhere
			case s.kind == kindEnd:
				return next
			case most < 0:
				p.count = min(p.count, least)
			}
			if at, ok := known[p]; ok || b.err != nil {
				return at
			}
			at := b.add(state{kind: s.kind, role: s.role, rule: s.rule})
			known[p] = at
			if s.kind == kindCall {
				to := visit(place{s.next, p.count})
				b.states[at].next = to
				return at
			}
			var split []int32
			for _, to := range s.split {
				split = append(split, visit(place{to, p.count}))
			}
			b.states[at].split = split
			return at
		}
		return visit(place{first, 0})
	}
}

// foreign is what ECMAScript reads in another way than Go, or not at all.
var foreign = regexp.MustCompile(`\\[AzQEaC]|\[\^?\]|\[\[:`)

// units are the dots of a pattern, and what may have a dot that is none, or a flag.
var units = regexp.MustCompile(`(?s)\\.|\[(?:\\.|[^\]\\])*\]|\(\?[a-zA-Z]*|\.`)

// inGo is a pattern of ECMAScript as Go reads it: a dot is none of the four ends of lines, of which Go knows one. Where a
// flag makes it any character, the dots stay.
func inGo(text string) string {
	flagged := false
	out := units.ReplaceAllStringFunc(text, func(unit string) string {
		flagged = flagged || unit[0] == '(' && strings.Contains(unit, "s")
		if unit == "." {
			return `[^\n\r\x{2028}\x{2029}]`
		}
		return unit
	})
	if flagged {
		return text
	}
	return out
}

// What reading a pattern costs: a step for so many bytes, and steps for every range to a character outside of ASCII where
// letters are also of the other case, as it is gone through one by one.
const (
	patternWork = 8
	foldSteps   = 5000
)

// folds is a flag for letters of either case, and wide the end of what may be a range to outside of ASCII.
var (
	folds = regexp.MustCompile(`\(\?[a-zA-Z]*i`)
	wide  = regexp.MustCompile(`-(?:\\x\{|[^\x00-\x7f])`)
)

// parsePattern is the pattern of a schema; nil when it cannot be enforced.
func (c *compiler) parsePattern(v *value) *syntax.Regexp {
	m := v.member("pattern")
	if m.kind != '"' || len(m.text) > patternMax || foreign.MatchString(m.text) {
		return nil
	}
	text := inGo(m.text)
	c.spend(1 + len(text)/patternWork)
	if folds.MatchString(m.text) {
		steps := foldSteps * len(wide.FindAllStringIndex(m.text, -1))
		if c.spent+steps > spentMax {
			c.wrong(m, "the schema is too large: letters of either case in ranges to what is outside of ASCII take too long to read")
		}
		c.spend(steps)
	}
	if c.err != nil {
		return nil
	}
	re, err := syntax.Parse(text, syntax.Perl&^syntax.UnicodeGroups)
	if err != nil {
		return nil
	}
	return re
}

// program matches listed values with the pattern of a schema.
type program struct {
	re   *regexp.Regexp // nil: it cannot be enforced
	size int            // instructions
}

// programSteps is what making an instruction costs.
const programSteps = 4

// matches says whether the text of a listed value matches the pattern of a schema, if that can be
// enforced. Each byte can cost as much as the program has instructions.
func (c *compiler) matches(v *value, text string) bool {
	p, known := c.programs[v]
	if !known {
		if re := c.parsePattern(v); re == nil {
			c.ignore("pattern")
		} else {
			p.size = instructions(re)
			if c.spend(programSteps * p.size); c.err != nil {
				return false
			}
			p.re, _ = regexp.Compile(inGo(v.member("pattern").text)) // without an error, it was parsed
		}
		c.programs[v] = p
	}
	c.spend(1 + len(text)*p.size/stepWork)
	return c.err == nil && (p.re == nil || p.re.MatchString(text))
}

// instructions is about how many the program of a pattern has: what is counted is there so many times.
func instructions(re *syntax.Regexp) int {
	n := 1
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpCapture:
		n = 2
	case syntax.OpAlternate:
		n = len(re.Sub)
	}
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1)
	}
	return n
}

// pattern makes the expression of a regular expression.
type pattern struct {
	*compiler
	quoted, noAngle bool
	exotic          bool // it has a part that cannot be enforced
}

// whole is a text with a match in it: without anchors anything may surround it.
func (p *pattern) whole(re *syntax.Regexp) expr {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	parts := []*syntax.Regexp{re}
	if re.Op == syntax.OpConcat {
		parts = re.Sub
	}
	if re.Op == syntax.OpAlternate {
		var each []expr
		for _, sub := range re.Sub {
			each = append(each, p.whole(sub))
		}
		return alt(each...)
	}
	before, after := star(p.class([]rune{0, unicode.MaxRune})), star(p.class([]rune{0, unicode.MaxRune}))
	if len(parts) > 0 && parts[0].Op == syntax.OpBeginText {
		before, parts = seq(), parts[1:]
	}
	if n := len(parts); n > 0 && parts[n-1].Op == syntax.OpEndText {
		after, parts = seq(), parts[:n-1]
	}
	each := []expr{before}
	for _, sub := range parts {
		each = append(each, p.part(sub))
	}
	return seq(append(each, after)...)
}

// part is one part of a pattern. Its switch has the operations of regexp/syntax
// that are left after Simplify.
func (p *pattern) part(re *syntax.Regexp) expr {
	if p.spend(1 + len(re.Rune)/2); p.err != nil {
		return seq()
	}
	each := func() (all []expr) {
		for _, sub := range re.Sub {
			all = append(all, p.part(sub))
		}
		return all
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return seq()
	case syntax.OpLiteral:
		var all []expr
		for _, r := range re.Rune {
			class := []rune{r, r}
			if re.Flags&syntax.FoldCase != 0 {
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					class = append(class, f, f)
				}
			}
			all = append(all, p.class(class))
		}
		return seq(all...)
	case syntax.OpCharClass:
		return p.class(re.Rune)
	case syntax.OpAnyChar:
		return p.class([]rune{0, unicode.MaxRune})
	case syntax.OpAnyCharNotNL: // of [^\n], inGo has taken the dots
		return p.class([]rune{0, '\n' - 1, '\n' + 1, unicode.MaxRune})
	case syntax.OpCapture, syntax.OpConcat:
		return seq(each()...)
	case syntax.OpAlternate:
		return alt(each()...)
	case syntax.OpStar:
		return star(p.part(re.Sub[0]))
	case syntax.OpPlus:
		return repeat(p.part(re.Sub[0]), 1, -1)
	case syntax.OpQuest:
		return optional(p.part(re.Sub[0]))
	}
	p.exotic = true // an assertion in the middle, or nothing at all
	return seq()
}

// class is one character of some ranges. Control characters are left out, but for
// what JSON has short escapes for.
func (p *pattern) class(ranges []rune) expr {
	return p.rule(fmt.Sprint("class ", p.quoted, p.noAngle, ranges), func() expr { return p.of(ranges) })
}

// visible is one character outside of ASCII that is no blank or end of a line in
// ECMAScript, where \S is another than in Go.
var visible = alt(runes(0xa1, 0x167f), runes(0x1681, 0x1fff), runes(0x200b, 0x2027), runes(0x202a, 0x202e), runes(0x2030, 0x205e),
	runes(0x2060, 0x2fff), runes(0x3001, 0xfefe), runes(0xff00, unicode.MaxRune))

var escapes = map[rune]string{'\b': `\b`, '\f': `\f`, '\n': `\n`, '\r': `\r`, '\t': `\t`}

func (p *pattern) of(ranges []rune) expr {
	var ascii byteSet
	var options []expr
	for i := 0; i < len(ranges); i += 2 {
		from, to := ranges[i], ranges[i+1]
		for r := from; r <= min(to, 0x7f); r++ {
			switch {
			case r == '<' && p.noAngle:
				if p.quoted {
					options = append(options, lit(`\u003c`))
				}
			case p.quoted && (r == '"' || r == '\\'):
				options = append(options, lit(`\`+string(r)))
			case p.quoted && escapes[r] != "":
				options = append(options, lit(escapes[r]))
			case r == '\n' || r == '\t':
				ascii.add(byte(r), byte(r))
			case r >= 0x20:
				ascii.add(byte(r), byte(r))
			}
		}
		if to == unicode.MaxRune && from <= 0xa0 {
			options = append(options, p.rule("visible", func() expr { return visible }))
		} else if to > 0x7f {
			options = append(options, runes(max(from, 0x80), to))
		}
	}
	if ascii != (byteSet{}) {
		options = append(options, oneOf(ascii))
	}
	return alt(options...)
}
