package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"corenode/node/config"
	"corenode/node/server"
)

// pair is a certificate of this machine and where its files are.
type pair struct{ certFile, keyFile string }

// write puts a new certificate of a serial number into the files.
func (p pair) write(t *testing.T, serial int64) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "node"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		DNSNames: []string{"localhost", "node.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	p.fill(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return leaf
}

func (p pair) fill(t *testing.T, cert, key []byte) {
	t.Helper()
	for file, text := range map[string][]byte{p.certFile: cert, p.keyFile: key} {
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// trusting is a client that trusts these certificates alone and begins a connection for each request.
func trusting(leaves ...*x509.Certificate) *http.Client {
	pool := x509.NewCertPool()
	for _, leaf := range leaves {
		pool.AddCert(leaf)
	}
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}}
}

// shown is the serial number that an address shows.
func shown(t *testing.T, address string) int64 {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}) // who it is does not matter here
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// TestCertificateFileOfTheNodeItselfIsRefused: the node would write over the chain and remove it at a stop.
func TestCertificateFileOfTheNodeItselfIsRefused(t *testing.T) {
	n := &node{cfg: config.Default()}
	n.cfg.DataDir = t.TempDir()
	own := pair{filepath.Join(n.cfg.DataDir, "admin.cert"), filepath.Join(n.cfg.DataDir, "admin.key")}
	own.write(t, 1)
	n.cfg.Admin.TLSCertificate, n.cfg.Admin.TLSKey = own.certFile, own.keyFile
	if err := n.openCertificates(); err == nil || !strings.Contains(err.Error(), "admin.tls_certificate: ") {
		t.Errorf("it says %v", err)
	}
}

// wantProblems holds a reload of the defaults to problems that begin so, one of each.
func wantProblems(t *testing.T, n *node, begin ...string) {
	t.Helper()
	r := newReloader(config.Sources{}, config.Default(), new(slog.LevelVar), slog.New(slog.DiscardHandler))
	r.node = n
	done := r.reload()
	for i, want := range begin {
		if len(done.Problems) != len(begin) || !strings.HasPrefix(done.Problems[i], want) {
			t.Fatalf("a reload has the problems %q, want %q", done.Problems, begin)
		}
	}
}

// TestCertificatesAreReplaced: with TLS on both listeners clients need nothing but the certificate.
// One that is replaced is shown to who connects after a reload, while streams go on; a broken one is not.
func TestCertificatesAreReplaced(t *testing.T) {
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	first := p.write(t, 1)
	n, _, key := startNode(t, func(cfg *config.Config) {
		instantModels(cfg)
		slow := cfg.Models[slowModel]
		slow.StepTime = 20 * time.Millisecond
		cfg.Models[slowModel] = slow
		cfg.Server.TLSCertificate, cfg.Server.TLSKey = p.certFile, p.keyFile
		cfg.Admin.TLSCertificate, cfg.Admin.TLSKey = p.certFile, p.keyFile
	})
	public, adminAddress := n.public.Addr().String(), n.admin.Addr().String()
	streamed := openTLSStream(t, trusting(first), "https://"+public, key)
	defer streamed.Body.Close()
	sdk := func(leaf *x509.Certificate) error {
		c := anthropic.NewClient(option.WithBaseURL("https://"+public), option.WithAPIKey(key), option.WithMaxRetries(0),
			option.WithHTTPClient(trusting(leaf)))
		_, err := c.Messages.New(t.Context(), ask(3, "hello"))
		return err
	}
	if err := sdk(first); err != nil {
		t.Error(err)
	}
	if changed, problems := n.reloadCertificates(); changed != nil || problems != nil {
		t.Errorf("the same files are a change: %v, %v", changed, problems)
	}
	p.fill(t, []byte("no certificate"), []byte("no key"))
	changed, problems := n.reloadCertificates()
	if changed != nil || len(problems) != 2 || shown(t, public) != 1 || shown(t, adminAddress) != 1 {
		t.Errorf("broken files changed %v, with the problems %v", changed, problems)
	}
	wantProblems(t, n, "server.tls_certificate: ", "admin.tls_certificate: ")
	commands := operator(t, n) // begins before the change
	second := p.write(t, 2)
	changed, problems = n.reloadCertificates()
	if len(changed) != 2 || problems != nil || shown(t, public) != 2 || shown(t, adminAddress) != 2 {
		t.Errorf("changed %v, problems %v; shown are %d and %d", changed, problems, shown(t, public), shown(t, adminAddress))
	}
	if err := sdk(second); err != nil {
		t.Error(err)
	}
	if err := sdk(first); err == nil {
		t.Error("who trusts the first certificate alone is answered with the second")
	}
	if _, err := commands.Status(); err == nil {
		t.Error("a client that trusts what was shown before takes what is shown now")
	}
	if _, err := operator(t, n).Status(); err != nil {
		t.Errorf("a command after the change: %v", err)
	}
	rest, err := io.ReadAll(streamed.Body)
	if err != nil || !strings.Contains(string(rest), "message_stop") {
		t.Errorf("the stream that ran meanwhile ends with %v", err)
	}
	consoleByName(t, adminAddress, second)
	if answer, err := http.Get("http://" + public + "/healthz"); err == nil {
		answer.Body.Close()
		if answer.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered where TLS is spoken")
		}
	}
	old, err := tls.Dial("tcp", public, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10})
	if err == nil {
		old.Close()
		t.Error("TLS 1.1 is spoken")
	}
}

