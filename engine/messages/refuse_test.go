package messages

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
)

func TestParseRefuses(t *testing.T) {
	msg := func(content string) string {
		return `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":` + content + `}]}`
	}
	cases := []struct{ name, body, param, says string }{
		{"empty", ``, "", "empty"},
		{"not an object", `[]`, "", "object"},
		{"truncated", `{"model":`, "", "not valid JSON"},
		{"garbage after", `{` + hello + `} x`, "", "after"},
		{"invalid UTF-8", "{" + hello + ",\"a\":\"\xff\"}", "a", "UTF-8"},
		{"no model", `{"max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`, "model", "required"},
		{"model type", `{"model":7,"max_tokens":5,"messages":[]}`, "model", "string"},
		{"no messages", `{"model":"m","max_tokens":5}`, "messages", "required"},
		{"empty messages", `{"model":"m","max_tokens":5,"messages":[]}`, "messages", "at least one"},
		{"messages type", `{"model":"m","max_tokens":5,"messages":{}}`, "messages", "array"},
		{"no max_tokens", `{"model":"m","messages":[{"role":"user","content":"hi"}]}`, "max_tokens", "required"},
		{"zero max_tokens", `{"model":"m","max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens", "under 1"},
		{"fraction", `{"model":"m","max_tokens":1.5,"messages":[]}`, "max_tokens", "integer"},
		{"over the cap", `{"model":"m","max_tokens":32769,"messages":[{"role":"user","content":"hi"}]}`, "max_tokens", "32768"},
		{"huge number", `{"model":"m","max_tokens":1e999,"messages":[]}`, "max_tokens", "at most 2^53"},
		{"role", `{"model":"m","max_tokens":5,"messages":[{"role":"robot","content":"x"}]}`, "messages.0.role", "robot"},
		{"no role", `{"model":"m","max_tokens":5,"messages":[{"content":"x"}]}`, "messages.0.role", "required"},
		{"no content", `{"model":"m","max_tokens":5,"messages":[{"role":"user"}]}`, "messages.0.content", "required"},
		{"null content", msg(`null`), "messages.0.content", "string or an array"},
		{"content type", msg(`{"a":1}`), "messages.0.content", "string or an array"},
		{"image", msg(`[{"type":"image","source":{}}]`), "messages.0.content.0.type", "text content only"},
		{"document in result", msg(`[{"type":"tool_result","tool_use_id":"x","content":[{"type":"document"}]}]`), "messages.0.content.0.content.0.type", "text content only"},
		{"image in system", `{` + hello + `,"system":[{"type":"image","source":{}}]}`, "system.0.type", "text content only"},
		{"redacted", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"redacted_thinking","data":"x"}]}]}`, "messages.0.content.0.type", "redacted_thinking"},
		{"user tool_use", msg(`[{"type":"tool_use","name":"f","id":"i","input":{}}]`), "messages.0.content", "assistant"},
		{"user thinking", msg(`[{"type":"thinking","thinking":"t"}]`), "messages.0.content", "assistant"},
		{"assistant tool_result", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_result","tool_use_id":"i"}]}]}`, "messages.0.content", "user"},
		{"no block type", msg(`[{"text":"x"}]`), "messages.0.content.0.type", "required"},
		{"a block named like a server tool", msg(`[{"type":"web_search_call"}]`), "messages.0.content.0.type", "web_search_call"},
		{"input type", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","id":"i","input":[]}]}]}`, "messages.0.content.0.input", "object"},
		{"text missing", msg(`[{"type":"text"}]`), "messages.0.content.0.text", "required"},
		{"text type", msg(`[{"type":"text","text":1}]`), "messages.0.content.0.text", "string"},
		{"text type first", msg(`[{"text":1,"type":"text"}]`), "messages.0.content.0.text", "string"},
		{"text null", msg(`[{"type":"text","text":null}]`), "messages.0.content.0.text", "required"},
		{"a result in a result", msg(`[{"type":"tool_result","tool_use_id":"x","content":[{"type":"tool_result","tool_use_id":"y","content":"z"}]}]`), "messages.0.content.0.content", "only text"},
		{"a call in a result before its type", msg(`[{"content":[{"id":"i","name":"f","type":"tool_use"}],"tool_use_id":"x","type":"tool_result"}]`), "messages.0.content.0.content", "only text"},
		{"nested before its type", msg(`[{"content":[{"text":[],"type":"text"}],"tool_use_id":"x","type":"tool_result"}]`), "messages.0.content.0.content.0.text", "string"},
		{"call without id", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","name":"f","input":{}}]}]}`, "messages.0.content.0.id", "required"},
		{"call without a name", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"","input":{}}]}]}`, "messages.0.content.0.name", "empty"},
		{"member twice", `{"zz":{"a":1,"a":2}}`, "zz.a", "twice at byte 13"},
		{"field twice", `{` + hello + `,"model":"n"}`, "model", "twice"},
		{"a name that is none", `{` + hello + `,7:1}`, "", "invalid syntax"},
		{"a comma too many", `{` + hello + `,"tools":[],}`, "", "invalid syntax"},
		{"broken text", `{"model":"\x"}`, "model", "invalid syntax"},
		{"broken boolean", `{` + hello + `,"stream":fals}`, "stream", "invalid syntax"},
		{"broken null", `{` + hello + `,"stream":nul}`, "stream", "invalid syntax"},
		{"broken where another kind belongs", `{"model":[}`, "model.0", "invalid syntax"},
		{"ends early", `{` + hello, "", "not valid JSON: it ends early"},
		{"lone surrogate", `{` + hello + `,"x":"\ud800"}`, "x", "surrogate"},
		{"n", `{` + hello + `,"n":2}`, "n", "not support"},
		{"logprobs", `{` + hello + `,"logprobs":true}`, "logprobs", "not support"},
		{"mcp", `{` + hello + `,"mcp_servers":[{"url":"x"}]}`, "mcp_servers", "not support"},
		{"container", `{` + hello + `,"container":"c"}`, "container", "not support"},
		{"top_p", `{` + hello + `,"top_p":1.5}`, "top_p", "between"},
		{"temperature", `{` + hello + `,"temperature":-1}`, "temperature", "between"},
		{"top_k", `{` + hello + `,"top_k":-1}`, "top_k", "under 0"},
		{"stop empty", `{` + hello + `,"stop_sequences":["a",""]}`, "stop_sequences.1", "empty"},
		{"stop too long", `{` + hello + `,"stop_sequences":["` + strings.Repeat("s", stopBytesMax+1) + `"]}`, "stop_sequences.0", "at most 1024 bytes"},
		{"stops too many", `{` + hello + `,"stop_sequences":[` + list(stopsMax+1, `"s%d"`) + `]}`, "stop_sequences", "at most 64"},
		{"stop of another kind", `{` + hello + `,"stop_sequences":["a",1]}`, "stop_sequences.1", "string"},
		{"stop type", `{` + hello + `,"stop_sequences":"a"}`, "stop_sequences", "array"},
		{"thinking type empty", `{` + hello + `,"thinking":{"type":""}}`, "thinking.type", "between_tools"},
		{"no content but the system's", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant"}]}`, "messages.1.content", "field required"},
		{"thinking type", `{` + hello + `,"thinking":{"type":"maybe"}}`, "thinking.type", "maybe"},
		{"min_p", `{` + hello + `,"min_p":1.01}`, "min_p", "between 0 and 1"},
		{"presence_penalty", `{` + hello + `,"presence_penalty":2.5}`, "presence_penalty", "between -2 and 2"},
		{"frequency_penalty", `{` + hello + `,"frequency_penalty":-2.5}`, "frequency_penalty", "between -2 and 2"},
		{"frequency_penalty type", `{` + hello + `,"frequency_penalty":"1"}`, "frequency_penalty", "number"},
		{"repetition_penalty", `{` + hello + `,"repetition_penalty":-1}`, "repetition_penalty", "between 0.01 and 100"},
		{"no repetition at all", `{` + hello + `,"repetition_penalty":0}`, "repetition_penalty", "between 0.01 and 100"},
		{"negative min_tokens", `{` + hello + `,"min_tokens":-1}`, "min_tokens", "-1 is under 0"},
		{"half a min_tokens", `{` + hello + `,"min_tokens":1.5}`, "min_tokens", "integer"},
		{"ignore_eos", `{` + hello + `,"ignore_eos":1}`, "ignore_eos", "boolean"},
		{"seed fraction", `{` + hello + `,"seed":1.5}`, "seed", "integer"},
		{"seed range", `{` + hello + `,"seed":9223372036854775808}`, "seed", "64 bits"},
		{"seed below the range", `{` + hello + `,"seed":-9223372036854775809}`, "seed", "64 bits"},
		{"seed that a float64 would round", `{` + hello + `,"seed":9007199254740993.0}`, "seed", "64 bits"},
		{"max_tokens that it would round", `{"model":"m","max_tokens":9007199254740993,"messages":[]}`, "max_tokens", "integer"},
		{"min_tokens that it would round", `{` + hello + `,"min_tokens":1.00000000000000000001}`, "min_tokens", "integer"},
		{"top_k that it would take for 0", `{` + hello + `,"top_k":1e-400}`, "top_k", "integer"},
		{"seed type", `{` + hello + `,"seed":"7"}`, "seed", "integer"},
		{"response format", `{` + hello + `,"response_format":{}}`, "response_format.type", "not one of"},
		{"response format kind", `{` + hello + `,"response_format":{"type":"xml"}}`, "response_format.type", "xml"},
		{"response format type", `{` + hello + `,"response_format":"json_object"}`, "response_format", "object"},
		{"no json schema", `{` + hello + `,"response_format":{"type":"json_schema"}}`, "response_format.json_schema", "required"},
		{"json schema type", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":[]}}`, "response_format.json_schema", "object"},
		{"schema type", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":true}}}`, "response_format.json_schema.schema", "object"},
		{"schema over its bound", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":` + schemaOf(schemaBytesMax+1) + `}}}`, "response_format.json_schema.schema", "at most 262144"},
		{"schema member twice", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1,"a":2}}}}`, "response_format.json_schema.schema.a", "twice"},
		{"output config", `{` + hello + `,"output_config":[]}`, "output_config", "object"},
		{"output format type", `{` + hello + `,"output_config":{"format":"json_schema"}}`, "output_config.format", "object"},
		{"output format kind", `{` + hello + `,"output_config":{"format":{"type":"xml","schema":{}}}}`, "output_config.format.type", "xml"},
		{"older output format kind", `{` + hello + `,"output_format":{}}`, "output_format.type", "not one of"},
		{"no schema of the output", `{` + hello + `,"output_config":{"format":{"type":"json_schema","json_schema":{"schema":{}},"schema":null}}}`, "output_config.format.schema", "required"},
		{"schema of the output", `{` + hello + `,"output_format":{"type":"json_schema","schema":true}}`, "output_format.schema", "object"},
		{"two formats", `{` + hello + `,"response_format":{"type":"json_object"},"output_config":{"format":{"type":"json_schema","schema":{}}}}`, "output_config.format", "twice"},
		{"two output formats", `{` + hello + `,"output_config":{"format":{"type":"json_schema","schema":{}}},"output_format":{"type":"json_schema","schema":{}}}`, "output_format", "twice"},
		{"tool choice kind", `{` + hello + `,"tool_choice":{"type":"some"}}`, "tool_choice.type", "some"},
		{"any without tools", `{` + hello + `,"tool_choice":{"type":"any"}}`, "tool_choice", `"any" needs tools`},
		{"neither offered nor skipped", `{` + hello + `,"tools":[{"type":"web_search_1","name":"w"}],"tool_choice":{"type":"tool","name":"f"}}`, "tool_choice", `"tool" needs tools`},
		{"neither offered nor skipped, another offered", `{` + hello + `,"tools":[{"type":"web_search_1","name":"w"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"g"}}`, "tool_choice.name", `"g" is not`},
		{"tool without tools", `{` + hello + `,"tool_choice":{"type":"tool","name":"f"}}`, "tool_choice", `"tool" needs tools`},
		{"tool without a name", `{` + hello + `,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool"}}`, "tool_choice.name", "required"},
		{"tool name type", `{` + hello + `,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":["f"]}}`, "tool_choice.name", "string"},
		{"tool not offered", `{` + hello + `,"tool_choice":{"type":"tool","name":"g"},"tools":[{"name":"f","input_schema":{}}]}`, "tool_choice.name", `"g" is not`},
		{"tool schema over its bound", `{` + hello + `,"tools":[{"name":"f","input_schema":` + schemaOf(schemaBytesMax+1) + `}]}`, "tools.0.input_schema", "at most 262144"},
		{"tool without schema", `{` + hello + `,"tools":[{"name":"f"}]}`, "tools.0.input_schema", "required"},
		{"tool schema type", `{` + hello + `,"tools":[{"name":"f","input_schema":{"type":"string"}}]}`, "tools.0.input_schema.type", "object"},
		{"a server tool's block in system", `{` + hello + `,"system":[{"type":"server_tool_use"}]}`, "system", "only text"},
		{"only server tools' blocks", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"server_tool_use"}]}]}`, "messages", "at least one"},
		{"a result of no server tool", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"rocket_tool_result"}]}]}`, "messages.0.content.0.type", "Input tag 'rocket_tool_result'"},
		{"tool name", `{` + hello + `,"tools":[{"name":"a b","input_schema":{}}]}`, "tools.0.name", "letters"},
		{"tool name too long", `{` + hello + `,"tools":[{"name":"` + strings.Repeat("f", toolNameBytesMax+1) + `","input_schema":{}}]}`, "tools.0.name", "at most 128"},
		{"tool without any name", `{` + hello + `,"tools":[{"input_schema":{}}]}`, "tools.0.name", "required"},
		{"tools too many", `{` + hello + `,"tools":[` + list(toolsMax+1, `{"name":"f%d","input_schema":{}}`) + `]}`, "tools", "at most 1024"},
		{"tool twice", `{` + hello + `,"tools":[{"name":"f","input_schema":{}},{"name":"f","input_schema":{}}]}`, "tools.1.name", "twice"},
		{"tool kind", `{` + hello + `,"tools":[{"type":"rocket_1","name":"f"}]}`, "tools.0.type", "Input tag 'rocket_1'"},
		{"depth", `{"a":` + strings.Repeat("[", depthMax) + strings.Repeat("]", depthMax) + `,"b":[]}`, "", "128"},
		{"stream type", `{` + hello + `,"stream":"yes"}`, "stream", "boolean"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.body))
			e, ok := errors.AsType[*abi.Error](err)
			if !ok || e.Kind != abi.InvalidRequest {
				t.Fatalf("got %v, want an invalid request", err)
			}
			if e.Param != c.param || !strings.Contains(e.Message(), c.says) {
				t.Errorf("got param %q, message %q; want param %q, a message with %q", e.Param, e.Message(), c.param, c.says)
			}
		})
	}
}

