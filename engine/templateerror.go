package engine

import (
	"errors"
	"fmt"
	"slices"

	"corenode/engine/messages"
	"corenode/engine/template"
	"corenode/wasm/abi"
)

// templateError turns a template's own refusal into the client's error: what
// it raises is about the conversation it was given. Templates that look into a message which is not there fail for a conversation
// without a question, and render it with one. Where that is rendered only without its tools, they are why. tools are those of the body.
func (e *Engine) templateError(err error, in template.Input, tools []messages.Tool) error {
	if raised, ok := errors.AsType[*template.Raised](err); ok {
		return causedBy(err, "messages", "the model's chat template refuses this conversation: "+raised.Message)
	}
	if errors.Is(err, template.ErrLimit) {
		return causedBy(err, "messages",
			"this conversation is too much for the model's chat template: send fewer or smaller messages and tools")
	}
	if !slices.ContainsFunc(in.Messages, func(m template.Message) bool { return m.Role == "user" }) {
		in.Messages = asked(in.Messages)
		if _, failed := e.template.Render(in); failed == nil {
			return causedBy(err, "messages", "the model's chat template needs a message of the user in front of the answer")
		}
	}
	if param := e.wrongTool(in, tools); param != "" {
		return causedBy(err, param, "the model's chat template cannot show this schema")
	}
	return &abi.Error{Kind: abi.Internal, Op: "engine.Prepare", Msg: "the chat template did not render", Err: err}
}

// causedBy is the error of a request whose field param the template does not take.
func causedBy(err error, param, msg string) error {
	e := invalidf(param, "%s", msg)
	e.Err = err
	return e
}

// question is a message of the user that says as good as nothing.
var question = template.Message{Role: "user", Content: "a"}

// asked is a conversation with a question in front, behind what the system says.
func asked(conversation []template.Message) []template.Message {
	system := 0
	for system < len(conversation) && conversation[system].Role == "system" {
		system++
	}
	return slices.Insert(slices.Clone(conversation), system, question)
}

// wrongTool names the field with the first tool that the template does not render, or with all tools where each alone is
// rendered; "" where the conversation is not rendered without them either.
func (e *Engine) wrongTool(in template.Input, tools []messages.Tool) string {
	shown := in.Tools
	in.Tools = nil
	if _, err := e.template.Render(in); err != nil || len(shown) == 0 {
		return ""
	}
	in.Messages = []template.Message{question}
	for i := range shown {
		in.Tools = shown[i : i+1]
		if _, err := e.template.Render(in); err != nil {
			return fmt.Sprintf("tools.%d.input_schema", tools[i].At)
		}
	}
	return "tools"
}
