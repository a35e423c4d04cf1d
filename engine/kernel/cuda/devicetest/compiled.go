package devicetest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"corenode/engine/kernel/cuda/archive"
)

// WantCompiled compares the files of a folder of kernels, and the images that a package has of them, with the digests
// that its build.sh wrote when it made them of each other.
func WantCompiled(t *testing.T, folder string, images map[string]string) {
	t.Helper()
	list, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{"SHA256SUMS": true, "build.sh": true, archive.Name: true}
	for line := range strings.Lines(string(list)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = true
		data := []byte(images[name])
		if filepath.Ext(name) != ".ptx" {
			if data, err = os.ReadFile(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
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
	for name := range images {
		if !listed[name] {
			t.Errorf("%s of the archive is not in the list of digests", name)
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

// table is what ptxas said, in a folder: a row for each kernel and architecture.
func table(t *testing.T, folder string) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "ptxas.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		f := strings.Fields(line)
		if i == 0 {
			continue
		}
		if len(f) != 6 {
			t.Fatalf("line %d has %d columns", i+1, len(f))
		}
		rows = append(rows, f)
	}
	return rows
}

// WantNoStack reads what ptxas said of each kernel, in the table of a folder: a stack or spilled registers
// would be in memory that is a hundred times slower, and more registers than registersMax leave too few
// threads.
func WantNoStack(t *testing.T, folder string, registersMax int) {
	t.Helper()
	for _, f := range table(t, folder) {
		registers, err1 := strconv.Atoi(f[2])
		shared, err2 := strconv.Atoi(f[3])
		if err1 != nil || err2 != nil || registers < 1 || registers > registersMax || shared > 48<<10 || f[4] != "0" || f[5] != "0" {
			t.Error(f)
		}
	}
}

// runs are the architectures that ptxas was asked for, by the target of an image.
var runs = map[string][]string{"sm_80": {"sm_80", "sm_90"}, "sm_90a": {"sm_90a"}}

var target = regexp.MustCompile(`(?m)^\.target (\w+)$`)

// version is that of PTX that drivers of CUDA 12.4 take, or an earlier one: they refuse later ones, whatever is in them.
var version = regexp.MustCompile(`(?m)^\.version ([67]\.\d|8\.[0-4])$`)

// WantImages wants an image of each source in a folder and no other, and in them each kernel of the table of ptxas once and
// no other, for the architectures that the table names.
func WantImages(t *testing.T, folder string, images map[string]string) {
	t.Helper()
	sources, err := filepath.Glob(filepath.Join(folder, "*.cu"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("%s has no sources (%v)", folder, err)
	}
	var want []string
	for _, source := range sources {
		want = append(want, strings.TrimSuffix(filepath.Base(source), ".cu")+".ptx")
	}
	if files := slices.Sorted(maps.Keys(images)); !slices.Equal(files, want) {
		t.Errorf("the archive has %q, the sources are those of %q", files, want)
	}
	var rows, kernels []string
	for _, f := range table(t, folder) {
		rows = append(rows, f[0]+" "+f[1])
	}
	for file, text := range images {
		of := target.FindStringSubmatch(text)
		if of == nil || runs[of[1]] == nil {
			t.Fatalf("%s is for %q: what runs that?", file, of)
		}
		if !version.MatchString(text) {
			t.Errorf("%s is of a version of PTX that not all drivers take that the node asks for", file)
		}
		for _, name := range Entries(text) {
			for _, architecture := range runs[of[1]] {
				kernels = append(kernels, name+" "+architecture)
			}
		}
	}
	slices.Sort(rows)
	slices.Sort(kernels)
	if !slices.Equal(kernels, rows) {
		t.Errorf("the archive has the kernels %q, the table those of %q", kernels, rows)
	}
}
