package extensions

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/extensions/meter/wasmtest"
	"corenode/wasm/abi"
)

// The attacks on the host are tests named TestAttack..., by group:
//
//	hangs, traps, lies, feature sets, imports, names, manifests, translators, bombs
//	    at load: TestAttacks; a call that hangs or traps while it serves: TestAttacksWhileServing,
//	    of policies and modules with routes: TestAttackKinds; decisions that take of counters:
//	    TestAttackReserve; rewritings and filterings: TestAttackRewrite, TestAttackFilter
//	lies        while it serves: TestAttackLies; to a node: node.TestATranslatorThatLies
//	translators while it serves: TestAttackTranslators, TestAttackTranslatorsRequests
//	bombs       that compile for long: TestAttackBombs
//	leaks       TestAttackLeaks (memory of another account), TestAttackLeaksOfLoads (of the host)
//	signatures  TestAttackSignatures; denied versions: TestDeniedModule
//	disk        TestAttackDisk, TestCorruptCache, TestStateCutAnywhere
//	admin       node.TestAttackAdmin

// attack is a module that load must refuse, and what the operator reads.
type attack struct {
	group, name           string
	stage, reason, remedy string
	make                  func(t *testing.T) []byte
}

// shaped makes a module that is good but for one thing.
func shaped(kind Slot, change func(g *handmade)) func(*testing.T) []byte {
	return func(t *testing.T) []byte {
		g := goodGuest(kind, "1")
		change(g)
		return g.bytes(t)
	}
}

// coded is a good module with a function of some bytes of code that nobody calls.
func coded(code ...byte) func(*testing.T) []byte {
	return shaped(SlotBilling, func(g *handmade) {
		g.module.Func("", nil, nil, []byte{wasmtest.I32}, wasmtest.Asm().Op(wasmtest.Unreachable).Op(code...))
	})
}

func spin() *wasmtest.Code { return wasmtest.Asm().Loop(wasmtest.Void).Br(0).End() }

func trap() *wasmtest.Code { return wasmtest.Asm().Op(wasmtest.Unreachable) }

const (
	remedyStart   = "must return, within its ticks"
	remedyInit    = "init must return an output frame, within its ticks"
	remedyUsual   = "a usual call must be answered"
	remedyInput   = "depend on its input only"
	remedyTarget  = "build for core WebAssembly 2.0 with SIMD"
	remedyRebuild = "build it again"
	remedyPack    = "corenode module pack"
	remedyNewer   = "packed for a newer node"
	remedyClient  = "write what the protocol's clients read"
	remedyAnswer  = "answer what follows a request that is taken"
	remedyImports = "corenode.log and corenode.metric"
)

// declining makes a guest decline an operation.
func declining(op abi.Op) func(*handmade) {
	return func(g *handmade) {
		delete(g.answers, op)
		g.raw[op] = statusFrame(abi.StatusDecline, 0, nil)
	}
}

// streaming makes a module without streams that asks for one.
func streaming(vectors string) func(*testing.T) []byte {
	return func(t *testing.T) []byte {
		g := routedGuest("one", "1", "/a")
		g.manifest.Framing, g.vectors = guest.FramingJSON, vectors
		g.answers[abi.OpRequest] = abi.Translated{Body: []byte(`{"stream":true}`)}.Append(nil)
		return g.bytes(t)
	}
}

var hangs = []attack{
	{"hangs", "in the start function", "instantiate", "its start function: ticks: ", remedyStart,
		shaped(SlotChat, func(g *handmade) { g.module.Start(g.module.Func("", nil, nil, nil, spin())) })},
	{"hangs", "in _initialize", "instantiate", "_initialize: ticks: ", remedyStart, shaped(SlotChat,
		func(g *handmade) { g.start = spin() })},
	{"hangs", "in init", "init", "init: ticks: ", remedyInit,
		shaped(SlotChat, func(g *handmade) { g.config = func(c *wasmtest.Code) { c.Loop(wasmtest.Void).Br(0).End().I64(0) } })},
	{"hangs", "in a call", "probe", "decide: ticks", remedyUsual, shaped(SlotAdmission, func(g *handmade) { g.call = spin().I64(0) })},
	{"hangs", "in its recursion", "probe", "decide: depth", remedyUsual, shaped(SlotAdmission, func(g *handmade) {
		i32 := []byte{wasmtest.I32}
		g.call = wasmtest.Asm().I32(1).Call(g.module.Func("", i32, i32, nil,
			wasmtest.Asm().Get(0).Call(0).I32(1).Op(wasmtest.I32Add))).Op(wasmtest.I64ExtendU)
	})},
	{"hangs", "in a vector", "vectors", "ticks", "corenode module check",
		shaped(SlotBilling, func(g *handmade) { g.call, g.vectors = spin().I64(0), oneVector })},
}

