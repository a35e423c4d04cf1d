package examples

import (
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"corenode/wasm/abi"
)

// guest is one instance of a module, called as the boundary's comment says and
// with nothing of the node's host in between.
type guest struct {
	module  api.Module
	counted map[int32]int64 // by the metric import
	logged  []string
}

// open instantiates a module and initializes it. The interpreter starts fast,
// which large guests need more here than speed.
func open(t *testing.T, wasm []byte, config string) *guest {
	t.Helper()
	ctx := context.Background()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	t.Cleanup(func() { _ = runtime.Close(ctx) })
	g := &guest{counted: make(map[int32]int64)}
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	_, err := runtime.NewHostModuleBuilder("corenode").
		NewFunctionBuilder().WithFunc(func(_ context.Context, m api.Module, level, at, n uint32) {
		text, _ := m.Memory().Read(at, n)
		g.logged = append(g.logged, fmt.Sprintf("%d %s", level, text))
	}).Export("log").
		NewFunctionBuilder().WithFunc(func(_ context.Context, id uint32, delta uint64) {
		g.counted[int32(id)] += int64(delta)
	}).Export("metric").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	g.module, err = runtime.InstantiateWithConfig(ctx, wasm, wazero.NewModuleConfig().WithStartFunctions("_initialize"))
	if err != nil {
		t.Fatal(err)
	}
	version, err := g.module.ExportedFunction("abi").Call(ctx)
	if err != nil || version[0] != abi.VersionGuest {
		t.Fatalf("abi: %d, %v", version, err)
	}
	out, err := g.run("init", []byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if o, err := abi.ParseOutput(out); err != nil || o.Status != abi.StatusOK {
		t.Fatalf("configuration %s: %+v %s, %v", config, o.Status, o.Payload, err)
	}
	return g
}

// run calls an export with input in the buffer and copies the output frame.
func (g *guest) run(export string, in []byte, before ...uint64) ([]byte, error) {
	ctx := context.Background()
	at, err := g.module.ExportedFunction("buf").Call(ctx, uint64(len(in)))
	if err != nil || !g.module.Memory().Write(uint32(at[0]), in) {
		return nil, fmt.Errorf("buffer of %d bytes at %d: %w", len(in), at, err)
	}
	place, err := g.module.ExportedFunction(export).Call(ctx, append(before, uint64(len(in)))...)
	if err != nil {
		return nil, err
	}
	frame, ok := g.module.Memory().Read(uint32(place[0]>>32), uint32(place[0]))
	if !ok || len(frame) == 0 {
		return nil, fmt.Errorf("output at %x", place[0])
	}
	return append([]byte(nil), frame...), nil
}

func (g *guest) call(op abi.Op, in []byte) ([]byte, error) { return g.run("call", in, uint64(op)) }
