package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
)

// filterFunc is a filter of this package.
type filterFunc func(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error)

// ownFilters replace those of gonja that lose key order, escape HTML, count
// bytes for characters, or can build a huge string out of a small template.
var ownFilters = map[string]filterFunc{
	"tojson": toJSON,
	"trim":   trim,
	"string": func(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
		return str(in), nil
	},
	"safe":       func(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) { return in, nil },
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
	"indent":     indent,
	"dictsort":   dictSort,
}

// gonjaFilters are used as they are.
var gonjaFilters = []string{
	"abs", "float", "int", "groupby", "map", "max", "min", "reject", "rejectattr", "round",
	"select", "selectattr", "sort", "sum", "title", "unique", "wordcount", "escape", "e", "urlencode",
}

// applyFilter is a filter as the binder calls it.
type applyFilter func(f *frame, in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error)

func filterByName(name string) (applyFilter, bool) {
	if own, ok := ownFilters[name]; ok {
		return func(_ *frame, in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
			return own(in, args, kwargs)
		}, true
	}
	theirs, ok := builtins.Filters.Get(name)
	if !ok || !slices.Contains(gonjaFilters, name) {
		return nil, false
	}
	return func(f *frame, in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
		v := theirs(f.eval, in, &exec.VarArgs{Args: args, KwArgs: maps.Clone(kwargs)}) // gonja deletes what it takes
		if v.IsError() {
			return nil, errors.New(v.Error())
		}
		return v, nil
	}, true
}

// filters and testSet are what gonja's map, select and reject look names up in.
var (
	filters = gonjaFilterSet()
	testSet = gonjaTestSet()
)

func gonjaFilterSet() *exec.FilterSet {
	set := map[string]exec.FilterFunction{}
	for _, name := range gonjaFilters {
		set[name], _ = builtins.Filters.Get(name)
	}
	for name, own := range ownFilters {
		set[name] = func(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) *exec.Value {
			v, err := own(in, params.Args, params.KwArgs)
			if err != nil {
				return exec.AsValue(err)
			}
			return v
		}
	}
	return exec.NewFilterSet(set)
}

func gonjaTestSet() *exec.TestSet {
	set := map[string]exec.TestFunction{}
	for name, own := range tests {
		set[name] = func(_ *exec.Evaluator, in *exec.Value, params *exec.VarArgs) (bool, error) {
			return own(in, params.Args)
		}
	}
	return exec.NewTestSet(set)
}

// argument returns a positional or named argument, nil when absent.
func argument(args []*exec.Value, kwargs map[string]*exec.Value, i int, name string) *exec.Value {
	if i < len(args) {
		return args[i]
	}
	return kwargs[name]
}

// str is Python's str(): undefined is empty.
func str(v *exec.Value) *exec.Value {
	if isString(v) {
		return v
	}
	return exec.AsValue(v.String())
}

func onString(change func(string) string) filterFunc {
	return func(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
		return exec.AsValue(change(in.String())), nil
	}
}

func capitalize(s string) string {
	r, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return ""
	}
	return string(unicode.ToTitle(r)) + strings.ToLower(s[size:])
}

func trim(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
	chars := argument(args, kwargs, 0, "chars")
	before := in.String()
	after := strip(before, chars, true, true)
	if isString(in) && len(after) == len(before) {
		return in, nil
	}
	return exec.AsValue(after), nil
}

