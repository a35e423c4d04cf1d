package template

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// operation is an operator that makes a value of two.
type operation func(l, r value) (value, error)

// relation is an operator that holds or not.
type relation func(l, r value) (bool, error)

var relations = map[string]relation{
	"==": func(l, r value) (bool, error) { return equal(l, r), nil },
	"!=": func(l, r value) (bool, error) { return !equal(l, r), nil },
	"<":  order(func(c int) bool { return c < 0 }),
	"<=": order(func(c int) bool { return c <= 0 }),
	">":  order(func(c int) bool { return c > 0 }),
	">=": order(func(c int) bool { return c >= 0 }),
}

func isIn(l, r value) (bool, error) { return contains(r, l) }

func isNotIn(l, r value) (bool, error) {
	ok, err := contains(r, l)
	return !ok, err
}

func order(holds func(int) bool) relation {
	return func(l, r value) (bool, error) {
		c, err := compare(l, r)
		return err == nil && holds(c), err
	}
}

func compare(l, r value) (int, error) {
	switch {
	case isNumber(l) && isNumber(r):
		return compareNumbers(l, r), nil
	case isString(l) && isString(r):
		return strings.Compare(l.(string), r.(string)), nil
	}
	return 0, fmt.Errorf("%s and %s cannot be ordered", typeName(l), typeName(r))
}

func subtract(l, r value) (value, error) {
	if !isNumber(l) || !isNumber(r) {
		return nil, fmt.Errorf("%s minus %s", typeName(l), typeName(r))
	}
	return add(l, r, true), nil
}

func multiply(l, r value) (value, error) {
	if isInteger(l) && isString(r) {
		l, r = r, l
	}
	switch {
	case isString(l) && isInteger(r):
		n, s := max(0, integerOf(r)), l.(string)
		if s != "" && n > outputMax/len(s) {
			return nil, errLongString
		}
		return strings.Repeat(s, n), nil
	case !isNumber(l) || !isNumber(r):
		return nil, fmt.Errorf("%s times %s", typeName(l), typeName(r))
	case isFloat(l) || isFloat(r):
		return float(floatOf(l) * floatOf(r)), nil
	}
	x, y := bigOf(l), bigOf(r)
	if x.BitLen()+y.BitLen() > numberBitsMax {
		return nil, fmt.Errorf("%w: a number of more than %d bits", ErrLimit, numberBitsMax)
	}
	return fromBig(x.Mul(x, y)), nil
}

// numberBitsMax bounds what multiplying can make.
const numberBitsMax = 4096

func divide(l, r value) (value, error) {
	if !isNumber(l) || !isNumber(r) {
		return nil, fmt.Errorf("%s divided by %s", typeName(l), typeName(r))
	}
	if floatOf(r) == 0 {
		return nil, errors.New("division by zero")
	}
	return float(floatOf(l) / floatOf(r)), nil
}

// floorDivide and modulo round towards minus infinity, as Python does.
func floorDivide(l, r value) (value, error) { return whole(l, r, (*big.Int).Div, false) }

func modulo(l, r value) (value, error) { return whole(l, r, (*big.Int).Mod, true) }

// whole applies an operator of whole numbers. For a negative divisor Python's
// rounding differs from big.Int's Euclid.
func whole(l, r value, op func(z, x, y *big.Int) *big.Int, remainder bool) (value, error) {
	if !isNumber(l) || !isNumber(r) || isFloat(l) || isFloat(r) {
		return nil, fmt.Errorf("whole division of %s by %s", typeName(l), typeName(r))
	}
	x, y := bigOf(l), bigOf(r)
	if y.Sign() == 0 {
		return nil, errors.New("division by zero")
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
	return fromBig(z), nil
}

// sum adds from the left: numbers, strings, or lists, but never a mixture.
func sum(values []value) (value, error) {
	total := values[0]
	for _, v := range values[1:] {
		switch {
		case isNumber(total) && isNumber(v):
			total = add(total, v, false)
		case isString(total) && isString(v):
			total = total.(string) + v.(string)
		case isList(total) && isList(v):
			x, _ := elements(total)
			y, _ := elements(v)
			if len(x)+len(y) > elementsMax {
				return nil, fmt.Errorf("%w: a list of more than %d elements", ErrLimit, elementsMax)
			}
			total = append(slices.Clone(x), y...)
		default:
			return nil, fmt.Errorf("%s plus %s", typeName(total), typeName(v))
		}
	}
	return total, nil
}

// elementsMax bounds the lists that a template builds.
const elementsMax = 1 << 20
