package server

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/node/admin"
	"corenode/node/operators"
)

type fakeAdmin struct{ got chan string }

func (a fakeAdmin) Handle(_ context.Context, method, path string, query, body []byte) (int, string, []byte) {
	a.got <- fmt.Sprintf("%s %s?%s %s", method, path, query, body)
	return 201, "application/json", []byte(`{"made":true}`)
}

func (fakeAdmin) Refuse(context.Context, string, string, int) error { return nil }

func (n *node) adminRaw(req string) reply {
	n.t.Helper()
	c, err := net.Dial("tcp", n.admin)
	if err != nil {
		n.t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	if _, err := io.WriteString(c, req); err != nil {
		n.t.Fatal(err)
	}
	method, _, _ := strings.Cut(req, " ")
	return read(n.t, bufio.NewReader(c), method)
}

func TestAdmin(t *testing.T) {
	admin := fakeAdmin{make(chan string, 10)}
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Admin = admin
		d.DebugState = func() any { return map[string]int{"actors": 3} }
	})
	token := "Authorization: Bearer admin-token"
	cases := []struct {
		name, method, path, host string
		headers                  []string
		status                   int
		contains                 string
	}{
		{"token", "POST", "/accounts?x=1", "localhost", []string{token}, 201, "made"},
		{"port", "POST", "/accounts?x=1", "127.0.0.1:9999", []string{token}, 201, "made"},
		{"v6", "POST", "/accounts?x=1", "[::1]:80", []string{token}, 201, "made"},
		{"name in capitals", "POST", "/accounts?x=1", "LocalHost", []string{token}, 201, "made"},
		{"no token", "POST", "/accounts", "localhost", nil, 401, `"kind":"unauthenticated"`},
		{"wrong token", "POST", "/accounts", "localhost", []string{"Authorization: Bearer admin-tokem"}, 401, ""},
		{"token prefix", "POST", "/accounts", "localhost", []string{"Authorization: Bearer admin"}, 401, ""},
		{"two tokens", "POST", "/accounts", "localhost", []string{token, token}, 401, ""},
		{"client key", "POST", "/accounts", "localhost", []string{withKey}, 401, ""},
		{"rebound name", "POST", "/accounts", "evil.example", []string{token}, 404, "Host"},
		{"name like loopback", "GET", "/metrics", "127.0.0.1.evil.example", nil, 404, ""},
		{"another address", "GET", "/metrics", "10.1.2.3", nil, 404, ""},
		{"metrics", "GET", "/metrics", "localhost", nil, 200, "corenode_requests_total"},
		{"metrics of the process", "GET", "/metrics", "localhost", nil, 200, "process_start_time_seconds"},
		{"metrics of descriptors", "GET", "/metrics", "localhost", nil, 200, "process_open_fds"},
		{"metrics of the runtime", "GET", "/metrics", "localhost", nil, 200, "go_goroutines"},
		{"metrics by POST", "POST", "/metrics", "localhost", nil, 405, ""},
		{"ready", "GET", "/readyz", "localhost", nil, 200, "ready"},
		{"state", "GET", "/debug/state", "localhost", []string{token}, 200, `"actors": 3`},
		{"state without token", "GET", "/debug/state", "localhost", nil, 401, ""},
		{"goroutines", "GET", "/debug/pprof/goroutine?debug=1", "localhost", []string{token}, 200, "goroutine profile"},
		{"no such profile", "GET", "/debug/pprof/none", "localhost", []string{token}, 404, ""},
		{"profile without token", "GET", "/debug/pprof/heap", "localhost", nil, 401, ""},
		{"drain by GET", "GET", "/drain", "localhost", []string{token}, 405, ""},
		{"preflight", "OPTIONS", "/accounts", "localhost", []string{"Origin: http://evil.example", "Access-Control-Request-Method: POST"}, 401, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n.t = t
			r := n.adminRaw(strings.Replace(request(c.method, c.path, "", c.headers...), "Host: node", "Host: "+c.host, 1))
			checkIDs(t, r)
			if r.StatusCode != c.status || !strings.Contains(r.body, c.contains) {
				t.Errorf("%d %.200q, want %d with %q", r.StatusCode, r.body, c.status, c.contains)
			}
			for name := range r.Header {
				if strings.HasPrefix(name, "Access-Control") {
					t.Errorf("a CORS header: %s", name)
				}
			}
			if c.status == 201 {
				if got := <-admin.got; got != "POST /accounts?x=1 " {
					t.Errorf("the handler got %q", got)
				}
			}
		})
	}
	n.t = t
	if len(admin.got) != 0 {
		t.Error("a refused request reached the handler")
	}
}

