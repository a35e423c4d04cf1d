package template

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// forLoop is a bound for statement.
type forLoop struct {
	names    []string // one, or several that take an element apart
	iterable expression
	filter   expression // may be nil
	body     []statement
	empty    []statement // the else
}

// loop is the variable of that name inside a for.
type loop struct {
	items   list
	index   int // from 0
	changed list
}

// rounds is what the rounds of one loop share, in one piece of memory. Each
// begins with an empty scope: what a round sets is gone in the next one.
type rounds struct {
	loop  loop
	self  exec.Value // the loop, as a value
	scope scope
}

// get returns a member of loop, nil when there is none of that name.
func (l *loop) get(name string) *exec.Value {
	switch name {
	case "index":
		return exec.AsValue(l.index + 1)
	case "index0":
		return exec.AsValue(l.index)
	case "first":
		return boolean(l.index == 0)
	case "last":
		return boolean(l.index == len(l.items)-1)
	case "length":
		return exec.AsValue(len(l.items))
	case "revindex":
		return exec.AsValue(len(l.items) - l.index)
	case "revindex0":
		return exec.AsValue(len(l.items) - l.index - 1)
	case "depth": // counts recursive loops, which are not supported
		return exec.AsValue(1)
	case "depth0":
		return exec.AsValue(0)
	case "previtem":
		if l.index > 0 {
			return l.items[l.index-1]
		}
	case "nextitem":
		if l.index+1 < len(l.items) {
			return l.items[l.index+1]
		}
	}
	return nil
}

// call runs loop.cycle(...) and loop.changed(...).
func (l *loop) call(name string, args []*exec.Value) (*exec.Value, error) {
	switch {
	case name == "cycle" && len(args) > 0:
		return args[l.index%len(args)], nil
	case name == "changed":
		budget := comparisonMax
		same := l.changed != nil && equalLists(l.changed, args, &budget)
		l.changed = append(list{}, args...)
		return boolean(!same), nil
	}
	return nil, errors.New("not known for loop")
}

func (b binder) parseFor(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	l := &forLoop{}
	if err := b.loopHead(l, args); err != nil {
		return nil, err
	}
	body, wrapper, _, err := b.wrapped(p, "else", "endfor")
	if err != nil {
		return nil, err
	}
	l.body = body
	if wrapper.EndTag == "else" {
		if l.empty, _, _, err = b.wrapped(p, "endfor"); err != nil {
			return nil, err
		}
	}
	return &bound{name: "for", at: at, do: l.execute}, nil
}

func (b binder) loopHead(l *forLoop, args *parser.Parser) error {
	bracket := args.Match(tokens.LeftParenthesis) != nil
	for {
		name := args.Match(tokens.Name)
		if name == nil {
			return args.Error("for needs a name", args.Current())
		}
		l.names = append(l.names, name.Val)
		if args.Match(tokens.Comma) == nil {
			break
		}
	}
	if bracket && args.Match(tokens.RightParenthesis) == nil {
		return args.Error("a bracket is not closed", args.Current())
	}
	if args.Match(tokens.In) == nil {
		return args.Error("'in' is missing", args.Current())
	}
	var err error
	if l.iterable, err = b.expression(args); err != nil {
		return err
	}
	if args.MatchName("if") != nil {
		if l.filter, err = b.expression(args); err != nil {
			return err
		}
	}
	if !args.End() {
		return args.Error("unexpected in for", args.Current())
	}
	return nil
}

func (l *forLoop) execute(f *frame) error {
	v, err := l.iterable(f)
	if err != nil {
		return err
	}
	items, ok := sequence(v)
	if !ok {
		return fmt.Errorf("for: %s cannot be looped over", typeName(v))
	}
	if l.filter != nil {
		if items, err = l.filtered(f, items); err != nil {
			return err
		}
	}
	if len(items) == 0 {
		return f.execute(l.empty)
	}
	r := &rounds{loop: loop{items: items}}
	r.self.Val = reflect.ValueOf(&r.loop)
	r.scope.open(f.scope)
	inner := *f
	inner.scope = &r.scope
	for i, element := range items {
		if err := f.run.step(); err != nil {
			return err
		}
		r.loop.index = i
		if inner.scope = inner.scope.reset(); inner.scope == nil {
			inner.scope = f.scope.inside()
		}
		inner.scope.set("loop", &r.self)
		if err := l.assign(&inner, element); err != nil {
			return err
		}
		err := inner.execute(l.body)
		switch {
		case err == nil || err == errContinue:
		case err == errBreak:
			return nil
		default:
			return err
		}
	}
	return nil
}

// filtered keeps the elements for which the loop's condition holds.
func (l *forLoop) filtered(f *frame, items list) (list, error) {
	var kept list
	inner := *f
	for _, element := range items {
		if err := f.run.step(); err != nil {
			return nil, err
		}
		inner.scope = f.scope.inside()
		if err := l.assign(&inner, element); err != nil {
			return nil, err
		}
		v, err := l.filter(&inner)
		if err != nil {
			return nil, err
		}
		if isTrue(v) {
			kept = append(kept, element)
		}
	}
	return kept, nil
}

func (l *forLoop) assign(f *frame, element *exec.Value) error {
	if len(l.names) == 1 {
		f.scope.set(l.names[0], element)
		return nil
	}
	parts, ok := sequence(element)
	if !ok || len(parts) != len(l.names) {
		return fmt.Errorf("for: %s does not come apart into %d names", typeName(element), len(l.names))
	}
	for i, name := range l.names {
		f.scope.set(name, parts[i])
	}
	return nil
}
