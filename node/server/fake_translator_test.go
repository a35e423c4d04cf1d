package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// fakeTranslators speaks a protocol of its own: a request is a model, a text
// and whether to stream; an answer is its events by number.
type fakeTranslators struct {
	noRoutes
	opened, closed atomic.Int32
	failEvents     func([]abi.Event) error // may be nil; may panic
	failResponse   func() error            // may be nil; may panic
	failFacts      func()                  // may be nil; may panic
	last           atomic.Pointer[fakeTranslation]
}

type fakeTranslation struct {
	noRoute
	of                *fakeTranslators
	protocol, account string
	facts             abi.Facts
	closed            atomic.Bool
}

func (f *fakeTranslators) Translate(protocol, account, _ string, facts abi.Facts) Translation {
	f.opened.Add(1)
	t := &fakeTranslation{of: f, protocol: protocol, account: account, facts: facts}
	f.last.Store(t)
	return t
}

func (t *fakeTranslation) Request(body []byte) ([]byte, error) {
	var q struct {
		Model, Text string
		Stream      bool
		Max         int
	}
	if err := json.Unmarshal(body, &q); err != nil {
		return nil, &abi.Error{Kind: abi.InvalidRequest, Msg: "not JSON", Param: "body"}
	}
	switch q.Text {
	case "fault":
		return nil, &abi.Error{Kind: abi.Internal, Msg: "internal error", Op: "fake.Request"}
	case "panic":
		panic("a translator's bug")
	case "garbage":
		return []byte("{"), nil
	}
	native := map[string]any{"model": q.Model, "stream": q.Stream, "messages": []any{map[string]any{"role": "user", "content": q.Text}}}
	if q.Text == "many values" {
		native["metadata"] = make([]int, 10_000)
	}
	if q.Max > 0 {
		native["max_tokens"] = q.Max
	}
	return json.Marshal(native)
}

// noRoutes are translators of chat and responses only, and noRoute their translations.
type (
	noRoutes struct{}
	noRoute  struct{}
)

func (noRoutes) Route([]byte) (Routed, bool) { return Routed{}, false }
func (noRoutes) Routers() []Routed           { return nil }
func (noRoutes) Owner([]byte) (Routed, bool) { return Routed{}, false }

func (noRoute) SetRoute(*guest.Manifest, *abi.Route) bool { panic("a route of no module") }

func (noRoute) Models([]byte, []abi.Model, []byte) ([]byte, error) { panic("a listing of no module") }

func (noRoute) Count([]byte, int) ([]byte, error) { panic("a count of no module") }

func (noRoute) Early() bool { return false }

func (t *fakeTranslation) Module() string { return "" }

func (t *fakeTranslation) SetFacts(f abi.Facts) {
	if fail := t.of.failFacts; fail != nil {
		fail()
	}
	t.facts = f
}

func (t *fakeTranslation) Events(dst []byte, group []abi.Event) ([]byte, error) {
	for i := range group {
		if group[i].Kind == abi.EventError {
			panic("an EventError was handed to a translator")
		}
	}
	if fail := t.of.failEvents; fail != nil {
		if err := fail(group); err != nil {
			return append(dst, "event: half a fra"...), err
		}
	}
	for _, e := range group {
		switch called := e.Block == abi.BlockToolUse; {
		case e.Kind == abi.EventBlockStop && called: // a call is told as a whole
			dst = append(dst, "data: {\"call\":true}\n\n"...)
		case e.Kind == abi.EventBlockStart, e.Kind == abi.EventBlockStop, e.Kind == abi.EventDelta && called: // nothing to say here
		case e.Kind == abi.EventEnd:
			dst = fmt.Appendf(dst, "data: {\"usage\":%d}\n\ndata: [DONE]\n\n", e.Usage.Output)
		default:
			dst = fmt.Appendf(dst, "data: {\"id\":%q,\"model\":%q,\"kind\":%d,\"text\":%q}\n\n", t.facts.ID, t.facts.Model, e.Kind, e.Text)
		}
	}
	return dst, nil
}

func (t *fakeTranslation) Response(dst []byte, events []abi.Event) ([]byte, error) {
	if fail := t.of.failResponse; fail != nil {
		if err := fail(); err != nil {
			return append(dst, "half a bo"...), err
		}
	}
	var text strings.Builder
	for _, e := range events {
		text.WriteString(e.Text)
	}
	return fmt.Appendf(dst, `{"object":"whole","id":%q,"created":%d,"model":%q,"text":%q}`, t.facts.ID, t.facts.Created, t.facts.Model, text.String()), nil
}

// Error is the family's error with a mark, so that tests see who wrote it.
func (t *fakeTranslation) Error(dst []byte, e *abi.Error, status int) []byte {
	if t.facts.Stream {
		dst = append(dst, "data: "...)
	}
	dst = familyChat.appendError(dst, e)
	dst = fmt.Appendf(dst[:len(dst)-1], `,"by":"translator","status":%d}`, status)
	if t.facts.Stream {
		dst = append(dst, "\n\n"...)
	}
	return dst
}

func (t *fakeTranslation) Close() {
	if t.closed.Swap(true) {
		panic("a translation was closed twice")
	}
	t.of.closed.Add(1)
}

// startTranslated is start with a fake translator, which must get every
// translation back.
func startTranslated(t testing.TB, cfg Config, backend *fakeBackend, f *fakeTranslators) *node {
	t.Helper()
	t.Cleanup(func() { // runs after the node has closed
		if f.opened.Load() != f.closed.Load() {
			t.Errorf("%d translations opened, %d closed", f.opened.Load(), f.closed.Load())
		}
	})
	return start(t, cfg, backend, func(d *Deps) { d.Translators = f })
}

const (
	asChat    = `{"model":"core-1.1","text":"hi"}`
	asChatSSE = `{"model":"core-1.1","text":"hi","stream":true}`
	bearerKey = "Authorization: Bearer " + goodKey
)

// translatedPaths are the endpoints that a translator serves.
var translatedPaths = map[string]string{"/v1/chat/completions": "chat", "/v1/responses": "responses"}

// chatError reads an error of the chat form.
type chatError struct {
	Error struct {
		Message, Type, Code string
		Param               *string
	}
	By     string
	Status int
}

func (r reply) chatError(t testing.TB) chatError {
	t.Helper()
	var e chatError
	body := strings.TrimSuffix(r.body, "\n\n")
	if i := strings.LastIndex(body, "data: "); i >= 0 {
		body = body[i+len("data: "):]
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil || e.Error.Message == "" || e.Error.Type == "" || e.Error.Code == "" {
		t.Errorf("not an error of the chat form (%v): %q", err, r.body)
	}
	return e
}
