package responses

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3/packages/ssestream"
	openai "github.com/openai/openai-go/v3/responses"
)

// clientStream is a stream as the official client reads it.
func clientStream(lines []string) *ssestream.Stream[openai.ResponseStreamEventUnion] {
	response := &http.Response{
		Header: http.Header{"Content-Type": {"text/event-stream"}},
		Body:   io.NopCloser(strings.NewReader(strings.Join(lines, "\n") + "\n")),
	}
	return ssestream.NewStream[openai.ResponseStreamEventUnion](ssestream.NewDecoder(response), nil)
}

// TestClientReadsStreams lets the official client gather every golden stream,
// from its deltas alone, and compares with the response that ends it.
func TestClientReadsStreams(t *testing.T) {
	for _, g := range goldens(t, "stream") {
		t.Run(g.Name, func(t *testing.T) {
			stream := clientStream(g.Want.Stream)
			var last openai.ResponseStreamEventUnion
			var deltas, thinking strings.Builder
			for stream.Next() {
				last = stream.Current()
				switch e := last.AsAny().(type) {
				case openai.ResponseTextDeltaEvent:
					deltas.WriteString(e.Delta)
				case openai.ResponseReasoningSummaryTextDeltaEvent:
					thinking.WriteString(e.Delta)
				}
			}
			if err := stream.Err(); err != nil {
				t.Fatal(err)
			}
			fails := last.Type == "response.failed" && last.Response.Error.Message != ""
			if last.Type != "response.completed" && last.Type != "response.incomplete" && !fails {
				t.Fatalf("the stream ends with %s", last.Type)
			}
			if got := last.Response.OutputText(); got != deltas.String() {
				t.Errorf("the response says %q, the deltas %q", got, deltas.String())
			}
			told := ""
			for _, item := range last.Response.Output {
				for _, s := range item.Summary {
					told += s.Text
				}
			}
			if told != thinking.String() {
				t.Errorf("the response thinks %q, the deltas %q", told, thinking.String())
			}
			if last.Response.Usage.TotalTokens == 0 {
				t.Error("the response has no usage")
			}
		})
	}
}

// TestClientAccumulates compares what the official client's accumulator has
// gathered when the last event comes with what that event says.
func TestClientAccumulates(t *testing.T) {
	for _, g := range goldens(t, "stream") {
		t.Run(g.Name, func(t *testing.T) {
			var before, whole openai.ResponseAccumulator
			all := sseEvents(t, strings.Join(g.Want.Stream, "\n"))
			for i, e := range all {
				var event openai.ResponsesServerEventUnion
				if err := json.Unmarshal(e.data, &event); err != nil {
					t.Fatal(err)
				}
				if i < len(all)-1 {
					if err := before.AddEvent(event); err != nil {
						t.Fatalf("%s: %v", e.data, err)
					}
				}
				if err := whole.AddEvent(event); err != nil {
					t.Fatalf("%s: %v", e.data, err)
				}
			}
			got, want := before.Snapshot().Output, whole.Snapshot().Output
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("the events give\n%s\nthe response says\n%s", a, b)
			}
		})
	}
}

// TestClientRaises has the official client raise an error for every broken
// stream, never before it has seen that the response failed.
func TestClientRaises(t *testing.T) {
	broken := 0
	for _, g := range goldens(t, "error") {
		if len(g.Want.Stream) == 0 {
			continue
		}
		broken++
		t.Run(g.Name, func(t *testing.T) {
			stream := clientStream(g.Want.Stream)
			saw := ""
			for stream.Next() {
				saw = stream.Current().Type
				if saw == "response.completed" || saw == "response.incomplete" {
					t.Errorf("a broken stream says %s", saw)
				}
			}
			raised, ok := errors.AsType[*ssestream.StreamError](stream.Err())
			if !ok || !strings.Contains(raised.Message, `"code"`) {
				t.Errorf("the client raises %v", stream.Err())
			}
			if saw != "response.failed" {
				t.Errorf("the last event before the error is %q", saw)
			}
		})
	}
	if broken == 0 {
		t.Fatal("no vector has a broken stream")
	}
}
