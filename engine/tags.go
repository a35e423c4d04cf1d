package engine

import (
	"strings"

	"corenode/engine/output"
	"corenode/engine/template"
)

// Models of Mistral think between [THINK] and [/THINK], which are control tokens, and only where a
// prompt has told them to. Their templates have no switch for it: here the prompt opens the thinking
// that a request wants, and the token that opens it is never drawn.

// thoughts is what an engine knows of such a template.
type thoughts struct {
	// opening is the token that opens thinking.
	opening int32
	// blocks says that the template takes thinking as a block of a message's content.
	blocks bool
	// effort says that the template tells the model how to think: "none", or "high".
	effort bool
}

// findThoughts finds out how a template takes thinking; nil where the tags are the usual ones or no tokens.
func (e *Engine) findThoughts(source string) *thoughts {
	if e.tags = output.TagsOf(source); e.tags.Usual() {
		return nil
	}
	t := &thoughts{opening: e.special(e.tags.Open), effort: strings.Contains(source, "[MODEL_SETTINGS]")}
	if t.opening < 0 {
		return nil
	}
	t.blocks = !e.showsThoughts(false) && e.showsThoughts(true)
	return t
}

// showsThoughts says whether the template shows the thinking of an earlier answer, as a block or not.
func (e *Engine) showsThoughts(block bool) bool {
	const thought = "0123456789"
	text, err := e.template.Render(template.Input{
		Messages: []template.Message{
			{Role: "user", Content: "a"},
			{Role: "assistant", Content: "b", Reasoning: thought, HasReasoning: true, ReasoningBlock: block},
		},
		GenerationPrompt: true, Thinking: true, BOS: e.bos, EOS: e.eos, Now: e.templateTime(),
	})
	return err == nil && strings.Contains(text, thought)
}

// findWritten finds the control tokens that are text where an answer has a form: the marks of calls,
// and what ends thinking. They stand for no bytes elsewhere.
func (e *Engine) findWritten() map[int32]string {
	var names []string
	if f := e.frame(); f != nil {
		names = f.Tokens()
	}
	if e.thoughts != nil {
		names = append(names, e.tags.Close)
	}
	written := map[int32]string{}
	for _, name := range names {
		if id := e.special(name); id >= 0 && len(e.tokenizer.Bytes(id)) == 0 {
			written[id] = name
		}
	}
	return written
}

// writtenText is the text of a token, but for the control tokens that are text, which stand for their names.
func (e *Engine) writtenText(id int32) []byte {
	if name := e.written[id]; name != "" {
		return []byte(name)
	}
	return e.tokenizer.Bytes(id)
}

// apply gives a rendering what the template wants to know of thinking.
func (t *thoughts) apply(in *template.Input) {
	for i := range in.Messages {
		in.Messages[i].ReasoningBlock = t.blocks
	}
	switch {
	case !t.effort:
	case in.Thinking:
		in.Effort = "high"
	default:
		in.Effort = "none"
	}
}
