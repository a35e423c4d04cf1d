package client

import (
	"bufio"
	"context"
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// readBuffer bounds a header line, and is most of what an open stream costs here.
const readBuffer = 8 << 10

// Options say how connections are made.
type Options struct {
	// Connect bounds the time until a connection is there, TLS included.
	Connect time.Duration
	// Insecure takes any certificate.
	Insecure bool
}

// Pool keeps the connections to one server that no exchange uses, the latest
// first. It is safe for concurrent use.
type Pool struct {
	target  Target
	options Options
	dialer  net.Dialer

	mu     sync.Mutex
	idle   []*Conn
	open   map[*Conn]struct{} // all, so that Close reaches those in use
	closed bool
	opened int64 // ever
}

// NewPool connects to nobody yet.
func NewPool(t Target, o Options) *Pool {
	return &Pool{target: t, options: o, open: map[*Conn]struct{}{}}
}

// Opened returns how many connections were made.
func (p *Pool) Opened() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.opened
}

// Get returns a connection, and whether it was used before: then the server may
// have closed it meanwhile.
func (p *Pool) Get(ctx context.Context) (c *Conn, used bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, net.ErrClosed
	}
	if n := len(p.idle); n > 0 {
		c = p.idle[n-1]
		p.idle = p.idle[:n-1]
	}
	p.mu.Unlock()
	if c != nil {
		return c, true, nil
	}
	c, err = p.Dial(ctx)
	return c, false, err
}

// Dial makes a new connection.
func (p *Pool) Dial(ctx context.Context) (*Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.options.Connect)
	defer cancel()
	raw, err := p.dialer.DialContext(ctx, "tcp", p.target.Address)
	if err != nil {
		return nil, err
	}
	if p.target.TLS {
		secure := tls.Client(raw, &tls.Config{ServerName: p.target.Name, InsecureSkipVerify: p.options.Insecure,
			NextProtos: []string{"http/1.1"}})
		if err := secure.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		raw = secure
	}
	c := &Conn{conn: raw, Reader: NewReader(bufio.NewReaderSize(raw, readBuffer))}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		raw.Close()
		return nil, net.ErrClosed
	}
	p.open[c] = struct{}{}
	p.opened++
	return c, nil
}

// Put gives a connection back after an exchange, and closes it when it cannot
// carry another.
func (p *Pool) Put(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !c.reusable() {
		delete(p.open, c)
		c.conn.Close()
		return
	}
	p.idle = append(p.idle, c)
}

// Drop closes a connection.
func (p *Pool) Drop(c *Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	c.conn.Close()
}

// Close closes all connections; exchanges that are under way fail.
func (p *Pool) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed, p.idle = true, nil
	for c := range p.open {
		c.conn.Close()
	}
	clear(p.open)
}
