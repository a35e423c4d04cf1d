package console

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"html"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"corenode/actors/account"
	"corenode/node/admin"
	"corenode/node/operators"
	"corenode/node/store"
)

// TestQuantiles: those of a histogram lie in the bucket of the exact ones.
func TestQuantiles(t *testing.T) {
	bounds := []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, math.Inf(1)}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		counted := func(values []float64) (b []bucket) {
			for _, le := range bounds {
				n := 0
				for _, v := range values {
					if v <= le {
						n++
					}
				}
				b = append(b, bucket{le, float64(n)})
			}
			return b
		}
		var old, fresh []float64
		for range 1 + r.IntN(100) {
			old, fresh = append(old, r.ExpFloat64()/100), append(fresh, r.ExpFloat64()/50)
		}
		got := quantile(0.9, counted(old), counted(append(slices.Clone(old), fresh...)))
		slices.Sort(fresh)
		exact := fresh[max(0, int(math.Ceil(0.9*float64(len(fresh))))-1)]
		i := slices.IndexFunc(bounds, func(le float64) bool { return exact <= le })
		below := 0.0
		if i > 0 {
			below = bounds[i-1]
		}
		if got < below-1e-12 || got > bounds[i]+1e-12 {
			t.Fatalf("quantile %g, exact %g, bucket %g to %g", got, exact, below, bounds[i])
		}
	}
	if !math.IsNaN(quantile(0.5, nil, nil)) || !math.IsNaN(quantile(0.5, []bucket{{1, 3}}, []bucket{{1, 3}})) {
		t.Error("a quantile of nothing is a number")
	}
}

// TestMinutesOfLateReadings: a machine under load reads a second late, or twice within one; each minute is there once.
func TestMinutesOfLateReadings(t *testing.T) {
	var h history
	began := time.Now().Truncate(time.Minute).Add(-4 * time.Minute)
	for _, second := range []float64{30, 58.9, 60.1, 61, 119.01, 119.99, 121, 181} {
		at := began.Add(time.Duration(second * float64(time.Second)))
		h.add(read(fmt.Appendf(nil, "corenode_sequences_running %d\n", int(second)/60), at))
	}
	at, columns := h.columns([]string{"running"}, 24*time.Hour, 0)
	if len(at) != 3 {
		t.Fatalf("%d minutes, want 3", len(at))
	}
	for i, v := range columns[0].Values {
		if at[i] != began.Unix()+int64(60*i+59) || v == nil || *v != float32(i) {
			t.Errorf("minute %d is at %d with %v", i, at[i]-began.Unix(), v)
		}
	}
}

