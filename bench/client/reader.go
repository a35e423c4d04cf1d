package client

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// headersMax bounds the header lines of one reply.
const headersMax = 256

// Reader reads replies from a connection, one after another: ReadHead, then
// Piece until io.EOF. It keeps nothing of a reply but its place in it.
type Reader struct {
	in *bufio.Reader

	length  int // bytes of the body, or of the current chunk, still to come; -1: until the end of the connection
	chunked bool
	inChunk bool // the line end behind a chunk is still to come
	last    bool // the server closes after this reply
	done    bool // the reply was read to its end
	held    int  // bytes handed out by Piece and not yet discarded
	chunks  int
	bytes   int
}

// NewReader reads what comes from in, whose buffer bounds a header line.
func NewReader(in *bufio.Reader) Reader { return Reader{in: in} }

// Chunks is how many chunks of the reply have begun; 0 if it is not chunked.
func (r *Reader) Chunks() int { return r.chunks }

// Bytes is how many bytes of the reply's body Piece has returned.
func (r *Reader) Bytes() int { return r.bytes }

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

// ReadHead reads a reply up to its body.
func (r *Reader) ReadHead() (Head, error) {
	for {
		h, err := r.readHead()
		if err != nil || h.Status >= 200 {
			return h, err
		} // 100 Continue and its like come before the reply
	}
}

func (r *Reader) readHead() (Head, error) {
	h := Head{RetryAfter: -1, Queue: -1}
	line, err := r.readLine()
	if err != nil {
		return h, err
	}
	if h.Status, r.last, err = parseStatus(line); err != nil {
		return h, err
	}
	r.length, r.chunked, r.inChunk, r.done, r.held, r.chunks, r.bytes = -1, false, false, false, 0, 0, 0
	for range headersMax {
		if line, err = r.readLine(); err != nil {
			return h, err
		}
		if len(line) == 0 {
			r.begin(h.Status)
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if err := r.readHeader(&h, name, bytes.TrimSpace(value)); err != nil {
			return h, err
		}
	}
	return h, notHTTP("more than %d header lines", headersMax)
}

// begin settles how the body ends.
func (r *Reader) begin(status int) {
	switch {
	case status < 200 || status == 204 || status == 304:
		r.length, r.chunked = 0, false
	case r.chunked:
		r.length = 0
	case r.length < 0:
		r.last = true
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

func (r *Reader) readHeader(h *Head, name, value []byte) (err error) {
	is := func(want string) bool { return len(name) == len(want) && bytes.EqualFold(name, []byte(want)) }
	switch {
	case is("Content-Length"):
		if r.length, err = strconv.Atoi(string(value)); err != nil || r.length < 0 {
			return notHTTP("Content-Length %.80q", value)
		}
	case is("Transfer-Encoding"):
		r.chunked = bytes.EqualFold(value, []byte("chunked"))
	case is("Connection"):
		if bytes.EqualFold(value, []byte("close")) {
			r.last = true
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
func (r *Reader) Piece() ([]byte, error) {
	if r.held > 0 {
		if _, err := r.in.Discard(r.held); err != nil {
			return nil, err
		}
		r.held = 0
	}
	if r.length == 0 && r.chunked && !r.done {
		if err := r.nextChunk(); err != nil {
			return nil, broken(err)
		}
	}
	if r.done || r.length == 0 {
		r.done = true
		return nil, io.EOF
	}
	if _, err := r.in.Peek(1); err != nil {
		if r.length < 0 && errors.Is(err, io.EOF) {
			r.done = true
			return nil, io.EOF
		}
		return nil, broken(err)
	}
	n := r.in.Buffered()
	if r.length > 0 {
		n = min(n, r.length)
		r.length -= n
	}
	r.held = n
	r.bytes += n
	return r.in.Peek(n)
}

// broken makes the end of a connection within a body an error that is not io.EOF.
func broken(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// nextChunk reads the line before a chunk; the last one has no bytes.
func (r *Reader) nextChunk() error {
	if r.inChunk {
		if line, err := r.readLine(); err != nil {
			return err
		} else if len(line) != 0 {
			return notHTTP("%.80q where a chunk ends", line)
		}
	}
	line, err := r.readLine()
	if err != nil {
		return err
	}
	size, _, _ := bytes.Cut(line, []byte(";"))
	n, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 16, 32)
	if err != nil || n < 0 {
		return notHTTP("chunk size %.80q", line)
	}
	if n > 0 {
		r.length, r.inChunk = int(n), true
		r.chunks++
		return nil
	}
	for range headersMax { // trailers
		if line, err = r.readLine(); err != nil || len(line) == 0 {
			r.done = err == nil
			return err
		}
	}
	return notHTTP("more than %d trailers", headersMax)
}

// readLine returns a line without its end; it is valid until the next read.
func (r *Reader) readLine() ([]byte, error) {
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, notHTTP("a line of more than %d bytes", r.in.Size())
	case err != nil:
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}
