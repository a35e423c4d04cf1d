package grammar

import (
	"math"
	"math/bits"
)

const (
	idle    = -3 // nothing is held, until the grammar is triggered
	unknown = -2
	nowhere = -1
)

// Matcher follows one answer through a grammar. That of a free answer holds nothing at
// first: its trigger is the token that begins a call, which Accept sees, or else Begin.
// From there on it holds until the call is complete. It is not safe for concurrent use.
type Matcher struct {
	automaton
	at    int32 // the set after all bytes so far; nowhere after a token that was not allowed
	chars int32 // of the string that is open, where its set has a limit
}

// NewMatcher returns the matcher of one answer whose tokens are of v.
func (g *Grammar) NewMatcher(v *Vocabulary) *Matcher {
	m := &Matcher{automaton: automaton{g: g, v: v}, at: idle}
	if !g.waits {
		m.start()
	}
	return m
}

// start puts the matcher where its grammar begins.
func (m *Matcher) start() { m.at = m.begin() }

// MayEnd says whether Mask allows the stop tokens.
func (m *Matcher) MayEnd() bool { return m.at == nowhere || m.at >= 0 && m.sets[m.at].complete }

// End says that the model would end the answer here, where it may not end. From here on
// what may be left out is left out: items, members and further calls. A string, number or
// thought that is open is closed as soon as it may be, but not before it has begun. What is
// still required is the model's to write, and every call of End closes what it has open.
// After a thought the answer is as free as ever.
func (m *Matcher) End() { m.switchTo(ending | closing) }

// switchTo goes on in other modes from the same bytes.
func (m *Matcher) switchTo(to mode) {
	if m.at >= 0 {
		m.at = m.turn(m.at, to)
	}
}

// Constrains says whether the next token has to be one that Mask allows.
func (m *Matcher) Constrains() bool { return m.at != idle }

// Begin triggers the grammar of a free answer in which no token begins a call: a block
// starts, of which text is there already.
func (m *Matcher) Begin(text []byte) {
	m.start()
	m.follow(text)
}

// Mask makes the tokens impossible with which the answer would leave the grammar.
// A stop token is possible where the answer may end. Logits of ids beyond the
// vocabulary become impossible too. Where nothing is held it does nothing.
func (m *Matcher) Mask(logits []float32) {
	if m.at == idle {
		return
	}
	impossible := float32(math.Inf(-1))
	for i, word := range m.allowed(m.at) { // whole words of a mask are most often of one kind
		part := logits[min(i*64, len(logits)):min(i*64+64, len(logits))]
		if word == 0 {
			for j := range part {
				part[j] = impossible
			}
			continue
		}
		for others := ^word; others != 0; others &= others - 1 {
			if j := bits.TrailingZeros64(others); j < len(part) {
				part[j] = impossible
			}
		}
	}
	for id := m.v.size; id < len(logits); id++ {
		logits[id] = impossible
	}
}

// Accept takes the token that was chosen. After one that is not allowed only stop tokens are.
func (m *Matcher) Accept(token int32) {
	switch {
	case m.at == idle:
		if token == m.v.marker {
			m.start()
		}
		return
	case int(token) >= m.v.size:
		m.at = nowhere
	case token == m.v.marker && m.at != nowhere:
		m.at = m.step(m.at, byMarker)
	default:
		m.follow(m.v.texts[token])
	}
	m.at = m.shrink(m.at)
}

// follow takes the bytes that come next.
func (m *Matcher) follow(text []byte) {
	for _, c := range text {
		if m.at == nowhere {
			return
		}
		m.at = m.step(m.at, int(c))
		m.count()
	}
	m.bound()
	if m.at >= 0 && m.sets[m.at].released {
		m.at = idle
	}
}

// count counts the characters of a string that no state counts.
func (m *Matcher) count() {
	if m.at < 0 {
		return
	}
	switch s := m.sets[m.at]; {
	case s.opens:
		m.chars = 0
	case s.limit > 0:
		m.chars++
	}
}

// bound closes such a string while one more token has room in it.
func (m *Matcher) bound() {
	if m.at < 0 {
		return
	}
	if s := m.sets[m.at]; !s.opens && s.limit > 0 && m.chars+m.v.longest > s.limit {
		m.switchTo(closing)
	}
}
