package grammar

import (
	"encoding/json"
	"slices"
	"testing"
)

// TestMembersOfConditions: what is not enforced forbids nothing: members that only a pattern of names or a condition names can be written.
func TestMembersOfConditions(t *testing.T) {
	const when = `"properties":{"kind":{"enum":["a","b"]}},"required":["kind"]`
	const then = `"if":{"properties":{"kind":{"const":"a"}}},"then":{"properties":{"value":{"type":"integer"}},"required":["value"]},
		"else":{"allOf":[{"$ref":"#/$defs/other"}],"required":["more"]},"$defs":{"other":{"properties":{"other":{"type":"string"}},"else":{"$ref":"#/$defs/other"}}}`
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"object","patternProperties":{"^.*$":{"type":"number"}},"additionalProperties":false}`,
			[]string{`{}`, `{"x":1}`, `{"x":1,"y":2}`}, []string{`{"x":"a"}`}},
		{`{"type":"object","patternProperties":{"^.*$":{"type":"number"}},"additionalProperties":false,"required":["x"]}`,
			[]string{`{"x":1}`, `{"x":1,"y":2}`}, []string{`{}`, `{"x":"a"}`}},
		{`{"type":"object","properties":{"n":{"type":"string"}},"patternProperties":{"^x":{"type":"number"},"^y":true},"additionalProperties":false}`,
			[]string{`{"n":"a"}`, `{"x":1}`, `{"n":"a","y":[]}`}, []string{`{"n":1}`}},
		{`{"type":"object","properties":{"n":{"type":"string"}},"patternProperties":{"^x":{"type":"number"}},"unevaluatedProperties":false}`,
			[]string{`{"n":"a","x":1}`}, []string{`{"x":"a"}`}},
		{`{"type":"object","allOf":[{"properties":{"n":{"type":"string"}},"required":["n"]}],"patternProperties":{"^x":{"type":"number"}},
			"unevaluatedProperties":false}`, []string{`{"n":"a"}`, `{"n":"a","x":1}`}, []string{`{"n":1}`, `{"n":"a","x":"a"}`}},
		{`{"type":"object","properties":{"n":{"type":"string"}},"patternProperties":{"^x":{"type":"number"}}}`, []string{`{"n":"a","x":1}`, `{"y":[]}`}, nil},
		{`{"type":"object","properties":{"n":{"type":"string"}},"patternProperties":{},"additionalProperties":false}`, []string{`{"n":"a"}`}, []string{`{"x":1}`}},
		{`{"type":"object",` + when + `,` + then + `}`,
			[]string{`{"kind":"a"}`, `{"kind":"a","value":5}`, `{"kind":"b","other":"x"}`, `{"kind":"b","more":1}`}, []string{`{"value":5}`, `{"kind":"a","x":1}`}},
		{`{"type":"object",` + when + `,` + then + `,"unevaluatedProperties":false}`, []string{`{"kind":"a","value":5}`}, []string{`{"kind":"a","x":5}`}},
		{`{"type":"object",` + when + `,` + then + `,"additionalProperties":false}`, []string{`{"kind":"a"}`}, []string{`{"kind":"a","value":5}`}},
		{`{"type":"object","properties":{"k":{}},"dependentRequired":{"k":["a","b","c"]},"anyOf":[{"dependentRequired":{"k":["d"]}},{"dependentRequired":{"k":["e"]}}]}`,
			[]string{`{"k":1,"d":1}`, `{"k":1,"a":1,"e":1}`}, []string{`{"k":1,"d":1,"e":1}`, `{"f":1}`}},
		{`{"type":"object",` + when + `,"then":{"$ref":"elsewhere"}}`, []string{`{"kind":"a"}`}, nil},
		{`{"type":"object",` + when + `,"dependentSchemas":{"kind":{"properties":{"value":{}}}},"dependencies":{"kind":["x"],"x":{"required":["y"]}},
			"dependentRequired":{"kind":["z"]}}`, []string{`{"kind":"a","value":5}`, `{"kind":"a","x":1}`, `{"kind":"a","y":1}`, `{"kind":"a","z":1}`}, []string{`{"kind":"a","w":1}`}},
		{`{"enum":[{"kind":"a","value":5},{"kind":"a","x":[]}],` + when + `,` + then + `}`, []string{`{"kind":"a","value":5}`}, nil},
	} {
		wantTexts(t, c.schema, c.yes, c.not)
	}
}

// TestUnionsOfLiterals: a union of many values is that list of values, whatever else the union has.
func TestUnionsOfLiterals(t *testing.T) {
	literals := many(418, `{"const":"vN","type":"string","title":"the Nth"}`)
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"anyOf":[` + literals + `]}`, []string{`"v0"`, `"v417"`}, []string{`"v418"`, `1`}},
		{`{"oneOf":[` + literals + `,{"enum":["v3",7],"description":"x"},{"type":"boolean"}]}`, []string{`"v3"`, `7`, `true`}, []string{`8`}},
		{`{"type":"string","maxLength":3,"anyOf":[` + literals + `]}`, []string{`"v41"`}, []string{`"v417"`}},
		{`{"enum":["v1","x"],"anyOf":[` + literals + `]}`, []string{`"v1"`}, []string{`"x"`, `"v2"`}},
		{`{"anyOf":[{"const":1,"type":"string"},{"enum":["a",2],"type":"string"},{"enum":[1,2.5],"type":["integer","null"]},{"const":"b","enum":["c"]}]}`,
			[]string{`"a"`, `1`}, []string{`2`, `2.5`, `"b"`, `"c"`}},
		{`{"anyOf":[{"const":"abc","maxLength":2},{"const":7,"description":"string"},{"const":"e"}]}`, []string{`7`, `"e"`}, []string{`"abc"`}},
		{`{"type":"object","properties":{"x":{"anyOf":[` + literals + `]},"y":{"anyOf":[` + literals + `]}},"required":["x","y"]}`, []string{`{"x":"v7","y":"v300"}`}, nil},
	} {
		wantTexts(t, c.schema, c.yes, c.not)
	}
}

// wantTexts checks which texts a schema lets be written.
func wantTexts(t *testing.T, schema string, yes, not []string) {
	t.Helper()
	g, err := Compile(Form{Text: json.RawMessage(schema)})
	if err != nil {
		t.Errorf("%.200s: %v", schema, err)
		return
	}
	v := vocabulary()
	for _, text := range slices.Concat(yes, not) {
		if got, want := matches(g, v, text), slices.Contains(yes, text); got != want {
			t.Errorf("%.200s: %s may be written: %v, want %v", schema, text, got, want)
		}
	}
}
