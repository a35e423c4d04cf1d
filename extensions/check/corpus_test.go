package check

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"corenode/extensions/guest"
	"corenode/extensions/meter"
)

// TestModulesOfEarlierHosts: modules that were built for ABI 1.0, those that shipped then and an
// example of each kind, get what they got then: their golden vectors hold. Files are added to
// the folder when a version of the ABI comes, and never rebuilt.
func TestModulesOfEarlierHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling takes seconds")
	}
	files, err := filepath.Glob("testdata/abi-1.0/*")
	if err != nil || len(files) < 6 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	for _, name := range files {
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".zst") {
			r, err := zstd.NewReader(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			file, err = io.ReadAll(r)
			r.Close()
			if err != nil {
				t.Fatal(err)
			}
		}
		r := File(renamed(t, file), quick(), nil)
		if len(r.Vectors) == 0 {
			t.Errorf("%s: no vector held", name)
		}
		if !r.Passed {
			t.Errorf("%s:\n%s", name, written(r))
		}
	}
}

// renamed is a module of ABI 1.0 under a name that no module of this program has.
func renamed(t *testing.T, file []byte) []byte {
	t.Helper()
	f, err := guest.Read(file)
	if err != nil || f.Manifest.ABI != guest.ABI10 {
		t.Fatalf("%v, or a module of another ABI: %+v", err, f)
	}
	f.Manifest.Name = "earlier-" + f.Manifest.Name
	manifest, err := json.Marshal(f.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	if file, err = meter.WithCustomSection(file, guest.ManifestSection, manifest); err != nil {
		t.Fatal(err)
	}
	return file
}
