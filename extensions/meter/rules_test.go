package meter

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"corenode/extensions/meter/wasmtest"
)

// budget is plenty for every test that does not want a tick-out.
const budget = 1 << 40

// ticksOf runs fn once on a fresh metered instance and returns what it took.
func ticksOf(t *testing.T, module []byte, fn string, args ...uint64) int64 {
	t.Helper()
	g := startMetered(t, newRuntime(t), module, Options{})
	g.arm(budget, Options{})
	if _, err := g.call(fn, args...); err != nil {
		t.Fatal(err)
	}
	return budget - g.remaining()
}

// countdown appends a loop that runs local i down from n to zero around body.
func countdown(c *wasmtest.Code, i uint32, n int32, body func(*wasmtest.Code)) *wasmtest.Code {
	c.I32(n).Set(i).Loop(wasmtest.Void)
	if body != nil {
		body(c)
	}
	return c.Get(i).I32(1).Op(wasmtest.I32Sub).Tee(i).BrIf(0).End()
}

func TestTicks(t *testing.T) {
	i32s := []byte{wasmtest.I32, wasmtest.I32}
	long := func(c *wasmtest.Code, n int) *wasmtest.Code { // n bytes of straight code
		for range n / 2 {
			c.Op(wasmtest.Nop, wasmtest.Nop)
		}
		return c
	}
	for _, c := range []struct {
		name string
		want int64
		make func(m *wasmtest.Module) *wasmtest.Code
	}{
		{"tiny", 0, func(m *wasmtest.Module) *wasmtest.Code { return wasmtest.Asm().Op(wasmtest.Nop) }},
		{"entry", 1, func(m *wasmtest.Module) *wasmtest.Code { return long(wasmtest.Asm(), 70) }},
		{"straight code", 4, func(m *wasmtest.Module) *wasmtest.Code { return long(wasmtest.Asm(), 1000) }},
		{"slow instructions", 7, func(m *wasmtest.Module) *wasmtest.Code {
			c := wasmtest.Asm().I32(1)
			for range 160 {
				c.I32(1).Op(wasmtest.I32DivS)
			}
			return c.Op(wasmtest.Drop)
		}},
		{"loop, the entry with its first pass", 10, func(m *wasmtest.Module) *wasmtest.Code {
			return countdown(wasmtest.Asm(), 0, 10, nil)
		}},
		{"loop behind a branch", 11, func(m *wasmtest.Module) *wasmtest.Code {
			return countdown(wasmtest.Asm().Block(wasmtest.Void).I32(0).BrIf(0).End(), 0, 10, nil)
		}},
		{"nested loops", 5 + 5*7, func(m *wasmtest.Module) *wasmtest.Code {
			return countdown(wasmtest.Asm(), 0, 5, func(c *wasmtest.Code) { countdown(c, 1, 7, nil) })
		}},
		{"loop of straight code", 10 * 4, func(m *wasmtest.Module) *wasmtest.Code {
			return countdown(wasmtest.Asm(), 0, 10, func(c *wasmtest.Code) { long(c, 900) })
		}},
		{"branch over code", 1, func(m *wasmtest.Module) *wasmtest.Code {
			return long(wasmtest.Asm().Block(wasmtest.Void).I32(1).BrIf(0), 240).End()
		}},
		{"code behind a long way and a short one", 2, func(m *wasmtest.Module) *wasmtest.Code {
			return long(long(long(wasmtest.Asm().I32(1).If(wasmtest.Void), 200).Else(), 10).End(), 100)
		}},
		{"code behind a short way and a long one", 2, func(m *wasmtest.Module) *wasmtest.Code {
			return long(long(long(wasmtest.Asm().I32(1).If(wasmtest.Void), 10).Else(), 200).End(), 100)
		}},
		{"two ways, each short enough", 1, func(m *wasmtest.Module) *wasmtest.Code {
			return long(long(wasmtest.Asm().I32(0).If(wasmtest.Void), 200).Else(), 100).End()
		}},
		{"code behind a way that leads nowhere", 2, func(m *wasmtest.Module) *wasmtest.Code {
			return long(long(wasmtest.Asm(), 200).I32(0).If(wasmtest.Void).Op(wasmtest.Unreachable).End(), 100)
		}},
		{"loop in a block", 10, func(m *wasmtest.Module) *wasmtest.Code {
			return countdown(wasmtest.Asm().Block(wasmtest.Void), 0, 10, nil).End()
		}},
		{"recursion", 1 + 10, func(m *wasmtest.Module) *wasmtest.Code {
			g := m.Func("", []byte{wasmtest.I32}, nil, nil, wasmtest.Asm().Get(0).If(wasmtest.Void).
				Get(0).I32(1).Op(wasmtest.I32Sub).Call(0).End())
			return wasmtest.Asm().I32(9).Call(g)
		}},
		{"recursion through a loop, the entry with its first pass", 1 + 10, func(m *wasmtest.Module) *wasmtest.Code {
			g := m.Func("", []byte{wasmtest.I32}, nil, nil, wasmtest.Asm().Loop(wasmtest.Void).Get(0).If(wasmtest.Void).
				Get(0).I32(1).Op(wasmtest.I32Sub).Call(0).End().End())
			return wasmtest.Asm().I32(9).Call(g)
		}},
		{"tiny callee", 1, func(m *wasmtest.Module) *wasmtest.Code {
			f := m.Func("", nil, nil, nil, wasmtest.Asm().Op(wasmtest.Nop))
			return wasmtest.Asm().Call(f).Call(f)
		}},
		{"callees of which each counts", 3, func(m *wasmtest.Module) *wasmtest.Code {
			f := m.Func("", nil, nil, nil, long(wasmtest.Asm(), 100))
			return wasmtest.Asm().Call(f).Call(f)
		}},
		{"fill, length constant", 1 + 4096/64, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(0).I32(1).I32(4096).Misc(0x0b, 0)
		}},
		{"fill, length computed", 1 + 4096/64, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(0).I32(1).I32(4095).I32(1).Op(wasmtest.I32Add).Misc(0x0b, 0)
		}},
		{"copy", 1 + 1000/64, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(0).I32(1).I32(1000).Misc(0x0a, 0, 0)
		}},
		{"short copy", 1, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(0).I32(1).I32(63).Misc(0x0a, 0, 0)
		}},
		{"init", 1 + 2, func(m *wasmtest.Module) *wasmtest.Code {
			d := m.PassiveData(make([]byte, 128))
			return wasmtest.Asm().I32(0).I32(0).I32(128).Misc(0x08, d, 0)
		}},
		{"table ops, which are straight code as well", 2 + 2 + 2 + 2 + (50 + 4), func(m *wasmtest.Module) *wasmtest.Code {
			m.Table(wasmtest.Funcref, 100, -1)
			f := m.Func("", nil, nil, nil, wasmtest.Asm())
			e := m.PassiveElements(make([]uint32, 16)...)
			_ = f
			return wasmtest.Asm().
				I32(0).I32(16).I32(16).Misc(0x0e, 0, 0).
				I32(0).Op(0xd0, wasmtest.Funcref).I32(16).Misc(0x11, 0).
				I32(0).I32(0).I32(16).Misc(0x0c, e, 0).
				Op(0xd0, wasmtest.Funcref).I32(32).Misc(0x0f, 0).Op(wasmtest.Drop)
		}},
		{"grow", 1 + 2*1024, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(2).Op(0x40, 0, wasmtest.Drop)
		}},
		{"grow by nothing", 1 + 50, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(0).Op(0x40, 0, wasmtest.Drop)
		}},
		{"grow to more than the cap", 1 + DefaultMemoryPagesMax*1024, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(DefaultMemoryPagesMax).Op(0x40, 0, wasmtest.Drop)
		}},
		{"grow by more than the cap", 1 + 50, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(DefaultMemoryPagesMax+1).Op(0x40, 0, wasmtest.Drop)
		}},
		{"grow a table by nothing", 1 + 50, func(m *wasmtest.Module) *wasmtest.Code {
			m.Table(wasmtest.Externref, 1, -1)
			return wasmtest.Asm().Op(0xd0, wasmtest.Externref).I32(0).Misc(0x0f, 0).Op(wasmtest.Drop)
		}},
		{"grow a table, length computed", 1 + 50 + 2, func(m *wasmtest.Module) *wasmtest.Code {
			m.Table(wasmtest.Externref, 1, -1)
			return wasmtest.Asm().Op(0xd0, wasmtest.Externref).I32(15).I32(1).Op(wasmtest.I32Add).Misc(0x0f, 0).Op(wasmtest.Drop)
		}},
		{"grow beyond the cap", 1 + 50, func(m *wasmtest.Module) *wasmtest.Code {
			return wasmtest.Asm().I32(-1).Op(0x40, 0, wasmtest.Drop)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m wasmtest.Module
			m.Memory(1, -1)
			code := c.make(&m)
			m.Func("f", nil, nil, i32s, code)
			if got := ticksOf(t, m.Bytes(), "f"); got != c.want {
				t.Errorf("%d ticks, want %d", got, c.want)
			}
		})
	}
}

