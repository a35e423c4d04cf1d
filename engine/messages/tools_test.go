package messages

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// changing is a body with tools in front of or behind messages, of which the second changes them by a block.
func changing(tools, block string, before bool) string {
	if tools != "" && before {
		tools += ","
	} else if tools != "" {
		tools = "," + tools
	}
	messages := `"messages":[{"role":"user","content":"hi"},{"role":"system","content":[` + block + `]}]`
	if before {
		return `{"model":"m","max_tokens":5,` + tools + messages + `}`
	}
	return `{"model":"m","max_tokens":5,` + messages + tools + `}`
}

const (
	toolA   = `{"name":"a","input_schema":{"type":"object"}}`
	toolB   = `{"type":"custom","name":"b","description":"B","input_schema":{"title":"b"},"defer_loading":true}`
	otherA  = `{"name":"a","description":"other","input_schema":{}}`
	web     = `{"type":"web_search_20250305","name":"web_search"}`
	addHead = `{"type":"tool_addition","tool":{"type":"tool_definition","definition":`
)

func added(definition string) string { return addHead + definition + `}}` }

// TestToolsOfMessages: what a message defines is a tool of the request as if it stood among the others.
func TestToolsOfMessages(t *testing.T) {
	for _, c := range []struct{ tools, block, same string }{
		{`"tools":[` + toolA + `]`, added(toolB), `"tools":[` + toolA + `,` + toolB + `]`},
		{``, added(toolA) + `,` + added(toolB), `"tools":[` + toolA + `,` + toolB + `]`},
		{`"tools":[` + toolA + `,` + web + `]`, added(toolB), `"tools":[` + toolA + `,` + web + `,` + toolB + `]`},
		{`"tools":[` + toolA + `],"tool_choice":{"type":"tool","name":"b"}`, added(toolB),
			`"tools":[` + toolA + `,` + toolB + `],"tool_choice":{"type":"tool","name":"b"}`},
		{`"tool_choice":{"type":"any"}`, added(toolB), `"tool_choice":{"type":"any"},"tools":[` + toolB + `]`},
		{`"tools":[` + toolA + `,` + toolB + `]`, added(otherA), `"tools":[` + otherA + `,` + toolB + `]`},
		{`"tools":[` + toolB + `]`, added(toolA) + `,` + added(otherA), `"tools":[` + toolB + `,` + otherA + `]`},
		{`"tools":[` + toolA + `]`, added(web), `"tools":[` + toolA + `]`},
		{`"tools":[` + toolA + `],"tool_choice":{"type":"tool","name":"web_search"}`, added(web), `"tools":[` + toolA + `]`},
		{`"tools":[` + toolA + `]`, `{"tool":{"definition":` + toolB + `,"type":"tool_definition"},"type":"tool_addition"}`,
			`"tools":[` + toolA + `,` + toolB + `]`},
		{`"tools":[` + toolA + `]`, `{"type":"tool_removal","tool":{"type":"mcp_tool_reference","server_name":"s","name":"x","definition":7}}`,
			`"tools":[` + toolA + `]`},
	} {
		want, err := Parse([]byte(`{` + hello + `,` + c.same + `}`))
		if err != nil {
			t.Fatal(err)
		}
		for _, before := range []bool{false, true} {
			body := changing(c.tools, c.block, before)
			got, err := Parse([]byte(body))
			if err != nil || !reflect.DeepEqual(got.Tools, want.Tools) || got.ToolChoice != want.ToolChoice || len(got.Messages) != 1 {
				t.Errorf("%s: %+v, %v; want the tools of %+v", body, got, err, want)
			}
		}
	}
}

// TestToolsOfMessagesRefused: what is wrong with a tool is named where it stands.
func TestToolsOfMessagesRefused(t *testing.T) {
	const at = "messages.1.content.0.tool"
	for _, c := range []struct{ block, param, says string }{
		{`{"type":"tool_addition","tool":{"type":"tool_definition","name":"f","input_schema":{}}}`, at + ".definition", "required"},
		{added(`null`), at + ".definition", "object"},
		{added(`{"name":"b"}`), at + ".definition.input_schema", "required"},
		{added(`{"name":"b","input_schema":{"type":"string"}}`), at + ".definition.input_schema.type", "object"},
		{added(`{"name":"a b","input_schema":{}}`), at + ".definition.name", "letters"},
		{added(`{"type":"rocket_1","name":"b"}`), at + ".definition.type", "rocket_1"},
		{`{"tool":{"definition":{"name":7},"type":"tool_definition"},"type":"tool_addition"}`, at + ".definition.name", "string"},
		{`{"type":"tool_removal","tool":{"type":"tool_definition","definition":` + toolB + `}}`, at + ".type", "tool_definition"},
		{`{"type":"tool_addition","tool":{"type":"rocket"}}`, at + ".type", "rocket"},
		{`{"type":"tool_addition","tool":{"type":7}}`, at + ".type", "string"},
		{`{"type":"tool_addition","tool":[]}`, at, "object"},
		{`{"type":"tool_addition"}`, at, "required"},
	} {
		_, err := Parse([]byte(changing("", c.block, true)))
		e, ok := errors.AsType[*abi.Error](err)
		if !ok || e.Kind != abi.InvalidRequest || e.Param != c.param || !strings.Contains(e.Message(), c.says) {
			t.Errorf("%s: %v, want %s with %q", c.block, err, c.param, c.says)
		}
	}
	var all strings.Builder
	for i := range toolsMax {
		fmt.Fprintf(&all, "%s,", added(fmt.Sprintf(`{"name":"t%d","input_schema":{}}`, i)))
	}
	if q, err := Parse([]byte(changing("", all.String()+added(`{"name":"t0","input_schema":{"title":"t"}}`), true))); err != nil || len(q.Tools) != toolsMax {
		t.Errorf("the most tools: %v", err)
	}
	if _, err := Parse([]byte(changing(`"tools":[`+toolA+`]`, strings.TrimSuffix(all.String(), ","), true))); err == nil ||
		!strings.Contains(err.Error(), "at most 1024 tools") {
		t.Errorf("a tool more than the most: %v", err)
	}
}
