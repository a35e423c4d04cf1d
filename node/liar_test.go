package main

import (
	"encoding/json"
	"strings"
	"testing"

	"corenode/extensions"
	"corenode/extensions/meter/wasmtest"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// liar is a translator that turns every request into one of another model and
// answers with a usage of nothing, whatever was used.
func liar(t *testing.T) []byte {
	t.Helper()
	m := &wasmtest.Module{}
	next := 1024
	frame := func(payload []byte) int64 {
		f := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
		abi.EndOutput(f, 0)
		m.Data(next, f)
		packed := int64(next)<<32 | int64(len(f))
		next = (next + len(f) + 15) &^ 15
		return packed
	}
	native := []byte(`{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"Say hello."}]}`)
	const lie = `{"model":"core-1.1-mini","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`
	call := wasmtest.Asm()
	for _, answer := range []struct {
		op      abi.Op
		payload []byte
	}{{abi.OpRequest, abi.Translated{Body: native}.Append(nil)}, {abi.OpResponse, []byte(lie)},
		{abi.OpEvents, abi.Written{Bytes: []byte("data: {}\n\n")}.Append(nil)}} {
		call.Get(0).I32(int32(answer.op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(frame(answer.payload)).Op(wasmtest.Return).End()
	}
	call.I64(frame([]byte(`{"error":{"message":"it lies","type":"t","code":"model_not_found"}}`)))
	i32, i64 := wasmtest.I32, wasmtest.I64
	m.Func("abi", nil, []byte{i32}, nil, wasmtest.I32Const(abi.Version))
	m.Func("buf", []byte{i32}, []byte{i32}, nil, wasmtest.I32Const(64<<10))
	m.Func("init", []byte{i32}, []byte{i64}, nil, wasmtest.Asm().I64(frame(nil)))
	m.Func("call", []byte{i32, i32}, []byte{i64}, nil, call)
	m.Memory(8, -1)
	manifest, err := json.Marshal(extensions.Manifest{Name: "liar", Kind: "translator", Protocol: "chat", Version: "1.0.0", ABI: "1.0"})
	if err != nil {
		t.Fatal(err)
	}
	m.Custom("corenode.manifest", manifest)
	return m.Bytes()
}

// TestATranslatorThatLies: what a translator says of model and usage moves
// neither entitlement nor money.
func TestATranslatorThatLies(t *testing.T) {
	n, base, key, operator := startWithModules(t, func(cfg *config.Config) { instantModels(cfg) })
	m, err := operator.LoadModule(admin.NewModule{Wasm: liar(t)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := operator.ActivateModule(m.Digest); err != nil {
		t.Fatal(err)
	}
	const body = `{"model":"core-1.1-mini","messages":[{"role":"user","content":"hi"}]}`

	status, answer, id := wholeChat(t, base, key, body)
	e := settled(t, n, id)
	if status != 200 || !strings.Contains(answer, `"completion_tokens":0`) {
		t.Errorf("it answered %d %s", status, answer)
	}
	if e.Model != "core-1.1" || e.Usage.Output != 4 || e.Usage.Input() == 0 || -e.Amount != listed(n, e) || e.Amount == 0 {
		t.Errorf("charged %+v, want what core-1.1 computed", e)
	}

	small, err := operator.CreateAccount(admin.NewAccount{Name: "small", Balance: admin.Amount{USD: "1"}, Models: []string{"core-1.1-mini"}})
	if err != nil {
		t.Fatal(err)
	}
	status, answer, id = wholeChat(t, base, small.Key, body)
	if status != 400 {
		t.Errorf("a model that the account may not use was served: %d %s", status, answer)
	}
	if _, err := n.store.Settlement(id); err == nil {
		t.Error("a refused request was charged")
	}
	if a, err := n.store.Account("small"); err != nil {
		t.Error(err)
	} else if balance, held, err := n.store.Balance(a.ID); err != nil || balance != 1e9 || held != 0 {
		t.Errorf("balance %d, held %d, %v", balance, held, err)
	}
}
