package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"corenode/actors/account"
	"corenode/extensions"
	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/node/admin"
	"corenode/node/config"
	"corenode/wasm/abi"
)

// liar is a translator that turns every request into one of another model and
// answers with a usage of nothing, whatever was used.
func liar(t *testing.T) []byte {
	native := []byte(`{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"Say hello."}]}`)
	return handmade(t, "liar", native, "data: {}\n\n", "data: {}\n\n")
}

// handmade is a translator that turns every request into native, answers the
// first event group that an instance gets with first, and others with then.
func handmade(t *testing.T, name string, native []byte, first, then string) []byte {
	t.Helper()
	return handmadeOf(t, guest.Manifest{Name: name, Kind: "translator", Protocol: "chat", Version: "1.0.0", ABI: "1.0"}, native, first, then, nil)
}

// framesIn puts output frames into the memory of a module, and gives what a call returns for each.
func framesIn(m *wasmtest.Module) func(payload []byte) int64 {
	next := 1024
	return func(payload []byte) int64 {
		f := append(abi.BeginOutput(nil, abi.StatusOK, 0), payload...)
		abi.EndOutput(f, 0)
		m.Data(next, f)
		packed := int64(next)<<32 | int64(len(f))
		next = (next + len(f) + 15) &^ 15
		return packed
	}
}

// handmadeOf is handmade with a manifest and the answers of further operations.
func handmadeOf(t *testing.T, manifest guest.Manifest, native []byte, first, then string, more map[abi.Op]string) []byte {
	t.Helper()
	m := &wasmtest.Module{}
	frame := framesIn(m)
	const lie = `{"model":"core-1.1-mini","choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}}`
	call := wasmtest.Asm()
	for _, answer := range []struct {
		op      abi.Op
		payload []byte
	}{{abi.OpRequest, abi.Translated{Body: native}.Append(nil)}, {abi.OpResponse, []byte(lie)}} {
		call.Get(0).I32(int32(answer.op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(frame(answer.payload)).Op(wasmtest.Return).End()
	}
	for op, answer := range more {
		call.Get(0).I32(int32(op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(frame([]byte(answer))).Op(wasmtest.Return).End()
	}
	const seen = 512
	call.Get(0).I32(int32(abi.OpEvents)).Op(wasmtest.I32Eq).If(wasmtest.Void)
	call.I32(seen).Mem(wasmtest.I32Load, 0).If(wasmtest.Void)
	call.I64(frame(abi.Written{Bytes: []byte(then)}.Append(nil))).Op(wasmtest.Return).End()
	call.I32(seen).I32(1).Mem(wasmtest.I32Store, 0).I64(frame(abi.Written{Bytes: []byte(first)}.Append(nil))).Op(wasmtest.Return).End()
	call.I64(frame([]byte(`{"error":{"message":"it lies","type":"t","code":"model_not_found"}}`)))
	i32, i64 := wasmtest.I32, wasmtest.I64
	m.Func("abi", nil, []byte{i32}, nil, wasmtest.I32Const(abi.Version))
	m.Func("buf", []byte{i32}, []byte{i32}, nil, wasmtest.I32Const(64<<10))
	m.Func("init", []byte{i32}, []byte{i64}, nil, wasmtest.Asm().I64(frame(nil)))
	m.Func("call", []byte{i32, i32}, []byte{i64}, nil, call)
	m.Memory(8, -1)
	text, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	m.Custom("corenode.manifest", text)
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

// serveBefore starts a node on which a module served before, when less was asked of one.
func serveBefore(t *testing.T, wasm []byte, change func(*config.Config)) (n *node, base, key string, operator *admin.Client) {
	t.Helper()
	return serveBeforeIn(t, "chat", wasm, change)
}

// serveBeforeIn is serveBefore with the slot.
func serveBeforeIn(t *testing.T, slot string, wasm []byte, change func(*config.Config)) (n *node, base, key string,
	operator *admin.Client) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	modules := filepath.Join(dir, "modules")
	if err := os.MkdirAll(modules, 0o700); err != nil {
		t.Fatal(err)
	}
	digest := fmt.Sprintf("%x", sha256.Sum256(wasm))
	for name, text := range map[string]string{digest + ".wasm": string(wasm),
		"state.json": `{"slots":{"` + slot + `":{"active":"sha256:` + digest + `"}}}`} {
		if err := os.WriteFile(filepath.Join(modules, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return startWithModules(t, func(cfg *config.Config) {
		cfg.DataDir = dir
		if change != nil {
			change(cfg)
		}
	})
}

// TestChargeOfABrokenStream: a translator that breaks its protocol when bytes of
// it are with the client ends the stream with an error, and what was computed is
// charged as ever. In mid-stream it may be that nothing of the answer was in the
// first group of events: then it is free.
func TestChargeOfABrokenStream(t *testing.T) {
	const native = `{"model":"core-1.1-mini","max_tokens":48,"stream":true,"ignore_eos":true,"messages":[{"role":"user","content":"Count."}]}`
	for name, c := range map[string]struct {
		change func(*config.Config)
		output func(tokens int64) bool
	}{
		"at its end":    {instantModels, func(tokens int64) bool { return tokens == 48 }},
		"in mid-stream": {nil, func(tokens int64) bool { return tokens > 0 && tokens <= 48 }},
	} {
		t.Run(name, func(t *testing.T) {
			n, base, key, operator := serveBefore(t, handmade(t, "breaks", []byte(native), "data: {}\n\n", "data: \xff\n\n"), c.change)
			status, answer, id := wholeChat(t, base, key, `{"anything":"at all"}`)
			e := settled(t, n, id)
			if status != 200 || !strings.HasPrefix(answer, "data: {}\n\n") || !strings.Contains(answer, "internal_error") || strings.Contains(answer, "\xff") ||
				strings.Contains(answer, "[DONE]") {
				t.Errorf("it answered %d %q", status, answer)
			}
			if name == "in mid-stream" && e.Reason == account.Failed && e.Usage == (abi.Usage{}) && e.Amount == 0 {
				t.Log("it broke before its first content")
			} else if e.Usage.Input() == 0 || !c.output(e.Usage.Output) || e.Amount == 0 || -e.Amount != listed(n, e) || e.Provisional {
				t.Errorf("charged %+v, want %d", e, listed(n, e))
			}
			all, err := operator.Modules()
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range all {
				if m.Name == "breaks" && (m.State != extensions.StateActive || m.Faults["protocol"] != 1) {
					t.Errorf("%+v", m)
				}
			}
		})
	}
}

// TestATranslatorOfNonsense: a translated request that is no JSON is the module's
// fault and not the client's, who is served by what ships.
func TestATranslatorOfNonsense(t *testing.T) {
	n, base, key, operator := serveBefore(t, handmade(t, "nonsense", []byte("{not json"), "data: {}\n\n", "data: {}\n\n"), instantModels)
	status, answer, id := wholeChat(t, base, key, `{"model":"core-1.1","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`)
	if status != 200 || !strings.Contains(answer, `"chat.completion"`) {
		t.Fatalf("%d %s", status, answer)
	}
	if e := settled(t, n, id); e.Usage.Output != 4 || -e.Amount != listed(n, e) {
		t.Errorf("charged %+v", e)
	}
	all, err := operator.Modules()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if m.Name == "nonsense" && (m.Faults["protocol"] != 1 || m.Fallbacks != 1) {
			t.Errorf("%+v", m)
		}
	}
}
