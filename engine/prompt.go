package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/messages"
	"corenode/engine/template"
	"corenode/wasm/abi"
)

// start is where the output behind a prompt starts.
type start struct {
	thinking    bool   // inside thinking
	thinksFirst bool   // in front of thinking that the model may open itself
	begun       bool   // inside the answer's text
	header      string // in channels, what the prompt has of the header of the message that the output goes on with
	opened      bool   // that is all of it
}

// prompt renders the body through the model's template and tokenizes it, up to most
// tokens: what has more is an error. It also says where the output starts. input is what
// the template is shown of the body, and rendered puts what the answer begins with behind its text.
func (e *Engine) prompt(q *messages.Request, most int) (ids []int32, at start, err error) {
	if e.exceeds(q, most) {
		return nil, start{}, tooLong("more than ", most, e.info.ContextLength)
	}
	if q.Raw {
		ids, at.begun = e.rawPrompt(messages.Texts(q.Messages[0].Blocks), most), true
	} else if ids, at, err = e.rendered(q, most); err != nil {
		return nil, start{}, err
	}
	switch {
	case len(ids) == 0:
		return nil, start{}, invalidf("messages", "the prompt is empty")
	case len(ids) > most:
		return nil, start{}, tooLong("more than ", most, e.info.ContextLength)
	}
	return ids, at, nil
}

// rawPrompt is a text that is the prompt as it is: the names of special tokens in it
// are text.
func (e *Engine) rawPrompt(text string, most int) (ids []int32) {
	if id, add := e.tokenizer.BOS(); add {
		ids = append(ids, id)
	}
	return e.tokenizer.EncodeMax(ids, text, most)
}

// rendered is the body in the model's template.
func (e *Engine) rendered(q *messages.Request, most int) (ids []int32, at start, err error) {
	in, beginning := e.input(q)
	text, err := e.template.Render(in)
	if err != nil {
		return nil, start{}, e.templateError(err, in, q.Tools)
	}
	at.thinking = template.EndsWith(text, e.format.tags.Open)
	if e.format.thinkOpen >= 0 && in.Thinking && !at.thinking {
		text, at.thinking = text+e.format.tags.Open, true
	}
	prefill := ""
	opens := e.format.opens && !template.EndsWith(text, e.format.tags.Close)
	at.thinksFirst = opens && e.format.opensByToken && q.Thinking && !at.thinking && beginning == nil
	if beginning != nil {
		prefill, at.begun = e.prefill(*beginning, at.thinking, opens)
		at.thinking = false
	}
	if e.format.calls == callsChannels && !e.format.sent {
		prefill, at = e.headed(q, beginning, prefill, at.begun)
	}
	text += prefill
	ids = make([]int32, 0, min(len(text)/3, most)+8)
	if id, add := e.tokenizer.BOS(); add && !strings.HasPrefix(text, e.tokenizer.Text(id)) {
		ids = append(ids, id)
	}
	return e.tokenizer.EncodePromptMax(ids, text, most), at, nil
}

// input is the body as the template wants it. A final assistant message is
// not a turn: it comes back as the answer's beginning.
func (e *Engine) input(q *messages.Request) (in template.Input, beginning *messages.Message) {
	guard := e.tokenizer.Protect
	in = template.Input{GenerationPrompt: true, Thinking: q.Thinking, BOS: e.bos, EOS: e.eos, Now: e.templateTime()}
	if q.ToolChoice.Mode != "none" {
		for _, t := range q.Tools {
			in.Tools = append(in.Tools, e.toolObject(t))
		}
	}
	if schema := e.formatSchema(q); schema != nil {
		in.ResponseSchema = e.protectJSON(Shown(schema))
	}
	system, msgs := messages.Opening(q)
	system = guard(system)
	if e.format.tellsTools && len(in.Tools) > 0 {
		system, in.Tools = e.tell(system, q), nil
	}
	msgs = messages.MergeTurns(msgs)
	in.Messages = make([]template.Message, 0, len(msgs)+1)
	if system != "" {
		in.Messages = append(in.Messages, template.Message{Role: "system", Content: system})
	}
	if last := len(msgs) - 1; last >= 0 && messages.BeginsAnswer(msgs[last]) {
		beginning = &msgs[last]
		in.Thinking = slices.ContainsFunc(beginning.Blocks, func(b messages.Block) bool { return b.Type == messages.Thinking })
		msgs = msgs[:last]
	}
	for i := range msgs {
		in.Messages = e.appendMessage(in.Messages, msgs, i)
	}
	in.Messages = e.format.turns.apply(in.Messages)
	if e.format.calls == callsDelimited {
		in.Messages = e.format.shapeCalls(in.Messages)
	}
	if in.Effort = q.Effort; e.format.sent && !q.Thinking {
		in.Effort = "" // which goes with thinking
	}
	if e.format.thinkOpen >= 0 {
		e.format.tellThinking(&in)
	}
	if e.format.calls == callsChannels {
		if in.Messages = e.format.oneCallEach(in.Messages); !q.Thinking && !e.format.sent {
			in.Effort = "low"
		}
	}
	return in, beginning
}

