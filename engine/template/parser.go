package template

import (
	"fmt"
	"strconv"
)

// parser makes a tree of statements and expressions from tokens. It follows
// the grammar of Jinja's own parser, rule by rule
// (https://github.com/pallets/jinja/blob/3.1.6/src/jinja2/parser.py); a rule
// that is recursive counts its depth.
type parser struct {
	tokens []token
	pos    int
	depth  int
}

func (p *parser) peek() token { return p.tokens[p.pos] }

// next consumes a token; the last one, tokenEOF, is never consumed.
func (p *parser) next() token {
	t := p.tokens[p.pos]
	if t.kind != tokenEOF {
		p.pos++
	}
	return t
}

// take consumes the next token if it is this one.
func (p *parser) take(kind tokenKind, text string) bool {
	if !p.peek().is(kind, text) {
		return false
	}
	p.pos++
	return true
}

func (p *parser) takeOperator(text string) bool { return p.take(tokenOperator, text) }

func (p *parser) takeWord(text string) bool { return p.take(tokenName, text) }

func (p *parser) expect(kind tokenKind, text string) {
	if !p.take(kind, text) {
		panic(p.unexpected(fmt.Sprintf("%q is missing", text)))
	}
}

// name consumes a name.
func (p *parser) name() string {
	if p.peek().kind != tokenName {
		panic(p.unexpected("a name is missing"))
	}
	return p.next().text
}

// unexpected is an error about the next token.
func (p *parser) unexpected(why string) error {
	switch t := p.peek(); t.kind {
	case tokenEOF, tokenText, tokenOutput, tokenBlock, tokenOutputEnd, tokenBlockEnd:
		return fmt.Errorf("%s at the end of the tag", why)
	default:
		return fmt.Errorf("%s before %q", why, t.text)
	}
}

// atTagEnd reports whether the tag has no more tokens.
func (p *parser) atTagEnd() bool {
	kind := p.peek().kind
	return kind == tokenOutputEnd || kind == tokenBlockEnd || kind == tokenEOF
}

// deeper enters a rule that is recursive. The caller defers p.shallower.
func (p *parser) deeper() {
	if p.depth++; p.depth > nestingMax {
		panic(fmt.Errorf("nested deeper than %d", nestingMax))
	}
}

func (p *parser) shallower() { p.depth-- }

// tuple reads one expression, or several with commas between them, which are a tuple.
func (p *parser) tuple() expression {
	first := p.expression()
	if !p.peek().is(tokenOperator, ",") {
		return first
	}
	parts := []expression{first}
	for p.takeOperator(",") && !p.tupleEnds() {
		parts = append(parts, p.expression())
	}
	return &tupleOf{parts}
}

func (p *parser) tupleEnds() bool { return p.atTagEnd() || p.peek().is(tokenOperator, ")") }

// expression reads an expression, conditional ones among them.
func (p *parser) expression() expression {
	p.deeper()
	defer p.shallower()
	e := p.or()
	if !p.takeWord("if") {
		return e
	}
	c := &conditional{yes: e, condition: p.or(), no: literal{undefined{}}}
	if p.takeWord("else") {
		c.no = p.expression()
	}
	return c
}

func (p *parser) or() expression { return p.logic("or", p.and) }

func (p *parser) and() expression { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() expression) expression {
	left := operand()
	for p.takeWord(word) {
		left = &logic{left: left, right: operand(), and: word == "and"}
	}
	return left
}

func (p *parser) not() expression {
	if !p.takeWord("not") {
		return p.comparison()
	}
	p.deeper()
	defer p.shallower()
	return &not{p.not()}
}

// comparison reads a < b, which may go on: a < b < c.
func (p *parser) comparison() expression {
	left := p.sum()
	var steps []comparisonStep
	for {
		passes, ok := p.comparisonOperator()
		if !ok {
			break
		}
		steps = append(steps, comparisonStep{passes, p.sum()})
	}
	if steps == nil {
		return left
	}
	return &comparison{left, steps}
}

