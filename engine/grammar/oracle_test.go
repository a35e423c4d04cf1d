package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/grammar/grammartest"
	"corenode/engine/output"
	"corenode/wasm/abi"
)

// schemas are what tools and formats look like in the wild, and the corners of what is enforced.
var schemas = []string{
	`{"type":"object"}`,
	`{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1,"maximum":14},"unit":{"enum":["celsius","fahrenheit"]}},"required":["city"]}`,
	`{"type":"object","properties":{"path":{"type":"string","minLength":1,"maxLength":200},"lines":{"type":"array","items":{"type":"integer","minimum":0},"maxItems":3}},"required":["path","lines"],"additionalProperties":false}`,
	`{"type":"object","properties":{"a":{"type":["string","integer"]},"b":{"type":["null","string"]},"c":{"type":["boolean","string","array"]}},"required":["a","b","c"]}`,
	`{"type":"object","properties":{"n":{"type":"number","minimum":-1.5,"exclusiveMaximum":2.25},"m":{"type":"number","exclusiveMinimum":99},"k":{"type":"integer","maximum":-7}},"required":["n","m","k"]}`,
	`{"type":"object","properties":{"v":{"anyOf":[{"type":"integer","minimum":5},{"type":"string"}]},"w":{"oneOf":[{"type":"null"},{"const":"x"}]}},"required":["v","w"]}`,
	`{"type":"object","properties":{"id":{"type":"string","pattern":"^[a-f0-9]{4}$"},"tag":{"type":"string","pattern":"b+"}},"required":["id","tag"]}`,
	`{"$defs":{"node":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","maxItems":2,"items":{"$ref":"#/$defs/node"}}},"required":["name"],"additionalProperties":false}},"type":"object","properties":{"root":{"$ref":"#/$defs/node"}},"required":["root"]}`,
	`{"type":"object","properties":{"p":{"type":"array","prefixItems":[{"type":"string"},{"type":"boolean"}],"minItems":1,"items":{"type":"null"}}},"required":["p"]}`,
	`{"type":"object","additionalProperties":{"type":"integer"}}`,
	`{"type":"object","properties":{"x":{"type":"integer"}},"additionalProperties":{"type":"string","maxLength":3}}`,
	`{"type":"object","properties":{"x":{}},"required":["x","y"]}`,
	`{"allOf":[{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"a":{"minimum":10},"b":{"type":"string"}},"required":["b"]}]}`,
	`{"type":"object","properties":{"s":{"type":"string","enum":["null","true","5","a<b","two words"]},"e":{"enum":[1,"1",null,true,[1,{"a":2}]]}},"required":["s","e"]}`,
	`{"type":"object","properties":{"k":{"const":1}},"anyOf":[{"properties":{"l":{"const":2}},"required":["l"]},{"required":["k"]}]}`,
	`{"type":"object","properties":{"weird<name":{"type":"string"}},"required":["weird<name"]}`,
	`{"type":"object","properties":{}}`,
	`{"$id":"https://x.example/root.json","type":"object","properties":{"a":{"$ref":"#point"},"b":{"$ref":"unit.json"},"c":{"$ref":"https://x.example/unit.json#half"}},"required":["a","b","c"],
		"$defs":{"p":{"$anchor":"point","type":"object","properties":{"x":{"type":"integer"}},"required":["x"],"additionalProperties":false},
			"u":{"$id":"unit.json","enum":["m","km"],"$defs":{"h":{"$anchor":"half","const":0.5}}}}}`,
	`{"type":"object","allOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]}],"anyOf":[{"properties":{"b":{"type":"boolean"}},"required":["b"]},{}],"unevaluatedProperties":false}`,
	`{"type":"object","properties":{"a":{"type":"integer"}},"allOf":[{"properties":{"b":{"type":"null"}},"unevaluatedProperties":false}]}`,
	`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"unevaluatedProperties":{"type":"boolean"}}`,
}

const stop = 256

