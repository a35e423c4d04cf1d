package chat_test

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
	"corenode/wasm/sdk"
)

var update = flag.Bool("update", false, "rewrite what the vectors want; read the diff before you commit it")

// vectorDirs hold the module's own vectors and the full set of goldens, in one
// format: package vector describes it.
var vectorDirs = []string{"vectors", "testdata/vectors"}

// native runs the translator as the guest's export does.
func native(op abi.Op, in []byte) ([]byte, error) {
	return handler(op, in, nil), nil
}

var (
	handler = chat.Handler()
	general = sdk.TranslatorHandler(chat.New()) // without the short way of Handler
)

// TestVectors runs every vector; a stream at every cut in two, and with every
// event alone.
func TestVectors(t *testing.T) {
	for _, dir := range vectorDirs {
		files, err := vector.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			before, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if *update {
				for i := range f.Vectors {
					if _, err := f.Vectors[i].Update(native, false); err != nil {
						t.Fatalf("%s: %v", f.Vectors[i].Name, err)
					}
				}
				if err := os.WriteFile(f.Path, vector.Format(f.Vectors), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if !bytes.Equal(before, vector.Format(f.Vectors)) {
				t.Errorf("%s is not laid out as an update lays it out", f.Path)
			}
			for i := range f.Vectors {
				t.Run(f.Vectors[i].Name, func(t *testing.T) {
					if err := f.Vectors[i].Run(native, false); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
