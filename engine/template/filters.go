package template

import (
	"errors"
	"fmt"
	"maps"
	"slices"
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
	return func(_ *frame, in *exec.Value, args []*exec.Value, kwargs map[string]*exec.Value) (*exec.Value, error) {
		v := theirs(evaluator, in, &exec.VarArgs{Args: args, KwArgs: maps.Clone(kwargs)}) // gonja deletes what it takes
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
	if s, ok := in.Interface().(string); ok {
		return character(s, exec.AsValue(0))
	}
	all, _ := sequence(in)
	v, _ := all.GetItem(0)
	return v, nil
}

func last(in *exec.Value, _ []*exec.Value, _ map[string]*exec.Value) (*exec.Value, error) {
	if s, ok := in.Interface().(string); ok {
		return character(s, exec.AsValue(-1))
	}
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
