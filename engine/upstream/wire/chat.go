package wire

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/messages"
)

// Chat returns the chat completions body that asks for what a messages request asks. The
// answer always streams, with its usage. Nothing of the request that the flavor can
// express is left out. Of what it cannot, Lost finds the sampling; thinking is TellsThinking's.
func Chat(f Flavor, q *messages.Request, o ChatOptions) []byte {
	w := chatWriter{traits: f.Traits(), flavor: f, q: q, b: make([]byte, 0, 1024)}
	w.b = append(w.b, `{"model":`...)
	w.string(o.Model)
	w.messages()
	w.tools()
	w.format()
	w.sampling(&o)
	w.template()
	if o.CacheSalt != "" && w.traits.CacheSalt {
		w.key("cache_salt")
		w.string(o.CacheSalt)
	}
	w.key("stream")
	w.b = append(w.b, `true,"stream_options":{"include_usage":true`...)
	if w.traits.ContinuousUsage {
		w.b = append(w.b, `,"continuous_usage_stats":true`...)
	}
	return append(w.b, "}}"...)
}

// ChatOptions are what a chat body has beside the request.
type ChatOptions struct {
	Model     string   // its name at the server
	MaxTokens int      // the most tokens to produce
	CacheSalt string   // keeps this account's prefixes apart; empty without
	Sampling  []string // of the flavor's Optional, what the server reads beside its flavor's
}

// Lost names a field that a flavor's servers cannot be told and that asks for something: a
// request with one must be refused. It is empty where there is none; a value that changes nothing is left
// out. more are those of the flavor's Optional that the servers know. A messages client's own body goes to
// servers of the protocol as it came, whatever it asks for.
func Lost(f Flavor, more []string, q *messages.Request) string {
	t := f.Traits()
	if t.Extended || t.Messages && !q.Translated {
		return ""
	}
	s, told := q.Sampling, slices.Concat(f.samplingWith(more), f.protocolFields())
	for _, field := range []struct {
		asked bool
		names []string // of which servers have one
	}{
		{s.TopK != nil && *s.TopK != 0, []string{"top_k"}},
		{differs(s.MinP, 0), []string{"min_p"}},
		{differs(s.PresencePenalty, 0), []string{"presence_penalty"}},
		{differs(s.FrequencyPenalty, 0), []string{"frequency_penalty"}},
		{differs(s.RepetitionPenalty, 1), []string{"repetition_penalty", "repeat_penalty"}},
		{s.Seed != nil, []string{"seed"}},
		{s.MinTokens > 0, []string{"min_tokens"}},
		{s.IgnoreEOS, []string{"ignore_eos"}},
		{q.Format != nil && q.Format.Schema == nil && !q.ForcesCall(), []string{"response_format"}},
	} {
		if field.asked && !slices.ContainsFunc(field.names, func(name string) bool { return slices.Contains(told, name) }) {
			return field.names[0]
		}
	}
	return ""
}

func differs(v *float64, neutral float64) bool { return v != nil && *v != neutral }

// Without are the members of a request's body that a server of the messages protocol is not sent: those that a translator
// has for what the protocol does not. Lost refused what asks for something. more is as there.
func Without(f Flavor, more []string, q *messages.Request) []string {
	if f.Traits().Extended || !q.Translated {
		return nil
	}
	without := []string{"raw", "stream_array", "room_tokens"}
	for _, name := range MessagesFields {
		if !slices.Contains(more, name) {
			without = append(without, name)
		}
	}
	return without
}

// Told is a request as servers of the make can be told it: where no tool can be named as the
// one to call, it has no other.
func Told(f Flavor, q *messages.Request) *messages.Request {
	if !f.Traits().AnyTool || q.ToolChoice.Mode != "tool" {
		return q
	}
	told := *q
	told.Tools = slices.DeleteFunc(slices.Clone(q.Tools), func(t messages.Tool) bool { return t.Name != q.ToolChoice.Name })
	told.ToolChoice = messages.ToolChoice{Mode: "any", DisableParallel: true}
	return &told
}