// TestExactBudget stops at exactly the tick that is not paid for, wherever
// safepoints fall.
func TestExactBudget(t *testing.T) {
	var m wasmtest.Module
	m.Func("f", nil, nil, []byte{wasmtest.I32}, countdown(wasmtest.Asm(), 0, 100, nil))
	rt := newRuntime(t)
	for _, every := range []int32{1, 3, 99, 100, 101, 1000} {
		o := Options{SafepointTicks: every}
		for _, ticks := range []int64{98, 99, 100, 101} {
			g := startMetered(t, rt, m.Bytes(), o)
			g.arm(ticks, o)
			_, err := g.call("f")
			if ok := ticks >= 100; ok != (err == nil) {
				t.Errorf("budget %d, safepoint each %d: %v", ticks, every, err)
			}
			if want := max(ticks-100, -1); g.remaining() != want {
				t.Errorf("budget %d, safepoint each %d: %d remain, want %d", ticks, every, g.remaining(), want)
			}
		}
	}
}

// recursive is a function that calls itself until its parameter is zero, and
// leaves in the given way. exits are written with the function's label at 0.
func recursive(exit func(c *wasmtest.Code)) []byte {
	var m wasmtest.Module
	c := wasmtest.Asm().Get(0).If(wasmtest.Void).
		Get(0).I32(1).Op(wasmtest.I32Sub).Call(0).Op(wasmtest.Drop).End()
	exit(c)
	m.Func("f", []byte{wasmtest.I32}, []byte{wasmtest.I32}, nil, c)
	return m.Bytes()
}

