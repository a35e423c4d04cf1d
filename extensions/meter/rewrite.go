package meter

// straightBytes is how much code may run without a tick before one is put in
// between. It keeps the time per tick, and so the time between safepoints,
// within bounds for modules that unroll instead of looping.
const straightBytes = 256

// tinyBytes is the most code of a function whose entry is not counted.
const tinyBytes = 64

// slowWeight and bulkWeight are what slow instructions and bulk operations
// count as in bytes of straight code, beyond their own.
const (
	slowWeight = 8
	bulkWeight = 64
)

// unreached is the amount of straight code where no path leads.
const unreached = -1

// rewriter builds the metered module. Everything it adds lies behind what the
// module has: helper functions, types for their signatures, globals.
type rewriter struct {
	m   *module
	o   Options
	out []byte

	// Indices of what is appended.
	left, budget, depth, cause uint32
	slow, page                 uint32
	scratch                    uint32 // i32 local of the function at hand, if it has bulk operations

	types    []byte // encoded types to append
	typeN    int
	blockOf  map[string]uint32 // results -> type of a block that leaves them
	flow     []frame
	straight int    // bytes of code since the last tick on the worst path to here
	in, last *instr // at hand, and the one before it
}

// frame is an open block and what is known of the paths to its end.
type frame struct {
	op    byte
	label int // worst path of the branches to its end
	entry int // worst path to an if, which is that to its else
}

func newRewriter(m *module, o Options) *rewriter {
	m.markCyclic()
	w := &rewriter{m: m, o: o, blockOf: map[string]uint32{}, in: &instr{}, last: &instr{}}
	g := uint32(len(m.globals))
	w.left, w.budget, w.depth, w.cause = g, g+1, g+2, g+3
	f := uint32(m.functionCount())
	w.slow, w.page = f, f+1
	return w
}

// code rewrites one function and appends it, without its size. The scan has
// found every instruction well formed, so that nothing can fail here.
func (w *rewriter) code(out []byte, fn int) []byte {
	m := w.m
	b := &m.bodies[fn-m.importedFunctions()]
	w.out = out
	w.locals(b)
	w.flow = append(w.flow[:0], frame{op: opBlock, label: unreached})
	w.straight = 0
	if b.cyclic {
		w.enterCyclic(b, m.types[m.functionTypes[fn]])
	} else if !b.intoLoop && !b.tiny() {
		w.tick()
	}
	r := &reader{b: m.b, pos: b.code, end: b.end, fn: fn}
	for len(w.flow) > 0 {
		m.next(r, w.in)
		w.instr(b)
		w.last, w.in = w.in, w.last
	}
	return w.out
}

// enterCyclic takes an activation from the depth and opens a block around the
// body, so that every way out passes what follows the block: a branch to the
// label of the function is one to the block without a change.
func (w *rewriter) enterCyclic(b *body, t funcType) {
	w.add(w.depth, -int64(b.depthCost()))
	if b.intoLoop {
		w.global(opGlobalGet, w.depth)
	} else {
		w.add(w.left, -1)
		w.global(opGlobalGet, w.depth)
		w.global(opGlobalGet, w.left)
		w.op(opI64Or)
	}
	w.slowIfNegative()
	w.op(opBlock)
	switch len(t.results) {
	case 0:
		w.op(blockVoid)
	case 1:
		w.op(t.results[0])
	default:
		w.out = appendSigned(w.out, int64(w.blockType(t.results)))
	}
}

// leaveCyclic closes the block of enterCyclic and gives the depth back.
func (w *rewriter) leaveCyclic(b *body) {
	w.op(opEnd)
	w.add(w.depth, int64(b.depthCost()))
}

// blockType returns a type without parameters that has these results.
func (w *rewriter) blockType(results []byte) uint32 {
	if i, ok := w.blockOf[string(results)]; ok {
		return i
	}
	return w.addType(nil, results)
}

func (w *rewriter) addType(params, results []byte) uint32 {
	i := uint32(len(w.m.types) + w.typeN)
	w.typeN++
	w.types = appendVec(appendVec(append(w.types, 0x60), params), results)
	if len(params) == 0 {
		w.blockOf[string(results)] = i
	}
	return i
}

// instr copies one instruction with what metering puts before and after it.
func (w *rewriter) instr(b *body) {
	in := w.in
	w.beforeStraight(in)
	switch {
	case in.op == opReturn && b.cyclic:
		w.op(opBr)
		w.out = appendU32(w.out, uint32(len(w.flow)-1))
	case in.op == opEnd && len(w.flow) == 1:
		if b.cyclic {
			w.leaveCyclic(b)
		}
		w.op(opEnd)
	default:
		w.charge(in)
		w.out = append(w.out, w.m.b[in.at:in.end]...)
	}
	w.follow(in)
}

