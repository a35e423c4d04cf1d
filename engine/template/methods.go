package template

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// callMethod runs v.name(...), Python's methods of strings and mappings.
func callMethod(r *run, v value, name string, args []value) value {
	switch x := v.(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return m(x, args)
		}
	case object:
		return objectMethod(v, x, name, args)
	case *loop:
		return x.call(r, name, args)
	}
	panic(fmt.Errorf("not known for %s", typeName(v)))
}

func objectMethod(v value, o object, name string, args []value) value {
	switch {
	case name == "items" && len(args) == 0:
		return items(v, arguments{})
	case name == "keys" && len(args) == 0:
		return toList(v, arguments{})
	case name == "values" && len(args) == 0:
		values := make(list, len(o))
		for i, m := range o {
			values[i] = m.val
		}
		return values
	case name == "get" && len(args) > 0:
		if found, ok := o.get(text(args[0])); ok {
			return found
		}
		if len(args) > 1 {
			return args[1]
		}
		return none{}
	}
	panic(errors.New("not known for dict"))
}

type stringMethod func(s string, args []value) value

var stringMethods = map[string]stringMethod{
	"strip":        stripMethod(true, true),
	"lstrip":       stripMethod(true, false),
	"rstrip":       stripMethod(false, true),
	"split":        split(strings.Index, false),
	"rsplit":       split(strings.LastIndex, true),
	"startswith":   affix(strings.HasPrefix),
	"endswith":     affix(strings.HasSuffix),
	"upper":        changed(strings.ToUpper),
	"lower":        changed(strings.ToLower),
	"capitalize":   changed(capitalize),
	"title":        changed(title),
	"splitlines":   splitLines,
	"removeprefix": removed(strings.TrimPrefix),
	"removesuffix": removed(strings.TrimSuffix),
	"find":         position(strings.Index),
	"rfind":        position(strings.LastIndex),
	"count":        func(s string, args []value) value { return strings.Count(s, oneString(args)) },
	"replace": func(s string, args []value) value {
		return replaceString(s, argument(args, 0), argument(args, 1), argument(args, 2))
	},
	"join": func(s string, args []value) value {
		if len(args) != 1 {
			panic(errors.New("takes one list"))
		}
		return join(args[0], arguments{positional: []value{s}})
	},
	"isdigit": func(s string, _ []value) value {
		_, err := strconv.ParseUint(s, 10, 64)
		return err == nil || errors.Is(err, strconv.ErrRange)
	},
}

// argument returns an argument, nil when it was not given.
func argument(args []value, i int) value {
	if i < len(args) {
		return args[i]
	}
	return nil
}

func oneString(args []value) string {
	if len(args) != 1 || !isString(args[0]) {
		panic(errors.New("takes one string"))
	}
	return text(args[0])
}

func stripMethod(left, right bool) stringMethod {
	return func(s string, args []value) value {
		return strip(s, argument(args, 0), left, right)
	}
}

func changed(change func(string) string) stringMethod {
	return func(s string, _ []value) value { return change(s) }
}

func removed(remove func(s, affix string) string) stringMethod {
	return func(s string, args []value) value { return remove(s, oneString(args)) }
}

// affix is startswith and endswith, of one string or any of several.
func affix(has func(s, affix string) bool) stringMethod {
	return func(s string, args []value) value {
		if len(args) != 1 {
			panic(errors.New("takes one string or several in a tuple"))
		}
		if isString(args[0]) {
			return has(s, text(args[0]))
		}
		several, ok := sequence(args[0])
		if !ok {
			panic(errors.New("takes one string or several in a tuple"))
		}
		for _, v := range several {
			if isString(v) && has(s, v.(string)) {
				return true
			}
		}
		return false
	}
}

// position counts in characters, as Python does.
func position(index func(s, sub string) int) stringMethod {
	return func(s string, args []value) value {
		i := index(s, oneString(args))
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return i
	}
}

// split is split and rsplit: at a separator, or without one at runs of whitespace.
func split(index func(s, sep string) int, fromRight bool) stringMethod {
	return func(s string, args []value) value {
		most := -1
		if v := argument(args, 1); v != nil {
			most = integerOf(v)
		}
		sep := argument(args, 0)
		if sep == nil || isNone(sep) {
			if most >= 0 {
				panic(errors.New("a limit needs a separator"))
			}
			return stringList(words(s))
		}
		if text(sep) == "" {
			panic(errors.New("empty separator"))
		}
		return stringList(cutAll(s, text(sep), most, index, fromRight))
	}
}

// words are the parts of a string between runs of whitespace.
func words(s string) (all []string) {
	for word := range strings.FieldsFuncSeq(s, isPythonSpace) {
		checkElements(len(all) + 1)
		all = append(all, word)
	}
	return all
}

func cutAll(s, sep string, most int, index func(s, sep string) int, fromRight bool) []string {
	var parts []string
	for most != 0 {
		i := index(s, sep)
		if i < 0 {
			break
		}
		most--
		checkElements(len(parts) + 1)
		if fromRight {
			parts, s = append(parts, s[i+len(sep):]), s[:i]
		} else {
			parts, s = append(parts, s[:i]), s[i+len(sep):]
		}
	}
	parts = append(parts, s)
	if fromRight {
		slices.Reverse(parts)
	}
	return parts
}

func stringList(parts []string) value {
	out := make(list, len(parts))
	for i, s := range parts {
		out[i] = s
	}
	return out
}

// lineEnds are those of Python, as one.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\x1c", "\n", "\x1d", "\n", "\x1e", "\n",
	"\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

func splitLines(s string, _ []value) value {
	if s == "" {
		return list{}
	}
	s = strings.TrimSuffix(lineEnds.Replace(s), "\n")
	checkElements(strings.Count(s, "\n"))
	return stringList(strings.Split(s, "\n"))
}

// title starts every run of letters with a capital.
func title(s string) string {
	var b strings.Builder
	inside := false
	for _, r := range s {
		switch {
		case !unicode.IsLetter(r):
			b.WriteRune(r)
		case inside:
			b.WriteRune(unicode.ToLower(r))
		default:
			b.WriteRune(unicode.ToTitle(r))
		}
		inside = unicode.IsLetter(r)
	}
	return b.String()
}
