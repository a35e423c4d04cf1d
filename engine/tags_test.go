package engine

import (
	"slices"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// thinkTemplate frames turns as templates of Magistral do, in short.
const thinkTemplate = `{%- if messages[0].role != "system" %}Think in [THINK]your thoughts[/THINK].{% endif -%}
{%- if "MODE" == "SETTINGS" %}[MODEL_SETTINGS]{{ reasoning_effort }};{% endif -%}
{%- for m in messages -%}
{%- if m.role == "assistant" -%}
{%- if m.content is string %}{{ m.content }}{% else %}{% for b in m.content -%}
{%- if b.type == "thinking" %}{{ "[THINK]" + b.thinking + "[/THINK]" }}{% else %}{{ b.text }}{% endif -%}
{%- endfor %}{% endif -%}
{%- for c in m.tool_calls or [] %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments|tojson }}{% endfor %}{{ eos_token }}
{%- elif m.role == "tool" %}[TOOL_RESULTS]{{ m.content }};
{%- else %}[INST]{{ m.content }}[/INST]{% endif -%}
{%- endfor -%}{# tools #}`

// thinkEngine is an engine whose model thinks between control tokens.
func thinkEngine(t *testing.T, template string) (*Engine, *Stepper, *speaker) {
	t.Helper()
	e, s := engineWith(t, "qwen3", template, true, "[TOOL_CALLS]", "[ARGS]", "[THINK]", "[/THINK]", "[INST]", "[/INST]", "<eos>")
	model := &speaker{Forwarder: e.forwarder, end: 518}
	e.forwarder = model
	return e, s, model
}

// TestTagPrompts: the prompt opens the thinking that a request wants and shows that of earlier turns, and content that
// spells a tag becomes none.
func TestTagPrompts(t *testing.T) {
	e, _, _ := thinkEngine(t, thinkTemplate)
	const off = `"thinking":{"type":"disabled"},`
	const user = `"model":"m","max_tokens":64,"messages":[{"role":"user","content":"[/THINK]hi"}`
	const thought = `{"type":"thinking","thinking":"hm","signature":""}`
	for body, want := range map[string]string{
		user + `]`:       "[INST][/THINK]hi[/INST][THINK]",
		off + user + `]`: "[INST][/THINK]hi[/INST]",
		user + `,{"role":"assistant","content":[` + thought + `,{"type":"text","text":"So."},{"type":"tool_use","id":"1","name":"time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"late"}]}],` + weatherTools: "[/THINK]hi[/INST]" +
			"[THINK]hm[/THINK]So.[TOOL_CALLS]time[ARGS]{}<|im_end|>[TOOL_RESULTS]late;[THINK]",
		user + `,{"role":"assistant","content":[` + thought + `]},{"role":"user","content":"on"}]`: "hi[/INST][THINK]hm[/THINK]<|im_end|>[INST]on[/INST][THINK]",
		user + `,{"role":"assistant","content":"So"}]`:                                             "hi[/INST]So",
		user + `,{"role":"assistant","content":[` + thought + `,{"type":"text","text":"So"}]}]`:    "hi[/INST][THINK]hm[/THINK]So",
	} {
		r := ask(t, e, "{"+body+"}")
		got := renderedText(e, r)
		if !strings.HasSuffix(got, want) {
			t.Errorf("%s: the prompt ends with\n%s\nwant\n%s", body, got[max(0, len(got)-len(want)-20):], want)
		}
		ends := 0
		for _, id := range r.Prompt {
			if id == e.special("[/THINK]") {
				ends++
			}
		}
		if ends != 1+strings.Count(want, "hm[/THINK]") {
			t.Errorf("%s: %d ends of thinking", body, ends)
		}
		if opens := strings.HasSuffix(want, "[THINK]"); r.Parse.Thinking != opens || !slices.Contains(r.Hidden, e.special("[THINK]")) {
			t.Errorf("%s: thinking is open: %v, hidden are %v", body, r.Parse.Thinking, r.Hidden)
		}
	}
	e, _, _ = thinkEngine(t, strings.Replace(thinkTemplate, "MODE", "SETTINGS", 1))
	for body, want := range map[string]string{user: "high", off + user: "none", `"output_config":{"effort":"low"},` + user: "high"} {
		if got := renderedText(e, ask(t, e, "{"+body+"]}")); !strings.Contains(got, "[MODEL_SETTINGS]"+want+";") {
			t.Errorf("%s: %s", body, got)
		}
	}
}

// TestTagAnswers: thinking ends with its token; what follows, free, a call or JSON, is held to its form.
func TestTagAnswers(t *testing.T) {
	const format = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"type":"string","maxLength":3}},
		"required":["n"],"additionalProperties":false}}},`
	const off = `"thinking":{"type":"disabled"},`
	const call = `[TOOL_CALLS]weather[ARGS]{"city": "Rome"}`
	e, s, model := thinkEngine(t, thinkTemplate)
	for _, c := range []struct {
		body, says string
		want       []string
		stop       abi.StopReason
		thoughts   bool
	}{
		{"", "Hm\n ok. \n[/THINK]\n\nYes[/THINK].", []string{"thinking Hm ok.", "text Yes."}, abi.StopEndTurn, true},
		{"", "[/THINK]Yes.", []string{"text Yes."}, abi.StopEndTurn, true},
		{`"stop_sequences":["es"],`, "es[/THINK]Yes.", []string{"thinking es", "text Y"}, abi.StopStopSequence, true},
		{`"thinking":{"type":"enabled","budget_tokens":1024},`, "Hm.[/THINK]", []string{"thinking Hm."}, abi.StopEndTurn, true},
		{weatherTools + ",", "Hm.[/THINK]So." + call, []string{"thinking Hm.", "text So.", `weather {"city":"Rome"}`}, abi.StopToolUse, true},
		{weatherTools + ",", "Hm." + strings.Replace(call, "Rome", "Bonn", 1), []string{"thinking Hm.", `weather {"city":"`}, abi.StopToolUse, true},
		{weatherTools + `,"tool_choice":{"type":"tool","name":"time"},`, "Hm.[/THINK]No.", []string{"thinking Hm.", "time {}"}, abi.StopToolUse, true},
		{weatherTools + `,"tool_choice":{"type":"any"},`, "Hm.[/THINK]" + call, []string{"thinking Hm.", `weather {"city":"Rome"}`}, abi.StopToolUse, true},
		{weatherTools + `,"tool_choice":{"type":"any"},`, "Hm." + call, []string{"thinking Hm.", `weather {"city":"Rome"}`}, abi.StopToolUse, true},
		{off + weatherTools + `,"tool_choice":{"type":"any"},`, call, []string{`weather {"city":"Rome"}`}, abi.StopToolUse, false},
		{format, "Hm.[/THINK]no", []string{"thinking Hm.", `text {"n":"`}, abi.StopEndTurn, true},
		{format + off, "no", []string{`text {"n":"`}, abi.StopEndTurn, false},
		{off, "Yes[/THINK], so.", []string{"text Yes, so."}, abi.StopEndTurn, false},
		{off, "[/THINK]Yes.", []string{"text Yes."}, abi.StopEndTurn, false},
	} {
		r := ask(t, e, "{"+c.body+`"model":"m","max_tokens":200,"messages":[{"role":"user","content":"hi"}]}`)
		a := model.answers(t, e, s, r, c.says)
		got := blocksOf(a.events)
		if !beginAs(got, c.want) || a.result.Stop != c.stop || c.thoughts != (a.result.Usage.Reasoning > 0) {
			t.Errorf("%s says %q: %q, stop %v, %d tokens of thinking; want %q, %v", c.body, c.says, got, a.result.Stop,
				a.result.Usage.Reasoning, c.want, c.stop)
		}
	}
}

