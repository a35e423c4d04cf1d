package meter

import (
	"fmt"
	"time"
)

// Effort is what a metered module asks of its compiler, of the whole module or
// of one function. The engine's time and memory do not grow with the bytes of
// the code alone: they grow with the ways through it, with the values that each
// way can carry, and with loops in loops.
type Effort struct {
	Bytes int // of code
	Edges int // ways from one stretch of code to another: ends of blocks, branches, each target of a branch table
	// values over all edges: every local that the function uses, what is on the stack; what calls
	// take and give, and the globals that they may change
	Carried int
	Loops   int // most loops open at once
	Calls   int
	Slow    int // instructions that become many: bulk operations, indirect calls, divisions, conversions from floats
	// Time estimates the processor time of compiling. It is above what the
	// worst module of each kind took on the machines it was measured on.
	Time time.Duration
}

// FunctionMax bounds the effort of one function, ModuleMax the estimate of
// the whole module. Loops and Carried keep out what grows with their squares,
// and bound the compiler's memory, which it uses again for each function.
var FunctionMax = Effort{Bytes: 128 << 10, Edges: 12_000, Carried: 200_000, Loops: 64, Calls: 6_000, Slow: 4_000}

// ModuleMax is the most estimated time to compile a module.
const ModuleMax = 10 * time.Second

// Estimates, in nanoseconds, of what an effort takes.
const (
	nsModuleByte = 100    // outside the code
	nsSignature  = 3_000  // a parameter or result of a type
	nsFunction   = 15_000 // any function
	nsByte       = 300
	nsEdge       = 1_000
	nsEdgeSquare = 5 // the engine looks for some values along all edges before
	nsCarried    = 600
	nsCall       = 10_000
	nsSlow       = 30_000
	nsBulk       = 110_000 // beside its share as a slow instruction
)

// CheckEffort refuses a metered module that takes its compiler too long. The
// error is of type *Error; its offsets are those of the metered module, and are
// left out.
func CheckEffort(metered []byte) error {
	_, total, err := effortOf(metered, func(fn int, e Effort) error {
		for _, b := range []struct {
			what       string
			have, most int
		}{
			{"bytes of code, metered", e.Bytes, FunctionMax.Bytes},
			{"branches, ends of blocks and targets of branch tables", e.Edges, FunctionMax.Edges},
			{"values carried over its branches and calls", e.Carried, FunctionMax.Carried},
			{"loops in each other", e.Loops, FunctionMax.Loops},
			{"calls", e.Calls, FunctionMax.Calls},
			{"instructions that compile to many", e.Slow, FunctionMax.Slow},
		} {
			if b.have > b.most {
				return &Error{Section: sectionNames[secCode], Func: fn, Offset: -1,
					Msg: fmt.Sprintf("%d %s, at most %d", b.have, b.what, b.most), Fix: "split the function"}
			}
		}
		return nil
	})
	if err == nil && total > ModuleMax {
		return &Error{Func: -1, Offset: -1, Msg: fmt.Sprintf("compiling it would take about %.1f s of processor time, at most %v",
			total.Seconds(), ModuleMax), Fix: "leave code out, or link less of the library"}
	}
	return err
}

// effortOf returns the largest of each figure over the functions of a metered module, and the
// estimate of the whole; see may end the walk at a function.
func effortOf(metered []byte, see func(fn int, e Effort) error) (most Effort, total time.Duration, err error) {
	m, err := parseMetered(metered)
	if err != nil {
		return most, 0, err
	}
	globals := 0
	for _, g := range m.globals {
		if g.mutable {
			globals++
		}
	}
	ns := (len(metered) - len(m.sections[secCode])) * nsModuleByte
	for _, t := range m.types {
		ns += (len(t.params) + len(t.results)) * nsSignature
	}
	for i := range m.bodies {
		fn := m.importedFunctions() + i
		e := m.effort(fn, globals)
		if err := see(fn, e); err != nil {
			return most, 0, err
		}
		ns += int(e.Time)
		most.Bytes, most.Edges, most.Carried = max(most.Bytes, e.Bytes), max(most.Edges, e.Edges), max(most.Carried, e.Carried)
		most.Loops, most.Calls, most.Slow = max(most.Loops, e.Loops), max(most.Calls, e.Calls), max(most.Slow, e.Slow)
		most.Time = max(most.Time, e.Time)
	}
	return most, time.Duration(ns), nil
}

// effort walks one function, which was parsed, of a module with so many globals
// that can change.
func (m *module) effort(fn, globals int) Effort {
	b := &m.bodies[fn-m.importedFunctions()]
	w := effortWalk{m: m, globals: globals, used: map[uint32]bool{}, Effort: Effort{Bytes: b.end - b.at}}
	w.open = append(w.open, openBlock{op: opBlock, results: len(m.types[m.functionTypes[fn]].results)})
	r := &reader{b: m.b, pos: b.code, end: b.end, fn: fn}
	for len(w.open) > 0 {
		m.next(r, &w.in)
		w.step()
	}
	w.Carried += w.Edges * len(w.used)
	w.Time = time.Duration(nsFunction + w.Bytes*nsByte + w.Edges*nsEdge + w.Edges*w.Edges*nsEdgeSquare +
		w.Carried*nsCarried + w.Calls*nsCall + w.Slow*nsSlow + w.bulk*nsBulk)
	return w.Effort
}

