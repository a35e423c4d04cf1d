package extensions

import (
	"testing"

	"corenode/wasm/abi"
)

// writing is a translator that says what it is told, and otherwise what chatAnswers has.
func writing(t *testing.T, op abi.Op, payload []byte) []byte {
	g := newGuest(SlotChat, "1")
	g.answers = chatAnswers("1")
	g.answers[op] = payload
	return g.bytes(t)
}

func group(bytes string) []byte {
	return abi.Written{State: []byte("s"), Bytes: []byte(bytes)}.Append(nil)
}

// whatTranslatorsWrite are answers that a client cannot read. Each passed for
// good as long as its record decoded.
var whatTranslatorsWrite = []struct {
	name    string
	op      abi.Op
	payload []byte
}{

	{"no frame", abi.OpEvents, group("hello")},

	{"a frame that does not end", abi.OpEvents, group("data: x")},

	{"invalid UTF-8", abi.OpEvents, group("data: \xfe\n\n")},

	{"half of a rune", abi.OpEvents, group("data: \xe2\x82\n\n")},

	{"no byte of a finished stream", abi.OpEvents, group("")},

	{"a body that does not parse", abi.OpResponse, []byte("{not json")},

	{"an empty body", abi.OpResponse, nil},

	{"a body in another encoding", abi.OpResponse, []byte("{\"a\":\"\xe4\"}")},
}

// TestAttackTranslators checks that it counts as a fault of the protocol,
// that the native build answers instead as long as no byte has left, and that
// the breaker acts.
func TestAttackTranslators(t *testing.T) {
	for _, c := range whatTranslatorsWrite {
		t.Run(c.name, func(t *testing.T) {
			h, l := openTest(t, Options{})
			info := activate(t, h, writing(t, c.op, c.payload))
			want, once := "data: native\n\n", `{"response":"native"}`
			for n := range breakerFaults {
				tr := h.Translate(SlotChat, "a", "", abi.Facts{})
				if _, err := tr.Request([]byte("{}")); err != nil {
					t.Fatal(err)
				}
				var out []byte
				var err error
				if c.op == abi.OpResponse {
					want = once
					out, err = tr.Response(nil, answerEvents())
				} else {
					tr.SetFacts(abi.Facts{Stream: true})
					out, err = tr.Events(nil, answerEvents())
				}
				if err != nil || string(out) != want {
					t.Fatalf("request %d: %q, %v, want the native build's %q\n%s", n, out, err, want, l)
				}
				tr.Close()
				if now, _ := h.info(info.Digest); n < breakerFaults-1 && now.Faults["protocol"] != uint64(n+1) {
					t.Fatalf("%d requests, faults %v", n+1, now.Faults)
				}
			}
			eventually(func() bool { now, _ := h.info(info.Digest); return now.State == StateFailed })
		})
	}
}

// TestBrokenInMidStream has bytes of the module with the client: the stream
// fails, and the native build, not the module, writes its end.
func TestBrokenInMidStream(t *testing.T) {
	r := &recorder{}
	h, _ := openWith(t, Options{AllowUnsigned: true}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle,
		nativeAs: "builtin:chat"}})
	g := newGuest(SlotChat, "1")
	g.answers = chatAnswers("1")
	good, bad := okFrame(group("data: x\n\n")), okFrame(group("data: \xff\n\n"))
	g.callAfter(abi.OpEvents, good, bad)
	info := activate(t, h, g.bytes(t))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{ID: "id"})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	tr.SetFacts(abi.Facts{ID: "id", Stream: true})
	all := answerEvents()
	if out, err := tr.Events(nil, all[:3]); err != nil || string(out) != "data: x\n\n" {
		t.Fatalf("%q, %v", out, err)
	}
	out, err := tr.Events([]byte("kept"), all[3:])
	if abi.KindOf(err) != abi.Internal || string(out) != "kept" {
		t.Fatalf("%q, %v, want the stream to fail", out, err)
	}
	if out := tr.Error(nil, abi.AsError(err), 500); string(out) != "body" || len(r.errors) != 1 {
		t.Fatalf("the end of the stream is %q, asked of the native build %d times", out, len(r.errors))
	}
	// It writes it as if it had written the answer: by its own state, not the module's.
	if e := r.errors[0]; string(e.State) != "s" || string(e.Kept) != "kept" {
		t.Errorf("its input is %+v", e)
	}
	if now, _ := h.info(info.Digest); now.Faults["protocol"] != 1 || now.Calls != 3 {
		t.Errorf("%+v", now)
	}
}

