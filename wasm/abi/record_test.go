package abi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// fill gives every field of a record a value that is not zero, so that a field
// that an encoder or decoder forgets shows as a difference.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
		if d, ok := v.Addr().Interface().(*Decision); ok && d.Verdict != Reserve {
			d.Takes = nil // it has none
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(text(r))
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(text(r)))
			return
		}
		most := LinesMax
		if elem := v.Type().Elem(); elem.Kind() == reflect.Int64 || elem == reflect.TypeFor[Take]() {
			most = CountersMax
		}
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(most), LinesMax))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Int: // only Status, Tier and Index have this type, which travel smaller
		v.SetInt(int64(1 + r.IntN(1<<16-1)))
	case reflect.Int8, reflect.Int64:
		for v.IsZero() {
			v.SetInt(int64(r.Uint64()) >> (64 - v.Type().Bits()))
		}
	case reflect.Uint8: // a Verdict or a BlockKind
		v.SetUint(uint64(1 + r.IntN(int(Reserve))))
	case reflect.Uint16, reflect.Uint32:
		v.SetUint(1 + uint64(r.Uint32())>>(33-v.Type().Bits()))
	default:
		panic("no rule for a field of type " + v.Type().String())
	}
}

// text is one to UnitBytes bytes without zeros, so that it fits a line's unit.
func text(r *rand.Rand) string {
	b := make([]byte, 1+r.IntN(UnitBytes))
	for i := range b {
		b[i] = byte(1 + r.IntN(255))
	}
	return string(b)
}

// roundTrip draws records and looks at what comes back, and at every way to
// cut their bytes short.
func roundTrip[T any](t *testing.T, encode func(T, []byte) []byte, decode func([]byte) (T, error)) {
	t.Run(reflect.TypeFor[T]().Name(), func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 200 {
			var want T
			fill(r, reflect.ValueOf(&want).Elem())
			b := encode(want, []byte("before"))
			if !bytes.HasPrefix(b, []byte("before")) {
				t.Fatal("the encoder wrote over what stood before")
			}
			b = b[len("before"):]
			got, err := decode(b)
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("%+v came back as %+v, %v", want, got, err)
			}
			refused := 0
			for n := range b {
				short, err := decode(b[:n:n])
				if err == nil && !bytes.Equal(encode(short, nil), b[:n]) {
					t.Fatalf("%d of %d bytes were read as %+v", n, len(b), short)
				}
				if errors.Is(err, ErrMalformed) {
					refused++
				}
			}
			if refused == 0 {
				t.Fatalf("no beginning of %d bytes was refused", len(b))
			}
		}
		var zero T
		b := encode(zero, nil)
		got, err := decode(b)
		if err != nil || !bytes.Equal(encode(got, nil), b) {
			t.Errorf("the zero record came back as %+v, %v", got, err)
		}
	})
}

func TestRecordsRoundTrip(t *testing.T) {
	roundTrip(t, Refusal.Append, ParseRefusal)
	roundTrip(t, RequestInput.Append, ParseRequestInput)
	roundTrip(t, Translated.Append, ParseTranslated)
	roundTrip(t, EventsInput.Append, ParseEventsInput)
	roundTrip(t, Written.Append, ParseWritten)
	roundTrip(t, ResponseInput.Append, ParseResponseInput)
	roundTrip(t, ErrorInput.Append, ParseErrorInput)
	roundTrip(t, ModelsInput.Append, ParseModelsInput)
	roundTrip(t, CountInput.Append, ParseCountInput)
	roundTrip(t, QuoteInput.Append, ParseQuoteInput)
	roundTrip(t, Quote.Append, ParseQuote)
	roundTrip(t, ChargeInput.Append, ParseChargeInput)
	roundTrip(t, Charge.Append, ParseCharge)
	roundTrip(t, AdmissionInput.Append, ParseAdmissionInput)
	roundTrip(t, Decision.Append, ParseDecision)
	roundTrip(t, RewriteInput.Append, ParseRewriteInput)
	roundTrip(t, FilterInput.Append, ParseFilterInput)
	roundTrip(t, Filtered.Append, ParseFiltered)
}

