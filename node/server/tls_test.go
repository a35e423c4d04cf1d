package server

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"corenode/extensions/logtest"
)

// certificateOf makes a pair for a listener of a test, and has what a client trusts it by.
func certificateOf(t *testing.T) (*Certificate, *x509.CertPool) {
	t.Helper()
	of := httptest.NewUnstartedServer(nil)
	of.StartTLS()
	defer of.Close()
	pair := of.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	if err := errors.Join(
		os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), 0o600),
		os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600)); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCertificate(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(of.Certificate())
	return c, pool
}

// overTLS sends a request whole, and then reads the answer.
func (n *node) overTLS(addr, request string, pool *x509.CertPool) reply {
	n.t.Helper()
	c := tls.Client(n.dialTo(addr), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
	if _, err := io.WriteString(c, request); err != nil {
		n.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	return read(n.t, bufio.NewReader(c), method)
}

// opened is how many connections a side has.
func (cs *connections) opened() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.open)
}

// checkUnasked compares what a node says and counts where nobody sent a request.
func (n *node) checkUnasked(what string) {
	n.t.Helper()
	if text := n.log.String(); strings.Contains(text, "unreadable") {
		n.t.Errorf("%s: %s", what, text)
	}
	var series strings.Builder
	n.s.WriteMetrics(&series)
	for line := range strings.Lines(series.String()) {
		for _, name := range []string{"corenode_requests_total{", "corenode_refusals_total{", "corenode_request_seconds_count"} {
			if strings.HasPrefix(line, name) && !strings.HasSuffix(line, " 0\n") {
				n.t.Errorf("%s: %s", what, line)
			}
		}
	}
}

// TestProbeOfAPort: who opens a connection and resets it, as some balancers probe a port, has made no request.
func TestProbeOfAPort(t *testing.T) {
	certificate, _ := certificateOf(t)
	for what, cfg := range map[string]Config{"plain": {}, "TLS": {Certificate: certificate, AdminCertificate: certificate}} {
		n := start(t, cfg, newFakeBackend(nil))
		for addr, cs := range map[string]*connections{n.addr: &n.s.conns, n.admin: &n.s.admins} {
			for range 8 {
				c := n.dialTo(addr).(*net.TCPConn)
				waitFor(t, "it is accepted", func() bool { return cs.opened() > 0 })
				if err := errors.Join(c.SetLinger(0), c.Close()); err != nil {
					t.Fatal(err)
				}
				waitFor(t, "it is gone", func() bool { return cs.opened() == 0 })
			}
		}
		n.checkUnasked(what)
		if text := n.log.String(); strings.Contains(text, "TLS") {
			t.Errorf("%s: %s", what, text)
		}
	}
}

// TestFailedHandshake: a client that does not trust the certificate, or speaks plain HTTP, has made no request. The log
// says what was wrong, of each listener once for some time.
func TestFailedHandshake(t *testing.T) {
	certificate, _ := certificateOf(t)
	for what, try := range map[string]func(c net.Conn){
		"remote error": func(c net.Conn) {
			if err := tls.Client(c, &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "127.0.0.1"}).Handshake(); err == nil {
				t.Error("a certificate of nobody is trusted")
			}
		},
		"does not look like a TLS handshake": func(c net.Conn) { _, _ = io.WriteString(c, request("BREW", "/healthz", "")) },
	} {
		n := start(t, Config{Certificate: certificate, AdminCertificate: certificate}, newFakeBackend(nil))
		for addr, cs := range map[string]*connections{n.addr: &n.s.conns, n.admin: &n.s.admins} {
			try(n.dialTo(addr))
			waitFor(t, "a line that says "+what, func() bool {
				return slices.ContainsFunc(strings.Split(n.log.String(), "\n"), func(line string) bool {
					return strings.Contains(line, "over TLS") && strings.Contains(line, what) && strings.Contains(line, `"listen":"`+addr+`"`)
				})
			})
			waitFor(t, "it is gone", func() bool { return cs.opened() == 0 })
		}
		n.checkUnasked(what)
	}
}

