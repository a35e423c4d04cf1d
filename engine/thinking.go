package engine

// ThinkingBound is how long a thought of an answer may be. The zero value is no bound.
type ThinkingBound struct {
	Max int     // tokens
	End []int32 // which then end it
}

// thinkingBound is the bound that the options give. Models of channels think in messages, which nothing bounds.
func (e *Engine) thinkingBound() ThinkingBound {
	if e.options.ThinkingMax == 0 || e.format.calls == callsChannels {
		return ThinkingBound{}
	}
	text := e.format.tags.Close
	if e.format.tags.Usual() {
		text = "\n" + text // as models write it
	}
	return ThinkingBound{Max: e.options.ThinkingMax, End: e.tokenizer.EncodePrompt(nil, text)}
}

// overthinks says whether the thought is as long as it may be, so that the next token is not what is drawn.
func (r *run) overthinks() bool {
	b := r.job.Request.Thinking
	return b.Max > 0 && r.thoughtEnd < len(b.End) && r.parser.Thoughts() >= b.Max && r.parser.InThinking()
}

// endThought is the next token of those that end such a thought. It is the drawn one within a character, and where
// the model would have ended the answer: then what the answer is held to ends the thought.
func (r *run) endThought(drawn int32) int32 {
	next := r.job.Request.Thinking.End[r.thoughtEnd]
	if r.decoder.Within() || r.matcher != nil && !r.matcher.Allows(next) {
		return drawn
	}
	r.thoughtEnd++
	return next
}
