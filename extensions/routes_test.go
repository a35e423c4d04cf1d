package extensions

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

// routedGuest is a translator of a protocol of its own, with a path for each op
// below root.
func routedGuest(protocol, version, root string) *handmade {
	g := newGuest(SlotChat, version)
	g.manifest.Name, g.manifest.Protocol, g.manifest.ABI = protocol, protocol, guest.ABI11
	g.manifest.Framing = guest.FramingNDJSON
	g.manifest.Keys = []guest.Key{{Header: "X-Key"}, {Query: "key"}}
	g.manifest.Routes = []guest.Route{
		{Method: "POST", Path: root + "/{model}:write", Op: guest.RouteGenerate},
		{Method: "POST", Path: root + "/{model}:count", Op: guest.RouteCount},
		{Method: "GET", Path: root + "/{model}", Op: guest.RouteModels},
		{Method: "GET", Path: root + "/list", Op: guest.RouteModels},
	}
	g.answers = chatAnswers(version)
	g.answers[abi.OpEvents] = abi.Written{Bytes: []byte("{\"by\":\"" + version + "\"}\n")}.Append(nil)
	g.answers[abi.OpModels] = []byte(`{"models":"` + version + `"}`)
	g.answers[abi.OpCount] = []byte(`{"count":"` + version + `"}`)
	return g
}

// routeAt says which module answers a path, as module:route, "" for none.
func routeAt(h *Host, path string) string {
	r, ok := h.Route([]byte(path))
	if !ok {
		return ""
	}
	return r.Manifest.Ref() + ":" + r.Manifest.Routes[r.Index].Path
}

// TestOwners: a path that nobody answers is its module's whose paths begin like it, where it is one alone.
func TestOwners(t *testing.T) {
	h, _ := openTest(t, Options{})
	activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	activate(t, h, routedGuest("two", "1", "/b/c").bytes(t))
	activate(t, h, routedGuest("three", "1", "/b/d").bytes(t))
	activate(t, h, routedGuest("four", "1", "/v1/own").bytes(t))
	for path, want := range map[string]Slot{"/a/x/y": "one", "/a": "one", "/a/": "one", "/b/x": "", "/b/c/x/y": "",
		"/v1/own/x/y": "", "/v1": "", "/aa/x": "", "//a/x": "", "/": "", "": "", "a/x": "", "*": ""} {
		if r, ok := h.Owner([]byte(path)); r.Slot != want || ok != (want != "") || ok && r.Manifest.Name != string(want) {
			t.Errorf("%q: %+v, want %q", path, r, want)
		}
	}
}

// TestRouters: each module that answers paths is listed once, from its activation until another one has its slot.
func TestRouters(t *testing.T) {
	h, _ := openTest(t, Options{})
	has := func(want ...string) {
		t.Helper()
		var got []string
		for _, r := range h.Routers() {
			if string(r.Slot) != r.Manifest.Name {
				t.Errorf("%s is in slot %s", r.Manifest.Ref(), r.Slot)
			}
			got = append(got, r.Manifest.Ref())
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%v answer paths, want %v", got, want)
		}
	}
	has()
	activate(t, h, routedGuest("two", "1", "/b").bytes(t))
	activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	has("one@1", "two@1")
	activate(t, h, routedGuest("one", "2", "/c").bytes(t))
	has("one@2", "two@1")
	if _, err := h.Rollback("two"); err != nil {
		t.Fatal(err)
	}
	has("one@2")
	if _, err := h.Rollback("one"); err != nil {
		t.Fatal(err)
	}
	has("one@1")
}

