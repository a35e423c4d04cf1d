package extensions

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/extensions/logtest"
	"corenode/extensions/meter"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// A handmade guest is a module made by hand: 8 pages of memory, the input buffer in the
// upper half, fixed output frames from guestData on.
type handmade struct {
	manifest guest.Manifest
	module   *wasmtest.Module
	config   func(*wasmtest.Code) // body of init instead of "ok"
	call     *wasmtest.Code       // body of call instead of the answers
	start    *wasmtest.Code       // body of _initialize, nil = none
	version  int32
	answers  map[abi.Op][]byte // payloads of status ok
	raw      map[abi.Op][]byte // whole frames
	vectors  string
	next     int // where the next frame goes
	locals   []byte
	rounds   int32 // of a loop before each answer
}

const (
	pageBytes  = 64 << 10
	guestPages = 8
	guestInput = 4 * pageBytes
	guestData  = 1024
)

func newGuest(kind Slot, version string) *handmade {
	m := guest.Manifest{Name: "test", Kind: string(kind), Version: version, ABI: "1.0"}
	if kind == SlotChat || kind == SlotResponses {
		m.Kind, m.Protocol = guest.KindTranslator, string(kind)
	}
	return &handmade{manifest: m, module: &wasmtest.Module{}, version: abi.Version, next: guestData,
		answers: map[abi.Op][]byte{}, raw: map[abi.Op][]byte{}}
}

// place puts a frame into the data and returns it packed.
func (g *handmade) place(frame []byte) int64 {
	at := g.next
	g.module.Data(at, frame)
	g.next = (at + len(frame) + 15) &^ 15
	return int64(at)<<32 | int64(len(frame))
}

func okFrame(payload []byte) []byte { return statusFrame(abi.StatusOK, 0, payload) }

func statusFrame(s abi.Status, k abi.Kind, payload []byte) []byte {
	f := append(abi.BeginOutput(nil, s, k), payload...)
	abi.EndOutput(f, 0)
	return f
}

