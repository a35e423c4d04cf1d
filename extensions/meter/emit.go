package meter

// What the rewriter writes: short instruction sequences, the helpers that they
// call, and the sections.

func (w *rewriter) op(code ...byte) { w.out = append(w.out, code...) }

func (w *rewriter) global(op byte, index uint32) {
	w.out = appendU32(append(w.out, op), index)
}

func (w *rewriter) local(op byte, index uint32) { w.global(op, index) }

func (w *rewriter) call(fn uint32) {
	w.out = appendU32(append(w.out, opCall), fn)
}

func (w *rewriter) i32(v int) {
	w.out = appendSigned(append(w.out, opI32Const), int64(v))
}

func (w *rewriter) i64(v int64) {
	w.out = appendSigned(append(w.out, opI64Const), v)
}

// add adds a constant to an i64 global.
func (w *rewriter) add(global uint32, v int64) {
	w.global(opGlobalGet, global)
	w.i64(v)
	w.op(opI64Add)
	w.global(opGlobalSet, global)
}

// tick counts one and leaves the fast path when the slice is used up.
func (w *rewriter) tick() {
	w.add(w.left, -1)
	w.global(opGlobalGet, w.left)
	w.slowIfNegative()
}

// slowIfNegative takes an i64 from the stack.
func (w *rewriter) slowIfNegative() {
	w.i64(0)
	w.op(opI64LtS, opIf, blockVoid)
	w.call(w.slow)
	w.op(opEnd)
}

// loopTick is tick at a loop header. The slow path goes back to the header,
// and gives back the tick that is counted there again: so the loop's body is
// reached on one path only, which spares the compiler moves between registers.
// The header must not take operands.
func (w *rewriter) loopTick() {
	w.add(w.left, -1)
	w.global(opGlobalGet, w.left)
	w.i64(0)
	w.op(opI64LtS, opIf, blockVoid)
	w.call(w.slow)
	w.add(w.left, 1)
	w.op(opBr, 1, opEnd)
}

// stopIf takes a condition from the stack and stops the guest if it holds.
func (w *rewriter) stopIf(c Cause) {
	w.op(opIf, blockVoid)
	w.i32(int(c))
	w.global(opGlobalSet, w.cause)
	w.op(opUnreachable, opEnd)
}

// helpersN is how many functions are appended.
const helpersN = 2

// helpers appends the code of the appended functions, in their order.
func (w *rewriter) helpers(out []byte) []byte {
	for _, build := range []func(){w.slowHelper, w.pageHelper} {
		w.out = []byte{0} // no locals
		build()
		w.op(opEnd)
		out = appendVec(out, w.out)
	}
	return out
}

// slowHelper runs when left or depth has become negative: it stops the guest,
// or passes a safepoint and takes the next slice out of the budget.
func (w *rewriter) slowHelper() {
	w.global(opGlobalGet, w.depth)
	w.i64(0)
	w.op(opI64LtS)
	w.stopIf(CauseDepth)

	// The safepoint: growing by nothing, or to what is refused, changes
	// nothing, but the engine does it in Go, where the goroutine can be stopped.
	w.i32(int(w.o.SafepointPages))
	if w.o.SafepointPages > 0 {
		w.op(opMemorySize, 0, opI32Sub)
	}
	w.op(opMemoryGrow, 0, opDrop)

	w.global(opGlobalGet, w.budget)
	w.global(opGlobalGet, w.left)
	w.op(opI64Add)
	w.global(opGlobalSet, w.budget)
	w.i64(0)
	w.global(opGlobalSet, w.left)
	w.global(opGlobalGet, w.budget)
	w.i64(0)
	w.op(opI64LtS)
	w.stopIf(CauseTicks)

	// left = min(budget, SafepointTicks), budget -= left
	w.global(opGlobalGet, w.budget)
	w.i64(int64(w.o.SafepointTicks))
	w.global(opGlobalGet, w.budget)
	w.i64(int64(w.o.SafepointTicks))
	w.op(opI64LtS, opSelect)
	w.global(opGlobalSet, w.left)
	w.global(opGlobalGet, w.budget)
	w.global(opGlobalGet, w.left)
	w.op(opI64Sub)
	w.global(opGlobalSet, w.budget)
}

// pageHelper counts what growing by its parameter costs, a page as its 64 KiB,
// and returns the parameter. Growing by nothing or beyond the cap, which fails,
// costs the way to the engine alone.
func (w *rewriter) pageHelper() {
	w.global(opGlobalGet, w.left)
	w.op(opLocalGet, 0)
	w.i32(pageTicks)
	w.op(opI32Mul)
	w.i32(growTicks)
	w.op(opLocalGet, 0)
	w.i32(1)
	w.op(opI32Sub) // zero becomes the most there is
	w.i32(int(w.o.MemoryPagesMax))
	w.op(opI32LtU, opSelect, opI64ExtendU, opI64Sub)
	w.global(opGlobalSet, w.left)
	w.global(opGlobalGet, w.left)
	w.slowIfNegative()
	w.op(opLocalGet, 0)
}