// tokens are all bytes, a stop, and some of several bytes as vocabularies have them.
func tokens() ([]string, *grammar.Vocabulary) {
	var texts []string
	for i := range 256 {
		texts = append(texts, string([]byte{byte(i)}))
	}
	texts = append(texts, "", `":`, `": `, `", "`, "}}", `"}`, "</", "parameter", ">\n", "\n</parameter>\n", "tool_call", "<tool_call>", "</tool_call>", "</think>", "true", "nul", "null",
		" the", "hello", "12", "0.5", "é", "日本", "\xe6\x97", `\n`, `\u00`, "[]", "[[", "{}", "\n\n", "  ", "<function=", "abc", "</arg_value>", "</arg_value>\n")
	return texts, grammar.NewVocabulary(len(texts), func(id int32) []byte { return []byte(texts[id]) }, []int32{stop}, -1)
}

// sayMax is how many tokens an answer has before it is given up.
const sayMax = 800

// say draws tokens that are allowed until one is a stop, or until there are too many.
func say(t testing.TB, g *grammar.Grammar, texts []string, v *grammar.Vocabulary, r *rand.Rand) (string, bool) {
	return sayUntil(t, g, texts, v, r, sayMax)
}

// sayUntil is say where the model wants to end after some tokens, at each one from there on.
func sayUntil(t testing.TB, g *grammar.Grammar, texts []string, v *grammar.Vocabulary, r *rand.Rand, enough int) (string, bool) {
	m := g.NewMatcher(v)
	logits := make([]float32, len(texts)+3)
	var out strings.Builder
	for n := range sayMax {
		clear(logits)
		if n >= enough && !m.MayEnd() {
			m.End()
		}
		m.Mask(logits)
		var allowed, closing []int32
		for id, x := range logits {
			if x == 0 {
				allowed = append(allowed, int32(id))
				if id == stop || id < 256 && strings.IndexByte("\"]}/>", byte(id)) >= 0 {
					closing = append(closing, int32(id))
				}
			}
		}
		if len(allowed) == 0 {
			t.Fatalf("after %q nothing is allowed", out.String())
		}
		token := allowed[r.IntN(len(allowed))]
		if len(closing) > 0 && r.IntN(3) == 0 {
			token = closing[r.IntN(len(closing))]
		}
		if !m.Allows(token) {
			t.Fatalf("after %q %q is possible and not allowed", out.String(), texts[token])
		}
		if token == stop {
			if !m.Complete() {
				t.Fatalf("%q may end and is not complete", out.String())
			}
			return out.String(), true
		}
		m.Accept(token)
		out.WriteString(texts[token])
	}
	return "", false
}

func TestTextsAreOfTheirSchema(t *testing.T) {
	texts, v := tokens()
	r := rand.New(rand.NewPCG(1, 2))
	for _, schema := range schemas {
		check := grammartest.Validator(t, schema)
		g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(schema)})
		if err != nil {
			t.Errorf("%s: %v", schema, err)
			continue
		}
		said := 0
		for range 30 {
			text, ended := say(t, g, texts, v, r)
			if !ended {
				continue
			}
			said++
			if err := check(text); err != nil {
				t.Errorf("%s\n%q\n%v", schema, text, err)
			}
		}
		if said < 10 {
			t.Errorf("%s: %d of 30 ended", schema, said)
		}
	}
}

func TestCallsAreOfTheirSchema(t *testing.T) {
	texts, v := tokens()
	r := rand.New(rand.NewPCG(3, 4))
	for _, shape := range []grammar.Form{{}, {JSONCalls: true}, {KeyCalls: true}} {
		for i, schema := range schemas {
			check := grammartest.Validator(t, schema)
			other := grammar.Tool{Name: "other", Schema: grammar.Object}
			form := grammar.Form{Thinking: i%2 == 0, Calls: []grammar.Tool{other,
				{Name: "wanted", Schema: json.RawMessage(schema)}}[i%2:], JSONCalls: shape.JSONCalls, KeyCalls: shape.KeyCalls, SingleCall: i%3 > 0}
			g, err := grammar.Compile(form)
			if err != nil {
				t.Errorf("%s: %v", schema, err)
				continue
			}
			options := output.Options{Thinking: form.Thinking, SingleCall: form.SingleCall, Constrained: true, KeyCalls: form.KeyCalls,
				NewID: func() string { return "id" }}
			for _, c := range form.Calls {
				options.Tools = append(options.Tools, output.Tool{Name: c.Name, Schema: c.Schema})
			}
			said := 0
			for range 20 {
				text, ended := say(t, g, texts, v, r)
				if !ended {
					continue
				}
				said++
				for name, arguments := range called(t, options, text) {
					if name == "wanted" {
						if err := check(arguments); err != nil {
							t.Errorf("%s\n%q\n%s\n%v", schema, text, arguments, err)
						}
					}
				}
			}
			if said < 4 {
				t.Errorf("%s: %d of 20 ended", schema, said)
			}
		}
	}
}

