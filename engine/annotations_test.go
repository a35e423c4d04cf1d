package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/messages"
)

// TestAnnotationsAreNotShown: a tool is the same prompt, count and conversation with and without
// annotations that say nothing about a call.
func TestAnnotationsAreNotShown(t *testing.T) {
	e, _ := open2(t, options(Instant))
	for _, c := range []struct{ with, without string }{
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"string"}}}`, `{"type":"object","properties":{"a":{"type":"string"}}}`},
		{`{"type":"object","$id":"https://example.com/t.json","$comment":"made by hand","properties":{"a":{"$comment":"x","items":[{"$comment":"y"}]}},"$defs":{"b":{"$id":"b","anyOf":[{"$comment":1},true]}}}`,
			`{"type":"object","properties":{"a":{"items":[{}]}},"$defs":{"b":{"anyOf":[{},true]}}}`},
		{`{"\u0024schema":"x","type":"object"}`, `{"type":"object"}`},
		// An $id that a reference is to, members of these names, and values stay.
		{`{"$id":"https://example.com/t.json","$schema":"x","properties":{"a":{"$ref":"t.json"}}}`, `{"$id":"https://example.com/t.json","properties":{"a":{"$ref":"t.json"}}}`},
		{`{"$id":"i","$defs":{"b":{}},"properties":{"a":{"$ref":"#/$defs/b"}}}`, `{"$defs":{"b":{}},"properties":{"a":{"$ref":"#/$defs/b"}}}`},
		{`{"properties":{"$schema":{"type":"string","$comment":"z"},"$id":{"default":{"$comment":"kept"}}},"required":["$schema"],"default":{"$schema":1}}`,
			`{"properties":{"$schema":{"type":"string"},"$id":{"default":{"$comment":"kept"}}},"required":["$schema"],"default":{"$schema":1}}`},
	} {
		if got := string(Shown([]byte(c.with))); got != c.without {
			t.Errorf("%s\nis shown as %s\nwant        %s", c.with, got, c.without)
		}
		if got := string(Shown([]byte(c.without))); got != c.without {
			t.Errorf("%s is shown as %s", c.without, got)
		}
		prepared := func(schema string) *Request {
			return ask(t, e, fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":%s}],"tool_choice":{"type":"auto"}}`, schema))
		}
		if strings.Contains(c.with, `"t.json"`) {
			continue // a reference that no grammar follows
		}
		with, without := prepared(c.with), prepared(c.without)
		if !slices.Equal(with.Prompt, without.Prompt) || with.Conversation != without.Conversation {
			t.Errorf("%s is another prompt or conversation than %s", c.with, c.without)
		}
		q, err := messages.Parse([]byte(fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"t","input_schema":%s}]}`, c.with)))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := e.Count(q); err != nil || n != len(without.Prompt) {
			t.Errorf("%s counts %d tokens, %v; the prompt has %d", c.with, n, err, len(without.Prompt))
		}
	}
}