const pageTicks = 65536 / 64

// growTicks is what growing a memory or a table costs at least: the engine does it
// in Go, and the way there takes as long as a call of the host. No other instruction
// that is accepted goes there.
const growTicks = 50

// module writes all sections. Custom ones are left out, because offsets in
// them would be wrong, except the names of functions.
func (w *rewriter) module() []byte {
	m := w.m
	slowType := w.addType(nil, nil)
	pageType := w.addType([]byte{typeI32}, []byte{typeI32})
	code := w.codeSection() // adds types
	out := append(make([]byte, 0, len(m.b)+len(code)-len(m.sections[secCode])), preamble...)
	for _, id := range sectionOrder {
		content := m.sections[id]
		switch id {
		case secType:
			content = extend(content, w.typeN, w.types)
		case secFunction:
			content = extend(content, helpersN, appendU32(appendU32(nil, slowType), pageType))
		case secTable:
			content = w.tables(content)
		case secMemory:
			content = w.memory()
		case secGlobal:
			content = extend(content, 4, w.globals())
		case secExport:
			content = w.exports(content)
		case secStart:
			if w.o.ExportStart {
				content = nil
			}
		case secCode:
			content = code
		}
		if content != nil {
			out = appendVec(append(out, byte(id)), content)
		}
	}
	return m.appendNames(out)
}

// extend appends n encoded items to a vector section, which may be absent.
func extend(content []byte, n int, items []byte) []byte {
	have, rest := splitVec(content)
	out := appendU32(nil, uint32(have+n))
	out = append(out, rest...)
	return append(out, items...)
}

// splitVec splits the content of a vector section, which is known to be well
// formed, into its count and its items.
func splitVec(content []byte) (n int, items []byte) {
	if len(content) == 0 {
		return 0, nil
	}
	r := &reader{b: content, end: len(content)}
	n = int(r.u32())
	return n, content[r.pos:]
}

func (w *rewriter) codeSection() []byte {
	m := w.m
	out := make([]byte, 0, len(m.sections[secCode])/4*5) // most grow by a fifth
	out = appendU32(out, uint32(len(m.bodies)+helpersN))
	var one []byte
	for i := range m.bodies {
		one = w.code(one[:0], m.importedFunctions()+i)
		out = appendVec(out, one)
	}
	return w.helpers(out)
}

func (w *rewriter) tables(content []byte) []byte {
	if content == nil {
		return nil
	}
	out := appendU32(nil, uint32(len(w.m.tables)))
	for _, t := range w.m.tables {
		out = append(out, t.elem)
		out = appendLimits(out, t.min, capped(t.max, t.bounded, w.o.TableEntriesMax))
	}
	return out
}

// memory writes the capped memory, or one of no pages where the module has
// none: safepoints need one.
func (w *rewriter) memory() []byte {
	mem := w.m.memory
	most := capped(mem.max, mem.bounded, w.o.MemoryPagesMax)
	if !mem.present {
		most = 0
	}
	if w.o.SafepointPages > 0 { // the host keeps to the cap
		most = w.o.SafepointPages
	}
	return appendLimits([]byte{1}, mem.min, most)
}

func capped(declared uint32, bounded bool, most uint32) uint32 {
	if bounded {
		return min(declared, most)
	}
	return most
}

func appendLimits(b []byte, low, high uint32) []byte {
	return appendU32(appendU32(append(b, 1), low), high)
}

// globals writes the appended globals with what a fresh instance holds.
func (w *rewriter) globals() []byte {
	left, budget := Arm(w.o.StartTicks, w.o.SafepointTicks)
	saved := w.out
	w.out = nil
	for _, v := range []int64{int64(left), int64(budget), int64(w.o.DepthMax)} {
		w.op(typeI64, 1)
		w.i64(v)
		w.op(opEnd)
	}
	w.op(typeI32, 1)
	w.i32(0)
	w.op(opEnd)
	out := w.out
	w.out = saved
	return out
}

func (w *rewriter) exports(content []byte) []byte {
	var items []byte
	n := 0
	add := func(name string, kind ExternKind, index uint32) {
		items = append(appendVec(items, []byte(name)), byte(kind))
		items = appendU32(items, index)
		n++
	}
	add(GlobalLeft, ExternGlobal, w.left)
	add(GlobalBudget, ExternGlobal, w.budget)
	add(GlobalDepth, ExternGlobal, w.depth)
	add(GlobalCause, ExternGlobal, w.cause)
	for i, g := range w.m.globals {
		if g.mutable {
			add(globalExport(i), ExternGlobal, uint32(i))
		}
	}
	if w.m.start && w.o.ExportStart {
		add(FuncStart, ExternFunc, w.m.startIndex)
	}
	return extend(content, n, items)
}
