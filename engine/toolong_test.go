package engine

import (
	"regexp"
	"testing"

	"corenode/wasm/abi"
)

// TestTooLongInWordsOfAgents: what coding agents look for in a refusal to know that they have to shorten the conversation.
func TestTooLongInWordsOfAgents(t *testing.T) {
	_, counted := OutputMax(Info{ContextLength: 100, OutputMax: 100}, 101, 7, 0)
	_, noRoom := OutputMax(Info{ContextLength: 100, OutputMax: 100}, 91, 0, 10)
	for _, err := range []error{counted, noRoom, tooLong("more than ", 100, 100)} {
		if e := abi.AsError(err); e.Reason != abi.ReasonPrompt || e.Bound != 100 || e.Value < 100 {
			t.Errorf("%v has %+v", err, e.Detail)
		}
		for _, pattern := range []string{
			`(?i)prompt is too long[^0-9]*(\d+)\s*tokens?\s*>\s*(\d+)`,
			`maximum context length is \d+ tokens`, `this model's maximum context length is`,
		} {
			if err == nil || !regexp.MustCompile(pattern).MatchString(err.Error()) {
				t.Errorf("%v does not match %s", err, pattern)
			}
		}
	}
	for asked, pattern := range map[int]string{
		0:  "max_tokens: input length and `max_tokens` exceed context limit: 100 \\+ 1 > 100",
		70: "max_tokens: input length and `max_tokens` exceed context limit: 100 \\+ 70 > 100 .*this model's maximum context length is 100 tokens",
	} {
		_, err := OutputMax(Info{ContextLength: 100, OutputMax: 100}, 100, asked, 0)
		if err == nil || !regexp.MustCompile(pattern).MatchString(err.Error()) {
			t.Errorf("%v does not match %s", err, pattern)
		}
	}
}
