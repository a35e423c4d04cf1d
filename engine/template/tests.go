package template

import (
	"errors"
	"strings"
)

// testFunc is a test: what `is` asks.
type testFunc func(r *run, in value, args []value) bool

func plain(passes func(value) bool) testFunc {
	return func(_ *run, in value, _ []value) bool { return passes(in) }
}

// related is a test whose one argument an operator compares with.
func related(passes relation) testFunc {
	return func(r *run, in value, args []value) bool {
		if len(args) != 1 {
			panic(errors.New("takes one value"))
		}
		return passes(r, in, args[0])
	}
}

// cased is a test whether a text is as one change of case makes it, and has letters that the other changes.
func cased(change, other func(string) string) testFunc {
	return func(r *run, in value, _ []value) bool {
		s := text(in)
		r.weigh(s)
		return change(s) == s && other(s) != s
	}
}

// isSequence also holds for undefined, which is empty.
func isSequence(v value) bool { return isUndefined(v) || isString(v) || isList(v) || isMapping(v) }

var tests = map[string]testFunc{
	"defined":   plain(func(v value) bool { return !isUndefined(v) }),
	"undefined": plain(isUndefined),
	"none":      plain(isNone),
	"string":    plain(isString),
	"mapping":   plain(isMapping),
	"sequence":  plain(isSequence), // what has a length and elements
	"iterable":  plain(isSequence),
	"boolean":   plain(isBool),
	"true":      plain(func(v value) bool { return isBool(v) && v.(bool) }),
	"false":     plain(func(v value) bool { return isBool(v) && !v.(bool) }),
	"integer":   plain(func(v value) bool { return isInteger(v) }),
	"float":     plain(isFloat),
	"number":    plain(isNumber),
	"callable":  plain(is[callable]),
	"lower":     cased(strings.ToLower, strings.ToUpper),
	"upper":     cased(strings.ToUpper, strings.ToLower),
	"odd":       plain(func(v value) bool { return isInteger(v) && integerOf(v)%2 != 0 }),
	"even":      plain(func(v value) bool { return isInteger(v) && integerOf(v)%2 == 0 }),
	"divisibleby": func(_ *run, in value, args []value) bool {
		if len(args) != 1 || integerOf(args[0]) == 0 {
			panic(errors.New("takes a number other than 0"))
		}
		return integerOf(in)%integerOf(args[0]) == 0
	},
	"in":     related(isIn),
	"sameas": related(equal), "eq": related(equal), "equalto": related(equal), "==": related(equal),
	"ne": related(relations["!="]),
	"lt": related(relations["<"]), "lessthan": related(relations["<"]),
	"le": related(relations["<="]),
	"gt": related(relations[">"]), "greaterthan": related(relations[">"]),
	"ge": related(relations[">="]),
}