// TestPlainHTTPWhereTLSIsSpoken: who asks in plain HTTP where TLS is spoken is told, however much was sent before the answer is read.
func TestPlainHTTPWhereTLSIsSpoken(t *testing.T) {
	certificate, _ := certificateOf(t)
	n := start(t, Config{Certificate: certificate, AdminCertificate: certificate}, newFakeBackend(nil))
	for _, asked := range []string{request("GET", "/healthz", ""), request("POST", "/v1/messages", strings.Repeat("x", unreadMax/2)),
		request("DELETE", "/accounts", ""), request("OPTIONS", "/v1/messages", "")} {
		ask := func(addr string) reply {
			c := n.dialTo(addr)
			defer c.Close()
			if _, err := io.WriteString(c, asked); err != nil {
				t.Fatal(err)
			}
			r := read(t, bufio.NewReader(c), "POST")
			if checkIDs(t, r); r.StatusCode != 400 || !r.Close || !strings.Contains(r.body, "this address speaks TLS: use https://") {
				t.Errorf("%.20q: %d %q %v", asked, r.StatusCode, r.body, r.Header)
			}
			return r
		}
		if r := ask(n.addr); r.errorType(t) != "invalid_request_error" {
			t.Error(r.body)
		}
		checkAdminError(t, "invalid_request", ask(n.admin))
	}
	for _, cs := range []*connections{&n.s.conns, &n.s.admins} {
		waitFor(t, "they are gone", func() bool { return cs.opened() == 0 })
	}
	n.checkUnasked("plain HTTP")
}

// TestFailuresOfTLSAreSaidOnce: however many connections fail, the log says so once for some time.
func TestFailuresOfTLSAreSaidOnce(t *testing.T) {
	var log logtest.Lines
	f := failures{log: slog.New(slog.NewTextHandler(&log, nil)), listen: "here"}
	failed, now := errors.New("tls: it failed"), time.Now()
	for _, c := range []struct {
		err   error
		at    time.Duration
		lines int
	}{
		{io.EOF, 0, 0}, {io.ErrUnexpectedEOF, 0, 0}, {syscall.ECONNRESET, 0, 0}, {os.ErrDeadlineExceeded, 0, 0}, {net.ErrClosed, 0, 0},
		{failed, 0, 1}, {failed, complainEvery, 1}, {failed, complainEvery + 1, 2},
	} {
		f.add(c.err, now.Add(c.at))
		if lines := strings.Count(log.String(), "\n"); lines != c.lines {
			t.Errorf("%v after %v: %d lines, want %d", c.err, c.at, lines, c.lines)
		}
	}
	if !strings.Contains(log.String(), "failed=3") {
		t.Error(log.String())
	}
}

// TestCloseBehindAHandshake: a connection on which nothing came behind the handshake ends without a word, as a plain one does.
func TestCloseBehindAHandshake(t *testing.T) {
	certificate, pool := certificateOf(t)
	n := start(t, Config{Certificate: certificate, AdminCertificate: certificate, ReadTimeout: time.Hour}, newFakeBackend(nil))
	var fresh []*tls.Conn
	for _, addr := range []string{n.addr, n.admin, n.addr, n.admin} {
		c := tls.Client(n.dialTo(addr), &tls.Config{RootCAs: pool, ServerName: "127.0.0.1"})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		fresh = append(fresh, c)
	}
	if err := n.s.Close(); err != nil {
		t.Error(err)
	}
	for _, c := range fresh {
		// The end of the handshake may still be unread: then the connection is reset.
		if got, err := io.ReadAll(c); err != nil && !errors.Is(err, syscall.ECONNRESET) || len(got) != 0 {
			t.Errorf("read %q, %v; want silence", got, err)
		}
	}
	n.checkUnasked("a close")
}

// TestTooManyConnectionsOverTLS: one over the limit of the admin listener is told so as it is told everything.
func TestTooManyConnectionsOverTLS(t *testing.T) {
	certificate, pool := certificateOf(t)
	n := start(t, Config{ConnectionsMax: 1, AdminCertificate: certificate}, newFakeBackend(nil))
	n.dialTo(n.admin)
	waitFor(t, "the first connection is accepted", func() bool { return n.s.admins.opened() > 0 })
	r := n.overTLS(n.admin, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", pool)
	if r.StatusCode != 503 || r.Header.Get("Retry-After") != "1" {
		t.Errorf("%d %q %v", r.StatusCode, r.body, r.Header)
	}
	checkAdminError(t, "overloaded", r)
}

// checkAdminError compares an error with what the admin API says of all.
func checkAdminError(t *testing.T, kind string, r reply) {
	t.Helper()
	var got struct {
		Error struct{ Kind, Message string }
	}
	d := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	d.DisallowUnknownFields()
	if err := d.Decode(&got); err != nil || got.Error.Kind != kind || got.Error.Message == "" {
		t.Errorf("%d %s, %v; want the kind %s", r.StatusCode, r.body, err, kind)
	}
	checkIDs(t, r)
}

// TestLargeBodyOverTLS: who sends all of a body before it reads is told why it is not taken.
func TestLargeBodyOverTLS(t *testing.T) {
	certificate, pool := certificateOf(t)
	n := start(t, Config{AdminCertificate: certificate}, newFakeBackend(nil))
	r := n.overTLS(n.admin, "POST /accounts HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4194304\r\n\r\n"+strings.Repeat("x", 4<<20), pool)
	if r.StatusCode != 401 {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
}
