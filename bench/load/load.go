// Package load is what corebench overhead and corebench engine put on servers
// that they started themselves; package drive is what drives any server.
//
// It is a closed-loop load generator: a fixed number of clients, each
// with one kept connection of HTTP/1.1, each sending its next request when it
// has read the whole reply to the last.
//
// It is made to be cheap, since it shares the machine with what is measured: a
// request is bytes made before, a reply is parsed only as far as it is counted.
// A reply that is not what was asked for ends the run: numbers of a load that
// partly failed mean nothing.
package load

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	replyTimeout = 30 * time.Second
	readBuffer   = 32 << 10
	// Latencies are recorded in microseconds, from 1 to a minute, with 3 digits.
	latencyMax    = int64(time.Minute / time.Microsecond)
	latencyDigits = 3
)

// Request is what clients send, over and over.
type Request struct {
	Bytes  []byte // whole: line, headers, body
	Stream bool   // the reply must be a complete event stream
}

// Result is what came back in one run.
type Result struct {
	Replies int64
	Bytes   int64 // of the reply bodies
	Chunks  int64 // pieces that the servers sent the bodies in
	Events  int64 // of streams, all
	Deltas  int64 // of streams, those with output
	Tokens  int64 // as the replies' usage counts them
	Took    time.Duration
	Latency *hdrhistogram.Histogram // whole reply, microseconds
	First   *hdrhistogram.Histogram // first byte of the reply, microseconds
}

func newResult() Result {
	return Result{Latency: hdrhistogram.New(1, latencyMax, latencyDigits), First: hdrhistogram.New(1, latencyMax, latencyDigits)}
}

func (r *Result) add(o Result) {
	r.Replies += o.Replies
	r.Bytes += o.Bytes
	r.Chunks += o.Chunks
	r.Events += o.Events
	r.Deltas += o.Deltas
	r.Tokens += o.Tokens
	r.Latency.Merge(o.Latency)
	r.First.Merge(o.First)
}

// client is one connection. Owned by the goroutine of its run.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	body []byte
}

// Clients are connections to one server. Runs are one at a time.
type Clients struct {
	list []*client
}

// Open connects n clients.
func Open(ctx context.Context, addr string, n int) (*Clients, error) {
	c := &Clients{}
	for range n {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			c.Close()
			return nil, fmt.Errorf("connect a client: %w", err)
		}
		c.list = append(c.list, &client{conn: conn, in: bufio.NewReaderSize(conn, readBuffer)})
	}
	return c, nil
}

// Close ends the connections.
func (c *Clients) Close() {
	for _, one := range c.list {
		one.conn.Close()
	}
}

// Run sends requests from all clients for a time, and returns when each has read
// its last reply, so that none is in the air. An error leaves the clients unusable.
func (c *Clients) Run(ctx context.Context, req Request, length time.Duration) (Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, c.Close) // wakes whoever waits for a reply
	defer stop()

	results, errs := make([]Result, len(c.list)), make([]error, len(c.list))
	begun := time.Now()
	var running sync.WaitGroup
	for i, one := range c.list {
		running.Go(func() {
			if results[i], errs[i] = one.loop(req, begun.Add(length)); errs[i] != nil {
				cancel()
			}
		})
	}
	running.Wait()
	total := newResult()
	total.Took = time.Since(begun)
	for _, r := range results {
		total.add(r)
	}
	return total, firstCause(errs)
}

// firstCause returns the error that ended the run rather than those of the
// clients that it stopped.
func firstCause(errs []error) error {
	var stopped error
	for _, err := range errs {
		if err != nil && !errors.Is(err, net.ErrClosed) {
			return err
		}
		stopped = errors.Join(stopped, err)
	}
	return stopped
}

func (c *client) loop(req Request, until time.Time) (Result, error) {
	r := newResult()
	for now := time.Now(); now.Before(until); {
		done, err := c.once(&r, req, now)
		if err != nil {
			return r, err
		}
		now = done
	}
	return r, nil
}

// once sends one request and reads its reply.
func (c *client) once(r *Result, req Request, begun time.Time) (time.Time, error) {
	if err := c.conn.SetDeadline(begun.Add(replyTimeout)); err != nil {
		return begun, err
	}
	if _, err := c.conn.Write(req.Bytes); err != nil {
		return begun, fmt.Errorf("send a request: %w", err)
	}
	if _, err := c.in.Peek(1); err != nil {
		return begun, fmt.Errorf("wait for a reply: %w", err)
	}
	first := time.Now()
	rep, err := readReply(c.in, c.body, nil)
	if err != nil {
		return begun, fmt.Errorf("read a reply: %w", err)
	}
	c.body = rep.body
	done := time.Now()
	if err := r.count(rep, req.Stream); err != nil {
		return begun, err
	}
	record(r.First, first.Sub(begun))
	record(r.Latency, done.Sub(begun))
	return done, nil
}

func record(h *hdrhistogram.Histogram, d time.Duration) {
	// Only a value out of range fails, and min and max keep it in.
	_ = h.RecordValue(min(max(d.Microseconds(), 1), latencyMax))
}

// count takes a reply into the result, or says why it is not one.
func (r *Result) count(rep reply, stream bool) error {
	if rep.status != 200 {
		return fmt.Errorf("a reply has status %d: %.300q", rep.status, bytes.TrimSpace(rep.body))
	}
	if rep.close {
		return errors.New("the server closes the connection: each request is to find it open")
	}
	if stream {
		n := countEvents(rep.body)
		if !n.complete {
			return fmt.Errorf("a stream does not end with message_stop: %.300q", rep.body[max(0, len(rep.body)-300):])
		}
		r.Events += int64(n.events)
		r.Deltas += int64(n.deltas)
	}
	r.Replies++
	r.Bytes += int64(len(rep.body))
	r.Chunks += int64(rep.chunks)
	r.Tokens += int64(outputTokens(rep.body))
	return nil
}
