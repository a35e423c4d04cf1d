package engine

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"corenode/engine/messages"
	"corenode/engine/template"
	"corenode/wasm/abi"
)

// equalConversations are ways to write one conversation each: messages is what
// stands before the closing bracket of a body.
var equalConversations = map[string][]string{
	"system": {
		`"system":"be brief\nbe kind","messages":[{"role":"user","content":"hi"}]`,
		`"system":[{"type":"text","text":"be brief"},{"type":"text","text":"be kind"}],"messages":[{"role":"user","content":"hi"}]`,
		`"messages":[{"role":"system","content":"be brief\nbe kind"},{"role":"user","content":"hi"}]`,
		`"messages":[{"role":"system","content":"be brief"},{"role":"system","content":[{"type":"text","text":"be kind"}]},{"role":"user","content":[{"type":"text","text":"hi"}]}]`,
		`"system":"be brief","messages":[{"role":"system","content":"be kind"},{"role":"user","content":"hi"}]`,
	},
	"no system": {
		`"messages":[{"role":"user","content":"hi"}]`,
		`"system":"","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]`,
		`"system":[],"messages":[{"role":"user","content":"hi"}]`,
		`"messages":[{"role":"system","content":""},{"role":"user","content":"hi"}]`,
	},
	"text blocks": {
		`"messages":[{"role":"user","content":"a\nb"},{"role":"assistant","content":"c\nd"},{"role":"user","content":"e"}]`,
		`"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},{"role":"assistant","content":[{"type":"text","text":"c"},{"type":"text","text":"d"}]},{"role":"user","content":"e"}]`,
	},
	"tool results": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[CALL1,CALL2,CALL3]},
			{"role":"user","content":[RESULT1,RESULT2,RESULT3]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":""},CALL1,CALL2,CALL3]},
			{"role":"user","content":[RESULT3,RESULT1,RESULT2]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[CALL1,CALL2,CALL3]},
			{"role":"user","content":[RESULT1]},{"role":"user","content":[RESULT2]},{"role":"user","content":[RESULT3]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[CALL1,CALL2,CALL3]},
			{"role":"user","content":[RESULT2]},{"role":"user","content":[RESULT3]},{"role":"user","content":[RESULT1]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[CALL1]},{"role":"assistant","content":[CALL2]},{"role":"assistant","content":[CALL3]},
			{"role":"user","content":[RESULT2]},{"role":"user","content":[RESULT3,RESULT1]}]`,
	},
	"results and a question": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Looking."},CALL1,CALL2]},
			{"role":"user","content":[RESULT1,RESULT2,{"type":"text","text":"and?"}]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Looking."},{"role":"assistant","content":[CALL1,CALL2]},
			{"role":"user","content":[RESULT2]},{"role":"user","content":[RESULT1]},{"role":"user","content":"and?"}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"text","text":"Looking."},CALL1,CALL2]},
			{"role":"user","content":[RESULT2]},{"role":"user","content":[{"type":"text","text":"and?"},RESULT1]}]`,
	},
	"thinking": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"},CALL1]},{"role":"user","content":[RESULT1]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"bm9uZQ=="}]},{"role":"assistant","content":"so"},{"role":"assistant","content":[CALL1]},{"role":"user","content":[RESULT1]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"SIGNATURE"},{"type":"text","text":"so"},CALL1]},{"role":"user","content":[RESULT1]}]`,
	},
	"system in the middle": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"mind"},{"role":"user","content":"and?"}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"system","content":"mind"},{"role":"user","content":"and?"}]`,
	},
	"system without words": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},CALL1]},{"role":"user","content":[RESULT1]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},CALL1]},{"role":"user","content":[RESULT1]},
			{"role":"system","content":[],"output_config":{"effort":"low"}}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"system","output_config":{"effort":"low"}},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},CALL1]},
			{"role":"system","content":null},{"role":"user","content":[RESULT1]},{"role":"system","content":""},{"role":"system","content":[{"type":"text","text":""}]}]`,
		`"messages":[{"role":"system","content":[]},{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},CALL1]},{"role":"user","content":[RESULT1]}]`,
	},
	"system for a turn that is over": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[CALL1]},{"role":"user","content":[RESULT1]},{"role":"system","content":"mind"}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"system","content":"mind","clear_at":"next_user_message"},{"role":"assistant","content":[CALL1]},
			{"role":"user","content":[RESULT1]},{"clear_at":"next_user_message","role":"system","content":[{"type":"text","text":"mind"}]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"system","content":"a","clear_at":"next_user_message"},{"role":"system","content":"b","clear_at":"next_user_message"},
			{"role":"assistant","content":[CALL1]},{"role":"user","content":[RESULT1]},{"role":"system","content":"mind","clear_at":"never"}]`,
	},
	"an answer begun": {
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"}]}]`,
		`"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"}]},{"role":"assistant","content":"so"}]`,
	},
}

