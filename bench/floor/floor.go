// Package floor holds the two servers that the node is measured beside: a mock
// that answers a messages request at once, and a pass-through that forwards
// requests to it and parses nothing. The pass-through is the floor: what two
// HTTP hops cost in this language and library, before a server does anything.
package floor

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"corenode/bench/workload"
)

// bufferSize is what the pass-through reads of a stream at once.
const bufferSize = 32 << 10

// AtOnce begins the paths under which the mock writes a whole stream at once, Paced
// those under which it waits for Pace before each delta.
const (
	AtOnce = "/at-once"
	Paced  = "/paced"
	Pace   = 5 * time.Millisecond
)

// Mock serves the mock until ln is closed: a plain reply, or for a request that
// accepts an event stream one delta event per token asked for, each flushed alone.
func Mock(ln net.Listener) error {
	reply, events := workload.Reply(), workload.Events()
	return serve(ln, func(ctx *fasthttp.RequestCtx) {
		if !wantsStream(ctx) {
			ctx.SetContentType("application/json")
			ctx.SetBody(reply)
			if bytes.HasSuffix(ctx.Path(), []byte("/count_tokens")) {
				ctx.SetBodyString(`{"input_tokens":60}`)
			}
			return
		}
		ctx.SetContentType("text/event-stream")
		stream := &mockStream{events: events, deltas: workload.TokensAsked(ctx.PostBody())}
		if bytes.HasPrefix(ctx.Path(), []byte(AtOnce)) {
			_, _ = stream.WriteTo(ctx.Response.BodyWriter()) // memory: it cannot fail
			return
		}
		if bytes.HasPrefix(ctx.Path(), []byte(Paced)) {
			stream.pace = Pace
		}
		ctx.SetBodyStream(stream, -1)
	})
}

// PassThrough serves the pass-through to the server at upstream until ln is closed.
func PassThrough(ln net.Listener, upstream string) error {
	plain := &fasthttp.HostClient{Addr: upstream, MaxConns: 1 << 16}
	streams := &fasthttp.HostClient{Addr: upstream, MaxConns: 1 << 16, StreamResponseBody: true}
	return serve(ln, func(ctx *fasthttp.RequestCtx) {
		if !wantsStream(ctx) {
			if err := plain.Do(&ctx.Request, &ctx.Response); err != nil {
				ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			}
			return
		}
		answer := fasthttp.AcquireResponse()
		if err := streams.Do(&ctx.Request, answer); err != nil {
			fasthttp.ReleaseResponse(answer)
			ctx.Error(err.Error(), fasthttp.StatusBadGateway)
			return
		}
		answer.Header.CopyTo(&ctx.Response.Header)
		ctx.SetBodyStream(&pipe{answer: answer, from: answer.BodyStream()}, -1)
	})
}

func serve(ln net.Listener, handler fasthttp.RequestHandler) error {
	s := &fasthttp.Server{Handler: handler, NoDefaultServerHeader: true, NoDefaultDate: true}
	return s.Serve(ln)
}

func wantsStream(ctx *fasthttp.RequestCtx) bool {
	return bytes.Equal(ctx.Request.Header.Peek(fasthttp.HeaderAccept), []byte("text/event-stream"))
}

var errWrittenOnly = errors.New("floor: a stream is written, not read")

// mockStream writes its events from the connection's goroutine.
type mockStream struct {
	events workload.Stream
	deltas int
	pace   time.Duration
}

func (s *mockStream) SupportsBodyWriteTo() bool { return true }

func (s *mockStream) Read([]byte) (int, error) { return 0, errWrittenOnly }

func (s *mockStream) WriteTo(w io.Writer) (n int64, err error) {
	write := func(event []byte) {
		if err == nil {
			var wrote int
			wrote, err = w.Write(event)
			n += int64(wrote)
		}
	}
	for _, event := range s.events.Begin {
		write(event)
	}
	for range s.deltas {
		time.Sleep(s.pace)
		write(s.events.Delta)
	}
	for _, event := range s.events.End {
		write(event)
	}
	return n, err
}

// pipe forwards what has arrived, as it arrives. It owns the answer.
type pipe struct {
	answer *fasthttp.Response
	from   io.Reader
}

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

func (p *pipe) SupportsBodyWriteTo() bool { return true }

func (p *pipe) Read([]byte) (int, error) { return 0, errWrittenOnly }

func (p *pipe) WriteTo(w io.Writer) (int64, error) {
	buffer := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buffer)
	return io.CopyBuffer(onlyWriter{w}, onlyReader{p.from}, buffer[:])
}

// Close gives the upstream connection back: fasthttp calls it in the end.
func (p *pipe) Close() error {
	err := p.answer.CloseBodyStream()
	fasthttp.ReleaseResponse(p.answer)
	return err
}

// onlyReader and onlyWriter keep io.CopyBuffer to the given buffer.
type (
	onlyReader struct{ io.Reader }
	onlyWriter struct{ io.Writer }
)
