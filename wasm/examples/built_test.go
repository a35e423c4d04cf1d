package examples

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// language is a toolchain whose modules are checked in as built.
type language struct {
	name    string
	version []string // prints which one it is
	kit     string   // folder of its kit, whose testdata is a module; empty without one
	build   func(folder, to string) *exec.Cmd
}

var languages = []language{
	{"c", []string{"clang", "--version"}, "../sdk/c", func(folder, to string) *exec.Cmd {
		flags := strings.Fields("--target=wasm32 -std=c99 -O2 -mbulk-memory -nostdlib -Wall -Wextra -Werror -I../sdk/c" +
			" -Wl,--no-entry -Wl,--stack-first -Wl,--strip-all")
		return exec.Command("clang", append(flags, "-o", to, filepath.Join(folder, "module.c"))...)
	}},
	{"rust", []string{"rustc", "--version"}, "../sdk/rust", func(folder, to string) *exec.Cmd {
		made := filepath.Dir(to)
		script := `cargo build --quiet --offline --release && cp "$CARGO_TARGET_DIR"/wasm32-unknown-unknown/release/*.wasm "$0"`
		tool := exec.Command("sh", "-c", script, to)
		tool.Dir = folder
		tool.Env = append(os.Environ(), "CARGO_TARGET_DIR="+filepath.Join(made, "target"))
		return tool
	}},
	{"assemblyscript", []string{"asc", "--version"}, "../sdk/assemblyscript", func(folder, to string) *exec.Cmd {
		flags := strings.Fields("--runtime ../sdk/assemblyscript/runtime -O3 --noAssert --use abort=")
		return exec.Command("asc", append([]string{filepath.Join(folder, "module.ts"), "-o", to}, flags...)...)
	}},
	{"zig", []string{"zig", "version"}, "", func(folder, to string) *exec.Cmd {
		flags := strings.Fields("-target wasm32-freestanding -O ReleaseSmall -fno-entry -fstrip --stack 65536" +
			" --export=abi --export=buf --export=init --export=call")
		return exec.Command("zig", append([]string{"build-exe", filepath.Join(folder, "module.zig"), "-femit-bin=" + to}, flags...)...)
	}},
}

// folders are all of a language's modules.
func (l *language) folders(t *testing.T) []string {
	all, err := filepath.Glob("*-" + l.name)
	if err != nil || len(all) == 0 || l.kit != "" && len(all) < 3 {
		t.Fatalf("%s: examples %v, %v", l.name, all, err)
	}
	if l.kit == "" {
		return all
	}
	return append(all, l.kit+"/testdata")
}

// TestModulesAreBuiltFromTheirSource builds them again and compares every byte with
// what is checked in; -update writes them. BUILT names the compilers.
func TestModulesAreBuiltFromTheirSource(t *testing.T) {
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			if l.name != "c" && testing.Short() {
				t.Skip("it runs two more compilers: left out of -short")
			}
			l.isHere(t)
			for _, folder := range l.folders(t) {
				l.check(t, folder)
			}
		})
	}
}

// isHere skips where the compiler is not the one that made what is checked in.
func (l *language) isHere(t *testing.T) {
	version, err := exec.Command(l.version[0], l.version[1:]...).Output()
	if err != nil {
		t.Skipf("no %s: the modules in %s are tested as they were built elsewhere (%v)", l.version[0], l.name, err)
	}
	line, _, _ := strings.Cut(l.name+": "+string(version), "\n")
	text, err := os.ReadFile("BUILT")
	if err != nil {
		t.Fatal(err)
	}
	made := strings.Split(strings.TrimSpace(string(text)), "\n")
	at := slices.IndexFunc(made, func(m string) bool { return strings.HasPrefix(m, l.name+": ") })
	if *update {
		if at < 0 {
			made = append(made, line)
		} else {
			made[at] = line
		}
		if err := os.WriteFile("BUILT", []byte(strings.Join(made, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if at < 0 || made[at] != line {
		t.Skipf("BUILT has not %s: the bytes may differ", line)
	}
}

func (l *language) check(t *testing.T, folder string) {
	file := filepath.Join(t.TempDir(), "module.wasm")
	if output, err := l.build(folder, file).CombinedOutput(); err != nil {
		for _, missing := range []string{"unable to execute", "can't find crate for `core`"} { // the linker, the library for Wasm
			if strings.Contains(string(output), missing) {
				t.Skipf("%s cannot make Wasm here: %s", l.version[0], output)
			}
		}
		t.Fatalf("%s: %v\n%s", folder, err, output)
	}
	now, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	shipped := filepath.Join(folder, "module.wasm")
	if *update {
		if err := os.WriteFile(shipped, now, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if before, err := os.ReadFile(shipped); err != nil || !bytes.Equal(before, now) {
		t.Errorf("%s: %d bytes now, %d checked in, %v: run the test with -update", folder, len(now), len(before), err)
	}
}

// TestGoldenPacks: after make golden the file has the vectors that were written, and needs no second make.
func TestGoldenPacks(t *testing.T) {
	for _, name := range []string{"go.mk", "c.mk", "rust.mk", "assemblyscript.mk", "admission-zig/Makefile"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, golden, _ := strings.Cut(string(text), "\ngolden: ")
		golden, _, _ = strings.Cut(golden, "\n\n")
		lines := strings.Split(strings.TrimSpace(golden), "\n")
		if last := lines[len(lines)-1]; !strings.Contains(last, "module pack $(NAME).wasm --vectors $(VECTORS)") {
			t.Errorf("%s: the last line of golden is %q", name, last)
		}
	}
}
