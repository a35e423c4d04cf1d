package main

import (
	"fmt"
	"strings"

	"github.com/mmcloughlin/avo/ir"
	"github.com/mmcloughlin/avo/reg"
)

// tile is a tile register, 0 to 7.
type tile byte

// tileMem is where a tile lies: rows of it are index bytes apart, from base+disp on.
type tileMem struct {
	base, index reg.GPPhysical
	disp        int
}

// noIndex is the index of a tile whose rows are all the same memory: its number
// means that there is none.
var noIndex = reg.RSP

// Mandatory prefixes as a VEX prefix holds them.
const (
	prefixNone = 0
	prefixF3   = 2
	prefixF2   = 3
)

// vex is the three-byte VEX prefix of the 128-bit instructions of map 0F38, W
// 0, followed by the opcode. reg, index and base are the numbers of the
// registers that ModRM and SIB will name; only their fourth bits go here.
func vex(prefix, opcode byte, reg, index, base int, second tile) []byte {
	inverted := func(n, bit int) byte { return byte(1-n>>3&1) << bit }
	return []byte{
		0xc4,
		inverted(reg, 7) | inverted(index, 6) | inverted(base, 5) | 2,
		(15-byte(second))<<3 | prefix,
		opcode,
	}
}

// sib is ModRM, SIB and displacement of a tile in memory.
func sib(t tile, m tileMem) []byte {
	at := byte(number(m.index)&7)<<3 | byte(number(m.base)&7)
	if m.disp >= -128 && m.disp < 128 {
		return []byte{0x40 | byte(t)<<3 | 4, at, byte(m.disp)}
	}
	d := uint32(int32(m.disp))
	return []byte{0x80 | byte(t)<<3 | 4, at, byte(d), byte(d >> 8), byte(d >> 16), byte(d >> 24)}
}

// The encodings of the instructions that Go's assembler lacks, from Intel's
// manual, volume 2.
func encodeTileLoad(t tile, m tileMem) []byte {
	return append(vex(prefixF2, 0x4b, 0, number(m.index), number(m.base), 0), sib(t, m)...)
}

func encodeTileStore(m tileMem, t tile) []byte {
	return append(vex(prefixF3, 0x4b, 0, number(m.index), number(m.base), 0), sib(t, m)...)
}

func encodeTileZero(t tile) []byte {
	return append(vex(prefixF2, 0x49, 0, 0, 0, 0), 0xc0|byte(t)<<3)
}

// encodeDot is c += a(signed) · b(signed).
func encodeDot(c, a, b tile) []byte {
	return append(vex(prefixF2, 0x5e, 0, 0, 0, b), 0xc0|byte(c)<<3|byte(a))
}

// encodeDotUnsigned is c += a(signed) · b(unsigned).
func encodeDotUnsigned(c, a, b tile) []byte {
	return append(vex(prefixF3, 0x5e, 0, 0, 0, b), 0xc0|byte(c)<<3|byte(a))
}

// encodeDotBF16 is c += a · b, float32 sums of bfloat16 products: even and odd
// columns of a are summed apart, by multiply-adds, and then added.
func encodeDotBF16(c, a, b tile) []byte {
	return append(vex(prefixF3, 0x5c, 0, 0, 0, b), 0xc0|byte(c)<<3|byte(a))
}

func encodeLoadConfig(base reg.GPPhysical) []byte {
	id := number(base)
	return append(vex(prefixNone, 0x49, 0, 0, id, 0), 0x40|byte(id&7), 0) // with a displacement any base but RSP will do
}

func encodeTileRelease() []byte { return append(vex(prefixNone, 0x49, 0, 0, 0, 0), 0xc0) }

// bytes emits machine code, which reads the given registers, under its name.
// It is an opcode without operands to avo, which knows no operand for it.
func (g *gen) bytes(code []byte, reads []reg.GPPhysical, name string) {
	list := make([]string, len(code))
	for i, b := range code {
		list[i] = fmt.Sprintf("BYTE $0x%02x", b)
	}
	g.Comment(name)
	in := &ir.Instruction{Opcode: strings.Join(list, "; ")}
	for _, r := range reads {
		in.Inputs = append(in.Inputs, r)
	}
	g.Instruction(in)
}

func (m tileMem) String() string {
	if m.index == noIndex {
		return fmt.Sprintf("%d(%s)", m.disp, m.base.Asm())
	}
	return fmt.Sprintf("%d(%s)(%s*1)", m.disp, m.base.Asm(), m.index.Asm())
}

func (m tileMem) registers() []reg.GPPhysical {
	if m.index == noIndex {
		return []reg.GPPhysical{m.base}
	}
	return []reg.GPPhysical{m.base, m.index}
}

func (g *gen) tileLoad(t tile, m tileMem) {
	g.bytes(encodeTileLoad(t, m), m.registers(), fmt.Sprintf("TILELOADD %v, TMM%d", m, t))
}

func (g *gen) tileStore(m tileMem, t tile) {
	g.bytes(encodeTileStore(m, t), m.registers(), fmt.Sprintf("TILESTORED TMM%d, %v", t, m))
}

func (g *gen) tileZero(t tile) { g.bytes(encodeTileZero(t), nil, fmt.Sprintf("TILEZERO TMM%d", t)) }

func (g *gen) tileDot(c, a, b tile) {
	g.bytes(encodeDot(c, a, b), nil, fmt.Sprintf("TDPBSSD TMM%d, TMM%d, TMM%d", b, a, c))
}

func (g *gen) tileDotUnsigned(c, a, b tile) {
	g.bytes(encodeDotUnsigned(c, a, b), nil, fmt.Sprintf("TDPBSUD TMM%d, TMM%d, TMM%d", b, a, c))
}

func (g *gen) tileDotBF16(c, a, b tile) {
	g.bytes(encodeDotBF16(c, a, b), nil, fmt.Sprintf("TDPBF16PS TMM%d, TMM%d, TMM%d", b, a, c))
}

func (g *gen) loadTileConfig(base reg.GPPhysical) {
	g.bytes(encodeLoadConfig(base), []reg.GPPhysical{base}, fmt.Sprintf("LDTILECFG (%s)", base.Asm()))
}

func (g *gen) tileRelease() { g.bytes(encodeTileRelease(), nil, "TILERELEASE") }

// number is how instructions name a register.
func number(r reg.GPPhysical) int { return int(r.ID().Index()) }
