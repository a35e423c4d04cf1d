package template

import (
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

func (b binder) bindBinary(n *nodes.BinaryExpression) (expression, error) {
	op := n.Operator.Token.Type
	if op == tokens.Addition || op == tokens.Tilde {
		return b.bindChain(n, op)
	}
	left, err := b.bind(n.Left)
	if err != nil {
		return nil, err
	}
	right, err := b.bind(n.Right)
	if err != nil {
		return nil, err
	}
	switch op {
	case tokens.And, tokens.Or:
		return bindLogic(left, right, op == tokens.And), nil
	}
	apply, ok := operators[op]
	if !ok {
		return nil, fmt.Errorf("operator %q is not supported", n.Operator.Token.Val)
	}
	return func(f *frame) (*exec.Value, error) {
		l, err := left(f)
		if err != nil {
			return nil, err
		}
		r, err := right(f)
		if err != nil {
			return nil, err
		}
		return apply(l, r)
	}, nil
}

// bindLogic keeps Python's rule: the result is one of the operands.
func bindLogic(left, right expression, and bool) expression {
	return func(f *frame) (*exec.Value, error) {
		v, err := left(f)
		if err != nil || isTrue(v) != and {
			return v, err
		}
		return right(f)
	}
}

var operators = map[tokens.Type]func(l, r *exec.Value) (*exec.Value, error){
	tokens.Equals:             func(l, r *exec.Value) (*exec.Value, error) { return boolean(equal(l, r)), nil },
	tokens.Ne:                 func(l, r *exec.Value) (*exec.Value, error) { return boolean(!equal(l, r)), nil },
	tokens.LowerThan:          comparison(func(c int) bool { return c < 0 }),
	tokens.LowerThanOrEqual:   comparison(func(c int) bool { return c <= 0 }),
	tokens.GreaterThan:        comparison(func(c int) bool { return c > 0 }),
	tokens.GreaterThanOrEqual: comparison(func(c int) bool { return c >= 0 }),
	tokens.Subtraction:        subtract,
	tokens.Multiply:           multiply,
	tokens.Division:           divide,
	tokens.FloorDivision:      whole((*big.Int).Div, false),
	tokens.Modulo:             whole((*big.Int).Mod, true),
}

func comparison(holds func(int) bool) func(l, r *exec.Value) (*exec.Value, error) {
	return func(l, r *exec.Value) (*exec.Value, error) {
		c, err := compare(l, r)
		return boolean(err == nil && holds(c)), err
	}
}

func compare(l, r *exec.Value) (int, error) {
	switch {
	case isNumber(l) && isNumber(r):
		return compareNumbers(l, r), nil
	case isString(l) && isString(r):
		return strings.Compare(l.String(), r.String()), nil
	}
	return 0, fmt.Errorf("%s and %s cannot be ordered", typeName(l), typeName(r))
}

func subtract(l, r *exec.Value) (*exec.Value, error) {
	if !isNumber(l) || !isNumber(r) {
		return nil, fmt.Errorf("%s minus %s", typeName(l), typeName(r))
	}
	return add(l, r, true), nil
}

func multiply(l, r *exec.Value) (*exec.Value, error) {
	if isInteger(l) && isString(r) {
		l, r = r, l
	}
	switch {
	case isString(l) && isInteger(r):
		n, s := max(0, r.Integer()), l.String()
		if s != "" && n > outputMax/len(s) {
			return nil, fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)
		}
		return exec.AsValue(strings.Repeat(s, n)), nil
	case !isNumber(l) || !isNumber(r):
		return nil, fmt.Errorf("%s times %s", typeName(l), typeName(r))
	case isFloat(l) || isFloat(r):
		return exec.AsValue(float(numberFloat(l) * numberFloat(r))), nil
	}
	x, y := bigInt(l), bigInt(r)
	if x.BitLen()+y.BitLen() > numberBitsMax {
		return nil, fmt.Errorf("%w: a number of more than %d bits", ErrLimit, numberBitsMax)
	}
	return fromBig(x.Mul(x, y)), nil
}

// numberBitsMax bounds what multiplying can make.
const numberBitsMax = 4096

func divide(l, r *exec.Value) (*exec.Value, error) {
	if !isNumber(l) || !isNumber(r) {
		return nil, fmt.Errorf("%s divided by %s", typeName(l), typeName(r))
	}
	if numberFloat(r) == 0 {
		return nil, errors.New("division by zero")
	}
	return exec.AsValue(float(numberFloat(l) / numberFloat(r))), nil
}