// chatWriter appends one body. Every member but the first has its comma before it.
type chatWriter struct {
	traits Traits
	flavor Flavor
	q      *messages.Request
	b      []byte
	begun  bool // the last message begins the answer
}

func (w *chatWriter) string(s string) {
	w.b, _ = jsontext.AppendQuote(w.b, s) // fails only for broken UTF-8, which it replaces
}

// key begins a member.
func (w *chatWriter) key(name string) {
	w.b = append(append(append(w.b, `,"`...), name...), `":`...)
}

// raw appends JSON as the client sent it.
func (w *chatWriter) raw(v json.RawMessage) { w.b = append(w.b, v...) }

func (w *chatWriter) messages() {
	w.key("messages")
	w.b = append(w.b, '[')
	system, rest := messages.Opening(w.q)
	rest = messages.MergeTurns(rest)
	w.begun = w.traits.ContinueFinal && len(rest) > 0 && messages.BeginsAnswer(rest[len(rest)-1])
	if system != "" {
		w.begin("system")
		w.content(system)
		w.b = append(w.b, '}')
	}
	for i := range rest {
		if rest[i].Role == "assistant" {
			w.assistant(&rest[i])
		} else {
			w.user(&rest[i])
		}
	}
	w.b = append(w.b, ']')
}

// begin opens a message.
func (w *chatWriter) begin(role string) {
	if w.b[len(w.b)-1] != '[' {
		w.b = append(w.b, ',')
	}
	w.b = append(append(append(w.b, `{"role":"`...), role...), '"')
}

func (w *chatWriter) content(text string) {
	w.key("content")
	w.string(text)
}

// user writes a message's tool results, each a message of its own, and then its text.
func (w *chatWriter) user(m *messages.Message) {
	results, texts := 0, 0
	for _, b := range m.Blocks {
		if b.Type != messages.ToolResult {
			texts++
			continue
		}
		results++
		w.begin("tool")
		w.key("tool_call_id")
		w.string(b.ID)
		text := b.Text
		if b.IsError {
			text = "Error: " + text
		}
		w.content(text)
		w.b = append(w.b, '}')
	}
	if texts > 0 || results == 0 {
		w.begin("user")
		w.content(messages.Texts(m.Blocks))
		w.b = append(w.b, '}')
	}
}

func (w *chatWriter) assistant(m *messages.Message) {
	w.begin("assistant")
	text, thought, calls, thinks := messages.Texts(m.Blocks), "", 0, false
	for _, b := range m.Blocks {
		switch b.Type {
		case messages.Thinking:
			thought, thinks = thought+b.Text, true
		case messages.ToolUse:
			calls++
		}
	}
	if text == "" && calls > 0 {
		w.key("content")
		w.b = append(w.b, "null"...)
	} else {
		w.content(text)
	}
	if thinks {
		w.key("reasoning_content")
		w.string(thought)
		if w.flavor == VLLM { // which reads it under its newer name
			w.key("reasoning")
			w.string(thought)
		}
	}
	if calls > 0 {
		w.calls(m.Blocks)
	}
	w.b = append(w.b, '}')
}

func (w *chatWriter) calls(blocks []messages.Block) {
	w.key("tool_calls")
	w.b = append(w.b, '[')
	for _, b := range blocks {
		if b.Type != messages.ToolUse {
			continue
		}
		if w.b[len(w.b)-1] != '[' {
			w.b = append(w.b, ',')
		}
		w.b = append(w.b, `{"type":"function","id":`...)
		w.string(b.ID)
		w.b = append(w.b, `,"function":{"name":`...)
		w.string(b.Name)
		w.key("arguments")
		w.string(string(b.Input))
		w.b = append(w.b, "}}"...)
	}
	w.b = append(w.b, ']')
}

