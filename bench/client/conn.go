package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// headersMax bounds the header lines of one reply.
const headersMax = 256

// Conn is one connection. It is used by one goroutine at a time.
type Conn struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte

	length  int // bytes of the body, or of the current chunk, still to come; -1: until the end of the connection
	chunked bool
	inChunk bool // the line end behind a chunk is still to come
	last    bool // the server closes after this reply
	done    bool // the reply was read to its end
	held    int  // bytes handed out by Piece and not yet discarded
}

// Head is what is read of a reply before its body.
type Head struct {
	Status      int
	ContentType string
	// RetryAfter is how long the server asks to stay away, negative if it does not say.
	RetryAfter time.Duration
	// Queue is the queue time that the server says it had, negative if it does not.
	Queue time.Duration
}

// ErrNotHTTP is wrapped by errors about replies that break HTTP's own rules.
var ErrNotHTTP = errors.New("not HTTP")

func notHTTP(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrNotHTTP}, args...)...)
}

// Send writes a request: lines made by Target.Head, more header lines, and the
// body. Reads and writes until the next Send end at the deadline.
func (c *Conn) Send(head []byte, headers string, body []byte, deadline time.Time) error {
	if err := c.conn.SetDeadline(deadline); err != nil {
		return err
	}
	c.done, c.last, c.held = false, false, 0
	c.out = append(append(c.out[:0], head...), headers...)
	c.out = strconv.AppendInt(append(c.out, "Content-Length: "...), int64(len(body)), 10)
	c.out = append(append(c.out, "\r\n\r\n"...), body...)
	_, err := c.conn.Write(c.out)
	return err
}

// Answered says whether a byte of the reply is there, and waits for it.
func (c *Conn) Answered() error {
	_, err := c.in.Peek(1)
	return err
}

// ReadHead reads a reply up to its body.
func (c *Conn) ReadHead() (Head, error) {
	for {
		h, err := c.readHead()
		if err != nil || h.Status >= 200 {
			return h, err
		} // 100 Continue and its like come before the reply
	}
}

