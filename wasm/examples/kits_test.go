package examples

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// echoes are the modules of every kind that write what they read, one of each kit.
var echoes = map[string]string{
	"c": "../sdk/c/testdata/module.wasm", "rust": "../sdk/rust/testdata/module.wasm",
	"assemblyscript": "../sdk/assemblyscript/testdata/module.wasm",
}

// everyKit runs a test on the echo module of each kit.
func everyKit(t *testing.T, test func(t *testing.T, echo func(config string) *guest)) {
	for kit, file := range echoes {
		t.Run(kit, func(t *testing.T) {
			wasm, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			test(t, func(config string) *guest { return open(t, wasm, config) })
		})
	}
}

// TestKitsReadEveryField: an echo module writes what its kit read, and what came over
// the boundary must be all there.
func TestKitsReadEveryField(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		for _, c := range append(fieldCases(), policyCases()...) {
			g.logged = nil
			frame, err := g.call(c.op, c.in)
			if err != nil {
				t.Fatalf("%s: %v", c.op, err)
			}
			out, err := abi.ParseOutput(frame)
			if err != nil || out.Status != abi.StatusOK || string(out.Payload) != c.want {
				t.Errorf("%s: status %d, %v\n%q, want\n%q", c.op, out.Status, err, out.Payload, c.want)
			}
			if logged := strings.TrimPrefix(strings.Join(g.logged, ";"), "1 "); logged != c.logged {
				t.Errorf("%s: it read\n%q, want\n%q", c.op, logged, c.logged)
			}
		}
		in := abi.ModelsInput{Route: abi.Route{Params: []abi.Pair{{Name: "a", Value: "1"}, {Name: "refuse", Value: "none"}}}}
		frame, err := g.call(abi.OpModels, in.Append(nil))
		out, _ := abi.ParseOutput(frame)
		if r, rErr := abi.ParseRefusal(out.Payload); err != nil || rErr != nil || out.Kind != abi.ModelNotFound ||
			r != (abi.Refusal{Param: "model", Msg: "none"}) {
			t.Errorf("a model that there is not: %+v %+v, %v", out, r, err)
		}
		for _, op := range []abi.Op{abi.OpRequest, abi.OpEvents, abi.OpResponse, abi.OpError, abi.OpModels, abi.OpCount, abi.OpQuote,
			abi.OpCharge, abi.OpDecide, 48, 64, 99} {
			inputs := []string{"", "short", "\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff", "decide/3"}
			if op == abi.OpModels { // a route with more pairs than there are bytes
				inputs = append(inputs, "models/1"+strings.Repeat("\x00", 17)+"\x01\x00\xff\xff\x01\x00")
			}
			for _, in := range inputs {
				frame, err := g.call(op, []byte(in))
				if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusDecline {
					t.Errorf("op %d of %q: %v, %v", op, in, out, err)
				}
			}
		}
	})
}

// TestCFailsClosed: in C a decline is what a module declines. A refusal where there is none, or more than a record
// holds, is a fault: a decline would let the request in, and show the text as it is.
func TestCFailsClosed(t *testing.T) {
	wasm, err := os.ReadFile(echoes["c"])
	if err != nil {
		t.Fatal(err)
	}
	ask := func(op abi.Op, name, model string) (abi.Output, error) {
		in := map[abi.Op][]byte{
			abi.OpQuote:  abi.QuoteInput{Account: name}.Append(nil),
			abi.OpCharge: abi.ChargeInput{Model: model, Account: name}.Append(nil),
			abi.OpDecide: abi.AdmissionInput{Account: name}.Append(nil),
			abi.OpFilter: abi.FilterInput{Facts: abi.Facts{Model: name}, Text: "text"}.Append(nil),
		}[op]
		frame, err := open(t, wasm, "").call(op, in)
		if err != nil {
			return abi.Output{}, err
		}
		return abi.ParseOutput(frame)
	}
	for _, op := range []abi.Op{abi.OpQuote, abi.OpCharge, abi.OpDecide, abi.OpFilter} {
		for name, want := range map[string]abi.Status{"none": abi.StatusOK, "decline": abi.StatusDecline} {
			if out, err := ask(op, name, ""); err != nil || out.Status != want {
				t.Errorf("%s, %s: status %d, %v", op, name, out.Status, err)
			}
		}
		for _, name := range []string{"refuse", "too many", "unknown"} {
			if out, err := ask(op, name, ""); err == nil {
				t.Errorf("%s, %s: status %d, want a trap", op, name, out.Status)
			}
		}
	}
	if out, err := ask(abi.OpCharge, "too many", "taken"); err == nil {
		t.Errorf("charge takes of too many counters: status %d, want a trap", out.Status)
	}
}

