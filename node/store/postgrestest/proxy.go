package postgrestest

import (
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is between a store and its database, and can cut the link.
type Proxy struct {
	dial     func() (net.Conn, error)
	listener net.Listener
	running  sync.WaitGroup

	lost atomic.Bool // what is sent arrives nowhere, and nobody is told

	mu    sync.Mutex
	cut   bool                  // Guarded by mu.
	links map[net.Conn]struct{} // Guarded by mu.
}

// NewProxy stands before the database of a URL until the test ends, and returns the URL that
// leads through it.
func NewProxy(t testing.TB, database string) (p *Proxy, through string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return NewProxyAt(t, l, database)
}

// NewProxyAt is NewProxy with a listener.
func NewProxyAt(t testing.TB, l net.Listener, database string) (p *Proxy, through string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	to := u.Host
	u.Host = l.Addr().String()
	return Forward(t, l, func() (net.Conn, error) { return net.Dial("tcp", to) }), u.String()
}

// Forward leads the connections of a listener to wherever dial gets, until the test ends.
func Forward(t testing.TB, l net.Listener, dial func() (net.Conn, error)) *Proxy {
	p := &Proxy{dial: dial, listener: l, links: map[net.Conn]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.Cut()
		p.running.Wait()
	})
	return p
}

// Cut ends all connections, and every new one at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	for c := range p.links {
		c.Close()
	}
}

// Lose lets nothing through any more and keeps the connections, as a machine does that is gone.
func (p *Proxy) Lose() { p.lost.Store(true) }

// Heal lets connections through again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = false
	p.lost.Store(false)
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		if !p.open(c) {
			c.Close()
			continue
		}
		p.running.Go(func() { p.forward(c) })
	}
}

func (p *Proxy) open(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.cut {
		p.links[c] = struct{}{}
	}
	return !p.cut
}

func (p *Proxy) close(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, c)
	c.Close()
}

// forward copies both ways until either side ends.
func (p *Proxy) forward(c net.Conn) {
	defer p.close(c)
	server, err := p.dial()
	if err != nil || !p.open(server) {
		return
	}
	var both sync.WaitGroup
	both.Go(func() { io.Copy(link{server, p}, c); server.Close() })
	both.Go(func() { io.Copy(link{c, p}, server); c.Close() })
	both.Wait()
	p.close(server)
}

// link is one direction of a connection.
type link struct {
	to io.Writer
	p  *Proxy
}

func (l link) Write(b []byte) (int, error) {
	if l.p.lost.Load() {
		return len(b), nil
	}
	return l.to.Write(b)
}
