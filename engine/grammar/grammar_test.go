package grammar

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
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

func TestText(t *testing.T) {
	v := vocabulary()
	for _, c := range []struct {
		schema   string
		yes, not []string
	}{
		{`{"type":"object"}`, []string{`{}`, `{"a": 1}`, `{"a":[1,2,{"b":null}],"c":"x\n\"é"}`, "{\n  \"a\": -1.5e3\n}"}, []string{``, `[]`, `{"a"}`, `{"a":01}`, `{"a":1,}`, `{"a":"\ud800"}`}},
		{`{"type":"integer","minimum":-5,"maximum":120}`, []string{"0", "-5", "120", "99", "7", "-1"}, []string{"-6", "121", "007", "1.0", "-0", "1000", ""}},
		{`{"type":"number","exclusiveMinimum":0,"maximum":1.5}`, []string{"1", "0.1", "1.5", "1.499", "0.000001"}, []string{"0", "0.0", "1.6", "2", "-0.1", "1.51"}},
		{`{"type":"number","minimum":-0.25}`, []string{"-0.25", "-0.2", "0", "0.5", "12345.75"}, []string{"-0.26", "-1"}},
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

// TestIgnored also holds that what is reported has no word of the client's own.
func TestIgnored(t *testing.T) {
	g, err := Compile(Form{Text: json.RawMessage(`{"properties":{"ssn":{"type":"string","format":"x","x-mine":1},"n":{"multipleOf":2,"format":"y","title":"N"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := g.Ignored(); !slices.Equal(got, []string{"format", "multipleOf"}) {
		t.Errorf("%q", got)
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
