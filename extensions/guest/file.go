package guest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter"
)

// BytesMax bounds a module file.
const BytesMax = 8 << 20

// configBytesMax bounds an operator's configuration of a module.
const configBytesMax = 64 << 10

// File is a module file that was parsed. Nothing of it has run.
type File struct {
	Manifest Manifest

	wasm []byte
	info *meter.Info
}

// CheckSize refuses a file that is too large to be looked at.
func CheckSize(wasm []byte) error {
	if len(wasm) > BytesMax {
		return Refused("size", "strip debug information and unused code", "the file has %d bytes, at most %d", len(wasm), BytesMax)
	}
	return nil
}

// Config is an operator's configuration as a module gets it: a JSON object
// without white space between its tokens, nil for one that says nothing.
func Config(text []byte) ([]byte, error) {
	var b bytes.Buffer
	err := json.Compact(&b, text)
	switch config := b.Bytes(); {
	case len(bytes.TrimSpace(text)) == 0, err == nil && (string(config) == "null" || string(config) == "{}"):
		return nil, nil
	case err != nil:
		return nil, Refused("init", "correct the configuration", "the configuration is no JSON: %w", err)
	case config[0] != '{':
		return nil, Refused("init", "correct the configuration", "the configuration is no JSON object")
	case len(config) > configBytesMax:
		return nil, Refused("size", "shorten it", "the configuration has %d bytes, at most %d", len(config), configBytesMax)
	default:
		return config, nil
	}
}

// Read parses a file and its manifest. The error is a *LoadError.
func Read(wasm []byte) (*File, error) {
	info, err := meter.Inspect(wasm)
	if err != nil {
		return nil, refusedByMeter("parse", err)
	}
	m, err := readManifest(info.CustomSection(ManifestSection))
	if err != nil {
		return nil, err
	}
	return &File{Manifest: m, wasm: wasm, info: info}, nil
}

// ReadManifest is the manifest of a file whose code is known to be good: it is not looked at. The error is a *LoadError.
func ReadManifest(wasm []byte) (Manifest, error) {
	section, n, err := meter.CustomSection(wasm, ManifestSection)
	if err != nil {
		return Manifest{}, refusedByMeter("parse", err)
	}
	return readManifest(section, n)
}

func readManifest(section []byte, n int) (Manifest, error) {
	if n != 1 {
		return Manifest{}, Refused("manifest", "add it with: corenode module pack", "the file has %d custom sections %q, want one",
			n, ManifestSection)
	}
	m, err := ParseManifest(section)
	if err != nil {
		return Manifest{}, Refused("manifest", fixManifest, "%w", err)
	}
	return m, nil
}

// Vectors are the golden vectors as they are in the file; nil without.
func (f *File) Vectors() ([]byte, error) {
	section, n := f.info.CustomSection(VectorsSection)
	if n > 1 {
		return nil, Refused("vectors", "put all vectors into one array", "the file has %d custom sections %q", n, VectorsSection)
	}
	return section, nil
}

// Note is what an operator should know though the file is accepted: "" is nothing.
func (f *File) Note() string {
	if ok, why := f.info.Resettable(); !ok {
		return why + ": a new instance is made for each change of account"
	}
	return ""
}

// Check refuses what a module may not import, must export, or may not compute
// with. The error is a *LoadError.
func (f *File) Check() error {
	for _, rule := range []func(*meter.Info, *Manifest) error{checkImports, checkExports, checkFloats} {
		if err := rule(f.info, &f.Manifest); err != nil {
			return err
		}
	}
	return nil
}

// checkFloats keeps floats away from money and admission. Go's runtime always
// contains some, whatever the module does.
func checkFloats(info *meter.Info, m *Manifest) error {
	mayFloat := m.Kind != KindBilling && m.Kind != KindAdmission || m.Runtime == RuntimeGo
	if info.Float == nil || mayFloat {
		return nil
	}
	where := fmt.Sprintf("%s at byte %#x", info.Float.What, info.Float.Offset)
	if info.Float.Func >= 0 {
		where = fmt.Sprintf("%s in function %d at byte %#x", info.Float.What, info.Float.Func, info.Float.Offset)
	}
	return Refused("floats", "compute in integers, money in nano-dollars",
		"modules of kind %s must not use floats; the first is %s", m.Kind, where)
}

// wanted are the exports of the ABI with their types: i = i32, I = i64.
var exportsWanted = []struct{ name, params, results string }{
	{"abi", "", "i"}, {"buf", "i", "i"}, {"init", "i", "I"}, {"call", "ii", "I"},
}

func checkExports(info *meter.Info, m *Manifest) error {
	for _, w := range exportsWanted {
		e := info.Export(w.name)
		if e == nil || e.Kind != meter.ExternFunc || letters(e.Params) != w.params || letters(e.Results) != w.results {
			return Refused("exports", "export abi() i32, buf(i32) i32, init(i32) i64 and call(i32, i32) i64",
				"it exports no function %s with the types of the ABI", w.name)
		}
	}
	if e := info.Export("memory"); e == nil || e.Kind != meter.ExternMemory {
		return Refused("exports", `export its memory as "memory"`, "it exports no memory")
	}
	if need := int64(info.MemoryMin) * pageBytes; need > m.memoryBytesMax() {
		return Refused("memory", "link it with less initial memory, or raise memory_max_bytes in the manifest",
			"it begins with %d bytes of memory and may have %d", need, m.memoryBytesMax())
	}
	if e := info.Export("_initialize"); e != nil && (e.Kind != meter.ExternFunc || len(e.Params)+len(e.Results) > 0) {
		return Refused("exports", "build it as a reactor", "its _initialize is no function without arguments")
	}
	return nil
}

func letters(types []meter.ValType) string {
	var s []byte
	for _, t := range types {
		switch byte(t) {
		case api.ValueTypeI32:
			s = append(s, 'i')
		case api.ValueTypeI64:
			s = append(s, 'I')
		default:
			s = append(s, '?')
		}
	}
	return string(s)
}
