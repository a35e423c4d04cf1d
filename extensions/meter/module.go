package meter

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Section ids of the binary format.
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	secTag       = 13
)

var sectionNames = [...]string{"custom", "type", "import", "function", "table", "memory", "global",
	"export", "start", "element", "code", "data", "data count", "tag"}

// sectionOrder is the order in which sections other than custom ones appear.
var sectionOrder = []int{secType, secImport, secFunction, secTable, secMemory, secGlobal,
	secExport, secStart, secElement, secDataCount, secCode, secData}

var preamble = []byte("\x00asm\x01\x00\x00\x00")

// module is a parsed module. Everything in it is checked as far as the
// rewriter relies on it: all indices exist, all counts are true. Types of
// operands are left to the engine, which checks the rewritten module.
type module struct {
	b        []byte
	metered  bool                     // names that begin with Prefix are its own
	sections [secDataCount + 1][]byte // contents, nil when absent
	offsets  [secDataCount + 1]int    // where the contents begin

	types         []funcType
	imports       []Import
	functionTypes []uint32 // of all functions, the imported ones first
	tables        []table
	memory        memory
	globals       []global
	exports       []Export
	start         bool
	startIndex    uint32 // of the start function
	elemCount     int
	elements      int             // of all segments, and the segments
	dataCount     int             // from the data count section
	addressable   map[uint32]bool // functions that a table or a reference can hold
	bodies        []body
	customs       []Custom

	localsTotal   int
	edges         []uint32 // of the call graph, see graph.go
	float         *FloatUse
	mutatesTables bool
	dropsSegments bool
}

type funcType struct{ params, results []byte }

type table struct {
	elem     byte
	min, max uint32
	bounded  bool // max is given
}

type memory struct {
	present  bool
	min, max uint32
	bounded  bool
}

type global struct {
	typ     byte
	mutable bool
}

func (m *module) functionCount() int { return len(m.functionTypes) }

func (m *module) importedFunctions() int { return len(m.imports) }

func parse(b []byte) (*module, error) {
	return parseInto(&module{b: b, addressable: map[uint32]bool{}})
}

// parseMetered parses what Rewrite gave.
func parseMetered(b []byte) (*module, error) {
	return parseInto(&module{b: b, addressable: map[uint32]bool{}, metered: true})
}

func parseInto(m *module) (*module, error) {
	b := m.b
	r := &reader{b: b, end: len(b), fn: -1}
	if len(b) < len(preamble) || !bytes.Equal(b[:4], preamble[:4]) {
		return nil, &Error{Func: -1, Msg: "not a WebAssembly module", Fix: fixRebuild}
	}
	if !bytes.Equal(b[:8], preamble) {
		return nil, &Error{Func: -1, Offset: 4, Msg: "not version 1 of the module format",
			Fix: "components are not accepted: give the core module inside"}
	}
	r.pos = len(preamble)
	order := sectionOrder
	for !r.done() {
		order = m.section(r, order)
	}
	if r.err == nil {
		m.checkWhole(r)
	}
	if r.err != nil {
		return nil, r.err
	}
	return m, nil
}

// section parses one section and returns which may follow.
func (m *module) section(r *reader, order []int) []int {
	at := r.pos
	id := int(r.u8())
	size := r.u32()
	content := r.pos
	raw := r.skip(int(size))
	if r.err != nil {
		return order
	}
	if id > secDataCount {
		what := "unknown section %d"
		if id == secTag {
			what = "section %d is of exception handling, which is not accepted"
		}
		r.fail(at, fixTarget, what, id)
		return order
	}
	if id != secCustom {
		for len(order) > 0 && order[0] != id {
			order = order[1:]
		}
		if len(order) == 0 {
			r.fail(at, fixRebuild, "%s section occurs twice or too late", sectionNames[id])
			return order
		}
		order = order[1:]
		m.sections[id], m.offsets[id] = raw, content
	}
	s := &reader{b: m.b, pos: content, end: r.pos, section: sectionNames[id], fn: -1}
	m.content(s, id)
	if s.err == nil && !s.done() {
		s.fail(s.pos, fixRebuild, "%d bytes too many", s.end-s.pos)
	}
	if s.err != nil {
		r.err, r.pos = s.err, r.end
	}
	return order
}

