package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// turn is one message of a conversation that all protocols can say.
type turn struct {
	role, text string // "user", "assistant"; role "tool" is the result of the call before it
	call       bool   // an assistant's turn that calls the tool
}

// conversation is one request, told apart from its protocol.
type conversation struct {
	system   string
	turns    []turn
	tool     bool
	thinking bool
	limit    int
}

var words = strings.Fields("the quick brown fox \"jumps\" over ünder naïve \\n {json} <|im_start|> 日本 🙂 lazy dogs and then some more of it")

func someText(r *rand.Rand) string {
	n := 1 + r.IntN(30)
	text := make([]string, n)
	for i := range text {
		text[i] = words[r.IntN(len(words))]
	}
	return strings.Join(text, " ")
}

func someConversation(r *rand.Rand) conversation {
	c := conversation{tool: r.IntN(2) == 0, thinking: r.IntN(2) == 0, limit: 1 + r.IntN(20)}
	if r.IntN(3) > 0 {
		c.system = someText(r)
	}
	for range r.IntN(3) {
		c.turns = append(c.turns, turn{role: "user", text: someText(r)})
		if c.tool && r.IntN(2) == 0 {
			c.turns = append(c.turns, turn{role: "assistant", text: someText(r), call: true}, turn{role: "tool", text: someText(r)})
		}
		c.turns = append(c.turns, turn{role: "assistant", text: someText(r)})
	}
	c.turns = append(c.turns, turn{role: "user", text: someText(r)})
	return c
}

type object = map[string]any

var schema = object{"type": "object", "properties": object{"city": object{"type": "string"}}}

// messagesBody says the conversation in the messages protocol.
func (c conversation) messagesBody(stream bool) object {
	var messages []any
	for i, t := range c.turns {
		blocks := []any{object{"type": "text", "text": t.text}}
		role := t.role
		switch {
		case t.call:
			blocks = append(blocks, object{"type": "tool_use", "id": fmt.Sprint("call_", i), "name": "weather", "input": object{"city": "Paris"}})
		case t.role == "tool":
			role, blocks = "user", []any{object{"type": "tool_result", "tool_use_id": fmt.Sprint("call_", i-1), "content": t.text}}
		}
		messages = append(messages, object{"role": role, "content": blocks})
	}
	body := object{"model": "core-1.1-mini", "messages": messages, "max_tokens": c.limit, "stream": stream, "temperature": 0}
	if c.system != "" {
		body["system"] = c.system
	}
	if c.tool {
		body["tools"] = []any{object{"name": "weather", "description": "Weather of a city.", "input_schema": schema}}
	}
	if !c.thinking {
		body["thinking"] = object{"type": "disabled"}
	}
	return body
}

func (c conversation) chatBody(stream bool) object {
	var messages []any
	if c.system != "" {
		messages = append(messages, object{"role": "system", "content": c.system})
	}
	for i, t := range c.turns {
		m := object{"role": t.role, "content": t.text}
		switch {
		case t.call:
			m["tool_calls"] = []any{object{"id": fmt.Sprint("call_", i), "type": "function",
				"function": object{"name": "weather", "arguments": `{"city":"Paris"}`}}}
		case t.role == "tool":
			m["tool_call_id"] = fmt.Sprint("call_", i-1)
		}
		messages = append(messages, m)
	}
	body := object{"model": "core-1.1-mini", "messages": messages, "max_tokens": c.limit, "stream": stream, "temperature": 0}
	if stream {
		body["stream_options"] = object{"include_usage": true}
	}
	if c.tool {
		body["tools"] = []any{object{"type": "function", "function": object{"name": "weather", "description": "Weather of a city.", "parameters": schema}}}
	}
	if !c.thinking {
		body["reasoning_effort"] = "none"
	}
	return body
}

