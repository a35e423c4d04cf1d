package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"corenode/engine"
	"corenode/wasm/abi"
)

// streamed is an answer that is a stream: the body of the response. fasthttp calls WriteTo on the
// connection's goroutine after the handler, or only Close when the headers could not be written.
type streamed struct {
	answer
	early    []abi.Event // of a chat without content: what begins it; bounded by the blocks that a filter left nothing of
	out      io.Writer
	frame    []byte
	longest  int  // frame, in bytes
	started  bool // the first event has left
	said     bool // there is something that a reader sees; the dialect may keep it for later
	token    bool // and something of it is a token
	content  bool // and it has left: from here on the stream is paid
	wrote    time.Time
	deadline time.Time // when the write deadline was last moved
}

// frameBuffers are those of streams that have ended. Larger ones than frameKeep are not kept, nor those of which a stream used
// little: what a long call made large would in time be the frames of all streams.
var frameBuffers = sync.Pool{New: func() any { return new([]byte) }}

const frameKeep, frameSmall = 256 << 10, 8 << 10

// beginStream hands an answer that streams to fasthttp. The headers leave at once, or when a proxy can take them: the
// request is admitted.
func (x *exchange) beginStream(stream Stream, model string) {
	a := &streamed{frame: *frameBuffers.Get().(*[]byte)}
	defer func() {
		if !x.streamed { // else Close does it
			a.close()
		}
	}()
	a.open(x, stream, model)
	r := &x.ctx.Response
	r.Header.SetContentType(x.streamType())
	r.Header.Set("Cache-Control", "no-cache, no-transform")
	r.Header.Set("X-Accel-Buffering", "no") // proxies that buffer would hold the stream back
	x.rateHeaders(time.Now())
	if x.ctx.Request.Header.IsHTTP11() {
		a.letProxyRead()
		r.ImmediateHeaderFlush = true
		r.SetBodyStream(a, -1)
	} else {
		a.beginOld()
	}
	x.streamed = true
}

// streamType is the content type of a stream.
func (x *exchange) streamType() string {
	if x.array {
		return "application/json"
	}
	if x.module != nil {
		return x.module.Manifest.StreamType()
	}
	return "text/event-stream; charset=utf-8"
}

// beginOld serves a client of HTTP/1.0, which knows no chunks: the stream
// ends with the connection. fasthttp frames every body of unknown length in
// chunks, so the connection is taken over. fasthttp drops a takeover when the
// connection fails before: then closing it ends the stream.
func (a *streamed) beginOld() {
	h := &a.x.ctx.Response.Header
	h.SetConnectionClose()
	head := []byte("HTTP/1.0 200 OK\r\n")
	for k, v := range h.All() {
		head = append(append(append(append(head, k...), ": "...), v...), "\r\n"...)
	}
	head = append(head, "\r\n"...)
	own := a.x.conn
	own.waiting.Store(a)
	a.x.ctx.HijackSetNoResponse(true)
	a.x.ctx.Hijack(func(c net.Conn) {
		defer a.Close()
		own.waiting.Store(nil)
		w := bufio.NewWriter(c)
		if _, err := w.Write(head); err != nil {
			return
		}
		_, _ = a.WriteTo(flusher{w}) // whatever it says is in the request log
	})
}

// flusher sends each write at once.
type flusher struct{ w *bufio.Writer }

func (f flusher) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil {
		err = f.w.Flush()
	}
	return n, err
}

// SupportsBodyWriteTo tells fasthttp to call WriteTo.
func (a *streamed) SupportsBodyWriteTo() bool { return true }

// Read exists because fasthttp's interface has it; a stream is only written.
func (a *streamed) Read([]byte) (int, error) {
	return 0, errors.New("server: an event stream is written, not read")
}

