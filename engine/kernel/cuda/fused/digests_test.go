package fused

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestKernelsAreWhatWasCompiled compares sources, PTX and the assembler's table with the digests that
// kernels/build.sh wrote when it made them of each other.
func TestKernelsAreWhatWasCompiled(t *testing.T) {
	list, err := os.ReadFile("kernels/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"SHA256SUMS": true, "build.sh": true}
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		data, err := os.ReadFile(filepath.Join("kernels", name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			t.Errorf("%s is not what was compiled: make ptx", name)
		}
	}
	files, err := os.ReadDir("kernels")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("%s is not in the list of digests", f.Name())
		}
	}
}

// TestKernelsUseNoStack reads what ptxas said of each kernel: nothing may lie in local memory, and the
// registers of a block have to fit.
func TestKernelsUseNoStack(t *testing.T) {
	table, err := os.ReadFile("kernels/ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]int{}
	for i, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		f := strings.Fields(line)
		if i == 0 {
			continue
		}
		if len(f) != 6 {
			t.Fatalf("line %d has %d columns", i+1, len(f))
		}
		rows[f[0]]++
		registers, err1 := strconv.Atoi(f[2])
		static, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || registers < 1 || registers > 128 || static > 48<<10 || f[4] != "0" || f[5] != "0" {
			t.Errorf("%s", line)
		}
	}
	for file, text := range images() {
		for _, name := range kernelsOf(map[string]string{file: text}) {
			if rows[name] != 2 {
				t.Errorf("%s of %s has %d rows in the table, want one of each architecture", name, file, rows[name])
			}
		}
	}
}