// TestTakeOverGetsTheWholeAnswer: groups for which the module wrote nothing yet
// are the native build's too.
func TestTakeOverGetsTheWholeAnswer(t *testing.T) {
	r := &recorder{}
	h, _ := openWith(t, Options{AllowUnsigned: true}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle,
		nativeAs: "builtin:chat"}})
	activate(t, h, writing(t, abi.OpEvents, group("")))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	tr.SetFacts(abi.Facts{Stream: true})
	all := answerEvents()
	var out []byte
	for i := range all {
		var err error
		if out, err = tr.Events(out, all[i:i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if string(out) != "|" || len(r.events) != 1 {
		t.Fatalf("%q in %d calls of the native build", out, len(r.events))
	}
	if e := r.events[0]; string(e.Events) != string(merged(len(all))) || string(e.Kept) != "kept" || len(e.State) != 0 || !e.Facts.Stream {
		t.Errorf("it got %+v", e)
	}
}

// TestForeignDialect is a module for a body that the native build refuses: it
// cannot answer in its place.
func TestForeignDialect(t *testing.T) {
	r := &recorder{answer: func(op abi.Op) []byte {
		if op == abi.OpRequest {
			return statusFrame(abi.StatusError, abi.InvalidRequest, abi.Refusal{Msg: "no"}.Append(nil))
		}
		return nil
	}}
	h, _ := openWith(t, Options{AllowUnsigned: true}, []shippedModule{{slot: SlotChat, name: "chat", native: r.handle,
		nativeAs: "builtin:chat"}})
	activate(t, h, writing(t, abi.OpEvents, group("hello")))
	tr := h.Translate(SlotChat, "a", "", abi.Facts{})
	defer tr.Close()
	if _, err := tr.Request([]byte("{}")); err != nil {
		t.Fatal(err)
	}
	if out, err := tr.Events(nil, answerEvents()); abi.KindOf(err) != abi.Internal || len(out) > 0 || len(r.events) > 0 {
		t.Errorf("%q, %v, %d calls of the native build", out, err, len(r.events))
	}
}

// TestErrorsAreChecked has what a module says of a failure: frames in a stream,
// else a body.
func TestErrorsAreChecked(t *testing.T) {
	for _, c := range []struct {
		name, written string
		stream        bool
		want          string
	}{
		{"a body", `{"e":1}`, false, `{"e":1}`},
		{"no body", `oops`, false, `{"error":"native"}`},
		{"frames", "data: {}\n\n", true, "data: {}\n\n"},
		{"a body in a stream", `{"e":1}`, true, `{"error":"native"}`},
		{"nothing in a stream", ``, true, `{"error":"native"}`},
	} {
		h, _ := openTest(t, Options{})
		info := activate(t, h, writing(t, abi.OpError, []byte(c.written)))
		tr := h.Translate(SlotChat, "a", "", abi.Facts{Stream: c.stream})
		out := tr.Error(nil, &abi.Error{Kind: abi.Internal}, 500)
		tr.Close()
		now, _ := h.info(info.Digest)
		if faulted := now.Faults["protocol"] == 1; string(out) != c.want || faulted != (c.want != c.written) {
			t.Errorf("%s: %q, want %q; faults %v", c.name, out, c.want, now.Faults)
		}
	}
}

// TestAttackTranslatorsRequests: what a translator makes of a request and no client sent
// is the module's fault, not the client's: the native build takes the request, and
// the breaker acts.
func TestAttackTranslatorsRequests(t *testing.T) {
	for name, body := range map[string]string{"no JSON": "{not json", "nothing": "", "another encoding": "{\"a\":\"\xe4\"}",
		"a list": "[]", "a word": "true"} {
		h, l := openTest(t, Options{})
		info := activate(t, h, writing(t, abi.OpRequest, abi.Translated{Body: []byte(body)}.Append(nil)))
		for n := range breakerFaults {
			if got := request(t, h, "a"); got != `{"by":"native"}` {
				t.Errorf("%s: %s takes the request", name, got)
			}
			if now, _ := h.info(info.Digest); n < breakerFaults-1 && (now.Faults["protocol"] != uint64(n+1) ||
				now.Fallbacks != uint64(n+1)) {
				t.Errorf("%s: %d requests, faults %v, %d fallbacks\n%s", name, n+1, now.Faults, now.Fallbacks, l)
			}
		}
		eventually(func() bool { now, _ := h.info(info.Digest); return now.State == StateFailed })
	}
}
