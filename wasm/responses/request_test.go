package responses

import (
	"bytes"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// of translates a body that has some fields beside its model.
func of(fields string) (abi.Translated, *abi.Error) {
	return New().Request(abi.RequestInput{Body: []byte(`{"model":"m",` + fields + `}`)})
}

// TestEchoes: what the response object repeats of a request is in one line for every reader of lines, and
// says what it said.
func TestEchoes(t *testing.T) {
	const line = "a\u2028b"
	out, err := of(`"input":"x","":1,"instructions":"` + line + `","metadata":{"k":"` + line + `"},"parallel_tool_calls":true,"tools":[{"type":"function","name":"f",
		"description":"` + line + `"}]`)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"instructions":"a\u2028b"`, `"metadata":{"k":"a\u2028b"}`, `"description":"a\u2028b"`, `"parallel_tool_calls":true`} {
		if !bytes.Contains(out.Kept, []byte(want)) {
			t.Errorf("%s is not in %q", want, out.Kept)
		}
	}
}

// TestEchoesOfChoices: what was chosen is repeated, if it is a word of the protocol.
func TestEchoesOfChoices(t *testing.T) {
	rows := map[string]string{
		`"reasoning":{"effort":"huge","summary":"all"}`: `"reasoning":{"effort":null,"summary":null}`,
		`"reasoning":{"generate_summary":"auto"}`:       `"reasoning":{"effort":null,"summary":"auto"}`,
		`"text":{}`:                   `"text":{"format":{"type":"text"}}`,
		`"text":{"verbosity":"huge"}`: `"text":{"format":{"type":"text"},"verbosity":null}`,
		`"tools":[{"type":"custom","name":"c","description":"d"}]`:                                            `"tools":[{"type":"custom","name":"c","description":"d","format":{"type":"text"}}]`,
		`"tools":[{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"d"}}]`: `"tools":[{"type":"custom","name":"c","format":{"type":"grammar","syntax":"lark","definition":"d"}}]`,
		`"tool_choice":"none"`:                         `"tool_choice":"none"`,
		`"tool_choice":{"type":"function","name":"f"}`: `"tool_choice":{"type":"function","name":"f"}`,
	}
	for _, word := range []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"} {
		rows[`"reasoning":{"effort":"`+word+`"}`] = `"reasoning":{"effort":"` + word + `","summary":null}`
	}
	for _, word := range []string{"auto", "concise", "detailed"} {
		rows[`"reasoning":{"summary":"`+word+`"}`] = `"reasoning":{"effort":null,"summary":"` + word + `"}`
	}
	for _, word := range []string{"low", "medium", "high"} {
		rows[`"text":{"verbosity":"`+word+`"}`] = `"text":{"format":{"type":"text"},"verbosity":"` + word + `"}`
	}
	for fields, want := range rows {
		if out, err := of(`"input":"x",` + fields); err != nil || !bytes.Contains(out.Kept, []byte(want)) {
			t.Errorf("%s: %v, %s is not in %s", fields, err, want, out.Kept)
		}
	}
}

// TestEchoFits: an echo is cut where it would be over the bound by a byte.
func TestEchoFits(t *testing.T) {
	const custom = `"input":"x","tools":[{"type":"custom","name":"f"}],"instructions":"`
	out, _ := of(custom + `"`)
	if out, err := of(custom + strings.Repeat("x", abi.KeptBytesMax-len(out.Kept)+1) + `"`); err != nil || len(out.Kept) > abi.KeptBytesMax {
		t.Errorf("%v, %d bytes are kept", err, len(out.Kept))
	}
	for n := range 600 {
		var e echoes
		e.raw(echoText, []byte("{}"))
		e.text(echoInstructions, make([]byte, n))
		if e.fit(700); len(e.append(nil)) > 700 {
			t.Errorf("%d bytes of instructions give %d", n, len(e.append(nil)))
		}
	}
}