func TestRoutesOfSlots(t *testing.T) {
	h, _ := openTest(t, Options{})
	if got := routeAt(h, "/a/list"); got != "" || len(h.Slots()) != len(Slots) {
		t.Fatalf("before any module: %q, slots %v", got, h.Slots())
	}
	one := activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	for path, want := range map[string]string{"/a/list": "/a/list", "/a/x": "/a/{model}", "/a/x:write": "/a/{model}:write",
		"/a/x:go": "/a/{model}", "/a": "", "/a/": "", "/b/x": "", "": "", "/": "", "/a/x/y": "", "//a/x": ""} {
		if got := routeAt(h, path); got != want && got != "one@1:"+want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
	if !slices.Equal(h.Slots(), append(Slots[:], "one")) || len(h.Uses()) != len(Slots)+1 {
		t.Errorf("slots %v", h.Slots())
	}
	// Another protocol may have other paths, and none of these, not even one of many.
	activate(t, h, routedGuest("two", "1", "/b").bytes(t))
	third := routedGuest("three", "1", "/c")
	third.manifest.Routes = append(third.manifest.Routes, guest.Route{Method: "GET", Path: "/a/{any}:write", Op: guest.RouteModels})
	digest := mustLoad(t, h, third.bytes(t))
	if _, err := h.Activate(digest); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), "/a/{any}:write") ||
		!strings.Contains(err.Error(), "one@1") || routeAt(h, "/c/list") != "" {
		t.Errorf("a second module of a path: %v, and it answers %q", err, routeAt(h, "/c/list"))
	}
	// One of the same protocol takes the slot with its paths; rollback brings back the first.
	activate(t, h, routedGuest("one", "2", "/d").bytes(t))
	if routeAt(h, "/a/list") != "" || routeAt(h, "/d/list") != "one@2:/d/list" {
		t.Errorf("after a second version: %q, %q", routeAt(h, "/a/list"), routeAt(h, "/d/list"))
	}
	if i, err := h.Activate(digest); err != nil || i.State != StateActive {
		t.Errorf("the path is free now: %v", err)
	}
	if _, err := h.Rollback("one"); !errors.Is(err, ErrPath) {
		t.Errorf("rollback to a version whose path has gone to another: %v", err)
	}
	if _, err := h.Rollback("three"); err != nil || routeAt(h, "/c/list") != "" {
		t.Errorf("rollback to nothing: %v, %q", err, routeAt(h, "/c/list"))
	}
	if i, err := h.Rollback("one"); err != nil || i.Digest != one.Digest || routeAt(h, "/a/list") != "one@1:/a/list" {
		t.Errorf("rollback: %v, %+v", err, i)
	}
	if _, err := h.Rollback("none"); !errors.Is(err, ErrSlot) || slices.Contains(h.Slots(), "none") {
		t.Errorf("rollback of no slot: %v", err)
	}
}

// TestNothingGoesBackToTakenPaths: where another slot has a path of the module before by now, one that fails stays, and in
// the place of a denied one serves none; neither takes the other slot's paths away, nor does a restart.
func TestNothingGoesBackToTakenPaths(t *testing.T) {
	for _, denied := range []bool{false, true} {
		o := Options{Dir: t.TempDir()}
		h, l := openTest(t, o)
		activate(t, h, routedGuest("one", "1", "/a").bytes(t))
		second := activate(t, h, routedGuest("one", "2", "/d").bytes(t)).Digest
		third := routedGuest("three", "1", "/c")
		third.manifest.Routes = append(third.manifest.Routes, guest.Route{Method: "GET", Path: "/a/{any}:write", Op: guest.RouteModels})
		activate(t, h, third.bytes(t))
		said := "nothing can replace it"
		if denied {
			said, o.Denied = "the module before a denied one cannot serve", denials(t, second)
			h.Trust(nil, o.Denied)
		} else {
			h.demote(h.slot("one").now.Load().active, "it faults")
		}
		if !strings.Contains(l.String(), said) || !strings.Contains(l.String(), ErrPath.Error()) {
			t.Errorf("denied %v:\n%s", denied, l)
		}
		for start := range 2 {
			if start > 0 {
				_ = h.Close()
				h, _ = openTest(t, o)
			}
			for path, want := range map[string]string{"/a/x:write": "three@1:/a/{any}:write", "/c/list": "three@1:/c/list",
				"/d/list": "one@2:/d/list", "/a/list": ""} {
				if got := routeAt(h, path); got != want {
					t.Errorf("denied %v, start %d: %s is that of %q, want %q", denied, start, path, got, want)
				}
			}
			tr := h.Translate("one", "a", "", abi.Facts{})
			if (tr == nil) != denied || h.Missing("one") != denied {
				t.Errorf("denied %v, start %d: it serves %v, missing %v", denied, start, tr != nil, h.Missing("one"))
			}
			if tr != nil {
				tr.Close()
			}
		}
		for _, name := range []Slot{"three", "one"} {
			if _, err := h.Rollback(name); err != nil {
				t.Error(err)
			}
		}
		if got := routeAt(h, "/a/list"); got != "one@1:/a/list" {
			t.Errorf("denied %v: when the path is free it is that of %q", denied, got)
		}
	}
}

