package meter

import (
	"context"
	"errors"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter/wasmtest"
)

// guest is a running instance of a module.
type guest struct {
	t   testing.TB
	mod api.Module
}

// compiled is shared by all runtimes of this test process, so that the Go guest
// is compiled once.
var compiled = wazero.NewCompilationCache()

func newRuntime(t testing.TB) wazero.Runtime {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2).WithCompilationCache(compiled))
	t.Cleanup(func() { rt.Close(ctx) })
	return rt
}

// start instantiates a module as it is.
func start(t testing.TB, rt wazero.Runtime, module []byte) *guest {
	t.Helper()
	mod, err := rt.InstantiateWithConfig(context.Background(), module, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	if err != nil {
		t.Fatalf("instantiate: %v", err)
	}
	return &guest{t, mod}
}

// startMetered rewrites and instantiates a module.
func startMetered(t testing.TB, rt wazero.Runtime, module []byte, o Options) *guest {
	t.Helper()
	metered, _, err := Rewrite(module, o)
	if err != nil {
		t.Fatalf("rewrite: %v", err)
	}
	return start(t, rt, metered)
}

func (g *guest) call(fn string, args ...uint64) ([]uint64, error) {
	return g.mod.ExportedFunction(fn).Call(context.Background(), args...)
}

func (g *guest) set(global string, v uint64) {
	g.mod.ExportedGlobal(global).(api.MutableGlobal).Set(v)
}

func (g *guest) get(global string) uint64 { return g.mod.ExportedGlobal(global).Get() }

func (g *guest) arm(ticks int64, o Options) {
	left, budget := Arm(ticks, o.SafepointTicks)
	g.set(GlobalLeft, left)
	g.set(GlobalBudget, budget)
	g.set(GlobalCause, 0)
}

func (g *guest) remaining() int64 { return Remaining(g.get(GlobalLeft), g.get(GlobalBudget)) }

// spin is a function that never returns.
func spin() []byte {
	var m wasmtest.Module
	m.Func("spin", nil, nil, nil, wasmtest.Asm().Loop(wasmtest.Void).Br(0).End())
	return m.Bytes()
}

func TestTickOut(t *testing.T) {
	rt := newRuntime(t)
	for _, ticks := range []int64{0, 1, 9, 10, 11, 1000} {
		o := Options{SafepointTicks: 10}
		g := startMetered(t, rt, spin(), o)
		g.arm(ticks, o)
		if _, err := g.call("spin"); err == nil {
			t.Fatal("an endless loop returned")
		}
		if c := Cause(g.get(GlobalCause)); c != CauseTicks {
			t.Errorf("cause %d, want ticks", c)
		}
		if r := g.remaining(); r != -1 {
			t.Errorf("budget %d: %d ticks remain, want -1", ticks, r)
		}
	}
}

func TestNotAModule(t *testing.T) {
	_, _, err := Rewrite([]byte("hello, world"), Options{})
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Fatalf("got %v", err)
	}
}
