package extensions

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// traffic sends requests over the responses slot and the native tariff until
// stop is called, which says how many there were; any failure fails the test.
func traffic(t *testing.T, h *Host) (stop func() int64) {
	var done atomic.Bool
	var n atomic.Int64
	var w, begun sync.WaitGroup
	for range 2 {
		begun.Add(1)
		w.Go(func() {
			first := sync.OnceFunc(begun.Done)
			for !done.Load() {
				tr := h.Translate(SlotResponses, "bystander", "", abi.Facts{})
				body, err := tr.Request([]byte("{}"))
				if err != nil || string(body) != `{"by":"good"}` {
					t.Errorf("a bystander's request: %s, %v", body, err)
				}
				out, err := tr.Events(nil, []abi.Event{{Kind: abi.EventStart}})
				if err != nil || string(out) != "data: good\n\n" {
					t.Errorf("a bystander's events: %s, %v", out, err)
				}
				tr.Close()
				n.Add(1)
				first()
			}
		})
	}
	begun.Wait()
	return func() int64 {
		done.Store(true)
		w.Wait()
		return n.Load()
	}
}

func goodResponses(t *testing.T) []byte {
	g := newGuest(SlotResponses, "good")
	g.answers = chatAnswers("good")
	return g.bytes(t)
}

// misbehavior is what a module does in every call, and the cause that is counted.
type misbehavior struct {
	name, cause string
	shape       func(g *handmade)
}

// misbehaviors are those that no operation of any kind may have.
func misbehaviors() []misbehavior {
	i32 := wasmtest.I32
	return []misbehavior{
		{"traps/trap", "trap", func(g *handmade) { g.call = wasmtest.Asm().Op(wasmtest.Unreachable) }},
		{"traps/division by zero", "trap", func(g *handmade) {
			g.call = wasmtest.Asm().I32(1).I32(0).Op(wasmtest.I32DivS,
				wasmtest.I64ExtendU)
		}},
		{"hangs/infinite loop", "ticks", func(g *handmade) { g.call = wasmtest.Asm().Loop(wasmtest.Void).Br(0).End().I64(0) }},
		{"hangs/endless recursion", "depth", func(g *handmade) {
			f := g.module.Func("", []byte{i32}, []byte{i32}, nil, wasmtest.Asm().Get(0).Call(0).I32(1).Op(wasmtest.I32Add))
			g.call = wasmtest.Asm().I32(1).Call(f).Op(wasmtest.I64ExtendU)
		}},
		{"bombs/memory bomb", "memory", func(g *handmade) {
			g.call = wasmtest.Asm().Loop(wasmtest.Void).I32(100).Imm(0x40,
				0).I32(-1).Op(wasmtest.I32Ne).BrIf(0).End().Op(wasmtest.Unreachable)
		}},
		{"translators/no output", "protocol", func(g *handmade) { g.call = wasmtest.Asm().I64(0) }},
		{"translators/output outside the memory", "protocol", func(g *handmade) { g.call = wasmtest.Asm().I64(0x7fffffff<<32 | 16) }},
		{"translators/output over the end", "protocol",
			func(g *handmade) { g.call = wasmtest.Asm().I64((guestPages*pageBytes-8)<<32 | 100) }},
		{"translators/output shorter than its header", "protocol", func(g *handmade) { g.call = wasmtest.Asm().I64(guestData<<32 | 3) }},
		{"bombs/huge output", "protocol", func(g *handmade) {
			g.call = wasmtest.Asm().I32(4000).Imm(0x40, 0).Op(wasmtest.Drop).I64(8<<32 | 200<<20)
		}},
		{"translators/length that is not the frame's", "protocol", func(g *handmade) {
			g.call = wasmtest.Asm().I64(g.place(append(okFrame(nil), 1, 2, 3)))
		}},
		{"translators/unknown status", "protocol", func(g *handmade) { g.call = wasmtest.Asm().I64(g.place(statusFrame(77, 0, nil))) }},
		{"translators/payload that does not decode", "protocol", func(g *handmade) {
			g.call = wasmtest.Asm().I64(g.place(okFrame([]byte{255, 255, 255, 255})))
		}},
	}
}

// TestAttacksWhileServing runs translators that misbehave in every op, while another
// slot has traffic: the request goes to the builtin, an answer is an error, an
// error is written by the builtin, and the cause is counted.
func TestAttacksWhileServing(t *testing.T) {
	state := misbehavior{"translators/state too big", "protocol", func(g *handmade) {
		g.answers = chatAnswers("big")
		g.answers[abi.OpEvents] = abi.Written{State: make([]byte, abi.StateBytesMax+1)}.Append(nil)
		for _, op := range []abi.Op{abi.OpRequest, abi.OpResponse, abi.OpError} {
			delete(g.answers, op)
		}
	}}
	for _, c := range append(misbehaviors(), state) {
		t.Run(c.name, func(t *testing.T) {
			h, l := openTest(t, Options{})
			activate(t, h, goodResponses(t))
			stop := traffic(t, h)
			g := newGuest(SlotChat, "bad")
			c.shape(g)
			bad := activate(t, h, g.bytes(t))

			tr := h.Translate(SlotChat, "a", "", abi.Facts{})
			if body, err := tr.Request([]byte("{}")); err != nil || string(body) != `{"by":"native"}` {
				t.Errorf("request: %s, %v", body, err)
			}
			tr.Close()
			tr = h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
			if out, err := tr.Events([]byte("before"),
				[]abi.Event{{Kind: abi.EventStart}}); abi.KindOf(err) != abi.Internal || string(out) != "before" {
				t.Errorf("events: %s, %v", out, err)
			}
			if out, err := tr.Response([]byte("before"),
				[]abi.Event{{Kind: abi.EventStart}}); abi.KindOf(err) != abi.Internal || string(out) != "before" {
				t.Errorf("response: %s, %v", out, err)
			}
			if out := tr.Error([]byte("before "), &abi.Error{Kind: abi.Internal}, 500); string(out) != `before {"error":"native"}` {
				t.Errorf("error: %s", out)
			}
			tr.Close()
			if n := stop(); n == 0 {
				t.Error("the bystander made no request")
			}
			info, err := h.info(bad.Digest)
			if err != nil || !strings.Contains(l.String(), "cause="+c.cause) {
				t.Errorf("%+v, %v, want cause %s; log:\n%s", info, err, c.cause, l)
			}
		})
	}
}

