package interp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// parser reads a module. Names are resolved while it reads, by block.
type parser struct {
	toks   []token
	at     int
	file   *file
	entry  *entry
	scopes []map[string]*symbol
	labels []map[string]int // label to statement, by block
	marks  []mark
}

// mark is a branch whose label is looked up when its blocks are closed.
type mark struct {
	statement int
	label     string
	scopes    []map[string]int
}

// parse reads PTX text.
func parse(text string) (f *file, err error) {
	toks, err := lex(text)
	if err != nil {
		return nil, err
	}
	p := &parser{toks: toks, file: &file{}, scopes: []map[string]*symbol{{}}}
	for p.peek() != "" {
		if err := p.module(); err != nil {
			return nil, err
		}
	}
	if p.file.target == "" {
		return nil, fmt.Errorf("no .target: this is no PTX")
	}
	return p.file, nil
}

func (p *parser) peek() string { return p.toks[p.at].text }

func (p *parser) take() string {
	t := p.toks[p.at].text
	if t != "" {
		p.at++
	}
	return t
}

func (p *parser) accept(text string) bool {
	if p.peek() != text {
		return false
	}
	p.at++
	return true
}

func (p *parser) expect(text string) error {
	if !p.accept(text) {
		return p.errorf("%q where %q belongs", p.peek(), text)
	}
	return nil
}

func (p *parser) errorf(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", p.toks[p.at].line, fmt.Sprintf(format, args...))
}

// skipTo passes everything up to and with a token.
func (p *parser) skipTo(text string) error {
	for !p.accept(text) {
		if p.take() == "" {
			return p.errorf("no %q before the end", text)
		}
	}
	return nil
}

// module reads one directive outside of kernels.
func (p *parser) module() error {
	switch word := p.peek(); word {
	case ".version", ".address_size":
		p.take()
		p.take()
		return nil
	case ".target":
		p.take()
		p.file.target = p.take()
		for p.accept(",") {
			p.take()
		}
		return nil
	case ".file", ".section":
		return p.errorf("debug information (%s) is not read: compile without it", word)
	case ".visible", ".extern", ".weak", ".common":
		p.take()
		return nil
	case ".entry":
		return p.kernel()
	case ".func":
		return p.errorf("functions are not read: a kernel has all of its code inlined")
	}
	return p.variable()
}

// kernel reads an entry with its parameters, limits and body.
func (p *parser) kernel() error {
	p.take()
	p.entry = &entry{name: p.take()}
	p.scopes = append(p.scopes[:1], map[string]*symbol{})
	p.labels, p.marks = nil, nil
	if p.accept("(") {
		for !p.accept(")") {
			if err := p.parameter(); err != nil {
				return err
			}
			p.accept(",")
		}
	}
	for p.peek() != "{" {
		if err := p.limit(); err != nil {
			return err
		}
	}
	if err := p.block(); err != nil {
		return err
	}
	p.file.entries = append(p.file.entries, p.entry)
	p.entry = nil
	return nil
}

// limit reads a performance directive of an entry.
func (p *parser) limit() error {
	word := p.take()
	var n [3]int
	for i := range n {
		n[i] = 1
	}
	for i := range 3 {
		v, err := strconv.Atoi(p.peek())
		if err != nil {
			break
		}
		n[i] = v
		p.take()
		if !p.accept(",") {
			break
		}
	}
	switch word {
	case ".maxntid":
		p.entry.threadsMax = n[0] * n[1] * n[2]
	case ".reqntid":
		p.entry.exact = n
	case ".minnctapersm", ".maxnreg", ".noreturn":
	case ".pragma":
		return p.skipTo(";")
	default:
		return p.errorf("directive %q of a kernel is not known", word)
	}
	return nil
}

// parameter reads one parameter and places it in the parameter block.
func (p *parser) parameter() error {
	if err := p.expect(".param"); err != nil {
		return err
	}
	s, err := p.declarator(param)
	if err != nil {
		return err
	}
	p.entry.paramBytes = (p.entry.paramBytes + s.align - 1) / s.align * s.align
	s.at = uint64(p.entry.paramBytes)
	p.entry.paramBytes += s.size
	p.entry.params = append(p.entry.params, s)
	p.scopes[1][s.name] = s
	return nil
}

