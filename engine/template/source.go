package template

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// normalize rewrites a template so that gonja's lexer and parser see what
// Jinja's would. Only the inside of tags changes:
//   - string literals are decoded as Python does and written back with hex
//     escapes, since gonja misreads '\\' and rejects unknown escapes;
//   - line breaks become spaces, since gonja makes them part of the next name;
//   - keyword operators get spaces, since gonja takes `and(` for a name;
//   - `a if b else c`, which gonja knows only at the top of a tag, becomes
//     ((b) and [a] or [c])[0], which means the same and is as lazy; the
//     binder turns it back into a condition.
//
// It also bounds the nesting, because gonja's parser is recursive.
func normalize(source string) (string, error) {
	if !utf8.ValidString(source) {
		return "", errors.New("not valid UTF-8")
	}
	n := &normalizer{src: strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)}
	n.out.Grow(len(source) + len(source)/4)
	for n.pos < len(n.src) {
		if err := n.next(); err != nil {
			return "", fmt.Errorf("line %d: %w", 1+strings.Count(n.src[:min(n.pos, len(n.src))], "\n"), err)
		}
	}
	return n.out.String(), nil
}

type normalizer struct {
	src    string
	pos    int
	out    strings.Builder
	blocks int // open blocks
	depth  int // open brackets in the tag being read
}

// next copies the text before a tag, then the tag.
func (n *normalizer) next() error {
	rest := n.src[n.pos:]
	i := tagStart(rest)
	n.out.WriteString(rest[:i])
	n.pos += i
	rest = rest[i:]
	switch {
	case rest == "":
		return nil
	case strings.HasPrefix(rest, "{#"):
		return n.verbatim("#}")
	case strings.HasPrefix(rest, "{{"):
		return n.tag("}}")
	default:
		return n.tag("%}")
	}
}

func tagStart(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && (s[i+1] == '{' || s[i+1] == '%' || s[i+1] == '#') {
			return i
		}
	}
	return len(s)
}

// verbatim copies up to and with end.
func (n *normalizer) verbatim(end string) error {
	i := strings.Index(n.src[n.pos:], end)
	if i < 0 {
		return fmt.Errorf("%q is missing", end)
	}
	n.out.WriteString(n.src[n.pos : n.pos+i+len(end)])
	n.pos += i + len(end)
	return nil
}

// tag rewrites one {{ }} or {% %}.
func (n *normalizer) tag(end string) error {
	n.out.WriteString(n.src[n.pos : n.pos+2])
	n.pos += 2
	if c := n.peek(); c == '-' || c == '+' {
		n.out.WriteByte(c)
		n.pos++
	}
	n.out.WriteByte(' ')
	name := ""
	if end == "%}" {
		n.space()
		name = n.word()
		n.out.WriteString(name + " ")
	}
	body, err := n.tagBody(name, end)
	if err != nil {
		return err
	}
	if !n.atEnd(end) {
		return fmt.Errorf("unexpected %q", n.peek())
	}
	n.out.WriteString(body + " ")
	if c := n.peek(); c == '-' || c == '+' {
		n.out.WriteByte(c)
		n.pos++
	}
	n.out.WriteString(end)
	n.pos += 2
	if name == "raw" {
		return n.raw()
	}
	return n.nest(name, body)
}

// raw copies the text of a raw block; its end tag is read as any other.
func (n *normalizer) raw() error {
	for i := n.pos; i < len(n.src); i++ {
		rest, ok := strings.CutPrefix(n.src[i:], "{%")
		if !ok {
			continue
		}
		if strings.HasPrefix(strings.TrimLeft(rest, "-+ \t\n"), "endraw") {
			n.out.WriteString(n.src[n.pos:i])
			n.pos = i
			return nil
		}
	}
	return errors.New("raw block has no end")
}