// TestFields: what a native body has of fields.
func TestFields(t *testing.T) {
	const text = `{"role":"user","content":[{"type":"text","text":"x"}]}`
	rows := [][2]string{
		{`"input":"x","truncation":"disabled"`, `{"messages":[` + text + `],"model":"m"}`},
		{`"input":[{"type":"agent_message","content":[{"type":"text","text":"x"}]},{"type":"reasoning","encrypted_content":"e"}]`, `{"messages":[` + text + `],"model":"m"}`},
	}
	rows = append(rows, [2]string{`"input":[{"role":"system","content":"s"},{"role":"user","content":"x"}]`, `"system":[{"type":"text","text":"s"}]}`})
	const search = `{"type":"tool_search","execution":"client"}`
	rows = append(rows, [][2]string{
		{`"tools":[` + search + `],"input":[{"role":"user","content":"x"},{"type":"additional_tools","tools":[` + search + `]}]`,
			`"tools":[{"name":"tool_search","input_schema":{"type":"object","properties":{}}}]}`},
		{`"input":"x","tools":[{"type":"custom","name":"c","format":{}}]`, `"tools":[{"name":"c","description":"",`},
		{`"input":[{"type":"function_call","call_id":"a","name":"f","namespace":"","arguments":""}]`, `"name":"f","input":{}`},
	}...)
	for _, effort := range []string{`"reasoning":{"effort":"low","summary":"auto"}`, `"reasoning":{"effort":"low"},"text":{"verbosity":"low"}`} {
		rows = append(rows, [2]string{`"input":[{"role":"user","content":"x"},{"type":"configuration_update",` + effort + `}]`,
			`"model":"m","output_config":{"effort":"low"}}`})
	}
	for _, kind := range []string{"web_search", "file_search", "code_interpreter", "image_generation", "mcp", "computer", "tool_search",
		"programmatic_tool_calling"} {
		rows = append(rows, [2]string{`"input":"x","tools":[{"type":"` + kind + `"}]`, `{"messages":[` + text + `],"model":"m"}`})
	}
	for _, kind := range []string{"web_search_call", "file_search_call", "code_interpreter_call", "image_generation_call", "mcp_list_tools"} {
		rows = append(rows, [2]string{`"input":[{"role":"user","content":"x"},{"type":"` + kind + `"}]`, `{"messages":[` + text + `],"model":"m"}`})
	}
	for _, row := range rows {
		if out, err := of(row[0]); err != nil || !strings.Contains(string(out.Body), row[1]) {
			t.Errorf("%s: %v\n%s\nhas no\n%s", row[0], err, out.Body, row[1])
		}
	}
}

// TestRefused: what is in the wrong place or of the wrong kind is refused at its path.
func TestRefused(t *testing.T) {
	const encrypted = `"content":[{"type":"encrypted_content","encrypted_content":"x"}]`
	for _, row := range [][2]string{
		{`"input":[{"content":"x"}]`, "input.0.role"},
		{`"input":[{"type":"agent_message","author":1,"content":"x"}]`, "input.0.author"},
		{`"input":[{"type":"agent_message"}]`, "input.0.content"},
		{`"input":[{"type":"agent_message",` + encrypted + `},{"role":"user",` + encrypted + `}]`, "input.1.content.0.type"},
		{`"input":[{"type":"agent_message","content":[{"type":"encrypted_content"}]}]`, "input.0.content.0.encrypted_content"},
		{`"input":[{"role":"assistant","content":[{"type":"refusal"}]}]`, "input.0.content.0.refusal"},
		{`"input":[{"type":"reasoning","content":"x"}]`, "input.0.content"},
		{`"input":[{"type":"function_call","call_id":"a","name":"f","namespace":1}]`, "input.0.namespace"},
		{`"input":[{"type":"function_call","call_id":"a","name":"f","namespace":"a:b"}]`, "input.0.name"},
		{`"tools":[{"type":"namespace","name":"a:b","tools":[{"type":"function","name":"f"}]}]`, "tools.0.tools.0.name"},
		{`"tools":[{"type":"namespace","name":"a:b","tools":[{"type":"custom","name":"f"}]}]`, "tools.0.tools.0.name"},
		{`"tools":[{"type":"namespace","name":1,"tools":[]}]`, "tools.0.name"},
		{`"tools":[{"type":"namespace","name":"n","description":1,"tools":[]}]`, "tools.0.description"},
		{`"tools":[{"type":"namespace","name":"n","tools":1}]`, "tools.0.tools"},
		{`"tools":[{"type":"namespace","name":"n","tools":[{"name":"f"}]}]`, "tools.0.tools.0.type"},
		{`"tools":[{"type":"search","execution":"client"}]`, "tools.0.type"},
		{`"tools":[{"type":"function","name":"f","description":1}]`, "tools.0.description"},
		{`"tools":[{"type":"custom","name":"f","description":1}]`, "tools.0.description"},
		{`"tools":[{"type":"tool_search","execution":"client","description":1}]`, "tools.0.description"},
		{`"tools":[{"type":"custom","name":"f","format":{"type":1}}]`, "tools.0.format.type"},
		{`"tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":1}}]`, "tools.0.format.syntax"},
		{`"tools":[{"type":"custom","name":"f","format":{"type":"grammar","syntax":"lark","definition":1}}]`, "tools.0.format.definition"},
		{`"tools":[{"type":"custom","name":"f","format":[]}]`, "tools.0.format"},
		{`"tool_choice":{"type":"shell","name":"x"}`, "tool_choice.type"},
		{`"tool_choice":{"type":1}`, "tool_choice.type"},
		{`"tool_choice":{"type":"allowed_tools","mode":1,"tools":[]}`, "tool_choice.mode"},
		{`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":1}`, "tool_choice.tools"},
		{`"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"name":"f"}]}`, "tool_choice.tools.0.type"},
	} {
		if _, err := of(row[0]); err == nil || err.Param != row[1] {
			t.Errorf("%s: %v, want one of %s", row[0], err, row[1])
		}
	}
}

