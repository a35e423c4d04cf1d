package template

import (
	"errors"
	"fmt"
)

// frame is where a statement runs: a scope and where its text goes.
type frame struct {
	run   *run
	scope *scope
	out   *[]byte
}

// statement is a statement of the template: it runs in a frame.
type statement func(f *frame) error

// What break and continue return; the nearest loop takes it.
var (
	errBreak    = errors.New("break outside of a loop")
	errContinue = errors.New("continue outside of a loop")
)

func (f *frame) execute(body []statement) error {
	for _, s := range body {
		if err := f.run.step(); err != nil {
			return err
		}
		if err := s(f); err != nil {
			return err
		}
	}
	return nil
}

func (f *frame) write(s string) error {
	if len(*f.out)+len(s) > outputMax {
		return fmt.Errorf("%w: more than %d bytes of text", ErrLimit, outputMax)
	}
	*f.out = append(*f.out, s...)
	return nil
}

// output writes what an expression gives. The strings of a sum go straight to
// the output; nothing is joined first.
func (f *frame) output(e expression) error {
	switch e := e.(type) {
	case *sumOf:
		return f.outputSum(e)
	case *conditional:
		chosen, err := e.choose(f)
		if err != nil {
			return err
		}
		return f.output(chosen)
	}
	v, err := e.eval(f)
	if err != nil {
		return err
	}
	return f.write(text(v))
}

func (f *frame) outputSum(s *sumOf) error {
	var few [8]value
	values, allStrings, err := chain(f, s.parts, few[:0])
	if err != nil {
		return err
	}
	if !allStrings {
		total, err := sum(values)
		if err != nil {
			return err
		}
		return f.write(text(total))
	}
	for _, v := range values {
		if err := f.write(v.(string)); err != nil {
			return err
		}
	}
	return nil
}

// capture renders a block into a string.
func (f *frame) capture(body []statement) (string, error) {
	var text []byte
	inner := *f
	inner.out = &text
	err := inner.execute(body)
	return string(text), err
}

// block reads statements up to a tag with one of the names and consumes the
// tag's name; without names, up to the end of the template.
func (p *parser) block(ends ...string) (body []statement, end string, err error) {
	if err := p.deeper(); err != nil {
		return nil, "", err
	}
	defer p.shallower()
	for {
		switch t := p.next(); t.kind {
		case tokenText:
			body = append(body, func(f *frame) error { return f.write(t.text) })
		case tokenOutput:
			e, err := p.tuple()
			if err == nil && p.next().kind != tokenOutputEnd {
				p.pos--
				err = p.unexpected("the expression does not end")
			}
			if err != nil {
				return nil, "", fmt.Errorf("line %d: %w", t.line, err)
			}
			body = append(body, func(f *frame) error { return f.output(e) })
		case tokenBlock:
			name, err := p.name()
			for _, end := range ends {
				if err == nil && name == end {
					return body, name, nil
				}
			}
			var s statement
			if err == nil {
				s, err = p.statement(name)
			}
			if err != nil {
				return nil, "", fmt.Errorf("line %d: %w", t.line, err)
			}
			body = append(body, s)
		default: // the end of the template
			if len(ends) > 0 {
				return nil, "", fmt.Errorf("%q is missing", ends[len(ends)-1])
			}
			return body, "", nil
		}
	}
}

// tagEnd consumes the end of a block's tag.
func (p *parser) tagEnd() error {
	if p.peek().kind != tokenBlockEnd {
		return p.unexpected("the tag does not end")
	}
	p.next()
	return nil
}

// statement reads the statement whose name was consumed. What reaches other
// templates (include, import, extends, block) is not known.
func (p *parser) statement(name string) (statement, error) {
	switch name {
	case "if":
		return p.ifStatement()
	case "for":
		return p.forStatement()
	case "set":
		return p.setStatement()
	case "macro":
		return p.macroStatement()
	case "with":
		return p.withStatement()
	case "filter":
		return p.filterStatement()
	case "generation": // marks the assistant's text for training; no effect here
		body, err := p.body("endgeneration")
		return func(f *frame) error { return f.execute(body) }, err
	case "break":
		return func(*frame) error { return errBreak }, p.tagEnd()
	case "continue":
		return func(*frame) error { return errContinue }, p.tagEnd()
	}
	return nil, fmt.Errorf("%q is not supported here", name)
}

// body reads the end of a tag, the statements behind it, and the whole end tag.
func (p *parser) body(end string) ([]statement, error) {
	if err := p.tagEnd(); err != nil {
		return nil, err
	}
	body, _, err := p.block(end)
	if err != nil {
		return nil, err
	}
	return body, p.tagEnd()
}

