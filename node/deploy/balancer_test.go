// Package deploy_test tries the configurations of balancers that are beside it.
package deploy_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/proc"
)

// waitMax bounds everything that these tests wait for.
const waitMax = 20 * time.Second

// tokensMax makes a stream that waitMax does not suffice for where each chunk waits 200 ms, as the kernel has an end that is corked wait.
const tokensMax = 200

// backend stands for a node behind a balancer.
type backend struct {
	*httptest.Server
	name    string
	down    atomic.Bool  // it is not ready, and refuses
	posts   atomic.Int64 // requests that arrived
	left    chan struct{}
	release chan struct{} // lets a stream go on
}

// balancer is one that is tried.
type balancer struct {
	program, file string
	// active says that it asks whether nodes are ready.
	active bool
	args   func(config string) []string
}

var balancers = []balancer{
	{"haproxy", "haproxy.cfg", true, func(config string) []string { return []string{"-db", "-f", config} }},
	{"nginx", "nginx.conf", false, func(config string) []string {
		return []string{"-c", config, "-p", filepath.Dir(config), "-e", "stderr", "-g", "daemon off; pid nginx.pid;"}
	}},
}

// refusal is what a node says that does nothing of a request.
const refusal = "refused"

// newBackend answers as a node does: /readyz, a stream at /stream, one without an end at /endless, at /tokens one of tokensMax
// chunks that waits for release before each, at /stop as one whose request was ended by an operator, and its name otherwise.
func newBackend(t *testing.T, name string) *backend {
	b := &backend{name: name, left: make(chan struct{}, 8), release: make(chan struct{})}
	b.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case b.down.Load():
			if r.Header.Get("X-Refusal") == "redirect" {
				w.Header().Set("X-Accel-Redirect", "@refused")
			}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, refusal)
			return
		case r.URL.Path == "/readyz":
			return
		}
		b.posts.Add(1)
		_, _ = io.Copy(io.Discard, r.Body) // a client that leaves is seen below
		switch r.URL.Path {
		case "/stream", "/endless":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\n\n", name)
			w.(http.Flusher).Flush()
			release := b.release
			if r.URL.Path == "/endless" {
				release = nil // that is another stream's
			}
			select {
			case <-release:
				fmt.Fprint(w, "data: end\n\n")
			case <-r.Context().Done():
				b.left <- struct{}{}
			}
		case "/tokens":
			w.(http.Flusher).Flush()
			for range tokensMax {
				<-b.release
				fmt.Fprint(w, ".")
				w.(http.Flusher).Flush()
			}
		case "/break":
			panic(http.ErrAbortHandler)
		case "/stop":
			w.Header().Set("X-Should-Retry", "false")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, name)
		default:
			fmt.Fprint(w, name)
		}
	}))
	b.Listener.Close()
	b.Listener = listen(t)
	b.Start()
	t.Cleanup(b.Close)
	return b
}

// listen takes an address that stays free when it is closed.
func listen(t *testing.T) net.Listener {
	address, err := proc.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// start runs a balancer with its configuration before three backends, and returns its base URL.
func start(t *testing.T, of balancer) (base string, backends []*backend) {
	program, err := exec.LookPath(of.program)
	if err != nil {
		if program = "/usr/sbin/" + of.program; !exists(program) {
			t.Skip(of.program + " is not installed (apt-get install " + of.program + ")")
		}
	}
	text, err := os.ReadFile(of.file)
	if err != nil {
		t.Fatal(err)
	}
	config := string(text)
	free := listen(t)
	address := free.Addr().String()
	free.Close()
	config = strings.ReplaceAll(config, "127.0.0.1:8080", address)
	for i, name := range []string{"a", "b", "c"} {
		b := newBackend(t, name)
		backends = append(backends, b)
		config = strings.ReplaceAll(config, fmt.Sprintf("127.0.0.1:%d", 8081+i), b.Listener.Addr().String())
	}
	dir := t.TempDir()
	path := filepath.Join(dir, of.file)
	for _, folder := range []string{"logs", "body"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(program, of.args(path)...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // it may have ended
		stuck := time.AfterFunc(waitMax, func() { _ = cmd.Process.Kill() })
		_ = cmd.Wait() // ended by a signal
		stuck.Stop()
		if t.Failed() {
			t.Log(said.String())
		}
	})
	base = "http://" + address
	wait(t, "the balancer", func() bool { return ask(t, base, "/", "start", "k") != "" })
	return base, backends
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for until := time.Now().Add(waitMax); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("waited %v for %s", waitMax, what)
		}
	}
}

