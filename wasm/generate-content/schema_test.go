package generatecontent

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// TestOrderOfManyNames: names of any length, with beginnings in common, come in the order that is asked for.
func TestOrderOfManyNames(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	schema := func(names, order []string) string {
		members, asked := make([]string, len(names)), make([]string, len(order))
		for i, name := range names {
			members[i] = fmt.Sprintf(`"%s":{"title":"%[1]s"}`, name)
		}
		for i, name := range order {
			asked[i] = `"` + name + `"`
		}
		return `{"properties":{` + strings.Join(members, ",") + `},"propertyOrdering":[` + strings.Join(asked, ",") + `]}`
	}
	for range 500 {
		seen := map[string]bool{}
		for range 1 + random.IntN(30) {
			seen[strings.Repeat("x", random.IntN(12))+strings.Repeat("y", random.IntN(3))] = true
		}
		var names []string
		for name := range seen {
			names = append(names, name)
		}
		slices.Sort(names)
		random.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		order := make([]string, random.IntN(30))
		for i := range order {
			order[i] = strings.Repeat("x", random.IntN(12)) + strings.Repeat("y", random.IntN(3))
		}
		var want []string
		for _, name := range append(slices.Clone(order), names...) {
			if seen[name] && !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		if got := string(ordered([]byte(schema(names, order)))); got != schema(want, order) {
			t.Fatalf("%s became %s", schema(names, order), got)
		}
	}
}