// last reads the expression that ends a tag.
func (p *parser) last() (expression, error) {
	e, err := p.tuple()
	if err != nil {
		return nil, err
	}
	return e, p.tagEnd()
}

type branch struct {
	condition expression // true in an else
	body      []statement
}

func (p *parser) ifStatement() (statement, error) {
	var branches []branch
	end := "if"
	for {
		b := branch{condition: literal{true}}
		var err error
		if end == "else" {
			err = p.tagEnd()
		} else {
			b.condition, err = p.last()
		}
		if err != nil {
			return nil, err
		}
		ends := []string{"elif", "else", "endif"}
		if end == "else" {
			ends = ends[2:]
		}
		if b.body, end, err = p.block(ends...); err != nil {
			return nil, err
		}
		branches = append(branches, b)
		if end == "endif" {
			return executeIf(branches), p.tagEnd()
		}
	}
}

// executeIf opens no scope: a set inside is seen after it, as in Jinja.
func executeIf(branches []branch) statement {
	return func(f *frame) error {
		for i := range branches {
			v, err := branches[i].condition.eval(f)
			if err != nil {
				return err
			}
			if isTrue(v) {
				return f.execute(branches[i].body)
			}
		}
		return nil
	}
}

// target is what a set assigns to: a variable, or a member of a namespace.
type target struct{ name, member string }

func (p *parser) target() (t target, err error) {
	if t.name, err = p.name(); err == nil && p.takeOperator(".") {
		t.member, err = p.name()
	}
	return t, err
}

func (t target) assign(f *frame, v value) error {
	if t.member == "" {
		f.scope.set(t.name, v)
		return nil
	}
	ns, ok := f.scope.get(t.name).(*namespace)
	if !ok {
		return fmt.Errorf("set %s.%s: only a namespace can be changed", t.name, t.member)
	}
	ns.members = ns.members.set(t.member, v)
	return nil
}

func (p *parser) setStatement() (statement, error) {
	t, err := p.target()
	if err != nil {
		return nil, err
	}
	if p.takeOperator("=") {
		e, err := p.last()
		return func(f *frame) error {
			v, err := e.eval(f)
			if err != nil {
				return err
			}
			return t.assign(f, v)
		}, err
	}
	body, err := p.body("endset") // Jinja may have filters before
	return func(f *frame) error {
		v, err := f.capture(body)
		if err != nil {
			return err
		}
		return t.assign(f, v)
	}, err
}

func (p *parser) macroStatement() (statement, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	params, err := p.params()
	if err != nil {
		return nil, err
	}
	body, err := p.body("endmacro")
	return func(f *frame) error {
		f.scope.keep()
		m := &macro{name: name, params: params, body: body, scope: f.scope}
		f.scope.set(name, callable(m.call))
		return nil
	}, err
}

func (p *parser) params() ([]param, error) {
	if err := p.expect(tokenOperator, "("); err != nil {
		return nil, err
	}
	var params []param
	for !p.takeOperator(")") {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		one := param{name: name, fallback: literal{undefined{}}}
		if p.takeOperator("=") {
			if one.fallback, err = p.expression(); err != nil {
				return nil, err
			}
		}
		params = append(params, one)
		if !p.takeOperator(",") && !p.peek().is(tokenOperator, ")") {
			return nil, p.unexpected("a comma or closing bracket is missing")
		}
	}
	return params, nil
}

func (p *parser) withStatement() (statement, error) {
	var names []string
	var values []expression
	for !p.atTagEnd() {
		name, err := p.name()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokenOperator, "="); err != nil {
			return nil, err
		}
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		names, values = append(names, name), append(values, e)
		if !p.takeOperator(",") {
			break
		}
	}
	body, err := p.body("endwith")
	return func(f *frame) error {
		got, err := evaluate(f, values)
		if err != nil {
			return err
		}
		inner := *f
		inner.scope = f.scope.inside()
		for i, name := range names {
			inner.scope.set(name, got[i])
		}
		return inner.execute(body)
	}, err
}

// captured is the text of a block, as an expression.
type captured struct{ body []statement }

func (c *captured) eval(f *frame) (value, error) { return f.capture(c.body) }

func (p *parser) filterStatement() (statement, error) {
	block := &captured{}
	e, err := p.filter(block)
	for err == nil && p.takeOperator("|") {
		e, err = p.filter(e)
	}
	if err != nil {
		return nil, err
	}
	block.body, err = p.body("endfilter")
	return func(f *frame) error { return f.output(e) }, err
}
