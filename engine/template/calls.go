package template

import (
	"fmt"
	"maps"
	"slices"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
)

// arguments are those of a call or a filter. Named ones are kept in
// alphabetical order, since gonja's parser forgets the order of the source.
type arguments struct {
	positional []expression
	names      []string
	named      []expression
}

func (b binder) bindArguments(args []nodes.Expression, kwargs map[string]nodes.Expression) (arguments, error) {
	var a arguments
	var err error
	if a.positional, err = b.bindAll(args); err != nil {
		return a, err
	}
	for _, name := range slices.Sorted(maps.Keys(kwargs)) {
		e, err := b.bind(kwargs[name])
		if err != nil {
			return a, err
		}
		a.names, a.named = append(a.names, name), append(a.named, e)
	}
	return a, nil
}

// keywords are the named arguments of one call, in alphabetical order. A call
// has few: they are found by looking at each.
type keywords struct {
	names  []string // of the template: not to be changed
	values []*exec.Value
}

// get returns the argument of a name, nil when there is none.
func (k keywords) get(name string) *exec.Value {
	for i := range k.names {
		if k.names[i] == name {
			return k.values[i]
		}
	}
	return nil
}

// asMap is what filters take; nil when there are none.
func (k keywords) asMap() map[string]*exec.Value {
	if len(k.names) == 0 {
		return nil
	}
	m := make(map[string]*exec.Value, len(k.names))
	for i, name := range k.names {
		m[name] = k.values[i]
	}
	return m
}

func (a *arguments) evaluate(f *frame) (positional []*exec.Value, named keywords, err error) {
	if positional, err = evaluate(f, a.positional); err != nil {
		return nil, keywords{}, err
	}
	values, err := evaluate(f, a.named)
	return positional, keywords{a.names, values}, err
}

// callable is a value that a template can call: a macro or a global function.
type callable func(f *frame, args []*exec.Value, kwargs keywords) (*exec.Value, error)

func (b binder) bindCall(n *nodes.Call) (expression, error) {
	args, err := b.bindArguments(n.Args, n.Kwargs)
	if err != nil {
		return nil, err
	}
	if method, ok := n.Func.(*nodes.GetAttribute); ok && method.Attribute != "" {
		return b.bindMethod(method, args)
	}
	function, err := b.bind(n.Func)
	if err != nil {
		return nil, err
	}
	name := n.Func.String()
	return func(f *frame) (*exec.Value, error) {
		v, err := function(f)
		if err != nil {
			return nil, err
		}
		return call(f, v, name, args)
	}, nil
}

func call(f *frame, v *exec.Value, name string, args arguments) (*exec.Value, error) {
	fn, ok := v.Interface().(callable)
	if !ok {
		return nil, fmt.Errorf("%s is %s and cannot be called", name, typeName(v))
	}
	if err := f.run.step(); err != nil {
		return nil, err
	}
	positional, named, err := args.evaluate(f)
	if err != nil {
		return nil, err
	}
	return fn(f, positional, named)
}

// bindMethod binds target.name(...). gonja evaluates the target of a method
// twice, so that a chain of n calls would take 2^n evaluations.
func (b binder) bindMethod(method *nodes.GetAttribute, args arguments) (expression, error) {
	target, err := b.bind(method.Node)
	if err != nil {
		return nil, err
	}
	name := method.Attribute
	return func(f *frame) (*exec.Value, error) {
		v, err := target(f)
		if err != nil {
			return nil, err
		}
		if ns, ok := v.Interface().(*namespace); ok {
			member, _ := ns.members.get(name)
			return call(f, exec.ToValue(member), name, args)
		}
		positional, named, err := args.evaluate(f)
		if err != nil {
			return nil, err
		}
		if len(named.names) > 0 {
			return nil, fmt.Errorf("method %s takes no named arguments", name)
		}
		if isMapping(v) {
			if err := f.run.lookUp(v); err != nil {
				return nil, err
			}
		}
		v, err = callMethod(v, name, positional)
		if err != nil {
			return nil, fmt.Errorf("method %s: %w", name, err)
		}
		return v, nil
	}, nil
}

