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

	"corenode/wasm/abi"
)

// secured is a connection over TLS. One that ends before the first byte of a request,
// most often in its handshake, ends in silence, as a plain one does: nobody is there
// who would understand an answer, but who asks in plain HTTP.
type secured struct {
	*tls.Conn
	of    *listener
	spoke atomic.Bool // a byte of a request has come
}

// Read says what was wrong with TLS to the log alone. Whoever closes the connection may read
// beside who serves it.
func (c *secured) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	switch {
	case n > 0:
		c.spoke.Store(true)
	case err != nil && !c.spoke.Load():
		c.of.failures.add(err, time.Now())
		if e, ok := errors.AsType[tls.RecordHeaderError](err); ok && e.Conn != nil && beginsHTTP(e.RecordHeader) {
			c.tellPlain(e.Conn)
		}
		return 0, io.EOF
	}
	return n, err
}

// tellPlain answers who asked in plain HTTP over what is below TLS, and lingers: the request was not read. The socket is
// fresh, so writing does not wait.
func (c *secured) tellPlain(below net.Conn) {
	if own, ok := below.(*conn); ok {
		below = own.Conn
	}
	_, _ = below.Write(c.of.whole("400 Bad Request",
		&abi.Error{Kind: abi.InvalidRequest, Msg: "this address speaks TLS: use https://"}, ""))
	(&conn{Conn: below}).drain(unreadMax, lingerTimeout)
}

// beginsHTTP says whether what came in place of a record's header is the beginning of a plain request.
func beginsHTTP(header [5]byte) bool {
	switch string(header[:]) {
	case "GET /", "HEAD ", "POST ", "PUT /", "PATCH", "DELET", "OPTIO":
		return true
	}
	return false
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
