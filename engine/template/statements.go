package template

import (
	"fmt"
	"slices"
	"strconv"
)

// frame is where a statement runs: a scope and where its text goes.
type frame struct {
	run   *run
	scope *scope
	out   *[]byte
}

// statement is a statement of the template: it runs in a frame.
type statement func(f *frame) jump

// jump is the name of a statement that ends a round of the nearest loop, empty for all others.
type jump string

const (
	jumpBreak    jump = "break"
	jumpContinue jump = "continue"
)

// execute runs statements up to a jump, which the loop around them takes.
func (f *frame) execute(body []statement) jump {
	for _, s := range body {
		f.run.step()
		if j := s(f); j != "" {
			return j
		}
	}
	return ""
}

// executeAll runs statements that are in no loop.
func (f *frame) executeAll(body []statement) {
	if j := f.execute(body); j != "" {
		panic(fmt.Errorf("%s outside of a loop", j))
	}
}

func (f *frame) write(s string) {
	if len(*f.out)+len(s) > outputMax {
		panic(fmt.Errorf("%w: more than %d bytes of text", ErrLimit, outputMax))
	}
	f.run.work(len(s) / bytesPerStep)
	*f.out = append(*f.out, s...)
}

// output writes what an expression gives. The strings of a sum go straight to
// the output; nothing is joined first.
func (f *frame) output(e expression) {
	switch e := e.(type) {
	case *sumOf:
		f.outputSum(e)
	case *conditional:
		f.output(e.choose(f))
	default:
		f.write(text(e.eval(f)))
	}
}

func (f *frame) outputSum(s *sumOf) {
	var few [8]value
	values, allStrings := chain(f, s.parts, few[:0])
	if !allStrings {
		f.write(text(sum(values)))
		return
	}
	for _, v := range values {
		f.write(v.(string))
	}
}

// capture renders a block into a string.
func (f *frame) capture(body []statement) (string, jump) {
	var text []byte
	inner := *f
	inner.out = &text
	j := inner.execute(body)
	return string(text), j
}

// block reads statements up to a tag with one of the names and consumes the
// tag's name; without names, up to the end of the template.
func (p *parser) block(ends ...string) (body []statement, end string) {
	p.deeper()
	defer p.shallower()
	for {
		start := p.pos
		switch t := p.next(); t.kind {
		case tokenText:
			body = append(body, func(f *frame) jump {
				f.write(t.text)
				return ""
			})
		case tokenOutput:
			body = append(body, p.charged(p.outputTag(t.line), start))
		case tokenBlock:
			s, end := p.blockTag(t.line, ends)
			if s == nil {
				return body, end
			}
			body = append(body, p.charged(s, start))
		default: // the end of the template
			if len(ends) > 0 {
				panic(fmt.Errorf("%q is missing", ends[len(ends)-1]))
			}
			return body, ""
		}
	}
}

// charged is a statement that counts steps for its length in words, where it is long.
func (p *parser) charged(s statement, start int) statement {
	n := (p.pos - start) / wordsPerStep
	if n == 0 {
		return s
	}
	return func(f *frame) jump {
		f.run.work(n)
		return s(f)
	}
}

func (p *parser) outputTag(line int) statement {
	defer within("line", strconv.Itoa(line))
	e := p.tuple()
	if p.peek().kind != tokenOutputEnd {
		panic(p.unexpected("the expression does not end"))
	}
	p.next()
	return func(f *frame) jump {
		f.output(e)
		return ""
	}
}

// blockTag reads the name of a tag and the statement that it begins; none if it is one of the ends.
func (p *parser) blockTag(line int, ends []string) (s statement, name string) {
	defer within("line", strconv.Itoa(line))
	if name = p.name(); slices.Contains(ends, name) {
		return nil, name
	}
	return p.statement(name), name
}

// tagEnd consumes the end of a block's tag.
func (p *parser) tagEnd() {
	if p.peek().kind != tokenBlockEnd {
		panic(p.unexpected("the tag does not end"))
	}
	p.next()
}

