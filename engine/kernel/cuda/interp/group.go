package interp

import (
	"encoding/binary"
	"slices"
)

// groupWarps is the size of a warpgroup in warps.
const groupWarps = 4

// matrixState is what a warpgroup has under way. A multiplication happens when it
// is waited for: until then its registers have their old values.
type matrixState struct {
	queue     []queued
	committed uint32
}

// queued is one wgmma.
type queued struct {
	op    *groupOp
	a, b  uint64 // descriptors
	add   bool
	group uint32
	pc    int
}

// groupOp is a decoded wgmma.mma_async.
type groupOp struct {
	product
	n              int
	to             []int
	regsA          []int // nil: A lies in shared memory
	transA, transB bool
	negateA        bool
	negateB        bool
}

// together runs an instruction of a warpgroup once its four warps are there.
func (w *warp) together(in *instr, here, exec uint32) bool {
	if w.passed {
		w.passed = false
		return true
	}
	if exec != full || here != full {
		if here == w.alive {
			w.fail(-1, "lanes %#x execute it: it is for whole warpgroups", exec)
		}
		return false
	}
	first := w.id &^ (groupWarps - 1)
	if first+groupWarps > len(w.c.warps) {
		w.fail(-1, "the warpgroup is not complete")
		return true
	}
	w.ready = true
	group := w.c.warps[first : first+groupWarps]
	for _, o := range group {
		if !o.ready {
			return false
		}
		if o.pc != w.pc && o != w {
			w.fail(-1, "warp %d of the warpgroup is at line %d", o.id, w.c.k.code[o.pc].source.line)
			return true
		}
	}
	in.run(group[0], full)
	for _, o := range group {
		o.ready = false
		o.passed = o != w
		for i := range o.parts {
			o.parts[i].blocked = false
		}
	}
	return true
}

// groupMultiply is wgmma.
func groupMultiply(d *decoder) {
	d.in.flow = groups
	switch {
	case d.s.has("fence"):
		d.in.run = func(*warp, uint32) {}
	case d.s.has("commit_group"):
		d.in.run = func(w *warp, mask uint32) { w.matrix.committed++ }
	case d.s.has("wait_group"):
		if !d.args(1, 1) || d.s.args[0].form != immOperand {
			d.fail("how many groups may be left is no number")
			return
		}
		left := uint32(d.s.args[0].imm)
		d.in.run = func(w *warp, mask uint32) {
			if n := w.matrix.committed; n > left {
				w.finishGroups(n - left)
			}
		}
	case d.s.has("mma_async"):
		d.groupIssue()
	}
}

// groupIssue decodes wgmma.mma_async.
func (d *decoder) groupIssue() {
	d.only(append([]string{"mma_async", "sync", "aligned", "satfinite"}, slices.Collect(shapesOf(d.s))...)...)
	m, n, k := 0, 0, 0
	for mod := range shapesOf(d.s) {
		m, n, k, _ = shape(mod)
	}
	b, _ := d.s.kindAt(0)
	a, _ := d.s.kindAt(1)
	acc, ok := d.s.kindAt(2)
	if !ok || m != 64 || n < 8 || n > 256 || n%8 != 0 || k*a.bits != 256 || len(d.s.args) < 4 {
		d.fail("the interpreter does not know this form of the instruction")
		return
	}
	op := &groupOp{product: d.matrixProduct(a, b, acc, k, d.s.has("satfinite")), n: n}
	count := n / 2
	if op.half {
		count /= 2
	}
	op.to = d.destinations(count)
	da := d.constant(0)
	if d.s.args[1].form == listOperand {
		op.regsA = d.registers(1, 4)
	} else {
		da = d.src(1, kinds["b64"])
	}
	db := d.src(2, kinds["b64"])
	p, not := d.predicate(3)
	d.groupSigns(op)
	if d.err != nil {
		return
	}
	d.in.run = func(w *warp, mask uint32) {
		v := w.preds[p]&1 != 0
		w.issueGroup(queued{op: op, a: w.regs[da][0], b: w.regs[db][0], add: v != not, group: w.matrix.committed, pc: w.pc})
	}
}

// groupSigns reads the immediate arguments: signs and transpositions.
func (d *decoder) groupSigns(op *groupOp) {
	rest := d.s.args[4:]
	if op.whole {
		if len(rest) != 0 {
			d.fail("%d arguments", len(d.s.args))
		}
		return
	}
	want := 2
	if op.a.bits == 16 {
		want = 4
		if op.regsA != nil {
			want = 3
		}
	}
	if len(rest) != want {
		d.fail("%d arguments, want %d", len(d.s.args), want+4)
		return
	}
	for i, o := range rest {
		if o.form != immOperand || i < 2 && o.imm != 1 && o.imm != ^uint64(0) || i >= 2 && o.imm > 1 {
			d.fail("argument %d", i+5)
			return
		}
	}
	op.negateA, op.negateB = rest[0].imm != 1, rest[1].imm != 1
	if op.negateA || op.negateB {
		d.fail("negated operands are not known")
	}
	if want > 2 {
		op.transB = rest[want-1].imm == 1
		op.transA = want == 4 && rest[2].imm == 1
	}
}