// TestErrorsOfTheListener: they are as the document of the admin API says of every verb, which knows their kinds.
func TestErrorsOfTheListener(t *testing.T) {
	viewer, viewerToken := operators.New("alice", operators.Viewer)
	n := start(t, Config{Operators: []operators.Operator{viewer}}, newFakeBackend(say("x")))
	field, _ := reflect.TypeFor[admin.Error]().FieldByName("Kind")
	described := strings.Split(field.Tag.Get("enum"), ",")
	check := func(kind string, status int, body string) {
		t.Helper()
		var got admin.ErrorBody
		if err := json.Unmarshal([]byte(body), &got); err != nil || got.Error == nil || got.Error.Kind != kind || got.Error.Message == "" ||
			!slices.Contains(described, kind) {
			t.Errorf("want %s: %d %s, %v", kind, status, body, err)
		}
	}
	const call = "POST /admin/v1/accounts HTTP/1.1\r\n"
	for _, c := range []struct{ kind, request string }{
		{"unauthenticated", call + "Host: localhost\r\nContent-Length: 0\r\n\r\n"},
		{"not_found", call + "Host: evil.example\r\nContent-Length: 0\r\n\r\n"},
		{"invalid_request", call + "Host: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
		{"too_large", call + "Host: localhost\r\nAuthorization: Bearer admin-token\r\nContent-Length: " +
			strconv.Itoa(adminBodyMax+1) + "\r\n\r\n"},
		{"method_not_allowed", "GET /drain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\n\r\n"},
		{"forbidden", "POST /drain HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + viewerToken + "\r\nContent-Length: 0\r\n\r\n"},
	} {
		r := n.adminRaw(c.request)
		check(c.kind, r.StatusCode, r.body)
	}
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	n.s.unreadableAdmin(&ctx, os.ErrDeadlineExceeded)
	check("read_timeout", ctx.Response.StatusCode(), string(ctx.Response.Body()))
}

// TestMisframedCallIsTheLast: what follows a call whose end a proxy may see elsewhere is no call: it may be a stranger's.
func TestMisframedCallIsTheLast(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	for _, header := range []string{"X-Odd: 1\r\n Content-Length: 9", "Transfer-Encoding: identity"} {
		c := n.dialTo(n.admin)
		const behind = "\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"+header+behind); err != nil {
			t.Fatal(err)
		}
		r := bufio.NewReader(c)
		if got := read(t, r, "GET"); got.StatusCode != 400 || !got.Close {
			t.Errorf("%s: %d %q, close %t", header, got.StatusCode, got.body, got.Close)
		}
		if rest, _ := io.ReadAll(r); len(rest) > 0 { // a reset behind the answer is an end too
			t.Errorf("%s: after it %q", header, rest)
		}
	}
}

// TestAnsweredCallIsNotWatched: nothing is left of a call in the watcher, which would ask a socket that is another's by then.
func TestAnsweredCallIsNotWatched(t *testing.T) {
	admin := fakeAdmin{make(chan string, 1)}
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) { d.Admin = admin })
	c := n.dialTo(n.admin)
	r := bufio.NewReader(c)
	call := strings.Replace(request("POST", "/accounts", "", "Authorization: Bearer admin-token"), "Host: node", "Host: localhost", 1)
	for range 3 {
		if _, err := io.WriteString(c, call); err != nil {
			t.Fatal(err)
		}
		if got := read(t, r, "POST"); got.StatusCode != 201 {
			t.Fatalf("%d %q", got.StatusCode, got.body)
		}
		<-admin.got
	}
	n.s.watcher.mu.Lock()
	defer n.s.watcher.mu.Unlock()
	if left := len(n.s.watcher.watches); left != 0 {
		t.Errorf("%d calls that are answered are watched", left)
	}
}

