package interp

import (
	"fmt"
	"maps"
	"math"
	"sync"
)

// kernel is a decoded entry. It does not change after load, but for the memory that it keeps.
type kernel struct {
	name        string
	code        []instr
	writes      [][]int // the registers that an instruction may write
	regs        int     // with constants and special registers
	preds       int
	constants   []constantSlot
	specials    []specialSlot
	paramBytes  int
	sharedBytes int // static
	dynamic     bool
	localBytes  int
	threadsMax  int
	exact       [3]int
	ordered     bool // its blocks meet in global memory: they run one after another
	constMemory []byte
	blocks      sync.Pool // *cta of earlier launches
}

// constantSlot is a register that has one value in all lanes from the beginning.
type constantSlot struct {
	slot  int
	value uint64
}

type specialSlot struct {
	slot  int
	which special
}

// decoder turns statements into closures. The first problem is kept in err.
type decoder struct {
	k         *kernel
	e         *entry
	constants map[uint64]int
	special   map[special]int
	s         *statement
	in        *instr
	writes    []int // registers that the statement may write
	err       error
}

// decode builds a kernel. Shared variables get their places here; those of other
// spaces have theirs.
func decode(f *file, e *entry, constMemory []byte) (*kernel, error) {
	k := &kernel{name: e.name, regs: e.regs, preds: e.preds, paramBytes: e.paramBytes, localBytes: (e.localBytes + 15) &^ 15,
		threadsMax: e.threadsMax, exact: e.exact, constMemory: constMemory}
	d := &decoder{k: k, e: e, constants: map[uint64]int{}, special: map[special]int{}}
	d.placeShared(f)
	k.code, k.writes = make([]instr, len(e.body)+1), make([][]int, len(e.body)+1)
	for i := range e.body {
		d.s, d.in = &e.body[i], &k.code[i]
		d.statement()
		if d.err != nil {
			return nil, d.err
		}
		k.writes[i], d.writes = d.writes, nil
	}
	last := &k.code[len(e.body)] // what falls off the end returns
	*last = instr{flow: exit, guard: -1, source: &statement{text: "ret"}}
	for v, slot := range d.constants {
		k.constants = append(k.constants, constantSlot{slot, v})
	}
	for which, slot := range d.special {
		k.specials = append(k.specials, specialSlot{slot, which})
	}
	return k, nil
}

// placeShared gives shared variables their offsets: static ones first, then the
// one whose size a launch names.
func (d *decoder) placeShared(f *file) {
	var open []*symbol
	place := func(s *symbol) {
		if s.space != shared {
			return
		}
		if s.size == 0 {
			open = append(open, s)
			return
		}
		d.k.sharedBytes = (d.k.sharedBytes + s.align - 1) / s.align * s.align
		s.at = uint64(sharedBase + d.k.sharedBytes)
		d.k.sharedBytes += s.size
	}
	for _, s := range f.symbols {
		place(s)
	}
	for _, s := range d.e.shared {
		place(s)
	}
	for _, s := range open {
		d.k.sharedBytes = (d.k.sharedBytes + s.align - 1) / s.align * s.align
	}
	for _, s := range open {
		s.at = uint64(sharedBase + d.k.sharedBytes)
		d.k.dynamic = true
	}
}

func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s, line %d: %s: %s", d.e.name, d.s.line, d.s.text, fmt.Sprintf(format, args...))
	}
}

// statement decodes one.
func (d *decoder) statement() {
	*d.in = instr{guard: -1, members: -1, target: d.s.target, source: d.s}
	if g := d.s.guard; g != nil {
		d.in.guard, d.in.guardNot = g.slot, d.s.guardNot
	}
	f, ok := operations[d.s.op]
	if !ok {
		d.fail("the interpreter does not know this instruction")
		return
	}
	f(d)
	if d.err == nil && d.in.run == nil && d.in.flow != branch && d.in.flow != exit {
		d.fail("the interpreter does not know this form of the instruction")
	}
}

// args checks the number of arguments.
func (d *decoder) args(low, high int) bool {
	if n := len(d.s.args); n < low || n > high {
		d.fail("%d arguments, want %d to %d", n, low, high)
	}
	return d.err == nil
}

// only refuses modifiers that are not listed, so that none is passed over.
func (d *decoder) only(known ...string) {
	for _, m := range d.s.mods {
		if _, ok := kinds[m]; ok {
			continue
		}
		found := false
		for _, k := range known {
			found = found || k == m
		}
		if !found {
			d.fail("the interpreter does not know .%s here", m)
		}
	}
}