// post asks for a path in a session, which may be empty, with a key.
func post(t *testing.T, ctx context.Context, base, path, session, key string) (*http.Response, error) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	if session != "" {
		request.Header.Set("X-Session-Id", session)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	return http.DefaultClient.Do(request)
}

// ask returns which backend answered; "" where none did.
func ask(t *testing.T, base, path, session, key string) string {
	t.Helper()
	answer, err := post(t, t.Context(), base, path, session, key)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(text)
}

// whole is all of an answer.
func whole(t *testing.T, base, path string) (status int, header http.Header, text string) {
	t.Helper()
	answer, err := post(t, t.Context(), base, path, "s", "k")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, answer.Header, string(body)
}

func each(t *testing.T, try func(t *testing.T, of balancer, base string, backends []*backend)) {
	for _, of := range balancers {
		t.Run(of.program, func(t *testing.T) {
			base, backends := start(t, of)
			try(t, of, base, backends)
		})
	}
}

// TestAffinity: a session stays at a node, and so does an account without one; many are spread.
func TestAffinity(t *testing.T) {
	each(t, func(t *testing.T, _ balancer, base string, _ []*backend) {
		bySession, byKey := map[string]bool{}, map[string]bool{}
		for i := range 100 {
			name := fmt.Sprint("name", i)
			session, key := ask(t, base, "/", name, "k"), ask(t, base, "/", "", name)
			for j := range 3 {
				if again := ask(t, base, "/", name, fmt.Sprint("other", j)); again != session || again == "" {
					t.Fatalf("%s went to %q, then to %q", name, session, again)
				}
				if again := ask(t, base, "/", "", name); again != key || again == "" {
					t.Fatalf("the account %s went to %q, then to %q", name, key, again)
				}
			}
			bySession[session], byKey[key] = true, true
		}
		if len(bySession) != 3 || len(byKey) != 3 {
			t.Errorf("sessions go to %v, accounts to %v", bySession, byKey)
		}
	})
}

// TestReadiness: a node that is not ready answers nothing, and what it should answer once it is ready again.
func TestReadiness(t *testing.T) {
	each(t, func(t *testing.T, of balancer, base string, backends []*backend) {
		at := ask(t, base, "/", "s", "k")
		node := backends[at[0]-'a']
		node.down.Store(true)
		if of.active {
			wait(t, "the check", func() bool { return ask(t, base, "/", "s", "k") != "" })
		}
		for range 5 {
			if got := ask(t, base, "/", "s", "k"); got == "" || got == at {
				t.Errorf("while it is not ready %q answers", got)
			}
		}
		node.down.Store(false)
		wait(t, "it to be used again", func() bool { return ask(t, base, "/", "s", "k") == at })
	})
}

// TestOneIsLeft: while one node cannot be reached and another one drains, the third answers.
func TestOneIsLeft(t *testing.T) {
	each(t, func(t *testing.T, of balancer, base string, backends []*backend) {
		backends[0].CloseClientConnections()
		backends[0].Listener.Close()
		for _, roles := range [][2]*backend{{backends[1], backends[2]}, {backends[2], backends[1]}} {
			draining, left := roles[0], roles[1]
			draining.down.Store(true)
			all := func() bool {
				for i := range 30 { // whatever the order in which nodes are tried
					if got := ask(t, base, "/", fmt.Sprint("s", i), "k"); got != left.name {
						t.Logf("session %d: %q answers", i, got)
						return false
					}
				}
				return true
			}
			if of.active {
				wait(t, "the check", all)
			}
			if !all() {
				t.Error("a node that is ready does not answer")
			}
			draining.down.Store(false)
			if of.active {
				wait(t, "it to be used again", func() bool { return !all() })
			}
		}
	})
}

// TestBegunAfterRefusal: what one node refused and another one has begun is not sent to a third, whether its connection
// breaks or it is ended there.
func TestBegunAfterRefusal(t *testing.T) {
	each(t, func(t *testing.T, of balancer, base string, backends []*backend) {
		session := 0
		for ask(t, base, "/", fmt.Sprint("s", session), "k") != backends[0].name {
			session++
		}
		backends[0].down.Store(true)
		if of.active {
			wait(t, "the check", func() bool { return ask(t, base, "/", fmt.Sprint("s", session), "k") != "" })
		}
		for _, path := range []string{"/stop", "/break"} {
			before := backends[1].posts.Load() + backends[2].posts.Load()
			if got := ask(t, base, path, fmt.Sprint("s", session), "k"); got != "" {
				t.Errorf("%s became %q", path, got)
			}
			if after := backends[1].posts.Load() + backends[2].posts.Load(); after != before+1 {
				t.Errorf("%s was begun %d times", path, after-before)
			}
		}
	})
}

