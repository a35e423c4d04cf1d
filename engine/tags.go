package engine

import "corenode/engine/template"

// Models of Mistral think between [THINK] and [/THINK], which are control tokens, and only where a
// prompt has told them to. Their templates have no switch for it: here the prompt opens the thinking
// that a request wants, and the token that opens it is never drawn.

// writtenText is the text of a token, but for the control tokens that are text, which stand for their names.
func (e *Engine) writtenText(id int32) []byte {
	if name := e.format.written[id]; name != "" {
		return []byte(name)
	}
	return e.tokenizer.Bytes(id)
}

// tellThinking gives a rendering what the template wants to know of thinking.
func (f *chatFormat) tellThinking(in *template.Input) {
	for i := range in.Messages {
		in.Messages[i].ReasoningBlock = f.thinkBlocks
	}
	switch {
	case !f.thinkEffort:
	case in.Thinking:
		in.Effort = "high"
	default:
		in.Effort = "none"
	}
}
