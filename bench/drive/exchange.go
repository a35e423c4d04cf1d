package drive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"corenode/bench/client"
	"corenode/bench/protocol"
	"corenode/bench/stats"
)

// errorBodyMax bounds what is read of a refusal.
const errorBodyMax = 64 << 10

// wholeMax bounds a reply that is not streamed.
const wholeMax = 16 << 20

// scratch is what one exchange needs, kept for the next.
type scratch struct {
	reader protocol.Reader
	gaps   []time.Duration
	body   []byte
	whole  []byte
}

// failure is what stops an exchange: its kind and its cause.
type failure struct {
	kind string
	err  error
}

func (f *failure) Error() string { return f.kind + ": " + f.err.Error() }

func fail(kind string, err error) error { return &failure{kind, err} }

// classify finds the kind of an error of the connection.
func classify(err error) error {
	var timeout net.Error
	switch {
	case err == nil:
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return fail(stats.KindTimeout, err)
	case errors.Is(err, client.ErrNotHTTP):
		return fail(stats.KindProtocol, err)
	case errors.Is(err, io.EOF):
		return fail(stats.KindBroken, io.ErrUnexpectedEOF)
	default:
		return fail(stats.KindBroken, err)
	}
}

// request is one exchange to be made.
type request struct {
	head     []byte
	headers  string
	body     []byte
	stream   bool
	protocol protocol.Protocol
	keepText bool
}

// exchange sends a request and reads its reply into rec. Everything about the
// reply that is not as it must be ends up in rec as a failure.
func (d *driver) exchange(ctx context.Context, s *scratch, q request, rec *stats.Record) {
	rec.Answered, rec.First, rec.Last, rec.End, rec.RetryAfter, rec.Queue = -1, -1, -1, -1, -1, -1
	s.gaps = s.gaps[:0]
	s.reader.Reset(q.protocol, q.keepText)
	err := d.try(ctx, s, q, rec)
	if rec.End < 0 {
		rec.End = d.now()
	}
	if f, ok := errors.AsType[*failure](err); ok {
		rec.Kind, rec.Detail = f.kind, f.err.Error()
	}
	u := s.reader.Usage()
	rec.InputTokens, rec.CachedTokens, rec.OutputTokens = u.Input, u.Cached, u.Output
	rec.UsageKnown, rec.CachedKnown = u.Known, u.CachedKnown
	rec.Gaps, rec.Events = s.gaps, s.reader.Events()
}

func (d *driver) try(ctx context.Context, s *scratch, q request, rec *stats.Record) error {
	deadline := time.Now().Add(d.o.Timeout)
	conn, err := d.send(ctx, q, deadline)
	if err != nil {
		return err
	}
	rec.Answered = d.now()
	head, err := conn.ReadHead()
	if err != nil {
		d.pool.Drop(conn)
		return classify(err)
	}
	rec.Status, rec.RetryAfter, rec.Queue = head.Status, head.RetryAfter, head.Queue
	switch {
	case head.Status != http.StatusOK:
		err = d.readRefusal(s, conn, head)
	case q.stream:
		err = d.readStream(s, conn, head, rec)
	default:
		err = d.readWhole(s, conn, head, rec)
	}
	rec.Bytes, rec.Chunks = conn.Bytes(), max(conn.Chunks(), 1)
	d.pool.Put(conn) // which closes it if the reply was not read to its end
	return err
}

// send gets a connection, sends the request and waits for the reply. A server
// may close a kept connection at any time, so that the first byte of a reply
// never comes: then, and only then, the request is sent once more, on a new one.
func (d *driver) send(ctx context.Context, q request, deadline time.Time) (*client.Conn, error) {
	conn, used, err := d.pool.Get(ctx)
	for {
		if err != nil {
			return nil, fail(stats.KindConnect, err)
		}
		if err = conn.Send(q.head, q.headers, q.body, deadline); err == nil {
			err = conn.Answered()
		}
		if err == nil {
			return conn, nil
		}
		d.pool.Drop(conn)
		if !used || errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil {
			return nil, classify(err)
		}
		d.retried.Add(1)
		used = false
		conn, err = d.pool.Dial(ctx)
	}
}

func (d *driver) readRefusal(s *scratch, conn *client.Conn, head client.Head) error {
	kind := fmt.Sprintf("http_%d", head.Status)
	if err := s.collect(conn, errorBodyMax); err != nil {
		return fail(kind, fmt.Errorf("(its body cannot be read: %w)", err))
	}
	return fail(kind, errors.New(strings.Join(strings.Fields(string(s.whole[:min(len(s.whole), 300)])), " ")))
}

// collect reads a body into s.whole.
func (s *scratch) collect(conn *client.Conn, bytesMax int) error {
	s.whole = s.whole[:0]
	for {
		piece, err := conn.Piece()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(s.whole)+len(piece) > bytesMax {
			return fmt.Errorf("a body of more than %d bytes", bytesMax)
		}
		s.whole = append(s.whole, piece...)
	}
}

// isType compares a media type without its parameters.
func isType(got, want string) bool {
	kind, _, _ := strings.Cut(got, ";")
	return strings.EqualFold(strings.TrimSpace(kind), want)
}

// readStream reads events and takes the time of those with output. What comes
// in one piece has one time: it was there when the harness looked.
func (d *driver) readStream(s *scratch, conn *client.Conn, head client.Head, rec *stats.Record) error {
	if !isType(head.ContentType, "text/event-stream") {
		return fail(stats.KindProtocol, fmt.Errorf("the reply is %q, want text/event-stream", head.ContentType))
	}
	for {
		piece, err := conn.Piece()
		if s.reader.Done() { // what follows the end is the connection's business
			if err != nil {
				return ended(s.reader.End(), stats.KindBroken)
			}
			continue
		}
		if errors.Is(err, io.EOF) {
			return ended(s.reader.End(), stats.KindBroken)
		}
		if err != nil {
			return classify(err)
		}
		at := d.now()
		outputs, err := s.reader.Feed(piece)
		for range outputs {
			if rec.Outputs++; rec.First < 0 {
				rec.First = at
			} else {
				s.gaps = append(s.gaps, at-rec.Last)
			}
			rec.Last = at
		}
		if err != nil {
			return fail(stats.KindProtocol, err)
		}
		if s.reader.Done() {
			rec.End = at
		}
	}
}

// ended says what an error at the end of a reply is: the server's own, or of a kind.
func ended(err error, kind string) error {
	if err == nil {
		return nil
	}
	if _, told := errors.AsType[*protocol.ServerError](err); told {
		kind = stats.KindServer
	}
	return fail(kind, err)
}

func (d *driver) readWhole(s *scratch, conn *client.Conn, head client.Head, rec *stats.Record) error {
	if !isType(head.ContentType, "application/json") {
		return fail(stats.KindProtocol, fmt.Errorf("the reply is %q, want application/json", head.ContentType))
	}
	if err := s.collect(conn, wholeMax); err != nil {
		return classify(err)
	}
	rec.End = d.now()
	return ended(s.reader.Whole(s.whole), stats.KindProtocol)
}
