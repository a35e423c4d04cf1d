package meter

import (
	"bytes"
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"corenode/extensions/meter/wasmtest"
)

// FuzzRewrite feeds arbitrary bytes: nothing panics, and what is accepted and
// compiles as it is compiles metered as well.
func FuzzRewrite(f *testing.F) {
	f.Add([]byte{})
	f.Add(wasmtest.Preamble())
	f.Add(spin())
	for i := range 8 {
		f.Add(randomModule(randomBytes(uint64(i))))
	}
	files, _ := filepath.Glob("testdata/*.wasm")
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	rt := newFuzzRuntime(f)
	f.Fuzz(func(t *testing.T, module []byte) {
		before := bytes.Clone(module)
		metered, info, err := Rewrite(module, Options{MemoryPagesMax: 16, TableEntriesMax: 1000})
		if !bytes.Equal(before, module) {
			t.Fatal("the input was changed")
		}
		if err != nil {
			return
		}
		if len(metered) > 16*len(module)+400 || info == nil {
			t.Fatalf("%d bytes became %d", len(module), len(metered))
		}
		attached, err := WithCustomSection(module, "corenode.manifest", []byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Inspect(attached); again == nil {
			t.Fatal("a module with a section attached is refused")
		}
		if data, n, err := CustomSection(attached, "corenode.manifest"); err != nil || n != 1 || string(data) != "{}" {
			t.Fatalf("%d sections attached, the first %q, %v", n, data, err)
		}
		plain, err := rt.CompileModule(context.Background(), module)
		if err != nil {
			return
		}
		plain.Close(context.Background())
		c, err := rt.CompileModule(context.Background(), metered)
		if err != nil {
			t.Fatalf("metered: %v", err)
		}
		c.Close(context.Background())
		if _, _, err := Rewrite(metered, Options{}); err == nil {
			t.Fatal("a metered module is metered again")
		}
	})
}

func randomBytes(seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 7))
	b := make([]byte, 40+r.IntN(400))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// outcome is all that can be seen of a run.
type outcome struct {
	result  uint64
	trapped bool
	g1      uint64
	memory  []byte
}

func observe(t *testing.T, g *guest) outcome {
	t.Helper()
	var o outcome
	got, err := g.call("f0", 3)
	o.trapped = err != nil
	if err == nil {
		o.result = got[0]
	}
	o.g1 = g.get("g1")
	m := g.mod.Memory()
	o.memory, _ = m.Read(0, m.Size())
	o.memory = bytes.Clone(o.memory)
	return o
}

// differ runs a made module plain and metered and compares all that can be
// seen, and the ticks of two runs, and what a smaller budget does.
func differ(t *testing.T, rt wazero.Runtime, in []byte) (trapped bool, ticks int64) {
	t.Helper()
	module := randomModule(in)
	ctx := context.Background()
	plain := start(t, rt, module)
	defer plain.mod.Close(ctx)
	want := observe(t, plain)
	o := Options{SafepointTicks: 50}
	metered, _, err := Rewrite(module, o)
	if err != nil {
		t.Fatalf("%x: %v", in, err)
	}
	var used [2]int64
	for i := range used {
		g := start(t, rt, metered)
		defer g.mod.Close(ctx)
		g.arm(budget, o)
		got := observe(t, g)
		used[i] = budget - g.remaining()
		if got.result != want.result || got.trapped != want.trapped || got.g1 != want.g1 || !bytes.Equal(got.memory, want.memory) {
			t.Fatalf("%x: metered %d %v %d, plain %d %v %d, memory equal: %v", in, got.result, got.trapped, got.g1,
				want.result, want.trapped, want.g1, bytes.Equal(got.memory, want.memory))
		}
		if c := Cause(g.get(GlobalCause)); c != CauseNone {
			t.Fatalf("%x: cause %d with plenty of budget", in, c)
		}
		if d := int64(g.get(GlobalDepth)); !got.trapped && d != DefaultDepthMax {
			t.Fatalf("%x: depth %d remains after the call returned", in, d)
		}
	}
	if used[0] != used[1] {
		t.Fatalf("%x: %d ticks and then %d", in, used[0], used[1])
	}
	if used[0] > 1 {
		g := start(t, rt, metered)
		defer g.mod.Close(ctx)
		g.arm(used[0]/2, o)
		if _, err := g.call("f0", 3); err == nil && g.remaining() >= 0 {
			t.Fatalf("%x: %d ticks ran on a budget of %d", in, used[0], used[0]/2)
		}
	}
	return want.trapped, used[0]
}

// FuzzDifferential makes modules out of bytes: metered and plain agree.
func FuzzDifferential(f *testing.F) {
	for i := range 8 {
		f.Add(randomBytes(uint64(i)))
	}
	rt := newFuzzRuntime(f)
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) < 4096 {
			differ(t, rt, in)
		}
	})
}

// newFuzzRuntime keeps no compiled modules, of which there are too many.
func newFuzzRuntime(t testing.TB) wazero.Runtime {
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2))
	t.Cleanup(func() { rt.Close(ctx) })
	return rt
}

// TestDifferential is the same over fixed seeds, and makes sure that the
// modules do something.
func TestDifferential(t *testing.T) {
	rt := newFuzzRuntime(t)
	n, trapped, busy := 300, 0, 0
	if testing.Short() {
		n = 60
	}
	for i := range n {
		trap, ticks := differ(t, rt, randomBytes(uint64(i)))
		if trap {
			trapped++
		}
		if ticks > 20 {
			busy++
		}
	}
	t.Logf("%d of %d trapped, %d took more than 20 ticks", trapped, n, busy)
	if trapped == 0 || trapped > n*3/4 || busy < n/4 {
		t.Errorf("%d of %d trapped and %d took more than 20 ticks: the modules test little", trapped, n, busy)
	}
}