// strip is Python's str.strip, lstrip and rstrip: of whitespace, or of any of the characters.
func strip(s string, chars *exec.Value, left, right bool) string {
	drop := isPythonSpace
	if chars != nil && !isNone(chars) && !isUndefined(chars) {
		set := chars.String()
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

func length(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	switch x := in.Interface().(type) {
	case string:
		return exec.AsValue(utf8.RuneCountInString(x)), nil
	case object:
		return exec.AsValue(len(x)), nil
	}
	all, ok := sequence(in)
	if !ok {
		return nil, fmt.Errorf("%s has no length", typeName(in))
	}
	return exec.AsValue(len(all)), nil
}

func items(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	o, ok := in.Interface().(object)
	if !ok && !isUndefined(in) {
		return nil, fmt.Errorf("%s is not a mapping", typeName(in))
	}
	pairs := make(list, len(o))
	for i, m := range o {
		pairs[i] = exec.AsValue(tuple{exec.AsValue(m.key), m.val})
	}
	return exec.AsValue(pairs), nil
}

func toList(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	all, ok := sequence(in)
	if !ok {
		return nil, fmt.Errorf("%s is not iterable", typeName(in))
	}
	return exec.AsValue(slices.Clone(all)), nil
}

func first(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	all, _ := sequence(in)
	v, _ := all.GetItem(0)
	return v, nil
}

func last(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	all, _ := sequence(in)
	v, _ := all.GetItem(-1)
	return v, nil
}

func reverse(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	return slice(in, valueNone, valueNone, exec.AsValue(-1))
}

func join(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
	all, ok := sequence(in)
	if !ok {
		return nil, fmt.Errorf("%s is not iterable", typeName(in))
	}
	separator := ""
	if v := argument(args, kwargs, 0, "d"); v != nil {
		separator = v.String()
	}
	name := argument(args, kwargs, 1, "attribute")
	var b strings.Builder
	for i, v := range all {
		if i > 0 {
			b.WriteString(separator)
		}
		if name != nil {
			var err error
			if v, err = item(v, name); err != nil {
				return nil, err
			}
		}
		b.WriteString(v.String())
		if b.Len() > outputMax {
			return nil, fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)
		}
	}
	return exec.AsValue(b.String()), nil
}

func orDefault(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
	value := argument(args, kwargs, 0, "default_value")
	if value == nil {
		value = valueEmpty
	}
	onFalse := argument(args, kwargs, 1, "boolean")
	if isUndefined(in) || onFalse != nil && isTrue(onFalse) && !isTrue(in) {
		return value, nil
	}
	return in, nil
}

func replace(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
	return replaceString(in.String(), argument(args, kwargs, 0, "old"), argument(args, kwargs, 1, "new"), argument(args, kwargs, 2, "count"))
}

func replaceString(s string, from, to, count *exec.Value) (*exec.Value, error) {
	if from == nil || to == nil {
		return nil, errors.New("replace takes what to replace and by what")
	}
	n := -1
	if count != nil && !isNone(count) {
		n = count.Integer()
	}
	hits := strings.Count(s, from.String())
	if n >= 0 {
		hits = min(hits, n)
	}
	if hits*len(to.String()) > outputMax {
		return nil, fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)
	}
	return exec.AsValue(strings.Replace(s, from.String(), to.String(), n)), nil
}

// indentMax bounds an indentation, in characters.
const indentMax = 1000

// indent is Jinja's: the first line and blank lines are left alone unless asked for.
func indent(in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
	by := strings.Repeat(" ", 4)
	if v := argument(args, kwargs, 0, "width"); v != nil {
		if by = v.String(); isInteger(v) {
			by = strings.Repeat(" ", max(0, min(v.Integer(), indentMax)))
		}
	}
	flag := func(i int, name string) bool {
		v := argument(args, kwargs, i, name)
		return v != nil && isTrue(v)
	}
	lines := strings.Split(in.String(), "\n")
	if (len(lines)+1)*len(by) > outputMax {
		return nil, fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)
	}
	for i := range lines {
		if i == 0 && !flag(1, "first") || i > 0 && lines[i] == "" && !flag(2, "blank") {
			continue
		}
		lines[i] = by + lines[i]
	}
	return exec.AsValue(strings.Join(lines, "\n")), nil
}

