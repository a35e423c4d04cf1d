package check

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"log/slog"
	"strings"
	"testing"
	"time"

	"corenode/extensions"
	w "corenode/extensions/meter/wasmtest"
	"corenode/wasm/builtin"
)

// Places in the memory of the modules made here.
const (
	atOK      = 16 // an empty output frame
	atDecline = 32
	atInput   = 4096
)

// packed is a pointer and a length of 8 as call gives them.
func packed(at int64) *w.Code { return w.Asm().I64(at<<32 | 8) }

// made is a module whose call has this body. change may add to it first.
func made(t *testing.T, manifest, vectors string, call *w.Code, change func(*w.Module)) []byte {
	t.Helper()
	var m w.Module
	if change != nil {
		change(&m)
	}
	m.Memory(64, 64)
	m.Func("abi", nil, w.Types(w.I32), nil, w.I32Const(1<<16))
	m.Func("buf", w.Types(w.I32), w.Types(w.I32), nil, w.I32Const(atInput))
	m.Func("init", w.Types(w.I32), w.Types(w.I64), nil, packed(atOK))
	m.Func("call", w.Types(w.I32, w.I32), w.Types(w.I64), nil, call)
	m.Data(atDecline, []byte{2})
	module, err := Pack(m.Bytes(), []byte(manifest), []byte(vectors))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

const (
	gateManifest = `{"name": "gate", "kind": "admission", "version": "1.0.0", "abi": "1.0"}`
	tollManifest = `{"name": "toll", "kind": "billing", "version": "1.0.0", "abi": "1.0"}`
	gateVectors  = `[{"name": "a", "op": "decide", "admission": {}, "want": {"decline": true}}]`
)

// TestFile takes hand-made modules through the load path and the check.
func TestFile(t *testing.T) {
	forever := w.Asm().Loop(w.Void).Br(0).End().I64(0)
	trapAt := func(what *w.Code) *w.Code { return what.If(w.Void).Op(w.Unreachable).End().I64(atDecline<<32 | 8) }
	cases := []struct {
		defect, manifest string
		call             *w.Code
		change           func(*w.Module)
		stage, says      string // "" = nothing must be fixed
	}{
		{"none", gateManifest, packed(atDecline), nil, "", ""},
		{"it spins", gateManifest, forever, nil, "vectors", "ticks"},
		{"it calls itself", gateManifest, w.Asm().Get(0).Get(1).Call(3), nil, "vectors", "nested too deep"},
		{"it gives nothing", gateManifest, w.Asm().I64(0), nil, "vectors", "gave no output"},
		{"it points outside", gateManifest, w.Asm().I64(0x7fff_0000<<32 | 8), nil, "vectors", "outside its memory"},
		{"its frame is none", gateManifest, packed(atInput), nil, "hostile input", "no output frame"},
		{"it traps on long input", gateManifest, trapAt(w.Asm().Get(1).I32(1000).Op(w.I32GtU)), nil, "hostile input", "every number"},
		{"it traps on no input", gateManifest, trapAt(w.Asm().Get(1).Op(w.I32Eqz)), nil, "hostile input", "cut to 0 bytes"},
		{"it traps on an unknown op", gateManifest, trapAt(w.Asm().Get(0).I32(99).Op(w.I32Eq)), nil, "hostile input", "unknown op 99"},
		{"it wants a clock", gateManifest, packed(atDecline), func(m *w.Module) {
			m.Import("env", "now", nil,
				w.Types(w.I64))
		}, "load", "env.now"},
		{"it computes with floats", tollManifest, w.Asm().Op(0x44, 0, 0, 0, 0, 0, 0, 0,
			0).Op(w.Drop).I64(atDecline<<32 | 8), nil, "load", "must not use floats"},
	}
	for _, c := range cases {
		r := File(made(t, c.manifest, gateVectors, c.call, c.change), quick(), nil)
		if c.says == "" && !r.Passed || c.says != "" && !strings.Contains(findings(r, c.stage), c.says) {
			t.Errorf("%s: want %q in stage %q:\n%s", c.defect, c.says, c.stage, written(r))
		}
	}
	if r := File([]byte("\x00asm"), quick(), nil); r.Passed || !strings.Contains(written(r), "not a WebAssembly module") {
		t.Errorf("no module at all:\n%s", written(r))
	}
}

// TestNodeAgrees: a node takes what check takes, and what a node refuses before
// a module may serve, check refuses with the node's words.
func TestNodeAgrees(t *testing.T) {
	h, err := extensions.Open(extensions.Options{AllowUnsigned: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for name, module := range map[string][]byte{
		"good":  made(t, gateManifest, gateVectors, packed(atDecline), nil),
		"spins": made(t, gateManifest, gateVectors, w.Asm().Loop(w.Void).Br(0).End().I64(0), nil),
		"traps": made(t, gateManifest, gateVectors,
			w.Asm().Get(1).I32(150).Op(w.I32GtU).If(w.Void).Op(w.Unreachable).End().I64(atDecline<<32|8), nil),
		"remembers": made(t, gateManifest, gateVectors, w.Asm().I32(0).I32(0).Mem(w.I32Load, 0).I32(1).Op(w.I32Add).Mem(w.I32Store, 0).
			I32(0).Mem(w.I32Load, 0).I32(2).Op(w.I32GeU).If(w.Void).Op(w.Unreachable).End().I64(atDecline<<32|8), nil),
	} {
		r := File(module, quick(), nil)
		_, err := h.Load(t.Context(), module, nil, nil)
		said := findings(r, "node")
		if err == nil && said != "" || err != nil && (said == "" || !strings.Contains(err.Error(), said[strings.Index(said, ": ")+2:])) {
			t.Errorf("%s: the node says %v, check says %q", name, err, said)
		}
	}
	bare := made(t, gateManifest, gateVectors, packed(atDecline), nil)
	bare = bytes.Replace(bare, []byte("corenode.vectors"), []byte("corenode.nothing"), 1)
	if said := findings(File(bare, quick(), nil), "node"); !strings.Contains(said, "modules.trusted_keys") {
		t.Errorf("without vectors check says %q of a node with trusted keys", said)
	}
}

// TestCountingModule: a module whose answer tells how often it was called.
func TestCountingModule(t *testing.T) {
	const at, retry = 64, 64 + 8 + 4 // a frame with a decision, and its time to wait
	count := w.Asm().I32(retry).I32(retry).Mem(w.I32Load, 0).I32(1).Op(w.I32Add).Mem(w.I32Store, 0).I64(at<<32 | 16)
	vectors := `[{"name": "a", "op": "decide", "admission": {}, "want": {"decision": {"verdict": "allow", "retry_after_ms": 1}}}]`
	module := made(t, gateManifest, vectors, count, func(m *w.Module) { m.Data(at, []byte{0, 0, 0, 0, 8, 0, 0, 0}) })
	r := File(module, quick(), nil)
	if got := findings(r, "determinism"); !strings.Contains(got, "on a used instance") || strings.Contains(got,
		`"a", op decide, gives other bytes on a fresh`) {
		t.Error(written(r))
	}
}

// TestGrowingMemory: a module whose memory grows with each call.
func TestGrowingMemory(t *testing.T) {
	grow := w.Asm().I32(1).Op(0x40, 0).Op(w.Drop).I64(atDecline<<32 | 8)
	var m w.Module
	m.Memory(64, -1)
	m.Func("abi", nil, w.Types(w.I32), nil, w.I32Const(1<<16))
	m.Func("buf", w.Types(w.I32), w.Types(w.I32), nil, w.I32Const(atInput))
	m.Func("init", w.Types(w.I32), w.Types(w.I64), nil, packed(atOK))
	m.Func("call", w.Types(w.I32, w.I32), w.Types(w.I64), nil, grow)
	m.Data(atDecline, []byte{2})
	module, err := Pack(m.Bytes(), []byte(gateManifest), []byte(gateVectors))
	if err != nil {
		t.Fatal(err)
	}
	if r := File(module, quick(), nil); !strings.Contains(findings(r, "memory"), "from 4194304 to 134217728 bytes") {
		t.Error(written(r))
	}
}

// TestShipped: the modules that ship have nothing to fix, and their native
// builds pass their vectors.
func TestShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("compiling takes seconds")
	}
	for _, m := range builtin.Modules() {
		file, err := m.Wasm()
		if err != nil {
			t.Fatal(err)
		}
		r := File(file, quick(), slog.New(slog.DiscardHandler))
		if !r.Passed {
			t.Errorf("%s:\n%s", m.Name, written(r))
		}
		for _, s := range r.Stages {
			if s.Name == "native" && len(s.Findings) > 0 {
				t.Errorf("%s: %s", m.Name, written(r))
			}
		}
	}
}

func TestBench(t *testing.T) {
	module := made(t, gateManifest, gateVectors, packed(atDecline), nil)
	figures, err := Bench(module, nil, time.Millisecond, nil)
	if err != nil || len(figures) != 2 {
		t.Fatalf("%+v, %v", figures, err)
	}
	for _, f := range figures {
		if f.NS <= 0 || f.OutputBytes != 8 {
			t.Errorf("%+v", f)
		}
	}
	var b bytes.Buffer
	WriteFigures(&b, figures)
	if !strings.Contains(b.String(), "an empty call") || !strings.Contains(b.String(), "decide") {
		t.Error(b.String())
	}
}

// TestSignature signs with a key that was written and read again.
func TestSignature(t *testing.T) {
	text, public, err := NewKey()
	if err != nil {
		t.Fatal(err)
	}
	key, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := base64.StdEncoding.DecodeString(public)
	if err != nil {
		t.Fatal(err)
	}
	module := made(t, gateManifest, gateVectors, packed(atDecline), nil)
	signature, err := Sign(key, module)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(signature)))
	if err != nil || !ed25519.Verify(trusted, extensions.SignedMessage(module), raw) {
		t.Errorf("the signature does not verify: %v", err)
	}
	if ed25519.Verify(trusted, extensions.SignedMessage(append(module, 0)), raw) {
		t.Error("the signature is good for a changed module")
	}
	if _, err := Sign(key, []byte("#!/bin/sh")); err == nil {
		t.Error("a script was signed")
	}
	for _, bad := range []string{"", "x", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := ParseKey([]byte(bad)); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
}
