package meter

import "fmt"

// body is one function's code after the scan, which checks it and finds what
// the rewriter has to know before it writes the first byte.
type body struct {
	at, end  int // the entry of the code section, after its size
	code     int // where the instructions begin
	locals   int // parameters included
	slots    int // what they take, in units of eight bytes
	weight   int // of all instructions
	results  int // values beyond the first that calls and blocks leave
	calls    bool
	loops    bool
	bulk     bool
	intoLoop bool // the first branching instruction is a loop, reached on a straight path
	edges    [2]int
	cyclic   bool // can come to call itself; set by the call graph
}

// tiny says that the function is counted as code of its caller.
func (b *body) tiny() bool {
	return !b.calls && !b.loops && !b.bulk && b.weight <= tinyBytes
}

// depthCost is what one activation takes from the depth limit, so that the
// limit bounds the stack whatever the frames look like.
func (b *body) depthCost() int {
	return 1 + b.slots/64 + b.results/64 + b.weight/4096
}

func (m *module) codeSection(r *reader) {
	n := r.count("functions", functionsMax, 3)
	m.bodies = make([]body, 0, n)
	first := m.importedFunctions()
	for i := 0; i < n && r.err == nil; i++ {
		fn := first + i
		if fn >= m.functionCount() {
			r.fail(r.pos, fixRebuild, "more code than declared functions")
			return
		}
		size := int(r.u32())
		at := r.pos
		r.skip(size)
		if r.err != nil {
			return
		}
		f := &reader{b: r.b, pos: at, end: r.pos, section: r.section, fn: fn}
		m.bodies = append(m.bodies, m.scan(f, m.types[m.functionTypes[fn]]))
		if f.err != nil {
			r.err, r.pos = f.err, r.end
		}
	}
}

// localDecls reads the declarations of locals and returns how many locals
// there are, parameters included, and how many slots they take.
func (m *module) localDecls(r *reader, t funcType) (locals, slots int) {
	locals = len(t.params)
	slots = locals
	for n := r.count("groups of locals", localsMax, 2); n > 0 && r.err == nil; n-- {
		at := r.pos
		k := int(r.u32())
		typ := r.valueType()
		if isFloatType(typ) {
			m.noteFloat(r.fn, at, "a local")
		}
		locals += k
		slots += k
		if typ == typeV128 {
			slots += k
		}
		if m.localsTotal += k; locals > localsMax || m.localsTotal > localsTotalMax {
			r.fail(at, fixSmaller, "more than %d locals in a function, or %d in all", localsMax, localsTotalMax)
		}
	}
	return locals, slots
}

// scan checks one body: known instructions, indices in range, blocks closed.
func (m *module) scan(r *reader, t funcType) body {
	b := body{at: r.pos, end: r.end, edges: [2]int{len(m.edges), 0}}
	b.locals, b.slots = m.localDecls(r, t)
	b.code = r.pos
	s := scanner{m: m, r: r, b: &b, open: []byte{opBlock}, straight: true}
	for r.err == nil && len(s.open) > 0 {
		if r.done() {
			r.fail(r.pos, fixRebuild, "%d blocks are not closed", len(s.open))
			break
		}
		m.next(r, &s.in)
		if r.err == nil {
			s.step()
		}
	}
	if r.err == nil && !r.done() {
		r.fail(r.pos, fixRebuild, "code after the end of the function")
	}
	b.edges[1] = len(m.edges)
	return b
}

// scanner is the state of one scan.
type scanner struct {
	m        *module
	r        *reader
	b        *body
	in       instr
	open     []byte // opcodes of the open blocks, the function's own first
	straight bool   // nothing but blocks has branched so far
}

// step has one case per kind of instruction that matters here, which makes it
// long.
func (s *scanner) step() {
	in, m, b := &s.in, s.m, s.b
	if in.float || in.isFloat() {
		m.noteFloat(s.r.fn, in.at, fmt.Sprintf("instruction %#02x", in.op))
	}
	if in.op == opLoop && s.straight && b.weight <= straightBytes {
		b.intoLoop = true
	}
	if in.op >= opLoop && in.op <= opCallIndirect && in.op != opEnd || in.op == opUnreachable {
		s.straight = false
	}
	b.weight += in.weight()
	switch in.op {
	case opBlock, opLoop, opIf:
		s.push()
	case opElse:
		if s.open[len(s.open)-1] != opIf {
			s.r.fail(in.at, fixRebuild, "else without if")
		}
		s.open[len(s.open)-1] = opElse
	case opEnd:
		s.open = s.open[:len(s.open)-1]
	case opBr, opBrIf:
		s.label(in.index)
	case opBrTable:
		for _, l := range in.targets {
			s.label(l)
		}
	case opCall:
		b.calls = true
		m.edges = append(m.edges, in.index)
		b.results += len(m.types[m.functionTypes[in.index]].results)
	case opCallIndirect:
		b.calls = true
		m.edges = append(m.edges, uint32(m.functionCount())+in.index)
		b.results += len(m.types[in.index].results)
	case opLocalGet, opLocalSet, opLocalTee:
		if int64(in.index) >= int64(b.locals) {
			s.r.fail(in.at, fixRebuild, "local %d does not exist, there are %d", in.index, b.locals)
		}
	case opTableSet:
		m.mutatesTables = true
	case opMemoryGrow:
		b.bulk = true
	case opRefFunc:
		s.r.fail(in.at, "take the function out of a table, where an element segment puts it",
			"ref.func in a function: the engine keeps what each of its runs makes until the instance ends")
	case opMisc:
		s.misc()
	}
}

func (s *scanner) push() {
	if len(s.open) >= nestingMax {
		s.r.fail(s.in.at, fixSmaller, "more than %d nested blocks", nestingMax)
	}
	s.open = append(s.open, s.in.op)
	s.b.loops = s.b.loops || s.in.op == opLoop
	if s.in.block.typed {
		s.b.results += len(s.m.types[s.in.block.index].results)
	}
}

func (s *scanner) label(l uint32) {
	if int64(l) >= int64(len(s.open)) {
		s.r.fail(s.in.at, fixRebuild, "branch out of %d blocks, %d are open", l, len(s.open))
	}
}

func (s *scanner) misc() {
	switch s.in.sub {
	case miscDataDrop, miscElemDrop:
		s.m.dropsSegments = true
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		s.m.mutatesTables = true
		s.b.bulk = true
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill:
		s.b.bulk = true
	}
}