// TestAttackLeaks gives the same module to two accounts: it answers with what the
// caller before it sent, from its memory, from a global and from memory it has
// grown. Another account must see none of it; the same account may.
func TestAttackLeaks(t *testing.T) {
	const keep, out = 2 * pageBytes, 3 * pageBytes
	echo := func(s Slot, grow bool) []byte {
		g := newGuest(s, "echo")
		if s == "one" {
			g = routedGuest("one", "echo", "/a")
		}
		g.manifest.ABI = guest.ABI11
		header := statusFrame(abi.StatusOK, 0, make([]byte, 128))[:abi.OutputHeader]
		g.module.Data(out, header)
		own := g.module.Global(wasmtest.I64, true, wasmtest.Asm().I64(0))
		copyMemory := func(c *wasmtest.Code, to, from, n int32) { c.I32(to).I32(from).I32(n).Misc(10, 0, 0) }
		c := wasmtest.Asm()
		copyMemory(c, out+8, keep, 120)
		c.I32(out+8+120).GlobalGet(own).Mem(wasmtest.I64Store, 0)
		copyMemory(c, keep, guestInput, 120)
		c.I32(guestInput+21).Mem(wasmtest.I64Load, 0).GlobalSet(own)
		if grow {
			c.I32(1).Imm(0x40, 0).Op(wasmtest.Drop)
		}
		g.call = c.I64(out<<32 | (8 + 128))
		return g.bytes(t)
	}
	for _, slot := range append(slices.Clone(Slots[:]), "one") {
		for _, grow := range []bool{false, true} {
			leakBetween(t, slot, echo(slot, grow))
		}
	}
}

// leakBetween asks a module in a slot for one account after another.
func leakBetween(t *testing.T, slot Slot, wasm []byte) {
	t.Helper()
	h, _ := openTest(t, Options{PoolMax: 1})
	activate(t, h, wasm)
	say := func(account, text string) []byte {
		g, _ := h.slot(slot).acquire(account)
		defer g.release()
		in := abi.ErrorInput{Facts: abi.Facts{ID: text}, Kind: abi.Internal, Status: 500, Msg: text}
		out, f := g.do(abi.OpError, caller{account: account}, in.Append10(nil), 0, nil)
		if f != nil {
			t.Fatal(f)
		}
		return out[abi.OutputHeader:]
	}
	secret := strings.Repeat("secret", 10)
	if got := say("alice", secret); len(got) != 128 {
		t.Fatalf("the first answer is %q", got)
	}
	if got := say("alice", secret); !bytes.Contains(got, []byte("secret")) {
		t.Errorf("%s: the module does not echo at all: %q", slot, got)
	}
	if got := say("mallory", "nothing"); bytes.Contains(got, []byte("secre")) || len(bytes.Trim(got, "\x00")) != 0 {
		t.Errorf("%s: another account sees %q", slot, got)
	}
}

// TestVectorsAreBounded: no module keeps the host busy with its vectors for
// longer than their ticks; meanwhile no other is built.
func TestVectorsAreBounded(t *testing.T) {
	g := newGuest(SlotBilling, "1")
	g.config = func(c *wasmtest.Code) { // refuses whatever is not {}
		c.Get(0).I32(2).Op(wasmtest.I32Ne).If(wasmtest.Void).Op(wasmtest.Unreachable).End().I64(g.place(okFrame(nil)))
	}
	var vectors []string
	for n := range 200 {
		vectors = append(vectors, fmt.Sprintf(`{"name":"%d","op":"quote","config":{"n":%d},"quote":{},"want":{"decline":true}}`, n, n))
	}
	g.vectors = "[" + strings.Join(vectors, ",") + "]"
	h, _ := openTest(t, Options{})
	_, err := h.Load(t.Context(), g.bytes(t), nil, nil)
	if want := fmt.Sprintf("%d of 200 golden vectors fail", guest.VectorTicksMax/100_000_000+1); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

// TestDenialIsOfOneCall: memory that an earlier call did not get is no reason
// for what happens to a later one.
func TestDenialIsOfOneCall(t *testing.T) {
	g := newGuest(SlotChat, "1")
	packed := g.place(okFrame(abi.Translated{Body: []byte("{}")}.Append(nil)))
	g.call = wasmtest.Asm().Get(0).I32(int32(abi.OpRequest)).Op(wasmtest.I32Eq).If(wasmtest.Void).
		I32(3000).Imm(0x40, 0).Op(wasmtest.Drop).I64(packed).Op(wasmtest.Return).End().Op(wasmtest.Unreachable)
	h, l := openTest(t, Options{PoolMax: 1})
	activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Events(nil, []abi.Event{{Kind: abi.EventStart}}); err != nil || !strings.Contains(l.String(), "cause=trap") {
		t.Errorf("%v, want the native build to take over after a trap\n%s", err, l)
	}
}
