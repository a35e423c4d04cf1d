package extensions

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

// recorder is a native translator that keeps what it was asked.
type recorder struct {
	events    []abi.EventsInput
	responses []abi.ResponseInput
	errors    []abi.ErrorInput
	answer    func(op abi.Op) []byte // a whole frame; nil = ok with the op's state counted up
}

func (r *recorder) handle(op abi.Op, in, dst []byte) []byte {
	in = bytes.Clone(in) // decoded records alias it
	switch op {
	case abi.OpEvents:
		e, _ := abi.ParseEventsInput(in)
		r.events = append(r.events, e)
	case abi.OpResponse:
		e, _ := abi.ParseResponseInput(in)
		r.responses = append(r.responses, e)
	case abi.OpError:
		e, _ := abi.ParseErrorInput(in)
		r.errors = append(r.errors, e)
	}
	if r.answer != nil {
		if f := r.answer(op); f != nil {
			return append(dst, f...)
		}
	}
	switch op {
	case abi.OpRequest:
		return append(dst, okFrame(abi.Translated{Body: []byte("{}"), Kept: []byte("kept")}.Append(nil))...)
	case abi.OpEvents:
		state := append(r.events[len(r.events)-1].State, 's')
		return append(dst, okFrame(abi.Written{State: state, Bytes: []byte("|")}.Append(nil))...)
	}
	return append(dst, okFrame([]byte("body"))...)
}

func openNative(t *testing.T, history bool, r *recorder) *Host {
	t.Helper()
	shipped := []shippedModule{{slot: SlotChat, name: "chat", native: r.handle, nativeAs: "builtin:chat", history: history}}
	h, _ := openWith(t, Options{AllowUnsigned: true}, shipped)
	return h
}

// answerEvents is a whole answer with a split escape and a tool.
func answerEvents() []abi.Event {
	return []abi.Event{
		{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 3}},
		{Kind: abi.EventBlockStart, Block: abi.BlockText},
		{Kind: abi.EventDelta, Block: abi.BlockText, Text: "a\""},
		{Kind: abi.EventDelta, Block: abi.BlockText, Text: ""},
		{Kind: abi.EventDelta, Block: abi.BlockText, Text: "\nü"},
		{Kind: abi.EventBlockStop, Block: abi.BlockText},
		{Kind: abi.EventBlockStart, Block: abi.BlockToolUse, Index: 1, ID: "toolu_1", Name: "f"},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 1, Text: "{\"x\":"},
		{Kind: abi.EventDelta, Block: abi.BlockToolUse, Index: 1, Text: "1}"},
		{Kind: abi.EventBlockStop, Block: abi.BlockToolUse, Index: 1},
		{Kind: abi.EventEnd, Stop: abi.StopToolUse, Usage: abi.Usage{InputUncached: 3, Output: 9}},
	}
}

// merged is the answer with one delta a block, up to event n, as frames.
func merged(n int) []byte {
	var out []byte
	for i := 0; i < n; i++ {
		e := answerEvents()[i]
		for e.Kind == abi.EventDelta && i+1 < n && answerEvents()[i+1].Kind == abi.EventDelta {
			i++
			e.Text += answerEvents()[i].Text
		}
		out = abi.AppendFrame(out, &e)
	}
	return out
}

