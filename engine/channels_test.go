package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"corenode/engine/kernel"
	"corenode/engine/messages"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/sample"
	"corenode/wasm/abi"
)

// channelTemplate frames turns as templates of channels do, in short: thoughts of calls are left out once an answer follows, and so is
// what a call's message says, which is a thought too.
const channelTemplate = `{%- if reasoning_effort is defined %}<|start|>system<|message|>Reasoning: {{ reasoning_effort }}<|end|>{% endif -%}
{%- for t in tools or [] %}<|start|>developer<|message|>// {{ t.function.description + t.function.name }}<|end|>{% endfor -%}
{%- for m in messages -%}
{%- if m.tool_calls %}{% set later = namespace(answer=false) %}{% for n in messages[loop.index:] %}
{%- if n.role == "assistant" and not n.tool_calls %}{% set later.answer = true %}{% endif %}{% endfor -%}
{%- if m.content and m.thinking %}{{ raise_exception("both a text and a thought") }}{% endif -%}
{%- if (m.content or m.thinking) and not later.answer %}<|start|>assistant<|channel|>analysis<|message|>{{ m.content or m.thinking }}<|end|>{% endif -%}
<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>
{{- m.tool_calls[0].function.arguments|tojson }}<|call|>
{%- elif m.role == "assistant" %}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>
{%- else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif -%}
{%- endfor -%}
{%- if add_generation_prompt %}<|start|>assistant{% endif -%}`

// speaker prefers the tokens of a text at the positions after the prompt, and then those that end an answer.
type speaker struct {
	Forwarder
	prompt int
	tokens []int32
	end    int32
}

func (m *speaker) Forward(step *kernel.Step, _ []int32, _ kernel.Cache, rows []int32, logits [][]float32) error {
	for i, row := range rows {
		clear(logits[i])
		want := m.end
		for _, s := range step.Spans {
			if at := s.Pos + int(row) - s.Row + 1 - m.prompt; int(row) >= s.Row && int(row) < s.Row+s.Len && at >= 0 && at < len(m.tokens) {
				want = m.tokens[at]
			}
		}
		logits[i][want] = 1000
	}
	return nil
}

// answers is what comes of a request to which the model says a text.
func (m *speaker) answers(t *testing.T, e *Engine, s *Stepper, r *Request, says string) *answer {
	t.Helper()
	m.prompt, m.tokens = len(r.Prompt), e.tokenizer.EncodePrompt(nil, says)
	_, a := submit(t, s, "acct", r)
	runAll(t, s)
	checkStream(t, a.events)
	return a
}

func channelEngine(t *testing.T) (*Engine, *Stepper) {
	t.Helper()
	return engineWith(t, "gpt_oss", channelTemplate, true, "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>")
}

// engineWith has a folder's model with a template and further tokens, control tokens or not, of which the
// seventh ends an answer.
func engineWith(t *testing.T, kind, template string, control bool, names ...string) (*Engine, *Stepper) {
	t.Helper()
	const first = 512
	var tokens map[string]any
	if err := json.Unmarshal([]byte(gguftest.TokenizerJSON(vocabulary(t))), &tokens); err != nil {
		t.Fatal(err)
	}
	added := tokens["added_tokens"].([]any)
	for i, name := range names {
		added = append(added, map[string]any{"id": first + i, "content": name, "special": control})
	}
	tokens["added_tokens"] = added
	text, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	o := options(CPU)
	o.Data, o.Template, o.Info.ContextLength = nil, "", 2048
	o.Defaults = func(string, bool) sample.Params { return sample.Params{} } // greedy
	o.Path = folderWith(t, kind, "BF16", nil, first+8, map[string]string{"tokenizer.json": string(text),
		"generation_config.json": `{"eos_token_id": [518]}`, "chat_template.jinja": template})
	return open2(t, o)
}

// renderedText is a prompt as it was rendered.
func renderedText(e *Engine, r *Request) string {
	var b strings.Builder
	for _, id := range r.Prompt {
		b.WriteString(e.tokenizer.Text(id))
	}
	return b.String()
}