// conversationBody completes one of equalConversations.
func conversationBody(s string) string {
	valid := signature(Signer{[]byte("secret"), "acct", "m"}, "hm")
	pairs := []string{"SIGNATURE", base64.StdEncoding.EncodeToString(valid)}
	for _, n := range []string{"1", "2", "3"} {
		pairs = append(pairs, "CALL"+n, `{"type":"tool_use","id":"call_`+n+`","name":"f","input":{"a":`+n+`}}`,
			"RESULT"+n, `{"type":"tool_result","tool_use_id":"call_`+n+`","content":"result `+n+`"}`)
	}
	return `{"model":"m","max_tokens":5,"tools":[{"name":"f","input_schema":{"type":"object","properties":{"a":{"type":"integer"}}}}],` +
		strings.NewReplacer(pairs...).Replace(s) + `}`
}

// groupingTemplate puts neighboring tool results into one turn, as many do.
const groupingTemplate = `{% for m in messages %}{% if m.role == 'tool' %}{% if loop.first or messages[loop.index0 - 1].role != 'tool' %}<|im_start|>user{% endif %}[{{ m.content }}]{% if loop.last or messages[loop.index0 + 1].role != 'tool' %}<|im_end|>{% endif %}{% else %}<|im_start|>{{ m.role }}
{{ m.reasoning_content }}{{ m.content }}{{ m.tool_calls|tojson if m.tool_calls }}<|im_end|>{% endif %}
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}`

// chatTemplates are the built-in one, one for this test, and those of other
// people's models where they are at hand.
func chatTemplates(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{"builtin": template.Builtin, "grouping": groupingTemplate}
	shared := os.Getenv("CORENODE_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	paths, _ := filepath.Glob(filepath.Join(shared, "data", "templates", "*.jinja"))
	if len(paths) == 0 {
		t.Logf("no templates under %s: only our own are tested", shared)
	}
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(p)] = string(b)
	}
	return out
}

// TestEqualConversationsAreEqualPrompts: however a protocol writes a
// conversation, it is the same prompt, so the same bill, and the same session.
func TestEqualConversationsAreEqualPrompts(t *testing.T) {
	for name, source := range chatTemplates(t) {
		t.Run(name, func(t *testing.T) {
			o := options(Instant)
			o.Template = source
			e, _ := open2(t, o)
			for name, forms := range equalConversations {
				first := ask(t, e, conversationBody(forms[0]))
				for _, form := range forms[1:] {
					got := ask(t, e, conversationBody(form))
					if !slices.Equal(got.Prompt, first.Prompt) {
						t.Errorf("%s: %s\nis the prompt %q\nwant %q", name, form, promptText(e, got), promptText(e, first))
					}
					if got.Conversation != first.Conversation {
						t.Errorf("%s: %s\nis another conversation", name, form)
					}
				}
			}
		})
	}
}

func promptText(e *Engine, r *Request) (s string) {
	for _, id := range r.Prompt {
		s += e.tokenizer.Text(id)
	}
	return plainText(s)
}

// TestTurnsThatStayApart: what merging would change is left as it is.
func TestTurnsThatStayApart(t *testing.T) {
	for name, body := range map[string]string{
		"questions":         `"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]`,
		"answers":           `"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"assistant","content":"c"}]`,
		"call, then text":   `"messages":[{"role":"assistant","content":[CALL1]},{"role":"assistant","content":"c"}]`,
		"text, then think":  `"messages":[{"role":"assistant","content":"c"},{"role":"assistant","content":[{"type":"thinking","thinking":"t"}]}]`,
		"empty answers":     `"messages":[{"role":"assistant","content":""},{"role":"assistant","content":[]},{"role":"assistant","content":[CALL1]}]`,
		"result, text":      `"messages":[{"role":"user","content":[RESULT1]},{"role":"user","content":"a"}]`,
		"result, text, res": `"messages":[{"role":"user","content":[RESULT1,{"type":"text","text":"a"}]},{"role":"user","content":[RESULT2]}]`,
		"system between":    `"messages":[{"role":"user","content":[RESULT1]},{"role":"system","content":"a"},{"role":"user","content":[RESULT2]}]`,
	} {
		q, err := messages.Parse([]byte(conversationBody(body)))
		if err != nil {
			t.Fatal(name, err)
		}
		if got := messages.MergeTurns(q.Messages); len(got) != len(q.Messages) {
			t.Errorf("%s: %d messages became %d", name, len(q.Messages), len(got))
		}
	}
}