func dictSort(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	o, ok := in.Interface().(object)
	if !ok {
		return nil, fmt.Errorf("%s is not a mapping", typeName(in))
	}
	sorted := slices.Clone(o)
	slices.SortStableFunc(sorted, func(a, b member) int {
		return strings.Compare(strings.ToLower(a.key), strings.ToLower(b.key))
	})
	return items(exec.AsValue(sorted), nil, nil)
}

// sortedObject returns the members by key, as json.dumps does with sort_keys.
func sortedObject(o object) object {
	sorted := slices.Clone(o)
	slices.SortStableFunc(sorted, func(a, b member) int { return strings.Compare(a.key, b.key) })
	return sorted
}

// testFunc is a test: what `is` asks.
type testFunc func(in *exec.Value, args []*exec.Value) (bool, error)

func plain(holds func(*exec.Value) bool) testFunc {
	return func(in *exec.Value, _ []*exec.Value) (bool, error) { return holds(in), nil }
}

func ordered(holds func(int) bool) testFunc {
	return func(in *exec.Value, args []*exec.Value) (bool, error) {
		if len(args) != 1 {
			return false, errors.New("takes one value")
		}
		c, err := compare(in, args[0])
		return err == nil && holds(c), err
	}
}

func equals(in *exec.Value, args []*exec.Value) (bool, error) {
	if len(args) != 1 {
		return false, errors.New("takes one value")
	}
	return equal(in, args[0]), nil
}

var tests = map[string]testFunc{
	"defined":   plain(func(v *exec.Value) bool { return !isUndefined(v) }),
	"undefined": plain(isUndefined),
	"none":      plain(isNone),
	"string":    plain(isString),
	"mapping":   plain(isMapping),
	"sequence":  plain(func(v *exec.Value) bool { return isString(v) || v.IsList() }), // what has a length and elements
	"iterable":  plain(func(v *exec.Value) bool { return isUndefined(v) || isString(v) || v.IsList() }),
	"boolean":   plain(isBool),
	"true":      plain(func(v *exec.Value) bool { return isBool(v) && v.Bool() }),
	"false":     plain(func(v *exec.Value) bool { return isBool(v) && !v.Bool() }),
	"integer":   plain(func(v *exec.Value) bool { return isInteger(v) }),
	"float":     plain(isFloat),
	"number":    plain(isNumber),
	"callable":  plain(isCallable),
	"lower":     plain(func(v *exec.Value) bool { return strings.ToLower(v.String()) == v.String() }),
	"upper":     plain(func(v *exec.Value) bool { return strings.ToUpper(v.String()) == v.String() }),
	"odd":       plain(func(v *exec.Value) bool { return isInteger(v) && v.Integer()%2 != 0 }),
	"even":      plain(func(v *exec.Value) bool { return isInteger(v) && v.Integer()%2 == 0 }),
	"divisibleby": func(in *exec.Value, args []*exec.Value) (bool, error) {
		if len(args) != 1 || args[0].Integer() == 0 {
			return false, errors.New("takes a number other than 0")
		}
		return in.Integer()%args[0].Integer() == 0, nil
	},
	"in": func(in *exec.Value, args []*exec.Value) (bool, error) {
		if len(args) != 1 {
			return false, errors.New("takes one value")
		}
		return contains(args[0], in)
	},
	"sameas": equals, "eq": equals, "equalto": equals, "==": equals,
	"ne": func(in *exec.Value, args []*exec.Value) (bool, error) {
		same, err := equals(in, args)
		return !same, err
	},
	"lt": ordered(func(c int) bool { return c < 0 }), "lessthan": ordered(func(c int) bool { return c < 0 }),
	"le": ordered(func(c int) bool { return c <= 0 }),
	"gt": ordered(func(c int) bool { return c > 0 }), "greaterthan": ordered(func(c int) bool { return c > 0 }),
	"ge": ordered(func(c int) bool { return c >= 0 }),
}

func isCallable(v *exec.Value) bool {
	_, ok := v.Interface().(callable)
	return ok
}

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
