package template

import (
	"encoding/json"
	"fmt"
	"testing"
)

// BenchmarkRender is a system message and a question, the least a chat has.
func BenchmarkRender(b *testing.B) {
	in := Input{Messages: []Message{
		{Role: "system", Content: "You are a helpful assistant that answers in one sentence."},
		{Role: "user", Content: "Why is the sky blue, and why is it red in the evening?"},
	}, GenerationPrompt: true, Thinking: true}
	sources := sharedTemplates(b)
	sources["builtin"] = Builtin
	for name, source := range sources {
		t, err := New(source)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Render(in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRenderTools is what a coding agent sends: 30 tools of 1 KB and a
// conversation of 40 messages.
func BenchmarkRenderTools(b *testing.B) {
	in := Input{GenerationPrompt: true, Thinking: true}
	for i := range 30 {
		in.Tools = append(in.Tools, json.RawMessage(fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":"%0500d","parameters":{"type":"object","properties":{"a":{"type":"string","description":"%0200d"},"b":{"type":"array","items":{"type":"integer"}}},"required":["a","b"]}}}`, i, i, i)))
	}
	for range 10 {
		in.Messages = append(in.Messages, Message{Role: "user", Content: "next"},
			Message{Role: "assistant", Content: "ok", ToolCalls: []ToolCall{{Name: "tool_1", Arguments: json.RawMessage(`{"a":"x","b":[1,2,3]}`)}}},
			Message{Role: "tool", Content: "done"}, Message{Role: "assistant", Content: "It is done."})
	}
	t, err := New(Builtin)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := t.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}
