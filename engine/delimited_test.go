package engine

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/engine/output"
	"corenode/engine/tokenizer"
	"corenode/wasm/abi"
)

// delimitedForms are the forms of calls between delimiters, each with a template of our own that shows them as those
// of its family do, and what a model says that calls two tools. In says, C stands for the call of weather, T for that of time.
var delimitedForms = []struct {
	name     string
	control  bool // the delimiters are control tokens
	marks    []string
	template string // of an assistant's calls and of a result
	says     string
	history  string // of two calls and their results
}{
	{"mistral list", true, []string{"[TOOL_CALLS]"}, `[TOOL_CALLS] [{% for c in m.tool_calls %}
		{%- if c.id|length != 9 %}{{ raise_exception("an id has 9 characters") }}{% endif %}{{ (c.function|tojson)[:-1] }}, "id": "{{ c.id }}"}
		{%- if not loop.last %}, {% endif %}{% endfor %}]{{ eos_token }}|{{ m.tool_call_id|length }}={{ m.content }};`,
		`[TOOL_CALLS][{"name": "weather", "arguments": {"city": "Rome"}, "id": "abcdefghi"}, {"name": "time", "arguments": {}}]`,
		`[TOOL_CALLS] [{"name": "weather", "arguments": {"city": "Rome"}, "id": "ROUQbcACv"}, {"name": "time", "arguments": {}, "id": "123456789"}]<|im_end|>9=sun;9=noon;`},
	{"mistral", true, []string{"[TOOL_CALLS]", "[ARGS]"}, `{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}
		{%- endfor %}{{ eos_token }}|{{ m.content }};`, `[TOOL_CALLS]weather[ARGS]{"city": "Rome"}[TOOL_CALLS]time[ARGS]{}`,
		`[TOOL_CALLS]weather[ARGS]{"city": "Rome"}[TOOL_CALLS]time[ARGS]{}<|im_end|>sun;noon;`},
	{"mistral with ids", true, []string{"[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"}, `{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}
		{%- if c.id|length != 9 %}{{ raise_exception("an id has 9 characters") }}{% endif %}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments|tojson }}
		{%- endfor %}{{ eos_token }}|{{ m.content }};`, `[TOOL_CALLS]weather[CALL_ID]abcdefghi[ARGS]{"city": "Rome"}[TOOL_CALLS]time[CALL_ID]1bcdefghi[ARGS]{}`,
		`[TOOL_CALLS]weather[CALL_ID]ROUQbcACv[ARGS]{"city": "Rome"}[TOOL_CALLS]time[CALL_ID]123456789[ARGS]{}<|im_end|>sun;noon;`},
	{"deepseek", false, []string{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
		`<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}{{ "<｜tool▁call▁begin｜>" + c.function.name + "<｜tool▁sep｜>" + c.function.arguments }}<｜tool▁call▁end｜>
		{%- endfor %}<｜tool▁calls▁end｜>{{ eos_token }}|{{ m.content }};`,
		`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜>` +
			`<｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>`,
		`<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>weather<｜tool▁sep｜>{"city": "Rome"}<｜tool▁call▁end｜>` +
			`<｜tool▁call▁begin｜>time<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜><|im_end|>sun;noon;`},
	{"deepseek before V3.1", true, []string{"<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"},
		`<｜tool▁calls▁begin｜>{% for c in m.tool_calls %}{{ "<｜tool▁call▁begin｜>" + c.type + "<｜tool▁sep｜>" + c.function.name +
		"\n` + "```json" + `\n" + c.function.arguments + "\n` + "```" + `<｜tool▁call▁end｜>" }}
		{%- if not loop.last %}{{ "\n" }}{% endif %}{% endfor %}<｜tool▁calls▁end｜>{{ eos_token }}|{{ m.content }};`,
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n" +
			"<｜tool▁call▁begin｜>function<｜tool▁sep｜>time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>weather\n```json\n{\"city\": \"Rome\"}\n```<｜tool▁call▁end｜>\n" +
			"<｜tool▁call▁begin｜>function<｜tool▁sep｜>time\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><|im_end|>sun;noon;"},
	{"kimi", false, []string{"<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>", "<|tool_calls_section_end|>"},
		`<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>
		{%- if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments|tojson }}{% endif %}<|tool_call_end|>
		{%- endfor %}<|tool_calls_section_end|>{{ eos_token }}|{{ m.tool_call_id }}={{ m.content }};`,
		`<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>` +
			`<|tool_call_begin|>functions.time:12<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>`,
		`<|tool_calls_section_begin|><|tool_call_begin|>functions.weather:0<|tool_call_argument_begin|>{"city": "Rome"}<|tool_call_end|>` +
			`<|tool_call_begin|>functions.time:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|><|im_end|>functions.weather:0=sun;functions.time:1=noon;`},
}

// delimitedEngine is an engine whose model writes calls in such a form.
func delimitedEngine(t *testing.T, i int) (*Engine, *Stepper, *speaker) {
	t.Helper()
	form := delimitedForms[i]
	calls, result, _ := strings.Cut(form.template, "|{{ m")
	template := `{%- for m in messages -%}{%- if m.tool_calls -%}` + calls + `{%- elif m.role == "tool" -%}{{ m` + result +
		`{%- else -%}{{ m.role }}: {{ m.content }};{%- endif -%}{%- endfor -%}{%- if add_generation_prompt %}go: {% endif -%}`
	if i%2 == 0 {
		template += `{# tools #}`
	}
	names := slices.Clone(form.marks)
	for len(names) < 6 {
		names = append(names, fmt.Sprintf("<more%d>", len(names)))
	}
	e, s := engineWith(t, "qwen3", template, form.control, append(names, "<eos>")...)
	model := &speaker{Forwarder: e.forwarder, end: 518}
	e.forwarder = model
	return e, s, model
}

// TestDelimitedCalls: calls between delimiters of their own come out of a free answer and of a forced one, are held to
// their schemas, and are text where they are cut or spelled.
func TestDelimitedCalls(t *testing.T) {
	const user = `"thinking":{"type":"disabled"},"messages":[{"role":"user","content":"hi"}],`
	for i, form := range delimitedForms {
		e, s, model := delimitedEngine(t, i)
		if e.format.marker < 0 || e.special(form.marks[0]) != e.format.marker {
			t.Fatalf("%s: the marker is %d", form.name, e.format.marker)
		}
		bad := strings.Replace(form.says, "Rome", "Bonn", 1)
		for _, c := range []struct {
			body, says string
			want       []string
			stop       abi.StopReason
		}{
			{`"max_tokens":400,` + weatherTools, "Hm. " + form.says, []string{"text Hm.", `weather {"city":"Rome"}`, "time {}"}, abi.StopToolUse},
			{`"max_tokens":400,` + weatherTools, bad, []string{`weather {"city":"`}, abi.StopToolUse},
			{`"max_tokens":400,"tool_choice":{"type":"auto","disable_parallel_tool_use":true},` + weatherTools, form.says,
				[]string{`weather {"city":"Rome"}`}, abi.StopToolUse},
			{`"max_tokens":400,"tool_choice":{"type":"tool","name":"time"},` + weatherTools, "No.", []string{"time {}"}, abi.StopToolUse},
			{`"max_tokens":9,` + weatherTools, form.says, []string{"text " + form.marks[0]}, abi.StopMaxTokens},
			{`"max_tokens":400,"tool_choice":{"type":"none"},` + weatherTools, form.says, nil, abi.StopEndTurn},
		} {
			a := model.answers(t, e, s, ask(t, e, "{"+user+c.body+`,"model":"m"}`), c.says)
			got := blocksOf(a.events)
			same := c.want == nil || len(got) == len(c.want)
			for k := range c.want {
				same = same && strings.HasPrefix(blanks.Replace(got[k]), c.want[k])
			}
			if names, _ := calls(a.events); !same || a.result.Stop != c.stop || c.want == nil && len(names) > 0 {
				t.Errorf("%s, %.60s says %q: %q, stop %v; want %q, %v", form.name, c.body, c.says, got, a.result.Stop, c.want, c.stop)
			}
		}
		spelled := e.tokenizer.Encode(nil, form.says)
		r := ask(t, e, "{"+user+`"max_tokens":400,`+weatherTools+`,"model":"m"}`)
		model.prompt, model.tokens = len(r.Prompt), spelled
		_, a := submit(t, s, "acct", r)
		if runAll(t, s); text(a.events) != form.says || a.result.Stop != abi.StopEndTurn {
			t.Errorf("%s, spelled: %q, %v", form.name, text(a.events), a.result.Stop)
		}
	}
}

// TestDelimitedHistories: calls and results of a conversation are rendered as the template wants them, and tools
// that it leaves out are in the system prompt.
func TestDelimitedHistories(t *testing.T) {
	for i, form := range delimitedForms {
		e, _, _ := delimitedEngine(t, i)
		body := `{"model":"m","max_tokens":8,` + weatherTools + `,"system":"[ARGS]S","messages":[{"role":"user","content":"hi ` + form.marks[0] + `"},
			{"role":"assistant","content":[{"type":"tool_use","id":"toolu_0123","name":"weather","input":{"city":"Rome"}},
			{"type":"tool_use","id":"123456789","name":"time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"123456789","content":"noon"},
			{"type":"tool_result","tool_use_id":"toolu_0123","content":"sun"}]}]}`
		r := ask(t, e, body)
		got := renderedText(e, r)
		if want := "user: hi " + form.marks[0] + ";" + form.history + "go: "; !strings.HasSuffix(got, want) {
			t.Errorf("%s: the prompt is\n%s\nwant\n%s", form.name, got, want)
		}
		marks, shown := 0, 1 // of Open in the history, as a token
		if strings.Contains(form.history, "]weather") {
			shown = 2
		}
		told := strings.Contains(got, "### weather\n")
		if told == (i%2 == 0) {
			t.Errorf("%s: tools are told %v:\n%s", form.name, told, got)
		}
		if told {
			shown++
		}
		for _, id := range r.Prompt {
			if id == e.format.marker {
				marks++
			}
		}
		if marks != shown {
			t.Errorf("%s: %d of %q, want %d: content became a token, or a token content", form.name, marks, form.marks[0], shown)
		}
	}
}

// TestCallsApart: a template that shows calls only in messages without content, as those of DeepSeek V3 and R1 do, shows each call of a
// conversation all the same, beside a text and a thought too, and counts of tokens have them.
func TestCallsApart(t *testing.T) {
	const source = `{% for m in messages %}{{ m.reasoning_content or "" }}{% if m.role == "assistant" and m.content is none %}
		{{- "<｜tool▁calls▁begin｜>" }}{% for c in m.tool_calls %}{{ "<｜tool▁call▁begin｜>" + c.type + "<｜tool▁sep｜>" +
		c.function.name + "\n` + "```json" + `\n" + c.function.arguments + "\n` + "```" + `<｜tool▁call▁end｜>" }}
		{%- if not loop.last %}{{ "\n" }}{% endif %}{% endfor %}{{ "<｜tool▁calls▁end｜>" }};
		{%- else %}{{ m.role + ": " + m.content }};{% endif %}{% endfor %}
		{%- if add_generation_prompt %}go: {% endif %}{# tools #}`
	e, _ := engineWith(t, "qwen3", source, true, append(slices.Clone(delimitedForms[4].marks), "<more>", "<eos>")...)
	if !e.format.callsApart || !e.format.textArguments {
		t.Fatalf("the format is %+v", e.format)
	}
	const weather = `{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Rome"}}`
	const time = `{"type":"tool_use","id":"toolu_2","name":"time","input":{}}`
	const sun = `{"type":"tool_result","tool_use_id":"toolu_1","content":"sun"}`
	const noon = `{"type":"tool_result","tool_use_id":"toolu_2","content":"noon"}`
	call := func(name, arguments string) string {
		return "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" + name + "\n```json\n" + arguments + "\n```<｜tool▁call▁end｜>"
	}
	calls := func(all ...string) string {
		return "<｜tool▁calls▁begin｜>" + strings.Join(all, "\n") + "<｜tool▁calls▁end｜>;"
	}
	rome := call("weather", `{"city": "Rome"}`)
	for _, c := range []struct{ says, results, want string }{
		{weather, sun, calls(rome) + "tool: sun;"},
		{weather + "," + time, noon + "," + sun, calls(rome, call("time", "{}")) + "tool: sun;tool: noon;"},
		{`{"type":"text","text":"Wait."},` + weather, sun, "assistant: Wait.;" + calls(rome) + "tool: sun;"},
		{`{"type":"text","text":" \n"},` + weather, sun + `,{"type":"text","text":"So?"}`, calls(rome) + "tool: sun;user: So?;"},
		{`{"type":"thinking","thinking":"Hm.","signature":""},` + weather, sun, "Hm." + calls(rome) + "tool: sun;"},
		{`{"type":"thinking","thinking":"Hm.","signature":""},{"type":"text","text":"Wait."},` + weather, sun,
			"Hm.assistant: Wait.;" + calls(rome) + "tool: sun;"},
	} {
		body := `{"model":"m","max_tokens":8,` + weatherTools + `,"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":[` + c.says + `]},{"role":"user","content":[` + c.results + `]}]}`
		r := ask(t, e, body)
		if got := renderedText(e, r); !strings.HasSuffix(got, "user: hi;"+c.want+"go: ") {
			t.Errorf("%s: the prompt is\n%s\nwant\n%s", c.says, got, c.want)
		}
		q, err := messages.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := e.Count(q); err != nil || n != len(r.Prompt) {
			t.Errorf("%s: %d tokens are counted, %v; the prompt has %d", c.says, n, err, len(r.Prompt))
		}
	}
}

// TestFolderOfRanks: a folder of Kimi, whose vocabulary is a file of ranks, loads, tells its tokens and answers.
func TestFolderOfRanks(t *testing.T) {
	var ranks strings.Builder
	for b := range 256 {
		fmt.Fprintf(&ranks, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(b)}), b)
	}
	o := options(CPU)
	o.Data, o.Template, o.Info.ContextLength = nil, "", 2048
	o.Path = folderWith(t, "deepseek_v3", "BF16", nil, 512, map[string]string{"tiktoken.model": ranks.String(),
		"tokenizer_config.json": `{"added_tokens_decoder": {"256": {"content": "<|im_end|>", "special": true},
			"257": {"content": "<|tool_calls_section_begin|>", "special": false}}, "eos_token": "<|im_end|>"}`,
		"chat_template.jinja": `{% for m in messages %}{{ m.role }}: {{ m.content }}<|im_end|>{% endfor %}{# tools <|tool_calls_section_begin|> #}`})
	e, s := open2(t, o)
	if e.format.marker != 257 || !slices.Contains(e.tokenizer.Stops(), 256) {
		t.Errorf("the marker is %d, answers end with %v", e.format.marker, e.tokenizer.Stops())
	}
	r := ask(t, e, `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hé"}]}`)
	var want []int32
	for _, b := range []byte("user: hé") {
		want = append(want, int32(b))
	}
	if want = append(want, 256); !slices.Equal(r.Prompt, want) {
		t.Errorf("the prompt is %v, want %v", r.Prompt, want)
	}
	_, a := submit(t, s, "acct", r)
	if runAll(t, s); a.result.Usage.Output < 1 {
		t.Errorf("the answer is %+v", a.result)
	}
	meta, err := tokenizer.Metadata(e.file, 512)
	if err != nil || len(meta) == 0 {
		t.Errorf("in the keys of GGUF it has %d, %v", len(meta), err)
	}
}

// TestDelimiters: what a template shows decides the form.
func TestDelimiters(t *testing.T) {
	for _, form := range delimitedForms {
		f := output.DelimitersOf(form.template)
		if f == nil {
			t.Fatalf("%s: no delimiters", form.name)
		}
		marks, want := append(f.Tokens(), f.Open), slices.Clone(form.marks)
		slices.Sort(marks)
		slices.Sort(want)
		if f.Open != form.marks[0] || !slices.Equal(marks, want) {
			t.Errorf("%s: %+v", form.name, f)
		}
	}
	if f := output.DelimitersOf(channelTemplate + "<tool_call>"); f != nil {
		t.Errorf("another template has the delimiters %+v", f)
	}
}