// whole makes an operator on whole numbers with Python's rounding towards
// minus infinity, which for a negative divisor differs from big.Int's Euclid.
func whole(op func(z, x, y *big.Int) *big.Int, remainder bool) func(l, r *exec.Value) (*exec.Value, error) {
	return func(l, r *exec.Value) (*exec.Value, error) {
		if !isNumber(l) || !isNumber(r) || isFloat(l) || isFloat(r) {
			return nil, fmt.Errorf("whole division of %s by %s", typeName(l), typeName(r))
		}
		x, y := bigInt(l), bigInt(r)
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
}

// bindChain binds a + b + c or a ~ b ~ c as one, so that a chain of strings is
// joined once instead of growing piece by piece.
func (b binder) bindChain(n *nodes.BinaryExpression, op tokens.Type) (expression, error) {
	parts, err := b.chain(n, op)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		var few [8]*exec.Value
		values := few[:0]
		size, allStrings := 0, true
		for _, p := range parts {
			v, err := p(f)
			if err != nil {
				return nil, err
			}
			s, ok := v.Interface().(string)
			size += len(s)
			allStrings = allStrings && ok
			values = append(values, v)
		}
		if size > outputMax {
			return nil, fmt.Errorf("%w: a string of more than %d bytes", ErrLimit, outputMax)
		}
		if allStrings || op == tokens.Tilde {
			return exec.AsValue(joinStrings(values)), nil
		}
		return sum(values)
	}, nil
}

// chain collects the operands of equal operators, leftmost first.
func (b binder) chain(n *nodes.BinaryExpression, op tokens.Type) ([]expression, error) {
	operands := []nodes.Expression{n.Right}
	node := n.Left
	for {
		inner, ok := node.(*nodes.BinaryExpression)
		if !ok || inner.Operator.Token.Type != op {
			break
		}
		operands = append(operands, inner.Right)
		node = inner.Left
	}
	operands = append(operands, node)
	for i, j := 0, len(operands)-1; i < j; i, j = i+1, j-1 {
		operands[i], operands[j] = operands[j], operands[i]
	}
	return b.bindAll(operands)
}

// sum adds from the left: numbers, strings, or lists, but never a mixture.
func sum(values []*exec.Value) (*exec.Value, error) {
	total := values[0]
	for _, v := range values[1:] {
		switch {
		case isNumber(total) && isNumber(v):
			total = add(total, v, false)
		case isString(total) && isString(v):
			total = exec.AsValue(total.String() + v.String())
		case isPlainList(total) && isPlainList(v):
			x, _ := sequence(total)
			y, _ := sequence(v)
			if len(x)+len(y) > elementsMax {
				return nil, fmt.Errorf("%w: a list of more than %d elements", ErrLimit, elementsMax)
			}
			total = exec.AsValue(append(append(list{}, x...), y...))
		default:
			return nil, fmt.Errorf("%s plus %s", typeName(total), typeName(v))
		}
	}
	return total, nil
}

// elementsMax bounds the lists that a template builds.
const elementsMax = 1 << 20

func isPlainList(v *exec.Value) bool { return v.IsList() && !isMapping(v) }

func (b binder) bindFiltered(n *nodes.FilteredExpression) (expression, error) {
	// gonja reads `a in b|f` as `(a in b)|f`; Jinja means `a in (b|f)`.
	if test, ok := n.Expression.(*nodes.TestExpression); ok && test.Test.Name == "in" && len(test.Test.Args) == 1 {
		moved := *test.Test
		moved.Args = []nodes.Expression{&nodes.FilteredExpression{Expression: test.Test.Args[0], Filters: n.Filters}}
		return b.bindTest(&nodes.TestExpression{Expression: test.Expression, Test: &moved})
	}
	bound, err := b.bind(n.Expression)
	if err != nil {
		return nil, err
	}
	for _, call := range n.Filters {
		if bound, err = b.bindFilter(bound, call); err != nil {
			return nil, err
		}
	}
	return bound, nil
}

func (b binder) bindFilter(input expression, call *nodes.FilterCall) (expression, error) {
	apply, ok := filterByName(call.Name)
	if !ok {
		return nil, fmt.Errorf("filter %q is not known", call.Name)
	}
	args, err := b.bindArguments(call.Args, call.Kwargs)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := input(f)
		if err != nil {
			return nil, err
		}
		positional, named, err := args.evaluate(f)
		if err != nil {
			return nil, err
		}
		v, err = apply(f, v, positional, named.asMap())
		if err != nil {
			return nil, fmt.Errorf("filter %s: %w", call.Name, err)
		}
		return v, nil
	}, nil
}

func (b binder) bindTest(n *nodes.TestExpression) (expression, error) {
	input, err := b.bind(n.Expression)
	if err != nil {
		return nil, err
	}
	test, ok := tests[n.Test.Name]
	if !ok {
		return nil, fmt.Errorf("test %q is not known", n.Test.Name)
	}
	args, err := b.bindAll(n.Test.Args)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := input(f)
		if err != nil {
			return nil, err
		}
		values, err := evaluate(f, args)
		if err != nil {
			return nil, err
		}
		for _, among := range values {
			if err := f.run.lookUp(among); err != nil {
				return nil, err
			}
		}
		ok, err := test(v, values)
		if err != nil {
			return nil, fmt.Errorf("test %s: %w", n.Test.Name, err)
		}
		return boolean(ok), nil
	}, nil
}
