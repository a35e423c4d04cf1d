// Package wasmtest assembles WebAssembly modules in tests: hand-made guests,
// hostile ones, and malformed ones. It writes what it is told and checks
// nothing, so that it can make what no compiler would.
//
// A Module collects declarations in any order of calls, except that imported
// functions come before defined ones. Bytes encodes it. Code builds one
// function body.
package wasmtest

import "encoding/binary"

// Value types.
const (
	I32       byte = 0x7f
	I64       byte = 0x7e
	F32       byte = 0x7d
	F64       byte = 0x7c
	V128      byte = 0x7b
	Funcref   byte = 0x70
	Externref byte = 0x6f
)

// Void is the block type of a block without parameters and results.
const Void byte = 0x40

// Section ids.
const (
	SecCustom    byte = 0
	SecType      byte = 1
	SecImport    byte = 2
	SecFunction  byte = 3
	SecTable     byte = 4
	SecMemory    byte = 5
	SecGlobal    byte = 6
	SecExport    byte = 7
	SecStart     byte = 8
	SecElement   byte = 9
	SecCode      byte = 10
	SecData      byte = 11
	SecDataCount byte = 12
	SecTag       byte = 13
)

// Kinds of imports and exports.
const (
	KindFunc   byte = 0
	KindTable  byte = 1
	KindMemory byte = 2
	KindGlobal byte = 3
)

// vec is a vector section under construction.
type vec struct {
	n     uint32
	items []byte
}

func (v *vec) add(item ...byte) uint32 {
	v.items = append(v.items, item...)
	v.n++
	return v.n - 1
}

// Module is a module under construction. The zero value is empty.
type Module struct {
	types, imports, functions, tables, memories, globals, exports, elements, code, data vec

	start     []byte
	dataCount bool
	customs   []byte
}

// Types makes a list of value types.
func Types(t ...byte) []byte { return t }

// Type adds a function type and returns its index.
func (m *Module) Type(params, results []byte) uint32 {
	return m.types.add(vector(vector([]byte{0x60}, params), results)...)
}

// Import adds an imported function and returns its index.
func (m *Module) Import(module, name string, params, results []byte) uint32 {
	item := append(text(text(nil, module), name), KindFunc)
	return m.imports.add(U32(item, m.Type(params, results))...)
}

// ImportRaw adds an import whose description, kind byte included, is desc.
func (m *Module) ImportRaw(module, name string, desc ...byte) {
	m.imports.add(append(text(text(nil, module), name), desc...)...)
}

// Func adds a function and exports it unless export is empty. locals are the
// types of its locals beyond the parameters. The final end is added here.
func (m *Module) Func(export string, params, results, locals []byte, c *Code) uint32 {
	return m.FuncRaw(export, m.Type(params, results), append(localDecls(locals), append(c.b, 0x0b)...))
}

// FuncRaw adds a function of a type with a body given as bytes: declarations
// of locals, instructions and end.
func (m *Module) FuncRaw(export string, typ uint32, body []byte) uint32 {
	i := m.imports.n + m.functions.add(U32(nil, typ)...)
	m.code.add(vector(nil, body)...)
	if export != "" {
		m.Export(export, KindFunc, i)
	}
	return i
}

func localDecls(types []byte) []byte {
	b := U32(nil, uint32(len(types)))
	for _, t := range types {
		b = append(b, 1, t)
	}
	return b
}

// Export adds an export.
func (m *Module) Export(name string, kind byte, index uint32) {
	m.exports.add(U32(append(text(nil, name), kind), index)...)
}

// Memory adds a memory and exports it as "memory". A negative max means none.
func (m *Module) Memory(low, high int) {
	i := m.memories.add(limits(nil, low, high)...)
	if i == 0 {
		m.Export("memory", KindMemory, 0)
	}
}

// MemoryRaw adds a memory with limits given as bytes.
func (m *Module) MemoryRaw(limits ...byte) { m.memories.add(limits...) }

// Table adds a table. A negative max means none.
func (m *Module) Table(elem byte, low, high int) uint32 {
	return m.tables.add(limits([]byte{elem}, low, high)...)
}

func limits(b []byte, low, high int) []byte {
	if high < 0 {
		return U32(append(b, 0), uint32(low))
	}
	return U32(U32(append(b, 1), uint32(low)), uint32(high))
}

// Global adds a global with an initial value and returns its index.
func (m *Module) Global(typ byte, mutable bool, init *Code) uint32 {
	mut := byte(0)
	if mutable {
		mut = 1
	}
	return m.globals.add(append(append([]byte{typ, mut}, init.b...), 0x0b)...)
}

// Start names the start function.
func (m *Module) Start(fn uint32) { m.start = U32(nil, fn) }

// Elements adds an active segment of functions to table 0.
func (m *Module) Elements(offset int, fns ...uint32) uint32 {
	b := append(I32Const(int32(offset)).b, 0x0b)
	b = U32(append([]byte{0}, b...), uint32(len(fns)))
	for _, f := range fns {
		b = U32(b, f)
	}
	return m.elements.add(b...)
}

// PassiveElements adds a passive segment of functions.
func (m *Module) PassiveElements(fns ...uint32) uint32 {
	b := U32([]byte{1, 0}, uint32(len(fns)))
	for _, f := range fns {
		b = U32(b, f)
	}
	return m.elements.add(b...)
}

// Data adds an active data segment.
func (m *Module) Data(offset int, content []byte) uint32 {
	b := append([]byte{0}, I32Const(int32(offset)).b...)
	return m.data.add(vector(append(b, 0x0b), content)...)
}

// PassiveData adds a passive data segment, and the section that announces the
// number of segments.
func (m *Module) PassiveData(content []byte) uint32 {
	m.dataCount = true
	return m.data.add(vector([]byte{1}, content)...)
}

// Custom adds a custom section at the end.
func (m *Module) Custom(name string, content []byte) {
	m.customs = append(m.customs, Section(SecCustom, append(text(nil, name), content...))...)
}

// Bytes encodes the module.
func (m *Module) Bytes() []byte {
	b := Preamble()
	section := func(id byte, v vec) {
		if v.n > 0 {
			b = append(b, Section(id, append(U32(nil, v.n), v.items...))...)
		}
	}
	section(SecType, m.types)
	section(SecImport, m.imports)
	section(SecFunction, m.functions)
	section(SecTable, m.tables)
	section(SecMemory, m.memories)
	section(SecGlobal, m.globals)
	section(SecExport, m.exports)
	if m.start != nil {
		b = append(b, Section(SecStart, m.start)...)
	}
	section(SecElement, m.elements)
	if m.dataCount {
		b = append(b, Section(SecDataCount, U32(nil, m.data.n))...)
	}
	section(SecCode, m.code)
	section(SecData, m.data)
	return append(b, m.customs...)
}

// Preamble returns the first eight bytes of every module.
func Preamble() []byte { return []byte("\x00asm\x01\x00\x00\x00") }

// Section encodes one section.
func Section(id byte, content []byte) []byte { return vector([]byte{id}, content) }

// U32 appends an unsigned number as the format encodes it.
func U32(b []byte, v uint32) []byte { return binary.AppendUvarint(b, uint64(v)) }

// S64 appends a signed number as the format encodes it.
func S64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if v == 0 && c&0x40 == 0 || v == -1 && c&0x40 != 0 {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func vector(b, content []byte) []byte {
	return append(U32(b, uint32(len(content))), content...)
}

func text(b []byte, s string) []byte { return vector(b, []byte(s)) }
