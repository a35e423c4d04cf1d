package upstream

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"corenode/engine/messages"
)

// toolOf is the checker of a request with one tool, f.
func toolOf(schema string) *callChecker {
	return newCallChecker(&messages.Request{Tools: []messages.Tool{{Name: "f", Schema: json.RawMessage(schema)}}})
}

// misfit is what is wrong with a call of f.
func misfit(c *callChecker, input string) error {
	_, err := c.check("f", input)
	return err
}

// nested writes open n times around a middle.
func nested(n int, open, middle, end string) string {
	return strings.Repeat(open, n) + middle + strings.Repeat(end, n)
}

// joined writes n parts.
func joined(n int, part func(i int) string) string {
	parts := make([]string, n)
	for i := range parts {
		parts[i] = part(i)
	}
	return strings.Join(parts, ",")
}

// doubling is a schema of which each definition names the next one twice. word says how, last is the last one.
func doubling(word, last string) string {
	return `{"$ref":"#/$defs/d0","$defs":{` + joined(40, func(i int) string {
		return fmt.Sprintf(`"d%d":{%q:[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, word, i+1, i+1)
	}) + `,"d40":` + last + `}}`
}

// TestCallsWithoutEndAreNotChecked: to hold one of these calls to its schema would take years, or all memory. So it is not
// checked, though each call but one is wrong.
func TestCallsWithoutEndAreNotChecked(t *testing.T) {
	const twice, inDefs = `[{"$ref":"#/$defs/n"},{"$ref":"#/$defs/n"}]`, `{"$ref":"#/$defs/d0",`
	for name, c := range map[string]struct{ schema, call string }{
		"all of":              {doubling("allOf", `{"required":["a"]}`), `{}`},
		"all of, and they do": {doubling("allOf", `{"required":["a"]}`), `{"a":1}`},
		"any of":              {doubling("anyOf", `{"required":["a"]}`), `{}`},
		"one of":              {doubling("oneOf", `{"required":["a"]}`), `{}`},
		"a draft of before":   {`{"$schema":"http://json-schema.org/draft-07/schema#",` + doubling("allOf", `{"required":["a"]}`)[1:], `{}`},
		"names of members":    {`{"propertyNames":` + inDefs[:len(inDefs)-1] + `},` + doubling("anyOf", `{"maxLength":1}`)[len(inDefs):], `{"long":1}`},
		"members twice": {`{"$ref":"#/$defs/n","$defs":{"n":{"properties":{"a":{"allOf":` + twice + `},"b":false}}}}`,
			nested(60, `{"a":`, `{"b":1}`, `}`)},
		"items twice": {`{"properties":{"a":{"$ref":"#/$defs/n"}},"required":["b"],"$defs":{"n":{"items":{"$ref":"#/$defs/n"},` +
			`"contains":{"$ref":"#/$defs/n"}}}}`, `{"a":` + nested(60, `[`, `1`, `]`) + `}`},
		"members by two patterns": {`{"$ref":"#/$defs/n","required":["b"],"$defs":{"n":{"patternProperties":{"a":{"$ref":"#/$defs/n"},` +
			`"^a":{"$ref":"#/$defs/n"}}}}}`, nested(60, `{"a":`, `1`, `}`)},
		"members that are left": {`{"$ref":"#/$defs/n","required":["b"],"$defs":{"n":{"properties":{"a":{"$ref":"#/$defs/n"}},` +
			`"anyOf":[{"properties":{"a":false}},{"unevaluatedProperties":{"$ref":"#/$defs/n"}}]}}}`, nested(60, `{"a":`, `1`, `}`)},
		"a maze": {`{"$ref":"#/$defs/d0","$defs":{` + joined(20, func(i int) string {
			return fmt.Sprintf(`"d%d":{"anyOf":[%s,{"required":["a"]}]}`, i, joined(20, func(j int) string { return fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, j) }))
		}) + `}}`, `{}`},
		"lists that look alike": {`{"properties":{"a":{"uniqueItems":true}},"required":["b"]}`, `{"a":[` + joined(10_000, func(i int) string {
			return `["` + strings.NewReplacer("0", `\u0004`, "1", `","`).Replace(fmt.Sprintf("%014b", i)) + `"]`
		}) + `]}`},
		"a long text and a large pattern": {`{"properties":{"a":{"pattern":"^[xy]{1000}z"}}}`, `{"a":"` + strings.Repeat("x", 100_000) + `"}`},
		"ends that the way decides":       {`{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}},"required":["b"]}`, `{"a":{}}`},
	} {
		checker := toolOf(c.schema)
		if err := misfit(checker, c.call); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if checker.tools["f"].misfits == nil {
			t.Errorf("%s: it is no schema", name)
		}
	}
}

// TestSchemasTooLargeAreNotCompiled: these would take the compiler years, or all memory. They check nothing.
func TestSchemasTooLargeAreNotCompiled(t *testing.T) {
	for name, schema := range map[string]string{
		"an item under many names": `"anyOf":[` + joined(1500, func(i int) string { return `{"$ref":"#/x/` + strings.Repeat("0", i+1) + `"}` }) +
			`],"x":[{"anyOf":[` + joined(1500, func(int) string { return `{"required":["a"]}` }) + `]}]`,
		"many parts":       `"allOf":[` + joined(40_000, func(int) string { return `{"required":["a"]}` }) + `]`,
		"much that nests":  `"not":` + nested(110, `{"not":`, `{"anyOf":[`+joined(5000, func(int) string { return "true" })+`]}`, `}`),
		"places far below": `"properties":{"` + strings.Repeat("x", 1<<20) + `":{"allOf":[` + joined(4000, func(int) string { return "true" }) + `]}}`,
		"many references": `"allOf":[` + joined(5000, func(i int) string { return fmt.Sprintf(`{"$ref":"#/x/d%d"}`, i) }) +
			`],"x":{` + joined(5000, func(i int) string { return fmt.Sprintf(`"d%d":{}`, i) }) + `}`,
		"a large pattern":   `"properties":{"a":{"pattern":"` + strings.Repeat("x{1000}", 1000) + `"}}`,
		"patterns of names": `"patternProperties":{"` + strings.Repeat("x", 1<<16) + `":true}`,
		"a large number":    `"properties":{"a":{"minimum":1e999999}}`,
		"a small number":    `"properties":{"a":{"enum":[1e-999999]}}`,
		"a long number":     `"properties":{"a":{"maximum":` + strings.Repeat("9", 100_000) + `}}`,
	} {
		if err := misfit(toolOf(`{"required":["b"],`+schema+`}`), `{}`); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestManyValuesAreNotRead: what is too much to look at is not taken apart before that is seen. What is no object is refused all the same.
func TestManyValuesAreNotRead(t *testing.T) {
	objects := strings.TrimSuffix(strings.Repeat(`{"a":0},`, 600_000), ",")
	checker := toolOf(`{"required":["b"]}`)
	var before, after runtime.MemStats
	for call, want := range map[string]string{
		`{"a":[` + objects + `]}`: "", `{"a":[` + objects + `]`: "no JSON", ` [` + objects + `]`: "no object",
	} {
		runtime.ReadMemStats(&before)
		err := misfit(checker, call)
		runtime.ReadMemStats(&after)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.20s: %v, want %q", call, err, want)
		}
		if took := int(after.TotalAlloc - before.TotalAlloc); took > 5*len(call) { // it is copied, not taken apart
			t.Errorf("%.20s: %d bytes for a call of %d", call, took, len(call))
		}
	}
}

// TestNumbersThatNobodyReckonsWith: a call that has one is not checked. These calls lack a member.
func TestNumbersThatNobodyReckonsWith(t *testing.T) {
	checker := toolOf(`{"properties":{"a":{"type":["number","array"],"items":{"multipleOf":7}}},"required":["z"]}`)
	for call, checked := range map[string]bool{
		`{"a":7e300}`: true, `{"a":-12.5e-3}`: true, `{"a":` + strings.Repeat("9", 300) + `}`: true,
		`{"a":7e999999}`: false, `{"a":7e-999999}`: false, `{"a":7E+99999999999999999999}`: false, `{"b":{"c":[` + strings.Repeat("9", 400) + `]}}`: false,
		`{"a":[` + joined(1000, func(int) string { return "7e999999" }) + `]}`: false,
	} {
		if err := misfit(checker, call); (err != nil) != checked {
			t.Errorf("%.40s: %v", call, err)
		}
	}
}

// TestCountRemembersEndsOfReferences: of the looks of a call only those are remembered that may come again, and these once.
func TestCountRemembersEndsOfReferences(t *testing.T) {
	checker := toolOf(`{}`)
	schema := checker.compile(json.RawMessage(`{"properties":{"a":{"items":{"properties":{"b":{"anyOf":[{"minLength":2},` +
		`{"$ref":"#/$defs/small"}]},"c":{"$ref":"#/$defs/node"}}}}},"$defs":{"small":{"maximum":3},` +
		`"node":{"properties":{"next":{"$ref":"#/$defs/node"}}}}}`))
	call := `{"a":[` + joined(1000, func(int) string { return `{"b":1}` }) + `,{"c":{"next":{}}}]}`
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(call))
	if schema == nil || err != nil {
		t.Fatal(schema, err)
	}
	e := effort{outline: &checker.outline, left: effortMax, looked: map[look]looks{}}
	v, _ := e.sized(value)
	l, ok := e.at(schema, v, 0)
	if !ok || len(e.looked) != 2 { // all of the call, and the outer node
		t.Errorf("%d looks of %d steps are remembered, %v", len(e.looked), l.steps, ok)
	}
	if e.took != l.steps {
		t.Errorf("nothing came twice, and %d steps took %d to count", l.steps, e.took)
	}
}

// TestChecksOfARequestTakeSoMuch: what the calls of a request take to be checked is bounded for all of them, since an answer
// may have any number. Those behind the bound are not checked.
func TestChecksOfARequestTakeSoMuch(t *testing.T) {
	checker := toolOf(strings.Replace(doubling("allOf", `{"required":["a"]}`), "d0", "d26", 1)) // which doubles 14 times
	checked := 0
	for misfit(checker, `{}`) != nil {
		if checked++; checked > 1000 {
			t.Fatal("there is no bound")
		}
	}
	if checked == 0 {
		t.Error("the first call is not checked")
	}
	if misfit(toolOf(`{"required":["a"]}`), `{}`) == nil {
		t.Error("another request is not checked")
	}
}

// TestLargeSchemasCheck: what clients do send is compiled and checked, also where it is large, comes back to itself, or has
// many ways through it.
func TestLargeSchemasCheck(t *testing.T) {
	const node = `{"$ref":"#/$defs/Node","$defs":{"Node":{"type":"object","required":["value"],"additionalProperties":false,"properties":` +
		`{"value":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/Node"},{"type":"null"}],"default":null},` +
		`"children":{"type":"array","items":{"$ref":"#/$defs/Node"}}}}}}`
	const filter = `{"type":"object","properties":{"filter":{"$ref":"#/$defs/Filter"}},"$defs":{"Filter":{"oneOf":[{"$ref":"#/$defs/And"},` +
		`{"$ref":"#/$defs/Or"},{"$ref":"#/$defs/Not"},{"$ref":"#/$defs/Is"}]},"And":{"type":"object","required":["op","of"],"properties":{"op":` +
		`{"const":"and"},"of":{"type":"array","items":{"$ref":"#/$defs/Filter"}}}},"Or":{"type":"object","required":["op","of"],"properties":{"op":` +
		`{"const":"or"},"of":{"type":"array","items":{"$ref":"#/$defs/Filter"}}}},"Not":{"type":"object","required":["op","not"],"properties":{"op":` +
		`{"const":"not"},"not":{"$ref":"#/$defs/Filter"}}},"Is":{"type":"object","required":["op","field"],"properties":{"op":{"const":"is"},` +
		`"field":{"enum":["a","b"]}}}}}`
	const anything = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","additionalProperties":{"$ref":"#/definitions/any"},` +
		`"definitions":{"any":{"anyOf":[{"type":"string","format":"date"},{"type":"number"},{"type":"boolean"},{"type":"null"},` +
		`{"type":"array","items":{"$ref":"#/definitions/any"}},{"type":"object","additionalProperties":{"$ref":"#/definitions/any"}}]}}}`
	filters := func(last string) string {
		return `{"filter":` + nested(5, `{"op":"and","of":[{"op":"not","not":`, last, `},{"op":"is","field":"a"}]}`) + `}`
	}
	properties := joined(1000, func(i int) string {
		return fmt.Sprintf(`"p%d":{"anyOf":[{"type":"integer","minimum":%d},{"type":"null"}]}`, i, i)
	})
	// Of 330 kinds of things with 9 members, two of which are other things; 200 KB.
	document := `{"type":"object","properties":{"body":{"$ref":"#/components/schemas/Thing0"}},"components":{"schemas":{` +
		joined(330, func(i int) string {
			return fmt.Sprintf(`"Thing%d":{"type":"object","description":"What is known of a thing of kind %d, and of those that belong to it.",`+
				`"required":["id"],"properties":{%s,"id":{"type":"string","pattern":"^[0-9a-f]{8}(-[0-9a-f]{4}){3}$"},`+
				`"owner":{"$ref":"#/components/schemas/Thing%d"},"parts":{"type":"array","items":{"$ref":"#/components/schemas/Thing%d"}}}}`,
				i, i, joined(6, func(j int) string { return fmt.Sprintf(`"m%d":{"type":"string","description":"One of its sides."}`, j) }), (i+1)%330, (i*7)%330)
		}) + `}}}`
	things := func(id string) string {
		const good = "01234567-89ab-cdef-0123"
		return `{"body":` + nested(40, `{"id":"`+good+`","m0":"x","owner":`, `{"id":"`+id+`"}`, `,"parts":[{"id":"`+good+`"},{"id":"`+good+`"}]}`) + `}`
	}
	ids := joined(5000, func(i int) string { return fmt.Sprintf(`"item-%d"`, i) })
	for name, c := range map[string]struct{ schema, right, wrong string }{
		"a deep tree": {node, nested(60, `{"value":1,"children":[`, `{"value":1}`, `]}`), nested(60, `{"value":1,"children":[`, `{"value":"1"}`, `]}`)},
		"a wide tree": {node, `{"value":1,"children":[` + joined(5000, func(int) string { return `{"value":1,"children":[]}` }) + `]}`,
			`{"value":1,"children":[` + joined(5000, func(i int) string { return `{"value":` + strings.Repeat("1.5", 1-min(i, 4999)/4999) + "7}" }) + `]}`},
		"a list of nodes":            {node, nested(100, `{"value":1,"next":`, `null`, `}`), nested(100, `{"value":1,"next":`, `{}`, `}`)},
		"filters of filters":         {filter, filters(`{"op":"is","field":"b"}`), filters(`{"op":"is","field":"c"}`)},
		"anything":                   {anything, `{"a":` + nested(30, `{"b":[1,`, `"2026-01-02"`, `]}`) + `}`, `{"a":` + nested(30, `{"b":[1,`, `"x"`, `]}`) + `}`},
		"a thousand properties":      {`{"type":"object","properties":{` + properties + `},"additionalProperties":false}`, `{"p999":999,"p7":null}`, `{"p999":998}`},
		"a document of an interface": {document, things("01234567-89ab-cdef-0123"), things("x")},
		"many different items": {`{"properties":{"ids":{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[a-z]+-[0-9]+$"}}}}`,
			`{"ids":[` + ids + `]}`, `{"ids":[` + ids + `,"item-7"]}`},
		"a long text": {`{"properties":{"text":{"type":"string","pattern":"^[^<]*$"}},"required":["path"]}`,
			`{"path":"a","text":"` + strings.Repeat("line\\n", 100_000) + `"}`, `{"text":"` + strings.Repeat("line\\n", 100_000) + `"}`},
	} {
		if len(c.schema) > 150_000 != (name == "a document of an interface") {
			t.Errorf("%s: a schema of %d bytes", name, len(c.schema))
		}
		checker := toolOf(c.schema)
		if err := misfit(checker, c.right); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := misfit(checker, c.wrong); err == nil {
			t.Errorf("%s: what is wrong passes, of what is left to count %d", name, checker.left)
		}
	}
}

// TestEveryKeywordChecks: a call that is wrong by any one keyword is found to be, with others that are looked at on the way.
func TestEveryKeywordChecks(t *testing.T) {
	const schema = `{"$schema":%q,"type":"object","properties":{"a":%s},"definitions":{"three":{"const":3}}}`
	for _, draft := range []string{"http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"} {
		for _, c := range [][3]string{ // what a is, and one that does and one that does not
			{`{"$ref":"#/definitions/three"}`, `3.0`, `4`}, {`{"enum":[[1],{"b":2}]}`, `{"b":2}`, `{"b":3}`}, {`{"type":["integer","null"]}`, `1e2`, `1.5`},
			{`{"multipleOf":0.1}`, `0.3`, `0.35`}, {`{"exclusiveMinimum":3}`, `4`, `3`}, {`{"maxLength":2}`, `"äö"`, `"abc"`},
			{`{"items":{"type":"string"},"minItems":1}`, `["x"]`, `["x",1]`}, {`{"contains":{"minimum":5}}`, `[1,5]`, `[1,2]`},
			{`{"uniqueItems":true}`, `[1,[1]]`, `[1,[2],1.0]`}, {`{"propertyNames":{"pattern":"^x"}}`, `{"x1":1}`, `{"y":1}`},
			{`{"patternProperties":{"^x":{"type":"null"}},"additionalProperties":false}`, `{"x1":null}`, `{"y":null}`},
			{`{"additionalProperties":{"type":"null"},"required":["b"]}`, `{"b":null}`, `{"b":1}`}, {`{"dependencies":{"b":["c"]}}`, `{"c":1}`, `{"b":1}`},
			{`{"dependencies":{"b":{"required":["c"]}}}`, `{"b":1,"c":1}`, `{"b":1}`}, {`{"if":{"type":"string"},"then":{"const":"x"},"else":{"const":1}}`, `1`, `2`},
			{`{"oneOf":[{"minimum":1},{"minimum":2}]}`, `1`, `2`}, {`{"not":{"anyOf":[{"const":1},{"const":2}]}}`, `3`, `2`},
			{`{"allOf":[{"minimum":1},{"maximum":2}]}`, `2`, `3`}, {`{"additionalProperties":false,"minProperties":0}`, `{}`, `{"b":1}`},
		} {
			checker := toolOf(fmt.Sprintf(schema, draft, c[0]))
			if err := misfit(checker, `{"a":`+c[1]+`}`); err != nil {
				t.Errorf("%s, %s: %v", draft, c[0], err)
			}
			if misfit(checker, `{"a":`+c[2]+`}`) == nil {
				t.Errorf("%s, %s: %s passes", draft, c[0], c[2])
			}
		}
	}
	for _, c := range [][3]string{
		{`{"prefixItems":[{"type":"string"}],"items":{"type":"null"}}`, `["x",null]`, `["x",1]`},
		{`{"allOf":[{"properties":{"b":true}}],"unevaluatedProperties":false}`, `{"b":1}`, `{"c":1}`},
		{`{"allOf":[{"prefixItems":[true]}],"unevaluatedItems":{"type":"null"}}`, `[1,null]`, `[1,1]`},
		{`{"dependentSchemas":{"b":{"required":["c"]}}}`, `{"b":1,"c":1}`, `{"b":1}`}, {`{"dependentRequired":{"b":["c"]}}`, `{"b":1,"c":1}`, `{"b":1}`},
		{`{"$anchor":"own","type":["array","null"],"items":{"$ref":"#own"}}`, `[[null],[]]`, `[[1]]`},
	} {
		checker := toolOf(`{"properties":{"a":` + c[0] + `}}`)
		if misfit(checker, `{"a":`+c[1]+`}`) != nil || misfit(checker, `{"a":`+c[2]+`}`) == nil {
			t.Errorf("%s: one of %s and %s is not seen as it is", c[0], c[1], c[2])
		}
	}
}
