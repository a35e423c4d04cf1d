package ollama_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/ollama"
)

var words = []string{"a", "", "zwölf ", "\"", "\\", "\n", "☃", "𝄞", "<b>", "\x00", "{}", "two words"}

// randomAnswer is a whole answer of up to four blocks.
func randomAnswer(rnd *rand.Rand) []abi.Event {
	all := []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 3, CacheRead: 2}}}
	for index := range rnd.Int32N(5) {
		start := abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockKind(rnd.IntN(3)), Index: index}
		if start.Block == abi.BlockToolUse {
			start.ID, start.Name = "toolu_x", []string{"f", `g"`}[rnd.IntN(2)]
		}
		all = append(all, start)
		text := ""
		for range rnd.IntN(6) {
			text += words[rnd.IntN(len(words))]
		}
		if start.Block == abi.BlockToolUse {
			raw, _ := json.MarshalIndent(map[string]string{"input": text}, "", "\n")
			text = string(raw)
		}
		for len(text) > 0 {
			n := 1 + rnd.IntN(len(text))
			for n < len(text) && text[n]&0xC0 == 0x80 { // texts end between characters
				n++
			}
			all = append(all, abi.Event{Kind: abi.EventDelta, Block: start.Block, Index: index, Text: text[:n]})
			text = text[n:]
		}
		all = append(all, abi.Event{Kind: abi.EventBlockStop, Block: start.Block, Index: index})
	}
	stop := []abi.StopReason{abi.StopEndTurn, abi.StopMaxTokens, abi.StopToolUse}[rnd.IntN(3)]
	return append(all, abi.Event{Kind: abi.EventEnd, Stop: stop, Usage: abi.Usage{InputUncached: 3, CacheRead: 2, Output: 9, Reasoning: 1},
		Elapsed: &abi.Elapsed{Total: 50, Prompt: 20, Generation: 30}})
}

func framesOf(all []abi.Event) (f abi.Frames) {
	for i := range all {
		f = abi.AppendFrame(f, &all[i])
	}
	return f
}

// historyOf is the answer with one delta a block.
func historyOf(all []abi.Event) abi.Frames {
	var merged []abi.Event
	for _, e := range all {
		if n := len(merged) - 1; e.Kind == abi.EventDelta && merged[n].Kind == abi.EventDelta {
			merged[n].Text += e.Text
			continue
		}
		merged = append(merged, e)
	}
	return framesOf(merged)
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
		whole := streamed(t, kept, all, []int{len(all)})
		for range 5 {
			var ends []int
			for i := 1; i < len(all); i++ {
				if rnd.IntN(3) == 0 {
					ends = append(ends, i)
				}
			}
			ends = append(ends, len(all))
			if got := streamed(t, kept, all, ends); !bytes.Equal(got, whole) {
				t.Fatalf("groups that end at %v give\n%s\nnot\n%s", ends, got, whole)
			}
		}
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
