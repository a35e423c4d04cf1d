package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"corenode/engine/messages"
)

func TestSplice(t *testing.T) {
	s := Splices{Model: "there", ToolSkipped: messages.ServerTool, Signature: func(ours string) string {
		_, theirs, _ := strings.Cut(ours, "~")
		return theirs
	}, MaxTokens: 9, ChoiceAuto: true}
	for _, c := range []struct{ body, want string }{
		{`{"model":"there","stream":true,"max_tokens":1}`, `{"model":"there","stream":true,"max_tokens":1}`},
		{` { "model" : "here" , "max_tokens":1 } `, ` { "model" : "there" , "max_tokens":1 ,"stream":true} `},
		{`{"stream":false,"max_tokens":1}`, `{"stream":true,"max_tokens":1}`},
		{`{"stream":null}`, `{"stream":true,"max_tokens":9}`},
		{`{}`, `{"stream":true,"max_tokens":9}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"type":"bash_1","name":"b"},{"name":"c"}]}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"name":"c"}]}`},
		{`{"stream":true,"max_tokens":1,"tools":[ {"type":"bash_1"} , {"name":"c"} ]}`,
			`{"stream":true,"max_tokens":1,"tools":[ {"name":"c"} ]}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"type":"bash_1"},{"type":"web_search_1"}],"tool_choice":{"type":"any"}}`,
			`{"stream":true,"max_tokens":1}`},
		{` { "tool_choice" : {"type":"none"} , "stream":true,"tools":[{"type":"bash_1"}] , "max_tokens":1 } `, ` { "stream":true , "max_tokens":1 } `},
		{`{"tools":[{"type":"bash_1"}],"model":"here"}`, `{"model":"there","stream":true,"max_tokens":9}`},
		{`{"t\u006fols":[{"type":"bash_1"}],"tool_choice":{"type":"any"}}`, `{"stream":true,"max_tokens":9}`},
		{`{"stream":true,"max_tokens":1,"tools":[],"tool_choice":{"type":"auto"}}`,
			`{"stream":true,"max_tokens":1,"tools":[],"tool_choice":{"type":"auto"}}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"type":"bash_1"},{"name":"a"}],"tool_choice":{"type":"any"}}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"}],"tool_choice":{"type":"auto"}}`},
		{`{"stream":true,"max_tokens":1,"tools":[{"name":"a"},{"type":"bash_1"},{"type":"bash_2"}]}`,
			`{"stream":true,"max_tokens":1,"tools":[{"name":"a"}]}`},
		{`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"o~t\"\\x"},{"type":"text","text":"signature"}]}]}`,
			`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"o~t\"\\x"},{"type":"text","text":"signature"}]}]}`},
		{`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"ours"}]},{"role":"user","content":"x"}]}`,
			`{"stream":true,"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"ours"}]},{"role":"user","content":"x"}]}`},
	} {
		want := strings.Replace(c.want, `"o~t\"\\x"`, `"t\"\\x"`, 1)
		got, err := Splice([]byte(c.body), s)
		if err != nil || string(got) != want {
			t.Errorf("%s\ngives %s\nwant  %s\n%v", c.body, got, want, err)
		}
	}
	if _, err := Splice([]byte(`{"model":`), s); err == nil {
		t.Error("half a body is spliced")
	}
}

// plainly are the splices for a server that knows no more than the protocol, forCount those of a question for a count there.
var (
	plainly = Splices{Plain: true, ToolSkipped: messages.ServerTool, BlockSkipped: messages.ServerBlock,
		Signature: func(string) string { return "theirs" }}
	forCount = Splices{Plain: true, ToolSkipped: messages.ServerTool, Count: true, Without: []string{"raw"}}
)

const userX = `{"role":"user","content":"x"}`

// defines is a message of the system that defines tools.
func defines(tools ...string) string {
	for i, tool := range tools {
		tools[i] = `{"type":"tool_addition","tool":{"type":"tool_definition","definition":` + tool + `}}`
	}
	return `{"role":"system","content":[` + strings.Join(tools, ",") + `]}`
}

