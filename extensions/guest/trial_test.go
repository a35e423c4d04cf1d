package guest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// spinning is an admission policy whose every call is without end.
func spinning() []byte {
	return handmade(`{"name":"spin","kind":"admission","version":"1","abi":"1.0","ticks":{"call":200000000}}`,
		wasmtest.Asm().Loop(wasmtest.Void).Br(0).End().I64(0))
}

// handmade is a module whose calls all do the same.
func handmade(manifest string, call *wasmtest.Code) []byte {
	return handmadeOf(manifest, call).Bytes()
}

func handmadeOf(manifest string, call *wasmtest.Code) *wasmtest.Module {
	i32, i64 := wasmtest.I32, wasmtest.I64
	m := &wasmtest.Module{}
	m.Memory(8, -1)
	ok := abi.BeginOutput(nil, abi.StatusOK, 0)
	abi.EndOutput(ok, 0)
	m.Data(1024, ok)
	m.Func("abi", nil, []byte{i32}, nil, wasmtest.I32Const(abi.Version))
	m.Func("buf", []byte{i32}, []byte{i32}, nil, wasmtest.I32Const(4*pageBytes))
	m.Func("init", []byte{i32}, []byte{i64}, nil, wasmtest.Asm().I64(1024<<32|int64(len(ok))))
	m.Func("call", []byte{i32, i32}, []byte{i64}, nil, call)
	m.Custom(ManifestSection, []byte(manifest))
	return m
}

func compiled(t *testing.T, wasm []byte) *Module {
	f, err := Read(wasm)
	if err == nil {
		err = f.Check()
	}
	if err != nil {
		t.Fatal(err)
	}
	m, err := f.Compile(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestTrialEnds: a trial ends within a call when its processor time is up or
// its caller leaves, however many ticks are left.
func TestTrialEnds(t *testing.T) {
	wasm := spinning()
	for _, c := range []struct {
		name, want string
		shape      func(*trial, context.CancelFunc)
	}{
		{"processor time", "module refused (time): trying the module took more than 5s of processor time", func(t *trial,
			_ context.CancelFunc) {
			asked := 0
			t.began = func() time.Duration { asked++; return time.Duration(asked) * time.Second }
		}},
		{"the caller", context.Canceled.Error(), func(t *trial, leave context.CancelFunc) {
			asked := 0
			t.began = func() time.Duration {
				if asked++; asked == 10 {
					leave()
				}
				return 0
			}
		}},
		{"ticks", "may take 1 million ticks together", func(t *trial, _ context.CancelFunc) { t.ticks, t.spent = 1_000_000, 1_000_001 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m := compiled(t, wasm)
			defer m.Close()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			tr := newTrial(ctx, m, nil, VectorTicksMax)
			c.shape(tr, leave)
			_, err := tr.strict(false)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if limit := m.Manifest.Budget(abi.OpDecide, 0); tr.spent > limit/2 && c.name != "ticks" {
				t.Errorf("it took %d of the call's %d ticks", tr.spent, limit)
			}
		})
	}
}

// TestTrialOfWhatServed: a module that served may take longer than a new one, on a machine that is slower by now or busier.
func TestTrialOfWhatServed(t *testing.T) {
	over := func() time.Duration { return 2 * trialTimeMax }
	for _, strict := range []bool{false, true} {
		m := compiled(t, spinning())
		p, _, err := m.Serve(t.Context(), Trial{Ticks: VectorTicksServed, Strict: strict, clock: over},
			PoolOptions{InstancesMax: 1, Settle: func(_, _ time.Duration) {}})
		if refused, ok := errors.AsType[*LoadError](err); strict != (ok && refused.Stage == "time") || strict != (p == nil) {
			t.Errorf("strict %v: %v", strict, err)
		}
		if p != nil {
			p.Close()
		}
		m.Close()
	}
}

// TestRulesOfVectors: what a vector of a new module wants keeps the rules of every call; what served starts as it did.
func TestRulesOfVectors(t *testing.T) {
	out := abi.Decision{Verdict: abi.Reserve, Takes: []abi.Take{{Limit: 1, Max: 1}}}.Append(abi.BeginOutput(nil, abi.StatusOK, 0))
	abi.EndOutput(out, 0)
	made := handmadeOf(`{"name":"bold","kind":"admission","version":"1","abi":"1.1"}`, wasmtest.Asm().I64(2048<<32|int64(len(out))))
	made.Data(2048, out)
	made.Custom(VectorsSection, []byte(`[{"name": "v", "op": "decide", "admission": {}, "want": {"decision":
		{"verdict": "reserve", "takes": [{"limit": 1, "max": 1}]}}}]`))
	for _, strict := range []bool{false, true} {
		m := compiled(t, made.Bytes())
		p, _, err := m.Serve(t.Context(), Trial{Ticks: VectorTicksServed, Strict: strict},
			PoolOptions{InstancesMax: 1, Settle: func(_, _ time.Duration) {}})
		refused, ok := errors.AsType[*LoadError](err)
		if strict != (ok && refused.Stage == "vectors" && strings.Contains(err.Error(), "takes of 1 counters")) || strict != (p == nil) {
			t.Errorf("strict %v: %v", strict, err)
		}
		if p != nil {
			p.Close()
		}
		m.Close()
	}
}
