package grammar_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/grammar"
)

// TestAllowedStaysBesideEnding: what Allowed gave is the same after Ending, however many sets of
// tokens were in use before.
func TestAllowedStaysBesideEnding(t *testing.T) {
	_, v := tokens()
	for n := 50; n <= 66; n++ {
		one := fmt.Sprintf("%q", strings.Repeat("ab", n)[:n])
		g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(`{"type":"array","items":{"const":` + one + `}}`)})
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher(v)
		for round, said := range []string{"[" + one, "," + one, "," + one, "," + one} {
			for i, c := range []byte(said) {
				allowed := m.Allowed()
				was := slices.Clone(allowed)
				if round == 3 {
					if m.Ending(); !slices.Equal(allowed, was) {
						t.Fatalf("items of %d: byte %d of item %d: Ending changed what Allowed gave", n, i, round)
					}
				}
				m.Accept(int32(c))
			}
		}
	}
}