// macro is a macro where it was defined: its body sees that scope.
type macro struct {
	name   string
	params []param
	body   []statement
	scope  *scope
}

type param struct {
	name     string
	fallback expression // undefined when the source gives none
}

// call renders the body with the arguments bound and returns its text.
func (m *macro) call(f *frame, args []*exec.Value, kwargs keywords) (*exec.Value, error) {
	if f.run.depth >= callDepthMax {
		return nil, fmt.Errorf("%w: macros nested deeper than %d", ErrLimit, callDepthMax)
	}
	f.run.depth++
	defer func() { f.run.depth-- }()
	var text []byte
	inner := &frame{run: f.run, scope: m.scope.inside(), out: &text}
	if err := m.bindParams(inner, args, kwargs); err != nil {
		return nil, err
	}
	if err := inner.execute(m.body); err != nil {
		return nil, err
	}
	return exec.AsValue(string(text)), nil
}

func (m *macro) bindParams(f *frame, args []*exec.Value, kwargs keywords) error {
	if len(args) > len(m.params) {
		return fmt.Errorf("macro %s takes %d arguments, not %d", m.name, len(m.params), len(args))
	}
	used := 0
	for i, p := range m.params {
		v := kwargs.get(p.name)
		named := v != nil
		switch {
		case i < len(args) && named:
			return fmt.Errorf("macro %s: argument %s is given twice", m.name, p.name)
		case i < len(args):
			v = args[i]
		case named:
			used++
		default:
			var err error
			if v, err = p.fallback(f); err != nil {
				return err
			}
		}
		f.scope.set(p.name, v)
	}
	if used != len(kwargs.names) {
		return fmt.Errorf("macro %s: an argument has a name it does not know", m.name)
	}
	return nil
}

// globals are the functions and constants of every template.
var globals = map[string]*exec.Value{
	"none":            valueNone,
	"namespace":       exec.AsValue(callable(makeNamespace)),
	"dict":            exec.AsValue(callable(makeDict)),
	"range":           exec.AsValue(callable(makeRange)),
	"raise_exception": exec.AsValue(callable(raise)),
}

func makeNamespace(_ *frame, args []*exec.Value, kwargs keywords) (*exec.Value, error) {
	o, err := mappingOf(args, kwargs)
	return exec.AsValue(&namespace{members: o}), err
}

func makeDict(_ *frame, args []*exec.Value, kwargs keywords) (*exec.Value, error) {
	o, err := mappingOf(args, kwargs)
	return exec.AsValue(o), err
}

func mappingOf(args []*exec.Value, kwargs keywords) (object, error) {
	o := make(object, 0, len(kwargs.names))
	for _, a := range args {
		source, ok := a.Interface().(object)
		if !ok {
			return nil, fmt.Errorf("%s is not a mapping", typeName(a))
		}
		o = append(o, source...)
	}
	for i, name := range kwargs.names {
		o = o.set(name, kwargs.values[i])
	}
	return o, nil
}

func makeRange(_ *frame, args []*exec.Value, _ keywords) (*exec.Value, error) {
	bounds := [3]int{0, 0, 1} // start, stop, step
	for i, a := range args {
		if i >= len(bounds) || !a.IsInteger() {
			return nil, fmt.Errorf("range takes up to three whole numbers")
		}
		bounds[i] = a.Integer()
	}
	if len(args) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || len(args) == 0 {
		return nil, fmt.Errorf("range takes a stop and a step other than 0")
	}
	var out list
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) >= rangeMax {
			return nil, fmt.Errorf("%w: a range of more than %d numbers", ErrLimit, rangeMax)
		}
		out = append(out, exec.AsValue(i))
	}
	return exec.AsValue(out), nil
}

// rangeMax is the longest range, the same that Jinja's sandbox allows.
const rangeMax = 100_000

func raise(_ *frame, args []*exec.Value, _ keywords) (*exec.Value, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("raise_exception takes one message")
	}
	return nil, &Raised{Message: args[0].String()}
}
