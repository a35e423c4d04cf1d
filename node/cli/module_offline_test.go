package cli

import (
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"corenode/extensions/check"
	w "corenode/extensions/meter/wasmtest"
)

// rawModule is an admission module that declines, without custom sections.
func rawModule() []byte {
	var m w.Module
	m.Memory(64, 64)
	frame := func(at int64) *w.Code { return w.Asm().I64(at<<32 | 8) }
	m.Func("abi", nil, w.Types(w.I32), nil, w.I32Const(1<<16))
	m.Func("buf", w.Types(w.I32), w.Types(w.I32), nil, w.I32Const(4096))
	m.Func("init", w.Types(w.I32), w.Types(w.I64), nil, frame(16))
	m.Func("call", w.Types(w.I32, w.I32), w.Types(w.I64), nil, frame(32))
	m.Data(32, []byte{2})
	return m.Bytes()
}

// TestModuleFromFileToSignature walks an author's way: pack, check, update,
// bench, keygen, sign.
func TestModuleFromFileToSignature(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	put := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(in(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	do := func(line ...string) string {
		t.Helper()
		out, err := typed(append([]string{"module"}, line...)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", line, err, out)
		}
		return out
	}
	put("raw.wasm", string(rawModule()))
	put("manifest.json", `{"name": "gate", "kind": "admission", "version": "1.2.0", "abi": "1.0"}`)
	if err := os.Mkdir(in("vectors"), 0o700); err != nil {
		t.Fatal(err)
	}
	put("vectors/a.json", `[{"name": "a", "op": "decide", "admission": {}, "want": {"decision": {"verdict": "deny"}}}]`)

	out, err := typed("module", "check", in("raw.wasm"))
	if err == nil || !strings.Contains(out, "corenode module pack") || !strings.Contains(out, "FIX") {
		t.Errorf("without a manifest: %v\n%s", err, out)
	}
	if out, err := typed("module", "check", in("raw.wasm"), "--calls", "-5"); err == nil || !strings.Contains(err.Error(), "--calls is -5") {
		t.Errorf("fewer calls than none: %v\n%s", err, out)
	}
	do("pack", in("raw.wasm"), "--manifest", in("manifest.json"), "--vectors", in("vectors"), "--output", in("gate.wasm"))
	out, err = typed("module", "check", in("gate.wasm"), "--calls", "100")
	if err == nil || !strings.Contains(out, "got decline") || !strings.Contains(out, "gate@1.2.0") {
		t.Errorf("a wrong vector: %v\n%s", err, out)
	}
	out = do("check", in("gate.wasm"), "--calls", "100", "--vectors", in("vectors"), "--update")
	if !strings.Contains(out, "its want was written") || !strings.Contains(out, "pack it before you load it") {
		t.Errorf("an update printed\n%s", out)
	}
	do("pack", in("gate.wasm"), "--manifest", in("manifest.json"), "--vectors", in("vectors"))
	report := fromJSON[check.Report](t, do("check", in("gate.wasm"), "--calls", "100", "--json"))
	if !report.Passed || report.Module != "gate@1.2.0" || len(report.Ticks) == 0 || report.Memory.Calls != 100 {
		t.Errorf("report %+v", report)
	}
	if out := do("bench", in("gate.wasm"), "--time", "5ms"); !strings.Contains(out, "an empty call") || !strings.Contains(out, "decide") {
		t.Errorf("bench printed\n%s", out)
	}
	out = do("keygen", in("signing.pem"))
	info, err := os.Stat(in("signing.pem"))
	if err != nil || info.Mode().Perm() != 0o600 || !strings.Contains(out, "trusted_keys: [\"") {
		t.Errorf("keygen: %v, %v\n%s", info, err, out)
	}
	if out, err := typed("module", "keygen", in("signing.pem")); err == nil {
		t.Errorf("a key was overwritten: %s", out)
	}
	do("sign", "--key", in("signing.pem"), in("gate.wasm"))
	text, err := os.ReadFile(in("gate.wasm.sig"))
	if raw, bad := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text))); err != nil || bad != nil || len(raw) != 64 {
		t.Errorf("signature %q, %v, %v", text, err, bad)
	}
}

