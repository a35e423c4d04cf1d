package server

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"corenode/wasm/abi"
	"corenode/wasm/builtin"
)

// builtinTranslators are the shipped modules' native builds, called with the
// bytes that a Wasm module would get.
type builtinTranslators map[string]builtin.Module

// shipped returns the translators, by protocol.
func shipped(t *testing.T) builtinTranslators {
	all := builtinTranslators{}
	for _, m := range builtin.Modules() {
		if m.Kind == "translator" && !m.Off {
			all[m.Protocol] = m
		}
	}
	for _, protocol := range translatedPaths {
		if _, ok := all[protocol]; !ok {
			t.Skipf("no %s translator ships", protocol)
		}
	}
	return all
}

type builtinTranslation struct {
	noRoute
	m           builtin.Module
	facts       abi.Facts
	state, kept []byte
	history     []abi.Event
	early       bool
}

func (builtinTranslators) Route([]byte) (Routed, bool) { return Routed{}, false }
func (builtinTranslators) Routers() []Routed           { return nil }
func (builtinTranslators) Owner([]byte) (Routed, bool) { return Routed{}, false }

func (b builtinTranslators) Translate(protocol, _, _ string, facts abi.Facts) Translation {
	return &builtinTranslation{m: b[protocol], facts: facts}
}

func (t *builtinTranslation) call(op abi.Op, in []byte) abi.Output {
	out, err := abi.ParseOutput(t.m.Native(op, in, nil))
	if err != nil || out.Status == abi.StatusDecline {
		panic(op.String() + ": no output")
	}
	return out
}

func (t *builtinTranslation) Request(body []byte) ([]byte, error) {
	out := t.call(abi.OpRequest, abi.RequestInput{Facts: t.facts, Body: body}.Append(nil))
	if out.Status == abi.StatusError {
		r, err := abi.ParseRefusal(out.Payload)
		if err != nil {
			return nil, err
		}
		return nil, &abi.Error{Kind: out.Kind, Param: r.Param, Msg: r.Msg}
	}
	translated, err := abi.ParseTranslated(out.Payload)
	t.kept = translated.Kept
	return translated.Body, err
}

func (t *builtinTranslation) Module() string { return "" }
func (t *builtinTranslation) Early() bool    { return t.early }

func (t *builtinTranslation) SetFacts(f abi.Facts) { t.facts = f }

// remember adds a group to the history, one delta a block.
func (t *builtinTranslation) remember(group []abi.Event) {
	for _, e := range group {
		if n := len(t.history); e.Kind == abi.EventDelta && n > 0 && t.history[n-1].Kind == abi.EventDelta {
			t.history[n-1].Text += e.Text
			continue
		}
		t.history = append(t.history, e)
	}
}

func framed(events []abi.Event) (f abi.Frames) {
	for i := range events {
		f = abi.AppendFrame(f, &events[i])
	}
	return f
}

func (t *builtinTranslation) Events(dst []byte, group []abi.Event) ([]byte, error) {
	t.remember(group)
	in := abi.EventsInput{Facts: t.facts, State: t.state, Events: framed(group)}
	has := func(kinds ...abi.EventKind) bool {
		return slices.ContainsFunc(group, func(e abi.Event) bool { return slices.Contains(kinds, e.Kind) })
	}
	if has(abi.EventStart, abi.EventEnd) {
		in.Kept = t.kept
	}
	if t.m.History && has(abi.EventBlockStop, abi.EventEnd) {
		in.History = framed(t.history)
	}
	out := t.call(abi.OpEvents, in.Append(nil))
	w, err := abi.ParseWritten(out.Payload)
	t.state, t.early = w.State, out.Early()
	return append(dst, w.Bytes...), err
}

func (t *builtinTranslation) Response(dst []byte, events []abi.Event) ([]byte, error) {
	t.remember(events)
	out := t.call(abi.OpResponse, abi.ResponseInput{Facts: t.facts, Kept: t.kept, Events: framed(t.history)}.Append(nil))
	return append(dst, out.Payload...), nil
}

func (t *builtinTranslation) Error(dst []byte, e *abi.Error, status int) []byte {
	in := abi.ErrorInput{Facts: t.facts, State: t.state, Kept: t.kept, Status: status,
		Kind: e.Kind, Detail: e.Detail, Param: e.Param, Msg: e.Msg}
	if t.m.History {
		in.History = framed(t.history)
	}
	return append(dst, t.call(abi.OpError, in.Append(nil)).Payload...)
}

