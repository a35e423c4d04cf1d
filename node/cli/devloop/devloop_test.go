package devloop

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func put(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(path+".tmp", []byte(text), 0o600), os.Rename(path+".tmp", path)); err != nil { // never half
		t.Fatal(err)
	}
	return path
}

// TestBuildLine: a folder says how it is built, the Makefile of a kit before all.
func TestBuildLine(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "manifest.json") {
		t.Errorf("without a manifest: %v", err)
	}
	put(t, dir, "manifest.json", "{}")
	if _, err := Open(dir, ""); err == nil || !strings.Contains(err.Error(), "--build") {
		t.Errorf("without a build: %v", err)
	}
	for _, c := range []struct{ file, text, begins string }{
		{"go.mod", "module x", "GOOS=wasip1 "},
		{"Cargo.toml", "", "cargo build"},
		{"Makefile", "all:\n\ttrue\n", "cargo build"},
		{"Makefile", "all: compile\n\ncompile:\n\ttrue\n", "make -s compile"},
	} {
		put(t, dir, c.file, c.text)
		if p, err := Open(dir, ""); err != nil || !strings.HasPrefix(p.Build, c.begins) {
			t.Errorf("with %s: %+v, %v", c.file, p, err)
		}
	}
	if p, err := Open(dir, "./mine"); err != nil || p.Build != "./mine" {
		t.Errorf("with a line: %+v, %v", p, err)
	}
}

// TestMake: what a build's tools say comes back, and the file that was written last is packed,
// also in a folder whose name would be a pattern of others.
func TestMake(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "my [gate]")
	put(t, dir, "manifest.json", `{"name": "gate", "kind": "admission", "version": "1", "abi": "1.1"}`)
	put(t, dir, "vectors/all.json", "[]")
	p := &Project{Dir: dir, Build: "echo module.c:7:3: expected a semicolon >&2; exit 3"}
	_, err := p.Make(t.Context())
	if failed, ok := errors.AsType[*BuildError](err); !ok || !strings.Contains(failed.Output, "module.c:7:3") {
		t.Errorf("a build that fails: %v", err)
	}
	p.Build = "true"
	if _, err := p.Make(t.Context()); err == nil || !strings.Contains(err.Error(), "no .wasm file") {
		t.Errorf("a build that leaves nothing: %v", err)
	}
	old := put(t, dir, "old.wasm", "not a module")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, past, past); err != nil {
		t.Fatal(err)
	}
	p.Build = `mkdir -p target/wasm32-any/release && printf '\000asm\001\000\000\000' > target/wasm32-any/release/new.wasm`
	module, err := p.Make(t.Context())
	for _, part := range []string{"corenode.manifest", `"gate"`, "corenode.vectors"} {
		if err != nil || !strings.Contains(string(module), part) {
			t.Errorf("packed without %s: %q, %v", part, module, err)
		}
	}
	if left, err := os.ReadFile(filepath.Join(dir, "target/wasm32-any/release/new.wasm")); err != nil || len(left) != 8 {
		t.Errorf("the tool's file has %d bytes, %v", len(left), err)
	}
	p.Build = `cp target/wasm32-any/release/new.wasm gate.wasm`
	module, err = p.Make(t.Context())
	if left, readErr := os.ReadFile(filepath.Join(dir, "gate.wasm")); err != nil || readErr != nil || string(left) != string(module) {
		t.Errorf("the folder's file is left as %q, %v, %v; packed is %q", left, err, readErr, module)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Make(ctx); err == nil {
		t.Error("a build whose caller has left went well")
	}
}

// TestLinkedProject: what a link leads to is watched.
func TestLinkedProject(t *testing.T) {
	dir, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	put(t, dir, "manifest.json", "{}")
	put(t, dir, "src/module.c", "1")
	if err := os.Symlink(dir, link); err != nil {
		t.Skip(err)
	}
	p, err := Open(link, "make")
	if err != nil {
		t.Fatal(err)
	}
	if files, err := p.Look(); err != nil || len(files) != 2 {
		t.Errorf("%v, %v", files, err)
	}
}

// TestWait: what is saved is seen when it has settled, and what a build or an editor writes is not.
func TestWait(t *testing.T) {
	dir := t.TempDir()
	source := put(t, dir, "src/module.c", "1")
	extra := filepath.Join(t.TempDir(), "config.json")
	p := &Project{Dir: dir, Also: []string{extra}}
	before, err := p.Look()
	if err != nil || len(before) != 1 {
		t.Fatalf("%v, %v", before, err)
	}
	for _, name := range []string{"x.wasm", ".git/index", "target/debug/x.rs", "src/module.c~", "src/.module.c.swp", "4913", "x.wasm.sig"} {
		put(t, dir, name, "2")
	}
	if now, err := p.Look(); err != nil || len(now) != 1 || !now.Saved(before).IsZero() {
		t.Errorf("what is no source was seen: %v, %v", now, err)
	}
	changes := []func(){
		func() { put(t, dir, "src/module.c", "two") },
		func() { put(t, dir, "vectors/a.json", "[]") },
		func() { put(t, filepath.Dir(extra), "config.json", "{}") },
		func() { _ = os.Remove(source) },
	}
	for i, change := range changes {
		done := make(chan State)
		go func() {
			now, err := p.Wait(t.Context(), before)
			if err != nil {
				t.Error(err)
			}
			done <- now
		}()
		change()
		now := <-done
		if gone := i == len(changes)-1; now.Saved(before).IsZero() != gone {
			t.Errorf("change %d was saved at %v", i, now.Saved(before))
		}
		before = now
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Wait(ctx, before); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
