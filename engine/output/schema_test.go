package output

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// numbered are n texts with a comma between them: the format with each number from 0.
func numbered(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(all, ",")
}

// costly are schemas of some 250 KB, all of a parameter a that is an integer, whose
// references cost far more than their bytes if each is looked up for itself.
var costly = map[string]string{
	"one target": `{"properties":{"a":{"anyOf":[` + strings.Repeat(`{"$ref":"#/$defs/b"},`, 480) + `{"$ref":"#/$defs/b"}]}},
		"$defs":{"b":{"description":"` + strings.Repeat("x", 230_000) + `","type":"integer"}}}`,
	"many targets": `{"properties":{"a":{"anyOf":[` + numbered(5000, `{"$ref":"#/$defs/b%d"}`) + `]}},
		"$defs":{` + numbered(5000, `"b%d":{"type":"integer"}`) + `}}`,
	"one target of many names": `{"properties":{"a":{"anyOf":[` +
		strings.NewReplacer("0", "~", "1", "~0").Replace(numbered(2000, `{"$ref":"#/$defs/b/%011b"}`)) + `]}},
		"$defs":{"b":{"~~~~~~~~~~~":{"anyOf":[` + strings.Repeat(`{"type":"integer"},`, 7000) + `{"type":"integer"}]}}}}`,
	"a long way": `{"properties":{"a":{"anyOf":[` + strings.Repeat(`{"$ref":"#`+strings.Repeat("/b", 4000)+`"},`, 20) + `{"type":"integer"}]}},` +
		strings.Repeat(`"b":{`, 4000) + `"description":"` + strings.Repeat("x", 40_000) + `"` + strings.Repeat("}", 4000) + `}`,
	"a chain": `{"properties":{"a":{"$ref":"#/$defs/b"}},
		"$defs":{"b":{` + numbered(4500, `"$ref":"#/$defs/b%[1]d"},"b%[1]d":{"title":"xxxxxxxxxxxxxx"`) + `,"type":"integer"}}}`,
	"many parameters": `{"properties":{` + numbered(2000, `"b%d":{"$ref":"#/$defs/b"}`) + `,"a":{"type":"integer"}},
		"$defs":{"b":{"anyOf":[` + strings.Repeat(`{"title":"xxxxxxxxxxxxxx"},`, 5000) + `{"type":"string"}]}}}`,
}

// TestSchemaIsReadOnce counts what is allocated, which decoding does by the byte: for many
// calls about what one reading of the schema takes.
func TestSchemaIsReadOnce(t *testing.T) {
	for name, schema := range costly {
		if !json.Valid([]byte(schema)) {
			t.Fatalf("%s: not a schema", name)
		}
		p := New(Options{Marked: true, Tools: []Tool{{Name: "t", Schema: json.RawMessage(schema)}}, NewID: func() string { return "id" }})
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var events []abi.Event
		for range 50 {
			events = feed(p, events, xml("t", "a", "7"))
		}
		runtime.ReadMemStats(&after)
		for i, b := range collect(t, p.Finish(events, false)) {
			if b.text != `{"a":7}` {
				t.Errorf("%s: call %d is %s", name, i, b.text)
			}
		}
		if used, size := after.TotalAlloc-before.TotalAlloc, uint64(len(schema)); used > 40*size {
			t.Errorf("%s: a schema of %d bytes made calls allocate %d", name, size, used)
		}
	}
}

// TestSchemaVisits: what is looked at of a schema is bounded, however its references
// spread, and over the bound the same is known each time.
func TestSchemaVisits(t *testing.T) {
	for name, raw := range costly {
		types, _ := ParameterTypes(json.RawMessage(raw))
		s := readSchema(json.RawMessage(raw))
		s.types(s.root["properties"].(map[string]any)["a"])
		if s.visits > len(raw)/10 {
			t.Errorf("%s: %d schemas looked at in %d bytes", name, s.visits, len(raw))
		}
		if types["a"] != TypeInteger {
			t.Errorf("%s: types %b", name, types["a"])
		}
	}
	many := json.RawMessage(`{"properties":{` + numbered(visitsMax+500, `"p%d":{"type":"integer"}`) + `}}`)
	types, ok := ParameterTypes(many)
	if ok || types["p0"] != TypeInteger {
		t.Errorf("ok %v, the first has types %b", ok, types["p0"])
	}
	for range 3 {
		again, _ := ParameterTypes(many)
		for name, k := range types {
			if again[name] != k {
				t.Fatalf("%s has types %b, and %b before", name, again[name], k)
			}
		}
	}
}
