package examples

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// cFolders are all C modules, cFlags how they are built.
var (
	cFolders = []string{"billing-c", "translator-c", "admission-c", "../sdk/c/testdata"}
	cFlags   = strings.Fields("--target=wasm32 -std=c99 -O2 -mbulk-memory -nostdlib -Wall -Wextra -Werror -I../sdk/c" +
		" -Wl,--no-entry -Wl,--stack-first -Wl,--strip-all")
)

// TestCModulesAreBuiltFromTheirSource compiles the C modules again and compares
// every byte with what is checked in; -update writes them.
func TestCModulesAreBuiltFromTheirSource(t *testing.T) {
	version, err := exec.Command("clang", "--version").Output()
	if err != nil {
		t.Skipf("no clang: the C modules are tested as they were built elsewhere (%v)", err)
	}
	line, _, _ := strings.Cut(string(version), "\n")
	if *update {
		if err := os.WriteFile("BUILT", []byte(line+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	made, err := os.ReadFile("BUILT")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(made)) != line {
		t.Skipf("the C modules were built by %s, this is %s: the bytes may differ", bytes.TrimSpace(made), line)
	}
	for _, folder := range cFolders {
		file := filepath.Join(t.TempDir(), "module.wasm")
		tool := exec.Command("clang", append(cFlags, "-o", file, filepath.Join(folder, "module.c"))...)
		if output, err := tool.CombinedOutput(); err != nil {
			if strings.Contains(string(output), "wasm-ld") && strings.Contains(string(output), "unable to execute") {
				t.Skipf("clang has no linker for Wasm: %s", output)
			}
			t.Fatalf("%s: %v\n%s", folder, err, output)
		}
		now, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		shipped := filepath.Join(folder, "module.wasm")
		if *update {
			if err := os.WriteFile(shipped, now, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if before, err := os.ReadFile(shipped); err != nil || !bytes.Equal(before, now) {
			t.Errorf("%s: %d bytes now, %d checked in, %v: run the test with -update", folder, len(now), len(before), err)
		}
	}
}

func echo(t *testing.T, config string) *guest {
	t.Helper()
	wasm, err := os.ReadFile("../sdk/c/testdata/module.wasm")
	if err != nil {
		t.Fatal(err)
	}
	return open(t, wasm, config)
}

// TestHeaderReadsEveryField: the echo module writes what the header read, and
// what came over the boundary must be all there.
func TestHeaderReadsEveryField(t *testing.T) {
	g := echo(t, "")
	facts := abi.Facts{ID: "id", Created: -5, Model: "m\"\n\x01", Stream: true}
	events := abi.Frames{}
	for _, e := range []abi.Event{
		{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 1, CacheRead: 2, CacheWrite: 3}},
		{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 258, ID: "toolu_1", Name: "look"},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 258, Text: "{\"a\":1}"},
		{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 258},
		{Kind: abi.EventEnd, Stop: abi.StopStopSequence, StopSequence: "\n",
			Usage: abi.Usage{InputUncached: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: -9223372036854775808}},
	} {
		events = abi.AppendFrame(events, &e)
	}
	const factsText = `id m\"\n\u0001 -5 1|`
	const eventsText = `0 0 0 [1 2 3 0 0 ]` + `1 2 258 [toolu_1 look]` + `2 2 258 [{\"a\":1}]` + `3 2 258 []` +
		`4 4 0 [1 2 3 4 -9223372036854775808 \n]`
	counted := abi.Counters{AccountRequests: 4, AccountRequestsMax: 5, TokensRemaining: -6, TokensPerMinute: 7, Available: 8,
		Unlimited: true, NodeRequests: 9, NodeRequestsMax: 10,
		ModelQueued: 11, ModelQueuedMax: 12, ModelWaitMS: 13, ModelPagesUsed: 14, ModelPages: 15}
	cases := []struct {
		op   abi.Op
		in   []byte
		want string
	}{
		{abi.OpResponse, abi.ResponseInput{Facts: facts, Kept: []byte("kept"), Events: events}.Append(nil), factsText + "kept|" + eventsText},
		{abi.OpError, abi.ErrorInput{Facts: facts, State: []byte("s"), Kept: []byte("k"), History: abi.Frames("h"), Status: 503,
			Kind: abi.Overloaded, Detail: abi.Detail{Reason: abi.ReasonMemory, Prompt: 1, Value: -2, Bound: 3}, Param: "p", Msg: "msg"}.Append(nil),
			factsText + "s|k|h|503 7 5 1 -2 3 p|msg"},
		{abi.OpError, abi.ErrorInput{Facts: facts, State: []byte("s"), Kept: []byte("k"), History: abi.Frames("h"), Status: 400,
			Kind: abi.InvalidRequest, Detail: abi.Detail{Reason: abi.ReasonLimit, Value: 2, Bound: 1}, Param: "p", Msg: "msg"}.Append10(nil),
			factsText + "s|k|h|400 1 0 0 0 0 p|p: msg"},
		{abi.OpQuote, abi.QuoteInput{Prices: abi.Prices{Input: 1, Cached: 2, Output: 3}, Input: 4, OutputMax: 5, At: 6, Model: "m",
			Account: "a"}.Append(nil),
			string(abi.Quote{Upper: 123456, Minimum: 11}.Append(nil))},
		{abi.OpCharge, abi.ChargeInput{Prices: abi.Prices{Input: 1, Cached: 2, Output: 3},
			Usage: abi.Usage{InputUncached: 4, CacheRead: 5, CacheWrite: 6, Output: 7, Reasoning: 8}, At: 9, Model: "m",
			Account: "a"}.Append(nil),
			string(abi.Charge{Total: 123456789, Tier: 11, Lines: []abi.Line{{Unit: "0123456789abcdef", Tokens: 5, Price: 3, Amount: 15}}}.Append(nil))},
		{abi.OpDecide, abi.AdmissionInput{At: 1, PromptTokens: 2, OutputMax: 3, Stream: true, Account: "a", Key: "k", Model: "m", Protocol: "p",
			Counters: counted}.Append(nil),
			string(abi.Decision{Verdict: abi.Deny, Priority: -6, Kind: abi.Kind(10), RetryAfterMS: 12345789, Msg: "p"}.Append(nil))},
		{abi.OpDecide, abi.AdmissionInput{At: 1, PromptTokens: 2, OutputMax: 3, Stream: true, Account: "a", Key: "k", Model: "m", Protocol: "p",
			Counters: counted}.Append10(nil),
			string(abi.Decision{Verdict: abi.Deny, Priority: -6, Kind: abi.Kind(5), RetryAfterMS: 12345789, Msg: "p"}.Append(nil))},
	}
	for _, c := range cases {
		frame, err := g.call(c.op, c.in)
		if err != nil {
			t.Fatalf("%s: %v", c.op, err)
		}
		out, err := abi.ParseOutput(frame)
		if err != nil || out.Status != abi.StatusOK || string(out.Payload) != c.want {
			t.Errorf("%s: status %d, %v\n%q, want\n%q", c.op, out.Status, err, out.Payload, c.want)
		}
	}
	for _, op := range []abi.Op{abi.OpRequest, abi.OpEvents, abi.OpResponse, abi.OpError, abi.OpQuote, abi.OpCharge, abi.OpDecide, 99} {
		for _, in := range []string{"", "short", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"} {
			frame, err := g.call(op, []byte(in))
			if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusDecline {
				t.Errorf("op %d of %q: %v, %v", op, in, out, err)
			}
		}
	}
}

// TestHeaderKeepsState: state and bytes come back whole however their sizes
// change, and large inputs grow the memory in place.
func TestHeaderKeepsState(t *testing.T) {
	g := echo(t, "")
	r := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string { return strings.Repeat(string(rune('a'+r.IntN(26))), r.IntN(most)) }
	for i := range 300 {
		before, first, last := text(300), text(300), text(300)
		if i%50 == 49 {
			first = strings.Repeat("x", 1<<20)
		}
		var events abi.Frames
		for _, s := range []string{first, last} {
			events = abi.AppendFrame(events, &abi.Event{Kind: abi.EventDelta, Text: s})
		}
		frame, err := g.call(abi.OpEvents, abi.EventsInput{State: []byte(before), Kept: []byte("k"), History: abi.Frames("h"),
			Events: events}.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		out, err := abi.ParseOutput(frame)
		if err != nil {
			t.Fatal(err)
		}
		w, err := abi.ParseWritten(out.Payload)
		if err != nil || string(w.State) != last || string(w.Bytes) != before+"|k|h|"+first+"|"+last+"|" {
			t.Fatalf("state of %d bytes to %d: %q, %d bytes, %v", len(before), len(last), w.State, len(w.Bytes), err)
		}
	}
}

// TestHeaderReadsJSON: what the small reader takes for a value is what is written.
func TestHeaderReadsJSON(t *testing.T) {
	g := echo(t, "")
	cases := []struct{ body, want string }{
		{`{}`, ``},
		{" { \"a\" : 1 ,\n\"b\":\"x\\\"}\" } ", `a=1;b="x\"}";`},
		{`{"a":[1,[2,{"b":3}],"]"],"c":{"d":"}"},"e":null,"f":true,"g":-1.5e+3}`, `a=[1,[2,{"b":3}],"]"];c={"d":"}"};e=null;f=true;g=-1.5e+3;`},
		{`{"int":9223372036854775807}`, `int=9223372036854775807;`},
		{`{"int":-9223372036854775808}`, `int=-9223372036854775808;`},
		{`{"int":0}`, `int=0;`},
		{`{"list":[]}`, `list:;`},
		{`{"list":[ 1 , "b" ,{"c":[]}],"d":2}`, `list:1,"b",{"c":[]},;d=2;`},
	}
	bad := []string{``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a":1]`, `{"a":[1}`, `{"a":[1}}`, `{"a":"x}`,
		"{\"a\":\"x\ny\"}", `{"a":"x\`, `{"a":1}x`, `{"int":9223372036854775808}`, `{"int":-9223372036854775809}`, `{"int":01}`, `{"int":-}`, `{"int":1.5}`, `{"int":"1"}`,
		`{"list":[1,]}`, `{"list":[1}`, `{"list":1}`, `{"a":` + strings.Repeat("[", 129) + strings.Repeat("]", 129) + `}`, `{"a":]}`, `{"a":1}}`}
	for _, body := range bad {
		cases = append(cases, struct{ body, want string }{body, ""})
	}
	for i, c := range cases {
		frame, err := g.call(abi.OpRequest, abi.RequestInput{Body: []byte(c.body)}.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		out, err := abi.ParseOutput(frame)
		if err != nil {
			t.Fatal(err)
		}
		if i >= len(cases)-len(bad) {
			if r, err := abi.ParseRefusal(out.Payload); out.Status != abi.StatusError || out.Kind != abi.InvalidRequest ||
				r.Msg != "bad" || err != nil {
				t.Errorf("%s was read as %q", c.body, out.Payload)
			}
			continue
		}
		if got, err := abi.ParseTranslated(out.Payload); err != nil || out.Status != abi.StatusOK || string(got.Body) != c.want ||
			string(got.Kept) != c.body {
			t.Errorf("%s was read as %q, want %q", c.body, out.Payload, c.want)
		}
	}
}

// TestHeaderEscapes has abi.AppendEscaped as its oracle.
func TestHeaderEscapes(t *testing.T) {
	g := echo(t, "")
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"plain", "\"", "\\", "\n", "\r", "\t", "\x00", "\x1f", "\x7f", "é", "\u2028", "😀", "\xff", "\xc1\x80", "\xf0\x9f\x98",
		"\xed\xa0\x80", "\xe0\x9f\x80", "\xf0\x8f\x80\x80", "\xf4\x90\x80\x80", "\xf5", "\xe2\x82", "\U0010FFFF"}
	for range 3000 {
		var s string
		for range r.IntN(6) {
			s += parts[r.IntN(len(parts))]
		}
		frame, err := g.call(abi.OpResponse, abi.ResponseInput{Facts: abi.Facts{Model: s}}.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		out, err := abi.ParseOutput(frame)
		if want := " " + string(abi.AppendEscaped(nil, s)) + " 0 0||"; err != nil || string(out.Payload) != want {
			t.Fatalf("%q: %q, want %q, %v", s, out.Payload, want, err)
		}
	}
}

// TestHeaderClips: a refusal that is made of what a client sent stays one.
func TestHeaderClips(t *testing.T) {
	wasm, err := os.ReadFile("translator-c/module.wasm")
	if err != nil {
		t.Fatal(err)
	}
	g := open(t, wasm, "")
	for _, key := range []string{"short", strings.Repeat("k", 2048), strings.Repeat("k", 2049), strings.Repeat("é", 5000), "x" + strings.Repeat("é", 5000),
		strings.Repeat("\xff", 9000), "a\xffb"} {
		frame, err := g.call(abi.OpRequest, abi.RequestInput{Body: []byte(`{"` + key + `":1}`)}.Append(nil))
		if err != nil {
			t.Fatal(err)
		}
		out, _ := abi.ParseOutput(frame)
		refusal, err := abi.ParseRefusal(out.Payload)
		if err != nil || out.Status != abi.StatusError || len(refusal.Param) > abi.RefusalBytesMax || !utf8.ValidString(refusal.Param) ||
			!strings.HasPrefix(strings.ToValidUTF8(strings.ReplaceAll(key, "\xff", "?"), "?"), refusal.Param) || refusal.Param == "" ||
			refusal.Msg != "text completions have no such field" {
			t.Errorf("a key of %d bytes: %+v, %v", len(key), refusal, err)
		}
	}
}

func TestHeaderConfigures(t *testing.T) {
	g := echo(t, `{"logged":"this"}`)
	if len(g.logged) != 1 || g.logged[0] != `1 {"logged":"this"}` || g.counted[3] != -7 {
		t.Errorf("logged %q, counted %v", g.logged, g.counted)
	}
	if g := echo(t, ""); len(g.logged) != 1 || g.logged[0] != `1 {}` {
		t.Errorf("no configuration is given as %q", g.logged)
	}
	wasm, err := os.ReadFile("translator-c/module.wasm")
	if err != nil {
		t.Fatal(err)
	}
	frame, err := open(t, wasm, "").run("init", []byte(`{"a":1}`))
	if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusError {
		t.Errorf("a module without configuration took one: %v, %v", out, err)
	}
}

// TestLiteralsOnly: cn_puts and CN_LITERAL take their size from the literal. Of
// a pointer that would be the pointer's, so it must not compile. Any C compiler
// that is there can tell: nothing is linked or run.
func TestLiteralsOnly(t *testing.T) {
	compiler := ""
	for _, name := range []string{"clang", "gcc", "cc"} {
		if _, err := exec.LookPath(name); err == nil {
			compiler = name
			break
		}
	}
	if compiler == "" {
		t.Skip("no C compiler: that a pointer is refused is not tested")
	}
	compiles := func(body string) (bool, string) {
		file := filepath.Join(t.TempDir(), "module.c")
		source := "#define CN_ADMISSION\n#include \"corenode.h\"\nstatic int cn_decide(const cn_admission_input *in, cn_decision *out)\n{\n" +
			"\tconst char *pointer = in->key.p;\n\t(void)pointer;\n" + body + "\n\tout->verdict = CN_ALLOW;\n\treturn CN_OK;\n}\n"
		if err := os.WriteFile(file, []byte(source), 0o644); err != nil {
			t.Fatal(err)
		}
		// Another target than Wasm has other built-in functions and attributes: warnings do not matter here.
		output, err := exec.Command(compiler, "-std=c99", "-fsyntax-only", "-w", "-D__wasm_bulk_memory__", "-I../sdk/c", file).CombinedOutput()
		return err == nil, string(output)
	}
	if ok, output := compiles(`	cn_puts("text"); out->msg = CN_LITERAL("text");`); !ok {
		t.Skipf("%s does not take the header: %s", compiler, output)
	}
	for _, body := range []string{"\tcn_puts(pointer);", "\tout->msg = CN_LITERAL(pointer);"} {
		if ok, _ := compiles(body); ok {
			t.Errorf("%s compiles of a pointer", strings.TrimSpace(body))
		}
	}
}
