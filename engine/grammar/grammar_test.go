package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func vocabulary() *Vocabulary {
	texts := make([][]byte, 257)
	for i := range 256 {
		texts[i] = []byte{byte(i)}
	}
	return NewVocabulary(257, func(id int32) []byte { return texts[id] }, []int32{256}, -1)
}

func matches(g *Grammar, v *Vocabulary, text string) bool {
	m := g.NewMatcher(v)
	for i := range len(text) {
		id := int32(text[i])
		if !m.Allows(id) {
			return false
		}
		m.Accept(id)
	}
	return m.Complete()
}

// randomNumber is a number of any size, with a fraction or without.
func randomNumber(r *rand.Rand) string {
	text := fmt.Sprint(r.IntN([]int{2, 12, 1300, 1 << 40}[r.IntN(4)]))
	if r.IntN(3) > 0 {
		text += "." + fmt.Sprintf("%0*d", 1+r.IntN(4), r.IntN(10000))
	}
	if r.IntN(3) == 0 && strings.Trim(text, "0.") != "" {
		return "-" + text
	}
	return text
}

// TestNumbersKeepTheirBounds has numbers near random bounds: without an exponent exactly those between them are taken, with one
// none that is not.
func TestNumbersKeepTheirBounds(t *testing.T) {
	v, r := vocabulary(), rand.New(rand.NewPCG(1, 2))
	number := func() string { return randomNumber(r) }
	value := func(text string) *big.Rat {
		x, ok := new(big.Rat).SetString(text)
		if !ok {
			t.Fatal(text)
		}
		return x
	}
	taken, refused := 0, 0
	for range 600 {
		s := map[string]any{"type": []string{"number", "number", "integer"}[r.IntN(3)]}
		keep := func(*big.Rat) bool { return true }
		for _, name := range []string{"minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum"} {
			if r.IntN(3) > 0 {
				continue
			}
			text, before := number(), keep
			s[name] = json.RawMessage(text)
			keep = func(x *big.Rat) bool {
				at := x.Cmp(value(text))
				inside := (at > 0) == strings.HasSuffix(strings.ToLower(name), "minimum")
				return before(x) && (at == 0 && !strings.HasPrefix(name, "ex") || at != 0 && inside)
			}
		}
		schema, _ := json.Marshal(s)
		g, err := Compile(Form{Text: schema})
		texts := []string{"0", "0.0", "1", "-1", "1.0", "1e5", "1e-5", "-2.5E+3", "-1e-9", "9.9e99"}
		for range 12 {
			texts = append(texts, number())
		}
		for name, at := range s {
			if name != "type" {
				text := string(at.(json.RawMessage))
				texts = append(texts, text, strings.TrimSuffix(text+"0", "."), text[:len(text)-1]+"1")
			}
		}
		for _, text := range texts {
			if strings.HasSuffix(text, ".") || text == "-0" || text == "-" || text == "" || len(text) > 1 && text[0] == '0' && text[1] != '.' {
				continue
			}
			x, exponent := value(text), strings.ContainsAny(text, "eE")
			want := keep(x) && (s["type"] == "number" || !strings.ContainsAny(text, ".eE")) && (x.Sign() != 0 || text[0] != '-')
			got := err == nil && matches(g, v, text) // an error: nothing is between the bounds
			if got && !want || !exponent && want != got {
				t.Errorf("%s: %s is taken: %v, want %v", schema, text, got, want)
			}
			if got {
				taken++
			} else {
				refused++
			}
		}
	}
	if taken < 100 || refused < 100 {
		t.Errorf("%d taken, %d refused", taken, refused)
	}
}