// failing takes nothing that is written.
type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// TestNoHalfOfAKeyIsLeft: a key whose public half nobody was shown is of no use and in the way of the next try; so is
// a file that the disk did not take.
func TestNoHalfOfAKeyIsLeft(t *testing.T) {
	path := filepath.Join(t.TempDir(), "signing.pem")
	cmd := Root("test", nil)
	cmd.SetArgs([]string{"module", "keygen", path})
	cmd.SetOut(failing{})
	cmd.SetErr(io.Discard)
	if err := cmd.Execute(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("without an output: %v", err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a private key is left: %v", err)
	}
}

func TestModuleMistakes(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "x.wasm")
	if err := os.WriteFile(script, []byte("#!/bin/sh"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := typed("module", "keygen", filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		line []string
		says string
	}{
		{[]string{"check"}, "accepts 1 arg"},
		{[]string{"check", filepath.Join(dir, "none.wasm")}, "no such file"},
		{[]string{"check", script}, "must be fixed"},
		{[]string{"check", script, "--update"}, "needs --vectors"},
		{[]string{"check", script, "--vectors", dir}, "no .json files"},
		{[]string{"bench", script}, "not a WebAssembly module"},
		{[]string{"pack", script, "--manifest", script}, "manifest"},
		{[]string{"sign", script}, `"key" not set`},
		{[]string{"sign", script, "--key", script}, "no private key"},
		{[]string{"sign", script, "--key", filepath.Join(dir, "key")}, "no module"},
		{[]string{"new", filepath.Join(dir, "a")}, `"kind" not set`},
		{[]string{"new", filepath.Join(dir, "a"), "--kind", "magic"}, `"magic"`},
		{[]string{"new", filepath.Join(dir, "A B"), "--kind", "billing"}, "A B"},
		{[]string{"new", filepath.Join(dir, "key"), "--kind", "billing"}, "exists"},
	}
	for _, c := range cases {
		if out, err := typed(append([]string{"module"}, c.line...)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, want %q\n%s", c.line, err, c.says, out)
		}
	}
}

// TestModuleNewAsItsHelpSays: each example of the help makes a project, the help and the error of
// an unknown kind list all kinds, and no project has a name that a node does not take.
func TestModuleNewAsItsHelpSays(t *testing.T) {
	cmd := moduleNew()
	for line := range strings.Lines(cmd.Example) {
		words := strings.Fields(line)[1:]
		last := len(words) - 1
		words[last] = filepath.Join(t.TempDir(), words[last])
		if out, err := typed(words...); err != nil {
			t.Errorf("%s%v\n%s", line, err, out)
		}
	}
	_, err := typed("module", "new", filepath.Join(t.TempDir(), "a"), "--kind", "magic")
	for _, kind := range []string{"translator-verse", "billing-tier", "billing-free", "admission-quota", "rewrite", "filter"} {
		if usage := cmd.Flag("kind").Usage; !strings.Contains(usage, kind) || err == nil || !strings.Contains(err.Error(), kind) {
			t.Errorf("kind %s is not in the help %q or the error %v", kind, usage, err)
		}
	}
	shipped := filepath.Join(t.TempDir(), "completions")
	if _, err := typed("module", "new", shipped, "--kind", "translator"); err == nil || !strings.Contains(err.Error(), "ships") {
		t.Errorf("a project named completions: %v", err)
	}
}

// TestModuleNew writes a project of each kind and language. That they build is
// the kit's own test.
func TestModuleNew(t *testing.T) {
	for _, kind := range []string{"billing", "translator", "admission"} {
		for _, lang := range []string{"go", "c", "rust", "assemblyscript"} {
			dir := filepath.Join(t.TempDir(), "my-module")
			out, err := typed("module", "new", dir, "--kind", kind, "--lang", lang)
			if err != nil || !strings.Contains(out, "manifest.json") {
				t.Fatalf("%s in %s: %v\n%s", kind, lang, err, out)
			}
			manifest, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
			if err != nil || !strings.Contains(string(manifest), `"my-module"`) || !strings.Contains(string(manifest), kind) {
				t.Errorf("%s in %s: %s, %v", kind, lang, manifest, err)
			}
		}
	}
}