// TestFieldsThatChangeTheAnswer: neutral values pass, every other is refused by name.
func TestFieldsThatChangeTheAnswer(t *testing.T) {
	fields := map[string]struct{ neutral, refused []string }{
		"n":                  {[]string{"1", "1.0", " 1", "10e-1"}, []string{"2", "0", `"1"`, "1.00000000000000000001"}},
		"logprobs":           {[]string{"false"}, []string{"true", "0", "5"}},
		"top_logprobs":       {[]string{"0", "0.0"}, []string{"1", "20"}},
		"logit_bias":         {[]string{"{}", "{ }"}, []string{`{"50256":-100}`}},
		"audio":              {nil, []string{`{"voice":"a","format":"wav"}`}},
		"modalities":         {[]string{"[]", `[ "text" ]`}, []string{`["text","audio"]`, `["audio"]`}},
		"prediction":         {nil, []string{`{"type":"content","content":"x"}`}},
		"web_search_options": {nil, []string{"{}"}}, // the empty object asks for a search
		"mcp_servers":        {[]string{"[]"}, []string{`[{"url":"x"}]`}},
		"container":          {nil, []string{`"c"`, `{"id":"c"}`}},
		"thread":             {nil, []string{`{"type":"create"}`, `{"type":"continue","previous_message_id":"msg_1"}`}},
		"compaction":         {nil, []string{`{"type":"summarize"}`, `{"type":"summarize","instructions":null}`, "{}"}},
		"grammar":            {[]string{"false", "1", `""`}, []string{`"root ::= \"a\""`, "true"}},
		"regex":              {[]string{"false", `""`}, []string{`"(a|b)"`, "true"}},
		"ebnf":               {[]string{"false", `""`}, []string{`"root ::= \"a\""`}},
		"json_schema":        {[]string{"false", `""`}, []string{`{"type":"object"}`, `"{}"`}},
		"structured_outputs": {[]string{"false"}, []string{`{"regex":"a+"}`, "{}"}},
		"echo":               {[]string{"false"}, []string{"true"}},
		"best_of":            {[]string{"1", "1.0", "1e0"}, []string{"2", "0", "1.00000000000000000001"}},
		"suffix":             {[]string{`""`}, []string{`"x"`}},
	}
	for name := range refused {
		if _, ok := fields[name]; !ok {
			t.Errorf("%s is not tested", name)
		}
	}
	for _, name := range []string{"guided_json", "guided_regex", "guided_choice", "guided_grammar", "guided_decoding_backend", "guided_whitespace_pattern"} {
		fields[name] = struct{ neutral, refused []string }{[]string{"false", `""`}, []string{`"x"`, `{"type":"object"}`, `["a","b"]`}}
	}
	for name, values := range fields {
		for _, v := range append(values.neutral, "null") {
			if _, err := Parse(fmt.Appendf(nil, `{%s,%q:%s}`, hello, name, v)); err != nil {
				t.Errorf("%s of %s, which asks for nothing: %v", name, v, err)
			}
		}
		for _, v := range values.refused {
			_, err := Parse(fmt.Appendf(nil, `{%s,%q:%s}`, hello, name, v))
			if e, ok := errors.AsType[*abi.Error](err); !ok || e.Param != name || e.Kind != abi.InvalidRequest {
				t.Errorf("%s of %s: %v, want a refusal that names it", name, v, err)
			}
			constrains := strings.HasPrefix(name, "guided_") ||
				strings.Contains(" grammar regex ebnf json_schema structured_outputs ", " "+name+" ")
			if constrains != strings.Contains(fmt.Sprint(err), "output_config.format") {
				t.Errorf("%s of %s: %v, want the field to use instead of those that constrain an answer", name, v, err)
			}
		}
	}
}

