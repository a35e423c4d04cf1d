package extensions

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// tried opens a host that tries modules as a node does.
func tried(t *testing.T, o Options) *Host {
	h, _ := openTest(t, o)
	h.untried = false
	return h
}

// goodGuest gives every usual call of its kind an answer that keeps the rules.
func goodGuest(kind Slot, version string) *handmade {
	g := newGuest(kind, version)
	switch kind {
	case SlotBilling:
		line := abi.Line{Unit: "token", Tokens: 1, Price: 5, Amount: 5}
		g.answers[abi.OpQuote] = abi.Quote{Upper: 9, Minimum: 1}.Append(nil)
		g.answers[abi.OpCharge] = abi.Charge{Total: 5, Lines: []abi.Line{line}}.Append(nil)
	case SlotAdmission:
		g.answers[abi.OpDecide] = abi.Decision{}.Append(nil)
	default:
		g.answers[abi.OpRequest] = abi.Translated{Body: []byte(`{"model":"m"}`)}.Append(nil)
		g.answers[abi.OpEvents] = abi.Written{Bytes: []byte("data: {}\n\n")}.Append(nil)
		g.answers[abi.OpResponse], g.answers[abi.OpError] = []byte("{}"), []byte("{}")
	}
	return g
}

// oneVector is a golden vector that a good billing guest passes.
const oneVector = `[{"name":"a","op":"quote","quote":{"input":1,"output_max":1},"want":{"quote":{"upper":9,"minimum":1}}}]`

