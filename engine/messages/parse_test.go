package messages

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/wasm/abi"
)

const hello = `"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]`

// list is so many elements of a form, each with its number.
func list(n int, form string) string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf(form, i))
	}
	return strings.Join(out, ",")
}

// schemaOf is a schema of so many bytes.
func schemaOf(size int) string {
	const head, tail = `{"title":"`, `"}`
	return head + strings.Repeat("x", size-len(head)-len(tail)) + tail
}

// TestModelOf: of all that a body has, the model is what Parse takes for it.
func TestModelOf(t *testing.T) {
	for body, want := range map[string]string{
		`{` + hello + `}`: "m", ` {"a":[{"model":"x"}],"m\u006fdel" : "\u006d\"", "messages":7`: `m"`,
		`{"model":"m","Model":"x","MODEL":7}`: "m", `{"Model":"x"}`: "",
		`{"model":7}`: "", `{"model":`: "", `{"model":"m`: "", `["model","m"]`: "", `"model"`: "", `{"a":[}`: "", `{7`: "", "": "",
	} {
		if got := ModelOf([]byte(body)); got != want {
			t.Errorf("%s names %q, want %q", body, got, want)
		}
	}
}

func TestParseAccepts(t *testing.T) {
	cases := []struct {
		name, body string
		check      func(*Request) bool
	}{
		{"plain", `{` + hello + `}`, func(q *Request) bool {
			return q.Model == "m" && q.MaxTokens == 5 && q.Thinking && !q.Stream && q.Messages[0].Blocks[0].Text == "hi"
		}},
		{"integer as float", `{"model":"m","max_tokens":5.0,"messages":[{"role":"user","content":"hi"}]}`, func(q *Request) bool { return q.MaxTokens == 5 }},
		{"system string", `{` + hello + `,"system":"be brief"}`, func(q *Request) bool { return q.System == "be brief" }},
		{"system blocks", `{` + hello + `,"system":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},{"type":"text","text":"b"}]}`, func(q *Request) bool { return q.System == "a\nb" }},
		{"thinking off", `{` + hello + `,"thinking":{"type":"disabled"}}`, func(q *Request) bool { return !q.Thinking }},
		{"thinking adaptive", `{` + hello + `,"thinking":{"type":"adaptive","display":"omitted"}}`, func(q *Request) bool { return q.Thinking }},
		{"thinking between tools", `{` + hello + `,"thinking":{"type":"between_tools"}}`, func(q *Request) bool { return !q.Thinking }},
		{"thinking of no type", `{` + hello + `,"thinking":{"budget_tokens":5}}`, func(q *Request) bool { return q.Thinking }},
		{"thinking of a type of nothing", `{` + hello + `,"thinking":{"type":null}}`, func(q *Request) bool { return q.Thinking }},
		{"budget ignored", `{` + hello + `,"thinking":{"budget_tokens":-4,"type":"enabled"}}`, func(q *Request) bool { return q.Thinking }},
		{"null optionals", `{` + hello + `,"thinking":null,"stream":null,"tools":null,"top_p":null,"system":null}`, func(q *Request) bool { return q.Thinking && q.Sampling == Sampling{} }},
		{"unknown fields", `{` + hello + `,"context_management":{"edits":[]},"output_config":{},"foo":[1,{"a":2}],"service_tier":"auto","metadata":{"user_id":"u"}}`, func(q *Request) bool { return true }},
		{"neutral values", `{` + hello + `,"n":1,"logprobs":false,"logit_bias":{},"mcp_servers":[],"container":null,"modalities":["text"]}`, func(q *Request) bool { return true }},
		{"sampling", `{` + hello + `,"temperature":3.5,"top_p":0.5,"top_k":7,"stop_sequences":["a","b"]}`, func(q *Request) bool {
			return *q.Sampling.Temperature == 3.5 && *q.Sampling.TopP == 0.5 && *q.Sampling.TopK == 7 && len(q.StopSequences) == 2
		}},
		{"penalties", `{` + hello + `,"min_p":0.05,"presence_penalty":-2,"frequency_penalty":2,"repetition_penalty":1.1,"seed":-9223372036854775808}`, func(q *Request) bool {
			s := q.Sampling
			return *s.MinP == 0.05 && *s.PresencePenalty == -2 && *s.FrequencyPenalty == 2 && *s.RepetitionPenalty == 1.1 &&
				*s.Seed == math.MinInt64
		}},
		{"largest seed", `{` + hello + `,"seed":9223372036854775807}`, func(q *Request) bool { return *q.Sampling.Seed == math.MaxInt64 }},
		{"odd seed beyond float64", `{` + hello + `,"seed":9007199254740993}`, func(q *Request) bool { return *q.Sampling.Seed == 9007199254740993 }},
		{"integers however they are written", `{` + hello + `,"top_k":9007199254740992.0,"min_tokens":0.002E+3,"seed":-0.00}`, func(q *Request) bool {
			return *q.Sampling.TopK == 1<<53 && q.Sampling.MinTokens == 2 && *q.Sampling.Seed == 0
		}},
		{"seed as float", `{` + hello + `,"seed":1e3}`, func(q *Request) bool { return *q.Sampling.Seed == 1000 }},
		{"how long", `{` + hello + `,"min_tokens":12,"ignore_eos":true}`, func(q *Request) bool { return q.Sampling.MinTokens == 12 && q.Sampling.IgnoreEOS }},
		{"no word of how long", `{` + hello + `,"min_tokens":null,"ignore_eos":null}`, func(q *Request) bool { return q.Sampling == Sampling{} }},
		{"other servers' fields that ask for nothing", `{` + hello + `,"grammar":"","guided_json":null,"guided_regex":"","structured_outputs":false,"echo":false,"best_of":1,"suffix":null}`,
			func(q *Request) bool { return q.Sampling == Sampling{} }},
		{"null sampling", `{` + hello + `,"seed":null,"min_p":null,"presence_penalty":null,"frequency_penalty":null,"repetition_penalty":null}`, func(q *Request) bool { return q.Sampling == Sampling{} }},
		{"response format text", `{` + hello + `,"response_format":{"x":1,"json_schema":null,"type":"text"}}`, func(q *Request) bool { return q.Format == nil }},
		{"booleans of false", `{` + hello + `,"stream":false,"ignore_eos":false,"tool_choice":{"type":"none","disable_parallel_tool_use":false}}`, func(q *Request) bool {
			return !q.Stream && !q.Sampling.IgnoreEOS && !q.ToolChoice.DisableParallel
		}},
		{"nulls for what is not said", `{` + hello + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":null},"tools":[{"type":null,"name":"f","description":null,"input_schema":{}}]}`, func(q *Request) bool {
			return !q.ToolChoice.DisableParallel && q.Tools[0].Name == "f"
		}},
		{"escapes", `{"\u006dodel":"\u006d","max_tokens":5,"messages":[{"role":"user","content":"a\n\\\ud83d\ude00"}]}`, func(q *Request) bool {
			return q.Model == "m" && q.Messages[0].Blocks[0].Text == "a\n\\😀"
		}},
		{"unknown fields whose values are names of known ones", `{"x":"model","model":"m","max_tokens":5,"tool_choice":{"x":"type","type":"auto"},"output_config":{"x":"effort","effort":"xhigh"},
			"response_format":{"type":"json_schema","json_schema":{"name":"schema","schema":{"title":"t"}}},"tools":[{"x":"name","name":"f","input_schema":{"title":"type","properties":{}}}],
			"messages":[{"x":"role","role":"user","content":[{"x":"type","type":"tool_addition","tool":{"x":"type","type":"tool_reference"}},{"type":"text","x":"text","text":"hi"}]}]}`, func(q *Request) bool {
			return q.Model == "m" && q.Effort == "high" && q.Tools[0].Name == "f" && string(q.Format.Schema) == `{"title":"t"}` && q.Messages[0].Blocks[0].Text == "hi"
		}},
		{"fields of translators", `{` + hello + `,"raw":"stream","stream_array":"stream","room_tokens":"stream"}`, func(q *Request) bool {
			return !q.Raw && !q.StreamArray && q.RoomTokens == 0 && !q.Stream
		}},
		{"deepest", `{"a":` + strings.Repeat("[", depthMax-1) + strings.Repeat("]", depthMax-1) + `,` + hello + `}`, func(q *Request) bool { return true }},
		{"a call without input", `{"model":"m","max_tokens":5,"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f"}]}]}`, func(q *Request) bool {
			return string(q.Messages[0].Blocks[0].Input) == "{}"
		}},
		{"longest names", `{` + hello + `,"stop_sequences":["` + strings.Repeat("s", stopBytesMax) + `"],"tools":[{"type":"function","name":"` + strings.Repeat("f", toolNameBytesMax) + `","description":"d","input_schema":{}}]}`, func(q *Request) bool {
			return len(q.StopSequences[0]) == stopBytesMax && len(q.Tools[0].Name) == toolNameBytesMax && q.Tools[0].Description == "d"
		}},
		{"most of everything", `{` + hello + `,"stop_sequences":[` + list(stopsMax, `"s%d"`) + `],"tools":[` + list(toolsMax, `{"name":"f%d","input_schema":{}}`) + `]}`, func(q *Request) bool {
			return len(q.StopSequences) == stopsMax && len(q.Tools) == toolsMax
		}},
		{"no response format", `{` + hello + `,"response_format":null}`, func(q *Request) bool { return q.Format == nil }},
		{"json object", `{` + hello + `,"response_format":{"type":"json_object"}}`, func(q *Request) bool { return q.Format != nil && q.Format.Schema == nil }},
		{"json schema", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type": "object"}}}}`, func(q *Request) bool { return string(q.Format.Schema) == `{"type":"object"}` }},
		{"json schema first", `{` + hello + `,"response_format":{"json_schema":{"schema":{"enum":[1]}},"type":"json_schema"}}`, func(q *Request) bool { return string(q.Format.Schema) == `{"enum":[1]}` }},
		{"json schema without a schema", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":null}}}`, func(q *Request) bool { return q.Format != nil && q.Format.Schema == nil }},
		{"largest schema", `{` + hello + `,"response_format":{"type":"json_schema","json_schema":{"schema":` + schemaOf(schemaBytesMax) + `}}}`, func(q *Request) bool { return len(q.Format.Schema) == schemaBytesMax }},
		{"output format", `{` + hello + `,"output_config":{"effort":"low","format":{"schema":{"type": "object"},"name":"n","type":"json_schema"}}}`, func(q *Request) bool {
			return string(q.Format.Schema) == `{"type":"object"}` && q.Format.At == "output_config.format.schema"
		}},
		{"older output format", `{` + hello + `,"output_format":{"type":"json_schema","schema":{"enum":[1]}}}`, func(q *Request) bool {
			return string(q.Format.Schema) == `{"enum":[1]}` && q.Format.At == "output_format.schema"
		}},
		{"no output format", `{` + hello + `,"output_config":{"effort":"high","format":null},"output_format":null}`, func(q *Request) bool {
			return q.Format == nil && q.Effort == "high"
		}},
		{"effort and format of nothing", `{` + hello + `,"output_config":{"effort":null,"format":null,"task_budget":null},"stream":true}`, func(q *Request) bool {
			return q.Effort == "" && q.Format == nil && q.Stream
		}},
		{"effort of nothing last", `{` + hello + `,"output_config":{"format":null,"effort":null}}`, func(q *Request) bool { return q.Effort == "" }},
		{"no output config", `{` + hello + `,"output_config":null}`, func(q *Request) bool { return q.Format == nil }},
		{"output format text", `{` + hello + `,"output_config":{"format":{"type":"text"}},"response_format":{"type":"json_object"}}`, func(q *Request) bool { return q.Format != nil && q.Format.Schema == nil }},
		{"stream beyond the cap", `{"model":"m","stream":true,"max_tokens":200000,"messages":[{"role":"user","content":"hi"}]}`, func(q *Request) bool { return q.MaxTokens == 200000 }},
		{"newer server tools skipped", `{` + hello + `,"tools":[{"type":"web_fetch_20250910","name":"web_fetch","max_uses":3},{"type":"code_execution_20250825","name":"code_execution"},{"type":"memory_20250818","name":"memory"},{"type":"tool_search_tool_regex_20251119","name":"tool_search_tool_regex"},{"type":"advisor_20260301","name":"advisor","model":"m"},{"type":"browser_toolset_20260801"},{"name":"f","defer_loading":true,"input_schema":{}}]}`, func(q *Request) bool {
			return len(q.Tools) == 1 && q.Tools[0].Name == "f" && q.Tools[0].At == 6
		}},
		{"a skipped tool forced", `{` + hello + `,"tools":[{"type":"memory_20250818","name":"memory"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"memory"}}`, func(q *Request) bool {
			return q.ToolChoice.Mode == "auto" && q.ToolChoice.Name == ""
		}},
		{"what server tools said", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"a"},
			{"type":"server_tool_use","id":"srvtoolu_1","name":"web_fetch","input":{"url":"x"}},
			{"type":"web_fetch_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"web_fetch_result","url":"x","content":{"type":"document","source":{"type":"text"}}}},
			{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[{"type":"web_search_result","url":"x","encrypted_content":"e"}]},
			{"type":"code_execution_tool_result","content":{"stdout":"1"}},{"type":"bash_code_execution_tool_result","content":{}},
			{"type":"text_editor_code_execution_tool_result","content":{}},{"type":"tool_search_tool_result","content":{"tool_references":[]}},
			{"type":"advisor_tool_result","tool_use_id":"srvtoolu_1","content":{"type":"advisor_result","text":"x"}},
			{"type":"mcp_tool_listing","server_name":"s","tools":[]},{"type":"mcp_tool_use","id":"mcptoolu_1","name":"f","server_name":"s","input":{}},
			{"type":"mcp_tool_result","tool_use_id":"mcptoolu_1","content":[{"type":"text","text":"x"}]},
			{"type":"text","text":"b"}]},{"role":"assistant","content":[{"content":[],"type":"tool_search_tool_result"}]},{"role":"user","content":"and?"}]}`, func(q *Request) bool {
			m := q.Messages
			return len(m) == 3 && len(m[1].Blocks) == 2 && m[1].Blocks[1].Text == "b" && m[2].Role == "user"
		}},
		{"what changes of the tools, and a note of the system", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},
			{"role":"system","content":[{"type":"tool_addition","tool":{"type":"tool_reference","name":"mcp__x__y"}},{"tool":{"type":"tool_reference","name":"f"},"type":"tool_removal"}]},
			{"role":"system","content":[{"type":"mid_conv_system","content":[{"type":"text","text":"be brief"}]},{"type":"tool_addition","tool":{"type":"tool_reference","name":"g"}}]}]}`, func(q *Request) bool {
			m := q.Messages
			return len(m) == 2 && m[1].Role == "system" && len(m[1].Blocks) == 1 && m[1].Blocks[0].Type == Text && m[1].Blocks[0].Text == "be brief"
		}},
		{"a reference to a tool", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"tool_reference","tool_name":"f"},{"tool_name":"g","type":"tool_reference"}]}]}]}`, func(q *Request) bool {
			return q.Messages[0].Blocks[0].Text == "f\ng"
		}},
		{"server tools skipped", `{` + hello + `,"tools":[{"type":"web_search_20250305","name":"web_search"},{"type":"bash_20250124","name":"bash"},{"name":"f","input_schema":{"type":"object"}}]}`, func(q *Request) bool { return len(q.Tools) == 1 && q.Tools[0].Name == "f" && q.Tools[0].At == 2 }},
		{"tool round", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"toolu_1","name":"f","input":{"a": 1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"x"},{"type":"text","text":"y"}],"is_error":true}]}]}`, func(q *Request) bool {
			b := q.Messages[1].Blocks
			r := q.Messages[2].Blocks[0]
			return b[0].Type == Thinking && string(b[1].Input) == `{"a":1}` && r.Text == "x\ny" && r.IsError && r.ID == "toolu_1"
		}},
		{"fields of other types", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"type":"text","text":"a","thinking":"b","content":"c","id":5,"name":null}]}]}`, func(q *Request) bool { return q.Messages[0].Blocks[0].Text == "a" }},
		{"fields of other types first", `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{"thinking":"b","id":5,"text":"a","content":["c"],"type":"text"}]}]}`, func(q *Request) bool { return q.Messages[0].Blocks[0].Text == "a" }},
		{"block type last", `{"model":"m","max_tokens":5,"messages":[{"content":[{"text":"x","type":"text"}],"role":"user"}]}`, func(q *Request) bool { return q.Messages[0].Blocks[0].Text == "x" }},
		{"system role inside", `{"model":"m","max_tokens":5,"messages":[{"role":"system","content":"s"},{"role":"user","content":"x"}]}`, func(q *Request) bool { return q.Messages[0].Role == "system" }},
		{"tool choice", `{` + hello + `,"tool_choice":{"type":"auto","disable_parallel_tool_use":true}}`, func(q *Request) bool { return q.ToolChoice.DisableParallel && q.ToolChoice.Mode == "auto" }},
		{"any", `{` + hello + `,"tool_choice":{"type":"any","name":null,"disable_parallel_tool_use":true},"tools":[{"name":"f","input_schema":{}}]}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "any", DisableParallel: true}
		}},
		{"tool", `{` + hello + `,"tools":[{"name":"f","input_schema":{}},{"name":"g","input_schema":{}}],"tool_choice":{"name":"g","type":"tool"}}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "tool", Name: "g"}
		}},
		{"any with skipped tools only", `{` + hello + `,"tool_choice":{"type":"any","name":"x","disable_parallel_tool_use":true},"tools":[{"type":"web_search_1","name":"w"}]}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "auto", DisableParallel: true}
		}},
		{"any with a skipped tool", `{` + hello + `,"tools":[{"type":"web_search_1","name":"w"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"any"}}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "any"}
		}},
		{"skipped tool named", `{` + hello + `,"tools":[{"type":"bash_20250124","name":"bash"},{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"bash"}}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "auto"}
		}},
		{"skipped and offered tool named", `{` + hello + `,"tools":[{"type":"bash_20250124","name":"bash"},{"name":"bash","input_schema":{}}],"tool_choice":{"type":"tool","name":"bash"}}`, func(q *Request) bool {
			return q.ToolChoice == ToolChoice{Mode: "tool", Name: "bash"}
		}},
		{"none without tools", `{` + hello + `,"tool_choice":{"type":"none"}}`, func(q *Request) bool { return q.ToolChoice.Mode == "none" }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, parse := range []func([]byte) (*Request, error){Parse, ParseCount} {
				q, err := parse([]byte(c.body))
				if err != nil {
					t.Fatal(err)
				}
				if !c.check(q) {
					t.Errorf("parsed into %+v", q)
				}
			}
		})
	}
}

