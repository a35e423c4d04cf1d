package template

import (
	"errors"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
)

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
