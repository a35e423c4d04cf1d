package server

import (
	"bufio"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"corenode/extensions/guest"
	"corenode/wasm/abi"
)

const (
	aVerse = `{"say":"hello"}`
	verse  = "/verses/core-1.1:write"
)

// TestModuleStream: lines, their content type, and how long the answer took, with the
// account, the limits and the settlement of any stream.
func TestModuleStream(t *testing.T) {
	for framing, c := range map[string]struct{ contentType, body string }{
		guest.FramingNDJSON: {"application/x-ndjson",
			"^{\"verse\":\"hel\"}\n{\"verse\":\"lo\"}\n{\"total\":[1-9][0-9]*,\"load\":0,\"rest\":0}\n{\"done\":true,\"version\":\"v7\"}\n$"},
		guest.FramingSSE: {"text/event-stream; charset=utf-8",
			"^data: {\"verse\":\"hel\"}\n\ndata: {\"verse\":\"lo\"}\n\ndata: {\"total\":[1-9][0-9]*,\"load\":0,\"rest\":0}\n\ndata: {\"done\":true,\"version\":\"v7\"}\n\n$"},
	} {
		n := startModule(t, Config{}, newFakeBackend(say("hel", "lo")), newModule(t, framing))
		r := n.raw(request("POST", verse, aVerse, bearerKey, "X-Verse-Version: v7"))
		checkIDs(t, r)
		if r.StatusCode != 200 || r.cut != nil || !regexp.MustCompile(c.body).MatchString(r.body) {
			t.Errorf("%s: %d %v %q", framing, r.StatusCode, r.cut, r.body)
		}
		if r.Header.Get("Content-Type") != c.contentType || r.Header.Get("X-Ratelimit-Limit-Tokens") != "1000" {
			t.Errorf("%s: %v", framing, r.Header)
		}
		s := <-n.backend.streams
		if s.call.Protocol != "verses" || s.call.Account.ID != "acct_good" || s.settles.Load() != 1 || s.cancels.Load() != 0 {
			t.Errorf("%+v", s.call)
		}
	}
}

// generation is the least time between the first token and the last event of a whole answer.
const generation = 5 * time.Millisecond

// TestModuleWhole: a route of the same protocol, a parameter of the query and the body
// say alike that an answer does not stream. Its module knows how long the first token took.
func TestModuleWhole(t *testing.T) {
	n := startModule(t, Config{}, newFakeBackend(func(s *fakeStream) {
		s.out.Push(append(begin(), delta("hel"))...)
		time.Sleep(generation)
		s.out.Push(append([]abi.Event{delta("lo")}, end()...)...)
	}), newModule(t, guest.FramingSSE))
	for _, c := range [][2]string{{verse + "?alt=whole", aVerse}, {verse, `{"say":"hello","whole":true}`}} {
		r := n.raw(request("POST", c[0], c[1], bearerKey))
		if r.StatusCode != 200 || r.body != `[{"verse":"hello","timed":true}]` || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %q %v", c[0], r.StatusCode, r.body, r.Header)
		}
	}
	json := startModule(t, Config{}, newFakeBackend(say("x")), newModule(t, guest.FramingJSON))
	if r := json.raw(request("POST", verse, aVerse, bearerKey)); r.StatusCode != 529 || json.backend.calls.Load() != 0 {
		t.Errorf("a stream where there is none: %d %q", r.StatusCode, r.body)
	}
}

