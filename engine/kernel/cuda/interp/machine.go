package interp

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
)

const (
	lanes = 32
	full  = 1<<lanes - 1
)

// file of values: one register of a warp.
type vector [lanes]uint64

// flow is what an instruction does beside computing.
type flow uint8

const (
	plain   flow = iota
	branch       // to target
	exit         // the lanes end
	arrives      // at a barrier and goes on
	waits        // at a barrier until it completes
	meets        // lanes of the warp come together, then it runs
	tries        // waits for a phase of an mbarrier
	groups       // the warps of a warpgroup come together, then it runs
	blocks       // runs again and again until it does not set warp.again
)

// instr is one decoded instruction.
type instr struct {
	run      func(w *warp, mask uint32)
	members  int // meets: register with the lanes that have to meet, -1 for all that live
	guard    int // predicate, -1 without
	guardNot bool
	flow     flow
	target   int
	source   *statement
}

// part is some lanes of a warp at one instruction.
type part struct {
	pc      int
	mask    uint32
	blocked bool // until something changes: a barrier, an mbarrier, another part
}

// warp is 32 threads that share instructions.
type warp struct {
	c      *cta
	id     int
	regs   []vector
	preds  []uint32
	parts  []part // in no order; two of them are never at the same instruction
	alive  uint32
	began  uint32        // the lanes that exist
	pc     int           // of the instruction that runs
	again  bool          // set by an instruction that has to be tried again
	ticket ticket        // of a barrier
	hint   *chunk        // the allocation of the last access
	local  []byte        // all lanes
	async  asyncState    // cp.async
	stores [lanes]uint32 // groups of bulk stores
	ready  bool          // at an instruction of its warpgroup, which waits for the others
	passed bool          // the others came: the warp goes on
	matrix matrixState   // of the warpgroup whose first warp this is
}

// cta is one block of threads in execution.
type cta struct {
	k        *kernelRun
	index    [3]int
	threads  int
	warps    []*warp
	begin    []vector // what registers are at first
	shared   []byte
	barriers [16]barrier
	bars     []mbarrier
	bulk     []bulkCopy // tensor copies that are under way
	shadow   *shadow
	tiles    *tiles
	random   *rand.Rand
	ran      []bool // by instruction: for coverage, and for the registers that the next block finds written
	count    int64  // instructions so far
	fault    *fault
}

// fault is a rule that a kernel broke.
type fault struct {
	kernel string
	index  [3]int
	warp   int
	lane   int // -1: the warp
	line   int
	text   string
	msg    string
}

func (f *fault) Error() string {
	who := fmt.Sprintf("warp %d", f.warp)
	if f.lane >= 0 {
		who = fmt.Sprintf("thread %d", f.warp*lanes+f.lane)
	}
	return fmt.Sprintf("%s, block (%d,%d,%d), %s, line %d: %s: %s",
		f.kernel, f.index[0], f.index[1], f.index[2], who, f.line, f.text, f.msg)
}

// fail notes the first broken rule of a block.
func (w *warp) fail(lane int, format string, args ...any) {
	if w.c.fault != nil {
		return
	}
	s := w.c.k.code[w.pc].source
	w.c.fault = &fault{w.c.k.name, w.c.index, w.id, lane, s.line, s.text, fmt.Sprintf(format, args...)}
}

// advance runs one part of a warp for some instructions and says whether it moved.
func (w *warp) advance(budget int) bool {
	for {
		i, sticky := w.choose()
		if i < 0 {
			return false
		}
		if w.advancePart(i, budget, sticky) {
			return true
		}
		if w.c.fault != nil {
			return false
		}
	}
}

// advancePart runs one part until it is blocked, ends or meets another one.
func (w *warp) advancePart(i, budget int, sticky bool) bool {
	for n := 0; n < budget && w.c.fault == nil; n++ {
		before := w.parts[i].pc
		if !w.step(i) {
			return n > 0
		}
		w.c.ran[before] = true
		w.c.count++
		if w.parts[i].mask == 0 {
			w.drop()
			return true
		}
		if len(w.parts) > 1 && (w.merge(i) || !sticky && w.behind(i)) {
			return true
		}
	}
	return true
}

// choose picks the part that runs: mostly the lowest one, so that parts meet
// again, sometimes any, so that none waits for a loop of another.
func (w *warp) choose() (at int, sticky bool) {
	at = -1
	if len(w.parts) > 1 && w.c.random.IntN(8) == 0 {
		if i := w.c.random.IntN(len(w.parts)); !w.parts[i].blocked {
			return i, true
		}
	}
	for i := range w.parts {
		if !w.parts[i].blocked && (at < 0 || w.parts[i].pc < w.parts[at].pc) {
			at = i
		}
	}
	return at, false
}

// behind says whether a part that can run is at an earlier instruction than part i.
func (w *warp) behind(i int) bool {
	for j := range w.parts {
		if !w.parts[j].blocked && w.parts[j].pc < w.parts[i].pc {
			return true
		}
	}
	return false
}

