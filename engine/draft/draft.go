// Package draft proposes the next tokens of a sequence from its own prompt and output, without
// a model. What followed the latest tokens at an earlier place is likely to follow them again:
// code, quotes, tables and lists are full of it.
//
// A draft costs almost nothing and may be wrong. The step that computes the next token of a
// sequence also computes some of its draft, each drafted token in a row of its own. It keeps
// those that equal what is sampled from the logits of the row before. So the answer is the
// same, token by token, with and without. The scheduler decides how much of a draft pays, from
// the time of steps and the chance that a drafted token is kept. That chance is learned here
// for each sequence.
//
// Every draft is compared with what is sampled, also where no step computed it. So the chance
// of a sequence that drafts nothing stays up to date, and nobody has to try what will fail.
//
// It is pure: no clock, no randomness. Nothing here is safe for concurrent use.
package draft

import "slices"

// TokensMax is the most tokens of a draft. With the token before them they are at
// most a page, so a draft takes at most one page more than a token does.
const TokensMax = 15

// Drafter drafts the next tokens of one sequence.
type Drafter struct {
	stops      []int32 // tokens after which nothing comes
	lookup     lookup
	acceptance acceptance
	draft      []int32 // the latest, at most TokensMax
	match      int     // how many tokens it was found by
}

// New returns the drafter of a sequence that ends with any of the tokens stops.
// They belong to the caller, who does not change them.
func New(stops []int32) *Drafter { return &Drafter{stops: stops} }

// Draft returns what may follow tokens, the whole sequence so far, and the chance that a token
// of it is right when those before it are. Between two calls tokens only grows. The draft is
// valid until the next call. It is empty where nothing like the latest tokens was seen, and
// contains none of the stops: nothing is won behind one.
func (d *Drafter) Draft(tokens []int32) (draft []int32, chance float64) {
	d.draft, d.match = d.lookup.follow(d.draft[:0], tokens)
	if at := slices.IndexFunc(d.draft, func(id int32) bool { return slices.Contains(d.stops, id) }); at >= 0 {
		d.draft = d.draft[:at]
	}
	if len(d.draft) == 0 {
		return nil, 0
	}
	return d.draft, d.acceptance.of(d.match)
}

// Observe says which tokens came after the latest Draft: those sampled since, in
// order. They count once.
func (d *Drafter) Observe(sampled []int32) {
	for i, id := range sampled[:min(len(sampled), len(d.draft))] {
		d.acceptance.learn(d.match, id == d.draft[i])
		if id != d.draft[i] {
			break
		}
	}
	d.draft = d.draft[:0]
}
