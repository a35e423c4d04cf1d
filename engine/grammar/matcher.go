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
	// heldMax is how many configurations and frames a matcher remembers, of all its sets: some 20 MB.
	// Beyond it, too, all sets but one are forgotten. A mask adds a quarter of it at most.
	heldMax = 500_000
	// masksMax is how many sets keep their allowed tokens.
	masksMax = 64
	// stacksMax is how many configurations of a set may differ from others in their
	// stacks only. Alternatives beyond it are given up.
	stacksMax = 1024
	// followedMax is how many configurations are followed for one mask. Beyond it only
	// tokens of one byte are allowed, and those that need nothing new. Ordinary schemas
	// take less than 7,000 with 248,000 tokens; hostile ones would slow every stream.
	// It is also how many are followed for one set, whose further alternatives are given up.
	followedMax = 20_000
	// scanned is of how many configurations it is looked up whether they take a byte in the
	// time in which one is followed.
	scanned = 16
	// dear is how many configurations are followed for a set that is found again by its kernel.
	dear = 256
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
	held    int              // configurations of sets, also of their kernels, and frames
	led     map[string]int32 // by kernel: the set it led to, of those that were dear
	masks   []idSet          // as many as are in use, each of one set, the oldest replaced first
	holders []*set
	oldest  int
	lent    *set // whose mask Allowed gave last: it stays

	key  []byte
	work []config
	seen seen
	path []int32

	kernel   []config
	draft    set   // what close finds out, before share says whether it is new
	chars    int32 // of the string that is open, where its set has a limit
	followed int   // configurations, in all
}

// mode says how a configuration comes to its end.
type mode uint8

const (
	ending  mode = 1 << iota // what may be left out is left out
	closing                  // the string, number or thought that is open has its end as soon as it may
	modes   = 4              // how many there are together
)

type frame struct{ next, below int32 }

// config is a state with a stack.
type config struct {
	state, frame int32
	mode         mode
}

func (c config) compare(with config) int {
	if c.state != with.state {
		return int(c.state - with.state)
	}
	if c.frame != with.frame {
		return int(c.frame - with.frame)
	}
	return int(c.mode) - int(with.mode)
}

// seen are the configurations that were followed. Few states come with several stacks.
type seen struct {
	now    uint32
	states int             // of the grammar
	round  []uint32        // by mode and state: when it was added
	frame  []int32         // by mode and state: with which stack first
	more   map[config]bool // with others
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
	at := int(c.mode)*s.states + int(c.state)
	if s.round[at] != s.now {
		s.round[at], s.frame[at] = s.now, c.frame
		return true
	}
	if s.frame[at] == c.frame || s.more[c] || len(s.more) == stacksMax {
		return false
	}
	s.more[c] = true
	return true
}

// grow makes room for all modes: most answers have one.
func (s *seen) grow() {
	if len(s.round) == s.states {
		s.round = append(s.round, make([]uint32, (modes-1)*s.states)...)
		s.frame = append(s.frame, make([]int32, (modes-1)*s.states)...)
	}
}

// set is all configurations that the same bytes lead to.
type set struct {
	kernel   []config // from which the others follow without a byte
	configs  []config // that wait for a byte
	next     [byMarker + 1]int32
	complete bool  // the answer may end here
	released bool  // nothing is held from here on
	opens    bool  // a string, number or thought begins here
	limit    int32 // characters of the string that is open; 0: any number
	plain    plain
	mask     idSet        // nil: not known
	turned   [modes]int32 // where it goes on in other modes, without a byte
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
		m.seen = seen{states: n, round: make([]uint32, n), frame: make([]int32, n), more: map[config]bool{}}
		m.forget()
	}
	m.work = append(m.work[:0], config{m.g.entries[m.g.first], 0, 0})
	m.at = m.close()
}

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
	if m.at < 0 {
		return
	}
	s := m.sets[m.at]
	if s.turned[to] == unknown {
		m.seen.grow()
		m.work = m.work[:0]
		for _, c := range s.kernel {
			m.work = append(m.work, config{c.state, c.frame, c.mode | to})
		}
		s.turned[to] = m.close()
	}
	m.at = s.turned[to]
}

// Constrains says whether the next token has to be one that Mask allows.
func (m *Matcher) Constrains() bool { return m.at != idle }

// Begin triggers the grammar of a free answer in which no token begins a call: a block
// starts, of which text is there already.
func (m *Matcher) Begin(text []byte) {
	m.start()
	m.follow(text)
}

func (m *Matcher) forget() {
	m.frames, m.framed = []frame{{}}, map[frame]int32{}
	m.sets, m.sharing, m.held, m.led = nil, map[string]int32{}, 0, nil
	m.masks, m.holders, m.oldest, m.lent = nil, nil, 0, nil
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
	if m.at >= 0 && (len(m.sets) > setsMax || m.held > heldMax) {
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
			m.work = append(m.work, config{st.next, at.frame, at.mode})
		}
	}
	m.followed += len(s.configs) / scanned
	m.work = distinct(m.work)
	to := m.lead()
	s.next[by] = to
	return to
}

// lead is the set that the configurations of work lead to. Many bytes may lead to the same ones,
// which are followed once where that is dear.
func (m *Matcher) lead() int32 {
	if m.led != nil {
		if to, known := m.led[string(m.keyOf(m.work))]; known {
			return to
		}
	}
	before := m.followed
	to := m.close()
	if m.followed-before > dear {
		if m.led == nil {
			m.led = map[string]int32{}
		}
		m.led[string(m.keyOf(m.kernel))] = to
		m.held += len(m.kernel)
	}
	return to
}