func (m *module) content(r *reader, id int) {
	switch id {
	case secCustom:
		m.custom(r)
	case secType:
		m.typeSection(r)
	case secImport:
		m.importSection(r)
	case secFunction:
		for n := r.count("functions", functionsMax, 1); n > 0; n-- {
			m.functionTypes = append(m.functionTypes, m.index(r, "type", len(m.types)))
		}
	case secTable:
		m.tableSection(r)
	case secMemory:
		m.memorySection(r)
	case secGlobal:
		m.globalSection(r)
	case secExport:
		m.exportSection(r)
	case secStart:
		m.start = true
		at := r.pos
		m.startIndex = m.index(r, "function", m.functionCount())
		if r.err == nil {
			if t := m.types[m.functionTypes[m.startIndex]]; len(t.params)+len(t.results) > 0 {
				r.fail(at, fixRebuild, "the start function %d takes or gives values", m.startIndex)
			}
		}
	case secElement:
		m.elemCount = r.count("element segments", elementsMax, 3)
		m.elements = m.elemCount
		for n := m.elemCount; n > 0 && r.err == nil; n-- {
			m.element(r)
		}
	case secDataCount:
		m.dataCount = int(r.u32())
	case secCode:
		m.codeSection(r)
	case secData:
		m.dataSection(r)
	}
}

// checkWhole checks what spans sections.
func (m *module) checkWhole(r *reader) {
	if defined := m.functionCount() - m.importedFunctions(); defined != len(m.bodies) {
		r.fail(len(m.b), fixRebuild, "%d functions are declared and %d have code", defined, len(m.bodies))
	}
	if m.sections[secDataCount] != nil && m.sections[secData] == nil && m.dataCount != 0 {
		r.fail(len(m.b), fixRebuild, "%d data segments are announced and none is there", m.dataCount)
	}
}

func (m *module) custom(r *reader) {
	if len(m.customs) >= customsMax {
		r.fail(r.pos, "strip them", "more than %d custom sections", customsMax)
	}
	name := r.name()
	m.customs = append(m.customs, Custom{Name: name, Data: r.skip(r.end - r.pos)})
}

// name reads a UTF-8 string.
func (r *reader) name() string {
	at := r.pos
	s := r.skip(int(r.u32()))
	if !utf8.Valid(s) {
		r.fail(at, fixRebuild, "a name is not UTF-8")
	}
	return string(s)
}

func (m *module) typeSection(r *reader) {
	for n := r.count("types", typesMax, 3); n > 0 && r.err == nil; n-- {
		at := r.pos
		if form := r.u8(); form != 0x60 {
			r.fail(at, fixTarget, "type form %#02x is not a function", form)
		}
		t := funcType{params: r.valueTypes("parameters"), results: r.valueTypes("results")}
		m.types = append(m.types, t)
		if bytes.ContainsFunc(t.params, isFloatRune) || bytes.ContainsFunc(t.results, isFloatRune) {
			m.noteFloat(-1, at, "a function type")
		}
	}
}

// isFloatRune is for ContainsFunc: value types are below 0x80 and so are runes.
func isFloatRune(c rune) bool { return c == typeF32 || c == typeF64 }

func (r *reader) valueTypes(what string) []byte {
	n := r.count(what, signatureMax, 1)
	at := r.pos
	for range n {
		r.valueType()
	}
	if r.err != nil {
		return nil
	}
	return r.b[at:r.pos:r.pos]
}

