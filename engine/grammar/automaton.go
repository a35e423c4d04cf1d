package grammar

import (
	"encoding/binary"
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

// byMarker is where the token that begins a call leads, behind where the bytes do.
const byMarker = 256

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

// automaton is what of a grammar answers have come upon, as a deterministic automaton: each set is
// all configurations that some bytes lead to, and is found once. It is no more than a cache:
// shrink forgets all sets but one where they have become too many, and they are found again.
type automaton struct {
	g *Grammar
	v *Vocabulary

	// frames are the stacks: where to go on after a rule, and the frame below. They
	// are shared, so that equal stacks have equal numbers; 0 is the empty one.
	frames  []frame
	framed  map[frame]int32
	sets    []*set
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
	draft    set // what close finds out, before share says whether it is new
	followed int // configurations, in all
}

// begin is the set in which the grammar begins.
func (a *automaton) begin() int32 {
	if a.seen.round == nil { // few answers make a call
		n := len(a.g.states)
		a.seen = seen{states: n, round: make([]uint32, n), frame: make([]int32, n), more: map[config]bool{}}
		a.forget()
	}
	a.work = append(a.work[:0], config{a.g.entries[a.g.first], 0, 0})
	return a.close()
}

func (a *automaton) forget() {
	a.frames, a.framed = []frame{{}}, map[frame]int32{}
	a.sets, a.sharing, a.held, a.led = nil, map[string]int32{}, 0, nil
	a.masks, a.holders, a.oldest, a.lent = nil, nil, 0, nil
}

// turn is the set in which a set's bytes go on in other modes.
func (a *automaton) turn(at int32, to mode) int32 {
	s := a.sets[at]
	if s.turned[to] == unknown {
		a.seen.grow()
		a.work = a.work[:0]
		for _, c := range s.kernel {
			a.work = append(a.work, config{c.state, c.frame, c.mode | to})
		}
		s.turned[to] = a.close()
	}
	return s.turned[to]
}

// step is the set that a byte, or byMarker, leads to.
func (a *automaton) step(from int32, by int) int32 {
	s := a.sets[from]
	if to := s.next[by]; to != unknown {
		return to
	}
	a.work = a.work[:0]
	for _, at := range s.configs {
		st := &a.g.states[at.state]
		if by == byMarker && st.kind == kindMarker || by < byMarker && st.set.has(byte(by)) {
			a.work = append(a.work, config{st.next, at.frame, at.mode})
		}
	}
	a.followed += len(s.configs) / scanned
	a.work = distinct(a.work)
	to := a.lead()
	s.next[by] = to
	return to
}

// lead is the set that the configurations of work lead to. Many bytes may lead to the same ones,
// which are followed once where that is dear.
func (a *automaton) lead() int32 {
	if a.led != nil {
		if to, known := a.led[string(a.keyOf(a.work))]; known {
			return to
		}
	}
	before := a.followed
	to := a.close()
	if a.followed-before > dear {
		if a.led == nil {
			a.led = map[string]int32{}
		}
		a.led[string(a.keyOf(a.kernel))] = to
		a.held += len(a.kernel)
	}
	return to
}

// keyOf is the same bytes for the same configurations in the same order.
func (a *automaton) keyOf(all []config) []byte {
	a.key = a.key[:0]
	for _, c := range all {
		a.key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(a.key, uint32(c.state)), uint32(c.frame))
		a.key = append(a.key, byte(c.mode))
	}
	return a.key
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
func (a *automaton) close() int32 {
	if len(a.work) == 0 {
		return nowhere
	}
	s := &a.draft
	*s = set{configs: s.configs[:0]}
	a.kernel = append(a.kernel[:0], a.work...)
	a.seen.clear()
	closed, most := false, a.followed+followedMax
	for len(a.work) > 0 && a.followed < most {
		at := a.work[len(a.work)-1]
		a.work = a.work[:len(a.work)-1]
		if !a.seen.add(at) {
			continue
		}
		a.followed++
		st := &a.g.states[at.state]
		closed = closed || at.mode&closing != 0 && st.role&roleCloses != 0
		s.opens = s.opens || st.role&roleOpens != 0
		s.released = s.released || st.released
		switch st.kind {
		case kindBytes, kindMarker:
			s.configs = append(s.configs, at)
		case kindSplit:
			a.split(s, st, at)
		case kindCall:
			a.work = append(a.work, config{a.g.entries[st.rule], a.push(st.next, at.frame), at.mode})
		case kindEnd:
			if at.frame == 0 {
				s.complete = true
				continue
			}
			f := a.frames[at.frame]
			a.work = append(a.work, config{f.next, f.below, at.mode})
		}
	}
	if closed { // it may end here, so it does
		s.configs = slices.DeleteFunc(s.configs, func(c config) bool { return c.mode&closing != 0 })
	}
	if len(s.configs) == 0 && !s.complete {
		return nowhere
	}
	return a.share(s)
}

// split follows the ways from a state, but for one that is not to be gone.
func (a *automaton) split(s *set, st *state, at config) {
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
		a.work = append(a.work, config{next, at.frame, mode})
	}
}