// TestSelfThinkingAnswers: of a model that opens its thinking itself, an answer in JSON may think first, where the request does not
// switch that off and nothing of the answer is there; a call that is forced is made at once, as in channels.
func TestSelfThinkingAnswers(t *testing.T) {
	const format = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"enum":[7]}},
		"required":["n"],"additionalProperties":false}}},`
	const off = `"thinking":{"type":"disabled"},`
	const begins = `,{"role":"assistant","content":"So:"}`
	const thinks = `,{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"\n"}]}`
	const call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Rome\"}}\n</tool_call>"
	for i := range 4 {
		marked, control := []string{"<tool_call>", "<other>"}[i%2], i > 1 // with a token that begins calls or without; control tokens or not
		e, s := engineWith(t, "qwen3", selfThinking, control, "<think>", "</think>", marked)
		model := &speaker{Forwarder: e.forwarder, end: e.tokenizer.Stops()[0]}
		e.forwarder = model
		for _, c := range []struct {
			body, last, says string
			want             []string
			stop             abi.StopReason
			thoughts         bool
		}{
			{"", "", "<think>\nHm.\n</think>\n\nYes.", []string{"thinking Hm.", "text Yes."}, abi.StopEndTurn, true},
			{"", "", "Yes. <think>", []string{"text Yes."}, abi.StopEndTurn, false},
			{"", begins, "<think>\nHm.", []string{"text "}, abi.StopEndTurn, false},
			{format, "", "<think>\nHm.\n</think>\n\nno", []string{"thinking Hm.", `text {"n":7}`}, abi.StopEndTurn, true},
			{format, "", "<think>\nHm.", []string{"thinking Hm.", `text {"n":7}`}, abi.StopEndTurn, true}, // it wants to end
			{format, "", `{"n":7}`, []string{`text {"n":7}`}, abi.StopEndTurn, false},
			{format, "", "", []string{`text {"n":7}`}, abi.StopEndTurn, false},
			{format + off, "", "<think>\nHm.", []string{`text {"n":7}`}, abi.StopEndTurn, false},
			{format, begins, "<think>\nHm.", []string{`text {"n":7}`}, abi.StopEndTurn, false},
			{format, thinks, "<think>\nHm.", []string{`text {"n":7}`}, abi.StopEndTurn, false},
			{format + weatherTools + ",", "", "<think>\nHm.\n</think>\n\n" + call, []string{"thinking Hm.", `weather {"city":"Rome"}`}, abi.StopToolUse, true},
			{format + weatherTools + ",", "", "<think>\nHm.\n" + call, []string{"thinking Hm.", `weather {"city":"Rome"}`}, abi.StopToolUse, true},
			{format + weatherTools + ",", "", "<think>\nHm.\n</think>\n\n{", []string{"thinking Hm.", `text {"n":7}`}, abi.StopEndTurn, true},
			{format + weatherTools + ",", "", call, []string{`weather {"city":"Rome"}`}, abi.StopToolUse, false},
			{weatherTools + `,"tool_choice":{"type":"tool","name":"time"},`, "", "<think>\nHm.", []string{"time {}"}, abi.StopToolUse, false},
		} {
			if marked == "<other>" && strings.Contains(c.says, "Hm.\n"+call) {
				continue // spelled out in a thought, it is of the thought
			}
			r := ask(t, e, "{"+c.body+`"model":"m","max_tokens":200,"messages":[{"role":"user","content":"hi"}`+c.last+`]}`)
			a := model.answers(t, e, s, r, c.says)
			got := blocksOf(a.events)
			if !beginAs(got, c.want) || a.result.Stop != c.stop || c.thoughts != (a.result.Usage.Reasoning > 0) {
				t.Errorf("%s, control %v: %s%s says %q: %q, stop %v, %d tokens of thinking; want %q, %v", marked, control, c.body, c.last, c.says, got, a.result.Stop,
					a.result.Usage.Reasoning, c.want, c.stop)
			}
		}
	}
}
