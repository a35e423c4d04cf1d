package responses

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"corenode/extensions/vector/vectortest"
	"corenode/wasm/abi"
)

const toolsRequest = `{"model":"m","input":"q",` + tools + `}`

const tools = `"tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"},` +
	`{"type":"namespace","name":"n","description":"","tools":[{"type":"function","name":"g"}]},{"type":"tool_search","execution":"client"}]`

// summaryRequest is one whose text is a summary.
const summaryRequest = `{"model":"m","input":[{"role":"user","content":"q"},{"type":"compaction_trigger"}],` + tools + `}`

func keptOf(t testing.TB, body string) []byte {
	t.Helper()
	out, refusal := New().Request(abi.RequestInput{Body: []byte(body)})
	if refusal != nil {
		t.Fatal(refusal)
	}
	return out.Kept
}

var framesOf, historyOf = vectortest.FramesOf, vectortest.HistoryOf

// randomAnswer is one of vectortest. Some inputs of calls are no JSON.
func randomAnswer(rnd *rand.Rand) []abi.Event {
	return vectortest.RandomAnswer(rnd, []string{"f", "c", "n:g", searchTool}, func(text string) string {
		if rnd.IntN(4) == 0 {
			return text
		}
		raw, _ := json.Marshal(map[string]string{"input": text})
		return string(raw)
	})
}

func hasKind(group []abi.Event, kinds ...abi.EventKind) bool {
	for _, e := range group {
		if slices.Contains(kinds, e.Kind) {
			return true
		}
	}
	return false
}

// streamed runs an answer in groups that end after the given events, as a host does.
func streamed(t testing.TB, facts abi.Facts, kept []byte, all []abi.Event, ends []int) []byte {
	t.Helper()
	var out, state []byte
	from := 0
	for _, to := range ends {
		in := abi.EventsInput{Facts: facts, State: state, Events: framesOf(all[from:to])}
		if hasKind(all[from:to], abi.EventStart, abi.EventEnd) {
			in.Kept = kept
		}
		if hasKind(all[from:to], abi.EventBlockStop, abi.EventEnd) {
			in.History = historyOf(all[:to])
		}
		out, state = New().Events(out, nil, in)
		if len(state) > abi.StateBytesMax {
			t.Fatalf("the state has %d bytes", len(state))
		}
		from = to
	}
	return out
}

// TestSplits cuts random answers at random places: the bytes are those of one
// group, and the last event carries the object of a whole answer.
func TestSplits(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	facts := abi.Facts{ID: "id", Created: 5, Model: "m", Stream: true}
	for i := range 400 {
		kept := keptOf(t, []string{toolsRequest, summaryRequest}[i%2])
		all := randomAnswer(rnd)
		whole := vectortest.SameInGroups(t, rnd, len(all), func(ends []int) []byte {
			return streamed(t, facts, kept, all, ends)
		})
		frames := sseEvents(t, string(whole))
		last := frames[len(frames)-1]
		object := string(New().Response(nil, abi.ResponseInput{Facts: facts, Kept: kept, Events: historyOf(all)}))
		if !strings.HasSuffix(string(last.data), `"response":`+object+"}") {
			t.Fatalf("the stream ends with\n%s\nthe response is\n%s", last.data, object)
		}
		checkSequence(t, frames)
		if i%2 == 1 {
			checkSummary(t, frames)
		}
	}
}

// checkSummary checks what agents want of a summary: one item of it that says something in a response that is completed, and none
// in one that is not.
func checkSummary(t *testing.T, frames []event) {
	t.Helper()
	done := 0
	for _, e := range frames {
		item, _ := e.fields["item"].(map[string]any)
		if e.name == "response.output_item.done" && item["type"] == "compaction" {
			if text := item["encrypted_content"].(string); strings.TrimSpace(text) == "" {
				t.Errorf("a summary says nothing: %s", e.data)
			}
			done++
		}
	}
	last := frames[len(frames)-1]
	output := last.fields["response"].(map[string]any)["output"].([]any)
	told := 0
	for i, item := range output {
		if item.(map[string]any)["type"] == "compaction" {
			told++
			if i != len(output)-1 {
				t.Errorf("%d items stand behind the summary: %s", len(output)-1-i, last.data)
			}
		}
	}
	want := map[string]int{"response.completed": 1, "response.incomplete": 0} // incomplete: it is cut before it says anything
	if n, ok := want[last.name]; !ok || done != n || told != n {
		t.Errorf("%d summaries are told of, %d are in %s: %s", done, told, last.name, last.data)
	}
}

