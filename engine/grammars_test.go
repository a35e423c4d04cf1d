package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"corenode/engine/grammar"
	"corenode/engine/messages"
	"corenode/engine/sched"
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
		{Capital: true}, {Apart: true}, {Calls: []grammar.Tool{{Name: "a", Schema: grammar.Object}}}} {
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

// TestGrammarsHeldOfAQueue: a queue holds the grammars of its requests up to a bound, one that several share once, and
// a request that nothing waits before runs, whatever its grammar takes.
func TestGrammarsHeldOfAQueue(t *testing.T) {
	e, s := open2(t, options(Instant))
	form := func(length int) *Request {
		schema := fmt.Sprintf(`{"type":"object","properties":{"a":{"type":"string","maxLength":%d}},"required":["a"],"additionalProperties":false}`, length)
		return ask(t, e, constrained(1, `"output_config":{"format":{"type":"json_schema","schema":`+schema+`}}`))
	}
	refused := func(r *Request) error {
		return s.submit(&Job{ID: "r", Account: "a", Request: r, Output: NewWholeOutput(), Finished: func(Result) {}}, time.Now())
	}
	first := form(500)
	s.held.max = 2*first.Grammar.Size() - 1
	var all []*answer
	add := func(r *Request) {
		t.Helper()
		_, a := submit(t, s, "a", r)
		all = append(all, a)
	}
	add(first)
	add(form(500)) // the same
	if s.held.size != first.Grammar.Size() {
		t.Errorf("%d states held of a grammar of %d", s.held.size, first.Grammar.Size())
	}
	err := refused(form(501))
	if full, ok := errors.AsType[*sched.RefusedError](err); !ok || full.Reason != sched.RefusedMemory || full.RetryAfter < time.Second {
		t.Errorf("over the bound: %v", err)
	}
	add(form(10)) // there is room for it
	runAll(t, s)
	if s.held.max = 1; s.held.size != 0 || len(s.held.uses) != 0 {
		t.Errorf("%d states of %d grammars held when all is done", s.held.size, len(s.held.uses))
	}
	add(form(501))
	add(form(501))       // which takes no more
	add(ask(t, e, body)) // as little as this one
	runAll(t, s)
	for i, a := range all {
		if a.finished != 1 || a.result.Err != nil {
			t.Errorf("request %d: %+v", i, a.result)
		}
	}
	if full := s.sched.Stats().RefusedQueueFull; full != 1 {
		t.Errorf("%d refusals counted", full)
	}
}

// TestMatchersOfAQueue: a request that waits takes nothing for the states of its grammar: only an answer follows them.
func TestMatchersOfAQueue(t *testing.T) {
	var members []string
	for i := range 5 {
		members = append(members, fmt.Sprintf(`"s%d":{"type":"string","maxLength":2000}`, i))
	}
	schema := `{"type":"object","properties":{` + strings.Join(members, ",") + `},"additionalProperties":false}`
	tool := `"tools":[{"name":"t","input_schema":` + schema + `}],"tool_choice":{"type":"any"}`
	for name, of := range map[string]struct {
		open func() (*Engine, *Stepper)
		more string
	}{
		"a form":                        {func() (*Engine, *Stepper) { return open2(t, options(CPU)) }, `"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`},
		"a call":                        {func() (*Engine, *Stepper) { return open2(t, options(CPU)) }, tool},
		"a call of a model of channels": {func() (*Engine, *Stepper) { return channelEngine(t) }, tool},
	} {
		e, s := of.open()
		r := ask(t, e, constrained(1, of.more))
		states, jobs := r.grammars()[0].Size(), e.options.Batch.QueueMax
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range jobs {
			submit(t, s, "a", r)
		}
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; states < 10_000 || took > uint64(jobs*states) {
			t.Errorf("%s: %d requests that wait for a grammar of %d states take %d bytes", name, jobs, states, took)
		}
	}
}