// merge joins part i with the one at the same instruction.
func (w *warp) merge(i int) bool {
	for j := range w.parts {
		if j != i && w.parts[j].pc == w.parts[i].pc {
			w.parts[j].mask |= w.parts[i].mask
			w.parts[j].blocked = false
			w.parts[i].mask = 0
			w.drop()
			return true
		}
	}
	return false
}

// drop removes parts without lanes. A part that waits for lanes which have ended looks again.
func (w *warp) drop() {
	n := 0
	for _, p := range w.parts {
		if p.mask != 0 {
			p.blocked = false
			w.parts[n] = p
			n++
		}
	}
	w.parts = w.parts[:n]
}

// step runs the instruction that part i is at; false: the part is blocked now.
func (w *warp) step(i int) bool {
	p := &w.parts[i]
	in := &w.c.k.code[p.pc]
	w.pc = p.pc
	exec := p.mask
	if in.guard >= 0 {
		if v := w.preds[in.guard]; in.guardNot {
			exec &^= v
		} else {
			exec &= v
		}
	}
	if in.flow == plain {
		if exec != 0 {
			in.run(w, exec)
		}
		p.pc++
		return true
	}
	if exec == 0 {
		p.pc++
		return true
	}
	switch in.flow {
	case branch:
		w.jump(i, exec, in.target)
		return true
	case exit:
		w.end(i, exec)
		return true
	case meets:
		p.blocked = !w.meet(in, p.mask, exec)
	case arrives, waits, tries, blocks:
		if exec != p.mask {
			w.split(i, exec)
			p = &w.parts[i]
		}
		p.blocked = !w.wait(in, exec)
	case groups:
		p.blocked = !w.together(in, p.mask, exec)
	}
	if p.blocked {
		return false
	}
	p.pc++
	return true
}

// split leaves exec in part i and lets its other lanes pass the instruction.
func (w *warp) split(i int, exec uint32) {
	rest := w.parts[i].mask &^ exec
	w.parts[i].mask = exec
	w.parts = append(w.parts, part{pc: w.parts[i].pc + 1, mask: rest})
	w.mergeLast()
}

// mergeLast joins the part that was added last with one at the same instruction.
func (w *warp) mergeLast() {
	last := len(w.parts) - 1
	for j := range last {
		if w.parts[j].pc == w.parts[last].pc {
			w.parts[j].mask |= w.parts[last].mask
			w.parts[j].blocked = false
			w.parts = w.parts[:last]
			return
		}
	}
}

func (w *warp) jump(i int, exec uint32, target int) {
	p := &w.parts[i]
	if exec == p.mask {
		p.pc = target
		return
	}
	p.mask &^= exec
	p.pc++
	if target == p.pc {
		p.mask |= exec
		return
	}
	w.parts = append(w.parts, part{pc: target, mask: exec})
	w.mergeLast()
}

// end takes lanes out of the warp.
func (w *warp) end(i int, exec uint32) {
	w.parts[i].mask &^= exec
	w.parts[i].pc++
	w.alive &^= exec
	for b := range w.c.barriers {
		w.c.barriers[b].settle(w.c)
	}
	w.c.wake()
	if w.parts[i].mask == 0 {
		return
	}
}

// meet runs an instruction of a whole warp, or of the lanes that it names, as
// soon as all of them are here.
func (w *warp) meet(in *instr, here, exec uint32) bool {
	if in.members < 0 {
		if here != w.alive {
			return false
		}
		if exec != here {
			w.fail(-1, "lanes %#x of %#x execute it: it is for whole warps", exec, here)
			return true
		}
		in.run(w, exec)
		w.shadowMeet()
		return true
	}
	for left := exec; left != 0; {
		members := uint32(w.regs[in.members][bits.TrailingZeros32(left)])
		if ended := members & w.began &^ w.alive; ended != 0 || members&^w.began != 0 {
			w.fail(bits.TrailingZeros32(left), "lanes %#x of its mask %#x have ended or never were", members&^w.alive, members)
			return true
		}
		if members&left == 0 {
			w.fail(bits.TrailingZeros32(left), "its mask %#x lacks the thread itself", members)
			return true
		}
		if members&exec != members {
			return false
		}
		left &^= members
	}
	for left := exec; left != 0; {
		members := uint32(w.regs[in.members][bits.TrailingZeros32(left)])
		in.run(w, members)
		left &^= members
	}
	w.shadowMeet()
	return true
}

// wait runs an instruction that may have to be tried again.
func (w *warp) wait(in *instr, exec uint32) bool {
	w.again = false
	in.run(w, exec)
	return !w.again
}

// wake lets all parts of a block look again at what they wait for.
func (c *cta) wake() {
	for _, w := range c.warps {
		for i := range w.parts {
			w.parts[i].blocked = false
		}
	}
}
