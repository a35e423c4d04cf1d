package devicetest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// WantCompiled compares the files of a folder of kernels with the digests that its build.sh wrote when it
// made them of each other.
func WantCompiled(t *testing.T, folder string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"SHA256SUMS": true, "build.sh": true}
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != sum {
			t.Errorf("%s is not what was compiled: make ptx", name)
		}
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !listed[f.Name()] {
			t.Errorf("%s is not in the list of digests", f.Name())
		}
	}
}

var entry = regexp.MustCompile(`(?m)^\.visible \.entry (\w+)\(`)

// Entries are the kernels of a module.
func Entries(text string) (names []string) {
	for _, m := range entry.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

// WantNoStack reads what ptxas said of each kernel, in the table of a folder: a stack or spilled registers
// would be in memory that is a hundred times slower, and more registers than registersMax leave too few
// threads. Each kernel of images has as many rows as there are architectures, or any where that is 0.
func WantNoStack(t *testing.T, folder string, images map[string]string, registersMax, architectures int) {
	t.Helper()
	table, err := os.ReadFile(filepath.Join(folder, "ptxas.txt"))
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
		shared, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || registers < 1 || registers > registersMax || shared > 48<<10 || f[4] != "0" || f[5] != "0" {
			t.Errorf("%s", line)
		}
	}
	for file, text := range images {
		for _, name := range Entries(text) {
			if n := rows[name]; n == 0 || architectures > 0 && n != architectures {
				t.Errorf("%s of %s has %d rows in the table, want one of each architecture", name, file, n)
			}
		}
	}
}