func TestDepthEveryWayOut(t *testing.T) {
	rt := newRuntime(t)
	for name, exit := range map[string]func(c *wasmtest.Code){
		"end":       func(c *wasmtest.Code) { c.I32(7) },
		"return":    func(c *wasmtest.Code) { c.I32(7).Op(wasmtest.Return) },
		"br":        func(c *wasmtest.Code) { c.I32(7).Br(0) },
		"br_if":     func(c *wasmtest.Code) { c.I32(7).I32(1).BrIf(0) },
		"br_table":  func(c *wasmtest.Code) { c.I32(7).I32(0).BrTable(0, 0) },
		"in a loop": func(c *wasmtest.Code) { c.Loop(wasmtest.I32).I32(7).Op(wasmtest.Return).End() },
		"in blocks": func(c *wasmtest.Code) {
			c.Block(wasmtest.Void).Loop(wasmtest.Void).I32(7).I32(3).BrTable(2, 2, 2).End().End().Op(wasmtest.Unreachable)
		},
		"in an if": func(c *wasmtest.Code) {
			c.Get(0).If(wasmtest.I32).I32(7).Op(wasmtest.Return).Else().I32(7).Br(1).End()
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{DepthMax: 100}
			g := startMetered(t, rt, recursive(exit), o)
			for _, c := range []struct {
				n  uint64
				ok bool
			}{{0, true}, {99, true}, {99, true}, {100, false}} {
				g.arm(budget, o)
				got, err := g.call("f", c.n)
				if c.ok != (err == nil) || c.ok && got[0] != 7 {
					t.Fatalf("depth %d: %v, %v", c.n+1, got, err)
				}
				want, cause := int64(100), CauseNone
				if !c.ok {
					want, cause = -1, CauseDepth
				}
				if d := int64(g.get(GlobalDepth)); d != want {
					t.Errorf("depth %d remains, want %d", d, want)
				}
				if Cause(g.get(GlobalCause)) != cause {
					t.Errorf("cause %d, want %d", g.get(GlobalCause), cause)
				}
			}
		})
	}
}