func (m *module) importSection(r *reader) {
	for n := r.count("imports", functionsMax, 4); n > 0 && r.err == nil; n-- {
		imp := Import{Module: r.name(), Name: r.name()}
		at := r.pos
		switch kind := r.u8(); kind {
		case 0:
			t := m.index(r, "type", len(m.types))
			if r.err != nil {
				return
			}
			imp.Params, imp.Results = valTypes(m.types[t].params), valTypes(m.types[t].results)
			m.imports = append(m.imports, imp)
			m.functionTypes = append(m.functionTypes, t)
		case 1, 2, 3, 4:
			what := [...]string{"", "table", "memory", "global", "tag"}[kind]
			r.fail(at, fixNoImports, "imports the %s %q from %q", what, imp.Name, imp.Module)
		default:
			r.fail(at, fixRebuild, "unknown kind of import %#02x", kind)
		}
	}
}

// limits reads a minimum and an optional maximum.
func (r *reader) limits() (low, high uint32, bounded bool) {
	at := r.pos
	switch flags := r.u8(); flags {
	case 0:
		return r.u32(), 0, false
	case 1:
		low, high = r.u32(), r.u32()
		if high < low {
			r.fail(at, fixRebuild, "a maximum of %d is below the minimum of %d", high, low)
		}
		return low, high, true
	case 2, 3:
		r.fail(at, fixTarget, "shared memory is of threads, which are not accepted")
	case 4, 5, 6, 7:
		r.fail(at, fixTarget, "64-bit memories and tables are not accepted")
	default:
		r.fail(at, fixRebuild, "unknown limits %#02x", flags)
	}
	return 0, 0, false
}

func (m *module) tableSection(r *reader) {
	for n := r.count("tables", tablesMax, 3); n > 0 && r.err == nil; n-- {
		t := table{elem: r.refType()}
		t.min, t.max, t.bounded = r.limits()
		m.tables = append(m.tables, t)
	}
}

func (m *module) memorySection(r *reader) {
	at := r.pos
	n := r.count("memories", 1<<30, 2)
	if n > 1 {
		r.fail(at, fixTarget, "%d memories, at most one is accepted", n)
	}
	if n != 1 {
		return
	}
	at = r.pos
	m.memory.present = true
	m.memory.min, m.memory.max, m.memory.bounded = r.limits()
	if m.memory.min > pagesMax || m.memory.max > pagesMax {
		r.fail(at, fixRebuild, "memory of more than %d pages", pagesMax)
	}
}

func (m *module) globalSection(r *reader) {
	for n := r.count("globals", globalsMax, 4); n > 0 && r.err == nil; n-- {
		at := r.pos
		g := global{typ: r.valueType()}
		if isFloatType(g.typ) {
			m.noteFloat(-1, at, "a global")
		}
		switch mut := r.u8(); mut {
		case 0, 1:
			g.mutable = mut == 1
		default:
			r.fail(at+1, fixRebuild, "unknown mutability %#02x", mut)
		}
		m.constant(r)
		m.globals = append(m.globals, g)
	}
}

// constant reads a constant expression: one instruction and its end.
func (m *module) constant(r *reader) {
	var in instr
	m.next(r, &in)
	if r.err != nil {
		return
	}
	switch {
	case in.op >= opI32Const && in.op <= 0x44, in.op == opRefNull, in.op == opVec && in.sub == 0x0c:
	case in.op == opRefFunc:
		m.addressable[in.index] = true
	default:
		r.fail(in.at, fixTarget, "instruction %#02x in a constant expression", in.op)
	}
	if r.u8() != opEnd {
		r.fail(r.pos, fixTarget, "a constant expression of more than one instruction")
	}
}

