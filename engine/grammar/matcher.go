package grammar

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

const (
	// setsMax is how many sets a matcher remembers; beyond it all but the one it is at are forgotten.
	setsMax = 4096
	// masksMax is how many sets keep their allowed tokens.
	masksMax = 64
	// stacksMax is how many configurations of a set may differ from others in their
	// stacks only. Alternatives beyond it are given up.
	stacksMax = 1024
	// followedMax is how many configurations are followed for one mask. Beyond it only
	// tokens of one byte are tried, and those that need nothing new. Ordinary schemas
	// take less than 7,000 with 248,000 tokens; hostile ones would slow every stream.
	followedMax = 20_000
)

const (
	idle    = -3 // nothing is held, until the grammar is triggered
	unknown = -2
	nowhere = -1
)

// byMarker is where the token that begins a call leads, behind where the bytes do.
const byMarker = 256

// Matcher follows one answer through a grammar. That of a free answer holds nothing at
// first: its trigger is the token that begins a call, which Accept sees, or else Begin.
// From there on it holds until the call is complete. It is not safe for concurrent use.
type Matcher struct {
	g *Grammar
	v *Vocabulary

	// frames are the stacks: where to go on after a rule, and the frame below. They
	// are shared, so that equal stacks have equal numbers; 0 is the empty one.
	frames  []frame
	framed  map[frame]int32
	sets    []*set
	at      int32 // the set after all bytes so far; nowhere after a token that was not allowed
	sharing map[string]int32
	masks   []idSet // as many as are in use, each of one set, the oldest replaced first
	holders []*set
	oldest  int

	key  []byte
	work []config
	seen seen
	path []int32

	followed int // configurations, in all
}

type frame struct{ next, below int32 }

// config is a state with a stack.
type config struct{ state, frame int32 }

// seen are the configurations that were followed. Few states come with several stacks.
type seen struct {
	now   uint32
	round []uint32        // by state: when it was added
	frame []int32         // by state: with which stack first
	more  map[config]bool // with others
}

func (s *seen) clear() {
	s.now++
	if s.now == 0 { // after four thousand million sets
		clear(s.round)
		s.now = 1
	}
	if len(s.more) > 0 {
		clear(s.more)
	}
}

// add says whether a configuration is new.
func (s *seen) add(c config) bool {
	if s.round[c.state] != s.now {
		s.round[c.state], s.frame[c.state] = s.now, c.frame
		return true
	}
	if s.frame[c.state] == c.frame || s.more[c] || len(s.more) == stacksMax {
		return false
	}
	s.more[c] = true
	return true
}

// set is all configurations that the same bytes lead to.
type set struct {
	configs  []config // that wait for a byte
	next     [byMarker + 1]int32
	complete bool // the answer may end here
	released bool // nothing is held from here on
	plain    plain
	mask     idSet // nil: not known
}

// NewMatcher returns the matcher of one answer whose tokens are of v.
func (g *Grammar) NewMatcher(v *Vocabulary) *Matcher {
	m := &Matcher{g: g, v: v, at: idle}
	if !g.waits {
		m.start()
	}
	return m
}

// start puts the matcher where its grammar begins.
func (m *Matcher) start() {
	if m.seen.round == nil { // few answers make a call
		n := len(m.g.states)
		m.seen = seen{round: make([]uint32, n), frame: make([]int32, n), more: map[config]bool{}}
		m.forget()
	}
	m.work = append(m.work[:0], config{m.g.entries[0], 0})
	m.at = m.close()
}

// Holds says whether the next token has to be one that Mask allows.
func (m *Matcher) Holds() bool { return m.at != idle }

// Begin triggers the grammar of a free answer in which no token begins a call: a block
// starts, of which text is there already.
func (m *Matcher) Begin(text []byte) {
	m.start()
	m.follow(text)
}

func (m *Matcher) forget() {
	m.frames, m.framed = []frame{{}}, map[frame]int32{}
	m.sets, m.sharing = nil, map[string]int32{}
	m.masks, m.holders, m.oldest = nil, nil, 0
}