// called are the calls that the parser finds in a text: at least one, and no other text.
func called(t *testing.T, o output.Options, text string) map[string]string {
	t.Helper()
	p := output.New(o)
	events := p.Finish(p.Feed(nil, text), false)
	out := map[string]string{}
	name := ""
	for _, e := range events {
		switch {
		case e.Kind == abi.EventBlockStart && e.Block == abi.BlockToolUse:
			name = e.Name
		case e.Kind == abi.EventDelta && e.Block == abi.BlockToolUse:
			out[name] += e.Text
		case e.Kind == abi.EventDelta && e.Block == abi.BlockText:
			t.Errorf("%q has text: %q", text, e.Text)
		case e.Kind == abi.EventBlockStop && e.Block == abi.BlockToolUse && !json.Valid([]byte(out[name])):
			return map[string]string{"": fmt.Sprint(events)} // two calls of one tool: the texts ran together
		}
	}
	if reason, _ := p.Stop(); reason != abi.StopToolUse {
		t.Errorf("%q ends as %v, want a call", text, reason)
	}
	return out
}

// FuzzCompile holds that no schema brings the compiler down, that an answer never gets where no token is allowed, and that
// one of which nothing is ignored is valid, as text and as the arguments of a call.
func FuzzCompile(f *testing.F) {
	for i, schema := range append(slices.Clone(schemas),
		`{"type":"array","items":{"type":"string","minLength":2,"maxLength":4},"minItems":1,"uniqueItems":true,"contains":{"const":"ab"}}`,
		`{"oneOf":[{"type":"integer","multipleOf":5},{"type":"string","format":"date"}],"not":{"const":5}}`,
		`{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"else":{"required":["c"]},"minProperties":1}`,
		`{"patternProperties":{"^a":{"type":"integer"}},"additionalProperties":false,"dependentRequired":{"ab":["ac"]},"propertyNames":{"maxLength":3}}`,
		`{"definitions":{"a":{"anyOf":[{"type":"null"},{"$ref":"#/definitions/a"}]}},"$ref":"#/definitions/a"}`,
		`{"type":"array","items":[{"type":"integer","minimum":-1e20}],"additionalItems":{"type":"null"}}`) {
		f.Add([]byte(schema), i%2 == 0, i%3 == 0, uint64(i))
	}
	texts, v := tokens()
	f.Fuzz(func(t *testing.T, schema []byte, isCall, asJSON bool, seed uint64) {
		form := grammar.Form{Text: schema}
		if isCall {
			form = grammar.Form{Calls: []grammar.Tool{{Name: "t", Schema: schema}}, JSONCalls: asJSON, SingleCall: true}
		}
		g, err := grammar.Compile(form)
		if err != nil {
			return
		}
		check, err := grammartest.Compile(string(schema))
		checked := err == nil && len(g.Ignored()) == 0
		r := rand.New(rand.NewPCG(seed, 8))
		for _, enough := range []int{sayMax, r.IntN(20)} { // there it wants to end
			text, ended := sayUntil(t, g, texts, v, r, enough)
			if !ended || !checked {
				continue
			}
			if isCall {
				o := output.Options{Constrained: true, NewID: func() string { return "id" }, Tools: []output.Tool{{Name: "t", Schema: schema}}}
				text = called(t, o, text)["t"]
			}
			if err := check(text); err != nil {
				t.Fatalf("%s: %q: %v", schema, text, err)
			}
		}
	})
}