func TestText(t *testing.T) {
	v := vocabulary()
	// An $id beside a $ref says where that leads since the draft of 2019.
	const besideRefs = `"$id":"http://x/r","type":"object","properties":{"a":{"$id":"s/","$ref":"t.json"}},"required":["a"],
		"$defs":{"s":{"$id":"s/t.json","type":"null"},"t":{"$id":"t.json","type":"boolean"}}}`
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"object"}`, []string{`{}`, `{"a": 1}`, `{"a":[1,2,{"b":null}],"c":"x\n\"é"}`, "{\n  \"a\": -1.5e3\n}"}, []string{``, `[]`, `{"a"}`, `{"a":01}`, `{"a":1,}`, `{"a":"\ud800"}`}},
		{`{"type":"integer","minimum":-5,"maximum":120}`, []string{"0", "-5", "120", "99", "7", "-1"}, []string{"-6", "121", "007", "1.0", "-0", "1000", ""}},
		{`{"type":"number","exclusiveMinimum":0,"maximum":1.5}`, []string{"1", "0.1", "1.5", "1.499", "0.000001"}, []string{"0", "0.0", "1.6", "2", "-0.1", "1.51"}},
		{`{"type":"number","minimum":-0.25}`, []string{"-0.25", "-0.2", "0", "0.5", "12345.75"}, []string{"-0.26", "-1"}},
		{`{"type":"integer"}`, []string{"1798765432109876543", "-9223372036854775808", "18446744073709551615"}, []string{"01", "-01", "-", "1.0", "1e5"}},
		{`{"type":"integer","minimum":0,"maximum":9223372036854775807}`, []string{"0", "1700000000000000", "9223372036854775807"}, []string{"9223372036854775808", "-1"}},
		{`{"type":"number","exclusiveMinimum":0}`, []string{"1e-5", "0.0000001", "2.5E+10", "3e09", "1798765432109876543.5"}, []string{"0", "0.0", "0e5", "-1", "-1e-5", "1e", "1e-0"}},
		{`{"type":"number","minimum":0,"maximum":1}`, []string{"1e-5", "9.5e-1", "0", "1", "1.0", "0.00000000001"}, []string{"1e1", "1e0", "1.1", "1.00001", "-0.1", "-0"}},
		{`{"type":"number","exclusiveMinimum":-1,"exclusiveMaximum":0}`, []string{"-0.5", "-1e-3", "-0.999999999"}, []string{"-1", "-1.0", "0", "-0", "-0.0", "1e-3", "-1e3"}},
		{`{"type":"number","exclusiveMinimum":0,"maximum":5e-7}`, []string{"0.0000005", "0.0000001", "0.00000049", "0.000000500"}, []string{"0", "0.0000006", "0.00000051"}},
		{`{"type":"number","minimum":2,"maximum":1e20}`, []string{"2", "2.0", "100000000000000000000", "99999999999999999999.9"}, []string{"1.9", "3e5", "100000000000000000000.1"}},
		{`{"type":"number","minimum":1}`, []string{"1", "6.02e23"}, []string{"0.9", "6e-23"}},
		{`{"type":"string","minLength":2,"maxLength":2}`, []string{`"ab"`}, []string{`"a"`, `"abc"`}},
		{`{"type":"string"}`, []string{`"` + strings.Repeat("x", charactersMax) + `"`}, []string{`"` + strings.Repeat("x", charactersMax+1) + `"`}},
		{`{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2}`, []string{`[1,2]`}, []string{`[1]`, `[1,2,3]`}},
		{`{"type":"array","prefixItems":[{"type":"integer"},{"type":"null"},{}],"maxItems":2}`, []string{`[]`, `[1,null]`}, []string{`[1,null,3]`}},
		{`{"type":"string","minLength":2,"maxLength":3}`, []string{`"ab"`, `"äöü"`, `"\n\u00e9"`}, []string{`"a"`, `"abcd"`}},
		{`{"type":"string","pattern":"^[A-Z]{2}-\\d+$"}`, []string{`"AB-1"`, `"XY-007"`}, []string{`"aB-1"`, `"AB-"`, `"AB-1 "`}},
		{`{"type":"string","pattern":"x|^y"}`, []string{`"axb"`, `"yes"`, `"x"`}, []string{`"ay"`, `""`}},
		{`{"enum":["a",1,null,{"b":[true]}]}`, []string{`"a"`, `1`, `null`, `{"b":[true]}`}, []string{`"b"`, `2`}},
		{`{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":2}`, []string{`[true]`, `[true, false]`}, []string{`[]`, `[true,true,true]`, `[1]`}},
		{`{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`, []string{`[]`, `["a"]`, `["a",1]`}, []string{`["a",1,2]`, `[1]`}},
		{`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}},"required":["b"],"additionalProperties":false}`,
			[]string{`{"b":"x"}`, `{"a":1,"b":"x"}`}, []string{`{}`, `{"a":1}`, `{"b":"x","c":1}`, `{"b":"x","b":"y"}`}},
		{`{"type":"object","properties":{"ab":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}`,
			[]string{`{}`, `{"ab":1}`, `{"a":true}`, `{"ab":1,"abc":false,"é":true}`}, []string{`{"ab":true}`, `{"a":1}`, `{"\u0061b":true}`}},
		{`{"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/t"}`,
			[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":null}}`}, []string{`{"v":1}`, `{"v":1,"next":{}}`}},
		{`{"type":"string","pattern":"^<a>\\\\$"}`, []string{`"<a>\\"`}, []string{`"<a>\"`}},
		{`{"type":"string","pattern":"^[^\\x{0}-\\x{ff}]$"}`, []string{`"Ā"`, `"😀"`}, []string{`"é"`, `"a"`}},
		{`{"enum":["a","b"],"pattern":"^(?=a)"}`, []string{`"a"`, `"b"`}, []string{`"c"`}}, // it cannot be enforced
		{`{"properties":{"x":{"const":{"$anchor":"p"}},"y":{"$ref":"#p"}},"$defs":{"q":{"$anchor":"p","type":"null"}},"$anchor":7,"$id":7}`,
			[]string{`{"y":null}`}, []string{`{"y":1}`}}, // a document names nothing
		{`{"type":"string","allOf":[{"minLength":3},{"minLength":1},{"maxLength":3},{"maxLength":9}]}`, []string{`"abc"`}, []string{`"ab"`, `"abcd"`}},
		{`{"type":"array","allOf":[{"maxItems":0},{"maxItems":5}]}`, []string{`[]`}, []string{`[1]`}},
		{`{"type":"integer","allOf":[{"minimum":3},{"minimum":5},{"exclusiveMinimum":3},{"maximum":8},{"maximum":7},{"exclusiveMaximum":8}]}`,
			[]string{"5", "6", "7"}, []string{"3", "4", "8"}},
		{`{"type":"integer","allOf":[{"minimum":3},{"exclusiveMinimum":3},{"maximum":6},{"exclusiveMaximum":6}]}`, []string{"4", "5"}, []string{"3", "6"}},
		{`{"type":"integer","allOf":[{"exclusiveMinimum":3},{"minimum":3},{"exclusiveMaximum":6},{"maximum":6}]}`, []string{"4", "5"}, []string{"3", "6"}},
		{`{"type":"number","minimum":1,"maximum":1e300}`, []string{"6.02e23", "1e0"}, []string{"6e-23", "0.5"}},
		{`{"type":"string","maxLength":3000}`, []string{`"` + strings.Repeat("x", 3000) + `"`}, []string{`"` + strings.Repeat("x", 3001) + `"`}},
		{`{"type":"string","allOf":[{"maxLength":5000},{"maxLength":3000},{"maxLength":4000}]}`,
			[]string{`"` + strings.Repeat("x", 3000) + `"`}, []string{`"` + strings.Repeat("x", 3001) + `"`}},
		{`{"enum":["a","` + strings.Repeat("x", 3000) + `","` + strings.Repeat("y", 3001) + `"],"maxLength":3000}`,
			[]string{`"a"`, `"` + strings.Repeat("x", 3000) + `"`}, []string{`"` + strings.Repeat("y", 3001) + `"`}},
		{`{"type":"string","pattern":"^[a-\\x{ff}]$"}`, []string{`"a"`, "\"\u0080\"", `"ÿ"`}, []string{`"A"`, `"Ā"`}},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema",` + besideRefs, []string{`{"a":null}`}, []string{`{"a":true}`}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#",` + besideRefs, []string{`{"a":true}`}, []string{`{"a":null}`}},
		{`{"$ref":"#p","$defs":{"a":{"$anchor":"p","type":"null"},"b":{"$anchor":"p","type":"boolean"}}}`, []string{"null"}, []string{"true"}},
		{`{"anyOf":[{"allOf":[false],"type":"integer"},{"allOf":[false,{"type":"string"}]},{"allOf":[false],"$ref":"#/$defs/i"},{"type":"null"}],
			"$defs":{"i":{"type":"integer"}}}`, []string{"null"}, []string{"1", `"a"`}},
		{`{"type":"string","pattern":"^a*$","maxLength":0}`, []string{`""`}, []string{`"a"`}},
		{`{"type":"number","exclusiveMinimum":0}`, []string{"0." + strings.Repeat("0", 14) + "1"}, []string{"0." + strings.Repeat("0", 15)}},
		{`{"type":"object","properties":{"é":{"type":"integer"}},"additionalProperties":{"type":"boolean"}}`,
			[]string{`{"é":1}`, `{"a":true}`, `{"é":1,"a":true}`}, []string{`{"é":true}`, `{"a":1}`}},
		{`{"type":"object","allOf":[{"additionalProperties":true},{"additionalProperties":true},{"additionalProperties":true}],
			"anyOf":[{"additionalProperties":{"type":"integer"}},{"additionalProperties":{"type":"boolean"}}]}`,
			[]string{`{"a":1}`, `{"a":true}`}, []string{`{"a":"x"}`, `{"a":1,"b":true}`}},
		{`{"type":"array","allOf":[{"items":{}},{"items":{}},{"items":{}}],"anyOf":[{"items":{"type":"integer"}},{"items":{"type":"boolean"}}]}`,
			[]string{"[1]", "[true]"}, []string{`["x"]`, "[1,true]"}},
		{`{"type":"array","items":[],"maxItems":1}`, []string{"[]", "[1]", `["a"]`}, []string{"[1,2]"}},
		{strings.Repeat(`{"type":"array","items":`, depthMax) + `{}` + strings.Repeat(`}`, depthMax), []string{"[[[]]]"}, []string{"[1]"}},
		{`{"enum":[3,4,5,6],"exclusiveMinimum":3,"exclusiveMaximum":6}`, []string{"4", "5"}, []string{"3", "6"}},
		{`{"type":"number","exclusiveMinimum":1}`, []string{"1.1", "2"}, []string{"1", "1.0", "1e0"}},
		{`{"type":"integer","minimum":1e24}`, []string{"1" + strings.Repeat("0", 24), strings.Repeat("9", 26)}, []string{strings.Repeat("9", 24), "1" + strings.Repeat("0", 26)}},
		{`{"type":"number","exclusiveMinimum":1e-16,"maximum":1}`, []string{"0.00000000000000011"}, []string{"0.0000000000000001"}},
		{`{"type":"number","minimum":0,"exclusiveMaximum":1e-16}`, []string{"0.00000000000000009"}, []string{"0.0000000000000001"}},
		{`{"allOf":[{"type":["integer","string"]},{"type":["integer","null"]},{"minimum":3}]}`, []string{"3", "10"}, []string{"2", `"a"`, "null"}},
	} {
		g, err := Compile(Form{Text: json.RawMessage(c.schema)})
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
			if matches(g, v, text) {
				t.Errorf("%s takes %q", c.schema, text)
			}
		}
	}
}

// TestRunes: a range of characters is taken in UTF-8, those at its ends too, and none beside it, nor what is no character.
func TestRunes(t *testing.T) {
	v := vocabulary()
	edges := []rune{0, 'a', 0x7f, 0x80, 0x7ff, 0x800, 0xffd, 0xd7ff, 0xd800, 0xdfff, 0xe000, 0xfffd, 0xffff, 0x10000, 0x2f03f, 0x10ffff}
	for i, from := range edges {
		for _, to := range edges[i:] {
			b := &builder{rules: map[string]int32{}, most: statesMax, onward: roleRepeats}
			b.rule("", func() expr { return runes(from, to) })
			b.finish()
			if b.err != nil {
				t.Fatal(b.err)
			}
			g := &Grammar{states: b.states, entries: b.entries}
			for _, edge := range edges {
				for r := edge - 1; r <= edge+1; r++ {
					if want := r >= from && r <= to; utf8.ValidRune(r) && matches(g, v, string(r)) != want {
						t.Errorf("%U to %U: %U is taken: %v", from, to, r, !want)
					}
				}
			}
			for _, wrong := range []string{"\x80", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "aa"} {
				if matches(g, v, wrong) {
					t.Errorf("%U to %U takes %q", from, to, wrong)
				}
			}
		}
	}
}

// TestIgnored also holds that what is reported has no word of the client's own.
func TestIgnored(t *testing.T) {
	g, err := Compile(Form{Text: json.RawMessage(`{"properties":{"ssn":{"type":"string","format":"x","x-mine":1},"n":{"multipleOf":2,"format":"y","title":"N"},
		"one":{"oneOf":[{"type":"null"}]},"two":{"oneOf":[{"type":"null"},{"type":"array"}]},"p":{"pattern":"a"},"q":{"type":"string","pattern":"a","allOf":[{"pattern":"b"}]},
		"l":{"type":"string","minLength":5000},"c":{"type":"string","pattern":"^(?:abcdefghijklmnop)*$","maxLength":2000}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Ignored(); !slices.Equal(got, []string{"format", "minLength", "minLength and maxLength", "multipleOf", "oneOf", "pattern"}) {
		t.Errorf("%q", got)
	}
	for schema, want := range map[string]string{
		`{"type":"string","pattern":"^(?:abcdefghijklmnop)*$","minLength":2000}`: "minLength and maxLength",
		`{"type":"string","pattern":"^(?=a)"}`:                                   "pattern",
		`{"type":"string","maxLength":4294967296}`:                               "maxLength",
		`{"type":"string","maxLength":-1}`:                                       "maxLength",
		`{"type":"string","maxLength":3000,"pattern":"^a"}`:                      "maxLength",
	} {
		if g, err := Compile(Form{Text: json.RawMessage(schema)}); err != nil || !slices.Equal(g.Ignored(), []string{want}) {
			t.Errorf("%s: %v, want that %q is ignored", schema, err, want)
		}
	}
}

// TestThinkOpen: an answer may begin with a thought, by its tag, and else is its text from the start.
func TestThinkOpen(t *testing.T) {
	g, err := Compile(Form{ThinkOpen: "<think>", Text: json.RawMessage(`{"type":"null"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{"null": true, "<think>hm</think>null": true, "<think></think>\n\nnull": true,
		"hm</think>null": false, "<think>null": false, "<think>hm</think>": false, "<think>hm</think>null<think>": false} {
		if got := matches(g, vocabulary(), text); got != want {
			t.Errorf("%q may be written: %v", text, got)
		}
	}
}

// TestWrong: what is wrong with a schema is said where it stands, in which tool.
func TestWrong(t *testing.T) {
	for _, c := range []struct{ schema, pointer, says string }{
		{`{"properties":{"a/b~c":{"type":"strin"}}}`, "/properties/a~1b~0c/type", `"strin" is no JSON type`},
		{`{"properties":{"a":{"type":["null",7]}}}`, "/properties/a/type", `7 is no JSON type`},
		{`{"properties":{"a":{"anyOf":[]}}}`, "/properties/a/anyOf", "anyOf is no list"},
		{`{"properties":{"a":{"allOf":[{},{"oneOf":{}}]}}}`, "/properties/a/allOf/1/oneOf", "oneOf is no list"},
		{`{"properties":{"a":{"items":"x"}}}`, "/properties/a/items", "a schema is an object, true or false"},
		{`{"properties":{"a":{"$ref":"#/$defs/b"}}}`, "/properties/a/$ref", `"#/$defs/b" is not found`},
		{`{"properties":{"a":{"$ref":"#/anyOf/-1"}},"anyOf":[true]}`, "/properties/a/$ref", `"#/anyOf/-1" is not found`},
		{`{"properties":{"a":{"$ref":7}}}`, "/properties/a/$ref", `7 is not found`},
		{`{"properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"allOf":[{"$ref":"#/$defs/b"}]}}}`, "/$defs/b", "without end"},
		{`{"properties":{"a":{"type":"array","items":{"enum":[]},"minItems":1}},"required":["a"]}`, "/properties/a/items", "no value is of this schema"},
		{`{"properties":{"a":{"anyOf":[` + many(optionsMax+1, `{"minimum":N}`) + `]}}}`, "/properties/a/anyOf/256", "more than 256 alternatives"},
		{`{"properties":` + strings.Repeat(`{"items":`, depthMax) + `true` + strings.Repeat(`}`, depthMax) + `}`, "", "deeper than 64"},
	} {
		_, err := Compile(Form{Calls: []Tool{{"fine", json.RawMessage(`{"properties":{"x":{"enum":[]}},"anyOf":null}`)}, {"t", json.RawMessage(c.schema)}}})
		if e, ok := errors.AsType[*Error](err); !ok || e.Tool != 1 || e.Pointer != c.pointer || !strings.Contains(e.Error(), c.says) {
			t.Errorf("%s: %+v, want %q at %q", c.schema, err, c.says, c.pointer)
		}
	}
}

// TestVeryManyTools: the calls of a free answer to a request with very many tools are held as far
// as there are states for it, and what is not counted is named.
func TestVeryManyTools(t *testing.T) {
	for _, c := range []struct {
		tools, most int
		ignored     []string
	}{{30, 2000, nil}, {100, 2000, []string{"minLength and maxLength"}}, {100, 20, nil}} {
		for _, asJSON := range []bool{false, true} {
			f := Form{Free: true, Marked: true, JSONCalls: asJSON}
			for i := range c.tools {
				f.Calls = append(f.Calls, Tool{Name: fmt.Sprint("t", i), Schema: json.RawMessage(fmt.Sprintf(
					`{"type":"object","properties":{"a":{"type":"string","minLength":1,"maxLength":%d},"n":{"type":"integer","maximum":%d}}}`, c.most, i))})
			}
			g, err := Compile(f)
			if err != nil {
				t.Fatalf("%d tools: %v", c.tools, err)
			}
			if !slices.Equal(g.Ignored(), c.ignored) {
				t.Errorf("%d tools, strings to %d: %q is ignored", c.tools, c.most, g.Ignored())
			}
			if f.Free = false; c.ignored != nil {
				if _, err := Compile(f); err == nil {
					t.Error("a form that cannot be held compiles")
				}
			}
		}
	}
}

// TestCallOfAFreeAnswer: a free answer is held from the marker of each call to the call's end, and nowhere else.
func TestCallOfAFreeAnswer(t *testing.T) {
	const marker = 257
	v := NewVocabulary(258, func(id int32) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		return nil
	}, []int32{256}, marker)
	g, err := Compile(Form{Free: true, Marked: true, JSONCalls: true, Calls: []Tool{{"f", json.RawMessage(`{"properties":{"n":{"type":"null"}}}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher(v)
	say := func(text string, held bool) {
		t.Helper()
		for i := range len(text) {
			if m.Constrains() != held || held && !m.Allows(int32(text[i])) {
				t.Fatalf("%q at %d: held %v, or it is not allowed", text, i, m.Constrains())
			}
			m.Accept(int32(text[i]))
		}
	}
	for range 2 {
		say("hello", false)
		m.Accept(marker)
		say("\n{\"name\": \"f\", \"arguments\": {\"n\":null}}\n</tool_call>", true)
	}
	say("bye", false)
}

// TestMarkerOfAForm: where a call has to be made its marker is the one token that begins it, also behind a thought, which it ends.
func TestMarkerOfAForm(t *testing.T) {
	const marker = 257
	v := NewVocabulary(258, func(id int32) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		return nil
	}, []int32{256}, marker)
	for _, c := range []struct {
		thinking     bool
		before       string
		marks, spell bool // whether the token, and its text, may come then
	}{
		{false, "", true, false}, {true, "hm", true, true}, {true, "hm</think>", true, false}, {true, "hm</think>\n\n", true, false},
		{true, "hm</thin", true, true},
	} {
		g, err := Compile(Form{Thinking: c.thinking, Marked: true, JSONCalls: true, SingleCall: true, Calls: []Tool{{"f", Object}}})
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher(v)
		say := func(text string) {
			t.Helper()
			for i := range len(text) {
				if !m.Allows(int32(text[i])) {
					t.Fatalf("%+v: %q: byte %d is not allowed", c, text, i)
				}
				m.Accept(int32(text[i]))
			}
		}
		say(c.before)
		if m.Allows(marker) != c.marks || m.Allows('<') != c.spell {
			t.Errorf("%+v: the token may come: %v, its text: %v", c, m.Allows(marker), m.Allows('<'))
		}
		m.Accept(marker)
		if m.Allows(marker) || m.Allows('<') {
			t.Errorf("%+v: a marker behind the marker", c)
		}
		say("\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>")
		if !m.Complete() || m.Allows(marker) {
			t.Errorf("%+v: complete %v, or another call may follow", c, m.Complete())
		}
	}
}

// TestNowhere: behind a token that is not allowed only stop tokens are, whatever comes then. Where nothing is held all are.
func TestNowhere(t *testing.T) {
	const stop, marker, size = 256, 257, 258
	v := NewVocabulary(size, func(id int32) []byte {
		if id < 256 {
			return []byte{byte(id)}
		}
		return nil
	}, []int32{stop}, marker)
	form := Form{Marked: true, JSONCalls: true, Calls: []Tool{{"f", Object}}, Text: json.RawMessage(`{"type":"null"}`)}
	g, err := Compile(form)
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []int32{'x', size, size + 9} {
		m := g.NewMatcher(v)
		if m.MayEnd() || !m.Allows(marker) || !m.Allows('n') || m.Allows(token) {
			t.Fatal("the beginning is another one")
		}
		m.Accept(token)
		for _, then := range []int32{'n', marker, size} {
			logits := make([]float32, size+3)
			m.Mask(logits)
			for id, x := range logits {
				if (x == 0) != (id == stop) || m.Allows(int32(id)) != (id == stop) {
					t.Errorf("%d behind %d: mask %v, allowed %v", id, token, x, m.Allows(int32(id)))
				}
			}
			if m.End(); !m.MayEnd() || !m.Constrains() {
				t.Errorf("behind %d: may end %v, held %v", token, m.MayEnd(), m.Constrains())
			}
			m.Accept(then)
		}
	}
	form.Free, form.Text = true, nil
	if g, err = Compile(form); err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher(v)
	logits := make([]float32, size)
	m.Mask(logits)
	m.End()
	masked := slices.Max(logits) != 0 || slices.Min(logits) != 0
	if masked || m.MayEnd() || m.Allowed() != nil || m.Ending() != nil || !m.Allows(marker) || !m.Allows(size+9) {
		t.Error("something is held before a call begins")
	}
	m.Triggered(func() {
		if !m.Constrains() || m.Allows('x') || !m.Allows('\n') {
			t.Error("nothing is held behind the token that begins a call")
		}
	})
	if m.Constrains() {
		t.Error("a look ahead holds")
	}
}

// TestBlockOfAFreeAnswer: where no token begins a call, a block is held while its text may become one: blanks, then the marker.
func TestBlockOfAFreeAnswer(t *testing.T) {
	const call = "\n{\"name\": \"f\", \"arguments\": {\"n\":null}}\n</tool_call>"
	v := vocabulary()
	g, err := Compile(Form{Free: true, JSONCalls: true, Calls: []Tool{{"f", json.RawMessage(`{"properties":{"n":{"type":"null"}},"additionalProperties":false}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		there, said, not string // what is there of the block, what follows, and bytes that may not follow it then
		held, ends       bool   // then
	}{
		{"", "", "", true, true},
		{"", " \n\t", "", true, true},
		{"", "h", "", false, false},
		{" \n<tool_call", "", "", true, true},
		{"<tool_box", "", "", false, false},
		{"<", "t", "", true, true},
		{"<", "<", "", false, false},
		{"\r\n<tool", "_call>", "x {<", true, false},
		{"<tool_call>", call[:2], "x}[", true, false},
		{"<tool_call>" + call[:9], call[9:], "", false, false},
	} {
		m := g.NewMatcher(v)
		if m.Constrains() {
			t.Error("it holds before a block begins")
		}
		m.Begin([]byte(c.there))
		for i := range len(c.said) {
			if !m.Allows(int32(c.said[i])) {
				t.Errorf("%q behind %q: byte %d is not allowed", c.said, c.there, i)
			}
			m.Accept(int32(c.said[i]))
		}
		if m.Constrains() != c.held || m.MayEnd() != c.ends {
			t.Errorf("%q behind %q: held %v, may end %v", c.said, c.there, m.Constrains(), m.MayEnd())
		}
		for b := range 256 {
			if is := strings.IndexByte(c.not, byte(b)) >= 0; is && m.Allows(int32(b)) || !is && c.not == "" && !m.Allows(int32(b)) {
				t.Errorf("%q behind %q: %q may follow: %v", c.said, c.there, byte(b), is)
			}
		}
	}
}

// TestApart: the arguments of each tool have a grammar of their own, which holds from the start, also in a free answer.
func TestApart(t *testing.T) {
	v := vocabulary()
	list := `{"type":"object","properties":{"v":{"type":"string"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["next"],
		"additionalProperties":false}`
	for _, free := range []bool{false, true} {
		f := Form{Apart: true, Free: free, Calls: []Tool{{"any", json.RawMessage(`{}`)}, {"list", json.RawMessage(list)}}}
		g, err := Compile(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range []struct{ yes, not []string }{
			{[]string{`{}`, `{"v":7}`}, []string{``, `5`, `"x"`, `{}{}`}},
			{[]string{`{"next":null}`, `{"v":"` + strings.Repeat("x", 10_000) + `","next":{"next":null}}`},
				[]string{`{}`, `{"v":7,"next":null}`}},
		} {
			for _, text := range c.yes {
				if !matches(g.Arguments(i), v, text) {
					t.Errorf("tool %d refuses %.40q", i, text)
				}
			}
			for _, text := range c.not {
				if matches(g.Arguments(i), v, text) {
					t.Errorf("tool %d takes %q", i, text)
				}
			}
		}
		f.Calls = append(f.Calls, Tool{"none", json.RawMessage(`{"properties":{"x":{"enum":[]}},"required":["x"]}`)})
		_, err = Compile(f)
		if wrong, _ := errors.AsType[*Error](err); wrong == nil || wrong.Tool != 2 {
			t.Errorf("of a tool that nothing can be given: %v", err)
		}
	}
}
