package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"
)

const (
	// unreadMax is the most bytes of an unread body that are thrown away, after
	// the answer, for a caller without a valid key.
	unreadMax = 64 << 10
	// unreadBodies is the same for a caller with a key, in bodies of the largest
	// size: many clients read the answer only when all is sent.
	unreadBodies = 4
	// lingerTimeout is how long a connection that is closed with unread bytes stays
	// open after the answer, beside the time in which these come at lingerRate bytes
	// a second. Closing at once would reset it, and the reset may overtake the answer.
	lingerTimeout = time.Second
	lingerRate    = 32 << 20
	// idleLinger is the same for a connection that a drain ends while it waits for
	// a request: the first bytes of one may be on their way.
	idleLinger = lingerTimeout / 10
	// refusalsMax bounds the connections that are being told that there are too many.
	refusalsMax     = 64
	tcpKeepAliveGap = 30 * time.Second
)

// connections are the listeners and the open connections of one side, public or admin.
type connections struct {
	mu        sync.Mutex
	listeners []*listener        // Guarded by mu
	open      map[*conn]struct{} // Guarded by mu; at most ConnectionsMax
}

func (cs *connections) listening(l *listener) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.listeners = append(cs.listeners, l)
}

// add takes a connection in if there are fewer than max.
func (cs *connections) add(c *conn, max int) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if len(cs.open) >= max {
		return false
	}
	cs.open[c] = struct{}{}
	return true
}

func (cs *connections) remove(c *conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.open, c)
}

// shut closes the listeners and waits for the connections that of serves to end.
func (cs *connections) shut(ctx context.Context, of *fasthttp.Server) error {
	return errors.Join(cs.finish(), of.ShutdownWithContext(ctx), cs.wait(ctx))
}

// finish closes the listeners and ends every connection that waits for a
// request; one that is answering ends after its answer, and one that lingers
// after it within lingerTimeout. A read that began before finished was set is
// woken by the deadline, one that begins later sees finished.
func (cs *connections) finish() error {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	var errs []error
	for _, l := range cs.listeners {
		errs = append(errs, l.Close())
	}
	for c := range cs.open {
		c.finished.Store(true)
		deadline := time.Unix(1, 0)
		if c.linger.Load() > 0 {
			deadline = time.Now().Add(lingerTimeout)
		}
		_ = c.Conn.SetReadDeadline(deadline) // fails only on a closed connection
	}
	return errors.Join(errs...)
}

// hurry gives every writer that waits for its reader no more than d, and who
// reads a body no more of it.
func (cs *connections) hurry(d time.Duration) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for c := range cs.open {
		_ = c.Conn.SetWriteDeadline(time.Now().Add(d)) // fails only on a closed connection
		if c.reading.Load() {
			_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
		}
	}
}

// wait returns when every connection is closed, lingering ones included, or
// with the error of ctx. fasthttp stops counting one before it closes it.
func (cs *connections) wait(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		cs.mu.Lock()
		open := len(cs.open)
		cs.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%d connections are still open: %w", open, ctx.Err())
		}
	}
}

// conn is one connection of either side. linger, parting and reading are set by the
// goroutine that serves it.
type conn struct {
	net.Conn
	// linger is the most unread bytes to throw away before closing, 0 to close at once.
	linger atomic.Int64
	// finished makes the connection end after the answer under way: the next read
	// for a request finds its end.
	finished atomic.Bool
	// parting says that a stream broke off: what comes within lingerTimeout is
	// answered and is the last. Clients keep the connection of an answer whose body
	// ended, and may have sent the next request before they see the connection end.
	parting atomic.Bool
	reading atomic.Bool // a body is being read
	// lingersTo is when it ends though its client does not; nil until it lingers.
	lingersTo atomic.Pointer[time.Time]
	// waiting is an admitted stream that fasthttp has not handed the connection to
	// yet; when it never does, Close ends it.
	waiting atomic.Pointer[streamed]
	spoke   bool // a byte has come; owned by who reads
	once    sync.Once
	// line is how the request being read began, as far as it fits, for an answer
	// to one that fasthttp could not read: it forgets even the path. Of requests
	// sent ahead of an answer it may be the wrong part. Owned by who reads.
	line    [128]byte
	lineN   int
	socket  int          // for the watcher, -1 without; valid until Close
	of      *connections // where it is counted; may be nil
	ofNodes bool         // it came where nodes of the same database ask
}

