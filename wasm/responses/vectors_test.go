package responses

import (
	"flag"
	"os"
	"testing"

	"corenode/extensions/vector"
	"corenode/wasm/abi"
)

var update = flag.Bool("update", false, "rewrite the wants of vectors/*.json; read the diff before you commit it")

// TestVectors runs the module's golden vectors natively: the same files run
// through the built module. Streams run at every cut.
func TestVectors(t *testing.T) {
	files, err := vector.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	handle := Handler()
	call := func(op abi.Op, in []byte) ([]byte, error) { return handle(op, in, nil), nil }
	for _, f := range files {
		for i := range f.Vectors {
			v := &f.Vectors[i]
			t.Run(v.Name, func(t *testing.T) {
				if *update {
					if _, err := v.Update(call, true); err != nil {
						t.Fatal(err)
					}
				}
				if err := v.Run(call, true); err != nil {
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
