package drive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/client"
	"corenode/bench/protocol"
	"corenode/bench/stats"
	"corenode/bench/workload"
)

// fake is a server of both protocols, on Go's library, with an engine that
// answers at once. It keeps what it was asked.
type fake struct {
	// before, if set, is called before the reply; true: it has replied itself.
	before func(w http.ResponseWriter, r *http.Request, ask asked) bool
	pause  time.Duration // before each token

	mu   sync.Mutex
	seen []asked
}

// asked is what a request said.
type asked struct {
	Path, Key, Session string
	Body               struct {
		Model     string
		MaxTokens int `json:"max_tokens"`
		Stream    bool
		System    string
		Ignore    bool `json:"ignore_eos"`
		Messages  []struct{ Role, Content string }
	}
}

// input counts words as the fake's tokens, and ten for its template.
func (a asked) input() int {
	n := 10 + len(strings.Fields(a.Body.System))
	for _, m := range a.Body.Messages {
		n += len(strings.Fields(m.Content))
	}
	return n
}

func (f *fake) requests() []asked {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := asked{Path: r.URL.Path, Key: r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), Session: r.Header.Get("X-Session-Id")}
	if err := json.NewDecoder(r.Body).Decode(&a.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if a.Path == "/v1/messages/count_tokens" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"input_tokens":%d}`, a.input())
		return
	}
	f.mu.Lock()
	f.seen = append(f.seen, a)
	f.mu.Unlock()
	if f.before != nil && f.before(w, r, a) {
		return
	}
	if !a.Body.Stream {
		w.Header().Set("Content-Type", "application/json")
		if a.Path == protocol.Chat.Path() {
			fmt.Fprintf(w, `{"choices":[{"message":{"content":"answer"}}],"usage":{"prompt_tokens":%d,"completion_tokens":%d}}`, a.input(), a.Body.MaxTokens)
		} else {
			fmt.Fprintf(w, `{"type":"message","content":[{"type":"text","text":"answer"}],"usage":{"input_tokens":%d,"output_tokens":%d}}`, a.input(), a.Body.MaxTokens)
		}
		return
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	for _, event := range a.events() {
		if strings.Contains(event, "word") {
			time.Sleep(f.pause)
		}
		io.WriteString(w, event)
		w.(http.Flusher).Flush()
	}
}

// events are the reply of a stream: one word per token.
func (a asked) events() (list []string) {
	chat := a.Path == protocol.Chat.Path()
	if !chat {
		list = append(list, fmt.Sprintf("event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":%d,\"output_tokens\":1}}}\n\n", a.input()))
	}
	for range a.Body.MaxTokens {
		if chat {
			list = append(list, "data: {\"choices\":[{\"delta\":{\"content\":\" word\"}}]}\n\n")
		} else {
			list = append(list, "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"type\":\"text_delta\",\"text\":\" word\"}}\n\n")
		}
	}
	if chat {
		return append(list, fmt.Sprintf("data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":%d}}\n\n", a.input(), a.Body.MaxTokens), "data: [DONE]\n\n")
	}
	return append(list, fmt.Sprintf("event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":%d}}\n\n", a.Body.MaxTokens),
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")
}

// options are a short closed loop on a server.
func options(t *testing.T, h http.Handler, p protocol.Protocol) Options {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	target, err := client.ParseTarget(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Target: target, Connection: client.Options{Connect: 10 * time.Second}, Keys: []string{"k0", "k1"},
		Template: protocol.Template{Protocol: p, Model: "m", Stream: true, Extra: []byte(`{"ignore_eos":true}`)},
		Shape: workload.Shape{Seed: 5, Input: lengths(t, "60"), Output: lengths(t, "4"), Turns: 1,
			Size: workload.Calibration{PerWord: 1, Overhead: 10}},
		Clients: 3, Count: 12, InFlightMax: 100, Timeout: 30 * time.Second}
}

func lengths(t *testing.T, text string) workload.Lengths {
	l, err := workload.ParseLengths(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// collected runs a load and returns its records too.
func collected(t *testing.T, o Options) (stats.Run, []stats.Record) {
	var mu sync.Mutex
	var list []stats.Record
	run, err := Run(t.Context(), o, Watch{Ended: func(r *stats.Record) {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, *r)
	}})
	if err != nil {
		t.Fatal(err)
	}
	return run, list
}

func TestBothProtocolsStreamedAndWhole(t *testing.T) {
	for _, p := range []protocol.Protocol{protocol.Messages, protocol.Chat} {
		for _, stream := range []bool{true, false} {
			f := &fake{}
			o := options(t, f, p)
			o.Template.Stream = stream
			run, _ := collected(t, o)
			if n := run.Requests; n.Succeeded != 12 || n.Failed != 0 || n.Due != 12 || n.NoUsage != 0 {
				t.Fatalf("%s, stream %v: %+v, %+v", p, stream, n, run.Errors)
			}
			if tok := run.Tokens; tok.Output != 48 || tok.Input != 12*60 || stream != (tok.PerEvent == 1) {
				t.Errorf("%s, stream %v: %+v", p, stream, tok)
			}
			if d := run.Latency; stream != (d["ttft"].Count == 12) || stream != (d["itl"].Count == 36) || d["e2e"].Count != 12 {
				t.Errorf("%s, stream %v: %+v", p, stream, d)
			}
			if run.Harness.Connections > 3 || run.Harness.Retried != 0 {
				t.Errorf("%s: %+v", p, run.Harness)
			}
			keys := map[string]int{}
			for _, a := range f.requests() {
				keys[a.Key]++
				if a.Path != p.Path() || a.Body.Model != "m" || !a.Body.Ignore || a.Body.Stream != stream || a.Session != "" {
					t.Errorf("%s was asked %+v", p, a)
				}
			}
			// Keys take turns by conversation; with three clients the last two of them may pass earlier ones.
			if keys["k0"]+keys["k1"] != 12 || keys["k0"] < 5 || keys["k1"] < 5 {
				t.Errorf("%s: keys %v", p, keys)
			}
		}
	}
}

func TestConversationsFeedAnswersBack(t *testing.T) {
	for _, p := range []protocol.Protocol{protocol.Messages, protocol.Chat} {
		f := &fake{}
		o := options(t, f, p)
		o.Shape.Turns, o.Shape.PrefixTokens, o.SessionHeader, o.Clients = 3, 20, "X-Session-Id", 2
		run, _ := collected(t, o)
		if run.Requests.Succeeded != 12 || len(run.Turns) != 3 || run.Turns[2].InputMean <= run.Turns[1].InputMean {
			t.Fatalf("%s: %+v, %+v", p, run.Requests, run.Turns)
		}
		sessions := map[string]int{}
		for _, a := range f.requests() {
			sessions[a.Session]++
			turns := a.Body.Messages
			if p == protocol.Chat {
				if turns[0].Role != "system" || len(strings.Fields(turns[0].Content)) != 20 {
					t.Errorf("system %+v", turns[0])
				}
				turns = turns[1:]
			} else if len(strings.Fields(a.Body.System)) != 20 {
				t.Errorf("system %q", a.Body.System)
			}
			for i, turn := range turns {
				if i%2 == 1 && (turn.Role != "assistant" || turn.Content != " word word word word") || i%2 == 0 && turn.Role != "user" {
					t.Errorf("%s, turn %d of %d: %+v", p, i, len(turns), turn)
				}
			}
		}
		if len(sessions) < 4 || len(sessions) > 5 || sessions[""] != 0 { // the last may share the count
			t.Errorf("sessions %v", sessions)
		}
	}
}

// cut ends a connection in the middle of a reply.
func cut(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	io.WriteString(w, text)
	w.(http.Flusher).Flush()
	panic(http.ErrAbortHandler)
}

func TestFailuresByKind(t *testing.T) {
	cases := []struct {
		name, kind, detail string
		reply              func(w http.ResponseWriter)
	}{
		{"refusal", "http_429", "slow down", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "3")
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}},
		{"overload", "http_529", "busy", func(w http.ResponseWriter) { http.Error(w, "busy", 529) }},
		{"cut connection", stats.KindBroken, "EOF", func(w http.ResponseWriter) { cut(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n") }},
		{"clean end without an end", stats.KindBroken, "message_stop", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: ping\ndata: {\"type\":\"ping\"}\n\n")
		}},
		{"malformed", stats.KindProtocol, "not the JSON", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "data: {oops\n\n")
		}},
		{"wrong type", stats.KindProtocol, "text/html", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<p>Welcome")
		}},
		{"error inside", stats.KindServer, "overloaded", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(w, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n")
		}},
	}
	for _, c := range cases {
		var n atomic.Int64
		f := &fake{before: func(w http.ResponseWriter, _ *http.Request, _ asked) bool {
			if n.Add(1)%3 != 0 { // every third is answered
				c.reply(w)
				return true
			}
			return false
		}}
		o := options(t, f, protocol.Messages)
		o.Clients = 1
		run, records := collected(t, o)
		if run.Requests.Succeeded != 4 || run.Requests.Failed != 8 || len(run.Errors) != 1 {
			t.Errorf("%s: %+v, %+v", c.name, run.Requests, run.Errors)
			continue
		}
		if e := run.Errors[0]; e.Kind != c.kind || !strings.Contains(e.Example, c.detail) ||
			(c.kind == "http_429") != (e.RetryAfter == 8 && e.RetryAfterMinS == 3) {
			t.Errorf("%s: %+v", c.name, e)
		}
		if records[0].Kind != c.kind || records[0].End < records[0].Sent {
			t.Errorf("%s: %+v", c.name, records[0])
		}
	}
}

func TestTimeoutsAndNoConnection(t *testing.T) {
	f := &fake{before: func(w http.ResponseWriter, r *http.Request, a asked) bool {
		io.WriteString(w, a.events()[0])
		w.(http.Flusher).Flush()
		<-r.Context().Done() // until the client gives up
		return true
	}}
	f0 := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		f.ServeHTTP(w, r)
	}
	o := options(t, http.HandlerFunc(f0), protocol.Messages)
	o.Timeout, o.Count, o.Clients = 50*time.Millisecond, 2, 1
	run, records := collected(t, o)
	if len(run.Errors) != 1 || run.Errors[0].Kind != stats.KindTimeout || run.Errors[0].Count != 2 || records[0].E2E() < o.Timeout {
		t.Errorf("timeouts: %+v, %+v", run.Errors, records)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // nobody listens there now
	o.Target.Address = ln.Addr().String()
	if run, _ = collected(t, o); len(run.Errors) != 1 || run.Errors[0].Kind != stats.KindConnect || run.Errors[0].Count != 2 {
		t.Errorf("no connection: %+v", run.Errors)
	}
}

// A server may end a kept connection between two requests: that is no failure.
func TestKeptConnectionsThatWereClosed(t *testing.T) {
	f := &fake{}
	server := httptest.NewUnstartedServer(f)
	server.Config.IdleTimeout = time.Millisecond
	server.Start()
	defer server.Close()
	o := options(t, f, protocol.Chat)
	target, err := client.ParseTarget(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	o.Target, o.Clients, o.Count, o.Shape.Turns, o.Shape.Think = target, 1, 4, 4, 30*time.Millisecond
	if run, _ := collected(t, o); run.Requests.Succeeded != 4 || run.Harness.Connections < 2 || run.Harness.Retried == 0 {
		t.Errorf("%+v, %+v, %+v", run.Requests, run.Errors, run.Harness)
	}
}

// The server stops for a while in an open loop: everything that was due
// meanwhile waits, and that wait is in its latency though it was sent late or
// read late. A closed loop of one client sees a single slow request.
func TestStallsAreNotOmitted(t *testing.T) {
	const stall = 300 * time.Millisecond
	server := func() *fake {
		var n atomic.Int64
		var gate sync.RWMutex // while it is locked nobody is answered
		return &fake{before: func(http.ResponseWriter, *http.Request, asked) bool {
			if n.Add(1) == 5 {
				gate.Lock()
				time.Sleep(stall)
				gate.Unlock()
				return false
			}
			gate.RLock()
			defer gate.RUnlock()
			return false
		}}
	}
	slow := func(o Options) (count int) {
		_, records := collected(t, o)
		for _, r := range records {
			if r.E2E() > stall/3 {
				count++
			}
		}
		return count
	}
	o := options(t, server(), protocol.Chat)
	o.Clients, o.Rate, o.Constant, o.Count = 0, 100, true, 60
	if n := slow(o); n < 15 { // of 30 that were due, those of the first 200 ms waited that long
		t.Errorf("%d requests of an open loop saw the stall", n)
	}
	o = options(t, server(), protocol.Chat)
	o.Clients, o.Count = 1, 60
	if n := slow(o); n < 1 {
		t.Error("no request of the closed loop saw the stall")
	}
}

func TestOpenLoopIsBounded(t *testing.T) {
	release := make(chan struct{})
	var once sync.Once
	var waiting atomic.Int64
	f := &fake{before: func(http.ResponseWriter, *http.Request, asked) bool {
		waiting.Add(1)
		<-release
		return false
	}}
	o := options(t, f, protocol.Messages)
	t.Cleanup(func() { once.Do(func() { close(release) }) })
	o.Clients, o.InFlightMax, o.Count = 0, 4, 0
	o.Trace = make([]time.Duration, 20) // all at once
	o.Trace = append(o.Trace, 100*time.Millisecond)
	var inFlight atomic.Int64
	run, err := Run(t.Context(), o, Watch{Progress: func(_ time.Duration, l stats.Live) {
		inFlight.Store(max(inFlight.Load(), l.InFlight))
		if l.InFlight == 4 && l.NotSent == 17 { // the last one was due
			once.Do(func() { close(release) })
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	if n := run.Requests; n.NotSent != 17 || n.Due != 4 || n.Succeeded != 4 || waiting.Load() != 4 || inFlight.Load() != 4 {
		t.Errorf("%+v with %d asked, %d in flight", n, waiting.Load(), inFlight.Load())
	}
}

// TestCountOfABoundedOpenLoop: what is not sent counts, and the request behind the last one does not.
func TestCountOfABoundedOpenLoop(t *testing.T) {
	release := make(chan struct{})
	f := &fake{before: func(http.ResponseWriter, *http.Request, asked) bool {
		<-release
		return false
	}}
	o := options(t, f, protocol.Messages)
	o.Clients, o.InFlightMax, o.Count, o.Rate, o.Constant = 0, 4, 6, 1000, true
	time.AfterFunc(300*time.Millisecond, func() { close(release) })
	run, err := Run(t.Context(), o, Watch{})
	if err != nil {
		t.Fatal(err)
	}
	if n := run.Requests; n.Due+n.NotSent != int64(o.Count) || n.Due < 4 {
		t.Errorf("%+v of %d", n, o.Count)
	}
}

// Warm-up and ramp are sent and not measured.
func TestWarmup(t *testing.T) {
	within := func(list []stats.Record, from, until time.Duration) (n int64) {
		for _, r := range list {
			if r.Intended >= from && r.Intended < until {
				n++
			}
		}
		return n
	}
	f := &fake{pause: time.Millisecond}
	o := options(t, f, protocol.Chat)
	o.Ramp, o.Warmup, o.Count = 30*time.Millisecond, 50*time.Millisecond, 10
	run, records := collected(t, o)
	if run.Requests.Due != 10 || run.Requests.Outside != within(records, 0, 80*time.Millisecond) ||
		int(run.Requests.Due+run.Requests.Outside) != len(records) || run.FromS != 0.08 {
		t.Errorf("%+v from %v s, %d records", run.Requests, run.FromS, len(records))
	}
	o.Count, o.Duration = 0, 100*time.Millisecond
	run, records = collected(t, o)
	for _, r := range records {
		if r.Intended >= 180*time.Millisecond {
			t.Errorf("sent after the window's end: %+v", r)
		}
	}
	if run.WindowS != 0.1 || run.Requests.Due != within(records, 80*time.Millisecond, 180*time.Millisecond) {
		t.Errorf("%+v in %v s", run.Requests, run.WindowS)
	}
}

func TestStoppedRunsReportWhatTheyHave(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var n atomic.Int64
	f := &fake{before: func(_ http.ResponseWriter, r *http.Request, _ asked) bool {
		if n.Add(1) == 10 {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}}
	o := options(t, f, protocol.Messages)
	o.Clients, o.Count, o.Duration = 1, 0, time.Hour
	run, err := Run(ctx, o, Watch{})
	if err != nil || !run.Stopped || run.Requests.Succeeded != 9 || run.Requests.Failed != 0 || run.Requests.Aborted != 1 {
		t.Errorf("%+v, stopped %v, error %v", run.Requests, run.Stopped, err)
	}
	if run.WindowS >= o.Duration.Seconds() || !shareOfWindow(run) {
		t.Errorf("%+v over a window of %v s", run.Rates, run.WindowS)
	}
}

// shareOfWindow says whether the rates are what happened over the window.
func shareOfWindow(r stats.Run) bool {
	return r.WindowS > 0 && math.Abs(r.Rates.Requests*r.WindowS-float64(r.Requests.Succeeded)) < 1e-6
}

// A run that has sent all before its window ends has a shorter one.
func TestWindowEndsWithTheLoad(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"count":                 func(o *Options) {},
		"count of an open loop": func(o *Options) { o.Clients, o.Rate = 0, 1000 },
		"trace":                 func(o *Options) { o.Clients, o.Count, o.Trace = 0, 0, make([]time.Duration, 12) },
	} {
		o := options(t, &fake{}, protocol.Chat)
		o.Duration = time.Hour
		change(&o)
		run, records := collected(t, o)
		last := time.Duration(0)
		for _, r := range records {
			last = max(last, r.End)
		}
		if run.Requests.Succeeded != 12 || run.WindowS != last.Seconds() || !shareOfWindow(run) {
			t.Errorf("%s: %+v, %+v over a window of %v s, the last reply ended at %v", name, run.Requests, run.Rates, run.WindowS, last)
		}
	}
}

func TestOptionsThatMakeNoRun(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"two loops":  func(o *Options) { o.Rate = 5 },
		"no loop":    func(o *Options) { o.Clients = 0 },
		"no end":     func(o *Options) { o.Count = 0 },
		"no keys":    func(o *Options) { o.Keys = nil },
		"no model":   func(o *Options) { o.Template.Model = "" },
		"no timeout": func(o *Options) { o.Timeout = 0 },
		"no turns":   func(o *Options) { o.Shape.Turns = 0 },
		"think":      func(o *Options) { o.Shape.Think = time.Second },
		"constant":   func(o *Options) { o.Constant = true },
		"header":     func(o *Options) { o.SessionHeader = "a: b" },
		"extra":      func(o *Options) { o.Template.Extra = []byte("[") },
	} {
		o := options(t, &fake{}, protocol.Chat)
		change(&o)
		if _, err := Run(t.Context(), o, Watch{}); err == nil {
			t.Errorf("%s: it ran", name)
		}
	}
}

// Collect's records say what the server sent, in events and in pieces.
func TestRecordsCountWhatTheServerSent(t *testing.T) {
	const words = 5
	o := options(t, &fake{pause: time.Millisecond}, protocol.Messages)
	o.Shape.Output = lengths(t, fmt.Sprint(words))
	run, records, err := Collect(t.Context(), o, true)
	if err != nil || len(records) != 12 || run.Requests.Succeeded != 12 {
		t.Fatalf("%d records, %+v, error %v", len(records), run.Requests, err)
	}
	paused := false // between the header and the first event, as far as a busy machine lets it be seen
	for _, r := range records {
		body := 0
		for _, event := range (asked{Path: protocol.Messages.Path()}).events() {
			body += len(event)
		}
		if r.Events != words+3 || r.Outputs != words || r.OutputTokens != words || r.Chunks != words+3 || r.Bytes < body {
			t.Errorf("%+v", r)
		}
		if r.Answered < r.Sent || r.First < r.Answered || r.Last < r.First || r.End < r.Last || r.Gaps != nil {
			t.Errorf("sent %v, answered %v, first %v, last %v, end %v", r.Sent, r.Answered, r.First, r.Last, r.End)
		}
		paused = paused || r.First >= r.Answered+time.Millisecond
	}
	if !paused {
		t.Error("no first event came after the pause behind its header")
	}
}

func TestEveryRequestHasTheBodyThatIsGiven(t *testing.T) {
	f := &fake{}
	o := options(t, f, protocol.Messages)
	o.Body = []byte(`{"model":"mine","max_tokens":2,"stream":true,"messages":[]}`)
	if _, records, err := Collect(t.Context(), o, true); err != nil || records[0].OutputTokens != 2 {
		t.Fatalf("%+v, error %v", records, err)
	}
	for _, a := range f.requests() {
		if a.Body.Model != "mine" || len(a.Body.Messages) != 0 {
			t.Errorf("asked %+v", a.Body)
		}
	}
}

func TestStrictRunsEndWithTheFirstFailure(t *testing.T) {
	cases := map[string]func(w http.ResponseWriter){
		"429":          func(w http.ResponseWriter) { http.Error(w, "slow down", http.StatusTooManyRequests) },
		"message_stop": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/event-stream") },
	}
	for want, reply := range cases {
		f := &fake{before: func(w http.ResponseWriter, _ *http.Request, _ asked) bool {
			reply(w)
			return true
		}}
		o := options(t, f, protocol.Messages)
		o.Count, o.Duration = 0, time.Hour
		if _, _, err := Collect(t.Context(), o, true); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	f := &fake{before: func(_ http.ResponseWriter, r *http.Request, _ asked) bool {
		cancel()
		<-r.Context().Done()
		return true
	}}
	if _, _, err := Collect(ctx, options(t, f, protocol.Messages), true); !errors.Is(err, context.Canceled) {
		t.Errorf("a run without a reply: %v", err)
	}
}
