package output

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzForms is FuzzParse for the calls of every other form, of a tool with any schema, and for channels: no panic, whole
// events, arguments that are JSON, and the same blocks for any cut.
func FuzzForms(f *testing.F) {
	forms := []*Delimiters{nil, &delimitersDeepSeek, &delimitersDeepSeekFenced, &delimitersKimi, &delimitersMistral, &delimitersMistralID,
		&delimitersMistralList}
	schema := string(testTools[0].Schema)
	for i, s := range delimitedSamples {
		for form := range forms {
			if forms[form] != nil && *forms[form] == s.delimiters {
				f.Add(s.in, schema, uint8(form), uint64(i))
			}
		}
	}
	for i, s := range keySamples {
		f.Add(s.in, schema, uint8(0), uint64(i))
	}
	for i, in := range []string{
		`<|channel|>analysis<|message|> I think <|end|><|start|>assistant<|channel|>commentary to=functions.search<|message|>{"q":"é"}`,
		`<|channel|>final<|message|>one END two`, "search <|constrain|>json<|message|>{}", "I forgot.",
	} {
		f.Add(in, schema, uint8(len(forms)), uint64(i))
	}
	f.Fuzz(func(t *testing.T, in, schema string, form uint8, seed uint64) {
		in = strings.ToValidUTF8(in, "?")
		bit := func(n int) bool { return seed>>n&1 != 0 }
		o := Options{Tools: []Tool{{Name: "search", Schema: []byte(schema)}, {Name: "noop"}}, Stops: []string{"END", "\n\n"}[:seed>>8%3],
			Thinking: bit(0), Marked: bit(1), SingleCall: bit(2), Constrained: bit(3), Begun: bit(4)}
		rng := rand.New(rand.NewPCG(seed, 1))
		if n := int(form) % (len(forms) + 1); n < len(forms) {
			o.Delimiters, o.KeyCalls = forms[n], n == 0
			want := parse(t, o, bit(5), in)
			if got := parse(t, o, bit(5), randomCut(rng, in)...); got != want {
				t.Fatalf("cut:\n got %s\nwhole %s", got, want)
			}
			return
		}
		o.Opened, o.Header = bit(6), []string{"", "<|channel|>commentary to=functions.", "<|channel|>analysis"}[seed>>10%3]
		said := func(n int) string {
			blocks, p := speak(t, o, in, n, bit(5))
			reason, sequence := p.Stop()
			return fmt.Sprintf("%v %v %q", blocks, reason, sequence)
		}
		if got, want := said(utf8.UTFMax+rng.IntN(9)), said(len(in)+utf8.UTFMax); got != want {
			t.Fatalf("cut:\n got %s\nwhole %s", got, want)
		}
	})
}