// declarator reads ".align 16 .b8 name[64]" with what may stand around it.
func (p *parser) declarator(sp space) (*symbol, error) {
	s := &symbol{space: sp}
	count := 1
	for strings.HasPrefix(p.peek(), ".") {
		word := p.take()
		switch {
		case word == ".align":
			n, err := strconv.Atoi(p.take())
			if err != nil || n < 1 || n > 1<<16 || n&(n-1) != 0 {
				return nil, p.errorf("an alignment is a power of two")
			}
			s.align = n
		case word == ".ptr", word == ".global", word == ".const", word == ".shared":
		case word == ".v2":
			count = 2
		case word == ".v4":
			count = 4
		default:
			k, ok := kinds[word[1:]]
			if !ok || k.class == 'p' && sp != generic {
				return nil, p.errorf("type %q is not known", word)
			}
			s.kind = k
		}
	}
	if s.kind.bits == 0 {
		return nil, p.errorf("a variable without a type")
	}
	s.name = p.take()
	for p.accept("[") {
		if p.accept("]") {
			count = 0 // dynamic shared memory
			continue
		}
		n, err := strconv.Atoi(p.take())
		if err != nil || n < 0 || n > 1<<28 || count > 1<<28 {
			return nil, p.errorf("size of %s", s.name)
		}
		count *= n
		if err := p.expect("]"); err != nil {
			return nil, err
		}
	}
	s.size = count * (s.kind.bits / 8)
	s.align = max(s.align, s.kind.bits/8)
	return s, nil
}

// variable reads memory of the module or of a kernel.
func (p *parser) variable() error {
	word := p.take()
	spaces := map[string]space{".global": global, ".const": constant, ".shared": shared, ".local": local}
	sp, ok := spaces[word]
	if !ok || sp == local && p.entry == nil {
		return p.errorf("directive %q is not known", word)
	}
	s, err := p.declarator(sp)
	if err != nil {
		return err
	}
	if p.accept("=") {
		if s.init, err = p.initial(s); err != nil {
			return err
		}
	}
	p.scopes[len(p.scopes)-1][s.name] = s
	switch {
	case p.entry == nil:
		p.file.symbols = append(p.file.symbols, s)
	case sp == local:
		p.entry.localBytes = (p.entry.localBytes + s.align - 1) / s.align * s.align
		s.at = uint64(p.entry.localBytes)
		p.entry.localBytes += s.size
	case sp == shared:
		p.entry.shared = append(p.entry.shared, s)
	default:
		p.file.symbols = append(p.file.symbols, s)
	}
	return p.expect(";")
}

// initial reads the first value of a variable.
func (p *parser) initial(s *symbol) ([]byte, error) {
	list := p.accept("{")
	var out []byte
	for {
		o, err := p.number()
		if err != nil {
			return nil, err
		}
		if o.float == 'f' && s.kind.bits == 64 || o.float == 'd' && s.kind.bits == 32 {
			return nil, p.errorf("width of a value of %s", s.name)
		}
		for i := range s.kind.bits / 8 {
			out = append(out, byte(o.imm>>(8*i)))
		}
		if !list {
			break
		}
		if p.accept("}") {
			break
		}
		if err := p.expect(","); err != nil {
			return nil, err
		}
	}
	if len(out) > s.size {
		return nil, p.errorf("%s has more values than room", s.name)
	}
	return out, nil
}

// number reads an immediate.
func (p *parser) number() (operand, error) {
	o := operand{form: immOperand}
	negative := p.accept("-")
	text := p.take()
	var err error
	switch {
	case strings.HasPrefix(text, "0f") || strings.HasPrefix(text, "0F"):
		o.float = 'f'
		o.imm, err = strconv.ParseUint(text[2:], 16, 32)
		if negative {
			o.imm ^= 1 << 31
		}
	case strings.HasPrefix(text, "0d") || strings.HasPrefix(text, "0D"):
		o.float = 'd'
		o.imm, err = strconv.ParseUint(text[2:], 16, 64)
		if negative {
			o.imm ^= 1 << 63
		}
	case strings.Contains(text, ".") || strings.ContainsAny(text, "eE") && !strings.HasPrefix(text, "0x"):
		var v float64
		v, err = strconv.ParseFloat(text, 64)
		if negative {
			v = -v
		}
		o.float, o.imm = 'd', math.Float64bits(v)
	default:
		o.imm, err = strconv.ParseUint(strings.TrimSuffix(text, "U"), 0, 64)
		if negative {
			o.imm = -o.imm
		}
	}
	if err != nil {
		return o, p.errorf("%q is no number", text)
	}
	return o, nil
}
