package generatecontent

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

var update = flag.Bool("update", false, "rewrite the wants of vectors/*.json; read the diff before you commit it")

// native runs the translator as the guest's export does.
func native(op abi.Op, in []byte) ([]byte, error) { return Handler()(op, in, nil), nil }

// TestVectors runs the module's golden vectors natively: the same files run
// through the built module. Streams run at every cut.
func TestVectors(t *testing.T) {
	files, err := vector.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		before, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Vectors {
			v := &f.Vectors[i]
			t.Run(v.Name, func(t *testing.T) {
				if *update {
					if _, err := v.Update(native, true); err != nil {
						t.Fatal(err)
					}
				}
				if err := v.Run(native, true); err != nil {
					t.Error(err)
				}
			})
		}
		after := vector.Format(f.Vectors)
		switch {
		case *update:
			if err := os.WriteFile(f.Path, after, 0o644); err != nil {
				t.Fatal(err)
			}
		case !bytes.Equal(before, after):
			t.Errorf("%s is not laid out as an update lays it out", f.Path)
		}
	}
}
