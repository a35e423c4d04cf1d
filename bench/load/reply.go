package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	wire "corenode/bench/client"
)

// bodyMax bounds one reply body: the longest stream measured is far below.
const bodyMax = 16 << 20

// reply is one HTTP response, and what of it is counted.
type reply struct {
	status int
	// chunks is how many pieces the server sent the body in: 1 if it was not chunked.
	chunks int
	// close says that the server ends the connection after this reply.
	close bool
	// body aliases the buffer that readReply was given or its replacement.
	body []byte
}

// readReply reads one response whose body has a length or is chunked; others
// (until the end of the connection, or to a HEAD) are errors. The body is
// appended to buffer[:0]; arrived, if not nil, is called whenever more of it is there.
func readReply(r *bufio.Reader, buffer []byte, arrived func(body []byte)) (reply, error) {
	in := wire.NewReader(r)
	head, err := in.ReadHead()
	if err != nil {
		return reply{}, fmt.Errorf("load: %w", err)
	}
	if !head.Bounded {
		return reply{}, errors.New("load: a reply without a length and without chunks")
	}
	rep := reply{status: head.Status, close: in.Last(), body: buffer[:0]}
	for {
		piece, err := in.Piece()
		if errors.Is(err, io.EOF) {
			rep.chunks = max(in.Chunks(), 1)
			return rep, nil
		}
		if err != nil {
			return reply{}, fmt.Errorf("load: %w", err)
		}
		if len(piece) > bodyMax-len(rep.body) {
			return reply{}, fmt.Errorf("load: a body of more than %d bytes", bodyMax)
		}
		if rep.body = append(rep.body, piece...); arrived != nil {
			arrived(rep.body)
		}
	}
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