// TestDepthCycles checks which functions count depth: those that can come to
// call themselves, through whatever, and no other.
func TestDepthCycles(t *testing.T) {
	nop := wasmtest.Asm().Op(wasmtest.Nop)
	for name, c := range map[string]struct {
		make   func(m *wasmtest.Module)
		cyclic []bool
	}{
		"chain": {func(m *wasmtest.Module) {
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(1))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(2))
			m.Func("", nil, nil, nil, nop)
		}, []bool{false, false, false}},
		"ring and who calls it": {func(m *wasmtest.Module) {
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(1))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(2))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(1).Call(3))
			m.Func("", nil, nil, nil, nop)
		}, []bool{false, true, true, false}},
		"ring whose leaf comes first": {func(m *wasmtest.Module) {
			m.Func("", nil, nil, nil, nop)
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(0).Call(2))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(1))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(0).Call(3))
		}, []bool{false, true, true, true}},
		"through a table": {func(m *wasmtest.Module) {
			m.Table(wasmtest.Funcref, 4, -1)
			m.Elements(0, 0)
			typ := m.Type(nil, nil)
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(1))
			m.Func("", nil, nil, nil, wasmtest.Asm().I32(0).CallIndirect(typ, 0))
			m.Func("", nil, nil, nil, wasmtest.Asm().I32(0).CallIndirect(typ, 0))
		}, []bool{true, true, false}},
		"another type in the table": {func(m *wasmtest.Module) {
			m.Table(wasmtest.Funcref, 4, -1)
			m.Elements(0, 0)
			typ := m.Type([]byte{wasmtest.I64}, nil)
			m.Func("", nil, nil, nil, wasmtest.Asm().I64(1).I32(0).CallIndirect(typ, 0))
		}, []bool{false}},
		"imported": {func(m *wasmtest.Module) {
			m.Import("a", "b", nil, nil)
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(0))
			m.Func("", nil, nil, nil, wasmtest.Asm().Call(2))
		}, []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			var b wasmtest.Module
			c.make(&b)
			m, err := parse(b.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			m.markCyclic()
			for i, want := range c.cyclic {
				if m.bodies[i].cyclic != want {
					t.Errorf("function %d: cyclic is %v, want %v", i, m.bodies[i].cyclic, want)
				}
			}
		})
	}
}

