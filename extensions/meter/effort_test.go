package meter

import (
	"os"
	"path/filepath"
	"testing"

	"corenode/wasm/builtin"
)

// TestRealModulesAreFarFromTheBounds: what ships and the examples stay under
// half of each bound, so that nobody meets one by writing ordinary code.
func TestRealModulesAreFarFromTheBounds(t *testing.T) {
	files := map[string][]byte{}
	for _, b := range builtin.Modules() {
		wasm, err := b.Wasm()
		if err != nil {
			t.Fatal(err)
		}
		files[b.Name] = wasm
	}
	examples, err := filepath.Glob("../../wasm/examples/*/module.wasm")
	if err != nil || len(examples) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	for _, path := range examples {
		if files[path], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	for name, wasm := range files {
		m, err := parse(wasm)
		if err != nil {
			t.Fatal(err)
		}
		if m.elements > elementsMax/2 || m.dataCount > dataMax/2 || len(m.customs) > customsMax/2 {
			t.Errorf("%s: %d elements, %d data segments, %d custom sections", name, m.elements, m.dataCount, len(m.customs))
		}
		metered, _, err := Rewrite(wasm, Options{MemoryPagesMax: 65536, SafepointPages: 65536, ExportStart: true})
		if err != nil {
			t.Fatal(err)
		}
		e, total, err := effortOf(metered, func(int, Effort) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		limit := FunctionMax
		for what, pair := range map[string][2]int{"bytes": {e.Bytes, limit.Bytes}, "edges": {e.Edges, limit.Edges},
			"carried": {e.Carried, limit.Carried},
			"loops":   {e.Loops, limit.Loops}, "calls": {e.Calls, limit.Calls}, "slow": {e.Slow,
				limit.Slow}, "time": {int(total), int(ModuleMax)}} {
			if pair[0] > pair[1]/2 {
				t.Errorf("%s: %s is %d, which is over half of %d", name, what, pair[0], pair[1])
			}
		}
		t.Logf("%s: %+v, %v in all", name, e, total)
	}
}
