package completions_test

import (
	"flag"
	"os"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
	"corenode/wasm/completions"
)

var update = flag.Bool("update", false, "rewrite the wants of vectors/*.json; read the diff before you commit it")

var handler = completions.Handler()

// native runs the translator as the guest's export does.
func native(op abi.Op, in []byte) ([]byte, error) { return handler(op, in, nil), nil }

// TestVectors runs the module's golden vectors natively: the same files run
// through the built module. Streams run at every cut.
func TestVectors(t *testing.T) {
	files, err := vector.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		for i := range f.Vectors {
			v := &f.Vectors[i]
			t.Run(v.Name, func(t *testing.T) {
				if *update {
					if _, err := v.Update(native, false); err != nil {
						t.Fatal(err)
					}
				}
				if err := v.Run(native, false); err != nil {
					t.Error(err)
				}
			})
		}
		if !*update {
			continue
		}
		if err := os.WriteFile(f.Path, vector.Format(f.Vectors), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
