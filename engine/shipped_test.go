package engine

import (
	"fmt"
	"strings"
	"testing"

	"corenode/engine/embedded"
	"corenode/engine/grammar/grammartest"
	"corenode/wasm/abi"
)

// shipped are the options of the model in the binary, as the node opens it.
func shipped() Options {
	o := options(CPU)
	o.Data = embedded.Model("core-1.1-mini")
	o.Info.ContextLength, o.TemplateSchema = 4096, true
	return o
}

// written is the text of an answer without its thoughts.
func written(events []abi.Event) string {
	var b strings.Builder
	for _, e := range events {
		if e.Kind == abi.EventDelta && e.Block == abi.BlockText {
			b.WriteString(e.Text)
		}
	}
	return b.String()
}

// schemaFormats are two ways to ask for JSON of a schema, with a thought in front of it and without.
var schemaFormats = []string{
	`"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":%s}}`,
	`"thinking":{"type":"disabled"},"output_config":{"format":{"type":"json_schema","schema":%s}}`,
}

// TestSchemasOfTheShippedModel asks the shipped model for JSON of schemas with free strings: what
// ends is valid, and nearly all of it ends.
func TestSchemasOfTheShippedModel(t *testing.T) {
	const most = 8 // at once
	e, s := open2(t, shipped())
	cases, ended := schemaCases(200)[:atMost(200, 24)], 0
	for at := 0; at < len(cases); at += most {
		some := cases[at:min(at+most, len(cases))]
		answers := make([]*answer, len(some))
		for i, c := range some {
			body := fmt.Sprintf(`{"model":"m","max_tokens":512,"temperature":0,"messages":[{"role":"user","content":%q}],%s}`,
				c.question, fmt.Sprintf(schemaFormats[i%len(schemaFormats)], c.schema))
			_, answers[i] = submit(t, s, "acct", ask(t, e, body))
		}
		runAll(t, s)
		for i, a := range answers {
			if a.result.Stop != abi.StopEndTurn {
				continue
			}
			ended++
			if err := grammartest.Validator(t, some[i].schema)(written(a.events)); err != nil {
				t.Errorf("%s\n%q: %v", some[i].schema, written(a.events), err)
			}
		}
	}
	t.Logf("of %d answers %d end", len(cases), ended)
	want := 95 // of a hundred
	if len(cases) < 100 {
		want = 75 // a few answers say little of a share: under the race detector most are to end
	}
	if ended*100 < len(cases)*want {
		t.Errorf("of %d answers %d end, want %d of 100", len(cases), ended, want)
	}
}
