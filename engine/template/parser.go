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

func (p *parser) expect(kind tokenKind, text string) error {
	if !p.take(kind, text) {
		return p.unexpected(fmt.Sprintf("%q is missing", text))
	}
	return nil
}

// name consumes a name.
func (p *parser) name() (string, error) {
	if p.peek().kind != tokenName {
		return "", p.unexpected("a name is missing")
	}
	return p.next().text, nil
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
func (p *parser) deeper() error {
	if p.depth++; p.depth > nestingMax {
		return fmt.Errorf("nested deeper than %d", nestingMax)
	}
	return nil
}

func (p *parser) shallower() { p.depth-- }

// tuple reads one expression, or several with commas between them, which are a tuple.
func (p *parser) tuple() (expression, error) {
	first, err := p.expression()
	if err != nil || !p.peek().is(tokenOperator, ",") {
		return first, err
	}
	parts := []expression{first}
	for p.takeOperator(",") && !p.tupleEnds() {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
	return &tupleOf{parts}, nil
}

func (p *parser) tupleEnds() bool { return p.atTagEnd() || p.peek().is(tokenOperator, ")") }

// expression reads an expression, conditional ones among them.
func (p *parser) expression() (expression, error) {
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	e, err := p.or()
	if err != nil || !p.takeWord("if") {
		return e, err
	}
	condition, err := p.or()
	if err != nil {
		return nil, err
	}
	c := &conditional{yes: e, condition: condition, no: literal{undefined{}}}
	if p.takeWord("else") {
		c.no, err = p.expression()
	}
	return c, err
}

func (p *parser) or() (expression, error) { return p.logic("or", p.and) }

func (p *parser) and() (expression, error) { return p.logic("and", p.not) }

func (p *parser) logic(word string, operand func() (expression, error)) (expression, error) {
	left, err := operand()
	for err == nil && p.takeWord(word) {
		l := &logic{left: left, and: word == "and"}
		l.right, err = operand()
		left = l
	}
	return left, err
}

func (p *parser) not() (expression, error) {
	if !p.takeWord("not") {
		return p.comparison()
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	term, err := p.not()
	return &not{term}, err
}

// comparison reads a < b, which may go on: a < b < c.
func (p *parser) comparison() (expression, error) {
	left, err := p.sum()
	if err != nil {
		return nil, err
	}
	var steps []comparisonStep
	for {
		holds, ok := p.comparisonOperator()
		if !ok {
			break
		}
		right, err := p.sum()
		if err != nil {
			return nil, err
		}
		steps = append(steps, comparisonStep{holds, right})
	}
	if steps == nil {
		return left, nil
	}
	return &comparison{left, steps}, nil
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
func (p *parser) sum() (expression, error) {
	left, err := p.joined()
	for err == nil {
		switch {
		case p.takeOperator("+"):
			parts := []expression{left}
			for more := true; more && err == nil; more = p.takeOperator("+") {
				var e expression
				e, err = p.joined()
				parts = append(parts, e)
			}
			left = &sumOf{parts}
		case p.takeOperator("-"):
			b := &binary{left: left, apply: subtract}
			b.right, err = p.joined()
			left = b
		default:
			return left, nil
		}
	}
	return nil, err
}

// joined reads a ~ b ~ c.
func (p *parser) joined() (expression, error) {
	first, err := p.product()
	if err != nil || !p.peek().is(tokenOperator, "~") {
		return first, err
	}
	parts := []expression{first}
	for p.takeOperator("~") {
		e, err := p.product()
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
	}
	return &joinOf{parts}, nil
}

var factors = map[string]operation{"*": multiply, "/": divide, "//": floorDivide, "%": modulo}

func (p *parser) product() (expression, error) {
	left, err := p.unary()
	for err == nil {
		t := p.peek()
		if t.is(tokenOperator, "**") {
			return nil, fmt.Errorf("operator %q is not supported", t.text)
		}
		if t.kind != tokenOperator || factors[t.text] == nil {
			return left, nil
		}
		p.next()
		b := &binary{left: left, apply: factors[t.text]}
		b.right, err = p.unary()
		left = b
	}
	return nil, err
}

// unary reads a sign, which binds closer than a filter, or a primary with what follows it.
func (p *parser) unary() (expression, error) {
	e, err := p.signed()
	if err != nil {
		return nil, err
	}
	return p.filters(e)
}

func (p *parser) signed() (expression, error) {
	negative := p.peek().is(tokenOperator, "-")
	if !negative && !p.peek().is(tokenOperator, "+") {
		e, err := p.primary()
		if err != nil {
			return nil, err
		}
		return p.postfix(e)
	}
	if err := p.deeper(); err != nil {
		return nil, err
	}
	defer p.shallower()
	p.next()
	term, err := p.signed()
	if err != nil {
		return nil, err
	}
	if l, ok := term.(literal); ok && isNumber(l.v) { // -1 is a constant
		return literal{add(0, l.v, negative)}, nil
	}
	return &sign{term, negative}, nil
}

var constants = map[string]value{
	"true": true, "True": true, "false": false, "False": false, "none": none{}, "None": none{},
}

// reserved are the words that are no names of values.
var reserved = map[string]bool{"and": true, "or": true, "not": true, "in": true, "is": true, "if": true, "else": true}

func (p *parser) primary() (expression, error) {
	t := p.peek()
	switch t.kind {
	case tokenName:
		if reserved[t.text] {
			break
		}
		p.next()
		if v, ok := constants[t.text]; ok {
			return literal{v}, nil
		}
		return newReference(t.text), nil
	case tokenString:
		text := ""
		for p.peek().kind == tokenString { // literals side by side are one
			text += p.next().text
		}
		return literal{text}, nil
	case tokenInteger:
		p.next()
		return literal{number(t.text)}, nil
	case tokenFloat:
		p.next()
		x, _ := strconv.ParseFloat(t.text, 64) // out of range gives an infinity, as in Python
		return literal{float(x)}, nil
	case tokenOperator:
		switch t.text {
		case "(":
			return p.parenthesized()
		case "[":
			p.next()
			parts, err := p.elements("]")
			return &listOf{parts}, err
		case "{":
			return p.dict()
		}
	}
	return nil, p.unexpected("an expression is missing")
}

func (p *parser) parenthesized() (expression, error) {
	p.next()
	if p.takeOperator(")") {
		return &tupleOf{}, nil
	}
	e, err := p.tuple()
	if err != nil {
		return nil, err
	}
	return e, p.expect(tokenOperator, ")")
}

// elements reads expressions with commas between them up to the closing bracket.
func (p *parser) elements(end string) ([]expression, error) {
	var parts []expression
	for !p.takeOperator(end) {
		e, err := p.expression()
		if err != nil {
			return nil, err
		}
		parts = append(parts, e)
		if !p.takeOperator(",") && !p.peek().is(tokenOperator, end) {
			return nil, p.unexpected("a comma or closing bracket is missing")
		}
	}
	return parts, nil
}

func (p *parser) dict() (expression, error) {
	p.next()
	d := &dictOf{}
	for !p.takeOperator("}") {
		key, err := p.expression()
		if err != nil {
			return nil, err
		}
		if err := p.expect(tokenOperator, ":"); err != nil {
			return nil, err
		}
		val, err := p.expression()
		if err != nil {
			return nil, err
		}
		d.keys, d.values = append(d.keys, key), append(d.values, val)
		if !p.takeOperator(",") && !p.peek().is(tokenOperator, "}") {
			return nil, p.unexpected("a comma or closing bracket is missing")
		}
	}
	return d, nil
}

// postfix reads the lookups and calls behind a value.
func (p *parser) postfix(e expression) (expression, error) {
	var err error
	for err == nil {
		switch {
		case p.takeOperator("."):
			e, err = p.member(e)
		case p.takeOperator("["):
			e, err = p.subscript(e)
		case p.peek().is(tokenOperator, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

func (p *parser) member(target expression) (expression, error) {
	if p.peek().kind == tokenInteger {
		return &itemOf{target, literal{number(p.next().text)}}, nil
	}
	name, err := p.name()
	return &attributeOf{target, name}, err
}

// subscript reads v[key] or v[start:stop:step] behind the bracket.
func (p *parser) subscript(target expression) (expression, error) {
	bounds := [3]expression{literal{none{}}, literal{none{}}, literal{none{}}}
	colons := 0
	for !p.peek().is(tokenOperator, "]") {
		if p.takeOperator(":") {
			if colons++; colons > 2 {
				return nil, p.unexpected("a slice has at most three parts")
			}
			continue
		}
		var err error
		if bounds[colons], err = p.expression(); err != nil {
			return nil, err
		}
		if next := p.peek(); !next.is(tokenOperator, ":") && !next.is(tokenOperator, "]") {
			return nil, p.unexpected("a closing bracket is missing")
		}
	}
	empty := p.tokens[p.pos-1].is(tokenOperator, "[")
	p.next()
	switch {
	case empty:
		return nil, fmt.Errorf("an index is missing")
	case colons == 0:
		return &itemOf{target, bounds[0]}, nil
	}
	return &sliceOf{target, bounds}, nil
}

func (p *parser) call(function expression) (expression, error) {
	args, err := p.arguments()
	if err != nil {
		return nil, err
	}
	if method, ok := function.(*attributeOf); ok {
		return &methodCall{method.target, method.name, args}, nil
	}
	return &call{function, args}, nil
}

// arguments reads the arguments of a call with their brackets.
func (p *parser) arguments() (argumentList, error) {
	var a argumentList
	p.next()
	for !p.takeOperator(")") {
		named := p.peek().kind == tokenName && p.tokens[p.pos+1].is(tokenOperator, "=")
		if named {
			a.names = append(a.names, p.next().text)
			p.next()
		} else if len(a.names) > 0 {
			return a, p.unexpected("an argument without a name follows one with a name")
		}
		e, err := p.expression()
		if err != nil {
			return a, err
		}
		a.all = append(a.all, e)
		if !p.takeOperator(",") && !p.peek().is(tokenOperator, ")") {
			return a, p.unexpected("a comma or closing bracket is missing")
		}
	}
	return a, nil
}

// filters reads what may follow any value: filters, tests and calls.
func (p *parser) filters(e expression) (expression, error) {
	var err error
	for err == nil {
		switch {
		case p.takeOperator("|"):
			e, err = p.filter(e)
		case p.takeWord("is"):
			e, err = p.test(e)
		case p.peek().is(tokenOperator, "("):
			e, err = p.call(e)
		default:
			return e, nil
		}
	}
	return nil, err
}

// filter reads a filter's name and arguments.
func (p *parser) filter(input expression) (expression, error) {
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	apply, ok := filterByName(name)
	if !ok {
		return nil, fmt.Errorf("filter %q is not known", name)
	}
	f := &filtered{input: input, name: name, apply: apply}
	if p.peek().is(tokenOperator, "(") {
		f.args, err = p.arguments()
	}
	return f, err
}

// test reads what follows is: a test's name, and its arguments in brackets or one without.
func (p *parser) test(input expression) (expression, error) {
	negate := p.takeWord("not")
	name, err := p.name()
	if err != nil {
		return nil, err
	}
	holds, ok := tests[name]
	if !ok {
		return nil, fmt.Errorf("test %q is not known", name)
	}
	t := &tested{input: input, name: name, holds: holds, negate: negate}
	next := p.peek()
	switch {
	case next.is(tokenOperator, "("):
		t.args, err = p.arguments()
	case next.kind == tokenName && !reserved[next.text], next.kind == tokenString, next.kind == tokenInteger,
		next.kind == tokenFloat, next.is(tokenOperator, "["), next.is(tokenOperator, "{"):
		var e expression
		if e, err = p.primary(); err == nil {
			e, err = p.postfix(e)
		}
		t.args.all = []expression{e}
	}
	return t, err
}
