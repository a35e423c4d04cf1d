package template

import (
	"errors"
	"fmt"
	"strings"
)

// expression is an expression of the template: it evaluates itself in a frame.
type expression interface {
	eval(f *frame) (value, error)
}

// evaluate evaluates expressions in order.
func evaluate(f *frame, all []expression) ([]value, error) {
	if len(all) == 0 {
		return nil, nil
	}
	out := make([]value, len(all))
	for i, e := range all {
		var err error
		if out[i], err = e.eval(f); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// evaluateBoth evaluates two operands, left to right.
func evaluateBoth(f *frame, left, right expression) (l, r value, err error) {
	if l, err = left.eval(f); err == nil {
		r, err = right.eval(f)
	}
	return l, r, err
}

// literal is a constant.
type literal struct{ v value }

func (l literal) eval(*frame) (value, error) { return l.v, nil }

// reference is a variable, or a global function where there is no variable of that name.
type reference struct {
	name   string
	global value // undefined when there is none
}

func newReference(name string) *reference {
	r := &reference{name, undefined{}}
	if g, ok := globals[name]; ok {
		r.global = g
	}
	return r
}

func (r *reference) eval(f *frame) (value, error) {
	if v := f.scope.get(r.name); v != nil {
		return v, nil
	}
	return r.global, nil
}

type listOf struct{ parts []expression }

func (l *listOf) eval(f *frame) (value, error) {
	items, err := evaluate(f, l.parts)
	return list(items), err
}

type tupleOf struct{ parts []expression }

func (t *tupleOf) eval(f *frame) (value, error) {
	items, err := evaluate(f, t.parts)
	return tuple(items), err
}

type dictOf struct{ keys, values []expression }

func (d *dictOf) eval(f *frame) (value, error) {
	keys, err := evaluate(f, d.keys)
	if err != nil {
		return nil, err
	}
	values, err := evaluate(f, d.values)
	if err != nil {
		return nil, err
	}
	o := object{}
	for i, k := range keys {
		o = o.set(text(k), values[i])
	}
	return o, nil
}

// attributeOf is target.name.
type attributeOf struct {
	target expression
	name   string
}

func (a *attributeOf) eval(f *frame) (value, error) {
	v, err := a.target.eval(f)
	if err != nil {
		return nil, err
	}
	return attribute(v, a.name)
}

// attribute is v.name. As in Jinja, looking inside undefined is an error and
// what is not there is undefined.
func attribute(v value, name string) (value, error) {
	var a value
	switch x := v.(type) {
	case object:
		a, _ = x.get(name)
	case *namespace:
		a, _ = x.members.get(name)
	case *loop:
		a = x.get(name)
	case group:
		a = x.get(name)
	case undefined:
		return nil, fmt.Errorf("undefined has no attribute %q", name)
	}
	if a == nil {
		return undefined{}, nil
	}
	return a, nil
}

// itemOf is target[key].
type itemOf struct{ target, key expression }

func (i *itemOf) eval(f *frame) (value, error) {
	v, key, err := evaluateBoth(f, i.target, i.key)
	if err != nil {
		return nil, err
	}
	if isMapping(v) {
		if err := f.run.lookUp(v); err != nil {
			return nil, err
		}
	}
	return item(v, key)
}

// item is v[key].
func item(v, key value) (value, error) {
	switch x := v.(type) {
	case string:
		return character(x, key), nil
	case undefined:
		return nil, fmt.Errorf("undefined has no element %s", repr(key))
	}
	if name, ok := key.(string); ok {
		return attribute(v, name)
	}
	if items, ok := elements(v); ok {
		return items.at(key), nil
	}
	return undefined{}, nil
}

func character(s string, key value) value {
	i, ok := key.(int)
	runes := []rune(s)
	if i < 0 {
		i += len(runes)
	}
	if !ok || i < 0 || i >= len(runes) {
		return undefined{}
	}
	return string(runes[i])
}

// sliceOf is target[start:stop:step]; what is left out is none.
type sliceOf struct {
	target expression
	bounds [3]expression
}

func (s *sliceOf) eval(f *frame) (value, error) {
	v, err := s.target.eval(f)
	if err != nil {
		return nil, err
	}
	limits, err := evaluate(f, s.bounds[:])
	if err != nil {
		return nil, err
	}
	return slice(v, limits[0], limits[1], limits[2])
}

// slice is Python's v[start:stop:step].
func slice(v, start, stop, step value) (value, error) {
	switch x := v.(type) {
	case string: // as characters, not as a list of strings: it may be a long text
		out, err := cutOut([]rune(x), start, stop, step)
		return string(out), err
	case tuple:
		return cutOut(x, start, stop, step)
	case list:
		return cutOut(x, start, stop, step)
	}
	return nil, fmt.Errorf("%s cannot be sliced", typeName(v))
}

// cutOut is the elements of a slice.
func cutOut[S ~[]E, E any](items S, start, stop, step value) (out S, err error) {
	by := 1
	if !isNone(step) {
		by = integerOf(step)
	}
	if by == 0 {
		return nil, errors.New("slice step cannot be zero")
	}
	low, high := 0, len(items) // where indexes are clamped to
	from, to := 0, len(items)
	if by < 0 {
		low, high = -1, len(items)-1
		from, to = high, low
	}
	if !isNone(start) {
		from = clampIndex(integerOf(start), len(items), low, high)
	}
	if !isNone(stop) {
		to = clampIndex(integerOf(stop), len(items), low, high)
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

// conditional is yes if condition else no.
type conditional struct{ yes, condition, no expression }

func (c *conditional) choose(f *frame) (expression, error) {
	v, err := c.condition.eval(f)
	if err != nil {
		return nil, err
	}
	if isTrue(v) {
		return c.yes, nil
	}
	return c.no, nil
}

func (c *conditional) eval(f *frame) (value, error) {
	e, err := c.choose(f)
	if err != nil {
		return nil, err
	}
	return e.eval(f)
}

// logic is and, or. By Python's rule the result is one of the operands.
type logic struct {
	left, right expression
	and         bool
}

func (l *logic) eval(f *frame) (value, error) {
	v, err := l.left.eval(f)
	if err != nil || isTrue(v) != l.and {
		return v, err
	}
	return l.right.eval(f)
}

type not struct{ term expression }

func (n *not) eval(f *frame) (value, error) {
	v, err := n.term.eval(f)
	if err != nil {
		return nil, err
	}
	return !isTrue(v), nil
}

type sign struct {
	term     expression
	negative bool
}

func (s *sign) eval(f *frame) (value, error) {
	v, err := s.term.eval(f)
	if err != nil {
		return nil, err
	}
	if !isNumber(v) {
		return nil, fmt.Errorf("a sign before %s", typeName(v))
	}
	return add(0, v, s.negative), nil
}

// binary is an operator that takes both operands.
type binary struct {
	left, right expression
	apply       operation
}

func (b *binary) eval(f *frame) (value, error) {
	l, r, err := evaluateBoth(f, b.left, b.right)
	if err != nil {
		return nil, err
	}
	return b.apply(l, r)
}

// comparison is a < b < c: each step must hold, and what follows one that does
// not is not evaluated.
type comparison struct {
	first expression
	steps []comparisonStep
}

type comparisonStep struct {
	holds relation
	right expression
}

func (c *comparison) eval(f *frame) (value, error) {
	left, err := c.first.eval(f)
	if err != nil {
		return nil, err
	}
	for _, s := range c.steps {
		right, err := s.right.eval(f)
		if err != nil {
			return nil, err
		}
		if err := f.run.lookUp(right); err != nil {
			return nil, err
		}
		if ok, err := s.holds(left, right); err != nil || !ok {
			return false, err
		}
		left = right
	}
	return true, nil
}

// sumOf is a + b + c. It is one node, so that a chain of strings is joined
// once instead of growing piece by piece.
type sumOf struct{ parts []expression }

func (s *sumOf) eval(f *frame) (value, error) {
	var few [8]value
	values, allStrings, err := chain(f, s.parts, few[:0])
	if err != nil {
		return nil, err
	}
	if allStrings {
		return joinStrings(values), nil
	}
	return sum(values)
}

// joinOf is a ~ b ~ c.
type joinOf struct{ parts []expression }

func (j *joinOf) eval(f *frame) (value, error) {
	var few [8]value
	values, _, err := chain(f, j.parts, few[:0])
	if err != nil {
		return nil, err
	}
	return joinStrings(values), nil
}

// chain evaluates operands into values and bounds the strings among them.
func chain(f *frame, parts []expression, values []value) (_ []value, allStrings bool, err error) {
	size, allStrings := 0, true
	for _, p := range parts {
		v, err := p.eval(f)
		if err != nil {
			return nil, false, err
		}
		s, ok := v.(string)
		size += len(s)
		allStrings = allStrings && ok
		values = append(values, v)
	}
	if size > outputMax {
		return nil, false, errLongString
	}
	return values, allStrings, nil
}

func joinStrings(items []value) string {
	var b strings.Builder
	for _, v := range items {
		b.WriteString(text(v))
	}
	return b.String()
}

// filtered is input|name(args).
type filtered struct {
	input expression
	name  string
	apply filterFunc
	args  argumentList
}

func (n *filtered) eval(f *frame) (value, error) {
	v, err := n.input.eval(f)
	if err != nil {
		return nil, err
	}
	args, err := n.args.evaluate(f)
	if err != nil {
		return nil, err
	}
	if v, err = n.apply(v, args); err != nil {
		return nil, fmt.Errorf("filter %s: %w", n.name, err)
	}
	return v, nil
}

// tested is input is name(args).
type tested struct {
	input  expression
	name   string
	holds  testFunc
	args   argumentList
	negate bool
}

func (n *tested) eval(f *frame) (value, error) {
	v, err := n.input.eval(f)
	if err != nil {
		return nil, err
	}
	args, err := n.args.evaluate(f)
	if err != nil {
		return nil, err
	}
	for _, among := range args.positional {
		if err := f.run.lookUp(among); err != nil {
			return nil, err
		}
	}
	ok, err := n.holds(v, args.positional)
	if err != nil {
		return nil, fmt.Errorf("test %s: %w", n.name, err)
	}
	return ok != n.negate, nil
}