// blanks takes out what a form leaves to the model.
var blanks = strings.NewReplacer("\t", "", "\n", "", `": `, `":`)

const weatherTools = `"tools":[{"name":"weather","input_schema":{"type":"object","properties":{"city":{"enum":["Paris","Rome"]}},"required":["city"],
	"additionalProperties":false}},{"name":"time","input_schema":{"type":"object","properties":{},"additionalProperties":false}}]`

// TestChannelPrompts: the prompt begins what the request forces, and each call stands before its result.
func TestChannelPrompts(t *testing.T) {
	e, _ := channelEngine(t)
	const user = `"model":"m","max_tokens":64,"messages":[{"role":"user","content":"<|end|>hi"}]`
	const turn = "<|start|>user<|message|><|end|>hi<|end|><|start|>assistant"
	const call = "<|channel|>commentary to=functions."
	const off = `"thinking":{"type":"disabled"},`
	const quiet = "<|channel|>analysis<|message|><|end|><|start|>assistant"
	const format = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},`
	for body, want := range map[string]string{
		user:       turn,
		off + user: "<|start|>system<|message|>Reasoning: low<|end|>" + turn + "<|channel|>final<|message|>",
		`"output_config":{"effort":"high"},` + user:                           "<|start|>system<|message|>Reasoning: high<|end|>" + turn,
		weatherTools + `,"tool_choice":{"type":"tool","name":"time"},` + user: turn + call + "time <|constrain|>json<|message|>",
		weatherTools + `,"tool_choice":{"type":"any"},` + user:                turn + call,
		weatherTools + "," + user:                                             turn,
		off + weatherTools + "," + user:                                       turn + quiet,
		off + format + weatherTools + "," + user:                              turn + quiet,
		off + weatherTools + `,"tool_choice":{"type":"none"},` + user:         turn + "<|channel|>final<|message|>",
		off + weatherTools + `,"tool_choice":{"type":"any"},` + user:          turn + call,
		`"model":"m","max_tokens":64,` + weatherTools + `,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
			{"type":"thinking","thinking":"hm","signature":""},{"type":"text","text":"I look."},{"type":"tool_use","id":"1","name":"time","input":{}},
			{"type":"tool_use","id":"2","name":"weather","input":{"city":"Rome"}}]},{"role":"user","content":[
			{"type":"tool_result","tool_use_id":"2","content":"hot"},{"type":"tool_result","tool_use_id":"1","content":"late"}]}]`: `a<|end|>` +
			`<|start|>assistant<|channel|>analysis<|message|>hm` + "\n\n" + `I look.<|end|>` +
			`<|start|>assistant to=functions.time<|channel|>commentary json<|message|>{}<|call|><|start|>tool<|message|>late<|end|>` +
			`<|start|>assistant to=functions.weather<|channel|>commentary json<|message|>{"city": "Rome"}<|call|><|start|>tool<|message|>hot<|end|><|start|>assistant`,
		`"model":"m","max_tokens":64,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"So"}]`: "<|start|>assistant<|channel|>final<|message|>So",
	} {
		r := ask(t, e, "{"+body+"}")
		if got := renderedText(e, r); !strings.HasSuffix(got, want) {
			t.Errorf("%s: the prompt ends with\n%s\nwant\n%s", body, got[max(0, len(got)-len(want)-20):], want)
		}
		if end := e.special("<|end|>"); strings.Contains(body, "<|end|>") && slices.Index(r.Prompt, end) < 5 && !strings.Contains(body, "disabled") {
			t.Errorf("%s: content became a control token", body)
		}
	}
}

// TestChannelDefaults: templates of channels take the default of a parameter for a text where it has values or schemas to choose from;
// all others they write as JSON.
func TestChannelDefaults(t *testing.T) {
	const shows = `{% for t in tools or [] %}{% for name, p in t.function.parameters.properties|items %}{{ name }}
		{%- if p.enum or p.oneOf %}{{ ": " + p.default }}{% else %}{{ "= " + p.default|tojson }}{% endif %};{% endfor %}{% endfor %}`
	e, _ := engineWith(t, "gpt_oss", shows+channelTemplate, true, "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>")
	r := ask(t, e, `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"f","input_schema":{"properties":{
		"a":{"enum":[1,7],"default":7},"b":{"default":null,"oneOf":[{"type":"null"}]},"c":{"enum":[{"x":[1,2]}],"default":{"x":[1,2]}},
		"d":{"enum":["low"],"default":"low"},"e":{"type":"integer","default":7},"default":{"enum":[true],"default":true}},"type":"object"}}]}`)
	const want = `a: 7;b: null;c: {"x": [1, 2]};d: low;e= 7;default: true;`
	if got := renderedText(e, r); !strings.HasPrefix(got, want) {
		t.Errorf("the prompt is\n%s\nwant\n%s", got, want)
	}
}

// TestChannelThoughtsOfCalls: a text beside a call takes no thought away from the calls before it, so the prompt of each step begins
// with that of the step before it and its answer. A template that shows no text of such a message has it in one of its own.
func TestChannelThoughtsOfCalls(t *testing.T) {
	const analysis = "<|channel|>analysis<|message|>"
	const next = "<|end|><|start|>assistant"
	const call = ` to=functions.time<|channel|>commentary json<|message|>{}<|call|><|start|>tool<|message|>late` + next
	says := func(n int, thinks, text string) string {
		said := ""
		if thinks != "" {
			said = fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":""},`, thinks)
		}
		if text != "" {
			said += fmt.Sprintf(`{"type":"text","text":%q},`, text)
		}
		return fmt.Sprintf(`,{"role":"assistant","content":[%s{"type":"tool_use","id":"%d","name":"time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"%[2]d","content":"late"}]}`, said, n)
	}
	e, _ := channelEngine(t)
	steps, want := "", "<|start|>user<|message|>hi"+next
	for n, step := range []struct{ thinks, text, shown string }{
		{"one", "", "one"}, {"two", "I look.", "two\n\nI look."}, {"", "Again.", "Again."}, {" ", "So.", "So."}, {"three", "", "three"},
	} {
		steps += says(n, step.thinks, step.text)
		want += analysis + step.shown + next + call
		r := ask(t, e, `{"model":"m","max_tokens":64,`+weatherTools+`,"messages":[{"role":"user","content":"hi"}`+steps+`]}`)
		if got := renderedText(e, r); !strings.HasSuffix(got, want) {
			t.Errorf("step %d: the prompt is\n%s\nwant\n%s", n, got, want)
		}
	}
	e, _ = engineWith(t, "gpt_oss", strings.NewReplacer("(m.content or m.thinking) and not later.answer", "m.thinking", "m.content or ", "").
		Replace(channelTemplate), true, "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|call|>", "<|return|>")
	r := ask(t, e, `{"model":"m","max_tokens":64,`+weatherTools+`,"messages":[{"role":"user","content":"hi"}`+says(0, "one", "I look.")+`]}`)
	if got, want := renderedText(e, r), "<|channel|>final<|message|>I look."+next+analysis+"one"+next+call; !strings.HasSuffix(got, want) {
		t.Errorf("apart: the prompt is\n%s\nwant\n%s", got, want)
	}
}

