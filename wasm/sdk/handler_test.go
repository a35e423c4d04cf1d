package sdk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"corenode/wasm/abi"
)

// echo is a translator that answers with what it was given. Its next state is
// the text of the group's last delta, so that a test chooses the state's size.
type echo struct{}

func (echo) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	if len(in.Body) == 0 {
		return abi.Translated{}, &abi.Error{Kind: abi.InvalidRequest, Param: "body", Msg: "it is empty"}
	}
	return abi.Translated{Body: in.Body, Kept: []byte(in.Facts.ID)}, nil
}

func (echo) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	dst = append(append(dst, in.State...), '|')
	last := in.State
	for f, ok := in.Events.Next(); ok; f, ok = in.Events.Next() {
		dst = append(append(dst, f.Payload...), '|')
		last = f.Payload
	}
	return dst, append(state, last...)
}

func (echo) Response(dst []byte, in abi.ResponseInput) []byte { return append(dst, in.Kept...) }

func (echo) Error(dst []byte, in abi.ErrorInput) []byte { return append(dst, in.Msg...) }

func output(t *testing.T, frame []byte) abi.Output {
	t.Helper()
	out, err := abi.ParseOutput(frame)
	if err != nil {
		t.Fatalf("%q: %v", frame, err)
	}
	return out
}

func TestTranslatorHandler(t *testing.T) {
	h := TranslatorHandler(echo{})
	facts := abi.Facts{ID: "id", Model: "m"}
	out := output(t, h(abi.OpRequest, abi.RequestInput{Facts: facts, Body: []byte("{}")}.Append(nil), nil))
	if got, err := abi.ParseTranslated(out.Payload); err != nil || string(got.Body) != "{}" || string(got.Kept) != "id" {
		t.Errorf("request: %+v, %v", got, err)
	}
	out = output(t, h(abi.OpRequest, abi.RequestInput{Facts: facts}.Append(nil), nil))
	if got, err := abi.ParseRefusal(out.Payload); err != nil || out.Status != abi.StatusError || out.Kind != abi.InvalidRequest ||
		got != (abi.Refusal{Param: "body", Msg: "it is empty"}) {
		t.Errorf("refusal: %+v %+v, %v", out, got, err)
	}
	out = output(t, h(abi.OpResponse, abi.ResponseInput{Facts: facts, Kept: []byte("kept")}.Append(nil), nil))
	if out.Status != abi.StatusOK || string(out.Payload) != "kept" {
		t.Errorf("response: %+v", out)
	}
	out = output(t, h(abi.OpError, abi.ErrorInput{Facts: facts, Msg: "broken"}.Append(nil), nil))
	if out.Status != abi.StatusOK || string(out.Payload) != "broken" {
		t.Errorf("error: %+v", out)
	}
	for _, op := range []abi.Op{abi.OpRequest, abi.OpEvents, abi.OpResponse, abi.OpError, abi.OpQuote, 99} {
		if out := output(t, h(op, []byte("short"), nil)); out.Status != abi.StatusDecline {
			t.Errorf("op %d of a malformed input: %+v", op, out)
		}
	}
}

// verse is a router that answers with what it was given.
type verse struct{ echo }

func (verse) Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	dst = append(dst, in.Body...)
	if id := in.Route.Param("model"); id != "" {
		return dst, &abi.Error{Kind: abi.ModelNotFound, Param: "model", Msg: id}
	}
	for _, m := range in.Models {
		dst = append(append(dst, m.ID...), m.Name...)
	}
	return append(append(dst, in.Route.Parameter("alt")...), in.Route.Header("x-client")...), nil
}

func (verse) Count(dst []byte, in abi.CountInput) []byte {
	return append(append(dst, in.Kept...), byte('0'+in.Tokens))
}

