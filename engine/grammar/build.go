package grammar

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// byteSet is a set of bytes.
type byteSet [4]uint64

func (s *byteSet) has(b byte) bool { return s[b>>6]>>(b&63)&1 != 0 }

func (s *byteSet) add(from, to byte) {
	for b := int(from); b <= int(to); b++ {
		s[b>>6] |= 1 << (b & 63)
	}
}

// bytesOf is the set of the bytes of text.
func bytesOf(text string) (s byteSet) {
	for i := range len(text) {
		s.add(text[i], text[i])
	}
	return s
}

func (s byteSet) without(text string) byteSet {
	for i := range len(text) {
		s[text[i]>>6] &^= 1 << (text[i] & 63)
	}
	return s
}

func span(from, to byte) (s byteSet) {
	s.add(from, to)
	return s
}

// kind says what a state does.
type kind uint8

const (
	kindSplit  kind = iota // goes to every state of split, on no byte
	kindBytes              // goes to next on a byte of set
	kindMarker             // goes to next on the token that begins a call
	kindCall               // goes through a rule and then to next
	kindEnd                // ends its rule
)

// plain is a class of tokens that a state takes whole, one after the other, which
// spares walking most of a vocabulary inside of strings.
type plain uint8

const (
	plainJSON plain = 1 << iota // the inside of a JSON string
	plainText                   // free text
	plainKinds
)

// role is what a state is for an answer that is to end: see Matcher.End.
type role uint8

const (
	// roleRepeats: split[0] begins what may be left out, such as another item of an array,
	// and split[1] leaves it out. Or some of split nest where others do not (descents).
	roleRepeats role = 1 << iota
	// roleGoesOn: split[0] goes on with a string, number or thought, and split[1] ends it.
	roleGoesOn
	roleOpens  // a string, number or thought begins behind this state
	roleCloses // and has ended behind this one
	roleThinks // it is a thought
)

// kept are the ways that an answer in a mode goes from a state.
func (s *state) kept(in mode) []int32 {
	if in&ending != 0 && s.role&roleRepeats != 0 || in&closing != 0 && s.role&roleGoesOn != 0 {
		return s.split[max(1, s.onward):]
	}
	return s.split
}

type state struct {
	kind  kind
	plain plain // tokens of this class lead back to a state like this one
	role  role
	// released says that anything may follow, until the grammar is triggered again.
	released bool
	// onward is how many of split, at its front, roleRepeats means, where it is more than one.
	onward int32
	// limit is the most characters of the string that goes on here, counted by the matcher; 0: any number.
	limit int32
	rule  int32
	next  int32
	set   byteSet
	split []int32
}

// builder collects states. An expr adds those of a part of a form, in front of
// the state where the form goes on, and returns the first of them.
type builder struct {
	states  []state
	entries []int32
	rules   map[string]int32 // by key: the index of a rule
	waiting []func()         // rules whose states are not made yet
	needed  []need
	ignored []string
	spent   int
	most    int   // states
	large   bool  // it would have more
	keyed   bool  // calls have keys and values
	capital bool  // words of arguments may be as Python writes them
	loose   bool  // counts few characters and items
	onward  role  // of the forks that are made now: roleRepeats, roleGoesOn, or 0 for neither
	limit   int32 // of the loops that are made now
	err     error
}

// need is a state from which an answer has to come to its end; why says what is wrong
// if it does not.
type need struct {
	state int32
	why   func() error
}

type expr func(b *builder, next int32) int32

func (b *builder) fail(err error) {
	if b.err == nil {
		b.err = err
	}
}

// spend counts the steps of compiling.
func (b *builder) spend(steps int) {
	if b.spent += steps; b.spent > spentMax {
		b.fail(&Error{Tool: -1, Msg: "the schema is too large: its parts are combined in too many ways"})
	}
}

func (b *builder) add(s state) int32 {
	if len(b.states) == b.most {
		b.large = true
		b.fail(&Error{Tool: -1, Msg: fmt.Sprintf("the schema is too large: its grammar would have more than %d states", b.most)})
	}
	if b.err != nil && len(b.states) > 0 {
		return 0 // nobody will use the grammar
	}
	b.states = append(b.states, s)
	return int32(len(b.states) - 1)
}