func TestModuleListsAndCounts(t *testing.T) {
	n := startModule(t, Config{}, newFakeBackend(say("x")), newModule(t, guest.FramingSSE))
	const both = `[{"id":"core-1.1","name":"Model core-1.1","context":262144},{"id":"core-1.1-mini","name":"Model core-1.1-mini","context":262144}]`
	cases := []struct {
		method, path, body, key string
		status                  int
		want                    string
	}{
		{"GET", "/verses/all", "", goodKey, 200, both},
		{"POST", "/verses/find", "all", goodKey, 200, both},
		{"POST", "/verses/find", "", goodKey, 200, both},
		{"GET", "/verses/core-1.1", "", goodKey, 200, `[{"id":"core-1.1","name":"Model core-1.1","context":262144}]`},
		{"GET", "/verses/all", "", otherKey, 200, `[{"id":"core-1.1-mini","name":"Model core-1.1-mini","context":262144}]`},
		{"GET", "/verses/core-1.1", "", otherKey, 404, `{"oops":"model_not_found","status":404}`},
		{"POST", "/verses/core-1.1:count", aVerse, goodKey, 200, `{"tokens":5,"model":"core-1.1"}`},
		{"POST", "/verses/core-1.1:count", aVerse, otherKey, 404, `{"oops":"model_not_found","status":404}`},
		{"POST", "/verses/none:write", aVerse, goodKey, 404, `{"oops":"model_not_found","status":404}`},
		{"POST", verse, `{}`, goodKey, 400, `{"oops":"invalid_request","status":400}`},
		{"POST", verse, aVerse, "wrong", 400, `{"oops":"unauthenticated","status":400}`},
		{"GET", verse, "", goodKey, 405, `{"oops":"method_not_allowed","status":405}`},
		{"DELETE", "/verses/all", "", goodKey, 405, `{"oops":"method_not_allowed","status":405}`},
		{"OPTIONS", verse, "", goodKey, 204, ""},
		{"HEAD", "/verses/all", "", goodKey, 200, ""},
		{"GET", "/verses/find", "", goodKey, 200, both}, // another route on the path of a POST
		{"HEAD", "/verses/find", "", goodKey, 200, ""},
		{"PUT", "/verses/find", "", goodKey, 405, `{"oops":"method_not_allowed","status":405}`},
	}
	for _, c := range cases {
		r := n.raw(request(c.method, c.path, c.body, "Authorization: Bearer "+c.key))
		checkIDs(t, r)
		if r.StatusCode != c.status || c.want != "" && r.body != c.want {
			t.Errorf("%s %s: %d %q, want %d %q", c.method, c.path, r.StatusCode, r.body, c.status, c.want)
		}
		if c.status == 405 && !strings.Contains(r.Header.Get("Allow"), "OPTIONS") {
			t.Errorf("%s %s: Allow %q", c.method, c.path, r.Header.Get("Allow"))
		}
	}
	if n.backend.calls.Load() != 0 {
		t.Error("something was generated")
	}
}

// TestModuleKeys: the first place that has a key counts, and what is there twice is none.
func TestModuleKeys(t *testing.T) {
	n := startModule(t, Config{}, newFakeBackend(say("x")), newModule(t, guest.FramingSSE))
	escaped := strings.ReplaceAll(url.QueryEscape(goodKey), "-", "%2d")
	for _, c := range []struct {
		query   string
		headers []string
		ok      bool
	}{
		{"", nil, false},
		{"", []string{bearerKey}, true},
		{"", []string{"authorization: bearer " + goodKey}, true},
		{"", []string{"Authorization: " + goodKey}, false},
		{"", []string{"Authorization: Basic " + goodKey}, false},
		{"", []string{bearerKey, bearerKey}, false},
		{"", []string{"X-Verse-Key: " + goodKey}, true},
		{"", []string{"X-Verse-Key: Bearer " + goodKey}, false},
		{"", []string{"X-Api-Key: " + goodKey}, false},
		{"", []string{"Authorization: Bearer wrong", "X-Verse-Key: " + goodKey}, false},
		{"", []string{"X-Verse-Key: ", bearerKey}, true},
		{"?key=" + goodKey, nil, true},
		{"?a=b&key=" + escaped + "&alt=sse", nil, true},
		{"?%6bey=" + goodKey, nil, true},
		{"?KEY=" + goodKey, nil, false},
		{"?key=" + goodKey + "&key=" + goodKey, nil, false},
		{"?key=wrong&key=" + goodKey, nil, false},
		{"?key=", nil, false},
		{"?key=%zz", nil, false},
		{"?key=" + goodKey, []string{"X-Verse-Key: wrong"}, false},
	} {
		r := n.raw(request("GET", "/verses/all"+c.query, "", c.headers...))
		if want := map[bool]int{true: 200, false: 400}[c.ok]; r.StatusCode != want {
			t.Errorf("%s %v: %d %q", c.query, c.headers, r.StatusCode, r.body)
		}
	}
}

