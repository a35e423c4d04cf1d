package template

import "testing"

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
