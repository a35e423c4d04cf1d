package grammar

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// heap is how much memory is in use.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// TestHostileMemory has grammars whose sets are large and never the same, because every item of a
// list goes on elsewhere: what a matcher remembers of them is bounded, however long the answer is.
func TestHostileMemory(t *testing.T) {
	const most = 24 << 20
	v := vocabulary()
	for name, c := range map[string]struct{ items, item string }{
		"equal values":     {`{"enum":[1` + strings.Repeat(",1", 20_000) + `]}`, "1"},
		"optional members": {`{"type":"object","properties":{` + many(1400, `"aN":{"type":"null"}`) + `}}`, "{}"},
	} {
		schema := `{"type":"array","minItems":1000,"maxItems":1000,"items":` + c.items + `}`
		g, err := Compile(Form{Text: json.RawMessage(schema)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before := heap()
		m := g.NewMatcher(v)
		text := "[" + strings.Repeat(c.item+",", 200)
		for i, token := range []byte(text) {
			if !m.Allows(int32(token)) {
				t.Fatalf("%s: %q is refused behind %d bytes", name, token, i)
			}
			m.Accept(int32(token))
			if i%50 == 0 {
				if took := heap() - before; took > most {
					t.Errorf("%s: %d bytes behind %d bytes of text", name, took, i)
					break
				}
			}
		}
		t.Logf("%s: %d bytes, %d sets", name, heap()-before, len(m.sets))
		runtime.KeepAlive(m)
	}
}

// TestListsAreNarrow: of listed values only as many states follow each other as there are bytes to
// choose from, and the texts are those of the list, each as often as it is there.
func TestListsAreNarrow(t *testing.T) {
	v := vocabulary()
	cities := func(part string) json.RawMessage { return json.RawMessage(`{"enum":[` + many(2000, part) + `]}`) }
	for name, f := range map[string]Form{
		"cities":       {Text: cities(`"City N of the north"`)},
		"numbers":      {Text: cities(`N`)},
		"equal values": {Text: cities(`1`)},
		"an argument":  {Calls: []Tool{{Name: "t", Schema: json.RawMessage(`{"type":"object","properties":{"x":` + string(cities(`"City N"`)) + `}}`)}}},
	} {
		g, err := Compile(f)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range g.states {
			if n := len(g.states[i].split); n > 256 {
				t.Errorf("%s: a state goes to %d others", name, n)
			}
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 30 {
		listed := map[string]bool{}
		var values []string
		for range 1 + r.IntN(12) {
			text := ""
			for range r.IntN(5) {
				text += []string{"a", "b", "é", "è", "<"}[r.IntN(5)]
			}
			listed[text] = true
			values = append(values, quote(text))
		}
		list := strings.Join(values, ",")
		g, err := Compile(Form{Text: json.RawMessage(`{"enum":[` + list + `]}`)})
		if err != nil {
			t.Fatal(err)
		}
		called, err := Compile(Form{Calls: []Tool{{Name: "t", Schema: json.RawMessage(`{"type":"object","properties":{"x":{"enum":[` + list + `]}}}`)}}})
		if err != nil {
			t.Fatal(err)
		}
		var each func(text string, more int)
		each = func(text string, more int) {
			if got := matches(g, v, quote(text)); got != listed[text] {
				t.Errorf("%s: %q is taken: %v", list, text, got)
			}
			call := "<tool_call>\n<function=t>\n<parameter=x>\n" + text + "\n</parameter>\n</function>\n</tool_call>"
			if got := matches(called, v, call); got != listed[text] {
				t.Errorf("%s: the argument %q is taken: %v", list, text, got)
			}
			for _, c := range []string{"a", "b", "é", "è", "<"} {
				if more > 0 {
					each(text+c, more-1)
				}
			}
		}
		each("", 2)
		for text := range listed {
			if !matches(g, v, quote(text)) {
				t.Errorf("%s: %q is refused", list, text)
			}
		}
	}
}

// TestPatternsOfEitherCase: of a pattern whose letters may be of either case the ranges to what is outside of ASCII are dear, and
// neither dots nor single letters. Whoever has too many is told where they stand.
func TestPatternsOfEitherCase(t *testing.T) {
	compile := func(pattern string, left int) error { // with so many steps left
		schema := `{"type":"object","properties":{` + many(40, `"pN":{"type":"string","pattern":"`+pattern+`"}`) + `}}`
		b := &builder{rules: map[string]int32{}, most: statesMax, onward: roleRepeats, spent: spentMax - left}
		b.rule("", func() expr {
			return b.form(Form{Calls: []Tool{{Name: "t", Schema: json.RawMessage(schema)}}, JSONCalls: true})
		})
		b.finish()
		return b.err
	}
	for _, usual := range []string{`(?i)^.+@.+\\..+$`, `(?i)^[a-zàâçéèêëîïôûùüÿñæœ' -]+$`} {
		if err := compile(usual, 100_000); err != nil {
			t.Errorf("%s: %v", usual, err)
		}
	}
	err := compile(`(?i)^[B-\\x{1e900}ä-`+"\U0001e900]$", 100_000)
	if wrong, ok := errors.AsType[*Error](err); !ok || wrong.Tool != 0 || !strings.HasSuffix(wrong.Pointer, "/pattern") {
		t.Errorf("%+v", err)
	}
}
