package template

import (
	"errors"
	"fmt"
	"strings"

	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// frame is where a statement runs: a scope and where its text goes.
type frame struct {
	run   *run
	scope *scope
	out   *[]byte
}

// statement is a bound statement of the template.
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

// bound is a statement inside gonja's syntax tree.
type bound struct {
	name string
	at   *tokens.Token
	do   statement
}

// Position and String make it a node of gonja's tree.
func (s *bound) Position() *tokens.Token { return s.at }

// String returns the statement's name.
func (s *bound) String() string { return s.name }

// block binds the content of a block.
func (b binder) block(content []nodes.Node) ([]statement, error) {
	var out []statement
	for _, node := range content {
		s, err := b.statement(node)
		if err != nil {
			return nil, err
		}
		if s != nil {
			out = append(out, s)
		}
	}
	return out, nil
}

// statement binds one node; comments and empty text are nil.
func (b binder) statement(node nodes.Node) (statement, error) {
	switch n := node.(type) {
	case nil, *nodes.Comment:
		return nil, nil
	case *nodes.Data:
		return text(n), nil
	case *nodes.Output:
		if n.Condition != nil {
			return nil, fmt.Errorf("line %d: a condition is out of place", n.Start.Line)
		}
		s, err := b.output(n.Expression)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n.Start.Line, err)
		}
		return s, nil
	case *nodes.ControlStructureBlock:
		if s, ok := n.ControlStructure.(*bound); ok {
			return s.do, nil
		}
	}
	return nil, fmt.Errorf("%T is not supported", node)
}

// text binds text between tags, with the whitespace that the tags beside it take.
func text(n *nodes.Data) statement {
	const space = " \r\n\t"
	s := n.Data.Val
	if n.Trim.Left {
		s = strings.TrimLeft(s, space)
	}
	if n.Trim.Right {
		s = strings.TrimRight(s, space)
	}
	if s == "" {
		return nil
	}
	return func(f *frame) error { return f.write(s) }
}

// output binds {{ expression }}. The strings of a sum go straight to the
// output; nothing is joined first.
func (b binder) output(node nodes.Expression) (statement, error) {
	if s, ok := node.(*nodes.String); ok {
		return func(f *frame) error { return f.write(s.Val) }, nil
	}
	if sumNode, ok := node.(*nodes.BinaryExpression); ok && sumNode.Operator.Token.Type == tokens.Addition {
		return b.outputSum(sumNode)
	}
	if n, ok := node.(*nodes.GetItem); ok {
		if yes, condition, no, ok := conditionalParts(n); ok {
			return b.outputConditional(yes, condition, no)
		}
	}
	value, err := b.bind(node)
	if err != nil {
		return nil, err
	}
	return func(f *frame) error {
		v, err := value(f)
		if err != nil {
			return err
		}
		return f.writeValue(v)
	}, nil
}

// outputConditional binds {{ yes if condition else no }}.
func (b binder) outputConditional(yes, condition, no nodes.Expression) (statement, error) {
	test, err := b.bind(condition)
	if err != nil {
		return nil, err
	}
	write, err := b.output(yes)
	if err != nil {
		return nil, err
	}
	otherwise, err := b.output(no)
	if err != nil {
		return nil, err
	}
	return func(f *frame) error {
		v, err := test(f)
		if err != nil {
			return err
		}
		if isTrue(v) {
			return write(f)
		}
		return otherwise(f)
	}, nil
}

func (f *frame) writeValue(v *exec.Value) error {
	if s, ok := v.Interface().(string); ok {
		return f.write(s)
	}
	return f.write(v.String())
}

