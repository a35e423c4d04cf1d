package gpu

import (
	"slices"
	"time"
)

// answer is one stream as its client saw it.
type answer struct {
	outputs []time.Duration // when each event with output came, rising
	tokens  int             // in all of them
}

// answerOf puts an answer together from its first output and the gaps behind it.
func answerOf(first time.Duration, gaps []time.Duration, tokens int) answer {
	a := answer{outputs: []time.Duration{first}, tokens: tokens}
	for _, g := range gaps {
		first += g
		a.outputs = append(a.outputs, first)
	}
	return a
}

// wholeShare is the part of the tokens asked for that an answer has to have to count as one that did not end early.
const wholeShare = 0.9

// steady is how many tokens a second came while all streams ran: from when the last of them had its first output
// until the first of them had its last. Those that ended early, by a token that ends answers, do not end it. A stream's
// tokens are spread over its events. Zero where the streams never ran all at once.
func steady(answers []answer, asked int) (tokensPerS float64, window time.Duration) {
	if len(answers) == 0 {
		return 0, 0
	}
	from, until, found := time.Duration(0), time.Duration(0), false
	for _, a := range answers {
		from = max(from, a.outputs[0])
		last := a.outputs[len(a.outputs)-1]
		if float64(a.tokens) >= wholeShare*float64(asked) && (!found || last < until) {
			until, found = last, true
		}
	}
	if !found || until <= from {
		return 0, 0
	}
	tokens := 0.0
	for _, a := range answers {
		begin, _ := slices.BinarySearch(a.outputs, from+1)
		end, _ := slices.BinarySearch(a.outputs, until+1)
		tokens += float64(end-begin) * float64(a.tokens) / float64(len(a.outputs))
	}
	return tokens / (until - from).Seconds(), until - from
}

// gapsWithin are the gaps of all streams that end in the window in which all ran, in milliseconds.
func gapsWithin(answers []answer, window time.Duration) (ms []float64) {
	from := time.Duration(0)
	for _, a := range answers {
		from = max(from, a.outputs[0])
	}
	for _, a := range answers {
		for i := 1; i < len(a.outputs); i++ {
			if at := a.outputs[i]; at > from && at <= from+window {
				ms = append(ms, 1e3*(at-a.outputs[i-1]).Seconds())
			}
		}
	}
	slices.Sort(ms)
	return ms
}