func (g *handmade) bytes(t testing.TB) []byte {
	t.Helper()
	i32, i64 := wasmtest.I32, wasmtest.I64
	m := g.module
	ok := g.place(okFrame(nil))
	m.Func("abi", nil, []byte{i32}, nil, wasmtest.I32Const(g.version))
	m.Func("buf", []byte{i32}, []byte{i32}, nil, wasmtest.I32Const(guestInput))
	init := wasmtest.Asm()
	if g.config != nil {
		g.config(init)
	} else {
		init.I64(ok)
	}
	m.Func("init", []byte{i32}, []byte{i64}, nil, init)
	call := g.call
	if call == nil {
		call = wasmtest.Asm()
		if g.rounds > 0 {
			g.locals = []byte{i32}
			call.I32(g.rounds).Set(2).Loop(wasmtest.Void).Get(2).I32(1).Op(wasmtest.I32Sub).Tee(2).BrIf(0).End()
		}
		frames := map[abi.Op][]byte{}
		for op, payload := range g.answers {
			frames[op] = okFrame(payload)
		}
		maps.Copy(frames, g.raw)
		for _, op := range slices.Sorted(maps.Keys(frames)) {
			packed := g.place(frames[op])
			call.Get(0).I32(int32(op)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(packed).Op(wasmtest.Return).End()
		}
		call.I64(0)
	}
	m.Func("call", []byte{i32, i32}, []byte{i64}, g.locals, call)
	if g.start != nil {
		m.Func("_initialize", nil, nil, nil, g.start)
	}
	m.Memory(guestPages, -1)
	text, err := json.Marshal(g.manifest)
	if err != nil {
		t.Fatal(err)
	}
	m.Custom(guest.ManifestSection, text)
	if g.vectors != "" {
		m.Custom(guest.VectorsSection, []byte(g.vectors))
	}
	return m.Bytes()
}

// callAfter makes the guest answer its first call of op with one frame and later
// ones with another; a byte of its memory remembers that it was called.
func (g *handmade) callAfter(op abi.Op, first, then []byte) {
	const flag = 512
	c := wasmtest.Asm()
	for _, other := range slices.Sorted(maps.Keys(g.answers)) {
		if other == op {
			continue
		}
		c.Get(0).I32(int32(other)).Op(wasmtest.I32Eq).If(wasmtest.Void).I64(g.place(okFrame(g.answers[other]))).Op(wasmtest.Return).End()
	}
	c.I32(flag).Mem(wasmtest.I32Load, 0).If(wasmtest.Void).I64(g.place(then)).Op(wasmtest.Return).End()
	c.I32(flag).I32(1).Mem(wasmtest.I32Store, 0)
	g.call = c.I64(g.place(first))
}

// chatGuest is a translator whose every answer says its version.
func chatGuest(t testing.TB, version string) []byte {
	g := newGuest(SlotChat, version)
	g.answers = chatAnswers(version)
	return g.bytes(t)
}

func chatAnswers(version string) map[abi.Op][]byte {
	return map[abi.Op][]byte{
		abi.OpRequest:  abi.Translated{Body: []byte(`{"by":"` + version + `"}`), Kept: []byte("kept " + version)}.Append(nil),
		abi.OpEvents:   abi.Written{State: []byte("state"), Bytes: []byte("data: " + version + "\n\n")}.Append(nil),
		abi.OpResponse: []byte(`{"response":"` + version + `"}`),
		abi.OpError:    []byte(`{"error":"` + version + `"}`),
	}
}

// nativeChat is a native translator that says its name.
func nativeChat(name string) handler {
	answers := chatAnswers(name)
	return func(op abi.Op, _, dst []byte) []byte { return append(dst, okFrame(answers[op])...) }
}

// billingGuest charges what it is given, whatever the usage.
func billingGuest(t testing.TB, version string, q abi.Quote, c abi.Charge) []byte {
	g := newGuest(SlotBilling, version)
	g.answers = map[abi.Op][]byte{abi.OpQuote: q.Append(nil), abi.OpCharge: c.Append(nil)}
	return g.bytes(t)
}

// openTest opens a host that takes unsigned modules and ships native ones only.
func openTest(t testing.TB, o Options) (*Host, *logtest.Lines) {
	t.Helper()
	o.AllowUnsigned = true
	return openWith(t, o, testShipped())
}

func testShipped() (all []shippedModule) {
	for _, s := range shippedModules() {
		if s.slot == SlotBilling {
			s.wasm, s.digest = nil, ""
			all = append(all, s)
		}
	}
	return append(all,
		shippedModule{slot: SlotChat, name: "chat", native: nativeChat("native"), nativeAs: "builtin:chat"},
		shippedModule{slot: SlotResponses, name: "responses", native: nativeChat("native"), nativeAs: "builtin:responses"})
}

func openWith(t testing.TB, o Options, shipped []shippedModule) (*Host, *logtest.Lines) {
	t.Helper()
	for i, s := range shipped {
		if s.wasm != nil && s.manifest == nil {
			if wasm, err := s.wasm(); err == nil {
				shipped[i].manifest, _, _ = meter.CustomSection(wasm, guest.ManifestSection)
			}
		}
	}
	l := &logtest.Lines{}
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(l, nil))
	}
	if o.Prices == nil {
		o.Prices = map[string]abi.Prices{"core": {Input: 240, Cached: 24, Output: 2400}}
	}
	o.PoolMax = cmp.Or(o.PoolMax, 4)
	if _, bench := t.(*testing.B); bench { // which does nothing else
		o.CPUShare = cmp.Or(o.CPUShare, 1)
	}
	h, err := open(o, shipped)
	if err != nil {
		t.Fatal(err)
	}
	h.untried = true // the trial has tests of its own; see tried
	t.Cleanup(func() { _ = h.Close() })
	<-h.Ready()
	return h, l
}

// load loads a module and makes it serve.
func activate(t testing.TB, h *Host, wasm []byte) Info {
	t.Helper()
	i, err := h.Load(t.Context(), wasm, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if i, err = h.Activate(i.Digest); err != nil {
		t.Fatal(err)
	}
	return i
}

// request runs one request on the chat slot and returns its body.
func request(t testing.TB, h *Host, account string) string {
	t.Helper()
	tr := h.Translate(SlotChat, account, "", abi.Facts{ID: "id"})
	defer tr.Close()
	body, err := tr.Request([]byte(`{}`))
	if err != nil {
		t.Errorf("request: %v", err)
	}
	return string(body)
}

// eventually waits for what happens in the background; go test ends a wait
// that is in vain.
func eventually(ok func() bool) {
	for !ok() {
		time.Sleep(time.Millisecond)
	}
}