// TestHistoryKeepsADay: rates, means of minutes, and no more memory than was said.
func TestHistoryKeepsADay(t *testing.T) {
	var h history
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now().Add(-25 * time.Hour).Truncate(time.Minute)
	for i := range 25 * 3600 {
		text := fmt.Sprintf("# TYPE x counter\ncorenode_requests_total{route=\"a\",kind=\"ok\"} %d\n"+
			"corenode_requests_total{route=\"b\",kind=\"internal\"} %d\ncorenode_sequences_running{model=\"m\"} %d\n", 3*i, i, i%60)
		h.add(read([]byte(text), began.Add(time.Duration(i)*time.Second)))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if took := int64(after.HeapAlloc) - int64(before.HeapAlloc); took > 1<<20 {
		t.Errorf("an hour and a day take %d bytes", took)
	}
	if got := h.latest(); got["requests"] != 4 || got["failed"] != 1 || got["running"] != 59 || !math.IsNaN(got["ttft_p50"]) {
		t.Errorf("latest %v", got)
	}
	if h.newest()["m"]["sequences_running"] != 59 {
		t.Error("no series of the model")
	}
	at, columns := h.columns([]string{"running", "requests"}, 24*time.Hour, 0)
	if len(columns) != 2 || columns[0].Name != "requests" || len(at) < 23*60 || len(at) > minutesKept {
		t.Fatalf("%d points of %d lines", len(at), len(columns))
	}
	if v := columns[1].Values[len(at)-1]; v == nil || *v != 29.5 {
		t.Errorf("the mean of a minute is %v, want 29.5", v)
	}
	at, columns = h.columns([]string{"ttft_p50"}, time.Hour, 0)
	ended := int(time.Since(began.Add(25*time.Hour)) / time.Second) // so many seconds ago: part of a minute, and what the test took
	if len(at) > secondsKept || len(at) < secondsKept-ended-2 || columns[0].Values[0] != nil {
		t.Errorf("an hour has %d points", len(at))
	}
	if more, _ := h.columns([]string{"running"}, time.Hour, at[len(at)-2]); len(more) != 1 || more[0] != at[len(at)-1] {
		t.Errorf("behind the last but one come %v", more)
	}
	if len(h.recent) > tailOver+1 || len(h.seconds.items) != secondsKept || len(h.minutes.items) != minutesKept {
		t.Errorf("kept %d, %d, %d", len(h.recent), len(h.seconds.items), len(h.minutes.items))
	}
}

// TestReadings: what a node does not have is no number. A gateway's requests are those that servers elsewhere have, and a model's
// that has an engine here and others elsewhere are counted once. Probes are no requests, and tokens count as they are computed.
func TestReadings(t *testing.T) {
	const gateway = `corenode_upstream_in_flight{model="far"} %[1]d
corenode_upstream_waiting{model="far"} 2
corenode_requests_total{route="readyz",status="200",kind="ok"} %[1]d
corenode_requests_total{route="options",status="204",kind="ok"} %[1]d
corenode_requests_total{route="messages",status="200",kind="ok"} 7
`
	const both = gateway + `corenode_sequences_running{model="near"} 3
corenode_sequences_waiting{model="near"} 1
corenode_upstream_in_flight{model="near"} 5
corenode_pages_free{model="near"} 9
corenode_step_decode_tokens_total{model="near"} %[1]d0
process_resident_memory_bytes 4096
`
	latest := func(text string) map[string]float64 {
		var h history
		h.add(read(fmt.Appendf(nil, text, 10), time.Unix(100, 0)))
		h.add(read(fmt.Appendf(nil, text, 20), time.Unix(102, 0)))
		return h.latest()
	}
	none := math.NaN()
	for text, want := range map[string]map[string]float64{
		"":      {"running": none, "waiting": none, "pages_free": none, "memory": none, "processor": none, "requests": none},
		gateway: {"running": 20, "waiting": 2, "pages_free": none, "requests": 0, "computed_out": none},
		both:    {"running": 23, "waiting": 3, "pages_free": 9, "memory": 4096, "computed_out": 50, "computed_in": none},
	} {
		got := latest(text)
		for name, v := range want {
			if got[name] != v && !(math.IsNaN(v) && math.IsNaN(got[name])) {
				t.Errorf("%s is %v, want %v of:\n%s", name, got[name], v, text)
			}
		}
	}
	c := New(Deps{})
	c.history.add(read(fmt.Appendf(nil, both, 1), time.Unix(100, 0)))
	if rows := c.modelRows(); len(rows) != 1 || rows[0].Model != "near" {
		t.Errorf("the models that are computed here are %+v", rows)
	}
}

func TestTexts(t *testing.T) {
	digest := formats["short"].(func(string) string)
	for got, want := range map[string]string{
		count(1234567):                        "1\u202f234\u202f567",
		count(-1234):                          "−1\u202f234",
		decimal(0.00123456):                   "0.00123",
		decimal(99.95):                        "100",
		decimal(1234.6):                       "1\u202f235",
		seconds(0.0123):                       "12.3 ms",
		seconds(0.0000123):                    "12.3 µs",
		byteSize(int64(1 << 30)):              "1 GiB",
		dollars("-1.5"):                       "−$1.5",
		ShellQuoted("a b'c"):                  `'a b'\''c'`,
		ShellQuoted("alice@x"):                "alice@x",
		cell("=1+1"):                          "'=1+1",
		digest("sha256:3f2a9b8c7d6e5f40a1b2"): "3f2a9b8c7d6e", // which every command takes
		digest("builtin:tariff@1"):            "builtin:tariff@1",
		digest("sha256:3f2a"):                 "sha256:3f2a",
		digest(""):                            "",
		local("//evil.example/"):              Root,
		local("https://evil.example"):         Root,
		local("/console/ledger?a=b"):          "/console/ledger?a=b",
		local("/admin/v1/status"):             Root,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestTries: the sixth wrong token of an address within a minute is not looked at; addresses
// beyond what is counted share one count, so memory is bounded.
func TestTries(t *testing.T) {
	var l sessions
	now := time.Now()
	for range triesMax {
		l.tried("a", now)
	}
	may := func(address string, at time.Time) bool {
		open, _ := l.mayTry(address, at)
		return open
	}
	if may("a", now) || !may("b", now) || !may("a", now.Add(triesPeriod)) {
		t.Error("tries of an address")
	}
	for i := range triesMax {
		l.tried(fmt.Sprintf("2001:db8:0:1::%x", i), now)
		l.tried(fmt.Sprintf("2001:db8:0:2::%x%%eth%d", i, i), now)
	}
	if may("2001:db8:0:1:ffff::9", now) || may("2001:db8:0:2::9", now) || !may("2001:db8:0:3::1", now) || !may("192.0.2.1", now) {
		t.Error("tries of the addresses of one /64")
	}
	for i := range 3 * addressesTold {
		l.tried(fmt.Sprint(i), now)
	}
	if len(l.tries) > addressesTold+1 || may("new", now) {
		t.Errorf("%d addresses are counted", len(l.tries))
	}
}

// signInFrom sends a token from an address.
func signInFrom(c *Console, address, token string) (status int) {
	r := httptest.NewRequest("POST", Root+"sign-in", strings.NewReader(url.Values{"operator_token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "http://"+r.Host)
	r.RemoteAddr = address
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Code
}

// TestOthersCloseTheDoorToNobody: once all counts are taken, a right token of an address without one is let in, and a
// wrong one is not counted. An address that has closed the door to itself stays outside with any token.
func TestOthersCloseTheDoorToNobody(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler), Operator: func(token string) (operators.Operator, bool) {
		return operators.Operator{Name: "a", Role: operators.Viewer}, token == "right"
	}})
	const closed, unknown = "192.0.2.1:1000", "[2001:db8:ffff::1]:1000"
	for range triesMax {
		if status := signInFrom(c, closed, "wrong"); status != http.StatusUnauthorized {
			t.Errorf("a wrong token: %d", status)
		}
	}
	for i := range addressesTold + triesMax {
		c.sessions.tried(fmt.Sprintf("2001:db8:%x::1", i), time.Now())
	}
	for _, try := range []struct {
		address, token string
		status         int
	}{{unknown, "wrong", 429}, {unknown, "right", 303}, {closed, "wrong", 429}, {closed, "right", 429}} {
		if status := signInFrom(c, try.address, try.token); status != try.status {
			t.Errorf("the %s token from %s: %d, want %d", try.token, try.address, status, try.status)
		}
	}
}

// TestSessions: bounded, bound to the host, over when they end. Who signs in too often closes sessions of his own.
func TestSessions(t *testing.T) {
	var l sessions
	now := time.Now()
	other := l.begin(operators.Operator{Name: "a", Role: operators.Viewer}, "h:1", now)
	first := l.begin(operators.Operator{Name: "b", Role: operators.Viewer}, "h:1", now.Add(time.Second))
	for range sessionsMax {
		l.begin(operators.Operator{Name: "b", Role: operators.Viewer}, "h:1", now.Add(2*time.Second))
	}
	if len(l.open) != sessionsMax {
		t.Errorf("%d sessions", len(l.open))
	}
	role := operators.Viewer
	c := &Console{sessions: sessions{open: l.open}, deps: Deps{Named: func(name string) operators.Operator {
		return operators.Operator{Name: name, Role: role}
	}}}
	if c.SignedIn("h:1", cookieOf("h:1")+"="+first) || !c.SignedIn("h:1", cookieOf("h:1")+"="+other) {
		t.Error("of too many the oldest is open, or that of another operator is closed")
	}
	last := c.sessions.begin(operators.Operator{Name: "c", Role: operators.Viewer}, "h:1", now)
	if !c.SignedIn("h:1", cookieOf("h:1")+"="+last) || c.SignedIn("h:2", cookieOf("h:2")+"="+last) ||
		c.SignedIn("h:1", strings.ToLower(cookieOf("h:1")+"="+last)) {
		t.Error("a session is found by its cookie at its host")
	}
	old := c.sessions.begin(operators.Operator{Name: "d", Role: operators.Viewer}, "h:1", now.Add(-sessionAge-time.Second))
	if c.SignedIn("h:1", cookieOf("h:1")+"="+old) {
		t.Error("a session that has ended is open")
	}
	if role = operators.Owner; c.SignedIn("h:1", cookieOf("h:1")+"="+last) {
		t.Error("a session outlives its operator's role")
	}
}

// TestConsolesOnPortsOfOneHost: a browser sends the cookies of a host to all its ports. Nodes behind tunnels are such ports.
func TestConsolesOnPortsOfOneHost(t *testing.T) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	who := operators.Operator{Name: "a", Role: operators.Viewer}
	consoles := map[string]*Console{}
	for _, host := range []string{"localhost:9000", "localhost:9001"} {
		c := New(Deps{Log: slog.New(slog.DiscardHandler), Named: func(string) operators.Operator { return who },
			Operator: func(string) (operators.Operator, bool) { return who, true }})
		r := httptest.NewRequest("POST", "http://"+host+Root+"sign-in", nil)
		r.Header.Set("Origin", "http://"+host)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		jar.SetCookies(r.URL, w.Result().Cookies())
		consoles[host] = c
	}
	for host, c := range consoles {
		r := httptest.NewRequest("GET", "http://"+host+Root, nil)
		for _, cookie := range jar.Cookies(r.URL) {
			r.AddCookie(cookie)
		}
		if !c.SignedIn(host, r.Header.Get("Cookie")) {
			t.Errorf("nobody is signed in at %s: %s", host, r.Header.Get("Cookie"))
		}
	}
}

// TestSessionKeepsItsHost: the memory of a request is used anew, and a session lives on.
func TestSessionKeepsItsHost(t *testing.T) {
	var l sessions
	memory := []byte("127.0.0.1:9000")
	cookie := l.begin(operators.Operator{Name: "a"}, unsafe.String(&memory[0], len(memory)), time.Now())
	copy(memory, "localhost:9000")
	r := httptest.NewRequest("GET", "http://127.0.0.1:9000"+Root, nil)
	r.AddCookie(&http.Cookie{Name: cookieOf(r.Host), Value: cookie})
	if l.find(r) == nil {
		t.Error("the session ended with the request that began it")
	}
}

// signedIn is a console with somebody who is signed in, and how that one sends a form from a page of some origin.
func signedIn(d Deps) (c *Console, send func(path, origin string, form url.Values) *httptest.ResponseRecorder) {
	who := operators.Operator{Name: "a", Role: operators.Viewer}
	d.Named, d.Log = func(string) operators.Operator { return who }, slog.New(slog.DiscardHandler)
	c = New(d)
	cookie := &http.Cookie{Name: cookieOf("node:1"), Value: c.sessions.begin(who, "node:1", time.Now())}
	return c, func(path, origin string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest("POST", "http://node:1"+Root+path, nil)
		r.AddCookie(cookie)
		form.Set("token", c.sessions.find(r).token)
		r.Body = io.NopCloser(strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
}

// TestAnotherPageSignsNobodyOut: the cookie stays unless a page of the console asks.
func TestAnotherPageSignsNobodyOut(t *testing.T) {
	c, send := signedIn(Deps{})
	if w := send("sign-out", "http://evil.example", url.Values{}); w.Code != http.StatusForbidden || w.Header().Get("Set-Cookie") != "" {
		t.Errorf("from another page: %d, %v", w.Code, w.Header())
	}
	w := send("sign-out", "http://node:1", url.Values{})
	if w.Code != http.StatusSeeOther || w.Header().Get("Set-Cookie") == "" || len(c.sessions.open) > 0 {
		t.Errorf("from the console: %d, %v", w.Code, w.Header())
	}
}

// TestPlaygroundAsksForMessagesAlone: it is the one protocol whose key goes in the header that is sent.
func TestPlaygroundAsksForMessagesAlone(t *testing.T) {
	var asked []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path+" "+r.Header.Get("X-Api-Key"))
	}))
	defer api.Close()
	_, send := signedIn(Deps{API: api.URL})
	for protocol, status := range map[string]int{"messages": 200, "chat": 405, "responses": 405, "count_tokens": 405} {
		if w := send("playground/"+protocol, "http://node:1", url.Values{"key": {"sk-1"}, "body": {"{}"}}); w.Code != status {
			t.Errorf("%s: %d, want %d", protocol, w.Code, status)
		}
	}
	if !slices.Equal(asked, []string{"/v1/messages sk-1"}) {
		t.Errorf("the API was asked for %q", asked)
	}
}

