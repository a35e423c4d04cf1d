package vector

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"corenode/wasm/sdk"
)

var update = flag.Bool("update", false, "rewrite the wants of the vector files; read the diff before you commit it")

// modules are the native modules that the files in testdata are of.
var modules = map[string]sdk.Handler{
	"testdata/vectors/example.json": sdk.TranslatorHandler(parrot{}),
	"testdata/billing.json":         sdk.BillingHandler(billing{}),
	"testdata/admission.json":       sdk.AdmissionHandler(doorman{}),
}

func parsed(t *testing.T, path string) ([]byte, []Vector) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := Parse(text)
	if err != nil || len(all) == 0 {
		t.Fatalf("%s: %d vectors, %v", path, len(all), err)
	}
	return text, all
}

// TestFiles runs the vectors of testdata and holds their layout to Format's.
func TestFiles(t *testing.T) {
	for path, module := range modules {
		text, all := parsed(t, path)
		for i := range all {
			if *update {
				if _, err := all[i].Update(native(module), false); err != nil {
					t.Errorf("%s: %s: %v", path, all[i].Name, err)
				}
				continue
			}
			if err := all[i].Run(native(module), false); err != nil {
				t.Errorf("%s: %s: %v", path, all[i].Name, err)
			}
		}
		if *update {
			if err := os.WriteFile(path, Format(all), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if written := Format(all); !bytes.Equal(written, text) {
			t.Errorf("%s is not as Format writes it:\n%s", path, written)
		}
		again, err := Parse(Format(all))
		if err != nil || len(again) != len(all) {
			t.Errorf("%s: what Format writes: %v", path, err)
		}
	}
}