func TestAdminDrain(t *testing.T) {
	began := make(chan struct{}, 1)
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) { d.StartDrain = func() { began <- struct{}{} } })
	r := n.adminRaw(strings.Replace(request("POST", "/drain", "", "Authorization: Bearer admin-token"), "Host: node", "Host: localhost", 1))
	if r.StatusCode != 202 || !strings.Contains(r.body, `"draining":true`) {
		t.Errorf("%d %q", r.StatusCode, r.body)
	}
	<-began
	if line := `"msg":"admin","operator":"admin","method":"POST","path":"/drain","status":202`; !strings.Contains(n.log.String(), line) {
		t.Errorf("no line of the drain in %s", n.log)
	}
	if r := n.post(ask); r.StatusCode != 200 { // until the delay of the drain is over
		t.Errorf("new work got %d", r.StatusCode)
	}
	if r := n.adminRaw(strings.Replace(request("GET", "/readyz", ""), "Host: node", "Host: localhost", 1)); r.StatusCode != 503 {
		t.Errorf("readyz says %d", r.StatusCode)
	}
}

// TestCloseEndsSilentAdminConnections: connections of the admin listener without a call hold up no stop:
// neither fresh ones, nor idle ones, nor one that stopped in the middle of its headers.
func TestCloseEndsSilentAdminConnections(t *testing.T) {
	forever := Config{ReadTimeout: time.Hour, IdleTimeout: time.Hour, DrainGrace: time.Hour}
	n := start(t, forever, newFakeBackend(say("x")))
	public := n.addr
	n.addr = n.admin
	idle, half, fresh := n.dial(), n.dial(), n.dial()
	n.addr = public
	if _, err := io.WriteString(idle, strings.Replace(request("GET", "/healthz", ""), "Host: node", "Host: localhost", 1)); err != nil {
		t.Fatal(err)
	}
	if r := read(t, bufio.NewReader(idle), "GET"); r.StatusCode != 200 {
		t.Errorf("healthz says %d", r.StatusCode)
	}
	if _, err := io.WriteString(half, "GET /heal"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "all accepted", func() bool {
		n.s.admins.mu.Lock()
		defer n.s.admins.mu.Unlock()
		return len(n.s.admins.open) == 3
	})
	closed := make(chan error, 1)
	go func() { closed <- n.s.Close() }()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("connections without a call hold up the stop")
	}
	for _, c := range []net.Conn{idle, half, fresh} {
		if _, err := io.Copy(io.Discard, c); isTimeout(err) { // what was not read of half a call may reset it
			t.Errorf("not closed: %v", err)
		}
	}
}

// Without a token nobody gets in, not even with an empty one.
func TestAdminWithoutToken(t *testing.T) {
	n := start(t, Config{AdminToken: "x"}, newFakeBackend(say("x")), func(d *Deps) { d.Admin = fakeAdmin{make(chan string, 1)} })
	n.s.SetOperators("", nil)
	for _, header := range []string{"Authorization: Bearer ", "Authorization: Bearer x", "X-Nothing: 1"} {
		if r := n.adminRaw(strings.Replace(request("GET", "/accounts", "", header), "Host: node", "Host: localhost", 1)); r.StatusCode != 401 {
			t.Errorf("%q got %d", header, r.StatusCode)
		}
	}
}