var plainBodies = []struct {
	s          Splices
	body, want string
}{
	{plainly, `{"messages":[{"role":"system","content":"a\u0062"},` + userX + `]}`,
		`{"messages":[` + userX + `],"system":"a\u0062","stream":true}`},
	{plainly, `{"system":"s","messages":[ {"content":"a","role":"system"} , ` + userX + ` ]}`,
		`{"system":[{"type":"text","text":"s"},{"type":"text","text":"a"}],"messages":[ ` + userX + ` ],"stream":true}`},
	{plainly, `{"messages":[{"role":"system","content":[ {"type":"text","text":"a","cache_control":{}} , {"text":"b","type":"text"} ]},` +
		`{"role":"system","content":"c"},` + userX + `] , "system" : [ {"type":"text","text":"s"} ] }`,
		`{"messages":[` + userX + `] , "system" : [{"type":"text","text":"s"},` +
			`{"type":"text","text":"a","cache_control":{}},{"text":"b","type":"text"},{"type":"text","text":"c"}] ,"stream":true}`},
	{plainly, `{"system":null,"messages":[{"role":"system","content":[{"type":"text","text":"a"}]},` + userX + `]}`,
		`{"system":[{"type":"text","text":"a"}],"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"system":"","messages":[{"role":"\u0073ystem","content":"a"},` + userX + `]}`,
		`{"system":"a","messages":[` + userX + `],"stream":true}`},
	{plainly, `{"messages":[{"role":"system","content":""},{"role":"system","content":[]},` + userX + `]}`,
		`{"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"messages":[{"role":"system"},{"role":"system","content":null,"output_config":{"effort":"low"}},` + userX + `]}`,
		`{"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,{"role":"system","content":[],"output_config":{"effort":"low"}},` +
		`{"role":"system","content":"a","clear_at":"next_user_message"},` + userX + `]}`, // the server's to read
		`{"messages":[` + userX + `,{"role":"system","content":[],"output_config":{"effort":"low"}},` +
			`{"role":"system","content":"a","clear_at":"next_user_message"},` + userX + `],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,{"role":"system","content":"a"}]}`,
		`{"messages":[` + userX + `,{"role":"system","content":"a"}],"stream":true}`},
	{plainly, `{"messages":[{"role":"system","content":[{"type":"server_tool_use"},{"type":"text","text":"a"}]}]}`,
		`{"messages":[{"role":"system","content":[{"type":"text","text":"a"}]}],"stream":true}`},
	{plainly, `{"messages":[{"role":"system","content":[{"type":"text","text":"a","signature":"s"},` +
		`{"type":"server_tool_use"}]},` + userX + `]}`,
		`{"messages":[` + userX + `],"system":[{"type":"text","text":"a","signature":"s"}],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,{"role":"assistant","content":[{"type":"server_tool_use","id":"a","signature":"s"},` +
		`{"id":"a","type":"web_search_tool_result","content":[]},{"type":"thinking","signature":"s"},` +
		`{"x":{"type":"server_tool_use"},"type":"text"}]}]}`,
		`{"messages":[` + userX + `,{"role":"assistant","content":[{"type":"thinking","signature":"theirs"},` +
			`{"x":{"type":"server_tool_use"},"type":"text"}]}],"stream":true}`},
	{plainly, `{"messages":[{"role":"assistant","content":[{"type":"server_tool_use","signature":"s"}]},` +
		`{"role":"system","content":"a"},` + userX + `,{"role":"assistant","content":[{"type":"web_fetch_tool_result"}]}]}`,
		`{"messages":[` + userX + `],"system":"a","stream":true}`},
	{plainly, `{"messages":[{"content":[],"role":"assistant"}]}`, `{"messages":[{"content":[],"role":"assistant"}],"stream":true}`},
	{plainly, `{"response_format":{"json_schema":{"name":"n","schema":{"a": 1}},"type":"json_schema"},"model":"m"}`,
		`{"model":"m","output_config":{"format":{"type":"json_schema","schema":{"a": 1}}},"stream":true}`},
	{plainly, `{"response_format":{"json_schema":{"schema":{}},"type":"json_schema"},"output_config":{"effort":"low" }}`,
		`{"output_config":{"effort":"low" ,"format":{"type":"json_schema","schema":{}}},"stream":true}`},
	{plainly, `{"output_config":{ },"response_format":{"json_schema":{"schema":{}},"type":"json_schema"}}`,
		`{"output_config":{ "format":{"type":"json_schema","schema":{}}},"stream":true}`},
	{plainly, `{"output_config":null,"response_format":{"json_schema":{"schema":{}},"type":"json_schema"}}`,
		`{"output_config":{"format":{"type":"json_schema","schema":{}}},"stream":true}`},
	{plainly, `{"output_config":{"f\u006frmat":{"type":"text"},"effort":"low"},` +
		`"response_format":{"json_schema":{"schema":{}},"type":"json_schema"}}`,
		`{"output_config":{"f\u006frmat":{"type":"json_schema","schema":{}},"effort":"low"},"stream":true}`},
	{plainly, `{"response_format":{"type":"json_object"},"seed":1}`, `{"response_format":{"type":"json_object"},"seed":1,"stream":true}`},
	{plainly, `{"response_format":{"type":"json_schema","json_schema":{"schema":null}}}`,
		`{"response_format":{"type":"json_schema","json_schema":{"schema":null}},"stream":true}`},
	{forCount, `{"stream":false,"max_tokens":3,"temperature":1,"seed":2,` +
		`"messages":[{"role":"system","content":"a"},` + userX + `],"raw":false,"top_k":1,` +
		`"tools":[{"type":"bash_1"}],"stop_sequences":["x"]}`, `{"messages":[` + userX + `],"system":"a"}`},
	{forCount, `{"metadata":{},"compaction":{"type":"summarize"}}`, `{}`},
	{plainly, `{"tools":[{"name":"a"}],"messages":[` + userX + `,` + defines(`{"name":"b", "x":1}`, `{"name":"c"}`) + `]}`,
		`{"tools":[{"name":"a"},{"name":"b", "x":1},{"name":"c"}],"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,` + defines(`{"name":"a","x":1}`, `{"name":"b"}`, `{"name":"a","x":2}`) + `],"tools":[ {"name":"a"} ]}`,
		`{"messages":[` + userX + `],"tools":[ {"name":"a","x":2} ,{"name":"b"}],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,` + defines(`{"name":"a"}`) + `],"tools":[{"type":"bash_1","name":"a"}]}`,
		`{"messages":[` + userX + `],"tools":[{"name":"a"}],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,` + defines(`{"name":"a"}`) + `]}`, `{"messages":[` + userX + `],"tools":[{"name":"a"}],"stream":true}`},
	{plainly, `{"tools":null,"messages":[` + defines(`{"name":"a"}`) + `,` + userX + `]}`,
		`{"tools":[{"name":"a"}],"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"tool_choice":{"type":"auto"},"messages":[` + userX + `,` + defines(`{"type":"bash_1","name":"a"}`) + `]}`,
		`{"messages":[` + userX + `],"stream":true}`},
	{plainly, `{"messages":[` + userX + `,{"role":"system","content":[{"tool":{"type":"tool_reference","name":"a"},"type":"tool_addition"}]}]}`,
		`{"messages":[` + userX + `],"stream":true}`},
	{Splices{Tool: "b", Schema: func(json.RawMessage) json.RawMessage { return json.RawMessage(`{}`) }, BlockSkipped: messages.ServerBlock},
		`{"tools":[{"name":"a","input_schema":1}],"messages":[` + userX + `,` + defines(`{"input_schema":1,"name":"b"}`) + `]}`,
		`{"tools":[{"input_schema":{},"name":"b"}],"messages":[` + userX + `],"stream":true}`},
	{Splices{ToolSkipped: messages.ServerTool}, `{"messages":[` + userX + `,` + defines(`{"name":"a"}`) + `]}`, // another node's to read
		`{"messages":[` + userX + `,` + defines(`{"name":"a"}`) + `],"stream":true}`},
	{Splices{ToolSkipped: messages.ServerTool}, `{"tools":[{"type":"bash_1"}],"tool_choice":{"type":"any"},"messages":[` + userX + `,` +
		defines(`{"name":"a"}`) + `]}`, // which is what can be called
		`{"tools":[],"tool_choice":{"type":"any"},"messages":[` + userX + `,` + defines(`{"name":"a"}`) + `],"stream":true}`},
	{Splices{ToolSkipped: messages.ServerTool, Count: true}, `{"tools":[{"type":"bash_1"}],"tool_choice":{"type":"any"},"messages":[` +
		userX + `,` + defines(`{"type":"bash_2"}`) + `]}`, `{"messages":[` + userX + `,` + defines(`{"type":"bash_2"}`) + `]}`},
	{forCount, ` { "m\u0061x_tokens" : 3 , "model":"m" } `, ` { "model":"m" } `},
}