// TestAttackKeyInQuery: a key is in no log line, metric, error or input of the module,
// wherever else the client puts it.
func TestAttackKeyInQuery(t *testing.T) {
	f := newModule(t, guest.FramingNDJSON)
	n := startModule(t, Config{}, newFakeBackend(say("x")), f)
	escaped := strings.ReplaceAll(url.QueryEscape(goodKey), "-", "%2d")
	var seen strings.Builder
	for _, path := range []string{verse, "/verses/core-1.1:count", "/verses/all", "/verses/none:write", "/verses/none", "/verses/a/b", "/nothing"} {
		for _, query := range []string{"?key=" + goodKey, "?alt=" + goodKey + "&key=" + goodKey, "?key=" + escaped + "&alt=" + escaped,
			"?key=" + goodKey + "&key=" + goodKey, "?%6b%65y=" + escaped + "&KEY=" + escaped} {
			for _, method := range []string{"POST", "GET", "PUT"} {
				r := n.raw(request(method, path+query, aVerse, "X-Verse-Version: "+goodKey, "X-Verse-Key: "+goodKey))
				seen.WriteString(r.body)
				_ = r.Header.Write(&seen)
			}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for op, in := range f.inputs {
		seen.WriteString(op.String())
		seen.Write(in)
	}
	if len(f.inputs) < 5 { // request, events, error, models, count
		t.Errorf("the module was given %d operations only", len(f.inputs))
	}
	seen.WriteString(n.log.String())
	seen.WriteString(n.adminRaw(strings.Replace(request("GET", "/metrics", ""), "Host: node", "Host: localhost", 1)).body)
	for _, secret := range []string{goodKey, escaped} {
		if at := strings.Index(seen.String(), secret); at >= 0 {
			t.Errorf("the key is in %q", seen.String()[max(0, at-200):min(seen.Len(), at+100)])
		}
	}
}

// TestModuleUnknownPath: what a module's clients ask for and it does not have is an error as they read it, which
// says what there is. It is no route of the module, and without one in memory it is the node's error.
func TestModuleUnknownPath(t *testing.T) {
	f := newModule(t, guest.FramingSSE)
	n := startModule(t, Config{}, newFakeBackend(say("x")), f)
	for _, method := range []string{"POST", "GET", "DELETE"} {
		r := n.raw(request(method, "/verses/a/b", aVerse, bearerKey))
		if r.StatusCode != 404 || r.body != `{"oops":"path_not_found","status":404}` {
			t.Errorf("%s: %d %q", method, r.StatusCode, r.body)
		}
	}
	f.mu.Lock()
	in, err := abi.ParseErrorInput(f.inputs[abi.OpError])
	f.mu.Unlock()
	const want = "no such path: here are /verses/{model}:write, /verses/{model}:count, /verses/{model}, /verses/find"
	if err != nil || in.Msg != want {
		t.Errorf("%q, want %q, %v", in.Msg, want, err)
	}
	if log := n.log.String(); strings.Count(log, `"route":"unknown"`) != 3 {
		t.Errorf("the log: %s", log)
	}
	f.gone.Store(true)
	for _, path := range []string{"/verses/a/b", "/others/a/b"} {
		if r := n.raw(request("POST", path, aVerse, bearerKey)); r.StatusCode != 404 || !strings.Contains(r.body, "not_found_error") {
			t.Errorf("%s: %d %q", path, r.StatusCode, r.body)
		}
	}
}

// TestAttackModulePaths: no trick makes a path a module's, and none of the contract's is.
func TestAttackModulePaths(t *testing.T) {
	n := startModule(t, Config{}, newFakeBackend(say("x")), newModule(t, guest.FramingSSE))
	for _, path := range []string{"//verses/all", "/verses//all", "/verses/all/", "/verses/", "/verses", "/Verses/all", "/verses%2fall",
		"/%76erses/all", "/./verses/all", "/x/../verses/all", "/verses/../verses/all", "/verses/%2e%2e", "/verses/..", "/verses/a%00",
		"/verses/%zz", "/verses/" + strings.Repeat("m", 600), "/verses/all;x/y", "/v1/messages/verses/all"} {
		r := n.raw(request("GET", path, "", bearerKey))
		module := strings.HasPrefix(path, "/verses/") || path == "/verses"
		if r.StatusCode != 404 || module != (r.body == `{"oops":"path_not_found","status":404}`) || !module && strings.Contains(r.body, "oops") {
			t.Errorf("%s: %d %q", path, r.StatusCode, r.body)
		}
	}
	if r := n.raw(request("GET", "/verses/a%2Fb", "", bearerKey)); r.StatusCode != 404 || !strings.Contains(r.body, `"model_not_found"`) {
		t.Errorf("a parameter with a slash: %d %q", r.StatusCode, r.body)
	}
	if r := n.raw(request("GET", "/verses/"+strings.Repeat("m", 1<<20), "", bearerKey)); r.StatusCode != 431 {
		t.Errorf("a parameter of 1 MiB: %d", r.StatusCode)
	}
	if r := n.raw(request("GET", "/v1/models", "", bearerKey)); r.StatusCode != 200 || strings.Contains(r.body, "oops") {
		t.Errorf("the contract's listing: %d %q", r.StatusCode, r.body)
	}
}

// TestModuleFails: nothing stands in for a module. Before the answer it is the status of
// an overloaded node, within a stream an end that no client takes for one.
func TestModuleFails(t *testing.T) {
	for _, replaced := range []bool{false, true} { // by a version with other routes than the request was found by
		f := newModule(t, guest.FramingNDJSON)
		f.gone.Store(!replaced)
		f.replaced.Store(replaced)
		n := startModule(t, Config{}, newFakeBackend(say("x")), f)
		for _, path := range []string{verse, "/verses/core-1.1:count", "/verses/find"} {
			r := n.raw(request("POST", path, aVerse, bearerKey))
			if r.StatusCode != 529 || r.Header.Get("Retry-After") != "5" || !strings.Contains(r.body, "does not serve") || n.backend.calls.Load() != 0 {
				t.Errorf("replaced %t, %s: %d %q %v", replaced, path, r.StatusCode, r.body, r.Header)
			}
		}
		if r := n.raw(request("POST", verse, aVerse)); r.StatusCode != 400 || !strings.Contains(r.body, "authentication_error") {
			t.Errorf("replaced %t, without a key: %d %q", replaced, r.StatusCode, r.body)
		}
		f.mu.Lock()
		if len(f.inputs) > 0 {
			t.Errorf("replaced %t: the module was asked %d things", replaced, len(f.inputs))
		}
		f.mu.Unlock()
	}
	for op, path := range map[abi.Op]string{abi.OpRequest: verse, abi.OpResponse: verse + "?alt=whole", abi.OpModels: "/verses/find",
		abi.OpCount: "/verses/core-1.1:count"} {
		f := newModule(t, guest.FramingNDJSON)
		f.failing[op] = true
		n := startModule(t, Config{}, newFakeBackend(say("x")), f)
		if r := n.raw(request("POST", path, aVerse, bearerKey)); r.StatusCode != 529 || r.body != `{"oops":"overloaded","status":529}` {
			t.Errorf("%v: %d %q", op, r.StatusCode, r.body)
		}
	}
	for framing, want := range map[string][2]string{ // with the module's error, and without
		guest.FramingNDJSON: {"{\"oops\":\"overloaded\",\"status\":529}\n", "{\"type\":\"error\""},
		guest.FramingSSE:    {"{\"oops\":\"overloaded\",\"status\":529}\n", "data: {\"type\":\"error\""}} {
		for i, errorFails := range []bool{false, true} {
			f := newModule(t, framing)
			f.failing[abi.OpEvents], f.failing[abi.OpError] = true, errorFails
			n := startModule(t, Config{}, newFakeBackend(say("x")), f)
			r := n.raw(request("POST", verse, aVerse, bearerKey))
			cut := errorFails || framing == guest.FramingSSE // its line is no event
			if r.StatusCode != 200 || !strings.HasPrefix(r.body, want[i]) || (r.cut != nil) != cut {
				t.Errorf("%s, its error fails %v: %d %q, cut: %v", framing, errorFails, r.StatusCode, r.body, r.cut)
			}
		}
	}
}

// TestModuleKeepAlive: between lines the node writes spaces, which JSON may begin with, and between
// events empty ones, or the event that the manifest has for it: no line but of data, as clients read
// it that know no comments.
func TestModuleKeepAlive(t *testing.T) {
	const event = "data: {\"verse\":\"x\"}\n\n"
	for _, c := range []struct{ framing, manifest, silence, first string }{
		{guest.FramingNDJSON, "", " ", "{\"verse\":\"x\"}\n"},
		{guest.FramingSSE, "", "\n\n", event},
		{guest.FramingSSE, "data: {}\n\n", "data: {}\n\n", event},
	} {
		heard := make(chan struct{})
		backend := newFakeBackend(func(s *fakeStream) {
			select {
			case <-heard:
			case <-s.cancelled:
			}
			say("x")(s)
		})
		module := newModule(t, c.framing)
		module.manifest.KeepAlive = c.manifest
		n := startModule(t, Config{KeepAlive: 5 * time.Millisecond}, backend, module)
		conn := n.dial()
		if _, err := io.WriteString(conn, request("POST", verse, aVerse, bearerKey)); err != nil {
			t.Fatal(err)
		}
		r := readPast(t, bufio.NewReader(conn), c.silence, func() { close(heard) })
		said := r.body
		for strings.HasPrefix(said, c.silence) {
			said = said[len(c.silence):]
		}
		if len(said) == len(r.body) || !strings.HasPrefix(said, c.first) || r.cut != nil {
			t.Errorf("%s with %q: %q %v", c.framing, c.manifest, r.body, r.cut)
		}
	}
}

// TestModuleAccounts: errors before the key are asked for nobody's account.
func TestModuleAccounts(t *testing.T) {
	f := newModule(t, guest.FramingSSE)
	n := startModule(t, Config{}, newFakeBackend(say("x")), f)
	n.raw(request("POST", verse, aVerse))
	n.raw(request("POST", verse, aVerse, bearerKey))
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, nobody := f.accounts[""]; !nobody || len(f.accounts) != 2 {
		t.Errorf("%v", f.accounts)
	}
}

// TestModuleTimeout: the 504 of a module's path has the form of its protocol.
func TestModuleTimeout(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	})
	n := startModule(t, Config{RequestTimeout: 40 * time.Millisecond}, backend, newModule(t, guest.FramingSSE))
	r := n.raw(request("POST", verse+"?alt=whole", aVerse, bearerKey))
	checkIDs(t, r)
	if r.StatusCode != 504 || r.Header.Get("Content-Type") != "application/json" || r.body != `{"oops":"timeout","status":504}` {
		t.Errorf("%d %v %q", r.StatusCode, r.Header, r.body)
	}
}

