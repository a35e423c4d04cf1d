package cluster

import (
	"crypto/tls"
	"errors"
	"testing"
)

// TestPinnedCertificate: a node is believed to be one by the certificate that its report names alone.
func TestPinnedCertificate(t *testing.T) {
	secure, pin, err := NewPinned()
	if err != nil {
		t.Fatal(err)
	}
	_, another, err := NewPinned()
	if err != nil || another == pin {
		t.Fatal(another, err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", secure)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = c.(*tls.Conn).Handshake() // the client says how it ended
				c.Close()
			}()
		}
	}()
	for _, c := range []struct {
		pins map[string]string
		want error
	}{
		{map[string]string{"https://node": pin}, nil},
		{map[string]string{"https://node": another}, errPin},
		{map[string]string{"https://node": ""}, errPin},
		{nil, errPin},
	} {
		p := &Pins{all: c.pins}
		conn, err := tls.Dial("tcp", listener.Addr().String(), p.Check("https://node"))
		if !errors.Is(err, c.want) {
			t.Errorf("%v: %v, want %v", c.pins, err, c.want)
		}
		if err == nil {
			conn.Close()
		}
	}
}
