package template

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filterFunc is a filter of Jinja.
type filterFunc func(in value, args arguments) value

// filters are those of Jinja that chat templates use; strings that they build are
// bounded. Those that take another filter or test by its name are in selection.go.
var filters = map[string]filterFunc{
	"tojson":     toJSON,
	"from_json":  readJSONText,
	"trim":       trim,
	"string":     func(in value, _ arguments) value { return text(in) },
	"safe":       func(in value, _ arguments) value { return in },
	"length":     length,
	"count":      length,
	"items":      items,
	"list":       toList,
	"first":      first,
	"last":       last,
	"reverse":    reverse,
	"join":       join,
	"default":    orDefault,
	"d":          orDefault,
	"replace":    replace,
	"upper":      onString(strings.ToUpper),
	"lower":      onString(strings.ToLower),
	"capitalize": onString(capitalize),
	"title":      onString(titleWords),
	"escape":     onString(htmlEscaper.Replace),
	"e":          onString(htmlEscaper.Replace),
	"wordcount":  wordCount,
	"urlencode":  urlEncode,
	"indent":     indent,
	"dictsort":   dictSort,
	"abs":        absolute,
	"int":        toInteger,
	"float":      toFloat,
	"round":      round,
	"sort":       sorted,
	"min":        extreme(-1),
	"max":        extreme(1),
	"sum":        total,
	"unique":     unique,
	"groupby":    groupBy,
}

// filterByName finds a filter.
func filterByName(name string) (filterFunc, bool) {
	if f, ok := selections[name]; ok {
		return f, true
	}
	f, ok := filters[name]
	return f, ok
}

func onString(change func(string) string) filterFunc {
	return func(in value, _ arguments) value { return change(text(in)) }
}

func capitalize(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[size:])
}

func trim(in value, args arguments) value {
	chars := args.get(0, "chars")
	before := text(in)
	after := strip(before, chars, true, true)
	if isString(in) && len(after) == len(before) {
		return in
	}
	return after
}

// stripMax bounds the characters that are looked for at the ends of a string, in bytes.
const stripMax = 256

// strip is Python's str.strip, lstrip and rstrip: of whitespace, or of any of the characters.
func strip(s string, chars value, left, right bool) string {
	drop := isPythonSpace
	if chars != nil && !isNone(chars) && !isUndefined(chars) {
		set := text(chars)
		if len(set) > stripMax {
			panic(fmt.Errorf("%w: more than %d bytes to strip", ErrLimit, stripMax))
		}
		drop = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if left {
		s = strings.TrimLeftFunc(s, drop)
	}
	if right {
		s = strings.TrimRightFunc(s, drop)
	}
	return s
}

// isPythonSpace is str.isspace: Unicode's whitespace and four separators of ASCII.
func isPythonSpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func length(in value, _ arguments) value {
	switch x := in.(type) {
	case string:
		return utf8.RuneCountInString(x)
	case object:
		return len(x)
	}
	all, ok := sequence(in)
	if !ok {
		panic(fmt.Errorf("%s has no length", typeName(in)))
	}
	return len(all)
}

func items(in value, _ arguments) value {
	o, ok := in.(object)
	if !ok && !isUndefined(in) {
		panic(fmt.Errorf("%s is not a mapping", typeName(in)))
	}
	pairs := make(list, len(o))
	for i, m := range o {
		pairs[i] = tuple{m.key, m.val}
	}
	return pairs
}

func toList(in value, _ arguments) value {
	return slices.Clone(each(in))
}

func first(in value, _ arguments) value {
	if s, ok := in.(string); ok {
		return character(s, 0)
	}
	all, _ := sequence(in)
	return all.at(0)
}

func last(in value, _ arguments) value {
	if s, ok := in.(string); ok {
		return character(s, -1)
	}
	all, _ := sequence(in)
	return all.at(-1)
}

func reverse(in value, _ arguments) value {
	return slice(in, none{}, none{}, -1)
}

func join(in value, args arguments) value {
	all, separator := each(in), text(args.or(0, "d", ""))
	name := args.get(1, "attribute")
	var b strings.Builder
	for i, v := range all {
		if i > 0 {
			b.WriteString(separator)
		}
		if name != nil {
			v = item(v, name)
		}
		b.WriteString(text(v))
		if b.Len() > outputMax {
			panic(errLongString)
		}
	}
	return b.String()
}

func orDefault(in value, args arguments) value {
	if isUndefined(in) || args.flag(1, "boolean") && !isTrue(in) {
		return args.or(0, "default_value", "")
	}
	return in
}

func replace(in value, args arguments) value {
	return replaceString(text(in), args.get(0, "old"), args.get(1, "new"), args.get(2, "count"))
}

func replaceString(s string, from, to, count value) value {
	if from == nil || to == nil {
		panic(errors.New("replace takes what to replace and by what"))
	}
	n := -1
	if count != nil && !isNone(count) {
		n = integerOf(count)
	}
	hits := strings.Count(s, text(from))
	if n >= 0 {
		hits = min(hits, n)
	}
	if hits*len(text(to)) > outputMax {
		panic(errLongString)
	}
	return strings.Replace(s, text(from), text(to), n)
}

// indentMax bounds an indentation, in characters.
const indentMax = 1000

// indentation is a text, or so many blanks.
func indentation(v value) string {
	if isInteger(v) {
		return strings.Repeat(" ", max(0, min(integerOf(v), indentMax)))
	}
	return text(v)
}

// indent is Jinja's: the first line and blank lines are left alone unless asked for.
func indent(in value, args arguments) value {
	by := indentation(args.or(0, "width", 4))
	lines := strings.Split(strings.TrimSuffix(lineEnds.Replace(text(in)+"\n"), "\n"), "\n")
	if (len(lines)+1)*len(by) > outputMax {
		panic(errLongString)
	}
	for i := range lines {
		if i == 0 && !args.flag(1, "first") || i > 0 && lines[i] == "" && !args.flag(2, "blank") {
			continue
		}
		lines[i] = by + lines[i]
	}
	return strings.Join(lines, "\n")
}

// sortedObject returns the members by key, as json.dumps does with sort_keys.
func sortedObject(o object) object {
	sorted := slices.Clone(o)
	slices.SortStableFunc(sorted, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return sorted
}

// titleWords is Jinja's title: what follows the start, a blank, a dash or an
// opening bracket is a capital, the rest is not.
func titleWords(s string) string {
	var b strings.Builder
	start := true
	for _, r := range s {
		if start {
			b.WriteString(strings.ToUpper(string(r)))
		} else {
			b.WriteString(strings.ToLower(string(r)))
		}
		start = isPythonSpace(r) || strings.ContainsRune("-({[<", r)
	}
	return b.String()
}

// htmlEscaper writes what markupsafe.escape writes.
var htmlEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

func wordCount(in value, _ arguments) value {
	return len(strings.FieldsFunc(text(in), func(r rune) bool { return !isNameRune(r) }))
}

// urlEncode quotes a string for a path, or the pairs of a mapping for a query.
func urlEncode(in value, _ arguments) value {
	o, ok := in.(object)
	if !ok {
		return urlQuote(text(in), "/")
	}
	var b strings.Builder
	for i, m := range o {
		if i > 0 {
			b.WriteByte('&')
		}
		b.WriteString(queryQuote(m.key) + "=" + queryQuote(text(m.val)))
	}
	return b.String()
}

func queryQuote(s string) string { return strings.ReplaceAll(urlQuote(s, ""), "%20", "+") }

// urlQuote is Python's urllib.parse.quote: letters, digits and _.-~ stay.
func urlQuote(s, safe string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("_.-~"+safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
