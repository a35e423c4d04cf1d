package trace

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"corenode/node/trace/tracetest"
)

var update = flag.Bool("update", false, "rewrite golden files; read the diff before you commit it")

// TestParse: what traceparent may be, of this version and of those to come.
func TestParse(t *testing.T) {
	const trace, span = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	for header, want := range map[string]bool{
		"00-" + trace + "-" + span + "-01":                          true,
		"00-" + trace + "-" + span + "-00":                          true,
		"cc-" + trace + "-" + span + "-01-what-comes":               true,
		"cc-" + trace + "-" + span + "-01.what":                     false,
		"00-" + trace + "-" + span + "-01-more":                     false,
		"ff-" + trace + "-" + span + "-01":                          false,
		"00-" + strings.ToUpper(trace) + "-" + span + "-01":         false,
		"00-" + strings.Repeat("0", 32) + "-" + span + "-01":        false,
		"00-" + trace + "-" + strings.Repeat("0", 16) + "-01":       false,
		"00-" + trace + "-" + span + "-0":                           false,
		"00-" + trace[:31] + "g-" + span + "-01":                    false,
		"":                                                          false,
		"00_" + trace + "-" + span + "-01":                          false,
		strings.Repeat("0", len("00-"+trace+"-"+span+"-01")):        false,
		"00-" + trace + "-" + span + "-zz":                          false,
		"\x0000-" + trace + "-" + span + "-01":                      false,
		"00-" + trace + "-" + span + "-01" + strings.Repeat("-", 9): false,
	} {
		c, ok := Parse([]byte(header), []byte("vendor=1"))
		if ok != want || ok && (fmt.Sprintf("%x", c.Trace) != trace || fmt.Sprintf("%x", c.Parent) != span || c.State != "vendor=1" ||
			c.Sampled == strings.HasSuffix(header, "00")) || !ok && c != (Context{}) {
			t.Errorf("%q: %+v, %v", header, c, ok)
		}
	}
	for _, state := range []string{"a=\n", strings.Repeat("a", stateMax+1)} {
		if c, ok := Parse([]byte("00-"+trace+"-"+span+"-01"), []byte(state)); !ok || c.State != "" {
			t.Errorf("the state %.10q goes along: %+v", state, c)
		}
	}
}

// TestAClientDecidesNothing: neither its flag nor its id has a say in what is kept; a peer's has.
func TestAClientDecidesNothing(t *testing.T) {
	flagged := []byte("00-00000000000000000000000000000001-00f067aa0ba902b7-01")
	for _, c := range []struct {
		share   float64
		peers   bool
		trusted bool
		want    bool
	}{{0, true, false, false}, {0, true, true, true}, {0, false, true, false}, {1, true, false, true}} {
		tracer := &Tracer{cfg: Config{Share: c.share, Peers: c.peers}}
		x := tracer.Begin(flagged, nil, c.trusted)
		if x.Sampled != c.want || x.Trace[15] != 1 || x.Span == [8]byte{} {
			t.Errorf("%+v: %+v", c, x)
		}
	}
	half, kept := &Tracer{cfg: Config{Share: 0.5}}, 0
	for range 1000 {
		if x := half.Begin(flagged, nil, false); x.Sampled {
			kept++
		}
	}
	if kept < 350 || kept > 650 {
		t.Errorf("%d of 1000 are kept", kept)
	}
	if x := half.Begin(nil, nil, false); x.Trace == [16]byte{} || x.Parent != [8]byte{} {
		t.Errorf("a new trace is %+v", x)
	}
}

// TestSlowOnesAreKept: the slowest of a hundred, once it is known what is usual.
func TestSlowOnesAreKept(t *testing.T) {
	tracer, kept := &Tracer{}, map[string]int{}
	for i := range 2000 {
		took := time.Duration(40+i%20) * time.Millisecond
		if i%200 == 199 {
			took = time.Second
		}
		kept[tracer.Keep(&Context{}, took, false, true)]++
	}
	if kept[KeptForTime] < 8 || kept[KeptForTime] > 10 || kept[""] != 2000-kept[KeptForTime] {
		t.Errorf("kept %v", kept)
	}
	if why := tracer.Keep(&Context{}, time.Minute, false, false); why != "" {
		t.Errorf("a request that produced nothing is kept: %s", why)
	}
	if why := tracer.Keep(&Context{Sampled: true}, 1, true, true); why != KeptForError {
		t.Errorf("an error is kept because of %s", why)
	}
}

// full is a record that has everything.
func full() *Record { return fullAt(time.Unix(1700000000, 0)) }