// TestArguments: what the model wrote for a call that is no function's, whole or not.
func TestArguments(t *testing.T) {
	for _, row := range [][3]string{ // arguments, free text, object
		{`{\"input\":\"a\"}`, `a`, `{"input":"a"}`},
		{`{\"input\":\"a\"`, `{\"input\":\"a\"`, `{}`},
		{`{\"input\":\"a\"} b`, `{\"input\":\"a\"} b`, `{}`},
		{`[\"input\"]`, `[\"input\"]`, `{}`},
		{``, ``, `{}`},
	} {
		if text, of := string(freeText([]byte(row[0]))), string(object([]byte(row[0]))); text != row[1] || of != row[2] {
			t.Errorf("%s: text %s and object %s", row[0], text, of)
		}
	}
	call := framesOf([]abi.Event{{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "a", Name: searchTool}})
	if f, _ := call.Next(); begin(&f, special{}).search || !begin(&f, special{search: true}).search {
		t.Error("a function of the name of the search is one where the client searches itself, and only there")
	}
}

// TestErrorPaths: what the engine says of a native body names the field that it was made of, what
// Request says the one that it names.
func TestErrorPaths(t *testing.T) {
	const input, tools = `"input":"x"`, `"input":"x","tools":[{"type":"function","name":"f"}]`
	for _, row := range [][3]string{
		{input, "tool_choice.type", "tool_choice"},
		{input, "tool_choice.name", "tool_choice.name"},
		{tools, "tools.0", "tools.0"},
		{`"input":"x","tools":[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}]`, "tools.0.name", "tools"},
		{`"input":[{"type":"additional_tools","tools":[{"type":"function","name":"f"}]},{"role":"user","content":"x"}]`, "tools.0.name", "tools"},
		{tools + `,"tool_choice":{"type":"allowed_tools","mode":"auto","tools":[{"type":"function","name":"f"}]}`, "tools.0.name", "tools.0.name"},
		{tools, "tools.0.input_schema", "tools.0.parameters"},
		{"", "max_tokens", "max_tokens"},
	} {
		var out abi.Translated
		if row[0] != "" {
			out, _ = of(row[0])
		}
		got := failure(abi.ErrorInput{Kept: out.Kept, Kind: abi.InvalidRequest,
			Detail: abi.Detail{Reason: abi.ReasonField}, Param: row[1], Msg: "x"})
		if got.param != row[2] || !strings.HasPrefix(got.message, row[2]+": ") {
			t.Errorf("%s with %s: %s, %s, want %s", row[1], row[0], got.param, got.message, row[2])
		}
	}
}