// TestModuleContentType: a path takes what says that it is no JSON only where its manifest says so.
func TestModuleContentType(t *testing.T) {
	for _, any := range []bool{false, true} {
		m := newModule(t, guest.FramingSSE)
		m.manifest.AnyType = any
		n := startModule(t, Config{}, newFakeBackend(say("x")), m)
		want := map[bool]int{false: 415, true: 200}[any]
		for _, header := range []string{"application/x-www-form-urlencoded", "text/plain"} {
			r := n.raw(request("POST", "/verses/core-1.1:count", aVerse, bearerKey, "Content-Type: "+header))
			if r.StatusCode != want {
				t.Errorf("any type %v, %s: %d %s", any, header, r.StatusCode, r.body)
			}
		}
		if r := n.raw(request("POST", "/v1/messages/count_tokens", aVerse, bearerKey, "Content-Type: text/plain")); r.StatusCode != 415 {
			t.Errorf("a path of the contract took text/plain: %d", r.StatusCode)
		}
	}
}

// sayThenFail says one piece and breaks off.
func sayThenFail(s *fakeStream) {
	s.out.Push(begin()...)
	s.out.Push(delta("a"), abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Overloaded, Msg: "out of pages"}})
}

// TestModuleArray: a stream of a module's elements is one JSON array, piece by piece, also
// where it fails; where nothing of the module can say why, it has no end.
func TestModuleArray(t *testing.T) {
	const path = verse + "?alt=array"
	heard := make(chan struct{})
	module := newModule(t, elementsFraming)
	module.manifest.KeepAlive = "data: {}\n\n" // of its other form
	n := startModule(t, Config{KeepAlive: 5 * time.Millisecond}, newFakeBackend(func(s *fakeStream) {
		select {
		case <-heard:
		case <-s.cancelled:
		}
		say("a", "b")(s)
	}), module)
	conn := n.dial()
	if _, err := io.WriteString(conn, request("POST", path, aVerse, bearerKey)); err != nil {
		t.Fatal(err)
	}
	r := readPast(t, bufio.NewReader(conn), " ", func() { close(heard) })
	var all []map[string]any
	if err := json.Unmarshal([]byte(r.body), &all); err != nil || len(all) != 4 || all[0]["verse"] != "a" || all[3]["done"] != true || r.cut != nil {
		t.Errorf("%q, %v, %v", r.body, err, r.cut)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" || !strings.HasPrefix(r.body, " ") {
		t.Errorf("content type %q, %q", got, r.body)
	}
	for name, c := range map[string]struct {
		failing []abi.Op
		backend func(*fakeStream)
		want    string
		cut     bool
	}{
		"the engine fails":            {nil, sayThenFail, `[{"verse":"a"}` + "\n" + `,{"oops":"overloaded","status":529}` + "\n]\n", false},
		"before the first":            {[]abi.Op{abi.OpEvents}, say("a"), `[{"oops":"overloaded","status":529}` + "\n]\n", false},
		"the module cannot say why":   {[]abi.Op{abi.OpEvents, abi.OpError}, say("a"), `[{"type":"error"`, true},
		"neither can after the first": {[]abi.Op{abi.OpError}, sayThenFail, `[{"verse":"a"}` + "\n" + `,{"type":"error"`, true},
	} {
		f := newModule(t, elementsFraming)
		for _, op := range c.failing {
			f.failing[op] = true
		}
		n := startModule(t, Config{}, newFakeBackend(c.backend), f)
		r := n.raw(request("POST", path, aVerse, bearerKey))
		if whole := json.Valid([]byte(r.body)); !strings.HasPrefix(r.body, c.want) || (r.cut != nil) != c.cut || whole == c.cut {
			t.Errorf("%s: %q, cut %v", name, r.body, r.cut)
		}
	}
	// Another form than the request's, which is an error: that may be a line among events, of which a
	// client that reads events alone sees nothing but that the stream has no end. And an array
	// of a module that has none.
	n = startModule(t, Config{}, newFakeBackend(say("a")), newModule(t, elementsFraming))
	if r := n.raw(request("POST", verse, aVerse, bearerKey)); r.cut == nil || r.body != "{\"oops\":\"overloaded\",\"status\":529}\n" {
		t.Errorf("lines for events: %q, %v", r.body, r.cut)
	}
	n = startModule(t, Config{}, newFakeBackend(say("a")), newModule(t, guest.FramingSSE))
	if r := n.raw(request("POST", path, aVerse, bearerKey)); r.StatusCode != 529 {
		t.Errorf("no arrays: %d %q", r.StatusCode, r.body)
	}
}

