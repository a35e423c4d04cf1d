package engine

import (
	"encoding/json"
	"fmt"
	"testing"

	"corenode/engine/grammar"
	"corenode/engine/messages"
)

// TestGrammarsAreKept compiles a form once while it is used, and keeps no more than there is room for.
func TestGrammarsAreKept(t *testing.T) {
	var k grammars
	form := func(i int, f grammar.Form) grammar.Form {
		f.Text = json.RawMessage(fmt.Sprintf(`{"type":"string","maxLength":%d}`, 1000+i))
		return f
	}
	compile := func(f grammar.Form) *grammar.Grammar {
		t.Helper()
		g, err := k.compile("acct", f)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	first := compile(form(0, grammar.Form{}))
	for i := range 1000 {
		compile(form(i, grammar.Form{}))
		if compile(form(0, grammar.Form{})) != first {
			t.Fatalf("what is used is compiled again after %d others", i)
		}
	}
	if k.size > grammarsMax || k.size < grammarsMax/2 || len(k.known) != k.recent.Len() {
		t.Errorf("%d states in %d grammars, %d of them known", k.size, k.recent.Len(), len(k.known))
	}
	for _, f := range []grammar.Form{{Thinking: true}, {Marked: true}, {JSONCalls: true}, {KeyCalls: true}, {SingleCall: true},
		{Apart: true}, {Calls: []grammar.Tool{{Name: "a", Schema: grammar.Object}}}} {
		if compile(form(0, f)) == first {
			t.Errorf("%+v has the grammar of another form", f)
		}
	}
	if _, err := k.compile("acct", grammar.Form{Text: json.RawMessage(`{"enum":[]}`)}); err == nil {
		t.Error("a schema without values compiles")
	}
}

// TestGrammarsOfOthers: what one account's tools compiled to is compiled again for another's.
func TestGrammarsOfOthers(t *testing.T) {
	e, _ := open2(t, options(Instant))
	prepared := func(account string) *grammar.Grammar {
		t.Helper()
		q, err := messages.Parse([]byte(constrained(1, orderTools+`,"tool_choice":{"type":"any"}`)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Prepare(account, q)
		if err != nil {
			t.Fatal(err)
		}
		return r.Grammar
	}
	first := prepared("a")
	if prepared("a") != first {
		t.Error("an account's tools are compiled twice")
	}
	if prepared("b") == first {
		t.Error("an account finds what another's tools compiled to")
	}
}