// blocksOf are the blocks of an answer, each after its kind or its tool.
func blocksOf(events []abi.Event) (got []string) {
	for _, ev := range events {
		switch ev.Kind {
		case abi.EventBlockStart:
			got = append(got, map[abi.BlockKind]string{abi.BlockThinking: "thinking ", abi.BlockText: "text ", abi.BlockToolUse: ev.Name + " "}[ev.Block])
		case abi.EventDelta:
			got[len(got)-1] += ev.Text
		}
	}
	return got
}

// TestChannelAnswers: what the model writes comes out as its channels say, and calls and JSON are held to their schemas.
func TestChannelAnswers(t *testing.T) {
	e, s := channelEngine(t)
	model := &speaker{Forwarder: e.forwarder}
	e.forwarder = model
	const tail = `"model":"m","max_tokens":200,"messages":[{"role":"user","content":"hi"}]}`
	const off = `"thinking":{"type":"disabled"},`
	const format = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"enum":[7]}},
		"required":["n"],"additionalProperties":false}}},`
	for _, c := range []struct {
		body, says, end string
		want            []string // blocks
		stop            abi.StopReason
	}{
		{"{", "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>Hello", "<|return|>",
			[]string{"thinking hm", "text Hello"}, abi.StopEndTurn},
		{"{" + weatherTools + ",", `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"Rome"}`, "<|call|>",
			[]string{`weather {"city":"Rome"}`}, abi.StopToolUse},
		{"{" + weatherTools + ",", `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"town":"Bonn", "x":1}`, "<|call|>",
			[]string{`weather {"city":`}, abi.StopToolUse},
		{"{" + off + weatherTools + ",", "<|channel|>final<|message|>Hello", "<|return|>", []string{"text Hello"}, abi.StopEndTurn},
		{"{" + off + weatherTools + ",", "<|channel|>commentary to=functions.time <|constrain|>json<|message|>no", "<|call|>",
			[]string{"time {}"}, abi.StopToolUse},
		{"{" + off + format + weatherTools + ",", "<|channel|>final<|message|>nothing", "<|return|>", []string{`text {"n":7}`}, abi.StopEndTurn},
		{"{" + weatherTools + `,"tool_choice":{"type":"tool","name":"time"},`, "no", "<|call|>", []string{"time {}"}, abi.StopToolUse},
		{"{" + weatherTools + `,"tool_choice":{"type":"any"},`, "time <|constrain|>json<|message|>nonsense", "<|call|>", []string{"time {}"}, abi.StopToolUse},
		{"{" + format, "<|channel|>analysis<|message|>free<|end|><|start|>assistant<|channel|>final<|message|>nothing", "<|return|>",
			[]string{"thinking free", `text {"n":7}`}, abi.StopEndTurn},
		{"{" + format + off, "nothing", "<|return|>", []string{`text {"n":7}`}, abi.StopEndTurn},
	} {
		model.end = e.special(c.end)
		a := model.answers(t, e, s, ask(t, e, c.body+tail), c.says)
		got := blocksOf(a.events)
		if !beginAs(got, c.want) || a.result.Stop != c.stop {
			t.Errorf("%s says %q: %q, stop %v; want %q, %v", c.body, c.says, got, a.result.Stop, c.want, c.stop)
		}
	}
}

// TestChannelPrefills: an answer goes on in the text that a last message begins, whatever that ends with: its stop sequences count and
// its format is held. A call that is forced follows it.
func TestChannelPrefills(t *testing.T) {
	e, s := channelEngine(t)
	model := &speaker{Forwarder: e.forwarder, end: e.special("<|return|>")}
	e.forwarder = model
	const final, next = "<|start|>assistant<|channel|>final<|message|>", "<|end|><|start|>assistant"
	const call = "<|channel|>commentary to=functions."
	const format = `"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"n":{"enum":[7]}},
		"required":["n"],"additionalProperties":false}}},`
	const named, either = weatherTools + `,"tool_choice":{"type":"tool","name":"time"},`, weatherTools + `,"tool_choice":{"type":"any"},`
	for _, c := range []struct {
		ask, prefill, prompt, says string
		want                       string // the block
		stop                       abi.StopReason
	}{
		{"", "The list:", final + "The list:", "\n- applesEND more", "text \n- apples", abi.StopStopSequence},
		{"", "The list:\n", final + "The list:", "\n- applesEND more", "text - apples", abi.StopStopSequence},
		{"", "\n", final, "applesEND more", "text apples", abi.StopStopSequence},
		{weatherTools + ",", "So ", final + "So", " it is", "text  it is", abi.StopEndTurn},
		{format, "JSON:", final + "JSON:", "nothing", `text {"n":7}`, abi.StopEndTurn},
		{format, "JSON:\n", final + "JSON:", "nothing", `text {"n":7}`, abi.StopEndTurn},
		{named, "I look.", final + "I look." + next + call + "time <|constrain|>json<|message|>", "no", "time {}", abi.StopToolUse},
		{named, "I look.\n", final + "I look." + next + call + "time <|constrain|>json<|message|>", "no", "time {}", abi.StopToolUse},
		{named, "\n", "<|start|>assistant" + call + "time <|constrain|>json<|message|>", "no", "time {}", abi.StopToolUse},
		{either, "I look.", final + "I look." + next + call, "time <|constrain|>json<|message|>nonsense", "time {}", abi.StopToolUse},
	} {
		r := ask(t, e, fmt.Sprintf(`{%s"model":"m","max_tokens":200,"stop_sequences":["END"],"messages":[{"role":"user","content":"hi"},
			{"role":"assistant","content":%q}]}`, c.ask, c.prefill))
		if got := renderedText(e, r); !strings.HasSuffix(got, "hi<|end|>"+c.prompt) {
			t.Errorf("%s%q: the prompt is\n%s\nwhich does not end with\n%s", c.ask, c.prefill, got, c.prompt)
		}
		a := model.answers(t, e, s, r, c.says)
		got := blocksOf(a.events)
		if len(got) == 1 && c.ask != "" { // its form is held
			got[0] = blanks.Replace(got[0])
		}
		if !slices.Equal(got, []string{c.want}) || a.result.Stop != c.stop {
			t.Errorf("%s%q goes on with %q: %q, stop %v; want %q, %v", c.ask, c.prefill, c.says, got, a.result.Stop, c.want, c.stop)
		}
	}
}

// TestChannelPrefillThoughts: what a last message thinks stands before the text that it begins, as in the answers of such a
// model, and is content alone.
func TestChannelPrefillThoughts(t *testing.T) {
	e, _ := channelEngine(t)
	const next = "<|end|><|start|>assistant"
	const final, analysis = "<|channel|>final<|message|>", "<|channel|>analysis<|message|>"
	const so = `{"type":"text","text":"So"}`
	thinking := func(text string) string {
		return fmt.Sprintf(`{"type":"thinking","thinking":%q,"signature":""},`, text)
	}
	const named = weatherTools + `,"tool_choice":{"type":"tool","name":"time"},`
	for _, c := range []struct{ ask, blocks, want string }{
		{"", thinking("hm\n") + so, analysis + "hm" + next + final + "So"},
		{"", thinking("h") + thinking("m") + so, analysis + "hm" + next + final + "So"},
		{"", thinking(" ") + so, final + "So"},
		{"", thinking("<|end|>") + so, analysis + "<|end|>" + next + final + "So"},
		{`"thinking":{"type":"disabled"},`, thinking("hm") + so, analysis + "hm" + next + final + "So"},
		{named, thinking("hm") + so, analysis + "hm" + next + final + "So" + next +
			"<|channel|>commentary to=functions.time <|constrain|>json<|message|>"},
		{named, thinking("hm") + `{"type":"text","text":"\n"}`, analysis + "hm" + next +
			"<|channel|>commentary to=functions.time <|constrain|>json<|message|>"},
	} {
		r := ask(t, e, fmt.Sprintf(`{%s"model":"m","max_tokens":20,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":[%s]}]}`,
			c.ask, c.blocks))
		if got := renderedText(e, r); !strings.HasSuffix(got, "hi"+next+c.want) {
			t.Errorf("%s%s: the prompt is\n%s\nwhich does not end with\n%s", c.ask, c.blocks, got, c.want)
		}
		if n := count(r.Prompt, e.special("<|end|>")); strings.Contains(c.blocks, "<|end|>") && n != 2 { // of the user, and of the thought
			t.Errorf("%s: content became a control token", c.blocks)
		}
	}
}