// checkSequence checks what readers of a stream rely on: rising numbers, every
// item added before it is done, texts that are the sum of their deltas.
func checkSequence(t *testing.T, frames []event) {
	t.Helper()
	sums := map[any]string{}
	open := any(nil)
	for i, e := range frames {
		if e.sequence != i {
			t.Fatalf("event %d has the number %d", i, e.sequence)
		}
		id := e.fields["item_id"]
		switch {
		case e.name == "response.output_item.added":
			if open != nil {
				t.Fatalf("%s while %v is open", e.data, open)
			}
			open = e.fields["item"].(map[string]any)["id"]
		case e.name == "response.output_item.done":
			if done := e.fields["item"].(map[string]any)["id"]; done != open {
				t.Fatalf("%s while %v is open", e.data, open)
			}
			open = nil
		case id != nil && id != open:
			t.Fatalf("%s while %v is open", e.data, open)
		case strings.HasSuffix(e.name, ".delta"):
			sums[id] += e.fields["delta"].(string)
		case strings.HasSuffix(e.name, ".done") && e.fields["part"] == nil:
			for _, field := range []string{"text", "arguments", "input"} {
				if text, ok := e.fields[field].(string); ok && text != sums[id] {
					t.Fatalf("%s: the deltas say %q", e.data, sums[id])
				}
			}
		}
	}
}

// TestHeldBlocksShowLife: clients that take a stream without events for broken read some while a block is held back.
func TestHeldBlocksShowLife(t *testing.T) {
	for _, c := range []struct {
		request, sign string
		block         abi.Event
	}{
		{summaryRequest, "keepalive", abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockText}},
		{toolsRequest, "keepalive", abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "i", Name: searchTool}},
		{toolsRequest, "response.custom_tool_call_input.delta",
			abi.Event{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, ID: "i", Name: "c"}},
	} {
		for _, deltas := range []int{3, 1000} {
			all := []abi.Event{{Kind: abi.EventStart}, c.block}
			for range deltas {
				all = append(all, abi.Event{Kind: abi.EventDelta, Block: c.block.Block, Text: "x"})
			}
			ends := []int{2}
			for i := range deltas {
				ends = append(ends, 3+i)
			}
			frames := sseEvents(t, string(streamed(t, abi.Facts{ID: "id"}, keptOf(t, c.request), all, ends)))
			checkSequence(t, frames)
			signs := 0
			for _, e := range frames {
				if e.name == c.sign {
					signs++
				}
			}
			if want := deltas / heldDeltas; signs != want {
				t.Errorf("%d %s for %d deltas that are held back, want %d", signs, c.sign, deltas, want)
			}
		}
	}
}

// TestConcurrent runs one translator from many goroutines: the race detector watches.
func TestConcurrent(t *testing.T) {
	tr := New()
	kept := keptOf(t, toolsRequest)
	run := func() []byte {
		all := randomAnswer(rand.New(rand.NewPCG(3, 4)))
		return streamed(t, abi.Facts{ID: "x"}, kept, all, []int{1, len(all)})
	}
	want := run()
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 20 {
				if _, refusal := tr.Request(abi.RequestInput{Body: []byte(toolsRequest)}); refusal != nil {
					t.Error(refusal)
				}
				if got := run(); !bytes.Equal(got, want) {
					t.Errorf("got %s", got)
				}
			}
		})
	}
	wait.Wait()
}

// TestEchoIsBounded gives requests whose echo would be over the bound: they are
// translated whole, only the echo is cut to what fits.
func TestEchoIsBounded(t *testing.T) {
	long := strings.Repeat("x", abi.KeptBytesMax)
	for name, body := range map[string]string{
		"instructions": `{"model":"m","input":"q","instructions":"` + long + `","metadata":{"k":"v"}}`,
		"tools":        `{"model":"m","input":"q","instructions":"I","metadata":{"k":"v"},"tools":[{"type":"function","name":"f","description":"` + long + `"}]}`,
		"both":         `{"model":"m","input":"q","instructions":"` + long + `","metadata":{"k":"v"},"tools":[{"type":"function","name":"f","description":"` + long + `"}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			out, refusal := New().Request(abi.RequestInput{Body: []byte(body)})
			if refusal != nil {
				t.Fatal(refusal)
			}
			if len(out.Kept) > abi.KeptBytesMax {
				t.Errorf("%d bytes are kept", len(out.Kept))
			}
			if strings.Count(string(out.Body), long) != strings.Count(body, long) {
				t.Error("the translated body lost text")
			}
			object := New().Response(nil, abi.ResponseInput{Kept: out.Kept,
				Events: framesOf([]abi.Event{{Kind: abi.EventStart}, {Kind: abi.EventEnd}})})
			if !json.Valid(object) || !strings.Contains(string(object), `"metadata":{"k":"v"}`) {
				t.Errorf("the response is %.300s", object)
			}
		})
	}
}

// TestCustomToolsAreBounded: their names travel in the state.
func TestCustomToolsAreBounded(t *testing.T) {
	body := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, `{"type":"custom","name":"tool_`+strings.Repeat("x", i)+`"}`)
		}
		return `{"model":"m","input":"q","tools":[` + strings.Join(all, ",") + `]}`
	}
	kept := keptOf(t, body(customMax))
	streamed(t, abi.Facts{}, kept, []abi.Event{{Kind: abi.EventStart}}, []int{1})
	if _, refusal := New().Request(abi.RequestInput{Body: []byte(body(customMax + 1))}); refusal == nil || refusal.Param != "tools" {
		t.Errorf("%d custom tools: %v", customMax+1, refusal)
	}
}