type fieldCase struct {
	op           abi.Op
	in           []byte
	want, logged string
}

// fieldCases has another value in every field of every record.
func fieldCases() []fieldCase {
	facts := abi.Facts{ID: "id", Created: -5, Model: "m\"\n\x01", Stream: true}
	events := abi.Frames{}
	for _, e := range []abi.Event{
		{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 1, CacheRead: 2, CacheWrite: 3}},
		{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 258, ID: "toolu_1", Name: "look"},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 258, Text: "{\"a\":1}"},
		{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 258},
		{Kind: abi.EventEnd, Stop: abi.StopStopSequence, StopSequence: "\n",
			Elapsed: &abi.Elapsed{Total: 1, Load: 2, Prompt: 3, Generation: -4},
			Usage:   abi.Usage{InputUncached: 1, CacheRead: 2, CacheWrite: 3, Output: 4, Reasoning: -9223372036854775808}},
	} {
		events = abi.AppendFrame(events, &e)
	}
	const factsText, routeText = "-5|1|id|m\"\n\x01|", "258|p|1|q|2|q|3|h|4|"
	const eventsText = `0 0 0 [1 2 3 0 0 ]` + `1 2 258 [toolu_1 look]` + `2 2 258 [{\"a\":1}]` + `3 2 258 []` +
		`6 0 0 [1|2|3|-4|]` + `4 4 0 [1 2 3 4 -9223372036854775808 \n]`
	route := abi.Route{Index: 258, Params: []abi.Pair{{Name: "p", Value: "1"}},
		Query:   []abi.Pair{{Name: "q", Value: "2"}, {Name: "q", Value: "3"}},
		Headers: []abi.Pair{{Name: "h", Value: "4"}}}
	counted := abi.Counters{AccountRequests: 4, AccountRequestsMax: 5, TokensRemaining: -6, TokensPerMinute: 7, Available: 8,
		Unlimited: true, NodeRequests: 9, NodeRequestsMax: 10,
		ModelQueued: 11, ModelQueuedMax: 12, ModelWaitMS: 13, ModelPagesUsed: 14, ModelPages: 15}
	failure := abi.ErrorInput{Facts: facts, State: []byte("s"), Kept: []byte("k"), History: abi.Frames("h"), Status: 503,
		Kind: abi.Overloaded, Detail: abi.Detail{Reason: abi.ReasonLimit, Prompt: 1, Value: -2, Bound: 3}, Param: "p", Msg: "msg"}
	charge := abi.ChargeInput{Prices: abi.Prices{Input: 1, Cached: 2, Output: 3}, At: 9, Model: "m", Account: "a",
		Usage: abi.Usage{InputUncached: 4, CacheRead: 5, CacheWrite: 6, Output: 7, Reasoning: 8}}
	decide := abi.AdmissionInput{At: 1, PromptTokens: 2, OutputMax: 3, Stream: true, Account: "a", Key: "k", Model: "m",
		Protocol: "p", Counters: counted}
	deny := abi.Decision{Verdict: abi.Deny, Priority: -6, Kind: abi.UnsupportedEncoding, RetryAfterMS: 12345789, Msg: "p"}
	denied := string(deny.Append(nil))
	reserving, reserve := decide, deny
	reserving.Stream, reserve.Verdict, reserve.Takes = false, abi.Reserve, []abi.Take{{Limit: 7, Max: -8}}
	return []fieldCase{
		{abi.OpRequest, abi.RequestInput{Facts: facts, Route: &route, Body: []byte("{}")}.Append(nil),
			"\x00\x00\x00\x00" + factsText + routeText + "{}|", ""},
		{abi.OpResponse, abi.ResponseInput{Facts: facts, Kept: []byte("kept"), Events: events}.Append(nil),
			`m\"\n\u0001|kept|` + eventsText, ""},
		{abi.OpError, failure.Append(nil), factsText + "s|k|h|503|7|2|1|-2|3|p|msg|", ""},
		{abi.OpError, failure.Append10(nil), factsText + "s|k|h|503|7|0|0|0|0|p|p: msg|", ""},
		{abi.OpModels, abi.ModelsInput{Facts: facts, Route: route, Body: []byte("body"), Models: []abi.Model{
			{ID: "a", Name: "A", Created: 1, Context: 2, Output: 3}, {ID: "b", Created: -4}}}.Append(nil),
			factsText + routeText + "1|2|3|a|A|-4|0|0|b||body|", ""},
		{abi.OpCount, abi.CountInput{Facts: facts, Tokens: -7, Kept: []byte("k")}.Append(nil), factsText + "-7|k|", ""},
		{abi.OpQuote, abi.QuoteInput{Prices: charge.Prices, Input: 4, OutputMax: 5, At: 6, Model: "m", Account: "a"}.Append(nil),
			string(abi.Quote{Upper: 123456, Minimum: -11}.Append(nil)), "1|2|3|4|5|6|m|a|"},
		{abi.OpCharge, charge.Append(nil), string(abi.Charge{Total: 123456789, Tier: 11, Lines: []abi.Line{
			{Unit: "0123456789abcdef", Tokens: 5, Price: 3, Amount: 15}}}.Append(nil)), "1|2|3|4|5|6|7|8|9|m|a|"},
		{abi.OpDecide, decide.Append(nil), denied, "1|2|3|1|4|5|-6|7|8|1|9|10|11|12|13|14|15|a|k|m|p|"},
		{abi.OpDecide, reserving.Append(nil), string(reserve.Append(nil)), "1|2|3|0|4|5|-6|7|8|1|9|10|11|12|13|14|15|a|k|m|p|"},
		{abi.OpDecide, decide.Append10(nil), denied, "1|2|3|1|4|5|-6|7|8|1|9|10|0|0|0|0|0|a|k|m|p|"},
	}
}

