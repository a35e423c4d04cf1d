package interp

import "fmt"

// The shadow of a block's shared memory finds races. Time counts what happens in
// the block. Every warp has a clock of what it knows: for each other warp, the
// time up to which all that this one did comes before what the warp does now.
// Barriers, mbarriers and completed copies hand this knowledge on. An access
// races with an earlier one of another warp that it does not know of, and with
// one of another lane of its own warp since the warp's lanes last met.
//
// Tensor copies are actors too, one for each mbarrier: they come after what their
// issuer knew, and only their mbarrier hands on what they did.
//
// The async proxy (tensor copies, wgmma) sees what threads wrote only after a
// proxy fence: a second clock tells how far each warp's writes are known to be
// fenced. Threads see what the proxy wrote without one.

const (
	warpsMax = 32
	actors   = 2 * warpsMax // from warpsMax on: the copies of each mbarrier
)

// clocks is what is known of all actors.
type clocks struct {
	seen   [actors]uint32 // by threads
	fenced [actors]uint32 // by the async proxy
}

func (c *clocks) clear() { *c = clocks{} }

func (c *clocks) join(o *clocks) {
	for i := range c.seen {
		c.seen[i] = max(c.seen[i], o.seen[i])
		c.fenced[i] = max(c.fenced[i], o.fenced[i])
	}
}

// access is a record of the shadow: when, who and where in the program.
// Zero is none.
type access uint64

const (
	pendingBit = 1 << 31 // of who: a copy that is not yet waited for
	atomicBit  = 1 << 30
	asyncBit   = 1 << 29 // by the async proxy
)

func newAccess(time uint32, actor, lane, pc int, flags uint32) access {
	return access(uint64(time)<<32 | uint64(flags|uint32(pc&0x1ffff)<<11|uint32(actor)<<5|uint32(lane)))
}

func (a access) time() uint32  { return uint32(a >> 32) }
func (a access) lane() int     { return int(a & 31) }
func (a access) actor() int    { return int(a >> 5 & 63) }
func (a access) pc() int       { return int(a >> 11 & 0x1ffff) }
func (a access) flags() uint32 { return uint32(a) & (pendingBit | atomicBit | asyncBit) }

// shadow is the record of each byte: the last write and two reads since.
type shadow struct {
	writes []access
	reads  [2][]access
	time   uint32
	clock  [actors]clocks
}

func newShadow(bytes int) *shadow {
	s := &shadow{writes: make([]access, bytes), time: 1}
	s.reads[0], s.reads[1] = make([]access, bytes), make([]access, bytes)
	for i := range s.clock {
		s.clock[i].seen[i] = 1
	}
	return s
}

// knows says whether the actor knows of an earlier access.
func (s *shadow) knows(actor, lane int, a access) bool {
	if a == 0 {
		return true
	}
	if a.flags()&pendingBit != 0 {
		return false
	}
	if a.actor() == actor && actor < warpsMax {
		return a.lane() == lane || a.time() < s.clock[actor].seen[actor]
	}
	return a.time() <= s.clock[actor].seen[a.actor()]
}

// step gives an actor a new time: what it did so far can be handed on.
func (s *shadow) step(actor int) {
	s.time++
	s.clock[actor].seen[actor] = s.time
}

// touch is an access of a thread to n bytes of shared memory.
func (w *warp) touch(lane int, at uint64, n int, write bool, flags uint32) {
	s := w.c.shadow
	if s == nil || w.c.fault != nil {
		return
	}
	me := newAccess(s.clock[w.id].seen[w.id], w.id, lane, w.pc, flags)
	if other, kind := s.conflict(w.id, lane, int(at-sharedBase), n, write, flags, me); other != 0 {
		w.race(lane, at, write, other, kind)
	}
}

// conflict records an access and returns an earlier one that it races with.
func (s *shadow) conflict(actor, lane, at, n int, write bool, flags uint32, me access) (access, string) {
	var lastWrite, lastRead access
	for i := at; i < at+n; i++ {
		if old := s.writes[i]; old != lastWrite {
			lastWrite = old
			if !(old.flags()&flags&atomicBit != 0) && !s.knows(actor, lane, old) {
				return old, "wrote"
			}
		}
		if !write {
			s.read(actor, lane, i, me)
			continue
		}
		for r := range s.reads {
			if old := s.reads[r][i]; old != lastRead {
				lastRead = old
				if !(old.flags()&flags&atomicBit != 0) && !s.knows(actor, lane, old) {
					return old, "read"
				}
			}
			s.reads[r][i] = 0
		}
		s.writes[i] = me
	}
	return 0, ""
}

// read records a read beside those that it does not come after.
func (s *shadow) read(actor, lane, i int, me access) {
	for r := range s.reads {
		if old := s.reads[r][i]; old == 0 || old == me || old.flags()&pendingBit == 0 && s.knows(actor, lane, old) {
			s.reads[r][i] = me
			return
		}
	}
	s.reads[s.time&1][i] = me
}

func (w *warp) race(lane int, at uint64, write bool, other access, kind string) {
	mine := "read"
	if write {
		mine = "write"
	}
	who := fmt.Sprintf("thread %d", other.actor()*lanes+other.lane())
	if other.actor() >= warpsMax {
		who = "a tensor copy"
	}
	src := w.c.k.code[min(other.pc(), len(w.c.k.code)-1)].source
	under := ""
	if other.flags()&pendingBit != 0 {
		under = ", which is still under way"
	}
	w.fail(lane, "race: its %s of shared byte %#x is not ordered after line %d (%s), where %s %s it%s",
		mine, at, src.line, src.text, who, kind, under)
}

// shadowMeet says that lanes of the warp met: what they did before is known to all of them.
func (w *warp) shadowMeet() {
	if s := w.c.shadow; s != nil {
		s.step(w.id)
	}
}

// release hands what the warp knows and did to others.
func (w *warp) release(to *clocks) {
	if s := w.c.shadow; s != nil {
		to.join(&s.clock[w.id])
		s.step(w.id)
	}
}

// acquire takes what others handed on.
func (w *warp) acquire(from *clocks) {
	if s := w.c.shadow; s != nil {
		own := s.clock[w.id].seen[w.id]
		s.clock[w.id].join(from)
		s.clock[w.id].seen[w.id] = own
	}
}

// proxyFence makes all that the warp knows visible to the async proxy.
func (w *warp) proxyFence() {
	if s := w.c.shadow; s != nil {
		c := &s.clock[w.id]
		for i := range c.fenced {
			c.fenced[i] = max(c.fenced[i], c.seen[i])
		}
		s.step(w.id)
	}
}