// rule returns a call of the rule with a key, which body makes once; it may use
// the rule itself.
func (b *builder) rule(key string, body func() expr) expr {
	at, known := b.rules[key]
	if !known {
		at = int32(len(b.entries))
		b.rules[key] = at
		b.entries = append(b.entries, 0)
		b.waiting = append(b.waiting, func() {
			first := body()(b, b.add(state{kind: kindEnd}))
			b.entries[at] = first // body may have made rules
		})
	}
	return func(b *builder, next int32) int32 { return b.add(state{kind: kindCall, rule: at, next: next}) }
}

// finish makes the states of all rules, also of those that rules bring up.
func (b *builder) finish() {
	for len(b.waiting) > 0 && b.err == nil {
		make := b.waiting[0]
		b.waiting = b.waiting[1:]
		make()
	}
	if b.err == nil {
		b.prune()
	}
	if b.err == nil {
		b.narrow()
	}
	if b.err == nil {
		b.descents()
	}
}

// prune takes out the ways that never come to an end, so that no answer gets stuck.
func (b *builder) prune() {
	before := make([][]int32, len(b.states)) // the states that go to a state
	live := make([]bool, len(b.states))
	var work []int32
	for i, s := range b.states {
		at := int32(i)
		switch s.kind {
		case kindSplit:
			for _, to := range s.split {
				before[to] = append(before[to], at)
			}
		case kindCall:
			before[b.entries[s.rule]] = append(before[b.entries[s.rule]], at)
			before[s.next] = append(before[s.next], at)
		case kindBytes, kindMarker:
			before[s.next] = append(before[s.next], at)
		case kindEnd:
			live[at] = true
			work = append(work, at)
		}
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, from := range before[at] {
			s := &b.states[from]
			ends := s.kind == kindSplit || live[s.next] && (s.kind == kindMarker ||
				s.kind == kindCall && live[b.entries[s.rule]] || s.kind == kindBytes && s.set != (byteSet{}))
			if ends && !live[from] {
				live[from] = true
				work = append(work, from)
			}
		}
	}
	for _, n := range b.needed {
		if !live[n.state] {
			b.fail(n.why())
		}
	}
	for i := range b.states {
		s := &b.states[i]
		before := len(s.split)
		if s.split = slices.DeleteFunc(s.split, func(to int32) bool { return !live[to] }); len(s.split) < before {
			s.role &^= roleRepeats | roleGoesOn // there is no choice any more
		}
	}
}

// closable is a string or a number from where it is open on, which is closed when the answer
// is to end there, and when it has limit characters; 0: any number.
func closable(e expr, limit int) expr { return marked(e, 0, int32(limit)) }

// thought is thinking, likewise.
func thought(e expr) expr { return marked(e, roleThinks, 0) }

// thoughtEnd is where a thought ends by what comes next.
func thoughtEnd(b *builder, next int32) int32 {
	return b.add(state{split: []int32{next}, role: roleThinks})
}

func marked(e expr, as role, limit int32) expr {
	return func(b *builder, next int32) int32 {
		onward, before := b.onward, b.limit
		b.onward, b.limit = roleGoesOn, limit
		first := e(b, b.add(state{split: []int32{next}, role: roleCloses | as}))
		b.onward, b.limit = onward, before
		return b.add(state{split: []int32{first}, role: roleOpens | as})
	}
}

// kept is what an answer that is to end may have as always.
func kept(e expr) expr {
	return func(b *builder, next int32) int32 {
		onward := b.onward
		b.onward = 0
		first := e(b, next)
		b.onward = onward
		return first
	}
}

// fork is a state that goes on, or leaves out what may be left out.
func (b *builder) fork(on, off int32) int32 {
	return b.add(state{split: []int32{on, off}, role: b.onward, limit: b.limit})
}

func oneOf(set byteSet) expr {
	return func(b *builder, next int32) int32 { return b.add(state{kind: kindBytes, set: set, next: next}) }
}

func lit(text string) expr {
	return func(b *builder, next int32) int32 {
		for i := len(text) - 1; i >= 0; i-- {
			next = b.add(state{kind: kindBytes, set: span(text[i], text[i]), next: next})
		}
		return next
	}
}