// TestCanaryEndsWithItsRoutes: a canary is asked by an index of the active module's routes, so it ends when one with
// others comes to serve, whatever the reason.
func TestCanaryEndsWithItsRoutes(t *testing.T) {
	withRoutes := func(version string, order ...int) []byte {
		g := routedGuest("one", version, "/a")
		all := g.manifest.Routes
		g.manifest.Routes = nil
		for _, i := range order {
			g.manifest.Routes = append(g.manifest.Routes, all[i])
		}
		return g.bytes(t)
	}
	for _, way := range []string{"demoted", "denied", "denied at the start", "written before"} {
		o := Options{Dir: t.TempDir()}
		h, l := openTest(t, o)
		activate(t, h, withRoutes("1", 0))
		second := activate(t, h, withRoutes("2", 3, 0)).Digest
		third := mustLoad(t, h, withRoutes("3", 3, 0))
		if _, err := h.Canary(third, 100); err != nil {
			t.Fatal(err)
		}
		switch way {
		case "denied":
			o.Denied = denials(t, second)
			h.Trust(nil, o.Denied)
		case "denied at the start":
			_ = h.Close()
			o.Denied = denials(t, second)
			h, l = openTest(t, o)
		default:
			h.demote(h.slot("one").now.Load().active, "it faults")
		}
		for start := range 2 {
			if start > 0 {
				if way == "written before" { // by an earlier version of the program
					w := h.state.Slots["one"]
					w.Canary, w.CanaryPercent = third, 100
					h.state.Slots["one"] = w
					h.folder.saveOrSay(&h.state)
				}
				_ = h.Close()
				h, _ = openTest(t, o)
			}
			a, w := h.slot("one").now.Load(), h.state.Slots["one"]
			if a.active == nil || a.active.manifest.Version != "1" || a.canary != nil || a.canaryPercent != 0 || a.missing {
				t.Errorf("%s, start %d: %+v", way, start, a)
			}
			if w.Canary != "" || w.CanaryPercent != 0 {
				t.Errorf("%s, start %d: the state wants %+v", way, start, w)
			}
		}
		if !strings.Contains(l.String(), "a canary ends: what serves now has other routes") {
			t.Errorf("%s:\n%s", way, l)
		}
	}
}

// TestRoutedCanary: which module is asked is known after the path, so a canary has
// the active one's, in every respect.
func TestRoutedCanary(t *testing.T) {
	h, _ := openTest(t, Options{})
	first := mustLoad(t, h, routedGuest("one", "0", "/a").bytes(t))
	if _, err := h.Canary(first, 50); !errors.Is(err, ErrOtherRoutes) {
		t.Errorf("a canary of nothing: %v", err)
	}
	if _, err := h.Shadow(first, 50); !errors.Is(err, ErrOtherRoutes) {
		t.Errorf("a shadow of nothing: %v", err)
	}
	activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	if _, err := h.Canary(first, 50); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*guest.Manifest){
		"path":   func(m *guest.Manifest) { m.Routes[0].Path = "/a/{model}:draw" },
		"key":    func(m *guest.Manifest) { m.Keys = m.Keys[:1] },
		"header": func(m *guest.Manifest) { m.Headers = []string{"x"} },
		"query":  func(m *guest.Manifest) { m.Query = []string{"x"} },
		"status": func(m *guest.Manifest) { m.Statuses = map[string]int{"internal": 502} },
		"type":   func(m *guest.Manifest) { m.ContentType = "application/json" },
	} {
		g := routedGuest("one", name, "/a")
		change(&g.manifest)
		other := mustLoad(t, h, g.bytes(t))
		if _, err := h.Canary(other, 50); !errors.Is(err, ErrOtherRoutes) {
			t.Errorf("a canary with another %s: %v", name, err)
		}
		if _, err := h.Canary(first, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Shadow(other, 50); !errors.Is(err, ErrOtherRoutes) {
			t.Errorf("a shadow with another %s: %v", name, err)
		}
	}
}

