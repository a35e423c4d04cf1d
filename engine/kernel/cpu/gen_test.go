package cpu

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// TestGeneratedFiles runs the generator and compares its files with those here.
func TestGeneratedFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the generator: not in short mode")
	}
	dir := t.TempDir()
	env := append(os.Environ(), "GOWORK=off")
	download := exec.Command("go", "list", "-deps", ".")
	download.Dir, download.Env = "gen", env
	if out, err := download.CombinedOutput(); err != nil {
		t.Skipf("the generator's modules cannot be resolved: %v\n%s", err, out)
	}
	run := exec.Command("go", "run", ".", "-dir", dir)
	run.Dir, run.Env = "gen", env
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(made) != 11 {
		t.Fatalf("%d files were made (%v), want 11", len(made), err)
	}
	for _, path := range made {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Base(path))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what the generator writes (%v): go run . -dir .. in gen", filepath.Base(path), err)
		}
	}
}

// TestNarrowLevelStaysNarrow looks for what a processor with AVX2 but without
// AVX-512 cannot run.
func TestNarrowLevelStaysNarrow(t *testing.T) {
	text, err := os.ReadFile("kernels_avx2_amd64.s")
	if err != nil {
		t.Fatal(err)
	}
	if m := regexp.MustCompile(`\b(Z\d+|K[0-7]|[XY](1[6-9]|[23]\d)|VPXORD|VPANDD|VMOVDQ[AU](8|16|32|64)|VRNDSCALE\w*|VPDPBUSD)\b|\.BCST|\.Z\b`).Find(text); m != nil {
		t.Fatalf("kernels_avx2_amd64.s uses %s", m)
	}
}

// TestNoLegacySSE looks for instructions of the old encoding that write vector
// registers: after a wide register was written, each takes some 200 ns.
func TestNoLegacySSE(t *testing.T) {
	old := regexp.MustCompile(`(?m)^\s+(MOV(SS|SD|D|UPS|APS|O[AU])|(ADD|SUB|MUL|DIV|SQRT|MAX|MIN|XOR|AND|UNPCK[LH])[PS]S|CVT\w+|PXOR)\s.*`)
	for _, name := range []string{"kernels_avx2_amd64.s", "kernels_avx512_amd64.s"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if m := old.Find(text); m != nil {
			t.Errorf("%s uses %s", name, m)
		}
	}
	if !old.MatchString("\tMOVSS x+0(FP), X0\n") {
		t.Error("the pattern does not find what it is for")
	}
}
