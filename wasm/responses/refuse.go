package responses

import (
	"bytes"
	"strconv"

	"corenode/wasm/sdk/scan"
)

// is checks the kind of the value that s stands before, in a text that stands at base.
func (r *request) is(s *scan.Scanner, base place, kind scan.Kind) bool {
	got := s.Kind()
	if got != kind && got != scan.Invalid {
		r.Wrong(base.at(s.Path()), kind.String(), got)
	}
	return r.Err == nil && got == kind
}

// place is where in the body something stands. It becomes a path only when
// there is something to say about it.
type place struct {
	base  string // path of an array; empty for the body itself
	item  int    // number of an element of it, -1 for none
	field string // of that element
	part  int    // number of an element of that field, -1 for none
}

// top is the body.
var top = place{item: -1, part: -1}

// element is a place in an array.
func element(base string, item int) place { return place{base: base, item: item, part: -1} }

// in is a field of an element, or an element of that field.
func (p place) in(field string, part int) place {
	p.field, p.part = field, part
	return p
}

// at is the path of a member there; of the place itself for an empty name.
func (p place) at(name string) string {
	path := p.base
	if p.item >= 0 {
		path = join(path, strconv.Itoa(p.item))
	}
	path = join(path, p.field)
	if p.part >= 0 {
		path = join(path, strconv.Itoa(p.part))
	}
	return join(path, name)
}

// join makes a path of two, either of which may be empty.
func join(base, path string) string {
	if base != "" && path != "" {
		return base + "." + path
	}
	return base + path
}

// kindOf is the kind of a checked value.
func kindOf(raw []byte) scan.Kind {
	switch raw[0] {
	case '"':
		return scan.String
	case '{':
		return scan.Object
	case '[':
		return scan.Array
	case 'n':
		return scan.Null
	case 't', 'f':
		return scan.Bool
	}
	return scan.Number
}

// text is what stands between the quotes of the value of a field, which must be
// a string; nil for an absent one.
func (r *request) text(raw []byte, p place, name string) []byte {
	if raw == nil || r.Err != nil {
		return nil
	}
	if raw[0] != '"' {
		r.Wrong(p.at(name), "a string", kindOf(raw))
		return nil
	}
	return raw[1 : len(raw)-1]
}

// required is text of a field that must be there and not be empty.
func (r *request) required(raw []byte, p place, name string) []byte {
	text := r.text(raw, p, name)
	if len(text) == 0 {
		r.Fail(p.at(name), "field required, a string that is not empty")
	}
	return text
}

// word is a string without escapes, for comparing and for messages.
func word(escaped []byte) []byte {
	if bytes.IndexByte(escaped, '\\') < 0 {
		return escaped
	}
	return scan.Unescape(nil, escaped)
}

// quote shows a client's word in a message, cut to what a message has room for.
func quote(s []byte) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(string(s[:most]) + "...")
	}
	return strconv.Quote(string(s))
}

// appendCompact appends a checked JSON text without white space between its
// tokens: line breaks would end a line of a stream.
func appendCompact(dst, raw []byte) []byte {
	for len(raw) > 0 {
		i := 0
		for i < len(raw) && raw[i] > ' ' && raw[i] != '"' {
			i++
		}
		dst = append(dst, raw[:i]...)
		if raw = raw[i:]; len(raw) == 0 {
			break
		}
		if raw[0] != '"' {
			raw = raw[1:]
			continue
		}
		end := 1
		for raw[end] != '"' {
			if raw[end] == '\\' {
				end++
			}
			end++
		}
		dst = append(dst, raw[:end+1]...)
		raw = raw[end+1:]
	}
	return dst
}
