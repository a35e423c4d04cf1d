package responses

import (
	"strconv"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// conversation is an agent's body of about so many bytes: many turns with
// calls and their results.
func conversation(size int) []byte {
	const turn = `,{"type":"message","role":"user","content":[{"type":"input_text","text":"Look at the file and \"fix\" it.\nThen run the tests."}]},` +
		`{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"The file has to be read first."}]},` +
		`{"type":"function_call","call_id":"toolu_1","name":"shell","arguments":"{\"command\":[\"cat\",\"main.go\"]}"},` +
		`{"type":"function_call_output","call_id":"toolu_1","output":"`
	line := strings.Repeat("func main() { println(1) }\\n", 40)
	var b strings.Builder
	b.WriteString(`{"model":"core-1.1","stream":true,"store":false,"instructions":"You are a coding agent.","tools":[{"type":"function","name":"shell","parameters":{"type":"object","properties":{"command":{"type":"array"}}}}],"input":[{"role":"user","content":"hi"}`)
	for b.Len() < size {
		b.WriteString(turn + line + `"}`)
	}
	b.WriteString("]}")
	return []byte(b.String())
}

func BenchmarkRequest(b *testing.B) {
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
		body := conversation(size)
		b.Run(strconv.Itoa(size>>10)+"KB", func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, refusal := New().Request(abi.RequestInput{Body: body}); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
	}
}

// BenchmarkEvents writes text deltas of a running stream; a time is that of one event.
func BenchmarkEvents(b *testing.B) {
	for _, n := range []int{1, 8, 32} {
		group := make([]abi.Event, n)
		for i := range group {
			group[i] = abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Index: 1, Text: " token"}
		}
		in := abi.EventsInput{Facts: abi.Facts{ID: "0123456789abcdef", Model: "core-1.1"},
			State: state{sequence: 100, flags: flagBegun}.append(nil), Events: framesOf(group)}
		b.Run("group"+strconv.Itoa(n), func(b *testing.B) {
			b.ReportAllocs()
			var dst []byte
			var room [64]byte
			for b.Loop() {
				dst, _ = New().Events(dst[:0], room[:0], in)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}

// BenchmarkEnd writes the last event of a long answer, which repeats all of it.
func BenchmarkEnd(b *testing.B) {
	text := strings.Repeat("some words of an answer ", 4000)
	all := []abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventBlockStart, Block: abi.BlockText},
		{Kind: abi.EventDelta, Block: abi.BlockText, Text: text},
		{Kind: abi.EventBlockStop, Block: abi.BlockText}, {Kind: abi.EventEnd}}
	in := abi.EventsInput{State: state{sequence: 100, flags: flagBegun}.append(nil), Kept: keptOf(b, toolsRequest),
		History: framesOf(all), Events: framesOf(all[4:])}
	b.SetBytes(int64(len(text)))
	var dst []byte
	for b.Loop() {
		dst, _ = New().Events(dst[:0], nil, in)
	}
}
