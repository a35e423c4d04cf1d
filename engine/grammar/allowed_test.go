package grammar_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

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

// TestBlanksOfPatterns: \S in a pattern is no blank and no end of a line of ECMAScript, and the characters beside those.
func TestBlanksOfPatterns(t *testing.T) {
	_, v := tokens()
	g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(`{"type":"string","pattern":"^\\S$"}`)})
	if err != nil {
		t.Fatal(err)
	}
	blank := func(r rune) bool {
		return unicode.Is(unicode.Zs, r) || strings.ContainsRune("\t\n\v\f\r\u2028\u2029\ufeff", r)
	}
	for r := rune(0xa0); r <= unicode.MaxRune; r++ {
		if edge := blank(r-1) || blank(r+1); utf8.ValidRune(r) && (edge || blank(r)) {
			if got := taken(g, v, json.RawMessage(`"`+string(r)+`"`)); got == blank(r) {
				t.Errorf("%U may be written: %v", r, got)
			}
		}
	}
}

// TestEnding: what Ending gives has the end of a list and not its next item; what Allowed gives has both.
func TestEnding(t *testing.T) {
	_, v := tokens()
	g, err := grammar.Compile(grammar.Form{Text: json.RawMessage(`{"type":"array","items":{"type":"null"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher(v)
	for _, c := range []byte("[null") {
		m.Accept(int32(c))
	}
	has := func(ids []uint64, c byte) bool { return ids[c>>6]>>(c&63)&1 != 0 }
	for range 2 {
		if ending := m.Ending(); !has(ending, ']') || has(ending, ',') {
			t.Errorf("an end that is wanted: ] %v, a comma %v", has(ending, ']'), has(ending, ','))
		}
		if allowed := m.Allowed(); !has(allowed, ']') || !has(allowed, ',') {
			t.Errorf("an end that is not: ] %v, a comma %v", has(allowed, ']'), has(allowed, ','))
		}
	}
}
