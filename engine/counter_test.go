package engine

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/engine/modelfile/gguftest"
	"corenode/engine/template"
)

// openCounter opens the counter of a template and a tokenizer.json of control tokens, with more files beside it.
func openCounter(t *testing.T, source string, nodes bool, beside map[string]string, names ...string) (*Counter, error) {
	t.Helper()
	var tokens map[string]any
	if err := json.Unmarshal([]byte(gguftest.TokenizerJSON(vocabulary(t))), &tokens); err != nil {
		t.Fatal(err)
	}
	added := tokens["added_tokens"].([]any)
	for i, name := range names {
		added = append(added, map[string]any{"id": 512 + i, "content": name, "special": true})
	}
	tokens["added_tokens"] = added
	text, err := json.Marshal(tokens)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	files := map[string]string{"tokenizer.json": string(text), "chat_template.jinja": source}
	for name, text := range beside {
		files[name] = text
	}
	for name, text := range files {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return OpenCounter(Options{Info: Info{ContextLength: 4096}, Path: filepath.Join(dir, "tokenizer.json")}, "", nodes)
}

// agentBody is a turn with two tools, behind a call and its result.
const agentBody = `{"model":"m","max_tokens":8,` + weatherTools + `,"messages":[{"role":"user","content":"hi"},
	{"role":"assistant","content":[{"type":"tool_use","id":"toolu_01","name":"weather","input":{"city":"Rome"}}]},
	{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_01","content":"sun"}]}]}`

// TestCountsOfServersElsewhere: servers elsewhere render tools and calls as their template has them, so that is what is counted,
// but for servers that are nodes.
func TestCountsOfServersElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		template string
		tokens   []string
	}{
		"own form": {ownFormTemplate, nil},
		"without":  {`{% for m in messages %}{{ m.role }}: {{ m.content }};{% endfor %}go:`, nil},
		"apart": {`{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{% if m.content is none %}[TOOL_CALLS]{{ c|tojson }}
			{%- endif %}{% endfor %}{% endfor %}{# tools #}`, nil},
		"ids":      {`{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}<|tool_calls_section_begin|>{{ c.id }}{% endfor %}{% endfor %}`, nil},
		"thinking": {thinkTemplate, []string{"[THINK]", "[/THINK]"}},
		"channels": {channelTemplate, channelNames},
	} {
		counter, err := openCounter(t, c.template, false, nil, c.tokens...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		own, err := openCounter(t, c.template, true, nil, c.tokens...)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		q, err := messages.Parse([]byte(agentBody))
		if err != nil {
			t.Fatal(err)
		}
		e := counter.engine
		in := template.Input{GenerationPrompt: true, Thinking: q.Thinking, BOS: e.bos, EOS: e.eos, Messages: []template.Message{
			{Role: "user", Content: "hi"},
			{Role: "assistant", ToolCalls: []template.ToolCall{{ID: "toolu_01", Name: "weather", Arguments: []byte(`{"city":"Rome"}`)}}},
			{Role: "tool", Content: "sun", ToolCallID: "toolu_01"}}}
		for _, tool := range q.Tools {
			in.Tools = append(in.Tools, e.toolObject(tool))
		}
		text, err := e.template.Render(in)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := len(e.tokenizer.EncodePrompt(nil, text))
		if n, err := counter.Count(q); err != nil || n != want {
			t.Errorf("%s: %d tokens are counted, %v; the prompt has %d", name, n, err, want)
		}
		prompt, _, err := own.engine.rendered(q, 4096)
		if n, wrong := own.Count(q); err != nil || wrong != nil || n != len(prompt) || name != "channels" && n == want {
			t.Errorf("%s: %d tokens are counted of a node, %v, %v; its prompt has %d, others' %d", name, n, err, wrong, len(prompt), want)
		}
	}
}

// TestCountsOfRefusals: what a template refuses as it is sent is counted as this node would render it.
func TestCountsOfRefusals(t *testing.T) {
	counter, err := openCounter(t, ownFormTemplate, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	two := strings.Replace(agentBody, `{"city":"Rome"}}]`, `{"city":"Rome"}},{"type":"tool_use","id":"toolu_02","name":"time","input":{}}]`, 1)
	q, err := messages.Parse([]byte(two))
	if err != nil {
		t.Fatal(err)
	}
	prompt, _, err := counter.own.rendered(q, 4096)
	if n, wrong := counter.Count(q); err != nil || wrong != nil || n != len(prompt) {
		t.Errorf("%d tokens are counted, %v, %v; the prompt has %d", n, err, wrong, len(prompt))
	}
	long := *q
	long.Messages = slices.Repeat(q.Messages[:1], 8000)
	if _, err := counter.Count(&long); err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("a prompt of more than %d windows: %v", countWindows, err)
	}
}

// TestCounterOfAFolder: the names in the files beside a tokenizer.json are those that its template writes. Where a name is missing that
// a second question needs, the counter does not open.
func TestCounterOfAFolder(t *testing.T) {
	const source = `{% for m in messages %}{{ m.content + (bos_token + eos_token if m.role == "assistant" else "") }}{% endfor %}`
	const turns = `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`
	q, err := messages.Parse([]byte(turns))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		beside map[string]string
		ids    []int32 // of the tokens that are no text; nil where it does not open
	}{
		"names":   {map[string]string{"tokenizer_config.json": `{"bos_token":"<s>","eos_token":{"content":"</s>"}}`}, []int32{512, 513}},
		"nothing": {nil, nil},
		"broken":  {map[string]string{"tokenizer_config.json": `{`}, nil},
		"Python's": {map[string]string{"tokenizer_config.json": `{"bos_token":"<s>","eos_token":{"content":"</s>"}}`,
			"config.json": `{"eos_token_id":2,"time_step_limit":[0.0,Infinity]}`}, []int32{512, 513}},
		"no jinja": {map[string]string{"chat_template.jinja": "", "tokenizer_config.json": `{"bos_token":"<s>",
			"eos_token":{"content":"</s>"},"chat_template":[{"name":"default","template":` + strconv.Quote(source) + `}]}`}, []int32{512, 513}},
	} {
		counter, err := openCounter(t, source, false, c.beside, "<s>", "</s>")
		if err != nil || c.ids == nil {
			if (err != nil) != (c.ids == nil) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		ids, _, err := counter.engine.prompt(q, 100)
		if got := slices.DeleteFunc(ids, func(id int32) bool { return id < 512 }); err != nil || !slices.Equal(got, c.ids) {
			t.Errorf("%s: the tokens are %v, %v", name, got, err)
		}
	}
}
