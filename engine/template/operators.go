package template

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// operation is an operator that makes a value of two.
type operation func(l, r value) value

// relation is an operator that holds or not.
type relation func(run *run, l, r value) bool

var relations = map[string]relation{
	"==": equal,
	"!=": func(run *run, l, r value) bool { return !equal(run, l, r) },
	"<":  order(func(c int) bool { return c < 0 }),
	"<=": order(func(c int) bool { return c <= 0 }),
	">":  order(func(c int) bool { return c > 0 }),
	">=": order(func(c int) bool { return c >= 0 }),
}

func isIn(run *run, l, r value) bool { return contains(run, r, l) }

func isNotIn(run *run, l, r value) bool { return !contains(run, r, l) }

func order(passes func(int) bool) relation {
	return func(_ *run, l, r value) bool { return passes(compare(l, r)) }
}

func compare(l, r value) int {
	switch {
	case isNumber(l) && isNumber(r):
		return compareNumbers(l, r)
	case isString(l) && isString(r):
		return strings.Compare(l.(string), r.(string))
	}
	panic(fmt.Errorf("%s and %s cannot be ordered", typeName(l), typeName(r)))
}

func subtract(l, r value) value {
	if !isNumber(l) || !isNumber(r) {
		panic(fmt.Errorf("%s minus %s", typeName(l), typeName(r)))
	}
	return add(l, r, true)
}

func multiply(l, r value) value {
	if isInteger(l) && isString(r) {
		l, r = r, l
	}
	switch {
	case isString(l) && isInteger(r):
		n, s := max(0, integerOf(r)), l.(string)
		if s != "" && n > outputMax/len(s) {
			panic(errLongString)
		}
		return strings.Repeat(s, n)
	case !isNumber(l) || !isNumber(r):
		panic(fmt.Errorf("%s times %s", typeName(l), typeName(r)))
	case isFloat(l) || isFloat(r):
		return float(floatOf(l) * floatOf(r))
	}
	x, y := bigOf(l), bigOf(r)
	if x.BitLen()+y.BitLen() > numberBitsMax {
		panic(fmt.Errorf("%w: a number of more than %d bits", ErrLimit, numberBitsMax))
	}
	return fromBig(x.Mul(x, y))
}

// numberBitsMax bounds what multiplying can make.
const numberBitsMax = 4096

func divide(l, r value) value {
	if !isNumber(l) || !isNumber(r) {
		panic(fmt.Errorf("%s divided by %s", typeName(l), typeName(r)))
	}
	if floatOf(r) == 0 {
		panic(errors.New("division by zero"))
	}
	return float(floatOf(l) / floatOf(r))
}

// floorDivide and modulo round towards minus infinity, as Python does.
func floorDivide(l, r value) value { return whole(l, r, (*big.Int).Div, false) }

func modulo(l, r value) value { return whole(l, r, (*big.Int).Mod, true) }

// whole applies an operator of whole numbers. For a negative divisor Python's
// rounding differs from big.Int's Euclid.
func whole(l, r value, op func(z, x, y *big.Int) *big.Int, remainder bool) value {
	if !isNumber(l) || !isNumber(r) || isFloat(l) || isFloat(r) {
		panic(fmt.Errorf("whole division of %s by %s", typeName(l), typeName(r)))
	}
	x, y := bigOf(l), bigOf(r)
	if y.Sign() == 0 {
		panic(errors.New("division by zero"))
	}
	negative := y.Sign() < 0
	if negative { // x // y == -x // -y, and x % y == -(-x % -y)
		x.Neg(x)
		y.Neg(y)
	}
	z := op(new(big.Int), x, y)
	if negative && remainder {
		z.Neg(z)
	}
	return fromBig(z)
}

// sum adds from the left: numbers, strings, or lists, but never a mixture.
func sum(values []value) value {
	total := values[0]
	if len(values) == 1 {
		return total
	}
	text, all := []byte(nil), list(nil) // grow in place: what is before a part is not copied for it
	if s, ok := total.(string); ok {
		text = []byte(s)
	} else if x, ok := elements(total); ok {
		all = slices.Clone(x)
	}
	for _, v := range values[1:] {
		switch {
		case isNumber(total) && isNumber(v):
			total = add(total, v, false)
		case isString(total) && isString(v):
			if text = append(text, v.(string)...); len(text) > outputMax {
				panic(errLongString)
			}
		case isList(total) && isList(v):
			x, _ := elements(v)
			checkElements(len(all) + len(x))
			all = append(all, x...)
		default:
			panic(fmt.Errorf("%s plus %s", typeName(total), typeName(v)))
		}
	}
	switch {
	case isString(total):
		return string(text)
	case isList(total):
		return all
	}
	return total
}

// elementsMax bounds the lists that a template builds.
const elementsMax = 1 << 20

// checkElements panics with ErrLimit where a list would have too many elements.
func checkElements(n int) {
	if n > elementsMax {
		panic(fmt.Errorf("%w: a list of more than %d elements", ErrLimit, elementsMax))
	}
}
