package template

import (
	"errors"
	"fmt"
	"strings"
)

// expression is an expression of the template: it evaluates itself in a frame.
type expression interface {
	eval(f *frame) value
}

// evaluate evaluates expressions in order.
func evaluate(f *frame, all []expression) []value {
	if len(all) == 0 {
		return nil
	}
	out := make([]value, len(all))
	for i, e := range all {
		out[i] = e.eval(f)
	}
	return out
}

// literal is a constant.
type literal struct{ v value }

func (l literal) eval(*frame) value { return l.v }

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

func (r *reference) eval(f *frame) value {
	if v := f.scope.get(r.name); v != nil {
		return v
	}
	return r.global
}

type listOf struct{ parts []expression }

func (l *listOf) eval(f *frame) value { return list(evaluate(f, l.parts)) }

type tupleOf struct{ parts []expression }

func (t *tupleOf) eval(f *frame) value { return tuple(evaluate(f, t.parts)) }

type dictOf struct{ keys, values []expression }

func (d *dictOf) eval(f *frame) value {
	keys, values := evaluate(f, d.keys), evaluate(f, d.values)
	o := gathering{object: make(object, 0, len(keys))}
	for i, k := range keys {
		o.set(text(k), values[i])
	}
	return o.object
}

// attributeOf is target.name.
type attributeOf struct {
	target expression
	name   string
}

func (a *attributeOf) eval(f *frame) value {
	v := a.target.eval(f)
	if isMapping(v) {
		f.run.weigh(v)
	}
	return attribute(v, a.name)
}

// attribute is v.name. As in Jinja, looking inside undefined is an error and
// what is not there is undefined.
func attribute(v value, name string) value {
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
		panic(fmt.Errorf("undefined has no attribute %q", name))
	}
	if a == nil {
		return undefined{}
	}
	return a
}

// itemOf is target[key].
type itemOf struct{ target, key expression }

func (i *itemOf) eval(f *frame) value {
	v, key := i.target.eval(f), i.key.eval(f)
	if isMapping(v) || isString(v) {
		f.run.weigh(v)
	}
	if _, named := i.key.(literal); named && isUndefined(v) {
		panic(fmt.Errorf("undefined has no element %s", repr(key)))
	}
	return item(v, key)
}

// item is v[key].
func item(v, key value) value {
	switch x := v.(type) {
	case string:
		return character(x, key)
	case undefined:
		panic(errors.New("undefined has no such element")) // which may be a client's text
	}
	if name, ok := key.(string); ok {
		return attribute(v, name)
	}
	if items, ok := elements(v); ok {
		return items.at(key)
	}
	return undefined{}
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

func (s *sliceOf) eval(f *frame) value {
	v, limits := s.target.eval(f), evaluate(f, s.bounds[:])
	return slice(f.run.weigh(v), limits[0], limits[1], limits[2])
}

// slice is Python's v[start:stop:step].
func slice(v, start, stop, step value) value {
	switch x := v.(type) {
	case string: // as characters, not as a list of strings: it may be a long text
		return string(cutOut([]rune(x), start, stop, step))
	case tuple:
		return cutOut(x, start, stop, step)
	case list:
		return cutOut(x, start, stop, step)
	}
	panic(fmt.Errorf("%s cannot be sliced", typeName(v)))
}

// cutOut is the elements of a slice.
func cutOut[S ~[]E, E any](items S, start, stop, step value) (out S) {
	by := 1
	if !isNone(step) {
		by = integerOf(step)
	}
	if by == 0 {
		panic(errors.New("slice step cannot be zero"))
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
		return items[min(from, to):to:to]
	}
	for i := from; by > 0 && i < to || by < 0 && i > to; i += by {
		out = append(out, items[i])
	}
	return out
}

func clampIndex(i, n, low, high int) int {
	if i < 0 {
		i += n
	}
	return max(low, min(i, high))
}

// conditional is yes if condition else no.
type conditional struct{ yes, condition, no expression }

func (c *conditional) choose(f *frame) expression {
	if isTrue(c.condition.eval(f)) {
		return c.yes
	}
	return c.no
}

func (c *conditional) eval(f *frame) value { return c.choose(f).eval(f) }

// logic is and, or. By Python's rule the result is one of the operands.
type logic struct {
	left, right expression
	and         bool
}

func (l *logic) eval(f *frame) value {
	if v := l.left.eval(f); isTrue(v) != l.and {
		return v
	}
	return l.right.eval(f)
}

type not struct{ term expression }

func (n *not) eval(f *frame) value { return !isTrue(n.term.eval(f)) }

type sign struct {
	term     expression
	negative bool
}

func (s *sign) eval(f *frame) value {
	v := s.term.eval(f)
	if !isNumber(v) {
		panic(fmt.Errorf("a sign before %s", typeName(v)))
	}
	return add(0, v, s.negative)
}

// binary is an operator that takes both operands.
type binary struct {
	left, right expression
	apply       operation
}

func (b *binary) eval(f *frame) value { return f.run.weigh(b.apply(b.left.eval(f), b.right.eval(f))) }

// comparison is a < b < c: each step must hold, and what follows one that does
// not is not evaluated.
type comparison struct {
	first expression
	steps []comparisonStep
}

type comparisonStep struct {
	passes relation
	right  expression
}

func (c *comparison) eval(f *frame) value {
	left := c.first.eval(f)
	for _, s := range c.steps {
		right := s.right.eval(f)
		f.run.weigh(right)
		if !s.passes(f.run, left, right) {
			return false
		}
		left = right
	}
	return true
}

// sumOf is a + b + c. It is one node, so that a chain of strings is joined
// once instead of growing piece by piece.
type sumOf struct{ parts []expression }

func (s *sumOf) eval(f *frame) value {
	var few [8]value
	values, allStrings := chain(f, s.parts, few[:0])
	if allStrings {
		return f.run.weigh(joinStrings(values))
	}
	return f.run.weigh(sum(values))
}

// joinOf is a ~ b ~ c.
type joinOf struct{ parts []expression }

func (j *joinOf) eval(f *frame) value {
	var few [8]value
	values, _ := chain(f, j.parts, few[:0])
	return f.run.weigh(joinStrings(values))
}

// chain evaluates operands into values and bounds the strings among them.
func chain(f *frame, parts []expression, values []value) (_ []value, allStrings bool) {
	size, allStrings := 0, true
	for _, p := range parts {
		v := p.eval(f)
		s, ok := v.(string)
		size += len(s)
		allStrings = allStrings && ok
		values = append(values, v)
	}
	if size > outputMax {
		panic(errLongString)
	}
	return values, allStrings
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

func (n *filtered) eval(f *frame) value {
	v, args := f.run.weigh(n.input.eval(f)), n.args.evaluate(f)
	defer within("filter", n.name)
	return f.run.weigh(n.apply(v, args))
}

// tested is input is name(args).
type tested struct {
	input  expression
	name   string
	passes testFunc
	args   argumentList
	negate bool
}

func (n *tested) eval(f *frame) value {
	v, args := n.input.eval(f), n.args.evaluate(f).positional
	for _, among := range args {
		f.run.weigh(among)
	}
	defer within("test", n.name)
	return n.passes(f.run, v, args) != n.negate
}