// TestBytesOfTheBoundary pins each layout: the bytes are written out by hand,
// as a guest in another language reads and writes them.
func TestBytesOfTheBoundary(t *testing.T) {
	i64 := func(all ...int64) string { return string(appendInts(nil, all...)) }
	facts := Facts{ID: "r1", Created: 7, Model: "m", Stream: true}
	factsBytes := i64(7) + "\x01" + "\x02\x00\x00\x00r1" + "\x01\x00\x00\x00m"
	route := Route{Index: 3, Params: []Pair{{"model", "m/1"}}, Query: []Pair{{"alt", "sse"}}}
	routeBytes := "\x03\x00" + "\x01\x00\x05\x00\x00\x00model\x03\x00\x00\x00m/1" +
		"\x01\x00\x03\x00\x00\x00alt\x03\x00\x00\x00sse" + "\x00\x00"
	prices := Prices{Input: 3, Cached: 2, Output: 5}
	used := Usage{InputUncached: 11, CacheRead: 12, CacheWrite: 13, Output: 14, Reasoning: 6}
	cases := []struct {
		name string
		got  []byte
		want string
	}{
		{"request input", RequestInput{Facts: facts, Body: []byte("{}")}.Append(nil), factsBytes + "{}"},
		{"request input with a route", RequestInput{Facts: facts, Route: &route, Body: []byte("{}")}.Append(nil),
			"request\x02" + factsBytes + routeBytes + "{}"},
		{"models input", ModelsInput{Facts: facts, Route: route, Body: []byte("{}"),
			Models: []Model{{ID: "i", Name: "nn", Created: 4, Context: 5, Output: 6}}}.Append(nil),
			"models/1" + factsBytes + routeBytes + "\x01\x00\x00\x00" + i64(4, 5, 6) + "\x01\x00\x00\x00i\x02\x00\x00\x00nn{}"},
		{"count input", CountInput{Facts: facts, Tokens: 9, Kept: []byte("k")}.Append(nil),
			"count/1\x00" + factsBytes + i64(9) + "\x01\x00\x00\x00k"},
		{"translated", Translated{Body: []byte("{}"), Kept: []byte("k")}.Append(nil), "\x01\x00\x00\x00k{}"},
		{"events input", EventsInput{Facts: facts, State: []byte("s"), Kept: []byte("kk"), History: Frames("h"), Events: Frames("e")}.Append(nil),
			factsBytes + "\x01\x00\x00\x00s" + "\x02\x00\x00\x00kk" + "\x01\x00\x00\x00h" + "e"},
		{"written", Written{State: []byte("s"), Bytes: []byte("b")}.Append(nil), "\x01\x00\x00\x00sb"},
		{"response input", ResponseInput{Facts: facts, Kept: []byte("k"), Events: Frames("e")}.Append(nil), factsBytes + "\x01\x00\x00\x00ke"},
		{"error input", ErrorInput{Facts: facts, Status: 404, Kind: ModelNotFound, Param: "model", Msg: "no",
			Detail: Detail{Reason: ReasonLimit, Prompt: 3, Value: 4, Bound: 5}}.Append(nil),
			"error/2\x00" + factsBytes + strings.Repeat("\x00", 12) + "\x94\x01" + "\x02\x00" + "\x02\x00" + i64(3, 4, 5) + "\x05\x00\x00\x00modelno"},
		{"error input of ABI 1.0", ErrorInput{Facts: facts, Status: 404, Kind: ModelNotFound, Param: "model", Msg: "no"}.Append10(nil),
			factsBytes + strings.Repeat("\x00", 12) + "\x94\x01" + "\x02\x00" + "\x05\x00\x00\x00modelno"},
		{"error input of ABI 1.0, a sentence of numbers", ErrorInput{Facts: facts, Status: 400, Kind: InvalidRequest, Param: "max_tokens",
			Detail: Detail{Reason: ReasonWindow, Prompt: 3, Value: 4, Bound: 5}}.Append10(nil),
			factsBytes + strings.Repeat("\x00", 12) + "\x90\x01" + "\x01\x00" + "\x0a\x00\x00\x00max_tokens" +
				"max_tokens: input length and `max_tokens` exceed context limit: 3 + 4 > 5 (this model's maximum context length is 5 tokens; decrease the prompt or max_tokens)"},
		{"quote input", QuoteInput{Prices: prices, Input: 9, OutputMax: 8, At: 7, Model: "m", Account: "a"}.Append(nil),
			"quote/1\x00" + i64(3, 2, 5, 9, 8, 7) + "\x01\x00\x00\x00ma"},
		{"quote", Quote{Upper: 2, Minimum: 1}.Append(nil), i64(2, 1)},
		{"quote with a counter", Quote{Upper: 9, Minimum: 8, CoveredUpper: 7, CoveredMinimum: 6, Takes: []Take{{Limit: 5, Max: 4}}}.Append(nil),
			i64(9, 8, 7, 6) + "\x01\x00\x00\x00" + i64(5, 4)},
		{"charge input with counters", ChargeInput{Prices: prices, Usage: used, At: 7, Model: "m", Account: "a", Held: []int64{3, 2}}.Append(nil),
			"charge/3" + i64(3, 2, 5, 11, 12, 13, 14, 6, 7) + "\x02\x00\x00\x00" + i64(3, 2) + "\x01\x00\x00\x00ma"},
		{"charge with a counter", Charge{Total: 6, Tier: 1, Taken: []int64{2}}.Append(nil),
			i64(6) + "\x01\x00\x00\x00" + "\x00\x00\x00\x00" + "\x01\x00\x00\x00" + i64(2)},
		{"rewrite input", RewriteInput{At: 7, Counting: true, Account: "a", Key: "k", Protocol: "p", Body: []byte("{}")}.Append(nil),
			"rewrit/1" + i64(7) + "\x01" + "\x01\x00\x00\x00a" + "\x01\x00\x00\x00k" + "\x01\x00\x00\x00p" + "{}"},
		{"filter input", FilterInput{Facts: facts, Block: BlockText, Last: true, State: []byte("s"), Text: "é"}.Append(nil),
			"filter/1" + factsBytes + "\x01\x01" + "\x01\x00\x00\x00s" + "é"},
		{"filtered", Filtered{State: []byte("s"), Text: []byte("é")}.Append(nil), "\x01\x00\x00\x00s" + "é"},
		{"charge input", ChargeInput{Prices: prices, Usage: used, At: 7, Model: "m", Account: "a"}.Append(nil),
			"charge/2" + i64(3, 2, 5, 11, 12, 13, 14, 6, 7) + "\x01\x00\x00\x00ma"},
		{"charge", Charge{Total: 6, Tier: 1, Lines: []Line{{Unit: "input", Tokens: 2, Price: 3, Amount: 6}}}.Append(nil),
			i64(6) + "\x01\x00\x00\x00\x01\x00\x00\x00" + "input" + strings.Repeat("\x00", 11) + i64(2, 3, 6)},
		{"decide input", AdmissionInput{At: 1, PromptTokens: 2, OutputMax: 3, Stream: true, Account: "a", Key: "k", Model: "m", Protocol: "chat",
			Counters: Counters{4, 5, 6, 7, 8, true, 10, 11, 12, 13, 14, 15, 16}}.Append(nil),
			"decide/2" + i64(1, 2, 3, 1, 4, 5, 6, 7, 8, 1, 10, 11, 12, 13, 14, 15, 16) + "\x01\x00\x00\x00a\x01\x00\x00\x00k\x01\x00\x00\x00mchat"},
		{"decide input of ABI 1.0", AdmissionInput{At: 1, PromptTokens: 2, OutputMax: 3, Stream: true, Account: "a", Key: "k", Model: "m", Protocol: "chat",
			Counters: Counters{4, 5, 6, 7, 8, true, 10, 11, 12, 13, 14, 15, 16}}.Append10(nil),
			"decide/1" + i64(1, 2, 3, 1, 4, 5, 6, 7, 8, 1, 10, 11) + "\x01\x00\x00\x00a\x01\x00\x00\x00k\x01\x00\x00\x00mchat"},
		{"a decision that reserves", Decision{Verdict: Reserve, Priority: 2, Kind: RateLimited, Msg: "no", Takes: []Take{{Limit: 5, Max: 6}}}.Append(nil),
			"\x03\x02\x06\x00\x00\x00\x00\x00\x01\x00\x00\x00" + i64(5, 6) + "no"},
		{"decision", Decision{Verdict: Deny, Priority: -1, Kind: RateLimited, RetryAfterMS: 258, Msg: "no"}.Append(nil),
			"\x01\xff\x06\x00\x02\x01\x00\x00no"},
		{"refusal", Refusal{Param: "p", Msg: "no"}.Append(nil), "\x01\x00\x00\x00pno"},
	}
	for _, c := range cases {
		if string(c.got) != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, c.got, c.want)
		}
	}
}