func (c *Conn) readHead() (Head, error) {
	h := Head{RetryAfter: -1, Queue: -1}
	line, err := c.readLine()
	if err != nil {
		return h, err
	}
	if h.Status, c.last, err = parseStatus(line); err != nil {
		return h, err
	}
	c.length, c.chunked, c.inChunk = -1, false, false
	for range headersMax {
		if line, err = c.readLine(); err != nil {
			return h, err
		}
		if len(line) == 0 {
			c.begin(h.Status)
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if err := c.readHeader(&h, name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
	return h, notHTTP("more than %d header lines", headersMax)
}

// begin settles how the body ends.
func (c *Conn) begin(status int) {
	switch {
	case status < 200 || status == 204 || status == 304:
		c.length, c.chunked = 0, false
	case c.chunked:
		c.length = 0
	case c.length < 0:
		c.last = true
	}
}

func parseStatus(line []byte) (status int, last bool, err error) {
	const version = "HTTP/1."
	if !bytes.HasPrefix(line, []byte(version)) || len(line) < len(version)+5 {
		return 0, false, notHTTP("%.80q is not the first line of a reply", line)
	}
	digits := line[len(version)+2:][:3]
	if status, err = strconv.Atoi(string(digits)); err != nil || status < 100 {
		return 0, false, notHTTP("no status in %.80q", line)
	}
	return status, line[len(version)] == '0', nil
}

func (c *Conn) readHeader(h *Head, name, value []byte) (err error) {
	is := func(want string) bool { return len(name) == len(want) && bytes.EqualFold(name, []byte(want)) }
	switch {
	case is("Content-Length"):
		if c.length, err = strconv.Atoi(string(value)); err != nil || c.length < 0 {
			return notHTTP("Content-Length %.80q", value)
		}
	case is("Transfer-Encoding"):
		c.chunked = bytes.EqualFold(value, []byte("chunked"))
	case is("Connection"):
		if bytes.EqualFold(value, []byte("close")) {
			c.last = true
		}
	case is("Content-Type"):
		h.ContentType = string(value)
	case is("Retry-After"):
		if h.RetryAfter < 0 { // Retry-After-Ms is more exact
			h.RetryAfter = parseSeconds(value)
		}
	case is("Retry-After-Ms"):
		if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms >= 0 {
			h.RetryAfter = milliseconds(ms)
		}
	case is("Server-Timing"):
		h.Queue = max(h.Queue, serverTiming(value, "queue"))
	case is("X-Queue-Time"): // of text-generation-inference, in milliseconds
		if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms >= 0 {
			h.Queue = milliseconds(ms)
		}
	}
	return nil
}

func milliseconds(ms float64) time.Duration {
	return time.Duration(min(ms, 1e12) * float64(time.Millisecond))
}

// parseSeconds reads Retry-After, which is a number of seconds or a date.
func parseSeconds(value []byte) time.Duration {
	if s, err := strconv.ParseFloat(string(value), 64); err == nil && s >= 0 {
		return milliseconds(s * 1000)
	}
	if at, err := time.Parse(time.RFC1123, string(value)); err == nil {
		return max(0, time.Until(at))
	}
	return -1
}

// serverTiming finds the duration of one metric in a Server-Timing header, such
// as "queue;dur=12.5, prefill;dur=80"; negative when it is not there.
func serverTiming(value []byte, metric string) time.Duration {
	for entry := range bytes.SplitSeq(value, []byte(",")) {
		name, parameters, _ := bytes.Cut(bytes.TrimSpace(entry), []byte(";"))
		if string(bytes.TrimSpace(name)) != metric {
			continue
		}
		for parameter := range bytes.SplitSeq(parameters, []byte(";")) {
			digits, ok := bytes.CutPrefix(bytes.TrimSpace(parameter), []byte("dur="))
			if ms, err := strconv.ParseFloat(string(digits), 64); ok && err == nil && ms >= 0 {
				return milliseconds(ms)
			}
		}
	}
	return -1
}

// Piece returns the next bytes of the body that are there, waiting for them if
// need be; io.EOF behind the last. The piece is valid until the next call.
func (c *Conn) Piece() ([]byte, error) {
	if c.held > 0 {
		if _, err := c.in.Discard(c.held); err != nil {
			return nil, err
		}
		c.held = 0
	}
	if c.length == 0 && c.chunked && !c.done {
		if err := c.nextChunk(); err != nil {
			return nil, broken(err)
		}
	}
	if c.done || c.length == 0 {
		c.done = true
		return nil, io.EOF
	}
	if _, err := c.in.Peek(1); err != nil {
		if c.length < 0 && errors.Is(err, io.EOF) {
			c.done = true
			return nil, io.EOF
		}
		return nil, broken(err)
	}
	n := c.in.Buffered()
	if c.length > 0 {
		n = min(n, c.length)
		c.length -= n
	}
	c.held = n
	return c.in.Peek(n)
}

// broken makes the end of a connection within a body an error that is not io.EOF.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// nextChunk reads the line before a chunk; the last one has no bytes.
func (c *Conn) nextChunk() error {
	if c.inChunk {
		if line, err := c.readLine(); err != nil {
			return err
		} else if len(line) != 0 {
			return notHTTP("%.80q where a chunk ends", line)
		}
	}
	line, err := c.readLine()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 32)
	if err != nil || n < 0 {
		return notHTTP("chunk size %.80q", line)
	}
	if n > 0 {
		c.length, c.inChunk = int(n), true
		return nil
	}
	for range headersMax { // trailers
		if line, err = c.readLine(); err != nil || len(line) == 0 {
			c.done = err == nil
			return err
		}
	}
	return notHTTP("more than %d trailers", headersMax)
}

// readLine returns a line without its end; it is valid until the next read.
func (c *Conn) readLine() ([]byte, error) {
	line, err := c.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, notHTTP("a line of more than %d bytes", readBuffer)
	case err != nil:
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// reusable says that the connection can carry another exchange. Bytes that
// nobody asked for mean that it cannot.
func (c *Conn) reusable() bool { return c.done && !c.last && c.in.Buffered() == 0 }