// TestShadowEndsWithItsRoutes: a shadow is asked by an index of the active module's routes too, so it ends as a canary does.
func TestShadowEndsWithItsRoutes(t *testing.T) {
	reversed := func(version string) []byte {
		g := routedGuest("one", version, "/a")
		slices.Reverse(g.manifest.Routes)
		return g.bytes(t)
	}
	for _, way := range []string{"activated", "rolled back", "demoted", "denied", "denied at the start", "written before"} {
		o := Options{Dir: t.TempDir()}
		h, l := openTest(t, o)
		first := activate(t, h, routedGuest("one", "1", "/a").bytes(t)).Digest
		second := activate(t, h, reversed("2")).Digest
		shadow := mustLoad(t, h, reversed("3"))
		if _, err := h.Shadow(shadow, 100); err != nil {
			t.Fatal(err)
		}
		var err error
		switch way {
		case "activated":
			_, err = h.Activate(first)
		case "rolled back":
			_, err = h.Rollback("one")
		case "denied":
			o.Denied = denials(t, second)
			h.Trust(nil, o.Denied)
		case "denied at the start":
			_ = h.Close()
			o.Denied = denials(t, second)
			h, l = openTest(t, o)
		default:
			h.demote(h.slot("one").now.Load().active, "it faults")
		}
		if err != nil {
			t.Fatal(err)
		}
		for start := range 2 {
			if start > 0 {
				if way == "written before" { // by an earlier version of the program
					w := h.state.Slots["one"]
					w.Shadow, w.ShadowPercent = shadow, 100
					h.state.Slots["one"] = w
					h.folder.saveOrSay(&h.state)
				}
				_ = h.Close()
				h, _ = openTest(t, o)
			}
			a, w := h.slot("one").now.Load(), h.state.Slots["one"]
			if a.active == nil || a.active.digest != first || a.shadow != nil || w.Shadow != "" || w.ShadowPercent != 0 {
				t.Errorf("%s, start %d: %+v, the state wants %+v", way, start, a, w)
			}
		}
		if !strings.Contains(l.String(), "a shadow ends: what serves now has other routes") {
			t.Errorf("%s:\n%s", way, l)
		}
	}
}

// TestRouteOfAnotherVersion: a request whose route was found before another version came to serve does not
// reach that one, which would read the index as that of another of its routes.
func TestRouteOfAnotherVersion(t *testing.T) {
	h, _ := openTest(t, Options{})
	version := func(name string, reversed bool) []byte {
		g := routedGuest("one", name, "/a")
		if reversed {
			slices.Reverse(g.manifest.Routes)
		}
		return g.bytes(t)
	}
	served := func(found Routed) bool {
		tr := h.Translate("one", "a", "", abi.Facts{})
		defer tr.Close()
		return tr.SetRoute(found.Manifest, &abi.Route{Index: found.Index})
	}
	activate(t, h, version("1", false))
	first, _ := h.Route([]byte("/a/list"))
	if !served(first) {
		t.Error("the version that the route was found in does not serve it")
	}
	activate(t, h, version("2", true))
	if served(first) {
		t.Error("a version with other routes takes the old one's index")
	}
	second, _ := h.Route([]byte("/a/list"))
	if _, err := h.Canary(mustLoad(t, h, version("3", true)), 100); err != nil || !served(second) {
		t.Errorf("a canary does not serve the routes that it has, too: %v", err)
	}
	activate(t, h, version("4", true))
	if !served(second) {
		t.Error("the next version does not serve the routes that it has, too")
	}
}

// TestRoutedTranslation: what each operation gives, and that nothing stands in for a
// module that fails.
func TestRoutedTranslation(t *testing.T) {
	h, _ := openTest(t, Options{})
	if h.Translate("one", "a", "", abi.Facts{}) != nil {
		t.Fatal("a translation without a module")
	}
	activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	tr := h.Translate("one", "a", "", abi.Facts{ID: "x"})
	defer tr.Close()
	tr.SetRoute(&tr.generation.manifest, &abi.Route{Index: 1})
	body, err := tr.Request([]byte("{}"))
	models, errModels := tr.Models([]byte("before "), []abi.Model{{ID: "m"}}, nil)
	count, errCount := tr.Count(nil, 7)
	if err := errors.Join(err, errModels, errCount); err != nil || string(body) != `{"by":"1"}` ||
		string(models) != `before {"models":"1"}` || string(count) != `{"count":"1"}` {
		t.Errorf("%s, %s, %s, %v", body, models, count, err)
	}
	if lines, err := tr.Events(nil, []abi.Event{{Kind: abi.EventStart}}); err != nil || string(lines) != "{\"by\":\"1\"}\n" {
		t.Errorf("%q, %v", lines, err)
	}
}

