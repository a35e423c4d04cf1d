package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// secured is a connection over TLS. One that ends before the first byte of a request,
// most often in its handshake, ends in silence, as a plain one does: nobody is there
// who would understand an answer.
type secured struct {
	*tls.Conn
	failures *failures
	spoke    atomic.Bool // a byte of a request has come
}

// Read says what was wrong with TLS to the log alone. Whoever closes the connection may read
// beside who serves it.
func (c *secured) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case n > 0:
		c.spoke.Store(true)
	case err != nil && !c.spoke.Load():
		c.failures.add(err, time.Now())
		return 0, io.EOF
	}
	return n, err
}

// complainEvery is how often the log says why connections over TLS fail.
const complainEvery = time.Minute

// failures are the connections of a listener that TLS ended. It is safe for concurrent use.
type failures struct {
	log        *slog.Logger
	listen     string
	count      atomic.Int64
	complained atomic.Pointer[time.Time] // when; nil before the first time
}

// add counts a connection, and says to the log why it ended if nothing was said for some time. A client that
// leaves without a word about TLS is none.
func (f *failures) add(err error, now time.Time) {
	if _, system := errors.AsType[syscall.Errno](err); system || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, net.ErrClosed) || isTimeout(err) {
		return
	}
	count, last := f.count.Add(1), f.complained.Load()
	if (last == nil || now.Sub(*last) > complainEvery) && f.complained.CompareAndSwap(last, &now) {
		f.log.Info("a connection over TLS failed before its first request", "listen", f.listen, "error", cutCause(err.Error()),
			"failed", count)
	}
}