// Mask makes the tokens impossible with which the answer would leave the grammar.
// A stop token is possible where the answer may end. Logits of ids beyond the
// vocabulary become impossible too. Where nothing is held it does nothing.
func (m *Matcher) Mask(logits []float32) {
	if m.at == idle {
		return
	}
	impossible := float32(math.Inf(-1))
	for i, word := range m.allowed() { // whole words of a mask are most often of one kind
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
	if m.at >= 0 && len(m.sets) > setsMax {
		m.shrink()
	}
}

// follow takes the bytes that come next.
func (m *Matcher) follow(text []byte) {
	for _, c := range text {
		if m.at == nowhere {
			return
		}
		m.at = m.step(m.at, int(c))
	}
	if m.at >= 0 && m.sets[m.at].released {
		m.at = idle
	}
}

// step is the set that a byte, or byMarker, leads to.
func (m *Matcher) step(from int32, by int) int32 {
	s := m.sets[from]
	if to := s.next[by]; to != unknown {
		return to
	}
	m.work = m.work[:0]
	for _, at := range s.configs {
		st := &m.g.states[at.state]
		if by == byMarker && st.kind == kindMarker || by < byMarker && st.set.has(byte(by)) {
			m.work = append(m.work, config{st.next, at.frame})
		}
	}
	to := m.close()
	s.next[by] = to
	return to
}

// close turns the configurations of work into a set: it follows what needs no byte.
func (m *Matcher) close() int32 {
	s := &set{}
	m.seen.clear()
	for len(m.work) > 0 {
		at := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		if !m.seen.add(at) {
			continue
		}
		m.followed++
		st := &m.g.states[at.state]
		s.plain |= st.plain
		s.released = s.released || st.released
		switch st.kind {
		case kindBytes, kindMarker:
			s.configs = append(s.configs, at)
		case kindSplit:
			for _, to := range st.split {
				m.work = append(m.work, config{to, at.frame})
			}
		case kindCall:
			m.work = append(m.work, config{m.g.entries[st.rule], m.push(st.next, at.frame)})
		case kindEnd:
			if at.frame == 0 {
				s.complete = true
				continue
			}
			f := m.frames[at.frame]
			m.work = append(m.work, config{f.next, f.below})
		}
	}
	if len(s.configs) == 0 && !s.complete {
		return nowhere
	}
	return m.share(s)
}

// push is the stack with one more frame. What would only end its rule is left out, so
// that the stack of a list does not grow with the list.
func (m *Matcher) push(next, below int32) int32 {
	for m.g.states[next].kind == kindEnd && below != 0 {
		f := m.frames[below]
		next, below = f.next, f.below
	}
	f := frame{next, below}
	at, known := m.framed[f]
	if !known {
		at = int32(len(m.frames))
		m.frames = append(m.frames, f)
		m.framed[f] = at
	}
	return at
}

// share is the number of a set, the same for equal ones.
func (m *Matcher) share(s *set) int32 {
	slices.SortFunc(s.configs, func(a, b config) int {
		if a.state != b.state {
			return int(a.state - b.state)
		}
		return int(a.frame - b.frame)
	})
	m.key = m.key[:0]
	for _, c := range s.configs {
		m.key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(m.key, uint32(c.state)), uint32(c.frame))
	}
	m.key = append(m.key, byte(s.plain)) // that it is released its states say
	if s.complete {
		m.key = append(m.key, 1)
	}
	if at, known := m.sharing[string(m.key)]; known {
		return at
	}
	for i := range s.next {
		s.next[i] = unknown
	}
	at := int32(len(m.sets))
	m.sets = append(m.sets, s)
	m.sharing[string(m.key)] = at
	return at
}

// shrink forgets all but the set it is at and its stacks.
func (m *Matcher) shrink() {
	if m.at == nowhere {
		return
	}
	s, frames := m.sets[m.at], m.frames
	m.forget()
	var again func(at int32) int32
	again = func(at int32) int32 {
		if at == 0 {
			return 0
		}
		return m.push(frames[at].next, again(frames[at].below))
	}
	kept := &set{complete: s.complete, released: s.released, plain: s.plain}
	for _, c := range s.configs {
		kept.configs = append(kept.configs, config{c.state, again(c.frame)})
	}
	m.at = m.share(kept)
}

// allowed are the tokens that may come next.
func (m *Matcher) allowed() idSet {
	if m.at == nowhere {
		out := make(idSet, (m.v.size+63)/64)
		for _, id := range m.v.stops {
			out.set(id)
		}
		return out
	}
	s := m.sets[m.at]
	if s.mask != nil {
		return s.mask
	}
	out := m.room(s)
	through := &m.v.all
	for _, of := range []plain{plainJSON, plainText} {
		if s.plain&of != 0 {
			copy(out, m.v.plain[of])
			through = &m.v.rest[of]
			break
		}
	}
	m.walk(out, through)
	if m.v.marker >= 0 && m.step(m.at, byMarker) != nowhere {
		out.set(m.v.marker)
	}
	if s.complete {
		for _, id := range m.v.stops {
			out.set(id)
		}
	}
	s.mask = out
	return out
}

// room is an empty mask for a set; the set whose mask is the oldest loses it.
func (m *Matcher) room(s *set) idSet {
	if len(m.masks) < masksMax {
		m.masks = append(m.masks, make(idSet, (m.v.size+63)/64))
		m.holders = append(m.holders, s)
		return m.masks[len(m.masks)-1]
	}
	at := m.oldest
	m.oldest = (at + 1) % masksMax
	m.holders[at].mask = nil
	m.holders[at] = s
	clear(m.masks[at])
	return m.masks[at]
}

// walk adds the tokens whose bytes lead somewhere. A beginning that leads nowhere
// is tried once for all tokens that have it.
func (m *Matcher) walk(out idSet, w *walk) {
	m.path = append(m.path[:0], m.at) // the set after each byte of the token before
	most := m.followed + followedMax
	dead := -1 // length of its beginning that still led somewhere, if not all did
	for i, id := range w.ids {
		text, same := m.v.texts[id], int(w.same[i])
		if dead >= 0 && same > dead {
			continue
		}
		dead = -1
		m.path = m.path[:same+1]
		for n := same; n < len(text); n++ {
			to := int32(nowhere)
			if n == 0 || m.followed < most || m.sets[m.path[n]].next[text[n]] != unknown {
				to = m.step(m.path[n], int(text[n]))
			}
			if to == nowhere {
				dead = n
				break
			}
			m.path = append(m.path, to)
		}
		if dead < 0 {
			out.set(id)
		}
	}
}
