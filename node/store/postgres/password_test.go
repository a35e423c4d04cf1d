package postgres

import (
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"corenode/node/store/postgrestest"
)

// TestPasswordFile: the password is read where others may not.
func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte("a b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := readPassword(path); err != nil || got != "a b" {
		t.Errorf("%q, %v", got, err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := readPassword(path); err == nil || !strings.Contains(err.Error(), "want 0600") {
		t.Errorf("a file that others may read: %v", err)
	}
}

// authority writes a certificate of its own with a serial number to a file, and behind it its key.
func authority(t *testing.T, path string, serial int64) *x509.Certificate {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	made := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(nil, made, made, public, private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err == nil {
		err = os.WriteFile(path, append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if made, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	return made
}

// TestConnectionsAreMadeAnew: a connection is made with the password and the certificates that are in their files when it
// is made, so that a password that was changed, or an authority, needs no restart of the node.
func TestConnectionsAreMadeAnew(t *testing.T) {
	dir := t.TempDir()
	password, root := filepath.Join(dir, "password"), filepath.Join(dir, "root.pem")
	write := func(text string) {
		if err := os.WriteFile(password, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("before")
	first := authority(t, root, 1)
	c := Config{URL: "postgres://one@localhost/rows?sslmode=verify-full&sslrootcert=" + url.QueryEscape(root), Password: PasswordOf("key", password)}
	opened, err := c.settings()
	if err != nil {
		t.Fatal(err)
	}
	renew := c.renewal(opened)
	want := func(what, password string, root *x509.Certificate) {
		t.Helper()
		to := opened.ConnConfig.Copy() // as the pool gives it: what the files said at the start
		renew(to)
		roots := x509.NewCertPool()
		roots.AddCert(root)
		if to.Password != password || !to.TLSConfig.RootCAs.Equal(roots) {
			t.Errorf("%s: password %q, want %q, and the authority of number %d", what, to.Password, password, root.SerialNumber)
		}
	}
	want("nothing changed", "before", first)
	write("after\n")
	second := authority(t, root, 2)
	want("both changed", "after", second)
	if err := os.Chmod(password, 0o644); err != nil {
		t.Fatal(err)
	}
	authority(t, root, 3)
	want("one cannot be read", "after", second)
}

// TestClientCertificatesAreReadAnew: a connection shows the certificate that is in its file when it is made.
func TestClientCertificatesAreReadAnew(t *testing.T) {
	dir := t.TempDir()
	pair, of := filepath.Join(dir, "client.pem"), filepath.Join(dir, "server.pem")
	authority(t, pair, 1)
	authority(t, of, 9)
	server, err := tls.LoadX509KeyPair(of, of)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	shown := make(chan string)
	go func() { // a server that wants a certificate, and ends each connection when it has seen it
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.CopyN(io.Discard, raw, 8) // the wish for TLS; what fails is seen in the handshake
			_, _ = raw.Write([]byte{'S'})
			c := tls.Server(raw, &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAnyClientCert})
			said := ""
			if err := c.Handshake(); err != nil {
				said = err.Error()
			} else {
				said = c.ConnectionState().PeerCertificates[0].SerialNumber.String()
			}
			c.Close()
			shown <- said
		}
	}()
	files := url.QueryEscape(pair)
	c := Config{URL: "postgres://one@" + l.Addr().String() + "/rows?sslmode=require&sslcert=" + files + "&sslkey=" + files}
	opened, err := c.settings()
	if err != nil {
		t.Fatal(err)
	}
	renew := c.renewal(opened)
	for _, want := range []string{"1", "2"} {
		to := opened.ConnConfig.Copy()
		renew(to)
		go pgx.ConnectConfig(t.Context(), to) // it fails: nothing behind the handshake answers
		if got := <-shown; got != want {
			t.Errorf("the server was shown %q, want the certificate of number %s", got, want)
		}
		authority(t, pair, 2)
	}
}

// TestEachConnectionAsksForThePassword: those of the pool, and those beside it.
func TestEachConnectionAsksForThePassword(t *testing.T) {
	proxy, at := postgrestest.NewProxy(t, postgrestest.URL(t))
	var asked atomic.Int64
	s, err := Open(Config{URL: at, Node: "one", Password: func() (string, error) { asked.Add(1); return "", nil }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	before := asked.Load()
	proxy.Cut()
	proxy.Heal()
	if err := s.KeepPrices(nil); err != nil {
		t.Error(err)
	}
	pool := asked.Load()
	if pool == before {
		t.Error("a connection of the pool was made again, and nobody asked for the password")
	}
	if err := s.apart(t.Context(), func(*pgx.Conn) error { return nil }); err != nil {
		t.Error(err)
	}
	if asked.Load() == pool {
		t.Error("a connection beside the pool was made, and nobody asked for the password")
	}
}