// Close ends the exchange. fasthttp calls it after WriteTo, or instead of it, and before the last two bytes of the
// body leave: who has read all of it, and not only the last event, finds the request in log, metrics and traces.
func (a *streamed) Close() error {
	a.close()
	frame := a.frame[:0]
	if a.frame = nil; cap(frame) <= min(max(frameSmall, 4*a.longest), frameKeep) {
		frameBuffers.Put(&frame)
	}
	a.x.close(time.Now())
	return nil
}

// WriteTo writes the stream until its end. It returns an error only when the
// connection is of no further use.
func (a *streamed) WriteTo(w io.Writer) (n int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			a.x.panicked(r)
			err = a.breakOff(&abi.Error{Kind: abi.Internal, Op: "server.stream", Msg: "internal error", Err: fmt.Errorf("panic: %v", r)})
		}
	}()
	a.out = w
	a.wrote = time.Now()
	return 0, a.pump()
}

// pump is the one place where a stream waits.
func (a *streamed) pump() error {
	keepAlive := startTimer(a.x.keepAlive())
	defer stopTimer(keepAlive)
	held, ready := a.stream.Held(), (<-chan struct{})(nil)
	for {
		select {
		case err := <-held:
			if held = nil; err != nil {
				return a.breakOff(abi.AsError(err))
			}
			ready = a.stream.Output().Ready()
		case <-ready:
			a.events = a.stream.Output().Drain(a.events[:0])
			if done, err := a.group(); done || err != nil {
				return err
			}
			if a.ending != nil {
				ready = nil
			}
		case <-a.ending:
			a.ending, a.settling = nil, a.settle()
		case <-a.settling:
			return a.finish()
		case <-keepAlive.C:
			if err := a.keepAlive(keepAlive); err != nil {
				return err
			}
		case <-a.gone:
			return a.abandon(errGone())
		case <-a.x.s.life.Done():
			return a.breakOff(errDraining())
		}
	}
}

// group writes one event group in one write. The last frame leaves in a write
// of its own, after the charge is durable: the ledger may take its time.
func (a *streamed) group() (done bool, err error) {
	last := len(a.events) - 1
	if last < 0 {
		return false, nil
	}
	end := &a.events[last]
	if end.Kind != abi.EventEnd && end.Kind != abi.EventError {
		return a.emit(a.events)
	}
	if done, err := a.emit(a.events[:last]); done {
		return true, err
	}
	if end.Kind == abi.EventError {
		return true, a.breakOff(a.failure(end.Err))
	}
	a.complete(end.Stop)
	return false, nil
}

// finish writes the last frame of a settled stream.
func (a *streamed) finish() error {
	if refusal := a.outcome(); refusal != nil {
		return a.breakOff(refusal)
	}
	last := a.events[len(a.events)-1:]
	if a.x.module != nil {
		last[0].Elapsed = a.x.elapsed(a.x.ttft)
	}
	_, err := a.emit(last)
	return err
}

// emit writes events and takes the time of the first token. done says that the
// stream has ended: its client is gone, or its translation failed.
func (a *streamed) emit(events []abi.Event) (done bool, err error) {
	events, err = a.filtered(events, false)
	if err != nil {
		return true, a.breakOff(abi.AsError(err))
	}
	if events = a.withToken(events); len(events) == 0 {
		return false, nil
	}
	a.said = a.said || slices.ContainsFunc(events, isContent)
	a.token = a.token || slices.ContainsFunc(events, engine.IsToken)
	frame, err := a.dialect.events(a.frame[:0], events)
	if err != nil {
		return true, a.breakOff(abi.AsError(err))
	}
	if len(frame) == 0 { // an empty write would be the last chunk
		return false, nil
	}
	a.frame, a.longest = frame, max(a.longest, len(frame))
	if err := a.write(frame); err != nil {
		return true, err
	}
	a.started = true
	if a.x.translation != nil && a.x.translation.Early() {
		return false, nil
	}
	if !a.content && a.said {
		a.content = true
		a.stream.Shown()
	}
	if a.x.ttft == 0 && a.token {
		a.x.firstToken(a.wrote)
	}
	return false, nil
}