// TestLargeFramesCostDepth keeps endless recursion of large frames small.
func TestLargeFramesCostDepth(t *testing.T) {
	many := bytes.Repeat([]byte{wasmtest.I64}, 640)
	for name, make := range map[string]func(m *wasmtest.Module){
		"locals": func(m *wasmtest.Module) {
			m.Func("f", nil, nil, bytes.Repeat([]byte{wasmtest.V128}, 640), wasmtest.Asm().Call(0))
		},
		"results of calls": func(m *wasmtest.Module) {
			g := wasmtest.Asm().Op(wasmtest.Unreachable)
			m.Func("f", nil, nil, nil, wasmtest.Asm().Call(0).Call(1).Call(1).Op(wasmtest.Unreachable))
			m.Func("", nil, many, nil, g)
		},
		"results of indirect calls": func(m *wasmtest.Module) {
			m.Table(wasmtest.Funcref, 1, 1)
			of := m.Type(nil, many)
			m.Func("f", nil, nil, nil, wasmtest.Asm().Call(0).I32(0).CallIndirect(of, 0).I32(0).CallIndirect(of, 0).Op(wasmtest.Unreachable))
		},
		"results of blocks": func(m *wasmtest.Module) {
			of := m.Type(nil, many)
			block := func(c *wasmtest.Code) *wasmtest.Code { return c.BlockOf(0x02, of).Op(wasmtest.Unreachable).End() }
			m.Func("f", nil, nil, nil, block(block(wasmtest.Asm().Call(0))).Op(wasmtest.Unreachable))
		},
		"code": func(m *wasmtest.Module) {
			m.Func("f", nil, nil, nil, wasmtest.Asm().Call(0).Op(bytes.Repeat([]byte{wasmtest.Nop}, 20*4096)...))
		},
	} {
		var m wasmtest.Module
		make(&m)
		g := startMetered(t, newRuntime(t), m.Bytes(), Options{})
		g.arm(budget, Options{})
		if _, err := g.call("f"); err == nil || Cause(g.get(GlobalCause)) != CauseDepth {
			t.Errorf("%s: endless recursion: %v, cause %d", name, err, g.get(GlobalCause))
		}
		if calls := budget - g.remaining(); calls > DefaultDepthMax/20+1 {
			t.Errorf("%s: %d activations that cost 20 each", name, calls)
		}
	}
}

func TestMemoryAndTableCaps(t *testing.T) {
	for _, c := range []struct {
		low, high, pages int
		grow             int32
		want             uint32
	}{
		{1, -1, 4, 3, 1}, {1, -1, 4, 4, ^uint32(0)}, {1, 2, 4, 2, ^uint32(0)}, {1, 9, 4, 3, 1}, {1, 9, 4, 4, ^uint32(0)}, {4, -1, 4, 0, 4},
	} {
		var m wasmtest.Module
		m.Memory(c.low, c.high)
		m.Table(wasmtest.Externref, c.low, c.high)
		m.Func("memory.grow", nil, []byte{wasmtest.I32}, nil, wasmtest.Asm().I32(c.grow).Op(0x40, 0))
		m.Func("table.grow", nil, []byte{wasmtest.I32}, nil, wasmtest.Asm().Op(0xd0, wasmtest.Externref).I32(c.grow).Misc(0x0f, 0))
		g := startMetered(t, newRuntime(t), m.Bytes(), Options{MemoryPagesMax: uint32(c.pages), TableEntriesMax: uint32(c.pages)})
		g.arm(budget, Options{})
		for _, fn := range []string{"memory.grow", "table.grow"} {
			got, err := g.call(fn)
			if err != nil || uint32(got[0]) != c.want {
				t.Errorf("%+v: %s: %d, %v", c, fn, int32(got[0]), err)
			}
		}
	}
	var m wasmtest.Module
	m.Memory(5, -1)
	_, _, err := Rewrite(m.Bytes(), Options{MemoryPagesMax: 4})
	if err == nil || !strings.Contains(err.Error(), "at most 4 are allowed") {
		t.Errorf("minimum above the cap: %v", err)
	}
	var n wasmtest.Module
	n.Table(wasmtest.Funcref, 5, -1)
	if _, _, err := Rewrite(n.Bytes(), Options{TableEntriesMax: 4}); err == nil {
		t.Error("a table above the cap is accepted")
	}
}

// TestNoMemory: a module without memory gets safepoints all the same.
func TestNoMemory(t *testing.T) {
	var m wasmtest.Module
	m.Func("f", nil, nil, []byte{wasmtest.I32}, countdown(wasmtest.Asm(), 0, 1000, nil))
	o := Options{SafepointTicks: 7}
	g := startMetered(t, newRuntime(t), m.Bytes(), o)
	g.arm(1000, o)
	if _, err := g.call("f"); err != nil || g.remaining() != 0 {
		t.Errorf("%v, %d remain", err, g.remaining())
	}
}

