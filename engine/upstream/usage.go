package upstream

import (
	"corenode/engine"
	"corenode/engine/messages"
	"corenode/engine/upstream/wire"
	"corenode/wasm/abi"
)

// usageSlack is how far a replica's count of the prompt may be from ours: templates differ
// a little between servers of one model.
const (
	usageSlackShare = 0.02
	usageSlack      = 8
)

// bounds are what a report of usage is checked against.
type bounds struct {
	counted   int64 // prompt tokens by our own count
	exact     bool  // which is of the model's tokenizer
	maxTokens int64
	unpaid    int64 // of those, at their end, which may be cached without having been paid: they cost as if they were not
	delivered int64 // tokens that the answer has at least
	hide      bool  // cached tokens are neither shown nor discounted
}

// checked takes what a replica reported to the usage that is shown and billed, and says
// where it comes from. A side that cannot be is replaced by our own count: the prompt's, or
// what was delivered, which is never more than the truth. An exact count of the prompt stands also
// beside a report that can be: it is what a count of the same body says, and what an answer that
// streams begins with. Of one that is not exact a report takes away, and adds nothing: it was quoted,
// and a few tokens more may be of another tier. Of an output part of which is reported beside the
// completion, the completion alone is held to max_tokens, as by its server; what is billed is never
// more than that.
func checked(u wire.Usage, b bounds) (abi.Usage, engine.UsageSource) {
	source := engine.UsageReported
	input, cached := u.Input, u.Cached
	off := input - b.counted
	far := !u.Known || cached > input || float64(max(off, -off)) > usageSlackShare*float64(b.counted)+usageSlack
	if far || b.exact {
		input = b.counted
	}
	input = min(input, b.counted)
	if far {
		cached, source = 0, engine.UsageCounted
	}
	cached = min(cached, input, b.counted-b.unpaid)
	output := u.Output
	if short := float64(b.delivered - output); !u.Known || output-u.Beside > b.maxTokens || output <= 0 && b.delivered > 0 ||
		short > usageSlackShare*float64(output)+usageSlack {
		output, source = b.delivered, engine.UsageCounted
	}
	output = min(output, b.maxTokens)
	if b.hide {
		cached = 0
	}
	return abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: output, Reasoning: min(u.Reasoning, output)}, source
}

// usage is what is shown and billed of the answer so far, and where it comes from. Thinking that is
// left out of the answer is in neither. What is shown has a token for each piece at least.
func (r *relay) usage() (abi.Usage, engine.UsageSource) {
	u, b := r.reader.Usage(), r.bounds()
	if !r.thinksUnasked(u) {
		return checked(u, b)
	}
	b.delivered -= r.reader.Hidden()
	left := r.leftOut(u, b.delivered)
	u.Output, u.Beside = u.Output-left, max(0, u.Beside-left)
	usage, source := checked(u, b)
	usage.Output, usage.Reasoning = max(usage.Output, min(b.delivered, b.maxTokens)), 0
	return usage, source
}

// thinksUnasked says that thinking was switched off and the server thinks all the same: text of it has come, or
// the report has reasoning tokens, also of servers that keep the text to themselves.
func (r *relay) thinksUnasked(reported wire.Usage) bool {
	return r.sent.quiet && (r.reader.Hidden() > 0 || reported.ReasoningKnown && reported.Reasoning > 0)
}

func (r *relay) bounds() bounds {
	m := r.model
	return bounds{
		counted: int64(r.sent.counted), exact: r.sent.exact, maxTokens: int64(r.job.Request.MaxTokens),
		unpaid: r.unpaid, delivered: r.reader.Delivered(), hide: !m.options.Flavor.Isolates(),
	}
}

// leftOut is how much of the reported output is thinking that is left out: the reasoning tokens that the
// server reports, if there is one for each piece, else our count of its text, once all of it is there. Where
// nothing is shown it is all.
func (r *relay) leftOut(reported wire.Usage, shown int64) int64 {
	hidden := r.reader.Hidden()
	switch {
	case shown == 0:
		return reported.Output
	case reported.ReasoningKnown && reported.Reasoning >= hidden:
		return reported.Reasoning
	case !r.reader.Ended():
		return reported.Output - shown
	}
	return max(hidden, r.model.countText(r.reader.HiddenText()))
}

// countText counts the tokens of a text; 0 where that cannot be.
func (m *Model) countText(text string) int64 {
	if m.options.Counter == nil {
		return 0
	}
	blocks := []messages.Block{{Type: messages.Text, Text: text}}
	n, err := m.options.Counter.Count(&messages.Request{Raw: true, Messages: []messages.Message{{Role: "user", Blocks: blocks}}})
	if err != nil { // it is longer than any prompt that is counted
		return 0
	}
	return int64(n)
}