// charge counts a bulk operation by its length, which is on top of the stack.
// It does not look whether that was too much: the next tick does, and at most
// straightBytes of code away there is one. An i64 cannot wrap around meanwhile.
func (w *rewriter) charge(in *instr) {
	if in.op == opMemoryGrow {
		w.call(w.page)
		return
	}
	shift := bulkShift(in)
	if shift == 0 {
		return
	}
	fixed := int64(0)
	if in.sub == miscTableGrow {
		fixed = growTicks
	}
	if n, ok := w.constantLength(in); ok {
		if ticks := fixed + int64(n>>shift); ticks > 0 {
			w.add(w.left, -ticks)
		}
		return
	}
	if fixed > 0 {
		w.add(w.left, -fixed)
	}
	w.local(opLocalSet, w.scratch)
	w.global(opGlobalGet, w.left)
	w.local(opLocalGet, w.scratch)
	w.i32(shift)
	w.op(opI32ShrU, opI64ExtendU, opI64Sub)
	w.global(opGlobalSet, w.left)
	w.local(opLocalGet, w.scratch)
}

// bulkShift says how a length becomes ticks: one per 64 bytes, where an entry
// of a table is 8 bytes. Zero is for what is not a bulk operation.
func bulkShift(in *instr) int {
	if in.op != opMisc {
		return 0
	}
	switch in.sub {
	case miscMemoryCopy, miscMemoryFill, miscMemoryInit:
		return 6
	case miscTableCopy, miscTableFill, miscTableInit, miscTableGrow:
		return 3
	}
	return 0
}

// locals copies the declarations of locals, and adds one where bulk operations
// need it.
func (w *rewriter) locals(b *body) {
	raw := w.m.b[b.at:b.code]
	if !b.bulk {
		w.op(raw...)
		return
	}
	w.scratch = uint32(b.locals)
	w.op(extend(raw, 1, []byte{1, typeI32})...)
}

// constantLength returns the length of a bulk operation that the instruction
// before it pushes as a constant. A constant begins no block and ends none, so
// no other path can lead between the two.
func (w *rewriter) constantLength(in *instr) (n uint32, ok bool) {
	if w.last.op != opI32Const || w.last.end != in.at {
		return 0, false
	}
	r := &reader{b: w.m.b, pos: w.last.at + 1, end: w.last.end}
	return uint32(r.signed(32)), true
}

// beforeStraight adds an instruction to the straight code, and a tick before
// it where there would be too much.
func (w *rewriter) beforeStraight(in *instr) {
	if w.straight == unreached {
		return
	}
	weight := in.weight() + w.calleeWeight(in)
	if w.straight+weight > straightBytes && w.straight > 0 {
		w.tick()
		w.straight = 0
	}
	w.straight += weight
}

// calleeWeight is the code of a call that the callee does not count itself.
func (w *rewriter) calleeWeight(in *instr) int {
	switch in.op {
	case opCall:
		i := int(in.index) - w.m.importedFunctions()
		if i >= 0 && !w.m.bodies[i].tiny() {
			return 0
		}
		return tinyBytes
	case opCallIndirect:
		return tinyBytes
	}
	return 0
}

// follow keeps the paths: after it, w.straight is the most code since a tick
// on any path to the next instruction.
func (w *rewriter) follow(in *instr) {
	switch in.op {
	case opBlock:
		w.flow = append(w.flow, frame{op: opBlock, label: unreached})
	case opIf:
		w.flow = append(w.flow, frame{op: opIf, label: unreached, entry: w.straight})
	case opLoop:
		if in.block.typed && len(w.m.types[in.block.index].params) > 0 {
			w.tick()
		} else {
			w.loopTick()
		}
		w.flow = append(w.flow, frame{op: opLoop, label: unreached})
		if w.straight != unreached {
			w.straight = 0
		}
	case opElse:
		f := &w.flow[len(w.flow)-1]
		f.label = max(f.label, w.straight)
		w.straight, f.op = f.entry, opElse
	case opEnd:
		f := w.flow[len(w.flow)-1]
		w.flow = w.flow[:len(w.flow)-1]
		w.straight = max(w.straight, f.label)
		if f.op == opIf {
			w.straight = max(w.straight, f.entry)
		}
	case opBrIf:
		w.branch(in.index)
	case opBr:
		w.branch(in.index)
		w.straight = unreached
	case opBrTable:
		for _, l := range in.targets {
			w.branch(l)
		}
		w.straight = unreached
	case opReturn, opUnreachable:
		w.straight = unreached
	}
}

// branch notes a path to a label. One to a loop arrives at a tick.
func (w *rewriter) branch(label uint32) {
	f := &w.flow[len(w.flow)-1-int(label)]
	if f.op != opLoop {
		f.label = max(f.label, w.straight)
	}
}