func TestOtherTrapsHaveNoCause(t *testing.T) {
	for name, code := range map[string]*wasmtest.Code{
		"unreachable": wasmtest.Asm().Op(wasmtest.Unreachable),
		"division":    wasmtest.Asm().I32(1).I32(0).Op(wasmtest.I32DivS, wasmtest.Drop),
		"memory":      wasmtest.Asm().I32(-1).Mem(wasmtest.I32Load, 0).Op(wasmtest.Drop),
	} {
		var m wasmtest.Module
		m.Memory(1, 1)
		m.Func("f", nil, nil, nil, code)
		g := startMetered(t, newRuntime(t), m.Bytes(), Options{})
		g.arm(budget, Options{})
		if _, err := g.call("f"); err == nil || g.get(GlobalCause) != uint64(CauseNone) {
			t.Errorf("%s: %v, cause %d", name, err, g.get(GlobalCause))
		}
	}
}

// TestStartFunction: what runs on instantiation has the budget of StartTicks.
func TestStartFunction(t *testing.T) {
	var m wasmtest.Module
	f := m.Func("", nil, nil, []byte{wasmtest.I32}, countdown(wasmtest.Asm(), 0, 100, nil))
	m.Start(f)
	if g := startMetered(t, newRuntime(t), m.Bytes(), Options{StartTicks: 150}); g.remaining() != 50 {
		t.Errorf("%d ticks remain, want 50", g.remaining())
	}
	metered, info, err := Rewrite(m.Bytes(), Options{StartTicks: 99})
	if err != nil || !info.Start {
		t.Fatal(err, info)
	}
	if _, err := newRuntime(t).Instantiate(t.Context(), metered); err == nil {
		t.Error("a start function beyond its budget ran to its end")
	}
}

// TestRestore restores an instance through the exports alone.
func TestRestore(t *testing.T) {
	var m wasmtest.Module
	m.Memory(1, 1)
	a := m.Global(wasmtest.I32, true, wasmtest.I32Const(5))
	m.Global(wasmtest.I32, false, wasmtest.I32Const(6))
	b := m.Global(wasmtest.I64, true, wasmtest.Asm().I64(-7))
	m.Func("bump", nil, []byte{wasmtest.I32}, nil, wasmtest.Asm().
		GlobalGet(a).I32(1).Op(wasmtest.I32Add).GlobalSet(a).
		GlobalGet(b).I64(2).Op(wasmtest.I64Add).GlobalSet(b).
		GlobalGet(a).GlobalGet(b).Op(wasmtest.I32WrapI64, wasmtest.I32Mul))
	_, info, err := Rewrite(m.Bytes(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if ok, why := info.Resettable(); !ok || len(info.MutableGlobals) != 2 {
		t.Fatalf("resettable %v %s, globals %v", ok, why, info.MutableGlobals)
	}
	g := startMetered(t, newRuntime(t), m.Bytes(), Options{})
	saved := map[string]uint64{}
	for _, v := range info.MutableGlobals {
		saved[v.Export] = g.get(v.Export)
	}
	first, _ := g.call("bump")
	second, _ := g.call("bump")
	for name, v := range saved {
		g.set(name, v)
	}
	again, err := g.call("bump")
	if err != nil || again[0] != first[0] || second[0] == first[0] {
		t.Errorf("first %v, second %v, after the restore %v, %v", first, second, again, err)
	}
}

// TestErrorSaysWhere names section, function, offset and what to do.
func TestErrorSaysWhere(t *testing.T) {
	var m wasmtest.Module
	m.Import("env", "f", nil, nil)
	m.Func("", nil, nil, nil, wasmtest.Asm().Op(wasmtest.Nop))
	m.Func("", nil, nil, nil, wasmtest.Asm().Op(wasmtest.Nop, wasmtest.Nop, 0x12, 0x00))
	b := m.Bytes()
	_, err := Inspect(b)
	var e *Error
	if !errors.As(err, &e) {
		t.Fatal(err)
	}
	want := Error{Section: "code", Func: 2, Offset: bytes.LastIndexByte(b, 0x12)}
	if e.Section != want.Section || e.Func != want.Func || e.Offset != want.Offset ||
		!strings.Contains(e.Msg, "tail calls") || e.Fix == "" {
		t.Errorf("got %+v", e)
	}
	if !strings.Contains(err.Error(), "code section, function 2, offset 0x") {
		t.Error(err)
	}
}
