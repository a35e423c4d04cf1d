package template

import "fmt"

// argumentList is the arguments of a call, as written; the last ones have names.
type argumentList struct {
	all   []expression
	names []string
}

// arguments are those of one call, evaluated. A call has few: a name is found by
// looking at each.
type arguments struct {
	positional []value
	names      []string // of the template: not to be changed
	named      []value
}

func (a argumentList) evaluate(f *frame) (arguments, error) {
	values, err := evaluate(f, a.all)
	if err != nil {
		return arguments{}, err
	}
	n := len(values) - len(a.names)
	return arguments{values[:n:n], a.names, values[n:]}, nil
}

// byName returns the argument of a name, nil when there is none.
func (a arguments) byName(name string) value {
	for i := range a.names {
		if a.names[i] == name {
			return a.named[i]
		}
	}
	return nil
}

// get returns a positional or named argument, nil when it was not given.
func (a arguments) get(i int, name string) value {
	if i < len(a.positional) {
		return a.positional[i]
	}
	return a.byName(name)
}

// flag reports an argument that is there and true.
func (a arguments) flag(i int, name string) bool {
	v := a.get(i, name)
	return v != nil && isTrue(v)
}

// callable is a value that a template can call: a macro or a global function.
type callable func(f *frame, args arguments) (value, error)

// call is function(args).
type call struct {
	function expression
	args     argumentList
}

func (c *call) eval(f *frame) (value, error) {
	v, err := c.function.eval(f)
	if err != nil {
		return nil, err
	}
	return invoke(f, v, c.args)
}

func invoke(f *frame, v value, list argumentList) (value, error) {
	function, ok := v.(callable)
	if !ok {
		return nil, fmt.Errorf("%s cannot be called", typeName(v))
	}
	if err := f.run.step(); err != nil {
		return nil, err
	}
	args, err := list.evaluate(f)
	if err != nil {
		return nil, err
	}
	return function(f, args)
}

// methodCall is target.name(args). The target is evaluated once.
type methodCall struct {
	target expression
	name   string
	args   argumentList
}

func (m *methodCall) eval(f *frame) (value, error) {
	v, err := m.target.eval(f)
	if err != nil {
		return nil, err
	}
	if ns, ok := v.(*namespace); ok {
		member, ok := ns.members.get(m.name)
		if !ok {
			member = undefined{}
		}
		return invoke(f, member, m.args)
	}
	args, err := m.args.evaluate(f)
	if err != nil {
		return nil, err
	}
	if s, ok := v.(string); ok && m.name == "format" { // the one method whose arguments may have names
		return formatString(f.run, s, args)
	}
	if len(args.names) > 0 {
		return nil, fmt.Errorf("method %s takes no named arguments", m.name)
	}
	if isMapping(v) {
		if err := f.run.lookUp(v); err != nil {
			return nil, err
		}
	}
	v, err = callMethod(v, m.name, args.positional)
	if err != nil {
		return nil, fmt.Errorf("method %s: %w", m.name, err)
	}
	return v, nil
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
func (m *macro) call(f *frame, args arguments) (value, error) {
	if f.run.depth >= callDepthMax {
		return nil, fmt.Errorf("%w: macros nested deeper than %d", ErrLimit, callDepthMax)
	}
	f.run.depth++
	defer func() { f.run.depth-- }()
	var text []byte
	inner := &frame{run: f.run, scope: m.scope.inside(), out: &text}
	if err := m.bindParams(inner, args); err != nil {
		return nil, err
	}
	if err := inner.execute(m.body); err != nil {
		return nil, err
	}
	return string(text), nil
}

func (m *macro) bindParams(f *frame, args arguments) error {
	if len(args.positional) > len(m.params) {
		return fmt.Errorf("macro %s takes %d arguments, not %d", m.name, len(m.params), len(args.positional))
	}
	used := 0
	for i, p := range m.params {
		v := args.byName(p.name)
		named := v != nil
		switch {
		case i < len(args.positional) && named:
			return fmt.Errorf("macro %s: argument %s is given twice", m.name, p.name)
		case i < len(args.positional):
			v = args.positional[i]
		case named:
			used++
		default:
			var err error
			if v, err = p.fallback.eval(f); err != nil {
				return err
			}
		}
		f.scope.set(p.name, v)
	}
	if used != len(args.names) {
		return fmt.Errorf("macro %s: an argument has a name it does not know", m.name)
	}
	return nil
}

// globals are the functions and constants of every template.
var globals = map[string]value{
	"none":            none{},
	"namespace":       callable(makeNamespace),
	"dict":            callable(makeDict),
	"range":           callable(makeRange),
	"raise_exception": callable(raise),
	"strftime_now":    callable(strftimeNow),
}

func makeNamespace(_ *frame, args arguments) (value, error) {
	o, err := mappingOf(args)
	return &namespace{members: o}, err
}

func makeDict(_ *frame, args arguments) (value, error) {
	o, err := mappingOf(args)
	return o, err
}

func mappingOf(args arguments) (object, error) {
	o := make(object, 0, len(args.names))
	for _, a := range args.positional {
		source, ok := a.(object)
		if !ok {
			return nil, fmt.Errorf("%s is not a mapping", typeName(a))
		}
		o = append(o, source...)
	}
	for i, name := range args.names {
		o = o.set(name, args.named[i])
	}
	return o, nil
}

func makeRange(_ *frame, args arguments) (value, error) {
	bounds := [3]int{0, 0, 1} // start, stop, step
	for i, a := range args.positional {
		if i >= len(bounds) || !isInteger(a) {
			return nil, fmt.Errorf("range takes up to three whole numbers")
		}
		bounds[i] = integerOf(a)
	}
	if len(args.positional) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || len(args.positional) == 0 {
		return nil, fmt.Errorf("range takes a stop and a step other than 0")
	}
	var out list
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) >= rangeMax {
			return nil, fmt.Errorf("%w: a range of more than %d numbers", ErrLimit, rangeMax)
		}
		out = append(out, i)
	}
	return out, nil
}

// rangeMax is the longest range, the same that Jinja's sandbox allows.
const rangeMax = 100_000

func raise(_ *frame, args arguments) (value, error) {
	if len(args.positional) != 1 {
		return nil, fmt.Errorf("raise_exception takes one message")
	}
	return nil, &Raised{Message: text(args.positional[0])}
}
