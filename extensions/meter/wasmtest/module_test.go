package wasmtest

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// TestRuns assembles one of everything and runs it.
func TestRuns(t *testing.T) {
	var m Module
	log := m.Import("env", "add", []byte{I32, I32}, []byte{I32})
	m.Memory(1, 2)
	m.Table(Funcref, 2, -1)
	g := m.Global(I32, true, I32Const(-5))
	m.Data(16, []byte{40})
	passive := m.PassiveData([]byte{2})
	m.Custom("note", []byte("x"))
	typ := m.Type([]byte{I32}, []byte{I32})
	double := m.Func("", []byte{I32}, []byte{I32}, nil, Asm().Get(0).I32(2).Op(I32Mul))
	m.Elements(1, double)
	m.PassiveElements(double)
	begin := m.Func("", nil, nil, nil, Asm().I32(17).I32(0).I32(1).Misc(0x08, passive, 0))
	m.Start(begin)
	// ((mem[16] + mem[17]) doubled through the table) + global, counted down to zero
	m.Func("f", nil, []byte{I32}, []byte{I32}, Asm().
		I32(0).Mem(I32Load8U, 16).I32(0).Mem(I32Load8U, 17).Call(log).
		I32(1).CallIndirect(typ, 0).GlobalGet(g).Op(I32Add).Set(0).
		Block(Void).Loop(Void).Get(0).Op(I32Eqz).BrIf(1).Get(0).I32(1).Op(I32Sub).Set(0).
		GlobalGet(g).I32(1).Op(I32Add).GlobalSet(g).Br(0).End().End().
		GlobalGet(g))
	ctx := context.Background()
	rt := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(api.CoreFeaturesV2))
	defer rt.Close(ctx)
	_, err := rt.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithFunc(func(a, b uint32) uint32 { return a + b }).Export("add").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	mod, err := rt.Instantiate(ctx, m.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	got, err := mod.ExportedFunction("f").Call(ctx)
	if err != nil || int32(got[0]) != 2*42-5-5 {
		t.Errorf("%v, %v, want %d", got, err, 2*42-5-5)
	}
}