// TestSplicePlain: a server that knows no more than the protocol is sent the same request as the protocol has it.
func TestSplicePlain(t *testing.T) {
	for _, c := range plainBodies {
		got, err := Splice([]byte(c.body), c.s)
		if err != nil || string(got) != c.want {
			t.Errorf("%s\ngives %s\nwant  %s\n%v", c.body, got, c.want, err)
		}
	}
}

// FuzzSplice: whatever a body that the parser takes says beside what is spliced, it says
// the same afterwards, also to a server that knows no more than the protocol.
func FuzzSplice(f *testing.F) {
	for _, body := range []string{
		`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`,
		`{"model":"m","max_tokens":3,"stream":true,"x":[1,{"y":"\ud83d\ude00"}],"messages":[{"role":"user","content":[{"type":"text","text":"a\nb"}]}],"tools":[{"type":"bash_2","name":"b"},{"name":"t","input_schema":{"type":"object"}}]}`,
		`{"tools":[{"type":"bash_2","name":"b"},{"name":"t","input_schema":{}}],"tool_choice":{"name":"b","type":"tool",` +
			`"disable_parallel_tool_use":true},"messages":[{"role":"user","content":"x"}],"model":"m","max_tokens":1}`,
		`{"tools":[{"type":"bash_2","name":"b"}],"tool_choice":{"type":"none"},"messages":[{"role":"user","content":"x"}],"model":"m","max_tokens":1}`,
		`{"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"a","signature":"b~c"}]},{"role":"user","content":"y"}],"model":"m","max_tokens":1}`,
		`{"messages":[{"role":"system","content":"a"},{"role":"system","content":[{"type":"text","text":"b"},` +
			`{"type":"server_tool_use"}]},{"role":"user","content":"y"},` +
			`{"role":"system","content":"z"}],"system":[{"type":"text","text":"s"}],"model":"m","min_p":0.5}`,
		`{"messages":[{"role":"assistant","content":[{"type":"server_tool_use","signature":"s"}]},{"role":"system","content":""},` +
			`{"role":"user","content":[{"type":"text","text":"x"},{"type":"web_search_tool_result"}]}],` +
			`"response_format":{"type":"json_schema","json_schema":{"schema":{"a":1}}},` +
			`"output_config":{"effort":"low","format":null},"model":"m"}`,
		`{"messages":[{"role":"system","content":[],"output_config":{"effort":"low"}},{"role":"system","content":"a","clear_at":"next_user_message"},` +
			`{"role":"assistant","content":[{"type":"server_tool_use"}]},{"role":"user","content":"x"},{"role":"system","output_config":{"effort":"low"}},` +
			`{"role":"system","content":"b","clear_at":"next_user_message"},{"role":"user","content":"y"}],"model":"m"}`,
		`{"messages":[{"role":"user","content":"x"},` + defines(`{"name":"a","input_schema":{}}`, `{"type":"bash_2","name":"b"}`) +
			`],"tools":[{"type":"bash_2","name":"b"}],"tool_choice":{"type":"tool","name":"a"},"model":"m"}`,
		`{"messages":[{"role":"user","content":"x"},` + defines(`{"name":"a","input_schema":{"a":1}}`, `{"type":"bash_2","name":"a"}`, `{"name":"b","input_schema":{}}`) +
			`],"tools":[{"type":"bash_2","name":"b"},{"name":"a","input_schema":{}}],"tool_choice":{"type":"tool","name":"b"},"model":"m"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, plain := range []bool{false, true} {
			q, err := messages.ParseTranslated(body)
			if err != nil {
				return
			}
			s := Splices{Model: "there", ToolSkipped: messages.ServerTool, MaxTokens: 5, ChoiceAuto: q.ToolChoice.Mode == "auto",
				Signature: func(string) string { return "theirs" }, Plain: plain}
			if plain {
				s.BlockSkipped = messages.ServerBlock
			}
			p := spliced(t, body, s)
			if p.Model != "there" || !p.Stream || p.MaxTokens == 0 {
				t.Fatalf("%s\nbecame %s", body, p.Body)
			}
			sameSpliced(t, body, p, q)
			q.Stream, q.MaxTokens, q.StopSequences, q.Sampling, s.Count = false, 0, nil, messages.Sampling{}, true
			sameSpliced(t, body, spliced(t, body, s), q)
		}
	})
}

// spliced parses what becomes of a body.
func spliced(t *testing.T, body []byte, s Splices) *messages.Request {
	t.Helper()
	out, err := Splice(body, s)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	p, err := messages.ParseTranslatedCount(out)
	if err != nil {
		t.Fatalf("%s\nbecame %s: %v", body, out, err)
	}
	return p
}

// sameSpliced compares p, of a body that was spliced, with q, of what it was.
func sameSpliced(t *testing.T, body []byte, p, q *messages.Request) {
	t.Helper()
	strip := func(r *messages.Request) messages.Request {
		c := *r
		c.Model, c.Stream, c.Body = "", false, nil
		if q.MaxTokens == 0 {
			c.MaxTokens = 0
		}
		c.System, c.Messages = messages.Opening(r)
		c.System = strings.Join(slices.DeleteFunc(strings.Split(c.System, "\n"), func(line string) bool { return line == "" }), "\n")
		c.Messages = slices.Clone(c.Messages)
		for i, m := range c.Messages {
			m.Blocks = slices.Clone(m.Blocks)
			c.Messages[i] = m
		}
		c.Tools = slices.Clone(c.Tools)
		for i := range c.Tools { // places move with the tools that were left out
			c.Tools[i].At = 0
		}
		if len(q.Tools) == 0 { // what is said of tools goes with the last that was skipped
			c.ToolChoice = messages.ToolChoice{}
		}
		if c.Format != nil {
			c.Format = &messages.Format{Schema: c.Format.Schema}
		}
		return c
	}
	if got, want := strip(p), strip(q); !reflect.DeepEqual(got, want) {
		t.Fatalf("%s\nbecame %s:\n%+v\nwant\n%+v", body, p.Body, got, want)
	}
}

func TestFlavors(t *testing.T) {
	for _, name := range Flavors() {
		f, err := ParseFlavor(name)
		if err != nil || f.Traits().Health == "" || !slices.Contains([]string{"/v1/messages", "/v1/chat/completions"}, f.Path()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParseFlavor("gpt"); err == nil || !strings.Contains(err.Error(), "llama-server") {
		t.Errorf("an unknown flavor: %v", err)
	}
	if !json.Valid(Chat(ChatCompletions, &messages.Request{Messages: []messages.Message{{Role: "user"}}}, ChatOptions{Model: "m"})) {
		t.Error("an empty request makes no JSON")
	}
}
