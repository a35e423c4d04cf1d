package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"corenode/engine/messages"
	"corenode/wasm/abi"
	"corenode/wasm/chat"
)

// bodies have every field of the subset that a chat body can say.
var bodies = []string{
	`{"model":"m","max_tokens":3,"messages":[{"role":"user","content":"hi"}]}`,
	`{"model":"m","max_tokens":3,"output_config":{"effort":"low"},"messages":[{"role":"user","content":"a"}]}`,
	`{"model":"m","max_tokens":3,"system":"be brief","thinking":{"type":"disabled"},"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}`,
	`{"model":"m","max_tokens":100,"temperature":0.25,"top_p":0.5,"top_k":7,"min_p":0.1,"presence_penalty":-1,"frequency_penalty":1.5,"repetition_penalty":1.1,"seed":-7,"min_tokens":2,"ignore_eos":true,"stop_sequences":["a\"b","\u20ac"],"messages":[{"role":"user","content":"x"}]}`,
	`{"model":"m","max_tokens":9,"tools":[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"x":{"type":"integer"}}}},{"name":"g","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"so"},{"type":"tool_use","id":"c1","name":"f","input":{"x":1}},{"type":"tool_use","id":"c2","name":"g","input":{}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"c1","content":"one"},{"type":"tool_result","tool_use_id":"c2","content":"two"},{"type":"text","text":"go on"}]}]}`,
	`{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any","disable_parallel_tool_use":true},"messages":[{"role":"user","content":"x"}]}`,
	`{"model":"m","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"},"response_format":{"type":"json_object"},"messages":[{"role":"user","content":"x"}]}`,
	`{"model":"m","max_tokens":9,"output_config":{"format":{"type":"json_schema","schema":{"type":"object","properties":{"a":{"type":"string"}}}}},"messages":[{"role":"user","content":"x"}]}`,
}

// back takes a chat body to a request as our own translator does.
func back(t *testing.T, body []byte) *messages.Request {
	t.Helper()
	in, e := (chat.Translator{}).Request(abi.RequestInput{Body: body})
	if e != nil {
		t.Fatalf("%s: %v", body, e)
	}
	q, err := messages.ParseTranslated(in.Body)
	if err != nil {
		t.Fatalf("%s\nbecame %s: %v", body, in.Body, err)
	}
	return q
}

// same compares requests in what a model sees and does.
func same(t *testing.T, body []byte, got, want *messages.Request) {
	t.Helper()
	strip := func(q *messages.Request) messages.Request {
		c := *q
		c.Body, c.Model, c.Stream, c.MaxTokens, c.Translated = nil, "", false, 0, false
		if !c.Thinking { // what would be thought says nothing then
			c.Effort = ""
		}
		c.System, c.Messages = messages.Opening(q)
		c.Messages = joinResults(messages.MergeTurns(c.Messages))
		if c.ToolChoice.Mode == "tool" { // one named tool is called once, which both protocols mean
			c.ToolChoice.DisableParallel = false
		}
		if len(c.Tools) == 0 { // nothing can be chosen
			c.ToolChoice = messages.ToolChoice{Mode: "auto"}
		}
		if f := c.Format; f != nil {
			c.Format = &messages.Format{Schema: f.Schema}
		}
		for i := range c.Tools {
			c.Tools[i].At = 0
		}
		for i, m := range c.Messages {
			blocks := []messages.Block{}
			for _, b := range m.Blocks {
				if b.Type != messages.Text || b.Text != "" {
					blocks = append(blocks, b)
				}
			}
			c.Messages[i].Blocks = blocks
		}
		return c
	}
	if g, w := strip(got), strip(want); !reflect.DeepEqual(g, w) {
		t.Errorf("%s\nbecame\n%+v\nwant\n%+v", body, g, w)
	}
}

// joinResults puts a text behind tool results into their message: templates write both alike.
func joinResults(msgs []messages.Message) (joined []messages.Message) {
	for _, m := range msgs {
		last := len(joined) - 1
		if m.Role == "user" && last >= 0 && joined[last].Role == "user" && joined[last].Blocks[0].Type == messages.ToolResult {
			joined[last].Blocks = append(slices.Clip(joined[last].Blocks), m.Blocks...)
			continue
		}
		joined = append(joined, m)
	}
	return joined
}

