package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"corenode/engine/grammar"
)

// large is a vocabulary of the size that hosted models have, of pieces of words.
func large() ([]string, *grammar.Vocabulary) {
	texts, _ := tokens()
	known := map[string]bool{}
	r := rand.New(rand.NewPCG(5, 6))
	for len(texts) < 248_000 {
		s := []string{"", " ", " ", "_"}[r.IntN(4)]
		for range 1 + r.IntN(4) {
			s += []string{"a", "e", "in", "on", "st", "r", "l", "th", "ing", "é", "中", "\"", "0", "7", "{", ",", "\n", "S", "T", "\xe4\xb8"}[r.IntN(20)]
		}
		for i := 0; known[s]; i++ {
			s += fmt.Sprint(i % 10)
		}
		known[s] = true
		texts = append(texts, s)
	}
	return texts, grammar.NewVocabulary(len(texts), func(id int32) []byte { return []byte(texts[id]) }, []int32{stop}, -1)
}

// BenchmarkMask is the mask of each token of an answer, the first time that a matcher
// is there and again.
func BenchmarkMask(b *testing.B) {
	texts, v := large()
	schema := `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},"tags":{"type":"array","items":{"type":"string","maxLength":30}},"more":{}},"required":["name","age","tags","more"]}`
	g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(schema)})
	if err != nil {
		b.Fatal(err)
	}
	ids := map[string]int32{}
	for id, s := range texts {
		ids[s] = int32(id)
	}
	logits := make([]float32, len(texts))
	for _, at := range []struct{ name, before string }{
		{"start", ``}, {"string", `{"name": "Jo`}, {"number", `{"name":"","age":1`}, {"bounded string", `{"name":"","age":1,"tags":["ab`}, {"any value", `{"name":"","age":1,"tags":[],"more":`}, {"deep", `{"name":"","age":1,"tags":[],"more":[[{"a":[{"b":"`},
	} {
		fresh := func() *grammar.Matcher {
			m := g.NewMatcher(v)
			for i := range len(at.before) {
				m.Accept(ids[at.before[i:i+1]])
			}
			return m
		}
		b.Run(at.name+"/first", func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				m := fresh()
				b.StartTimer()
				m.Mask(logits)
			}
		})
		b.Run(at.name+"/again", func(b *testing.B) {
			m := fresh()
			for b.Loop() {
				m.Mask(logits)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := grammar.Compile(grammar.Form{Calls: []grammar.Tool{{Name: "t", Schema: json.RawMessage(schemas[2])}}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCompileAgent is the tools of a coding agent, as every one of its requests brings them.
func BenchmarkCompileAgent(b *testing.B) {
	f := grammar.Form{Free: true, Marked: true}
	for i := range 30 {
		f.Calls = append(f.Calls, grammar.Tool{Name: fmt.Sprint("tool_", i), Schema: json.RawMessage(schemas[i%len(schemas)])})
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := grammar.Compile(f); err != nil {
			b.Fatal(err)
		}
	}
}