// count is how often a token is in a prompt.
func count(prompt []int32, id int32) (n int) {
	for _, one := range prompt {
		if one == id {
			n++
		}
	}
	return n
}

// beginAs says whether there are as many blocks as wanted, and each begins as wanted but for blanks.
func beginAs(blocks, want []string) bool {
	return slices.EqualFunc(blocks, want, func(b, w string) bool { return strings.HasPrefix(blanks.Replace(b), w) })
}

// writes says whether the arguments of a call may begin with a text.
func writes(e *Engine, r *Request, tool, text string) bool {
	m := r.Channels.Calls[tool].NewMatcher(r.Channels.Vocabulary)
	for _, id := range e.tokenizer.EncodePrompt(nil, text) {
		if m.Allowed()[id>>6]>>(id&63)&1 == 0 {
			return false
		}
		m.Accept(id)
	}
	return true
}

// prose is so many characters of a string.
func prose(characters int) string {
	return strings.Repeat("a word to say, ", characters/15+1)[:characters]
}

// TestLongArgumentsOfChannels: an argument of which the schema says nothing, such as a file, is as long as the model makes it.
func TestLongArgumentsOfChannels(t *testing.T) {
	e, _ := channelEngine(t)
	r := ask(t, e, `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"write","input_schema":
		{"type":"object","properties":{"content":{"type":"string"}},"required":["content"],"additionalProperties":false}}]}`)
	if !writes(e, r, "write", `{"content":"`+prose(10_000)+`"}`) {
		t.Error("a string is cut")
	}
}

