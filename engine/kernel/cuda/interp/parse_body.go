package interp

import (
	"strconv"
	"strings"
)

// registersMax bounds the registers of a kernel before the assembler assigns real ones.
const registersMax = 1 << 16

// block reads "{ ... }" of a kernel: names and labels of it end with it.
func (p *parser) block() error {
	if err := p.expect("{"); err != nil {
		return err
	}
	if len(p.scopes) > 32 {
		return p.errorf("blocks are nested too deep")
	}
	labels := map[string]int{}
	p.scopes = append(p.scopes, map[string]*symbol{})
	p.labels = append(p.labels, labels)
	for !p.accept("}") {
		if err := p.inBlock(); err != nil {
			return err
		}
	}
	p.scopes = p.scopes[:len(p.scopes)-1]
	p.labels = p.labels[:len(p.labels)-1]
	if len(p.labels) == 0 {
		return p.resolve()
	}
	return nil
}

// resolve finds the target of each branch: the label of the innermost block around it.
func (p *parser) resolve() error {
	for _, m := range p.marks {
		s := &p.entry.body[m.statement]
		s.target = -1
		for i := len(m.scopes) - 1; i >= 0 && s.target < 0; i-- {
			if at, ok := m.scopes[i][m.label]; ok {
				s.target = at
			}
		}
		if s.target < 0 {
			return p.errorf("label %s of line %d is nowhere", m.label, s.line)
		}
	}
	return nil
}

// inBlock reads a declaration, a label, a block or an instruction.
func (p *parser) inBlock() error {
	word := p.peek()
	switch {
	case word == "":
		return p.errorf("a kernel has no end")
	case word == "{":
		return p.block()
	case word == ";":
		p.take()
		return nil
	case word == ".reg":
		return p.registers()
	case word == ".pragma":
		return p.skipTo(";")
	case word == ".loc", word == ".file":
		return p.errorf("debug information (%s) is not read: compile without it", word)
	case strings.HasPrefix(word, "."):
		return p.variable()
	case p.toks[p.at+1].text == ":":
		if _, twice := p.labels[len(p.labels)-1][word]; twice {
			return p.errorf("label %s stands twice", word)
		}
		p.labels[len(p.labels)-1][word] = len(p.entry.body)
		p.at += 2
		return nil
	}
	return p.instruction()
}

// registers reads ".reg .b32 %r<10>;" or a list of names.
func (p *parser) registers() error {
	p.take()
	for {
		s, err := p.registerKind()
		if err != nil {
			return err
		}
		for {
			name := p.take()
			if p.accept("<") {
				n, err := strconv.Atoi(p.take())
				if err != nil || n < 0 || n > registersMax-p.entry.regs-p.entry.preds {
					return p.errorf("number of registers %s", name)
				}
				for i := range n {
					p.declare(name+strconv.Itoa(i), s)
				}
				if err := p.expect(">"); err != nil {
					return err
				}
			} else {
				p.declare(name, s)
			}
			if !p.accept(",") {
				return p.expect(";")
			}
		}
	}
}

func (p *parser) registerKind() (kind, error) {
	word := p.take()
	k, ok := kinds[strings.TrimPrefix(word, ".")]
	if !ok {
		return k, p.errorf("registers of type %q are not known", word)
	}
	return k, nil
}

func (p *parser) declare(name string, k kind) {
	s := &symbol{name: name, kind: k, reg: true}
	if k.class == 'p' {
		s.slot = p.entry.preds
		p.entry.preds++
	} else {
		s.slot = p.entry.regs
		p.entry.regs++
	}
	p.scopes[len(p.scopes)-1][name] = s
}

func (p *parser) find(name string) *symbol {
	for i := len(p.scopes) - 1; i >= 0; i-- {
		if s := p.scopes[i][name]; s != nil {
			return s
		}
	}
	return nil
}

