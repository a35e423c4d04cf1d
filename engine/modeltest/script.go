package modeltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Answer is one recorded answer, and when it is given.
type Answer struct {
	// User is text that the last turn of the user has, which is also where the results of tools stand. "" is in every turn.
	User string `json:"user"`
	// Offers is a tool that the request must offer, "" for none in particular.
	Offers string `json:"offers"`

	// Thinking is what is thought first where the request leaves thinking on.
	Thinking string `json:"thinking"`
	// Text is the answer, or what is said before the calls.
	Text string `json:"text"`
	// JSON is an answer that is a document, written as it stands in the script without whitespace.
	JSON json.RawMessage `json:"json"`
	// Calls end the answer.
	Calls []Call `json:"calls"`
}

// Call is a recorded tool call. Arguments are written in the order of the script.
type Call struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Script is what a model knows: of the answers that fit a prompt it gives the first.
type Script []Answer

// ReadScript reads a script: a JSON list of answers. Unknown keys are errors.
func ReadScript(text []byte) (Script, error) {
	var s Script
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("read recorded answers: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("read recorded answers: more than one list")
	}
	for i, a := range s {
		if _, err := a.body(); err != nil {
			return nil, fmt.Errorf("recorded answer %d (user %q): %w", i, a.User, err)
		}
	}
	return s, nil
}

// find returns the answer to a prompt. system and user are the text of its first and last turns.
func (s Script) find(system, user string) (Answer, bool) {
	for _, a := range s {
		if strings.Contains(user, a.User) && (a.Offers == "" || strings.Contains(system, fmt.Sprintf(`"name": %q`, a.Offers))) {
			return a, true
		}
	}
	return Answer{}, false
}

// body writes what follows the thinking as the built-in template shows it.
func (a Answer) body() (string, error) {
	text := a.Text
	if a.JSON != nil {
		if a.Text != "" || a.Calls != nil {
			return "", fmt.Errorf("an answer with json has neither text nor calls")
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, a.JSON); err != nil {
			return "", err
		}
		text = compact.String()
	}
	for i, c := range a.Calls {
		call, err := c.text()
		switch {
		case err != nil:
			return "", err
		case i > 0:
			call = "\n" + call
		case text != "":
			call = "\n\n" + call
		}
		text += call
	}
	return text, nil
}

// text writes a call: strings as they are, all other values as JSON.
func (c Call) text() (string, error) {
	var b strings.Builder
	b.WriteString("<tool_call>\n<function=" + c.Name + ">\n")
	d := jsontext.NewDecoder(bytes.NewReader(c.Arguments))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return "", fmt.Errorf("the arguments of a call to %q are no object", c.Name)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return "", err
		}
		key := name.String()
		raw, err := d.ReadValue()
		if err != nil {
			return "", err
		}
		value := string(raw)
		if raw.Kind() == '"' {
			if err := json.Unmarshal(raw, &value); err != nil {
				return "", err
			}
		}
		b.WriteString("<parameter=" + key + ">\n" + value + "\n</parameter>\n")
	}
	if token, err := d.ReadToken(); err != nil || token.Kind() != '}' {
		return "", fmt.Errorf("the arguments of a call to %q do not end", c.Name)
	}
	b.WriteString("</function>\n</tool_call>")
	return b.String(), nil
}
