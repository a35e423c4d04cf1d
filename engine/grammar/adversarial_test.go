package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar/grammartest"
	"corenode/engine/output"
	"corenode/wasm/abi"
)

// chain is n definitions, each a union of the next one twice.
func chain(keyword string, n int, last string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `"a%d":{"%s":[{"$ref":"#/$defs/a%d"},{"$ref":"#/$defs/a%d"}]},`, i, keyword, i+1, i+1)
	}
	return fmt.Sprintf(`{"$ref":"#/$defs/a0","$defs":{%s"a%d":%s}}`, b.String(), n, last)
}

// tenfold is n definitions, each ten times the one before.
func tenfold(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"a%d":{"allOf":[%s]}`, i+1, strings.ReplaceAll(many(10, `{"$ref":"#/$defs/aX"}`), "X", fmt.Sprint(i)))
	}
	return b.String()
}

// many is n parts with their numbers, between commas.
func many(n int, part string) string {
	var all []string
	for i := range n {
		all = append(all, strings.ReplaceAll(part, "N", fmt.Sprint(i)))
	}
	return strings.Join(all, ",")
}

// TestHostile has schemas that would cost much more than their size, most of them without an end.
func TestHostile(t *testing.T) {
	const unions = 17
	for name, schema := range map[string]string{
		"allOf doubled":        chain("allOf", 50, `{"type":"string"}`),
		"anyOf doubled":        chain("anyOf", 50, `{"type":"string"}`),
		"anyOf of nothing":     chain("anyOf", 50, `false`),
		"unions multiplied":    `{"allOf":[` + many(40, `{"anyOf":[{"type":"string"},{"type":"integer"}]}`) + `,{"type":"null"}]}`,
		"growing lists":        `{"$defs":{"r":{"allOf":[{"properties":{"x":{"allOf":[{"$ref":"#/$defs/r"},{"$ref":"#/$defs/r"}]}}}]}},"$ref":"#/$defs/r"}`,
		"huge bound":           `{"type":"integer","minimum":1e999999}`,
		"huge fraction":        `{"type":"number","minimum":1e-999999,"maximum":1e300}`,
		"huge values":          `{"enum":[` + many(5000, `1e99999N`) + `]}`,
		"huge count":           `{"type":"string","minLength":1e999999}`,
		"pointers":             `{"properties":{"` + strings.Repeat("x", 100_000) + `":{"enum":[` + many(30_000, "N") + `]}}}`,
		"ignored":              `{` + many(20_000, `"xN":1`) + `}`,
		"required":             `{"required":[` + many(25_000, `"aN"`) + `],"properties":{` + many(5000, `"aN":true`) + `},"type":"object"}`,
		"enums":                `{"allOf":[{"enum":[` + many(12_000, `"aN"`) + `]},{"enum":[` + many(12_000, `"aN"`) + `,"z"]}],"type":"integer"}`,
		"names":                `{"type":"object","properties":{` + many(10_000, `"name_N":true`) + `},"additionalProperties":true}`,
		"long name":            `{"type":"object","properties":{"` + strings.Repeat("x", 200_000) + `":true},"additionalProperties":true}`,
		"options of objects":   `{"properties":{` + many(5000, `"aN":true`) + `},"anyOf":[` + many(200, `{"required":["aN"]}`) + `]}`,
		"pattern":              `{"type":"string","pattern":"` + strings.Repeat("[a-z]{1000}", 300) + `"}`,
		"patterns":             `{"properties":{` + many(5000, `"aN":{"pattern":"(x{0,30}){0,30}","type":"string"}`) + `}}`,
		"pattern of loops":     `{"type":"string","pattern":"^` + strings.Repeat("(", 200) + "a" + strings.Repeat("+b)+", 200) + `$"}`,
		"pattern of empties":   `{"type":"string","pattern":"^((((a*)*)*)*)*$"}`,
		"nested repeats":       `{"type":"array","maxItems":2000,"items":{"type":"array","minItems":2000,"items":{"type":"string","minLength":2000}}}`,
		"long prefix":          `{"type":"array","prefixItems":[` + many(20_000, `true`) + `]}`,
		"wrong kinds":          `{"type":"object","properties":[],"required":true,"anyOf":{},"oneOf":5,"enum":null,"items":{"pattern":7},"prefixItems":"x","minLength":"y","pattern":{}}`,
		"wrong reference":      `{"$ref":7}`,
		"reference to nowhere": `{"$ref":"#/a/0/~2//%"}`,
		"deep":                 strings.Repeat(`{"items":`, 70) + `true` + strings.Repeat(`}`, 70),
		"lists multiplied": `{"$defs":{"a0":{"allOf":[` + many(10, `{"items":{}}`) + `]}` + tenfold(4) + `},"allOf":[{"$ref":"#/$defs/a4"},` +
			many(unions, `{"anyOf":[true,true]}`) + `,{"anyOf":[false]}]}`,
		"others multiplied": `{"$defs":{"a0":{"additionalProperties":true}` + tenfold(4) + `},"allOf":[{"$ref":"#/$defs/a4"},` +
			many(unions, `{"anyOf":[true,true]}`) + `,{"anyOf":[false]}]}`,
		"items of lists":      `{"type":"array","minItems":50,"allOf":[` + many(17_000, `{"items":{}}`) + `]}`,
		"members of lists":    `{"type":"object","properties":{"a":{}},"allOf":[` + many(17_000, `{"additionalProperties":{}}`) + `]}`,
		"properties of lists": `{"type":"object","allOf":[` + many(17_000, `{"properties":{"a":{}}}`) + `]}`,
	} {
		for _, f := range []Form{{Text: json.RawMessage(schema)}, {Calls: []Tool{{Name: "t", Schema: json.RawMessage(`{"type":"object","properties":{"v":` + schema + `}}`)}}}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Compile(f)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > 400<<20 { // steps take memory, and memory is no matter of the machine
				t.Errorf("%s: compiling it took %d bytes", name, took)
			}
			if wrong, ok := errors.AsType[*Error](err); err != nil && (!ok || len(wrong.Error()) > 200_000) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestListedValuesAreDear has lists whose values cost much more to compare, with patterns, members
// and each other, than there are of them: the work is counted before it is done.
func TestListedValuesAreDear(t *testing.T) {
	const left = 100_000 // steps
	long := strings.Repeat("a", 40_000)
	places := func(schema string) string {
		return `{"$defs":{"s":` + schema + `},"anyOf":[` + many(250, `{"$ref":"#/$defs/s"}`) + `,true]}`
	}
	for name, schema := range map[string]string{
		"one match":     `{"enum":["` + long[:4000] + `"],"pattern":"(?:a{0,1000})*$"}`,
		"matches":       `{"enum":["` + long[:1000] + `"],"allOf":[` + many(8, `{"pattern":"(?:a{0,500}N?)*$"}`) + `]}`,
		"programs":      `{"enum":["b"],"allOf":[` + many(3, `{"pattern":"N|b|`+strings.Repeat("a{1000}", 10)+`"}`) + `]}`,
		"a long text":   places(`{"enum":["` + long + `"],"maxLength":1}`),
		"equal texts":   places(`{"const":"` + long + `","enum":["` + long + `x"]}`),
		"text of items": `{"enum":[[` + many(300, "0") + `]],"items":{"enum":["` + long + `",0]}}`,
		"items":         `{"enum":[` + many(300, `[0]`) + `],"allOf":[{"items":false},` + many(500, `{"items":{}}`) + `]}`,
		"properties":    `{"enum":[` + many(40, `{}`) + `],"properties":{` + many(3000, `"pN":true`) + `}}`,
		"members":       places(`{"enum":[{` + many(1000, `"aN":1`) + `}],"properties":{"a0":false}}`),
		"many members":  `{"enum":[{` + many(3000, `"aN":1`) + `}]}`,
		"references":    `{"allOf":[` + many(2000, `{"$ref":"#/$defs/aN"}`) + `],"$defs":{` + many(6000, `"aN":{}`) + `}}`,
		"patterns":      `{"type":"string","anyOf":[` + many(250, `{"pattern":"^`+strings.Repeat("[^a]", 990)+`N("}`) + `]}`,
		"either case":   `{"type":"string","pattern":"(?i)^` + strings.Repeat(`[B-\\x{1e900}]`, 280) + `$"}`,
	} {
		b := &builder{rules: map[string]int32{}, most: statesMax, onward: roleRepeats, spent: spentMax - left}
		b.rule("", func() expr { return b.form(Form{Text: json.RawMessage(schema)}) })
		b.finish()
		if b.err == nil || b.spent <= spentMax {
			t.Errorf("%s: %v, with %d steps left", name, b.err, spentMax-b.spent)
		}
	}
	usual := `{"enum":[` + many(300, `"0c0a6e7e-6d0f-4b3c-9d6e-N"`) + `],"anyOf":[{"pattern":"^.{1,255}$"},
		{"pattern":"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{1,12}$"}]}`
	ranges := `{"type":"string","anyOf":[` + many(220, `{"pattern":"^[à-ü]N$"}`) + `]}` // not of either case
	for _, schema := range []string{usual, ranges} {
		if _, err := Compile(Form{Text: json.RawMessage(schema)}); err != nil {
			t.Error(err)
		}
	}
}

// TestNumbersAreReadOnce: a number that is dear to read is read once, in however many alternatives it is a bound.
func TestNumbersAreReadOnce(t *testing.T) {
	number := "7." + strings.Repeat("3", 310) + "e-320"
	v, err := readSchema(json.RawMessage(number))
	if err != nil {
		t.Fatal(err)
	}
	if n, ok := v.rational(); !ok || testing.AllocsPerRun(10, func() { v.rational() }) > 0 || digitSteps(n) < 20 {
		t.Errorf("%v, %v: %d steps", n, ok, digitSteps(n))
	}
	b := &builder{rules: map[string]int32{}, most: statesMax, onward: roleRepeats}
	c := b.compiler(json.RawMessage(`true`), -1)
	before := b.spent
	if c.number(&schema{types: typeAll, low: &bound{at: big.NewRat(1, 3)}}); b.spent != before {
		t.Errorf("a small bound costs %d steps", b.spent-before)
	}
	if n, _ := v.rational(); c.number(&schema{types: typeAll, low: &bound{at: n}}) == nil || b.spent < before+20 {
		t.Errorf("a long bound costs %d steps", b.spent-before)
	}
}

// optionals is a pattern of so many groups of so many characters that may all be left out.
func optionals(each, groups int) string {
	return `^(?:` + strings.Repeat("(?:|[ !#-;=-\\\\[\\\\]-~])", each) + fmt.Sprintf(`){%d}$`, groups)
}

// TestWide has grammars in which too much follows at one place: who asks for the form is told, and
// where the model chooses whether it calls, the pattern is given up.
func TestWide(t *testing.T) {
	for _, pattern := range []string{optionals(24, 1000), optionals(22, 1000), `^(?:a?b?c?d?e?f?){1000}$`} {
		schema := `{"type":"array","minItems":2000,"maxItems":2000,"items":{"type":"string","pattern":"` + pattern + `"}}`
		if _, err := Compile(Form{Text: json.RawMessage(schema)}); err == nil || !strings.Contains(err.Error(), "too large") {
			t.Errorf("%s: %v", pattern, err)
		}
		tool := Tool{Name: "t", Schema: json.RawMessage(`{"type":"object","properties":{"x":` + schema + `}}`)}
		g, err := Compile(Form{Free: true, Marked: true, Calls: []Tool{tool}})
		if err != nil || !slices.Contains(g.Ignored(), "pattern") {
			t.Errorf("%s: a free answer: %v", pattern, err)
		}
	}
	for name, schema := range map[string]string{
		"cities":  `{"enum":[` + many(2000, `"City N of the north"`) + `]}`,
		"members": `{"type":"object","properties":{` + many(1500, `"aN":{"type":"string"}`) + `}}`,
		"pattern": `{"type":"string","pattern":"^(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\\.){1,8}[a-z]{2,63}$"}`,
	} {
		if _, err := Compile(Form{Text: json.RawMessage(schema)}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestHostileMasks has grammars whose sets are many or large.
func TestHostileMasks(t *testing.T) {
	var texts [][]byte
	for i := range 256 {
		texts = append(texts, []byte{byte(i)})
	}
	for i := range 30_000 {
		texts = append(texts, fmt.Appendf(nil, "%c%c%cxyz", 'a'+i%26, 'a'+i/26%26, 'a'+i/676))
	}
	v := NewVocabulary(len(texts), func(id int32) []byte { return texts[id] }, nil, -1)
	for _, c := range []struct{ schema, text string }{
		{`{"anyOf":[{"type":"array","items":{"$ref":"#"}},{"type":"array","items":{"$ref":"#"}},{"type":"null"}]}`, strings.Repeat("[", 100)},
		{`{"type":"string","pattern":"[acegikmoqsuwy].{30}$|[bcfgjknorsvwz].{30}$|[d-gl-ot-w].{30}$|[h-ox-z].{30}$"}`, `"aaaa`},
		// many states follow, for each of many bytes, or more and more do
		{`{"type":"string","pattern":"` + optionals(24, 130) + `"}`, `"a-0`},
		{`{"type":"string","pattern":"^(?:a?b?c?d?e?f?g?h?i?j?k?l?m?){180}$"}`, `"abcabcabc`},
		{`{"type":"string","pattern":"^(?:a|[ab]{2}|[abc]{3}|[a-d]{4}|[a-e]{5}|[a-f]{6}|[a-g]{7}|[a-h]{8}|[a-i]{9}|[a-j]{10}){400}$"}`, `"` + strings.Repeat("a", 150)},
	} {
		g, err := Compile(Form{Text: json.RawMessage(c.schema)})
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher(v)
		for _, token := range c.text {
			before := m.followed
			if !m.Allows(token) {
				t.Fatalf("%s refuses %q", c.schema, token)
			}
			m.Accept(token)
			if m.followed-before > 2*followedMax {
				t.Errorf("%s: %d", c.schema, m.followed-before)
			}
		}
	}
}

