package wasm

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// write puts a project into a folder.
func write(t *testing.T, project map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range project {
		file := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// TestProjects makes the Makefile's build step of every project, offline and
// far from this repository, with a stand-in for the node's program.
func TestProjects(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Go guests: left out of -short")
	}
	for _, kind := range []string{"billing", "translator", "admission", "rewrite", "filter"} {
		for _, lang := range []string{"go", "c", "rust", "assemblyscript"} {
			if lang == "assemblyscript" && kind != "translator" { // one stands for all: its compiler takes seconds
				continue
			}
			if lang == "rust" && kind != "translator" && kind != "filter" {
				continue // likewise: two of them stand for all
			}
			t.Run(kind+"-"+lang, func(t *testing.T) {
				project, err := Project(kind, lang, "my-module.2")
				if err != nil {
					t.Fatal(err)
				}
				for name, text := range project {
					if strings.HasSuffix(name, "_test.go") && strings.HasPrefix(name, "corenode/") {
						t.Errorf("%s: the kit's own tests are no use to an author", name)
					}
					if name == "manifest.json" && !strings.Contains(string(text), `"name": "my-module.2"`) {
						t.Errorf("manifest: %s", text)
					}
				}
				targets := []string{"build"}
				if kind+lang == "billinggo" { // one Go project stands for all: they are compiled anew each time
					targets = append(targets, "test")
				}
				compile(t, write(t, project), lang, targets...)
			})
		}
	}
}

// compile runs targets of a project's Makefile.
func compile(t *testing.T, dir, lang string, targets ...string) {
	for _, need := range map[string][]string{"go": {"make"}, "c": {"make", "clang", "wasm-ld"}, "rust": {"make", "cargo"},
		"assemblyscript": {"make", "asc"}}[lang] {
		if _, err := exec.LookPath(need); err != nil {
			t.Skipf("no %s here: %v", need, err)
		}
	}
	tool := exec.Command("make", append(targets, "CORENODE=true")...)
	tool.Dir = dir
	tool.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOWORK=off", "MAKEFLAGS=", "MAKELEVEL=")
	if output, err := tool.CombinedOutput(); err != nil {
		if strings.Contains(string(output), "can't find crate for `core`") {
			t.Skipf("cargo has no target for Wasm: %s", output)
		}
		t.Fatalf("%v\n%s", err, output)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.wasm"))
	if err != nil || len(made) != 1 {
		t.Fatalf("%q were made, %v", made, err)
	}
	module, err := os.ReadFile(made[0])
	if err != nil || !strings.HasPrefix(string(module), "\x00asm\x01\x00\x00\x00") {
		t.Errorf("the module: %d bytes, %v", len(module), err)
	}
}

// TestAuthoringCompiles builds the modules that AUTHORING.md shows in full.
func TestAuthoringCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles a Go guest: left out of -short")
	}
	for lang, file := range map[string]string{"go": "main.go", "c": "module.c", "rust": "src/lib.rs"} {
		t.Run(lang, func(t *testing.T) {
			_, block, found := strings.Cut(string(read("AUTHORING.md")), "```"+lang+"\n")
			block, _, closed := strings.Cut(block, "```")
			if !found || !closed {
				t.Fatalf("AUTHORING.md has no %s module", lang)
			}
			project, err := Project("billing", lang, "my-module.2")
			if err != nil {
				t.Fatal(err)
			}
			delete(project, "main_test.go") // of the example
			project[file] = []byte(block)
			compile(t, write(t, project), lang, "build")
		})
	}
}

// TestProjectNames: a module may have the name of one of Go's own packages.
func TestProjectNames(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles Go guests: left out of -short")
	}
	for _, name := range []string{"time", "std"} {
		project, err := Project("billing", "go", name)
		if err != nil {
			t.Fatal(err)
		}
		compile(t, write(t, project), "go", "compile")
	}
}

// TestProjectsHaveWhatTheirExampleHas: the vectors are those that the example's Makefile names, and
// nothing in a project's Makefile is left to fill in.
func TestProjectsHaveWhatTheirExampleHas(t *testing.T) {
	manifests, err := filepath.Glob("examples/*/manifest.json")
	if err != nil || len(manifests) < 30 {
		t.Fatalf("%d examples, %v", len(manifests), err)
	}
	for _, manifest := range manifests {
		folder := filepath.Dir(manifest)
		name := filepath.Base(folder)
		at := strings.LastIndexByte(name, '-')
		kind, lang := name[:at], name[at+1:]
		if lang == "zig" { // it has no kit
			continue
		}
		makefile, err := os.ReadFile(filepath.Join(folder, "Makefile"))
		if err != nil {
			t.Fatal(err)
		}
		_, place, _ := strings.Cut(string(makefile), "\nVECTORS := ")
		place, _, _ = strings.Cut(place, "\n")
		wants, err := filepath.Glob(filepath.Join(folder, place, "*.json"))
		if err != nil || len(wants) == 0 {
			t.Errorf("%s has no vectors in %q, %v", folder, place, err)
		}
		project, err := Project(kind, lang, "my-module.2")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range wants {
			want, err := os.ReadFile(file)
			if got := project["vectors/"+filepath.Base(file)]; err != nil || string(got) != string(want) {
				t.Errorf("a project of %s has not %s, %v", folder, file, err)
			}
		}
		has := 0
		for name := range project {
			if strings.HasPrefix(name, "vectors/") {
				has++
			}
		}
		text := string(project["Makefile"])
		if has != len(wants) || !strings.Contains(text, "\nNAME     := my-module.2\n") || strings.Contains(text, "VECTORS") {
			t.Errorf("a project of %s has %d vector files, want %d, and this Makefile:\n%s", folder, has, len(wants), text)
		}
	}
}

func TestProjectRefuses(t *testing.T) {
	for _, c := range [][3]string{
		{"billing", "zig", "x"}, {"admission", "zig", "x"}, {"billing-tier", "cobol", "x"}, {"", "", "x"}, {"../abi", "go", "x"},
		{"../examples/billing", "go", "x"},
		{"billing", "go", ""}, {"billing", "go", "../x"}, {"billing", "go", "-x"}, {"billing", "go", "X"},
		{"billing", "go", "corenode"}, {"billing", "go", strings.Repeat("x", 65)}, {"billing", "go", "a b"},
	} {
		if project, err := Project(c[0], c[1], c[2]); err == nil {
			t.Errorf("%q gave %d files", c, len(project))
		}
	}
	if _, err := Project("admission-quota", "rust", "x"); err == nil || !strings.HasSuffix(err.Error(), "want go, c") {
		t.Errorf("a kind that is not there in Rust: %v", err)
	}
}

// TestKitIsWhole: everything that a project's Go code may import is in its copy.
func TestKitIsWhole(t *testing.T) {
	project, err := Project("billing", "go", "x")
	if err != nil {
		t.Fatal(err)
	}
	sources := 0
	for _, folder := range []string{"abi", "sdk", "sdk/scan"} {
		all, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range all {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			sources++
			here, err := os.ReadFile(file)
			if err != nil || string(project["corenode/wasm/"+filepath.ToSlash(file)]) != string(here) {
				t.Errorf("%s is not what a project gets, %v", file, err)
			}
		}
	}
	if sources < 15 {
		t.Errorf("%d source files: the kit was not compared", sources)
	}
}