// TestLargeToolsOfChannels: all tools of a request have the states of one grammar. If those are too few, lengths are given
// up where the model may call, as for other formats, and a request that wants a call is refused.
func TestLargeToolsOfChannels(t *testing.T) {
	e, _ := channelEngine(t)
	for _, c := range []struct {
		tools, strings int // each with four thousand states
		large          bool
	}{{1, 1, false}, {1, 13, true}, {6, 10, true}} {
		var members, tools []string
		for i := range c.strings {
			members = append(members, fmt.Sprintf(`"s%d":{"type":"string","maxLength":2000}`, i))
		}
		for i := range c.tools {
			tools = append(tools, fmt.Sprintf(`{"name":"t%d","input_schema":{"type":"object","properties":{%s}}}`,
				i, strings.Join(members, ",")))
		}
		for _, choice := range []string{"auto", "any"} {
			q, err := messages.Parse([]byte(`{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}],"tools":[` +
				strings.Join(tools, ",") + `],"tool_choice":{"type":"` + choice + `"}}`))
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Prepare("acct", q)
			if choice == "any" && c.large {
				if refused, _ := errors.AsType[*abi.Error](err); refused == nil || refused.Param != "tools" {
					t.Errorf("%d tools of %d strings: %v, want them refused", c.tools, c.strings, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("%d tools of %d strings, %s: %v", c.tools, c.strings, choice, err)
				continue
			}
			last := fmt.Sprint("t", c.tools-1)
			if !writes(e, r, last, `{"s0":"`+prose(1900)+`"}`) || writes(e, r, last, `{"s0":"`+prose(2100)) != c.large {
				t.Errorf("%d tools of %d strings, %s: wrong lengths", c.tools, c.strings, choice)
			}
		}
	}
}

// TestIgnoredOfChannels: what is not enforced of the schemas of tools and answers is named, each once.
func TestIgnoredOfChannels(t *testing.T) {
	e, _ := channelEngine(t)
	const when = `{"type":"object","properties":{"at":{"type":"string","format":"time"},"n":{"type":"integer"%s}}}`
	r := ask(t, e, `{"model":"m","max_tokens":64,"messages":[{"role":"user","content":"hi"}],"tools":[{"name":"a","input_schema":`+
		fmt.Sprintf(when, "")+`}],"output_config":{"format":{"type":"json_schema","schema":`+fmt.Sprintf(when, `,"multipleOf":2`)+`}}}`)
	if got := r.Ignored(); !slices.Equal(got, []string{"format", "multipleOf"}) {
		t.Errorf("%q", got)
	}
}
