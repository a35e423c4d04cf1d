package meter

// immediate says what follows an opcode in the code.
type immediate uint8

const (
	immUnknown  immediate = iota // not an opcode that is accepted
	immNone                      // nothing
	immBlock                     // a block type
	immLabel                     // a label
	immLabels                    // a vector of labels and one more
	immFunc                      // a function
	immIndirect                  // a type and a table
	immTypes                     // a vector of one value type
	immLocal                     // a local
	immGlobal                    // a global
	immTable                     // a table
	immTables                    // two tables
	immMem                       // alignment and offset
	immMemLane                   // alignment, offset and a lane
	immMemory                    // the memory, a zero byte
	immMemories                  // the memory twice
	immI32                       // a constant
	immI64                       // a constant
	imm4                         // four bytes
	imm8                         // eight bytes
	imm16                        // sixteen bytes
	immLane                      // a lane
	immRefType                   // a reference type
	immData                      // a data segment
	immDataMem                   // a data segment and the memory
	immElem                      // an element segment
	immElemTab                   // an element segment and a table
)

// Opcodes that the rewriter treats one by one.
const (
	opUnreachable  = 0x00
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableSet     = 0x26
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opI32LtU       = 0x49
	opI64LtS       = 0x53
	opI32Sub       = 0x6b
	opI32Mul       = 0x6c
	opI32ShrU      = 0x76
	opI64Add       = 0x7c
	opI64Sub       = 0x7d
	opI64Or        = 0x84
	opI64ExtendU   = 0xad
	opSelect       = 0x1b
	opRefNull      = 0xd0
	opRefFunc      = 0xd2
	opMisc         = 0xfc
	opVec          = 0xfd

	miscMemoryInit = 0x08
	miscDataDrop   = 0x09
	miscMemoryCopy = 0x0a
	miscMemoryFill = 0x0b
	miscTableInit  = 0x0c
	miscElemDrop   = 0x0d
	miscTableCopy  = 0x0e
	miscTableGrow  = 0x0f
	miscTableFill  = 0x11

	blockVoid = 0x40
)

// The opcode tables: core 2.0 with SIMD and nothing else.
var (
	plainOps = plainTable()
	miscOps  = miscTable()
	vecOps   = vecTable()
)

// span fills an inclusive range of a table.
func span(t *[256]immediate, first, last int, imm immediate) {
	for i := first; i <= last; i++ {
		t[i] = imm
	}
}

func plainTable() (t [256]immediate) {
	span(&t, 0x00, 0x01, immNone) // unreachable, nop
	span(&t, opBlock, opIf, immBlock)
	span(&t, opElse, opElse, immNone)
	span(&t, opEnd, opEnd, immNone)
	span(&t, opBr, opBrIf, immLabel)
	t[opBrTable] = immLabels
	t[opReturn] = immNone
	t[opCall] = immFunc
	t[opCallIndirect] = immIndirect
	span(&t, opDrop, opSelect, immNone)
	t[0x1c] = immTypes // select with a type
	span(&t, opLocalGet, opLocalTee, immLocal)
	span(&t, opGlobalGet, opGlobalSet, immGlobal)
	span(&t, 0x25, opTableSet, immTable)
	span(&t, 0x28, 0x3e, immMem)
	span(&t, 0x3f, opMemoryGrow, immMemory)
	t[opI32Const] = immI32
	t[opI64Const] = immI64
	t[0x43] = imm4 // f32.const
	t[0x44] = imm8 // f64.const
	span(&t, 0x45, 0xc4, immNone)
	t[opRefNull] = immRefType
	t[0xd1] = immNone // ref.is_null
	t[opRefFunc] = immFunc
	return t
}