func (m *module) exportSection(r *reader) {
	seen := map[string]bool{}
	for n := r.count("exports", functionsMax, 3); n > 0 && r.err == nil; n-- {
		at := r.pos
		e := Export{Name: r.name(), Kind: ExternKind(r.u8())}
		switch e.Kind {
		case ExternFunc:
			e.Index = m.index(r, "function", m.functionCount())
			if r.err == nil {
				t := m.types[m.functionTypes[e.Index]]
				e.Params, e.Results = valTypes(t.params), valTypes(t.results)
			}
		case ExternTable:
			e.Index = m.index(r, "table", len(m.tables))
		case ExternMemory:
			if r.u32() != 0 || !m.memory.present {
				r.fail(at, fixRebuild, "export %q is of a memory that does not exist", e.Name)
			}
		case ExternGlobal:
			e.Index = m.index(r, "global", len(m.globals))
		default:
			r.fail(at, fixTarget, "export %q is of the unknown kind %d", e.Name, e.Kind)
		}
		if seen[e.Name] {
			r.fail(at, fixRebuild, "export %q occurs twice", e.Name)
		}
		if !m.metered && strings.HasPrefix(e.Name, Prefix) {
			r.fail(at, "rename it", "export %q: names that begin with %q are reserved", e.Name, Prefix)
		}
		seen[e.Name] = true
		m.exports = append(m.exports, e)
	}
}

// element reads an element segment. Its flags: bit 0 passive or declarative,
// bit 1 an explicit table or declarative, bit 2 expressions and not indices.
func (m *module) element(r *reader) {
	at := r.pos
	flags := r.u32()
	if flags > 7 {
		r.fail(at, fixRebuild, "unknown element segment %#02x", flags)
		return
	}
	active, explicit, exprs := flags&1 == 0, flags&2 != 0, flags&4 != 0
	if active {
		if explicit {
			m.index(r, "table", len(m.tables))
		} else if len(m.tables) == 0 {
			r.fail(at, fixRebuild, "an element segment, but no table")
		}
		m.constant(r)
	}
	if !active || explicit {
		if exprs {
			r.refType()
		} else if kind := r.u8(); kind != 0 {
			r.fail(r.pos, fixRebuild, "unknown element kind %#02x", kind)
		}
	}
	at = r.pos
	n := r.count("elements", elementsMax, 1)
	if m.elements += n; m.elements > elementsMax {
		r.fail(at, fixSmaller, "more than %d elements and element segments in all", elementsMax)
	}
	for ; n > 0 && r.err == nil; n-- {
		if exprs {
			m.constant(r)
		} else {
			m.addressable[m.index(r, "function", m.functionCount())] = true
		}
	}
}

func (m *module) dataSection(r *reader) {
	at := r.pos
	n := r.count("data segments", dataMax, 2)
	if m.sections[secDataCount] != nil && n != m.dataCount {
		r.fail(at, fixRebuild, "%d data segments, but %d are announced", n, m.dataCount)
	}
	for m.dataCount = n; n > 0 && r.err == nil; n-- {
		at := r.pos
		flags := r.u32()
		if flags > 2 || flags == 2 && r.u32() != 0 {
			r.fail(at, fixTarget, "a data segment of an unknown kind or of another memory than the first")
		}
		if flags != 1 {
			if !m.memory.present {
				r.fail(at, "declare a memory", "a data segment, but the module has no memory")
			}
			m.constant(r)
		}
		r.skip(int(r.u32()))
	}
}

// noteFloat remembers the first use of floats, in a function if there is one:
// that is where an author can find it.
func (m *module) noteFloat(fn, at int, what string) {
	if m.float == nil || m.float.Func < 0 && fn >= 0 {
		m.float = &FloatUse{Func: fn, Offset: at, What: what}
	}
}

// checkCaps compares what a module needs at least with what it may have.
func (m *module) checkCaps(o Options) error {
	if m.memory.min > o.MemoryPagesMax {
		return &Error{Section: "memory", Func: -1, Offset: m.offsets[secMemory],
			Msg: fmt.Sprintf("needs at least %d pages of memory, at most %d are allowed", m.memory.min,
				o.MemoryPagesMax), Fix: "link with a smaller initial memory and stack, or raise the module's memory limit"}
	}
	for _, t := range m.tables {
		if t.min > o.TableEntriesMax {
			return &Error{Section: "table", Func: -1, Offset: m.offsets[secTable],
				Msg: fmt.Sprintf("needs a table of at least %d entries, at most %d are allowed", t.min, o.TableEntriesMax), Fix: fixSmaller}
		}
	}
	return nil
}
