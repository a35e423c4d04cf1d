package meter

import (
	"bytes"
	"strings"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

func TestRefused(t *testing.T) {
	body := func(code ...byte) func(m *wasmtest.Module) {
		return func(m *wasmtest.Module) {
			m.Memory(1, 1)
			m.Func("f", nil, nil, []byte{wasmtest.I32}, wasmtest.Asm().Op(wasmtest.Unreachable).Op(code...))
		}
	}
	section := func(id byte, content ...byte) []byte {
		return append(wasmtest.Preamble(), wasmtest.Section(id, content)...)
	}
	for _, c := range []struct {
		name string
		say  string
		make func(m *wasmtest.Module)
		raw  []byte
	}{
		{name: "empty", say: "not a WebAssembly module"},
		{name: "component", say: "components", raw: []byte("\x00asm\x0d\x00\x01\x00")},
		{name: "imported memory", say: `the memory "mem" from "env"`, make: func(m *wasmtest.Module) {
			m.ImportRaw("env",
				"mem", 2, 0, 1)
		}},
		{name: "imported table", say: "only functions", make: func(m *wasmtest.Module) {
			m.ImportRaw("env", "t", 1,
				wasmtest.Funcref, 0, 1)
		}},
		{name: "imported global", say: "only functions", make: func(m *wasmtest.Module) { m.ImportRaw("env", "g", 3, wasmtest.I32, 0) }},
		{name: "imported tag", say: "only functions", make: func(m *wasmtest.Module) { m.ImportRaw("env", "t", 4, 0, 0) }},
		{name: "shared memory", say: "threads", make: func(m *wasmtest.Module) { m.MemoryRaw(3, 1, 2) }},
		{name: "memory64", say: "64-bit", make: func(m *wasmtest.Module) { m.MemoryRaw(5, 1, 2) }},
		{name: "memory max below min", say: "below the minimum", make: func(m *wasmtest.Module) { m.MemoryRaw(1, 2, 1) }},
		{name: "memory too large", say: "65536", make: func(m *wasmtest.Module) { m.Memory(65537, -1) }},
		{name: "two memories", say: "at most one", make: func(m *wasmtest.Module) { m.MemoryRaw(0, 1); m.MemoryRaw(0, 1) }},
		{name: "reserved export", say: "reserved", make: func(m *wasmtest.Module) {
			m.Func("__meter_left", nil, nil, nil,
				wasmtest.Asm())
		}},
		{name: "export twice", say: "twice", make: func(m *wasmtest.Module) { m.Memory(1, 1); m.Export("memory", 2, 0) }},
		{name: "tail call", say: "tail calls", make: body(0x12, 0)},
		{name: "exceptions", say: "exception handling", make: body(0x08, 0)},
		{name: "try_table", say: "exception handling", make: body(0x1f, wasmtest.Void, 0, 0x0b)},
		{name: "atomics", say: "threads", make: body(0xfe, 0x03, 0)},
		{name: "garbage collection", say: "garbage collection", make: body(0xfb, 0x00, 0)},
		{name: "call_ref", say: "typed function references", make: body(0x14, 0)},
		{name: "relaxed SIMD", say: "unknown instruction", make: body(0xfd, 0x80, 0x02)},
		{name: "second memory", say: "another memory", make: body(0x3f, 1)},
		{name: "copy from a second memory", say: "another memory", make: body(0xfc, 0x0a, 0, 1)},
		{name: "copy to a second memory", say: "another memory", make: body(0xfc, 0x0a, 1, 0)},
		{name: "data into a second memory", say: "another memory", make: func(m *wasmtest.Module) {
			m.Memory(1, 1)
			m.PassiveData([]byte{1})
			m.Func("", nil, nil, nil, wasmtest.Asm().Op(wasmtest.Unreachable, 0xfc, 0x08, 0, 1))
		}},
		{name: "select of two types", say: "one type", make: body(0x1c, 2, wasmtest.I32, wasmtest.I32)},
		{name: "memory index in alignment", say: "alignment", make: body(0x28, 0x42, 0, 0)},
		{name: "tag section", say: "exception handling", raw: section(wasmtest.SecTag, 0)},
		{name: "unknown section", say: "unknown section 14", raw: section(14, 0)},
		{name: "section twice", say: "twice", raw: append(section(wasmtest.SecType, 0), wasmtest.Section(wasmtest.SecType, []byte{0})...)},
		{name: "section cut off", say: "too early", raw: append(wasmtest.Preamble(), 1, 50, 0)},
		{name: "section too long", say: "too many", raw: section(wasmtest.SecType, 0, 0)},
		{name: "section name not UTF-8", say: "UTF-8", raw: section(wasmtest.SecCustom, 1, 0xff)},
		{name: "huge count", say: "do not fit", raw: section(wasmtest.SecType, 0xff, 0xff, 0xff, 0xff, 0x0f)},
		{name: "number too long", say: "32 bits", raw: section(wasmtest.SecType, 0x80, 0x80, 0x80, 0x80, 0x80, 0)},
		{name: "number of 33 bits", say: "32 bits", raw: section(wasmtest.SecType, 0x80, 0x80, 0x80, 0x80, 0x10)},
		{name: "signed number of 33 bits", say: "32 bits", make: body(0x41, 0x80, 0x80, 0x80, 0x80, 0x10, wasmtest.Drop)},
		{name: "signed number of 65 bits", say: "64 bits", make: body(0x42, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, wasmtest.Drop)},
		{name: "unknown import", say: "unknown kind of import", make: func(m *wasmtest.Module) { m.ImportRaw("env", "x", 5) }},
		{name: "unknown limits", say: "unknown limits", make: func(m *wasmtest.Module) { m.MemoryRaw(8, 1) }},
		{name: "memory max too large", say: "65536", make: func(m *wasmtest.Module) { m.MemoryRaw(1, 1, 0x81, 0x80, 4) }},
		{name: "export of no memory", say: "does not exist", make: func(m *wasmtest.Module) { m.Export("memory", 2, 0) }},
		{name: "export of a tag", say: "unknown kind 4", make: func(m *wasmtest.Module) { m.Export("x", 4, 0) }},
		{name: "mutability", say: "unknown mutability", raw: section(wasmtest.SecGlobal, 1, wasmtest.I32, 2, 0x41, 1, 0x0b)},
		{name: "start with a parameter", say: "takes or gives values", make: func(m *wasmtest.Module) {
			m.Start(m.Func("", []byte{wasmtest.I32}, nil, nil, wasmtest.Asm()))
		}},
		{name: "elements of unknown flags", say: "unknown element segment", raw: section(wasmtest.SecElement, 1, 8, 0, 0)},
		{name: "elements of an unknown kind", say: "unknown element kind", raw: section(wasmtest.SecElement, 1, 1, 1, 0)},
		{name: "data of unknown flags", say: "unknown kind", raw: section(wasmtest.SecData, 1, 3, 0, 0)},
		{name: "data of a second memory", say: "another memory", raw: section(wasmtest.SecData, 1, 2, 1, 0x41, 0, 0x0b, 0)},
		{name: "data announced and not there", say: "none is there", raw: section(wasmtest.SecDataCount, 1)},
		{name: "more data than announced", say: "1 are announced", raw: append(section(wasmtest.SecDataCount, 1),
			wasmtest.Section(wasmtest.SecData, []byte{2, 1, 0, 1, 0})...)},
		{name: "recursive types", say: "type form", raw: section(wasmtest.SecType, 1, 0x4e, 1, 0x60, 0, 0)},
		{name: "typed reference", say: "value type", raw: section(wasmtest.SecType, 1, 0x60, 1, 0x63, 0)},
		{name: "table with initial value", say: "reference type", raw: section(wasmtest.SecTable, 1, 0x40, 0, 0x70, 0, 0,
			0xd0, 0x70, 0x0b)},
		{name: "function without code", say: "declared", raw: append(section(wasmtest.SecType, 1, 0x60, 0, 0),
			wasmtest.Section(wasmtest.SecFunction, []byte{1, 0})...)},
		{name: "extended constant", say: "more than one", make: func(m *wasmtest.Module) {
			m.Global(wasmtest.I32, true, wasmtest.I32Const(1).I32(2).Op(wasmtest.I32Add))
		}},
		{name: "constant of a global", say: "constant expression", make: func(m *wasmtest.Module) {
			m.Memory(1, 1)
			m.Global(wasmtest.I32, false, wasmtest.I32Const(1))
			m.Func("", nil, nil, nil, wasmtest.Asm())
			m.Global(wasmtest.I32, false, wasmtest.Asm().GlobalGet(0))
		}, raw: section(wasmtest.SecGlobal, 2, wasmtest.I32, 0, 0x41, 1, 0x0b, wasmtest.I32, 0, 0x23, 0, 0x0b)},
		// Indices just behind the module's own are those of the counters and
		// helpers once it is metered: none may be named.
		{name: "reads a counter", say: "global 0 does not exist", make: body(0x23, 0)},
		{name: "writes a counter", say: "global 0 does not exist", make: body(0x24, 0)},
		{name: "calls a helper", say: "function 1 does not exist", make: body(0x10, 1)},
		{name: "refers to a helper", say: "function 1 does not exist", make: body(0xd2, 1)},
		{name: "makes a reference", say: "ref.func in a function", make: body(0xd2, 0, wasmtest.Drop)},
		{name: "exports a helper", say: "function 0 does not exist", make: func(m *wasmtest.Module) { m.Export("f", 0, 0) }},
		{name: "exports a counter", say: "global 0 does not exist", make: func(m *wasmtest.Module) { m.Export("g", 3, 0) }},
		{name: "element is a helper", say: "function 5 does not exist",
			make: func(m *wasmtest.Module) { m.Table(wasmtest.Funcref, 1, 1); m.Elements(0, 5) }},
		{name: "starts a helper", say: "function 0 does not exist", make: func(m *wasmtest.Module) { m.Start(0) }},
		{name: "type of a helper", say: "type 1 of a block", make: body(0x02, 1, 0x0b)},
		{name: "indirect type of a helper", say: "type 1 does not exist", make: body(0x11, 1, 0)},
		{name: "local that is added", say: "local 1 does not exist", make: body(0x41, 0, 0x41, 0, 0x41, 0, 0xfc, 0x0b, 0, 0x20, 1)},
		{name: "memory that is added", say: "has none", make: func(m *wasmtest.Module) {
			m.Func("", nil, nil, nil,
				wasmtest.Asm().Op(0x3f, 0))
		}},
		{name: "data into the memory that is added", say: "no memory", make: func(m *wasmtest.Module) { m.Data(0, []byte{1}) }},
		{name: "branch too far", say: "branch out of 3 blocks", make: body(0x0c, 3)},
		{name: "branch table too far", say: "branch out of 3 blocks", make: body(0x0e, 1, 0, 3)},
		{name: "else without if", say: "else without if", make: body(0x05)},
		{name: "code after the end", say: "after the end", make: body(0x0b, 0x01)},
		{name: "open block", say: "1 blocks are not closed", make: body(0x02, wasmtest.Void)},
		{name: "instruction cut off", say: "too early", make: func(m *wasmtest.Module) {
			m.FuncRaw("", m.Type(nil, nil),
				[]byte{0, 0xfd})
		}},
		{name: "too many locals", say: "50000 locals", make: func(m *wasmtest.Module) {
			m.FuncRaw("", m.Type(nil, nil), []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, wasmtest.I32, 0x0b})
		}},
		{name: "too deep", say: "nested blocks", make: func(m *wasmtest.Module) {
			m.Func("", nil, nil, nil, wasmtest.Asm().Op(bytes.Repeat([]byte{0x02, wasmtest.Void}, nestingMax+1)...))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module := c.raw
			if c.make != nil && c.raw == nil {
				var m wasmtest.Module
				c.make(&m)
				module = m.Bytes()
			}
			_, err := Inspect(module)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.say) {
				t.Errorf("%v\nwant it to say %q", err, c.say)
			}
		})
	}
}

