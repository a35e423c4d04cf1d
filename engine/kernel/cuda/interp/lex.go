package interp

import (
	"fmt"
	"strings"
)

// token is a word, a number, a string or one punctuation character.
type token struct {
	text string
	line int
}

// lexer cuts PTX text into tokens.
type lexer struct {
	text string
	at   int
	line int
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c == '%' || c == '.' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// skip passes white space and comments.
func (l *lexer) skip() error {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch {
		case rest[0] == '\n':
			l.line++
			l.at++
		case rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\r':
			l.at++
		case strings.HasPrefix(rest, "//"):
			n := strings.IndexByte(rest, '\n')
			if n < 0 {
				n = len(rest)
			}
			l.at += n
		case strings.HasPrefix(rest, "/*"):
			n := strings.Index(rest, "*/")
			if n < 0 {
				return fmt.Errorf("line %d: a comment has no end", l.line)
			}
			l.line += strings.Count(rest[:n], "\n")
			l.at += n + 2
		default:
			return nil
		}
	}
	return nil
}

// next returns the next token; its text is empty at the end.
func (l *lexer) next() (token, error) {
	if err := l.skip(); err != nil {
		return token{}, err
	}
	begin := l.at
	if begin == len(l.text) {
		return token{line: l.line}, nil
	}
	c := l.text[begin]
	switch {
	case wordByte(c):
		for l.at < len(l.text) {
			if wordByte(l.text[l.at]) {
				l.at++
			} else if strings.HasPrefix(l.text[l.at:], "::") {
				l.at += 2
			} else {
				break
			}
		}
	case c == '"':
		n := strings.IndexByte(l.text[begin+1:], '"')
		if n < 0 {
			return token{}, fmt.Errorf("line %d: a string has no end", l.line)
		}
		l.at += n + 2
	case strings.IndexByte("{}()[]<>,;:=+-@!|*", c) >= 0:
		l.at++
	default:
		return token{}, fmt.Errorf("line %d: character %q has no place in PTX", l.line, c)
	}
	return token{l.text[begin:l.at], l.line}, nil
}

// lex returns all tokens of a text; the last has no text.
func lex(text string) ([]token, error) {
	l := lexer{text: text, line: 1}
	var all []token
	for {
		t, err := l.next()
		if err != nil {
			return nil, err
		}
		all = append(all, t)
		if t.text == "" {
			return all, nil
		}
	}
}
