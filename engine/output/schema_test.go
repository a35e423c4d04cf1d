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

// TestParameterTypes: the types of a parameter are those that its schema names, or shows.
func TestParameterTypes(t *testing.T) {
	for _, c := range []struct {
		schema string
		want   Types
	}{
		{`{}`, 0},
		{`true`, 0},
		{`{"type":"integer"}`, TypeInteger},
		{`{"type":["string",7,"null"]}`, TypeString | TypeNull},
		{`{"type":"string","enum":[1]}`, TypeString},
		{`{"enum":["a",1.5,true,null,[],{}]}`, TypeString | TypeNumber | TypeBoolean | TypeNull | TypeArray | TypeObject},
		{`{"enum":[1e400]}`, TypeNumber},
		{`{"const":false}`, TypeBoolean},
		{`{"const":null}`, TypeNull},
		{`{"properties":{}}`, TypeObject},
		{`{"items":{}}`, TypeArray},
		{`{"properties":{},"items":{}}`, TypeObject},
		{`{"const":"a","properties":{},"items":{}}`, TypeString},
		{`{"anyOf":[{"type":"string"}],"oneOf":[{"type":"null"}],"allOf":[{"type":"array"}]}`, TypeString | TypeNull | TypeArray},
		{`{"anyOf":[{"$ref":"#/$defs/a~1~0b"}],"oneOf":[{"$ref":"#/$defs/a~1~0b"}]}`, TypeNumber},
		{`{"$ref":"$defs/a~1~0b"}`, 0},
		{`{"$ref":"#/$defs/none/a"}`, 0},
	} {
		raw := fmt.Sprintf(`{"properties":{"p":%[1]s,"q":%[1]s},"$defs":{"a/~b":{"type":"number"}}}`, c.schema)
		types, ok := ParameterTypes(json.RawMessage(raw))
		if !ok || types["p"] != c.want || types["q"] != c.want {
			t.Errorf("%s: types %b and %b, want %b", c.schema, types["p"], types["q"], c.want)
		}
	}
}

// TestValues: the text of a parameter is what its types make of it.
func TestValues(t *testing.T) {
	const either = TypeString | TypeNull
	for _, c := range []struct {
		text    string
		allowed Types
		exact   bool
		want    string
	}{
		{"null", TypeString, false, `null`},
		{" Null\n", TypeInteger, true, `null`},
		{"null", TypeString, true, `"null"`},
		{"null", either, true, `null`},
		{"None", TypeNull, false, `null`},
		{"None", TypeNull | TypeInteger, true, `null`},
		{"None", either, false, `"None"`},
		{"None", TypeInteger, false, `"None"`},
		{"true", TypeBoolean, false, `true`},
		{" FALSE ", TypeBoolean, false, `false`},
		{"false", TypeString, false, `"false"`},
		{"1.5", TypeInteger, false, `"1.5"`},
		{"1.5", TypeInteger | TypeNumber, false, `1.5`},
		{"9007199254740991.0", TypeInteger, false, `9007199254740991`},
		{"9007199254740992.0", TypeInteger, false, `"9007199254740992.0"`},
		{"1e300", TypeInteger, false, `"1e300"`},
		{"-1e15", TypeInteger, false, `-1000000000000000`},
		{"NaN", TypeNumber, false, `"NaN"`},
		{"1e400", TypeNumber, false, `"1e400"`},
		{".5", TypeNumber, false, `0.5`},
		{strings.Repeat("1", numberMax), TypeInteger, false, strings.Repeat("1", numberMax)},
		{strings.Repeat("1", numberMax+1), TypeInteger, false, `"` + strings.Repeat("1", numberMax+1) + `"`},
		{"", TypeArray | TypeObject, false, `""`},
		{" ", TypeInteger | TypeNumber, false, `" "`},
		{"[1]", TypeObject, false, `"[1]"`},
		{"{}", TypeArray, false, `"{}"`},
		{" [ 1 ] ", TypeArray, false, `[1]`},
		{"5", TypeArray | TypeObject, false, `"5"`},
		{"7", 0, false, `"7"`},
	} {
		if got := string(appendValue(nil, c.text, c.allowed, c.exact)); got != c.want {
			t.Errorf("%.20q of types %b, exact %v: %.40s, want %.40s", c.text, c.allowed, c.exact, got, c.want)
		}
	}
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