// TestReferencesInConstants: what refers to a function once for each instance is accepted.
func TestReferencesInConstants(t *testing.T) {
	var m wasmtest.Module
	m.Table(wasmtest.Funcref, 1, 1)
	m.Global(wasmtest.Funcref, false, wasmtest.Asm().Op(0xd2, 0))
	m.Elements(0, 0)
	m.Func("f", nil, []byte{wasmtest.Funcref}, nil, wasmtest.Asm().GlobalGet(0))
	g := startMetered(t, newRuntime(t), m.Bytes(), Options{})
	g.arm(budget, Options{})
	if got, err := g.call("f"); err != nil || got[0] == 0 {
		t.Errorf("%v, %v", got, err)
	}
}

// TestAccepted has modules that are rare and right.
func TestAccepted(t *testing.T) {
	for name, make := range map[string]func(m *wasmtest.Module){
		"a table's export": func(m *wasmtest.Module) {
			m.Table(wasmtest.Funcref, 1, 1)
			m.Table(wasmtest.Externref, 1, 1)
			m.Export("t", 1, 1)
		},
		"no reference": func(m *wasmtest.Module) {
			m.Global(wasmtest.Externref, true, wasmtest.Asm().Op(0xd0, wasmtest.Externref))
		},
		"constants": func(m *wasmtest.Module) {
			rest := bytes.Repeat([]byte{0xff}, 16)
			m.Global(wasmtest.V128, false, wasmtest.Asm().Vec(0x0c, rest...))
			m.Func("f", nil, nil, nil, wasmtest.Asm().Op(0x43).Op(rest[:4]...).Op(0x44).Op(rest[:8]...).Vec(0x0c, rest...).
				Op(wasmtest.Drop, wasmtest.Drop, wasmtest.Drop))
		},
	} {
		var m wasmtest.Module
		make(&m)
		start(t, newRuntime(t), m.Bytes())
		info, err := Inspect(m.Bytes())
		if err != nil || len(info.Exports) > 0 && info.Exports[0].Kind == ExternTable && info.Exports[0].Index != 1 {
			t.Errorf("%s: %+v, %v", name, info, err)
			continue
		}
		startMetered(t, newRuntime(t), m.Bytes(), Options{})
	}
	none := append(wasmtest.Preamble(), wasmtest.Section(wasmtest.SecMemory, []byte{0})...)
	if info, err := Inspect(none); err != nil || info.HasMemory {
		t.Errorf("no memory at all: %+v, %v", info, err)
	}
}

