package server

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/actors/account"
	"corenode/engine"
	"corenode/engine/grammar"
	"corenode/engine/messages"
	"corenode/extensions/logtest"
	"corenode/wasm/abi"
)

const (
	goodKey  = "sk-good-000000000000"
	otherKey = "sk-other-00000000000"
	freeKey  = "sk-free-000000000000" // of an account without limits
	ask      = `{"model":"core-1.1","max_tokens":16,"messages":[{"role":"user","content":"hi"}]}`
	askSSE   = `{"model":"core-1.1","max_tokens":16,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// TestMain fails when a test leaves a goroutine of this package behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if left := leaked(); code == 0 && left != "" {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the stacks that still run our code, after giving them time to end.
func leaked() string {
	var left string
	for range 100 {
		left = ""
		buf := make([]byte, 1<<20)
		for stack := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
			if strings.Contains(stack, "corenode/node/server.") && !strings.Contains(stack, "TestMain") {
				left += stack + "\n\n"
			}
		}
		if left == "" {
			return ""
		}
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// fakeBackend admits everything it is not told to refuse, and plays a script
// into each stream's output.
type fakeBackend struct {
	script   func(*fakeStream)
	refuse   error  // of Generate
	entering func() // before a permit is given; may be nil
	noEntry  error  // of Enter
	limits   account.Limits
	held     func() chan error
	settle   error
	streams  chan *fakeStream
	// unsettled, uncertain and withholding become those of its streams.
	unsettled, uncertain chan struct{}
	withholding          func(*fakeStream)
	entered              atomic.Int32
	calls                atomic.Int32
}

func newFakeBackend(script func(*fakeStream)) *fakeBackend {
	return &fakeBackend{script: script, streams: make(chan *fakeStream, 1024), limits: account.Limits{
		RequestsLimit: 4, RequestsRemaining: 3, TokensLimit: 1000, TokensRemaining: 900,
		RequestsReset: time.Now().Add(time.Second), TokensReset: time.Now().Add(6 * time.Minute)}}
}

func (b *fakeBackend) Generate(c account.Call) (Stream, account.Limits, error) {
	b.calls.Add(1)
	if b.refuse != nil {
		return nil, b.limits, b.refuse
	}
	s := &fakeStream{call: c, out: engine.NewOutput(64), cancelled: make(chan struct{}), ended: make(chan struct{}), settleErr: b.settle,
		unsettled: b.unsettled, uncertain: b.uncertain, withholding: b.withholding}
	if !c.Request.Stream {
		s.out = engine.NewWholeOutput()
	}
	s.held = make(chan error, 1)
	if b.held != nil {
		s.held = b.held()
	} else {
		s.held <- nil
	}
	select {
	case b.streams <- s:
	default: // nobody looks
	}
	go func() {
		defer close(s.ended)
		b.script(s)
	}()
	return s, b.limits, nil
}

func (b *fakeBackend) Enter(account.Account, account.LimitedKey) (func(), account.Limits, error) {
	if b.noEntry != nil {
		return nil, b.limits, b.noEntry
	}
	if b.entering != nil {
		b.entering()
	}
	b.entered.Add(1)
	return func() { b.entered.Add(-1) }, b.limits, nil
}

func (b *fakeBackend) Limits(account.Account, account.LimitedKey) account.Limits { return b.limits }

// fakeStream behaves like an admitted job: Settle waits for its end.
type fakeStream struct {
	call      account.Call
	out       *engine.Output
	held      chan error
	once      sync.Once
	cancelled chan struct{}
	ended     chan struct{}
	settleErr error
	settled   account.Settled
	settles   atomic.Int32
	cancels   atomic.Int32
	withheld  atomic.Bool
	shown     atomic.Bool
	// unsettled and uncertain stand for a ledger that does not answer: the channels
	// of Settle and Withhold are not closed before they are.
	unsettled, uncertain chan struct{}
	withholding          func(*fakeStream) // is called by Withhold; may be nil
}

func (s *fakeStream) Output() *engine.Output { return s.out }
func (s *fakeStream) Held() <-chan error     { return s.held }
func (s *fakeStream) Cancel() {
	s.cancels.Add(1)
	s.once.Do(func() { close(s.cancelled) })
}

func (s *fakeStream) Stopped() *abi.Error { return nil }
func (s *fakeStream) Shown()              { s.shown.Store(true) }

func (s *fakeStream) Withhold() <-chan struct{} {
	s.withheld.Store(true)
	if s.withholding != nil {
		s.withholding(s)
	}
	return closedUnless(s.uncertain)
}

func (s *fakeStream) Done() <-chan struct{} { return s.ended }

func (s *fakeStream) Settle() <-chan struct{} {
	<-s.ended
	s.settles.Add(1)
	return closedUnless(s.unsettled)
}

// closedUnless returns the channel, or a closed one without one.
func closedUnless(c chan struct{}) <-chan struct{} {
	if c == nil {
		c = make(chan struct{})
		close(c)
	}
	return c
}

func (s *fakeStream) Outcome() (account.Settled, error) {
	if s.settled.Reason == "" {
		s.settled = account.Settled{Charge: 42, Usage: abi.Usage{InputUncached: 3, CacheRead: 1, Output: 2}, Reason: account.Finished,
			Queue: time.Millisecond, Prefill: time.Millisecond, Decode: time.Millisecond}
	}
	return s.settled, s.settleErr
}

// cancelledAs ends a script the way the engine ends a cancelled job.
func (s *fakeStream) cancelledAs(usage abi.Usage, queue, prefill, decode time.Duration) {
	s.settled = account.Settled{Usage: usage, Reason: account.Canceled, Queue: queue, Prefill: prefill, Decode: decode}
	s.out.Push(abi.Event{Kind: abi.EventError, Err: &abi.Error{Kind: abi.Canceled, Msg: "cancelled"}})
}

// say is the script of an answer of the given pieces of text.
func say(pieces ...string) func(*fakeStream) {
	return func(s *fakeStream) {
		s.out.Push(begin()...)
		for _, p := range pieces {
			s.out.Push(delta(p))
		}
		s.out.Push(end()...)
	}
}

func begin() []abi.Event {
	return []abi.Event{{Kind: abi.EventStart, Usage: abi.Usage{InputUncached: 3, CacheRead: 1}},
		{Kind: abi.EventBlockStart, Block: abi.BlockText}}
}

func delta(s string) abi.Event {
	return abi.Event{Kind: abi.EventDelta, Block: abi.BlockText, Text: s}
}

func end() []abi.Event {
	return []abi.Event{{Kind: abi.EventBlockStop, Block: abi.BlockText},
		{Kind: abi.EventEnd, Stop: abi.StopEndTurn, Usage: abi.Usage{InputUncached: 3, CacheRead: 1, Output: 2}}}
}

// fakeModel makes one token per byte of text.
type fakeModel struct {
	id      string
	prepare func()           // may be nil; runs inside Prepare and Count
	form    *grammar.Grammar // of every answer; may be nil
}

func (m fakeModel) Info() engine.Info {
	return engine.Info{ID: m.id, DisplayName: "Model " + m.id, ContextLength: 262144, OutputMax: 131072, Created: 1_700_000_000}
}

func (m fakeModel) Prepare(_ string, q *messages.Request) (*engine.Request, error) {
	if m.prepare != nil {
		m.prepare()
	}
	n, _ := m.Count(q)
	if n > 1000 {
		return nil, &abi.Error{Kind: abi.InvalidRequest, Msg: "prompt is too long", Param: "messages"}
	}
	return &engine.Request{Model: m.id, Stream: q.Stream, Prompt: make([]int32, n), MaxTokens: q.MaxTokens, Grammar: m.form}, nil
}

func (m fakeModel) Count(q *messages.Request) (int, error) {
	n := 0
	for _, msg := range q.Messages {
		for _, b := range msg.Blocks {
			n += len(b.Text)
		}
	}
	return n, nil
}

type fakeCatalog map[string]Model

func (c fakeCatalog) Model(id string) (Model, bool) {
	m, ok := c[id]
	return m, ok
}

func (c fakeCatalog) Models() (infos []engine.Info) {
	for _, m := range c {
		infos = append(infos, m.Info())
	}
	return infos
}

func testKeys() *directory {
	accounts := []account.Account{
		{ID: "acct_good", Name: "good", Concurrency: 4, TokensPerMinute: 1000},
		{ID: "acct_other", Name: "other", Concurrency: 1, Models: []string{"core-1.1-mini"}},
		{ID: "acct_free", Name: "free"},
		{ID: "acct_off", Name: "off", Disabled: true},
	}
	keys := []account.Key{
		{ID: "key_good", AccountID: "acct_good", Hash: sha256.Sum256([]byte(goodKey))},
		{ID: "key_other", AccountID: "acct_other", Hash: sha256.Sum256([]byte(otherKey))},
		{ID: "key_free", AccountID: "acct_free", Hash: sha256.Sum256([]byte(freeKey))},
		{ID: "key_revoked", AccountID: "acct_good", Hash: sha256.Sum256([]byte("sk-revoked")), Revoked: time.Now()},
		{ID: "key_expired", AccountID: "acct_good", Hash: sha256.Sum256([]byte("sk-expired")), Expires: time.Now().Add(-time.Second)},
		{ID: "key_off", AccountID: "acct_off", Hash: sha256.Sum256([]byte("sk-disabled"))},
		{ID: "key_orphan", AccountID: "acct_none", Hash: sha256.Sum256([]byte("sk-orphan"))},
	}
	return directoryOf(accounts, keys)
}

// node is a server on loopback.
type node struct {
	t       testing.TB
	s       *Server
	backend *fakeBackend
	addr    string
	admin   string
	log     *logtest.Lines
}

// bounded has a bound in each field that has no default.
func bounded(c Config) Config {
	c.BodyMax, c.BodiesMax, c.HeaderMax = cmp.Or(c.BodyMax, 32<<20), cmp.Or(c.BodiesMax, 512<<20), cmp.Or(c.HeaderMax, 16<<10)
	c.ReadTimeout, c.BodyTimeout = cmp.Or(c.ReadTimeout, 10*time.Second), cmp.Or(c.BodyTimeout, 5*time.Minute)
	c.IdleTimeout, c.StallTimeout = cmp.Or(c.IdleTimeout, 75*time.Second), cmp.Or(c.StallTimeout, 5*time.Minute)
	c.RequestTimeout, c.KeepAlive = cmp.Or(c.RequestTimeout, 600*time.Second), cmp.Or(c.KeepAlive, 10*time.Second)
	c.PreparesMax, c.ConnectionsMax = cmp.Or(c.PreparesMax, 64), cmp.Or(c.ConnectionsMax, 16384)
	return c
}

// start runs a node until the test ends.
func start(t testing.TB, cfg Config, backend *fakeBackend, change ...func(*Deps)) *node {
	t.Helper()
	n := &node{t: t, backend: backend, log: &logtest.Lines{}}
	if cfg.AdminToken == "" {
		cfg.AdminToken = "admin-token"
	}
	deps := Deps{Backend: backend, Keys: testKeys(), Secret: []byte("secret"),
		Catalog: fakeCatalog{"core-1.1": fakeModel{id: "core-1.1"}, "core-1.1-mini": fakeModel{id: "core-1.1-mini"}},
		Log:     slog.New(slog.NewJSONHandler(n.log, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for _, f := range change {
		f(&deps)
	}
	s, err := New(bounded(cfg), deps)
	if err != nil {
		t.Fatal(err)
	}
	n.s = s
	n.addr = n.listen(s.Serve)
	n.admin = n.listen(s.ServeAdmin)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		if used := s.bodies.used(); used != 0 {
			t.Errorf("%d body bytes were never given back", used)
		}
		if count := s.requests.count(); count != 0 {
			t.Errorf("%d requests never ended", count)
		}
		if backend.entered.Load() != 0 {
			t.Errorf("%d permits were never given back", backend.entered.Load())
		}
	})
	return n
}

func (n *node) listen(serve func(net.Listener) error) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		n.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(ln) }()
	n.t.Cleanup(func() {
		if err := <-done; err != nil {
			n.t.Errorf("serve: %v", err)
		}
	})
	n.t.Cleanup(func() { ln.Close() })
	return ln.Addr().String()
}

// dial opens a connection that cannot hang a test.
func (n *node) dial() net.Conn {
	n.t.Helper()
	return n.dialTo(n.addr)
}

func (n *node) dialTo(addr string) net.Conn {
	n.t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	return c
}

// unheard is the connection of an exchange that no request began: nobody reads it.
func unheard() *conn {
	c, _ := net.Pipe()
	return &conn{Conn: c, socket: -1}
}

// dialT is dial for a test within a test.
func (n *node) dialT(t *testing.T) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

// reply is a response read whole.
type reply struct {
	*http.Response
	body string
	cut  error // why the body ended early, nil if it did not
}

// raw sends bytes as they are and reads one response.
func (n *node) raw(request string) reply {
	n.t.Helper()
	c := n.dial()
	if _, err := io.WriteString(c, request); err != nil {
		n.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	return read(n.t, bufio.NewReader(c), method)
}

func read(t testing.TB, r *bufio.Reader, method string) reply {
	t.Helper()
	got, err := tryRead(r, method)
	if err != nil {
		t.Fatalf("read response: %v", err)
	}
	return got
}

// tryRead is read for a connection that may end without an answer.
func tryRead(r *bufio.Reader, method string) (reply, error) {
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		return reply{}, err
	}
	b, err := io.ReadAll(resp.Body)
	return reply{resp, string(b), err}, nil
}

// readPast reads an answer, and calls seen once its body has had a text.
func readPast(t testing.TB, r *bufio.Reader, text string, seen func()) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: "POST"})
	if err != nil {
		t.Fatalf("read response: %v", err)
	}
	var body strings.Builder
	for b := make([]byte, 1); !strings.Contains(body.String(), text); body.Write(b) {
		if _, err := io.ReadFull(resp.Body, b); err != nil {
			t.Fatalf("it ends without %q: %q, %v", text, body.String(), err)
		}
	}
	seen()
	rest, err := io.ReadAll(resp.Body)
	return reply{resp, body.String() + string(rest), err}
}

// request writes out a request with the given header lines.
func request(method, path, body string, headers ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: node\r\n", method, path)
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&b, "Content-Length: %d\r\n", len(body))
	}
	return b.String() + "\r\n" + body
}

const (
	withKey  = "X-Api-Key: " + goodKey
	withJSON = "Content-Type: application/json"
)

// post asks for a message with a good key.
func (n *node) post(body string, headers ...string) reply {
	n.t.Helper()
	return n.raw(request("POST", "/v1/messages", body, append([]string{withKey, withJSON}, headers...)...))
}

// errorType reads error.type of a messages envelope.
func (r reply) errorType(t testing.TB) string {
	t.Helper()
	var v struct {
		Type  string
		Error struct{ Type, Message, Code string }
	}
	if err := json.Unmarshal([]byte(r.body), &v); err != nil || v.Type != "error" {
		t.Errorf("not an error envelope (%v): %q", err, r.body)
	}
	return v.Error.Type
}

// waitFor polls until ok or the test's patience ends.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("never happened: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// TestSilentConnection: a connection opened ahead of time and never used is
// closed without a word, so that no client reads it as an answer.
func TestSilentConnection(t *testing.T) {
	n := start(t, Config{ReadTimeout: 50 * time.Millisecond}, newFakeBackend(nil))
	c, err := net.Dial("tcp", n.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got, err := io.ReadAll(c)
	if err != nil || len(got) != 0 {
		t.Errorf("read %q, %v; want silence", got, err)
	}
}