// TestLinksKeepTheirQuery: a link to the page behind a page, and to its file, has each parameter as one.
func TestLinksKeepTheirQuery(t *testing.T) {
	c := New(Deps{Log: slog.New(slog.DiscardHandler)})
	q := url.Values{"model": {"a&b"}}
	grants := clusterPage{Query: q}
	grants.Grants.Next = "acct_1/n"
	for _, p := range []struct {
		page string
		body any
		want []string
	}{
		{"ledger", ledgerPage{Query: q, Older: with(q, "after", "7"), CSV: encoded(q)},
			[]string{"/console/ledger?after=7&model=a%26b", "/console/ledger.csv?model=a%26b"}},
		{"past", pastPage{Query: q, Older: with(q, "before", "7")}, []string{"/console/requests/past?before=7&model=a%26b"}},
		{"cluster", grants, []string{"/console/cluster?after=acct_1%2Fn&model=a%26b"}},
	} {
		w := httptest.NewRecorder()
		c.render(w, http.StatusOK, p.page, "base", c.shown(httptest.NewRequest("GET", Root, nil), &session{}, "", p.body))
		for _, want := range p.want {
			_, main, _ := strings.Cut(html.UnescapeString(w.Body.String()), "</table>")
			if !strings.Contains(main, `<a href="`+want+`">`) {
				t.Errorf("the page %s has no link to %s: %s", p.page, want, main)
			}
		}
	}
}