// TestEndedByOperator: a node's 503 for what it has begun reaches the client as it is, and no other node gets the request.
func TestEndedByOperator(t *testing.T) {
	each(t, func(t *testing.T, _ balancer, base string, backends []*backend) {
		before := int64(0)
		for _, b := range backends {
			before += b.posts.Load()
		}
		status, header, text := whole(t, base, "/stop")
		if status != http.StatusServiceUnavailable || header.Get("X-Should-Retry") != "false" || len(text) != 1 {
			t.Errorf("the client got %d %v: %q", status, header, text)
		}
		after := int64(0)
		for _, b := range backends {
			after += b.posts.Load()
		}
		if after != before+1 {
			t.Errorf("the request was begun %d times", after-before)
		}
	})
}

// TestAllRefuse: what every node refuses ends with the words of a node, where the balancer lets it try.
func TestAllRefuse(t *testing.T) {
	each(t, func(t *testing.T, of balancer, base string, backends []*backend) {
		for _, b := range backends {
			b.down.Store(true)
		}
		status, header, text := whole(t, base, "/")
		if status != http.StatusServiceUnavailable || header.Get("X-Accel-Redirect") != "" {
			t.Errorf("the client got %d %v: %q", status, header, text)
		}
		if !of.active && (text != refusal || header.Get("Retry-After") != "1") {
			t.Errorf("not a node's words: %v, %q", header, text)
		}
	})
}

// TestRetries: what no node has seen goes to another one; what one has seen is not sent again.
func TestRetries(t *testing.T) {
	each(t, func(t *testing.T, _ balancer, base string, backends []*backend) {
		before := int64(0)
		for _, b := range backends {
			before += b.posts.Load()
		}
		if got := ask(t, base, "/break", "s", "k"); got != "" {
			t.Errorf("a connection that broke became %q", got)
		}
		after := int64(0)
		for _, b := range backends {
			after += b.posts.Load()
		}
		if after != before+1 {
			t.Errorf("a request was sent %d times", after-before)
		}
		at := ask(t, base, "/", "t", "k")
		if at == "" {
			at = ask(t, base, "/", "u", "k") // its node has just failed
		}
		gone := backends[at[0]-'a']
		gone.CloseClientConnections()
		gone.Listener.Close()
		for range 3 {
			if got := ask(t, base, "/", "t", "k"); got == "" || got == at {
				t.Errorf("%q answers for a node that cannot be reached", got)
			}
		}
	})
}

// TestStreams: what a node sends leaves at once, and a client that leaves is seen by the node.
func TestStreams(t *testing.T) {
	each(t, func(t *testing.T, _ balancer, base string, backends []*backend) {
		var streams sync.WaitGroup
		for i, path := range []string{"/stream", "/endless"} {
			streams.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), waitMax)
				defer cancel()
				answer, err := post(t, ctx, base, path, fmt.Sprint("s", i), "k")
				if err != nil {
					t.Error(err)
					return
				}
				defer answer.Body.Close()
				first := make([]byte, len("data: a\n\n"))
				if _, err := io.ReadFull(answer.Body, first); err != nil {
					t.Errorf("the beginning does not come before the end: %v", err)
					return
				}
				node := backends[first[len("data: ")]-'a']
				if path == "/endless" {
					cancel()
					select {
					case <-node.left:
					case <-time.After(waitMax):
						t.Error("the node does not see that the client has left")
					}
					return
				}
				select {
				case node.release <- struct{}{}:
				case <-ctx.Done():
				}
				rest, err := io.ReadAll(answer.Body)
				if err != nil || string(rest) != "data: end\n\n" {
					t.Errorf("the end: %q, %v", rest, err)
				}
			})
		}
		streams.Wait()
	})
}

// TestTokens: the tokens of a stream reach the client one by one, as the node sends them.
func TestTokens(t *testing.T) {
	each(t, func(t *testing.T, _ balancer, base string, backends []*backend) {
		ctx, cancel := context.WithTimeout(t.Context(), waitMax)
		defer cancel()
		node := backends[ask(t, base, "/", "s", "k")[0]-'a']
		answer, err := post(t, ctx, base, "/tokens", "s", "k")
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		defer close(node.release) // the backend ends, whatever has come
		for i := range tokensMax {
			node.release <- struct{}{}
			if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil {
				t.Fatalf("in %v came %d of %d tokens: %v", waitMax, i, tokensMax, err)
			}
		}
	})
}