func fullAt(at time.Time) *Record {
	after := func(ms int) time.Time { return at.Add(time.Duration(ms) * time.Millisecond) }
	c, _ := Parse([]byte("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00"), []byte("vendor=1"))
	c.Span = [8]byte{1, 2, 3, 4, 5, 6, 7, 8}
	r := &Record{Context: c, Kept: KeptForError, Method: "POST", Route: "/v1/messages", Status: 200, Began: at, Arrived: after(2), Prepared: after(10),
		Admitted: true, Done: after(425), Admission: 5 * time.Millisecond, Hold: 20 * time.Millisecond, Queue: 10 * time.Millisecond,
		Prefill: 100 * time.Millisecond,
		Decode:  300 * time.Millisecond, SettleBegan: after(425), SettleEnded: after(430), Ended: after(431), TTFT: 125 * time.Millisecond,
		RequestID: "req_1", AccountID: "acct_1", KeyID: "key_1", Asked: "fast", Model: "core-1.1", MaxTokens: 64, Stream: true,
		Usage: Usage{Input: 10, CacheRead: 4, CacheWrite: 1, Output: 20, Reasoning: 3}, ChargeNano: 1234, Finish: "end_turn",
		Failure: "internal", Ours: true, Conversation: [16]byte{15: 9}}
	r.CallIn(Call{Name: "translate", Digest: "sha256:a", Began: after(3), Took: 2 * time.Millisecond})
	r.CallIn(Call{Name: "quote", Digest: "sha256:b", Began: after(10), Took: time.Millisecond})
	r.CallIn(Call{Name: "charge", Began: after(426), Took: time.Millisecond})
	r.Attempts = []Attempt{{URL: "http://10.0.0.1", Span: [8]byte{1}, Began: after(15), Ended: after(20), Failure: "connect"},
		{URL: "http://10.0.0.2", RequestID: "their \"id\"\n\xff", Span: [8]byte{2}, Began: after(20), Ended: after(424)}}
	return r
}

// withoutIDs replaces the ids that chance made: all but the record's own and those of its attempts.
func withoutIDs(body []byte, spans []span) string {
	text := string(body)
	for i := range spans {
		if i > 0 && spans[i].kind != kindClient {
			text = strings.ReplaceAll(text, fmt.Sprintf("%x", spans[i].id), fmt.Sprintf("%016d", i))
		}
	}
	return strings.ReplaceAll(text, `{"traceId"`, "\n{\"traceId\"") + "\n"
}

var onLoopback = Node{Version: "v1", Address: "127.0.0.1:8080"}

// TestEncode: a record as a collector gets it, byte for byte.
func TestEncode(t *testing.T) {
	of := resourceOf(Config{Attributes: [][2]string{{"deployment.environment", "test"}, {serviceName, "mine"}}}, onLoopback)
	body, spans := encode(nil, &of, []*Record{full()}, nil)
	if _, err := tracetest.Decode(body); err != nil {
		t.Fatal(err)
	}
	got, path := withoutIDs(body, spans), "testdata/request.json"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil || got != string(want) {
		t.Errorf("%v: encoded\n%s, want\n%s", err, got, want)
	}
}

// TestNodesHaveDifferentNames: what nodes of one service listen on is often the same, in containers or behind a proxy.
func TestNodesHaveDifferentNames(t *testing.T) {
	for _, c := range []struct{ address, machine, instance, server string }{
		{"10.0.0.7:8080", "box", "10.0.0.7:8080", "10.0.0.7"},
		{"[::]:8080", "box", "box:8080", "box"},
		{"0.0.0.0:8080", "box", "box:8080", "box"},
		{"127.0.0.1:8080", "box", "box:8080", "127.0.0.1"},
		{"[::1]:8080", "box", "box:8080", "::1"},
		{"[::]:8080", "", "[::]:8080", "::"},
	} {
		of := resourceOf(Config{}, Node{Version: "v1", Address: c.address, Machine: c.machine})
		i := slices.IndexFunc(of.attributes, func(a attribute) bool { return a.key == serviceInstance })
		if got := of.attributes[i].text; got != c.instance || of.place.address != c.server || of.place.port != 8080 {
			t.Errorf("%s on %q is %s at %+v, want %s at %s", c.address, c.machine, got, of.place, c.instance, c.server)
		}
	}
}