// TestAssets: the library is the one that was looked at, and a browser loads little.
func TestAssets(t *testing.T) {
	digests := map[string]string{ // of uPlot 1.6.32 as its authors published it
		"uplot.js":  "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
		"uplot.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
	}
	entries, err := assets.ReadDir("assets")
	if err != nil {
		t.Fatal(err)
	}
	packed := new(bytes.Buffer)
	for _, e := range entries {
		b, err := assets.ReadFile("assets/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if want := digests[e.Name()]; want != "" && want != fmt.Sprintf("%x", sha256.Sum256(b)) {
			t.Errorf("%s is not the published file", e.Name())
		}
		w := gzip.NewWriter(packed)
		_, _ = w.Write(b) // into memory
		w.Close()
	}
	if packed.Len() > 150<<10 {
		t.Errorf("the assets have %d bytes, compressed", packed.Len())
	}
}

// TestAssetsAreOfThisProgram: after an upgrade no browser uses the script of before, and what it has it is not sent again.
func TestAssetsAreOfThisProgram(t *testing.T) {
	c := New(Deps{})
	get := func(known string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://node:1"+Root+"assets/console.js", nil)
		r.Header.Set("If-None-Match", known)
		w := httptest.NewRecorder()
		c.ServeHTTP(w, r)
		return w
	}
	first := get("")
	script, err := assets.ReadFile("assets/console.js")
	if err != nil || first.Code != http.StatusOK || first.Body.String() != string(script) ||
		first.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("%d, %v, %v", first.Code, first.Header(), err)
	}
	if again := get(first.Header().Get("ETag")); again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("a file that is there: %d, %d bytes", again.Code, again.Body.Len())
	}
	if other := get(`"of before"`); other.Code != http.StatusOK || other.Body.Len() != len(script) {
		t.Errorf("a file of before: %d, %d bytes", other.Code, other.Body.Len())
	}
}

