package responses

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"corenode/engine/messages"
	"corenode/extensions/vector"
)

// golden is what the tests here need of a vector.
type golden struct {
	Name string
	Op   string
	Want struct {
		Body    json.RawMessage
		Stream  []string
		Refusal *struct{ Param, Msg string }
	}
}

// goldens reads all vectors of an op.
func goldens(t *testing.T, op string) []golden {
	t.Helper()
	if *update {
		t.Skip("the vectors are being rewritten: run again without -update")
	}
	files, err := vector.ReadDir("vectors")
	if err != nil {
		t.Fatal(err)
	}
	var found []golden
	for _, f := range files {
		text, err := os.ReadFile(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		var all []golden
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatal(err)
		}
		for _, g := range all {
			if g.Op == op {
				found = append(found, g)
			}
		}
	}
	if len(found) == 0 {
		t.Fatalf("no vectors of op %s", op)
	}
	return found
}

// schemas reads the protocol's public description, once for all tests.
var schemas = sync.OnceValues(func() (*jsonschema.Compiler, error) {
	shared := cmp.Or(os.Getenv("CORENODE_SHARED"), filepath.Join("..", "..", "..", "shared"))
	text, err := os.ReadFile(filepath.Join(shared, "data", "openai.schemas.json"))
	if err != nil {
		return nil, err
	}
	// The description lacks a code of failed responses that the service it is of sends, and that agents read.
	const codes = `"ResponseErrorCode":{"type":"string","enum":[`
	if bytes.Count(text, []byte(codes)) != 1 {
		return nil, errors.New("the codes of a failed response are written in another way")
	}
	text = bytes.Replace(text, []byte(codes), []byte(codes+`"context_length_exceeded",`), 1)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	return c, c.AddResource("openai.json", doc)
})

// validator compiles a definition of the protocol's public description.
func validator(t *testing.T, name string) func(t *testing.T, text []byte) {
	t.Helper()
	c, err := schemas()
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("answers are not validated against the schemas: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("openai.json#/$defs/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return func(t *testing.T, text []byte) {
		t.Helper()
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err == nil {
			err = schema.Validate(value)
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// defOf is the definition of a stream event; the union of all events would
// accept one of a wrong shape under another's name.
var defOf = map[string]string{
	"response.created":                       "ResponseCreatedEvent",
	"response.in_progress":                   "ResponseInProgressEvent",
	"response.completed":                     "ResponseCompletedEvent",
	"response.incomplete":                    "ResponseIncompleteEvent",
	"response.failed":                        "ResponseFailedEvent",
	"response.output_item.added":             "ResponseOutputItemAddedEvent",
	"response.output_item.done":              "ResponseOutputItemDoneEvent",
	"response.content_part.added":            "ResponseContentPartAddedEvent",
	"response.content_part.done":             "ResponseContentPartDoneEvent",
	"response.output_text.delta":             "ResponseTextDeltaEvent",
	"response.output_text.done":              "ResponseTextDoneEvent",
	"response.reasoning_summary_part.added":  "ResponseReasoningSummaryPartAddedEvent",
	"response.reasoning_summary_part.done":   "ResponseReasoningSummaryPartDoneEvent",
	"response.reasoning_summary_text.delta":  "ResponseReasoningSummaryTextDeltaEvent",
	"response.reasoning_summary_text.done":   "ResponseReasoningSummaryTextDoneEvent",
	"response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaEvent",
	"response.function_call_arguments.done":  "ResponseFunctionCallArgumentsDoneEvent",
	"response.custom_tool_call_input.delta":  "ResponseCustomToolCallInputDeltaEvent",
	"response.custom_tool_call_input.done":   "ResponseCustomToolCallInputDoneEvent",
	"error":                                  "ResponseErrorEvent",
}

func TestResponsesMatchSchema(t *testing.T) {
	validate := validator(t, "Response")
	for _, g := range goldens(t, "response") {
		t.Run(g.Name, func(t *testing.T) { validate(t, g.Want.Body) })
	}
}

func TestStreamsMatchSchema(t *testing.T) {
	validators := map[string]func(*testing.T, []byte){"": validator(t, "ResponseStreamEvent")}
	for event, def := range defOf {
		validators[event] = validator(t, def)
	}
	seen := map[string]bool{}
	for _, g := range append(goldens(t, "stream"), goldens(t, "error")...) {
		t.Run(g.Name, func(t *testing.T) {
			for i, e := range sseEvents(t, strings.Join(g.Want.Stream, "\n")) {
				check, known := validators[e.name]
				if !known || e.name == "" {
					t.Fatalf("event %q is unknown", e.name)
				}
				seen[e.name] = true
				check(t, e.data)
				validators[""](t, e.data)
				if g.Op == "stream" && e.sequence != i {
					t.Errorf("event %d has the sequence number %d", i, e.sequence)
				}
			}
		})
	}
	for event := range defOf {
		if !seen[event] {
			t.Errorf("no vector has the event %s", event)
		}
	}
}

// event is one event of a stream.
type event struct {
	name     string
	sequence int
	data     []byte
	fields   map[string]any
}

// sseEvents takes a stream apart and checks the form of its frames.
func sseEvents(t *testing.T, stream string) (all []event) {
	t.Helper()
	for frame := range strings.SplitSeq(strings.TrimRight(stream, "\n"), "\n\n") {
		if frame == "" {
			continue
		}
		name, data, ok := strings.Cut(frame, "\n")
		if !ok || !strings.HasPrefix(name, "event: ") || !strings.HasPrefix(data, "data: ") || strings.Contains(data, "\n") {
			t.Fatalf("frame %q", frame)
		}
		e := event{name: name[len("event: "):], data: []byte(data[len("data: "):])}
		if err := json.Unmarshal(e.data, &e.fields); err != nil {
			t.Fatalf("frame %q: %v", frame, err)
		}
		if e.fields["type"] != e.name {
			t.Fatalf("event %s carries the type %v", e.name, e.fields["type"])
		}
		n, ok := e.fields["sequence_number"].(float64)
		if !ok {
			t.Fatalf("frame %q has no sequence number", frame)
		}
		e.sequence = int(n)
		all = append(all, e)
	}
	return all
}

// TestBodiesAreNative reads every translated body as the engine does.
func TestBodiesAreNative(t *testing.T) {
	accepted := 0
	for _, g := range goldens(t, "request") {
		if g.Want.Refusal != nil {
			if !strings.HasPrefix(g.Name, "request/no: ") {
				t.Errorf("%s is refused: %s", g.Name, g.Want.Refusal.Msg)
			}
			continue
		}
		body := []byte(g.Want.Body)
		if body[0] == '"' { // content that is not compact is written as a string
			var text string
			if err := json.Unmarshal(body, &text); err != nil {
				t.Fatal(err)
			}
			body = []byte(text)
		}
		accepted++
		if _, err := messages.ParseCount(body); err != nil {
			t.Errorf("%s: %v\n%s", g.Name, err, body)
		}
	}
	if accepted < 20 {
		t.Errorf("only %d bodies were read", accepted)
	}
}