// instruction reads one instruction up to its semicolon.
func (p *parser) instruction() error {
	s := statement{line: p.toks[p.at].line, target: -1}
	if p.accept("@") {
		s.guardNot = p.accept("!")
		name := p.take()
		if s.guard = p.find(name); s.guard == nil || s.guard.kind.class != 'p' {
			return p.errorf("%s is no predicate", name)
		}
	}
	s.text = p.take()
	parts := strings.Split(s.text, ".")
	s.op, s.mods = parts[0], parts[1:]
	for !p.accept(";") {
		o, err := p.operand(s.op)
		if err != nil {
			return err
		}
		s.args = append(s.args, o)
		if p.peek() != ";" {
			if err := p.expect(","); err != nil {
				return err
			}
		}
	}
	if s.op == "bra" && len(s.args) == 1 && s.args[0].form == nameOperand {
		p.marks = append(p.marks, mark{len(p.entry.body), s.args[0].label, append([]map[string]int(nil), p.labels...)})
	}
	p.entry.body = append(p.entry.body, s)
	return nil
}

// operand reads one argument.
func (p *parser) operand(op string) (operand, error) {
	switch word := p.peek(); {
	case word == "[":
		return p.address()
	case word == "{":
		return p.vector()
	case word == "!":
		p.take()
		o, err := p.named(op)
		o.not = true
		return o, err
	case word == "-" || word != "" && word[0] >= '0' && word[0] <= '9':
		return p.number()
	case word == "_":
		p.take()
		o := operand{form: noneOperand}
		return o, p.second(&o, op)
	default:
		o, err := p.named(op)
		if err != nil {
			return o, err
		}
		return o, p.second(&o, op)
	}
}

// second reads "|p" after a destination.
func (p *parser) second(o *operand, op string) error {
	if !p.accept("|") {
		return nil
	}
	pair, err := p.named(op)
	o.pair = &pair
	return err
}

// named reads a register, a special register, a variable or a label.
func (p *parser) named(op string) (operand, error) {
	name := p.take()
	if s := p.find(name); s != nil {
		if s.reg {
			return operand{form: regOperand, sym: s}, nil
		}
		o := operand{form: addrOperand, sym: s}
		return o, p.offset(&o)
	}
	if _, ok := specials[name]; ok {
		return operand{form: regOperand, special: name}, nil
	}
	if op == "bra" || op == "call" {
		return operand{form: nameOperand, label: name}, nil
	}
	return operand{}, p.errorf("%q is declared nowhere", name)
}

// offset reads "+8" or "-8" after a base.
func (p *parser) offset(o *operand) error {
	if p.accept("+") || p.peek() == "-" {
		n, err := p.number()
		if err != nil {
			return err
		}
		if n.float != 0 {
			return p.errorf("an offset is an integer")
		}
		o.imm = n.imm
	}
	return nil
}

// address reads "[base+offset]" or "[map, {x, y}]".
func (p *parser) address() (operand, error) {
	p.take()
	o := operand{form: memOperand}
	if word := p.peek(); word != "" && word[0] >= '0' && word[0] <= '9' {
		n, err := p.number()
		if err != nil {
			return o, err
		}
		o.imm = n.imm
	} else {
		base, err := p.named("")
		if err != nil {
			return o, err
		}
		if base.special != "" {
			return o, p.errorf("%s is no address", base.special)
		}
		o.sym, o.imm = base.sym, base.imm
		if err := p.offset(&o); err != nil {
			return o, err
		}
	}
	if p.accept(",") {
		list, err := p.vector()
		if err != nil {
			return o, err
		}
		o.list = list.list
	}
	return o, p.expect("]")
}

// vector reads "{a, b}".
func (p *parser) vector() (operand, error) {
	o := operand{form: listOperand}
	if err := p.expect("{"); err != nil {
		return o, err
	}
	for !p.accept("}") {
		if p.peek() == "{" || p.peek() == "[" {
			return o, p.errorf("vectors are not nested")
		}
		item, err := p.operand("")
		if err != nil {
			return o, err
		}
		o.list = append(o.list, item)
		if p.peek() != "}" {
			if err := p.expect(","); err != nil {
				return o, err
			}
		}
	}
	return o, nil
}