func TestMetricsAreWhatPrometheusReads(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("a", "b", "c")), func(d *Deps) {
		d.Metrics = func(w io.Writer) { fmt.Fprintln(w, `corenode_pages{state="free"} 17`) }
	})
	for range 3 {
		n.post(askSSE)
	}
	n.post("{")
	n.raw(request("POST", "/v1/messages", ask))
	for range 6 {
		n.s.ObserveGap(3 * time.Millisecond)
	}
	n.s.ObserveStep(64, 3, 2*time.Millisecond)
	scrape := func() string {
		return n.adminRaw(strings.Replace(request("GET", "/metrics", ""), "Host: node", "Host: localhost", 1)).body
	}
	waitFor(t, "all five counted", func() bool { return strings.Contains(scrape(), "corenode_request_seconds_count 5") })
	text := scrape()
	for _, want := range []string{
		`corenode_requests_total{route="messages",status="200",kind="ok"} 3`,
		`corenode_requests_total{route="messages",status="400",kind="invalid_request"} 1`,
		`corenode_requests_total{route="messages",status="401",kind="unauthenticated"} 1`,
		`corenode_refusals_total{kind="unauthenticated"} 1`,
		`corenode_requests_total{route="count_tokens",status="429",kind="rate_limited"} 0`,
		`corenode_tokens_total{kind="prefill"} 9`, `corenode_tokens_total{kind="cached"} 3`, `corenode_tokens_total{kind="decode"} 6`,
		`corenode_pages{state="free"} 17`, "# TYPE corenode_ttft_seconds histogram", "corenode_ttft_seconds_count 3",
		"corenode_itl_seconds_count 6", "corenode_step_seconds_count 1", `corenode_step_rows_total{kind="prefill"} 64`, `corenode_step_rows_total{kind="decode"} 3`,
		"corenode_queue_seconds_count 3", "corenode_prefill_seconds_count 3", "corenode_decode_seconds_count 3",
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("missing: %s", want)
		}
	}
	if strings.Contains(text, "acct_") || strings.Contains(text, "key_") {
		t.Error("a label names an account or a key")
	}
	checkExposition(t, text)
}

// leLabel is the bound of a bucket, as the last label or the only one.
var leLabel = regexp.MustCompile(`\{le="[^"]*"\}|,le="[^"]*"`)

// checkExposition reads the text format strictly: a name, labels, a number; and
// buckets that rise to the count.
func checkExposition(t *testing.T, text string) {
	t.Helper()
	line := regexp.MustCompile(`^([a-z_]+)(\{[a-zA-Z_]+="[^"]*"(, ?[a-zA-Z_]+="[^"]*")*\})? ([0-9.e+-]+)$`)
	last := map[string]uint64{}
	for l := range strings.Lines(text) {
		l = strings.TrimSuffix(l, "\n")
		if strings.HasPrefix(l, "# ") {
			continue
		}
		m := line.FindStringSubmatch(l)
		if m == nil {
			t.Errorf("not a sample: %q", l)
			continue
		}
		if name, ok := strings.CutSuffix(m[1], "_bucket"); ok {
			name += leLabel.ReplaceAllString(m[2], "")
			v, err := strconv.ParseUint(m[4], 10, 64)
			if err != nil || v < last[name] {
				t.Errorf("bucket falls: %q after %d", l, last[name])
			}
			last[name] = v
		}
		name, ok := strings.CutSuffix(m[1], "_count")
		name += m[2]
		if in, histogram := last[name]; ok && histogram && m[4] != fmt.Sprint(in) {
			t.Errorf("%q, but the last bucket is %d", l, in)
		}
	}
	if len(last) < 6 {
		t.Errorf("%d histograms", len(last))
	}
}

// TestAdminBodyOfAStranger: who has no token is answered without its body, for
// which memory would be taken as soon as it is announced.
func TestAdminBodyOfAStranger(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) { d.Admin = fakeAdmin{make(chan string, 10)} })
	for _, framing := range []string{
		"Content-Length: " + strconv.Itoa(adminBodyMax) + "\r\n\r\n", // and none of it
		"Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("8000\r\n"+strings.Repeat("x", 0x8000)+"\r\n", 3),
	} {
		if r := n.adminRaw("POST /accounts HTTP/1.1\r\nHost: localhost\r\n" + framing); r.StatusCode != 401 {
			t.Errorf("%.40q: %d %s", framing, r.StatusCode, r.body)
		}
	}
	head := "POST /accounts HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\n"
	large := strings.Repeat("x", 2*unreadMax)
	if r := n.adminRaw(head + "Content-Length: " + strconv.Itoa(len(large)) + "\r\n\r\n" + large); r.StatusCode != 201 {
		t.Errorf("with the token: %d %s", r.StatusCode, r.body)
	}
	for _, sent := range []int{0, adminBodyMax + 1} {
		body := strings.Repeat("x", sent)
		if r := n.adminRaw(head + "Content-Length: " + strconv.Itoa(adminBodyMax+1) + "\r\n\r\n" + body); r.StatusCode != 413 {
			t.Errorf("more than anybody may send: %d %s", r.StatusCode, r.body)
		}
	}
}

