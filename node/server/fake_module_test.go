package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
	"corenode/wasm/sdk"
)

const versesManifest = `{"name":"verses","kind":"translator","protocol":"verses","version":"1","abi":"1.1","framing":%q,"array":%t,
	"keys":[{"header":"Authorization","scheme":"Bearer"},{"header":"x-verse-key"},{"query":"key"}],
	"headers":["X-Verse-Version"],"query":["alt"],"statuses":{"model_not_found":404,"overloaded":529,"unauthenticated":400},
	"routes":[
		{"method":"POST","path":"/verses/{model}:write","op":"generate"},
		{"method":"POST","path":"/verses/{model}:count","op":"count"},
		{"method":"GET","path":"/verses/{model}","op":"models"},
		{"method":"POST","path":"/verses/find","op":"models"},
		{"method":"GET","path":"/verses/find","op":"models"}]}`

// verses is a module with routes, as its author would write it.
type verses struct{ lines bool }

func (verses) Request(in abi.RequestInput) (abi.Translated, *abi.Error) {
	var q struct {
		Say   string
		Whole bool
	}
	if err := json.Unmarshal(in.Body, &q); err != nil || q.Say == "" {
		return abi.Translated{}, &abi.Error{Kind: abi.InvalidRequest, Param: "say", Msg: "say something"}
	}
	stream := !q.Whole && in.Route.Parameter("alt") != "whole"
	body := fmt.Sprintf(`{"model":%q,"stream":%t,"stream_array":%t,"messages":[{"role":"user","content":%q}]}`, in.Route.Param("model"), stream, in.Route.Parameter("alt") == "array", q.Say)
	return abi.Translated{Body: []byte(body), Kept: []byte(in.Route.Header("X-Verse-Version"))}, nil
}

func (v verses) Events(dst, state []byte, in abi.EventsInput) (written, next []byte) {
	before, after := "data: ", "\n\n"
	if v.lines {
		before, after = "", "\n"
	}
	all := in.Events
	for f, more := all.Next(); more; f, more = all.Next() {
		switch f.Kind {
		case abi.EventDelta:
			dst = fmt.Appendf(dst, "%s{\"verse\":\"%s\"}%s", before, f.Payload, after)
		case abi.EventElapsed:
			e := f.Elapsed()
			dst = fmt.Appendf(dst, "%s{\"total\":%d,\"load\":%d,\"rest\":%d}%s", before, e.Total, e.Load, e.Total-e.Prompt-e.Generation, after)
		case abi.EventEnd:
			dst = fmt.Appendf(dst, "%s{\"done\":true,\"version\":%q}%s", before, in.Kept, after)
		}
	}
	return dst, state
}

func (verses) Response(dst []byte, in abi.ResponseInput) []byte {
	var text strings.Builder
	var took abi.Elapsed
	for f, more := in.Events.Next(); more; f, more = in.Events.Next() {
		if f.Kind == abi.EventDelta {
			text.Write(f.Payload)
		}
		if f.Kind == abi.EventElapsed {
			took = f.Elapsed()
		}
	}
	return fmt.Appendf(dst, `[{"verse":"%s","timed":%t}]`, text.String(),
		took.Prompt > 0 && took.Generation >= int64(generation) && took.Total == took.Prompt+took.Generation)
}

func (v verses) Error(dst []byte, in abi.ErrorInput) []byte {
	dst = fmt.Appendf(dst, `{"oops":%q,"status":%d}`, in.Kind, in.Status)
	if in.Facts.Stream {
		dst = append(dst, '\n')
	}
	return dst
}

func (verses) Models(dst []byte, in abi.ModelsInput) ([]byte, *abi.Error) {
	asked := in.Route.Param("model") + string(in.Body)
	dst = append(dst, '[')
	for i, m := range in.Models {
		if asked != "" && asked != "all" && asked != m.ID {
			continue
		}
		if i > 0 && dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		dst = fmt.Appendf(dst, `{"id":%q,"name":%q,"context":%d}`, m.ID, m.Name, m.Context)
	}
	if dst[len(dst)-1] == '[' {
		return dst, &abi.Error{Kind: abi.ModelNotFound, Msg: "no such model"}
	}
	return append(dst, ']'), nil
}

func (verses) Count(dst []byte, in abi.CountInput) []byte {
	return fmt.Appendf(dst, `{"tokens":%d,"model":%q}`, in.Tokens, in.Facts.Model)
}

// moduleTranslators are a host whose only module is one with routes, compiled into
// the test. It remembers all that the module was given.
type moduleTranslators struct {
	manifest *guest.Manifest
	handler  sdk.Handler
	gone     atomic.Bool         // the module is not in memory
	replaced atomic.Bool         // another version serves, with other routes than those that requests find
	failing  map[abi.Op]bool     // operations that the module fails in
	opened   atomic.Int32        // less those that were closed
	mu       sync.Mutex          // guards what follows
	inputs   map[abi.Op][]byte   // the last of each
	accounts map[string]struct{} // it was opened for
}

// elementsFraming is a module with server-sent events and arrays, which writes lines.
const elementsFraming = "sse or array"

func newModule(t testing.TB, framing string) *moduleTranslators {
	t.Helper()
	array := framing == elementsFraming
	if array {
		framing = guest.FramingSSE
	}
	m, err := guest.ParseManifest(fmt.Appendf(nil, versesManifest, framing, array))
	if err != nil {
		t.Fatal(err)
	}
	return &moduleTranslators{manifest: &m, handler: sdk.RouterHandler(verses{lines: array || framing == guest.FramingNDJSON}),
		failing: map[abi.Op]bool{}, inputs: map[abi.Op][]byte{}, accounts: map[string]struct{}{}}
}