func TestMalformedRecords(t *testing.T) {
	quote := string(QuoteInput{Model: "m", Account: "a"}.Append(nil))
	charge := string(ChargeInput{Model: "m"}.Append(nil))
	zeros := func(n int) string { return strings.Repeat("\x00", n) }
	long := strings.Repeat("x", KeptBytesMax+1)
	u32 := func(n uint32) string { return string(binary.LittleEndian.AppendUint32(nil, n)) }
	cases := []struct {
		name string
		err  error
	}{
		{"no quote input", second(ParseQuoteInput(nil))},
		{"a charge is no quote", second(ParseQuoteInput([]byte(charge)))},
		{"a quote is no charge", second(ParseChargeInput([]byte(quote)))},
		{"another layout", second(ParseChargeInput([]byte("charge/4" + charge[8:])))},
		{"counters that are not there", second(ParseChargeInput([]byte("charge/3" + charge[8:])))},
		{"a quote of no counter", second(ParseQuote([]byte(zeros(32) + u32(0))))},
		{"a quote of 4 billion counters", second(ParseQuote([]byte(zeros(32) + u32(1<<32-1))))},
		{"a state beyond the bound", second(ParseFiltered(Filtered{State: make([]byte, FilterStateMax+1)}.Append(nil)))},
		{"a quote is no decide", second(ParseAdmissionInput([]byte(quote)))},
		{"a section longer than the record", second(ParseWritten([]byte("\x05\x00\x00\x00four")))},
		{"a section of 4 GiB", second(ParseTranslated([]byte("\xff\xff\xff\xff")))},
		{"too much kept", second(ParseTranslated([]byte(u32(KeptBytesMax+1) + long)))},
		{"too much state", second(ParseWritten([]byte(u32(StateBytesMax+1) + long)))},
		{"more pairs than may be", second(ParseRequestInput([]byte(requestTag + zeros(17) + "\x00\x00\x41\x00" + long)))},
		{"4 billion models", second(ParseModelsInput([]byte(modelsTag + zeros(17) + zeros(8) + u32(1<<32-1) + long[:100])))},
		{"a count with a byte too many", second(ParseCountInput(append(CountInput{}.Append(nil), 0)))},
		{"a quote with a byte too many", second(ParseQuote(make([]byte, 17)))},
		{"a charge with a byte too many", second(ParseCharge(make([]byte, 17)))},
		{"a charge with a line missing", second(ParseCharge([]byte(zeros(12) + u32(1))))},
		{"a charge with too many lines", second(ParseCharge([]byte(zeros(12) + u32(LinesMax+1) + zeros(40*(LinesMax+1)))))},
		{"a charge with 4 billion lines", second(ParseCharge([]byte(zeros(12) + u32(1<<32-1))))},
		{"an unknown verdict", second(ParseDecision([]byte("\x03" + zeros(7))))},
		{"a long denial", second(ParseDecision([]byte(zeros(8) + long[:RefusalBytesMax+1])))},
		{"an output shorter than its header", second(ParseOutput(make([]byte, 7)))},
		{"an output that says less", second(ParseOutput([]byte(zeros(8) + "x")))},
		{"an output that says more", second(ParseOutput([]byte(zeros(4) + u32(2) + "x")))},
		{"an output with an unknown status", second(ParseOutput([]byte("\x03" + zeros(7))))},
		{"an output with the zero byte set", second(ParseOutput([]byte("\x00\x01" + zeros(6))))},
	}
	for _, c := range cases {
		if !errors.Is(c.err, ErrMalformed) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestOutput(t *testing.T) {
	frame := BeginOutput([]byte("before"), StatusError, InvalidRequest)
	frame = Refusal{Param: "n", Msg: "too many"}.Append(frame)
	EndOutput(frame, len("before"))
	out, err := ParseOutput(frame[len("before"):])
	if err != nil || out.Status != StatusError || out.Kind != InvalidRequest {
		t.Fatalf("%+v, %v", out, err)
	}
	if r, err := ParseRefusal(out.Payload); err != nil || r != (Refusal{"n", "too many"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if out, err := ParseOutput(BeginOutput(nil, StatusDecline, 0)); err != nil || out.Status != StatusDecline || len(out.Payload) != 0 {
		t.Errorf("decline: %+v, %v", out, err)
	}
}

func TestNames(t *testing.T) {
	for op, want := range map[Op]string{OpRequest: "request", OpEvents: "events", OpResponse: "response", OpError: "error",
		OpModels: "models", OpCount: "count", OpQuote: "quote", OpCharge: "charge", OpDecide: "decide", OpRewrite: "rewrite", OpFilter: "filter",
		0: "unknown", 99: "unknown"} {
		if op.String() != want {
			t.Errorf("op %d is %q", op, op)
		}
	}
}

// TestSentences: what logs and modules of ABI 1.0 read, and what another protocol makes of the same failure.
func TestSentences(t *testing.T) {
	words := Words{AnyCall: `"required"`, NamedCall: "a named tool"}
	cases := []struct {
		param          string
		detail         Detail
		msg            string
		native, theirs string
	}{
		{"", Detail{}, "no", "no", "no"},
		{"model", Detail{}, "no such", "no such", "no such"},
		{"", Detail{Reason: ReasonField}, "it is empty", "it is empty", "it is empty"},
		{"stop", Detail{Reason: ReasonField}, "too many", "stop: too many", "too many"},
		{"stop", Detail{Reason: ReasonLimit, Value: 2, Bound: 1}, "2 is over 1", "stop: 2 is over 1", "2 is over 1"},
		{"a.b", Detail{Reason: ReasonSyntax, Value: 7}, "a member is there twice",
			"a.b: the body is not valid JSON: a member is there twice at byte 7", "a member is there twice"},
		{"", Detail{Reason: ReasonSyntax, Value: -1}, "it ends early", "the body is not valid JSON: it ends early", "it ends early"},
		{"max_tokens", Detail{Reason: ReasonWindow, Prompt: 1, Value: 2, Bound: 3}, "",
			"max_tokens: input length and `max_tokens` exceed context limit: 1 + 2 > 3 (this model's maximum context length is 3 tokens; decrease the prompt or max_tokens)",
			"input length and `max_tokens` exceed context limit: 1 + 2 > 3 (this model's maximum context length is 3 tokens; decrease the prompt or most)"},
		{"max_tokens", Detail{Reason: ReasonMemory, Value: 2, Bound: 3}, "",
			"prompt and max_tokens together are 2 tokens; this node's memory holds 3",
			"prompt and most together are 2 tokens; this node's memory holds 3"},
		{"messages", Detail{Reason: ReasonPrompt, Value: 2, Bound: 1}, "2 is over 1", "messages: 2 is over 1", "2 is over 1"},
		{"", Detail{Reason: ReasonWait, Value: 2}, "full", "full", "full"},
		{"tool_choice", Detail{Reason: ReasonAnyCall}, "", `tool_choice: "any" needs tools`, `"required" needs tools`},
		{"tool_choice", Detail{Reason: ReasonNamedCall}, "", `tool_choice: "tool" needs tools`, "a named tool needs tools"},
	}
	seen := map[Reason]bool{}
	for _, c := range cases {
		seen[c.detail.Reason] = true
		e := Error{Kind: InvalidRequest, Op: "op", Param: c.param, Detail: c.detail, Msg: c.msg}
		if e.Message() != c.native || e.Error() != "op: invalid_request: "+c.native {
			t.Errorf("%+v: %q and %q, want %q", c.detail, e.Message(), e.Error(), c.native)
		}
		if got := c.detail.Sentence("most", c.msg, &words); got != c.theirs {
			t.Errorf("%+v: %q, want %q", c.detail, got, c.theirs)
		}
	}
	for r := range reasonEnd {
		if named, ok := ReasonNamed(reasonNames[r]); !seen[r] || named != r || !ok {
			t.Errorf("reason %d (%q) is %d by its name, and tried: %v", r, reasonNames[r], named, seen[r])
		}
	}
	if _, ok := ReasonNamed("unknown"); ok {
		t.Error("an unknown reason is known")
	}
}

func TestErrorNames(t *testing.T) {
	for _, k := range append(Kinds(), kindEnd, 999) {
		n := k.Names()
		if n.Messages == "" || n.Type == "" || n.Code == "" || n.Response == "" || k >= kindEnd && n != Internal.Names() {
			t.Errorf("kind %d has the names %+v", k, n)
		}
	}
	for r := range reasonEnd {
		full := r == ReasonWindow || r == ReasonPrompt
		n := Detail{Reason: r}.Names(InvalidRequest)
		if (n.Code == "context_length_exceeded") != full || (n.Response == "context_length_exceeded") != full ||
			n.Type != InvalidRequest.Names().Type || n.Messages != InvalidRequest.Names().Messages {
			t.Errorf("reason %d has the names %+v", r, n)
		}
		if n := (Detail{Reason: r}).Names(Internal); n != Internal.Names() {
			t.Errorf("a failure of ours for reason %d has the names %+v", r, n)
		}
	}
	got := string(RateLimited.Names().AppendObject([]byte("x"), "", "a\"b"))
	if want := `x{"message":"a\"b","type":"rate_limit_error","param":null,"code":"rate_limited"}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := string(AppendPath(nil, "a\"")); got != `"a\""` {
		t.Error(got)
	}
	for _, c := range [][3]string{{"", "m", "m"}, {"p", "m", "p: m"}, {"p", "p: m", "p: m"}, {"p", "p is wrong", "p is wrong"}} {
		if got := Located(c[0], c[1]); got != c[2] {
			t.Errorf("%q and %q: %q", c[0], c[1], got)
		}
	}
	if e := CheckNonStreaming("n", NonStreamingMax); e != nil {
		t.Error(e)
	}
	if e := CheckNonStreaming("n", NonStreamingMax+1); e == nil || e.Value != 32769 || e.Bound != 32768 || e.Kind != InvalidRequest {
		t.Errorf("%+v", e)
	}
}

// TestAppendEscaped has encoding/json as its oracle: what stands between
// quotes must be read as the string it was made of.
func TestAppendEscaped(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"plain", "\"", "\\", "\n", "\r", "\t", "\x00", "\x1f", "\x7f", "/", "é", "\u0085", "\u2028", "\u2029", "\u2030", "😀", "\xff",
		"\xf0\x9f\x98", "\xed\xa0\x80", "\uFFFD"}
	for range 20_000 {
		var s string
		for range r.IntN(6) {
			s += parts[r.IntN(len(parts))]
		}
		checkEscaped(t, s)
	}
}

func checkEscaped(t *testing.T, s string) {
	t.Helper()
	b := AppendEscaped([]byte(`"`), s)
	var got string
	if err := json.Unmarshal(append(b, '"'), &got); err != nil || got != string([]rune(s)) {
		t.Fatalf("%q is escaped as %s and read as %q, %v", s, b, got, err)
	}
	if string(b[1:]) != s && !strings.ContainsAny(s, "\"\\\x00\n\r\t\x1f"+separators) && !hasControl(s) && got == s {
		t.Fatalf("%q needs no change and became %s", s, b[1:])
	}
	if strings.ContainsAny(string(b), separators) {
		t.Fatalf("%q is more than one line for Python: %s", s, b)
	}
	again := AppendOneLine(nil, b[1:])
	if string(again) != string(b[1:]) {
		t.Fatalf("%s is one line and became %s", b[1:], again)
	}
}

// separators are ends of lines for Python's str.splitlines that JSON allows in a string.
const separators = "\u0085\u2028\u2029"

func TestAppendOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "{}": "{}", "{\r\n\t\"a\" :\n1}": "{  \t\"a\" : 1}", `"\n\u2028"`: `"\n\u2028"`,
		"\"\u0085a\u2028\u2029\u2027\u202a\u00e9\u0084\u2028\"": `"\u0085a\u2028\u2029` + "\u2027\u202a\u00e9\u0084" + `\u2028"`,
		"\xc2": "\xc2", "\xe2\x80": "\xe2\x80",
	} {
		if got := string(AppendOneLine([]byte("before"), []byte(text))); got != "before"+want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func hasControl(s string) bool { return strings.ContainsFunc(s, func(r rune) bool { return r < ' ' }) }
