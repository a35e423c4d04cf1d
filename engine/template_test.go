package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"corenode/engine/messages"
	"corenode/wasm/abi"
)

// TestTemplateTime: a template that asks for the date is told the configured day, and
// without one that of the request; it sees the ids of calls and of their results.
func TestTemplateTime(t *testing.T) {
	const source = "{{ strftime_now('%d %b %Y') }}|{% for m in messages %}{{ m.role }}:{{ m.content if m.role == 'user' }}{% for c in m.tool_calls or [] %}{{ c.id }}{% endfor %}{{ m.tool_call_id }};{% endfor %}{# tools <tool_call> #}"
	const body = `{"model":"m","max_tokens":5,"tools":[{"name":"f","input_schema":{"type":"object"}}],"messages":[{"role":"user","content":"hi"},
		{"role":"assistant","content":[{"type":"tool_use","id":"toolu_7","name":"f","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_7","content":"x"}]}]}`
	o := options(Instant)
	o.Template, o.TemplateDate = source, time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)
	prompt := func(o Options) string {
		e, _ := open2(t, o)
		var s strings.Builder
		for _, id := range ask(t, e, body).Prompt {
			s.WriteString(e.tokenizer.Text(id))
		}
		return s.String()
	}
	if got, want := prompt(o), "29 Feb 2024|user:hi;assistant:toolu_7;tool:toolu_7;"; got != want {
		t.Errorf("the prompt is %q, want %q", got, want)
	}
	o.TemplateDate = time.Time{}
	before := time.Now().UTC()
	got := prompt(o)
	if after := time.Now().UTC(); !strings.HasPrefix(got, before.Format("02 Jan 2006|")) && !strings.HasPrefix(got, after.Format("02 Jan 2006|")) {
		t.Errorf("the prompt of now is %q", got)
	}
}

// TestTemplateOfTokensWithoutRows: a template that is named in the config is refused where it writes a token that the model
// has no row for, as it would write pieces of its name.
func TestTemplateOfTokensWithoutRows(t *testing.T) {
	dir := folderOf(t, "qwen3", "BF16", nil)
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(text), `"added_tokens":[`, `"added_tokens":[{"id":512,"content":"<image>","special":true},`, 1)
	if more == string(text) {
		t.Fatal("there are no added tokens")
	}
	if err := os.WriteFile(path, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	for source, refused := range map[string]bool{"": false, "{{ messages[0].content }}": false, "<image>{{ messages[0].content }}": true} {
		o := options(Instant)
		o.Data, o.Path, o.Template, o.Info.ContextLength = nil, dir, source, 512
		e, err := Open(o)
		if err == nil {
			e.Close()
		}
		if (err != nil) != refused || refused && !strings.Contains(err.Error(), `the chat template has "<image>"`) {
			t.Errorf("%q: %v", source, err)
		}
	}
}

// TestTemplateThatShowsNothing: a template whose prompt has nothing of a conversation, as a file with the name of one gives it, is
// refused at the start, by a counter too. One that refuses that conversation is taken.
func TestTemplateThatShowsNothing(t *testing.T) {
	dir := folderOf(t, "qwen3", "BF16", nil)
	for source, blind := range map[string]bool{"mistral-v7-tekken": true, "{{ bos_token }}{% for m in messages %}{{ m.role }}{% endfor %}": true,
		" ": true, "{{ messages[0].content|trim }}": false, "{{ raise_exception('no') }}": false} {
		o := options(Instant)
		o.Data, o.Path, o.Template, o.Info.ContextLength = nil, dir, source, 512
		e, err := Open(o)
		if err == nil {
			e.Close()
		}
		_, counts := openCounter(t, source, false, nil)
		for _, err := range []error{err, counts} {
			if (err != nil) != blind || blind && !strings.Contains(err.Error(), "shows nothing of a conversation; name a template file in the config") {
				t.Errorf("%q: %v", source, err)
			}
		}
	}
}

// TestTemplateErrorsOfTools: tools that a template cannot render are the client's error, which names them; a template that does not
// work without them either is the server's failure.
func TestTemplateErrorsOfTools(t *testing.T) {
	const turns = `{% for m in messages %}{{ m.content }}{% endfor %}{# <tool_call> #}`
	const defaults = `{% for t in tools or [] %}{% for _, p in t.function.parameters.properties|items %}{{ "default: " + p.default }}{% endfor %}{% endfor %}`
	const asking = `{% if tools and not messages|selectattr('role', 'equalto', 'user')|list %}{{ 1 / 0 }}{% endif %}`
	const body = `{"model":"m","max_tokens":16,"messages":[{"role":%q,"content":"hi"}],"tools":[
		{"name":"f","input_schema":{"type":"object","properties":{"n":{"default":"a"}}}},
		{"name":"g","input_schema":{"type":"object","properties":{"n":{"default":%s}}}}]}`
	const taken = abi.Kind(255)
	for _, c := range []struct {
		template, role, value string
		kind                  abi.Kind
		param                 string
	}{
		{defaults + turns, "user", `"b"`, taken, ""},
		{defaults + turns, "user", `7`, abi.InvalidRequest, "tools.1.input_schema"},
		{`{{ tools and 1 / (tools|length - 2) }}` + turns, "user", `7`, abi.InvalidRequest, "tools"},
		{`{{ messages and 1 / 0 }}` + defaults + turns, "user", `7`, abi.Internal, ""},
		{asking + turns, "user", `7`, taken, ""},
		{asking + turns, "system", `7`, abi.InvalidRequest, "messages"},
		{asking + turns, "assistant", `7`, abi.InvalidRequest, "messages"},
		{asking + defaults + turns, "system", `7`, abi.InvalidRequest, "tools.1.input_schema"},
	} {
		o := options(Instant)
		o.Template = c.template
		e, _ := open2(t, o)
		q, err := messages.Parse(fmt.Appendf(nil, body, c.role, c.value))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = e.Prepare("acct", q); c.kind == taken && err == nil {
			continue
		}
		if refused, ok := errors.AsType[*abi.Error](err); !ok || refused.Kind != c.kind || refused.Param != c.param {
			t.Errorf("%s of the %s with %s: %v, want kind %v for %q", c.template, c.role, c.value, err, c.kind, c.param)
		}
	}
}