func TestAttackRoutedAnswers(t *testing.T) {
	refused := func(k abi.Kind) []byte {
		return statusFrame(abi.StatusError, k, abi.Refusal{Msg: "no\x00"}.Append(nil))
	}
	cases := map[string]struct {
		op   abi.Op
		raw  []byte // nil: it traps
		kind abi.Kind
	}{
		"request traps":        {abi.OpRequest, nil, abi.Overloaded},
		"request declines":     {abi.OpRequest, statusFrame(abi.StatusDecline, 0, nil), abi.Overloaded},
		"request is no record": {abi.OpRequest, okFrame([]byte("x")), abi.Overloaded},
		"request wants an array": {abi.OpRequest, okFrame(abi.Translated{Body: []byte(`{"stream":true,"stream_array":true}`)}.Append(nil)),
			abi.Overloaded},
		"request misses a model":    {abi.OpRequest, refused(abi.ModelNotFound), abi.InvalidRequest},
		"request refuses":           {abi.OpRequest, refused(abi.InvalidRequest), abi.InvalidRequest},
		"models traps":              {abi.OpModels, nil, abi.Overloaded},
		"models declines":           {abi.OpModels, statusFrame(abi.StatusDecline, 0, nil), abi.Overloaded},
		"models is no JSON":         {abi.OpModels, okFrame([]byte("<html>")), abi.Overloaded},
		"models is nothing":         {abi.OpModels, okFrame(nil), abi.Overloaded},
		"models is no UTF-8":        {abi.OpModels, okFrame([]byte("\"\xff\"")), abi.Overloaded},
		"models is two":             {abi.OpModels, okFrame([]byte("{}{}")), abi.Overloaded},
		"models misses a model":     {abi.OpModels, refused(abi.ModelNotFound), abi.ModelNotFound},
		"models has no money":       {abi.OpModels, refused(abi.InsufficientBalance), abi.InvalidRequest},
		"models has another status": {abi.OpModels, []byte{7, 0, 0, 0, 0, 0, 0, 0}, abi.Overloaded},
		"count traps":               {abi.OpCount, nil, abi.Overloaded},
		"count is no JSON":          {abi.OpCount, okFrame([]byte("7 tokens")), abi.Overloaded},
		"count refuses":             {abi.OpCount, refused(abi.InvalidRequest), abi.Overloaded},
		"events are none of lines":  {abi.OpEvents, okFrame(abi.Written{Bytes: []byte("data: {}\n\n")}.Append(nil)), abi.Overloaded},
		"events end within a line":  {abi.OpEvents, okFrame(abi.Written{Bytes: []byte("{}")}.Append(nil)), abi.Overloaded},
		"events trap":               {abi.OpEvents, nil, abi.Overloaded},
		"response is no JSON":       {abi.OpResponse, okFrame([]byte("}")), abi.Overloaded},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h, _ := openTest(t, Options{})
			g := routedGuest("one", "1", "/a")
			delete(g.answers, c.op)
			if c.raw != nil {
				g.raw[c.op] = c.raw
			}
			activate(t, h, g.bytes(t))
			for range 10 { // its breaker finds nothing to go back to, and the paths stay
				tr := h.Translate("one", "a", "", abi.Facts{ID: "x", Stream: c.op == abi.OpEvents})
				tr.SetRoute(&tr.generation.manifest, &abi.Route{})
				var err error
				switch c.op {
				case abi.OpRequest:
					_, err = tr.Request([]byte("{}"))
				case abi.OpModels:
					_, err = tr.Models(nil, nil, nil)
				case abi.OpCount:
					_, err = tr.Count(nil, 1)
				case abi.OpEvents:
					_, err = tr.Events(nil, []abi.Event{{Kind: abi.EventStart}})
				case abi.OpResponse:
					_, err = tr.Response(nil, []abi.Event{{Kind: abi.EventStart}})
				}
				e := abi.AsError(err)
				if err == nil || e.Kind != c.kind || strings.Contains(e.Msg, "\x00") || (e.Kind == abi.Overloaded) != (e.RetryAfter > 0) {
					t.Fatalf("%v", err)
				}
				tr.Close()
			}
			if routeAt(h, "/a/list") == "" {
				t.Error("its paths are gone")
			}
		})
	}
}