// policyCases is what came with chains: counters, rewrite and filter, byte by byte.
func policyCases() []fieldCase {
	ints := func(all ...int64) string {
		var b []byte
		for _, n := range all {
			b = binary.LittleEndian.AppendUint64(b, uint64(n))
		}
		return string(b)
	}
	section := func(s string) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s }
	const two, rewrite, filter = "\x02\x00\x00\x00", abi.Op(48), abi.Op(64)
	prices, usage := ints(1, 2, 3), ints(4, 5, 6, 7, 8)
	line := "0123456789abcdef" + ints(5, 3, 15)
	facts := ints(-5) + "\x01" + section("id") + section("m")
	return []fieldCase{
		{abi.OpQuote, []byte("quote/1\x00" + prices + ints(4, 5, 7) + section("m") + "a"), ints(123456, -11, 12, 13) + two + ints(14, 15, 0, -16),
			"1|2|3|4|5|7|m|a|"},
		{abi.OpCharge, []byte("charge/3" + prices + usage + ints(9) + two + ints(5, -6) + section("m") + "a"),
			ints(123456789) + "\x0b\x00\x00\x00\x01\x00\x00\x00" + line + two + ints(4, -7), "1|2|3|4|5|6|7|8|9|5|-6|m|a|"},
		{rewrite, []byte("rewrit/1" + ints(1) + "\x01" + section("a") + section("k") + section("p") + "body"), "1|1|a|k|p|body|", ""},
		{filter, []byte("filter/1" + facts + "\x01\x01" + section("s") + "text"), section("text") + "-5|1|id|m|1|1|s|text|", ""},
		{filter, []byte("filter/1" + facts + "\x00\x00" + section(strings.Repeat("s", 256)) + strings.Repeat("t", 300)),
			section(strings.Repeat("t", 256)) + "-5|1|id|m|0|0|" + strings.Repeat("s", 256) + "|" + strings.Repeat("t", 300) + "|", ""},
	}
}

// TestKitsKeepState: state and bytes come back whole however their sizes
// change, and large inputs grow the memory in place.
func TestKitsKeepState(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
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
	})
}

