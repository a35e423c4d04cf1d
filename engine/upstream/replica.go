package upstream

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// replica is one server with its idle connections. HTTP/1.1 only: closing a connection is
// how a request is cancelled, which every server understands.
type replica struct {
	base    string // as configured, without a slash at the end
	url     *url.URL
	address string                        // host:port
	tls     func(base string) *tls.Config // nil: checked by its name
	removed chan struct{}                 // closed by the model when it forgets the replica
	key     string                        // what it is sent as a bearer token. Guarded by the model's mu, as are the next five
	version string
	byHand  bool // an operator added it
	drained bool // an operator drained it
	leaving bool // nobody names it any more: it goes when nothing runs there

	fullToldAt, refusalToldAt time.Time // when the log last said that it is full, and that it refuses this node

	// idleConnsMax bounds idle: as many as requests may run at once, so that those of a burst serve the next one.
	idleConnsMax int

	mu     sync.Mutex
	idle   []*conn // guarded by mu; the latest used last
	closed bool    // guarded by mu
}

// idleMax is how long a connection is kept without a request. Servers close theirs after
// some more; uvicorn, the shortest, after 5 s.
const idleMax = 4 * time.Second

type conn struct {
	net.Conn
	head   *headReader // what in reads
	in     *bufio.Reader
	out    *bufio.Writer
	idleAt time.Time
	reused bool
}

func newConn(nc net.Conn) *conn {
	head := &headReader{Conn: nc, left: noBound}
	return &conn{Conn: nc, head: head, in: bufio.NewReaderSize(head, 16<<10), out: bufio.NewWriter(nc)}
}

// connectTimeout bounds the time until a replica is connected, and then that of the handshake.
const connectTimeout = 5 * time.Second

func newReplica(base string, u *url.URL) *replica {
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return &replica{base: base, url: u, address: net.JoinHostPort(u.Hostname(), port), removed: make(chan struct{})}
}

// connect gives an idle connection, or a new one. fresh never gives an idle one.
func (r *replica) connect(ctx context.Context, fresh bool) (*conn, error) {
	if !fresh {
		if c := r.takeIdle(); c != nil {
			return c, nil
		}
	}
	dialer := net.Dialer{Timeout: connectTimeout}
	nc, err := dialer.DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	if r.url.Scheme == "https" {
		config := &tls.Config{ServerName: r.url.Hostname(), NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12}
		if r.tls != nil {
			config = r.tls(r.base)
		}
		secure := tls.Client(nc, config)
		ctx, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		if err := secure.HandshakeContext(ctx); err != nil {
			nc.Close()
			return nil, err
		}
		nc = secure
	}
	return newConn(nc), nil
}

func (r *replica) takeIdle() *conn {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.idle) > 0 {
		c := r.idle[len(r.idle)-1]
		r.idle[len(r.idle)-1] = nil
		r.idle = r.idle[:len(r.idle)-1]
		if time.Since(c.idleAt) < idleMax {
			c.reused = true
			return c
		}
		c.Close()
	}
	return nil
}

// keep takes back a connection whose answer was read to its end.
func (r *replica) keep(c *conn) {
	c.idleAt = time.Now()
	if c.in.Buffered() == 0 && c.SetDeadline(time.Time{}) == nil { // what nobody asked for is no answer to the next request
		r.mu.Lock()
		defer r.mu.Unlock()
		r.dropOld()
		if !r.closed && len(r.idle) < r.idleConnsMax {
			r.idle = append(r.idle, c)
			return
		}
	}
	c.Close()
}

// tidy closes connections that stand without a request for long, of a replica that may have none for hours.
func (r *replica) tidy() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dropOld()
}

// dropOld closes connections without a request for long, which stand first. mu is held.
func (r *replica) dropOld() {
	n := 0
	for n < len(r.idle) && time.Since(r.idle[n].idleAt) >= idleMax {
		r.idle[n].Close()
		n++
	}
	r.idle = slices.Delete(r.idle, 0, n)
}

// leftover is a connection whose answer is complete, but may not be read to its end.
type leftover struct {
	replica *replica
	conn    *conn
	body    io.ReadCloser
}

// recycle keeps the connection for the next request, if its answer ends soon.
func (l *leftover) recycle() {
	if l == nil {
		return
	}
	_ = l.conn.SetReadDeadline(time.Now().Add(time.Second)) // a closed connection says so in Read
	if n, err := io.CopyN(io.Discard, l.body, errorBytesMax); err != io.EOF || n == errorBytesMax {
		l.conn.Close()
		return
	}
	l.replica.keep(l.conn)
}

// close closes the idle connections; those in use are closed when their answer ends.
func (r *replica) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, c := range r.idle {
		c.Close()
	}
	r.idle = nil
}

// question is what a replica is asked.
type question struct {
	method, path string // the path behind the replica's base
	header       []field
	body         []byte
}

// field is a header's name and value.
type field struct{ name, value string }

// oneLine keeps a value from beginning a line of its own.
var oneLine = strings.NewReplacer("\r", " ", "\n", " ")

