package guest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"corenode/wasm/abi"
)

// withRoutes is a manifest that is right but for what fields says.
func withRoutes(fields string) string {
	return `{"name":"a","kind":"translator","protocol":"ollama","version":"1","abi":"1.1",` + fields + `}`
}

const (
	oneRoute = `"routes":[{"method":"POST","path":"/api/chat","op":"generate"}]`
	oneKey   = `"keys":[{"header":"Authorization","scheme":"Bearer"},{"header":"x-other-key"},{"query":"key"}]`
	allRight = oneRoute + `,` + oneKey + `,"framing":"ndjson"`
)

func TestManifestRoutes(t *testing.T) {
	cases := []struct{ fields, says string }{
		{allRight, ""},
		{allRight + `,"headers":["X-Client"],"query":["alt"],"content_type":"application/json","statuses":{"model_not_found":404,"unauthenticated":400,"overloaded":529}`, ""},
		{`"framing":"sse"`, "protocol is"},
		{oneRoute + `,"framing":"sse"`, "keys has 0"},
		{oneRoute + `,` + oneKey, "framing is"},
		{oneRoute + `,` + oneKey + `,"framing":"xml"`, "framing is"},
		{allRight + `,"content_type":"text/html"`, "content_type is"},
		{allRight + `,"content_type":"text/event-stream"`, "content_type is"},
		{oneRoute + `,` + oneKey + `,"framing":"sse","keepalive":"event: ping\ndata: {}\n\n"`, ""},
		{oneRoute + `,` + oneKey + `,"framing":"sse","keepalive":"data: {}\n"`, "keepalive: it does not end"},
		{oneRoute + `,` + oneKey + `,"framing":"sse","keepalive":"{}\n\n"`, "keepalive: it does not begin"},
		{oneRoute + `,` + oneKey + `,"framing":"sse","keepalive":"data: ` + strings.Repeat("x", keepAliveMax) + `\n\n"`, "keepalive has"},
		{allRight + `,"keepalive":"data: {}\n\n"`, "framing is ndjson"},
		{allRight + `,"headers":["authorization"]`, "may have a key"},
		{allRight + `,"headers":["X-OTHER-KEY"]`, "may have a key"},
		{allRight + `,"headers":["x-corenode-partition"]`, "no name that a module may ask for"},
		{allRight + `,"headers":["a b"]`, "no name that a module may ask for"},
		{allRight + `,"headers":["a","A"]`, "twice"},
		{allRight + `,"query":["KEY"]`, "may have a key"},
		{allRight + `,"query":["access_token"]`, "may have a key"},
		{allRight + `,"query":["a&b"]`, "no name"},
		{allRight + `,"statuses":{"model_not_found":200}`, "want 400 to 499"},
		{allRight + `,"statuses":{"internal":404}`, "want 500 to 599"},
		{allRight + `,"statuses":{"rate_limited":500}`, "want 400 to 499"},
		{allRight + `,"statuses":{"timeout":500}`, "no kind of error"},
		{allRight + `,"statuses":{"nothing":400}`, "no kind of error"},
		{oneRoute + `,"framing":"sse","keys":[{"header":"Host"}]`, "cannot have a key"},
		{oneRoute + `,"framing":"sse","keys":[{"header":"a","query":"b"}]`, "a header or in the query"},
		{oneRoute + `,"framing":"sse","keys":[{"query":"a","scheme":"b"}]`, "without a scheme"},
		{oneRoute + `,"framing":"sse","keys":[{"header":"a","scheme":"b c"}]`, "no plain word"},
		{oneRoute + `,"framing":"sse","keys":[{"header":"a"},{"header":"b"},{"header":"c"},{"header":"d"},{"header":"e"}]`, "keys has 5"},
	}
	for _, c := range cases {
		_, err := ParseManifest([]byte(withRoutes(c.fields)))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.fields, err, c.says)
		}
	}
	for text, says := range map[string]string{
		`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.1",` + allRight + `}`:          "protocol is",
		`{"name":"a","kind":"translator","protocol":"messages","version":"1","abi":"1.1",` + allRight + `}`:      "protocol is",
		`{"name":"a","kind":"translator","protocol":"billing","version":"1","abi":"1.1",` + allRight + `}`:       "protocol is",
		`{"name":"a","kind":"translator","protocol":"X","version":"1","abi":"1.1",` + allRight + `}`:             "protocol is",
		`{"name":"a","kind":"billing","version":"1","abi":"1.1",` + allRight + `}`:                               "for translators with routes",
		`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.1","headers":["x"]}`:           "for translators with routes",
		`{"name":"a","kind":"translator","protocol":"chat","version":"1","abi":"1.1","keepalive":"data: x\n\n"}`: "for translators with routes",
		`{"name":"a","kind":"translator","protocol":"x","version":"1","abi":"1.0",` + allRight + `}`:             "routes need abi 1.1",
	} {
		if _, err := ParseManifest([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

func TestManifestPaths(t *testing.T) {
	cases := []struct{ routes, says string }{
		{`{"method":"POST","path":"/v1/completions","op":"generate"},{"method":"GET","path":"/v1beta/models","op":"models"},
			{"method":"GET","path":"/v1beta/models/{m}","op":"models"},{"method":"POST","path":"/v1beta/models/{m}:countTokens","op":"count"}`, ""},
		{`{"method":"GET","path":"/a","op":"generate"}`, "want POST"},
		{`{"method":"DELETE","path":"/a","op":"models"}`, "want GET or POST"},
		{`{"method":"POST","path":"/a","op":"embed"}`, "op is"},
		{`{"method":"POST","path":"/a/{x}","op":"count"},{"method":"GET","path":"/a/{y}","op":"models"}`, "name its parameters the same"},
		{`{"method":"GET","path":"/a/{x}","op":"models"},{"method":"GET","path":"/a/{x}","op":"models"}`, "two routes of method GET"},
		{`{"method":"POST","path":"/a","op":"count","color":1}`, "color"},
		{strings.Repeat(`{"method":"GET","path":"/a","op":"models"},`, routesMax) + `{"method":"GET","path":"/a","op":"models"}`, "at most 32"},
	}
	for _, c := range cases {
		_, err := ParseManifest([]byte(withRoutes(`"routes":[` + c.routes + `],` + oneKey + `,"framing":"sse"`)))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.routes, err, c.says)
		}
	}
}

// TestPatternsThatNoRouteMayHave: what is malformed, and what could match a path
// of the contract or of the node.
func TestPatternsThatNoRouteMayHave(t *testing.T) {
	for _, path := range []string{"", "a", "/", "//", "/a/", "/a//b", "/a/.", "/a/../b", "/a/%2f", "/a b", "/a?b", "/a#b", "/é", "/a\\b",
		"/a/{", "/a/{}", "/a/{x", "/a/x}", "/a/{x}y", "/a/{x}:", "/a/{x}/{x}", "/a/b{x}", "/a/*", "/" + strings.Repeat("a", 256),
		"/a" + strings.Repeat("/a", segmentsMax)} {
		if _, err := ParsePattern(path); err == nil || strings.Contains(err.Error(), "own") {
			t.Errorf("%q: %v", path, err)
		}
	}
	for _, path := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/messages/x", "/V1/Messages", "/v1/chat/completions", "/v1/chat",
		"/v1/responses", "/v1/responses/{id}", "/v1/models", "/v1/models/{id}", "/v1/models/{id}:embed", "/v1/{x}", "/v1/{x}:y", "/v1", "/{x}",
		"/{x}/messages", "/{x}:v1", "/health", "/healthz", "/Readyz", "/metrics", "/admin/v1/modules", "/debug/pprof", "/drain"} {
		if _, err := ParsePattern(path); err == nil || !strings.Contains(err.Error(), "own") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func TestPatternMatch(t *testing.T) {
	long := strings.Repeat("x", paramMax)
	for _, c := range []struct {
		pattern, path string
		params        string // as name=value, "-" for no match
	}{
		{"/api/chat", "/api/chat", ""},
		{"/api/chat", "/api/chat/", "-"},
		{"/api/chat", "//api/chat", "-"},
		{"/api/chat", "/api//chat", "-"},
		{"/api/chat", "/API/chat", "-"},
		{"/api/chat", "/api%2fchat", "-"},
		{"/api/chat", "/%61pi/chat", "-"},
		{"/api/chat", "/api/./chat", "-"},
		{"/api/chat", "/api/x/../chat", "-"},
		{"/api/chat", "/api", "-"},
		{"/api/chat", "/api/chat/more", "-"},
		{"/api/chat", "api/chat", "-"},
		{"/api/chat", "", "-"},
		{"/m/{id}", "/m/a", "id=a"},
		{"/m/{id}", "/m/", "-"},
		{"/m/{id}", "/m/a/b", "-"},
		{"/m/{id}", "/m/a%2Fb", "id=a/b"},
		{"/m/{id}", "/m/a%252Fb", "id=a%2Fb"},
		{"/m/{id}", "/m/%2e%2e", "-"},
		{"/m/{id}", "/m/..", "-"},
		{"/m/{id}", "/m/a%", "-"},
		{"/m/{id}", "/m/a%00", "-"},
		{"/m/{id}", "/m/a%0d%0ab", "-"},
		{"/m/{id}", "/m/%ff", "-"},
		{"/m/{id}", "/m/" + long, "id=" + long},
		{"/m/{id}", "/m/" + long + "x", "-"},
		{"/m/{id}", "/m/" + strings.Repeat("x", 1<<20), "-"},
		{"/m/{id}:go", "/m/a:go", "id=a"},
		{"/m/{id}:go", "/m/a:b:go", "id=a:b"},
		{"/m/{id}:go", "/m/:go", "-"},
		{"/m/{id}:go", "/m/a:stop", "-"},
		{"/m/{id}:go", "/m/a%3Ago", "-"},
		{"/t/{a}/m/{b}:go", "/t/1/m/2:go", "a=1 b=2"},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		params, ok := p.Match([]byte(c.path))
		var got []string
		for _, p := range params {
			got = append(got, p.Name+"="+p.Value)
		}
		if ok == (c.params == "-") || ok && strings.Join(got, " ") != c.params {
			t.Errorf("%s, %.80s: %.80v, %v", c.pattern, c.path, got, ok)
		}
	}
}

// TestPatternsOverlap tries all pairs of small patterns on all small paths: they
// overlap where one path matches both, and then one of them goes before the other.
func TestPatternsOverlap(t *testing.T) {
	texts := []string{"/a/b", "/a/b:c", "/a/c", "/a/{x}", "/a/{x}:c", "/a/{x}:b:c", "/a/{x}:d", "/a/:c", "/a/{x}/b", "/a/b/{x}", "/a/{x}/{y}", "/a"}
	var paths []string
	for _, first := range []string{"b", "b:c", "c", ":c", "b:b:c", "b:d", "x", "b:c:c"} {
		paths = append(paths, "/a/"+first, "/a/"+first+"/b", "/a/"+first+"/x")
	}
	paths = append(paths, "/a")
	for _, a := range texts {
		for _, b := range texts {
			p, errP := ParsePattern(a)
			q, errQ := ParsePattern(b)
			if errP != nil || errQ != nil {
				t.Fatal(errP, errQ)
			}
			var both []string
			for _, path := range paths {
				_, inP := p.Match([]byte(path))
				if _, inQ := q.Match([]byte(path)); inP && inQ {
					both = append(both, path)
				}
			}
			if p.Overlaps(q) != (len(both) > 0) {
				t.Errorf("%s and %s overlap: %v, paths of both: %v", a, b, p.Overlaps(q), both)
			}
			if a != b && len(both) > 0 && p.Before(q) == q.Before(p) {
				t.Errorf("%s and %s: which goes first is open", a, b)
			}
		}
	}
}

func FuzzPattern(f *testing.F) {
	for _, seed := range []string{"/api/chat", "/m/{id}:go", "/v1/{x}", "/a/{x}/b", "//", "/a/%2e"} {
		f.Add(seed, "/m/a%2Fb:go")
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		p, err := ParsePattern(pattern)
		if err != nil {
			return
		}
		for _, own := range []string{"/v1/messages", "/v1/messages/count_tokens", "/v1/chat/completions", "/v1/responses", "/v1/models",
			"/v1/models/x", "/health", "/healthz", "/readyz", "/metrics"} {
			if _, ok := p.Match([]byte(own)); ok {
				t.Fatalf("%s matches %s", pattern, own)
			}
		}
		if params, ok := p.Match([]byte(path)); ok {
			for _, pair := range params {
				if pair.Value == "" || len(pair.Value) > paramMax {
					t.Fatal(fmt.Sprint(pair))
				}
			}
		}
	})
}

func TestRouteFacts(t *testing.T) {
	m, err := ParseManifest([]byte(withRoutes(allRight + `,"statuses":{"model_not_found":404}`)))
	if err != nil || !m.HasRoutes() || m.StreamType() != "application/x-ndjson" {
		t.Errorf("%+v, %v", m, err)
	}
	if m.StatusOf(abi.ModelNotFound) != 404 || m.StatusOf(abi.Internal) != 0 {
		t.Error("statuses are not as in the manifest")
	}
}

// TestReservedAsWritten: authors read which paths no module can have.
func TestReservedAsWritten(t *testing.T) {
	page, err := os.ReadFile("../../wasm/AUTHORING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, behind, ok := strings.Cut(string(page), "- No route may match a path of the contract: ")
	if !ok {
		t.Fatal("AUTHORING.md does not say which paths no route may match")
	}
	sentence, _, _ := strings.Cut(behind, "Both in any case")
	want := []string{"/v1"}
	for _, name := range reservedV1 {
		want = append(want, "/v1/"+name)
	}
	for _, name := range reservedFirst {
		want = append(want, "/"+name)
	}
	var found []string
	for i, part := range strings.Split(sentence, "`") {
		if i%2 == 1 {
			found = append(found, part)
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("it has %q, want %q", found, want)
	}
	for _, path := range []string{"/", "/{model}"} {
		if _, err := ParsePattern(path); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
}