// TestKitsReadJSON: what the small reader takes for a value is what is written.
func TestKitsReadJSON(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		cases := []struct{ body, want string }{
			{`{}`, ``},
			{" { \"a\" : 1 ,\n\"b\":\"x\\\"}\" } ", `a=1;b="x\"}";`},
			{`{"a":[1,[2,{"b":3}],"]"],"c":{"d":"}"},"e":null,"f":true,"g":-1.5e+3}`,
				`a=[1,[2,{"b":3}],"]"];c={"d":"}"};e=null;f=true;g=-1.5e+3;`},
			{`{"int":9223372036854775807}`, `int=9223372036854775807;`},
			{`{"int":-9223372036854775808}`, `int=-9223372036854775808;`},
			{`{"int":0}`, `int=0;`},
			{`{"list":[]}`, `list:;`},
			{`{"list":[ 1 , "b" ,{"c":[]}],"d":2}`, `list:1,"b",{"c":[]},;d=2;`},
		}
		bad := []string{``, `[]`, `{`, `{"a"}`, `{"a":}`, `{"a":1,}`, `{,}`, `{"a":1 "b":2}`, `{"a":1]`, `{"a":[1}`, `{"a":[1}}`, `{"a":"x}`,
			"{\"a\":\"x\ny\"}", `{"a":"x\`, `{"a":1}x`, `{"int":9223372036854775808}`, `{"int":-9223372036854775809}`,
			`{"int":01}`, `{"int":-}`, `{"int":1.5}`, `{"int":"1"}`,
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
	})
}

// TestKitsTakeOnlyJSON changes bytes of bodies: what a kit takes is what encoding/json
// takes, and UTF-8.
func TestKitsTakeOnlyJSON(t *testing.T) {
	const whole = `{"a":[1,-0.5e+3,{"b":"x\u00e9\n\"é😀"},[],{}],"c":{"d":true,"e":[false,null]},"f":"\/\b","g":1E9}`
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		r := rand.New(rand.NewPCG(5, 6))
		taken, rounds := 0, 4000
		for range rounds {
			body := []byte(whole)
			for range r.IntN(3) {
				at := r.IntN(len(body))
				switch r.IntN(3) {
				case 0:
					body[at] = whole[r.IntN(len(whole))]
				case 1:
					body = append(body[:at], body[at+1:]...)
				default:
					body[at] = byte(r.IntN(256))
				}
			}
			frame, err := g.call(abi.OpRequest, abi.RequestInput{Body: body}.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			out, _ := abi.ParseOutput(frame)
			valid := json.Valid(body) && utf8.Valid(body) && bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{"))
			if valid != (out.Status == abi.StatusOK) {
				t.Fatalf("%q: valid is %v, the kit says %d %q", body, valid, out.Status, out.Payload)
			}
			if valid {
				taken++
			}
		}
		if taken < rounds/10 || taken > rounds*9/10 {
			t.Errorf("%d of %d bodies were valid", taken, rounds)
		}
	})
}

// TestKitsUnescape has encoding/json as its oracle.
func TestKitsUnescape(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		r := rand.New(rand.NewPCG(7, 8))
		parts := []string{"plain", `\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`, `\u0000`, `\u007f`, `\u00E9`, `\u07ff`, `\u0800`, `\uffff`,
			`\ud83d\ude00`, `\ud83d`, `\ude00`, "é", "😀", `\uDBFF\uDFFF`, "budded"}
		for range 2000 {
			var s string
			for range r.IntN(6) {
				s += parts[r.IntN(len(parts))]
			}
			var want string
			if err := json.Unmarshal([]byte(`"`+s+`"`), &want); err != nil {
				t.Fatal(err)
			}
			frame, err := g.call(abi.OpRequest, abi.RequestInput{Body: []byte(`{"text":"` + s + `"}`)}.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			out, _ := abi.ParseOutput(frame)
			if got, err := abi.ParseTranslated(out.Payload); err != nil || string(got.Body) != "text="+want+";" {
				t.Fatalf("%s is read as %q, want %q, %v", s, got.Body, want, err)
			}
		}
	})
}

// TestKitsTakeLittleMemory: what a client makes a body of takes a few times the memory of the body, not
// so much for each value that a small body has more of them than fit.
func TestKitsTakeLittleMemory(t *testing.T) {
	const size = 64 << 10
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		for name, body := range map[string]string{
			"members": "{" + strings.Repeat(`"a":1,`, size/6) + `"b":2}`,
			"list":    `{"list":[` + strings.Repeat("123,", size/4) + "1]}",
			"escapes": `{"text":"` + strings.Repeat(`\n`, size/2) + `"}`,
		} {
			g := echo("")
			before := g.module.Memory().Size()
			frame, err := g.call(abi.OpRequest, abi.RequestInput{Body: []byte(body)}.Append(nil))
			if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusOK {
				t.Fatalf("%s: status %d, %v", name, out.Status, err)
			}
			if grown := g.module.Memory().Size() - before; grown > 16*size {
				t.Errorf("%s: a body of %d bytes took %d", name, len(body), grown)
			}
		}
		g := echo("")
		before := g.module.Memory().Size()
		_, err := g.call(abi.OpResponse, abi.ResponseInput{Facts: abi.Facts{Model: strings.Repeat("\n", size)}}.Append(nil))
		if grown := g.module.Memory().Size() - before; err != nil || grown > 16*size {
			t.Errorf("to escape %d characters took %d, %v", size, grown, err)
		}
	})
}

// TestKitsEscape has abi.AppendEscaped as its oracle. But a kit leaves ends of lines that JSON
// allows in a string as they are.
func TestKitsEscape(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		r, left := rand.New(rand.NewPCG(3, 4)), strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028")
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
			if want := left.Replace(string(abi.AppendEscaped(nil, s))) + "||"; err != nil || string(out.Payload) != want {
				t.Fatalf("%q: %q, want %q, %v", s, out.Payload, want, err)
			}
		}
	})
}

// TestKitsClip: a refusal that is made of what a client sent stays one.
func TestKitsClip(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		for _, key := range []string{"short", strings.Repeat("k", 2048), strings.Repeat("k", 2049), strings.Repeat("é", 5000),
			"x" + strings.Repeat("é", 5000), strings.Repeat("\xff", 9000), "a\xffb"} {
			in := abi.ModelsInput{Route: abi.Route{Params: []abi.Pair{{Name: "refuse", Value: key}}}}
			frame, err := g.call(abi.OpModels, in.Append(nil))
			if err != nil {
				t.Fatal(err)
			}
			out, _ := abi.ParseOutput(frame)
			refusal, err := abi.ParseRefusal(out.Payload)
			if err != nil || out.Status != abi.StatusError || len(refusal.Msg) > abi.RefusalBytesMax || !utf8.ValidString(refusal.Msg) ||
				!strings.HasPrefix(strings.ReplaceAll(key, "\xff", "?"), refusal.Msg) || len(refusal.Msg) < min(len(key), 2047) {
				t.Errorf("a model of %d bytes: %+v, %v", len(key), refusal, err)
			}
		}
	})
}

// TestKitsCompose: what a refusal or a denial says may have been written into the output, where the answer lies.
func TestKitsCompose(t *testing.T) {
	clip := func(s string) string {
		for len(s) > abi.RefusalBytesMax {
			_, n := utf8.DecodeLastRuneInString(s)
			s = s[:len(s)-n]
		}
		return s
	}
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo("")
		for _, name := range []string{"", "x", "zebulon", "é€😀", strings.Repeat("é", 800), strings.Repeat("é", 5000)} {
			want := abi.Refusal{Param: clip("the field " + name), Msg: clip("there is no " + name)}
			models := abi.ModelsInput{Route: abi.Route{Params: []abi.Pair{{Name: "composed", Value: name}}}}
			for op, in := range map[abi.Op][]byte{
				abi.OpModels:  models.Append(nil),
				abi.OpRewrite: abi.RewriteInput{Account: "composed", Key: name, Body: []byte("{}")}.Append(nil),
				abi.OpDecide:  abi.AdmissionInput{Account: "composed", Key: name, Stream: true}.Append(nil),
			} {
				frame, err := g.call(op, in)
				if err != nil {
					t.Fatalf("%s: %v", op, err)
				}
				out, err := abi.ParseOutput(frame)
				if op == abi.OpDecide {
					if d, dErr := abi.ParseDecision(out.Payload); err != nil || dErr != nil || d.Verdict != abi.Deny || d.Msg != want.Msg {
						t.Errorf("%s of %d bytes: %+v, %v %v, want %q", op, len(name), d, err, dErr, want.Msg)
					}
					continue
				}
				if r, rErr := abi.ParseRefusal(out.Payload); err != nil || rErr != nil || out.Status != abi.StatusError || r != want {
					t.Errorf("%s of %d bytes: %+v, %v %v, want %+v", op, len(name), r, err, rErr, want)
				}
			}
			frame, err := echo("").run("init", []byte(`{"composed":"`+name+`"}`))
			out, _ := abi.ParseOutput(frame)
			want = abi.Refusal{Param: clip(`the field "` + name + `"`), Msg: clip(`there is no "` + name + `"`)}
			if r, rErr := abi.ParseRefusal(out.Payload); err != nil || rErr != nil || out.Status != abi.StatusError || r != want {
				t.Errorf("init of %d bytes: %+v, %v %v, want %+v", len(name), r, err, rErr, want)
			}
		}
	})
}

func TestKitsConfigure(t *testing.T) {
	everyKit(t, func(t *testing.T, echo func(string) *guest) {
		g := echo(`{"logged":"this"}`)
		if len(g.logged) != 1 || g.logged[0] != `1 {"logged":"this"}` || g.counted[3] != -7 {
			t.Errorf("logged %q, counted %v", g.logged, g.counted)
		}
		if g := echo(""); len(g.logged) != 1 || g.logged[0] != `1 {}` {
			t.Errorf("no configuration is given as %q", g.logged)
		}
	})
	for lang := range echoes {
		wasm, err := os.ReadFile(filepath.Join("translator-"+lang, "module.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		frame, err := open(t, wasm, "").run("init", []byte(`{"a":1}`))
		if out, _ := abi.ParseOutput(frame); err != nil || out.Status != abi.StatusError {
			t.Errorf("%s: a module without configuration took one: %v, %v", lang, out, err)
		}
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
