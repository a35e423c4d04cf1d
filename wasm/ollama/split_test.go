package ollama_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
	"corenode/wasm/ollama"
)

var framesOf, historyOf = vectortest.FramesOf, vectortest.HistoryOf

// randomAnswer is one of vectortest, with times.
func randomAnswer(rnd *rand.Rand) []abi.Event {
	all := vectortest.RandomAnswer(rnd, []string{"f", `g"`}, func(text string) string {
		raw, _ := json.MarshalIndent(map[string]string{"input": text}, "", "\n")
		return string(raw)
	})
	all[len(all)-1].Elapsed = &abi.Elapsed{Total: 50, Prompt: 20, Generation: 30}
	return all
}

// streamed runs an answer in groups that end after the given events, as a host
// does: the kept bytes with the start and the end only.
func streamed(t *testing.T, kept []byte, all []abi.Event, ends []int) []byte {
	t.Helper()
	var out, state []byte
	from := 0
	for _, to := range ends {
		in := abi.EventsInput{Facts: facts, State: state, Events: framesOf(all[from:to]), History: historyOf(all[:to])}
		if from == 0 || to == len(all) {
			in.Kept = kept
		}
		out, state = ollama.New().Events(out, nil, in)
		if len(state) > abi.StateBytesMax {
			t.Fatalf("the state has %d bytes", len(state))
		}
		from = to
	}
	return out
}

// line is what a client reads of a line, or of a whole answer.
type line struct {
	Model, Response, Thinking string
	Message                   struct {
		Content, Thinking string
		Calls             []struct {
			Function struct {
				Name      string
				Index     int
				Arguments map[string]string
			}
		} `json:"tool_calls"`
	}
	Done   bool
	Reason string `json:"done_reason"`
	Prompt int    `json:"prompt_eval_count"`
	Output int    `json:"eval_count"`
	Total  int    `json:"total_duration"`
}

// sum joins lines as clients do.
func sum(t *testing.T, stream []byte) (all line) {
	t.Helper()
	for text := range bytes.Lines(stream) {
		var l line
		if err := json.Unmarshal(text, &l); err != nil || all.Done {
			t.Fatalf("%s: %v", text, err)
		}
		l.Response, l.Thinking = all.Response+l.Response, all.Thinking+l.Thinking
		l.Message.Content, l.Message.Thinking = all.Message.Content+l.Message.Content, all.Message.Thinking+l.Message.Thinking
		l.Message.Calls = append(all.Message.Calls, l.Message.Calls...)
		all = l
	}
	return all
}

// TestSplits cuts random answers at random places: the bytes are those of one
// group, and their sum is the whole answer, which is what the events say.
func TestSplits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		all, kept := randomAnswer(rnd), []byte{byte(i % 2)}
		whole := vectortest.SameInGroups(t, rnd, len(all), func(ends []int) []byte { return streamed(t, kept, all, ends) })
		var text, thinking string
		calls := 0
		for _, e := range all {
			switch {
			case e.Kind == abi.EventDelta && e.Block == abi.BlockText:
				text += e.Text
			case e.Kind == abi.EventDelta && e.Block == abi.BlockThinking:
				thinking += e.Text
			case e.Kind == abi.EventBlockStart && e.Block == abi.BlockToolUse:
				calls++
			}
		}
		if i%2 == 1 && calls > 0 { // a generate has no tools
			continue
		}
		got := sum(t, whole)
		object := ollama.New().Response(nil, abi.ResponseInput{Facts: facts, Kept: kept, Events: historyOf(all)})
		if want := sum(t, object); !reflect.DeepEqual(got, want) {
			t.Fatalf("the stream says\n%+v\nthe answer\n%+v", got, want)
		}
		said, thought := got.Message.Content, got.Message.Thinking
		if i%2 == 1 {
			said, thought = got.Response, got.Thinking
		}
		if said != text || thought != thinking || len(got.Message.Calls) != calls || !got.Done || got.Model != facts.Model ||
			got.Prompt != 5 || got.Output != 9 || got.Total != 50 || (got.Reason == "length") != (all[len(all)-1].Stop == abi.StopMaxTokens) {
			t.Fatalf("%+v\nof %+v", got, all)
		}
	}
}
