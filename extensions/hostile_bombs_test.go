package extensions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
)

// locals are n locals behind the one parameter of a bomb.
func locals(n int) []byte { return slices.Repeat([]byte{wasmtest.I32}, n) }

// bombs are small functions that take the engine long, or much memory, each by
// what of it grows faster than the code. n is how large; what must be refused is
// some times what the largest real module has.
var bombs = []struct {
	name, says string
	n          int
	make       func(m *wasmtest.Module, n int)
}{
	{"branch tables of every block", "targets of branch tables", 200, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range n {
			c.Block(wasmtest.Void)
		}
		for open := n; open > 0; open-- {
			labels := make([]uint32, n)
			for i := range labels {
				labels[i] = uint32(i % open)
			}
			c.Get(0).BrTable(labels...).End()
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"one wide branch table", "targets of branch tables", 15_000, func(m *wasmtest.Module, n int) {
		m.Func("", locals(1), nil, nil, wasmtest.Asm().Block(wasmtest.Void).Get(0).BrTable(make([]uint32, n)...).End())
	}},
	{"many branches", "branches, ends of blocks", 5_000, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range n {
			c.Get(0).If(wasmtest.Void).End()
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"locals that live over branches", "values carried", 300, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for i := range n {
			c.Get(0).Mem(wasmtest.I32Load, uint32(4*i)).Set(uint32(1 + i))
		}
		for range n {
			c.Get(0).If(wasmtest.Void).End()
		}
		for i := range n {
			c.I32(0).Get(uint32(1+i)).Mem(wasmtest.I32Store, 0)
		}
		m.Func("", locals(1), nil, locals(n), c)
	}},
	{"operands that live over branches", "values carried", 500, func(m *wasmtest.Module, n int) {
		results := locals(n)
		c := wasmtest.Asm().BlockOf(0x02, m.Type(nil, results))
		for range n {
			c.Get(0)
		}
		for range n {
			c.Get(0).BrIf(0)
		}
		c.End()
		for range n {
			c.Op(wasmtest.Drop)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"calls of many values", "values carried", 300, func(m *wasmtest.Module, n int) {
		t := m.Type(locals(n), locals(n))
		f := m.FuncRaw("", t, []byte{0, wasmtest.Unreachable, 0x0b})
		c := wasmtest.Asm()
		for range n {
			c.I32(1)
		}
		for range n + n {
			c.Call(f)
		}
		for range n {
			c.Op(wasmtest.Drop)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"calls of a module with many globals", "values carried", 500, func(m *wasmtest.Module, n int) {
		for range n {
			m.Global(wasmtest.I32, true, wasmtest.I32Const(0))
		}
		f := m.Func("", nil, nil, nil, wasmtest.Asm())
		c := wasmtest.Asm()
		for range n {
			c.Call(f)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"loops in loops", "loops in each other", 65, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range n {
			c.Loop(wasmtest.Void)
		}
		for range n {
			c.Get(0).BrIf(0).End()
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"a huge function", "bytes of code, metered", 30_000, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range n {
			c.Get(0).I32(1).Op(wasmtest.I32Add).Set(0)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"calls one after the other", "calls, at most", 7_000, func(m *wasmtest.Module, n int) {
		f := m.Func("", nil, nil, nil, wasmtest.Asm())
		c := wasmtest.Asm()
		for range n {
			c.Call(f)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"fills one after the other", "instructions that compile to many", 4_001, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range n {
			c.I32(0).I32(0).I32(0).Misc(11, 0)
		}
		m.Func("", locals(1), nil, nil, c)
	}},
	{"many functions that each pass", "compiling it would take about", 400, func(m *wasmtest.Module, n int) {
		c := wasmtest.Asm()
		for range 2_000 {
			c.Get(0).If(wasmtest.Void).End()
		}
		for range n {
			m.Func("", locals(1), nil, nil, c)
		}
	}},
	{"types of many values", "compiling it would take about", 4_000, func(m *wasmtest.Module, n int) {
		for range n {
			m.Type(locals(1_000), nil)
		}
	}},
}

// TestAttackBombs: what would take the engine too long to compile is refused before
// it is compiled, by stage effort, with what there is too much of and what to do.
func TestAttackBombs(t *testing.T) {
	h, _ := openTest(t, Options{})
	for _, b := range bombs {
		t.Run(b.name, func(t *testing.T) {
			load := func(n int, version string) error {
				g := newGuest(SlotChat, version)
				b.make(g.module, n)
				_, err := h.Load(t.Context(), g.bytes(t), nil, nil)
				return err
			}
			refused, ok := errors.AsType[*guest.LoadError](load(b.n, "large"))
			if !ok || refused.Stage != "effort" || !strings.Contains(refused.Reason, b.says) ||
				!strings.Contains(refused.Fix, "split the function") && !strings.Contains(refused.Fix, "leave code out") {
				t.Errorf("%v; want stage effort, %q and what to do", refused, b.says)
			}
			if err := load(max(1, b.n/50), "small"); err != nil {
				t.Errorf("a fiftieth of it: %v", err)
			}
		})
	}
}

// TestBombsServe: a module that served before there was this bound serves after a restart.
func TestBombsServe(t *testing.T) {
	g := newGuest(SlotChat, "1")
	wide := bombs[1]
	wide.make(g.module, wide.n)
	f, err := guest.Read(g.bytes(t))
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Compile(t.Context(), guest.Options{Served: true})
	if err != nil {
		t.Fatal(err)
	}
	m.Close()
}