// formatSchema is the schema of the answer's text that the template is shown; nil for none.
func (e *Engine) formatSchema(q *messages.Request) json.RawMessage {
	if !e.options.TemplateSchema || q.Format == nil || q.ForcesCall() {
		return nil
	}
	return q.Format.Schema
}

// templateTime is the time that a template is told: now, or always the day that is
// configured, which keeps prompts and their cached prefixes the same from day to day.
func (e *Engine) templateTime() time.Time {
	if day := e.options.TemplateDate; !day.IsZero() {
		return day
	}
	return time.Now().UTC()
}

// appendMessage appends message i as the template's messages: a user message
// becomes its tool results, in the order of the calls, and then its text.
// System messages after the first turn read as the user's, so that templates
// which want one system message at the front take the conversation.
func (e *Engine) appendMessage(dst []template.Message, msgs []messages.Message, i int) []template.Message {
	m, guard := msgs[i], e.tokenizer.Protect
	if m.Role == "assistant" {
		return append(dst, e.assistant(m))
	}
	var results []messages.Block
	for _, b := range m.Blocks {
		if b.Type == messages.ToolResult {
			results = append(results, b)
		}
	}
	if i > 0 && len(results) > 1 {
		rank := callRanks(msgs[i-1])
		slices.SortStableFunc(results, func(a, b messages.Block) int { return rank(a.ID) - rank(b.ID) })
	}
	for _, r := range results {
		text := r.Text
		if r.IsError {
			text = "Error: " + text
		}
		dst = append(dst, template.Message{Role: "tool", Content: guard(text), ToolCallID: guard(r.ID)})
	}
	if len(results) == 0 || slices.ContainsFunc(m.Blocks, func(b messages.Block) bool { return b.Type == messages.Text }) {
		dst = append(dst, template.Message{Role: "user", Content: guard(messages.Texts(m.Blocks))})
	}
	return dst
}

// callRanks ranks tool call ids by their place in a message; unknown ids come last.
func callRanks(m messages.Message) func(id string) int {
	ranks := make(map[string]int, len(m.Blocks))
	for i, b := range m.Blocks {
		if _, known := ranks[b.ID]; b.Type == messages.ToolUse && !known {
			ranks[b.ID] = i
		}
	}
	return func(id string) int {
		if i, ok := ranks[id]; ok {
			return i
		}
		return len(m.Blocks)
	}
}

func (e *Engine) assistant(m messages.Message) template.Message {
	out := template.Message{Role: "assistant", Content: e.tokenizer.Protect(messages.Texts(m.Blocks))}
	var thought strings.Builder
	for _, b := range m.Blocks {
		switch b.Type {
		case messages.Thinking:
			thought.WriteString(e.tokenizer.Protect(b.Text))
			out.HasReasoning = true
		case messages.ToolUse:
			out.ToolCalls = append(out.ToolCalls, template.ToolCall{
				ID: e.tokenizer.Protect(b.ID), Name: e.tokenizer.Protect(b.Name), Arguments: e.protectJSON(b.Input)})
		}
	}
	out.Reasoning = thought.String()
	return out
}

// toolObject is a tool in the form that templates expect, keys in the order
// that models were trained on.
func (e *Engine) toolObject(t messages.Tool) json.RawMessage {
	const start = `{"type":"function","function":{"name":`
	b := append(make([]byte, 0, 2*len(start)+len(t.Name)+len(t.Description)+len(t.Schema)), start...)
	b, _ = jsontext.AppendQuote(b, e.tokenizer.Protect(t.Name))
	if t.Description != "" || e.format.calls == callsChannels { // whose templates show one
		b = append(b, `,"description":`...)
		b, _ = jsontext.AppendQuote(b, e.tokenizer.Protect(t.Description))
	}
	b = append(b, `,"parameters":`...)
	schema := Shown(t.Schema)
	if e.format.calls == callsChannels {
		schema = textDefaults(schema)
	}
	b = append(b, e.protectJSON(schema)...)
	return append(b, "}}"...)
}