func (c conversation) responsesBody(stream bool) object {
	var input []any
	for i, t := range c.turns {
		switch {
		case t.role == "tool":
			input = append(input, object{"type": "function_call_output", "call_id": fmt.Sprint("call_", i-1), "output": t.text})
		default:
			input = append(input, object{"role": t.role, "content": t.text})
			if t.call {
				input = append(input, object{"type": "function_call", "call_id": fmt.Sprint("call_", i), "name": "weather", "arguments": `{"city":"Paris"}`})
			}
		}
	}
	body := object{"model": "core-1.1-mini", "input": input, "max_output_tokens": c.limit, "stream": stream, "temperature": 0}
	if c.system != "" {
		body["instructions"] = c.system
	}
	if c.tool {
		body["tools"] = []any{object{"type": "function", "name": "weather", "description": "Weather of a city.", "parameters": schema}}
	}
	if !c.thinking {
		body["reasoning"] = object{"effort": "none"}
	}
	return body
}

// counted is the usage that any protocol reports, brought to one form.
type counted struct{ input, cached, output int }

// postJSON posts a body and returns the whole answer, which must be a success.
func postJSON(t *testing.T, base, key, path string, body object) []byte {
	t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, answer := fetch(t, "POST", base+path, string(text), bearer(key))
	if response.StatusCode != 200 {
		t.Fatalf("%s %s: status %d: %s", path, text, response.StatusCode, answer)
	}
	return []byte(answer)
}

// askRaw posts a body and returns the usage that its answer reports.
func askRaw(t *testing.T, base, key, path string, body object) counted {
	t.Helper()
	answer := postJSON(t, base, key, path, body)
	if stream, _ := body["stream"].(bool); !stream {
		return usageOf(t, path, answer, counted{})
	}
	var got counted
	var blocks blockOrder
	lines := bufio.NewScanner(bytes.NewReader(answer))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: ")); ok && string(data) != "[DONE]" {
			got = usageOf(t, path, data, got)
			if path == "/v1/messages" {
				blocks.see(t, data)
			}
		}
	}
	return got
}

// blockOrder follows the blocks of a stream of messages. They come one after the other, each with the
// next index, and all deltas and the stop have the index of the block that is open.
type blockOrder struct {
	begun  int    // blocks so far
	open   string // the type of the last one until it stops
	signed bool   // and it has its signature, which is the last that a thinking block gets
}

var blockDeltas = map[string][]string{"thinking": {"thinking_delta", "signature_delta"}, "text": {"text_delta"}, "tool_use": {"input_json_delta"}}

// see takes the next frame.
func (o *blockOrder) see(t *testing.T, data []byte) {
	t.Helper()
	var f struct {
		Type  string
		Index *int
		Block struct{ Type string } `json:"content_block"`
		Delta struct{ Type string }
	}
	if err := json.Unmarshal(data, &f); err != nil {
		t.Errorf("frame %s: %v", data, err)
		return
	}
	before, ok := *o, true
	switch f.Type {
	case "content_block_start":
		ok = o.open == "" && blockDeltas[f.Block.Type] != nil
		*o = blockOrder{begun: o.begun + 1, open: f.Block.Type}
	case "content_block_delta":
		ok = !o.signed && slices.Contains(blockDeltas[o.open], f.Delta.Type)
		o.signed = f.Delta.Type == "signature_delta"
	case "content_block_stop":
		ok = o.open != "" && o.signed == (o.open == "thinking")
		o.open = ""
	case "message_delta":
		ok = o.open == ""
	}
	if ok = ok && (!strings.HasPrefix(f.Type, "content_block_") || f.Index != nil && *f.Index == o.begun-1); !ok {
		t.Errorf("after %+v comes %s", before, data)
	}
}

// usageOf reads what an object says of usage over what is known.
func usageOf(t *testing.T, path string, data []byte, known counted) counted {
	t.Helper()
	type usage struct {
		InputTokens          *int `json:"input_tokens"`
		CacheReadInputTokens *int `json:"cache_read_input_tokens"`
		OutputTokens         int  `json:"output_tokens"`
		InputTokensDetails   struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		PromptTokens        int `json:"prompt_tokens"`
		CompletionTokens    int `json:"completion_tokens"`
		PromptTokensDetails struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	}
	var seen struct {
		Usage    *usage
		Message  struct{ Usage *usage }
		Response struct{ Usage *usage }
	}
	if err := json.Unmarshal(data, &seen); err != nil {
		t.Fatalf("%s: %v in %s", path, err, data)
	}
	for _, u := range []*usage{seen.Usage, seen.Message.Usage, seen.Response.Usage} {
		switch {
		case u == nil:
		case u.PromptTokens > 0:
			known = counted{u.PromptTokens, u.PromptTokensDetails.CachedTokens, u.CompletionTokens}
		case path == "/v1/responses":
			known = counted{*u.InputTokens, u.InputTokensDetails.CachedTokens, u.OutputTokens}
		case u.InputTokens != nil:
			known = counted{*u.InputTokens + *u.CacheReadInputTokens, *u.CacheReadInputTokens, u.OutputTokens}
		}
	}
	return known
}

