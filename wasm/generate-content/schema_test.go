package generatecontent

import (
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// TestEnumOfNumbers: an answer can fit a schema whose numbers are listed as texts.
func TestEnumOfNumbers(t *testing.T) {
	const body = `{"contents":[{"parts":[{"text":"Hi"}]}],"generationConfig":{"responseMimeType":"application/json","responseSchema":
		{"type":"OBJECT","required":["v"],"properties":{"v":{"type":"INTEGER","format":"enum","enum":["101","201"]}}}}}`
	out, refused := New().Request(abi.RequestInput{Body: []byte(body), Route: &abi.Route{Params: []abi.Pair{{Name: "model", Value: "m"}}}})
	if refused != nil {
		t.Fatal(refused)
	}
	q, err := messages.ParseTranslated(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	g, err := grammar.Compile(grammar.Form{Text: q.Format.Schema})
	if err != nil {
		t.Fatal(err)
	}
	v := grammar.NewVocabulary(257, func(id int32) []byte { return []byte{byte(id)} }, []int32{256}, -1)
	for text, fits := range map[string]bool{`{"v":101}`: true, `{"v":201}`: true, `{"v":"101"}`: false, `{"v":7}`: false} {
		m := g.NewMatcher(v)
		got := true
		for _, b := range []byte(text) {
			if got = got && m.Allowed()[b>>6]>>(b&63)&1 == 1; got {
				m.Accept(int32(b))
			}
		}
		if got != fits {
			t.Errorf("%s of %s: %v", text, q.Format.Schema, got)
		}
	}
}
