package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/grammar/grammartest"
	"corenode/engine/parse"
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
			{Calls: wanted}, {Calls: wanted, JSONCalls: true, Thinking: i%2 == 0},
		} {
			g, err := grammar.Compile(form)
			if err != nil {
				t.Fatalf("%s: %v", schema, err)
			}
			options := parse.Options{Thinking: form.Thinking, Constrained: true, NewID: func() string { return "id" }}
			if len(form.Calls) > 0 {
				options.Tools = []parse.Tool{{Name: "wanted", Schema: json.RawMessage(schema)}}
			}
			for range 8 {
				text, ended := sayUntil(t, g, texts, v, r, r.IntN(60))
				if !ended {
					t.Errorf("%s: an answer does not end", schema)
					continue
				}
				arguments := text
				if form.Thinking {
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