// TestEventsInput cuts a stream everywhere and checks what the module is given:
// the state of the call before, what was kept with the first and last group,
// and the answer so far when it wants that.
func TestEventsInput(t *testing.T) {
	all := answerEvents()
	for _, history := range []bool{false, true} {
		for cut := 1; cut < len(all); cut++ {
			r := &recorder{}
			tr := openNative(t, history, r).Translate(SlotChat, "a", "", abi.Facts{ID: "id"})
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			tr.SetFacts(abi.Facts{ID: "id", Model: "m", Stream: true})
			var out []byte
			var err error
			for _, group := range [][]abi.Event{all[:cut], all[cut:]} {
				if out, err = tr.Events(out, group); err != nil {
					t.Fatal(err)
				}
			}
			if string(out) != "||" || len(r.events) != 2 {
				t.Fatalf("wrote %q in %d calls", out, len(r.events))
			}
			first, last := r.events[0], r.events[1]
			if len(first.State) != 0 || string(last.State) != "s" || string(tr.state) != "ss" {
				t.Errorf("cut %d: states %q, %q, %q", cut, first.State, last.State, tr.state)
			}
			if string(first.Kept) != "kept" || string(last.Kept) != "kept" || first.Facts.Model != "m" || !first.Facts.Stream {
				t.Errorf("cut %d: kept %q, %q, facts %+v", cut, first.Kept, last.Kept, first.Facts)
			}
			stops := false
			var frames []byte
			for i := range all[:cut] {
				stops = stops || all[i].Kind == abi.EventBlockStop
				frames = abi.AppendFrame(frames, &all[i])
			}
			if !bytes.Equal(first.Events, frames) {
				t.Errorf("cut %d: events differ", cut)
			}
			var want []byte
			if history && stops {
				want = merged(cut)
			}
			if !bytes.Equal(first.History, want) {
				t.Errorf("cut %d: history\n%q, want\n%q", cut, first.History, want)
			}
			want = nil
			if history {
				want = merged(len(all))
			}
			if !bytes.Equal(last.History, want) {
				t.Errorf("cut %d: last history\n%q, want\n%q", cut, last.History, want)
			}
			if tr.Error(nil, &abi.Error{Kind: abi.Overloaded, Msg: "m", Param: "p"}, 503); len(r.errors) != 1 {
				t.Fatal("no error was asked for")
			}
			waits := &abi.Error{Kind: abi.RateLimited, Msg: "m", RetryAfter: 86*time.Second + 1}
			if tr.Error(nil, waits, 429); len(r.errors) != 2 || r.errors[1].Detail != (abi.Detail{Reason: abi.ReasonWait, Value: 86_001}) {
				t.Errorf("of what can be tried again later, the error's input is %+v", r.errors)
			}
			if e := r.errors[0]; string(e.State) != "ss" || string(e.Kept) != "kept" || !bytes.Equal(e.History, want) ||
				e.Status != 503 || e.Kind != abi.Overloaded || e.Detail != (abi.Detail{}) || e.Msg != "m" || e.Param != "p" {
				t.Errorf("the error's input is %+v", e)
			}
			tr.Close()
			tr.Close()
		}
	}
}

// TestKeptOnlyAtTheEnds has a group in the middle, which gets nothing extra.
func TestKeptOnlyAtTheEnds(t *testing.T) {
	r := &recorder{}
	tr := openNative(t, true, r).Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := tr.Events(nil, answerEvents()[2:4]); err != nil || len(r.events[0].Kept)+len(r.events[0].History) != 0 {
		t.Errorf("%+v, %v", r.events[0], err)
	}
}

func TestResponseMergesDeltas(t *testing.T) {
	r := &recorder{}
	tr := openNative(t, false, r).Translate(SlotChat, "a", "", abi.Facts{Model: "m"})
	defer tr.Close()
	if _, err := tr.Request(nil); err != nil {
		t.Fatal(err)
	}
	out, err := tr.Response([]byte("x"), answerEvents())
	if err != nil || string(out) != "xbody" {
		t.Fatalf("%s, %v", out, err)
	}
	if in := r.responses[0]; !bytes.Equal(in.Events, merged(len(answerEvents()))) || string(in.Kept) != "kept" || in.Facts.Model != "m" {
		t.Errorf("the input is %+v", in)
	}
}

// TestRefusal checks what of a module's refusal reaches the client.
func TestRefusal(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotChat, "1")
	g.raw[abi.OpRequest] = statusFrame(abi.StatusError, abi.Unauthenticated,
		abi.Refusal{Param: "messages.0\n", Msg: "bad\x1b[31m \xff" + strings.Repeat("x", 3000)}.Append(nil))
	activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	_, err := tr.Request([]byte("{}"))
	if e, ok := errors.AsType[*abi.Error](err); !ok || e.Kind != abi.InvalidRequest || e.Param != "messages.0 " || !strings.HasPrefix(e.Msg,
		"bad[31m xxx") || len(e.Msg) > abi.RefusalBytesMax {
		t.Errorf("%#v", err)
	}
}

