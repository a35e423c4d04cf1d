package engine

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/grammar"
	"corenode/engine/messages"
	"corenode/engine/output"
	"corenode/engine/template"
)

// A model of channels (gpt-oss) marks thinking, answers and calls with tokens of its own, which
// output.Parser takes. Here the prompt begins the message that a request forces, and
// the body of a message is held to the schema of its tool, or to the format of the answer.

// Channels are what a request of such a model needs while it runs.
type Channels struct {
	Marks      map[int32]string
	All        *grammar.Grammar            // of any call; nil where none is possible
	Calls      map[string]*grammar.Grammar // by tool, with the states of All
	Text       *grammar.Grammar            // of the answer; nil for a free one
	Vocabulary *grammar.Vocabulary
}

// headed is the beginning of an answer as it follows the prompt of a template, which ends with its author, and
// where the output behind it starts. beginning is the last message where that begins the answer, else nil, and text is
// its text, whose blanks at the end are gone: all of it if begun. What it thinks is a message before that of its text. A
// call that is forced follows them in a message of its own. A model that is not to think and may call or answer finds
// a thought of its own that is empty.
func (e *Engine) headed(q *messages.Request, beginning *messages.Message, text string, begun bool) (string, start) {
	const final = output.MarkChannel + "final"
	const next = output.MarkEnd + output.MarkStart + "assistant"
	before := ""
	if beginning != nil {
		if thinks := e.thoughts(*beginning); thinks != "" {
			before = output.MarkChannel + "analysis" + output.MarkMessage + thinks + next
		}
		if !q.ForcesCall() {
			return before + final + output.MarkMessage + text, start{begun: begun, header: final, opened: true}
		}
	}
	if text != "" {
		before += final + output.MarkMessage + text + next
	}
	header, opened := e.header(q)
	if header == "" && !q.Thinking {
		before = output.MarkChannel + "analysis" + output.MarkMessage + next
	}
	if opened {
		return before + header + output.MarkMessage, start{header: header, opened: true}
	}
	return before + header, start{header: header}
}

// header is the header of the answer's first message as far as the request decides it, and
// whether it is all of it: "" where the model does.
func (e *Engine) header(q *messages.Request) (header string, whole bool) {
	const call = output.MarkChannel + "commentary to=functions."
	tools := offered(q)
	switch {
	case q.ToolChoice.Mode == "tool":
		return call + q.ToolChoice.Name + " " + output.MarkConstrain + "json", true
	case q.ForcesCall() && len(tools) == 1:
		return call + tools[0].Name + " " + output.MarkConstrain + "json", true
	case q.ForcesCall():
		return call, false
	case !q.Thinking && len(tools) == 0:
		return output.MarkChannel + "final", true
	}
	return "", false
}

// channels compiles what the messages of an answer are held to.
func (e *Engine) channels(account string, q *messages.Request) (*Channels, error) {
	c := &Channels{Marks: e.format.channelTokens, Calls: map[string]*grammar.Grammar{}, Vocabulary: e.vocabulary()}
	if tools, at := callable(q); len(tools) > 0 {
		g, err := e.compile(account, q, grammar.Form{Calls: tools, Apart: true, Free: !q.ForcesCall()}, at)
		if err != nil {
			return nil, err
		}
		c.All = g
		for i, t := range tools {
			c.Calls[t.Name] = g.Arguments(i)
		}
	}
	if q.Format != nil && !q.ForcesCall() {
		one := *q
		one.Tools, one.ToolChoice = nil, messages.ToolChoice{}
		var err error
		c.Text, _, err = e.constrain(account, &one, start{})
		return c, err
	}
	return c, nil
}

// oneCallEach takes messages with several calls apart, each before its result, as templates of
// channels want them. What was said before the calls is what the first one's message says, or with a thought the end of that: such
// templates take a message without a call for an answer, behind which earlier thoughts are gone. Where the template
// does not show what a call's message says, it is a message of its own all the same.
func (f *chatFormat) oneCallEach(msgs []template.Message) (out []template.Message) {
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		m.ReasoningName = "thinking"
		calls := m.ToolCalls
		if len(calls) == 0 {
			out = append(out, m)
			continue
		}
		thinks := strings.TrimSpace(m.Reasoning) != ""
		switch {
		case strings.TrimSpace(m.Content) == "":
			m.Content = ""
		case !f.textOfCalls:
			out = append(out, template.Message{Role: m.Role, Content: m.Content})
			m.Content = ""
		case thinks:
			m.Content, m.Reasoning = "", joined(m.Reasoning, m.Content)
		}
		for k, call := range calls {
			one := template.Message{Role: m.Role, ToolCalls: []template.ToolCall{call}, ReasoningName: m.ReasoningName}
			if k == 0 {
				one.Content = m.Content
				if thinks {
					one.Reasoning, one.HasReasoning = m.Reasoning, true
				}
			}
			if out = append(out, one); i+1 < len(msgs) && msgs[i+1].Role == "tool" {
				i++
				out = append(out, msgs[i])
			}
		}
	}
	return out
}

// textDefaults is the schema of a tool as templates of channels want it: beside the values or schemas to choose from they take the
// default of a parameter for a text.
func textDefaults(schema json.RawMessage) json.RawMessage {
	return withMembers(schema, func(name string, all json.RawMessage) json.RawMessage {
		if name != "properties" {
			return all
		}
		return withMembers(all, func(_ string, parameter json.RawMessage) json.RawMessage {
			var p struct {
				Enum    json.RawMessage `json:"enum"`
				OneOf   json.RawMessage `json:"oneOf"`
				Default json.RawMessage `json:"default"`
			}
			if json.Unmarshal(parameter, &p) != nil || p.Enum == nil && p.OneOf == nil || bytes.HasPrefix(p.Default, []byte(`"`)) {
				return parameter
			}
			return withMembers(parameter, func(name string, v json.RawMessage) json.RawMessage {
				if name == "default" {
					v, _ = jsontext.AppendQuote(nil, spaced(v)) // which is valid UTF-8
				}
				return v
			})
		})
	})
}

// withMembers is a JSON object with other values of its members; any other value as it is.
func withMembers(object json.RawMessage, value func(name string, v json.RawMessage) json.RawMessage) json.RawMessage {
	repeated := jsontext.AllowDuplicateNames(true) // there are none: the text was checked when the body was parsed
	dec := jsontext.NewDecoder(bytes.NewBuffer(object), repeated)
	var out bytes.Buffer
	enc := jsontext.NewEncoder(&out, repeated)
	if dec.PeekKind() != '{' {
		return object
	}
	for {
		t, err := dec.ReadToken()
		if err != nil { // the end
			return bytes.TrimSpace(out.Bytes())
		}
		if err := enc.WriteToken(t); err != nil {
			return object
		}
		if t.Kind() != '"' {
			continue
		}
		name := t.String()
		v, err := dec.ReadValue()
		if err != nil || enc.WriteValue(jsontext.Value(value(name, json.RawMessage(v)))) != nil {
			return object
		}
	}
}

// restrain constrains the message that begins by what its kind is constrained by, and lets all others be free.
func (r *run) restrain() {
	q := r.job.Request.Channels
	tool, text := r.parser.Message()
	g := q.Calls[tool]
	if text {
		g = q.Text
	}
	if r.matcher = nil; g != nil {
		r.matcher = g.NewMatcher(q.Vocabulary)
	}
}