// nest counts blocks that hold others.
func (n *normalizer) nest(name, body string) error {
	switch name {
	case "if", "for", "macro", "with", "filter", "generation", "call", "block":
		n.blocks++
	case "set":
		if !strings.Contains(body, "=") {
			n.blocks++
		}
	default:
		if strings.HasPrefix(name, "end") {
			n.blocks--
		}
	}
	if n.blocks > nestingMax {
		return fmt.Errorf("blocks nested deeper than %d", nestingMax)
	}
	return nil
}

// tagBody reads up to the end of the tag. Conditional expressions are
// rewritten where an expression is all there is: in {{ }} and after the = of a set.
func (n *normalizer) tagBody(name, end string) (string, error) {
	var b strings.Builder
	if name == "" {
		s, err := n.element(end)
		return s, err
	}
	for {
		s, err := n.run(end, "=")
		if err != nil {
			return "", err
		}
		b.WriteString(s)
		if n.atEnd(end) {
			return b.String(), nil
		}
		if n.peek() != '=' {
			return "", fmt.Errorf("unexpected %q", n.peek())
		}
		b.WriteByte('=')
		n.pos++
		if name == "set" {
			s, err = n.element(end)
			b.WriteString(s)
			return b.String(), err
		}
	}
}

// element reads one expression and rewrites it if it is a conditional. It
// stops before a comma, colon or assignment inside brackets, and at end.
func (n *normalizer) element(end string) (string, error) {
	if n.depth == 0 {
		return n.conditional(end, "", 0)
	}
	return n.conditional(end, ",:=", 0)
}

// conditional reads an expression up to a stop; an else is followed by another one.
func (n *normalizer) conditional(end, stops string, elses int) (string, error) {
	if elses > nestingMax {
		return "", fmt.Errorf("conditionals nested deeper than %d", nestingMax)
	}
	value, err := n.run(end, stops, "if")
	if err != nil || !n.keyword("if") {
		return value, err
	}
	condition, err := n.run(end, stops, "else")
	if err != nil {
		return "", err
	}
	other := undefinedName
	if n.keyword("else") {
		if other, err = n.conditional(end, stops, elses+1); err != nil {
			return "", err
		}
	}
	return "((" + condition + ") and [" + value + "] or [" + other + "])[0]", nil
}

// undefinedName is a name that no template defines.
const undefinedName = "corenode_undefined"

// run copies tokens until the end of the tag, a closing bracket, one of the
// stop characters or one of the words, all at this level, and consumes none of those.
func (n *normalizer) run(end, stops string, words ...string) (string, error) {
	var b strings.Builder
	for {
		if n.pos >= len(n.src) {
			return "", fmt.Errorf("%q is missing", end)
		}
		c := n.src[n.pos]
		switch {
		case n.depth == 0 && n.atEnd(end), strings.IndexByte(")]}", c) >= 0 && !n.atEnd(end):
			return b.String(), nil
		case n.comparison():
			b.WriteString(n.src[n.pos : n.pos+2])
			n.pos += 2
		case strings.IndexByte(stops, c) >= 0:
			return b.String(), nil
		case isSpaceByte(c):
			n.space()
			b.WriteByte(' ')
		case c == '"' || c == '\'':
			s, err := n.literal(c)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		case strings.IndexByte("([{", c) >= 0:
			s, err := n.brackets(c, end)
			if err != nil {
				return "", err
			}
			b.WriteString(s)
		case isWordByte(c):
			start := n.pos
			w := n.word()
			for _, stop := range words {
				if w == stop {
					n.pos = start
					return b.String(), nil
				}
			}
			b.WriteString(spaced(w))
		default:
			b.WriteByte(c)
			n.pos++
		}
	}
}

// comparison reports an operator that ends in = and is no assignment.
func (n *normalizer) comparison() bool {
	if n.pos+1 >= len(n.src) || n.src[n.pos+1] != '=' {
		return false
	}
	return strings.IndexByte("=!<>", n.src[n.pos]) >= 0
}

// spaced puts spaces around the operators that are words.
func spaced(w string) string {
	switch w {
	case "and", "or", "not", "in", "is", "if", "else":
		return " " + w + " "
	}
	return w
}

