package soak

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"corenode/bench/proc"
)

// TestASampleIsDueWhileTheKeyIsReplaced: the command, which waits for the traffic's pause in the end, and the sample, which
// waits for the command, do not wait for each other.
func TestASampleIsDueWhileTheKeyIsReplaced(t *testing.T) {
	clients, err := newTraffic("http://127.0.0.1:1", "old", 1)
	if err != nil {
		t.Fatal(err)
	}
	m := &run{}
	m.mu.Lock() // a command runs
	sampled, replaced := make(chan error, 1), make(chan struct{})
	go func() { sampled <- m.still(clients, func() error { return nil }) }()
	time.Sleep(10 * time.Millisecond) // mostly it waits by then
	go func() {
		clients.setKey("new")
		close(replaced)
	}()
	select {
	case <-replaced:
	case <-time.After(time.Minute):
		t.Fatal("the key is never replaced")
	}
	m.mu.Unlock()
	if err := <-sampled; err != nil || clients.key != "new" {
		t.Errorf("%v, the key is %s", err, clients.key)
	}
}

// bodies are answers with status 200 of every path, streamed or not, and whether they are whole.
var bodies = []struct {
	name, path string
	stream     bool
	body       string
	whole      bool
}{
	{"messages", "/v1/messages", true, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", true},
	{"messages that fail", "/v1/messages", true, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n" +
		"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"api_error\",\"message\":\"broken\"}}\n\n", false},
	{"messages cut off", "/v1/messages", true, "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\n", false},
	{"a message", "/v1/messages", false, `{"type":"message","content":[]}`, true},
	{"no message", "/v1/messages", false, `{"type":"error","error":{"message":"broken"}}`, false},
	{"chat", "/v1/chat/completions", true, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", true},
	{"chat that fails", "/v1/chat/completions", true, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n" +
		"data: {\"error\":{\"message\":\"broken\"}}\n\ndata: [DONE]\n\n", false},
	{"a completion", "/v1/chat/completions", false, `{"choices":[{"message":{"content":"a"}}]}`, true},
	{"no completion", "/v1/chat/completions", false, `{"error":{"message":"broken"}}`, false},
	{"a response in events", "/v1/responses", true, ": wait\n\nevent: response.created\n" +
		"data: {\"type\":\"response.created\",\"response\":{\"status\":\"in_progress\",\"error\":null}}\n\nevent: response.completed\n" +
		"data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"error\":null}}\n\n", true},
	{"a response whose tokens are spent", "/v1/responses", true, "event: response.incomplete\n" +
		"data: {\"type\":\"response.incomplete\",\"response\":{\"status\":\"incomplete\"}}\n\n", true},
	{"a response that fails", "/v1/responses", true, "event: response.failed\n" +
		"data: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"message\":\"broken\"}}}\n\n", false},
	{"a response with an error", "/v1/responses", true, "event: error\ndata: {\"type\":\"error\",\"message\":\"broken\"}\n\n", false},
	{"a response cut off", "/v1/responses", true, "event: response.created\ndata: {\"type\":\"response.created\"}\n\n", false},
	{"a response cut off in an event", "/v1/responses", true, "event: response.completed\ndata: {\"type\":\"resp", false},
	{"a response", "/v1/responses", false, `{"object":"response","status":"incomplete","error":null}`, true},
	{"a failed response", "/v1/responses", false, `{"object":"response","status":"failed","error":{"message":"broken"}}`, false},
	{"no response", "/v1/responses", false, `{"error":{"message":"broken"}}`, false},
	{"no JSON", "/v1/responses", false, "ok", false},
}

// TestAnswersThatFailOnTheirWayAreWrong: the status of all is 200 and their bodies end as bodies do.
func TestAnswersThatFailOnTheirWayAreWrong(t *testing.T) {
	for _, c := range bodies {
		if err := ended(c.path, c.stream, []byte(c.body)); (err == nil) != c.whole {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestRequestsAreCountedByTheirEnd: of a server whose every answer begins well and fails, those are aborted that were left
// and the others wrong; refusals stay refusals, and texts that differ each time are bounded.
func TestRequestsAreCountedByTheirEnd(t *testing.T) {
	count := func(n, status int, broken bool) (c Counts, wrong int64) {
		var asked atomic.Int64 // a client that left may leave its question to be answered beside the next
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			question, _ := io.ReadAll(r.Body) // of a client that left there may be no more
			stream := strings.Contains(string(question), `"stream":true`)
			w.WriteHeader(status)
			for _, c := range bodies {
				if c.path == r.URL.Path && c.stream == stream && c.whole != broken && (c.whole || strings.Contains(c.body, "broken")) {
					io.WriteString(w, strings.ReplaceAll(c.body, "broken", fmt.Sprint("broken ", asked.Add(1))))
					return
				}
			}
		}))
		defer server.Close()
		clients, err := newTraffic(server.URL, "key", 1)
		if err != nil {
			t.Fatal(err)
		}
		defer clients.pool.Close()
		r := rand.New(rand.NewPCG(1, 1))
		for turn := range n {
			clients.request(t.Context(), r, turn)
		}
		for _, n := range clients.counts.Wrong {
			wrong += n
		}
		return clients.counts, wrong
	}
	const all = 3 * wrongMax
	failed, wrong := count(all, http.StatusOK, true)
	if failed.Whole != 0 || failed.Aborted == 0 || failed.Aborted+wrong != all || len(failed.Wrong) != wrongMax+1 {
		t.Errorf("of %d answers that fail: %d wrong under %d texts, %+v", all, wrong, len(failed.Wrong), failed)
	}
	if well, wrong := count(30, http.StatusOK, false); wrong != 0 || well.Whole == 0 || well.Whole+well.Aborted != 30 || well.Aborted == 0 {
		t.Errorf("of 30 answers that end well: %d wrong, %+v", wrong, well)
	}
	refused, wrong := count(30, http.StatusTooManyRequests, true)
	if wrong != 0 || refused.Whole != 0 || refused.Refused+refused.Aborted != 30 || refused.Refused == 0 {
		t.Errorf("of 30 refusals: %d wrong, %+v", wrong, refused)
	}
	if other, wrong := count(30, http.StatusInternalServerError, true); other.Whole != 0 || wrong+other.Aborted != 30 || wrong == 0 {
		t.Errorf("of 30 answers with status 500: %d wrong, %+v", wrong, other)
	}
}

// TestASoakOfANodeThatLogsAnErrorFails: the lines are in the report.
func TestASoakOfANodeThatLogsAnErrorFails(t *testing.T) {
	r := Report{Sound: true, Counts: Counts{Whole: 1, Aborted: 1}, Swaps: 1, Reloads: 1, Keys: 1, Trends: []Trend{{Flat: true}}}
	if !r.Met() {
		t.Fatalf("nothing is wrong with %+v", r)
	}
	r.Errors, r.Logged = 2, []string{"the first line"}
	var out bytes.Buffer
	if err := r.Print(&out); r.Met() || err != nil || !strings.Contains(out.String(), "2 errors, first:\nthe first line\n") {
		t.Errorf("met %v, %v:\n%s", r.Met(), err, out.String())
	}
}

// TestCommandsAreReadApart: what a command says beside its answer is in its error, and no part of the answer.
func TestCommandsAreReadApart(t *testing.T) {
	program := filepath.Join(t.TempDir(), "node")
	m := &run{o: Options{Node: program}, node: &proc.Node{}}
	for status, want := range map[string]string{"0": "", "3": "a remark"} {
		text := "#!/bin/sh\necho a remark >&2\necho '{\"key\": \"sk\"}'\nexit " + status + "\n"
		if err := os.WriteFile(program, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		said, err := m.command(t.Context(), "key", "create")
		if want == "" && (err != nil || said != `{"key": "sk"}`) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("status %s: it said %q, %v", status, said, err)
		}
	}
}
