package engine

import (
	"strings"
	"testing"
	"time"
)

// TestTemplateTime: a template that asks for the date is told the configured day, and
// without one that of the request; it sees the ids of calls and of their results.
func TestTemplateTime(t *testing.T) {
	const source = "{{ strftime_now('%d %b %Y') }}|{% for m in messages %}{{ m.role }}:{% for c in m.tool_calls or [] %}{{ c.id }}{% endfor %}{{ m.tool_call_id }};{% endfor %}"
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
	if got, want := prompt(o), "29 Feb 2024|user:;assistant:toolu_7;tool:toolu_7;"; got != want {
		t.Errorf("the prompt is %q, want %q", got, want)
	}
	o.TemplateDate = time.Time{}
	before := time.Now().UTC()
	got := prompt(o)
	if after := time.Now().UTC(); !strings.HasPrefix(got, before.Format("02 Jan 2006|")) && !strings.HasPrefix(got, after.Format("02 Jan 2006|")) {
		t.Errorf("the prompt of now is %q", got)
	}
}