func miscTable() (t [256]immediate) {
	span(&t, 0x00, 0x07, immNone) // saturating truncation
	t[miscMemoryInit] = immDataMem
	t[miscDataDrop] = immData
	t[miscMemoryCopy] = immMemories
	t[miscMemoryFill] = immMemory
	t[miscTableInit] = immElemTab
	t[miscElemDrop] = immElem
	t[miscTableCopy] = immTables
	span(&t, miscTableGrow, miscTableFill, immTable)
	return t
}

func vecTable() (t [256]immediate) {
	span(&t, 0x00, 0x0b, immMem)     // loads and the store
	span(&t, 0x0c, 0x0d, imm16)      // v128.const, i8x16.shuffle
	span(&t, 0x0e, 0x14, immNone)    // swizzle, splats
	span(&t, 0x15, 0x22, immLane)    // extract and replace lanes
	span(&t, 0x23, 0x53, immNone)    // comparisons, bitwise
	span(&t, 0x54, 0x5b, immMemLane) // load and store one lane
	span(&t, 0x5c, 0x5d, immMem)     // load and fill with zeros
	span(&t, 0x5e, 0xff, immNone)    // arithmetic
	for _, hole := range []byte{0x9a, 0xa2, 0xa5, 0xa6, 0xaf, 0xb0, 0xb2, 0xb3, 0xb4, 0xbb,
		0xc2, 0xc5, 0xc6, 0xcf, 0xd0, 0xd2, 0xd3, 0xd4, 0xe2, 0xee} {
		t[hole] = immUnknown
	}
	return t
}

// proposalOf names what an opcode outside the tables belongs to.
func proposalOf(op byte) string {
	switch {
	case op >= 0x06 && op <= 0x0a, op == 0x18, op == 0x19, op == 0x1f:
		return "exception handling"
	case op == 0x12, op == 0x13:
		return "tail calls"
	case op == 0x14, op == 0x15, op >= 0xd3 && op <= 0xd6:
		return "typed function references"
	case op == 0xfb:
		return "garbage collection"
	case op == 0xfe:
		return "threads"
	}
	return ""
}

// opcodes is a set of them.
type opcodes [256]bool

// opcodesIn is the set of the inclusive ranges.
func opcodesIn(ranges ...int) (set opcodes) {
	for i := 0; i+1 < len(ranges); i += 2 {
		for op := ranges[i]; op <= ranges[i+1]; op++ {
			set[op] = true
		}
	}
	return set
}

// What computes with or moves floats as such.
var (
	floatOps    = opcodesIn(0x2a, 0x2b, 0x38, 0x39, 0x43, 0x44, 0x5b, 0x66, 0x8b, 0xa6, 0xa8, 0xab, 0xae, 0xbf)
	floatVecOps = opcodesIn(0x13, 0x14, 0x1f, 0x22, 0x41, 0x4c, 0x5e, 0x5f, 0x67, 0x6a, 0x74, 0x75, 0x7a, 0x7a, 0x94, 0x94, 0xe0, 0xff)
)

// Integer division and remainder, roots and float division.
var (
	slowOps    = opcodesIn(0x6d, 0x70, 0x7f, 0x82, 0x91, 0x91, 0x95, 0x95, 0x9f, 0x9f, 0xa3, 0xa3)
	slowVecOps = opcodesIn(0xe3, 0xe3, 0xe7, 0xe7, 0xef, 0xef, 0xf3, 0xf3)
)

// isFloat says whether an instruction computes with or moves floats as such.
func (in *instr) isFloat() bool {
	switch in.op {
	case opMisc:
		return in.sub <= 0x07
	case opVec:
		return floatVecOps[in.sub]
	}
	return floatOps[in.op]
}

// weight is how much an instruction counts as straight code: its bytes, and
// more for what takes the processor long.
func (in *instr) weight() int {
	w := in.end - in.at
	if bulkShift(in) != 0 {
		return w + bulkWeight
	}
	if slowOps[in.op] || in.op == opVec && slowVecOps[in.sub] {
		w += slowWeight
	}
	return w
}