// TestDecline leaves a request to the builtin, answer included.
func TestDecline(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := newGuest(SlotChat, "1")
	g.answers = chatAnswers("1")
	delete(g.answers, abi.OpRequest)
	g.raw[abi.OpRequest] = statusFrame(abi.StatusDecline, 0, nil)
	info := activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if body, err := tr.Request([]byte("{}")); err != nil || string(body) != `{"by":"native"}` {
		t.Errorf("%s, %v", body, err)
	}
	if out, err := tr.Events(nil, answerEvents()[:1]); err != nil || string(out) != "data: native\n\n" {
		t.Errorf("%s, %v", out, err)
	}
	if info, _ = h.info(info.Digest); info.Declined != 1 || info.Fallbacks != 1 || info.Faults != nil {
		t.Errorf("%+v", info)
	}
}

// TestDeclinesOfLaterCalls: a decline of what nobody else can answer is a fault, and five take a module out of
// service. What a native build answers for it is none.
func TestDeclinesOfLaterCalls(t *testing.T) {
	calls := map[abi.Op]func(tr *Translation) error{
		abi.OpResponse: func(tr *Translation) error { _, err := tr.Response(nil, answerEvents()); return err },
		abi.OpEvents:   func(tr *Translation) error { _, err := tr.Events(nil, answerEvents()); return err },
		abi.OpModels:   func(tr *Translation) error { _, err := tr.Models(nil, nil, nil); return err },
		abi.OpCount:    func(tr *Translation) error { _, err := tr.Count(nil, 1); return err },
		abi.OpError: func(tr *Translation) error {
			tr.Error(nil, &abi.Error{Kind: abi.Internal}, 500)
			return errDeclined
		},
	}
	ask := func(h *Host, slot Slot, op abi.Op) error {
		tr := h.Translate(slot, "a", "", abi.Facts{})
		defer tr.Close()
		tr.SetRoute(&tr.generation.manifest, &abi.Route{})
		if _, err := tr.Request([]byte("{}")); err != nil {
			t.Fatal(err)
		}
		return calls[op](tr)
	}
	for op := range calls {
		h, l := openTest(t, Options{})
		activate(t, h, routedGuest("one", "1", "/a").bytes(t))
		g := routedGuest("one", "2", "/a")
		declining(op)(g)
		info := activate(t, h, g.bytes(t))
		for range breakerFaults {
			if err := ask(h, "one", op); err == nil {
				t.Fatalf("op %v: somebody answers", op)
			}
		}
		now, _ := h.info(info.Digest)
		counted := now.Faults["protocol"] == breakerFaults
		gone := strings.Contains(now.Error, "5 faults") // by now it may be out of service, and its counts with it
		if !counted && !gone || !strings.Contains(l.String(), "it declines what nobody else can answer") {
			t.Fatalf("op %v: faults %v, %q\n%s", op, now.Faults, now.Error, l)
		}
		eventually(func() bool { return routeAt(h, "/a/list") == "one@1:/a/list" })
	}
	for _, op := range []abi.Op{abi.OpResponse, abi.OpEvents, abi.OpError} {
		h, _ := openTest(t, Options{})
		g := goodGuest(SlotChat, "1")
		declining(op)(g)
		info := activate(t, h, g.bytes(t))
		if err := ask(h, SlotChat, op); err != nil && op != abi.OpError {
			t.Errorf("op %v: %v", op, err)
		}
		if now, _ := h.info(info.Digest); now.Faults != nil || now.Declined != 1 {
			t.Errorf("op %v, which the native build answers: faults %v, %d declined", op, now.Faults, now.Declined)
		}
	}
	// Where the native build does not understand the body, nobody does.
	r := &recorder{answer: func(op abi.Op) []byte {
		if op == abi.OpRequest {
			return statusFrame(abi.StatusError, abi.InvalidRequest, abi.Refusal{Msg: "what is this"}.Append(nil))
		}
		return nil
	}}
	h := openNative(t, false, r)
	g := goodGuest(SlotChat, "1")
	declining(abi.OpResponse)(g)
	info := activate(t, h, g.bytes(t))
	if err := ask(h, SlotChat, abi.OpResponse); abi.KindOf(err) != abi.Internal {
		t.Errorf("%v", err)
	}
	if now, _ := h.info(info.Digest); now.Faults["protocol"] != 1 {
		t.Errorf("faults %v", now.Faults)
	}
}