func (t *builtinTranslation) Close() {}

// An error looks the same whether the front end wrote it, before a key was
// known, or a shipped module did.
func TestShippedErrorsAreOurs(t *testing.T) {
	for protocol := range shipped(t) {
		for _, k := range append(abi.Kinds(), abi.Kind(9999)) {
			for _, e := range []abi.Error{
				{Msg: "no"}, {Msg: "a \"quoted\"\nline \x01 \xff <tag> \u2028"}, {Msg: "unknown model", Param: "model"},
				{Msg: "model: unknown", Param: "model"}, {Msg: "not here", Param: "messages.0.content.1"}, {Msg: ""},
			} {
				e.Kind = k
				status := familyChat.statusOf(k)
				got := shipped(t).Translate(protocol, "", "", abi.Facts{ID: "a", Created: 1}).Error(nil, &e, status)
				if want := familyChat.appendError(nil, &e); string(got) != string(want) {
					t.Errorf("%s, %s:\n got %s\nwant %s", protocol, k, got, want)
				}
			}
		}
	}
}

// shippedAsks are a request of each protocol, with the end of a finished stream.
var shippedAsks = map[string]struct{ path, body, whole, end string }{
	"chat": {"/v1/chat/completions", `{"model":"core-1.1","messages":[{"role":"user","content":"hi"}]}`,
		`"object":"chat.completion"`, "data: [DONE]\n\n"},
	"responses": {"/v1/responses", `{"model":"core-1.1","input":"hi"}`, `"object":"response"`, `"response.completed"`},
}

func TestShippedTranslators(t *testing.T) {
	fail := func(s *fakeStream) {
		s.out.Push(begin()...)
		s.out.Push(delta("half"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "out of pages"}})
	}
	for protocol := range shipped(t) {
		backend := newFakeBackend(say("hel", "lo"))
		n := start(t, Config{}, backend, func(d *Deps) { d.Translators = shipped(t) })
		ask := shippedAsks[protocol]
		post := func(body string) reply { return n.raw(request("POST", ask.path, body, bearerKey, withJSON)) }

		r := post(ask.body)
		if r.StatusCode != 200 || !json.Valid([]byte(r.body)) || !strings.Contains(r.body, ask.whole) || !strings.Contains(r.body, `"hello"`) {
			t.Errorf("%s: %d %q", protocol, r.StatusCode, r.body)
		}
		streamed := strings.Replace(ask.body, "{", `{"stream":true,`, 1)
		if r = post(streamed); r.StatusCode != 200 || !strings.Contains(r.body, ask.end) || !strings.Contains(r.body, `"hel"`) {
			t.Errorf("%s: %d %q", protocol, r.StatusCode, r.body)
		}
		for _, body := range []string{"{", "[]", strings.Replace(ask.body, "core", "gpt", 1), strings.Replace(streamed, `"hi"`, `7`, 1)} {
			if r = post(body); r.StatusCode != 400 {
				t.Errorf("%s: %d %q", protocol, r.StatusCode, r.body)
			}
			r.chatError(t)
		}
		backend.script = fail
		if r = post(streamed); !strings.Contains(r.body, "out of pages") || strings.Contains(r.body, ask.end) {
			t.Errorf("%s: a broken stream: %q", protocol, r.body)
		}
		if r = post(ask.body); r.StatusCode != 503 || r.chatError(t).Error.Code != "overloaded" {
			t.Errorf("%s: %d %q", protocol, r.StatusCode, r.body)
		}
	}
}

// TestCountedBudgets: how long an answer without streaming may be says nothing to a request that only counts.
func TestCountedBudgets(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("hello")), func(d *Deps) { d.Translators = shipped(t) })
	const body = `{"model":"core-1.1","input":"hi","max_output_tokens":32769}`
	r := n.raw(request("POST", "/v1/responses/input_tokens", body, bearerKey, withJSON))
	if r.StatusCode != 200 || !strings.Contains(r.body, `"input_tokens":`) {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	const want = `{"error":{"message":"max_output_tokens: 32769 is over 32768, the most without streaming; set \"stream\": true for longer answers",` +
		`"type":"invalid_request_error","param":"max_output_tokens","code":"invalid_request"}}`
	r = n.raw(request("POST", "/v1/responses", body, bearerKey, withJSON))
	if r.StatusCode != 400 || r.body != want {
		t.Errorf("%d\n got %s\nwant %s", r.StatusCode, r.body, want)
	}
}
