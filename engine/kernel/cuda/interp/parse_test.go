package interp

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ptxFiles returns the PTX texts of testdata by name.
func ptxFiles(t testing.TB) map[string]string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.ptx")
	if err != nil || len(names) < 6 {
		t.Fatalf("%d PTX files (err %v)", len(names), err)
	}
	all := map[string]string{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(name)] = string(text)
	}
	return all
}

var instructionEnd = regexp.MustCompile(`(?m)^\s*(@!?%?\w+\s+)?[a-z][^;]*;`)

// TestParseReadsEveryInstruction compares with a count by another rule: what begins
// with a small letter and ends with a semicolon.
func TestParseReadsEveryInstruction(t *testing.T) {
	for name, text := range ptxFiles(t) {
		f, err := parse(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(f.entries) != 1 {
			t.Fatalf("%s has %d kernels", name, len(f.entries))
		}
		_, body, _ := strings.Cut(regexp.MustCompile(`//.*`).ReplaceAllString(text, ""), "\n{")
		body = strings.NewReplacer(";", ";\n", "{ ", "\n").Replace(body)
		want := len(instructionEnd.FindAllString(body, -1))
		if got := len(f.entries[0].body); got != want {
			t.Errorf("%s: %d instructions, want %d", name, got, want)
		}
	}
}

func kernelText(body string) string {
	return ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 k_0, .param .b8 k_1[3], .param .align 64 .b8 k_2[128])\n{\n" +
		".reg .b32 %r<9>;\n.reg .pred %p<2>;\n.reg .b64 %rd<9>;\n" + body + "\nret;\n}\n"
}

func TestParseScopesLabelsAndRegisters(t *testing.T) {
	f, err := parse(kernelText(`
{ .reg .b32 x; again: add.s32 x, x, 1; @%p1 bra again; }
{ .reg .b32 x; again: add.s32 x, x, 2; @!%p1 bra again; bra.uni end; }
end: mov.b32 %r1, {%r2, %r3};`))
	if err != nil {
		t.Fatal(err)
	}
	e := f.entries[0]
	if got := []uint64{e.params[0].at, e.params[1].at, e.params[2].at}; got[0] != 0 || got[1] != 8 || got[2] != 64 || e.paramBytes != 192 {
		t.Errorf("parameters at %v of %d bytes", got, e.paramBytes)
	}
	b := e.body
	if b[1].target != 0 || b[3].target != 2 || b[4].target != 5 || !b[3].guardNot || b[1].guardNot {
		t.Errorf("targets %d %d %d", b[1].target, b[3].target, b[4].target)
	}
	if b[0].args[0].sym == b[2].args[0].sym || b[0].args[0].sym.slot == b[2].args[0].sym.slot {
		t.Error("two blocks share a register of one name")
	}
}

func TestParseRefuses(t *testing.T) {
	for body, want := range map[string]string{
		"bra nowhere;":                          "nowhere",
		"add.s32 %r1, %r2, %r99;":               "declared nowhere",
		"@%r1 mov.b32 %r1, 1;":                  "no predicate",
		"{ a: } bra a;":                         "label a",
		".loc 1 2 3;":                           "debug information",
		"mov.b32 %r1, 0fZZ;":                    "no number",
		".reg .b128 %q;":                        "not known",
		".reg .b32 %z<70000>;":                  "number of registers",
		"ld.global.u32 %r1, [%rd1":              "where \"]\" belongs",
		"a: mov.b32 %r1, 1; a:":                 "stands twice",
		"mov.b32 %r1, {{%r1}};":                 "not nested",
		"ld.global.u32 %r1, [%rd1+0f00000000];": "an offset is an integer",
		"#":                                     "no place in PTX",
	} {
		if _, err := parse(kernelText(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
	for _, text := range []string{"", "\x7fELF", ".version 8.0", ".target sm_90\n.func f() {}", ".target sm_90\n.entry k(\n", "/*"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// FuzzParse wants an error or a kernel whose branches lead into it, and no panic.
func FuzzParse(f *testing.F) {
	for _, text := range ptxFiles(f) {
		f.Add(text)
	}
	f.Add(kernelText("l: @%p1 bra l; .shared .b32 x[4] = {1, 2}; mov.b32 %r1|%p1, -1;"))
	f.Fuzz(func(t *testing.T, text string) {
		file, err := parse(text)
		if err != nil {
			return
		}
		for _, e := range file.entries {
			for _, s := range e.body {
				if s.op == "bra" && len(s.args) == 1 && s.args[0].form == nameOperand && (s.target < 0 || s.target > len(e.body)) {
					t.Fatalf("%s of line %d leads to %d of %d", s.text, s.line, s.target, len(e.body))
				}
			}
		}
	})
}
