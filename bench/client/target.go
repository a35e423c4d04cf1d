// Package client is HTTP/1.1 as a load generator needs it: kept connections to
// one server, requests that are bytes made before, replies read piece by piece
// as they come, with a clock reading of the caller's own between pieces.
//
// A Pool hands out connections; a Conn carries one exchange at a time, in the
// order Send, ReadHead, Piece until io.EOF. Nothing is parsed that is not
// needed to find a reply's pieces and what an error says about itself.
package client

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// Target is a server's address.
type Target struct {
	TLS     bool
	Host    string // as the Host header has it
	Name    string // that its certificate must be for
	Address string // host and port, to connect to
	Prefix  string // path before the protocol's own, without a slash at its end
}

// ParseTarget reads http://host:port/prefix, or https.
func ParseTarget(address string) (Target, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return Target{}, fmt.Errorf("server address: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return Target{}, fmt.Errorf("server address %q: want http://host:port or https://host:port", address)
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return Target{}, fmt.Errorf("server address %q: want a host and at most a path behind it", address)
	}
	t := Target{TLS: u.Scheme == "https", Host: u.Host, Name: u.Hostname(), Address: u.Host,
		Prefix: strings.TrimSuffix(u.EscapedPath(), "/")}
	if u.Port() == "" {
		port := "80"
		if t.TLS {
			port = "443"
		}
		t.Address = net.JoinHostPort(u.Hostname(), port)
	}
	// A base address is often given as SDKs want it.
	t.Prefix = strings.TrimSuffix(t.Prefix, "/v1")
	return t, nil
}

// Head returns the lines of a POST to a path up to the length of the body,
// which Send adds. headers are whole lines, each with its end.
func (t Target) Head(path string, stream bool, headers string) []byte {
	accept := "application/json"
	if stream {
		accept = "text/event-stream"
	}
	return fmt.Appendf(nil, "POST %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: corebench\r\nContent-Type: application/json\r\nAccept: %s\r\n%s",
		t.Prefix, path, t.Host, accept, headers)
}