var traps = []attack{
	{"traps", "in the start function", "instantiate", "its start function: trap: unreachable", remedyStart,
		shaped(SlotChat, func(g *handmade) { g.module.Start(g.module.Func("", nil, nil, nil, trap())) })},
	{"traps", "in _initialize", "instantiate", "_initialize: trap: ", remedyStart, shaped(SlotChat,
		func(g *handmade) { g.start = trap() })},
	{"traps", "in init", "init", "init: trap: unreachable", remedyInit,
		shaped(SlotChat, func(g *handmade) { g.config = func(c *wasmtest.Code) { c.Op(wasmtest.Unreachable) } })},
	{"traps", "in a call", "probe", "decide: trap", remedyUsual, shaped(SlotAdmission, func(g *handmade) { g.call = trap() })},
	{"traps", "by a division", "probe", "decide: trap", remedyUsual,
		shaped(SlotAdmission, func(g *handmade) { g.call = wasmtest.Asm().I32(1).I32(0).Op(wasmtest.I32DivS, wasmtest.I64ExtendU) })},
	{"traps", "in the second call", "probe", "quote, on an instance that answered before: trap", remedyInput,
		shaped(SlotBilling, func(g *handmade) { counting(g, func(c *wasmtest.Code) { c.Op(wasmtest.Unreachable) }) })},
	{"traps", "data outside of its memory", "instantiate", "data", "see that its data fits its memory",
		shaped(SlotChat, func(g *handmade) { g.module.Data(guestPages*pageBytes-1, []byte("xx")) })},
}

var lies = []attack{
	{"lies", "a quote upside down", "probe", "quote: the quote has minimum 9 and upper 1", "0 <= minimum <= upper",
		shaped(SlotBilling, func(g *handmade) { g.answers[abi.OpQuote] = abi.Quote{Upper: 1, Minimum: 9}.Append(nil) })},
	{"lies", "a quote of more than there is money", "probe", "quote: the quote has minimum 0 and upper 1000000000000001",
		"count in nano-dollars",
		shaped(SlotBilling, func(g *handmade) { g.answers[abi.OpQuote] = abi.Quote{Upper: abi.ChargeMax + 1}.Append(nil) })},
	{"lies", "a charge above its quote", "probe", "charge: the charge of 5 is above the quote of 4", "quote the dearest use",
		shaped(SlotBilling, func(g *handmade) { g.answers[abi.OpQuote] = abi.Quote{Upper: 4}.Append(nil) })},
	{"lies", "a total that is no sum", "probe", "charge: the total is 6, the lines add up to 0", "the total is their sum",
		shaped(SlotBilling, func(g *handmade) { g.answers[abi.OpCharge] = abi.Charge{Total: 6}.Append(nil) })},
	{"lies", "a negative line", "probe", "is negative", "every line is tokens, price and amount of zero or more",
		shaped(SlotBilling, func(g *handmade) {
			g.answers[abi.OpCharge] = abi.Charge{Total: 1, Lines: []abi.Line{{Unit: "a", Amount: -1}, {Unit: "b", Amount: 2}}}.Append(nil)
		})},
	{"lies", "a charge of nothing", "probe", "charge: nothing is charged", `"free": true`,
		shaped(SlotBilling, func(g *handmade) { g.answers[abi.OpCharge] = abi.Charge{}.Append(nil) })},
	{"lies", "another answer to the same question", "probe", "quote gives other bytes on an instance that answered before", remedyInput,
		shaped(SlotBilling, func(g *handmade) {
			counting(g, func(c *wasmtest.Code) { c.I64(g.place(okFrame(abi.Quote{Upper: 8}.Append(nil)))).Op(wasmtest.Return) })
		})},
	{"lies", "other vectors than it answers", "vectors", `1 of 1 golden vectors fail, the first: vector "a"`, "corenode module check",
		shaped(SlotBilling, func(g *handmade) { g.vectors = strings.Replace(oneVector, `"upper":9`, `"upper":8`, 1) })},
	{"lies", "vectors that are none", "vectors", "", "corenode module check", shaped(SlotBilling, func(g *handmade) { g.vectors = `{}` })},
	{"lies", "a version to come", "abi", "it speaks ABI 1.2, this node 1.1", "an SDK of this node's version",
		shaped(SlotChat, func(g *handmade) { g.version = 1<<16 | 2 })},
	{"lies", "another major version", "abi", "it speaks ABI 2.0, this node 1.1", "an SDK of this node's version",
		shaped(SlotChat, func(g *handmade) { g.version = 2 << 16 })},
	{"lies", "an output outside of its memory", "probe", "decide: protocol", remedyUsual,
		shaped(SlotAdmission, func(g *handmade) { g.call = wasmtest.Asm().I64(0x7fffffff<<32 | 16) })},
	{"lies", "a missing export", "exports", "no function buf", "export abi() i32, buf(i32) i32", func(*testing.T) []byte {
		m := &wasmtest.Module{}
		m.Func("abi", nil, []byte{wasmtest.I32}, nil, wasmtest.I32Const(1<<16))
		m.Memory(1, 1)
		m.Custom(guest.ManifestSection, []byte(`{"name":"x","kind":"billing","version":"1","abi":"1.0"}`))
		return m.Bytes()
	}},
}

