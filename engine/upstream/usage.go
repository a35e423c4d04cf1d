package upstream

import (
	"corenode/engine"
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
	maxTokens int64
	delivered int64 // tokens that the answer has at least
	hide      bool  // cached tokens are neither shown nor discounted
}

// checked takes what a replica reported to the usage that is shown and billed, and says
// where it comes from. A side that cannot be is replaced by our own count: the prompt's, or
// what was delivered, which is never more than the truth.
func checked(u wire.Usage, b bounds) (abi.Usage, engine.UsageSource) {
	source := engine.UsageReported
	input, cached := u.Input, u.Cached
	off := input - b.counted
	if !u.Known || cached > input || float64(max(off, -off)) > usageSlackShare*float64(b.counted)+usageSlack {
		input, cached, source = b.counted, 0, engine.UsageCounted
	}
	output := u.Output
	if short := float64(b.delivered - output); !u.Known || output > b.maxTokens || output == 0 && b.delivered > 0 ||
		short > usageSlackShare*float64(output)+usageSlack {
		output, source = min(b.delivered, b.maxTokens), engine.UsageCounted
	}
	if b.hide {
		cached = 0
	}
	return abi.Usage{InputUncached: input - cached, CacheRead: cached, Output: output, Reasoning: min(u.Reasoning, output)}, source
}