// TestCollectorIsStrict: the fake would say what is wrong.
func TestCollectorIsStrict(t *testing.T) {
	of := resourceOf(Config{}, onLoopback)
	body, _ := encode(nil, &of, []*Record{full()}, nil)
	for old, wrong := range map[string]string{
		`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736"`: `"traceId":"4bf92f3577b34da6"`,
		`"parentSpanId":"00f067aa0ba902b7"`:            `"parentSpanId":"APBnqgupArc="`,
		`"startTimeUnixNano":"1700000000000000000"`:    `"startTimeUnixNano":1700000000000000000`,
		`"kind":2`:                               `"kind":"SPAN_KIND_SERVER"`,
		`"kind":3`:                               `"kind":9`,
		`"code":2`:                               `"code":7`,
		`"intValue":"200"`:                       `"intValue":200`,
		`{"boolValue":true}`:                     `{"boolValue":true,"stringValue":"x"}`,
		`"spans":[`:                              `"prompt":"x","spans":[`,
		`"endTimeUnixNano":"1700000000431000000`: `"endTimeUnixNano":"1600000000431000000`,
	} {
		if !bytes.Contains(body, []byte(old)) {
			t.Fatalf("there is no %s in %s", old, body)
		}
		if _, err := tracetest.Decode(bytes.Replace(body, []byte(old), []byte(wrong), 1)); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// TestSpansOfAShortRequest: what a request did not come to has no span.
func TestSpansOfAShortRequest(t *testing.T) {
	at := time.Unix(1700000000, 0)
	names := func(r *Record) (all []string) {
		for _, s := range spansOf(nil, r, place{}) {
			all = append(all, s.name)
		}
		return all
	}
	r := &Record{Method: "POST", Route: "/v1/messages", Began: at, Arrived: at, Ended: at.Add(time.Second)}
	if got := names(r); !slices.Equal(got, []string{"POST /v1/messages", "prepare"}) {
		t.Errorf("refused while it was prepared: %v", got)
	}
	r.Prepared = at.Add(time.Millisecond)
	if got := names(r); !slices.Equal(got, []string{"POST /v1/messages", "prepare", "admission"}) {
		t.Errorf("refused in admission: %v", got)
	}
	r.CallIn(Call{Name: "quote", Began: r.Prepared, Took: time.Millisecond})
	r.CallIn(Call{Name: "admit", Began: r.Prepared.Add(time.Millisecond), Took: time.Millisecond})
	spans := spansOf(nil, r, place{})
	for _, s := range spans[3:] {
		if s.parent != spans[2].id {
			t.Errorf("%s is a part of %x, want admission", s.name, s.parent)
		}
	}
	if len(spans) != 5 {
		t.Errorf("refused by what was asked: %v", names(r))
	}
	r = &Record{Method: "POST", Route: "/v1/messages", Began: at, Arrived: at, Prepared: at.Add(time.Millisecond), Admitted: true,
		Admission: 2 * time.Millisecond, Ended: at.Add(time.Hour)}
	r.CallIn(Call{Name: "events", Began: at.Add(time.Minute), Took: time.Second})
	spans = spansOf(nil, r, place{})
	want := []string{"POST /v1/messages", "prepare", "admission", "module events"}
	if got := names(r); !slices.Equal(got, want) || spans[3].parent != spans[0].id || spans[2].ended != at.Add(3*time.Millisecond) {
		t.Errorf("admitted, and what came of it is not known: %v, %+v", got, spans)
	}
}

// TestFromEnv: the standard variables, those for traces before those for all signals.
func TestFromEnv(t *testing.T) {
	read := func(values ...string) (*Config, error) {
		m := map[string]string{}
		for i := 0; i < len(values); i += 2 {
			m["OTEL_"+values[i]] = values[i+1]
		}
		return FromEnv(func(name string) string { return m[name] })
	}
	for _, off := range [][]string{{}, {"EXPORTER_OTLP_ENDPOINT", "http://c:4318", "SDK_DISABLED", "true"},
		{"EXPORTER_OTLP_ENDPOINT", "http://c:4318", "TRACES_EXPORTER", "none"}, {"SERVICE_NAME", "x"}} {
		if c, err := read(off...); c != nil || err != nil {
			t.Errorf("%v: %+v, %v", off, c, err)
		}
	}
	c, err := read("EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/", "EXPORTER_OTLP_TRACES_HEADERS", "Authorization=Bearer%20x, a=b",
		"EXPORTER_OTLP_TIMEOUT", "2500", "BSP_SCHEDULE_DELAY", "50", "EXPORTER_OTLP_COMPRESSION", "none", "SERVICE_NAME", "mine",
		"RESOURCE_ATTRIBUTES", "k=v%2Cw", "TRACES_SAMPLER", "parentbased_traceidratio", "TRACES_SAMPLER_ARG", "0.25")
	want := &Config{Endpoint: "http://c:4318/base/v1/traces", Headers: [][2]string{{"Authorization", "Bearer x"}, {"a", "b"}},
		Timeout: 2500 * time.Millisecond, Delay: 50 * time.Millisecond, Plain: true, Share: 0.25, Peers: true, SlowCall: time.Millisecond,
		Attributes: [][2]string{{"k", "v,w"}, {serviceName, "mine"}}}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("%+v, %v, want %+v", c, err, want)
	}
	c, err = read("EXPORTER_OTLP_TRACES_ENDPOINT", "https://c/as-it-is", "EXPORTER_OTLP_ENDPOINT", "http://other", "TRACES_SAMPLER", "always_off")
	if err != nil || c.Endpoint != "https://c/as-it-is" || c.Share != 0 || c.Peers {
		t.Errorf("%+v, %v", c, err)
	}
	for sampler, peers := range map[string]bool{"": true, "always_on": false, "parentbased_always_on": true, "traceidratio": false,
		"parentbased_traceidratio": true, "always_off": false, "parentbased_always_off": true} {
		if c, err := read("EXPORTER_OTLP_ENDPOINT", "http://c", "TRACES_SAMPLER", sampler); err != nil || c.Peers != peers {
			t.Errorf("%q: peer nodes decide: %v, %v", sampler, c.Peers, err)
		}
	}
	_, err = read("EXPORTER_OTLP_ENDPOINT", "grpc://a:secret@c:4318", "EXPORTER_OTLP_PROTOCOL", "grpc", "EXPORTER_OTLP_HEADERS", "secret",
		"EXPORTER_OTLP_TIMEOUT", "1s", "TRACES_SAMPLER", "jaeger_remote", "EXPORTER_OTLP_CERTIFICATE", "/none", "EXPORTER_OTLP_COMPRESSION", "zstd")
	for _, name := range []string{"ENDPOINT", "PROTOCOL", "HEADERS", "TIMEOUT", "SAMPLER", "CERTIFICATE", "COMPRESSION"} {
		if err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "secret") {
			t.Errorf("not of %s: %v", name, err)
		}
	}
}