var featureSets = []attack{
	{"feature sets", "a tail call", "parse", "tail calls", remedyTarget, coded(0x12, 0)},
	{"feature sets", "exceptions", "parse", "exception handling", remedyTarget, coded(0x08, 0)},
	{"feature sets", "atomics", "parse", "threads", remedyTarget, coded(0xfe, 0x03, 0)},
	{"feature sets", "garbage collection", "parse", "garbage collection", remedyTarget, coded(0xfb, 0x00, 0)},
	{"feature sets", "typed function references", "parse", "typed function references", remedyTarget, coded(0x14, 0)},
	{"feature sets", "relaxed SIMD", "parse", "unknown instruction", "core WebAssembly 2.0", coded(0xfd, 0x80, 0x02)},
	{"feature sets", "shared memory", "parse", "threads", remedyTarget, raw(func(m *wasmtest.Module) { m.MemoryRaw(3, 1, 2) })},
	{"feature sets", "64-bit memory", "parse", "64-bit", remedyTarget, raw(func(m *wasmtest.Module) { m.MemoryRaw(5, 1, 2) })},
	{"feature sets", "two memories", "parse", "at most one", remedyTarget,
		raw(func(m *wasmtest.Module) { m.MemoryRaw(0, 1); m.MemoryRaw(0, 1) })},
	{"feature sets", "a component", "parse", "not version 1 of the module format", "give the core module inside",
		func(*testing.T) []byte { return []byte("\x00asm\x0d\x00\x01\x00") }},
	{"feature sets", "references to functions without end", "parse", "ref.func in a function", "take the function out of a table",
		shaped(SlotChat, func(g *handmade) { g.start = wasmtest.Asm().Loop(wasmtest.Void).Op(0xd2, 0, wasmtest.Drop).Br(0).End() })},
	{"feature sets", "no module", "parse", "not a WebAssembly module", "", func(*testing.T) []byte { return []byte("#!/bin/sh") }},
	{"feature sets", "cut off", "parse", "", "", func(t *testing.T) []byte { b := chatGuest(t, "1"); return b[:len(b)/2] }},
	{"feature sets", "what metering adds", "parse", "global 0 does not exist", "", coded(0x24, 0)},
	{"feature sets", "floats in billing", "floats", "kind billing must not use floats", "compute in integers",
		coded(0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0x1a)},
	{"feature sets", "floats in admission", "floats", "kind admission", "compute in integers",
		shaped(SlotAdmission, func(g *handmade) { g.module.Global(wasmtest.F32, true, wasmtest.Asm().Op(0x43, 0, 0, 0, 0)) })},
}

// raw is a module that is nothing but what change makes it, with a manifest.
func raw(change func(m *wasmtest.Module)) func(*testing.T) []byte {
	return func(*testing.T) []byte {
		m := &wasmtest.Module{}
		change(m)
		m.Custom(guest.ManifestSection, []byte(`{"name":"x","kind":"billing","version":"1","abi":"1.0"}`))
		return m.Bytes()
	}
}

