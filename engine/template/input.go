package template

import (
	"encoding/json"
	"fmt"

	"github.com/nikolalohinski/gonja/v2/exec"
)

// variables sets the variables of one rendering in its empty scope, with the
// names and shapes that transformers gives them: tools is None when there are none.
func (in *Input) variables(s *scope) error {
	messages := make(list, len(in.Messages))
	for i := range in.Messages {
		v, err := in.Messages[i].value()
		if err != nil {
			return fmt.Errorf("chat template: messages.%d: %w", i, err)
		}
		messages[i] = v
	}
	tools, err := toolsValue(in.Tools)
	if err != nil {
		return err
	}
	s.set("messages", exec.AsValue(messages))
	s.set("tools", tools)
	s.set("documents", valueNone)
	s.set("add_generation_prompt", boolean(in.GenerationPrompt))
	s.set("enable_thinking", boolean(in.Thinking))
	if in.BOS != "" {
		s.set("bos_token", exec.AsValue(in.BOS))
	}
	if in.EOS != "" {
		s.set("eos_token", exec.AsValue(in.EOS))
	}
	return nil
}

func toolsValue(raw []json.RawMessage) (*exec.Value, error) {
	if len(raw) == 0 {
		return valueNone, nil
	}
	tools := make(list, len(raw))
	for i, tool := range raw {
		v, err := fromJSON(tool)
		if err != nil {
			return nil, fmt.Errorf("chat template: tools.%d: %w", i, err)
		}
		if !isMapping(v) {
			return nil, fmt.Errorf("chat template: tools.%d is not a JSON object", i)
		}
		tools[i] = v
	}
	return exec.AsValue(tools), nil
}

// The roles of nearly every message, made once.
var roles = map[string]*exec.Value{
	"system": exec.AsValue("system"), "user": exec.AsValue("user"),
	"assistant": exec.AsValue("assistant"), "tool": exec.AsValue("tool"),
}

func (m *Message) value() (*exec.Value, error) {
	role, ok := roles[m.Role]
	if !ok {
		role = exec.AsValue(m.Role)
	}
	o := make(object, 2, 4)
	o[0] = member{"role", role}
	o[1] = member{"content", exec.AsValue(m.Content)}
	if m.HasReasoning {
		o = append(o, member{"reasoning_content", exec.AsValue(m.Reasoning)})
	}
	if len(m.ToolCalls) > 0 {
		calls, err := callsValue(m.ToolCalls)
		if err != nil {
			return nil, err
		}
		o = append(o, member{"tool_calls", calls})
	}
	return exec.AsValue(o), nil
}

func callsValue(calls []ToolCall) (*exec.Value, error) {
	out := make(list, len(calls))
	for i, c := range calls {
		arguments := exec.AsValue(object{})
		if len(c.Arguments) > 0 {
			v, err := fromJSON(c.Arguments)
			if err != nil {
				return nil, fmt.Errorf("tool_calls.%d.arguments: %w", i, err)
			}
			if !isMapping(v) {
				return nil, fmt.Errorf("tool_calls.%d.arguments is not a JSON object", i)
			}
			arguments = v
		}
		function := object{{"name", exec.AsValue(c.Name)}, {"arguments", arguments}}
		out[i] = exec.AsValue(object{{"type", valueFunction}, {"function", exec.AsValue(function)}})
	}
	return exec.AsValue(out), nil
}

var valueFunction = exec.AsValue("function")
