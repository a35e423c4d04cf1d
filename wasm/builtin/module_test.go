package builtin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func TestModulesAreWhatTheySay(t *testing.T) {
	entries, err := files.ReadDir("modules")
	if err != nil || len(Modules()) == 0 || len(entries) != 2*len(Modules())+1 {
		t.Fatalf("%d files for %d modules and BUILT, %v", len(entries), len(Modules()), err)
	}
	for _, m := range Modules() {
		wasm, err := m.Wasm()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("sha256:%x", sha256.Sum256(wasm)); got != m.Digest {
			t.Errorf("%s: digest %s, BUILT says %s", m.Name, got, m.Digest)
		}
		if inFile := section(t, wasm, "corenode.manifest"); !bytes.Equal(inFile, m.Manifest) {
			t.Errorf("%s: the manifest is\n%s\nbut in the file\n%s", m.Name, m.Manifest, inFile)
		}
		var manifest struct {
			Name, Kind, Protocol, Version, ABI, Runtime, Description string
			History                                                  bool
			MemoryMaxBytes                                           int64 `json:"memory_max_bytes"`

			ConfigSchema json.RawMessage `json:"config_schema"`

			Routes, Keys, Headers, Query, Statuses, Ticks json.RawMessage
			Framing                                       string
			ContentType                                   string `json:"content_type"`
			KeepAlive                                     string
			AnyContentType                                bool `json:"any_content_type"`
			Array                                         bool
		}
		d := json.NewDecoder(bytes.NewReader(m.Manifest))
		d.DisallowUnknownFields()
		if err := d.Decode(&manifest); err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		records := "1.0"
		if m.Kind == "translator" {
			records = "1.1" // it is told of failures as data
		}
		if manifest.Name != m.Name || manifest.Kind != m.Kind || manifest.Protocol != m.Protocol ||
			manifest.History != m.History || manifest.ABI != records || manifest.Runtime != "go" || m.Off != (manifest.Routes != nil) ||
			manifest.ConfigSchema == nil {
			t.Errorf("%s: the manifest says %+v", m.Name, manifest)
		}
		var vectors []json.RawMessage
		if err := json.Unmarshal(section(t, wasm, "corenode.vectors"), &vectors); err != nil || len(vectors) == 0 {
			t.Errorf("%s: %d vectors, %v", m.Name, len(vectors), err)
		}
	}
}

// section finds the content of a custom section.
func section(t *testing.T, wasm []byte, name string) []byte {
	t.Helper()
	for b := wasm[8:]; len(b) > 0; {
		id := b[0]
		size, n := binary.Uvarint(b[1:])
		body := b[1+n : 1+n+int(size)]
		b = b[1+n+int(size):]
		if id != 0 {
			continue
		}
		length, n := binary.Uvarint(body)
		if string(body[n:n+int(length)]) == name {
			return body[n+int(length):]
		}
	}
	t.Fatalf("no section %q", name)
	return nil
}

// TestBuildIsReproducible builds the modules again, elsewhere, and compares
// every byte with what ships. When it fails, the sources have changed: run make wasm.
func TestBuildIsReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles every module: left out of -short")
	}
	if made := built()["toolchain"]; made != runtime.Version() {
		t.Skipf("the modules were built by %s, this is %s: the bytes may differ", made, runtime.Version())
	}
	out := t.TempDir()
	tool := exec.Command("go", "run", "./build", "-source", "..", "-out", out)
	if output, err := tool.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	for _, m := range Modules() {
		packed, err := os.ReadFile(filepath.Join(out, m.Name+".wasm.zst"))
		if err != nil {
			t.Fatal(err)
		}
		r, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := r.DecodeAll(packed, nil)
		r.Close()
		shipped, shippedErr := m.Wasm()
		if err != nil || shippedErr != nil || !bytes.Equal(again, shipped) {
			t.Errorf("module %s: %d bytes now, %d shipped, %v, %v: its sources changed, run make wasm",
				m.Name, len(again), len(shipped), err, shippedErr)
		}
	}
}