// TestCacheControlAnywhere: with it, before a block's type and behind it, or without
// it is the same request.
func TestCacheControlAnywhere(t *testing.T) {
	const body = `{"model":"m","max_tokens":5,@,"system":[{@,"type":"text","text":"s"},{"type":"text","text":"y",@}],
		"tools":[{@,"name":"f","input_schema":{}},{"name":"g","input_schema":{},@},{"type":"web_search_1","name":"w",@}],
		"messages":[{"role":"system","content":[{"type":"text","text":"m",@}],@},{"role":"user","content":[{@,"text":"u","type":"text"}]},
		{"role":"assistant","content":[{"type":"thinking","thinking":"t",@},{"type":"text","text":"a",@},{@,"type":"tool_use","id":"i","name":"f","input":{}},{"type":"tool_use","id":"j","name":"g","input":{},@}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":[{@,"type":"text","text":"r"},{"type":"text","text":"e",@}],@},
			{@,"content":[{"text":"s",@,"type":"text"}],"tool_use_id":"j","type":"tool_result"}]}]}`
	want, err := Parse([]byte(strings.NewReplacer("@,", "", ",@", "").Replace(body)))
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{`{"type":"ephemeral"}`, `{"type":"ephemeral","ttl":"1h"}`, "null"} {
		got, err := Parse([]byte(strings.ReplaceAll(body, "@", `"cache_control":`+value)))
		if got != nil {
			got.Body = want.Body // which alone differs
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("cache_control of %s: %+v, %v; without it %+v", value, got, err, want)
		}
	}
}