var imports = []attack{
	{"imports", "of the system", "imports", "env.system", remedyImports, imported("env", "system", "", wasmtest.I32)},
	{"imports", "of WASI without Go", "imports", "wasi_snapshot_preview1.fd_write", `"runtime": "go"`,
		imported("wasi_snapshot_preview1", "fd_write", "", wasmtest.I32)},
	{"imports", "of WASI with another signature", "imports", "another signature", "build it with the Go toolchain",
		imported("wasi_snapshot_preview1", "fd_write", guest.RuntimeGo, wasmtest.I32)},
	{"imports", "of WASI that is none", "imports", "wasi_snapshot_preview1.run_program", "WASI preview 1 only",
		imported("wasi_snapshot_preview1", "run_program", guest.RuntimeGo)},
	{"imports", "of another host function", "imports", "corenode.read_file", remedyImports, imported("corenode", "read_file", "")},
	{"imports", "of log with another signature", "imports", "another signature", "declare it as the ABI does",
		imported("corenode", "log", "", wasmtest.I32)},
	{"imports", "of a memory", "parse", `the memory "mem" from "env"`, "define it in the module",
		shaped(SlotChat, func(g *handmade) { g.module.ImportRaw("env", "mem", 2, 0, 1) })},
	{"imports", "of a global", "parse", `the global "g" from "env"`, "only functions may be imported",
		shaped(SlotChat, func(g *handmade) { g.module.ImportRaw("env", "g", 3, wasmtest.I32, 0) })},
}

func imported(module, name, runtime string, params ...byte) func(*testing.T) []byte {
	return shaped(SlotChat, func(g *handmade) {
		g.manifest.Runtime = runtime
		g.module.Import(module, name, params, nil)
	})
}

var names = []attack{
	{"names", "of a module that ships", "manifest", `the name "chat" is that of a module of the program`, "give it a name of its own",
		named("chat", "9.0.0")},
	{"names", "of a module that ships in another slot", "manifest", `the name "tariff"`, "give it a name of its own", named("tariff", "1")},
	{"names", "that is a path", "manifest", `name is "../../state"`, remedyPack, named("../../state", "1")},
	{"names", "with colors", "manifest", "name is", remedyPack, named("\x1b[31mred", "1")},
	{"names", "with a line of the log", "manifest", "name is", remedyPack, named("a\nlevel=INFO", "1")},
	{"names", "that hides its version", "manifest", "version is", remedyPack, named("a", "1@2")},
	{"names", "without end", "manifest", "name is", remedyPack, named(strings.Repeat("a", 65), "1")},
	{"names", "of nothing", "manifest", "name is", remedyPack, named("", "1")},
	{"names", "an export of the meter", "parse", "reserved", "",
		shaped(SlotChat, func(g *handmade) { g.module.Func("__meter_left", nil, nil, nil, wasmtest.Asm()) })},
}

func named(name, version string) func(*testing.T) []byte {
	return shaped(SlotChat, func(g *handmade) { g.manifest.Name, g.manifest.Version = name, version })
}

var manifests = []attack{
	{"manifests", "none", "manifest", "0 custom sections", remedyPack, func(*testing.T) []byte { return wasmtest.Preamble() }},
	{"manifests", "two", "manifest", "2 custom sections", remedyPack, shaped(SlotBilling, func(g *handmade) {
		g.module.Custom(guest.ManifestSection, []byte(`{"name":"free","kind":"billing","version":"1","abi":"1.0","free":true}`))
	})},
	{"manifests", "no JSON", "manifest", "manifest: ", remedyPack, described("{")},
	{"manifests", "an unknown key", "manifest", "unknown field", remedyNewer,
		described(`{"name":"x","kind":"billing","version":"1","abi":"1.0","network":true}`)},
	{"manifests", "something behind it", "manifest", "something follows", remedyPack,
		described(`{"name":"x","kind":"billing","version":"1","abi":"1.0"}{}`)},
	{"manifests", "an unknown kind", "manifest", "kind is", remedyNewer, described(`{"name":"x","kind":"root","version":"1","abi":"1.0"}`)},
	{"manifests", "a version of the ABI that is none", "manifest", "this node speaks 1.0 and 1.1", remedyNewer,
		described(`{"name":"x","kind":"billing","version":"1","abi":"2.0"}`)},
	{"manifests", "negative ticks", "manifest", "zero or more", remedyPack,
		described(`{"name":"x","kind":"billing","version":"1","abi":"1.0","ticks":{"call":-1}}`)},
	{"manifests", "more ticks than there are", "manifest", "ticks.call is 200000001, at most 200000000", "ask for no more than the most",
		shaped(SlotBilling, func(g *handmade) { g.manifest.Ticks.Call = 200_000_001 })},
	{"manifests", "more memory than there is", "manifest", "memory_max_bytes is 536870913, at most 536870912",
		"ask for no more than the most",
		shaped(SlotBilling, func(g *handmade) { g.manifest.MemoryMaxBytes = 512<<20 + 1 })},
	{"manifests", "free for a translator", "manifest", "free is for billing modules", remedyPack,
		shaped(SlotChat, func(g *handmade) { g.manifest.Free = true })},
}

