package meter

// instr is one decoded instruction: where it lies and its immediates.
type instr struct {
	op      byte
	sub     byte     // second byte after opMisc and opVec
	at, end int      // bytes of the module
	index   uint32   // function, type, local, global, table, segment or label
	block   block    // of block, loop and if
	targets []uint32 // of br_table, the default last; valid until the next instruction
	memory  bool     // needs a memory
	float   bool     // names a float type
}

// block is a block type: an index into the types, or one byte.
type block struct {
	typed bool
	index uint32
	short byte
}

// next decodes one instruction and checks every index in it, except labels
// and locals, which depend on the function.
func (m *module) next(r *reader, in *instr) {
	at := r.pos
	*in = instr{op: r.u8(), at: at, targets: in.targets[:0]}
	imm := plainOps[in.op]
	switch in.op {
	case opMisc:
		in.sub = r.u8()
		imm = miscOps[in.sub]
	case opVec:
		in.sub = r.u8()
		imm = vecOps[in.sub]
		// The number is a LEB128. One spelling is accepted, because the engine
		// reads one byte and takes the rest for an instruction.
		if in.sub >= 0x80 && r.u8() != 0x01 {
			imm = immUnknown
		}
	}
	if imm == immUnknown {
		m.failUnknown(r, in)
	}
	m.immediates(r, in, imm)
	in.end = r.pos
	if in.memory && !m.memory.present {
		r.fail(at, "declare a memory", "an instruction uses memory, but the module has none")
	}
}

func (m *module) failUnknown(r *reader, in *instr) {
	name := proposalOf(in.op)
	switch {
	case in.op == opMisc || in.op == opVec:
		r.fail(in.at, fixTarget, "unknown instruction %#02x %#02x", in.op, in.sub)
	case name != "":
		r.fail(in.at, fixTarget, "instruction %#02x is of %s, which is not accepted", in.op, name)
	default:
		r.fail(in.at, fixTarget, "unknown instruction %#02x", in.op)
	}
}

// immediates is one switch over all shapes of immediates, and long for that.
func (m *module) immediates(r *reader, in *instr, imm immediate) {
	switch imm {
	case immBlock:
		in.block = m.blockType(r, in)
	case immLabel, immLocal:
		in.index = r.u32()
	case immLabels:
		for n := r.count("branch targets", 65_520, 1) + 1; n > 0 && r.err == nil; n-- {
			in.targets = append(in.targets, r.u32())
		}
	case immFunc:
		in.index = m.index(r, "function", m.functionCount())
	case immIndirect:
		in.index = m.index(r, "type", len(m.types))
		m.index(r, "table", len(m.tables))
	case immTypes:
		if r.u8() != 1 {
			r.fail(in.at, fixRebuild, "select names more or less than one type")
		}
		in.float = isFloatType(r.valueType())
	case immGlobal:
		in.index = m.index(r, "global", len(m.globals))
	case immTable:
		in.index = m.index(r, "table", len(m.tables))
	case immTables:
		in.index = m.index(r, "table", len(m.tables))
		m.index(r, "table", len(m.tables))
	case immMem, immMemLane:
		m.memoryArgument(r, in)
		if imm == immMemLane {
			r.u8()
		}
	case immMemory, immMemories:
		zeroByte(r, in)
		if imm == immMemories {
			zeroByte(r, in)
		}
	case immI32:
		r.signed(32)
	case immI64:
		r.signed(64)
	case imm4:
		r.skip(4)
	case imm8:
		r.skip(8)
	case imm16:
		r.skip(16)
	case immLane:
		r.u8()
	case immRefType:
		r.refType()
	case immData, immDataMem:
		in.index = m.index(r, "data segment", m.dataCount)
		if imm == immDataMem {
			zeroByte(r, in)
		}
	case immElem:
		in.index = m.index(r, "element segment", m.elemCount)
	case immElemTab:
		in.index = m.index(r, "element segment", m.elemCount)
		m.index(r, "table", len(m.tables))
	}
}

// index reads an index into a space of n items.
func (m *module) index(r *reader, what string, n int) uint32 {
	at := r.pos
	i := r.u32()
	if r.err == nil && int64(i) >= int64(n) {
		r.fail(at, fixRebuild, "%s %d does not exist, there are %d", what, i, n)
		return 0
	}
	return i
}

func (m *module) memoryArgument(r *reader, in *instr) {
	in.memory = true
	at := r.pos
	if align := r.u32(); align > 4 {
		r.fail(at, fixTarget, "alignment 2^%d of a memory access", align)
	}
	r.u32()
}

// zeroByte reads the index of the only memory there can be.
func zeroByte(r *reader, in *instr) {
	in.memory = true
	at := r.pos
	if r.u8() != 0 {
		r.fail(at, fixTarget, "an instruction names another memory than the first")
	}
}

func (m *module) blockType(r *reader, in *instr) block {
	at := r.pos
	c := r.u8()
	if c == blockVoid || isValueType(c) {
		in.float = isFloatType(c)
		return block{short: c}
	}
	if r.err != nil {
		return block{}
	}
	r.pos = at
	i := r.signed(33)
	if i < 0 || i >= int64(len(m.types)) {
		r.fail(at, fixRebuild, "type %d of a block does not exist, there are %d", i, len(m.types))
		return block{}
	}
	return block{typed: true, index: uint32(i)}
}

// Value types, as in the binary format.
const (
	typeI32       = 0x7f
	typeI64       = 0x7e
	typeF32       = 0x7d
	typeF64       = 0x7c
	typeV128      = 0x7b
	typeFuncref   = 0x70
	typeExternref = 0x6f
)

func isValueType(c byte) bool {
	return c >= typeV128 && c <= typeI32 || c == typeFuncref || c == typeExternref
}

func isFloatType(c byte) bool { return c == typeF32 || c == typeF64 }

func (r *reader) valueType() byte {
	at := r.pos
	c := r.u8()
	if r.err == nil && !isValueType(c) {
		r.fail(at, fixTarget, "unknown value type %#02x", c)
	}
	return c
}

func (r *reader) refType() byte {
	at := r.pos
	c := r.u8()
	if r.err == nil && c != typeFuncref && c != typeExternref {
		r.fail(at, fixTarget, "unknown reference type %#02x", c)
	}
	return c
}
