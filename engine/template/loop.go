package template

import (
	"errors"
	"fmt"
)

// forLoop is a for statement.
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
	scope scope
}

// get returns a member of loop, nil when there is none of that name.
func (l *loop) get(name string) value {
	switch name {
	case "index":
		return l.index + 1
	case "index0":
		return l.index
	case "first":
		return l.index == 0
	case "last":
		return l.index == len(l.items)-1
	case "length":
		return len(l.items)
	case "revindex":
		return len(l.items) - l.index
	case "revindex0":
		return len(l.items) - l.index - 1
	case "depth": // counts recursive loops, which are not supported
		return 1
	case "depth0":
		return 0
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
func (l *loop) call(name string, args []value) (value, error) {
	switch {
	case name == "cycle" && len(args) > 0:
		return args[l.index%len(args)], nil
	case name == "changed":
		budget := comparisonMax
		same := l.changed != nil && equalLists(l.changed, args, &budget)
		l.changed = append(list{}, args...)
		return !same, nil
	}
	return nil, errors.New("not known for loop")
}

func (p *parser) forStatement() (statement, error) {
	l := &forLoop{}
	if err := p.loopHead(l); err != nil {
		return nil, err
	}
	var end string
	var err error
	if l.body, end, err = p.block("else", "endfor"); err != nil {
		return nil, err
	}
	if end == "else" {
		l.empty, err = p.body("endfor")
		return l.execute, err
	}
	return l.execute, p.tagEnd()
}

// loopHead reads names in iterable if condition, and the end of the tag.
func (p *parser) loopHead(l *forLoop) error {
	bracket := p.takeOperator("(")
	for more := true; more; more = p.takeOperator(",") {
		name, err := p.name()
		if err != nil {
			return err
		}
		l.names = append(l.names, name)
	}
	if bracket {
		if err := p.expect(tokenOperator, ")"); err != nil {
			return err
		}
	}
	err := p.expect(tokenName, "in")
	if err != nil {
		return err
	}
	if l.iterable, err = p.or(); err != nil {
		return err
	}
	if p.takeWord("if") {
		if l.filter, err = p.expression(); err != nil {
			return err
		}
	}
	return p.tagEnd()
}

func (l *forLoop) execute(f *frame) error {
	v, err := l.iterable.eval(f)
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
		inner.scope.set("loop", &r.loop)
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
		v, err := l.filter.eval(&inner)
		if err != nil {
			return nil, err
		}
		if isTrue(v) {
			kept = append(kept, element)
		}
	}
	return kept, nil
}

func (l *forLoop) assign(f *frame, element value) error {
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
