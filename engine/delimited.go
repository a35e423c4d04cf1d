package engine

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/messages"
	"corenode/engine/output"
	"corenode/engine/template"
)

// Models of Mistral, DeepSeek and Kimi write calls between delimiters of their own (output.Delimiters). What
// their templates want besides is found out here, by trying: arguments as text, and ids of their own form.

// framing is what an engine knows of a template with framed calls.
type framing struct {
	frame *output.Delimiters
	// textArguments says that the template takes the arguments of calls as text.
	textArguments bool
	// shortIDs says that it takes ids of nine letters and digits only.
	shortIDs bool
	// tellsTools says that it leaves tools out, which the system prompt has then.
	tellsTools bool
}

// frame is how calls are written that have marks of their own; nil for others.
func (e *Engine) frame() *output.Delimiters {
	if e.framing == nil {
		return nil
	}
	return e.framing.frame
}

// namesTools finds the variable of the tools in a template.
var namesTools = regexp.MustCompile(`\btools\b`)

// findFraming finds out how a template takes framed calls; nil where it has none.
func (e *Engine) findFraming(source string) *framing {
	f := &framing{frame: output.DelimitersOf(source)}
	if f.frame == nil {
		return nil
	}
	f.tellsTools = !namesTools.MatchString(source)
	for _, id := range []string{"call_0123456789", "abcdef123"} {
		for _, asText := range []bool{false, true} {
			if e.takesCalls(id, asText) {
				f.shortIDs, f.textArguments = len(id) == shortID, asText
				return f
			}
		}
	}
	return f
}

// takesCalls says whether the template renders a conversation with a call of this form.
func (e *Engine) takesCalls(id string, asText bool) bool {
	_, err := e.template.Render(template.Input{
		Messages: []template.Message{
			{Role: "user", Content: "a"},
			{Role: "assistant", ToolCalls: []template.ToolCall{{ID: id, Name: "f", Arguments: []byte(`{"x": 1}`), Text: asText}}},
			{Role: "tool", Content: "b", ToolCallID: id},
		},
		GenerationPrompt: true, Thinking: true, BOS: e.bos, EOS: e.eos, Now: e.templateTime(),
	})
	return err == nil
}

// shortID is how many letters and digits a short id has.
const shortID = 9

// frameCalls gives the calls of a conversation, and their results, the form that the template takes.
func (f *framing) frameCalls(msgs []template.Message) {
	names, n := map[string]string{}, 0
	for i := range msgs {
		for k := range msgs[i].ToolCalls {
			call := &msgs[i].ToolCalls[k]
			call.Text = f.textArguments
			switch {
			case f.frame.Numbered:
				names[call.ID] = fmt.Sprintf("functions.%s:%d", call.Name, n)
			case f.shortIDs:
				names[call.ID] = shortened(call.ID)
			}
			if name := names[call.ID]; name != "" {
				call.ID = name
			}
			n++
		}
		if name := names[msgs[i].ToolCallID]; name != "" {
			msgs[i].ToolCallID = name
		} else if f.shortIDs && msgs[i].Role == "tool" {
			msgs[i].ToolCallID = shortened(msgs[i].ToolCallID)
		}
	}
}

// shortened is an id of nine letters and digits, always the same for the same one.
func shortened(id string) string {
	isShort := len(id) == shortID && !strings.ContainsFunc(id, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
	if isShort {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	text := new(big.Int).SetBytes(sum[:]).Text(62)
	return text[len(text)-shortID:]
}

// tell is a system prompt with the tools that the template leaves out, and how they are called.
func (e *Engine) tell(system string, q *messages.Request) string {
	var b strings.Builder
	if b.WriteString(system); system != "" {
		b.WriteString("\n\n")
	}
	b.WriteString("## Tools\nYou have access to the following tools:\n")
	for _, t := range q.Tools {
		fmt.Fprintf(&b, "\n### %s\nDescription: %s\n\nParameters: %s\n", e.tokenizer.Protect(t.Name), e.tokenizer.Protect(t.Description),
			spaced(e.protectJSON(Shown(t.Schema))))
	}
	f, name := e.framing.frame, "NAME"
	if f.Numbered {
		name += ":0"
	}
	fmt.Fprintf(&b, "\nTo call tools, write exactly this. NAME is one of the above and ARGUMENTS are JSON of its parameters. "+
		"The part of a call is there once for each:\n%s%s%s%sARGUMENTS%s%s", f.Open, f.Before, name, f.Arguments, f.After, f.Close)
	return b.String()
}

// spaced is JSON with a blank behind each comma and colon, as models have read it.
func spaced(raw []byte) []byte {
	v := jsontext.Value(raw).Clone()
	if v.Format(jsontext.AllowDuplicateNames(true), jsontext.SpaceAfterColon(true), jsontext.SpaceAfterComma(true)) != nil {
		return raw
	}
	return v
}
