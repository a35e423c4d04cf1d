package server

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"corenode/wasm/builtin"
)

// TestPathsOfModulesThatAreOff: who asks for a path of a module that ships and is off learns which one brings it.
func TestPathsOfModulesThatAreOff(t *testing.T) {
	paths := 0
	for _, m := range builtin.Modules() {
		if !m.Off {
			continue
		}
		text, err := os.ReadFile("../../wasm/" + m.Name + "/guest/manifest.json")
		if err != nil {
			t.Fatal(err)
		}
		var manifest struct{ Routes []struct{ Path string } }
		if err := json.Unmarshal(text, &manifest); err != nil {
			t.Fatal(err)
		}
		for _, r := range manifest.Routes {
			paths++
			if got := misplaced([]byte(r.Path)); !strings.Contains(got, "the module "+m.Name+" ") {
				t.Errorf("%s: %q does not name %s", r.Path, got, m.Name)
			}
		}
	}
	if paths == 0 {
		t.Fatal("no module that is off has a path")
	}
}