// TestUsageIsTheSameEverywhere: one conversation has one number of input and
// output tokens, over every protocol, streaming or not, cached or not, and
// count_tokens says the same input.
func TestUsageIsTheSameEverywhere(t *testing.T) {
	_, base, key := startNode(t, nil)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	rounds, cached := 12, 0
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		c := someConversation(r)
		count := c.messagesBody(false)
		delete(count, "max_tokens")
		var want counted
		for i, ask := range []func() counted{
			func() counted { return askRaw(t, base, key, "/v1/messages", c.messagesBody(false)) },
			func() counted { return askRaw(t, base, key, "/v1/messages", c.messagesBody(true)) },
			func() counted { return askRaw(t, base, key, "/v1/chat/completions", c.chatBody(false)) },
			func() counted { return askRaw(t, base, key, "/v1/chat/completions", c.chatBody(true)) },
			func() counted { return askRaw(t, base, key, "/v1/responses", c.responsesBody(false)) },
			func() counted { return askRaw(t, base, key, "/v1/responses", c.responsesBody(true)) },
		} {
			got := ask()
			cached += got.cached
			if i == 0 {
				want = got
			}
			if got.input != want.input || got.output != want.output || got.input == 0 || got.output == 0 {
				t.Errorf("way %d reports %+v, the first way %+v, of %+v", i, got, want, c)
			}
		}
		if n := askCount(t, base, key, count); n != want.input {
			t.Errorf("count_tokens says %d, the requests %d, of %+v", n, want.input, c)
		}
	}
	if cached == 0 {
		t.Error("nothing was ever cached: the test does not show what it says")
	}
}

func askCount(t *testing.T, base, key string, body object) int {
	t.Helper()
	var counted struct {
		InputTokens int `json:"input_tokens"`
	}
	if err := json.Unmarshal(postJSON(t, base, key, "/v1/messages/count_tokens", body), &counted); err != nil {
		t.Fatal(err)
	}
	return counted.InputTokens
}

// TestLengthIsTheSameEverywhere: an answer is as long as a load tool asks for over every
// protocol, through the modules, streaming or not; a repetition penalty is the same for all.
func TestLengthIsTheSameEverywhere(t *testing.T) {
	_, base, key := startNode(t, nil)
	c := conversation{turns: []turn{{role: "user", text: "Say hello."}}, limit: 60}
	lengths := map[string]map[int]bool{}
	for _, stream := range []bool{false, true} {
		for path, body := range map[string]object{"/v1/messages": c.messagesBody(stream), "/v1/chat/completions": c.chatBody(stream), "/v1/responses": c.responsesBody(stream)} {
			for name, more := range map[string]object{"none": {}, "ignore_eos": {"ignore_eos": true}, "min_tokens": {"min_tokens": 60}, "penalty": {"repetition_penalty": 1.4, "min_tokens": 9}} {
				all := object{}
				for _, of := range []object{body, more} {
					maps.Copy(all, of)
				}
				if lengths[name] == nil {
					lengths[name] = map[int]bool{}
				}
				lengths[name][askRaw(t, base, key, path, all).output] = true
			}
		}
	}
	if !lengths["ignore_eos"][60] || !lengths["min_tokens"][60] || lengths["none"][60] {
		t.Errorf("answers have these lengths: %v; want 60 where it was asked for, and less without", lengths)
	}
	for name, of := range lengths {
		if len(of) != 1 {
			t.Errorf("%s: the length depends on the protocol: %v", name, of)
		}
	}
}
