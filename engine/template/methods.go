package template

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// callMethod runs v.name(...), Python's methods of strings and mappings.
func callMethod(v *exec.Value, name string, args []*exec.Value) (*exec.Value, error) {
	switch x := v.Interface().(type) {
	case string:
		if m, ok := stringMethods[name]; ok {
			return m(x, args)
		}
	case object:
		return objectMethod(v, x, name, args)
	case *loop:
		return x.call(name, args)
	}
	return nil, fmt.Errorf("not known for %s", typeName(v))
}

func objectMethod(v *exec.Value, o object, name string, args []*exec.Value) (*exec.Value, error) {
	switch {
	case name == "items" && len(args) == 0:
		return items(v, nil, nil)
	case name == "keys" && len(args) == 0:
		return toList(v, nil, nil)
	case name == "values" && len(args) == 0:
		values := make(list, len(o))
		for i, m := range o {
			values[i] = m.val
		}
		return exec.AsValue(values), nil
	case name == "get" && len(args) > 0:
		if found, ok := o.get(args[0].String()); ok {
			return found, nil
		}
		if len(args) > 1 {
			return args[1], nil
		}
		return valueNone, nil
	}
	return nil, errors.New("not known for dict")
}

type stringMethod func(s string, args []*exec.Value) (*exec.Value, error)

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
	"count": func(s string, args []*exec.Value) (*exec.Value, error) {
		sub, err := oneString(args)
		return exec.AsValue(strings.Count(s, sub)), err
	},
	"replace": func(s string, args []*exec.Value) (*exec.Value, error) {
		return replaceString(s, argument(args, nil, 0, ""), argument(args, nil, 1, ""), argument(args, nil, 2, ""))
	},
	"join": func(s string, args []*exec.Value) (*exec.Value, error) {
		if len(args) != 1 {
			return nil, errors.New("takes one list")
		}
		return join(args[0], []*exec.Value{exec.AsValue(s)}, nil)
	},
	"isdigit": func(s string, _ []*exec.Value) (*exec.Value, error) {
		_, err := strconv.ParseUint(s, 10, 64)
		return boolean(err == nil || errors.Is(err, strconv.ErrRange)), nil
	},
}

func oneString(args []*exec.Value) (string, error) {
	if len(args) != 1 || !isString(args[0]) {
		return "", errors.New("takes one string")
	}
	return args[0].String(), nil
}

func stripMethod(left, right bool) stringMethod {
	return func(s string, args []*exec.Value) (*exec.Value, error) {
		return exec.AsValue(strip(s, argument(args, nil, 0, ""), left, right)), nil
	}
}

func changed(change func(string) string) stringMethod {
	return func(s string, _ []*exec.Value) (*exec.Value, error) { return exec.AsValue(change(s)), nil }
}

func removed(remove func(s, affix string) string) stringMethod {
	return func(s string, args []*exec.Value) (*exec.Value, error) {
		part, err := oneString(args)
		return exec.AsValue(remove(s, part)), err
	}
}

// affix is startswith and endswith, of one string or any of several.
func affix(has func(s, affix string) bool) stringMethod {
	return func(s string, args []*exec.Value) (*exec.Value, error) {
		if len(args) != 1 {
			return nil, errors.New("takes one string or several in a tuple")
		}
		if isString(args[0]) {
			return boolean(has(s, args[0].String())), nil
		}
		several, ok := sequence(args[0])
		if !ok {
			return nil, errors.New("takes one string or several in a tuple")
		}
		for _, v := range several {
			if isString(v) && has(s, v.String()) {
				return valueTrue, nil
			}
		}
		return valueFalse, nil
	}
}

// position counts in characters, as Python does.
func position(index func(s, sub string) int) stringMethod {
	return func(s string, args []*exec.Value) (*exec.Value, error) {
		sub, err := oneString(args)
		i := index(s, sub)
		if i > 0 {
			i = utf8.RuneCountInString(s[:i])
		}
		return exec.AsValue(i), err
	}
}

// split is split and rsplit: at a separator, or without one at runs of whitespace.
func split(index func(s, sep string) int, fromRight bool) stringMethod {
	return func(s string, args []*exec.Value) (*exec.Value, error) {
		most := -1
		if v := argument(args, nil, 1, ""); v != nil {
			most = v.Integer()
		}
		sep := argument(args, nil, 0, "")
		if sep == nil || isNone(sep) {
			if most >= 0 {
				return nil, errors.New("a limit needs a separator")
			}
			return stringList(strings.FieldsFunc(s, isPythonSpace)), nil
		}
		if sep.String() == "" {
			return nil, errors.New("empty separator")
		}
		return stringList(cutAll(s, sep.String(), most, index, fromRight)), nil
	}
}

func cutAll(s, sep string, most int, index func(s, sep string) int, fromRight bool) []string {
	var parts []string
	for most != 0 {
		i := index(s, sep)
		if i < 0 {
			break
		}
		most--
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

func stringList(parts []string) *exec.Value {
	out := make(list, len(parts))
	for i, s := range parts {
		out[i] = exec.AsValue(s)
	}
	return exec.AsValue(out)
}

func splitLines(s string, _ []*exec.Value) (*exec.Value, error) {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(s)
	s = strings.TrimSuffix(s, "\n")
	if s == "" {
		return exec.AsValue(list{}), nil
	}
	return stringList(strings.Split(s, "\n")), nil
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