// newServer runs h until the test ends.
func newServer(t *testing.T, h http.Handler) (url string) {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// sent waits until the tracer is done with so many records.
func sent(t *testing.T, tracer *Tracer, n int64) {
	t.Helper()
	for end := time.Now().Add(time.Minute); tracer.counts.Sent.Load()+tracer.counts.Failed.Load() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d sent, %d failed, want %d", tracer.counts.Sent.Load(), tracer.counts.Failed.Load(), n)
		}
	}
}

// TestTracerSends: with the headers that were asked for, again when the collector says so, and what
// waits when it is closed.
func TestTracerSends(t *testing.T) {
	for _, plain := range []bool{false, true} {
		c := tracetest.Start(t)
		c.Refuse(http.StatusServiceUnavailable)
		tracer := New(Config{Endpoint: c.URL, Headers: [][2]string{{"Authorization", "Bearer x"}}, Timeout: time.Minute,
			Delay: time.Millisecond, Plain: plain}, onLoopback, slog.New(slog.DiscardHandler))
		tracer.Take(full())
		sent(t, tracer, 1)
		tracer.Take(full())
		defer tracer.giveUp()
		tracer.giveUp = func() {} // a collector that answers is waited for
		if err := tracer.Close(); err != nil {
			t.Fatal(err)
		}
		if got := len(c.Spans()); got != 2*len(spansOf(nil, full(), place{})) || tracer.counts.Sent.Load() != 2 {
			t.Errorf("%d spans of %d traces", got, tracer.counts.Sent.Load())
		}
		for _, h := range c.Headers() {
			if h.Get("Authorization") != "Bearer x" || (h.Get("Content-Encoding") == "gzip") == plain {
				t.Errorf("headers %v", h)
			}
		}
	}
}

// TestCollectorDown: nobody waits for a collector that is down, slow, or says no; what it does not take is
// counted, and what does not fit into the queue, too.
func TestCollectorDown(t *testing.T) {
	hangs := make(chan struct{})
	slow := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	server := newServer(t, slow)
	defer close(hangs)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	tracer := New(Config{Endpoint: server, Timeout: 10 * time.Minute, Delay: time.Millisecond}, Node{Version: "v1"}, logger)
	const more = 500
	for range queueMax + 2*batchMax + more {
		tracer.Take(full())
	}
	if n := tracer.counts.Overflow.Load(); n < more {
		t.Errorf("%d of at least %d were dropped", n, more)
	}
	_ = tracer.Close() // it waits a second for the collector, which answers only when the test has ended
	if tracer.counts.Failed.Load() == 0 || strings.Count(log.String(), "does not take traces") != 1 {
		t.Errorf("%d failed, logged %s", tracer.counts.Failed.Load(), &log)
	}

	refusing := tracetest.Start(t)
	refusing.Refuse(http.StatusBadRequest, http.StatusFound)
	tracer = New(Config{Endpoint: refusing.URL, Timeout: time.Minute, Delay: time.Millisecond}, Node{}, slog.New(slog.DiscardHandler))
	for n := range int64(2) {
		tracer.Take(full())
		sent(t, tracer, n+1)
	}
	_ = tracer.Close() // nothing waits
	if n := tracer.counts.Failed.Load(); n != 2 || len(refusing.Headers()) != 2 {
		t.Errorf("%d failed in %d requests", n, len(refusing.Headers()))
	}
}

