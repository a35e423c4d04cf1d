// Package engine turns a request body into tokens, tokens into steps of a
// forward pass, and sampled tokens into stream events.
//
// An Engine is one loaded model. Prepare and Count are pure, but for a seed and for
// the date where a chat template asks for it, and safe for concurrent use: they run
// on the caller's goroutine. A Stepper is the single
// owner of the model's KV memory and scheduler: one goroutine calls it.
package engine

import (
	"iter"
	"sync"
	"sync/atomic"

	"corenode/engine/grammar"
	"corenode/engine/instant"
	"corenode/engine/kernel"
	"corenode/engine/kernel/cpu"
	"corenode/engine/modelfile"
	"corenode/engine/template"
	"corenode/engine/tokenizer"
)

// Info is what clients may know of a model.
type Info struct {
	ID            string
	DisplayName   string
	ContextLength int // tokens, prompt plus output
	OutputMax     int // most tokens of one answer
	Created       int64
}

// Engine is one loaded model.
type Engine struct {
	info      Info
	options   Options
	file      *modelfile.File
	tokenizer *tokenizer.Tokenizer
	template  *template.Template
	// ownDefaults are those that the operator's changes begin from, defaults what they came to.
	ownDefaults defaults
	defaults    atomic.Pointer[defaults]
	bos, eos    string // as templates write them, empty without one
	format      chatFormat
	thinking    ThinkingBound
	forwarder   Forwarder      // it and backend are the step loop's, which makes them anew after they failed
	backend     kernel.Backend // nil for Instant
	computes    string         // the backend's name at the start, which outlives it
	packError   error          // of the start
	vocab       int            // width of the logits
	// fileContext is the context length of the file; info has what is served.
	fileContext int
	memory      memory
	stats       atomic.Pointer[Stats]
	loads       atomic.Uint64 // steppers made

	vocabularyOnce sync.Once
	walkable       *grammar.Vocabulary
	grammars       grammars
}

// Info is what clients may know of the model.
func (e *Engine) Info() Info { return e.info }

// Stats are the gauges of the model's step loop, at most a moment old; zeros before its first step.
func (e *Engine) Stats() (s Stats) {
	if last := e.stats.Load(); last != nil {
		s = *last
	}
	return s
}

// PageTokens is how many positions a page has.
func (e *Engine) PageTokens() int { return e.options.Cache.PageTokens }

// BytesPerToken is what one token of cached prefix takes.
func (e *Engine) BytesPerToken() int64 {
	return max(1, e.memory.pageBytes/int64(e.options.Cache.PageTokens))
}

// PackError says why the repacked weights are not kept for the next start; nil
// when they are, or need not be. The model is served all the same.
func (e *Engine) PackError() error { return e.packError }

// CleanPacks removes the repacked weights in a folder but for those of the open models of kind CPU: no other opens
// them. The models must be all that this folder is for: of one that did not open the weights would go too.
func CleanPacks(dir string, open iter.Seq[*Engine]) error {
	return cpu.CleanCache(dir, func(yield func(string) bool) {
		for e := range open {
			if e.options.Kind == CPU && !yield(e.file.Digest()) {
				return
			}
		}
	})
}

// logitsWidth is how many logits a row has; those that Instant would leave at
// zero are left out.
func (e *Engine) logitsWidth() int {
	if m, ok := e.forwarder.(*instant.Model); ok {
		return m.Vocab()
	}
	return e.vocab
}

// FileContext is the context length that the model file says.
func (e *Engine) FileContext() int { return e.fileContext }

// Describe names what computes the model, such as "cpu/avx512vnni".
func (e *Engine) Describe() string {
	if e.computes == "" {
		return string(Instant)
	}
	return e.computes
}

// Close frees the model. No Stepper of it may be in use.
func (e *Engine) Close() {
	e.forwarder.Close() // and with it the backend
	e.file.Close()
}
