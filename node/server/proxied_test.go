package server

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"corenode/wasm/abi"
)

// byProxy are headers that proxies add to what they pass on.
var byProxy = []string{"X-Forwarded-For: 192.0.2.1", "x-forwarded-for: 192.0.2.1", "Via: 1.1 Caddy", "Forwarded: for=192.0.2.1"}

// TestHeadOfProxiedStream leaves no earlier than a proxy needs to see that the body of its client has ended.
func TestHeadOfProxiedStream(t *testing.T) {
	n := start(t, Config{}, newFakeBackend(say("x")))
	for _, header := range byProxy {
		for range 5 {
			c := n.dial()
			sent := time.Now()
			if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey, header)); err != nil {
				t.Fatal(err)
			}
			r := bufio.NewReader(c)
			if _, err := r.Peek(1); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(sent); took < 5*time.Millisecond {
				t.Errorf("%s: the head came %v after its request", header, took)
			}
			if r := read(t, r, "POST"); !strings.Contains(r.body, "message_stop") {
				t.Errorf("%s: %q", header, r.body)
			}
		}
	}
}

// TestOthersDoNotWait: direct streams, and what does not stream or has no chunks.
func TestOthersDoNotWait(t *testing.T) {
	n := start(t, Config{ProxyPause: time.Hour}, newFakeBackend(say("x")))
	old := strings.Replace(request("POST", "/v1/messages", askSSE, withKey, byProxy[0]), "HTTP/1.1", "HTTP/1.0", 1)
	for name, r := range map[string]reply{
		"direct": n.post(askSSE), "plain": n.post(ask, byProxy[0]), "HTTP/1.0": n.raw(old),
	} {
		if r.StatusCode != 200 || !strings.Contains(r.body, "x") {
			t.Errorf("%s: %d %q", name, r.StatusCode, r.body)
		}
	}
}

// TestWaitForProxyEnds when its client leaves and when the node ends; the answer is computed meanwhile.
func TestWaitForProxyEnds(t *testing.T) {
	backend := newFakeBackend(func(s *fakeStream) {
		s.out.Push(begin()...)
		<-s.cancelled
		s.cancelledAs(abi.Usage{InputUncached: 3}, 1, 1, 0)
	})
	n := start(t, Config{ProxyPause: time.Hour, WatchEvery: 10 * time.Millisecond}, backend)
	ask := func() (net.Conn, *fakeStream) {
		c := n.dial()
		if _, err := io.WriteString(c, request("POST", "/v1/messages", askSSE, withKey, byProxy[0])); err != nil {
			t.Fatal(err)
		}
		return c, <-backend.streams
	}
	leaves, left := ask()
	leaves.Close()
	waitFor(t, "it to be seen that the client left", func() bool { return strings.Contains(n.log.String(), `"status":499`) })
	if left.settles.Load() != 1 {
		t.Errorf("settled %d times", left.settles.Load())
	}
	stays, _ := ask()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := n.s.Drain(ctx); err != nil {
		t.Error(err)
	}
	r := read(t, bufio.NewReader(stays), "POST")
	if got := frames(t, r.body); got[len(got)-1] != "error" || !strings.Contains(r.body, "overloaded_error") {
		t.Errorf("%q", r.body)
	}
}
