package engine

import (
	"fmt"
	"strings"
	"testing"

	"corenode/engine/messages"
)

// BenchmarkPrepare is a short request, from its parsed body on.
func BenchmarkPrepare(b *testing.B) {
	benchmarkPrepare(b, `{"model":"m","max_tokens":256,"stream":true,"system":"You are a helpful assistant that answers in one short sentence and never guesses.","messages":[{"role":"user","content":"What is the capital of the country where the river Loire ends, and how many people live in it today?"}]}`)
}

// BenchmarkPrepareConversation is a conversation of about 2,000 tokens of a real vocabulary.
func BenchmarkPrepareConversation(b *testing.B) {
	var turns []string
	for i := range 20 {
		turns = append(turns, fmt.Sprintf(`{"role":"%s","content":"%s"}`, []string{"user", "assistant"}[i%2], strings.Repeat(fmt.Sprintf(
			"In the year %d the committee finally published what its engineers had measured twice: nobody remembers why it happened. ", 1900+i), 4)))
	}
	benchmarkPrepare(b, `{"model":"m","max_tokens":64,"system":"You are a helpful assistant.","messages":[`+strings.Join(turns[:19], ",")+`]}`)
}

// BenchmarkPrepareTools is what a coding agent sends: 60 tools of 600 bytes, with each of its requests.
func BenchmarkPrepareTools(b *testing.B) {
	var tools []string
	for i := range 60 {
		tools = append(tools, fmt.Sprintf(`{"name":"tool_%d","description":"%s","input_schema":{"type":"object","properties":{"path":{"type":"string","description":"A path to a file of the project"},"mode":{"type":"string","enum":["read","write","append"]},"line":{"type":"integer","minimum":0},"opts":{"type":"object","properties":{"deep":{"type":"boolean"},"names":{"type":"array","items":{"type":"string","maxLength":40}}}}},"required":["path"]}}`,
			i, strings.Repeat("It does one thing with care. ", 8)))
	}
	benchmarkPrepare(b, `{"model":"m","max_tokens":64,"tools":[`+strings.Join(tools, ",")+`],"messages":[{"role":"user","content":"Read file number 7."}]}`)
}

func benchmarkPrepare(b *testing.B, body string) {
	e, _ := open2(b, options(Instant))
	q, err := messages.Parse([]byte(body))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := e.Prepare("acct", q); err != nil {
			b.Fatal(err)
		}
	}
}