// openTLSStream asks for a stream of some seconds and returns when its first byte is there.
func openTLSStream(t *testing.T, h *http.Client, base, key string) *http.Response {
	t.Helper()
	body := `{"model":"core-1.1","stream":true,"max_tokens":100,"messages":[{"role":"user","content":"x"}]}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", base+"/v1/messages", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("x-api-key", key)
	answer, err := h.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReaderSize(answer.Body, 16).ReadByte(); err != nil {
		t.Fatal(err)
	}
	return answer
}

// consoleByName asks for the console by a name of the certificate, and by one that it does not have.
func consoleByName(t *testing.T, address string, leaf *x509.Certificate) {
	t.Helper()
	for name, want := range map[string]int{"node.example": http.StatusOK, "evil.example": http.StatusNotFound} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", "https://"+address+"/console/sign-in", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = name
		answer, err := trusting(leaf).Do(req)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("the console as %s: %d, want %d", name, answer.StatusCode, want)
		}
	}
}

// TestPlaygroundAsksOverTLS: the console reaches its own node's API also where nobody has signed its certificate.
func TestPlaygroundAsksOverTLS(t *testing.T) {
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	p.write(t, 1)
	n, _, key := startNode(t, func(cfg *config.Config) {
		instantModels(cfg)
		cfg.Server.TLSCertificate, cfg.Server.TLSKey = p.certFile, p.keyFile
	})
	send := consoleClient(t, "http://"+n.admin.Addr().String())
	_, page := send("POST", "/console/sign-in", url.Values{"operator_token": {adminToken(t, n)}, "to": {"/console/playground"}})
	_, rest, _ := strings.Cut(page, `data-token="`)
	token, _, _ := strings.Cut(rest, `"`)
	asked := `{"model":"core-1.1-mini","stream":true,"max_tokens":3,"messages":[{"role":"user","content":"hello"}]}`
	status, text := send("POST", "/console/playground/messages", url.Values{"token": {token}, "key": {key}, "body": {asked}})
	if status != http.StatusOK || !strings.Contains(text, "message_stop") {
		t.Errorf("the playground answers %d %.300s", status, text)
	}
}

// TestCertificateOfTheNodeItselfIsPinned: who reaches a listener from within the node takes what is shown now, and no other.
func TestCertificateOfTheNodeItselfIsPinned(t *testing.T) {
	dir := t.TempDir()
	p := pair{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	other := pair{filepath.Join(dir, "other.pem"), filepath.Join(dir, "other.key")}
	p.write(t, 1)
	other.write(t, 2)
	ours, err := server.OpenCertificate(p.certFile, p.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	pinned := ours.Pinned()
	taken := func(shown pair) error {
		t.Helper()
		certificate, err := tls.LoadX509KeyPair(shown.certFile, shown.keyFile)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		go func() {
			if c, err := listener.Accept(); err == nil {
				_ = c.(*tls.Conn).Handshake() // the client says how it ended
				c.Close()
			}
		}()
		c, err := tls.Dial("tcp", listener.Addr().String(), pinned)
		if err == nil {
			c.Close()
		}
		return err
	}
	if err := taken(p); err != nil {
		t.Error(err)
	}
	if err := taken(other); err == nil || !strings.Contains(err.Error(), "not the one that this node shows") {
		t.Errorf("another's certificate: %v", err)
	}
	p.write(t, 3)
	if err := taken(p); err == nil {
		t.Error("a certificate is taken that is not shown yet")
	}
	if changed, err := ours.Reload(func(*x509.Certificate) {}); err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
	if err := taken(p); err != nil {
		t.Errorf("what replaced it: %v", err)
	}
}