func (b binder) outputSum(n *nodes.BinaryExpression) (statement, error) {
	parts, err := b.chain(n, tokens.Addition)
	if err != nil {
		return nil, err
	}
	return func(f *frame) error {
		var few [8]*exec.Value
		values := few[:0]
		allStrings := true
		for _, p := range parts {
			v, err := p(f)
			if err != nil {
				return err
			}
			allStrings = allStrings && isString(v)
			values = append(values, v)
		}
		if !allStrings {
			total, err := sum(values)
			if err != nil {
				return err
			}
			return f.writeValue(total)
		}
		for _, v := range values {
			if err := f.writeValue(v); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// structures are the statements a chat template may use. What reaches other
// templates (include, import, extends, block) is left out.
func (b binder) structures() *exec.ControlStructureSet {
	return exec.NewControlStructureSet(map[string]parser.ControlStructureParser{
		"if":         b.parseIf,
		"for":        b.parseFor,
		"set":        b.parseSet,
		"macro":      b.parseMacro,
		"with":       b.parseWith,
		"filter":     b.parseFilter,
		"raw":        b.parsePlain("raw"),
		"generation": b.parsePlain("generation"), // marks the assistant's text for training; no effect here
		"break":      parseJump("break", errBreak),
		"continue":   parseJump("continue", errContinue),
	})
}

func parseJump(name string, jump error) parser.ControlStructureParser {
	return func(_, args *parser.Parser) (nodes.ControlStructure, error) {
		if !args.End() {
			return nil, args.Error(name+" takes no arguments", args.Current())
		}
		return &bound{name: name, do: func(*frame) error { return jump }}, nil
	}
}

// wrapped binds the content up to one of the end tags.
func (b binder) wrapped(p *parser.Parser, ends ...string) ([]statement, *nodes.Wrapper, *parser.Parser, error) {
	wrapper, args, err := p.WrapUntil(ends...)
	if err != nil {
		return nil, nil, nil, err
	}
	body, err := b.block(wrapper.Nodes)
	return body, wrapper, args, err
}

func (b binder) parsePlain(name string) parser.ControlStructureParser {
	return func(p, args *parser.Parser) (nodes.ControlStructure, error) {
		at := p.Current()
		body, _, _, err := b.wrapped(p, "end"+name)
		if err != nil {
			return nil, err
		}
		return &bound{name: name, at: at, do: func(f *frame) error { return f.execute(body) }}, nil
	}
}

// expression parses and binds what an argument list starts with.
func (b binder) expression(args *parser.Parser) (expression, error) {
	if args.End() {
		return nil, args.Error("an expression is missing", nil)
	}
	node, err := args.ParseExpression()
	if err != nil {
		return nil, err
	}
	return b.bind(node)
}

func (b binder) lastExpression(args *parser.Parser) (expression, error) {
	e, err := b.expression(args)
	if err == nil && !args.End() {
		err = args.Error("unexpected after the expression", args.Current())
	}
	return e, err
}

type branch struct {
	condition expression // nil in an else
	body      []statement
}

func (b binder) parseIf(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	condition, err := b.lastExpression(args)
	if err != nil {
		return nil, err
	}
	var branches []branch
	for {
		body, wrapper, endArgs, err := b.wrapped(p, "elif", "else", "endif")
		if err != nil {
			return nil, err
		}
		branches = append(branches, branch{condition, body})
		condition = nil
		switch wrapper.EndTag {
		case "endif":
			return &bound{name: "if", at: at, do: executeIf(branches)}, nil
		case "elif":
			if condition, err = b.lastExpression(endArgs); err != nil {
				return nil, err
			}
		}
	}
}

// executeIf opens no scope: a set inside is seen after it, as in Jinja.
func executeIf(branches []branch) statement {
	return func(f *frame) error {
		for i := range branches {
			if branches[i].condition == nil {
				return f.execute(branches[i].body)
			}
			v, err := branches[i].condition(f)
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

func (b binder) parseSet(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	target, err := args.ParseVariableOrLiteral()
	if err != nil {
		return nil, err
	}
	assign, err := b.target(target)
	if err != nil {
		return nil, err
	}
	if args.Match(tokens.Assign) != nil {
		value, err := b.lastExpression(args)
		if err != nil {
			return nil, err
		}
		return &bound{name: "set", at: at, do: func(f *frame) error {
			v, err := value(f)
			if err != nil {
				return err
			}
			return assign(f, v)
		}}, nil
	}
	if !args.End() { // Jinja has filters there
		return nil, args.Error("unexpected after the name", args.Current())
	}
	body, _, _, err := b.wrapped(p, "endset")
	if err != nil {
		return nil, err
	}
	return &bound{name: "set", at: at, do: func(f *frame) error {
		v, err := f.capture(body)
		if err != nil {
			return err
		}
		return assign(f, v)
	}}, nil
}

// capture renders a block into a string.
func (f *frame) capture(body []statement) (*exec.Value, error) {
	var text []byte
	inner := *f
	inner.out = &text
	if err := inner.execute(body); err != nil {
		return nil, err
	}
	return exec.AsValue(string(text)), nil
}

// target binds what a set assigns to: a name, or a member of a namespace.
func (b binder) target(node nodes.Expression) (func(f *frame, v *exec.Value) error, error) {
	switch n := node.(type) {
	case *nodes.Name:
		return func(f *frame, v *exec.Value) error {
			f.scope.set(n.Name.Val, v)
			return nil
		}, nil
	case *nodes.GetAttribute:
		holder, err := b.bind(n.Node)
		if err != nil {
			return nil, err
		}
		return func(f *frame, v *exec.Value) error {
			h, err := holder(f)
			if err != nil {
				return err
			}
			ns, ok := h.Interface().(*namespace)
			if !ok {
				return fmt.Errorf("set .%s: only a namespace can be changed", n.Attribute)
			}
			ns.members = ns.members.set(n.Attribute, v)
			return nil
		}, nil
	}
	return nil, fmt.Errorf("set: %s cannot be assigned to", node)
}

func (b binder) parseMacro(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	name := args.Match(tokens.Name)
	if name == nil || args.Match(tokens.LeftParenthesis) == nil {
		return nil, args.Error("a macro needs a name and parameters", args.Current())
	}
	params, err := b.params(args)
	if err != nil {
		return nil, err
	}
	body, _, _, err := b.wrapped(p, "endmacro")
	if err != nil {
		return nil, err
	}
	return &bound{name: "macro", at: at, do: func(f *frame) error {
		f.scope.keep()
		m := &macro{name: name.Val, params: params, body: body, scope: f.scope}
		f.scope.set(name.Val, exec.AsValue(callable(m.call)))
		return nil
	}}, nil
}

func (b binder) params(args *parser.Parser) ([]param, error) {
	var params []param
	for args.Match(tokens.RightParenthesis) == nil {
		name := args.Match(tokens.Name)
		if name == nil {
			return nil, args.Error("a parameter name is missing", args.Current())
		}
		p := param{name: name.Val, fallback: constant(valueUndefined)}
		if args.Match(tokens.Assign) != nil {
			var err error
			if p.fallback, err = b.expression(args); err != nil {
				return nil, err
			}
		}
		params = append(params, p)
		if args.Match(tokens.Comma) == nil && args.Current(tokens.RightParenthesis) == nil {
			return nil, args.Error("a comma or closing bracket is missing", args.Current())
		}
	}
	return params, nil
}

func (b binder) parseWith(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	var names []string
	var values []expression
	for !args.End() {
		name := args.Match(tokens.Name)
		if name == nil || args.Match(tokens.Assign) == nil {
			return nil, args.Error("with takes name=value", args.Current())
		}
		value, err := b.expression(args)
		if err != nil {
			return nil, err
		}
		names, values = append(names, name.Val), append(values, value)
		if args.Match(tokens.Comma) == nil {
			break
		}
	}
	body, _, _, err := b.wrapped(p, "endwith")
	if err != nil {
		return nil, err
	}
	return &bound{name: "with", at: at, do: func(f *frame) error {
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
	}}, nil
}

func (b binder) parseFilter(p, args *parser.Parser) (nodes.ControlStructure, error) {
	at := p.Current()
	call, err := args.ParseFilter()
	if err != nil {
		return nil, err
	}
	body, _, _, err := b.wrapped(p, "endfilter")
	if err != nil {
		return nil, err
	}
	value, err := b.bindFilter(func(f *frame) (*exec.Value, error) { return f.capture(body) }, call)
	if err != nil {
		return nil, err
	}
	return &bound{name: "filter", at: at, do: func(f *frame) error {
		v, err := value(f)
		if err != nil {
			return err
		}
		return f.writeValue(v)
	}}, nil
}