func (w *chatWriter) tools() {
	if len(w.q.Tools) == 0 {
		return
	}
	w.key("tools")
	for i, t := range w.q.Tools {
		w.b = append(w.b, "[,"[min(i, 1)])
		w.b = append(w.b, `{"type":"function","function":{"name":`...)
		w.string(t.Name)
		if t.Description != "" {
			w.key("description")
			w.string(t.Description)
		}
		w.key("parameters")
		w.raw(t.Schema)
		w.b = append(w.b, "}}"...)
	}
	w.b = append(w.b, ']')
	w.choice()
}

func (w *chatWriter) choice() {
	w.key("tool_choice")
	c := w.q.ToolChoice
	switch c.Mode {
	case "any":
		w.b = append(w.b, `"required"`...)
	case "tool":
		w.b = append(w.b, `{"type":"function","function":{"name":`...)
		w.string(c.Name)
		w.b = append(w.b, "}}"...)
	default:
		w.string(c.Mode)
	}
	if w.q.SingleCall() {
		w.key("parallel_tool_calls")
		w.b = append(w.b, "false"...)
	}
}

// format asks for an answer in JSON.
func (w *chatWriter) format() {
	f := w.q.Format
	if f == nil || w.q.ForcesCall() {
		return
	}
	w.key("response_format")
	if f.Schema == nil {
		w.b = append(w.b, `{"type":"json_object"}`...)
		return
	}
	w.b = append(w.b, `{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":`...)
	w.raw(f.Schema)
	w.b = append(w.b, "}}"...)
}

func (w *chatWriter) sampling(o *ChatOptions) {
	s := w.q.Sampling
	w.number("max_tokens", new(float64(o.MaxTokens)))
	w.number("temperature", s.Temperature)
	w.number("top_p", s.TopP)
	w.number("presence_penalty", s.PresencePenalty)
	w.number("frequency_penalty", s.FrequencyPenalty)
	if s.Seed != nil {
		w.key("seed")
		w.b = strconv.AppendInt(w.b, *s.Seed, 10)
	}
	if len(w.q.StopSequences) > 0 {
		w.key("stop")
		for i, stop := range w.q.StopSequences {
			w.b = append(w.b, "[,"[min(i, 1)])
			w.string(stop)
		}
		w.b = append(w.b, ']')
	}
	for _, name := range w.flavor.samplingWith(o.Sampling) {
		w.extra(name, &s)
	}
}

// extra writes a sampling field that the flavor has beside the protocol's.
func (w *chatWriter) extra(name string, s *messages.Sampling) {
	switch name {
	case "top_k":
		switch {
		case s.TopK == nil:
		case *s.TopK != 0:
			w.number(name, new(float64(*s.TopK)))
		case w.traits.TopKOff != "":
			w.key(name)
			w.b = append(w.b, w.traits.TopKOff...)
		}
	case "min_p":
		w.number(name, s.MinP)
	case "repetition_penalty", "repeat_penalty":
		w.number(name, s.RepetitionPenalty)
	case "min_tokens":
		if s.MinTokens > 0 {
			w.number(name, new(float64(s.MinTokens)))
		}
	case "ignore_eos":
		if s.IgnoreEOS {
			w.key(name)
			w.b = append(w.b, "true"...)
		}
	}
}

// number writes a member in the shortest form that reads back as v; nothing for nil.
func (w *chatWriter) number(name string, v *float64) {
	if v != nil {
		w.key(name)
		w.b = strconv.AppendFloat(w.b, *v, 'f', -1, 64)
	}
}

// template says what the chat template must know: whether to think and how much, and whether the last
// message begins the answer.
func (w *chatWriter) template() {
	if w.begun {
		w.b = append(w.b, `,"continue_final_message":true,"add_generation_prompt":false`...)
	}
	if w.traits.TemplateKwargs {
		w.key("chat_template_kwargs")
		effort := w.q.Effort != "" && w.q.Thinking
		w.b = strconv.AppendBool(append(w.b, `{"enable_thinking":`...), w.q.Thinking)
		if effort {
			w.key("reasoning_effort")
			w.string(w.q.Effort)
		}
		if w.b = append(w.b, '}'); effort { // servers look in either place
			w.key("reasoning_effort")
			w.string(w.q.Effort)
		}
	}
}