// effortWalk is the state of one walk.
type effortWalk struct {
	Effort
	m       *module
	in      instr
	open    []openBlock
	used    map[uint32]bool // locals
	height  int             // of the operand stack, at most
	loops   int             // open
	bulk    int
	globals int // of the module that can change
}

// openBlock is a block and what is on the stack below it and after it.
type openBlock struct {
	op                    byte
	base, params, results int
}

// edges counts n ways out of here, each with everything that is on the stack.
func (w *effortWalk) edges(n int) {
	w.Edges += n
	w.Carried += n * w.height
}

func (w *effortWalk) step() {
	in := &w.in
	switch in.op {
	case opBlock, opLoop, opIf:
		w.enter()
	case opElse:
		b := w.open[len(w.open)-1]
		w.edges(1)
		w.height = b.base + b.params
	case opEnd:
		w.leave()
	case opBr, opReturn, opUnreachable:
		w.edges(1)
	case opBrIf:
		w.height--
		w.edges(2)
	case opBrTable:
		w.height--
		w.edges(len(in.targets))
	case opCall:
		w.call(w.m.functionTypes[in.index])
	case opCallIndirect:
		w.height--
		w.edges(2)
		w.Slow++
		w.call(in.index)
	case opLocalGet, opLocalSet, opLocalTee:
		w.used[in.index] = true
		w.height += stackEffect(in)
	default:
		w.height += stackEffect(in)
		if in.isBulk() {
			w.bulk++
		}
		if in.isSlow() {
			w.Slow++
		}
	}
	if n := len(w.open); n > 0 { // code behind a branch may take what is not there
		w.height = max(w.height, w.open[n-1].base)
	}
}

func (w *effortWalk) enter() {
	in, b := &w.in, openBlock{op: w.in.op}
	w.edges(1)
	switch in.op {
	case opIf:
		w.height--
		w.edges(1)
	case opLoop:
		w.loops++
		w.Loops = max(w.Loops, w.loops)
	}
	switch {
	case in.block.typed:
		t := w.m.types[in.block.index]
		b.params, b.results = len(t.params), len(t.results)
	case in.block.short != blockVoid:
		b.results = 1
	}
	b.base = max(0, w.height-b.params)
	w.open = append(w.open, b)
}

func (w *effortWalk) leave() {
	b := w.open[len(w.open)-1]
	w.open = w.open[:len(w.open)-1]
	w.height = b.base + b.results
	w.edges(1)
	if b.op == opLoop {
		w.loops--
	}
}

func (w *effortWalk) call(typ uint32) {
	t := w.m.types[typ]
	w.Calls++
	w.Carried += len(t.params) + len(t.results) + w.globals // the engine reads them again
	w.height += len(t.results) - len(t.params)
}

// isBulk says whether the engine writes loops or calls into its own code.
func (in *instr) isBulk() bool {
	return in.op == opMisc && in.sub >= miscMemoryInit || in.op == opMemoryGrow
}

// isSlow says whether the engine writes one instruction as many, with branches
// among them.
func (in *instr) isSlow() bool {
	return in.op == opMisc || in.op == opMemoryGrow ||
		in.op >= 0x6d && in.op <= 0x70 || in.op >= 0x7f && in.op <= 0x82 || // division
		in.op >= 0xa8 && in.op <= 0xb1 // float to integer
}

// stackEffect is how many more values an instruction leaves than it takes, at
// most. Blocks, branches and calls are left to the walk.
func stackEffect(in *instr) int {
	switch op := in.op; {
	case op == opMisc:
		return miscEffect(in.sub)
	case op == opVec:
		return vecEffect(in.sub)
	case op == opLocalGet, op == opGlobalGet, op == opMemorySize, op >= opI32Const && op <= 0x44, op == opRefNull:
		return 1
	case op == opDrop, op == opLocalSet, op == opGlobalSet:
		return -1
	case op == opSelect, op == 0x1c, op == opTableSet, op >= 0x36 && op <= 0x3e: // the last are stores
		return -2
	case op == 0x45, op == 0x50, op >= 0x67 && op <= 0x69, op >= 0x79 && op <= 0x7b, op >= 0x8b && op <= 0x91, op >= 0x99 && op <= 0x9f:
		return 0 // of one operand
	case op >= 0x46 && op <= 0xa6:
		return -1 // of two
	}
	return 0 // loads, conversions, local.tee, memory.grow, table.get
}

func miscEffect(sub byte) int {
	switch sub {
	case 0x10: // table.size
		return 1
	case miscTableGrow:
		return -1
	case miscMemoryInit, miscMemoryCopy, miscMemoryFill, miscTableInit, miscTableCopy, miscTableFill:
		return -3
	}
	return 0
}

// vecEffect knows what is below the arithmetic of lanes; the rest counts as
// leaving what it takes, which is more than it does.
func vecEffect(sub byte) int {
	switch {
	case sub == 0x0c: // a constant
		return 1
	case sub == 0x0b, sub == 0x52, sub >= 0x58 && sub <= 0x5b: // stores, select
		return -2
	case sub == 0x0d, sub == 0x0e, sub >= 0x23 && sub <= 0x4c, sub >= 0x4e && sub <= 0x51, sub >= 0x54 && sub <= 0x57:
		return -1
	}
	return 0
}