// statement reads the statement whose name was consumed. What reaches other
// templates (include, import, extends, block) is not known.
func (p *parser) statement(name string) statement {
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
		body := p.body("endgeneration")
		return func(f *frame) jump { return f.execute(body) }
	case "break", "continue":
		p.tagEnd()
		return func(*frame) jump { return jump(name) }
	}
	panic(fmt.Errorf("%q is not supported here", name))
}

// body reads the end of a tag, the statements behind it, and the whole end tag.
func (p *parser) body(end string) []statement {
	p.tagEnd()
	body, _ := p.block(end)
	p.tagEnd()
	return body
}

// last reads the expression that ends a tag.
func (p *parser) last() expression {
	e := p.tuple()
	p.tagEnd()
	return e
}

type branch struct {
	condition expression // true in an else
	body      []statement
}

func (p *parser) ifStatement() statement {
	var branches []branch
	for end := "if"; ; {
		b := branch{condition: literal{true}}
		ends := []string{"elif", "else", "endif"}
		if end == "else" {
			p.tagEnd()
			ends = ends[2:]
		} else {
			b.condition = p.last()
		}
		b.body, end = p.block(ends...)
		branches = append(branches, b)
		if end == "endif" {
			p.tagEnd()
			return executeIf(branches)
		}
	}
}

// executeIf opens no scope: a set inside is seen after it, as in Jinja.
func executeIf(branches []branch) statement {
	return func(f *frame) jump {
		for i := range branches {
			if isTrue(branches[i].condition.eval(f)) {
				return f.execute(branches[i].body)
			}
		}
		return ""
	}
}

// target is what a set assigns to: a variable, or a member of a namespace.
type target struct{ name, member string }

func (p *parser) target() target {
	t := target{name: p.name()}
	if p.takeOperator(".") {
		t.member = p.name()
	}
	return t
}

func (t target) assign(f *frame, v value) {
	if t.member == "" {
		f.scope.set(t.name, v)
		return
	}
	ns, ok := f.scope.get(t.name).(*namespace)
	if !ok {
		panic(fmt.Errorf("set %s.%s: only a namespace can be changed", t.name, t.member))
	}
	ns.members.set(t.member, v)
}

func (p *parser) setStatement() statement {
	t := p.target()
	if p.takeOperator("=") {
		e := p.last()
		return func(f *frame) jump {
			t.assign(f, e.eval(f))
			return ""
		}
	}
	body := p.body("endset") // Jinja may have filters before
	return func(f *frame) jump {
		text, j := f.capture(body)
		if j == "" {
			t.assign(f, text)
		}
		return j
	}
}

func (p *parser) macroStatement() statement {
	name, params := p.name(), p.params()
	body := p.body("endmacro")
	return func(f *frame) jump {
		f.scope.keep()
		m := &macro{name: name, params: params, body: body, scope: f.scope}
		f.scope.set(name, callable(m.call))
		return ""
	}
}

func (p *parser) params() []param {
	p.expect(tokenOperator, "(")
	var params []param
	for !p.takeOperator(")") {
		one := param{name: p.name(), fallback: literal{undefined{}}}
		if p.takeOperator("=") {
			one.fallback = p.expression()
		}
		params = append(params, one)
		p.comma(")")
	}
	return params
}

func (p *parser) withStatement() statement {
	var names []string
	var values []expression
	for more := !p.atTagEnd(); more; more = p.takeOperator(",") && !p.atTagEnd() {
		names = append(names, p.name())
		p.expect(tokenOperator, "=")
		values = append(values, p.expression())
	}
	body := p.body("endwith")
	return func(f *frame) jump {
		got := evaluate(f, values)
		inner := *f
		inner.scope = f.scope.inside()
		for i, name := range names {
			inner.scope.set(name, got[i])
		}
		return inner.execute(body)
	}
}

// blockText is the variable of a filter block's text. No template can write the name.
const blockText = ""

func (p *parser) filterStatement() statement {
	e := p.filter(newReference(blockText))
	for p.takeOperator("|") {
		e = p.filter(e)
	}
	body := p.body("endfilter")
	return func(f *frame) jump {
		text, j := f.capture(body)
		if j == "" {
			inner := *f
			inner.scope = f.scope.inside()
			inner.scope.set(blockText, text)
			inner.output(e)
		}
		return j
	}
}
