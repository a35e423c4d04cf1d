package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"strconv"
)

// bodyMax bounds one reply body: the longest stream measured is far below.
const bodyMax = 16 << 20

// headersMax bounds the header lines of one reply.
const headersMax = 256

// reply is one HTTP response, and what of it is counted.
type reply struct {
	status int
	// chunks is how many pieces the server sent the body in: 1 if it was not chunked.
	chunks int
	// close says that the server ends the connection after this reply.
	close bool
	// body aliases the buffer that readReply was given or its replacement.
	body []byte
	// arrived, if set, is called when a chunk has been added to body.
	arrived func(body []byte)
}

// readReply reads one response whose body has a length or is chunked; others
// (until the end of the connection, or to a HEAD) are errors. The body is
// appended to buffer[:0]. arrived may be nil.
func readReply(r *bufio.Reader, buffer []byte, arrived func(body []byte)) (reply, error) {
	line, err := readLine(r)
	if err != nil {
		return reply{}, err
	}
	rep := reply{body: buffer[:0], arrived: arrived}
	if rep.status, err = parseStatus(line); err != nil {
		return reply{}, err
	}
	length, chunked, err := rep.headers(r)
	switch {
	case err != nil:
	case chunked:
		err = rep.readChunks(r)
	case length < 0:
		err = errors.New("load: a reply without a length and without chunks")
	default:
		rep.chunks = 1
		err = rep.readBytes(r, length)
	}
	return rep, err
}

func parseStatus(line []byte) (int, error) {
	const version = "HTTP/1.1 "
	if !bytes.HasPrefix(line, []byte(version)) || len(line) < len(version)+3 {
		return 0, fmt.Errorf("load: not the first line of a reply: %.80q", line)
	}
	n, err := strconv.Atoi(string(line[len(version) : len(version)+3]))
	if err != nil || n < 100 {
		return 0, fmt.Errorf("load: no status in %.80q", line)
	}
	return n, nil
}

// headers reads to the empty line. length is -1 when the reply has none.
func (rep *reply) headers(r *bufio.Reader) (length int, chunked bool, err error) {
	length = -1
	for range headersMax {
		line, err := readLine(r)
		if err != nil {
			return 0, false, err
		}
		if len(line) == 0 {
			return length, chunked, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(value)); err != nil || length < 0 {
				return 0, false, fmt.Errorf("load: Content-Length %.80q", value)
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			chunked = bytes.EqualFold(value, []byte("chunked"))
		case bytes.EqualFold(name, []byte("Connection")):
			rep.close = bytes.EqualFold(value, []byte("close"))
		}
	}
	return 0, false, fmt.Errorf("load: more than %d header lines", headersMax)
}

func (rep *reply) readChunks(r *bufio.Reader) error {
	for {
		line, err := readLine(r)
		if err != nil {
			return err
		}
		size, _, _ := bytes.Cut(line, []byte(";"))
		n, err := strconv.ParseInt(string(size), 16, 32)
		if err != nil || n < 0 {
			return fmt.Errorf("load: chunk size %.80q", line)
		}
		if err := rep.readBytes(r, int(n)); err != nil {
			return err
		}
		if line, err = readLine(r); err != nil {
			return err
		}
		if len(line) != 0 {
			return fmt.Errorf("load: %.80q where a chunk ends", line)
		}
		if n == 0 {
			return nil
		}
		rep.chunks++
		if rep.arrived != nil {
			rep.arrived(rep.body)
		}
	}
}

// readBytes appends n bytes to the body.
func (rep *reply) readBytes(r *bufio.Reader, n int) error {
	if n > bodyMax-len(rep.body) {
		return fmt.Errorf("load: a body of more than %d bytes", bodyMax)
	}
	for n > 0 { // in pieces that are there: a length is not believed before its bytes come
		if _, err := r.Peek(1); err != nil {
			return err
		}
		there, err := r.Peek(min(n, r.Buffered()))
		if err != nil {
			return err
		}
		rep.body = append(rep.body, there...)
		n -= len(there)
		if _, err := r.Discard(len(there)); err != nil {
			return err
		}
	}
	return nil
}

// readLine returns a line without its end; it is valid until the next read.
func readLine(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	line = line[:len(line)-1]
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line, nil
}

// sseCount is what a body that is an event stream holds.
type sseCount struct {
	events   int // all
	deltas   int // content_block_delta
	complete bool
}

// countEvents counts the named events of a stream. It is complete when its last
// event is message_stop: a stream that broke off ends with another.
func countEvents(body []byte) (c sseCount) {
	const name, delta, stop = "event: ", "event: content_block_delta\n", "event: message_stop\n"
	for rest := body; ; {
		at := bytes.Index(rest, []byte(name))
		if at < 0 {
			return c
		}
		starts := at == 0 || rest[at-1] == '\n'
		rest = rest[at:]
		if starts {
			c.events++
			c.complete = bytes.HasPrefix(rest, []byte(stop))
			if bytes.HasPrefix(rest, []byte(delta)) {
				c.deltas++
			}
		}
		rest = rest[len(name):]
		if starts && len(rest) > 0 {
			// The byte before the next search is not a line's end, so that
			// "event: " right behind an "event: " does not count.
			rest = rest[1:]
		}
	}
}

// outputTokens finds the last output_tokens of a body: what the server says
// that it produced. 0 when there is none.
func outputTokens(body []byte) int {
	const name = `"output_tokens":`
	at := bytes.LastIndex(body, []byte(name))
	if at < 0 {
		return 0
	}
	n := 0
	for _, c := range body[at+len(name):] {
		if c < '0' || c > '9' || n > 1<<24 {
			break
		}
		n = n*10 + int(c-'0')
	}
	return n
}
