package engine

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/template"
)

// turnRules are what a template refuses of the order of messages, and what it leaves out. All is found by trying.
type turnRules struct {
	// alternate says that two messages of one role in a row are refused: they are one, then.
	alternate bool
	// ontoResult says that a user's message behind results of tools is refused too: it goes on with the last of them.
	ontoResult bool
	// systemless says that a system prompt is refused: the first message of the user begins with it.
	systemless bool
	// toolless says that the template knows no calls, or none of a form that is read: calls and their results are text in the
	// usual form, as the system prompt tells it.
	toolless bool
}

// turnRules tries conversations of a few messages.
func (s formatSource) turnRules(f *chatFormat) turnRules {
	takes := func(roles ...string) bool {
		var msgs []template.Message
		for _, role := range roles {
			m := template.Message{Role: role, Content: "a"}
			switch role {
			case "assistant":
				m.Content, m.ToolCalls = "", []template.ToolCall{{ID: "call_1", Name: "f", Arguments: []byte(`{"x": 1}`)}}
			case "tool":
				m.ToolCallID = "call_1"
			}
			msgs = append(msgs, m)
		}
		if f.calls == callsDelimited {
			msgs = f.shapeCalls(msgs)
		}
		_, err := s.render(msgs)
		return err == nil
	}
	knowsCalls := strings.Contains(s.template, "<tool_call>") && strings.Contains(s.template, "tool_calls")
	r := turnRules{toolless: f.calls == callsJSON && f.tellsTools && !knowsCalls}
	if takes("user") {
		r.systemless = !takes("system", "user")
		r.alternate = !takes("user", "user")
		r.ontoResult = r.alternate && takes("user", "assistant", "tool") && !takes("user", "assistant", "tool", "user")
	}
	return r
}

// apply gives a conversation the order that the template takes.
func (r turnRules) apply(msgs []template.Message) []template.Message {
	if r.toolless {
		msgs = asText(msgs)
	}
	if r.systemless && len(msgs) > 1 && msgs[0].Role == "system" && msgs[1].Role == "user" {
		msgs[1].Content = joined(msgs[0].Content, msgs[1].Content)
		msgs = msgs[1:]
	}
	if !r.alternate {
		return msgs
	}
	out := msgs[:0]
	for _, m := range msgs {
		if len(out) == 0 || !r.goesOn(out[len(out)-1].Role, m.Role) {
			out = append(out, m)
			continue
		}
		last := &out[len(out)-1]
		last.Content, last.Reasoning = joined(last.Content, m.Content), joined(last.Reasoning, m.Reasoning)
		last.HasReasoning = last.HasReasoning || m.HasReasoning
		last.ToolCalls = append(last.ToolCalls, m.ToolCalls...)
	}
	return out
}

// goesOn says whether a message goes on with the one before it.
func (r turnRules) goesOn(before, role string) bool {
	return role == before && role != "tool" || r.ontoResult && before == "tool" && role == "user"
}

// asText writes calls and their results as text.
func asText(msgs []template.Message) []template.Message {
	for i := range msgs {
		m := &msgs[i]
		for _, c := range m.ToolCalls {
			b, _ := jsontext.AppendQuote([]byte("<tool_call>\n{\"name\": "), c.Name) // a name is valid UTF-8
			b = append(append(b, `, "arguments": `...), spaced(c.Arguments)...)
			m.Content = joined(m.Content, string(b)+"}\n</tool_call>")
		}
		m.ToolCalls = nil
		if m.Role == "tool" {
			*m = template.Message{Role: "user", Content: "<tool_response>\n" + m.Content + "\n</tool_response>"}
		}
	}
	return msgs
}

// joined is two texts, one below the other.
func joined(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
