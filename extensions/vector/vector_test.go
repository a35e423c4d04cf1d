package vector

import (
	"bytes"
	"flag"
	"os"
	"strings"
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

// TestRouteIsNeeded: a request of a module with routes came by one of them, also where only what it keeps is used.
func TestRouteIsNeeded(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","op":"request","body":{}}`:                                                     `op request needs "route"`,
		`{"name":"a","op":"request","body":{},"route":{"index":1}}`:                                 "",
		`{"name":"a","op":"request","body":{},"route":{"index":2}}`:                                 "its index is 2, and the module has",
		`{"name":"a","op":"stream","events":[],"request":{}}`:                                       `"request" needs "route"`,
		`{"name":"a","op":"response","events":[],"request":{}}`:                                     `"request" needs "route"`,
		`{"name":"a","op":"error","error":{"status":500,"kind":"internal"},"request":{}}`:           `"request" needs "route"`,
		`{"name":"a","op":"count","tokens":1,"request":{}}`:                                         `"request" needs "route"`,
		`{"name":"a","op":"count","tokens":1,"kept":"x"}`:                                           "",
		`{"name":"a","op":"error","error":{"status":500,"kind":"internal"}}`:                        "",
		`{"name":"a","op":"models","models":[],"route":{"index":5}}`:                                "its index is 5",
		`{"name":"a","op":"stream","events":[],"request":{},"route":{"index":0,"params":{"a":""}}}`: "",
	} {
		all, err := Parse([]byte("[" + text + "]"))
		if err != nil {
			t.Fatal(text, err)
		}
		if err := all[0].CheckRoute(0); err != nil {
			t.Errorf("%s, without routes: %v", text, err)
		}
		if err := all[0].CheckRoute(2); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
