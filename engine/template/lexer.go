package template

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token is.
type tokenKind uint8

const (
	tokenEOF       tokenKind = iota
	tokenText                // between tags, with the whitespace that tags take already gone
	tokenOutput              // {{
	tokenOutputEnd           // }}
	tokenBlock               // {%
	tokenBlockEnd            // %}
	tokenName
	tokenString // decoded
	tokenInteger
	tokenFloat
	tokenOperator
)

// token is one token of a template.
type token struct {
	kind tokenKind
	text string
	line int // from 1
}

// is reports an operator or, with kind tokenName, a keyword.
func (t token) is(kind tokenKind, text string) bool { return t.kind == kind && t.text == text }

// lexer cuts a template into tokens as Jinja does with trim_blocks and
// lstrip_blocks, the setting of chat templates: a block or comment takes the
// line break after it and, at the start of a line, the blanks before it; a
// minus takes all whitespace on its side and a plus leaves it.
// (https://jinja.palletsprojects.com/en/stable/templates/#whitespace-control)
type lexer struct {
	src       string
	pos       int
	line      int // of counted
	counted   int // bytes whose line breaks are in line
	lineStart bool
	tokens    []token
}

// lex returns the tokens of a template, the last of kind tokenEOF.
func lex(source string) ([]token, error) {
	if !utf8.ValidString(source) {
		return nil, errors.New("not valid UTF-8")
	}
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	l := &lexer{src: strings.TrimSuffix(source, "\n"), line: 1, lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.lineNow(), err)
		}
	}
	l.emit(tokenEOF, "")
	return l.tokens, nil
}

func (l *lexer) lineNow() int {
	l.line += strings.Count(l.src[l.counted:l.pos], "\n")
	l.counted = l.pos
	return l.line
}

func (l *lexer) emit(kind tokenKind, text string) {
	l.tokens = append(l.tokens, token{kind, text, l.lineNow()})
}