// TestKeywords has keywords that belong together or contradict each other.
func TestKeywords(t *testing.T) {
	v := vocabulary()
	for _, c := range []struct {
		schema   string
		yes, not []string // nothing in yes: it is refused
	}{
		{`{"enum":["a","abc",1,10,[1]],"maxLength":2,"minimum":5,"items":{"minimum":2}}`, []string{`"a"`, `10`}, []string{`"abc"`, `1`, `[1]`}},
		{`{"type":"string","pattern":"^a\\b.c$"}`, []string{`"a c"`, `"xyz"`}, nil}, // it cannot be enforced
		{`{"enum":["a1","b"],"pattern":"^a"}`, []string{`"a1"`}, []string{`"b"`}},
		{`{"allOf":[{"enum":[1.0,2]},{"enum":[1,3]}]}`, []string{`1`}, []string{`2`}},
		{`{"allOf":[{"enum":[1e999999999,2,3]},{"enum":[3,1e999999999]}]}`, []string{`3`, `1e999999999`}, []string{`2`}},
		{`{"enum":[{"a":1},{"b":1}],"required":["a"]}`, []string{`{"a":1}`}, []string{`{"b":1}`}},
		{`{"type":"string","minLength":3,"maxLength":1}`, nil, nil},
		{`{"type":"array","minItems":3,"maxItems":1}`, nil, nil},
		{`{"type":"array","prefixItems":[true],"items":false,"minItems":2}`, nil, nil},
		{`{"type":"object","properties":{"next":{"$ref":"#"}},"required":["next"]}`, nil, nil},
		{`{"type":"object","properties":{"a":false},"required":["a"]}`, nil, nil},
		{`{"type":"object","required":["x"],"additionalProperties":false}`, nil, nil},
		{`{"type":["integer","string"],"minimum":2,"maximum":1}`, []string{`"x"`}, []string{`1`}},
		{`{"anyOf":[{"type":"array","minItems":1,"items":false},{"type":"null"}]}`, []string{`null`}, []string{`[`}},
		{`{"anyOf":[]}`, nil, nil},
		{`{"oneOf":[]}`, nil, nil},
		{`{"allOf":[]}`, nil, nil},
		{`{"enum":[]}`, nil, nil},
		{`{"type":"object","properties":{"a":{"anyOf":{"type":"null"}}}}`, nil, nil},
		{`{"anyOf":null,"allOf":null,"type":"null"}`, []string{`null`}, []string{`1`}},
		{`{"type":"array","items":{"enum":[]}}`, []string{`[]`}, []string{`[1]`}},
		{`{"properties":{"a":false},"additionalProperties":true,"type":"object"}`, []string{`{"b":1}`, `{}`}, []string{`{"a":1}`}},
		{`{"type":"object","allOf":[{"properties":{"a":{}},"additionalProperties":false},{"properties":{"b":{}}}]}`, []string{`{"a":1}`}, []string{`{"b":1}`}},
		{`{"type":"object","properties":{"a":{}},"allOf":[{"additionalProperties":{"type":"integer"}}]}`, []string{`{"a":1}`}, []string{`{"a":"x"}`}},
		{`{"type":"array","allOf":[{"prefixItems":[{"type":"integer"}]},{"items":{"minimum":5}}]}`, []string{`[7,"x"]`}, []string{`[1]`, `["x"]`, `[7,1]`}},
		{`{"type":"number","minimum":0,"maximum":1.7976931348623157e308}`, []string{`1`, `0.5`}, []string{`-1`}},
		{`{"type":"string","pattern":"^(a\u0001|b)c$"}`, []string{`"bc"`}, []string{`"a`}},
		{`{"type":"string","pattern":"^a\\r\\n$"}`, []string{`"a\r\n"`}, nil},
		{`{"type":"string","pattern":"^\\S.$"}`, []string{`"aé"`}, []string{`"` + "\u00a0" + `a"`, `"a` + "\u2028" + `"`}},
		{`{"type":"string","pattern":"^a.*$"}`, []string{`"abé\\\t"`, `"a` + "\u00a0" + `"`}, []string{`"a\r"`, `"a\n"`, `"a` + "\u2029" + `"`}},
		{`{"type":"string","pattern":"^a(.|\\r)$"}`, []string{`"ab"`, `"a\r"`}, []string{`"a\n"`}},
		{`{"type":"string","pattern":"^a(.|\\n)$"}`, []string{`"ab"`, `"a\n"`}, []string{`"a\r"`}},
		{`{"type":"string","pattern":"^a(\\s|\\S)$"}`, []string{`"ab"`, `"a\n"`, `"a\r"`}, nil},
		{`{"type":"string","pattern":"^(?:[^\n])[^a][\\].][.]\\.$"}`, []string{`"\r\r...` + `"`, `"\r\r]..` + `"`}, []string{`"\n`, `"aa`, `"bbb`, `"bb.b`, `"bb..b`}},
		{`{"type":"string","pattern":"(?s)^a.\\(?s$"}`, []string{`"a\rs"`, `"a\n(s"`}, nil},
		{`{"enum":["a\rb","a\u2028b","a\nb","a-b"],"pattern":"^a.b$"}`, []string{`"a-b"`}, []string{`"a\rb"`, `"a\u2028b"`, `"a` + "\u2028" + `b"`, `"a\nb"`}},
		{`{"type":"string","pattern":"^(?:(?:a+b)+c)+$"}`, []string{`"abaabcabc"`}, []string{`"ac"`, `""`}},
		{`{"type":"string","pattern":"^[a-z\"]+$","maxLength":3}`, []string{`"abc"`, `"\"a\""`}, []string{`""`, `"abcd"`}},
		{`{"type":"string","pattern":"b","minLength":3}`, []string{`"abc"`, `"é\nb"`, `"abcdef"`}, []string{`"ab"`, `"aaaa"`}},
		{`{"type":"string","pattern":"^(ab|c)*$","minLength":2,"maxLength":4}`, []string{`"abab"`, `"cab"`, `"cc"`}, []string{`"c"`, `"ababc"`, `"abcab"`}},
		{`{"type":"string","pattern":"^[a-z]{3}$","minLength":4}`, nil, nil},
		{`{"$ref":"#/$defs/a%20b","$defs":{"a b":{"type":"null"}}}`, []string{`null`}, []string{`1`}},
	} {
		g, err := Compile(Form{Text: json.RawMessage(c.schema)})
		if len(c.yes) == 0 {
			if err == nil {
				t.Errorf("%s compiles", c.schema)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		for _, text := range c.yes {
			if !matches(g, v, text) {
				t.Errorf("%s refuses %q", c.schema, text)
			}
		}
		for _, text := range c.not {
			if mayBe(g, v, text) {
				t.Errorf("%s takes %q", c.schema, text)
			}
		}
	}
}

// mayBe says whether an answer can be a text, or for one that ends in the middle of
// a value begin with it.
func mayBe(g *Grammar, v *Vocabulary, text string) bool {
	m := g.NewMatcher(v)
	for i := range len(text) {
		if !m.Allows(int32(text[i])) {
			return false
		}
		m.Accept(int32(text[i]))
	}
	return m.Complete() || json.Valid([]byte(text)) == false
}

// TestArguments has parameters that a parser could take for something else: of each
// only what is read back as the wanted JSON may be written.
func TestArguments(t *testing.T) {
	v := vocabulary()
	for _, c := range []struct {
		parameter string
		yes, not  []string // values as written in the tagged form; none in yes: it is not used
	}{
		{`{"enum":["true",false]}`, nil, nil},
		{`{"enum":["1",2]}`, nil, nil},
		{`{"enum":["null",null]}`, nil, nil},
		{`{"anyOf":[{"type":"integer"},{}]}`, nil, nil},
		{`{"minLength":3}`, nil, nil},
		{`{"const":5}`, []string{"5"}, []string{"6", ""}},
		{`{"type":"string","maxLength":0}`, []string{""}, []string{"a"}},
		{`{"type":"string","minLength":1}`, []string{"a", "abc"}, []string{""}},
		{`{"type":["string","integer"],"maxLength":3}`, []string{"", "abc", "1234"}, []string{"abcd"}},
		{`{"enum":["a</parameter>\n<parameter=b>"]}`, nil, nil},
		{`{"enum":["\na\n","","null","5"]}`, []string{"\na\n", "", "null", "5"}, []string{"a"}},
		{`{"enum":[1e400]}`, nil, nil},
		{`{"$ref":"#"}`, nil, nil},
		{`{"maxLength":3}`, nil, nil},
		{`{"pattern":"^a"}`, nil, nil},
		{`{}`, []string{"5", "null", "", "{"}, nil},
		{`{"type":["string","integer"],"allOf":[{"type":"string"}]}`, []string{"five"}, []string{"5", " 5"}},
		{`{"type":["string","integer"],"pattern":"^[0-9]+$","minimum":5}`, nil, nil},
		{`{"anyOf":[{"const":false},{"type":"string"}]}`, nil, nil},
		{`{"type":["string","integer"],"minLength":1,"maxLength":3}`, []string{"abc", "123456"}, []string{"abcd", "", "-"}},
		{`{"anyOf":[{"type":"string","maxLength":3},{"type":"null"}]}`, []string{"abc", "null", ""}, []string{"abcd"}},
		{`{"type":"object"}`, []string{`{"a":"\u003c/parameter>"}`}, []string{`{"a":"</parameter>"}`}},
		{`{"type":"object","properties":{"<b>":{"const":"<"}},"required":["<b>"]}`, []string{`{"\u003cb>":"\u003c"}`}, nil},
		{`{"type":"string","pattern":"^<[a-z]+>$"}`, nil, nil},
		{`{"type":"string","pattern":"^[^a]$"}`, []string{"b", ">"}, []string{"<", "a"}},
		{`{"type":"string","pattern":"^a[\\n\\t]b$"}`, []string{"a\nb", "a\tb"}, []string{"ab", "a b"}},
		{`{"type":"string","pattern":"^[\"a]$"},"y":{"type":"array","items":{"type":"string","pattern":"^[\"a]$"}}`,
			[]string{`"`, "a\n</parameter>\n<parameter=y>\n[\"\\\"\"]"}, []string{`\"`, "a\n</parameter>\n<parameter=y>\n[\"\"\"]"}},
	} {
		schema := json.RawMessage(`{"type":"object","properties":{"x":` + c.parameter + `}}`)
		g, err := Compile(Form{Calls: []Tool{{Name: "t", Schema: schema}}})
		if err != nil {
			t.Errorf("%s: %v", c.parameter, err)
			continue
		}
		call := func(value string) string {
			return "<tool_call>\n<function=t>\n<parameter=x>\n" + value + "\n</parameter>\n</function>\n</tool_call>"
		}
		if tagged := mayBe(g, v, "<tool_call>\n<function"); tagged != (len(c.yes) > 0) {
			t.Errorf("%s: tagged: %v", c.parameter, tagged)
		}
		for _, value := range c.yes {
			if !matches(g, v, call(value)) {
				t.Errorf("%s refuses %q", c.parameter, value)
			}
		}
		for _, value := range c.not {
			if matches(g, v, call(value)) {
				t.Errorf("%s takes %q", c.parameter, value)
			}
		}
	}
}

// TestCapitalWords: where a template shows true, false and null as Python does, an argument may be written so, and is read as what it
// is; values within JSON are not, nor a word where a string may stand.
func TestCapitalWords(t *testing.T) {
	for _, c := range []struct {
		parameter, text, want string // of want: "" is refused
	}{
		{`{"type":"boolean"}`, "True", "true"},
		{`{"type":"boolean"}`, "False", "false"},
		{`{"type":"boolean"}`, "true", "true"},
		{`{"type":"boolean"}`, "None", ""},
		{`{"type":["boolean","null"]}`, "None", "null"},
		{`{"anyOf":[{"type":"integer"},{"type":"null"}]}`, "None", "null"},
		{`{"enum":[true,null,5]}`, "True", "true"},
		{`{"enum":[true,null,5]}`, "None", "null"},
		{`{"enum":[true,null,5]}`, "False", ""},
		{`{"const":false}`, "False", "false"},
		{`{"type":["boolean","string"],"maxLength":2}`, "True", "true"},
		{`{"type":["string","null"]}`, "None", `"None"`},
		{`{"type":"array","items":{"type":"boolean"}}`, "[true]", "[true]"},
		{`{"type":"array","items":{"type":"boolean"}}`, "[True]", ""},
	} {
		schema := json.RawMessage(`{"type":"object","properties":{"x":` + c.parameter + `}}`)
		for _, f := range []Form{{Capital: true}, {Capital: true, KeyCalls: true}, {}} {
			f.Calls = []Tool{{Name: "t", Schema: schema}}
			g, err := Compile(f)
			if err != nil {
				t.Fatal(err)
			}
			call := "<tool_call>\n<function=t>\n<parameter=x>\n" + c.text + "\n</parameter>\n</function>\n</tool_call>"
			if f.KeyCalls {
				call = "<tool_call>t\n<arg_key>x</arg_key>\n<arg_value>" + c.text + "</arg_value>\n</tool_call>"
			}
			want := c.want != "" && (f.Capital || c.text[0] != 'T' && c.text[0] != 'F' && (c.text[0] != 'N' || c.want[0] == '"'))
			if got := matches(g, vocabulary(), call); got != want {
				t.Errorf("%s, %+v: %q may be written: %v, want %v", c.parameter, f, c.text, got, want)
			}
			if !want {
				continue
			}
			p := output.New(output.Options{Tools: []output.Tool{{Name: "t", Schema: schema}}, Constrained: true, KeyCalls: f.KeyCalls,
				NewID: func() string { return "id" }})
			got := ""
			for _, e := range p.Feed(nil, call) {
				got += e.Text
			}
			if got != `{"x":`+c.want+`}` {
				t.Errorf("%s: %q is read as %s", c.parameter, c.text, got)
			}
		}
	}
}

// TestArgumentsAreAnObject has a tool whose schema does not say so.
func TestArgumentsAreAnObject(t *testing.T) {
	g, err := Compile(Form{JSONCalls: true, Calls: []Tool{{Name: "t", Schema: json.RawMessage(`{}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	if v := vocabulary(); matches(g, v, "<tool_call>\n{\"name\": \"t\", \"arguments\": 5}\n</tool_call>") || !matches(g, v, "<tool_call>\n{\"name\": \"t\", \"arguments\": {}}\n</tool_call>") {
		t.Error("arguments that are none")
	}
	if _, err := Compile(Form{Calls: []Tool{{Name: "a", Schema: Object},
		{Name: "b", Schema: json.RawMessage(`{"type":"object","properties":{"x":{"type":"string","pattern":"^\\x01$"}},"required":["x"]}`)}}}); err == nil || err.(*Error).Tool != 1 {
		t.Errorf("a tool that cannot be called: %v", err)
	}
}

// TestManyTools has as many tools as an agent with some servers brings.
func TestManyTools(t *testing.T) {
	var f Form
	for i := range 60 {
		f.Calls = append(f.Calls, Tool{Name: fmt.Sprint("tool_", i), Schema: json.RawMessage(`{"type":"object","properties":{` + many(12, `"parameter_N":{"type":"string","description":"x"}`) + `,"n":{"type":"number","minimum":0,"maximum":1}}}`)})
	}
	for _, f.JSONCalls = range []bool{false, true} {
		if _, err := Compile(f); err != nil {
			t.Error(err)
		}
	}
	if _, err := Compile(Form{Text: json.RawMessage(`{"type":"object","additionalProperties":true,"properties":{` + many(300, `"parameter_N":{"type":"string"}`) + `}}`)}); err != nil {
		t.Error(err)
	}
}

// TestReadBack takes calls through the parser.
func TestReadBack(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","properties":{"x":{"enum":["\na\n","null","5"]},"y":{"type":"object"}}}`)
	p := output.New(output.Options{Tools: []output.Tool{{Name: "t", Schema: schema}}, Constrained: true, NewID: func() string { return "id" }})
	got := ""
	for _, e := range p.Feed(nil, "<tool_call>\n<function=t>\n<parameter=x>\n\na\n\n</parameter>\n<parameter=y>\n{\"\\u003cb>\":1}\n</parameter>\n</function>\n</tool_call>") {
		if e.Kind == abi.EventDelta {
			got += e.Text
		}
	}
	if want := `{"x":"\na\n","y":{"\u003cb>":1}}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// invented is a schema of keywords that may not fit each other.
func invented(r *rand.Rand, depth int) any {
	if depth == 0 {
		return []any{true, false, map[string]any{"type": "string"}, map[string]any{"type": "integer"}, map[string]any{"$ref": "#"}, map[string]any{"const": "x"}}[r.IntN(6)]
	}
	sub := func() any { return invented(r, depth-1) }
	subs := func() []any { return []any{sub(), sub()}[:1+r.IntN(2)] }
	types := []string{"string", "integer", "number", "boolean", "null", "array", "object"}
	names := []string{"a", "ab", "<c>"}
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		switch r.IntN(14) {
		case 0:
			s["type"] = types[r.IntN(7)]
		case 1:
			s["type"] = []string{types[r.IntN(3)], types[3+r.IntN(4)]}
		case 2:
			s["properties"] = map[string]any{names[r.IntN(3)]: sub(), "b": sub()}
			s["type"] = "object"
		case 3:
			s["required"] = names[:1+r.IntN(2)]
		case 4:
			s["additionalProperties"] = sub()
		case 5:
			s["items"] = sub()
		case 6:
			s["prefixItems"] = subs()
		case 7:
			s["minItems"], s["maxItems"] = r.IntN(3), r.IntN(4)
		case 8:
			s["minLength"], s["maxLength"] = r.IntN(3), r.IntN(4)
		case 9:
			s["pattern"] = []string{"^a", "b+$", "^[^<]*$", "x|^$", "^\\d{2}$"}[r.IntN(5)]
		case 10:
			s["minimum"], s["exclusiveMaximum"] = r.IntN(5)-2, r.IntN(200)-10
		case 11:
			s["anyOf"] = subs()
		case 12:
			s["allOf"] = subs()
		case 13:
			s["enum"] = []any{"a", "1", 1, 2.5, nil, true, "null", []any{1, "x"}, map[string]any{"a": 1}}[r.IntN(4):]
		}
	}
	return s
}

// TestInvented has random schemas: none breaks the compiler, no answer gets stuck, and
// what comes to an end is valid, as text and as the argument of a call.
func TestInvented(t *testing.T) {
	v := vocabulary()
	r := rand.New(rand.NewPCG(7, 8))
	ended := 0
	for range inventedCount {
		raw, _ := json.Marshal(map[string]any{"type": "object", "properties": map[string]any{"x": invented(r, 1+r.IntN(2))}, "required": []string{"x"}, "additionalProperties": false})
		check := grammartest.Validator(t, string(raw))
		for _, f := range []Form{{Text: raw}, {Calls: []Tool{{Name: "t", Schema: raw}}, SingleCall: true}} {
			g, err := Compile(f)
			if err != nil || len(g.Ignored()) > 0 {
				continue // nothing is of it, or not all of it is enforced
			}
			for range 3 {
				text, ok := said(t, g, v, r)
				if !ok {
					continue
				}
				ended++
				if f.Text == nil {
					p := output.New(output.Options{Tools: []output.Tool{{Name: "t", Schema: raw}}, Constrained: true,
						NewID: func() string { return "id" }})
					written := text
					text = ""
					for _, e := range p.Finish(p.Feed(nil, strings.ToValidUTF8(written, "?")), false) {
						if e.Kind == abi.EventDelta && e.Block == abi.BlockToolUse {
							text += e.Text
						}
					}
				}
				if err := check(text); err != nil {
					t.Errorf("%s: %q is not valid: %v", raw, text, err)
				}
			}
		}
	}
	if ended < inventedCount {
		t.Errorf("%d answers", ended)
	}
}

// inventedCount is how many schemas are tried.
const inventedCount = 60

// said draws bytes that are allowed until the answer may end.
func said(t *testing.T, g *Grammar, v *Vocabulary, r *rand.Rand) (string, bool) {
	m := g.NewMatcher(v)
	var out []byte
	for len(out) < 400 {
		if m.Complete() {
			return string(out), true
		}
		var allowed, closing []byte
		for c := range 256 {
			if m.Allows(int32(c)) {
				allowed = append(allowed, byte(c))
				if strings.IndexByte(`"]}<,`, byte(c)) >= 0 {
					closing = append(closing, byte(c))
				}
			}
		}
		if len(allowed) == 0 {
			t.Errorf("stuck after %q", out)
			return "", false
		}
		if len(closing) > 0 && r.IntN(2) == 0 {
			allowed = closing
		}
		c := allowed[r.IntN(len(allowed))]
		m.Accept(int32(c))
		out = append(out, c)
	}
	return "", false
}
