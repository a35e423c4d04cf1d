package route

import "time"

// books say which beginnings of prompts a replica computed for money and which for nothing: who
// leaves in prefill pays nothing, since replicas do not say how far it is, and would find it cached.
type books struct {
	billed, unbilled prefixes
}

// booksAge is how long it is remembered. Caches last longer than the replica is chosen for them.
const booksAge = 24 * time.Hour

func newBooks(max int) books {
	return books{newPrefixes(max, booksAge), newPrefixes(max, booksAge)}
}

// bill notes that a prompt was paid: of its beginnings the whole, with which its next turn begins, and some.
func (b *books) bill(hashes []uint64, now time.Time) {
	b.billed.add(thinned(hashes, 0, 1), now)
	b.unbilled.remove(hashes)
}

// leave notes that a prompt may have been computed, and that nobody paid what nobody had paid before.
func (b *books) leave(hashes []uint64, now time.Time) {
	b.unbilled.add(hashes[b.billed.longest(hashes, now):], now)
}

// upTo is how many of the hashes, from the front, were paid, if one behind them was computed and not
// paid; else all.
func (b *books) upTo(hashes []uint64, now time.Time) int {
	paid := b.billed.longest(hashes, now)
	if b.unbilled.longest(hashes[paid:], now) == 0 {
		return len(hashes)
	}
	return paid
}

func (b *books) clear() {
	b.billed.clear()
	b.unbilled.clear()
}

// Billed tells that the prompt with these prefixes, which a replica computed, was paid.
func (s *Set) Billed(id string, prefixes []uint64, now time.Time) {
	if r := s.get(id); r != nil {
		r.books.bill(prefixes, now)
	}
}

// Unbilled tells that a replica may have computed it for nothing.
func (s *Set) Unbilled(id string, prefixes []uint64, now time.Time) {
	if r := s.get(id); r != nil {
		r.books.leave(prefixes, now)
	}
}

// Paid is how many of the prefixes, from the front, may be cheap where the replica has more of the
// prompt cached: what lies behind them it has since somebody left. It is all of them where nobody did.
func (s *Set) Paid(id string, prefixes []uint64, now time.Time) int {
	if r := s.get(id); r != nil {
		return r.books.upTo(prefixes, now)
	}
	return len(prefixes)
}
