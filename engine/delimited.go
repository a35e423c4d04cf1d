package engine

import (
	"crypto/sha256"
	"fmt"
	"math/big"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"corenode/engine/messages"
	"corenode/engine/template"
)

// Models of Mistral, DeepSeek and Kimi write calls between delimiters of their own (output.Delimiters). What
// their templates want besides, chatFormatOf finds out by trying: arguments as text, ids of their own form, and messages
// without content.

// shortID is how many letters and digits a short id has.
const shortID = 9

// shapeCalls gives the calls of a conversation, and their results, the form that the template takes.
func (f *chatFormat) shapeCalls(msgs []template.Message) []template.Message {
	names, n := map[string]string{}, 0
	for i := range msgs {
		for k := range msgs[i].ToolCalls {
			call := &msgs[i].ToolCalls[k]
			call.Text = f.textArguments
			switch {
			case f.delimiters.Numbered:
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
	if f.callsApart {
		return callsApart(msgs)
	}
	return msgs
}

// callsApart gives calls messages without content. A text before them, with the thinking, is a message of its own.
func callsApart(msgs []template.Message) (out []template.Message) {
	for _, m := range msgs {
		if len(m.ToolCalls) > 0 {
			if calls := m.ToolCalls; strings.TrimSpace(m.Content) != "" {
				m.ToolCalls = nil
				out = append(out, m)
				m = template.Message{Role: m.Role, ToolCalls: calls}
			}
			m.Content, m.NoContent = "", true
		}
		out = append(out, m)
	}
	return out
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
	d, name := e.format.delimiters, "NAME"
	if d == nil {
		b.WriteString("\nTo call tools, write exactly this for each call. NAME is one of the above and ARGUMENTS are JSON of its " +
			"parameters. Results come between <tool_response> and </tool_response>.\n" +
			`<tool_call>` + "\n" + `{"name": "NAME", "arguments": ARGUMENTS}` + "\n</tool_call>")
		return b.String()
	}
	if d.Numbered {
		name += ":0"
	}
	fmt.Fprintf(&b, "\nTo call tools, write exactly this. NAME is one of the above and ARGUMENTS are JSON of its parameters. "+
		"The part of a call is there once for each:\n%s%s%s%sARGUMENTS%s%s", d.Open, d.Before, name, d.Arguments, d.After, d.Close)
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