// Read refuses to begin another request once the connection is finished. A
// connection that never sent a byte ends in silence, whatever ends it: its client
// opened it ahead of time, and would take a 408 for the answer to its first request,
// or looked whether somebody listens.
func (c *conn) Read(p []byte) (int, error) {
	parting := c.parting.Load()
	if parting {
		_ = c.Conn.SetReadDeadline(time.Now().Add(lingerTimeout)) // fails only on a closed connection
	}
	if c.finished.Load() {
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p)
	if parting && n == 0 && isTimeout(err) {
		return 0, io.EOF
	}
	if c.lineN < len(c.line) {
		c.lineN += copy(c.line[c.lineN:], p[:n])
	}
	if c.spoke = c.spoke || n > 0; !c.spoke && err != nil {
		return 0, io.EOF
	}
	return n, err
}

// SetReadDeadline does not move the end of one that lingers. fasthttp sets the deadline of the next request after
// it says that a connection is idle, so a drain may have begun to end it; looking after setting ours means that
// whoever comes second, the end stands.
func (c *conn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if end := c.lingersTo.Load(); end != nil {
		err = c.Conn.SetReadDeadline(*end)
	}
	return err
}

// target is the request target of line, empty if there is none.
func (c *conn) target() []byte {
	line, _, _ := bytes.Cut(c.line[:c.lineN], []byte{'\n'})
	_, rest, _ := bytes.Cut(line, []byte{' '})
	target, _, _ := bytes.Cut(rest, []byte{' '})
	return target
}

// Close closes the connection, once, after lingering when that was asked for. It
// does not wait for the lingering of one that a drain ends: fasthttp closes its
// idle connections one after another, and until the last is closed no other can
// end. The drain waits for remove.
func (c *conn) Close() error {
	if a := c.waiting.Swap(nil); a != nil {
		_ = a.Close() // while the socket is open: it is watched
	}
	err := net.ErrClosed
	c.once.Do(func() {
		if c.of != nil && c.finished.Load() && c.linger.Load() == 0 {
			err = nil
			go c.part() // its error is nobody's to know
			return
		}
		err = c.part()
	})
	return err
}

// part lingers, closes the connection and takes it out of the count.
func (c *conn) part() error {
	if unread, d := c.lingers(); unread > 0 {
		c.drain(unread, d)
	}
	err := c.Conn.Close()
	if c.of != nil {
		c.of.remove(c)
	}
	return err
}

// lingers returns the most unread bytes to throw away before closing, and for
// how long; 0 bytes close at once.
func (c *conn) lingers() (unread int64, d time.Duration) {
	unread = c.linger.Load()
	switch finished := c.finished.Load(); { // finished: a drain waits
	case unread > 0 && !finished:
		return unread, lingerTimeout + time.Duration(unread)*time.Second/lingerRate
	case unread > 0:
		return unread, lingerTimeout
	case finished:
		return unreadMax, idleLinger
	}
	return 0, 0
}

// drain says that no more comes from us and reads what the client is still
// sending, up to a bound in bytes and time; over the bound in bytes it waits
// without reading. Its errors all mean that the client is gone, as it should be.
func (c *conn) drain(unread int64, d time.Duration) {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	end := time.Now().Add(d)
	c.lingersTo.Store(&end)
	if c.Conn.SetReadDeadline(end) != nil {
		return
	}
	if n, err := io.CopyN(io.Discard, c.Conn, unread); n == unread && err == nil {
		time.Sleep(time.Until(end))
	}
}

// connOf is what fasthttp serves, also where that is TLS around it; nil is something else.
func connOf(c net.Conn) *conn {
	if over, ok := c.(*secured); ok {
		c = over.NetConn()
	}
	own, _ := c.(*conn)
	return own
}

// descriptor returns a socket's number for the watcher, or -1 where there is none.
func descriptor(c net.Conn) int {
	if own := connOf(c); own != nil {
		return own.socket
	}
	sc, ok := c.(syscall.Conn)
	if !ok {
		return -1
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return -1
	}
	fd := -1
	if raw.Control(func(p uintptr) { fd = int(p) }) != nil {
		return -1
	}
	return fd
}
