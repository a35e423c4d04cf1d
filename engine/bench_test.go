package engine

import (
	"testing"

	"corenode/engine/messages"
)

// BenchmarkPrepare is a short request, from its parsed body on.
func BenchmarkPrepare(b *testing.B) {
	e, _ := open2(b, options(Instant))
	q, err := messages.Parse([]byte(`{"model":"m","max_tokens":256,"stream":true,"system":"You are a helpful assistant that answers in one short sentence and never guesses.","messages":[{"role":"user","content":"What is the capital of the country where the river Loire ends, and how many people live in it today?"}]}`))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Prepare(q); err != nil {
			b.Fatal(err)
		}
	}
}
