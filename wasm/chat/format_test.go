package chat_test

import (
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
)

// TestForcedAnswersAreNative reads translated bodies as the engine does: the
// format and the forced call that the client asked for are there.
func TestForcedAnswersAreNative(t *testing.T) {
	object := &messages.Format{}
	city := &messages.Format{Schema: []byte(`{"type":"object","required":["city"]}`)}
	cases := []struct {
		name, fields string
		format       *messages.Format
		choice       messages.ToolChoice
	}{
		{"text", `"response_format":{"type":"text"}`, nil, messages.ToolChoice{Mode: "auto"}},
		{"json object", `"response_format":{"type":"json_object"}`, object, messages.ToolChoice{Mode: "auto"}},
		{"json object with a schema", `"response_format":{"schema":{ "type":"object", "required":["city"] },"type":"json_object"}`, city, messages.ToolChoice{Mode: "auto"}},
		{"json object with an empty schema", `"response_format":{"type":"json_object","schema":{ }}`, object, messages.ToolChoice{Mode: "auto"}},
		{"json object with no space in its schema", `"response_format":{"type":"json_object","schema":{}}`, object, messages.ToolChoice{Mode: "auto"}},
		{"text with a schema", `"response_format":{"type":"text","schema":{"type":"object"}}`, nil, messages.ToolChoice{Mode: "auto"}},
		{"json schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{ "type":"object", "required":["city"] }}}`, city, messages.ToolChoice{Mode: "auto"}},
		{"no schema", `"response_format":{"type":"json_schema","json_schema":{"name":"n"}}`, object, messages.ToolChoice{Mode: "auto"}},
		{"required", `"tool_choice":"required"`, nil, messages.ToolChoice{Mode: "any"}},
		{"named", `"tool_choice":{"type":"function","function":{"name":"f"}},"parallel_tool_calls":false`, nil, messages.ToolChoice{Mode: "tool", Name: "f", DisableParallel: true}},
		{"none, one at a time", `"tool_choice":"none","parallel_tool_calls":false`, nil, messages.ToolChoice{Mode: "none"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			body := `{"model":"m","messages":[{"role":"user","content":"x"}],"tools":[{"type":"function","function":{"name":"f"}}],` + c.fields + `}`
			out, refusal := chat.New().Request(abi.RequestInput{Body: []byte(body)})
			if refusal != nil {
				t.Fatal(refusal)
			}
			q, err := messages.ParseTranslated(out.Body)
			if err != nil {
				t.Fatalf("%v\n%s", err, out.Body)
			}
			if q.ToolChoice != c.choice || (q.Format == nil) != (c.format == nil) ||
				q.Format != nil && string(q.Format.Schema) != string(c.format.Schema) {
				t.Errorf("the engine reads %+v and %+v of %s", q.ToolChoice, q.Format, out.Body)
			}
		})
	}
}