// words is one of some texts, a list of its own. What several begin with is there once, so that only as many
// states follow each other without a byte as there are bytes to choose from.
func words(texts []string) expr {
	slices.Sort(texts)
	texts = slices.Compact(texts)
	return func(b *builder, next int32) int32 {
		// after is where texts go on that have the same first n bytes.
		var after func(texts []string, n int) int32
		after = func(texts []string, n int) int32 {
			first, last := texts[0], texts[len(texts)-1]
			same := n
			for same < len(first) && same < len(last) && first[same] == last[same] {
				same++ // and so have those between them
			}
			if len(texts) == 1 {
				return lit(first[n:])(b, next)
			}
			var split []int32
			if len(first) == same {
				split, texts = append(split, next), texts[1:]
			}
			for len(texts) > 0 && b.err == nil {
				equal := 1
				for equal < len(texts) && texts[equal][same] == texts[0][same] {
					equal++
				}
				split, texts = append(split, after(texts[:equal], same)), texts[equal:]
			}
			return lit(first[n:same])(b, b.add(state{split: split}))
		}
		return after(texts, 0)
	}
}

func seq(parts ...expr) expr {
	return func(b *builder, next int32) int32 {
		for i := len(parts) - 1; i >= 0 && b.err == nil; i-- {
			next = parts[i](b, next)
		}
		return next
	}
}

func alt(options ...expr) expr {
	if len(options) == 1 {
		return options[0]
	}
	return func(b *builder, next int32) int32 {
		split := make([]int32, len(options))
		for i := 0; i < len(options) && b.err == nil; i++ {
			split[i] = options[i](b, next)
		}
		return b.add(state{split: split})
	}
}

func optional(e expr) expr {
	return func(b *builder, next int32) int32 { return b.fork(e(b, next), next) }
}

// star is any number of e.
func star(e expr) expr {
	return func(b *builder, next int32) int32 {
		at, _ := again(b, e, next, 0)
		return at
	}
}

// again makes a loop; first is its first e, where it is begun to pass at least once.
func again(b *builder, e expr, next int32, of plain) (at, first int32) {
	at = b.add(state{plain: of, role: b.onward, limit: b.limit})
	if b.err == nil {
		first = e(b, at)
		b.states[at].split = []int32{first, next}
	}
	return at, first
}

// repeat is e at least least and at most most times; no upper bound with most < 0.
func repeat(e expr, least, most int) expr { return repeatPlain(e, least, most, 0) }

// repeatPlain is repeat where one byte or more is one e for tokens of a class.
func repeatPlain(e expr, least, most int, of plain) expr {
	return func(b *builder, next int32) int32 {
		least := least
		if most < 0 {
			at, first := again(b, e, next, of)
			next = at
			if least > 0 {
				next = first
				least--
			}
		}
		end := next
		for left := 1; left <= most-least && b.err == nil; left++ { // left of those that may be there are still to come
			at := state{split: []int32{e(b, next), end}, role: b.onward}
			if left >= plainMax {
				at.plain = of
			}
			next = b.add(at)
		}
		for i := 0; i < least && b.err == nil; i++ {
			next = e(b, next)
		}
		return next
	}
}

// character is e as one of the characters that the matcher counts, as it counts those of a loop.
func character(e expr) expr {
	return func(b *builder, next int32) int32 {
		first := e(b, next)
		if b.limit == 0 {
			return first
		}
		return b.add(state{split: []int32{first}, limit: b.limit})
	}
}

// until is text up to and with end, in which none of the forbidden texts occurs:
// the automaton of Aho and Corasick (1975) over all of them.
func until(end string, forbidden ...string) expr {
	return func(b *builder, next int32) int32 {
		words := append([]string{end}, forbidden...)
		prefixes := []string{""}
		for _, w := range words {
			for n := 1; n < len(w); n++ {
				prefixes = append(prefixes, w[:n])
			}
		}
		slices.Sort(prefixes)
		prefixes = slices.Compact(prefixes)
		at := map[string]int32{}
		for _, p := range prefixes {
			at[p] = b.add(state{})
		}
		if b.err != nil {
			return 0
		}
		b.states[at[""]].plain = plainText
		inWords := bytesOf(strings.Join(words, ""))
		for _, p := range prefixes {
			to := func(c byte) (int32, bool) {
				if !inWords.has(c) { // most bytes are not
					return at[""], true
				}
				for text := p + string([]byte{c}); ; text = text[1:] {
					for i, w := range words {
						if text == w {
							return next, i == 0
						}
					}
					if to, ok := at[text]; ok {
						return to, true
					}
				}
			}
			known := p // the longest part of end that is there
			for !strings.HasPrefix(end, known) {
				known = known[1:]
			}
			b.steer(at[p], end[len(known)], to)
		}
		return at[""]
	}
}

