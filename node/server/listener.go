package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"syscall"
	"time"

	"corenode/actors/outage"
	"corenode/engine"
	"corenode/wasm/abi"
)

// listener wraps accepted connections and bounds their number.
type listener struct {
	net.Listener
	s         *Server
	of        *connections // where they are counted
	secure    *tls.Config  // what encrypts them; nil is plain
	outermost bool         // encryption is around conn, not in it
	nodes     bool         // it is where nodes of the same database ask
	failures  failures     // of encryption
	refusing  chan struct{}
	once      sync.Once
}

func newListener(ln net.Listener, s *Server, of *connections, secure *tls.Config) *listener {
	l := &listener{Listener: newRetryListener(ln, s.log), s: s, of: of, secure: secure,
		refusing: make(chan struct{}, refusalsMax)}
	l.failures.log, l.failures.listen = s.log, ln.Addr().String()
	of.listening(l)
	return l
}

// over encrypts a connection, where the listener does.
func (l *listener) over(raw net.Conn) net.Conn {
	if l.secure == nil {
		return raw
	}
	return &secured{Conn: tls.Server(raw, l.secure), of: l}
}

// Close stops accepting, once: both a drain and fasthttp close it.
func (l *listener) Close() (err error) {
	l.once.Do(func() { err = l.Listener.Close() })
	return err
}

// Accept returns the next connection within the bound; those over it are
// answered with a 503 and closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if tcp, ok := c.(*net.TCPConn); ok {
			keepAlive(tcp)
		}
		accepted := &conn{Conn: c, socket: descriptor(c), of: l.of, ofNodes: l.nodes}
		if !l.outermost {
			accepted.Conn = l.over(c)
		}
		switch {
		case !l.of.add(accepted, l.s.cfg.ConnectionsMax):
			l.refuse(c)
		case l.outermost:
			return l.over(accepted), nil
		default:
			return accepted, nil
		}
	}
}

// keepAlive lets the kernel find peers that vanished without a word. A socket
// that refuses the option still works, so its error is of no use.
func keepAlive(c *net.TCPConn) {
	_ = c.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: tcpKeepAliveGap, Interval: tcpKeepAliveGap / 3, Count: 3,
	})
}

// refuse tells a connection that the node has too many. When refusalsMax are
// being told already, it is closed without a word.
func (l *listener) refuse(c net.Conn) {
	l.s.metrics.connectionsRefused.Inc()
	select {
	case l.refusing <- struct{}{}:
	default:
		c.Close()
		return
	}
	go func() {
		defer func() { <-l.refusing }()
		refused := &conn{Conn: l.over(c)}
		refused.linger.Store(unreadMax)
		defer refused.Close()
		_ = c.SetDeadline(time.Now().Add(lingerTimeout)) // a fresh socket: only writing can fail
		_, _ = refused.Write(l.whole("503 Service Unavailable",
			&abi.Error{Kind: abi.Overloaded, Msg: "too many open connections; retry"}, "Retry-After: 1\r\nRetry-After-Ms: 1000\r\n"))
	}()
}

// whole is an HTTP response with an error, and with more headers: no request was read, so fasthttp
// has no part in it, and the body is one that the clients of every protocol understand, or on the
// admin side one of its API. A page may read it where all pages may read the answers of this side:
// which page asks is not known.
func (l *listener) whole(status string, e *abi.Error, headers string) []byte {
	body := adminErrorBody(e.Kind.String(), e.Msg)
	if l.of == &l.s.conns {
		body = familyModels.appendError(nil, e)
		if c := l.s.cors.Load(); c.any {
			headers += "Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: " + c.exposed + "\r\n"
		}
	}
	id := engine.NewID(requestIDPrefix)
	return fmt.Appendf(nil, "HTTP/1.1 %s\r\nConnection: close\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n"+
		"X-Llm-Request-Id: %s\r\nRequest-Id: %s\r\nX-Request-Id: %s\r\n%s\r\n%s", status, len(body), id, id, id, headers, body)
}

const (
	// acceptWait is how long a listener that has no room for a connection waits
	// before it tries again.
	acceptWait = 50 * time.Millisecond
	// acceptQuiet is how long it must have had room before the log says so.
	acceptQuiet = 5 * time.Second
)

// retryListener is a listener that outlives a process without free descriptors or
// memory: fasthttp takes every error of Accept for the end of the listener, and
// whoever opens connections enough could end the node. What it cannot accept
// waits in the kernel. Accept is called by one goroutine.
type retryListener struct {
	net.Listener
	log  *slog.Logger
	said outage.State
}

func newRetryListener(ln net.Listener, log *slog.Logger) *retryListener {
	return &retryListener{Listener: ln, log: log.With("listen", ln.Addr().String()), said: outage.State{Quiet: acceptQuiet}}
}

// Accept returns the next connection, or the error that ends the listener.
func (r *retryListener) Accept() (net.Conn, error) {
	for {
		c, err := r.Listener.Accept()
		if err == nil {
			if n, tell := r.said.Worked(time.Now()); tell {
				r.log.Info("connections are accepted again", "failures", n)
			}
			return c, nil
		}
		if !temporary(err) {
			return nil, err
		}
		if n, tell := r.said.Failed(time.Now()); tell {
			r.log.Error("connections cannot be accepted; it is tried again until they can", "error", err.Error(), "failures", n)
		}
		time.Sleep(acceptWait)
	}
}

// temporary says whether Accept failed for want of something that others give
// back, or for a connection that is gone.
func temporary(err error) bool {
	for _, errno := range [...]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}
