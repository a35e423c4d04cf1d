package meter

import (
	"bytes"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

func TestWithCustomSection(t *testing.T) {
	var m wasmtest.Module
	m.Custom("other", []byte("kept"))
	m.Custom("corenode.manifest", []byte("old"))
	m.Custom("corenode.manifest", []byte("older"))
	m.Func("f", nil, nil, nil, wasmtest.Asm())
	first := m.Bytes()

	attach := func(b []byte, name, payload string) []byte {
		t.Helper()
		out, err := WithCustomSection(b, name, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	one := attach(first, "corenode.manifest", "new")
	if again := attach(one, "corenode.manifest", "new"); !bytes.Equal(one, again) {
		t.Error("attaching twice changes the module")
	}
	both := attach(one, "corenode.vectors", "[]")
	if other := attach(attach(both, "corenode.manifest", "x"), "corenode.vectors", "[]"); !bytes.Equal(other,
		attach(attach(one, "corenode.manifest", "x"), "corenode.vectors", "[]")) {
		t.Error("replacing one and then the other gives different modules")
	}
	info, err := Inspect(both)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"other": "kept", "corenode.manifest": "new", "corenode.vectors": "[]"} {
		if got, n := info.CustomSection(name); n != 1 || string(got) != want {
			t.Errorf("%s: %d sections, the first %q, want %q", name, n, got, want)
		}
		if got, n, err := CustomSection(both, name); err != nil || n != 1 || string(got) != want {
			t.Errorf("%s, sections alone: %d, the first %q, want %q, %v", name, n, got, want, err)
		}
	}
	if got, n, err := CustomSection(first, "corenode.manifest"); err != nil || n != 2 || string(got) != "old" {
		t.Errorf("%d sections, the first %q, %v", n, got, err)
	}
	if _, n, err := CustomSection(both, "absent"); n != 0 || err != nil {
		t.Errorf("%d absent sections are found, %v", n, err)
	}
	for _, broken := range [][]byte{nil, []byte("\x00asm"), both[1:], both[:len(both)-1]} {
		if _, _, err := CustomSection(broken, "corenode.vectors"); err == nil {
			t.Errorf("%d bytes that are no module have sections", len(broken))
		}
	}
	if _, n := info.CustomSection("absent"); n != 0 {
		t.Error("an absent section is found")
	}
	if info, _ := Inspect(first); info != nil {
		if _, n := info.CustomSection("corenode.manifest"); n != 2 {
			t.Errorf("%d manifests, want 2", n)
		}
	}
	if _, err := WithCustomSection([]byte("x"), "a", nil); err == nil {
		t.Error("a file that is no module gets a section")
	}
}

// TestNamesSurvive: traces of traps name functions, unless the names are
// malformed, in which case they are left out.
func TestNamesSurvive(t *testing.T) {
	for _, c := range []struct {
		names []byte
		kept  bool
	}{
		{[]byte{1, 5, 1, 0, 2, 'o', 'k'}, true},
		{[]byte{0, 2, 1, 'm', 1, 5, 1, 0, 2, 'o', 'k'}, true},
		{[]byte{1, 6, 0xff, 0xff, 0xff, 0xff, 0x0f, 0}, false},
		{[]byte{1, 9, 1, 0, 2, 'o', 'k'}, false},
		{[]byte{2, 1, 0}, false},
	} {
		var m wasmtest.Module
		m.Custom("name", c.names)
		m.Custom(".debug_line", []byte("offsets"))
		m.Func("f", nil, nil, nil, wasmtest.Asm())
		metered, _, err := Rewrite(m.Bytes(), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if kept := bytes.Contains(metered, []byte("\x02ok")); kept != c.kept {
			t.Errorf("% x: kept %v, want %v", c.names, kept, c.kept)
		}
		if bytes.Contains(metered, []byte(".debug_line")) {
			t.Error("debug offsets, which are wrong now, were kept")
		}
		start(t, newRuntime(t), metered)
	}
}

func TestInfo(t *testing.T) {
	var m wasmtest.Module
	m.Import("env", "log", []byte{wasmtest.I32, wasmtest.I64}, []byte{wasmtest.I32})
	m.Memory(2, 9)
	m.Table(wasmtest.Funcref, 1, 1)
	m.Data(0, []byte("12345"))
	m.Global(wasmtest.I64, true, wasmtest.Asm().I64(1))
	m.Func("f", []byte{wasmtest.I32}, nil, nil, wasmtest.Asm().I32(0).Op(0xd0, wasmtest.Funcref, 0x26, 0))
	m.Custom("a", []byte("b"))
	info, err := Inspect(m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(info.Imports) != 1 || info.Imports[0].Module != "env" || info.Imports[0].Name != "log" ||
		len(info.Imports[0].Params) != 2 || info.Imports[0].Params[1].String() != "i64" || info.Imports[0].Results[0].String() != "i32" {
		t.Errorf("imports %+v", info.Imports)
	}
	if e := info.Export("f"); e == nil || e.Kind != ExternFunc || e.Index != 1 || len(e.Params) != 1 {
		t.Errorf("export %+v", e)
	}
	if info.Export("g") != nil {
		t.Error("an absent export is found")
	}
	if !info.HasMemory || info.MemoryMin != 2 || info.MemoryMax != 9 || !info.MemoryBounded {
		t.Errorf("memory %+v", info)
	}
	if info.Start || info.Float != nil {
		t.Errorf("%+v", info)
	}
	if ok, why := info.Resettable(); ok || why != "the module changes tables" {
		t.Errorf("resettable: %v, %q", ok, why)
	}
}

// TestResettable finds every instruction after which memory and globals are
// not all that has changed.
func TestResettable(t *testing.T) {
	for name, c := range map[string]struct {
		code []byte
		ok   bool
	}{
		"nothing":     {nil, true},
		"memory.init": {[]byte{opMisc, miscMemoryInit, 0, 0}, true},
		"table.get":   {[]byte{0x25, 0}, true},
		"table.set":   {[]byte{opTableSet, 0}, false},
		"table.grow":  {[]byte{opMisc, miscTableGrow, 0}, false},
		"table.fill":  {[]byte{opMisc, miscTableFill, 0}, false},
		"table.copy":  {[]byte{opMisc, miscTableCopy, 0, 0}, false},
		"table.init":  {[]byte{opMisc, miscTableInit, 0, 0}, false},
		"elem.drop":   {[]byte{opMisc, miscElemDrop, 0}, false},
		"data.drop":   {[]byte{opMisc, miscDataDrop, 0}, false},
	} {
		info, err := Inspect(withInstruction(c.code))
		if err != nil {
			t.Fatal(err)
		}
		if ok, why := info.Resettable(); ok != c.ok || ok != (why == "") {
			t.Errorf("%s: resettable %v, %q", name, ok, why)
		}
	}
}