// protectJSON guards the strings of a JSON text, each by itself: a template may put any
// of them next to text of its own, as in <name> for a member's name.
func (e *Engine) protectJSON(raw json.RawMessage) json.RawMessage {
	repeated := jsontext.AllowDuplicateNames(true) // there are none: the text was checked when the body was parsed
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw), repeated)
	out := bytes.NewBuffer(make([]byte, 0, len(raw)+64))
	enc := jsontext.NewEncoder(out, repeated)
	for {
		t, err := dec.ReadToken()
		if err != nil { // the end
			return bytes.TrimSpace(out.Bytes())
		}
		if t.Kind() == '"' {
			t = jsontext.String(e.tokenizer.Protect(t.String()))
		}
		if err := enc.WriteToken(t); err != nil {
			return bytes.TrimSpace(out.Bytes())
		}
	}
}

// prefill is the beginning of an answer as it follows the generation prompt:
// its thinking, if the prompt opened one or the model would, and its text. In channels headed writes the thinking. The answer goes
// on in the text, so no other thinking begins. Whitespace at its end is left to the model, which
// goes on in tokens that begin with it: such a text is not begun, so that the line breaks
// which the client has are not in the answer again, nor a stop sequence in them.
func (e *Engine) prefill(m messages.Message, opened, opens bool) (prefill string, begun bool) {
	whole := messages.Texts(m.Blocks)
	text := strings.TrimRight(whole, " \t\r\n")
	begun = text != "" && text == whole
	text = e.tokenizer.Protect(text)
	tags, thinks := e.format.tags, e.thoughts(m)
	switch {
	case opened && !tags.Usual():
		return thinks + tags.Close + text, begun
	case opened:
		return thinks + "\n" + tags.Close + "\n\n" + text, begun
	case opens && thinks != "":
		return tags.Open + "\n" + thinks + "\n" + tags.Close + "\n\n" + text, begun
	}
	return text, begun
}

// thoughts is what a message thinks, without the blanks around it.
func (e *Engine) thoughts(m messages.Message) string {
	var all strings.Builder
	for _, b := range m.Blocks {
		if b.Type == messages.Thinking {
			all.WriteString(b.Text)
		}
	}
	return e.tokenizer.Protect(strings.TrimSpace(all.String()))
}

// tokenBytes is how many bytes of text a token has at least in nearly all texts that
// are longer than most: only those are counted before they are rendered.
const tokenBytes = 8

// exceeds says whether the texts of a body alone have more than most tokens. It
// looks only where there are so many bytes that it is likely, so that a text which
// is refused anyway is not copied into a prompt first, and no other is read twice.
// What a template may leave out does not count: thinking, what it trims, a last message
// that begins the answer, and a few tokens of each text that may become others beside
// its neighbors.
func (e *Engine) exceeds(q *messages.Request, most int) bool {
	const edges = 4 // tokens
	system, msgs := messages.Opening(q)
	texts, bytes := []string{system}, len(system)
	if last := len(msgs) - 1; last >= 0 && messages.BeginsAnswer(msgs[last]) {
		msgs = msgs[:last]
	}
	for _, m := range msgs {
		for _, b := range m.Blocks {
			if b.Type == messages.Text || m.Role != "assistant" && b.Type == messages.ToolResult {
				texts, bytes = append(texts, b.Text), bytes+len(b.Text)
			}
		}
	}
	if bytes/tokenBytes <= most {
		return false
	}
	var ids []int32
	n := 0
	for _, text := range texts {
		ids = e.tokenizer.EncodeMax(ids[:0], strings.TrimSpace(text), most-n+edges)
		if n += max(0, len(ids)-edges); n > most {
			return true
		}
	}
	return false
}

// tooLong refuses a prompt that is over the context window; more stands in front of the number of tokens.
// Coding agents find this failure by these very words, and then shorten the conversation.
func tooLong(more string, tokens, window int) error {
	return invalid("messages", abi.Detail{Reason: abi.ReasonPrompt, Value: int64(tokens), Bound: int64(window)}, fmt.Sprintf(
		"prompt is too long: %s%d tokens > %d maximum (this model's maximum context length is %[3]d tokens)", more, tokens, window))
}