// push is the stack with one more frame. What would only end its rule is left out, so
// that the stack of a list does not grow with the list.
func (a *automaton) push(next, below int32) int32 {
	for a.g.states[next].kind == kindEnd && below != 0 {
		f := a.frames[below]
		next, below = f.next, f.below
	}
	f := frame{next, below}
	at, known := a.framed[f]
	if !known {
		at = int32(len(a.frames))
		a.frames = append(a.frames, f)
		a.framed[f] = at
		a.held++
	}
	return at
}

// share is the number of a set, the same for equal ones.
func (a *automaton) share(s *set) int32 {
	slices.SortFunc(s.configs, config.compare)
	a.key = append(a.keyOf(s.configs), byte(s.plain)) // that it is released its states say
	for _, is := range []bool{s.complete, s.opens, s.limit > 0} {
		if is {
			a.key = append(a.key, 1)
		} else {
			a.key = append(a.key, 0)
		}
	}
	if at, known := a.sharing[string(a.key)]; known {
		return at
	}
	fresh := *s
	fresh.configs, fresh.kernel = slices.Clone(s.configs), slices.Clone(a.kernel)
	for i := range fresh.next {
		fresh.next[i] = unknown
	}
	for i := range fresh.turned {
		fresh.turned[i] = unknown
	}
	at := int32(len(a.sets))
	a.sets = append(a.sets, &fresh)
	a.held += len(fresh.configs) + len(fresh.kernel)
	a.sharing[string(a.key)] = at
	return at
}

// shrink forgets all but the set at and its stacks where there are too many, and gives the number that it has then.
func (a *automaton) shrink(at int32) int32 {
	if at < 0 || len(a.sets) <= setsMax && a.held <= heldMax {
		return at
	}
	s, frames := a.sets[at], a.frames
	a.forget()
	var again func(at int32) int32
	again = func(at int32) int32 {
		if at == 0 {
			return 0
		}
		return a.push(frames[at].next, again(frames[at].below))
	}
	kept := &set{complete: s.complete, released: s.released, opens: s.opens, limit: s.limit, plain: s.plain}
	for _, c := range s.configs {
		kept.configs = append(kept.configs, config{c.state, again(c.frame), c.mode})
	}
	a.kernel = a.kernel[:0]
	for _, c := range s.kernel {
		a.kernel = append(a.kernel, config{c.state, again(c.frame), c.mode})
	}
	return a.share(kept)
}

// allowed are the tokens that may come next behind a set.
func (a *automaton) allowed(at int32) idSet {
	if at == nowhere {
		out := make(idSet, (a.v.size+63)/64)
		for _, id := range a.v.stops {
			out.set(id)
		}
		return out
	}
	s := a.sets[at]
	if s.mask != nil {
		return s.mask
	}
	out := a.room(s)
	through := &a.v.all
	for _, of := range []plain{plainJSON, plainText} {
		if s.plain&of != 0 {
			copy(out, a.v.plain[of])
			through = &a.v.rest[of]
			break
		}
	}
	a.walk(at, out, through)
	if a.v.marker >= 0 && a.step(at, byMarker) != nowhere {
		out.set(a.v.marker)
	}
	if s.complete {
		for _, id := range a.v.stops {
			out.set(id)
		}
	}
	s.mask = out
	return out
}

// room is an empty mask for a set; the set whose mask is the oldest loses it.
func (a *automaton) room(s *set) idSet {
	if len(a.masks) < masksMax {
		a.masks = append(a.masks, make(idSet, (a.v.size+63)/64))
		a.holders = append(a.holders, s)
		return a.masks[len(a.masks)-1]
	}
	at := a.oldest
	if a.holders[at] == a.lent {
		at = (at + 1) % masksMax
	}
	a.oldest = (at + 1) % masksMax
	a.holders[at].mask = nil
	a.holders[at] = s
	clear(a.masks[at])
	return a.masks[at]
}

// walk adds the tokens whose bytes lead somewhere. A beginning that leads nowhere
// is tried once for all tokens that have it.
func (a *automaton) walk(at int32, out idSet, w *walk) {
	a.path = append(a.path[:0], at) // the set after each byte of the token before
	most, mostHeld := a.followed+followedMax, a.held+heldMax/4
	taken := a.taken(at)
	dead := -1 // length of its beginning that still led somewhere, if not all did
	for i, id := range w.ids {
		same := int(w.same[i])
		if dead >= 0 && same > dead {
			continue
		}
		text := a.v.texts[id]
		dead = -1
		a.path = a.path[:same+1]
		for n := same; n < len(text); n++ {
			to := int32(nowhere)
			if a.followed < most && a.held < mostHeld || a.sets[a.path[n]].next[text[n]] != unknown {
				to = a.step(a.path[n], int(text[n]))
			} else if len(text) == 1 && taken.has(text[0]) {
				out.set(id) // from every state an answer comes to its end
			}
			if to == nowhere {
				dead = n
				break
			}
			a.path = append(a.path, to)
		}
		if dead < 0 {
			out.set(id)
		}
	}
}

// taken are the bytes that may come next behind a set.
func (a *automaton) taken(at int32) (all byteSet) {
	for _, c := range a.sets[at].configs {
		if st := &a.g.states[c.state]; st.kind == kindBytes {
			for i := range all {
				all[i] |= st.set[i]
			}
		}
	}
	return all
}
