package meter

import "fmt"

// ValType is a value type as the binary format writes it.
type ValType byte

// String names the type as the text format does.
func (t ValType) String() string {
	switch t {
	case typeI32:
		return "i32"
	case typeI64:
		return "i64"
	case typeF32:
		return "f32"
	case typeF64:
		return "f64"
	case typeV128:
		return "v128"
	case typeFuncref:
		return "funcref"
	case typeExternref:
		return "externref"
	}
	return fmt.Sprintf("type %#02x", byte(t))
}

func valTypes(b []byte) []ValType {
	all := make([]ValType, len(b))
	for i, c := range b {
		all[i] = ValType(c)
	}
	return all
}

// ExternKind says what an export is.
type ExternKind byte

// The kinds, as the binary format numbers them.
const (
	ExternFunc ExternKind = iota
	ExternTable
	ExternMemory
	ExternGlobal
)

// Import is an imported function; nothing else may be imported.
type Import struct {
	Module, Name    string
	Params, Results []ValType
}

// Export is one export. Params and Results are set for functions only.
type Export struct {
	Name            string
	Kind            ExternKind
	Index           uint32
	Params, Results []ValType
}

// Custom is one custom section. Data aliases the module.
type Custom struct {
	Name string
	Data []byte
}

// FloatUse is a place where a module uses floats.
type FloatUse struct {
	Func   int    // function index, -1 outside functions
	Offset int    // in bytes from the start of the module
	What   string // "a local", "instruction 0x92" and the like
}

// Global is a mutable global of the module itself and the name under which
// the metered module exports it.
type Global struct {
	Index  uint32
	Type   ValType
	Export string
}

// Info is what a module holds. It aliases the module's bytes.
type Info struct {
	Imports []Import
	Exports []Export
	Custom  []Custom
	Start   bool // has a start function, which runs on instantiation

	HasMemory     bool
	MemoryMin     uint32 // in pages of 64 KiB
	MemoryMax     uint32 // as declared; the cap is not in it
	MemoryBounded bool   // a maximum is declared

	Float *FloatUse // the first use, nil if there is none

	// MutableGlobals can be read and set through the exports of the metered
	// module.
	MutableGlobals []Global
	// MutatesTables says that an instruction changes tables, DropsSegments
	// that one drops a data or element segment. See Resettable.
	MutatesTables, DropsSegments bool
}

// Resettable says whether an instance is as it was when its memory and
// MutableGlobals are set back, or else why not.
func (i *Info) Resettable() (ok bool, why string) {
	if i.MutatesTables {
		return false, "the module changes tables"
	}
	if i.DropsSegments {
		return false, "the module drops data or element segments"
	}
	for _, g := range i.MutableGlobals {
		if g.Type == typeV128 {
			return false, fmt.Sprintf("global %d is a v128, which hosts cannot set", g.Index)
		}
	}
	return true, ""
}

// CustomSection returns the first custom section of that name, and how many
// there are.
func (i *Info) CustomSection(name string) (data []byte, n int) {
	for _, c := range i.Custom {
		if c.Name != name {
			continue
		}
		if n++; n == 1 {
			data = c.Data
		}
	}
	return data, n
}

// Export returns the export of that name, or nil.
func (i *Info) Export(name string) *Export {
	for k := range i.Exports {
		if i.Exports[k].Name == name {
			return &i.Exports[k]
		}
	}
	return nil
}

func (m *module) info() *Info {
	i := &Info{
		Imports: m.imports, Exports: m.exports, Custom: m.customs, Start: m.start,
		HasMemory: m.memory.present, MemoryMin: m.memory.min, MemoryMax: m.memory.max, MemoryBounded: m.memory.bounded,
		Float: m.float, MutatesTables: m.mutatesTables, DropsSegments: m.dropsSegments,
	}
	for k, g := range m.globals {
		if g.mutable {
			i.MutableGlobals = append(i.MutableGlobals, Global{Index: uint32(k), Type: ValType(g.typ), Export: globalExport(k)})
		}
	}
	return i
}

// globalExport names the export of one of the module's own globals.
func globalExport(index int) string { return fmt.Sprintf("%sg%d", Prefix, index) }