func described(manifest string) func(*testing.T) []byte {
	return func(*testing.T) []byte {
		m := &wasmtest.Module{}
		m.Custom(guest.ManifestSection, []byte(manifest))
		return m.Bytes()
	}
}

var refusedKey = abi.Refusal{Param: "fee.unit", Msg: "no such\x00 currency"}.Append(nil)

var translators = []attack{
	{"translators", "a request that is no JSON", "probe", "request of 1 KB: the body is no JSON object", remedyClient,
		shaped(SlotChat, func(g *handmade) { g.answers[abi.OpRequest] = abi.Translated{Body: []byte(`{not json`)}.Append(nil) })},
	{"translators", "an answer that is no JSON", "probe", "answer: the body is no JSON object", remedyClient,
		shaped(SlotChat, func(g *handmade) { g.answers[abi.OpResponse] = []byte("hello") })},
	{"translators", "a stream that ends within an event", "probe",
		"a whole stream in one group: the stream's bytes end within an event", remedyClient,
		shaped(SlotResponses, func(g *handmade) { g.answers[abi.OpEvents] = abi.Written{Bytes: []byte("data: {}")}.Append(nil) })},
	{"translators", "an error that is no UTF-8", "probe", "error: the body is no UTF-8", remedyClient,
		shaped(SlotChat, func(g *handmade) { g.answers[abi.OpError] = []byte("{\"a\":\"\xff\"}") })},
	{"translators", "an answer that it declines", "probe", "answer: it declines what nobody else can answer", remedyAnswer,
		shaped(SlotChat, declining(abi.OpResponse))},
	{"translators", "a stream that it declines", "probe", "a whole stream in one group: it declines", remedyAnswer,
		shaped(SlotResponses, declining(abi.OpEvents))},
	{"translators", "an error that it declines", "probe", "error: it declines", remedyAnswer, shaped(SlotChat, declining(abi.OpError))},
	{"translators", "a stream that it has not", "probe", `request of 1 KB: protocol: its output for op request, `, remedyUsual,
		streaming("")},
	{"translators", "a stream that it has not, in a vector", "vectors", `vector "a": op request: protocol: `, "corenode module check",
		streaming(`[{"name":"a","op":"request","route":{},"body":{},"want":{"body":{"stream":true}}}]`)},
	{"translators", "a refused configuration", "init", "it refuses its configuration: fee.unit: no such currency", "correct the configuration",
		shaped(SlotChat, func(g *handmade) {
			g.config = func(c *wasmtest.Code) {
				c.I64(g.place(statusFrame(abi.StatusError, abi.InvalidRequest, refusedKey)))
			}
		})},
}

var bombsAtLoad = []attack{
	{"bombs", "a file that is too large", "size", "at most 8388608", "strip debug information",
		func(*testing.T) []byte { return make([]byte, guest.BytesMax+1) }},
	{"bombs", "more memory than its manifest says", "memory", "and may have 65536", "raise memory_max_bytes",
		shaped(SlotChat, func(g *handmade) { g.manifest.MemoryMaxBytes = 1 })},
	{"bombs", "memory in a call", "probe", "decide: memory", remedyUsual, shaped(SlotAdmission, func(g *handmade) {
		g.manifest.MemoryMaxBytes = guestPages * pageBytes
		g.call = wasmtest.Asm().Loop(wasmtest.Void).I32(100).Imm(0x40, 0).I32(-1).Op(wasmtest.I32Ne).BrIf(0).End().Op(wasmtest.Unreachable)
	})},
	{"bombs", "fifty thousand locals", "parse", "locals", "split the function", shaped(SlotChat, func(g *handmade) {
		g.module.FuncRaw("", g.module.Type(nil, nil), []byte{1, 0xff, 0xff, 0xff, 0xff, 0x0f, wasmtest.I32, 0x0b})
	})},
	{"bombs", "eight million elements", "parse", "elements, at most 200000", "split the function", shaped(SlotChat, func(g *handmade) {
		g.module.PassiveElements(make([]uint32, 8_000_000)...)
	})},
	{"bombs", "blocks in blocks", "parse", "nested blocks", "split the function", coded([]byte(strings.Repeat("\x02\x40", 5000))...)},
	{"bombs", "a table of branches", "effort", "branches, ends of blocks and targets of branch tables", "split the function",
		shaped(SlotChat, func(g *handmade) {
			b := bombs[1]
			b.make(g.module, b.n)
		})},
}

