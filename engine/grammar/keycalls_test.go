package grammar

import (
	"encoding/json"
	"testing"
)

// TestKeyCalls: a name is followed by keys in the order of the schema, each with a value that ends
// at its tag; arguments that no key can carry are JSON.
func TestKeyCalls(t *testing.T) {
	compile := func(schema string) *Grammar {
		g, err := Compile(Form{KeyCalls: true, Calls: []Tool{{Name: "t", Schema: json.RawMessage(schema)}, {Name: "tt", Schema: Object}}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	g := compile(`{"type":"object","properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q"],"additionalProperties":false}`)
	if !matches(g, vocabulary(), "<tool_call>tt\n</tool_call>") {
		t.Error("a tool without parameters cannot be called")
	}
	q := "\n<arg_key>q</arg_key>\n<arg_value>a <b>\n</arg_value>"
	for text, want := range map[string]bool{
		"t" + q + "\n": true, "t" + q + "\n<arg_key>n</arg_key>\n<arg_value>-5</arg_value>\n": true, "t\n": false, "x\n": false, "t" + q: false,
		"t\n<arg_key>n</arg_key>\n<arg_value>5</arg_value>" + q + "\n": false, "t" + q + "\n<arg_key>n</arg_key>\n<arg_value>x</arg_value>\n": false,
	} {
		if got := matches(g, vocabulary(), "<tool_call>"+text+"</tool_call>"); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	g = compile(`{"anyOf":[{"type":"object","required":["a"]},{"type":"object","required":["b"]}]}`)
	if !matches(g, vocabulary(), "<tool_call>\n{\"name\": \"t\", \"arguments\": {\"b\": 1}}\n</tool_call>") {
		t.Error("arguments of an alternative cannot be written as JSON")
	}
	g = compile(`{"type":"object","additionalProperties":{"type":"integer"}}`)
	if !matches(g, vocabulary(), "<tool_call>\n{\"name\": \"t\", \"arguments\": {\"b\": 1}}\n</tool_call>") {
		t.Error("arguments that no schema names cannot be written as JSON")
	}
}
