package meter

import (
	"context"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

// shapes are the immediates that an opcode may take, in the module of
// withInstruction, where every index and the type 0 exist.
var shapes = map[immediate][]byte{
	immNone: {}, immBlock: {wasmtest.Void, 0x0b}, immLabel: {0}, immLabels: {1, 0, 0}, immFunc: {0}, immIndirect: {0, 0},
	immTypes: {1, wasmtest.I32}, immLocal: {0}, immGlobal: {0}, immTable: {0}, immTables: {0, 0}, immMem: {0, 0},
	immMemLane: {0, 0, 0}, immMemory: {0}, immMemories: {0, 0}, immI32: {1}, immI64: {1}, imm4: make([]byte, 4),
	imm8: make([]byte, 8), imm16: make([]byte, 16), immLane: {0}, immRefType: {wasmtest.Funcref},
	immData: {0}, immDataMem: {0, 0}, immElem: {0}, immElemTab: {0, 0},
}

// withInstruction is a module with one instruction in code that is never
// reached, where operands may have any type.
func withInstruction(code []byte) []byte {
	var m wasmtest.Module
	m.Memory(1, 1)
	m.Table(wasmtest.Funcref, 1, 1)
	m.Global(wasmtest.I32, true, wasmtest.I32Const(0))
	m.PassiveData(nil)
	m.PassiveElements(0)
	m.Func("f", nil, nil, []byte{wasmtest.I32}, wasmtest.Asm().Op(wasmtest.Unreachable).Op(code...).Op(wasmtest.Unreachable))
	return m.Bytes()
}

// TestOpcodes compares the tables with the engine, for every opcode there can
// be: what the engine accepts is known with the same immediates, and what is
// known the engine accepts, plain and metered.
func TestOpcodes(t *testing.T) {
	ctx := context.Background()
	rt := newRuntime(t)
	accepts := func(b []byte) (ok bool) {
		defer func() { ok = recover() == nil && ok }() // the engine may panic on what is cut off
		c, err := rt.CompileModule(ctx, b)
		if err == nil {
			c.Close(ctx)
		}
		return err == nil
	}
	known := 0
	check := func(name string, opcode []byte, imm immediate) {
		if (nameOf(opcode) == "-") != (imm == immUnknown) {
			t.Errorf("%s %x is named %q", name, opcode, nameOf(opcode))
		}
		if imm == immUnknown {
			for _, with := range shapes {
				code := append(opcode[:len(opcode):len(opcode)], with...)
				if accepts(withInstruction(code)) {
					t.Errorf("%s %x: unknown here, the engine accepts it with % x", name, opcode, with)
				}
				if _, err := Inspect(withInstruction(code)); err == nil {
					t.Errorf("%s %x: unknown and accepted with % x", name, opcode, with)
				}
			}
			return
		}
		known++
		plain := withInstruction(append(opcode, shapes[imm]...))
		metered, _, err := Rewrite(plain, Options{})
		if opcode[0] == opRefFunc { // in constants only
			if err == nil {
				t.Errorf("%s %x is accepted in a function", name, opcode)
			}
			return
		}
		if err != nil {
			t.Errorf("%s %x: %v", name, opcode, err)
			return
		}
		if !accepts(plain) || !accepts(metered) {
			t.Errorf("%s %x: the engine refuses what is known here", name, opcode)
		}
	}
	for op := range 256 {
		switch byte(op) {
		case opElse, opEnd, opMisc, opVec:
			continue
		}
		check("opcode", []byte{byte(op)}, plainOps[op])
	}
	for sub := range 256 {
		check("misc", wasmtest.Asm().Misc(byte(sub)).Bytes(), miscOps[sub])
		check("vector", wasmtest.Asm().Vec(byte(sub)).Bytes(), vecOps[sub])
	}
	if want := 181 + 18 + 236; known != want { // without else and end
		t.Errorf("%d opcodes were compared, want %d", known, want)
	}
}

// TestVectorSpelling refuses numbers of vector instructions that the engine
// would read differently.
func TestVectorSpelling(t *testing.T) {
	for _, code := range [][]byte{
		{0xfd, 0x8d, 0x00, wasmtest.Drop},       // shuffle, spelled long
		{0xfd, 0x80, 0x00},                      // a load, spelled long
		{0xfd, 0x80, 0x81, 0x00, wasmtest.Drop}, // abs, spelled long
		{0xfd, 0x80, 0x02},                      // beyond SIMD
		{0xfc, 0x8a, 0x00, 0, 0},                // memory.copy, spelled long
	} {
		if _, err := Inspect(withInstruction(code)); err == nil {
			t.Errorf("% x is accepted", code)
		}
	}
}

// TestFloats finds floats wherever they are, and none where there are none.
func TestFloats(t *testing.T) {
	for op := range 256 {
		for _, c := range []struct {
			code []byte
			imm  immediate
		}{
			{[]byte{byte(op)}, plainOps[op]},
			{wasmtest.Asm().Misc(byte(op)).Bytes(), miscOps[op]},
			{wasmtest.Asm().Vec(byte(op)).Bytes(), vecOps[op]},
		} {
			if c.imm == immUnknown || c.code[0] == opEnd || c.code[0] == opElse || c.code[0] == opRefFunc {
				continue
			}
			info, err := Inspect(withInstruction(append(c.code, shapes[c.imm]...)))
			if err != nil {
				t.Fatal(err)
			}
			if want := floatByName(c.code); (info.Float != nil) != want {
				t.Errorf("% x: float %v, want %v", c.code, info.Float, want)
			}
		}
	}
	for name, make := range map[string]func(m *wasmtest.Module){
		"parameter":  func(m *wasmtest.Module) { m.Func("", []byte{wasmtest.F32}, nil, nil, wasmtest.Asm()) },
		"result":     func(m *wasmtest.Module) { m.Type(nil, []byte{wasmtest.I32, wasmtest.F64}) },
		"local":      func(m *wasmtest.Module) { m.Func("", nil, nil, []byte{wasmtest.F64}, wasmtest.Asm()) },
		"import":     func(m *wasmtest.Module) { m.Import("a", "b", nil, []byte{wasmtest.F32}) },
		"global":     func(m *wasmtest.Module) { m.Global(wasmtest.F32, true, wasmtest.Asm().Op(0x43, 0, 0, 0, 0)) },
		"block type": func(m *wasmtest.Module) { m.Func("", nil, nil, nil, wasmtest.Asm().Op(0).Block(wasmtest.F32).End()) },
		"select":     func(m *wasmtest.Module) { m.Func("", nil, nil, nil, wasmtest.Asm().Op(0, 0x1c, 1, wasmtest.F64)) },
	} {
		var m wasmtest.Module
		make(&m)
		if info, err := Inspect(m.Bytes()); err != nil || info.Float == nil {
			t.Errorf("%s: %v, float not found", name, err)
		}
	}
}
