package responses

import (
	"bytes"
	"errors"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
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
		{"text", `"text":{"format":{"type":"text"}}`, nil, messages.ToolChoice{Mode: "auto"}},
		{"json object", `"text":{"format":{"type":"json_object"}}`, object, messages.ToolChoice{Mode: "auto"}},
		{"json schema", `"text":{"format":{"type":"json_schema","name":"n","schema":{ "type":"object", "required":["city"] }}}`, city, messages.ToolChoice{Mode: "auto"}},
		{"required", `"tool_choice":"required"`, nil, messages.ToolChoice{Mode: "any"}},
		{"named", `"tool_choice":{"type":"function","name":"f"},"parallel_tool_calls":false`, nil, messages.ToolChoice{Mode: "tool", Name: "f", DisableParallel: true}},
		{"none, one at a time", `"tool_choice":"none","parallel_tool_calls":false`, nil, messages.ToolChoice{Mode: "none"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, refusal := New().Request(abi.RequestInput{Body: []byte(`{"model":"m","input":"x","tools":[{"type":"function","name":"f"}],` + c.fields + `}`)})
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

// TestNativeErrorsNameTheClientsField sends what only the engine refuses: its
// error names the field that the client wrote.
func TestNativeErrorsNameTheClientsField(t *testing.T) {
	cases := []struct{ name, fields, param, says string }{
		{"required without tools", `"tool_choice":"required"`, "tool_choice", `tool_choice: "required" needs tools`},
		{"named, all tools skipped", `"tool_choice":{"type":"function","name":"f"},"tools":[{"type":"web_search"}]`, "tool_choice", "tool_choice: a named tool needs tools"},
		{"named without tools", `"tool_choice":{"type":"function","name":"f"}`, "tool_choice", "tool_choice: a named tool needs tools"},
		{"not offered", `"tool_choice":{"type":"function","name":"g"},"tools":[{"type":"function","name":"f"}]`, "tool_choice.name", `tool_choice.name: "g" is not the name of a tool of this request`},
		{"schema", `"text":{"format":{"type":"json_schema","name":"n","schema":{"a":1,"a":1}}}`, "text.format.schema.a", "text.format.schema.a: a member is there twice"},
		{"parameters", `"tools":[{"type":"function","name":"f","parameters":{"a":1,"a":1}}]`, "tools.0.parameters.a", "tools.0.parameters.a: a member is there twice"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			out, refusal := New().Request(abi.RequestInput{Body: []byte(`{"model":"m","input":"x",` + c.fields + `}`)})
			if refusal != nil {
				t.Fatal(refusal)
			}
			_, err := messages.ParseTranslated(out.Body)
			native, ok := errors.AsType[*abi.Error](err)
			if !ok {
				t.Fatalf("the engine says %v of %s", err, out.Body)
			}
			got := failure(abi.ErrorInput{Kind: native.Kind, Detail: native.Detail, Param: native.Param, Msg: native.Msg, Kept: out.Kept})
			if got.param != c.param || got.message != c.says {
				t.Errorf("the client reads %q at %q, want %q at %q", got.message, got.param, c.says, c.param)
			}
		})
	}
}

// TestChoiceOfSkippedTools: what only skipped tools could be called for is not
// forced, and the echo says so.
func TestChoiceOfSkippedTools(t *testing.T) {
	for _, fields := range []string{
		`"tool_choice":"required","tools":[{"type":"web_search"}]`,
		`"tools":[{"type":"web_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"web_search_preview"}`,
		`"tools":[{"type":"tool_search"},{"type":"function","name":"f"}],"tool_choice":{"type":"tool_search"}`,
		`"tool_choice":{"type":"mcp","server_label":"l","name":"n"},"tools":[{"type":"mcp","server_label":"l"}]`,
	} {
		out, refusal := New().Request(abi.RequestInput{Body: []byte(`{"model":"m","input":"x",` + fields + `}`)})
		if refusal != nil {
			t.Errorf("%s: %v", fields, refusal)
			continue
		}
		q, err := messages.ParseTranslated(out.Body)
		if err != nil || q.ToolChoice != (messages.ToolChoice{Mode: "auto"}) || !bytes.Contains(out.Kept, []byte(`"tool_choice":"auto"`)) {
			t.Errorf("%s: %v, %s, echoed in %s", fields, err, out.Body, out.Kept)
		}
	}
}

// TestToolTwice: only what items tell again is skipped.
func TestToolTwice(t *testing.T) {
	const f, item = `{"type":"function","name":"f"}`, `{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"f"}]}`
	for _, fields := range []string{
		`"input":"x","tools":[` + f + `,` + f + `]`,
		`"input":[` + item + `,{"role":"user","content":"x"}],"tools":[` + f + `,` + f + `]`,
	} {
		out, refusal := New().Request(abi.RequestInput{Body: []byte(`{"model":"m",` + fields + `}`)})
		if refusal != nil {
			t.Fatal(refusal)
		}
		if _, err := messages.ParseTranslated(out.Body); err == nil {
			t.Errorf("the engine takes %s", out.Body)
		}
	}
}

// TestSearchesNameWhatTheyFound: each result names the tools of its own search, known before or not, between lists that no
// result names, and what stands behind it stays whole.
func TestSearchesNameWhatTheyFound(t *testing.T) {
	found := func(id, tools string) string {
		return `{"type":"tool_search_output","execution":"client","call_id":"` + id + `","tools":` + tools + `},`
	}
	f, g := `{"type":"function","name":"f"}`, `{"type":"custom","name":"g"}`
	out, refusal := New().Request(abi.RequestInput{Body: []byte(`{"model":"m","input":[` +
		found("a", "["+f+","+g+"]") + `{"type":"additional_tools","tools":[{"type":"function","name":"other"}]},` + found("b", "[]") +
		found("c", "null") + found("d", "["+f+"]") + `{"role":"user","content":"the end"}]}`)})
	if refusal != nil {
		t.Fatal(refusal)
	}
	for _, want := range []string{
		`"tool_use_id":"a","content":"Tools that can be called: f, g."}`, `"tool_use_id":"b","content":"No tools were found."}`,
		`"tool_use_id":"c","content":"No tools were found."}`, `"tool_use_id":"d","content":"Tools that can be called: f."}`,
		`"text":"the end"}]}],"model":"m"`,
	} {
		if !bytes.Contains(out.Body, []byte(want)) {
			t.Errorf("%s is not in\n%s", want, out.Body)
		}
	}
}
