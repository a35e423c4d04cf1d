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
	run        *run // that evaluated them; nil for those of the host
	positional []value
	names      []string // of the template: not to be changed
	named      []value
}

func (a argumentList) evaluate(f *frame) arguments {
	values := evaluate(f, a.all)
	n := len(values) - len(a.names)
	return arguments{f.run, values[:n:n], a.names, values[n:]}
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

// or is get with another value for what was not given.
func (a arguments) or(i int, name string, fallback value) value {
	if v := a.get(i, name); v != nil {
		return v
	}
	return fallback
}

// flag reports an argument that is there and true.
func (a arguments) flag(i int, name string) bool {
	return isTrue(a.or(i, name, false))
}

// callable is a value that a template can call: a macro or a global function.
type callable func(f *frame, args arguments) value

// call is function(args).
type call struct {
	function expression
	args     argumentList
}

func (c *call) eval(f *frame) value { return invoke(f, c.function.eval(f), c.args) }

func invoke(f *frame, v value, list argumentList) value {
	function, ok := v.(callable)
	if !ok {
		panic(fmt.Errorf("%s cannot be called", typeName(v)))
	}
	f.run.step()
	return f.run.weigh(function(f, list.evaluate(f)))
}

// methodCall is target.name(args). The target is evaluated once.
type methodCall struct {
	target expression
	name   string
	args   argumentList
}

func (m *methodCall) eval(f *frame) value {
	v := m.target.eval(f)
	if ns, ok := v.(*namespace); ok {
		member, ok := ns.members.get(m.name)
		if !ok {
			member = undefined{}
		}
		return invoke(f, member, m.args)
	}
	args := m.args.evaluate(f)
	if s, ok := v.(string); ok && m.name == "format" { // the one method whose arguments may have names
		return formatString(f.run, s, args)
	}
	if len(args.names) > 0 {
		panic(fmt.Errorf("method %s takes no named arguments", m.name))
	}
	for _, a := range args.positional {
		f.run.weigh(a)
	}
	f.run.weigh(v)
	defer within("method", m.name)
	return f.run.weigh(callMethod(f.run, v, m.name, args.positional))
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
func (m *macro) call(f *frame, args arguments) value {
	if f.run.depth >= callDepthMax {
		panic(fmt.Errorf("%w: macros nested deeper than %d", ErrLimit, callDepthMax))
	}
	f.run.depth++
	defer func() { f.run.depth-- }()
	var text []byte
	inner := &frame{run: f.run, scope: m.scope.inside(), out: &text}
	m.bindParams(inner, args)
	inner.executeAll(m.body)
	return string(text)
}

func (m *macro) bindParams(f *frame, args arguments) {
	if len(args.positional) > len(m.params) {
		panic(fmt.Errorf("macro %s takes %d arguments, not %d", m.name, len(m.params), len(args.positional)))
	}
	used := 0
	for i, p := range m.params {
		v := args.byName(p.name)
		named := v != nil
		switch {
		case i < len(args.positional) && named:
			panic(fmt.Errorf("macro %s: argument %s is given twice", m.name, p.name))
		case i < len(args.positional):
			v = args.positional[i]
		case named:
			used++
		default:
			v = p.fallback.eval(f)
		}
		f.scope.set(p.name, v)
	}
	if used != len(args.names) {
		panic(fmt.Errorf("macro %s: an argument has a name it does not know", m.name))
	}
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

func makeNamespace(_ *frame, args arguments) value { return &namespace{mappingOf(args)} }

func makeDict(_ *frame, args arguments) value { return mappingOf(args).object }

func mappingOf(args arguments) gathering {
	o := gathering{object: make(object, 0, len(args.names))}
	for _, a := range args.positional {
		source, ok := a.(object)
		if !ok {
			panic(fmt.Errorf("%s is not a mapping", typeName(a)))
		}
		o.object = append(o.object, source...)
	}
	for i, name := range args.names {
		o.set(name, args.named[i])
	}
	return o
}

func makeRange(_ *frame, args arguments) value {
	bounds := [3]int{0, 0, 1} // start, stop, step
	for i, a := range args.positional {
		if i >= len(bounds) || !isInteger(a) {
			panic(fmt.Errorf("range takes up to three whole numbers"))
		}
		bounds[i] = integerOf(a)
	}
	if len(args.positional) == 1 {
		bounds[0], bounds[1] = 0, bounds[0]
	}
	start, stop, step := bounds[0], bounds[1], bounds[2]
	if step == 0 || len(args.positional) == 0 {
		panic(fmt.Errorf("range takes a stop and a step other than 0"))
	}
	var out list
	for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
		if len(out) >= rangeMax {
			panic(fmt.Errorf("%w: a range of more than %d numbers", ErrLimit, rangeMax))
		}
		out = append(out, i)
	}
	return out
}

// rangeMax is the longest range, the same that Jinja's sandbox allows.
const rangeMax = 100_000

func raise(_ *frame, args arguments) value {
	if len(args.positional) != 1 {
		panic(fmt.Errorf("raise_exception takes one message"))
	}
	panic(&Raised{Message: text(args.positional[0])})
}