// slowAdmin is a verb that takes until its caller leaves.
type slowAdmin struct{ began, left chan struct{} }

func (a slowAdmin) Handle(ctx context.Context, _, _ string, _, _ []byte) (int, string, []byte) {
	close(a.began)
	<-ctx.Done()
	close(a.left)
	return 200, "application/json", []byte("{}")
}

func (slowAdmin) Refuse(context.Context, string, string, int) error { return nil }

// TestAdminCallerLeaves: what takes long, such as loading a module, is told
// when the client of the admin API is gone.
func TestAdminCallerLeaves(t *testing.T) {
	admin := slowAdmin{make(chan struct{}), make(chan struct{})}
	n := start(t, Config{WatchEvery: time.Millisecond}, newFakeBackend(say("x")), func(d *Deps) { d.Admin = admin })
	c, err := net.Dial("tcp", n.admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "POST /modules HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer admin-token\r\nContent-Length: 0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-admin.began
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-admin.left
}

// TestStopEndsAdminCalls: a stop does not wait for what takes long on the admin listener, such as loading a module; who asked
// for it is answered.
func TestStopEndsAdminCalls(t *testing.T) {
	admin := slowAdmin{make(chan struct{}), make(chan struct{})}
	began := make(chan struct{})
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Admin = admin
		d.Console = fakeConsole{func(_ http.ResponseWriter, r *http.Request) { close(began); <-r.Context().Done() }}
	})
	for _, path := range []string{"/console/ledger", "/admin/v1/modules"} {
		c := n.dialTo(n.admin)
		if _, err := io.WriteString(c, strings.Replace(request("POST", path, "",
			"Authorization: Bearer admin-token", "Content-Length: 0"), "Host: node", "Host: localhost", 1)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if r := read(t, bufio.NewReader(c), "POST"); r.StatusCode != 200 {
				t.Errorf("%s: %d %q", path, r.StatusCode, r.body)
			}
		}()
	}
	<-began
	<-admin.began
	if err := n.s.Close(); err != nil {
		t.Error(err)
	}
}

// fakeConsole answers every page of everybody, who is signed in.
type fakeConsole struct{ http.HandlerFunc }

func (fakeConsole) SignedIn(string, string) bool { return true }

// closedConsole is one that nobody is signed in at.
type closedConsole struct{ fakeConsole }

func (closedConsole) SignedIn(string, string) bool { return false }

// TestConsoleCallerLeaves: what a page takes long for, such as a proof of the ledger, is told
// when the browser is gone.
func TestConsoleCallerLeaves(t *testing.T) {
	began, left := make(chan struct{}), make(chan struct{})
	n := start(t, Config{WatchEvery: time.Millisecond}, newFakeBackend(say("x")), func(d *Deps) {
		d.Console = fakeConsole{func(_ http.ResponseWriter, r *http.Request) {
			close(began)
			<-r.Context().Done()
			close(left)
		}}
	})
	c, err := net.Dial("tcp", n.admin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "GET /console/ledger HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-began
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	<-left
}

// TestAdminBodyOfTheConsole: who is signed in there may send what who has a token may, and is told when it is too much.
// On a slow line a module takes longer than headers do.
func TestAdminBodyOfTheConsole(t *testing.T) {
	n := start(t, Config{BodyTimeout: time.Hour}, newFakeBackend(say("x")), func(d *Deps) {
		d.Console = fakeConsole{func(http.ResponseWriter, *http.Request) {}}
	})
	head := "POST /console/modules HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + strconv.Itoa(adminBodyMax+1) + "\r\n\r\n"
	if r := n.adminRaw(head); r.StatusCode != 413 {
		t.Errorf("more than anybody may send: %d %s", r.StatusCode, r.body)
	}
	if got := n.s.adminHeaderReceived(new(fasthttp.RequestHeader)).ReadTimeout; got != time.Hour {
		t.Errorf("a body has %v", got)
	}
}

// TestFormOfAnEndedSession: a form with a file, of which a stranger's is too large, is answered by the console, which
// says that one has to sign in, and not as a caller of the API. It gets nothing of the file.
func TestFormOfAnEndedSession(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Console = closedConsole{fakeConsole{func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, "sign in to post to %s with %d bytes, %v", r.URL.Path, len(body), err)
		}}}
	})
	const length = 4 << 20 // all of it is sent before the answer is read
	large := "Content-Length: " + strconv.Itoa(length) + "\r\n\r\n" + strings.Repeat("x", length)
	post := func(path, host string) reply {
		return n.adminRaw("POST " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + large)
	}
	if r := post("/console/modules", "localhost"); r.StatusCode != 401 || r.body != "sign in to post to /console/modules with 0 bytes, <nil>" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	for path, host := range map[string]string{"/console/modules": "node", "/accounts": "localhost"} { // another page's name for this listener; the API
		if r := post(path, host); r.StatusCode != 401 || !strings.Contains(r.body, "admin.token") {
			t.Errorf("%s on %s: %d %s", path, host, r.StatusCode, r.body)
		}
	}
}