// issueGroup puts a multiplication under way.
func (w *warp) issueGroup(q queued) {
	if q.op.regsA == nil {
		w.touchOperand(q.a, 64, q.op.a.bits, q.op.k, q.op.transA)
	}
	w.touchOperand(q.b, q.op.n, q.op.b.bits, q.op.k, q.op.transB)
	w.matrix.queue = append(w.matrix.queue, q)
}

// touchOperand records that the async proxy reads an operand from now on.
func (w *warp) touchOperand(desc uint64, rows, width, k int, trans bool) {
	w.eachPiece(desc, rows, width, k, trans, func(row, col int, at uint64) bool {
		off := at - sharedBase
		if off > uint64(len(w.c.shared)) || uint64(len(w.c.shared))-off < 16 {
			w.fail(-1, "its descriptor leads to %#x of shared memory", at)
			return false
		}
		w.proxyTouch(0, at, 16, false, true)
		return w.c.fault == nil
	})
}

// eachPiece calls f for each 16 bytes of an operand that a descriptor describes,
// with the row and the column of their first value: along the depth, or along the
// rows when the operand lies transposed.
//
// The descriptor has the address, two strides and the swizzle. Values lie in
// pieces of 8 rows x 16 bytes, which a swizzle of W bytes joins to rows of W.
func (w *warp) eachPiece(desc uint64, rows, width, k int, trans bool, f func(row, col int, at uint64) bool) {
	start := desc & 0x3fff << 4
	lead, stride := desc>>16&0x3fff<<4, desc>>32&0x3fff<<4
	swizzle := []int{0, 128, 64, 32}[desc>>62]
	if desc>>49&7 != 0 {
		w.fail(-1, "a descriptor with a base offset is not known")
		return
	}
	per := 128 / width // values of 16 bytes
	pitch := uint64(max(swizzle, 16))
	inRow := int(pitch) / 16
	if trans {
		for r := 0; r < rows; r += per {
			for c := range k {
				piece, atom := r/per%inRow, uint64(r/per/inRow)
				at := start + uint64(piece)*16 + uint64(c%8)*pitch
				if swizzle == 0 {
					at += atom*stride + uint64(c/8)*lead
				} else {
					at += atom*lead + uint64(c/8)*stride
				}
				if !f(r, c, swizzled(at, swizzle)) {
					return
				}
			}
		}
		return
	}
	for r := range rows {
		for c := 0; c < k; c += per {
			piece := uint64(c / per)
			at := start + uint64(r%8)*pitch + uint64(r/8)*stride
			if swizzle == 0 {
				at += piece * lead
			} else {
				at += piece * 16
			}
			if !f(r, c, swizzled(at, swizzle)) {
				return
			}
		}
	}
}

// loadOperand reads an operand into a tile.
func (w *warp) loadOperand(t *tile, p *product, k kind, desc uint64, rows int, trans bool) {
	w.eachPiece(desc, rows, k.bits, p.k, trans, func(row, col int, at uint64) bool {
		b := w.c.shared[at-sharedBase:][:16]
		if !trans {
			for i := 0; i < 16; i += 4 {
				t.set(p, k, row, col+i*8/k.bits, binary.LittleEndian.Uint32(b[i:]))
			}
			return true
		}
		f, _ := formatOf(k)
		for i := range 8 { // transposed operands have 16 bits
			t.terms[row+i][col] = termOf(f, uint64(binary.LittleEndian.Uint16(b[2*i:])))
		}
		return true
	})
}

// finishGroups performs what was committed before a group. The warpgroup's reads
// are over then.
func (w *warp) finishGroups(before uint32) {
	kept := w.matrix.queue[:0]
	for _, q := range w.matrix.queue {
		if q.group >= before {
			kept = append(kept, q)
			continue
		}
		w.perform(&q)
	}
	w.matrix.queue = kept
	if s := w.c.shadow; s != nil {
		for i := range groupWarps {
			known := &s.clock[w.id+i].seen[w.id]
			*known = max(*known, s.clock[w.id].seen[w.id])
		}
		s.step(w.id)
	}
}

// perform computes one multiplication of a warpgroup, whose first warp is w.
func (w *warp) perform(q *queued) {
	op, s := q.op, w.c.tiles
	if op.regsA == nil {
		w.loadOperand(&s.a, &op.product, op.a, q.a, 64, op.transA)
	}
	w.loadOperand(&s.b, &op.product, op.b, q.b, op.n, op.transB)
	for i := range groupWarps {
		o := w.c.warps[w.id+i]
		for j, r := range op.regsA {
			setA(&s.a, &op.product, &o.regs[r], j, 16*i)
		}
		op.accumulate(o, s, op.to, op.to, 16*i, q.add)
	}
	if sh := w.c.shadow; sh != nil {
		me := newAccess(sh.clock[w.id].seen[w.id], w.id, 0, q.pc, asyncBit)
		settle := func(_, _ int, at uint64) bool {
			sh.settleReads(me, int(at-sharedBase), 16)
			return true
		}
		if op.regsA == nil {
			w.eachPiece(q.a, 64, op.a.bits, op.k, op.transA, settle)
		}
		w.eachPiece(q.b, op.n, op.b.bits, op.k, op.transB, settle)
	}
}
