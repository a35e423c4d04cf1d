package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/grammar/grammartest"
	"corenode/engine/output"
)

// TestAnswersThatAreToEndDo has noise want to end, wherever it is: every answer comes to its
// end, and is what it has to be.
func TestAnswersThatAreToEndDo(t *testing.T) {
	texts, v := tokens()
	r := rand.New(rand.NewPCG(5, 6))
	for i, schema := range schemas {
		check := grammartest.Validator(t, schema)
		wanted := []grammar.Tool{{Name: "wanted", Schema: json.RawMessage(schema)}}
		for _, form := range []grammar.Form{
			{Text: json.RawMessage(schema)}, {Text: json.RawMessage(schema), Thinking: true},
			{Text: json.RawMessage(schema), ThinkOpen: "<think>"},
			{Calls: wanted}, {Calls: wanted, JSONCalls: true, Thinking: i%2 == 0},
		} {
			g, err := grammar.Compile(form)
			if err != nil {
				t.Fatalf("%s: %v", schema, err)
			}
			options := output.Options{Thinking: form.Thinking, Constrained: true, NewID: func() string { return "id" }}
			if len(form.Calls) > 0 {
				options.Tools = []output.Tool{{Name: "wanted", Schema: json.RawMessage(schema)}}
			}
			for range 8 {
				text, ended := sayUntil(t, g, texts, v, r, r.IntN(60))
				if !ended {
					t.Errorf("%s: an answer does not end", schema)
					continue
				}
				arguments := text
				if form.Thinking || form.ThinkOpen != "" && strings.HasPrefix(text, form.ThinkOpen) {
					_, arguments, _ = strings.Cut(text, "</think>")
				}
				if len(form.Calls) > 0 {
					if arguments = called(t, options, text)["wanted"]; arguments == "" {
						continue // two calls: their texts ran together
					}
				}
				if err := check(arguments); err != nil {
					t.Errorf("%s\n%q\n%v", schema, text, err)
				}
			}
		}
	}
}

// TestWhitespaceIsBounded: between the tokens of JSON there is a blank, or a line's end and its indent.
func TestWhitespaceIsBounded(t *testing.T) {
	texts, v := tokens()
	g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(`{"type":"array","items":{"type":"null"},"minItems":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	for _, said := range []string{"[", "[null", "[null,", "[null,null"} {
		m := g.NewMatcher(v)
		for _, c := range []byte(said) {
			m.Accept(int32(c))
		}
		blanks := 0
		for range 100 {
			logits := make([]float32, len(texts))
			m.Mask(logits)
			at := slices.IndexFunc([]byte("\n \t\r"), func(c byte) bool { return logits[c] == 0 })
			if at < 0 {
				break
			}
			m.Accept(int32("\n \t\r"[at]))
			blanks++
		}
		if blanks > 41 {
			t.Errorf("%q may be followed by %d blanks", said, blanks)
		}
	}
}

// TestNestingEnds has a model that wants to nest, of schemas that refer to themselves: when the
// answer is to end it does not go deeper.
func TestNestingEnds(t *testing.T) {
	texts, v := tokens()
	for _, schema := range []string{
		`{"$defs":{"t":{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#/$defs/t"},{"type":"null"}]}},"required":["v","next"]}},"$ref":"#/$defs/t"}`,
		`{"$defs":{"e":{"anyOf":[{"type":"object","properties":{"a":{"$ref":"#/$defs/e"},"b":{"$ref":"#/$defs/f"}},"required":["a","b"]},{"type":"boolean"}]},
			"f":{"anyOf":[{"type":"array","items":{"$ref":"#/$defs/e"},"minItems":2},{"$ref":"#/$defs/e"}]}},"$ref":"#/$defs/f"}`,
		`{"$defs":{"n":{"type":"object","properties":{"name":{"type":"string"},"left":{"$ref":"#/$defs/n"},"kin":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["kin"]}},"$ref":"#/$defs/n"}`,
	} {
		g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(schema)})
		if err != nil {
			t.Fatal(err)
		}
		check := grammartest.Validator(t, schema)
		for _, enough := range []int{0, 1, 9, 30, 60} {
			m, text := g.NewMatcher(v), ""
			for n := range sayMax {
				if n >= enough && !m.MayEnd() {
					m.End()
				}
				logits := make([]float32, len(texts))
				m.Mask(logits)
				best := int32(stop)
				for i, c := range "{[}],:1\"nextvbakiflrum" { // the first that it can have
					if logits[c] == 0 {
						logits[c] = float32(100 - i)
						if best == stop || logits[c] > logits[best] {
							best = c
						}
					}
				}
				if best == stop {
					break
				}
				m.Accept(best)
				text += texts[best]
			}
			if err := check(text); err != nil {
				t.Errorf("%s, ended after %d tokens: %.200q: %v", schema, enough, text, err)
			}
		}
	}
}
