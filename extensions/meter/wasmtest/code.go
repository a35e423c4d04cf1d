package wasmtest

// Opcodes that tests use by name.
const (
	Unreachable byte = 0x00
	Nop         byte = 0x01
	Return      byte = 0x0f
	Drop        byte = 0x1a
	I32Load     byte = 0x28
	I64Load     byte = 0x29
	I32Load8U   byte = 0x2d
	I32Store    byte = 0x36
	I64Store    byte = 0x37
	I32Store8   byte = 0x3a
	I32Eqz      byte = 0x45
	I32Eq       byte = 0x46
	I32Ne       byte = 0x47
	I32LtS      byte = 0x48
	I32GtU      byte = 0x4b
	I32GeU      byte = 0x4f
	I32Add      byte = 0x6a
	I32Sub      byte = 0x6b
	I32Mul      byte = 0x6c
	I32DivS     byte = 0x6d
	I32RemU     byte = 0x70
	I32And      byte = 0x71
	I32Xor      byte = 0x73
	I32Rotl     byte = 0x77
	I64Add      byte = 0x7c
	I32WrapI64  byte = 0xa7
	I64ExtendU  byte = 0xad
)

// Code is a function body under construction. Methods append one instruction
// and return the same Code.
type Code struct{ b []byte }

// Asm starts a body.
func Asm() *Code { return &Code{} }

// I32Const starts a body with a constant, as initial values need it.
func I32Const(v int32) *Code { return Asm().I32(v) }

// Bytes returns what was assembled, without an end of the function.
func (c *Code) Bytes() []byte { return c.b }

// Op appends bytes as they are: opcodes without immediates, or anything.
func (c *Code) Op(code ...byte) *Code {
	c.b = append(c.b, code...)
	return c
}

// Imm appends an opcode and unsigned immediates.
func (c *Code) Imm(op byte, imm ...uint32) *Code {
	c.b = append(c.b, op)
	for _, v := range imm {
		c.b = U32(c.b, v)
	}
	return c
}

// I32 appends i32.const.
func (c *Code) I32(v int32) *Code {
	c.b = S64(append(c.b, 0x41), int64(v))
	return c
}

// I64 appends i64.const.
func (c *Code) I64(v int64) *Code {
	c.b = S64(append(c.b, 0x42), v)
	return c
}

// Get appends local.get.
func (c *Code) Get(i uint32) *Code { return c.Imm(0x20, i) }

// Set appends local.set.
func (c *Code) Set(i uint32) *Code { return c.Imm(0x21, i) }

// Tee appends local.tee.
func (c *Code) Tee(i uint32) *Code { return c.Imm(0x22, i) }

// GlobalGet appends global.get.
func (c *Code) GlobalGet(i uint32) *Code { return c.Imm(0x23, i) }

// GlobalSet appends global.set.
func (c *Code) GlobalSet(i uint32) *Code { return c.Imm(0x24, i) }

// Block appends block with a short block type.
func (c *Code) Block(t byte) *Code { return c.Op(0x02, t) }

// Loop appends loop with a short block type.
func (c *Code) Loop(t byte) *Code { return c.Op(0x03, t) }

// If appends if with a short block type.
func (c *Code) If(t byte) *Code { return c.Op(0x04, t) }

// BlockOf appends block, loop or if (the opcode) with a type of the module.
func (c *Code) BlockOf(op byte, typ uint32) *Code {
	c.b = S64(append(c.b, op), int64(typ))
	return c
}

// Else appends else.
func (c *Code) Else() *Code { return c.Op(0x05) }

// End appends end.
func (c *Code) End() *Code { return c.Op(0x0b) }

// Br appends br.
func (c *Code) Br(label uint32) *Code { return c.Imm(0x0c, label) }

// BrIf appends br_if.
func (c *Code) BrIf(label uint32) *Code { return c.Imm(0x0d, label) }

// BrTable appends br_table; the last label is the default.
func (c *Code) BrTable(labels ...uint32) *Code {
	return c.Imm(0x0e, append([]uint32{uint32(len(labels) - 1)}, labels...)...)
}

// Call appends call.
func (c *Code) Call(fn uint32) *Code { return c.Imm(0x10, fn) }

// CallIndirect appends call_indirect.
func (c *Code) CallIndirect(typ, table uint32) *Code { return c.Imm(0x11, typ, table) }

// Mem appends a load or store without alignment, at a constant offset.
func (c *Code) Mem(op byte, offset uint32) *Code { return c.Imm(op, 0, offset) }

// Misc appends an instruction of the prefix 0xfc.
func (c *Code) Misc(sub byte, imm ...uint32) *Code {
	return c.Imm(0xfc, append([]uint32{uint32(sub)}, imm...)...)
}

// Vec appends an instruction of the prefix 0xfd.
func (c *Code) Vec(sub byte, imm ...byte) *Code {
	c.b = U32(append(c.b, 0xfd), uint32(sub))
	return c.Op(imm...)
}
