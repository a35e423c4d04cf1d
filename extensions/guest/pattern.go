package guest

import (
	"errors"
	"net/url"
	"strings"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// Pattern is a path that a module answers: segments, each of them text, a
// parameter {name}, or a parameter with text behind it, {name}:verb. A parameter
// is one segment of what was sent, with its escapes undone, so it may hold a slash.
// Text is compared as it was sent.
type Pattern struct{ segments []segment }

type segment struct {
	text  string // all of it, or what stands behind the parameter
	param string // empty: there is none
}

const (
	segmentsMax = 8
	paramMax    = 512 // bytes of a parameter's value
)

// ParsePattern reads a pattern. It refuses one that could match a path of the
// contract or of the node.
func ParsePattern(path string) (p Pattern, err error) {
	parts := strings.Split(path, "/")
	if len(path) > 256 || len(parts) < 2 || parts[0] != "" || len(parts)-1 > segmentsMax {
		return p, errors.New("want / and 1 to 8 segments, at most 256 bytes")
	}
	names := map[string]bool{}
	for _, part := range parts[1:] {
		s := segment{text: part}
		if strings.HasPrefix(part, "{") {
			name, rest, closed := strings.Cut(part[1:], "}")
			if !closed || !token(name) || names[name] || rest != "" && (rest[0] != ':' || len(rest) == 1) {
				return p, errors.New("a parameter is {name} or {name}:verb, each name once")
			}
			names[name] = true
			s = segment{text: rest, param: name}
		}
		if s.param == "" && s.text == "" || s.text == "." || s.text == ".." ||
			strings.ContainsFunc(s.text, func(c rune) bool { return !inName(c) && c != ':' }) {
			return p, errors.New("a segment is letters, digits and - _ . : and neither empty nor . nor .. alone")
		}
		p.segments = append(p.segments, s)
	}
	if p.reserved() {
		return p, errors.New("the path is the contract's or the node's own")
	}
	return p, nil
}

// What begins the paths that no route may have, whatever the case of their letters.
var (
	reservedFirst = []string{"health", "healthz", "readyz", "metrics", "admin", "debug", "drain", "console"}
	reservedV1    = []string{"messages", "chat", "responses", "models"}
)

// reserved says whether the pattern could match a path of the contract or the node.
func (p Pattern) reserved() bool {
	first := p.segments[0]
	if first.param != "" || among(reservedFirst, first.text) {
		return true
	}
	return strings.EqualFold(first.text, "v1") &&
		(len(p.segments) == 1 || p.segments[1].param != "" || among(reservedV1, p.segments[1].text))
}

func among(names []string, s string) bool {
	for _, name := range names {
		if strings.EqualFold(name, s) {
			return true
		}
	}
	return false
}

// shape is the pattern without the names of its parameters.
func (p Pattern) shape() string {
	var b strings.Builder
	for _, s := range p.segments {
		b.WriteByte('/')
		if s.param != "" {
			b.WriteString("{}")
		}
		b.WriteString(s.text)
	}
	return b.String()
}

// First is the first segment, which is text.
func (p Pattern) First() string { return p.segments[0].text }

// Overlaps says whether some path matches both patterns.
func (p Pattern) Overlaps(q Pattern) bool {
	if len(p.segments) != len(q.segments) {
		return false
	}
	for i, s := range p.segments {
		if !s.overlaps(q.segments[i]) {
			return false
		}
	}
	return true
}

func (s segment) overlaps(t segment) bool {
	switch {
	case s.param == "" && t.param == "":
		return s.text == t.text
	case s.param == "":
		return t.overlaps(s)
	case t.param == "": // a parameter is not empty
		return len(t.text) > len(s.text) && strings.HasSuffix(t.text, s.text)
	}
	return strings.HasSuffix(s.text, t.text) || strings.HasSuffix(t.text, s.text)
}

// Before says whether p goes first where both match: text before a parameter with
// text, and that before one alone, from the left.
func (p Pattern) Before(q Pattern) bool {
	for i := range min(len(p.segments), len(q.segments)) {
		if a, b := p.segments[i].rank(), q.segments[i].rank(); a != b {
			return a > b
		}
	}
	return false
}

// rank is larger for what is more specific: the length of the text, and all text
// before any parameter.
func (s segment) rank() int {
	if s.param == "" {
		return 1 << 20
	}
	return len(s.text)
}

// Match says whether a path, as it was sent and without its query, is one of the
// pattern's, and gives its parameters.
func (p Pattern) Match(path []byte) (params []abi.Pair, ok bool) {
	rest := string(path)
	for i, s := range p.segments {
		if !strings.HasPrefix(rest, "/") {
			return nil, false
		}
		part, behind, more := strings.Cut(rest[1:], "/")
		if more == (i == len(p.segments)-1) {
			return nil, false
		}
		rest = "/" + behind
		if s.param == "" {
			if part != s.text {
				return nil, false
			}
			continue
		}
		value, is := strings.CutSuffix(part, s.text)
		if value, is = paramOf(value, is); !is {
			return nil, false
		}
		params = append(params, abi.Pair{Name: s.param, Value: value})
	}
	return params, true
}

// paramOf undoes the escapes of a parameter. What is empty, long, no text, or a
// step in a path is none.
func paramOf(sent string, is bool) (string, bool) {
	if !is || sent == "" || len(sent) > 3*paramMax {
		return "", false
	}
	value, err := url.PathUnescape(sent)
	if err != nil || len(value) > paramMax || value == "." || value == ".." || !utf8.ValidString(value) ||
		strings.ContainsFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return "", false
	}
	return value, true
}