// counting makes a guest's call depend on the calls before it.
func counting(g *handmade, then func(*wasmtest.Code)) {
	seen := g.module.Global(wasmtest.I32, true, wasmtest.Asm().I32(0))
	g.call = wasmtest.Asm().GlobalGet(seen).I32(1).Op(wasmtest.I32Add).GlobalSet(seen).
		GlobalGet(seen).I32(2).Op(wasmtest.I32GeU).If(wasmtest.Void)
	then(g.call)
	g.call.End()
	for op, payload := range g.answers {
		g.call.Get(0).I32(int32(op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(g.place(okFrame(payload))).Op(wasmtest.Return).End()
	}
	g.call.I64(0)
}

// TestFirstCalls: a module of each kind that keeps the rules is loaded. Those that
// do not are among TestAttacks.
func TestFirstCalls(t *testing.T) {
	h := tried(t, Options{})
	shapes := map[Slot]func(*handmade){SlotRewrite: gives(abi.OpRewrite, ""), SlotFilter: shows("", "x")}
	for _, kind := range Slots {
		good := goodGuest(kind, "good").bytes(t)
		if shape := shapes[kind]; shape != nil {
			good = policyGuest(t, kind, "good", 0, shape)
		}
		if _, err := h.Load(t.Context(), good, nil, nil); err != nil {
			t.Errorf("a module that keeps the rules: %v", err)
		}
	}
}

// TestVectorsAreRequired: where keys are trusted, a module shows by vectors
// that it answers right; where modules are written, a note says that it does not.
func TestVectorsAreRequired(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	g := goodGuest(SlotBilling, "1")
	bare := g.bytes(t)
	h := tried(t, Options{TrustedKeys: []ed25519.PublicKey{public}})
	_, err := h.Load(t.Context(), bare, Sign(private, bare), nil)
	if refused, ok := errors.AsType[*guest.LoadError](err); !ok || refused.Stage != "vectors" ||
		!strings.Contains(refused.Fix, "module pack") {
		t.Errorf("with a trusted key: %v, want a refusal at vectors", err)
	}
	g = goodGuest(SlotBilling, "2")
	g.vectors = oneVector
	full := g.bytes(t)
	if i, err := h.Load(t.Context(), full, Sign(private, full), nil); err != nil || i.Note != "" {
		t.Errorf("with a trusted key and vectors: %+v, %v", i, err)
	}
	if i, err := tried(t, Options{}).Load(t.Context(), bare, nil, nil); err != nil || i.Note != "it carries no golden vectors" {
		t.Errorf("without trusted keys: note %q, %v", i.Note, err)
	}
}

// TestVectorsAreRequiredByTheKeysOfNow: keys that come or go while the node runs bring what they require, or take it.
func TestVectorsAreRequiredByTheKeysOfNow(t *testing.T) {
	public, private, _ := ed25519.GenerateKey(nil)
	bare := goodGuest(SlotBilling, "1").bytes(t)
	h := tried(t, Options{})
	h.Trust([]ed25519.PublicKey{public}, nil)
	_, err := h.Load(t.Context(), bare, Sign(private, bare), nil)
	if refused, ok := errors.AsType[*guest.LoadError](err); !ok || refused.Stage != "vectors" {
		t.Errorf("with a trusted key: %v, want a refusal at vectors", err)
	}
	h.Trust(nil, nil)
	if i, err := h.Load(t.Context(), bare, nil, nil); err != nil || i.Note == "" {
		t.Errorf("without keys: note %q, %v", i.Note, err)
	}
}

// TestWhatServedIsNotTried: what load requires now does not bind a module that
// served before a restart; one that never served meets it when it is activated.
func TestWhatServedIsNotTried(t *testing.T) {
	dir := t.TempDir()
	bad := func(version string) []byte {
		g := goodGuest(SlotBilling, version)
		g.answers[abi.OpCharge] = abi.Charge{}.Append(nil)
		return g.bytes(t)
	}
	before, _ := openTest(t, Options{Dir: dir}) // as an earlier program did
	active := activate(t, before, bad("active"))
	idle, err := before.Load(t.Context(), bad("idle"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = before.Close()
	h := tried(t, Options{Dir: dir})
	if i, err := h.info(active.Digest); err != nil || i.State != StateActive {
		t.Errorf("after a restart it is %s, %v", i.State, err)
	}
	if _, err := h.Load(t.Context(), bad("new"), nil, nil); err == nil {
		t.Error("the same module under a new version is loaded")
	}
	_, err = h.Activate(idle.Digest)
	if refused, ok := errors.AsType[*guest.LoadError](err); !ok || refused.Stage != "probe" {
		t.Errorf("a module that never served is activated: %v", err)
	}
}

// TestEventsOfRoutesHoldAnything: a module with routes is loaded whatever its events hold, and one for chat is not.
func TestEventsOfRoutesHoldAnything(t *testing.T) {
	h := tried(t, Options{})
	for _, written := range []string{"data: a word\n\n", "data: 1\r\n\r\n", "data\n\n"} {
		routed := routedGuest("words", "1", "/words")
		routed.manifest.Framing = guest.FramingSSE
		routed.answers[abi.OpRequest] = abi.Translated{Body: []byte(`{"model":"m"}`)}.Append(nil)
		routed.answers[abi.OpResponse], routed.answers[abi.OpError] = []byte(`"a word"`), []byte(`"an error"`)
		chat := goodGuest(SlotChat, "1")
		for _, g := range []*handmade{routed, chat} {
			g.answers[abi.OpEvents] = abi.Written{Bytes: []byte(written)}.Append(nil)
			_, err := h.Load(t.Context(), g.bytes(t), nil, nil)
			if ok := g == routed && strings.HasPrefix(written, "data:"); ok != (err == nil) {
				t.Errorf("%s, %q: %v", g.manifest.Name, written, err)
			}
		}
	}
}

// TestLoadEndsWithItsCaller: nothing is kept of a module whose load was left.
func TestLoadEndsWithItsCaller(t *testing.T) {
	h := tried(t, Options{Dir: t.TempDir()})
	ctx, leave := context.WithCancel(t.Context())
	leave()
	before := len(h.Modules())
	if _, err := h.Load(ctx, goodGuest(SlotBilling, "1").bytes(t), nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the caller's", err)
	}
	if n := len(h.Modules()); n != before {
		t.Errorf("%d modules, before it %d", n, before)
	}
}

// TestStartFunctionIsACall: a start function runs under the budget of init, and
// what stops it is told as of any call.
func TestStartFunctionIsACall(t *testing.T) {
	h := tried(t, Options{})
	for _, c := range []struct {
		cause string
		code  func(self uint32) *wasmtest.Code
	}{
		{"ticks: the call used up its ticks", func(uint32) *wasmtest.Code { return wasmtest.Asm().Loop(wasmtest.Void).Br(0).End() }},
		{"depth: its calls are nested too deep", func(self uint32) *wasmtest.Code { return wasmtest.Asm().Call(self) }},
		{"trap: unreachable", func(uint32) *wasmtest.Code { return wasmtest.Asm().Op(wasmtest.Unreachable) }},
	} {
		g := goodGuest(SlotBilling, "1")
		g.module.Start(g.module.Func("", nil, nil, nil, c.code(0)))
		_, err := h.Load(t.Context(), g.bytes(t), nil, nil)
		refused, ok := errors.AsType[*guest.LoadError](err)
		if want := fmt.Sprintf("its start function: %s", c.cause); !ok || refused.Stage != "instantiate" ||
			refused.Reason != want || !strings.Contains(refused.Fix, "within its ticks") {
			t.Errorf("%v, want %q", err, want)
		}
	}
	g := goodGuest(SlotBilling, "2")
	ran := g.module.Global(wasmtest.I32, true, wasmtest.Asm().I32(0))
	g.module.Start(g.module.Func("", nil, nil, nil, wasmtest.Asm().I32(1).GlobalSet(ran)))
	g.config = func(c *wasmtest.Code) { // init wants that it ran
		c.GlobalGet(ran).Op(wasmtest.I32Eqz).If(wasmtest.Void).Op(wasmtest.Unreachable).End().I64(g.place(okFrame(nil)))
	}
	if _, err := h.Load(t.Context(), g.bytes(t), nil, nil); err != nil {
		t.Errorf("a start function that returns: %v", err)
	}
}