func TestRouterHandler(t *testing.T) {
	h := RouterHandler(verse{})
	in := abi.ModelsInput{Models: []abi.Model{{ID: "a", Name: "A"}, {ID: "b"}}, Body: []byte("body "),
		Route: abi.Route{Query: []abi.Pair{{Name: "alt", Value: "sse"}, {Name: "alt", Value: "x"}}, Headers: []abi.Pair{{Name: "x-client", Value: "c"}}}}
	before := []byte("before")
	frame := h(abi.OpModels, in.Append(nil), before)
	if out := output(t, frame[len(before):]); string(frame[:len(before)]) != "before" || out.Status != abi.StatusOK ||
		string(out.Payload) != "body aAbssec" {
		t.Errorf("models: %+v", out)
	}
	in.Route.Params = []abi.Pair{{Name: "model", Value: "none"}}
	out := output(t, h(abi.OpModels, in.Append(nil), nil))
	if got, err := abi.ParseRefusal(out.Payload); err != nil || out.Status != abi.StatusError || out.Kind != abi.ModelNotFound ||
		got != (abi.Refusal{Param: "model", Msg: "none"}) {
		t.Errorf("refusal: %+v %+v, %v", out, got, err)
	}
	if out := output(t, h(abi.OpCount, abi.CountInput{Kept: []byte("k"), Tokens: 7}.Append(nil), nil)); string(out.Payload) != "k7" {
		t.Errorf("count: %+v", out)
	}
	request := abi.RequestInput{Route: &abi.Route{Index: 1}, Body: []byte("{}")}
	if out := output(t, h(abi.OpRequest, request.Append(nil), nil)); out.Status != abi.StatusOK {
		t.Errorf("request: %+v", out)
	}
	for _, op := range []abi.Op{abi.OpModels, abi.OpCount, abi.OpQuote} {
		if out := output(t, h(op, []byte("short"), nil)); out.Status != abi.StatusDecline {
			t.Errorf("op %d of a malformed input: %+v", op, out)
		}
	}
}

// TestStateOfAnySize: the state and the bytes come back whole, however the
// state's size changes and however much room there was.
func TestStateOfAnySize(t *testing.T) {
	h := TranslatorHandler(echo{})
	r := rand.New(rand.NewPCG(1, 2))
	text := func() string { return string(bytes.Repeat([]byte{byte('a' + r.IntN(26))}, r.IntN(300))) }
	for range 2000 {
		before, first, last := text(), text(), text()
		var events abi.Frames
		for _, s := range []string{first, last} {
			events = abi.AppendFrame(events, &abi.Event{Kind: abi.EventDelta, Text: s})
		}
		dst := append(make([]byte, 0, r.IntN(1500)), "kept"...)
		in := abi.EventsInput{State: []byte(before), Events: events}.Append(nil)
		given := bytes.Clone(in)
		dst = h(abi.OpEvents, in, dst)
		if !bytes.HasPrefix(dst, []byte("kept")) || !bytes.Equal(in, given) {
			t.Fatal("the handler wrote over what is not its own")
		}
		w, err := abi.ParseWritten(output(t, dst[len("kept"):]).Payload)
		if err != nil || string(w.State) != last || string(w.Bytes) != before+"|"+first+"|"+last+"|" {
			t.Fatalf("state %d bytes to %d: %q %q, %v", len(before), len(last), w.State, w.Bytes, err)
		}
	}
}

// TestReplaceByAPartOfItself: a state may be any part of what was in its place, such as all but its beginning.
func TestReplaceByAPartOfItself(t *testing.T) {
	const head, place, tail = "head", "0123456789", "tail of some length"
	for from := range len(place) {
		for to := from; to <= len(place); to++ {
			dst := []byte(head + place + tail)
			dst = replace(dst, len(head), len(head)+len(place), dst[len(head)+from:len(head)+to])
			if want := head + place[from:to] + tail; string(dst) != want {
				t.Fatalf("%q, want %q", dst, want)
			}
		}
	}
}

func TestSteadyStreamTakesNoMemory(t *testing.T) {
	h := TranslatorHandler(echo{})
	in := abi.EventsInput{
		Facts: abi.Facts{ID: "id", Model: "m", Stream: true}, State: []byte("same"),
		Events: abi.AppendFrame(nil, &abi.Event{Kind: abi.EventDelta, Text: "size"}),
	}.Append(nil)
	dst := make([]byte, 0, 1024)
	if n := testing.AllocsPerRun(100, func() { dst = h(abi.OpEvents, in, dst[:0]) }); n != 0 {
		t.Errorf("%v allocations an event group", n)
	}
}

type flat struct{ err error }

func (f flat) Quote(in abi.QuoteInput) (abi.Quote, error) {
	return abi.Quote{Upper: abi.Nano(in.OutputMax), Minimum: 1}, f.err
}