// TestAttacks loads a module for each reason to refuse one. The refusal says at
// which stage, why, and what to do about it, and nothing of the module is kept.
func TestAttacks(t *testing.T) {
	o := Options{Dir: t.TempDir()}
	h := tried(t, o)
	groups := map[string]int{}
	for _, all := range [][]attack{hangs, traps, lies, featureSets, imports, names, manifests, translators, bombsAtLoad} {
		for _, a := range all {
			groups[a.group]++
			t.Run(a.group+"/"+a.name, func(t *testing.T) {
				_, err := h.Load(t.Context(), a.make(t), nil, nil)
				refused, ok := errors.AsType[*guest.LoadError](err)
				if !ok || refused.Stage != a.stage || !strings.Contains(refused.Reason, a.reason) || refused.Reason == "" ||
					!strings.Contains(refused.Fix, a.remedy) || refused.Fix == "" {
					t.Errorf("%+v\nwant stage %s, reason %q, remedy %q", err, a.stage, a.reason, a.remedy)
				}
				if text := err.Error(); !strings.HasPrefix(text, "module refused ("+a.stage+"): ") || strings.ContainsAny(text, "\x1b\n") {
					t.Errorf("an operator reads %q", text)
				}
			})
		}
	}
	if len(groups) != 9 {
		t.Errorf("groups %v", groups)
	}
	for _, i := range h.Modules() {
		if i.State != StateBuiltin {
			t.Errorf("a refused module is kept: %+v", i)
		}
	}
	entries, err := os.ReadDir(o.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), extWasm) {
			t.Errorf("its file is kept: %s", e.Name())
		}
	}
}

// TestAttackLies: what billing says while it serves is held to the same rules: the
// tariff charges instead, provisionally, and the fault is counted.
func TestAttackLies(t *testing.T) {
	for name, c := range map[string]struct {
		quote  abi.Quote
		charge abi.Charge
	}{
		"a quote upside down":      {abi.Quote{Upper: 1, Minimum: 9}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}},
		"a charge above its quote": {abi.Quote{Upper: 4}, abi.Charge{Total: 5, Lines: []abi.Line{line(1, 5, 5)}}},
		"a total that is no sum":   {abi.Quote{Upper: 9}, abi.Charge{Total: 6}},
		"a charge of nothing":      {abi.Quote{Upper: 9}, abi.Charge{}},
		"a negative charge":        {abi.Quote{Upper: 9}, abi.Charge{Total: -5, Lines: []abi.Line{line(1, 5, -5)}}},
	} {
		h, l := openTest(t, Options{})
		i := activate(t, h, billingGuest(t, "1", c.quote, c.charge))
		q, err := h.Quote("req_1", ratingInput)
		if err != nil {
			t.Fatal(err)
		}
		charge, err := q.Charge(ratingUsage, nil)
		q.Close()
		if err != nil || charge.Amount != nativeAmount || !charge.Provisional {
			t.Errorf("%s: charged %+v, %v", name, charge, err)
		}
		if i, err = h.info(i.Digest); err != nil || i.Faults["rule"] != 1 || !strings.Contains(l.String(), "id=req_1") {
			t.Errorf("%s: faults %v, %v\n%s", name, i.Faults, err, l)
		}
	}
}

// TestAttackLeaksOfLoads: a host that refuses a module, at whatever stage, keeps none
// of its instances: each has reserved its most memory as address space.
func TestAttackLeaksOfLoads(t *testing.T) {
	reserved := func() int {
		text, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Skipf("the address space cannot be read: %v", err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(text))[0])
		if err != nil {
			t.Fatal(err)
		}
		return pages * os.Getpagesize()
	}
	h := tried(t, Options{})
	const loads = 3 // of each: the Go heap may grow by less than two instances meanwhile
	for _, all := range [][]attack{hangs, traps, lies, translators} {
		for _, a := range all {
			wasm := a.make(t)
			before := reserved()
			for range loads {
				if _, err := h.Load(t.Context(), wasm, nil, nil); err == nil {
					t.Fatalf("%s is loaded", a.name)
				}
			}
			if more := reserved() - before; more > (loads-1)*(128<<20) {
				t.Errorf("%s/%s: %d refused loads left %d MiB of address space reserved", a.group, a.name, loads, more>>20)
			}
		}
	}
}
