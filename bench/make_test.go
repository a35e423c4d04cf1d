package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestMakeBenchMeasuresAll: a benchmark that misses its gate, as the first does on most machines, keeps none of the others
// from being run, and the worst of their statuses is told.
func TestMakeBenchMeasuresAll(t *testing.T) {
	program, err := exec.LookPath("make")
	if err != nil {
		t.Skip("no make")
	}
	for _, c := range []struct {
		name, gguf, statuses string // of overhead, kernels and engine
		ran, tells           string
	}{
		{"all miss", "m.gguf", "1 3 2", "overhead kernels engine", "Error 3"},
		{"the first misses", "m.gguf", "1 0 0", "overhead kernels engine", "Error 1"},
		{"the last misses", "m.gguf", "0 0 1", "overhead kernels engine", "Error 1"},
		{"all meet", "m.gguf", "0 0 0", "overhead kernels engine", ""},
		{"no model", "", "1 3 2", "overhead", "Error 1"},
	} {
		dir := t.TempDir()
		stand := "#!/bin/sh\necho $1 >>" + dir + "/ran\nset -- $1 " + c.statuses +
			"\ncase $1 in overhead) exit $2;; kernels) exit $3;; *) exit $4;; esac\n"
		if err := os.WriteFile(filepath.Join(dir, "corebench"), []byte(stand), 0o700); err != nil {
			t.Fatal(err)
		}
		tool := exec.Command(program, "-C", "..", "-o", "build", "bench", "BIN="+dir, "GGUF="+c.gguf)
		tool.Env = append(os.Environ(), "MAKEFLAGS=", "LC_ALL=C") // this test may run under another make
		out, err := tool.CombinedOutput()
		text, _ := os.ReadFile(filepath.Join(dir, "ran"))
		if ran := strings.Join(strings.Fields(string(text)), " "); ran != c.ran || (err == nil) != (c.tells == "") ||
			!strings.Contains(string(out), c.tells) {
			t.Errorf("%s: ran %q, want %q and %q: %v\n%s", c.name, ran, c.ran, c.tells, err, out)
		}
	}
}