func (f flat) Charge(in abi.ChargeInput) (abi.Charge, error) {
	n := abi.Nano(in.Usage.Output)
	return abi.Charge{Total: n, Tier: 1, Lines: []abi.Line{{Unit: "output", Tokens: int64(n), Price: 1, Amount: n}}}, f.err
}

func TestBillingHandler(t *testing.T) {
	quote, charge := abi.QuoteInput{OutputMax: 5}.Append(nil), abi.ChargeInput{Usage: abi.Usage{Output: 4}}.Append(nil)
	h := BillingHandler(flat{})
	if q, err := abi.ParseQuote(output(t, h(abi.OpQuote, quote, nil)).Payload); err != nil || q.Upper != 5 || q.Minimum != 1 {
		t.Errorf("quote: %+v, %v", q, err)
	}
	if c, err := abi.ParseCharge(output(t, h(abi.OpCharge, charge, nil)).Payload); err != nil || c.Total != 4 || len(c.Lines) != 1 {
		t.Errorf("charge: %+v, %v", c, err)
	}
	broken := BillingHandler(flat{errors.New("no")})
	for name, frame := range map[string][]byte{
		"malformed quote": h(abi.OpQuote, nil, nil), "malformed charge": h(abi.OpCharge, quote, nil), "wrong op": h(abi.OpDecide, nil, nil),
		"failed quote": broken(abi.OpQuote, quote, nil), "failed charge": broken(abi.OpCharge, charge, nil),
	} {
		if out := output(t, frame); out.Status != abi.StatusDecline {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

type closed struct{}

func (closed) Decide(in abi.AdmissionInput) abi.Decision {
	return abi.Decision{Verdict: abi.Deny, Kind: abi.RateLimited, Msg: in.Account}
}

func TestAdmissionHandler(t *testing.T) {
	h := AdmissionHandler(closed{})
	in := abi.AdmissionInput{Account: "a"}.Append(nil)
	if d, err := abi.ParseDecision(output(t, h(abi.OpDecide, in, nil)).Payload); err != nil || d.Verdict != abi.Deny || d.Msg != "a" {
		t.Errorf("decision: %+v, %v", d, err)
	}
	long := abi.AdmissionInput{Account: strings.Repeat("x", 5000)}.Append(nil)
	if d, err := abi.ParseDecision(output(t, h(abi.OpDecide, long, nil)).Payload); err != nil || len(d.Msg) > abi.RefusalBytesMax {
		t.Errorf("a long message: %d bytes, %v", len(d.Msg), err)
	}
	for _, frame := range [][]byte{h(abi.OpDecide, nil, nil), h(abi.OpQuote, in, nil)} {
		if out := output(t, frame); out.Status != abi.StatusDecline {
			t.Errorf("%+v", out)
		}
	}
}

type hiding struct{ err error }

func (h hiding) Filter(in abi.FilterInput) (abi.Filtered, error) {
	return abi.Filtered{Text: []byte("x")}, h.err
}

// TestFilterHandler: a filter that fails shows nothing; only one that says so declines.
func TestFilterHandler(t *testing.T) {
	in := abi.FilterInput{Text: "a"}.Append(nil)
	call := func(err error) (out abi.Output, stopped any) {
		defer func() { stopped = recover() }()
		return output(t, FilterHandler(hiding{err})(abi.OpFilter, in, nil)), nil
	}
	for _, err := range []error{ErrDecline, fmt.Errorf("too long: %w", ErrDecline)} {
		if out, stopped := call(err); out.Status != abi.StatusDecline || stopped != nil {
			t.Errorf("%v: %+v, %v", err, out, stopped)
		}
	}
	lost := errors.New("no dictionary")
	if _, stopped := call(lost); stopped != lost {
		t.Errorf("an error ends in %v", stopped)
	}
	if out, stopped := call(nil); out.Status != abi.StatusOK || stopped != nil {
		t.Errorf("%+v, %v", out, stopped)
	}
}

type opening struct{ refusal *abi.Error }

func (o opening) Rewrite(in abi.RewriteInput) ([]byte, *abi.Error) {
	return append([]byte("<"), in.Body...), o.refusal
}

func TestRewriteHandler(t *testing.T) {
	in := abi.RewriteInput{Body: []byte("b")}.Append(nil)
	if out := output(t, RewriteHandler(opening{})(abi.OpRewrite, in, nil)); out.Status != abi.StatusOK || string(out.Payload) != "<b" {
		t.Errorf("%+v", out)
	}
	refused := opening{&abi.Error{Kind: abi.InvalidRequest, Msg: "no"}}
	out := output(t, RewriteHandler(refused)(abi.OpRewrite, in, nil))
	if r, err := abi.ParseRefusal(out.Payload); out.Status != abi.StatusError || out.Kind != abi.InvalidRequest || err != nil || r.Msg != "no" {
		t.Errorf("%+v, %v", out, err)
	}
}

// TestDeclined: a handler declines another op than its own, and what is no input of it.
func TestDeclined(t *testing.T) {
	rewrite, filter := abi.RewriteInput{}.Append(nil), abi.FilterInput{}.Append(nil)
	for i, frame := range [][]byte{
		RewriteHandler(opening{})(abi.OpFilter, rewrite, nil), RewriteHandler(opening{})(abi.OpRewrite, []byte{1}, nil),
		FilterHandler(hiding{})(abi.OpRewrite, filter, nil), FilterHandler(hiding{})(abi.OpFilter, []byte{1}, nil),
	} {
		if out := output(t, frame); out.Status != abi.StatusDecline {
			t.Errorf("%d: %+v", i, out)
		}
	}
}

// TestRefusalsAreClipped: a module may put into a refusal what a client sent.
func TestRefusalsAreClipped(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("x", 2048), strings.Repeat("x", 2049), strings.Repeat("\xff", 5000),
		strings.Repeat("é", 3000), "x" + strings.Repeat("é", 3000), "a\xffb", strings.Repeat("\x80", 2050)} {
		got := clip(text)
		if len(got) > abi.RefusalBytesMax || !utf8.ValidString(got) || len(text) > 2000 && len(got) == 0 && text[0] < 0x80 {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
		if utf8.ValidString(text) && len(text) <= abi.RefusalBytesMax && got != text {
			t.Errorf("%q became %q", text, got)
		}
		if utf8.ValidString(text) && !strings.HasPrefix(text, got) {
			t.Errorf("%d bytes became others", len(text))
		}
	}
}

type picky struct{ got string }

func (p *picky) Configure(config []byte) error {
	p.got = string(config)
	if p.got == `{"wrong":1}` {
		return errors.New("wrong: no such key")
	}
	return nil
}

func TestConfigure(t *testing.T) {
	var p picky
	cases := []struct {
		c      Configurable
		config string
		status abi.Status
		msg    string
	}{
		{&p, ``, abi.StatusOK, ""},
		{&p, `{"right":1}`, abi.StatusOK, ""},
		{&p, `{"wrong":1}`, abi.StatusError, "wrong: no such key"},
		{nil, ``, abi.StatusOK, ""},
		{nil, `{}`, abi.StatusOK, ""},
		{nil, `{"a":1}`, abi.StatusError, "this module takes no configuration"},
	}
	for _, c := range cases {
		out := output(t, configure(c.c, []byte(c.config), nil))
		if out.Status != c.status {
			t.Errorf("%q: %+v", c.config, out)
		}
		if r, err := abi.ParseRefusal(out.Payload); c.msg != "" && (err != nil || r.Msg != c.msg) {
			t.Errorf("%q: %+v, %v", c.config, r, err)
		}
	}
	if configure(&p, nil, nil); p.got != "{}" {
		t.Errorf("no configuration is given as %q", p.got)
	}
}

func BenchmarkEvents(b *testing.B) {
	h := TranslatorHandler(echo{})
	in := abi.EventsInput{
		Facts: abi.Facts{ID: "id", Model: "m", Stream: true}, State: []byte("same"),
		Events: abi.AppendFrame(nil, &abi.Event{Kind: abi.EventDelta, Text: "size"}),
	}.Append(nil)
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = h(abi.OpEvents, in, dst[:0])
	}
}

// TestNativeLog: in a native build, where there is no host, a log line and a count go nowhere.
func TestNativeLog(t *testing.T) {
	if n := testing.AllocsPerRun(10, func() { Log(Info, "a line"); Count(3, 1) }); n != 0 {
		t.Errorf("they allocate %v times", n)
	}
}
