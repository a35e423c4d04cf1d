package template

import (
	"errors"
	"strings"
)

// testFunc is a test: what `is` asks.
type testFunc func(in value, args []value) (bool, error)

func plain(holds func(value) bool) testFunc {
	return func(in value, _ []value) (bool, error) { return holds(in), nil }
}

func ordered(holds func(int) bool) testFunc {
	return func(in value, args []value) (bool, error) {
		if len(args) != 1 {
			return false, errors.New("takes one value")
		}
		c, err := compare(in, args[0])
		return err == nil && holds(c), err
	}
}

func equals(in value, args []value) (bool, error) {
	if len(args) != 1 {
		return false, errors.New("takes one value")
	}
	return equal(in, args[0]), nil
}

var tests = map[string]testFunc{
	"defined":   plain(func(v value) bool { return !isUndefined(v) }),
	"undefined": plain(isUndefined),
	"none":      plain(isNone),
	"string":    plain(isString),
	"mapping":   plain(isMapping),
	"sequence":  plain(func(v value) bool { return isString(v) || isList(v) || isMapping(v) }), // what has a length and elements
	"iterable":  plain(func(v value) bool { return isUndefined(v) || isString(v) || isList(v) || isMapping(v) }),
	"boolean":   plain(isBool),
	"true":      plain(func(v value) bool { return isBool(v) && v.(bool) }),
	"false":     plain(func(v value) bool { return isBool(v) && !v.(bool) }),
	"integer":   plain(func(v value) bool { return isInteger(v) }),
	"float":     plain(isFloat),
	"number":    plain(isNumber),
	"callable":  plain(is[callable]),
	"lower":     plain(func(v value) bool { return strings.ToLower(text(v)) == text(v) }),
	"upper":     plain(func(v value) bool { return strings.ToUpper(text(v)) == text(v) }),
	"odd":       plain(func(v value) bool { return isInteger(v) && integerOf(v)%2 != 0 }),
	"even":      plain(func(v value) bool { return isInteger(v) && integerOf(v)%2 == 0 }),
	"divisibleby": func(in value, args []value) (bool, error) {
		if len(args) != 1 || integerOf(args[0]) == 0 {
			return false, errors.New("takes a number other than 0")
		}
		return integerOf(in)%integerOf(args[0]) == 0, nil
	},
	"in": func(in value, args []value) (bool, error) {
		if len(args) != 1 {
			return false, errors.New("takes one value")
		}
		return contains(args[0], in)
	},
	"sameas": equals, "eq": equals, "equalto": equals, "==": equals,
	"ne": func(in value, args []value) (bool, error) {
		same, err := equals(in, args)
		return !same, err
	},
	"lt": ordered(func(c int) bool { return c < 0 }), "lessthan": ordered(func(c int) bool { return c < 0 }),
	"le": ordered(func(c int) bool { return c <= 0 }),
	"gt": ordered(func(c int) bool { return c > 0 }), "greaterthan": ordered(func(c int) bool { return c > 0 }),
	"ge": ordered(func(c int) bool { return c >= 0 }),
}