// without is text in which word does not occur, of any length.
func without(word string) expr {
	return func(b *builder, next int32) int32 {
		at := make([]int32, len(word)) // behind as much of word
		for i := range at {
			at[i] = b.fork(b.add(state{}), next)
		}
		if b.err != nil {
			return 0
		}
		b.states[at[0]].plain = plainText
		for i := range at {
			b.follow(b.states[at[i]].split[0], func(c byte) (int32, bool) {
				text := word[:i] + string([]byte{c})
				if text == word {
					return 0, false
				}
				for !strings.HasPrefix(word, text) {
					text = text[1:]
				}
				return at[len(text)], true
			})
		}
		return at[0]
	}
}

// steer makes s go, for every byte, to where to says, if anywhere; only way leads to an end.
func (b *builder) steer(s int32, way byte, to func(byte) (int32, bool)) {
	target, ok := to(way)
	others := b.add(state{})
	if b.err != nil {
		return
	}
	b.follow(others, func(c byte) (int32, bool) {
		target, ok := to(c)
		return target, ok && c != way
	})
	b.states[s].split = []int32{others}
	if ok {
		out := b.add(state{kind: kindBytes, set: span(way, way), next: target})
		b.states[s].split = append(b.states[s].split, out)
		b.states[s].role = b.onward
	}
}

// follow makes s go, for every byte, to where to says, if anywhere.
func (b *builder) follow(s int32, to func(byte) (int32, bool)) {
	sets := map[int32]*byteSet{}
	var order []int32
	for c := range 256 {
		target, ok := to(byte(c))
		if !ok {
			continue
		}
		if sets[target] == nil {
			sets[target] = &byteSet{}
			order = append(order, target)
		}
		sets[target].add(byte(c), byte(c))
	}
	for _, target := range order {
		at := b.add(state{kind: kindBytes, set: *sets[target], next: target})
		b.states[s].split = append(b.states[s].split, at)
	}
}

// runes is one character from one to another, both included, as UTF-8: ranges of
// equal length are cut where all of their last bytes are free.
func runes(from, to rune) expr {
	for _, last := range []rune{utf8.RuneSelf - 1, 0x7ff, 0xd7ff, 0xdfff, 0xffff} { // of each length; surrogates are none
		if from <= last && last < to {
			if last == 0xdfff {
				return runes(last+1, to)
			}
			return alt(runes(from, last), runes(last+1, to))
		}
	}
	if from >= 0xd800 && to <= 0xdfff {
		return alt()
	}
	var lo, hi [utf8.UTFMax]byte
	n := utf8.EncodeRune(lo[:], from)
	utf8.EncodeRune(hi[:], to)
	return byteRange(lo[:n], hi[:n])
}

// byteRange is the texts of continuation bytes between two of equal length.
func byteRange(lo, hi []byte) expr {
	if len(lo) == 1 {
		return oneOf(span(lo[0], hi[0]))
	}
	if lo[0] == hi[0] {
		return seq(lit(string(lo[:1])), byteRange(lo[1:], hi[1:]))
	}
	low, high := make([]byte, len(lo)-1), make([]byte, len(lo)-1)
	for i := range low {
		low[i], high[i] = 0x80, 0xbf
	}
	options := []expr{seq(lit(string(lo[:1])), byteRange(lo[1:], high)), seq(lit(string(hi[:1])), byteRange(low, hi[1:]))}
	if hi[0]-lo[0] > 1 {
		options = append(options, seq(oneOf(span(lo[0]+1, hi[0]-1)), byteRange(low, high)))
	}
	return alt(options...)
}