func (p *parser) comparisonOperator() (relation, bool) {
	t := p.peek()
	switch {
	case t.kind == tokenOperator && relations[t.text] != nil:
		p.next()
		return relations[t.text], true
	case p.takeWord("in"):
		return isIn, true
	case t.is(tokenName, "not") && p.tokens[p.pos+1].is(tokenName, "in"):
		p.pos += 2
		return isNotIn, true
	}
	return nil, false
}

// sum reads a + b - c. The operands of one operator in a row are one chain.
func (p *parser) sum() expression {
	left := p.joined()
	for {
		switch {
		case p.takeOperator("+"):
			parts := []expression{left, p.joined()}
			for p.takeOperator("+") {
				parts = append(parts, p.joined())
			}
			left = &sumOf{parts}
		case p.takeOperator("-"):
			left = &binary{left: left, right: p.joined(), apply: subtract}
		default:
			return left
		}
	}
}

// joined reads a ~ b ~ c.
func (p *parser) joined() expression {
	first := p.product()
	if !p.peek().is(tokenOperator, "~") {
		return first
	}
	parts := []expression{first}
	for p.takeOperator("~") {
		parts = append(parts, p.product())
	}
	return &joinOf{parts}
}

var factors = map[string]operation{"*": multiply, "/": divide, "//": floorDivide, "%": modulo}

func (p *parser) product() expression {
	left := p.unary()
	for {
		t := p.peek()
		if t.is(tokenOperator, "**") {
			panic(fmt.Errorf("operator %q is not supported", t.text))
		}
		if t.kind != tokenOperator || factors[t.text] == nil {
			return left
		}
		p.next()
		left = &binary{left: left, right: p.unary(), apply: factors[t.text]}
	}
}

// unary reads a sign, which binds closer than a filter, or a primary with what follows it.
func (p *parser) unary() expression {
	return p.filters(p.signed())
}

func (p *parser) signed() expression {
	negative := p.peek().is(tokenOperator, "-")
	if !negative && !p.peek().is(tokenOperator, "+") {
		return p.postfix(p.primary())
	}
	p.deeper()
	defer p.shallower()
	p.next()
	term := p.signed()
	if l, ok := term.(literal); ok && isNumber(l.v) { // -1 is a constant
		return literal{add(0, l.v, negative)}
	}
	return &sign{term, negative}
}

var constants = map[string]value{
	"true": true, "True": true, "false": false, "False": false, "none": none{}, "None": none{},
}

// reserved are the words that are no names of values.
var reserved = map[string]bool{"and": true, "or": true, "not": true, "in": true, "is": true, "if": true, "else": true}

func (p *parser) primary() expression {
	t := p.peek()
	switch t.kind {
	case tokenName:
		if reserved[t.text] {
			break
		}
		p.next()
		if v, ok := constants[t.text]; ok {
			return literal{v}
		}
		return newReference(t.text)
	case tokenString:
		text := ""
		for p.peek().kind == tokenString { // literals side by side are one
			text += p.next().text
		}
		return literal{text}
	case tokenInteger:
		p.next()
		return literal{number(t.text)}
	case tokenFloat:
		p.next()
		x, _ := strconv.ParseFloat(t.text, 64) // out of range gives an infinity, as in Python
		return literal{float(x)}
	case tokenOperator:
		switch t.text {
		case "(":
			return p.parenthesized()
		case "[":
			p.next()
			return &listOf{p.elements("]")}
		case "{":
			return p.dict()
		}
	}
	panic(p.unexpected("an expression is missing"))
}

func (p *parser) parenthesized() expression {
	p.next()
	if p.takeOperator(")") {
		return &tupleOf{}
	}
	e := p.tuple()
	p.expect(tokenOperator, ")")
	return e
}

// elements reads expressions with commas between them up to the closing bracket.
func (p *parser) elements(end string) []expression {
	var parts []expression
	for !p.takeOperator(end) {
		parts = append(parts, p.expression())
		p.comma(end)
	}
	return parts
}

// comma consumes what follows an element: a comma, which may be left out before the closing bracket.
func (p *parser) comma(end string) {
	if !p.takeOperator(",") && !p.peek().is(tokenOperator, end) {
		panic(p.unexpected("a comma or closing bracket is missing"))
	}
}