// TestParseForms: what the three forms want of max_tokens; all else is the same.
func TestParseForms(t *testing.T) {
	body := func(max string) []byte {
		return []byte(`{"model":"m","seed":5,` + max + `"messages":[{"role":"user","content":"hi"}]}`)
	}
	cases := []struct {
		max                      string
		plain, translated, count bool
	}{
		{``, false, true, true},
		{`"max_tokens":null,`, false, true, true},
		{`"max_tokens":7,`, true, true, true},
		{`"max_tokens":0,`, false, false, false},
		{`"max_tokens":32769,`, false, false, true},
		{`"max_tokens":32769,"stream":true,`, true, true, true},
		{`"max_tokens":7,"compaction":{"type":"summarize"},`, false, false, true}, // nothing is summarized for a count
	}
	for _, c := range cases {
		for _, f := range []struct {
			name  string
			parse func([]byte) (*Request, error)
			want  bool
		}{{"Parse", Parse, c.plain}, {"ParseTranslated", ParseTranslated, c.translated}, {"ParseCount", ParseCount, c.count}} {
			q, err := f.parse(body(c.max))
			if (err == nil) != f.want || (q != nil) != f.want || q != nil && *q.Sampling.Seed != 5 {
				t.Errorf("%s with %q: %+v, %v", f.name, c.max, q, err)
			}
			if e, ok := errors.AsType[*abi.Error](err); err != nil && (!ok || e.Param == "" || !strings.Contains(`"max_tokens":`+c.max, `"`+e.Param+`":`)) {
				t.Errorf("%s with %q: error %v does not name the field", f.name, c.max, err)
			}
		}
	}
}