// TestShippedFallsBack: an answer of a shipped module that fails goes on in its
// native build, with the same state.
func TestShippedFallsBack(t *testing.T) {
	r := &recorder{}
	g := newGuest(SlotChat, "1")
	g.answers = chatAnswers("wasm")
	delete(g.answers, abi.OpEvents) // a fault
	wasm := g.bytes(t)
	h, l := openWith(t, Options{}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle, nativeAs: "builtin:chat",
		digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}})
	tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
	defer tr.Close()
	if body, err := tr.Request([]byte("{}")); err != nil || string(body) != `{"by":"wasm"}` {
		t.Fatalf("%s, %v\n%s", body, err, l)
	}
	if out, err := tr.Events(nil, answerEvents()[:1]); err != nil || string(out) != "|" {
		t.Errorf("%s, %v", out, err)
	}
	if len(r.events) != 1 || string(r.events[0].Kept) != "kept wasm" {
		t.Errorf("the native build got %+v", r.events)
	}
}

// TestEarlyIsOfTheLastGroup: that nothing of the answer is written yet is known of a module, of a native build, and of
// what goes on in one.
func TestEarlyIsOfTheLastGroup(t *testing.T) {
	marked := func(early bool) []byte {
		frame := okFrame(abi.Written{Bytes: []byte("data: {}\n\n")}.Append(nil))
		if early {
			abi.MarkEarly(frame, 0)
		}
		return frame
	}
	for _, early := range []bool{true, false} {
		r := &recorder{answer: func(op abi.Op) []byte {
			if op == abi.OpEvents {
				return marked(early)
			}
			return nil
		}}
		g, failing := newGuest(SlotChat, "1"), newGuest(SlotChat, "2")
		g.answers, failing.answers = chatAnswers("wasm"), chatAnswers("wasm")
		g.raw[abi.OpEvents] = marked(early)
		delete(failing.answers, abi.OpEvents) // a fault
		hosts := map[string]*Host{"a native build": openNative(t, false, r)}
		for name, wasm := range map[string][]byte{"a module": g.bytes(t), "a module that fails": failing.bytes(t)} {
			hosts[name], _ = openWith(t, Options{}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle, nativeAs: "builtin:chat",
				digest: digestOf(wasm), wasm: func() ([]byte, error) { return wasm, nil }}})
		}
		for name, h := range hosts {
			tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: true})
			if _, err := tr.Request([]byte("{}")); err != nil {
				t.Fatal(err)
			}
			if out, err := tr.Events(nil, answerEvents()[:1]); err != nil || string(out) != "data: {}\n\n" || tr.Early() != early {
				t.Errorf("%s: %q, %v, early %t, want %t", name, out, err, tr.Early(), early)
			}
			if fell := len(r.events) > 0; fell != (name != "a module") {
				t.Errorf("%s: the native build was asked: %t", name, fell)
			}
			r.events = nil
			tr.Close()
		}
	}
}

// TestErrorNeverFails has a native build that fails too: nothing is written,
// and nothing breaks.
func TestErrorNeverFails(t *testing.T) {
	r := &recorder{answer: func(abi.Op) []byte { panic("broken") }}
	tr := openNative(t, false, r).Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); abi.KindOf(err) != abi.Internal {
		t.Errorf("%v", err)
	}
	if out := tr.Error([]byte("x"), &abi.Error{}, 500); string(out) != "x" {
		t.Errorf("%s", out)
	}
}