func (p *parser) dict() expression {
	p.next()
	d := &dictOf{}
	for !p.takeOperator("}") {
		d.keys = append(d.keys, p.expression())
		p.expect(tokenOperator, ":")
		d.values = append(d.values, p.expression())
		p.comma("}")
	}
	return d
}

// postfix reads the lookups and calls behind a value.
func (p *parser) postfix(e expression) expression {
	for {
		switch {
		case p.takeOperator("."):
			e = p.member(e)
		case p.takeOperator("["):
			e = p.subscript(e)
		case p.peek().is(tokenOperator, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

func (p *parser) member(target expression) expression {
	if p.peek().kind == tokenInteger {
		return &itemOf{target, literal{number(p.next().text)}}
	}
	return &attributeOf{target, p.name()}
}

// subscript reads v[key] or v[start:stop:step] behind the bracket.
func (p *parser) subscript(target expression) expression {
	bounds := [3]expression{literal{none{}}, literal{none{}}, literal{none{}}}
	colons := 0
	for !p.peek().is(tokenOperator, "]") {
		if p.takeOperator(":") {
			if colons++; colons > 2 {
				panic(p.unexpected("a slice has at most three parts"))
			}
			continue
		}
		bounds[colons] = p.expression()
		if next := p.peek(); !next.is(tokenOperator, ":") && !next.is(tokenOperator, "]") {
			panic(p.unexpected("a closing bracket is missing"))
		}
	}
	empty := p.tokens[p.pos-1].is(tokenOperator, "[")
	p.next()
	switch {
	case empty:
		panic(fmt.Errorf("an index is missing"))
	case colons == 0:
		return &itemOf{target, bounds[0]}
	}
	return &sliceOf{target, bounds}
}

func (p *parser) call(function expression) expression {
	args := p.arguments()
	if method, ok := function.(*attributeOf); ok {
		return &methodCall{method.target, method.name, args}
	}
	return &call{function, args}
}

// arguments reads the arguments of a call with their brackets.
func (p *parser) arguments() argumentList {
	var a argumentList
	p.next()
	for !p.takeOperator(")") {
		named := p.peek().kind == tokenName && p.tokens[p.pos+1].is(tokenOperator, "=")
		if named {
			a.names = append(a.names, p.next().text)
			p.next()
		} else if len(a.names) > 0 {
			panic(p.unexpected("an argument without a name follows one with a name"))
		}
		a.all = append(a.all, p.expression())
		p.comma(")")
	}
	return a
}

// filters reads what may follow any value: filters, tests and calls.
func (p *parser) filters(e expression) expression {
	for {
		switch {
		case p.takeOperator("|"):
			e = p.filter(e)
		case p.takeWord("is"):
			e = p.test(e)
		case p.peek().is(tokenOperator, "("):
			e = p.call(e)
		default:
			return e
		}
	}
}

// filter reads a filter's name and arguments.
func (p *parser) filter(input expression) expression {
	name := p.name()
	apply, ok := filterByName(name)
	if !ok {
		panic(fmt.Errorf("filter %q is not known", name))
	}
	f := &filtered{input: input, name: name, apply: apply}
	if p.peek().is(tokenOperator, "(") {
		f.args = p.arguments()
	}
	return f
}

// test reads what follows is: a test's name, and its arguments in brackets or one without.
func (p *parser) test(input expression) expression {
	negate := p.takeWord("not")
	name := p.name()
	passes, ok := tests[name]
	if !ok {
		panic(fmt.Errorf("test %q is not known", name))
	}
	t := &tested{input: input, name: name, passes: passes, negate: negate}
	next := p.peek()
	switch {
	case next.is(tokenOperator, "("):
		t.args = p.arguments()
	case next.kind == tokenName && !reserved[next.text], next.kind == tokenString, next.kind == tokenInteger,
		next.kind == tokenFloat, next.is(tokenOperator, "["), next.is(tokenOperator, "{"):
		t.args.all = []expression{p.postfix(p.primary())}
	}
	return t
}