// write writes a question as RFC 9112 has it.
func (r *replica) write(w *bufio.Writer, q *question) error {
	u := url.URL{Path: r.url.Path + q.path}
	w.WriteString(q.method + " " + u.RequestURI() + " HTTP/1.1\r\nHost: " + r.url.Host + "\r\n")
	for _, f := range q.header {
		w.WriteString(f.name)
		w.WriteString(": ")
		w.WriteString(oneLine.Replace(f.value))
		w.WriteString("\r\n")
	}
	if q.method != http.MethodGet {
		w.WriteString("Content-Length: " + strconv.Itoa(len(q.body)) + "\r\n")
	}
	w.WriteString("\r\n")
	w.Write(q.body)
	return w.Flush() // the first error sticks
}

// errNotSent is a connection that failed before the first byte of an answer: the server
// has done nothing of the request that counts, and it may be sent again.
var errNotSent = errors.New("no byte of an answer came")

// earlyWait is how long an answer is waited for that came before the question was sent whole.
const earlyWait = time.Second

// idleHead begins what some servers say before they close an idle connection: it answers nothing.
var idleHead = []byte("HTTP/1.1 408")

// answered says whether a server has answered that closed while it was being asked: a large body
// is too large, most of all.
func (c *conn) answered() bool {
	_ = c.SetReadDeadline(time.Now().Add(earlyWait)) // a closed connection says so in Peek
	head, _ := c.in.Peek(len(idleHead))
	return len(head) > 0 && !bytes.HasPrefix(head, idleHead)
}

// ask sends a question on a connection and reads the head of its answer.
func (r *replica) ask(c *conn, q *question) (*http.Response, error) {
	err := r.write(c.out, q)
	if err == nil {
		_, err = c.in.Peek(1)
	} else if !timeout(err) && c.answered() {
		err = nil
	}
	if err != nil {
		if timeout(err) {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errNotSent, err)
	}
	c.head.left = headBytesMax
	defer func() { c.head.left = noBound }()
	resp, err := http.ReadResponse(c.in, nil)
	for n := 0; n < interimMax && err == nil && interim(resp.StatusCode); n++ {
		resp, err = http.ReadResponse(c.in, nil)
	}
	if err != nil && c.head.failed == nil {
		err = garbled{err}
	}
	return resp, err
}

// interimMax is how many interim answers are read ahead of one.
const interimMax = 8

// interim says whether a status is of what comes ahead of an answer (RFC 9110, section 15.2). A change of
// protocol, for which nobody asked, is none.
func interim(status int) bool { return status/100 == 1 && status != http.StatusSwitchingProtocols }

// garbled is an answer that is none of HTTP. Its cause quotes it, and so is for operators who ask, not for the log.
type garbled struct{ cause error }

// Error implements error.
func (garbled) Error() string { return "the answer cannot be read as HTTP" }

// quoted is what an error quotes of a server, and does not say itself.
func quoted(err error) string {
	if g, ok := errors.AsType[garbled](err); ok {
		return g.cause.Error()
	}
	return ""
}

// unquoted is an error of a body, without what it quotes of a trailer.
func unquoted(err error) error {
	if _, ok := errors.AsType[textproto.ProtocolError](err); ok {
		return garbled{err}
	}
	return err
}

// headBytesMax bounds the head of an answer, with those of interim ones, which net/http reads without a bound of its own.
const headBytesMax = 256 << 10

const noBound = 1 << 62

// headReader is the connection as its bufio.Reader reads it: no further than left.
type headReader struct {
	net.Conn
	left   int64
	failed error // of the connection, or that there is nothing left
}

// Read implements io.Reader.
func (h *headReader) Read(b []byte) (int, error) {
	if h.left <= 0 {
		h.failed = errors.New("the head of the answer is too long")
		return 0, h.failed
	}
	n, err := h.Conn.Read(b)
	h.left -= int64(n)
	h.failed = err
	return n, err
}

// timeout says whether an error is a deadline that passed.
func timeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// get reads a small page of the replica, within a deadline, on a connection of its own: a probe is to see whether it takes any.
func (r *replica) get(ctx context.Context, q *question) (status int, body []byte, err error) {
	c, err := r.connect(ctx, true)
	if err != nil {
		return 0, nil, err
	}
	defer c.Close()
	q.header = append(q.header, field{"Connection", "close"})
	status, body, _, err = r.page(ctx, c, q)
	return status, body, err
}

// post is get on a connection that may be an idle one, and is kept. One that the replica closed meanwhile is replaced by a fresh one.
func (r *replica) post(ctx context.Context, q *question) (status int, body []byte, err error) {
	for fresh := false; ; fresh = true {
		c, err := r.connect(ctx, fresh)
		if err != nil {
			return 0, nil, err
		}
		status, body, whole, err := r.page(ctx, c, q)
		again := c.reused && errors.Is(err, errNotSent) && ctx.Err() == nil
		if whole { // another may have it then
			r.keep(c)
		} else {
			c.Close()
		}
		if !again {
			return status, body, err
		}
	}
}

// page asks a question on a connection and reads a small page. whole says that the connection may be asked another one then.
func (r *replica) page(ctx context.Context, c *conn, q *question) (status int, body []byte, whole bool, err error) {
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer func() { whole = stop() && whole }()
	if d, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(d) // a closed connection says so below
	}
	resp, err := r.ask(c, q)
	if err != nil {
		return 0, nil, false, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, pageBytesMax))
	return resp.StatusCode, body, err == nil && !resp.Close && len(body) < pageBytesMax, err
}

// pageBytesMax bounds what is read of a page: metrics are the largest.
const pageBytesMax = 4 << 20