// TestModuleSeries: the series of a module's routes are there at 0 before the first request, for what increases from
// a series that begins with 1 nobody sees.
func TestModuleSeries(t *testing.T) {
	f := newModule(t, guest.FramingSSE)
	n := startModule(t, Config{}, newFakeBackend(say("x")), f)
	scrape := func() string {
		var b strings.Builder
		n.s.WriteMetrics(&b)
		return b.String()
	}
	has := func(want ...string) {
		t.Helper()
		text := scrape()
		for _, series := range want {
			if !strings.Contains(text, "corenode_requests_total{route=\"verses_"+series+"\n") {
				t.Errorf("there is no %s", series)
			}
		}
	}
	has(`generate",status="200",kind="ok"} 0`, `generate",status="500",kind="internal"} 0`, `models",status="500",kind="internal"} 0`,
		`count",status="500",kind="internal"} 0`, `generate",status="529",kind="overloaded"} 0`)
	if before := strings.Count(scrape(), `{route="verses_`); before != 3*(len(abi.Kinds())+1) {
		t.Errorf("%d series", before)
	}
	n.raw(request("POST", verse, aVerse, bearerKey))
	waitFor(t, "counted", func() bool { return strings.Contains(scrape(), `{route="verses_generate",status="200",kind="ok"} 1`) })
	has(`generate",status="500",kind="internal"} 0`)
}