// TestSegments bounds what there is of each kind in all, since one byte of a file makes many of the engine's memory.
func TestSegments(t *testing.T) {
	with := func(segments, each, data, customs int) []byte {
		var m wasmtest.Module
		m.Func("f", nil, nil, nil, wasmtest.Asm())
		for range segments {
			m.PassiveElements(make([]uint32, each)...)
		}
		for range data {
			m.PassiveData(nil)
		}
		for range customs {
			m.Custom("", nil)
		}
		return m.Bytes()
	}
	for _, c := range []struct {
		say        string
		most, over []byte
	}{
		{"more than 200000 elements and element segments", with(2, elementsMax/2-1, 0, 0), with(2, elementsMax/2, 0, 0)},
		{"200001 elements, at most 200000", with(1, elementsMax-1, 0, 0), with(1, elementsMax+1, 0, 0)},
		{"200001 element segments, at most 200000", with(elementsMax, 0, 0, 0), with(elementsMax+1, 0, 0, 0)},
		{"100001 data segments, at most 100000", with(0, 0, dataMax, 0), with(0, 0, dataMax+1, 0)},
		{"more than 10000 custom sections", with(0, 0, 0, customsMax), with(0, 0, 0, customsMax+1)},
	} {
		if _, err := Inspect(c.most); err != nil {
			t.Errorf("at the bound: %v", err)
		}
		if _, err := Inspect(c.over); err == nil || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%v, want it to say %q", err, c.say)
		}
	}
}

// TestTruncated cuts and damages a real module at every byte: no panic, and
// nothing cut short is accepted except where a section ends.
func TestTruncated(t *testing.T) {
	module := randomModule(randomBytes(3))
	for i := range module {
		damaged := bytes.Clone(module)
		damaged[i] ^= 0x55
		Rewrite(module[:i], Options{})
		Rewrite(damaged, Options{})
	}
}