// TestTargetThatIsNoURL: a page under a name that cannot be read is the client's mistake.
func TestTargetThatIsNoURL(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(nil), func(d *Deps) {
		d.Console = fakeConsole{func(http.ResponseWriter, *http.Request) {}}
	})
	r := n.adminRaw("GET /console/%zz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if r.StatusCode != 400 {
		t.Errorf("status %d", r.StatusCode)
	}
	checkAdminError(t, "invalid_request", r)
}

// timed is a listener that counts how often a connection of it gets a write deadline.
type timed struct {
	net.Listener
	count *atomic.Int64
}

func (l timed) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return timedConn{c, l.count}, err
}

func (l timed) Close() error {
	_ = l.Listener.Close() // by the test, and by the server
	return nil
}

type timedConn struct {
	net.Conn
	count *atomic.Int64
}

func (c timedConn) SetWriteDeadline(at time.Time) error {
	c.count.Add(1)
	return c.Conn.SetWriteDeadline(at)
}

// TestStreamOfTheConsoleMovesItsDeadline: an answer may take longer than one write.
func TestStreamOfTheConsoleMovesItsDeadline(t *testing.T) {
	pieces := make(chan string)
	n := start(t, Config{}, newFakeBackend(say("x")), func(d *Deps) {
		d.Console = fakeConsole{func(w http.ResponseWriter, _ *http.Request) {
			for piece := range pieces {
				_, _ = io.WriteString(w, piece) // the test sees what does not arrive
				w.(http.Flusher).Flush()
			}
		}}
	})
	var deadlines atomic.Int64
	n.addr = n.listen(func(ln net.Listener) error { return n.s.ServeAdmin(timed{ln, &deadlines}) })
	c := n.dial()
	defer close(pieces)
	if _, err := io.WriteString(c, strings.Replace(request("GET", "/console/x", ""), "Host: node", "Host: localhost", 1)); err != nil {
		t.Fatal(err)
	}
	var answer *http.Response
	for i := range 4 {
		before := deadlines.Load()
		pieces <- "piece"
		if answer == nil {
			var err error
			if answer, err = http.ReadResponse(bufio.NewReader(c), nil); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len("piece"))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != "piece" {
			t.Fatalf("piece %d is %q, %v", i, got, err)
		}
		if deadlines.Load() == before {
			t.Errorf("piece %d has the deadline of the one before", i)
		}
	}
}

// TestAProfileEndsWithItsCaller: only one can be taken at a time, and nobody waits for that of a caller who has left.
func TestAProfileEndsWithItsCaller(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	c, err := net.Dial("tcp", n.admin)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	req := request("GET", "/debug/pprof/profile?seconds=60", "", "Authorization: Bearer admin-token")
	if _, err := io.WriteString(c, strings.Replace(req, "Host: node", "Host: localhost", 1)); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a profile is taken", profiling.Load)
	c.Close()
	waitFor(t, "the profile of a caller who left ends", func() bool { return !profiling.Load() })
}
