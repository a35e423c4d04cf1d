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
func (l *loop) call(r *run, name string, args []value) value {
	switch {
	case name == "cycle" && len(args) > 0:
		return args[l.index%len(args)]
	case name == "changed":
		budget := comparisonMax
		same := l.changed != nil && equalLists(l.changed, args, &budget, 0)
		r.compared(budget)
		l.changed = append(list{}, args...)
		return !same
	}
	panic(errors.New("not known for loop"))
}

func (p *parser) forStatement() statement {
	l := &forLoop{}
	p.loopHead(l)
	var end string
	if l.body, end = p.block("else", "endfor"); end == "else" {
		l.empty = p.body("endfor")
	} else {
		p.tagEnd()
	}
	return l.execute
}

// loopHead reads names in iterable if condition, and the end of the tag.
func (p *parser) loopHead(l *forLoop) {
	bracket := p.takeOperator("(")
	for more := true; more; more = p.takeOperator(",") {
		l.names = append(l.names, p.name())
	}
	if bracket {
		p.expect(tokenOperator, ")")
	}
	p.expect(tokenName, "in")
	l.iterable = p.or()
	if p.takeWord("if") {
		l.filter = p.expression()
	}
	p.tagEnd()
}

func (l *forLoop) execute(f *frame) jump {
	v := l.iterable.eval(f)
	items, ok := sequence(v)
	if !ok {
		panic(fmt.Errorf("for: %s cannot be looped over", typeName(v)))
	}
	if l.filter != nil {
		items = l.filtered(f, items)
	}
	if len(items) == 0 {
		return f.execute(l.empty)
	}
	r := &rounds{loop: loop{items: items}}
	r.scope.open(f.scope)
	inner := *f
	inner.scope = &r.scope
	for i, element := range items {
		f.run.step()
		r.loop.index = i
		if inner.scope = inner.scope.reset(); inner.scope == nil {
			inner.scope = f.scope.inside()
		}
		inner.scope.set("loop", &r.loop)
		l.assign(&inner, element)
		if inner.execute(l.body) == jumpBreak {
			break
		}
	}
	return ""
}

// filtered keeps the elements for which the loop's condition holds.
func (l *forLoop) filtered(f *frame, items list) list {
	var kept list
	inner := *f
	for _, element := range items {
		f.run.step()
		inner.scope = f.scope.inside()
		l.assign(&inner, element)
		if isTrue(l.filter.eval(&inner)) {
			kept = append(kept, element)
		}
	}
	return kept
}

func (l *forLoop) assign(f *frame, element value) {
	if len(l.names) == 1 {
		f.scope.set(l.names[0], element)
		return
	}
	parts, ok := sequence(element)
	if !ok || len(parts) != len(l.names) {
		panic(fmt.Errorf("for: %s does not come apart into %d names", typeName(element), len(l.names)))
	}
	for i, name := range l.names {
		f.scope.set(name, parts[i])
	}
}