// TestDetails: a refusal that official clients know how to go on after says so to programs, and no other does.
func TestDetails(t *testing.T) {
	for field, want := range map[string]Details{
		`"thread":{"type":"create"}`: `{"error_code":"thread_unsupported_request","unsupported":["thread"]}`,
		`"n":2`:                      "",
	} {
		for _, parse := range []func([]byte) (*Request, error){Parse, ParseCount} {
			_, err := parse([]byte(`{` + hello + `,` + field + `}`))
			if got, ok := errors.AsType[Details](err); err == nil || got != want || ok != (want != "") {
				t.Errorf("%s: %v with the details %s, want %s", field, err, got, want)
			}
		}
	}
}

// TestErrorsAreShort: names and values of any length are in the errors of all
// of these bodies.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("ü", 1<<16)
	bodies := map[string]string{
		"broken below a name": `{"` + long + `":tru}`,
		"wrong below a name":  `{` + hello + `,"tools":[{"name":"f","input_schema":{"` + long + `":1,"` + long + `":1}}]}`,
		"number":              `{` + hello + `,"temperature":` + strings.Repeat("1", 1<<16) + `}`,
		"seed":                `{` + hello + `,"seed":` + strings.Repeat("1", 1<<16) + `}`,
		"thinking":            `{` + hello + `,"thinking":{"type":"` + long + `"}}`,
		"tool type":           `{` + hello + `,"tools":[{"type":"` + long + `"}]}`,
		"tool choice":         `{` + hello + `,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"` + long + `"}}`,
		"format":              `{` + hello + `,"response_format":{"type":"` + long + `"}}`,
		"role":                `{"model":"m","max_tokens":5,"messages":[{"content":"x","role":"` + long + `"}]}`,
		"block":               `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"` + long + `"}]}]}`,
	}
	for name, body := range bodies {
		_, err := Parse([]byte(body))
		e, ok := errors.AsType[*abi.Error](err)
		if !ok || len(e.Message()) > 1024 || len(e.Message()) < pathBytesMax ||
			!utf8.ValidString(e.Message()) || !utf8.ValidString(e.Param) {
			t.Errorf("%s: %d bytes of error: %.100v", name, len(fmt.Sprint(err)), err)
		} else if e.Param == "" || !strings.HasPrefix(e.Message(), e.Param+": ") {
			t.Errorf("%s: the error's message %.100q does not begin with its path %.100q", name, e.Message(), e.Param)
		}
	}
}
