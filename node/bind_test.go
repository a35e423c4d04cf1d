package main

import (
	"net"
	"testing"
)

// TestBindIsTheFamilyNamed: who names 0.0.0.0 has a firewall for IPv4; who names no host means every address.
func TestBindIsTheFamilyNamed(t *testing.T) {
	if l, err := net.Listen("tcp6", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6: ", err)
	} else {
		l.Close()
	}
	for address, sixth := range map[string]bool{"0.0.0.0:0": false, "127.0.0.1:0": false, ":0": true, "[::]:0": true} {
		l, err := bind("listen", address)
		if err != nil {
			t.Fatal(err)
		}
		_, port, _ := net.SplitHostPort(l.Addr().String())
		c, err := net.Dial("tcp6", net.JoinHostPort("::1", port))
		if err == nil {
			c.Close()
		}
		if (err == nil) != sixth {
			t.Errorf("%s is reached over IPv6: %v, want %v (%v)", address, err == nil, sixth, err)
		}
		l.Close()
	}
}