// withToken keeps what begins a chat until there is something to say. Its first chunk has a role and no more, and who
// measures the time to the first token takes that chunk for it.
func (a *streamed) withToken(events []abi.Event) []abi.Event {
	if a.content || a.x.route != routeChat {
		return events
	}
	begins := !slices.ContainsFunc(events, func(e abi.Event) bool { return isContent(e) || e.Kind == abi.EventEnd })
	if begins || len(a.early) > 0 {
		a.early = append(a.early, events...)
		events = a.early
	}
	if begins {
		return nil
	}
	a.early = nil
	return events
}

// isContent says whether a reader sees something of an event that says more than
// that the answer begins.
func isContent(e abi.Event) bool {
	return engine.IsToken(e) || e.Kind == abi.EventBlockStart && e.Block == abi.BlockToolUse
}

// nodeSilence is the longest silence between nodes, whatever KeepAlive is for clients: the other one takes a minute of it for a stall.
const nodeSilence = 10 * time.Second

// keepAlive is the longest silence of a stream.
func (x *exchange) keepAlive() time.Duration {
	if x.fromNode() {
		return min(x.s.cfg.KeepAlive, nodeSilence)
	}
	return x.s.cfg.KeepAlive
}

// keepAlive breaks the silence.
func (a *streamed) keepAlive(timer *time.Timer) error {
	every := a.x.keepAlive()
	if silence := time.Since(a.wrote); silence < every {
		timer.Reset(every - silence)
		return nil
	}
	timer.Reset(every)
	a.frame = a.dialect.silence(a.frame[:0], a.started)
	return a.write(a.frame)
}

// write sends bytes. A reader that takes nothing for StallTimeout, or that left
// while we waited for it, fails it; the stream is then cancelled and settled.
func (a *streamed) write(b []byte) error {
	a.extend()
	if _, err := a.out.Write(b); err != nil {
		e := errGone()
		e.Err = err
		return a.abandon(e)
	}
	a.wrote = time.Now()
	return nil
}

// extend moves the write deadline, at most once a second and often enough for a short StallTimeout. The watcher sets one
// in the past when the client has left, and a drain a short one; looking at both
// after setting ours means that whoever comes second, theirs stands.
func (a *streamed) extend() {
	now, stall := time.Now(), a.x.s.cfg.StallTimeout
	if now.Sub(a.deadline) < min(time.Second, stall/10) {
		return
	}
	a.deadline = now
	_ = a.x.conn.SetWriteDeadline(now.Add(stall)) // fails only on a closed connection: so will the write
	if a.lost.Load() {
		_ = a.x.conn.SetWriteDeadline(time.Unix(1, 0))
	} else if a.x.s.aborted() {
		_ = a.x.conn.SetWriteDeadline(now.Add(lingerTimeout))
	}
}

var errAbandoned = errors.New("server: the stream's client is gone")

// abandon ends a stream that nobody reads.
func (a *streamed) abandon(e *abi.Error) error {
	a.x.note(e)
	a.x.status = statusClientClosed
	a.leave()
	return errAbandoned
}

// breakOff ends a stream that failed: the error event, the end of the body, and
// soon of the connection. The last frame of a finished answer never leaves after
// it. Who leaves is told nothing. When that it is free cannot be kept, the connection ends without the error.
func (a *streamed) breakOff(e *abi.Error) error {
	if a.lost.Load() {
		return a.abandon(errGone())
	}
	certain := a.cancel(free(e.Kind, a.content))
	if a.lost.Load() { // meanwhile
		return a.abandon(errGone())
	}
	a.x.note(e)
	if !certain {
		return errAbandoned
	}
	a.x.conn.parting.Store(true)
	a.deadline = time.Now().Add(time.Hour) // no further extension
	_ = a.x.conn.SetWriteDeadline(time.Now().Add(lingerTimeout))
	a.frame = a.dialect.broken(a.frame[:0], e)
	if _, err := a.out.Write(a.frame); err != nil || a.x.unfinished {
		return errAbandoned
	}
	return nil
}
