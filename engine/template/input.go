package template

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	var schema value = none{}
	if len(in.ResponseSchema) > 0 {
		if schema, err = fromJSON(in.ResponseSchema); err != nil {
			return fmt.Errorf("chat template: response_schema: %w", err)
		}
	}
	s.set("messages", messages)
	s.set("tools", tools)
	s.set("response_schema", schema)
	s.set("documents", none{})
	s.set("add_generation_prompt", in.GenerationPrompt)
	s.set("enable_thinking", in.Thinking)
	s.set("thinking", in.Thinking) // what templates of DeepSeek call it
	if in.Effort != "" {
		s.set("reasoning_effort", in.Effort)
	}
	if in.BOS != "" {
		s.set("bos_token", in.BOS)
	}
	if in.EOS != "" {
		s.set("eos_token", in.EOS)
	}
	return nil
}

func toolsValue(raw []json.RawMessage) (value, error) {
	if len(raw) == 0 {
		return none{}, nil
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
	return tools, nil
}

// The roles of nearly every message, made once.
var roles = map[string]value{
	"system": "system", "user": "user",
	"assistant": "assistant", "tool": "tool",
}

func (m *Message) value() (value, error) {
	role, ok := roles[m.Role]
	if !ok {
		role = m.Role
	}
	o := make(object, 2, 4)
	o[0] = member{"role", role}
	o[1] = member{"content", m.Content}
	if m.NoContent {
		o[1].val = none{}
	}
	switch {
	case m.HasReasoning && m.ReasoningBlock:
		blocks := list{object{{"type", "thinking"}, {"thinking", m.Reasoning}}}
		if m.Content != "" {
			blocks = append(blocks, object{{"type", "text"}, {"text", m.Content}})
		}
		o[1].val = blocks
	case m.HasReasoning:
		o = append(o, member{cmp.Or(m.ReasoningName, "reasoning_content"), m.Reasoning})
	}
	if len(m.ToolCalls) > 0 {
		calls, err := callsValue(m.ToolCalls)
		if err != nil {
			return nil, err
		}
		o = append(o, member{"tool_calls", calls})
	}
	if m.ToolCallID != "" {
		o = append(o, member{"tool_call_id", m.ToolCallID})
	}
	return o, nil
}

func callsValue(calls []ToolCall) (value, error) {
	out := make(list, len(calls))
	for i, c := range calls {
		var arguments value = object{}
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
		if c.Text {
			arguments = string(defaultJSON.appendJSON(nil, arguments, 0))
		}
		function := object{{"name", c.Name}, {"arguments", arguments}}
		call := object{{"type", "function"}, {"function", function}}
		if c.ID != "" {
			call = append(object{{"id", c.ID}}, call...)
		}
		out[i] = call
	}
	return out, nil
}