// keyOf is the same bytes for the same configurations in the same order.
func (m *Matcher) keyOf(all []config) []byte {
	m.key = m.key[:0]
	for _, c := range all {
		m.key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(m.key, uint32(c.state)), uint32(c.frame))
		m.key = append(m.key, byte(c.mode))
	}
	return m.key
}

// few is up to how many configurations are compared with each other. More are sorted.
const few = 8

// distinct takes out what is there twice: several configurations can lead to the same one.
func distinct(all []config) []config {
	if len(all) > few {
		slices.SortFunc(all, config.compare)
		return slices.Compact(all)
	}
	kept := all[:0]
	for _, c := range all {
		if !slices.Contains(kept, c) {
			kept = append(kept, c)
		}
	}
	return kept
}

// close turns the configurations of work into a set: it follows what needs no byte.
func (m *Matcher) close() int32 {
	if len(m.work) == 0 {
		return nowhere
	}
	s := &m.draft
	*s = set{configs: s.configs[:0]}
	m.kernel = append(m.kernel[:0], m.work...)
	m.seen.clear()
	closed, most := false, m.followed+followedMax
	for len(m.work) > 0 && m.followed < most {
		at := m.work[len(m.work)-1]
		m.work = m.work[:len(m.work)-1]
		if !m.seen.add(at) {
			continue
		}
		m.followed++
		st := &m.g.states[at.state]
		closed = closed || at.mode&closing != 0 && st.role&roleCloses != 0
		s.opens = s.opens || st.role&roleOpens != 0
		s.released = s.released || st.released
		switch st.kind {
		case kindBytes, kindMarker:
			s.configs = append(s.configs, at)
		case kindSplit:
			m.split(s, st, at)
		case kindCall:
			m.work = append(m.work, config{m.g.entries[st.rule], m.push(st.next, at.frame), at.mode})
		case kindEnd:
			if at.frame == 0 {
				s.complete = true
				continue
			}
			f := m.frames[at.frame]
			m.work = append(m.work, config{f.next, f.below, at.mode})
		}
	}
	if closed { // it may end here, so it does
		s.configs = slices.DeleteFunc(s.configs, func(c config) bool { return c.mode&closing != 0 })
	}
	if len(s.configs) == 0 && !s.complete {
		return nowhere
	}
	return m.share(s)
}

// split follows the ways from a state, but for one that is not to be gone.
func (m *Matcher) split(s *set, st *state, at config) {
	to := st.kept(at.mode)
	if len(to) == len(st.split) {
		s.plain |= st.plain
		s.limit = max(s.limit, st.limit)
	}
	mode := at.mode
	switch {
	case st.role&roleThinks != 0:
		mode = 0
	case st.role&(roleOpens|roleCloses) != 0:
		mode &^= closing
	}
	for _, next := range to {
		m.work = append(m.work, config{next, at.frame, mode})
	}
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
		m.held++
	}
	return at
}

// share is the number of a set, the same for equal ones.
func (m *Matcher) share(s *set) int32 {
	slices.SortFunc(s.configs, config.compare)
	m.key = append(m.keyOf(s.configs), byte(s.plain)) // that it is released its states say
	for _, is := range []bool{s.complete, s.opens, s.limit > 0} {
		if is {
			m.key = append(m.key, 1)
		} else {
			m.key = append(m.key, 0)
		}
	}
	if at, known := m.sharing[string(m.key)]; known {
		return at
	}
	fresh := *s
	fresh.configs, fresh.kernel = slices.Clone(s.configs), slices.Clone(m.kernel)
	for i := range fresh.next {
		fresh.next[i] = unknown
	}
	for i := range fresh.turned {
		fresh.turned[i] = unknown
	}
	at := int32(len(m.sets))
	m.sets = append(m.sets, &fresh)
	m.held += len(fresh.configs) + len(fresh.kernel)
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
	kept := &set{complete: s.complete, released: s.released, opens: s.opens, limit: s.limit, plain: s.plain}
	for _, c := range s.configs {
		kept.configs = append(kept.configs, config{c.state, again(c.frame), c.mode})
	}
	m.kernel = m.kernel[:0]
	for _, c := range s.kernel {
		m.kernel = append(m.kernel, config{c.state, again(c.frame), c.mode})
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
	if m.holders[at] == m.lent {
		at = (at + 1) % masksMax
	}
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
	most, mostHeld := m.followed+followedMax, m.held+heldMax/4
	taken := m.taken()
	dead := -1 // length of its beginning that still led somewhere, if not all did
	for i, id := range w.ids {
		same := int(w.same[i])
		if dead >= 0 && same > dead {
			continue
		}
		text := m.v.texts[id]
		dead = -1
		m.path = m.path[:same+1]
		for n := same; n < len(text); n++ {
			to := int32(nowhere)
			if m.followed < most && m.held < mostHeld || m.sets[m.path[n]].next[text[n]] != unknown {
				to = m.step(m.path[n], int(text[n]))
			} else if len(text) == 1 && taken.has(text[0]) {
				out.set(id) // from every state an answer comes to its end
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

// taken are the bytes that may come next.
func (m *Matcher) taken() (all byteSet) {
	for _, at := range m.sets[m.at].configs {
		if st := &m.g.states[at.state]; st.kind == kindBytes {
			for i := range all {
				all[i] |= st.set[i]
			}
		}
	}
	return all
}
