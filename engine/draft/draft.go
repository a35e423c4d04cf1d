// Package draft guesses the next tokens of a sequence from its own prompt and
// output, without a model: what followed the latest tokens where they stood
// before is likely to follow again. Code, quotes, tables and lists are full of it.
//
// A guess costs next to nothing and needs not be right. The step that computes
// the next token of a sequence computes some of its guess too, each drafted token
// in a row of its own, and keeps those that turn out to be what is sampled from
// the logits of the row before: the answer is the same, token by token, with and
// without. What pays is decided elsewhere, from what steps take and from the
// chance that a drafted token is kept, which is learnt here for each sequence.
//
// Every guess is compared with what is sampled, also those that no step has
// computed: so the trust of a sequence that drafts nothing is as fresh as any
// other, and nobody has to try now and then what will fail.
//
// It is pure: no clock, no randomness. Nothing here is safe for concurrent use.
package draft

import "slices"

// TokensMax is the most tokens of a guess. With the token before them they are at
// most a page, so a draft takes at most one page more than a token does.
const TokensMax = 15

// Drafter guesses the next tokens of one sequence.
type Drafter struct {
	stops  []int32 // tokens after which nothing comes
	lookup lookup
	trust  trust
	guess  []int32 // the latest, at most TokensMax
	match  int     // how many tokens it was found by
}

// New returns the drafter of a sequence that ends with any of the tokens stops.
// They belong to the caller, who does not change them.
func New(stops []int32) *Drafter { return &Drafter{stops: stops} }

// Guess returns what may follow tokens, the whole sequence so far, and the chance
// that a token of it is right when those before it are. Between two calls tokens
// only grows. The guess is valid until the next call; it is empty where nothing
// like the latest tokens was seen, and holds none of the stops: nothing is won by
// computing what comes after one.
func (d *Drafter) Guess(tokens []int32) (guess []int32, chance float64) {
	d.guess, d.match = d.lookup.follow(d.guess[:0], tokens)
	if at := slices.IndexFunc(d.guess, func(id int32) bool { return slices.Contains(d.stops, id) }); at >= 0 {
		d.guess = d.guess[:at]
	}
	if len(d.guess) == 0 {
		return nil, 0
	}
	return d.guess, d.trust.of(d.match)
}

// Saw says which tokens came after the latest Guess: those sampled since, in
// order. They count once.
func (d *Drafter) Saw(sampled []int32) {
	for i, id := range sampled[:min(len(sampled), len(d.guess))] {
		d.trust.learn(d.match, id == d.guess[i])
		if id != d.guess[i] {
			break
		}
	}
	d.guess = d.guess[:0]
}