// Route tries the routes in the manifest's order, which suits these.
func (f *moduleTranslators) Route(path []byte) (Routed, bool) {
	for i := range f.manifest.Routes {
		p, _ := guest.ParsePattern(f.manifest.Routes[i].Path)
		if i == 2 { // /verses/{model}, which others are more specific than
			continue
		}
		if params, ok := p.Match(path); ok {
			return Routed{"verses", f.manifest, i, params}, true
		}
	}
	p, _ := guest.ParsePattern(f.manifest.Routes[2].Path)
	params, ok := p.Match(path)
	return Routed{"verses", f.manifest, 2, params}, ok
}

func (f *moduleTranslators) Routers() []Routed {
	return []Routed{{Protocol: "verses", Manifest: f.manifest}}
}

func (f *moduleTranslators) Owner(path []byte) (Routed, bool) {
	first, _, _ := bytes.Cut(bytes.TrimPrefix(path, []byte{'/'}), []byte{'/'})
	return Routed{Protocol: "verses", Manifest: f.manifest}, string(first) == "verses"
}

func (f *moduleTranslators) Translate(protocol, account, _ string, facts abi.Facts) Translation {
	if f.gone.Load() || protocol != "verses" {
		return nil
	}
	f.opened.Add(1)
	f.mu.Lock()
	f.accounts[account] = struct{}{}
	f.mu.Unlock()
	return &moduleTranslation{of: f, facts: facts}
}

type moduleTranslation struct {
	of          *moduleTranslators
	facts       abi.Facts
	route       *abi.Route
	kept, state []byte
}

// call runs one op, whose failure is as the host tells it.
func (t *moduleTranslation) call(op abi.Op, in []byte) ([]byte, error) {
	t.of.mu.Lock()
	t.of.inputs[op] = in
	t.of.mu.Unlock()
	out, err := abi.ParseOutput(t.of.handler(op, in, nil))
	switch {
	case err != nil || out.Status == abi.StatusDecline || t.of.failing[op]:
		return nil, &abi.Error{Kind: abi.Overloaded, Msg: "the module of this path does not answer"}
	case out.Status == abi.StatusError:
		r, _ := abi.ParseRefusal(out.Payload)
		return nil, &abi.Error{Kind: out.Kind, Param: r.Param, Msg: r.Msg}
	}
	return out.Payload, nil
}

func (t *moduleTranslation) Request(body []byte) ([]byte, error) {
	out, err := t.call(abi.OpRequest, abi.RequestInput{Facts: t.facts, Route: t.route, Body: body}.Append(nil))
	if err != nil {
		return nil, err
	}
	translated, err := abi.ParseTranslated(out)
	t.kept = translated.Kept
	return translated.Body, err
}

func (t *moduleTranslation) Events(dst []byte, group []abi.Event) ([]byte, error) {
	in := abi.EventsInput{Facts: t.facts, State: t.state, Kept: t.kept}
	for i := range group {
		in.Events = abi.AppendFrame(in.Events, &group[i])
	}
	out, err := t.call(abi.OpEvents, in.Append(nil))
	w, _ := abi.ParseWritten(out)
	t.state = w.State
	return append(dst, w.Bytes...), err
}

func (t *moduleTranslation) Response(dst []byte, events []abi.Event) ([]byte, error) {
	in := abi.ResponseInput{Facts: t.facts, Kept: t.kept}
	for i := range events {
		in.Events = abi.AppendFrame(in.Events, &events[i])
	}
	return t.whole(dst, abi.OpResponse, in.Append(nil))
}

func (t *moduleTranslation) whole(dst []byte, op abi.Op, in []byte) ([]byte, error) {
	out, err := t.call(op, in)
	return append(dst, out...), err
}

func (t *moduleTranslation) Error(dst []byte, e *abi.Error, status int) []byte {
	dst, _ = t.whole(dst, abi.OpError, abi.ErrorInput{Facts: t.facts, State: t.state, Kept: t.kept, Status: status, Kind: e.Kind,
		Param: e.Param, Msg: e.Msg}.Append(nil))
	return dst
}

func (t *moduleTranslation) Models(dst []byte, models []abi.Model, body []byte) ([]byte, error) {
	return t.whole(dst, abi.OpModels, abi.ModelsInput{Facts: t.facts, Route: *t.route, Models: models, Body: body}.Append(nil))
}

func (t *moduleTranslation) Count(dst []byte, tokens int) ([]byte, error) {
	return t.whole(dst, abi.OpCount, abi.CountInput{Facts: t.facts, Kept: t.kept, Tokens: int64(tokens)}.Append(nil))
}

func (t *moduleTranslation) SetRoute(m *guest.Manifest, r *abi.Route) bool {
	t.route = r
	return m == t.of.manifest && !t.of.replaced.Load()
}

func (t *moduleTranslation) Module() string { return "" }

func (t *moduleTranslation) Early() bool { return false }

func (t *moduleTranslation) SetFacts(facts abi.Facts) { t.facts = facts }
func (t *moduleTranslation) Close()                   { t.of.opened.Add(-1) }

// startModule is start with a module, which must get every translation back.
func startModule(t testing.TB, cfg Config, backend *fakeBackend, f *moduleTranslators) *node {
	t.Helper()
	t.Cleanup(func() { // runs after the node has closed
		if n := f.opened.Load(); n != 0 {
			t.Errorf("%d translations were not closed", n)
		}
	})
	return start(t, cfg, backend, func(d *Deps) { d.Translators = f })
}