// TestFieldsBeforeTheType: of a block's fields in front of its type only those are kept
// that could count, so that unknown ones cost there what they cost behind it.
func TestFieldsBeforeTheType(t *testing.T) {
	var unknown []byte
	for i := range 5000 {
		unknown = fmt.Appendf(unknown, `"%d":[1],`, i)
	}
	allocations := func(block string) float64 {
		body := []byte(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[{` + block + `}]}]}`)
		return testing.AllocsPerRun(5, func() {
			if q, err := Parse(body); err != nil || q.Messages[0].Blocks[0].Text != "hi" {
				t.Fatal(q, err)
			}
		})
	}
	behind := allocations(`"type":"text",` + string(unknown) + `"text":"hi"`)
	before := allocations(`"text":"hi",` + string(unknown) + `"type":"text"`)
	if before > 1.2*behind {
		t.Errorf("%.0f allocations for unknown fields before the type, %.0f behind it", before, behind)
	}
}

// TestNestedResultsTakeNoMemory: results of tools that nest have their text copied a few times,
// and not once for each level.
func TestNestedResultsTakeNoMemory(t *testing.T) {
	text := strings.Repeat("x", 200_000)
	for _, levels := range []int{1, 60} {
		body := []byte(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":[` + strings.Repeat(`{"content":[`, levels) +
			`{"text":"` + text + `","type":"text"}` + strings.Repeat(`],"tool_use_id":"t","type":"tool_result"}`, levels) + `]}]}`)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := Parse(body)
		runtime.ReadMemStats(&after)
		if (err == nil) != (levels == 1) {
			t.Errorf("%d levels: %v", levels, err)
		}
		if took := int(after.TotalAlloc - before.TotalAlloc); took > 20*len(body) {
			t.Errorf("%d levels: %d bytes for a body of %d", levels, took, len(body))
		}
	}
}

