package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"corenode/node/store/postgrestest"
)

// namespace is a network without a name: it ends with this process and those that run in it, however they end.
type namespace struct{ file *os.File }

// ownNetwork is that of the calling thread.
const ownNetwork = "/proc/thread-self/ns/net"

// newNamespace makes an empty network, until the test ends.
func newNamespace(t *testing.T) (*namespace, error) {
	n := &namespace{}
	err := inNetwork(func() error { return unix.Unshare(unix.CLONE_NEWNET) }, func() (err error) {
		n.file, err = os.Open(ownNetwork)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("make a network namespace: %w", err)
	}
	t.Cleanup(func() { n.file.Close() })
	return n, n.ip("link set dev lo up")
}

// do runs f on a thread in the namespace: what it starts runs there, and the sockets that it opens are there.
func (n *namespace) do(f func() error) error {
	return inNetwork(func() error { return unix.Setns(int(n.file.Fd()), unix.CLONE_NEWNET) }, f)
}

// inNetwork runs f on a thread that enter takes into another network, and brings that back.
func inNetwork(enter, f func() error) error {
	runtime.LockOSThread()
	own, err := os.Open(ownNetwork)
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer own.Close()
	if err := enter(); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	err = f()
	if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, back) // the thread ends with its goroutine
	}
	runtime.UnlockOSThread()
	return err
}

// ip has the program ip do things in the namespace. /proc/self/fd/3 is that of peer in what it is told.
func (n *namespace) ip(commands ...string) error { return n.ipWith(nil, commands...) }

func (n *namespace) ipWith(peer *namespace, commands ...string) error {
	return n.do(func() error {
		c := exec.Command("ip", "-batch", "-")
		c.Stdin = strings.NewReader(strings.Join(commands, "\n") + "\n")
		if peer != nil {
			c.ExtraFiles = []*os.File{peer.file}
		}
		if text, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("ip: %w: %s", err, text)
		}
		return nil
	})
}

// networks are those of three nodes, and of the hub that joins each to the database and none to another one's loopback.
type networks struct {
	hub   *namespace
	nodes [3]*namespace
}

// hubHost is where the database is reached from the nodes.
const hubHost = "10.97.0.1"

// newNetworks makes them until the test ends. An error says why that is not permitted here.
func newNetworks(t *testing.T) (n *networks, err error) {
	if _, err := exec.LookPath("ip"); err != nil {
		return nil, fmt.Errorf("there is no program ip (Debian: iproute2): %w", err)
	}
	n = &networks{}
	if n.hub, err = newNamespace(t); err != nil {
		return nil, err
	}
	err = n.hub.ip("link add name hub type bridge", "addr add "+hubHost+"/24 dev hub", "link set dev hub up")
	for i := 0; i < len(n.nodes) && err == nil; i++ {
		if n.nodes[i], err = newNamespace(t); err != nil {
			break
		}
		err = errors.Join(
			n.hub.ipWith(n.nodes[i], fmt.Sprintf("link add name port%d master hub type veth peer name cable netns /proc/self/fd/3", i),
				fmt.Sprintf("link set dev port%d up", i)),
			n.nodes[i].ip(fmt.Sprintf("addr add 10.97.0.%d/24 dev cable", 2+i), "link set dev cable up"))
	}
	return n, err
}

// cut pulls the cable of a node: packets are lost and nobody is told.
func (n *networks) cut(i int) error { return n.hub.ip(fmt.Sprintf("link set dev port%d down", i)) }

func (n *networks) heal(i int) error { return n.hub.ip(fmt.Sprintf("link set dev port%d up", i)) }

// in runs f in a node's network.
func (n *networks) in(i int, f func() error) error { return n.nodes[i].do(f) }

// database leads from the nodes to the database of a URL.
func (n *networks) database(t *testing.T, url string) (link *postgrestest.Proxy, through string) {
	t.Helper()
	var l net.Listener
	err := n.hub.do(func() (err error) {
		l, err = net.Listen("tcp", hubHost+":0")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return postgrestest.NewProxyAt(t, l, url)
}

// loopback returns an address of loopback, here and in a node's network: who asks here is answered there.
func (n *networks) loopback(t *testing.T, i int) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	postgrestest.Forward(t, l, func() (c net.Conn, err error) {
		err = n.in(i, func() error {
			c, err = net.DialTimeout("tcp", address, 10*time.Second)
			return err
		})
		return c, err
	})
	return address
}

// reaches says whether a node's network has a way to an address.
func (n *networks) reaches(i int, address string) bool {
	return n.in(i, func() error {
		c, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	}) == nil
}
