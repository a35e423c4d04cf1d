package template

import (
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// expression is an expression of the template, bound: it evaluates in a frame.
type expression func(f *frame) (*exec.Value, error)

// binder turns gonja's syntax tree into closures.
type binder struct{}

func constant(v *exec.Value) expression {
	return func(*frame) (*exec.Value, error) { return v, nil }
}

// bind binds one expression. It is one switch over the kinds of nodes.
func (b binder) bind(node nodes.Node) (expression, error) {
	switch n := node.(type) {
	case *nodes.String:
		return constant(exec.AsValue(n.Val)), nil
	case *nodes.Integer:
		return constant(exec.AsValue(n.Val)), nil
	case *nodes.Float:
		return constant(exec.AsValue(float(n.Val))), nil
	case *nodes.Bool:
		return constant(boolean(n.Val)), nil
	case *nodes.None:
		return constant(valueNone), nil
	case *nodes.Name:
		return bindName(n.Name.Val), nil
	case *nodes.List:
		return b.bindElements(n.Val, func(v []*exec.Value) *exec.Value { return exec.AsValue(list(v)) })
	case *nodes.Tuple:
		return b.bindElements(n.Val, func(v []*exec.Value) *exec.Value { return exec.AsValue(tuple(v)) })
	case *nodes.Dict:
		return b.bindDict(n)
	case *nodes.GetAttribute:
		return b.bindAttribute(n)
	case *nodes.GetItem:
		return b.bindItem(n)
	case *nodes.GetSlice:
		return b.bindSlice(n)
	case *nodes.Call:
		return b.bindCall(n)
	case *nodes.Negation:
		return b.bindNot(n)
	case *nodes.UnaryExpression:
		return b.bindSign(n)
	case *nodes.BinaryExpression:
		return b.bindBinary(n)
	case *nodes.FilteredExpression:
		return b.bindFiltered(n)
	case *nodes.TestExpression:
		return b.bindTest(n)
	}
	return nil, fmt.Errorf("an expression is missing or not supported (%T)", node)
}

func (b binder) bindAll(list []nodes.Expression) ([]expression, error) {
	out := make([]expression, len(list))
	for i, node := range list {
		var err error
		if out[i], err = b.bind(node); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// evaluate evaluates expressions in order.
func evaluate(f *frame, list []expression) ([]*exec.Value, error) {
	if len(list) == 0 {
		return nil, nil
	}
	out := make([]*exec.Value, len(list))
	for i, e := range list {
		var err error
		if out[i], err = e(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func bindName(name string) expression {
	global, isGlobal := globals[name]
	return func(f *frame) (*exec.Value, error) {
		if v := f.scope.get(name); v != nil {
			return v, nil
		}
		if isGlobal {
			return global, nil
		}
		return valueUndefined, nil
	}
}

func (b binder) bindElements(elements []nodes.Expression, wrap func([]*exec.Value) *exec.Value) (expression, error) {
	bound, err := b.bindAll(elements)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		items, err := evaluate(f, bound)
		if err != nil {
			return nil, err
		}
		return wrap(items), nil
	}, nil
}

func (b binder) bindDict(n *nodes.Dict) (expression, error) {
	var keys, values []nodes.Expression
	for _, pair := range n.Pairs {
		keys, values = append(keys, pair.Key), append(values, pair.Value)
	}
	boundKeys, err := b.bindAll(keys)
	if err != nil {
		return nil, err
	}
	boundValues, err := b.bindAll(values)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		k, err := evaluate(f, boundKeys)
		if err != nil {
			return nil, err
		}
		v, err := evaluate(f, boundValues)
		if err != nil {
			return nil, err
		}
		o := object{}
		for i := range k {
			o = o.set(k[i].String(), v[i])
		}
		return exec.AsValue(o), nil
	}, nil
}

func (b binder) bindAttribute(n *nodes.GetAttribute) (expression, error) {
	target, err := b.bind(n.Node)
	if err != nil {
		return nil, err
	}
	if n.Attribute == "" {
		index := exec.AsValue(n.Index)
		return func(f *frame) (*exec.Value, error) {
			v, err := target(f)
			if err != nil {
				return nil, err
			}
			return item(v, index)
		}, nil
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := target(f)
		if err != nil {
			return nil, err
		}
		return attribute(v, n.Attribute)
	}, nil
}

// attribute is v.name. As in Jinja, looking inside undefined is an error and
// what is not there is undefined.
func attribute(v *exec.Value, name string) (*exec.Value, error) {
	var a *exec.Value
	switch x := v.Interface().(type) {
	case object:
		a, _ = x.get(name)
	case *namespace:
		a, _ = x.members.get(name)
	case *loop:
		a = x.get(name)
	case nil:
		return nil, fmt.Errorf("undefined has no attribute %q", name)
	case exec.AttributeGetter: // made by a filter of gonja
		a, _ = x.GetAttribute(name)
	}
	if a == nil {
		return valueUndefined, nil
	}
	return a, nil
}

// item is v[key].
func item(v, key *exec.Value) (*exec.Value, error) {
	switch x := v.Interface().(type) {
	case string:
		return character(x, key)
	case nil:
		return nil, fmt.Errorf("undefined has no element %s", repr(key))
	case exec.ItemGetter:
		if a, ok := x.GetItem(key.Interface()); ok {
			return a, nil
		}
		return valueUndefined, nil
	}
	if name, ok := key.Interface().(string); ok {
		return attribute(v, name)
	}
	if items, ok := sequence(v); ok {
		a, _ := items.GetItem(key.Interface())
		return a, nil
	}
	return valueUndefined, nil
}

func character(s string, key *exec.Value) (*exec.Value, error) {
	i, ok := key.Interface().(int)
	runes := []rune(s)
	if i < 0 {
		i += len(runes)
	}
	if !ok || i < 0 || i >= len(runes) {
		return valueUndefined, nil
	}
	return exec.AsValue(string(runes[i])), nil
}

func (b binder) bindItem(n *nodes.GetItem) (expression, error) {
	if yes, condition, no, ok := conditionalParts(n); ok {
		return b.bindConditional(yes, condition, no)
	}
	if n.Arg == nil {
		return nil, fmt.Errorf("%s: an index is missing", n)
	}
	target, err := b.bind(n.Node)
	if err != nil {
		return nil, err
	}
	key, err := b.bind(n.Arg)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := target(f)
		if err != nil {
			return nil, err
		}
		k, err := key(f)
		if err != nil {
			return nil, err
		}
		if isMapping(v) {
			if err := f.run.lookUp(v); err != nil {
				return nil, err
			}
		}
		return item(v, k)
	}, nil
}

// conditionalParts recognises what normalize makes of a conditional
// expression: ((condition) and [yes] or [no])[0].
func conditionalParts(n *nodes.GetItem) (yes, condition, no nodes.Expression, ok bool) {
	index, isIndex := n.Arg.(*nodes.Integer)
	or, isOr := n.Node.(*nodes.BinaryExpression)
	if !isIndex || index.Val != 0 || !isOr || or.Operator.Token.Type != tokens.Or {
		return nil, nil, nil, false
	}
	and, isAnd := or.Left.(*nodes.BinaryExpression)
	second, isList := or.Right.(*nodes.List)
	if !isAnd || !isList || and.Operator.Token.Type != tokens.And || len(second.Val) != 1 {
		return nil, nil, nil, false
	}
	first, isList := and.Right.(*nodes.List)
	if !isList || len(first.Val) != 1 {
		return nil, nil, nil, false
	}
	return first.Val[0], and.Left, second.Val[0], true
}

func (b binder) bindConditional(yes, condition, no nodes.Expression) (expression, error) {
	parts, err := b.bindAll([]nodes.Expression{yes, condition, no})
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := parts[1](f)
		if err != nil {
			return nil, err
		}
		if isTrue(v) {
			return parts[0](f)
		}
		return parts[2](f)
	}, nil
}

func (b binder) bindSlice(n *nodes.GetSlice) (expression, error) {
	target, err := b.bind(n.Node)
	if err != nil {
		return nil, err
	}
	bounds := make([]expression, 3)
	for i, node := range []nodes.Node{n.Start, n.End, n.Step} {
		bounds[i] = constant(valueNone)
		if node == nil {
			continue
		}
		if bounds[i], err = b.bind(node); err != nil {
			return nil, err
		}
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := target(f)
		if err != nil {
			return nil, err
		}
		limits, err := evaluate(f, bounds)
		if err != nil {
			return nil, err
		}
		return slice(v, limits[0], limits[1], limits[2])
	}, nil
}

// slice is Python's v[start:stop:step].
func slice(v, start, stop, step *exec.Value) (*exec.Value, error) {
	if s, ok := v.Interface().(string); ok { // as characters, not as a list of strings: it may be a long text
		out, err := cutOut([]rune(s), start, stop, step)
		return exec.AsValue(string(out)), err
	}
	items, ok := sequence(v)
	if !ok || isMapping(v) || isUndefined(v) {
		return nil, fmt.Errorf("%s cannot be sliced", typeName(v))
	}
	out, err := cutOut(items, start, stop, step)
	return exec.AsValue(out), err
}

// cutOut is the elements of a slice.
func cutOut[S ~[]E, E any](items S, start, stop, step *exec.Value) (out S, err error) {
	by := 1
	if !isNone(step) {
		by = step.Integer()
	}
	if by == 0 {
		return nil, fmt.Errorf("slice step cannot be zero")
	}
	low, high := 0, len(items) // where indexes are clamped to
	from, to := 0, len(items)
	if by < 0 {
		low, high = -1, len(items)-1
		from, to = high, low
	}
	if !isNone(start) {
		from = clampIndex(start.Integer(), len(items), low, high)
	}
	if !isNone(stop) {
		to = clampIndex(stop.Integer(), len(items), low, high)
	}
	if by == 1 {
		return items[min(from, to):to:to], nil
	}
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		out = append(out, items[i])
	}
	return out, nil
}

func clampIndex(i, n, low, high int) int {
	if i < 0 {
		i += n
	}
	return max(low, min(i, high))
}

func joinStrings(items list) string {
	var b strings.Builder
	for _, v := range items {
		b.WriteString(v.String())
	}
	return b.String()
}

func (b binder) bindNot(n *nodes.Negation) (expression, error) {
	term, err := b.bind(n.Term)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := term(f)
		if err != nil {
			return nil, err
		}
		return boolean(!isTrue(v)), nil
	}, nil
}

// isTrue is Python's truth. gonja's answers false for what it cannot judge.
func isTrue(v *exec.Value) bool {
	if v == valueTrue {
		return true
	}
	switch x := v.Interface().(type) {
	case integer:
		return x != "" // an integer of this type is never zero
	case callable, *namespace, *loop:
		return true
	}
	return v.IsTrue()
}

func (b binder) bindSign(n *nodes.UnaryExpression) (expression, error) {
	if i, ok := n.Term.(*nodes.Integer); ok { // -1 is a constant
		return constant(add(exec.AsValue(0), exec.AsValue(i.Val), n.Negative)), nil
	}
	term, err := b.bind(n.Term)
	if err != nil {
		return nil, err
	}
	return func(f *frame) (*exec.Value, error) {
		v, err := term(f)
		if err != nil {
			return nil, err
		}
		if !isNumber(v) {
			return nil, fmt.Errorf("a sign before %s", typeName(v))
		}
		return add(exec.AsValue(0), v, n.Negative), nil
	}, nil
}
