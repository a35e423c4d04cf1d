package examples

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

var update = flag.Bool("update", false, "rewrite golden vectors and the modules that are checked in; read the diff before you commit it")

// TestVectors runs each example's vectors on the module as it is built. What several languages
// share makes each the others' oracle; with -update they write it one after another.
func TestVectors(t *testing.T) {
	folders, err := filepath.Glob("*-*")
	if err != nil || len(folders) < 6 {
		t.Fatalf("examples %v, %v", folders, err)
	}
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			if !*update {
				t.Parallel()
			}
			wasm := built(t, folder)
			files, err := vector.ReadDir(vectorsOf(t, folder))
			if err != nil {
				t.Fatal(err)
			}
			guests := make(map[string]*guest) // by configuration
			for _, f := range files {
				changed := false
				for i := range f.Vectors {
					v := &f.Vectors[i]
					g := guests[string(v.ConfigBytes())]
					if g == nil {
						g = open(t, wasm, string(v.ConfigBytes()))
						guests[string(v.ConfigBytes())] = g
					}
					if err := run(v, g, &changed); err != nil {
						t.Errorf("%s: %v", v.Name, err)
					}
				}
				if changed {
					if err := os.WriteFile(f.Path, vector.Format(f.Vectors), 0o644); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
	}
}

// vectorsOf is where an example's Makefile says that its vectors are.
func vectorsOf(t *testing.T, folder string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, place, found := strings.Cut(string(text), "\nVECTORS := ")
	if place, _, _ = strings.Cut(place, "\n"); !found || place == "" {
		t.Fatalf("%s/Makefile names no VECTORS", folder)
	}
	return filepath.Join(folder, place)
}

func run(v *vector.Vector, g *guest, changed *bool) error {
	if !*update {
		return v.Run(g.call, false)
	}
	c, err := v.Update(g.call, false)
	*changed = *changed || c
	return err
}

// built gives the module file of an example: a Go one is compiled here, the others
// are checked in.
func built(t *testing.T, folder string) []byte {
	t.Helper()
	if !strings.HasSuffix(folder, "-go") {
		wasm, err := os.ReadFile(filepath.Join(folder, "module.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		return wasm
	}
	if testing.Short() {
		t.Skip("it compiles a Go guest: left out of -short")
	}
	return compileGo(t, folder)
}

// compiled holds what compileGo made, by folder: tests share it.
var compiled sync.Map

func compileGo(t *testing.T, folder string) []byte {
	t.Helper()
	if wasm, done := compiled.Load(folder); done {
		return wasm.([]byte)
	}
	file := filepath.Join(t.TempDir(), "module.wasm")
	tool := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid=", "-buildmode=c-shared", "-o", file, ".")
	tool.Dir = folder
	tool.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0", "GOFLAGS=")
	if output, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	compiled.Store(folder, wasm)
	return wasm
}

// TestImports: a guest imports what it uses and nothing else.
func TestImports(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Go guests: left out of -short")
	}
	hours, discount := compileGo(t, "admission-go"), compileGo(t, "billing-go")
	if !bytes.Contains(hours, []byte("\x08corenode\x06metric")) || bytes.Contains(hours, []byte("\x08corenode\x03log")) {
		t.Error("hours counts and does not log: its imports say otherwise")
	}
	if bytes.Contains(discount, []byte("\x08corenode")) {
		t.Error("discount asks nothing of the host and imports from it")
	}
	for _, l := range languages {
		for _, folder := range l.folders(t) {
			wasm, err := os.ReadFile(filepath.Join(folder, "module.wasm"))
			imports := bytes.Contains(wasm, []byte("\x08corenode\x06metric"))
			if err != nil || imports != strings.HasSuffix(folder, "testdata") {
				t.Errorf("%s: imports %v, %v", folder, imports, err)
			}
		}
	}
	g := open(t, hours, "{}")
	if _, err := g.call(abi.OpDecide, abi.AdmissionInput{Counters: abi.Counters{NodeRequests: 9,
		NodeRequestsMax: 9}}.Append(nil)); err != nil || g.counted[1] != 1 {
		t.Errorf("counted %v, %v", g.counted, err)
	}
}

func TestManifests(t *testing.T) {
	paths, err := filepath.Glob("*/manifest.json")
	if err != nil || len(paths) < 6 {
		t.Fatalf("%v, %v", paths, err)
	}
	seen := make(map[string]bool)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var m struct {
			Name, Kind, Protocol, Version, ABI, Runtime, Description string

			Free         bool
			Counters     json.RawMessage
			Routes, Keys json.RawMessage
			Framing      string
			ConfigSchema json.RawMessage `json:"config_schema"`
		}
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields()
		if err := d.Decode(&m); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		parts := strings.Split(filepath.Base(filepath.Dir(path)), "-") // kind, what sets it apart if anything, language
		kind, language := parts[0], parts[len(parts)-1]
		version := "1.0" // what an author begins with
		if m.Routes != nil || m.Counters != nil || kind == "rewrite" || kind == "filter" {
			version = "1.1"
		}
		if m.Kind != kind || m.Runtime != language || m.ABI != version || m.Name == "" || seen[m.Name] ||
			m.Description == "" || m.ConfigSchema == nil {
			t.Errorf("%s: %+v", path, m)
		}
		seen[m.Name] = true
	}
}

// TestAuthoringShowsTheExample: the protocol that AUTHORING shows whole is one that is built
// and tested.
func TestAuthoringShowsTheExample(t *testing.T) {
	text, err := os.ReadFile("../AUTHORING.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"manifest.json", "src/lib.rs"} {
		source, err := os.ReadFile(filepath.Join("translator-verse-rust", file))
		if err != nil || !bytes.Contains(text, append([]byte("\n"), append(source, "```\n"...)...)) {
			t.Errorf("AUTHORING does not show %s as it is, %v", file, err)
		}
	}
}