// BenchmarkReadings is a second of the history: a reading of as many series as a node has.
func BenchmarkReadings(b *testing.B) {
	var text strings.Builder
	for i := range 600 {
		fmt.Fprintf(&text, "corenode_something_total{model=\"core-1.1\",le=\"%d\"} %d\n", i, i*7)
	}
	var h history
	for b.Loop() {
		h.add(read([]byte(text.String()), time.Now()))
	}
}

// TestSpans: the phases of a request follow each other and fill its time; its hold lies beside them.
func TestSpans(t *testing.T) {
	all := spans(&admin.PastRequest{TotalMS: 200, ReceiveMS: 10, PrepareMS: 20, AdmissionMS: 10, HoldMS: 30, QueueMS: 20, PrefillMS: 40,
		DecodeMS: 60, SettleMS: 20})
	at, sum := 0.0, 0.0
	for _, s := range all {
		if s.Name == "hold" {
			if s.From != 200 || s.Width != 150 {
				t.Errorf("the hold is at %v, %v wide, want behind the admission at 200, 150 wide", s.From, s.Width)
			}
			continue
		}
		if s.From != at {
			t.Errorf("%s begins at %v, want %v", s.Name, s.From, at)
		}
		at, sum = at+s.Width, sum+s.MS
	}
	if len(all) != 9 || sum != 200 {
		t.Errorf("%d phases of %v ms, want 9 of 200", len(all), sum)
	}
	if short := spans(&admin.PastRequest{TotalMS: 1, AdmissionMS: 2}); short[len(short)-1].MS != 0 {
		t.Errorf("more than the whole is in phases, and %v is left", short[len(short)-1].MS)
	}
}

