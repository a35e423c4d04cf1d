package template

import (
	"errors"
	"fmt"
	"strings"
)

// jsonStyle is the layout of json.dumps: with an indent each element is on
// its own line, without one everything is on one line.
type jsonStyle struct {
	indent string // one level; used if lines
	lines  bool
	item   string // between elements
	key    string // between key and value
	ascii  bool   // escape everything outside ASCII
	sort   bool
}

// defaultJSON is json.dumps(x, ensure_ascii=False), the tojson of chat templates.
var defaultJSON = jsonStyle{item: ", ", key: ": "}

// appendJSON writes v as Python's json.dumps would.
func (s *jsonStyle) appendJSON(b []byte, v value, depth int) []byte {
	if len(b) > outputMax {
		panic(errLongString)
	}
	checkDepth(depth)
	switch x := v.(type) {
	case string:
		return s.appendString(b, x)
	case object:
		return s.appendObject(b, x, depth)
	case none:
		return append(b, "null"...)
	case bool:
		if x {
			return append(b, "true"...)
		}
		return append(b, "false"...)
	}
	switch {
	case isUndefined(v):
		panic(errors.New("object of type Undefined is not JSON serializable"))
	case isFloat(v):
		return append(b, jsonFloat(v.(float))...)
	case isInteger(v):
		return append(b, text(v)...)
	}
	items, ok := elements(v)
	if !ok {
		panic(fmt.Errorf("object of type %s is not JSON serializable", typeName(v)))
	}
	return s.appendList(b, items, depth)
}

// jsonFloat differs from repr in the names of what is not a number.
func jsonFloat(f float) string {
	switch s := f.String(); s {
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	case "nan":
		return "NaN"
	default:
		return s
	}
}

func (s *jsonStyle) appendObject(b []byte, o object, depth int) []byte {
	if len(o) == 0 {
		return append(b, "{}"...)
	}
	if s.sort {
		o = sortedObject(o)
	}
	b = append(b, '{')
	for i, m := range o {
		if i > 0 {
			b = append(b, s.item...)
		}
		b = s.newLine(b, depth+1)
		b = s.appendString(b, m.key)
		b = append(b, s.key...)
		b = s.appendJSON(b, m.val, depth+1)
	}
	return append(s.newLine(b, depth), '}')
}

func (s *jsonStyle) appendList(b []byte, l list, depth int) []byte {
	if len(l) == 0 {
		return append(b, "[]"...)
	}
	b = append(b, '[')
	for i, v := range l {
		if i > 0 {
			b = append(b, s.item...)
		}
		b = s.newLine(b, depth+1)
		b = s.appendJSON(b, v, depth+1)
	}
	return append(s.newLine(b, depth), ']')
}

func (s *jsonStyle) newLine(b []byte, depth int) []byte {
	if !s.lines {
		return b
	}
	b = append(b, '\n')
	for range depth {
		b = append(b, s.indent...)
	}
	return b
}

// appendString quotes the way Python does: only what must be escaped is.
func (s *jsonStyle) appendString(b []byte, v string) []byte {
	b = append(b, '"')
	start := 0
	for i, r := range v {
		if r >= 0x20 && r != '"' && r != '\\' && (r < 0x7f || !s.ascii) {
			continue
		}
		b = append(b, v[start:i]...)
		b = appendEscape(b, r)
		start = i + len(string(r))
	}
	b = append(b, v[start:]...)
	return append(b, '"')
}

func appendEscape(b []byte, r rune) []byte {
	if i := strings.IndexRune("\"\\\n\r\t\f\b", r); i >= 0 {
		return append(b, '\\', `"\nrtfb`[i])
	}
	if r >= 0x10000 {
		r -= 0x10000
		b = fmt.Appendf(b, `\u%04x`, 0xd800+r>>10)
		r = 0xdc00 + r&0x3ff
	}
	return fmt.Appendf(b, `\u%04x`, r)
}

// toJSON is the tojson filter of chat templates: no HTML escaping, keys in
// their order, Python's spacing, and the keyword arguments of json.dumps.
func toJSON(in value, args arguments) value {
	style := jsonArguments(args)
	return string(style.appendJSON(make([]byte, 0, 256), in, 0))
}

func jsonArguments(args arguments) jsonStyle {
	s := defaultJSON
	s.ascii = args.flag(0, "ensure_ascii")
	if v := args.get(1, "indent"); v != nil && !isNone(v) {
		s.lines, s.item, s.indent = true, ",", indentation(v)
	}
	if v := args.get(2, "separators"); v != nil && !isNone(v) {
		pair, ok := elements(v)
		if !ok || len(pair) != 2 {
			panic(errors.New("tojson: separators must be a pair"))
		}
		s.item, s.key = text(pair[0]), text(pair[1])
	}
	s.sort = args.flag(3, "sort_keys")
	return s
}