// kind returns the last type of the instruction.
func (d *decoder) kind() kind {
	k, ok := d.s.kindAt(0)
	if !ok {
		d.fail("no type")
		return kinds["b32"]
	}
	return k
}

// constant returns a register that has the value in all lanes.
func (d *decoder) constant(v uint64) int {
	slot, ok := d.constants[v]
	if !ok {
		slot = d.scratch()
		d.constants[v] = slot
	}
	return slot
}

func (d *decoder) scratch() int {
	d.k.regs++
	return d.k.regs - 1
}

// unread is a register for a result that nobody reads.
func (d *decoder) unread() int {
	slot := d.scratch()
	d.writes = append(d.writes, slot)
	return slot
}

// src returns the register of a source operand of a type.
func (d *decoder) src(i int, k kind) int {
	if i >= len(d.s.args) {
		d.fail("argument %d is missing", i+1)
		return 0
	}
	return d.value(d.s.args[i], k)
}

func (d *decoder) value(o operand, k kind) int {
	switch o.form {
	case regOperand:
		if o.sym == nil {
			which := specials[o.special]
			slot, ok := d.special[which]
			if !ok {
				slot = d.scratch()
				d.special[which] = slot
			}
			return slot
		}
		if o.sym.kind.class == 'p' || o.not {
			d.fail("%s is a predicate", o.sym.name)
		} else if o.sym.kind.bits < k.bits {
			d.fail("%s has %d bits, want %d", o.sym.name, o.sym.kind.bits, k.bits)
		}
		return o.sym.slot
	case immOperand:
		return d.constant(immediate(o, k))
	case addrOperand:
		return d.constant(o.sym.at + o.imm)
	}
	d.fail("an operand that is no value")
	return 0
}

// immediate is the value of a literal as a type.
func immediate(o operand, k kind) uint64 {
	switch {
	case o.float == 'd' && k.bits == 32 && k.float():
		return uint64(math.Float32bits(float32(math.Float64frombits(o.imm))))
	case o.float == 0 && k.class == 'f' && k.bits == 32 && !k.pair:
		return uint64(math.Float32bits(float32(int64(o.imm))))
	case o.float == 0 && k.class == 'f' && k.bits == 64:
		return math.Float64bits(float64(int64(o.imm)))
	}
	return o.imm & k.mask()
}

// dst returns the register of the destination.
func (d *decoder) dst() int {
	if len(d.s.args) == 0 {
		d.fail("argument 1 is missing")
		return 0
	}
	return d.target(d.s.args[0])
}

func (d *decoder) target(o operand) int {
	switch {
	case o.form == noneOperand:
		return d.unread()
	case o.form != regOperand || o.sym == nil || o.sym.kind.class == 'p':
		d.fail("a destination that is no register")
		return 0
	}
	d.writes = append(d.writes, o.sym.slot)
	return o.sym.slot
}

// predicate returns a source predicate.
func (d *decoder) predicate(i int) (slot int, not bool) {
	if i >= len(d.s.args) {
		d.fail("argument %d is missing", i+1)
		return 0, false
	}
	o := d.s.args[i]
	if o.form == immOperand { // a constant predicate
		slot = d.k.preds
		d.k.preds++
		return slot, o.imm != 0 // predicates begin as false
	}
	if o.form != regOperand || o.sym == nil || o.sym.kind.class != 'p' {
		d.fail("argument %d is no predicate", i+1)
		return 0, false
	}
	return o.sym.slot, o.not
}

// predDst returns a destination predicate, a new one for "_" or none.
func (d *decoder) predDst(o *operand) int {
	if o == nil || o.form == noneOperand {
		d.k.preds++
		return d.k.preds - 1
	}
	if o.form != regOperand || o.sym == nil || o.sym.kind.class != 'p' {
		d.fail("a destination that is no predicate")
		return 0
	}
	return o.sym.slot
}

// operations are the decoders by the name of the instruction. It is filled once
// from the tables of the files that know them.
var operations = merge(controlOps, integerOps, floatOps, convertOps, memoryOps, warpOps, asyncOps, matrixOps)

func merge(tables ...map[string]func(*decoder)) map[string]func(*decoder) {
	all := map[string]func(*decoder){}
	for _, t := range tables {
		maps.Copy(all, t)
	}
	return all
}

// either sends integer types to one decoder and float types to another.
func either(whole, real func(*decoder)) func(*decoder) {
	return func(d *decoder) {
		if k := d.kind(); k.float() {
			real(d)
		} else {
			whole(d)
		}
	}
}