// TestCollectorTakesAPart: a request that was taken may have lost spans all the same, which is no reason to send it again.
func TestCollectorTakesAPart(t *testing.T) {
	for answer, lost := range map[string]int64{
		``: 0, `{}`: 0, `{"partialSuccess":{}}`: 0, `{"partialSuccess":{"rejectedSpans":"0","errorMessage":"take care"}}`: 0, `no JSON`: 0,
		`{"partialSuccess":{"rejectedSpans":"11","errorMessage":"too many"}}`: 1, `{"partialSuccess":{"rejectedSpans":3}}`: 1,
		`{"partialSuccess":{"rejectedSpans":"-1"}}`: 0,
	} {
		var asked atomic.Int64
		var log bytes.Buffer
		tracer := New(Config{Timeout: time.Minute, Delay: time.Millisecond, Endpoint: newServer(t, http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, answer)
			}))}, Node{}, slog.New(slog.NewTextHandler(&log, nil)))
		tracer.Take(full())
		sent(t, tracer, 1)
		_ = tracer.Close() // nothing waits
		if n := tracer.counts.Failed.Load(); n != lost || asked.Load() != 1 || strings.Contains(log.String(), "refused") != (lost > 0) {
			t.Errorf("%q: %d failed, asked %d times, logged %s", answer, n, asked.Load(), &log)
		}
	}
}

// hasty is a collector that answers each connection before it has read more than the head, and keeps it.
func hasty(t *testing.T) (url string) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended); ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1024)) // what comes does not matter
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
				<-ended
			}()
		}
	}()
	return "http://" + ln.Addr().String()
}

// TestABodyIsLeftToItsConnection: a collector that answers before it has read leaves a connection that may
// still write while the next batch is packed. The race detector would see it.
func TestABodyIsLeftToItsConnection(t *testing.T) {
	const batches = 3
	tracer := New(Config{Endpoint: hasty(t), Timeout: time.Minute, Delay: time.Hour, Plain: true}, Node{}, slog.New(slog.DiscardHandler))
	for range batches * batchMax {
		r := full()
		r.Asked = strings.Repeat("x", 256<<10)
		tracer.Take(r)
	}
	sent(t, tracer, batches*batchMax)
	_ = tracer.Close()
}

// later is what a clock shows at the time t when it has been set by so many seconds since: another hour, the same moment.
func later(t time.Time, seconds int64) time.Time {
	wall := (*int64)(unsafe.Pointer(&t)) // its first field: above 30 bits of nanoseconds the seconds, where it has a monotonic reading
	*wall += seconds << 30
	return t
}

// TestTheClockIsSet: what a request took does not depend on the clock, which may be set while it runs.
func TestTheClockIsSet(t *testing.T) {
	at := time.Now()
	if got := later(at, -7); got.Sub(at) != 0 || got.Unix() != at.Unix()-7 {
		t.Fatalf("it is %v of %v", got, at)
	}
	want, spans := encode(nil, &resource{}, []*Record{fullAt(at)}, nil)
	for _, seconds := range []int64{-3600, 3600} {
		r := fullAt(at)
		r.Arrived, r.Prepared, r.Done, r.SettleBegan, r.SettleEnded, r.Ended = later(r.Arrived, seconds), later(r.Prepared, seconds),
			later(r.Done, seconds), later(r.SettleBegan, seconds), later(r.SettleEnded, seconds), later(r.Ended, seconds)
		for i := range r.Attempts {
			r.Attempts[i].Began, r.Attempts[i].Ended = later(r.Attempts[i].Began, seconds), later(r.Attempts[i].Ended, seconds)
		}
		got, set := encode(nil, &resource{}, []*Record{r}, nil)
		if withoutIDs(got, set) != withoutIDs(want, spans) {
			t.Errorf("set by %d s it is\n%s, want\n%s", seconds, got, want)
		}
	}
}
