package floor

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"corenode/bench/workload"
)

func listen(t *testing.T, serve func(net.Listener) error) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- serve(ln) }()
	t.Cleanup(func() {
		ln.Close()
		<-done
	})
	return ln.Addr().String()
}

// The client is that of Go's library: another implementation of HTTP.
func ask(t *testing.T, addr string, body []byte, accept string) (*http.Response, string) {
	req, err := http.NewRequest("POST", "http://"+addr+"/v1/messages", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("status %d, error %v, body %q", r.StatusCode, err, got)
	}
	return r, string(got)
}

func TestPassThroughGivesWhatTheMockGives(t *testing.T) {
	mock := listen(t, Mock)
	between := listen(t, func(ln net.Listener) error { return PassThrough(ln, mock) })
	for range 3 { // connections are kept and used again
		for name, addr := range map[string]string{"mock": mock, "pass-through": between} {
			r, got := ask(t, addr, workload.Messages(16, false), "application/json")
			if got != string(workload.Reply()) || r.Header.Get("Content-Type") != "application/json" {
				t.Errorf("%s: %q %q", name, r.Header, got)
			}
			r, got = ask(t, addr, workload.Messages(40, true), "text/event-stream")
			if n := strings.Count(got, "event: content_block_delta\n"); n != 40 || r.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s: %d deltas, header %q", name, n, r.Header)
			}
			if n := strings.Count(got, "event: "); n != 45 || !strings.Contains(got, "event: message_stop\n") {
				t.Errorf("%s: %d events, want 45 that end with message_stop", name, n)
			}
		}
	}
}

func TestPassThroughWithoutUpstreamIsA502(t *testing.T) {
	addr := listen(t, func(ln net.Listener) error { return PassThrough(ln, "127.0.0.1:1") })
	for _, accept := range []string{"application/json", "text/event-stream"} {
		req, _ := http.NewRequest("POST", "http://"+addr, strings.NewReader("{}"))
		req.Header.Set("Accept", accept)
		r, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != 502 {
			t.Errorf("%s: status %d", accept, r.StatusCode)
		}
	}
}