// pagedLedger is a ledger of some pages, which counts those that were asked for.
type pagedLedger struct {
	admin.Store
	pages, asked int64
}

const pageRows = 50

func (l *pagedLedger) Statement(q store.StatementQuery) (page []account.Entry, next int64, err error) {
	l.asked++
	for i := range int64(pageRows) {
		page = append(page, account.Entry{ID: q.After + i + 1, Kind: account.TopUp, AccountID: "acct_1", Amount: 1})
	}
	if l.asked < l.pages {
		next = q.After + pageRows
	}
	return page, next, nil
}

// flushed is a browser's end of an answer: what is written is held until it is flushed. A browser that leaves does
// so at the first flush; before it no write fails.
type flushed struct {
	http.ResponseWriter
	leaves, left      bool
	held, most, total int
}

func (f *flushed) Write(p []byte) (int, error) {
	if f.left {
		return 0, errors.New("the browser has left")
	}
	f.held += len(p)
	f.total += len(p)
	return f.ResponseWriter.Write(p)
}

func (f *flushed) Flush() {
	f.most, f.held = max(f.most, f.held), 0
	f.left = f.leaves
}

// TestLedgerFileLeavesPageByPage: the node holds no more than a page of it, and reads no further for a browser that has left.
func TestLedgerFileLeavesPageByPage(t *testing.T) {
	const pages = 20
	file := func(leaves bool) (ledger *pagedLedger, w *flushed, text string) {
		ledger = &pagedLedger{pages: pages}
		c := &Console{deps: Deps{Client: func(ctx context.Context, who operators.Operator) *admin.Client {
			return admin.LocalFor(ctx, admin.New(ledger, nil, nil, nil, nil), who)
		}}}
		got := httptest.NewRecorder()
		w = &flushed{ResponseWriter: got, leaves: leaves}
		s := &session{operator: operators.Operator{Name: "a", Role: operators.Viewer}}
		c.ledgerCSV(w, httptest.NewRequest("GET", "/console/ledger.csv", nil), s)
		return ledger, w, got.Body.String()
	}
	_, w, text := file(false)
	if rows := strings.Count(text, "\n"); rows != 1+pages*pageRows || !strings.Contains(text, fmt.Sprintf("\n%d,", pages*pageRows)) {
		t.Errorf("%d rows, want a head and all of %d pages; they end with %q", rows, pages, text[max(0, len(text)-80):])
	}
	head, _, _ := strings.Cut(text, "\n")
	rerated := cells(admin.Entry{Kind: account.Adjustment, Settles: 7, Provisional: true})
	if !strings.HasSuffix(head, ",note,provisional,settles,refund") || len(rerated) != 1+strings.Count(head, ",") ||
		!slices.Equal(rerated[len(rerated)-3:], []string{"true", "7", "false"}) {
		t.Errorf("what corrects another row is not told: %s, %q", head, rerated)
	}
	if held := max(w.most, w.held); held > 2*w.total/pages {
		t.Errorf("%d of %d bytes were held", held, w.total)
	}
	if ledger, _, _ := file(true); ledger.asked > 2 {
		t.Errorf("%d pages were read for a browser that left after one", ledger.asked)
	}
}