// TestBlocksBeforeTheTypeCount: the blocks of a content before its block's type are of those that a request may have.
func TestBlocksBeforeTheTypeCount(t *testing.T) {
	const result = `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_use_id":"t","type":"tool_result"}`
	for content, accepts := range map[string]bool{result: true, result + `,{"type":"text","text":"c"}`: false} {
		body := `{"role":"user","content":[` + content + `]}`
		r := &reader{dec: jsontext.NewDecoder(strings.NewReader(body)), items: itemsMax - 4} // of which the message is one
		if r.message(); (r.err == nil) != accepts {
			t.Errorf("%s: %v", content, r.err)
		}
	}
}

// TestValuesAreBounded: a body of many small values, wherever they stand, is refused before any of them is read.
func TestValuesAreBounded(t *testing.T) {
	many := func(item string, n int) string { return strings.Repeat(item+",", n-1) + item }
	const call = `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[` +
		`{"type":"tool_use","id":"t","name":"f","input":{"a":[%s]}}]}]}`
	for name, c := range map[string]struct {
		form, item string
		n          int
		accepts    bool
	}{
		"the items of an input":          {call, "0", ValuesMax, false},
		"nested items of an input":       {call, "[[[[]]]]", ValuesMax / 4, false},
		"members of an input":            {call, `{"a":0}`, ValuesMax / 2, false},
		"texts with brackets and commas": {call, `",[{,\"[,,{[\\"`, ValuesMax / 10, true},
		"as many items as there may be":  {call, "0", ValuesMax - 40, true},
		"what nobody asked for":          {`{` + hello + `,"metadata":[%s]}`, "null", ValuesMax, false},
	} {
		_, err := Parse([]byte(strings.Replace(c.form, "%s", many(c.item, c.n), 1)))
		if (err == nil) != c.accepts || err != nil && !strings.Contains(err.Error(), "JSON values") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestValues: no text has more values than are counted, and none less than half as many.
func TestValues(t *testing.T) {
	for text, want := range map[string]int{
		``: 1, `0`: 1, `"a,[{"`: 1, `[]`: 2, `[0,1,2]`: 4, `{"a":{"b":[1,"\",",2]},"c":"\\"}`: 7, `["\\\"",0]`: 3, `"open`: 1, `["open,[[[`: 2,
	} {
		if n := Values([]byte(text)); n != want {
			t.Errorf("%s: %d values, want %d", text, n, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{` + hello + `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"system":[{"type":"text","text":"\ud83d\ude00"}]}`))
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"type":"tool_result","content":[]}]}]}`))
	f.Add([]byte(`{` + hello + `,"tools":[{"name":"f","input_schema":{}}],"tool_choice":{"type":"tool","name":"f"}}`))
	f.Add([]byte(`{` + hello + `,"tool_choice":{"type":"any"},"response_format":{"type":"json_schema","json_schema":{"schema":{"type":"object"}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := Parse(body)
		if err == nil && (q.Model == "" || len(q.Messages) == 0 || q.MaxTokens < 1) {
			t.Fatalf("accepted an incomplete request %+v", q)
		}
		if err == nil && (q.ToolChoice.Mode == "any" || q.ToolChoice.Mode == "tool") && len(q.Tools) == 0 {
			t.Fatalf("accepted a forced call without tools %+v", q)
		}
		loose, looseErr := ParseTranslated(body)
		if err == nil && looseErr != nil || looseErr == nil && err != nil && loose.MaxTokens != 0 {
			t.Fatalf("Parse says %v, ParseTranslated %v", err, looseErr)
		}
		if err != nil && abi.KindOf(err) != abi.InvalidRequest {
			t.Fatalf("error of kind %v: %v", abi.KindOf(err), err)
		}
	})
}

func BenchmarkParse(b *testing.B) {
	body := []byte(`{"model":"core-1.1-mini","max_tokens":256,"stream":true,"system":"You are a helpful assistant that answers in one short sentence and never guesses.","messages":[{"role":"user","content":"What is the capital of the country where the river Loire ends, and how many people live in it today?"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(body); err != nil {
			b.Fatal(err)
		}
	}
}

// TestEffortWithin: an effort within the messages counts from the user's next words on, or for the answer to
// those that it follows. Results of tools are none.
func TestEffortWithin(t *testing.T) {
	const (
		user, result = `{"role":"user","content":"hi"}`, `{"role":"user","content":[{"type":"tool_result","tool_use_id":"i","content":"r"}]}`
		call, said   = `{"role":"assistant","content":[{"type":"tool_use","id":"i","name":"f","input":{}}]}`, `{"role":"assistant","content":"ho"}`
		low, high    = `{"role":"system","content":[],"output_config":{"effort":"low"}}`, `{"output_config":{"effort":"max"},"content":"mind","role":"system"}`
		own          = `{"role":"system","content":[],"output_config":{"effort":"other"}}`
	)
	for _, c := range []struct {
		want string
		msgs []string
	}{
		{"medium", []string{user}},
		{"low", []string{user, low}},
		{"low", []string{user, `{"role":"system","output_config":{"effort":"low"}}`}}, // no content says that there is none
		{"medium", []string{user, `{"role":"system","content":[],"output_config":{"x":"low","effort":7}}`}},
		{"high", []string{user, low, high}},
		{"high", []string{user, high, said, user}},
		{"low", []string{user, said, low, user}},
		{"low", []string{user, said, low, user, call, result, said, user}},
		{"medium", []string{user, call, result, low}},
		{"low", []string{user, call, result, low, said, user}},
		{"low", []string{user, low, call, result, high}},
		{"medium", []string{user, said, low}},
		{"", []string{user, own}},
		{"medium", []string{low, user}}, // the system's own turn, whose effort stands at the top
		{"medium", []string{user, `{"role":"system","content":[],"output_config":null}`, `{"role":"system","content":[],"output_config":{"effort":null}}`}},
		{"medium", []string{user, `{"role":"assistant","content":"ho","output_config":{"effort":"low"}}`, user}},
	} {
		for _, body := range []string{
			`{"model":"m","max_tokens":5,"output_config":{"effort":"medium"},"messages":[` + strings.Join(c.msgs, ",") + `]}`,
			`{"model":"m","max_tokens":5,"messages":[` + strings.Join(c.msgs, ",") + `],"output_config":{"effort":"medium"}}`,
		} {
			if q, err := Parse([]byte(body)); err != nil || q.Effort != c.want {
				t.Errorf("%s: %+v, %v; want effort %q", body, q, err, c.want)
			}
		}
	}
}