// TestMergingKeepsTheRequest: Prepare may be called twice with one request.
func TestMergingKeepsTheRequest(t *testing.T) {
	e, _ := open2(t, options(Instant))
	for name, forms := range equalConversations {
		for _, form := range forms {
			q, err := messages.Parse([]byte(conversationBody(form)))
			if err != nil {
				t.Fatal(name, err)
			}
			first, err := e.Prepare("acct", q)
			if err != nil {
				t.Fatal(name, err)
			}
			if again, err := e.Prepare("acct", q); err != nil || !slices.Equal(again.Prompt, first.Prompt) {
				t.Errorf("%s: prepared again, another prompt (%v)", name, err)
			}
		}
	}
}

// TestMergingIsLinear: a body of many small pieces of one turn costs about what
// its blocks take, not that for every piece.
func TestMergingIsLinear(t *testing.T) {
	const n = 5000
	pieces := map[string]messages.Block{"user": {Type: messages.ToolResult, ID: "a"}, "assistant": {Type: messages.ToolUse, ID: "a", Name: "f"}}
	for role, block := range pieces {
		msgs := make([]messages.Message, n)
		for i := range msgs {
			msgs[i] = messages.Message{Role: role, Blocks: []messages.Block{block}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := messages.MergeTurns(msgs)
		runtime.ReadMemStats(&after)
		if len(got) != 1 || len(got[0].Blocks) != n {
			t.Fatalf("%s: %d messages, the first of %d blocks", role, len(got), len(got[0].Blocks))
		}
		if used, size := after.TotalAlloc-before.TotalAlloc, uint64(n)*uint64(unsafe.Sizeof(block)); used > 20*size {
			t.Errorf("%s: merging %d bytes of blocks allocated %d", role, size, used)
		}
	}
}

// TestTemplateErrors: what a conversation makes a template do is its client's
// error; a template that is broken is ours.
func TestTemplateErrors(t *testing.T) {
	raises := options(CPU)
	raises.Template = `{{ raise_exception('no turns') }}`
	loops := options(CPU)
	loops.Template = `{% for m in messages %}{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}{% endfor %}`
	broken := options(CPU)
	broken.Template = `{{ 1 / 0 }}`
	cases := []struct {
		name string
		o    Options
		want abi.Kind
	}{{"raises", raises, abi.InvalidRequest}, {"over a limit", loops, abi.InvalidRequest}, {"broken", broken, abi.Internal}}
	for _, c := range cases {
		e, _ := open2(t, c.o)
		q, err := messages.Parse([]byte(`{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Prepare("acct", q); err == nil || abi.KindOf(err) != c.want {
			t.Errorf("%s: %v, want an error of kind %v", c.name, err, c.want)
		}
	}
}

// strictTemplate takes user and assistant in turns, without what is of tools, as those of Mistral do.
const strictTemplate = `{% set ns = namespace(user=true) %}{% for m in messages %}{% if m.role == "user" or m.role == "assistant" and not m.tool_calls %}
	{%- if (m.role == "user") != ns.user %}{{ raise_exception("take turns") }}{% endif %}{% set ns.user = not ns.user %}{% endif %}
	{%- if m.tool_calls %}{% for c in m.tool_calls %}[CALL]{{ c.function.name }}{{ c.function.arguments|tojson }};{% endfor %}
	{%- else %}{{ m.role }}: {{ m.content }};{% endif %}{% endfor %}{% if tools %}{% endif %}go:{# <tool_call> #}`

// bareTemplate knows user and assistant alone.
const bareTemplate = `{% for m in messages %}{% if m.role not in ["user", "assistant"] %}{{ raise_exception("no " + m.role) }}{% endif %}
	{{- m.role }}: {{ m.content }};{% endfor %}go:`

// ownFormTemplate shows tools and calls in a form of its own, one call for a message and no text beside it, as those of Llama 3 do.
const ownFormTemplate = `{% if tools %}Write {"name": NAME, "parameters": ARGUMENTS}.{{ tools|tojson }};{% endif %}{% for m in messages %}{% if m.tool_calls %}
	{%- if m.tool_calls|length != 1 %}{{ raise_exception("one call") }}{% endif %}{"name": "{{ m.tool_calls[0].function.name }}", "parameters":
	{{- m.tool_calls[0].function.arguments|tojson }}};{% else %}{{ m.role }}: {{ m.content }};{% endif %}{% endfor %}go:`

// TestCallsOfAnotherForm: a model whose template shows calls in a form that nobody reads is told the usual one, its history has
// all calls and texts in it, and a call that it makes comes out.
func TestCallsOfAnotherForm(t *testing.T) {
	e, s := engineWith(t, "qwen3", ownFormTemplate, true, "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<eos>")
	model := &speaker{Forwarder: e.forwarder, end: 518}
	e.forwarder = model
	const call = "<tool_call>\n{\"name\": \"%s\", \"arguments\": %s}\n</tool_call>"
	rome, noon := fmt.Sprintf(call, "weather", `{"city": "Rome"}`), fmt.Sprintf(call, "time", "{}")
	r := ask(t, e, `{"model":"m","max_tokens":400,`+weatherTools+`,"system":"S","messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":[{"type":"text","text":"Wait."},{"type":"tool_use","id":"a","name":"weather","input":{"city":"Rome"}},
		{"type":"tool_use","id":"b","name":"time","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"sun"},
		{"type":"tool_result","tool_use_id":"b","content":"noon"}]}]}`)
	got := renderedText(e, r)
	want := fmt.Sprintf(call, "NAME", "ARGUMENTS") + ";user: hi;assistant: Wait.\n\n" + rome + "\n\n" + noon +
		";user: <tool_response>\nsun\n</tool_response>;user: <tool_response>\nnoon\n</tool_response>;go:"
	if !strings.HasPrefix(got, "system: S\n\n## Tools\n") || !strings.HasSuffix(got, want) {
		t.Errorf("the prompt is\n%s\nwhich does not end with\n%s", got, want)
	}
	a := model.answers(t, e, s, r, rome+"\n"+noon)
	if got := blocksOf(a.events); !beginAs(got, []string{`weather {"city":"Rome"}`, "time {}"}) || a.result.Stop != abi.StopToolUse {
		t.Errorf("the answer is %q, stop %v", got, a.result.Stop)
	}
}

// TestTurnsOfStrictTemplates: a conversation that agents have, such as a reminder in front of a question, a note of the system behind
// it, or words beside a result, is one that a template takes which wants user and assistant in turns; one that takes them as they
// are gets them so. Calls and results are text where a template knows none.
func TestTurnsOfStrictTemplates(t *testing.T) {
	gemma, err := os.ReadFile("testdata/gemma3/chat.jinja")
	if err != nil {
		t.Fatal(err)
	}
	const call = `{"role":"assistant","content":[{"type":"text","text":"Wait."},{"type":"tool_use","id":"a","name":"weather","input":{"city":"Rome"}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"sun"}`
	const spelled = "Wait.\n\n<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	longIDs := strings.Replace(strictTemplate, "[CALL]", `{% if c.id|length < 9 %}{{ raise_exception("a short id") }}{% endif %}[TOOL_CALLS]`, 1)
	const two, noted = `{"role":"user","content":"one"},{"role":"user","content":"two"}`, `{"role":"user","content":"one"},{"role":"system","content":"two"}`
	for _, c := range []struct{ template, system, messages, want string }{
		{strictTemplate, "", two, "user: one\n\ntwo;go:"},
		{strictTemplate, "", noted, "user: one\n\ntwo;go:"},
		{strictTemplate, "", two + "," + call + `]}`, `user: one\n\ntwo;[CALL]weather{"city": "Rome"};tool: sun;go:`},
		{strictTemplate, "", two + "," + call + `,{"type":"text","text":"So?"}]}`, `user: one\n\ntwo;[CALL]weather{"city": "Rome"};tool: sun\n\nSo?;go:`},
		{longIDs, "", two + "," + call + `,{"type":"text","text":"So?"}]}`, `user: one\n\ntwo;[TOOL_CALLS]weather{"city": "Rome"};tool: sun\n\nSo?;go:`},
		{bareTemplate, "S", two, "user: S\n\none;user: two;go:"},
		{bareTemplate, "", two + "," + call + `]}`, "user: one;user: two;assistant: " + spelled + ";user: <tool_response>\nsun\n</tool_response>;go:"},
		{string(gemma), "S", two + "," + call + `,{"type":"text","text":"So?"}]}`, "<start_of_turn>user\nS\n\none\n\ntwo<end_of_turn>\n<start_of_turn>model\n" + spelled +
			"<end_of_turn>\n<start_of_turn>user\n<tool_response>\nsun\n</tool_response>\n\nSo?<end_of_turn>\n<start_of_turn>model\n"},
	} {
		e, _ := engineWith(t, "qwen3", c.template, true)
		body := `{"model":"m","max_tokens":8,"system":"` + c.system + `","messages":[` + c.messages + `]}`
		want := strings.ReplaceAll(c.want, `\n`, "\n")
		if got := renderedText(e, ask(t, e, body)); got != want {
			t.Errorf("%.60s: the prompt is\n%s\nwant\n%s", c.template, got, want)
		}
	}
}

// TestToolsOfATemplateWithoutTools: tools that a template leaves out are told, whatever the form of calls.
func TestToolsOfATemplateWithoutTools(t *testing.T) {
	e, _ := engineWith(t, "qwen3", bareTemplate, true)
	got := renderedText(e, ask(t, e, `{"model":"m","max_tokens":8,`+weatherTools+`,"messages":[{"role":"user","content":"hi"}]}`))
	for _, want := range []string{"user: ## Tools\n", "### weather\n", `"city"`, "<tool_call>\n{\"name\": \"NAME\", \"arguments\": ARGUMENTS}\n</tool_call>\n\nhi;go:"} {
		if !strings.Contains(got, want) {
			t.Errorf("the prompt lacks %q:\n%s", want, got)
		}
	}
	if got := renderedText(e, ask(t, e, `{"model":"m","max_tokens":8,`+weatherTools+`,"tool_choice":{"type":"none"},"messages":[{"role":"user","content":"hi"}]}`)); got != "user: hi;go:" {
		t.Errorf("without a choice: %q", got)
	}
}

// taggedTemplate shows arguments in tags, those that are no strings as FILTER writes them.
const taggedTemplate = `{% for m in messages %}{{ m.role }}: {{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
<function={{ c.function.name }}>
{% for k, v in c.function.arguments|items %}<parameter={{ k }}>
{{ v|FILTER }}
</parameter>
{% endfor %}</function>
</tool_call>{% endfor %};{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}{# tools #}`

// TestWordsOfTaggedCalls: a model writes true as its template shows it, so the prompt of the next turn begins with that of the call
// and the call as it was written.
func TestWordsOfTaggedCalls(t *testing.T) {
	const tools = `"tools":[{"name":"f","input_schema":{"type":"object","properties":{"x":{"type":"boolean"},"y":{"type":["integer","null"]}},
		"required":["x","y"],"additionalProperties":false}}]`
	for filter, capital := range map[string]bool{"string": true, "tojson": false} {
		e, s := engineWith(t, "qwen3", strings.ReplaceAll(taggedTemplate, "FILTER", filter), true, "<1>", "<2>", "<3>", "<4>", "<5>", "<6>", "<eos>")
		model := &speaker{Forwarder: e.forwarder, end: 518}
		e.forwarder = model
		body := `{"model":"m","max_tokens":400,"thinking":{"type":"disabled"},` + tools + `,"messages":[{"role":"user","content":"hi"}%s]}`
		r := ask(t, e, fmt.Sprintf(body, ""))
		words := strings.NewReplacer("true", "True", "null", "None")
		says := "<tool_call>\n<function=f>\n<parameter=x>\ntrue\n</parameter>\n<parameter=y>\nnull\n</parameter>\n</function>\n</tool_call>"
		if capital {
			says = words.Replace(says)
		}
		a := model.answers(t, e, s, r, says)
		if got := blocksOf(a.events); !slices.Equal(got, []string{`f {"x":true,"y":null}`}) {
			t.Fatalf("%s: %q", filter, got)
		}
		next := ask(t, e, fmt.Sprintf(body, `,{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{"x":true,"y":null}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"a","content":"b"}]}`))
		if got, want := renderedText(e, next), renderedText(e, r)+says; !strings.HasPrefix(got, want) {
			t.Errorf("%s: the next prompt is\n%s\nwhich does not begin with\n%s", filter, got, want)
		}
	}
}