// TestRoutedError: an error that the module cannot write is nobody else's to write.
func TestRoutedError(t *testing.T) {
	h, _ := openTest(t, Options{})
	g := routedGuest("one", "1", "/a")
	g.answers[abi.OpError] = []byte("no JSON")
	activate(t, h, g.bytes(t))
	tr := h.Translate("one", "a", "", abi.Facts{})
	defer tr.Close()
	if got := tr.Error([]byte("x"), &abi.Error{Kind: abi.Internal, Msg: "m"}, 500); string(got) != "x" {
		t.Errorf("%q", got)
	}
}

// TestRoutedRestart: the paths of what should serve are known at once, also when it
// does not load: here because nobody has signed it.
func TestRoutedRestart(t *testing.T) {
	dir := t.TempDir()
	h, _ := openTest(t, Options{Dir: dir})
	i := activate(t, h, routedGuest("one", "1", "/a").bytes(t))
	_ = h.Close()
	strict, _ := openWith(t, Options{Dir: dir}, testShipped())
	if routeAt(strict, "/a/list") != "one@1:/a/list" || strict.Translate("one", "a", "", abi.Facts{}) != nil || !strict.Missing("one") {
		t.Error("a module that does not load has no paths, or serves")
	}
	other := routedGuest("two", "1", "/a").bytes(t)
	if _, err := strict.Load(t.Context(), other, nil, nil); err == nil {
		t.Error("an unsigned module is taken")
	}
	_ = strict.Close()
	again, _ := openTest(t, Options{Dir: dir})
	if _, err := again.Activate(mustLoad(t, again, other)); !errors.Is(err, ErrPath) {
		t.Errorf("another module of the path: %v", err)
	}
	if tr := again.Translate("one", "a", "", abi.Facts{}); tr == nil || stateOf(t, again, i.Digest) != StateActive || again.Missing("one") {
		t.Error("it does not serve again")
	} else {
		tr.Close()
	}
	if _, err := again.Rollback("one"); err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	if last, _ := openTest(t, Options{Dir: dir}); routeAt(last, "/a/list") != "" || last.Missing("one") {
		t.Error("what an operator ended is back after a restart")
	}
}

// TestEnable: a module that ships and is off serves when it is enabled, also after a
// restart and when another version ships by then, until it is disabled.
func TestEnable(t *testing.T) {
	ships := func(version string) []shippedModule {
		wasm := routedGuest("one", version, "/a").bytes(t)
		return append(testShipped(), shippedModule{slot: "one", name: "one", off: true, digest: digestOf(wasm),
			wasm: func() ([]byte, error) { return wasm, nil }})
	}
	o := Options{Dir: t.TempDir()}
	h, _ := openWith(t, o, ships("1"))
	if routeAt(h, "/a/list") != "" || len(h.Modules()) != 4 || h.Modules()[3].State != StateStored || h.Modules()[3].Name != "one" {
		t.Errorf("before: %q, %+v", routeAt(h, "/a/list"), h.Modules())
	}
	if _, err := h.Disable("one"); !errors.Is(err, ErrNotEnabled) {
		t.Error(err)
	}
	for _, name := range []string{"chat", "none", ""} {
		if _, err := h.Enable(name); !errors.Is(err, ErrNotOff) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if i, err := h.Enable("one"); err != nil || i.State != StateActive || !i.Shipped || routeAt(h, "/a/list") != "one@1:/a/list" {
		t.Fatalf("%+v, %v", i, err)
	}
	_ = h.Close()
	h, _ = openWith(t, o, ships("2"))
	if tr := h.Translate("one", "a", "", abi.Facts{}); tr == nil || routeAt(h, "/a/list") != "one@2:/a/list" {
		t.Fatal("it does not serve after a restart")
	} else {
		tr.Close()
	}
	if i, err := h.Disable("one"); err != nil || i.State != StateLoaded || routeAt(h, "/a/list") != "" {
		t.Errorf("%+v, %v", i, err)
	}
	_ = h.Close()
	if h, _ = openWith(t, o, ships("2")); routeAt(h, "/a/list") != "" || h.Missing("one") {
		t.Error("it is back after a restart")
	}
}
