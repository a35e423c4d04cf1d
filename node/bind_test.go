package main

import (
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
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

// TestBindSaysWhatToDo: where an address cannot be had the error names the key and the way out.
func TestBindSaysWhatToDo(t *testing.T) {
	_, foreign := bind("admin.listen", "192.0.2.1:0") // of no machine (RFC 5737)
	low := bindError("listen", &net.OpError{Op: "listen", Net: "tcp", Err: os.NewSyscallError("bind", syscall.EACCES)})
	for _, c := range []struct {
		err   error
		errno syscall.Errno
		says  string
	}{
		{foreign, syscall.EADDRNOTAVAIL, "set admin.listen to an address of this machine"},
		{low, syscall.EACCES, "CAP_NET_BIND_SERVICE"},
	} {
		if !errors.Is(c.err, c.errno) || !strings.Contains(c.err.Error(), c.says) {
			t.Errorf("%v, want %v and %q", c.err, c.errno, c.says)
		}
	}
}