// TestChatLosesNothing: a request as a chat body, read by our own translator, is the request
// that it was.
func TestChatLosesNothing(t *testing.T) {
	for _, text := range bodies {
		q, err := messages.Parse([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if lost := Lost(VLLM, nil, q); lost != "" {
			t.Errorf("%s: vLLM is not told of %v", text, lost)
		}
		body := Chat(VLLM, q, ChatOptions{Model: "there", MaxTokens: q.MaxTokens, CacheSalt: "salt"})
		if !json.Valid(body) {
			t.Fatalf("%s is no JSON", body)
		}
		if bytes.Contains(body, []byte("[]")) { // some servers refuse an empty list, such as one of calls
			t.Errorf("%s has a list of nothing", body)
		}
		same(t, body, back(t, body), q)
	}
}

// FuzzChat: the same for any request that the parser takes, of those whose turns both
// protocols can write in their order.
func FuzzChat(f *testing.F) {
	for _, b := range bodies {
		f.Add([]byte(b))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		q, err := messages.ParseTranslated(text)
		if err != nil || !sayable(q) {
			return
		}
		body := Chat(SGLang, q, ChatOptions{Model: "there", MaxTokens: max(1, q.MaxTokens)})
		if !json.Valid(body) {
			t.Fatalf("%s is no JSON", body)
		}
		same(t, body, back(t, body), q)
	})
}

// sayable says whether a chat body can say the request in this form: its texts are one for
// each message, in the order in which a model and a client write, and its numbers are in the bounds
// of the chat protocol. Others lose the borders of their blocks, which no template shows.
func sayable(q *messages.Request) bool {
	for _, m := range q.Messages {
		texts, last := 0, messages.BlockType(0)
		if m.Role == "system" || len(m.Blocks) == 0 {
			return false
		}
		for i, b := range m.Blocks {
			rank := map[messages.BlockType]messages.BlockType{messages.Thinking: 0, messages.ToolResult: 0, messages.Text: 1,
				messages.ToolUse: 2}[b.Type]
			if b.Text == "" && b.Type != messages.ToolUse || rank < last || b.IsError || i > 0 && b.Type == messages.Thinking ||
				b.Type == messages.ToolUse && b.ID == "" || b.Type == messages.ToolResult && b.ID == "" {
				return false
			}
			if last = rank; b.Type == messages.Text {
				texts++
			}
		}
		if texts > 1 {
			return false
		}
	}
	merged := messages.MergeTurns(q.Messages)
	if k := q.Sampling.TopK; k != nil && *k == 0 { // which SGLang has as another number
		return false
	}
	return len(merged) == len(q.Messages) && (q.Format == nil || q.ToolChoice.Mode != "any" && q.ToolChoice.Mode != "tool")
}

// TestAborted: a server that gave up names a reason too; it is no end of an answer.
func TestAborted(t *testing.T) {
	r := NewReader(VLLM, nil, func() string { return "id" })
	_, err := r.Feed(nil, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"x\"},\"finish_reason\":\"abort\"}]}\n\ndata: [DONE]\n\n"))
	if err == nil || r.Ended() {
		t.Errorf("error %v, ended %v", err, r.Ended())
	}
}

// TestNamedTool: a server that cannot be told which tool to call is told of no other.
func TestNamedTool(t *testing.T) {
	q, err := messages.Parse([]byte(bodies[slices.IndexFunc(bodies, func(b string) bool { return strings.Contains(b, `"type":"tool","name":"f"`) })]))
	if err != nil {
		t.Fatal(err)
	}
	for flavor, want := range map[Flavor]string{
		LlamaServer: `[1,"required",false]`,
		VLLM:        `[2,{"type":"function","function":{"name":"f"}},false]`,
	} {
		var sent struct {
			Tools    []json.RawMessage `json:"tools"`
			Choice   json.RawMessage   `json:"tool_choice"`
			Parallel bool              `json:"parallel_tool_calls"`
		}
		if err := json.Unmarshal(Chat(flavor, Told(flavor, q), ChatOptions{Model: "there", MaxTokens: 9}), &sent); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("[%d,%s,%t]", len(sent.Tools), sent.Choice, sent.Parallel); got != want {
			t.Errorf("%s is sent %s, want %s", flavor, got, want)
		}
	}
	if len(q.Tools) != 2 || q.ToolChoice.Mode != "tool" {
		t.Error("the request itself was changed")
	}
}

// TestChatWithoutWords: what the system says without words, or said for a turn that is over, no server is sent.
func TestChatWithoutWords(t *testing.T) {
	const turns = `{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"f","input":{}}]},` +
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"one"}]}`
	sent := func(said string) string {
		q, err := messages.Parse([]byte(`{"model":"m","max_tokens":9,"messages":[` + said + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		return string(Chat(VLLM, q, ChatOptions{}))
	}
	for _, said := range []string{
		turns + `,{"role":"system","content":[],"output_config":{"effort":"high"}}`,
		strings.Replace(turns, `,{"role":"assistant"`, `,{"role":"system","content":"a","clear_at":"next_user_message"},{"role":"system"},{"role":"assistant"`, 1),
	} {
		if got, want := sent(said), sent(turns); got != want {
			t.Errorf("%s\ngives %s\nwant  %s", said, got, want)
		}
	}
}