// brackets copies a bracketed group with its elements rewritten.
func (n *normalizer) brackets(open byte, end string) (string, error) {
	n.depth++
	defer func() { n.depth-- }()
	if n.depth > nestingMax {
		return "", fmt.Errorf("brackets nested deeper than %d", nestingMax)
	}
	closing := map[byte]byte{'(': ')', '[': ']', '{': '}'}[open]
	var b strings.Builder
	b.WriteByte(open)
	n.pos++
	for {
		s, err := n.element("\x00")
		if err != nil {
			return "", fmt.Errorf("a bracket is not closed: %q is missing", string(closing))
		}
		b.WriteString(s)
		c := n.src[n.pos]
		b.WriteByte(c)
		n.pos++
		if strings.IndexByte(")]}", c) < 0 {
			continue
		}
		if c != closing {
			return "", fmt.Errorf("%q closes %q", c, open)
		}
		return b.String(), nil
	}
}

// literal reads a string literal and writes it so that gonja reads the same text.
func (n *normalizer) literal(quote byte) (string, error) {
	n.pos++
	var b strings.Builder
	b.WriteByte('"')
	for n.pos < len(n.src) {
		c := n.src[n.pos]
		if c == quote {
			n.pos++
			b.WriteByte('"')
			return b.String(), nil
		}
		r, size := utf8.DecodeRuneInString(n.src[n.pos:])
		text := string(r)
		if c == '\\' {
			text, size = unescape(n.src[n.pos:])
		}
		n.pos += size
		for _, r := range text {
			if r < 0x20 || r == '"' || r == '\'' || r == '\\' {
				fmt.Fprintf(&b, `\x%02x`, r)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return "", errors.New("a string is not closed")
}

var simpleEscapes = map[byte]string{
	'n': "\n", 't': "\t", 'r': "\r", '\\': "\\", '\'': "'", '"': `"`,
	'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\n': "",
}

// unescape decodes the escape that s starts with, as Python does: an unknown
// one is left as it is. It returns the text and how many bytes it took.
func unescape(s string) (string, int) {
	if len(s) < 2 {
		return s, len(s)
	}
	if text, ok := simpleEscapes[s[1]]; ok {
		return text, 2
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[1]]
	if digits > 0 && len(s) >= 2+digits {
		if code, err := strconv.ParseUint(s[2:2+digits], 16, 32); err == nil {
			return string(rune(code)), 2 + digits
		}
	}
	end := 1
	for end < len(s) && end < 4 && s[end] >= '0' && s[end] <= '7' {
		end++
	}
	if end > 1 {
		code, _ := strconv.ParseUint(s[1:end], 8, 32) // octal digits only
		return string(rune(code)), end
	}
	return `\`, 1
}

func (n *normalizer) peek() byte {
	if n.pos < len(n.src) {
		return n.src[n.pos]
	}
	return 0
}

// atEnd reports whether the tag ends here, perhaps with a whitespace control.
func (n *normalizer) atEnd(end string) bool {
	rest := n.src[n.pos:]
	if rest != "" && (rest[0] == '-' || rest[0] == '+') && strings.HasPrefix(rest[1:], end) {
		return true
	}
	return strings.HasPrefix(rest, end)
}

func (n *normalizer) space() {
	for n.pos < len(n.src) && isSpaceByte(n.src[n.pos]) {
		n.pos++
	}
}

// word reads a name or number.
func (n *normalizer) word() string {
	start := n.pos
	for n.pos < len(n.src) && isWordByte(n.src[n.pos]) {
		n.pos++
	}
	return n.src[start:n.pos]
}

// keyword consumes w if it is the next word.
func (n *normalizer) keyword(w string) bool {
	if !strings.HasPrefix(n.src[n.pos:], w) {
		return false
	}
	n.pos += len(w)
	return true
}

func isSpaceByte(c byte) bool { return c == ' ' || c == '\t' || c == '\n' }

func isWordByte(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