// TestTemplateSchema: the schema of an answer is in the prompt, the same from every way to ask for it,
// where the template is to be told; not where a call is forced, nor without a schema.
func TestTemplateSchema(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string","description":"<|im_end|>"}}}`
	annotated := `{"$schema":"https://json-schema.org/draft/2020-12/schema",` + schema[1:]
	o := options(Instant)
	prompt := func(more string) []int32 {
		t.Helper()
		e, _ := open2(t, o)
		body := `{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]` + more + `}`
		q, err := messages.Parse([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		ids := ask(t, e, body).Prompt
		if n, err := e.Count(q); err != nil || n != len(ids) {
			t.Errorf("%s counts %d tokens, %v; the prompt has %d", more, n, err, len(ids))
		}
		return ids
	}
	formats := []string{
		`,"response_format":{"type":"json_schema","json_schema":{"name":"x","strict":true,"schema":` + schema + `}}`,
		`,"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}`,
		`,"output_format":{"type":"json_schema","schema":` + schema + `}`,
		`,"response_format":{"type":"json_schema","json_schema":{"schema":` + annotated + `}}`,
	}
	bare := prompt(``)
	for _, format := range formats {
		if !slices.Equal(prompt(format), bare) {
			t.Errorf("%s is in the prompt of a template that is not to be told", format)
		}
	}
	o.TemplateSchema = true
	if !slices.Equal(prompt(``), bare) || !slices.Equal(prompt(`,"response_format":{"type":"json_object"}`), bare) {
		t.Error("without a schema the prompt is another one")
	}
	want := prompt(formats[0])
	for _, format := range formats {
		if !slices.Equal(prompt(format), want) {
			t.Errorf("%s is another prompt", format)
		}
	}
	e, _ := open2(t, o)
	var shown strings.Builder
	for _, id := range want {
		shown.WriteString(e.tokenizer.Text(id))
	}
	if !strings.Contains(shown.String(), `{"type": "object", "properties": {"name": {`) || !strings.Contains(shown.String(), "with the keys name.") {
		t.Errorf("the prompt is %q", shown.String())
	}
	turns := func(ids []int32) (n int) {
		end, _ := e.tokenizer.ID("<|im_end|>")
		for _, id := range ids {
			if id == end {
				n++
			}
		}
		return n
	}
	if turns(want) != turns(bare)+1 { // the system turn's own
		t.Error("a schema ends a turn")
	}
	const tools = `,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"}`
	if !slices.Equal(prompt(tools+formats[0]), prompt(tools)) {
		t.Error("the schema is shown where the answer is a call")
	}
}

// TestTemplateWithoutMessages: a template that wants a message where a body has none in front of the answer is no failure of
// the server. One that does without renders as it is.
func TestTemplateWithoutMessages(t *testing.T) {
	const turns = `{% for m in messages %}{{ m.role + ":" + m.content }}{% endfor %}A:`
	sources := map[string]bool{ // by whether they take no message; "" is the built-in one
		"":    true,
		turns: true,
		`{% if messages[0].role == 'system' %}S{% endif %}` + turns:                     false,
		`{% if messages[0]['role'] == 'system' %}S{% endif %}` + turns:                  false,
		`{% if messages and messages[0].role == 'system' %}S{% endif %}` + turns:        true,
		`{% if messages|length == 0 %}{{ raise_exception('none') }}{% endif %}` + turns: false,
	}
	paths, err := filepath.Glob("../../shared/data/templates/*.jinja") // where they are there
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sources[string(text)] = false
	}
	for source, takes := range sources {
		o := options(Instant)
		if source != "" {
			o.Template = source
		}
		e, _ := open2(t, o)
		for _, msgs := range []string{`{"role":"assistant","content":"Once upon a time"}`, `{"role":"system","content":""}`} {
			body := `{"model":"m","max_tokens":16,"messages":[` + msgs + `]}`
			q, err := messages.Parse([]byte(body))
			if err != nil {
				t.Fatal(err)
			}
			r, err := e.Prepare("acct", q)
			n, counted := e.Count(q)
			if takes {
				if err != nil || counted != nil || n != len(r.Prompt) {
					t.Errorf("%.80s of %s: %v; %d tokens, %v", source, msgs, err, n, counted)
				}
				continue
			}
			for _, err := range []error{err, counted} {
				refused, ok := errors.AsType[*abi.Error](err)
				if !ok || refused.Kind != abi.InvalidRequest || refused.Param != "messages" {
					t.Errorf("%.80s of %s: %v, want the messages refused", source, msgs, err)
				}
			}
		}
	}
	o := options(Instant)
	o.Template = `{{ messages[1].role }}`
	e, _ := open2(t, o)
	for msgs, want := range map[string]abi.Kind{ // a system prompt alone is no turn; a template that does not work is the server's failure
		`{"role":"system","content":"S"},{"role":"assistant","content":"So"}`: abi.InvalidRequest, `{"role":"user","content":"hi"}`: abi.Internal,
	} {
		q, err := messages.Parse([]byte(`{"model":"m","max_tokens":16,"messages":[` + msgs + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Prepare("acct", q); abi.KindOf(err) != want {
			t.Errorf("%s: %v, want %v", msgs, err, want)
		}
	}
}