// next reads the text before a tag, then the tag.
func (l *lexer) next() error {
	rest := l.src[l.pos:]
	i := tagStart(rest)
	if i == len(rest) {
		l.text(rest)
		l.pos = len(l.src)
		return nil
	}
	mark, sign := rest[i+1], byte(0)
	if i+2 < len(rest) && (rest[i+2] == '-' || rest[i+2] == '+') {
		sign = rest[i+2]
	}
	l.text(l.stripRight(rest[:i], sign, mark != '{'))
	l.pos += i
	if begin := rawBegin.FindString(l.src[l.pos:]); begin != "" {
		return l.raw(begin)
	}
	l.pos += 2
	if sign != 0 {
		l.pos++
	}
	switch mark {
	case '#':
		return l.comment()
	case '{':
		l.emit(tokenOutput, "")
		return l.inside("}}", tokenOutputEnd)
	default:
		l.emit(tokenBlock, "")
		return l.inside("%}", tokenBlockEnd)
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

func (l *lexer) text(s string) {
	if s != "" {
		l.emit(tokenText, s)
	}
}

// stripRight takes from the text before a tag what the tag takes.
func (l *lexer) stripRight(s string, sign byte, block bool) string {
	if sign == '-' {
		return strings.TrimRightFunc(s, isPythonSpace)
	}
	if sign == '+' || !block {
		return s
	}
	start := strings.LastIndexByte(s, '\n') + 1
	if (start > 0 || l.lineStart) && strings.TrimLeftFunc(s[start:], isPythonSpace) == "" {
		return s[:start]
	}
	return s
}

// end consumes the end of a tag and the whitespace that it takes, and reports
// whether there is one here.
func (l *lexer) end(mark string) bool {
	rest := l.src[l.pos:]
	switch {
	case strings.HasPrefix(rest, "-"+mark):
		after := rest[1+len(mark):]
		taken := after[:len(after)-len(strings.TrimLeftFunc(after, isPythonSpace))]
		l.pos += 1 + len(mark) + len(taken)
		l.lineStart = strings.HasSuffix(taken, "\n")
	case mark != "}}" && strings.HasPrefix(rest, "+"+mark):
		l.pos += 1 + len(mark)
		l.lineStart = false
	case strings.HasPrefix(rest, mark):
		l.pos += len(mark)
		l.lineStart = mark != "}}" && strings.HasPrefix(rest[len(mark):], "\n")
		if l.lineStart {
			l.pos++
		}
	default:
		return false
	}
	return true
}

func (l *lexer) comment() error {
	i := strings.Index(l.src[l.pos:], "#}")
	if i < 0 {
		return errors.New(`"#}" is missing`)
	}
	if i > 0 && strings.IndexByte("-+", l.src[l.pos+i-1]) >= 0 {
		i--
	}
	l.pos += i
	l.end("#}")
	return nil
}

var (
	rawBegin = regexp.MustCompile(`^\{%[-+]?\s*raw\s*(?:-%\}\s*|%\})`)
	rawEnd   = regexp.MustCompile(`\{%([-+]?)\s*endraw\s*(?:[-+]?%\})`)
)

// raw reads a raw block: what it holds is text.
func (l *lexer) raw(begin string) error {
	l.pos += len(begin)
	l.lineStart = strings.HasSuffix(begin, "\n")
	rest := l.src[l.pos:]
	at := rawEnd.FindStringSubmatchIndex(rest)
	if at == nil {
		return errors.New("raw block has no end")
	}
	sign := byte(0)
	if at[3] > at[2] {
		sign = rest[at[2]]
	}
	l.text(l.stripRight(rest[:at[0]], sign, true))
	l.pos += at[1] - len("%}")
	if strings.IndexByte("-+", l.src[l.pos-1]) >= 0 {
		l.pos--
	}
	l.end("%}")
	return nil
}

// operatorTokens are the operators of more than one character; all others have one.
var operatorTokens = []string{"**", "//", "==", "!=", ">=", "<="}

// inside reads the tokens of a tag. Within brackets the end of a tag is none.
func (l *lexer) inside(mark string, endKind tokenKind) error {
	var open []byte
	for l.pos < len(l.src) {
		rest := l.src[l.pos:]
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case isPythonSpace(r):
			l.pos += size
		case len(open) == 0 && l.end(mark):
			l.emit(endKind, "")
			return nil
		case r == '"' || r == '\'':
			if err := l.literal(rest[0]); err != nil {
				return err
			}
		case r >= '0' && r <= '9':
			l.number(rest)
		case isNameRune(r):
			n := strings.IndexFunc(rest, func(r rune) bool { return !isNameRune(r) })
			if n < 0 {
				n = len(rest)
			}
			l.emit(tokenName, rest[:n])
			l.pos += n
		case strings.ContainsRune("+-*/%~[](){}<>=!.:|,;", r):
			var err error
			if open, err = l.operator(rest, open); err != nil {
				return err
			}
		default:
			return fmt.Errorf("unexpected %q", r)
		}
	}
	return fmt.Errorf("%q is missing", mark)
}

// operator reads one operator and keeps the brackets that are open.
func (l *lexer) operator(rest string, open []byte) ([]byte, error) {
	text := rest[:1]
	for _, long := range operatorTokens {
		if strings.HasPrefix(rest, long) {
			text = long
		}
	}
	switch text {
	case "(", "[", "{":
		open = append(open, text[0]) // how many the parser bounds
	case ")", "]", "}":
		if len(open) == 0 {
			return nil, fmt.Errorf("unexpected %q", text)
		}
		if last := open[len(open)-1]; closing[last] != text[0] {
			return nil, fmt.Errorf("%q closes %q", text, string(last))
		}
		open = open[:len(open)-1]
	}
	l.emit(tokenOperator, text)
	l.pos += len(text)
	return open, nil
}

var closing = map[byte]byte{'(': ')', '[': ']', '{': '}'}

func isNameRune(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

// numberToken is a number of Jinja: digits may have underscores between them.
var numberToken = regexp.MustCompile(`^\d+(?:_\d+)*(\.\d+(?:_\d+)*)?([eE][-+]?\d+(?:_\d+)*)?`)

func (l *lexer) number(rest string) {
	at := numberToken.FindStringSubmatchIndex(rest)
	kind := tokenInteger
	if at[2] >= 0 || at[4] >= 0 {
		kind = tokenFloat
	}
	l.emit(kind, strings.ReplaceAll(rest[:at[1]], "_", ""))
	l.pos += at[1]
}

// literal reads a string literal and decodes it as Python does.
func (l *lexer) literal(quote byte) error {
	start := l.pos
	l.pos++
	var b strings.Builder
	for l.pos < len(l.src) {
		c := l.src[l.pos]
		switch c {
		case quote:
			l.pos++
			l.emit(tokenString, b.String())
			return nil
		case '\\':
			text, size := unescape(l.src[l.pos:])
			b.WriteString(text)
			l.pos += size
		default:
			b.WriteByte(c)
			l.pos++
		}
	}
	l.pos = start
	return errors.New("a string is not closed")
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
